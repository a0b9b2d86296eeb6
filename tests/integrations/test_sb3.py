"""The EvalCallback with Stable-Baselines3 itself: its environments, its callbacks, its files."""

from __future__ import annotations

import doctest
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from inferl import DoublyRobust, Evaluator, Transitions
from inferl.errors import LevelError, SettingError

pytestmark = pytest.mark.integrations


class Lengths(gymnasium.Env[Any, Any]):
    """Pays 1 a step. An episode lasts 1 to 9 steps, drawn at its start; `is_success` if more than 5."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.length, self.time = int(self.np_random.integers(1, 10)), 0
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.time += 1
        ended = self.time == self.length
        return np.zeros(1, np.float32), 1.0, ended, False, {"is_success": self.length > 5} if ended else {}


class Still(Lengths):
    """Every episode pays 4."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        found = super().reset(seed=seed)
        self.length = 4
        return found


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def vec(env: Any = Lengths, n: int = 3, kind: str = "DummyVecEnv") -> Any:
    from stable_baselines3.common import env_util, vec_env

    return env_util.make_vec_env(env, n, vec_env_cls=getattr(vec_env, kind))


def model_of(env: Any, **options: Any) -> Any:
    from stable_baselines3 import A2C

    return A2C("MlpPolicy", env, n_steps=8, seed=0, device="cpu", **options)


def trained(callback: Any, env: Any = None, steps: int = 96) -> Any:
    model = model_of(vec(n=1) if env is None else env)
    return model.learn(steps, callback)


def callback_of(env: Any = None, **options: Any) -> Any:
    from inferl.integrations.sb3 import EvalCallback

    options = {"eval_freq": 32, "verbose": 0} | options
    return EvalCallback(vec() if env is None else env, **options)


def test_the_arguments_are_those_of_stable_baselines() -> None:
    """In the same order, with the same defaults, except for the number of episodes; ours can be named only."""
    from inspect import Parameter, signature

    from stable_baselines3.common.callbacks import EvalCallback as Theirs

    from inferl.integrations.sb3 import EvalCallback as Ours

    theirs, ours = (list(signature(cls).parameters.values()) for cls in (Theirs, Ours))
    assert [(p.name, p.default) for p in ours[: len(theirs)]] == [
        (p.name, 50 if p.name == "n_eval_episodes" else p.default) for p in theirs
    ]
    more = ours[len(theirs) :]
    assert [p.name for p in more] == ["until_width", "level", "stop_above", "seed"]
    assert all(p.kind is Parameter.KEYWORD_ONLY for p in more)
    assert issubclass(Ours, Theirs)


