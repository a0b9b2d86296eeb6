"""Rollouts: what terminates, what is cut off, and that nothing is lost or invented in between."""

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import TimeLimit

import inferl
from inferl import Evaluator
from inferl.data.transitions import Transitions
from inferl.errors import DataError, MissingExtraError, SettingError, TargetError
from inferl.features import Function, WithIntercept
from inferl.sources import Rollout, rollout

UNIFORM = np.full((16, 4), 0.25)


def lake(max_episode_steps: int = 100, seed: int = 0, chunk: int = 256, policy: Any = UNIFORM) -> Rollout:
    env = gymnasium.make("FrozenLake-v1", max_episode_steps=max_episode_steps)
    return rollout(env, policy, inferl.features.OneHot(16), discount=0.9, seed=seed, chunk=chunk)


def joined(chunks: Iterable[Transitions]) -> Transitions:
    return Transitions.join(list(chunks))


def same(a: Transitions, b: Transitions) -> bool:
    columns = ("features", "rewards", "next_features", "discounts", "last")
    return len(a) == len(b) and all(np.array_equal(getattr(a, name), getattr(b, name)) for name in columns)


class Salary(gymnasium.Env[Any, Any]):
    """One state, a reward of 1 at each step; ends after `length` steps, or never."""

    observation_space = gymnasium.spaces.Discrete(1)
    action_space = gymnasium.spaces.Discrete(1)

    def __init__(self, length: float = np.inf) -> None:
        self.length = length
        self.seeds: list[int | None] = []

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.seeds.append(seed)
        self.age = 0
        return 0, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        self.age += 1
        return 0, 1.0, self.age >= self.length, False, {}


def test_truncation_keeps_the_future_and_termination_does_not() -> None:
    """A salary for ever is worth 1 / (1 - 0.9) = 10, however often the watching is cut off.

    One that ends after 5 steps is, averaged over the steps of an episode, worth less than 5: LSTD with one feature
    solves 5 = theta (5 - 0.9 * 4).
    """
    for env, value in ((TimeLimit(Salary(), 5), 10.0), (Salary(length=5), 5 / (5 - 0.9 * 4))):
        source = rollout(env, lambda _: 0, inferl.features.OneHot(1), discount=0.9)
        evaluator = inferl.Evaluator(inferl.TD(1)).update(source.take(episodes=20))
        assert evaluator.n == 100
        assert evaluator.episodes == 20
        assert evaluator.estimate(source.features(0)) == pytest.approx(value, rel=1e-8)


def test_a_cut_episode_shows_its_true_last_observation() -> None:
    right = gymnasium.make("FrozenLake-v1", is_slippery=False, max_episode_steps=2)
    (chunk,) = rollout(right, lambda _: 2, inferl.features.OneHot(16), discount=0.9).take(episodes=2)
    assert chunk.features.tolist() == [0, 1, 0, 1]
    assert chunk.next_features.tolist() == [1, 2, 1, 2]
    assert chunk.discounts.tolist() == [0.9] * 4
    assert chunk.last.tolist() == [False, True, False, True]


def test_an_episode_that_ends_at_its_limit_has_terminated() -> None:
    down_hole = gymnasium.make("FrozenLake-v1", is_slippery=False, max_episode_steps=2)
    (chunk,) = rollout(down_hole, lambda s: 2 if s == 4 else 1, inferl.features.OneHot(16), discount=0.9).take(
        episodes=1
    )
    assert chunk.next_features.tolist() == [4, 5]
    assert chunk.discounts.tolist() == [0.9, 0.0]


def test_no_transition_leads_across_a_reset() -> None:
    path = joined(lake(max_episode_steps=7, chunk=50).take(episodes=400))
    inner, ends = ~path.last[:-1], path.last[:-1]
    assert (path.next_features[:-1][inner] == path.features[1:][inner]).all()
    assert (path.features[1:][ends] == 0).all()  # the only start
    holes_and_goal = np.isin(path.next_features, (5, 7, 11, 12, 15))
    assert ((path.discounts == 0) == holes_and_goal).all()
    truncated = path.last & ~holes_and_goal
    assert truncated.any()
    assert holes_and_goal.any()
    assert path.episode is not None
    assert (np.diff(path.episode) == ends).all()
    assert (np.bincount(path.episode)[path.episode[truncated]] == 7).all()


