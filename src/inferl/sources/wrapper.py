"""Wrappers that feed an evaluator while somebody else steps the environment."""

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

__all__ = ["EvaluatorWrapper", "VectorEvaluatorWrapper"]


@dataclass(eq=False)
class _Feed:
    """Hands steps on to an evaluator, and reads it when it is time."""

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
        """Hand one step on, and say whether it is time to read."""
        phi = self.features(stacked([step.observation, step.next_observation]))
        limited = step.last and not step.terminated
        discount = 0.0 if step.terminated or (limited and self.ends) else self.discount
        # A border is said only where there is one: other steps are ordinary, and quick.
        first = True if step.first else None
        self.evaluator.observe(
            phi[0], step.reward, phi[1], discount, ratio, first, step.last, stream=step.stream, truncated=limited
        )
        if step.first:
            self.starts = self.starts.updated(phi[:1], self.features.dimension if phi.ndim == 1 else None)
        return self._due(1, step.last)

    def take(self, steps: list[Step], ratios: ArrayLike) -> bool:
        """Hand several steps on, and say whether it is time to read."""
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
        """Refuse to overwrite what another wrapper has said."""
        if self.key in info:
            raise SettingError(f"info[{self.key!r}] is taken by another wrapper; choose another key")


class EvaluatorWrapper(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Watches an environment for an evaluator, and puts the interval into ``info["inferl"]`` where an episode ends.

    The environment behaves as before: only `info` has one entry more, an `Interval`. A transition is fed at each step;
    where the episode is cut off, its true last observation and the discount are kept; none leads across a reset. The
    policy that steps the environment should stay the same for as long as one evaluator watches it.

    Parameters
    ----------
    env
        The environment to watch. For a vector environment there is `VectorEvaluatorWrapper`.
    evaluator
        Takes in the transitions. Several wrappers may share one, each with its own `stream`.
    features
        Turns observations into features; a ``Discrete`` space stands for its `OneHot`.
    discount
        gamma, in (0, 1].
    target
        What the interval is of, as in `Evaluator.interval`; None: the average of the starts that were seen.
    ratio
        Function of an observation and the action taken there: the importance ratio, for example
        ``inferl.policies.Ratio(target, behaviour)``. None: the policy that acts is evaluated.
    every
        Read the interval every so many steps, instead of where episodes end.
    level
        Of the interval.
    stream
        Label of the environment's steps.
    key
        Name of the entry in `info`.
    time_limit
        Of truncated episodes: ``"ends"`` or ``"cut"``, as in `inferl.sources.rollout`.

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
        super().__init__(env)
        check_space(env.observation_space)
        self._feed = _Feed(evaluator, features, discount, target, every, level, key, time_limit)
        self._ratio, self._stream = ratio, stream
        self._observation: Any = None  # None: no episode is under way
        self._first = True

    @property
    def evaluator(self) -> Evaluator:
        """The evaluator that is fed."""
        return self._feed.evaluator

    def interval(self) -> Interval:
        """Return the interval as it is now."""
        return self._feed.interval()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset the environment; an episode that has not ended is left without an end."""
        observation, info = super().reset(seed=seed, options=options)
        self._observation, self._first = copied(observation), True
        return observation, info

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Step the environment, and feed the transition."""
        observation, reward, terminated, truncated, info = super().step(action)
        before, self._observation = self._observation, copied(observation)
        if before is None:  # a step after the end: gymnasium.wrappers.Autoreset has made a reset of it
            self._first = True
            return observation, reward, terminated, truncated, info
        last = bool(terminated or truncated)
        after, first = self._observation, self._first
        self._observation, self._first = None if last else after, False
        self._feed.free(info)
        step = Step(before, action, float(reward), after, bool(terminated), last, first, 0, self._stream)
        if self._feed.observe(step, 1.0 if self._ratio is None else self._ratio(before, action)):
            info[self._feed.key] = self.interval()
        return observation, reward, terminated, truncated, info


class VectorEvaluatorWrapper(VectorWrapper[Any, Any, Any, Any, Any]):
    """`EvaluatorWrapper` for a vector environment, under any autoreset mode.

    Sub-environment i is stream ``stream + i``. As always in vector environments, ``infos["inferl"]`` is an array with
    one entry a sub-environment, and ``infos["_inferl"]`` says which of them count: those whose episode has just ended,
    or all of them every so many steps. They hold the same `Interval`, because there is one evaluator.

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
        super().__init__(env)
        check_space(env.single_observation_space)
        self._feed = _Feed(evaluator, features, discount, target, every, level, key, time_limit)
        self._ratio, self._stream = ratio, stream
        self._pairing = Pairing(env)

    @property
    def evaluator(self) -> Evaluator:
        """The evaluator that is fed."""
        return self._feed.evaluator

    def interval(self) -> Interval:
        """Return the interval as it is now."""
        return self._feed.interval()

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset all sub-environments, or those in ``options["reset_mask"]``."""
        # Read and copied before, because the environment takes the mask out of the options that it is given.
        mask = None if options is None or "reset_mask" not in options else np.array(options["reset_mask"])
        inner: Any = self.env  # many take a list of seeds, though the base class does not say so
        observations, infos = inner.reset(seed=seed, options=options)
        self._pairing.reset(observations, mask)
        return observations, infos

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step all sub-environments, and feed the transitions."""
        result = self.env.step(actions)
        steps = [step._replace(stream=self._stream + step.stream) for step in self._pairing.step(actions, result)]
        if not steps:
            return result
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
        return result

    def _ratios(self, steps: list[Step]) -> ArrayLike:
        if self._ratio is None:
            return 1.0
        return self._ratio(stacked([step.observation for step in steps]), stacked([step.action for step in steps]))
