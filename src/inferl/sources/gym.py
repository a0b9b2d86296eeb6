"""Rollouts: a policy acts in a Gymnasium environment, single or vector, which is a source of transitions."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from inferl.data.arrays import as_count
from inferl.data.batches import copied, stacked
from inferl.data.invariants import COUNT, bounds
from inferl.data.transitions import Transitions
from inferl.errors import SettingError
from inferl.features import Features
from inferl.features.one_hot import as_features
from inferl.policies import Policy, Ratio, as_policy
from inferl.sources.base import as_plain, from_plain
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
    """A policy that acts in a single environment."""

    env: Env[Any, Any]
    policy: Policy
    seed: int
    generator: np.random.Generator
    observation: Any = None
    open: bool = False  # whether an episode is under way
    episode: int = -1

    def play(self) -> list[Step]:
        """Play one step, after a reset if no episode is under way."""
        first = not self.open
        if first:
            # Seeded once: the environment's own generator then serves all episodes.
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


@dataclass(eq=False)
class _Taken:
    """The steps that were handed out; updated with every chunk."""

    steps: int = 0
    episodes: int = 0  # ended
    starts: Starts = field(default_factory=Starts)


@dataclass(frozen=True, eq=False)
class _Position:
    """How many steps were handed out: `Rollout.resume` plays them again."""

    steps: int

    def verify(self) -> None:
        """Check the bounds of a position that comes from a file."""
        bounds(self, {"steps": COUNT})


@dataclass(frozen=True, eq=False)
class Rollout:
    """A policy acting in an environment, as a `Source`; made by `rollout`.

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
        Ratio of the target policy to the policy that acts, or None where they are the same.
    ends
        Whether a time limit ends an episode (or cuts it off).
    episodes
        Number of episodes after which iterating ends, or None.

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
    episodes: int | None
    _play: Play | VectorPlay = field(repr=False)
    _waiting: deque[Step] = field(init=False, repr=False, default_factory=deque)  # played, and not yet handed out
    _taken: _Taken = field(init=False, repr=False, default_factory=_Taken)

    def take(self, episodes: int | None = None, steps: int | None = None) -> Iterator[Transitions]:
        """Play on, and yield the transitions in chunks.

        Parameters
        ----------
        episodes
            Stop when this many more episodes have ended, in any stream. One that an earlier call left open counts.
        steps
            Stop after this many steps, even in mid-episode: the next call continues from there.

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

    @property
    def dimension(self) -> int:
        """Length of the features, or number of states of the table."""
        return self.features.dimension

    @property
    def position(self) -> dict[str, Any]:
        """How many steps were handed out, as plain data for `resume`."""
        plain: dict[str, Any] = as_plain(_Position(self._taken.steps))
        return plain

    def resume(self, position: Any) -> Rollout:
        """Play the steps before a position again, and return this rollout.

        An environment cannot be put into a state. But with the same seed, and a policy that depends on nothing else,
        the same steps come again. The rollout must be a new one, of a new environment.

        Examples
        --------
        >>> import gymnasium, inferl
        >>> def lake():
        ...     env = gymnasium.make("FrozenLake-v1")
        ...     return inferl.sources.rollout(env, [[0.25] * 4] * 16, env.observation_space, discount=0.9)
        >>> source = lake()
        >>> chunks = list(source.take(steps=1000))
        >>> (expected,), (found,) = source.take(steps=5), lake().resume(source.position).take(steps=5)
        >>> found.features.tolist() == expected.features.tolist()
        True
        """
        steps = from_plain(_Position, position).steps
        if self._taken.steps or self._waiting:
            raise SettingError("this rollout has been played already; make a new one, of a new environment, to resume")
        for _ in self.take(steps=steps):
            pass
        return self

    def describe(self) -> dict[str, str]:
        """Return what a report should say about the rollout."""
        spec, taken = self.env.spec, self._taken
        name = type(self.env.unwrapped).__name__ if spec is None else spec.id
        count = f"{taken.episodes:,} episodes, {taken.steps:,} steps, seed {self.seed}"
        several = f"{number} x " if (number := getattr(self.env, "num_envs", 1)) > 1 else ""
        return {"environment": f"{several}{name}, {count}"}

    def start(self, conditional: bool = False) -> Starts:
        """Return the observed start distribution, as a target: the mean features of the starts handed out so far.

        It stands for the distribution that the starts were drawn from; with `conditional`, for these starts themselves.

        Examples
        --------
        >>> import gymnasium, inferl
        >>> env = gymnasium.make("CliffWalking-v1")  # starts in state 36
        >>> source = inferl.sources.rollout(env, lambda observation: 0, env.observation_space, discount=0.9)
        >>> chunks = list(source.take(steps=10))
        >>> np.asarray(source.start()).nonzero()[0].tolist()
        [36]
        """
        return self._taken.starts.of(self.start, conditional)

    @property
    def endless(self) -> bool:
        """Whether iterating never ends, so that an evaluator cannot take in all of it."""
        return self.episodes is None

    def __iter__(self) -> Iterator[Transitions]:
        """Play on, and yield the transitions in chunks, until `episodes` have ended; if that is None, for ever.

        Without an end it is for `Evaluator.until`, or for a loop that breaks.

        >>> import gymnasium, inferl
        >>> env = gymnasium.make("FrozenLake-v1")
        >>> source = inferl.sources.rollout(env, [[0.25] * 4] * 16, env.observation_space, discount=0.9)
        >>> evaluator = inferl.Evaluator(inferl.DoublyRobust(16))
        >>> for chunk in evaluator.until(source, width=0.02):
        ...     pass
        >>> bool(evaluator.interval(kind="anytime").width <= 0.02)
        True
        """
        if self.episodes is None:
            return self._chunks(1, lambda step: False)
        return self._chunks(self.episodes - self._taken.episodes, lambda step: step.last)

    def _chunks(self, remaining: int, counts: Callable[[Step], bool]) -> Iterator[Transitions]:
        while remaining > 0:
            taken: list[Step] = []
            while remaining > 0 and len(taken) < self.chunk:
                while not self._waiting:  # a step of a vector environment may consist of resets alone
                    self._waiting.extend(self._play.play())
                taken.append(self._waiting.popleft())
                remaining -= counts(taken[-1])
            yield self._transitions(taken)

    def _transitions(self, taken: list[Step]) -> Transitions:
        chunk = transitions(taken, self.features, self.discount, ends=self.ends)
        if self.ratio is not None:
            observations, actions = stacked([step.observation for step in taken]), [step.action for step in taken]
            chunk = chunk.with_ratios(self.ratio.batch(observations, stacked(actions)))
        now = self._taken
        now.starts = with_starts(now.starts, taken, chunk, self.features)
        now.steps, now.episodes = now.steps + len(taken), now.episodes + int(chunk.last.sum())
        return chunk


def rollout(
    env: Env[Any, Any] | VectorEnv[Any, Any, Any],
    policy: Any,
    features: Any,
    discount: float,
    seed: int = 0,
    chunk: int = 256,
    target_policy: Any = None,
    time_limit: str | None = None,
    episodes: int | None = None,
) -> Rollout:
    """Let a policy act in a Gymnasium environment, which gives transitions.

    Where an episode terminates, the discount is 0; `time_limit` says what a truncation means. No transition leads
    across a reset, under any autoreset mode of a vector environment.

    Each sub-environment of a vector environment is a stream. Sub-environment i has the seed ``seed + i``, as in
    Gymnasium, and takes the same steps as it would alone with that seed. So the seeds of independent runs of n
    sub-environments must lie n apart.

    Parameters
    ----------
    env
        A Gymnasium environment, single or vector.
    policy
        Chooses the actions: a table (states, actions) of probabilities; a function from an observation to an action; a
        Stable-Baselines3 model; or any of `inferl.policies`.
    features
        Turns observations into features, for example ``OneHot(64)``; a ``Discrete`` space stands for its `OneHot`.
    discount
        gamma, in (0, 1].
    seed
        Of the environment and of the actions.
    chunk
        Number of steps in a `Transitions` object.
    target_policy
        The policy to evaluate, if it is not the one that acts. Both then need probabilities.
    time_limit
        What a truncation means. ``"ends"``: the limit is part of the task, and returns count up to it. ``"cut"``: the
        discount and the true last observation are kept, and the value extends beyond the cut. Default: ``"ends"`` if
        the discount is 1, else ``"cut"``.
    episodes
        Number of episodes after which iterating ends. Default: it never does.

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
            f"env is a {type(env).__name__}, neither a gymnasium.Env nor a gymnasium.vector.VectorEnv; of a vector "
            "environment of another library, pass the environments inside it"
        )
    as_count("chunk", chunk, 1)
    as_count("seed", seed, 0)
    if episodes is not None:
        as_count("episodes", episodes, 1)
    check_space(world.single_observation_space if vector else world.observation_space)
    acting = as_policy(policy)
    ratio = None if target_policy is None else Ratio(target_policy, acting)
    # Not default_rng(seed): the environment seeds its own generator so, and actions and transitions would be drawn from
    # the same numbers.
    children = [np.random.SeedSequence(seed + i).spawn(1)[0] for i in range(world.num_envs if vector else 1)]
    generators = [np.random.default_rng(child) for child in children]
    play = VectorPlay(world, acting, seed, generators) if vector else Play(world, acting, seed, generators[0])
    ends = limit_ends(time_limit, check_discount(discount))
    return Rollout(env, acting, as_features(features), float(discount), seed, chunk, ratio, ends, episodes, play)
