"""Sources: where transitions come from."""

from inferl.sources.gym import Rollout, rollout

__all__ = ["Rollout", "rollout"]
