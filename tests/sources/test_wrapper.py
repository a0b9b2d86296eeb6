"""Wrappers: whoever steps the environment, the evaluator sees what a rollout would have shown it."""

import subprocess
import sys
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import Autoreset, RecordEpisodeStatistics, TimeLimit
from gymnasium.wrappers.vector import DictInfoToList
from gymnasium.wrappers.vector import RecordEpisodeStatistics as RecordVectorStatistics

import inferl
from inferl.errors import DataError, LevelError, SettingError
from inferl.policies import Ratio
from inferl.sources import EvaluatorWrapper, VectorEvaluatorWrapper, rollout

modes = pytest.mark.parametrize("mode", list(AutoresetMode), ids=lambda mode: mode.name)
UNIFORM = np.full((16, 4), 0.25)
RIGHT = 0.9 * np.eye(4)[[2] * 16] + 0.1 * UNIFORM


def lake(limit: int = 6) -> gymnasium.Env[Any, Any]:
    return gymnasium.make("FrozenLake-v1", max_episode_steps=limit)


def watched(env: Any = None, **settings: Any) -> EvaluatorWrapper:
    return EvaluatorWrapper(lake() if env is None else env, table(), inferl.features.OneHot(16), 0.9, **settings)


def table() -> inferl.Evaluator:
    return inferl.Evaluator(inferl.TD(16, trace=0.5))


def play(env: gymnasium.Env[Any, Any], policy: Any, steps: int, seed: int) -> list[dict[str, Any]]:
    """Do what `rollout` does with its seed, as a user's own loop."""
    generator = np.random.default_rng(np.random.SeedSequence(seed).spawn(1)[0])
    acting = inferl.policies.as_policy(policy)
    infos = []
    observation, _ = env.reset(seed=seed)
    for _ in range(steps):
        observation, _, terminated, truncated, info = env.step(acting(observation, generator.random()))
        infos.append(info)
        if terminated or truncated:
            observation, _ = env.reset()
    return infos


def assert_equal(one: inferl.Interval, other: inferl.Interval) -> None:
    assert one.to_dict() == other.to_dict()


def test_the_evaluator_sees_what_a_rollout_shows() -> None:
    env = watched()
    infos = play(env, UNIFORM, 1000, seed=4)
    source = rollout(SyncVectorEnv([lake]), UNIFORM, inferl.features.OneHot(16), 0.9, seed=4)
    evaluator = table().update(source.take(steps=1000))
    assert_equal(env.interval(), evaluator.interval(source.start()))
    assert env.evaluator.episodes == evaluator.episodes > 100
    read = [info["inferl"] for info in infos if "inferl" in info]
    assert len(read) == evaluator.episodes
    assert [interval.n for interval in read] == sorted(interval.n for interval in read)
    assert read[-1].width < read[40].width


def test_it_reads_where_the_statistics_of_gymnasium_are_written() -> None:
    infos = play(watched(RecordEpisodeStatistics(lake())), UNIFORM, 300, seed=0)
    assert any("episode" in info for info in infos)
    assert all(("episode" in info) == ("inferl" in info) for info in infos)


def test_a_reading_every_so_many_steps() -> None:
    infos = play(watched(every=50, target=0, level=0.8), UNIFORM, 205, seed=0)
    assert [i for i, info in enumerate(infos) if "inferl" in info] == [49, 99, 149, 199]
    assert [info["inferl"].n for info in infos if "inferl" in info] == [50, 100, 150, 200]
    assert infos[199]["inferl"].level == 0.8


def test_the_environment_behaves_as_before() -> None:
    plain, env = lake(), watched()
    assert plain.reset(seed=3) == env.reset(seed=3)
    for step in range(200):
        one, other = plain.step(step % 4), env.step(step % 4)
        other[4].pop("inferl", None)
        assert one == other
        if one[2] or one[3]:
            assert plain.reset() == env.reset()
    assert env.observation_space == plain.observation_space
    assert env.unwrapped.spec == plain.unwrapped.spec


def test_a_reset_in_mid_episode_begins_a_new_one() -> None:
    """Nothing leads from where the old one was left; it has no end, so it is not counted as one that ended."""
    env = watched(gymnasium.make("FrozenLake-v1", is_slippery=False), target=0)
    for _ in range(30):
        env.reset(seed=0)
        env.step(2)
        env.step(2)
    assert env.evaluator.n == 60
    assert env.evaluator.episodes == 0
    assert env.interval().estimate == 0


