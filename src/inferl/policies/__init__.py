"""Policies: a policy chooses an action from an observation and a uniform random number.

Begin with `base.py`, the interface. `simple.py` holds policies from tables and functions, `models.py` trained models
(Stable-Baselines3, torch), and `derived.py` policies built from others (epsilon-greedy), importance ratios of two
policies, and `as_policy`, which converts what a user has.
"""

from inferl.policies.base import Policy
from inferl.policies.derived import EpsilonGreedy, Ratio, as_policy, epsilon_greedy
from inferl.policies.models import Logits, Predictor
from inferl.policies.simple import Deterministic, Probabilities, Table, Uniform

__all__ = [
    "Deterministic",
    "EpsilonGreedy",
    "Logits",
    "Policy",
    "Predictor",
    "Probabilities",
    "Ratio",
    "Table",
    "Uniform",
    "as_policy",
    "epsilon_greedy",
]
