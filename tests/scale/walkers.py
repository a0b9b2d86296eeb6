"""Policies and environments of a module, which other processes can import."""

from __future__ import annotations

from typing import Any

import gymnasium


def lean(observation: Any) -> int:
    return int(observation[2] + 0.3 * observation[3] > 0)


def tilt(observation: Any) -> int:
    return int(observation[2] > 0)


def cart(limit: int = 60) -> Any:
    return gymnasium.make("CartPole-v1", max_episode_steps=limit)
