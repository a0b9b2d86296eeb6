"""Vector environments: each stream takes the steps that it would take alone, under each autoreset mode."""

from collections.abc import Iterable
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import TimeLimit
from gymnasium.wrappers import vector as vector_wrappers

import inferl
from inferl.data.transitions import Transitions
from inferl.errors import DataError, SettingError
from inferl.policies import Deterministic, Policy, Probabilities, epsilon_greedy
from inferl.sources import Rollout, rollout
from inferl.sources.vector import Pairing

N = 4
MODES = list(AutoresetMode)
modes = pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
RAW = inferl.features.Function(lambda observations: observations, 4)  # observations as they are
UNIFORM = np.full((16, 4), 0.25)


def pole() -> gymnasium.Env[Any, Any]:
    """A pole that falls after about 20 steps of chance, if it is not cut off after 25."""
    return gymnasium.make("CartPole-v1", max_episode_steps=25)


def lake() -> gymnasium.Env[Any, Any]:
    return gymnasium.make("FrozenLake-v1", max_episode_steps=6)


def with_doubt(observation: Any) -> list[float]:
    """Lean against the fall, and sometimes the other way."""
    return [0.8, 0.2] if observation[2] < 0 else [0.3, 0.7]


def joined(chunks: Iterable[Transitions]) -> Transitions:
    return Transitions.join(list(chunks))


def of_stream(path: Transitions, stream: int) -> Transitions:
    return path[np.flatnonzero(path.stream == stream)]


def assert_same(one: Transitions, other: Transitions) -> None:
    for name in ("features", "rewards", "next_features", "discounts", "last", "episode"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)


CASES: dict[str, tuple[Any, Any, Any]] = {
    "pole, function": (pole, lambda observation: int(observation[2] > 0), RAW),
    "pole, probabilities": (pole, Probabilities(with_doubt), RAW),
    "pole, epsilon-greedy": (pole, epsilon_greedy(lambda observation: int(observation[2] > 0), 0.3, 2), RAW),
    "lake, table": (lake, UNIFORM, inferl.features.OneHot(16)),
}


@modes
@pytest.mark.parametrize("case", CASES)
def test_a_stream_is_the_environment_alone(case: str, mode: AutoresetMode) -> None:
    """Stream i of seed s is the vector of one of seed s + i: to the bit, with its true last observations."""
    make, policy, features = CASES[case]
    envs = SyncVectorEnv([make] * N, autoreset_mode=mode)
    path = joined(rollout(envs, policy, features, discount=0.9, seed=5, chunk=50).take(steps=1000))
    assert len(path) == 1000
    assert (path.discounts == 0).any()
    assert (path.last & (path.discounts > 0)).any()
    for i in range(N):
        stream = of_stream(path, i)
        single = SyncVectorEnv([make])
        alone = joined(rollout(single, policy, features, discount=0.9, seed=5 + i).take(steps=len(stream)))
        assert_same(stream, alone)


@modes
def test_no_transition_leads_across_a_reset(mode: AutoresetMode) -> None:
    envs = SyncVectorEnv([pole] * N, autoreset_mode=mode)
    path = joined(rollout(envs, Probabilities(with_doubt), RAW, discount=0.9).take(steps=2000))
    for i in range(N):
        stream = of_stream(path, i)
        within = ~stream.last[:-1]
        np.testing.assert_array_equal(stream.next_features[:-1][within], stream.features[1:][within])
        # Episodes begin near the middle; they end fallen (more than 12 degrees), or cut off after 25 steps.
        starts = np.r_[True, stream.last[:-1]]
        assert (np.abs(stream.features[starts]) <= 0.05).all()
        fallen = np.abs(stream.next_features[:, 2]) > 12 * np.pi / 180
        np.testing.assert_array_equal(fallen, stream.discounts == 0)
        lengths = np.diff(np.r_[-1, np.flatnonzero(stream.last)])
        cut = stream.discounts[stream.last] > 0
        assert (lengths[cut] == 25).all()
        assert (lengths[~cut] <= 25).all()
        assert (np.abs(stream.next_features[stream.last]).max(axis=1) > 0.05).all()  # no start among the last ones


@modes
def test_the_true_last_observation_of_a_cut_episode(mode: AutoresetMode) -> None:
    def path() -> gymnasium.Env[Any, Any]:
        return gymnasium.make("FrozenLake-v1", is_slippery=False, max_episode_steps=2)

    envs = SyncVectorEnv([path] * 2, autoreset_mode=mode)
    chunk = joined(rollout(envs, lambda _: 2, envs.single_observation_space, discount=0.9).take(episodes=4))
    for i in range(2):
        stream = of_stream(chunk, i)
        assert stream.features.tolist() == [0, 1, 0, 1]
        assert stream.next_features.tolist() == [1, 2, 1, 2]
        assert stream.discounts.tolist() == [0.9] * 4
        assert stream.last.tolist() == [False, True, False, True]


