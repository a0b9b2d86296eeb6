"""evaluate_policy: one call, and what it says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import inferl
from inferl.data.transitions import Transitions
from inferl.errors import LevelError, SettingError
from inferl.runs import Run, difference


def lean(pole: Any) -> int:
    return int(pole[2] > 0)


def pole(steps: int = 500) -> Any:
    return lambda: gymnasium.make("CartPole-v1", max_episode_steps=steps)


def returns(env: Any, policy: Any, episodes: int, **options: Any) -> Any:
    path = Transitions.join(list(inferl.sources.rollout(env, policy, **options).take(episodes=episodes)))
    key = np.asarray(path.episode) * 1000 + np.asarray(path.stream)
    return np.bincount(np.unique(key, return_inverse=True)[1], path.rewards)


def test_a_fixed_number_of_episodes_gives_their_mean() -> None:
    result = inferl.evaluate_policy("CartPole-v1", lean, episodes=150, seed=4)
    by_hand = returns("CartPole-v1", lean, 150, seed=4)
    assert result.interval.estimate == pytest.approx(by_hand.mean())
    assert result.interval.standard_error == pytest.approx(by_hand.std(ddof=1) / np.sqrt(150), rel=1e-6)
    assert (result.interval.kind, result.episodes, result.steps) == ("normal", 150, by_hand.sum())
    assert (result.smallest, result.largest) == (by_hand.min(), by_hand.max())
    assert result.deviation == pytest.approx(by_hand.std(ddof=1), rel=1e-6)
    assert not any(check.failed for check in result.checks)
    assert result.evaluator.episodes == 150


@pytest.mark.parametrize("num_envs", [1, 3, 20])
def test_it_does_not_depend_on_the_number_of_copies(num_envs: int) -> None:
    for options in ({"episodes": 40}, {"until_width": 8.0}):
        usual, other = (inferl.evaluate_policy("CartPole-v1", lean, num_envs=n, **options) for n in (None, num_envs))
        assert usual.to_dict() == other.to_dict()


def test_it_stops_when_the_interval_is_narrow_enough_or_high_enough() -> None:
    narrow = inferl.evaluate_policy("CartPole-v1", lean, until_width=6.0)
    assert narrow.interval.kind == "anytime"
    assert 0 < narrow.interval.width <= 6
    assert 32 <= narrow.episodes < 400
    high = inferl.evaluate_policy("CartPole-v1", lean, until_lower=30.0)
    assert high.interval.lower > 30
    assert 32 <= high.episodes < 45  # the fewest, and what is left of a chunk
    capped = inferl.evaluate_policy("CartPole-v1", lean, until_width=0.1, episodes=40)
    assert (capped.episodes, capped.interval.kind) == (40, "anytime")


def test_only_whole_episodes_are_looked_at() -> None:
    result = inferl.evaluate_policy("CartPole-v1", lean, until_width=6.0)
    by_hand = returns("CartPole-v1", lean, result.episodes)
    assert result.steps == by_hand.sum()
    assert result.interval.estimate == pytest.approx(by_hand.mean())


def test_the_anytime_interval_is_made_for_a_hundred_episodes() -> None:
    """Tuned at 10,000 transitions, it was 2.7 times as wide as the pointwise one; at its best it is 1.55 times."""
    source = inferl.sources.rollout("CartPole-v1", lean, episodes=100)
    evaluator = inferl.Evaluator(inferl.DoublyRobust(1)).update(source)
    wide, plain, other = (
        evaluator.interval(kind=kind, tuning_time=time)
        for kind, time in (("anytime", None), ("normal", None), ("anytime", 10_000))
    )
    assert wide.width / plain.width < 1.6
    assert other.width > 2 * wide.width


def test_what_it_prints() -> None:
    line = str(inferl.evaluate_policy(pole(40), lean, episodes=100))
    assert line.startswith("CartPole-v1: mean return 3")
    assert line.endswith("% truncated at the limit")
    assert ", 95%, 100 episodes, " in line
    assert ": discounted return " in str(inferl.evaluate_policy(pole(40), lean, discount=0.9))
    features = inferl.features.WithIntercept(inferl.features.Scaled([-2.4, -3, -0.2, -3], [2.4, 3, 0.2, 3]))
    assert ": value " in str(inferl.evaluate_policy(pole(40), lean, discount=0.9, features=features))


def test_features_do_not_change_the_mean_return() -> None:
    features = inferl.features.WithIntercept(inferl.features.Scaled([-2.4, -3, -0.2, -3], [2.4, 3, 0.2, 3]))
    plain, fitted = (inferl.evaluate_policy(pole(40), lean, features=f, episodes=50).interval for f in (None, features))
    assert fitted.estimate == pytest.approx(plain.estimate)
    assert fitted.width == pytest.approx(plain.width, rel=0.02)


def test_where_nothing_is_random_it_says_so_and_stops() -> None:
    cliff = lambda: gymnasium.make("CliffWalking-v1", max_episode_steps=5)  # noqa: E731
    result = inferl.evaluate_policy(cliff, lambda _: 0, until_width=1.0)
    assert result.exact
    assert result.episodes < 200
    assert str(result).startswith("CliffWalking-v1: mean return -5, exact if nothing is random: all ")
    assert "note" not in str(result)
    early = inferl.evaluate_policy(pole(5), lambda _: 0)  # starts vary, returns do not
    assert not early.exact
    assert "note: length: nothing has varied so far" in str(early)


def test_equal_episodes_do_not_prove_that_nothing_is_random() -> None:
    class Prize(gymnasium.Env[Any, Any]):
        """Pays in one episode of a hundred."""

        observation_space = action_space = gymnasium.spaces.Discrete(1)

        def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:
            super().reset(seed=seed)
            return 0, {}

        def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
            return 0, 100.0 * (self.np_random.random() < 0.01), True, False, {}

    results = [inferl.evaluate_policy(Prize, lambda _: 0, seed=seed) for seed in range(20)]
    missed = [result for result in results if 1.0 not in result.interval and not result.interval.notes]
    assert missed  # with a probability of 0.37 each
    for result in missed:
        assert "0, exact if nothing is random: all 100 episodes" in str(result)
        assert "if something is, what happens in up to 3.0% of the episodes" in result.checks[-1].message


@pytest.mark.parametrize("features", [None, inferl.features.OneHot(1)], ids=["returns", "features"])
@pytest.mark.parametrize("mode", list(AutoresetMode), ids=lambda mode: mode.name)
def test_vector_environments_favour_no_short_episodes(mode: AutoresetMode, features: Any) -> None:
    """Of the episodes of each sub-environment the first ones count, as many of each, however long they are."""

    class Clock(gymnasium.Env[Any, Any]):
        observation_space = action_space = gymnasium.spaces.Discrete(1)

        def __init__(self, length: int) -> None:
            self.length = length

        def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:
            self.age = 0
            return 0, {}

        def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
            self.age += 1
            return 0, 1.0, self.age == self.length, False, {}

    envs = SyncVectorEnv([lambda: Clock(1), lambda: Clock(9)], autoreset_mode=mode)
    result = inferl.evaluate_policy(envs, lambda _: 0, episodes=40, features=features)
    assert (result.episodes, result.interval.estimate, result.steps) == (40, 5.0, 200)


def test_a_result_is_kept_and_read_by_others(tmp_path: Path) -> None:
    result = inferl.evaluate_policy("CartPole-v1", lean, episodes=50)
    result.save(tmp_path / "pole.run")
    again = Run.load(tmp_path / "pole.run")
    assert again.report().to_dict()["interval"] == result.interval.to_dict()
    assert len(again.readings) > 3
    assert json.loads(json.dumps(result.to_dict()["returns"])) == result.to_dict()["returns"]


def test_results_of_one_seed_are_not_compared_as_independent() -> None:
    one, same, other = (inferl.evaluate_policy("CartPole-v1", lean, episodes=20, seed=seed).run for seed in (1, 1, 2))
    with pytest.raises(SettingError, match="both runs have the seed 1"):
        difference(one, same)
    assert np.isfinite(difference(one, other).width)


def test_the_display_shows_the_interval(capsys: pytest.CaptureFixture[str]) -> None:
    inferl.evaluate_policy("CartPole-v1", lean, until_width=8.0, progress=True)
    assert "CartPole-v1: 4" in capsys.readouterr().err
    inferl.evaluate_policy("CartPole-v1", lean, episodes=20)
    assert capsys.readouterr().err == ""


def test_the_display_takes_a_name_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    named = type("[/b]", (gymnasium.Wrapper,), {"unwrapped": property(lambda self: self), "spec": None})
    inferl.evaluate_policy(lambda: named(gymnasium.make("CartPole-v1")), lean, episodes=20, progress=True)
    assert "[/b]: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"episodes": 0}, SettingError, "episodes"),
        ({"level": 95}, LevelError, "level is 95"),
        ({"progress": "yes"}, SettingError, "say True or False"),
        ({"until_width": "narrow"}, SettingError, "width is"),
        ({"time_limit": "cut"}, SettingError, "give features"),
        ({"discount": 0.0}, SettingError, "discount"),
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        inferl.evaluate_policy("CartPole-v1", lean, **options)


def test_many_features_do_not_widen_the_interval_of_a_return() -> None:
    """Rows of one episode, scored at two estimates of which the first was poor, made it 7 times as wide."""

    def upright(pole: Any) -> int:
        return int(pole[2] + 0.3 * pole[3] + 0.02 * pole[0] + 0.05 * pole[1] > 0)

    policy = inferl.policies.epsilon_greedy(upright, 0.5, 2)
    many, none = (
        inferl.evaluate_policy("CartPole-v1", policy, episodes=50, features=features, seed=5).interval
        for features in ("random-fourier:256", None)
    )
    assert many.estimate == pytest.approx(none.estimate)
    assert 0.9 * none.width < many.width < 1.5 * none.width  # 256 features and 50 episodes still cost something
