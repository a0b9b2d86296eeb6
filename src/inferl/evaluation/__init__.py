"""Evaluation: a whole job in one call, from an environment and a policy to a `Result`."""

from inferl.evaluation.policy import evaluate_policy
from inferl.evaluation.result import Result

__all__ = ["Result", "evaluate_policy"]
