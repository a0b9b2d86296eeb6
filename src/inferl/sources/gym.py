"""Rollouts: a policy acts in a Gymnasium environment, or in copies of it, which is a source of transitions."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from inferl.data.arrays import as_count
from inferl.data.batches import stacked
from inferl.data.invariants import COUNT, bounds, demand
from inferl.data.transitions import Transitions
from inferl.diagnostics import FEWEST_BLOCKS, Check, unseen
from inferl.errors import CheckpointCorruptError, CheckpointMismatchError, SettingError
from inferl.features import Features
from inferl.features.named import FITTED_ON, FromData, features_for
from inferl.features.one_hot import OneState
from inferl.policies import Policy, Ratio, as_policy
from inferl.sources.base import as_plain, from_plain
from inferl.sources.episodes import Copies, EpisodePlay, copies_of
from inferl.sources.starts import Starts
from inferl.sources.steps import (
    Step,
    check_discount,
    check_space,
    check_table,
    import_gymnasium,
    limit_ends,
    transitions,
    with_starts,
)
from inferl.sources.vector import VectorPlay, WholePlay

if TYPE_CHECKING:
    from gymnasium import Env
    from gymnasium.vector import VectorEnv

__all__ = ["Rollout", "import_gymnasium", "rollout"]


@dataclass(eq=False)
class _Taken:
    """What was handed out, which is also the position of a rollout."""

    steps: int = 0
    episodes: int = 0  # ended
    within: int = 0  # steps since then, if episodes come one after the other
    starts: Starts = field(default_factory=Starts)
    path: int = -1  # hash of all observations and rewards of an ended episode, or -1
    alike: bool = True  # whether all ended episodes have the same
    features: dict[str, Any] | None = None  # the map that was fitted to the first steps, if there is one

    def verify(self) -> None:
        """Check the bounds of a position that comes from a file."""
        bounds(self, {"steps": COUNT, "episodes": (0, self.steps), "within": (0, self.steps - self.episodes)})
        bounds(self, {"path": (-1, 2**32 - 1)})
        demand(self.starts.number <= self.steps, f"{self.starts.number} episodes began in {self.steps} steps")

    @classmethod
    def joined(cls, parts: Sequence[_Taken]) -> _Taken:
        """Return what was handed out by several rollouts, of whole episodes."""
        paths = {part.path for part in parts if part.episodes}
        return cls(
            sum(part.steps for part in parts),
            sum(part.episodes for part in parts),
            0,
            Starts.joined([part.starts for part in parts]),
            parts[-1].path,
            all(part.alike for part in parts) and len(paths) == 1,
            parts[0].features,
        )

    def add(self, steps: list[Step], starts: Starts) -> None:
        """Add steps, given the starts after them."""
        self.steps, self.starts = self.steps + len(steps), starts
        for step in steps:
            self.within += 1
            if step.last:
                self.alike = self.alike and step.path >= 0 and (self.episodes == 0 or step.path == self.path)
                self.episodes, self.within, self.path = self.episodes + 1, 0, step.path


@dataclass(frozen=True, eq=False)
class Rollout:
    """A policy acting in an environment, as a `Source`; made by `rollout`.

    Attributes
    ----------
    env
        The environment, single or vector; of several copies, the first.
    policy
        Chooses actions.
    features
        Turns observations into features: ``source.features(observation)`` is a target for an evaluator. Features that
        were given by a name are fitted when the first steps are taken.
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
    >>> import inferl
    >>> source = inferl.sources.rollout("CartPole-v1", lambda observation: int(observation[2] > 0))
    >>> evaluator = inferl.Evaluator(inferl.DoublyRobust(source.dimension)).update(source.take(episodes=10))
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
    _play: EpisodePlay | VectorPlay | WholePlay = field(repr=False)
    _copies: Copies = field(repr=False)
    _waiting: deque[Step] = field(init=False, repr=False, default_factory=deque)  # played, and not yet handed out
    _taken: _Taken = field(init=False, repr=False, default_factory=_Taken)
    _before: list[int] = field(init=False, repr=False, default_factory=list)  # episodes that others play: at most one

    def take(self, episodes: int | None = None, steps: int | None = None) -> Iterator[Transitions]:
        """Play on, and yield the transitions in chunks.

        Parameters
        ----------
        episodes
            Stop when this many more episodes have ended; in a vector environment, in any stream. One that an earlier
            call left open counts.
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
        unit, amount = ("episodes", episodes) if steps is None else ("steps", steps)
        assert amount is not None
        return self._chunks(as_count(unit, amount, 0), unit)

    @property
    def dimension(self) -> int:
        """Length of the features, or number of states of the table."""
        return self.features.dimension

    @property
    def tabular(self) -> bool | None:
        """Whether features are states of a table (or vectors), or None before the first chunk, when it is not known."""
        return getattr(self.features, "tabular", None)

    @property
    def position(self) -> dict[str, Any]:
        """What was handed out, as plain data for `resume`."""
        plain: dict[str, Any] = as_plain(self._taken)
        return plain

    def resume(self, position: Any) -> Rollout:
        """Go on from a position, and return this rollout, which must be a new one.

        An environment cannot be put into a state, but with the same seed, and a policy that depends on nothing else,
        the same steps come again. The episode that was open is played again up to the position; of a vector
        environment, whose streams go on from episode to episode, all steps are.

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
        at: _Taken = from_plain(_Taken, position)
        if self._taken.steps or self._waiting:
            raise SettingError("this rollout has been played already; make a new one, of a new environment, to resume")
        self._restore(at)
        if not isinstance(self._play, EpisodePlay):
            for _ in self.take(steps=at.steps):
                pass
            return self
        self._play.skip(at.episodes)
        for _ in range(at.within):
            if self._next(None).last:
                raise CheckpointMismatchError(
                    f"episode {at.episodes} is shorter than before: the environment or the policy has changed, or "
                    "depends on more than its seed"
                )
        for f in fields(_Taken):
            setattr(self._taken, f.name, getattr(at, f.name))
        return self

    def after(self, episodes: int, features: dict[str, Any] | None = None) -> Rollout:
        """Begin with a later episode, and return this rollout, which must be a new one: others play those before it.

        `features` are those of the position of another one, if they have been fitted.
        """
        if not isinstance(self._play, EpisodePlay):
            raise SettingError("a vector environment goes on from episode to episode; give one environment, or its id")
        self._restore(_Taken(steps=1, features=features))
        self._play.skip(episodes)
        self._before[:] = [episodes]
        return self

    def joined(self, positions: Sequence[Any]) -> Rollout:
        """Return the rollout as if it had played all episodes of several, which are at these positions."""
        at = _Taken.joined([from_plain(_Taken, position) for position in positions])
        whole = replace(self)
        whole._restore(at)
        for f in fields(_Taken):
            setattr(whole._taken, f.name, getattr(at, f.name))
        return whole

    def checks(self) -> tuple[Check, ...]:
        """Return a check if all episodes were the same, step for step: then nothing seems to be random."""
        taken = self._taken
        if not taken.alike or taken.episodes < FEWEST_BLOCKS:
            return ()
        message = (
            f"all {taken.episodes:,} episodes were the same, step for step, so the value is exact if nothing is random"
        )
        return (
            Check(
                "randomness", "passed", f"{message}; if something is, {unseen(taken.episodes)}", float(taken.episodes)
            ),
        )

    def close(self) -> None:
        """Close the environments that the rollout has made."""
        self._copies.close()

    def describe(self) -> dict[str, str]:
        """Return what a report should say about the rollout."""
        taken = self._taken
        count = f"{taken.episodes:,} episodes, {taken.steps:,} steps, seed {self.seed}"
        several = f"{number} x " if (number := getattr(self.env, "num_envs", 1)) > 1 else ""
        features = {"features": self.features.text} if isinstance(self.features, FromData) else {}
        return {"environment": f"{several}{self.name}, {count}"} | features

    @property
    def name(self) -> str:
        """Name of the environment, which is its id or its class."""
        spec = self.env.spec
        return type(self.env.unwrapped).__name__ if spec is None else spec.id

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
    def matchable(self) -> bool:
        """Whether another policy with the same seed meets the same episodes, and their returns tell all about it.

        Not so in a vector environment, whose streams go on from episode to episode; nor if the value extends beyond the
        time limit, or belongs to a policy that does not act.
        """
        return isinstance(self._play, EpisodePlay) and self.ends and self.ratio is None

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
            return self._chunks(np.inf, "steps")
        return self._chunks(self.episodes - self._taken.episodes, "episodes")

    def _chunks(self, remaining: float, unit: str) -> Iterator[Transitions]:
        if remaining > 0:
            self._fit()
        # Episodes come in order, so no later one will be needed.
        limit = int(sum(self._before) + self._taken.episodes + remaining) if unit == "episodes" else None
        while remaining > 0:
            taken: list[Step] = []
            while remaining > 0 and len(taken) < self.chunk:
                taken.append(self._next(limit))
                remaining -= taken[-1].last if unit == "episodes" else 1
            yield self._transitions(taken)

    def _next(self, limit: int | None) -> Step:
        """Return the next step; play on if none waits."""
        while not self._waiting:  # a step of a vector environment may consist of resets alone
            self._waiting.extend(self._play.play(limit))
        return self._waiting.popleft()

    def _fit(self) -> None:
        """Fit features to the first steps, which are played ahead: they are the same whatever will be taken."""
        if isinstance(self.features, FromData) and self.features.fitted is None:
            while len(self._waiting) < FITTED_ON:
                self._waiting.extend(self._play.play(None))
            self.features.fit(stacked([step.observation for step in islice(self._waiting, FITTED_ON)]))
            self._taken.features = as_plain(self.features.fitted)

    def _restore(self, at: _Taken) -> None:
        """Take over the map that was fitted before, from a position that may come from a file."""
        if isinstance(self.features, FromData) != (at.features is not None) and at.steps:
            raise CheckpointMismatchError("features were fitted to the data before, and are not now, or vice versa")
        if isinstance(self.features, FromData) and at.features is not None:
            try:
                self.features.restore(from_plain(self.features.kind.cls, at.features))
            except SettingError as error:
                raise CheckpointCorruptError(f"the features of the run: {error}") from None
            self._taken.features = at.features

    def _transitions(self, taken: list[Step]) -> Transitions:
        chunk = transitions(taken, self.features, self.discount, ends=self.ends)
        if self.ratio is not None:
            observations, actions = stacked([step.observation for step in taken]), [step.action for step in taken]
            chunk = chunk.with_ratios(self.ratio.batch(observations, stacked(actions)))
        self._taken.add(taken, with_starts(self._taken.starts, taken, chunk, self.features))
        return chunk