def test_autoreset_below_is_understood() -> None:
    """gymnasium.wrappers.Autoreset makes a reset of the step after the end: that is no transition."""
    env = watched(Autoreset(gymnasium.make("FrozenLake-v1", is_slippery=False, max_episode_steps=2)))
    env.reset(seed=0)
    read = ["inferl" in env.step(2)[4] for _ in range(9)]
    assert read == [False, True, False] * 3
    assert env.evaluator.n == 6
    assert env.evaluator.episodes == 3


def test_several_environments_share_an_evaluator() -> None:
    evaluator = table()
    envs = SyncVectorEnv(
        [lambda i=i: EvaluatorWrapper(lake(), evaluator, inferl.features.OneHot(16), 0.9, stream=i) for i in range(3)]  # type: ignore[misc]
    )
    envs.reset(seed=0)
    seen = 0
    for _ in range(100):
        *_, infos = envs.step(np.zeros(3, int))
        if "inferl" in infos:
            seen += sum(isinstance(interval, inferl.Interval) for interval in infos["inferl"][infos["_inferl"]])
    assert seen == evaluator.episodes > 20
    assert evaluator.report(0).facts["streams"] == 3


def test_two_evaluators_watch_one_environment() -> None:
    inner = watched(key="short")
    outer = EvaluatorWrapper(inner, inferl.Evaluator(inferl.TD(16)), inferl.features.OneHot(16), 0.99, key="long")
    info = [info for info in play(outer, UNIFORM, 200, seed=0) if "long" in info][-1]
    assert info["short"].n == info["long"].n


def test_an_entry_of_info_is_never_overwritten() -> None:
    env = EvaluatorWrapper(watched(every=1), table(), inferl.features.OneHot(16), 0.9)
    env.reset(seed=0)
    with pytest.raises(SettingError, match="used by another wrapper"):
        env.step(0)


def test_ratios() -> None:
    env = watched(ratio=Ratio(RIGHT, UNIFORM), target=0)
    play(env, UNIFORM, 2000, seed=1)
    source = rollout(SyncVectorEnv([lake]), UNIFORM, inferl.features.OneHot(16), 0.9, seed=1, target_policy=RIGHT)
    evaluator = table().update(source.take(steps=2000))
    assert_equal(env.interval(), evaluator.interval(0))
    assert env.evaluator.report(0).facts["ratios"] == "given (off-policy)"


def test_vectors_of_features() -> None:
    features = inferl.features.WithIntercept(inferl.features.Scaled([-2.4, -3, -0.2, -3], [2.4, 3, 0.2, 3]))
    env = EvaluatorWrapper(TimeLimit(gymnasium.make("CartPole-v1"), 30), pole := poles(), features, 0.9)

    def lean(observation: Any) -> int:
        return int(observation[2] > 0)

    play(env, lean, 1000, seed=2)
    envs = SyncVectorEnv([lambda: TimeLimit(gymnasium.make("CartPole-v1"), 30)])
    source = rollout(envs, lean, features, 0.9, seed=2)
    assert_equal(env.interval(), poles().update(source.take(steps=1000)).interval(source.start()))
    assert pole.n == 1000


def poles() -> inferl.Evaluator:
    return inferl.Evaluator(inferl.TD(5))


def test_a_run_goes_on_after_a_checkpoint(tmp_path: Any) -> None:
    whole, part = watched(target=0), watched(target=0)
    play(whole, UNIFORM, 300, seed=0)
    play(part, UNIFORM, 300, seed=0)
    part.evaluator.save(tmp_path / "run")
    again = EvaluatorWrapper(lake(), inferl.Evaluator.load(tmp_path / "run"), inferl.features.OneHot(16), 0.9, target=0)
    play(whole, UNIFORM, 300, seed=1)
    play(again, UNIFORM, 300, seed=1)
    assert_equal(whole.interval(), again.interval())


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"every": 0}, SettingError, "every"),
        ({"level": 95}, LevelError, "level"),
        ({"features": 16}, SettingError, "Function"),
        ({"discount": 0}, SettingError, "discount"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any], error: Any, message: str) -> None:
    usual: dict[str, Any] = {"evaluator": table(), "features": inferl.features.OneHot(16), "discount": 0.9}
    with pytest.raises(error, match=message):
        EvaluatorWrapper(lake(), **(usual | settings))


def test_bad_observations_are_named() -> None:
    env = EvaluatorWrapper(
        gymnasium.make("FrozenLake-v1", is_slippery=False),
        inferl.Evaluator(inferl.TD(2)),
        inferl.features.OneHot(2),
        0.9,
    )
    env.reset(seed=0)
    env.step(2)
    with pytest.raises(DataError, match="observation 2 is outside the table"):
        env.step(2)