def test_takes_continue_where_the_last_one_stopped() -> None:
    whole = joined(lake().take(steps=1000))
    source = lake(chunk=64)
    parts = [joined(source.take(steps=137)), joined(source.take(episodes=30)), *source.take(steps=200)]
    assert same(joined(parts), whole[: sum(map(len, parts))])
    assert not whole.last[136]  # the second take began in mid-episode ...
    assert int(parts[1].last.sum()) == 30  # ... whose end counts
    assert parts[1].last[-1]


def test_takes_stop_exactly() -> None:
    assert [len(chunk) for chunk in lake(chunk=100).take(steps=250)] == [100, 100, 50]
    assert sum(int(chunk.last.sum()) for chunk in lake(chunk=10).take(episodes=17)) == 17
    assert list(lake().take(steps=0)) == []


def test_a_take_that_is_left_early_loses_nothing() -> None:
    source = lake(chunk=10)
    first = next(source.take(steps=1000))
    assert same(joined([first, *source.take(steps=90)]), joined(lake().take(steps=100)))


def test_the_seed_decides() -> None:
    rows = [joined(lake(seed=seed).take(steps=300)) for seed in (1, 1, 2)]
    assert same(rows[0], rows[1])
    assert not same(rows[0], rows[2])


def test_actions_do_not_follow_the_chances_of_the_environment() -> None:
    """An environment and a policy with one seed must not draw the same numbers."""

    class Coin(Salary):
        observation_space = gymnasium.spaces.Discrete(2)
        action_space = gymnasium.spaces.Discrete(2)

        def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
            return int(self.np_random.random() < 0.5), float(action), False, False, {}

    n = 4000
    path = joined(rollout(Coin(), np.full((2, 2), 0.5), inferl.features.OneHot(2), discount=0.9).take(steps=n))
    for coins in (path.features, path.next_features):
        agreements = int((coins == path.rewards).sum())
        # Four standard deviations: a false alarm with probability 6e-5 for each of the two.
        assert abs(agreements - n / 2) < 4 * np.sqrt(n) / 2


def test_a_buffer_that_the_environment_reuses_is_copied() -> None:
    class Counter(gymnasium.Env[Any, Any]):
        observation_space = gymnasium.spaces.Box(0, 100, (2,))
        action_space = gymnasium.spaces.Discrete(1)
        buffer = np.zeros(2)

        def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
            self.buffer[:] = 0
            return self.buffer, {}

        def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
            self.buffer += 1
            return self.buffer, 0.0, False, False, {}

    @dataclass
    class Identity:
        dimension: int = 2

        def __call__(self, observations: Any) -> Any:
            return np.asarray(observations, dtype=np.float64)

    (chunk,) = rollout(Counter(), lambda _: 0, Identity(), discount=0.9).take(steps=4)
    assert chunk.features[:, 0].tolist() == [0, 1, 2, 3]
    assert chunk.next_features[:, 1].tolist() == [1, 2, 3, 4]


def test_an_evaluator_that_missed_chunks_still_sees_new_episodes() -> None:
    source = lake(max_episode_steps=10)
    evaluator = inferl.Evaluator(inferl.TD(16, trace=0.9))
    evaluator.update(source.take(steps=5))
    list(source.take(episodes=3))
    evaluator.update(source.take(steps=5))  # would be refused if it contradicted the first five
    assert evaluator.n == 10


def test_a_bad_observation_leaves_a_clear_error() -> None:
    env = gymnasium.make("FrozenLake-v1")
    with pytest.raises(DataError, match="outside the table"):
        list(rollout(env, UNIFORM, inferl.features.OneHot(4), discount=0.9).take(steps=200))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"discount": 0.0}, "discount"),
        ({"discount": 1.5}, "discount"),
        ({"chunk": 0}, "chunk"),
        ({"env": 3}, "int"),
        ({"features": 3}, "int"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any], message: str) -> None:
    usual: dict[str, Any] = {"env": Salary(), "policy": [[1.0]], "features": inferl.features.OneHot(1), "discount": 0.9}
    with pytest.raises(SettingError, match=message):
        rollout(**(usual | settings))