def rollout(
    env: Any,
    policy: Any,
    features: Any = None,
    discount: float = 1.0,
    seed: int = 0,
    chunk: int = 256,
    target_policy: Any = None,
    time_limit: str | None = None,
    episodes: int | None = None,
    num_envs: int | None = None,
) -> Rollout:
    """Let a policy act in a Gymnasium environment, which gives transitions.

    Where an episode terminates, the discount is 0; `time_limit` says what a truncation means. No transition leads
    across a reset.

    Each episode has seeds of its own, for the environment and for the actions, which follow from `seed` and from the
    number of the episode. Episodes are played side by side in copies of the environment, and handed out one after the
    other. So the steps do not depend on the number of copies (except for the last bits of a network, which may depend
    on the size of a batch), and two policies with the same seed meet the same episodes. That needs an environment whose
    episodes depend on the seed of their reset alone. One that carries something over, as a wrapper that learns to
    normalise does, is played with ``num_envs=1``.

    A vector environment is stepped as it is. Each of its sub-environments is a stream. Sub-environment i has the seed
    ``seed + i``, as in Gymnasium, for all its episodes. So the seeds of independent runs of n sub-environments must lie
    n apart. Without features, or if `episodes` is given, episodes are handed out whole, the first of every
    sub-environment before the second of any, so that short ones are not favoured.

    Parameters
    ----------
    env
        The id of a Gymnasium environment, an ``EnvSpec``, or a function that makes an environment; an environment, or a
        list of copies; or a vector environment.
    policy
        Chooses the actions: a table (states, actions) of probabilities; a function from an observation to an action; a
        Stable-Baselines3 model; or any of `inferl.policies`.
    features
        Turns observations into features, for example ``OneHot(64)``; a ``Discrete`` space stands for its `OneHot`.
        Or a name: ``"auto"`` is a table for a finite space, and otherwise `RandomFourier`; ``"observation"``,
        ``"random-fourier:128"``, ``"fourier:2"``, ``"fourier:3x2"`` (order, interactions), ``"rbf:50"`` and
        ``"tiles:8x4"`` (tilings, tiles). These are fitted to the first 1,000 steps of the rollout. Default: none, for
        the mean return.
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
        discount and the true last observation are kept, and the value extends beyond the cut, which needs features.
        Default: ``"ends"`` if the discount is 1 or there are no features, else ``"cut"``.
    episodes
        Number of episodes after which iterating ends. Default: it never does.
    num_envs
        Number of copies that are played side by side. Default: 8 if they can be made; an environment is played as it
        is. Copies of an environment are made from its ``spec``: what was changed in it afterwards is not in them. A
        policy that remembers earlier observations needs ``num_envs=1``.

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

    The same episodes, with one copy and with three:

    >>> one, three = (rollout("FrozenLake-v1", [[0.25] * 4] * 16, num_envs=n).take(episodes=20) for n in (1, 3))
    >>> inferl.Transitions.join(list(one)).last.tolist() == inferl.Transitions.join(list(three)).last.tolist()
    True

    Three sub-environments of a vector environment:

    >>> envs = gymnasium.make_vec("FrozenLake-v1", num_envs=3, vectorization_mode="sync")
    >>> (chunk,) = rollout(envs, [[0.25] * 4] * 16, envs.single_observation_space, discount=0.9).take(steps=6)
    >>> chunk.stream.tolist()
    [0, 1, 2, 0, 1, 2]
    """
    gymnasium = import_gymnasium()
    as_count("chunk", chunk, 1)
    as_count("seed", seed, 0)
    if episodes is not None:
        as_count("episodes", episodes, 1)
    check_discount(discount)
    if features is None and time_limit == "cut":
        raise SettingError(
            "time_limit is 'cut', so the value extends beyond the limit, where only features can say anything; give "
            "features, such as 'auto', or count returns up to the limit: time_limit='ends'"
        )
    ends = limit_ends("ends" if features is None and time_limit is None else time_limit, discount)
    acting = as_policy(policy)
    ratio = None if target_policy is None else Ratio(target_policy, acting)
    play: EpisodePlay | VectorPlay | WholePlay
    if isinstance(env, gymnasium.vector.VectorEnv):
        if num_envs is not None:
            raise SettingError(f"env is a vector environment of {env.num_envs}; leave num_envs out")
        check_space(env.single_observation_space)
        action_space = env.single_action_space
        # Not default_rng(seed): the environment seeds its own generator so, and actions and transitions would be drawn
        # from the same numbers.
        children = [np.random.SeedSequence(seed + i).spawn(1)[0] for i in range(env.num_envs)]
        vector = VectorPlay(env, acting, seed, list(map(np.random.default_rng, children)))
        play = vector if episodes is None and features is not None else WholePlay(vector)
        copies, world = Copies([], []), env
        space = env.single_observation_space
    else:
        copies = copies_of(env, num_envs)
        world = copies.envs[0]
        space, action_space = world.observation_space, world.action_space
        check_space(space)
        play = EpisodePlay(copies.envs, acting, seed, blank=0 if features is None and ratio is None else None)
    for table in (acting, target_policy if ratio is None else ratio.target):
        check_table(table, space, action_space)
    known = OneState() if features is None else features_for(features, space)
    return Rollout(world, acting, known, float(discount), seed, chunk, ratio, ends, episodes, play, copies)
