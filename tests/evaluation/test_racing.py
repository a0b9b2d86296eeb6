"""race: the best is found, the others are dropped early, and equal policies end sensibly."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest

import inferl
from inferl.errors import LevelError, SettingError
from inferl.evaluation.comparison import INCONCLUSIVE, PASS
from inferl.evaluation.racing import EQUAL, FIRST


class Arms(gymnasium.Env[Any, Any]):
    """One step; arm k pays k times its length apart, with noise of its own."""

    observation_space = gymnasium.spaces.Discrete(1)
    action_space = gymnasium.spaces.Discrete(4)

    def __init__(self, apart: float = 0.5) -> None:
        self.apart, self.closed = apart, False

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.noise = self.np_random.normal(size=4)
        return 0, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        return 0, self.apart * action + float(self.noise[action]), True, False, {}

    def close(self) -> None:
        self.closed = True


def arm(number: int) -> Any:
    return lambda _: number


def test_the_best_wins_and_the_worst_leaves_first() -> None:
    found = inferl.race(Arms, {"low": arm(0), "middle": arm(2), "high": arm(3)}, seed=2)
    assert list(found.policies) == ["high", "middle", "low"]  # the winner first
    assert (found.best, found.verdict(), found.margin) == (("high",), PASS, 0.0)
    assert found.kind == "anytime"
    assert FIRST <= found.episodes["low"] < found.episodes["middle"] < 400
    assert found.episodes["high"] == max(found.episodes.values())
    assert str(found).splitlines()[0] == "Arms: mean return, 95% anytime"
    assert "for all 3 at once, matched episodes" in str(found)


def test_a_difference_is_that_of_the_episodes_that_both_have_played() -> None:
    policies = {"low": arm(0), "middle": arm(2), "high": arm(3)}
    found = inferl.race(Arms, policies, seed=2)
    results = {
        name: inferl.evaluate_policy(Arms, policy, seed=2, episodes=found.episodes[name])
        for name, policy in policies.items()
    }
    for (a, b), one in found.differences.items():
        first, second = results[a].returns, results[b].returns
        assert first is not None
        assert second is not None
        both = min(len(first), len(second))
        assert one.estimate == pytest.approx(np.mean(first[:both] - second[:both]))
    again = inferl.compare(results, kind="anytime")  # on the episodes that all three have
    assert again.difference("high", "low").lower == pytest.approx(found.difference("high", "low").lower)


def test_a_margin_ends_the_race_of_policies_that_are_nearly_as_good() -> None:
    near = {"one": arm(0), "other": arm(1)}
    wide, zero = (inferl.race(lambda: Arms(0.02), near, margin=m, episodes=500) for m in (1.0, 0.0))
    assert wide.verdict() == PASS
    assert len(wide.best) == 2
    assert wide.episodes["one"] < 100
    assert zero.verdict() == INCONCLUSIVE  # 0.02 apart: nobody knows after 500 episodes
    assert set(zero.episodes.values()) == {500}


def test_equal_policies_end_sensibly() -> None:
    found = inferl.race(Arms, {"one": arm(2), "same": arm(2), "low": arm(0)}, margin=0.1, episodes=5000)
    apart = found.difference("one", "same")
    assert (apart.lower, apart.upper) == (0.0, 0.0)
    assert EQUAL <= found.episodes["one"] == found.episodes["same"] < 1.1 * EQUAL
    assert found.episodes["low"] < EQUAL
    assert set(found.best) == {"one", "same"}
    assert found.verdict() == INCONCLUSIVE
    assert "nothing has varied so far" in found.notes[-1]


def test_where_nothing_is_random_one_round_decides() -> None:
    cliff = lambda: gymnasium.make("CliffWalking-v1", max_episode_steps=5)  # noqa: E731
    same = inferl.race(cliff, {"up": arm(0), "left": arm(3)})
    assert (same.verdict(), same.best, set(same.episodes.values())) == (PASS, ("up", "left"), {FIRST})
    falls = inferl.race(cliff, {"right": arm(1), "up": arm(0)})
    assert (falls.best, set(falls.episodes.values()), falls.notes) == (("up",), {FIRST}, ())


def test_nothing_is_decided_while_a_check_fails() -> None:
    """One episode in forty pays 100, to one policy only: in 32 episodes that is hardly ever seen."""

    class Prize(Arms):
        def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
            rare = 100.0 * (action == 1) * (self.noise[0] > 1.96)
            return 0, rare + 0.01 * self.noise[2] - (action == 1), True, False, {}

    found = inferl.race(Prize, {"steady": arm(0), "rare": arm(1)}, episodes=2000)
    assert found.best[-1] == "rare"  # 1.5 better on average


@pytest.mark.parametrize("num_envs", [1, 5])
def test_copies_make_no_difference_but_to_the_rounds(num_envs: int) -> None:
    lean, right = (lambda pole: int(pole[2] > 0)), (lambda _: 1)
    found = inferl.race("CartPole-v1", {"lean": lean, "right": right}, num_envs=num_envs)
    alone = inferl.evaluate_policy("CartPole-v1", lean, episodes=found.episodes["lean"])
    assert found.policies["lean"].estimate == pytest.approx(alone.interval.estimate)
    assert found.best == ("lean",)


def test_environments_are_closed_by_who_made_them() -> None:
    made: list[Arms] = []

    def make() -> Arms:
        made.append(Arms())
        return made[-1]

    policies = {"low": arm(0), "high": arm(3)}
    inferl.race(make, policies, num_envs=2)
    assert [env.closed for env in made] == [True, True]
    mine = Arms()
    inferl.race(mine, policies)
    assert not mine.closed


def test_the_display_tells_who_is_left(capsys: pytest.CaptureFixture[str]) -> None:
    inferl.race(Arms, {"low": arm(0), "high": arm(3)}, progress=True)
    assert "Arms: 1 of 2 left" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("policies", "options", "error", "message"),
    [
        ({"a": arm(0)}, {}, SettingError, "two or more policies by name"),
        ([arm(0), arm(1)], {}, SettingError, "two or more policies by name"),
        ({"": arm(0), "b": arm(1)}, {}, SettingError, "a policy has the name ''"),
        (None, {"margin": -1}, SettingError, "margin is -1; give a number, 0 or more"),
        (None, {"episodes": 10}, SettingError, "episodes is 10; it must be a whole number, at least 32"),
        (None, {"level": 95}, LevelError, "level is 95"),
        (None, {"env": gymnasium.make_vec("CartPole-v1", 2)}, SettingError, "a race needs episodes with seeds"),
    ],
)
def test_what_makes_no_sense_is_refused(
    policies: Any, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    env = options.pop("env", Arms)
    with pytest.raises(error, match=message):
        inferl.race(env, policies or {"a": arm(0), "b": arm(1)}, **options)
