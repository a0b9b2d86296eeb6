"""Episodes with seeds of their own: the same ones for any number of copies, in their order, and for every policy."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import gymnasium
import numpy as np
import pytest

import inferl
from inferl.data.transitions import Transitions
from inferl.errors import CheckpointError, DataError, SettingError, ShapeError
from inferl.policies import Deterministic, Policy, Probabilities
from inferl.sources import Rollout, episodes, rollout

RAW = inferl.features.Function(lambda observations: np.asarray(observations, float), 4)


def doubt(pole: Any) -> list[float]:
    return [0.9, 0.1] if pole[2] < 0 else [0.2, 0.8]


def joined(chunks: Iterable[Transitions]) -> Transitions:
    return Transitions.join(list(chunks))


def assert_same(one: Transitions, other: Transitions) -> None:
    for name in ("features", "rewards", "next_features", "discounts", "last", "episode", "ratios"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


class Dice(gymnasium.Env[Any, Any]):
    """An episode takes as many steps as a die says, which pay its number; `seeds` are those of its resets."""

    observation_space = gymnasium.spaces.Discrete(7)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self) -> None:
        self.seeds: list[int | None] = []

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.seeds.append(seed)
        self.left = self.eyes = int(self.np_random.integers(1, 7))
        return self.left, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        self.left -= 1
        return self.left, float(self.eyes), self.left == 0, False, {}


@pytest.mark.parametrize("num_envs", [2, 3, 8, 30])
def test_the_number_of_copies_changes_nothing(num_envs: int) -> None:
    def played(number: int) -> Rollout:
        return rollout("CartPole-v1", Probabilities(doubt), RAW, 0.9, seed=3, chunk=50, num_envs=number)

    one, several = played(1), played(num_envs)
    assert_same(joined(one.take(episodes=20)), joined(several.take(episodes=20)))
    # Also where episodes were left open, and those after them had been played.
    assert_same(joined(one.take(steps=77)), joined(several.take(steps=77)))
    assert_same(joined(one.take(episodes=3)), joined(several.take(episodes=3)))
    assert one.position["steps"] == several.position["steps"]


def test_an_id_a_spec_a_function_an_environment_and_a_list_are_the_same() -> None:
    def make() -> gymnasium.Env[Any, Any]:
        return gymnasium.make("CartPole-v1")

    given: list[Any] = ["CartPole-v1", make().spec, make, make(), [make(), make()], [make, "CartPole-v1"]]
    paths = [joined(rollout(env, Probabilities(doubt), RAW, 0.9).take(episodes=5)) for env in given]
    paths.append(joined(rollout(make(), Probabilities(doubt), RAW, 0.9, num_envs=3).take(episodes=5)))
    for path in paths[1:]:
        assert_same(paths[0], path)


def test_episodes_come_whole_and_in_order() -> None:
    """Those that end first are not favoured: taken by episodes, the mean number of eyes is 3.5."""
    path = joined(rollout(Dice, lambda _: 0, num_envs=8).take(episodes=400))
    assert path.episode is not None
    assert (np.diff(path.episode) == path.last[:-1]).all()
    assert path.last[-1]
    eyes = path.rewards[path.last]
    assert (np.bincount(path.episode) == eyes).all()
    assert abs(eyes.mean() - 3.5) < 4 * np.sqrt(35 / 12 / 400)  # four standard errors


def test_every_episode_has_its_own_seed_which_is_the_same_for_every_policy() -> None:
    worlds = [Dice(), Dice()]
    for world, policy in zip(worlds, ([[0.5, 0.5]] * 7, lambda _: 1), strict=True):
        list(rollout(world, policy, seed=5).take(episodes=30))
    assert worlds[0].seeds == worlds[1].seeds
    assert len(set(worlds[0].seeds)) == 30
    other = Dice()
    list(rollout(other, lambda _: 1, seed=6).take(episodes=30))
    assert not set(other.seeds) & set(worlds[0].seeds)


def test_no_episode_is_begun_that_was_not_asked_for() -> None:
    worlds = [Dice() for _ in range(8)]
    source = rollout(worlds, lambda _: 0, episodes=11)
    list(source)
    assert sum(len(world.seeds) for world in worlds) == 11
    list(source.take(episodes=2))
    assert sum(len(world.seeds) for world in worlds) == 13


def test_a_resumed_rollout_does_not_play_again_what_is_over() -> None:
    before = rollout([Dice(), Dice()], lambda _: 0, chunk=7)
    list(before.take(episodes=50))
    list(before.take(steps=2))
    world = Dice()
    after = rollout(world, lambda _: 0, chunk=7).resume(before.position)
    assert len(world.seeds) <= 2
    assert after.position == before.position
    assert_same(joined(before.take(episodes=20)), joined(after.take(episodes=20)))
    np.testing.assert_array_equal(np.asarray(before.start()), np.asarray(after.start()))


def test_a_position_that_does_not_fit_is_refused() -> None:
    source = rollout(Dice, lambda _: 0, num_envs=2)
    list(source.take(episodes=3))
    for wrong in ({"within": -1}, {"episodes": 10**9}, {"path": -2}, {"alike": 3}, {"steps": -1}):
        with pytest.raises(CheckpointError):
            rollout(Dice, lambda _: 0).resume(source.position | wrong)
    longer = source.position | {"steps": 1000, "within": 900}
    with pytest.raises(CheckpointError, match="episode 3 is shorter than before"):
        rollout(Dice, lambda _: 0).resume(longer)


def test_a_long_episode_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """While the first episode goes on, the others wait when enough of their steps do; the steps are the same."""

    class Long(Dice):
        def reset(self, **options: Any) -> tuple[int, dict[str, Any]]:
            super().reset(**options)
            self.left = self.eyes = 2000 if self.seeds[-1] == first else 3
            return 0, {}

        def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
            return 0, *super().step(action)[1:]

    probe = Dice()
    list(rollout(probe, lambda _: 0).take(episodes=1))
    first = probe.seeds[0]
    whole = joined(rollout(Long, lambda _: 0, num_envs=4).take(episodes=30))
    monkeypatch.setattr(episodes, "WAITING", 20 * episodes.STEP)
    source = rollout(Long, lambda _: 0, num_envs=4)
    assert_same(joined(source.take(steps=1000)), whole[:1000])
    assert source._play._waiting < 30  # type: ignore[union-attr]
    assert_same(joined(source.take(episodes=30)), whole[1000:])


def test_tuples_of_numbers_are_what_a_function_sees_alone() -> None:
    """A policy that looks an observation up, as people do for Blackjack, may be played in any number of copies."""
    table = {(mine, theirs, ace): int(mine < 17) for mine in range(33) for theirs in range(12) for ace in (0, 1)}
    one, several = (joined(rollout("Blackjack-v1", table.__getitem__, num_envs=n).take(episodes=50)) for n in (1, 8))
    assert_same(one, several)


def test_the_policy_is_asked_for_all_copies_at_once() -> None:
    sizes = []

    def act(observations: Any) -> Any:
        sizes.append(len(observations))
        return (observations[:, 2] > 0).astype(int)

    list(rollout("CartPole-v1", Deterministic(act, batched=True)).take(steps=300))
    assert max(sizes) == 8


def walking(**options: Any) -> Rollout:
    """Against the wall of the cliff, five steps: nothing is random."""
    return rollout(lambda: gymnasium.make("CliffWalking-v1", max_episode_steps=5), lambda _: 0, **options)


def test_where_nothing_is_random_the_value_is_exact() -> None:
    evaluator = inferl.Evaluator(inferl.DoublyRobust(1)).update(walking().take(episodes=20))
    assert evaluator.interval().notes[0].startswith("length: nothing has varied so far")  # the source said nothing
    evaluator = inferl.Evaluator(inferl.DoublyRobust(1)).update(walking(episodes=20))
    report = evaluator.report()
    assert (report.interval.estimate, report.interval.width, report.interval.notes) == (-5.0, 0.0, ())
    (said,) = [check.message for check in report.checks if check.name == "randomness"]
    assert said.startswith("all 20 episodes were the same, step for step, so the value is exact if nothing is random")
    assert "what happens in up to 13.9% of the episodes may have been missed" in said  # 0.861^20 = 0.05


def test_returns_that_have_not_varied_yet_are_not_exact() -> None:
    """A pole that never falls in ten steps: the returns are equal, the episodes are not."""
    source = rollout(lambda: gymnasium.make("CartPole-v1", max_episode_steps=5), lambda _: 0, episodes=100)
    interval = inferl.Evaluator(inferl.DoublyRobust(1)).update(source).interval()
    assert (interval.estimate, interval.width) == (5.0, 0.0)
    assert interval.notes[0].startswith("length: nothing has varied so far")
    assert "what happens in up to 3.0% of the episodes may have been missed" in interval.notes[0]
    envs = gymnasium.make_vec("CliffWalking-v1", 2, max_episode_steps=5)
    vector = rollout(envs, lambda _: 0, episodes=20)
    assert inferl.Evaluator(inferl.DoublyRobust(1)).update(vector).interval().notes  # seeds of its own: not known


class Two(Policy):
    """Returns two actions, for however many observations."""

    def batch(self, observations: Any, uniforms: Any) -> Any:
        return np.zeros(2, int)


class Broken(Dice):
    """Returns what it is told."""

    def __init__(self, reset: Any = (0, {}), step: Any = None) -> None:
        self.answers = reset, step

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return self.answers[0]

    def step(self, action: int) -> Any:
        return self.answers[1]


ONLY = Dice()


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"env": []}, SettingError, "an empty list"),
        ({"env": "NoSuchPole-v1"}, SettingError, "Gymnasium cannot make 'NoSuchPole-v1'"),
        ({"env": lambda: 3}, SettingError, "the function env returned a int"),
        ({"env": ["CartPole-v1", "Acrobot-v1"]}, SettingError, "copies of one environment are needed"),
        ({"env": [Dice()] * 2}, SettingError, "twice"),
        ({"env": lambda: gymnasium.wrappers.TimeLimit(ONLY, 9)}, SettingError, "must not return, or wrap"),
        ({"env": lambda: Broken(step=(0, 1.0, True, {}))}, DataError, "`step` of the environment returned 4 values"),
        ({"env": lambda: Broken(reset=np.zeros(2))}, DataError, "`reset` of the environment returned 1 values"),
        ({"env": lambda: Broken(step=(0, None, True, False, {}))}, DataError, "the reward is None"),
        ({"env": ["CartPole-v1"], "num_envs": 2}, SettingError, "leave num_envs out"),
        ({"env": Dice(), "num_envs": 2}, SettingError, "it has no spec"),
        ({"env": gymnasium.make_vec("CartPole-v1", 2), "num_envs": 2}, SettingError, "a vector environment of 2"),
        ({"num_envs": 0}, SettingError, "num_envs"),
        ({"time_limit": "cut"}, SettingError, "give features, such as 'auto', or count returns up to the limit"),
        ({"policy": lambda _: 2}, DataError, "no action of Discrete"),
        ({"policy": Two()}, ShapeError, "chose 2 actions for 8 observations"),
    ],
)
def test_what_makes_no_sense_is_refused(settings: dict[str, Any], error: type[Exception], message: str) -> None:
    usual: dict[str, Any] = {"env": "CartPole-v1", "policy": lambda _: 0}
    with pytest.raises(error, match=message):
        list(rollout(**(usual | settings)).take(steps=1))


def test_the_environments_that_were_made_are_closed() -> None:
    class Door(Dice):
        closed = False

        def close(self) -> None:
            self.closed = True

    mine = Door()
    source = rollout([mine, Door], lambda _: 0)
    source.close()
    assert [env.closed for env in source._copies.envs] == [False, True]  # type: ignore[attr-defined]


def test_neither_the_policy_nor_the_environment_can_write_into_the_data() -> None:
    class Push(gymnasium.Env[Any, Any]):
        observation_space = action_space = gymnasium.spaces.Box(-9.0, 9.0, (1,), np.float64)

        def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
            self.age = 0
            return np.ones(1), {}

        def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
            action += 1.0
            self.age += 1
            return np.ones(1), float(action[0]), self.age == 3, False, {}

    always = np.zeros(1)

    def policy(observation: Any) -> Any:
        observation += 5.0
        return always

    raw = inferl.features.Function(lambda observations: np.asarray(observations, float), 1)
    one, two = (joined(rollout(Push, policy, raw, num_envs=n).take(episodes=4)) for n in (1, 2))
    assert_same(one, two)
    assert set(one.features.ravel()) == set(one.rewards) == {1.0}


def test_returns_need_no_features() -> None:
    source = rollout("CartPole-v1", lambda pole: int(pole[2] > 0), seed=1)
    path = joined(source.take(episodes=50))
    assert source.dimension == 1
    assert (path.features == 0).all()
    assert (path.discounts == ~path.last).all()
    found = inferl.Evaluator(inferl.DoublyRobust(1)).update(path).interval()
    assert path.episode is not None
    assert found.estimate == pytest.approx(np.bincount(path.episode, path.rewards).mean())
    assert (rollout("CartPole-v1", lambda _: 0, discount=0.9).ends, source.ends) == (True, True)
