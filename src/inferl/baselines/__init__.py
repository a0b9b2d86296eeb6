"""Baselines: the standard methods to compare an evaluator with.

Begin with `monte_carlo.py`, the mean return of episodes, and `importance_sampling.py`, its off-policy counterpart
(PDIS and WPDIS). `offline_bootstrap.py` stores the data and resamples them; `replay.py` and `resampled_sums.py` are its
two engines, for recursions and for least squares. `save.py` is LSTD-Q with a sandwich variance (Shi et al. 2021).
"""

from inferl.baselines.importance_sampling import per_decision
from inferl.baselines.monte_carlo import monte_carlo
from inferl.baselines.offline_bootstrap import offline_bootstrap
from inferl.baselines.save import save

__all__ = ["monte_carlo", "offline_bootstrap", "per_decision", "save"]
