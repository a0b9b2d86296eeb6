"""The machine and the versions that results come from."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import numpy as np

from studies.provenance import provenance

__all__ = ["child", "describe", "product"]

PACKAGES = ("inferl", "numpy", "scipy", "jax", "river")
PRODUCT = 1024  # side of the matrices whose product is the yardstick


def describe(command: str) -> dict[str, Any]:
    """Say what ran, where and when."""
    return provenance(None, command, PACKAGES) | {
        "blas": _blas(),
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
    }


def product() -> tuple[Callable[[], object], float]:
    """Return a product of two matrices in float64, and its number of operations: what the machine can do."""
    rng = np.random.default_rng(0)
    a, b, out = rng.normal(size=(PRODUCT, PRODUCT)), rng.normal(size=(PRODUCT, PRODUCT)), np.empty((PRODUCT, PRODUCT))
    return lambda: np.matmul(a, b, out=out), 2.0 * PRODUCT**3


def _blas() -> str:
    try:
        blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    except (KeyError, TypeError):
        return "unknown"
    return f"{blas.get('name', 'unknown')} {blas.get('version', '')}".strip()


def child(code: str) -> str:
    """Run Python code in a fresh interpreter and return what it prints."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout
