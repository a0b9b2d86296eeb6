"""Evaluation: a whole job in one call, from environments and policies, or logs, to a `Result` or a `Comparison`."""

from inferl.evaluation.best import BestSoFar
from inferl.evaluation.comparing import compare
from inferl.evaluation.comparison import Comparison
from inferl.evaluation.log import evaluate_log
from inferl.evaluation.policy import evaluate_policy
from inferl.evaluation.racing import race
from inferl.evaluation.result import Result

__all__ = ["BestSoFar", "Comparison", "Result", "compare", "evaluate_log", "evaluate_policy", "race"]
