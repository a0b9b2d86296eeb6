"""Transitions from a Gymnasium environment, as a policy acts in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from inferl.errors import MissingExtraError, SettingError
from inferl.features import Features
from inferl.policies import Policy, as_policy
from inferl.transitions import Transitions

if TYPE_CHECKING:
    from gymnasium import Env

__all__ = ["Rollout", "import_gymnasium", "rollout"]


class _Step(NamedTuple):
    observation: Any
    reward: float
    next_observation: Any  # the true one, also where the episode ends
    terminated: bool
    last: bool  # terminated or truncated
    episode: int


@dataclass(eq=False)
class _Play:
    """A policy at play: the only thing here that changes with time."""

    env: Env[Any, Any]
    policy: Policy
    seed: int
    generator: np.random.Generator
    observation: Any = None
    open: bool = False  # whether an episode is under way
    episode: int = -1

    def step(self) -> _Step:
        """Play one step, after a reset if none is under way."""
        if not self.open:
            # Seeded once: the environment's own generator then runs on through all episodes.
            self.observation, _ = self.env.reset(seed=self.seed) if self.episode < 0 else self.env.reset()
            self.open, self.episode = True, self.episode + 1
        before = np.array(self.observation)  # a copy, because an environment may reuse its buffer
        action = self.policy(self.observation, self.generator)
        self.observation, reward, terminated, truncated, _ = self.env.step(action)
        self.open = not (terminated or truncated)
        after = np.array(self.observation)
        return _Step(before, float(reward), after, bool(terminated), not self.open, self.episode)


@dataclass(frozen=True, eq=False)
class Rollout:
    """A policy acting in an environment, ready to be asked for transitions; made by `rollout`.

    Attributes
    ----------
    env
        The environment.
    policy
        Draws an action from an observation and a generator.
    features
        Turns observations into features: ``source.features(observation)`` is a target for an evaluator.
    discount
        Of every step that does not terminate its episode.
    seed
        Of the environment and of the actions.
    chunk
        Number of steps in a `Transitions` object.

    Examples
    --------
    >>> import gymnasium, inferl
    >>> env = gymnasium.make("FrozenLake-v1", map_name="8x8")
    >>> source = inferl.sources.rollout(env, lambda observation: 2, inferl.OneHot(64), discount=0.99)
    >>> evaluator = inferl.Evaluator(inferl.TD(64)).update(source.take(episodes=10))
    >>> evaluator.episodes
    10
    """

    env: Env[Any, Any]
    policy: Policy
    features: Features
    discount: float
    seed: int
    chunk: int
    _play: _Play = field(init=False, repr=False)

    def __post_init__(self) -> None:
        # Not default_rng(seed) itself: the environment seeds its own generator so, and the actions would be drawn from
        # the very numbers that the environment's chances are drawn from.
        generator = np.random.default_rng(np.random.SeedSequence(self.seed).spawn(1)[0])
        object.__setattr__(self, "_play", _Play(self.env, self.policy, self.seed, generator))

    def take(self, episodes: int | None = None, steps: int | None = None) -> Iterator[Transitions]:
        """Play on, and yield the transitions in chunks as they come.

        Parameters
        ----------
        episodes
            Stop when this many episodes have ended. One that an earlier call left open counts.
        steps
            Stop after this many steps, also in mid-episode: the next call goes on from there.

        Examples
        --------
        >>> import gymnasium, inferl
        >>> env = gymnasium.make("FrozenLake-v1", map_name="8x8")
        >>> source = inferl.sources.rollout(env, lambda observation: 2, inferl.OneHot(64), discount=0.99)
        >>> [len(chunk) for chunk in source.take(steps=600)]
        [256, 256, 88]
        >>> [int(chunk.last.sum()) for chunk in source.take(episodes=3)]
        [3]
        """
        if (episodes is None) == (steps is None):
            raise SettingError("say either how many episodes to take or how many steps")
        amount = episodes if steps is None else steps
        assert amount is not None
        if amount < 0:
            raise SettingError(f"cannot take {amount} {'episodes' if steps is None else 'steps'}")
        return self._chunks(amount, (lambda step: step.last) if steps is None else (lambda step: True))

    def _chunks(self, remaining: int, counts: Callable[[_Step], bool]) -> Iterator[Transitions]:
        while remaining > 0:
            rows: list[_Step] = []
            while remaining > 0 and len(rows) < self.chunk:
                rows.append(self._play.step())
                remaining -= counts(rows[-1])
            yield self._transitions(rows)

    def _transitions(self, rows: list[_Step]) -> Transitions:
        before, rewards, after, terminated, last, episode = zip(*rows, strict=True)
        return Transitions(
            self.features(np.stack(before)),
            rewards,
            self.features(np.stack(after)),
            np.where(terminated, 0.0, self.discount),
            last=last,
            # Labels, not `first`: so an evaluator that missed some chunks still sees where a new episode begins.
            episode=episode,
        )


def rollout(
    env: Env[Any, Any],
    policy: ArrayLike | Callable[[Any], Any],
    features: Features,
    discount: float,
    seed: int = 0,
    chunk: int = 256,
) -> Rollout:
    """Let a policy act in a Gymnasium environment, and take transitions from it.

    Where an episode terminates, the discount is 0. Where it is cut off (truncated), the discount and the true last
    observation are kept: the value goes on beyond the cut. No transition leads across a reset.

    Parameters
    ----------
    env
        A Gymnasium environment (a single one).
    policy
        A table (states, actions) of probabilities, or a function from an observation to an action.
    features
        Turns observations into features, for example ``OneHot(64)``.
    discount
        gamma, in (0, 1].
    seed
        Of the environment and of the actions.
    chunk
        Number of steps in a `Transitions` object.

    Examples
    --------
    >>> import gymnasium, inferl
    >>> env = gymnasium.make("FrozenLake-v1", is_slippery=False)
    >>> path = iter([2, 2, 1, 1, 1, 2])  # right, right, down, down, down, right: the goal
    >>> source = rollout(env, lambda observation: next(path), inferl.OneHot(16), discount=0.9)
    >>> (chunk,) = source.take(episodes=1)
    >>> chunk.features.tolist(), chunk.rewards.tolist()
    ([0, 1, 2, 6, 10, 14], [0.0, 0.0, 0.0, 0.0, 0.0, 1.0])
    >>> chunk.next_features.tolist(), chunk.discounts.tolist()
    ([1, 2, 6, 10, 14, 15], [0.9, 0.9, 0.9, 0.9, 0.9, 0.0])
    """
    gymnasium = import_gymnasium()
    if not isinstance(env, gymnasium.Env):
        raise SettingError(f"env is a {type(env).__name__}, not a gymnasium.Env; vector environments are not taken yet")
    if not 0 < discount <= 1:
        raise SettingError(f"discount is {discount}; it lies in (0, 1], because 0 marks the end of an episode")
    if chunk < 1:
        raise SettingError(f"chunk is {chunk}; it needs at least one step")
    return Rollout(env, as_policy(policy), features, float(discount), seed, chunk)


def import_gymnasium() -> ModuleType:
    """Import Gymnasium, or say how to install it."""
    try:
        import gymnasium
    except ImportError:
        raise MissingExtraError("gymnasium", "gym") from None
    return gymnasium
