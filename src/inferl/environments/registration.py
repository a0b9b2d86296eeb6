"""Registration of the environments with Gymnasium, if it is installed."""

from __future__ import annotations

__all__ = ["register"]

SEPSIS = "inferl/Sepsis-v0"


def register() -> None:
    """Register ``inferl/Sepsis-v0``; importing ``inferl.environments`` does it.

    >>> import gymnasium
    >>> gymnasium.make("inferl/Sepsis-v0").spec.max_episode_steps
    20
    """
    try:
        from gymnasium.envs.registration import register as tell
        from gymnasium.envs.registration import registry
    except ImportError:  # the other environments do not need it
        return
    if SEPSIS not in registry:
        tell(id=SEPSIS, entry_point="inferl.environments.sepsis.environment:Sepsis", max_episode_steps=20)
