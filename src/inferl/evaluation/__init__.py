"""Evaluation: a whole job in one call, from an environment and a policy, or from a log, to a `Result`."""

from inferl.evaluation.log import evaluate_log
from inferl.evaluation.policy import evaluate_policy
from inferl.evaluation.result import Result

__all__ = ["Result", "evaluate_log", "evaluate_policy"]