def test_its_examples_run() -> None:
    from inferl.integrations import sb3

    found = doctest.testmod(sb3, optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    assert found.attempted >= 5
    assert found.failed == 0


def test_the_interval_is_that_of_the_returns_and_the_logger_has_it(tmp_path: Path) -> None:
    from stable_baselines3.common.logger import configure

    callback = callback_of(n_eval_episodes=40, log_path=str(tmp_path))
    model = model_of(vec(n=1))
    logger = configure(str(tmp_path), ["csv"])
    model.set_logger(logger)
    model.learn(96, callback)
    logger.close()
    file = np.load(tmp_path / "evaluations.npz")
    assert file["timesteps"].tolist() == [32, 64, 96]
    assert file["results"].shape == file["ep_lengths"].shape == file["successes"].shape == (3, 40)
    assert (file["results"] == file["ep_lengths"]).all()
    assert (file["successes"] == (file["results"] > 5)).all()
    expected = Evaluator(DoublyRobust(1)).update(Transitions.from_returns(file["results"][-1])).interval()
    found = callback.last_interval
    assert (found.estimate, found.lower, found.upper) == (expected.estimate, expected.lower, expected.upper)
    assert callback.last_mean_reward == expected.estimate

    import pandas

    logged = pandas.read_csv(tmp_path / "progress.csv").dropna(subset="eval/mean_reward")
    assert logged["eval/mean_reward"].tolist() == pytest.approx(file["results"].mean(axis=1))
    assert logged["eval/mean_ep_length"].tolist() == pytest.approx(file["ep_lengths"].mean(axis=1))
    assert logged["eval/success_rate"].tolist() == pytest.approx(file["successes"].mean(axis=1))
    assert logged["time/total_timesteps"].tolist() == [32, 64, 96]
    last = logged.iloc[-1]
    bounds = last["eval/mean_reward_lower"], last["eval/mean_reward_upper"]
    assert bounds == pytest.approx((expected.lower, expected.upper))


def test_short_episodes_are_not_favoured() -> None:
    """The mean length is 5. Of 16 environments, those that end first have lengths of less than 4 on average."""
    callback = callback_of(vec(n=16), n_eval_episodes=320, eval_freq=8)
    trained(callback, steps=8)
    assert callback.last_interval.lower < 5 < callback.last_interval.upper


def test_seeds_are_fresh_for_each_evaluation_and_the_same_in_each_training(tmp_path: Path) -> None:
    found = []
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        trained(callback_of(n_eval_episodes=30, log_path=str(tmp_path / name), seed=seed))
        found.append(np.load(tmp_path / name / "evaluations.npz")["results"])
    first, again, other = found
    assert (first == again).all()
    assert (first != other).any()
    assert len({tuple(sorted(row)) for row in first}) == 3


def test_until_width_plays_as_many_as_it_takes_and_no_more_than_allowed(tmp_path: Path) -> None:
    callback = callback_of(until_width=3.0, n_eval_episodes=500, log_path=str(tmp_path))
    trained(callback)
    assert callback.last_interval.kind == "anytime"
    assert 2 < callback.last_interval.width <= 3
    episodes = [len(row) for row in callback.evaluations_results]
    assert all(32 < number < 120 for number in episodes)
    results = np.load(tmp_path / "evaluations.npz")["results"]
    assert np.isfinite(results).sum(axis=1).tolist() == episodes
    assert callback.last_mean_reward == pytest.approx(np.nanmean(results[-1]))
    few = callback_of(until_width=0.01, n_eval_episodes=70)
    trained(few, steps=32)
    assert few.last_interval.n == 70


def test_an_unchanged_model_is_not_a_new_best(tmp_path: Path) -> None:
    """Actions do not matter here. Stable-Baselines3's rule, the largest mean, would take several of the 30."""
    callback = callback_of(eval_freq=8, n_eval_episodes=16, log_path=str(tmp_path), best_model_save_path=str(tmp_path))
    best = tmp_path / "best_model.zip"
    times = []

    from stable_baselines3.common.callbacks import BaseCallback

    class Watch(BaseCallback):
        def _on_step(self) -> bool:
            times.append(best.stat().st_mtime_ns)
            return True

    callback.callback = Watch()
    callback.callback.parent = callback
    trained(callback, steps=240)
    means = np.load(tmp_path / "evaluations.npz")["results"].mean(axis=1)
    assert len(times) == 30
    assert np.count_nonzero(np.diff(np.maximum.accumulate(means)) > 0) >= 1
    assert len(set(times)) == 1
    assert callback.best_mean_reward == means[0]


def test_a_better_model_is_saved_and_the_callback_on_new_best_is_called(tmp_path: Path) -> None:
    from stable_baselines3.common.callbacks import StopTrainingOnRewardThreshold

    class Paying(Lengths):
        more = 0.0

        def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
            observation, reward, *rest = super().step(action)
            return observation, reward + Paying.more, *rest

    stop = StopTrainingOnRewardThreshold(20.0)
    callback = callback_of(
        vec(Paying), callback_on_new_best=stop, eval_freq=8, n_eval_episodes=50, best_model_save_path=str(tmp_path)
    )
    model = model_of(vec(n=1))
    model.learn(16, callback)
    assert model.num_timesteps == 16
    assert callback.best_mean_reward < 10
    first = (tmp_path / "best_model.zip").read_bytes()
    Paying.more = 9.0  # as if the model had become better
    model.learn(160, callback, reset_num_timesteps=False)
    assert model.num_timesteps == 24
    assert callback.best_mean_reward == callback.last_mean_reward > 30
    assert (tmp_path / "best_model.zip").read_bytes() != first


def test_training_stops_without_improvement() -> None:
    from stable_baselines3.common.callbacks import StopTrainingOnNoModelImprovement

    stop = StopTrainingOnNoModelImprovement(max_no_improvement_evals=3, min_evals=2)
    callback = callback_of(callback_after_eval=stop, eval_freq=8, n_eval_episodes=30)
    model = trained(callback, steps=800)
    assert callback.best_so_far.evaluations == 6  # from the third on they count, and four are too many
    assert model.num_timesteps == 48


@pytest.mark.parametrize(("above", "evaluations"), [(3.0, 1), (6.0, 12)])
def test_training_stops_above_a_threshold_that_is_known_to_be_passed(above: float, evaluations: int) -> None:
    """The mean is 5, and the standard error of 60 episodes a third."""
    callback = callback_of(stop_above=above, eval_freq=8, n_eval_episodes=60)
    trained(callback)
    assert callback.best_so_far.evaluations == evaluations


def test_what_never_varies_is_above_only_if_enough_was_seen() -> None:
    """All pay 4. At the second evaluation, 16 cannot exclude that 29 % pay 0 as before, and 200 exclude 3 %."""
    few, many = (callback_of(vec(Still), stop_above=3.8, eval_freq=8, n_eval_episodes=n) for n in (16, 200))
    few.best_so_far.update(Evaluator(DoublyRobust(1)).update(Transitions.from_returns([0.0, 1.0] * 8)))  # a bad start
    many.best_so_far.update(few.best_so_far.best)
    assert trained(few).num_timesteps == 96
    assert trained(many).num_timesteps == 8


def test_the_words_of_an_evaluation(capsys: pytest.CaptureFixture[str]) -> None:
    trained(callback_of(verbose=1, stop_above=1.0), steps=32)
    printed = capsys.readouterr().out
    for words in ("Eval num_timesteps=32, episode_reward=", "50 episodes", "Episode length:", "Success rate:"):
        assert words in printed
    assert "New best mean reward!" in printed
    assert "known to be above 1" in printed


# Environments.


def test_an_id_an_environment_and_subprocesses() -> None:
    from stable_baselines3.common.monitor import Monitor

    trained(made := callback_of("CartPole-v1", n_eval_episodes=20), env="CartPole-v1", steps=32)
    assert made.eval_env.num_envs == 8
    trained(one := callback_of(Monitor(Lengths()), n_eval_episodes=20), steps=32)
    assert one.eval_env.num_envs == 1
    with pytest.warns(UserWarning, match="not wrapped with a ``Monitor``"):
        trained(callback_of(Lengths(), n_eval_episodes=20), steps=32)
    processes = callback_of(vec("CartPole-v1", 2, "SubprocVecEnv"), n_eval_episodes=20)
    with pytest.warns(UserWarning, match="not of the same type"):
        trained(processes, env="CartPole-v1", steps=32)
    processes.eval_env.close()
    assert processes.last_interval.n == 20


def test_normalisation_is_that_of_the_training() -> None:
    from stable_baselines3.common.vec_env import VecNormalize

    training = VecNormalize(vec("CartPole-v1", 1))
    callback = callback_of(VecNormalize(vec("CartPole-v1", 2), training=False, norm_reward=False), n_eval_episodes=20)
    trained(callback, env=training, steps=32)
    assert callback.eval_env.obs_rms.mean.tolist() == training.obs_rms.mean.tolist()
    assert callback.last_interval.estimate > 8  # steps, not scaled rewards
    plain, training = callback_of("CartPole-v1", n_eval_episodes=20), VecNormalize(vec("CartPole-v1", 1))
    with (
        pytest.warns(UserWarning, match="not of the same type"),
        pytest.raises(SettingError, match=r"VecNormalize\(eval_env, training=False"),
    ):
        trained(plain, env=training, steps=32)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"n_eval_episodes": 5}, SettingError, "n_eval_episodes is 5.* at least 16"),
        ({"until_width": -1.0}, SettingError, "until_width is -1"),
        ({"stop_above": "high"}, SettingError, "stop_above is"),
        ({"level": 95}, LevelError, "did you mean 0.95"),
        ({"seed": -1}, SettingError, "seed is -1"),
    ],
)
def test_wrong_settings_are_refused_at_once(options: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        callback_of(**options)


def test_a_callback_that_never_evaluates_changes_nothing() -> None:
    callback = callback_of(eval_freq=0)
    trained(callback)
    assert callback.last_interval is None
    assert callback.best_mean_reward == -np.inf
