"""Evaluation: a whole job in one call, from an environment and a policy to a `Result`; the best of several."""

from inferl.evaluation.best import BestSoFar
from inferl.evaluation.policy import evaluate_policy
from inferl.evaluation.result import Result

__all__ = ["BestSoFar", "Result", "evaluate_policy"]
