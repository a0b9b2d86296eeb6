"""Rows: records of arrays that share their first axis, to be cut and joined without looking inside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

__all__ = ["Bools", "Floats", "Integers", "Rows", "shared"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Bools = NDArray[np.bool_]

shared: dict[str, Any] = {"shared": True}  # metadata of a field that belongs to all rows together


class Rows:
    """Base of frozen dataclasses whose fields are arrays (or Rows) with one entry a row.

    Cutting and joining skip validation: what was checked once stays checked.
    """

    def __len__(self) -> int:
        for field in fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            if value is not None and not field.metadata.get("shared"):
                return len(value)
        raise TypeError(f"{type(self).__name__} has no rows")

    def __getitem__(self, rows: slice | Integers) -> Self:
        return self._rebuilt({f: v if v is None else v[rows] for f, v in self._columns()})

    @classmethod
    def join(cls, parts: Sequence[Self]) -> Self:
        """Put the rows of several records behind each other."""
        if len(parts) == 1:
            return parts[0]
        joined: dict[str, Any] = {}
        for name, value in parts[0]._columns():
            if value is None:
                joined[name] = None
            elif isinstance(value, Rows):
                joined[name] = type(value).join([getattr(part, name) for part in parts])
            else:
                joined[name] = np.concatenate([getattr(part, name) for part in parts])
        return parts[0]._rebuilt(joined)

    def _columns(self) -> list[tuple[str, Any]]:
        return [(f.name, getattr(self, f.name)) for f in fields(self) if not f.metadata.get("shared")]  # type: ignore[arg-type]

    def _rebuilt(self, columns: dict[str, Any]) -> Self:
        new = object.__new__(type(self))
        for field in fields(self):  # type: ignore[arg-type]
            object.__setattr__(new, field.name, columns.get(field.name, getattr(self, field.name)))
        return new