@pytest.mark.parametrize("amount", [{}, {"episodes": 1, "steps": 1}, {"steps": -1}, {"episodes": -1}])
def test_an_amount_must_be_said(amount: dict[str, int]) -> None:
    with pytest.raises(SettingError):
        lake().take(**amount)


def test_a_discrete_space_stands_for_its_table() -> None:
    env = gymnasium.make("FrozenLake-v1")
    source = rollout(env, UNIFORM, env.observation_space, discount=0.9)
    assert source.features == inferl.features.OneHot(16)
    assert same(joined(source.take(steps=300)), joined(lake().take(steps=300)))


def test_the_starts_are_a_target() -> None:
    env = gymnasium.make("Taxi-v4")  # 300 starts
    source = rollout(env, np.full((500, 6), 1 / 6), env.observation_space, discount=0.9)
    with pytest.raises(TargetError, match="no episode has begun"):
        inferl.Evaluator(inferl.TD(500)).interval(source.start())
    path = joined(source.take(steps=5000))
    assert path.episode is not None
    first = np.r_[True, np.diff(path.episode) > 0]
    expected = np.bincount(path.features[first].astype(int), minlength=500) / first.sum()
    assert np.asarray(source.start()) == pytest.approx(expected)
    assert first.sum() > 20
    pole = rollout(gymnasium.make("CartPole-v1"), lambda _: 0, inferl.features.Scaled([-2] * 4, [2] * 4), discount=0.9)
    path = joined(pole.take(episodes=30))
    assert path.episode is not None
    first = np.r_[True, np.diff(path.episode) > 0]
    assert np.asarray(pole.start()) == pytest.approx(path.features[first].mean(axis=0))


def test_another_policy_than_the_one_that_acts() -> None:
    """Ratios are pi / b of the actions taken; so the value of the target comes out, though another one acts."""
    env = gymnasium.make("FrozenLake-v1", max_episode_steps=10_000)
    mdp = inferl.environments.FiniteMDP.from_toy_text(env)
    target = 0.5 * mdp.optimal_policy(0.9) + 0.5 * UNIFORM
    source = rollout(env, UNIFORM, env.observation_space, 0.9, seed=3, target_policy=target)
    path = joined(source.take(steps=40_000))
    assert set(np.round(path.ratios, 12)) <= {0.5, 2.5}
    interval = inferl.Evaluator(inferl.TD(16)).update(path).interval(0, level=0.9999)  # one false alarm in 10,000 seeds
    assert mdp.values(target, 0.9)[0] in interval
    assert mdp.values(UNIFORM, 0.9)[0] not in interval


def test_a_target_without_probabilities_is_refused() -> None:
    source = rollout(Salary(), [[1.0]], inferl.features.OneHot(1), 0.9, target_policy=lambda _: 0)
    with pytest.raises(SettingError, match="has no probabilities"):
        list(source.take(steps=1))


