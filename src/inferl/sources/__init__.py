"""Sources: where transitions come from. Each class here satisfies the protocol `Source`, except the wrappers."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__all__ = [
    "ClientWrapper",
    "EvaluatorWrapper",
    "MinariDataset",
    "Plan",
    "Rollout",
    "Source",
    "Starts",
    "Table",
    "TensorRollouts",
    "VectorClientWrapper",
    "VectorEvaluatorWrapper",
    "kafka",
    "minari",
    "redis",
    "rollout",
    "table",
    "tensor",
]

# Where each public name lives: imported when it is first used, because some need a library that may be missing.
_HOME = {
    "ClientWrapper": "sending",
    "EvaluatorWrapper": "wrapper",
    "Rollout": "gym",
    "VectorClientWrapper": "sending",
    "VectorEvaluatorWrapper": "wrapper",
    "MinariDataset": "datasets",
    "Plan": "logs.plan",
    "Source": "base",
    "Starts": "starts",
    "Table": "logs.table",
    "kafka": "streams",
    "minari": "datasets",
    "redis": "streams",
    "rollout": "gym",
    "table": "logs.table",
    "TensorRollouts": "tensors",
    "tensor": "tensors",
}

if TYPE_CHECKING:
    from inferl.sources.base import Source
    from inferl.sources.datasets import MinariDataset, minari
    from inferl.sources.gym import Rollout, rollout
    from inferl.sources.logs.plan import Plan
    from inferl.sources.logs.table import Table, table
    from inferl.sources.sending import ClientWrapper, VectorClientWrapper
    from inferl.sources.starts import Starts
    from inferl.sources.streams import kafka, redis
    from inferl.sources.tensors import TensorRollouts, tensor
    from inferl.sources.wrapper import EvaluatorWrapper, VectorEvaluatorWrapper


def __getattr__(name: str) -> Any:
    """Import public names when they are first used (PEP 562)."""
    if name in _HOME:
        return getattr(import_module(f"inferl.sources.{_HOME[name]}"), name)
    raise AttributeError(f"module 'inferl.sources' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