@modes
def test_a_function_sees_only_observations_it_acts_on(mode: AutoresetMode) -> None:
    """Not the last one of an episode, though NEXT_STEP wants an action for it."""
    seen = []

    def watched(observation: Any) -> int:
        seen.append(int(observation))
        return int(observation % 4)

    envs = SyncVectorEnv([lake] * N, autoreset_mode=mode)
    path = joined(rollout(envs, watched, inferl.features.OneHot(16), discount=0.9).take(steps=400))
    assert seen[:400] == path.features.tolist()


@modes
def test_takes_continue_where_the_last_one_stopped(mode: AutoresetMode) -> None:
    def source(chunk: int) -> Rollout:
        return rollout(
            SyncVectorEnv([lake] * N, autoreset_mode=mode), UNIFORM, inferl.features.OneHot(16), 0.9, chunk=chunk
        )

    whole = joined(source(256).take(steps=1000))
    parts = source(7)
    pieces = [*parts.take(steps=137), *parts.take(episodes=30), next(parts.take(steps=100))]
    together = joined(pieces)
    assert_same(together, whole[: len(together)])
    assert together.stream.tolist() == whole.stream[: len(together)].tolist()
    assert sum(len(piece) for piece in pieces[:20]) == 137
    thirty = joined(pieces[20:-1])
    assert thirty.last[-1]
    assert thirty.last.sum() == 30


@modes
def test_an_evaluator_counts_streams_and_episodes(mode: AutoresetMode) -> None:
    envs = SyncVectorEnv([lake] * N, autoreset_mode=mode)
    source = rollout(envs, UNIFORM, envs.single_observation_space, discount=0.9)
    evaluator = inferl.Evaluator(inferl.TD(16)).update(source.take(episodes=200))
    assert evaluator.episodes == 200
    assert evaluator.report(0).facts["streams"] == N


@modes
def test_the_interval_holds_the_exact_value(mode: AutoresetMode) -> None:
    """Episodes are cut off after 6 steps, and the value is that of the lake without a limit."""
    envs = SyncVectorEnv([lake] * N, autoreset_mode=mode)
    source = rollout(envs, UNIFORM, envs.single_observation_space, discount=0.9, seed=11)
    interval = inferl.Evaluator(inferl.TD(16)).update(source.take(steps=20_000)).interval(0, level=0.9999)
    exact = inferl.environments.FiniteMDP.from_toy_text(lake()).values(UNIFORM, 0.9)[0]
    assert exact in interval  # the same rows under each mode: one false alarm in 10,000 seeds


def test_an_environment_that_is_written_for_batches() -> None:
    """CartPole's own vector version draws all its starts from one generator."""
    envs = gymnasium.make_vec("CartPole-v1", num_envs=8, vectorization_mode="vector_entry_point")
    batches: list[int] = []

    def lean(observations: Any) -> Any:
        batches.append(len(observations))
        return (observations[:, 2] > 0).astype(np.int64)

    path = joined(rollout(envs, Deterministic(lean, batched=True), RAW, discount=0.9).take(episodes=60))
    assert max(batches) == 8
    assert len(path) <= sum(batches) <= len(path) + 8
    for i in range(8):
        stream = of_stream(path, i)
        within = ~stream.last[:-1]
        np.testing.assert_array_equal(stream.next_features[:-1][within], stream.features[1:][within])
        assert (np.abs(stream.features[np.r_[True, stream.last[:-1]]]) <= 0.05).all()


@modes
def test_sub_processes_take_the_same_steps(mode: AutoresetMode) -> None:
    envs = AsyncVectorEnv([lake] * 2, autoreset_mode=mode)
    try:
        path = joined(rollout(envs, UNIFORM, inferl.features.OneHot(16), 0.9, seed=1).take(steps=60))
    finally:
        envs.close()
    same = SyncVectorEnv([lake] * 2, autoreset_mode=mode)
    assert_same(path, joined(rollout(same, UNIFORM, inferl.features.OneHot(16), 0.9, seed=1).take(steps=60)))


