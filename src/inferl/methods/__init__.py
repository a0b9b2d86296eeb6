"""Methods: increments are folded into a state, and intervals are read off it.

Begin with `base`, the protocol; then `bootstrap`, Algorithm 1, and `least_squares`. For a method of your own, import
`Method`, `NormalReading` and `register` from here.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from inferl.methods.registry import names, register

if TYPE_CHECKING:
    from inferl.methods.base import Method, NormalReading, Reading

__all__ = ["Method", "NormalReading", "Reading", "names", "register"]


def __getattr__(name: str) -> Any:
    """Import the protocol when it is first used: the shell asks for names alone, and need not wait for NumPy."""
    if name in __all__:
        return getattr(import_module("inferl.methods.base"), name)
    raise AttributeError(f"module 'inferl.methods' has no attribute {name!r}")
