"""Wrappers that listen while other code steps the environment, and those that feed an evaluator with what they hear."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, SupportsFloat

import numpy as np
from numpy.typing import ArrayLike

from inferl.data.arrays import Bools
from inferl.data.batches import copied, stacked
from inferl.errors import MissingExtraError, SettingError
from inferl.evaluator import Evaluator
from inferl.features import Features
from inferl.features.one_hot import as_features
from inferl.interval import Interval, check_level
from inferl.sources.starts import Starts
from inferl.sources.steps import Step, check_discount, check_space, limit_ends, transitions, with_starts
from inferl.sources.vector import Pairing

try:
    import gymnasium
    from gymnasium.vector import VectorEnv, VectorWrapper
except ImportError:
    raise MissingExtraError("gymnasium", "gym") from None

__all__ = ["EvaluatorWrapper", "Listener", "VectorEvaluatorWrapper", "VectorListener"]


class Listener(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Hears each step of an environment, which behaves as before; `stream` is the label of the steps."""

    def __init__(self, env: gymnasium.Env[Any, Any], stream: int = 0) -> None:
        super().__init__(env)
        check_space(env.observation_space)
        self._stream = stream
        self._observation: Any = None  # None: no episode is under way
        self._first = True

    def heard(self, step: Step, info: dict[str, Any]) -> None:
        """Take a step; `info` may be added to."""
        raise NotImplementedError

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset the environment; an episode under way is left without an end."""
        observation, info = super().reset(seed=seed, options=options)
        self._observation, self._first = copied(observation), True
        return observation, info

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Step the environment, and hear the transition."""
        observation, reward, terminated, truncated, info = super().step(action)
        before, self._observation = self._observation, copied(observation)
        if before is None:  # a step after the end: gymnasium.wrappers.Autoreset has turned it into a reset
            self._first = True
            return observation, reward, terminated, truncated, info
        last = bool(terminated or truncated)
        after, first = self._observation, self._first
        self._observation, self._first = None if last else after, False
        self.heard(Step(before, action, float(reward), after, bool(terminated), last, first, 0, self._stream), info)
        return observation, reward, terminated, truncated, info


class VectorListener(VectorWrapper[Any, Any, Any, Any, Any]):
    """`Listener` for a vector environment, under any autoreset mode; sub-environment i is stream ``stream + i``."""

    def __init__(self, env: VectorEnv[Any, Any, Any], stream: int = 0) -> None:
        super().__init__(env)
        check_space(env.single_observation_space)
        self._stream = stream
        self._pairing = Pairing(env)

    def heard(self, steps: list[Step], result: tuple[Any, Any, Any, Any, dict[str, Any]]) -> None:
        """Take steps, one at least, of those that made a result; its `infos` may be added to."""
        raise NotImplementedError

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset all sub-environments, or those in ``options["reset_mask"]``."""
        # Copied before the call, because the environment removes the mask from its options.
        mask = None if options is None or "reset_mask" not in options else np.array(options["reset_mask"])
        inner: Any = self.env  # many accept a list of seeds, which the base class does not declare
        observations, infos = inner.reset(seed=seed, options=options)
        self._pairing.reset(observations, mask)
        return observations, infos

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step all sub-environments, and hear the transitions."""
        result = self.env.step(actions)
        steps = [step._replace(stream=self._stream + step.stream) for step in self._pairing.step(actions, result)]
        if steps:
            self.heard(steps, result)
        return result


