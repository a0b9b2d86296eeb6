"""Transitions from a Gymnasium environment, single or vector, as a policy acts in it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from inferl.data.arrays import as_count
from inferl.data.batches import copied, stacked
from inferl.data.transitions import Transitions
from inferl.errors import SettingError
from inferl.features import Features
from inferl.features.one_hot import as_features
from inferl.policies import Policy, Ratio, as_policy
from inferl.sources.starts import Starts
from inferl.sources.steps import (
    Step,
    check_action,
    check_discount,
    check_space,
    import_gymnasium,
    limit_ends,
    transitions,
    with_starts,
)
from inferl.sources.vector import VectorPlay

if TYPE_CHECKING:
    from gymnasium import Env
    from gymnasium.vector import VectorEnv

__all__ = ["Rollout", "import_gymnasium", "rollout"]


@dataclass(eq=False)
class Play:
    """A policy at play in a single environment."""

    env: Env[Any, Any]
    policy: Policy
    seed: int
    generator: np.random.Generator
    observation: Any = None
    open: bool = False  # whether an episode is under way
    episode: int = -1

    def play(self) -> list[Step]:
        """Play one step, after a reset if none is under way."""
        first = not self.open
        if first:
            # Seeded once: the environment's own generator then runs on through all episodes.
            self.observation, _ = self.env.reset(seed=self.seed) if self.episode < 0 else self.env.reset()
            self.open, self.episode = True, self.episode + 1
        before = copied(self.observation)  # because an environment may reuse its buffer
        action = self.policy(self.observation, self.generator.random())
        check_action(action, self.env.action_space)
        self.observation, reward, terminated, truncated, _ = self.env.step(action)
        self.open = not (terminated or truncated)
        after = copied(self.observation)
        step = Step(
            before, action, float(reward), after, bool(terminated), not self.open, first, self.episode, stream=0
        )
        return [step]


@dataclass(frozen=True, eq=False)
class Rollout:
    """A policy acting in an environment, ready to be asked for transitions; made by `rollout`.

    Attributes
    ----------
    env
        The environment, single or vector.
    policy
        Chooses actions.
    features
        Turns observations into features: ``source.features(observation)`` is a target for an evaluator.
    discount
        Of every step that does not terminate its episode.
    seed
        Of the environment and of the actions.
    chunk
        Number of steps in a `Transitions` object.
    ratio
        Of the policy that is evaluated to the one that acts, or None where they are the same.
    ends
        Whether a time limit ends an episode, or cuts it off.

    Examples
    --------
    >>> import gymnasium, inferl
    >>> env = gymnasium.make("FrozenLake-v1", map_name="8x8")
    >>> source = inferl.sources.rollout(env, lambda observation: 2, inferl.features.OneHot(64), discount=0.99)
    >>> evaluator = inferl.Evaluator(inferl.TD(64)).update(source.take(episodes=10))
    >>> evaluator.episodes
    10
    """

    env: Env[Any, Any] | VectorEnv[Any, Any, Any]
    policy: Policy
    features: Features
    discount: float
    seed: int
    chunk: int
    ratio: Ratio | None
    ends: bool
    _play: Play | VectorPlay = field(repr=False)
    _waiting: deque[Step] = field(init=False, repr=False, default_factory=deque)  # played, and not yet taken
    _starts: Starts = field(init=False, repr=False, default_factory=Starts)

    def take(self, episodes: int | None = None, steps: int | None = None) -> Iterator[Transitions]:
        """Play on, and yield the transitions in chunks as they come.

        Parameters
        ----------
        episodes
            Stop when this many episodes have ended, in whichever stream. One that an earlier call left open counts.
        steps
            Stop after this many steps, also in mid-episode: the next call goes on from there.

        Examples
        --------
        >>> import gymnasium, inferl
        >>> env = gymnasium.make("FrozenLake-v1", map_name="8x8")
        >>> source = inferl.sources.rollout(env, lambda observation: 2, inferl.features.OneHot(64), discount=0.99)
        >>> [len(chunk) for chunk in source.take(steps=600)]
        [256, 256, 88]
        >>> [int(chunk.last.sum()) for chunk in source.take(episodes=3)]
        [3]
        """
        if (episodes is None) == (steps is None):
            raise SettingError("say either how many episodes to take or how many steps")
        amount = episodes if steps is None else steps
        assert amount is not None
        as_count("episodes" if steps is None else "steps", amount, 0)
        return self._chunks(amount, (lambda step: step.last) if steps is None else (lambda step: True))

    def start(self) -> Starts:
        """Return the average features of the starts taken so far: a target, for the observed starts.

        Examples
        --------
        >>> import gymnasium, inferl
        >>> env = gymnasium.make("CliffWalking-v1")  # starts in state 36
        >>> source = inferl.sources.rollout(env, lambda observation: 0, env.observation_space, discount=0.9)
        >>> chunks = list(source.take(steps=10))
        >>> np.asarray(source.start()).nonzero()[0].tolist()
        [36]
        """
        return self._starts.of(self.start)

    @property
    def endless(self) -> bool:
        """Whether iterating never ends, so that an evaluator cannot take in all of it."""
        return True

    def __iter__(self) -> Iterator[Transitions]:
        """Play on for ever, and yield the transitions in chunks: for `Evaluator.until`, or a loop that breaks.

        >>> import gymnasium, inferl
        >>> env = gymnasium.make("FrozenLake-v1")
        >>> source = inferl.sources.rollout(env, [[0.25] * 4] * 16, env.observation_space, discount=0.9)
        >>> evaluator = inferl.Evaluator(inferl.DoublyRobust(16))
        >>> for chunk in evaluator.until(source, width=0.02):
        ...     pass
        >>> bool(evaluator.interval(kind="anytime").width <= 0.02)
        True
        """
        return self._chunks(1, lambda step: False)

    def _chunks(self, remaining: int, counts: Callable[[Step], bool]) -> Iterator[Transitions]:
        while remaining > 0:
            taken: list[Step] = []
            while remaining > 0 and len(taken) < self.chunk:
                while not self._waiting:  # a vector environment that only resets gives nothing
                    self._waiting.extend(self._play.play())
                taken.append(self._waiting.popleft())
                remaining -= counts(taken[-1])
            yield self._transitions(taken)

    def _transitions(self, taken: list[Step]) -> Transitions:
        chunk = transitions(taken, self.features, self.discount, ends=self.ends)
        object.__setattr__(self, "_starts", with_starts(self._starts, taken, chunk, self.features))
        if self.ratio is None:
            return chunk
        observations, actions = stacked([step.observation for step in taken]), [step.action for step in taken]
        return chunk.with_ratios(self.ratio.batch(observations, stacked(actions)))


def rollout(
    env: Env[Any, Any] | VectorEnv[Any, Any, Any],
    policy: Any,
    features: Any,
    discount: float,
    seed: int = 0,
    chunk: int = 256,
    target_policy: Any = None,
    time_limit: str | None = None,
) -> Rollout:
    """Let a policy act in a Gymnasium environment, and take transitions from it.

    Where an episode terminates, the discount is 0. What a time limit does is said by `time_limit`. No
    transition leads across a reset, under any autoreset mode of a vector environment.

    Each sub-environment of a vector environment is a stream. Number i is seeded with seed + i, as Gymnasium does, and
    takes the same steps as it would alone with that seed. So runs of n sub-environments that should be independent need
    seeds that lie n apart.

    Parameters
    ----------
    env
        A Gymnasium environment, single or vector.
    policy
        Chooses the actions: a table (states, actions) of probabilities; a function from an observation to an action; a
        model of Stable-Baselines3; or any of `inferl.policies`.
    features
        Turns observations into features, for example ``OneHot(64)``; a ``Discrete`` space stands for its `OneHot`.
    discount
        gamma, in (0, 1].
    seed
        Of the environment and of the actions.
    chunk
        Number of steps in a `Transitions` object.
    target_policy
        The policy to evaluate, where it is another than the one that acts. Both then need probabilities.
    time_limit
        Where the environment truncates an episode: ``"ends"``, nothing comes after it, and returns count up to the
        limit; ``"cut"``, the discount and the true last observation are kept, and the value goes on beyond the cut.
        Default: ``"ends"`` if the discount is 1, else ``"cut"``.

    Examples
    --------
    >>> import gymnasium, inferl
    >>> env = gymnasium.make("FrozenLake-v1", is_slippery=False)
    >>> path = iter([2, 2, 1, 1, 1, 2])  # right, right, down, down, down, right: the goal
    >>> source = rollout(env, lambda observation: next(path), inferl.features.OneHot(16), discount=0.9)
    >>> (chunk,) = source.take(episodes=1)
    >>> chunk.features.tolist(), chunk.rewards.tolist()
    ([0, 1, 2, 6, 10, 14], [0.0, 0.0, 0.0, 0.0, 0.0, 1.0])
    >>> chunk.next_features.tolist(), chunk.discounts.tolist()
    ([1, 2, 6, 10, 14, 15], [0.9, 0.9, 0.9, 0.9, 0.9, 0.0])

    Three sub-environments at once:

    >>> envs = gymnasium.make_vec("FrozenLake-v1", num_envs=3, vectorization_mode="sync")
    >>> (chunk,) = rollout(envs, [[0.25] * 4] * 16, envs.single_observation_space, discount=0.9).take(steps=6)
    >>> chunk.stream.tolist()
    [0, 1, 2, 0, 1, 2]
    """
    gymnasium = import_gymnasium()
    world: Any = env
    vector = isinstance(world, gymnasium.vector.VectorEnv)
    if not vector and not isinstance(world, gymnasium.Env):
        raise SettingError(
            f"env is a {type(env).__name__}, neither a gymnasium.Env nor a gymnasium.vector.VectorEnv; the vector "
            "environments of other libraries are not taken, the environments inside them are"
        )
    as_count("chunk", chunk, 1)
    as_count("seed", seed, 0)
    check_space(world.single_observation_space if vector else world.observation_space)
    acting = as_policy(policy)
    ratio = None if target_policy is None else Ratio(target_policy, acting)
    # Not default_rng(seed) itself: the environment seeds its own generator so, and the actions would be drawn from the
    # very numbers that the environment's chances are drawn from.
    children = [np.random.SeedSequence(seed + i).spawn(1)[0] for i in range(world.num_envs if vector else 1)]
    generators = [np.random.default_rng(child) for child in children]
    play = VectorPlay(world, acting, seed, generators) if vector else Play(world, acting, seed, generators[0])
    ends = limit_ends(time_limit, check_discount(discount))
    return Rollout(env, acting, as_features(features), float(discount), seed, chunk, ratio, ends, play)