# Vector environments.


def vector_play(envs: Any, policy: Any, steps: int, seed: int, mode: AutoresetMode) -> list[dict[str, Any]]:
    n = envs.num_envs
    generators = [np.random.default_rng(np.random.SeedSequence(seed + i).spawn(1)[0]) for i in range(n)]
    acting = inferl.policies.as_policy(policy)
    observations, _ = envs.reset(seed=seed)
    done, infos = np.zeros(n, bool), []
    for _ in range(steps):
        waits = done & (mode == AutoresetMode.NEXT_STEP)
        uniforms = np.array([0.0 if waits[i] else generators[i].random() for i in range(n)])
        observations, _, terminated, truncated, info = envs.step(acting.batch(observations, uniforms))
        infos.append(info)
        done = (terminated | truncated) & ~waits
        if mode == AutoresetMode.DISABLED and done.any():
            observations, _ = envs.reset(options={"reset_mask": done})
    return infos


@modes
@pytest.mark.parametrize("off_policy", [False, True])
def test_the_evaluator_sees_what_a_rollout_of_a_vector_shows(mode: AutoresetMode, off_policy: bool) -> None:
    target = RIGHT if off_policy else UNIFORM
    ratio = Ratio(RIGHT, UNIFORM).batch if off_policy else None
    envs = VectorEvaluatorWrapper(
        SyncVectorEnv([lake] * 3, autoreset_mode=mode), table(), inferl.features.OneHot(16), 0.9, ratio=ratio
    )
    infos = vector_play(envs, UNIFORM, 300, 7, mode)
    source = rollout(
        SyncVectorEnv([lake] * 3, autoreset_mode=mode),
        UNIFORM,
        inferl.features.OneHot(16),
        0.9,
        seed=7,
        target_policy=target,
    )
    evaluator = table().update(source.take(steps=envs.evaluator.n))
    assert_equal(envs.interval(), evaluator.interval(source.start()))
    assert envs.evaluator.episodes == evaluator.episodes > 100
    assert sum(int(info["_inferl"].sum()) for info in infos if "inferl" in info) == evaluator.episodes
    last = [info for info in infos if "inferl" in info][-1]
    assert all((interval is not None) == ended for interval, ended in zip(last["inferl"], last["_inferl"], strict=True))


@modes
def test_it_reads_where_the_statistics_of_vectors_are_written(mode: AutoresetMode) -> None:
    inner = RecordVectorStatistics(SyncVectorEnv([lake] * 3, autoreset_mode=mode))
    infos = vector_play(VectorEvaluatorWrapper(inner, table(), inferl.features.OneHot(16), 0.9), UNIFORM, 100, 0, mode)
    assert any("episode" in info for info in infos)
    for info in infos:
        np.testing.assert_array_equal(info.get("_inferl"), info.get("_episode"))


def test_a_vector_read_every_so_many_steps() -> None:
    mode = AutoresetMode.SAME_STEP
    envs = VectorEvaluatorWrapper(
        SyncVectorEnv([lake] * 4, autoreset_mode=mode), table(), inferl.features.OneHot(16), 0.9, every=10
    )
    infos = vector_play(envs, UNIFORM, 10, 0, mode)
    assert [i for i, info in enumerate(infos) if "inferl" in info] == [2, 4, 7, 9]  # 12, 20, 32, 40 transitions
    assert infos[2]["_inferl"].all()
    assert [interval.n for interval in infos[2]["inferl"]] == [12] * 4


def test_lists_of_infos_hold_intervals() -> None:
    mode = AutoresetMode.NEXT_STEP
    envs = DictInfoToList(VectorEvaluatorWrapper(SyncVectorEnv([lake] * 2), table(), inferl.features.OneHot(16), 0.9))
    infos: list[Any] = vector_play(envs, UNIFORM, 50, 0, mode)
    assert any(isinstance(info["inferl"], inferl.Interval) for pair in infos for info in pair if "inferl" in info)


def test_streams_have_their_own_labels() -> None:
    evaluator = table()
    for first in (0, 10):
        envs = VectorEvaluatorWrapper(
            SyncVectorEnv([lake] * 2), evaluator, inferl.features.OneHot(16), 0.9, stream=first
        )
        vector_play(envs, UNIFORM, 20, 0, AutoresetMode.NEXT_STEP)
    assert evaluator.report(0).facts["streams"] == 4


def test_without_gymnasium_the_message_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['gymnasium'] = None\n"
        "import inferl\n"
        "try: inferl.sources.EvaluatorWrapper\n"
        "except inferl.errors.MissingExtraError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "inferl[gym]" in done.stdout
