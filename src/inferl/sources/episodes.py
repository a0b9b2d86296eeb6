"""Episodes with seeds of their own: copies of an environment, played side by side.

Episode k is reset with a seed that follows from (seed, k), and its actions are drawn from a generator of its own. So it
is the same episode whichever copy plays it, and two policies meet the same episodes. Steps are handed out in the order
of episodes, one whole episode after the other: whoever stops early has a prefix of the episodes, in which short ones
are not favoured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast
from zlib import crc32

import numpy as np

from inferl.data.arrays import as_count
from inferl.data.batches import copied, count, rows, stacked
from inferl.errors import SettingError, ShapeError
from inferl.policies import Policy
from inferl.sources.steps import Step, answer, as_reward, check_action, import_gymnasium

if TYPE_CHECKING:
    from gymnasium import Env

__all__ = ["Copies", "EpisodePlay", "copies_of"]

SIDE_BY_SIDE = 8  # copies by default: a network takes about as long for eight observations as for one
WAITING = 2**28  # bytes of steps that may wait for an earlier episode to end
STEP = 512  # bytes of a step without its observation


@dataclass(frozen=True, eq=False)
class Copies:
    """Environments of one kind; those that were made here are closed here."""

    envs: list[Env[Any, Any]]
    made: list[Env[Any, Any]]

    def close(self) -> None:
        """Close the environments that were made here."""
        for env in self.made:
            env.close()


def copies_of(env: Any, num_envs: int | None = None) -> Copies:
    """Return copies of what a user gave: an id, an `EnvSpec`, a function that makes one, an environment, or a list.

    >>> [len(copies_of("CartPole-v1", num_envs).envs) for num_envs in (None, 1)]
    [8, 1]
    """
    gymnasium = import_gymnasium()
    if num_envs is not None:
        as_count("num_envs", num_envs, 1)
    if isinstance(env, list | tuple):
        if num_envs not in (None, len(env)):
            raise SettingError(f"num_envs is {num_envs}, and there are {len(env)} environments; leave num_envs out")
        return _alike([_made(one) for one in env], made=[not isinstance(one, gymnasium.Env) for one in env])
    if not isinstance(env, gymnasium.Env):
        number = SIDE_BY_SIDE if num_envs is None else num_envs
        return _alike([_made(env) for _ in range(number)], made=[True] * number)
    more = 0 if num_envs is None else num_envs - 1
    if more and env.spec is None:
        raise SettingError(
            f"num_envs is {num_envs}, and no copy of {env} can be made, because it has no spec; give a function that "
            "makes one, or a list of environments"
        )
    return _alike([env, *(_made(env.spec) for _ in range(more))], made=[False] + [True] * more)


def _made(env: Any) -> Env[Any, Any]:
    """Return an environment, or make it."""
    gymnasium = import_gymnasium()
    if isinstance(env, str | gymnasium.envs.registration.EnvSpec):
        import inferl.environments  # noqa: F401 (registers ours with Gymnasium)

        try:
            return cast("Env[Any, Any]", gymnasium.make(env))
        except (gymnasium.error.Error, ImportError, TypeError, ValueError) as error:
            raise SettingError(f"Gymnasium cannot make {env!r}: {error}") from None
    world = env() if callable(env) else env
    if not isinstance(world, gymnasium.Env):
        what = (
            f"env is a {type(env).__name__}" if world is env else f"the function env returned a {type(world).__name__}"
        )
        raise SettingError(
            f"{what}, not a gymnasium.Env; give the id of one, a function that makes one, a list of them, or a "
            "gymnasium.vector.VectorEnv; of a vector environment of another library, pass the list of environments "
            "inside it"
        )
    return cast("Env[Any, Any]", world)


def _alike(envs: list[Env[Any, Any]], made: list[bool]) -> Copies:
    """Refuse an empty list, one environment twice, and environments of different spaces."""
    if not envs:
        raise SettingError("env is an empty list; give at least one environment")
    if len({id(env.unwrapped) for env in envs}) < len(envs):  # wrapped twice, it would still be one
        raise SettingError(
            "the same environment is there twice, and its episodes would disturb each other; make one for each: a "
            "function must not return, or wrap, one that exists already"
        )
    first = envs[0]
    for env in envs[1:]:
        if (env.observation_space, env.action_space) != (first.observation_space, first.action_space):
            raise SettingError(
                f"{first} and {env} have different observations or actions; copies of one environment are needed"
            )
    return Copies(envs, [env for env, ours in zip(envs, made, strict=True) if ours])


@dataclass(eq=False)
class _Copy:
    """One environment, and the episode that it plays."""

    env: Env[Any, Any]
    episode: int = -1
    open: bool = False
    first: bool = False
    observation: Any = None
    path: int = 0  # hash of the observations and rewards of the episode so far
    generator: np.random.Generator = field(default_factory=np.random.default_rng)
    steps: list[Step] = field(default_factory=list)  # waiting for earlier episodes

    def begin(self, episode: int, seed: int) -> None:
        """Reset for an episode, with its own seeds."""
        sequence = np.random.SeedSequence((seed, episode))
        # 31 bits: some environments hand their seed on to a C int.
        observation, _ = answer("reset", self.env.reset(seed=int(sequence.generate_state(1)[0]) >> 1), 2)
        self.generator = np.random.default_rng(sequence.spawn(1)[0])
        self.episode, self.open, self.first, self.path = episode, True, True, 0
        self.see(observation)

    def see(self, observation: Any, reward: float = 0.0) -> None:
        """Keep the latest observation; a copy, because an environment may reuse its buffer."""
        self.observation = copied(observation)
        self.path = _hashed((self.observation, reward), self.path)


@dataclass(eq=False)
class EpisodePlay:
    """A policy that acts in copies of an environment.

    `blank`, if given, stands in the steps for the observations, which are not kept.
    """

    copies: Sequence[Env[Any, Any]]
    policy: Policy
    seed: int
    blank: Any = None
    begun: int = 0  # episodes
    handing: int = 0  # the episode whose steps are handed out
    _copies: list[_Copy] = field(init=False)
    _done: dict[int, list[Step]] = field(init=False, default_factory=dict)  # whole episodes after that one
    _waiting: int = field(init=False, default=0)  # steps that were played and not handed out

    def __post_init__(self) -> None:
        self._copies = [_Copy(env) for env in self.copies]

    def skip(self, episodes: int) -> None:
        """Begin with a later episode."""
        self.begun = self.handing = episodes

    def play(self, limit: int | None = None) -> list[Step]:
        """Step each copy once, and return the steps that are next in order; begin no episode from `limit` on."""
        for copy in self._copies:
            if not copy.open and (limit is None or self.begun < limit) and not self._full():
                copy.begin(self.begun, self.seed)
                self.begun += 1
        playing = [copy for copy in self._copies if copy.open]
        if self._full():  # the episode that the others wait for goes on alone
            playing = [copy for copy in playing if copy.episode == self.handing]
        for copy, action in zip(playing, self._act(playing), strict=True):
            self._step(copy, action)
        return self._released()

    def _act(self, playing: list[_Copy]) -> list[Any]:
        uniforms = np.array([copy.generator.random() for copy in playing])
        if len(playing) == 1:
            actions = [self.policy(copied(playing[0].observation), float(uniforms[0]))]
        else:
            chosen = self.policy.batch(stacked([copy.observation for copy in playing]), uniforms)
            if count(chosen) != len(playing):
                raise ShapeError(f"the policy chose {count(chosen)} actions for {len(playing)} observations")
            actions = [rows(chosen, i) for i in range(len(playing))]
        for action in actions:
            check_action(action, self.copies[0].action_space)
        return [copied(action) for action in actions]  # an environment may write into it, as by `action *= 2`

    def _step(self, copy: _Copy, action: Any) -> None:
        before = copy.observation
        observation, given, terminated, truncated, _ = answer("step", copy.env.step(action), 5)
        reward = as_reward(given)
        copy.see(observation, reward)
        first, last = copy.first, bool(terminated or truncated)
        copy.first, copy.open = False, not last
        seen = (before, copy.observation) if self.blank is None else (self.blank, self.blank)
        copy.steps.append(
            Step(seen[0], action, reward, seen[1], bool(terminated), last, first, copy.episode, 0, copy.path)
        )
        self._waiting += 1
        if not copy.open:
            self._done[copy.episode], copy.steps = copy.steps, []

    def _released(self) -> list[Step]:
        """Return the whole episodes that are next, and what there is of the one after them."""
        steps: list[Step] = []
        while self.handing in self._done:
            steps += self._done.pop(self.handing)
            self.handing += 1
        for copy in self._copies:
            if copy.open and copy.episode == self.handing:
                steps += copy.steps
                copy.steps = []
        self._waiting -= len(steps)
        return steps

    def _full(self) -> bool:
        """Whether the steps that wait fill the memory that they may have."""
        size = _bytes(self._copies[0].observation) if self.blank is None else 0
        return self._waiting * (STEP + size) > WAITING


def _hashed(observation: Any, before: int) -> int:
    """Add an observation, which may consist of parts, to a hash.

    >>> _hashed((np.int64(1), np.int64(2)), 0) == _hashed((np.int64(2), np.int64(1)), 0)
    False
    """
    if isinstance(observation, dict | tuple):
        for part in observation.values() if isinstance(observation, dict) else observation:
            before = _hashed(part, before)
        return before
    return crc32(np.ascontiguousarray(observation).tobytes(), before)


def _bytes(observation: Any) -> int:
    """Return the memory of an observation, which may consist of parts.

    >>> _bytes({"picture": np.zeros((84, 84)), "pair": (np.zeros(1), np.zeros(1))})
    56464
    """
    if isinstance(observation, dict | tuple):
        parts = observation.values() if isinstance(observation, dict) else observation
        return sum(map(_bytes, parts))
    return int(np.asarray(observation).nbytes)