@dataclass(eq=False)
class _Feed:
    """Feeds steps to an evaluator, and reads the interval when it is due."""

    evaluator: Evaluator
    features: Features
    discount: float
    target: ArrayLike | None
    every: int | None
    level: float
    key: str
    time_limit: str | None
    starts: Starts = field(init=False, default_factory=Starts)
    n: int = field(init=False, default=0)
    ends: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        self.features = as_features(self.features)
        self.discount = check_discount(self.discount)
        self.ends = limit_ends(self.time_limit, self.discount)
        check_level(self.level)
        if self.every is not None and self.every < 1:
            raise SettingError(f"every is {self.every}; read after at least one step, or None: where episodes end")

    def observe(self, step: Step, ratio: float) -> bool:
        """Feed one step, and return whether a reading is due."""
        phi = self.features(stacked([step.observation, step.next_observation]))
        limited = step.last and not step.terminated
        discount = 0.0 if step.terminated or (limited and self.ends) else self.discount
        # `first` is passed only where it is set: `observe` is faster for ordinary steps.
        first = True if step.first else None
        self.evaluator.observe(
            phi[0], step.reward, phi[1], discount, ratio, first, step.last, stream=step.stream, truncated=limited
        )
        if step.first:
            self.starts = self.starts.updated(phi[:1], self.features.dimension if phi.ndim == 1 else None)
        return self._due(1, step.last)

    def take(self, steps: list[Step], ratios: ArrayLike) -> bool:
        """Feed several steps, and return whether a reading is due."""
        chunk = transitions(steps, self.features, self.discount, ratios, labelled=False, ends=self.ends)
        self.evaluator.update(chunk)
        self.starts = with_starts(self.starts, steps, chunk, self.features)
        return self._due(len(steps), bool(chunk.last.any()))

    def _due(self, steps: int, last: bool) -> bool:
        before, self.n = self.n, self.n + steps
        return last if self.every is None else self.n // self.every > before // self.every

    def interval(self) -> Interval:
        return self.evaluator.interval(self.starts if self.target is None else self.target, self.level)

    def free(self, info: dict[str, Any]) -> None:
        """Refuse to overwrite the entry of another wrapper."""
        if self.key in info:
            raise SettingError(f"info[{self.key!r}] is used by another wrapper; choose another key")


class EvaluatorWrapper(Listener):
    """Feeds an evaluator with the steps of an environment, and puts the interval into ``info["inferl"]``.

    The environment behaves as before, except that `info` has one more entry, an `Interval`, where an episode ends. Each
    step is one transition; where an episode is truncated, the true last observation and the discount are kept; no
    transition leads across a reset. The policy must not change while one evaluator watches it.

    Parameters
    ----------
    env
        The environment to watch; for a vector environment use `VectorEvaluatorWrapper`.
    evaluator
        Receives the transitions. Several wrappers may share one, each with its own `stream`.
    features
        Turns observations into features; a ``Discrete`` space stands for its `OneHot`.
    discount
        gamma, in (0, 1].
    target
        Target of the interval, as in `Evaluator.interval`; None: the observed start distribution.
    ratio
        Function of an observation and the action taken there: the importance ratio, for example
        ``inferl.policies.Ratio(target, behaviour)``. None: the policy that acts is evaluated.
    every
        Number of steps between two readings; None: a reading where an episode ends.
    level
        Confidence level of the interval.
    stream
        Stream label of the steps.
    key
        Name of the entry in `info`.
    time_limit
        What a truncation means: ``"ends"`` or ``"cut"``, as in `inferl.sources.rollout`.

    Examples
    --------
    >>> import gymnasium, inferl
    >>> env = gymnasium.make("FrozenLake-v1", is_slippery=False)
    >>> evaluator = inferl.Evaluator(inferl.TD(16))
    >>> env = EvaluatorWrapper(env, evaluator, env.observation_space, discount=0.9)
    >>> for episode in range(50):
    ...     observation, info = env.reset(seed=episode)
    ...     for action in (2, 2, 1, 1, 1, 2):
    ...         observation, reward, terminated, truncated, info = env.step(action)
    >>> interval = info["inferl"]  # of the start: the goal is six steps away, 0.9^5 = 0.59049
    >>> print(f"{interval.estimate:.5f} after {interval.n} transitions")
    0.59049 after 300 transitions
    """

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        evaluator: Evaluator,
        features: Any,
        discount: float,
        target: ArrayLike | None = None,
        ratio: Callable[[Any, Any], float] | None = None,
        every: int | None = None,
        level: float = 0.95,
        stream: int = 0,
        key: str = "inferl",
        time_limit: str | None = None,
    ) -> None:
        super().__init__(env, stream)
        self._feed = _Feed(evaluator, features, discount, target, every, level, key, time_limit)
        self._ratio = ratio

    @property
    def evaluator(self) -> Evaluator:
        """The evaluator that is fed."""
        return self._feed.evaluator

    def interval(self) -> Interval:
        """Return the present interval."""
        return self._feed.interval()

    def heard(self, step: Step, info: dict[str, Any]) -> None:
        """Feed the transition, and put the interval into `info` if it is due."""
        self._feed.free(info)
        if self._feed.observe(step, 1.0 if self._ratio is None else self._ratio(step.observation, step.action)):
            info[self._feed.key] = self.interval()


