"""Atari Pong as a vector environment, and whole games played in it. Needs ``inferl[atari]``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from inferl.errors import MissingExtraError

__all__ = ["ale", "play", "pong"]


def ale() -> Any:
    """Import ale-py, or say how to install it."""
    try:
        import ale_py
        import ale_py.vector_env
    except ImportError:
        raise MissingExtraError("ale-py", "atari") from None
    return ale_py


def pong(environments: int, seed: int, sticky: float = 0.0, threads: int = 0, **options: Any) -> Any:
    """Make Atari Pong as a vector environment: 4 stacked 84 x 84 frames, random no-op starts.

    Options go to ``AtariVectorEnv`` as they are.
    """
    env = ale().vector_env.AtariVectorEnv(
        "pong",
        num_envs=environments,
        num_threads=threads,
        repeat_action_probability=sticky,
        noop_max=30,
        use_fire_reset=False,
        **options,
    )
    env.reset(seed=seed)
    return env


def play(act: Callable[[Any], Any], episodes: int, seed: int, sticky: float = 0.0) -> list[float]:
    """Play whole games and return their scores; `act` maps frames (N, 4, 84, 84) to N actions."""
    count = min(episodes, 32)
    env = pong(count, seed, sticky)
    frames, _ = env.reset(seed=seed)
    quota = np.full(count, episodes // count)
    quota[: episodes % count] += 1
    score, scores = np.zeros(count), []
    while quota.any():
        frames, reward, terminated, truncated, _ = env.step(np.asarray(act(frames)))
        score += reward
        for i in np.flatnonzero(terminated | truncated):
            if quota[i]:
                scores.append(float(score[i]))
                quota[i] -= 1
            score[i] = 0.0
    return scores
