"""More data than one process can read: plans, executors, and merges in a fixed tree.

`plan` cuts a log into parts, by its files and row groups alone. `Plan.evaluate` evaluates them by processes, by Ray or
by anything with ``submit``, and merges them. Neither the executor, nor the number of workers, nor which of them were
killed changes the answer.
"""

from inferl.scale.executors import Executor, Processes, ray
from inferl.scale.plans import Plan, plan
from inferl.scale.rollouts import simulate
from inferl.scale.studies import study

__all__ = ["Executor", "Plan", "Processes", "plan", "ray", "simulate", "study"]