class VectorEvaluatorWrapper(VectorListener):
    """`EvaluatorWrapper` for a vector environment, under any autoreset mode.

    Sub-environment i is stream ``stream + i``. As usual in vector environments, ``infos["inferl"]`` is an array with
    one entry for each sub-environment, and ``infos["_inferl"]`` says which entries are set: those whose episode has
    just ended, or all of them at a reading of `every`. They hold the same `Interval`, because there is one evaluator.

    Parameters
    ----------
    env
        The vector environment to watch.
    evaluator, features, discount, target, every, level, key
        As for `EvaluatorWrapper`.
    ratio
        Function of n observations and n actions: the importance ratios (n,), for example
        ``inferl.policies.Ratio(target, behaviour).batch``.
    stream
        Label of the first sub-environment.

    Examples
    --------
    >>> import gymnasium, inferl
    >>> envs = gymnasium.make_vec("FrozenLake-v1", num_envs=2, vectorization_mode="sync", is_slippery=False)
    >>> evaluator = inferl.Evaluator(inferl.TD(16))
    >>> envs = VectorEvaluatorWrapper(envs, evaluator, envs.single_observation_space, discount=0.9)
    >>> observations, infos = envs.reset(seed=0)
    >>> for action in (2, 2, 1, 1, 1, 2):
    ...     observations, rewards, terminated, truncated, infos = envs.step(np.array([action, 0]))
    >>> infos["_inferl"], infos["inferl"][0].n
    (array([ True, False]), 12)
    """

    def __init__(
        self,
        env: VectorEnv[Any, Any, Any],
        evaluator: Evaluator,
        features: Any,
        discount: float,
        target: ArrayLike | None = None,
        ratio: Callable[[Any, Any], ArrayLike] | None = None,
        every: int | None = None,
        level: float = 0.95,
        stream: int = 0,
        key: str = "inferl",
        time_limit: str | None = None,
    ) -> None:
        super().__init__(env, stream)
        self._feed = _Feed(evaluator, features, discount, target, every, level, key, time_limit)
        self._ratio = ratio

    @property
    def evaluator(self) -> Evaluator:
        """The evaluator that is fed."""
        return self._feed.evaluator

    def interval(self) -> Interval:
        """Return the present interval."""
        return self._feed.interval()

    def heard(self, steps: list[Step], result: tuple[Any, Any, Any, Any, dict[str, Any]]) -> None:
        """Feed the transitions, and put the interval into the `infos` if it is due."""
        infos = result[4]
        self._feed.free(infos)
        if self._feed.take(steps, self._ratios(steps)):
            counts: Bools = np.logical_or(result[2], result[3])
            if self._feed.every is not None:
                counts = np.ones(self.num_envs, np.bool_)
            intervals = np.full(self.num_envs, None, dtype=object)
            interval = self.interval()
            for i in np.flatnonzero(counts):
                intervals[i] = interval
            infos[self._feed.key], infos[f"_{self._feed.key}"] = intervals, counts

    def _ratios(self, steps: list[Step]) -> ArrayLike:
        if self._ratio is None:
            return 1.0
        return self._ratio(stacked([step.observation for step in steps]), stacked([step.action for step in steps]))
