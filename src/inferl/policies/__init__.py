"""Policies: a policy chooses an action, from an observation and a uniform number."""

from inferl.policies.base import Policy
from inferl.policies.derived import EpsilonGreedy, Ratio, as_policy, epsilon_greedy
from inferl.policies.models import Logits, Predictor
from inferl.policies.simple import Deterministic, Probabilities, Table

__all__ = [
    "Deterministic",
    "EpsilonGreedy",
    "Logits",
    "Policy",
    "Predictor",
    "Probabilities",
    "Ratio",
    "Table",
    "as_policy",
    "epsilon_greedy",
]
