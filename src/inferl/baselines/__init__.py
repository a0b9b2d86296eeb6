"""Baselines: what people would compare with first."""

from inferl.baselines.importance_sampling import per_decision
from inferl.baselines.monte_carlo import monte_carlo
from inferl.baselines.offline_bootstrap import offline_bootstrap
from inferl.baselines.save import save

__all__ = ["monte_carlo", "offline_bootstrap", "per_decision", "save"]
