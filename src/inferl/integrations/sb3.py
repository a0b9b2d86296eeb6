"""Stable-Baselines3: a drop-in for its `EvalCallback`, with intervals, and a callback that sends steps to a service.

::

    from inferl.integrations.sb3 import ClientCallback, EvalCallback
"""

from __future__ import annotations

import os
from math import ceil
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inferl.algorithms import DoublyRobust
from inferl.data.arrays import as_count, is_number, short
from inferl.data.transitions import Transitions
from inferl.diagnostics import FEWEST_BLOCKS
from inferl.errors import MissingExtraError, SettingError
from inferl.evaluation import BestSoFar
from inferl.evaluator import FEWEST, Evaluator
from inferl.interval import Interval, brief
from inferl.sources.sending import Rows, StepSender
from inferl.sources.vector import Pairing

try:
    from gymnasium.vector import AutoresetMode
    from stable_baselines3.common import callbacks
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.evaluation import evaluate_policy
    from stable_baselines3.common.vec_env import sync_envs_normalization
except ImportError:
    raise MissingExtraError("stable-baselines3", "sb3") from None

__all__ = ["ClientCallback", "EvalCallback"]

SIDE_BY_SIDE = 8  # environments that are made from an id


class EvalCallback(callbacks.EvalCallback):
    """Evaluates the model during training, as Stable-Baselines3's `EvalCallback` does, and says how well it is known.

    It logs ``eval/mean_reward`` with ``eval/mean_reward_lower`` and ``eval/mean_reward_upper``. A model is the new best
    only if it is known to be better than the best so far, not if its mean happens to be the largest: see `BestSoFar`.
    So `best_mean_reward` changes only then, and callbacks that read it, such as ``StopTrainingOnNoModelImprovement``,
    are not misled by luck.

    Every evaluation uses fresh seeds, which follow from `seed` and its number. With the same episodes each time, the
    difference of two models would be narrower, but the best of many would be the one that suits these episodes.

    Parameters
    ----------
    eval_env
        A ``VecEnv`` of Stable-Baselines3, an environment, or the id of one, of which 8 copies are made. Episodes are
        assigned to the copies beforehand, so that short ones are not favoured.
    callback_on_new_best, callback_after_eval, eval_freq, log_path, best_model_save_path, deterministic, render, \
verbose, warn
        As in Stable-Baselines3. In ``evaluations.npz``, evaluations of different length are filled up with NaN.
    n_eval_episodes
        Episodes of an evaluation, at least 16; with `until_width`, the most. (The 5 of Stable-Baselines3 are too few
        for an interval.)
    until_width
        Evaluate until the interval is no wider than this; it is then an anytime interval.
    level
        Nominal coverage of each interval; also the probability that, in the whole training, no model becomes the best
        without being better, and `stop_above` does not stop too early.
    stop_above
        Stop the training when the model is known to earn more than this.
    seed
        Of the evaluation's environments; None: they are not seeded.

    Examples
    --------
    >>> from stable_baselines3 import PPO
    >>> model = PPO("MlpPolicy", "CartPole-v1", n_steps=256, seed=0, device="cpu")
    >>> callback = EvalCallback("CartPole-v1", eval_freq=256, n_eval_episodes=20, stop_above=40, verbose=0)
    >>> model = model.learn(20_000, callback)
    >>> callback.last_interval.lower > 40, model.num_timesteps < 20_000
    (True, True)
    """

    def __init__(
        self,
        eval_env: Any,
        callback_on_new_best: Any = None,
        callback_after_eval: Any = None,
        n_eval_episodes: int = 50,
        eval_freq: int = 10_000,
        log_path: str | None = None,
        best_model_save_path: str | None = None,
        deterministic: bool = True,
        render: bool = False,
        verbose: int = 1,
        warn: bool = True,
        *,
        until_width: float | None = None,
        level: float = 0.95,
        stop_above: float | None = None,
        seed: int | None = 0,
    ) -> None:
        as_count("n_eval_episodes", n_eval_episodes, FEWEST_BLOCKS)
        if seed is not None:
            as_count("seed", seed, 0)
        if until_width is not None and not (is_number(until_width) and until_width > 0):
            raise SettingError(f"until_width is {short(until_width)}; it must be a positive number")
        if stop_above is not None and not is_number(stop_above):
            raise SettingError(f"stop_above is {short(stop_above)}; it must be a number")
        self.best_so_far = BestSoFar(level)
        if isinstance(eval_env, str):
            eval_env = make_vec_env(eval_env, SIDE_BY_SIDE)
        super().__init__(
            eval_env,
            callback_on_new_best,
            callback_after_eval,
            n_eval_episodes,
            eval_freq,
            log_path,
            best_model_save_path,
            deterministic,
            render,
            verbose,
            warn,
        )
        self.until_width = until_width
        self.level = level
        self.stop_above = stop_above
        self.seed = seed
        self.last_interval: Interval | None = None

    @property
    def kind(self) -> str:
        """Kind of the intervals, which is anytime if they decide how many episodes are played."""
        return "normal" if self.until_width is None else "anytime"

    def _on_step(self) -> bool:
        """Evaluate, if it is time, and return whether training goes on."""
        if self.eval_freq <= 0 or self.n_calls % self.eval_freq:
            return True
        self._synchronise()
        evaluator, returns, lengths = self._play()
        interval = evaluator.interval(level=self.level, kind=self.kind)
        self.last_interval, self.last_mean_reward = interval, float(interval.estimate)
        improved = self.best_so_far.update(evaluator, anytime=self.until_width is not None)
        self._write_evaluations(returns, lengths)
        self._log(interval, lengths)
        goes_on = True
        if improved:
            self._say("New best mean reward!")
            if self.best_model_save_path is not None:
                self.model.save(os.path.join(self.best_model_save_path, "best_model"))
            self.best_mean_reward = self.last_mean_reward
            if self.callback_on_new_best is not None:
                goes_on = self.callback_on_new_best.on_step()
        if self.callback is not None:
            goes_on = goes_on and self._on_event()
        if self.stop_above is not None and self.best_so_far.is_above(self.stop_above):
            self._say(f"Stopping training because the mean reward is known to be above {self.stop_above:g}")
            return False
        return bool(goes_on)

    def _synchronise(self) -> None:
        """Copy the statistics of a `VecNormalize` from the training's environment."""
        if self.model.get_vec_normalize_env() is not None:
            try:
                sync_envs_normalization(self.training_env, self.eval_env)
            except (AttributeError, AssertionError):
                raise SettingError(
                    "the training's environment is wrapped in VecNormalize and eval_env is not; wrap it likewise, as "
                    "VecNormalize(eval_env, training=False, norm_reward=False)"
                ) from None

    def _play(self) -> tuple[Evaluator, list[float], list[int]]:
        """Play episodes until there are enough; Stable-Baselines3 assigns them to the environments beforehand."""
        evaluator = Evaluator(DoublyRobust(1))
        returns: list[float] = []
        lengths: list[int] = []
        self._is_success_buffer: list[bool] = []
        while number := self._missing(evaluator):
            if self.seed is not None:
                fresh = np.random.SeedSequence((self.seed, self.best_so_far.evaluations, len(returns)))
                self.eval_env.seed(int(fresh.generate_state(1)[0]) >> 2)  # environment i adds i: still a C int
            earned, took = evaluate_policy(
                self.model,
                self.eval_env,
                n_eval_episodes=number,
                render=self.render,
                deterministic=self.deterministic,
                return_episode_rewards=True,
                warn=self.warn,
                callback=self._log_success_callback,
            )
            evaluator.update(Transitions.from_returns(earned))
            returns += earned
            lengths += took
        return evaluator, returns, lengths

    def _missing(self, evaluator: Evaluator) -> int:
        """Return how many episodes to play before the next look; 0: none."""
        n = evaluator.episodes
        left = int(self.n_eval_episodes) - n
        if self.until_width is None or not left:
            return left
        if not n:
            return min(FEWEST["episodes"], left)
        if evaluator.is_decided(width=self.until_width, level=self.level):
            return 0
        width = float(evaluator.interval(level=self.level, kind="anytime").width)
        expected = n * ((width / float(self.until_width)) ** 2 - 1)  # widths shrink with the root of the number
        return min(ceil(min(max(expected, n / 4), n)), left)

    def _write_evaluations(self, returns: list[float], lengths: list[int]) -> None:
        """Write evaluations.npz, as Stable-Baselines3 does."""
        if self.log_path is None:
            return
        self.evaluations_timesteps.append(self.num_timesteps)
        self.evaluations_results.append(returns)
        self.evaluations_length.append(lengths)
        columns = {"results": self.evaluations_results, "ep_lengths": self.evaluations_length}
        if self._is_success_buffer:
            self.evaluations_successes.append(self._is_success_buffer)
            columns["successes"] = self.evaluations_successes
        filled: dict[str, Any] = {name: _filled(rows) for name, rows in columns.items()}
        np.savez(self.log_path, timesteps=self.evaluations_timesteps, **filled)

    def _log(self, interval: Interval, lengths: list[int]) -> None:
        """Write to the logger of Stable-Baselines3."""
        numbers = brief(interval.estimate, interval.lower, interval.upper)
        self._say(f"Eval num_timesteps={self.num_timesteps}, episode_reward={numbers}, {len(lengths)} episodes")
        self._say(f"Episode length: {np.mean(lengths):.2f} +/- {np.std(lengths):.2f}")
        self.logger.record("eval/mean_reward", self.last_mean_reward)
        self.logger.record("eval/mean_reward_lower", float(interval.lower))
        self.logger.record("eval/mean_reward_upper", float(interval.upper))
        self.logger.record("eval/mean_ep_length", float(np.mean(lengths)))
        if self._is_success_buffer:
            rate = float(np.mean(self._is_success_buffer))
            self._say(f"Success rate: {100 * rate:.2f}%")
            self.logger.record("eval/success_rate", rate)
        self.logger.record("time/total_timesteps", self.num_timesteps, exclude="tensorboard")
        self.logger.dump(self.num_timesteps)

    def _say(self, words: str) -> None:
        if self.verbose >= 1:
            print(words)


