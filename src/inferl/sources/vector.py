"""Vector environments: the transitions of each stream, under each autoreset mode.

A vector environment resets a sub-environment whose episode has ended. Its metadata say when:

- NEXT_STEP: at the next step, which ignores the action and returns the first observation. That step is no transition.
- SAME_STEP: at once; the step returns the first observation of the next episode, and ``info`` has the true last one.
- DISABLED: when the caller asks for it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from inferl.data.arrays import Bools, Integers
from inferl.data.batches import copied, count, placed, rows
from inferl.errors import DataError, SettingError, ShapeError
from inferl.policies import Policy
from inferl.sources.steps import Step, check_action, import_gymnasium

if TYPE_CHECKING:
    from gymnasium.vector import VectorEnv

__all__ = ["Pairing", "VectorPlay", "WholePlay", "autoreset_mode"]


def autoreset_mode(env: VectorEnv[Any, Any, Any]) -> Any:
    """Return the autoreset mode that a vector environment declares.

    >>> import gymnasium
    >>> print(autoreset_mode(gymnasium.make_vec("CartPole-v1", num_envs=2)))
    AutoresetMode.NEXT_STEP
    """
    modes = import_gymnasium().vector.AutoresetMode
    mode = env.metadata.get("autoreset_mode")
    if not isinstance(mode, modes):
        raise SettingError(
            f"{env} does not say when it resets: metadata['autoreset_mode'] is {mode!r}; set it to one of "
            f"{', '.join(map(str, modes))}: a wrong guess would give transitions across resets"
        )
    return mode


@dataclass(eq=False)
class Pairing:
    """Pairs the observations of a vector environment before and after each step."""

    env: VectorEnv[Any, Any, Any]
    mode: Any = field(init=False)
    observations: Any = field(init=False, default=None)
    ended: Bools = field(init=False)  # (n,) the episode has ended, and the reset is due
    first: Bools = field(init=False)  # (n,) the observation is the first of an episode
    episode: Integers = field(init=False)  # (n,)

    def __post_init__(self) -> None:
        n = self.env.num_envs
        self.mode = autoreset_mode(self.env)
        self.ended, self.first, self.episode = np.zeros(n, np.bool_), np.zeros(n, np.bool_), np.full(n, -1)

    def reset(self, observations: Any, mask: Bools | None = None) -> None:
        """Store the observations of a reset: of all sub-environments, or of those in the mask."""
        if mask is None:
            self.observations, mask = copied(observations), np.ones(self.env.num_envs, np.bool_)
        else:
            self.observations = placed(self.observations, mask, rows(copied(observations), mask))
        self._begin(mask)

    def step(self, actions: Any, result: tuple[Any, Any, Any, Any, dict[str, Any]]) -> list[Step]:
        """Store the result of a step, and return its transitions, at most one for each stream."""
        modes = type(self.mode)
        before, stepped = self.observations, ~self.ended
        observations, rewards, terminated, truncated, info = result
        self.observations = after = copied(observations)
        last = np.logical_or(terminated, truncated)
        steps = []
        for i in np.flatnonzero(stepped).tolist():
            within = not last[i] or self.mode != modes.SAME_STEP
            steps.append(
                Step(
                    rows(before, i),
                    rows(actions, i),
                    float(rewards[i]),
                    rows(after, i) if within else _final(info, i),
                    bool(terminated[i]),
                    bool(last[i]),
                    bool(self.first[i]),
                    int(self.episode[i]),
                    i,
                )
            )
        self.first = self.first & ~stepped
        if self.mode == modes.SAME_STEP:
            self._begin(last)
            return steps
        if self.mode == modes.NEXT_STEP:
            self._begin(self.ended)  # this step was their reset
        self.ended = self.ended | (last & stepped)
        return steps

    def _begin(self, which: Bools) -> None:
        """Mark some streams as being at the first observation of an episode."""
        self.episode = self.episode + which
        self.first = self.first | which
        self.ended = self.ended & ~which


@dataclass(eq=False)
class VectorPlay:
    """A policy that acts in a vector environment."""

    env: VectorEnv[Any, Any, Any]
    policy: Policy
    seed: int
    generators: list[np.random.Generator]  # one for each stream
    pairing: Pairing = field(init=False)
    actions: Any = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.pairing = Pairing(self.env)

    def play(self, limit: int | None = None) -> list[Step]:
        """Step all sub-environments once, after the resets that are due; it resets by itself, whatever the limit."""
        pairing = self.pairing
        if pairing.observations is None:
            # Seeded once, sub-environment i with seed + i: their own generators then serve all episodes.
            pairing.reset(self.env.reset(seed=self.seed)[0])
        elif pairing.mode.name == "DISABLED" and pairing.ended.any():
            mask = pairing.ended
            pairing.reset(self.env.reset(options={"reset_mask": mask.copy()})[0], mask)
        self._act()
        return pairing.step(self.actions, self.env.step(self.actions))

    def _act(self) -> None:
        """Choose actions for the streams that step; a stream that resets ignores its action, and keeps the last one.

        Random numbers are drawn for the former only, so the rows of a stream are the same under each autoreset mode.
        """
        acting = ~self.pairing.ended
        if acting.any():
            uniforms = np.array([self.generators[i].random() for i in np.flatnonzero(acting)])
            chosen = self.policy.batch(rows(self.pairing.observations, acting), uniforms)
            if count(chosen) != len(uniforms):
                raise ShapeError(f"the policy chose {count(chosen)} actions for {len(uniforms)} observations")
            for i in range(len(uniforms)):
                check_action(rows(chosen, i), self.env.single_action_space)
            self.actions = chosen if acting.all() else placed(self.actions, acting, chosen)


@dataclass(eq=False)
class WholePlay:
    """A policy that acts in a vector environment, whose episodes are handed out whole, in an order fixed beforehand.

    First come the first episodes of all streams, then the second ones, and so on. So a stream whose episodes are short
    does not count more often than the others.
    """

    inner: VectorPlay
    _next: tuple[int, int] = (0, 0)  # episode and stream
    _steps: dict[tuple[int, int], list[Step]] = field(init=False, default_factory=dict)
    _ended: set[tuple[int, int]] = field(init=False, default_factory=set)

    def play(self, limit: int | None = None) -> list[Step]:
        """Step all sub-environments once, and return the episodes that are next, if they have ended."""
        for step in self.inner.play():
            key = step.episode, step.stream
            self._steps.setdefault(key, []).append(step)
            if step.last:
                self._ended.add(key)
        steps: list[Step] = []
        while self._next in self._ended:
            self._ended.remove(self._next)
            steps += self._steps.pop(self._next)
            episode, stream = self._next
            last = stream + 1 == self.inner.env.num_envs
            self._next = (episode + 1, 0) if last else (episode, stream + 1)
        return steps


def _final(info: Any, i: int) -> Any:
    """Return the true last observation of sub-environment i, which has been reset in the same step."""
    final = info.get("final_obs") if isinstance(info, dict) else None  # a wrapper may make a list of it
    observation = None if final is None else rows(final, i)
    if observation is None:
        raise DataError(
            f"sub-environment {i} ended and was reset in the same step, but info['final_obs'] does not hold its last "
            "observation; use another autoreset mode, or a wrapper that stores it"
        )
    return copied(observation)
