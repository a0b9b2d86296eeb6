"""Invariants of states, declared beside their fields and checked when a state is read from a file.

A class declares them in a method `verify`, with the three functions of this file. Types need not be repeated: the
checkpoint reader compares every field with its annotation before it calls `verify`.
"""

from __future__ import annotations

from collections.abc import Mapping
from sys import float_info
from typing import Any

import numpy as np

from inferl.errors import CheckpointCorruptError

__all__ = ["COUNT", "FINITE", "bounds", "demand", "shapes"]

COUNT = (0, 2**53)  # every such number is exact as a float, and no stream is longer
FINITE = (-float_info.max, float_info.max)


def shapes(of: Any, expected: Mapping[str, str], **sizes: int) -> dict[str, int]:
    """Raise for arrays of other shapes; a letter is the same size wherever it occurs. Return the sizes.

    None is skipped, also on the path to ``"previous.total"``. Arrays that are not stored row by row are refused too:
    compiled code does not take them.

    >>> from types import SimpleNamespace
    >>> of = SimpleNamespace(matrix=np.eye(2), inner=SimpleNamespace(rows=np.zeros((5, 2))))
    >>> shapes(of, {"matrix": "p p", "inner.rows": "T p"})
    {'p': 2, 'T': 5}
    >>> shapes(of, {"matrix": "p p"}, p=3)
    Traceback (most recent call last):
    inferl.errors.CheckpointCorruptError: SimpleNamespace.matrix has shape (2, 2), and not (p, p) with p = 3
    """
    for name, letters in expected.items():
        value = _found(of, name)
        if value is None:
            continue
        shape, wanted = np.shape(value), letters.split()
        fits = len(shape) == len(wanted)
        for letter, size in zip(wanted, shape, strict=False):
            fits &= size == (int(letter) if letter.isdecimal() else sizes.setdefault(letter, size))
        given = ", ".join(f"{letter} = {sizes[letter]}" for letter in dict.fromkeys(wanted) if letter in sizes)
        message = f"has shape {shape}, and not ({', '.join(wanted)})" + (f" with {given}" if given else "")
        demand(fits, f"{type(of).__name__}.{name} {message}")
        by_rows = not isinstance(value, np.ndarray) or value.flags.c_contiguous
        demand(by_rows, f"{type(of).__name__}.{name} is not stored row by row")
    return sizes


def bounds(of: Any, limits: Mapping[str, tuple[float, float]]) -> None:
    """Raise for numbers (scalars or in arrays) outside their limits and for NaN; None is skipped.

    >>> from types import SimpleNamespace
    >>> bounds(SimpleNamespace(waiting=np.array([3, -1])), {"waiting": COUNT})
    Traceback (most recent call last):
    inferl.errors.CheckpointCorruptError: SimpleNamespace.waiting is -1, which is not between 0 and 9007199254740992
    """
    for name, (low, high) in limits.items():
        value = _found(of, name)
        if value is None:
            continue
        numbers = np.asarray(value)
        sound = (numbers >= low) & (numbers <= high)
        if not sound.all():
            wrong = numbers[~sound].flat[0]
            demand(False, f"{type(of).__name__}.{name} is {wrong}, which is not between {low} and {high}")


def demand(holds: bool, otherwise: str) -> None:
    """Raise unless the condition holds."""
    if not holds:
        raise CheckpointCorruptError(otherwise)


def _found(of: Any, name: str) -> Any:
    """Follow a path of attributes; None if one of them is None."""
    for part in name.split("."):
        of = None if of is None else getattr(of, part)
    return of