class ClientCallback(callbacks.BaseCallback):
    """Sends the steps of a training to a service, where an experiment evaluates the policy while it learns.

    Rows are those of `inferl.sources.ClientWrapper`, environment i is stream i, and there are two more columns:
    ``version``, the number of updates of the model so far, and ``action_logp``, if the algorithm knows the
    log-probability of its actions. A policy that learns changes, so give the experiment a window, or evaluate each
    version by itself. The training does not wait for the service.

    Observations and rewards are those of the environment, also where the training normalises them with `VecNormalize`.
    If the training is continued by another callback, environments are sent from their next episode on.

    Parameters
    ----------
    client
        An `inferl.service.client.Client`, which is not closed with the training.
    features
        Turns observations into the features that are sent, as for `inferl.sources.ClientWrapper`.
    verbose
        As in Stable-Baselines3.

    Examples
    --------
    ::

        with Client("http://127.0.0.1:8000", "training") as client:
            PPO("MlpPolicy", "CartPole-v1").learn(100_000, ClientCallback(client))
    """

    def __init__(self, client: Rows, features: Any = None, verbose: int = 0) -> None:
        super().__init__(verbose)
        self._client, self._features = client, features
        self._sender: StepSender | None = None
        self._pairing: Pairing | None = None
        self._latest: Any = None  # observations of the model after the latest step

    def _on_training_start(self) -> None:
        """Begin with the present observations, unless the training goes on where it was."""
        if self._pairing is not None and self.model._last_obs is self._latest:
            return
        normalised = self.model.get_vec_normalize_env()
        env = self.training_env if normalised is None else normalised
        if self._sender is None:
            self._sender = StepSender(self._client, self._features, env.observation_space)
        about = SimpleNamespace(num_envs=env.num_envs, metadata={"autoreset_mode": AutoresetMode.SAME_STEP})
        self._pairing = Pairing(about)  # type: ignore[arg-type]  # all that it asks of an environment
        self._pairing.reset(self.model._last_obs if normalised is None else normalised.get_original_obs())
        if self.model.num_timesteps:  # in the middle of episodes
            self._pairing.ended = np.ones(env.num_envs, np.bool_)

    def _on_step(self) -> bool:
        """Send a step of each environment."""
        assert self._pairing is not None and self._sender is not None
        said = self.locals
        observations, rewards, infos = said["new_obs"], said["rewards"], said["infos"]
        final = [info.get("terminal_observation") for info in infos]
        normalised = self.model.get_vec_normalize_env()
        if normalised is not None:
            observations, rewards = normalised.get_original_obs(), normalised.get_original_reward()
            final = [one if one is None else normalised.unnormalize_obs(one) for one in final]
        limited = np.array([bool(info.get("TimeLimit.truncated")) for info in infos])
        actions = said["clipped_actions"] if "clipped_actions" in said else said["actions"]
        ends = said["dones"] & ~limited, said["dones"] & limited
        steps = self._pairing.step(actions, (observations, rewards, *ends, {"final_obs": final}))
        if steps:
            further: dict[str, list[Any]] = {"version": [int(getattr(self.model, "_n_updates", 0))] * len(steps)}
            if "log_probs" in said:
                log_probs = said["log_probs"].cpu().numpy().reshape(-1)
                further["action_logp"] = [float(log_probs[step.stream]) for step in steps]
            self._sender.send(steps, further)
        self._latest = said["new_obs"]
        return True


def _filled(rows: list[Any]) -> NDArray[Any]:
    """Return rows as an array; if their lengths differ, the shorter ones are filled up with NaN.

    >>> _filled([[1, 2], [3]])
    array([[ 1.,  2.], [ 3., nan]])
    """
    longest = max(map(len, rows))
    if all(len(row) == longest for row in rows):
        return np.array(rows)
    return np.array([[*row, *[np.nan] * (longest - len(row))] for row in rows], np.float64)
