"""inferl: online statistical inference for reinforcement learning.

Error bars on a policy's value, updated with every transition, in one pass and fixed memory.

A coin that pays 1 or 0 at each step, for ever; future pay is discounted by 0.9, so its value is 5:

>>> import numpy as np, inferl
>>> evaluator = inferl.Evaluator(inferl.TD(1))
>>> for reward in np.random.default_rng(1).integers(2, size=2000):
...     evaluator.observe(features=0, reward=reward, next_features=0, discount=0.9)
>>> print(evaluator.interval(0))
5.07 [4.84, 5.30] 95% pointwise, 2,000 transitions
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

__all__ = [
    "GTD",
    "GTD2",
    "TD",
    "TDC",
    "AverageReward",
    "BestSoFar",
    "BlockClock",
    "BurnIn",
    "Check",
    "Comparison",
    "Constant",
    "DoublyRobust",
    "EmphaticTD",
    "Evaluator",
    "Field",
    "Increments",
    "Interval",
    "Law",
    "LeastSquares",
    "Linear",
    "Multipliers",
    "NStepTD",
    "Objectives",
    "OnlineBootstrap",
    "Polynomial",
    "QEvaluation",
    "Report",
    "Result",
    "Stack",
    "Transitions",
    "Window",
    "baselines",
    "compare",
    "concatenate",
    "difference",
    "environments",
    "errors",
    "evaluate_log",
    "evaluate_policy",
    "features",
    "integrations",
    "merge",
    "methods",
    "plots",
    "policies",
    "race",
    "register_law",
    "scale",
    "sources",
    "testing",
]

# Where each public name lives; a name that is a module itself is not listed.
_HOME = {
    "Transitions": "data.transitions",
    "Increments": "data.increments",
    "Objectives": "data.objectives",
    "Interval": "interval",
    "TD": "algorithms",
    "DoublyRobust": "algorithms",
    "AverageReward": "algorithms",
    "NStepTD": "algorithms",
    "EmphaticTD": "algorithms",
    "QEvaluation": "algorithms",
    "GTD": "algorithms",
    "GTD2": "algorithms",
    "TDC": "algorithms",
    "Linear": "algorithms",
    "Field": "algorithms",
    "Stack": "algorithms",
    "Multipliers": "engine.multipliers",
    "BlockClock": "engine.multipliers",
    "Law": "engine.multipliers",
    "register_law": "engine.multipliers",
    "Polynomial": "methods.step_sizes",
    "Constant": "methods.step_sizes",
    "BurnIn": "methods.bootstrap",
    "OnlineBootstrap": "methods.bootstrap",
    "LeastSquares": "methods.least_squares",
    "Evaluator": "evaluator",
    "Window": "methods.window",
    "Check": "diagnostics",
    "Report": "diagnostics",
    "BestSoFar": "evaluation",
    "Comparison": "evaluation",
    "Result": "evaluation",
    "compare": "evaluation",
    "evaluate_log": "evaluation",
    "evaluate_policy": "evaluation",
    "race": "evaluation",
    "merge": "merging",
    "concatenate": "merging",
    "difference": "comparison",
}

if TYPE_CHECKING:
    from inferl import (
        baselines,
        environments,
        errors,
        features,
        integrations,
        methods,
        plots,
        policies,
        scale,
        sources,
        testing,
    )
    from inferl.algorithms import (
        GTD,
        GTD2,
        TD,
        TDC,
        AverageReward,
        DoublyRobust,
        EmphaticTD,
        Field,
        Linear,
        NStepTD,
        QEvaluation,
        Stack,
    )
    from inferl.comparison import difference
    from inferl.data.increments import Increments
    from inferl.data.objectives import Objectives
    from inferl.data.transitions import Transitions
    from inferl.diagnostics import Check, Report
    from inferl.engine.multipliers import BlockClock, Law, Multipliers, register_law
    from inferl.evaluation import BestSoFar, Comparison, Result, compare, evaluate_log, evaluate_policy, race
    from inferl.evaluator import Evaluator
    from inferl.interval import Interval
    from inferl.merging import concatenate, merge
    from inferl.methods.bootstrap import BurnIn, OnlineBootstrap
    from inferl.methods.least_squares import LeastSquares
    from inferl.methods.step_sizes import Constant, Polynomial
    from inferl.methods.window import Window


def __getattr__(name: str) -> Any:
    """Import public names when they are first used (PEP 562), so that ``import inferl`` is quick."""
    if name in _HOME:
        return getattr(import_module(f"inferl.{_HOME[name]}"), name)
    if name in __all__:
        return import_module(f"inferl.{name}")
    raise AttributeError(f"module 'inferl' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
