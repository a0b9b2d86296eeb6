"""Rows: records of arrays that share their first axis, cut and joined without looking inside; and states in place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from inferl.invariants import demand

__all__ = ["Bools", "Floats", "InPlace", "Integers", "Rows", "lengthened", "shared", "squared"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Bools = NDArray[np.bool_]

shared: dict[str, Any] = {"shared": True}  # metadata of a field that belongs to all rows together


_KNOWN: dict[type, tuple[tuple[str, ...], tuple[str, ...]]] = {}  # looking fields up is slow


def _names(cls: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of a dataclass's columns, and of all its fields."""
    if cls not in _KNOWN:
        columns = tuple(f.name for f in fields(cls) if not f.metadata.get("shared"))
        _KNOWN[cls] = columns, tuple(f.name for f in fields(cls))
    return _KNOWN[cls]


class Rows:
    """Base of frozen dataclasses whose fields are arrays (or Rows) with one entry a row.

    Cutting and joining skip validation: what was checked once stays checked.
    """

    def __len__(self) -> int:
        for name in _names(type(self))[0]:
            value = getattr(self, name)
            if value is not None:
                return len(value)
        raise TypeError(f"{type(self).__name__} has no rows")

    def __getitem__(self, rows: slice | Integers) -> Self:
        columns = {name: getattr(self, name) for name in _names(type(self))[0]}
        return self._rebuilt({name: x if x is None else x[rows] for name, x in columns.items()})

    @classmethod
    def join(cls, parts: Sequence[Self]) -> Self:
        """Put the rows of several records behind each other."""
        if len(parts) == 1:
            return parts[0]
        joined: dict[str, Any] = {}
        for name in _names(type(parts[0]))[0]:
            value = getattr(parts[0], name)
            if value is None:
                joined[name] = None
            elif isinstance(value, Rows):
                joined[name] = type(value).join([getattr(part, name) for part in parts])
            else:
                joined[name] = np.concatenate([getattr(part, name) for part in parts])
        return parts[0]._rebuilt(joined)

    def copied(self) -> Self:
        """Return the same rows in arrays of their own, so that nothing larger is kept for them."""
        columns = {name: getattr(self, name) for name in _names(type(self))[0]}
        return self._rebuilt({name: _copied(x) for name, x in columns.items()})

    def verify(self) -> None:
        """Refuse columns of different lengths."""
        columns = [getattr(self, name) for name in _names(type(self))[0]]
        same = len({len(column) for column in columns if column is not None}) == 1
        demand(same, f"the columns of {type(self).__name__} have different lengths")

    def _rebuilt(self, columns: dict[str, Any]) -> Self:
        new = object.__new__(type(self))
        for name in _names(type(self))[1]:
            object.__setattr__(new, name, columns[name] if name in columns else getattr(self, name))
        return new


def _copied(x: Any) -> Any:
    if x is None or isinstance(x, Rows):
        return x and x.copied()
    return np.array(x, order="C")


def lengthened(x: Floats, length: int) -> Floats:
    """Extend the last axis by zeros (`np.pad` takes longer than a reading should)."""
    if x.shape[-1] == length:
        return x
    longer = np.zeros((*x.shape[:-1], length))
    longer[..., : x.shape[-1]] = x
    return longer


def squared(x: Floats, length: int) -> Floats:
    """Extend the last two axes by zeros."""
    larger = np.zeros((*x.shape[:-2], length, length))
    larger[..., : x.shape[-2], : x.shape[-1]] = x
    return larger


class InPlace:
    """Base of dataclasses that are changed in place: arrays, and others of their kind."""

    def copy(self) -> Self:
        """Return an independent copy; what is never changed in place is shared."""
        new = object.__new__(type(self))
        for name in _names(type(self))[1]:
            value = getattr(self, name)
            object.__setattr__(new, name, value.copy() if isinstance(value, np.ndarray | InPlace) else value)
        return new