@modes
def test_buffers_that_are_reused_are_copied(mode: AutoresetMode) -> None:
    paths = [
        joined(rollout(SyncVectorEnv([pole] * 2, copy=copy, autoreset_mode=mode), lambda _: 0, RAW, 0.9).take(steps=90))
        for copy in (True, False)
    ]
    assert_same(*paths)


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.DISABLED], ids=lambda mode: mode.name)
def test_wrappers_of_vector_environments(mode: AutoresetMode) -> None:
    """A wrapper that changes observations changes the last ones, too; Gymnasium's refuse SAME_STEP themselves."""
    envs = SyncVectorEnv([pole] * 2, autoreset_mode=mode)
    plain = joined(rollout(SyncVectorEnv([pole] * 2, autoreset_mode=mode), lambda _: 0, RAW, 0.9).take(steps=90))
    twice: dict[str, Any] = {
        "func": lambda observation: 2 * observation,
        "observation_space": envs.single_observation_space,
    }
    wrapped = vector_wrappers.VectorizeTransformObservation(envs, gymnasium.wrappers.TransformObservation, **twice)
    doubled = joined(rollout(wrapped, lambda _: 0, RAW, 0.9).take(steps=90))
    np.testing.assert_array_equal(doubled.features, 2 * plain.features)
    np.testing.assert_array_equal(doubled.next_features, 2 * plain.next_features)


def test_continuous_actions() -> None:
    envs = SyncVectorEnv([lambda: gymnasium.make("Pendulum-v1", max_episode_steps=10)] * 3)
    features = inferl.features.Scaled([-1, -1, -8], [1, 1, 8])
    path = joined(rollout(envs, lambda observation: observation[1:2], features, 0.9).take(episodes=6))
    assert path.last.sum() == 6
    assert (path.discounts == 0.9).all()  # a pendulum swings on


def test_seeds_that_lie_apart_are_needed() -> None:
    """What the documentation of `rollout` says: stream 1 of seed 0 is stream 0 of seed 1."""
    paths = [
        joined(rollout(SyncVectorEnv([lake] * 2), UNIFORM, inferl.features.OneHot(16), 0.9, seed=seed).take(steps=100))
        for seed in (0, 1)
    ]
    one, other = of_stream(paths[0], 1), of_stream(paths[1], 0)
    assert_same(one[:40], other[:40])


class Silent(SyncVectorEnv[Any, Any]):
    """Resets in the same step, and does not say where the episode ended."""

    def step(self, actions: Any) -> Any:
        *result, infos = super().step(actions)
        infos.pop("final_obs", None)
        return *result, infos


@pytest.mark.parametrize(
    "envs",
    [
        Silent([lake], autoreset_mode=AutoresetMode.SAME_STEP),
        gymnasium.wrappers.vector.DictInfoToList(SyncVectorEnv([lake], autoreset_mode=AutoresetMode.SAME_STEP)),
    ],
    ids=["left out", "a list"],
)
def test_a_last_observation_that_is_missing_is_an_error(envs: Any) -> None:
    with pytest.raises(DataError, match=r"sub-environment 0 .* info\['final_obs'\]"):
        list(rollout(envs, UNIFORM, inferl.features.OneHot(16), 0.9).take(steps=50))


def test_an_environment_that_does_not_say_when_it_resets_is_refused() -> None:
    envs = SyncVectorEnv([lake])
    del envs.metadata["autoreset_mode"]
    with pytest.raises(SettingError, match="across resets"):
        rollout(envs, UNIFORM, inferl.features.OneHot(16), 0.9)


def test_a_stream_that_is_stepped_after_its_end_gives_nothing() -> None:
    """Without autoreset nobody may step it; should it happen, no transition is made up."""

    class Salary(gymnasium.Env[Any, Any]):
        observation_space = gymnasium.spaces.Discrete(1)
        action_space = gymnasium.spaces.Discrete(1)

        def reset(self, **_: Any) -> tuple[int, dict[str, Any]]:
            return 0, {}

        def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
            return 0, 1.0, False, False, {}

    envs = SyncVectorEnv([lambda: TimeLimit(Salary(), 2), Salary], autoreset_mode=AutoresetMode.DISABLED)
    pairing, actions = Pairing(envs), np.zeros(2, int)
    pairing.reset(envs.reset()[0])
    streams = []
    for _ in range(4):
        result = envs.step(actions)
        envs._autoreset_envs[:] = False  # else it would refuse itself
        streams.append([step.stream for step in pairing.step(actions, result)])
    assert streams == [[0, 1], [0, 1], [1], [1]]


def test_a_batch_of_the_wrong_size_is_refused() -> None:
    envs = SyncVectorEnv([lake] * 2)
    wrong: Policy = Deterministic(lambda observations: 2, batched=True)
    with pytest.raises(DataError, match="0 actions for 2 observations"):
        list(rollout(envs, wrong, inferl.features.OneHot(16), 0.9).take(steps=50))