class Scales(gymnasium.Env[Any, Any]):
    """Observations of a Dict space: a weight that grows by the action, and a pair of numbers."""

    observation_space = gymnasium.spaces.Dict(
        weight=gymnasium.spaces.Box(0, 100, (1,)),
        pair=gymnasium.spaces.Tuple([gymnasium.spaces.Discrete(9), gymnasium.spaces.Discrete(9)]),
    )
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self.weight = np.zeros(1, np.float32)
        return {"weight": self.weight, "pair": (1, 2)}, {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.weight += action  # in place, as an environment may
        return {"weight": self.weight, "pair": (3, 4)}, 0.0, bool(self.weight >= 3), False, {}


def both(observations: Any) -> Any:
    return np.stack([observations["weight"][..., 0], observations["pair"][1]], axis=-1)


@pytest.mark.parametrize("mode", [None, *AutoresetMode])
def test_dicts_and_tuples_of_observations(mode: AutoresetMode | None) -> None:
    env: Any = Scales() if mode is None else SyncVectorEnv([Scales], autoreset_mode=mode)
    source = rollout(env, lambda observation: int(observation["pair"][0] > 0), inferl.features.Function(both, 2), 0.9)
    path = joined(source.take(episodes=2))
    assert path.features.tolist() == [[0, 2], [1, 4], [2, 4]] * 2
    assert path.next_features.tolist() == [[1, 4], [2, 4], [3, 4]] * 2


@pytest.mark.parametrize("vector", [False, True])
def test_a_table_is_numbered_from_0(vector: bool) -> None:
    """A column of the table is an action of this number, also where actions begin with another."""

    class Numbered(gymnasium.Env[Any, Any]):
        observation_space = gymnasium.spaces.Discrete(2, start=3)
        action_space = gymnasium.spaces.Discrete(2, start=1)

        def reset(
            self, *, seed: int | None = None, options: dict[str, Any] | None = None
        ) -> tuple[int, dict[str, Any]]:
            super().reset(seed=seed)
            return 3, {}

        def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
            return 4, float(action), True, False, {}

    def played(policy: Any) -> float:
        env: Any = SyncVectorEnv([Numbered] * 2) if vector else Numbered()
        return float(next(rollout(env, policy).take(episodes=1)).rewards[0])

    whole = np.zeros((5, 3))
    whole[:, 2] = 1.0
    assert played(whole) == 2.0
    with pytest.raises(SettingError, match="the actions are the numbers 1 to 2, and the columns of the policy 0 to 1"):
        played(whole[:, 1:])
    with pytest.raises(
        SettingError, match="the observations are the numbers 3 to 4, and the rows of the policy 0 to 1"
    ):
        played(whole[3:])


def test_observations_without_a_shape_are_refused() -> None:
    env = Salary()
    env.observation_space = gymnasium.spaces.Graph(gymnasium.spaces.Discrete(2), None)  # type: ignore[assignment]
    with pytest.raises(SettingError, match="TransformObservation"):
        rollout(env, [[1.0]], inferl.features.OneHot(1), 0.9)


def test_without_gymnasium_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    env = Salary()
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    with pytest.raises(MissingExtraError, match=r"inferl\[gym\]"):
        rollout(env, [[1.0]], inferl.features.OneHot(1), discount=0.9)


def test_a_rollout_prints_its_settings() -> None:
    assert repr(lake()).endswith(
        "policy=Table(16 states, 4 actions), features=OneHot(n=16), discount=0.9, seed=0, chunk=256, ratio=None, "
        "ends=False, episodes=None)"
    )


def test_a_time_limit_ends_or_cuts() -> None:
    """CartPole for ten steps: undiscounted returns end at the limit, a discounted value goes on."""
    env = gymnasium.make("CartPole-v1", max_episode_steps=10)

    def taken(discount: float, time_limit: str | None = None) -> Transitions:
        features = WithIntercept(Function(lambda observations: np.asarray(observations, float), 4))
        lean = lambda observation: int(observation[2] > 0)  # noqa: E731
        source = rollout(env, lean, features, discount, time_limit=time_limit)
        return Transitions.join(list(source.take(episodes=20)))

    ends, cut = taken(1.0), taken(0.9)
    assert (ends.discounts[ends.last] == 0).all()
    assert (cut.discounts[cut.last] == 0.9).all()
    assert ends.truncated[ends.last].all()
    assert cut.truncated[cut.last].all()
    assert (taken(0.9, "ends").discounts[cut.last] == 0).all()
    found = Evaluator(inferl.DoublyRobust(5)).update(ends).interval()
    assert found.estimate == pytest.approx(10.0)
    assert found.estimand == "the mean return up to the time limit"
    assert Evaluator(inferl.DoublyRobust(5)).update(cut).report().interval.notes[0].startswith("length")
    with pytest.raises(SettingError, match="'ends'"):
        taken(0.9, "stops")
