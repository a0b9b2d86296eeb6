"""Faults: messages about bad rows, with row, column, value and remedy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from inferl.data.arrays import Bools
from inferl.errors import DataError
from inferl.sources.logs.values import column_of

__all__ = ["DROP", "Fault", "Faults", "Shown", "shown"]

Where = Callable[[int], tuple[str, int]]
"""From the number of a row in the log: its file, and its number there."""

DROP = "repair or drop the row, or go on over it with skip_bad"


@dataclass(frozen=True)
class Fault:
    """One bad row.

    >>> print(Fault(17, "reward", "nan", "is not a finite number").error(lambda row: ("log.csv", row)))
    log.csv, row 17, column 'reward': nan is not a finite number; repair or drop the row, or go on over it with skip_bad
    """

    row: int  # of the log, from 1
    column: str
    value: str
    problem: str
    remedy: str = DROP
    skippable: bool = True

    def error(self, where: Where, skipped: int = 0) -> DataError:
        """Return it as an exception; `where` says in which file a row is, `skipped` bad rows were allowed before it."""
        file, row = where(self.row)
        before = (
            f"{skipped} bad rows were skipped, the most that are allowed; then " if skipped and self.skippable else ""
        )
        column = f", column {self.column!r}" if self.column else ""
        return DataError(f"{before}{file}, row {row}{column}: {self.value} {self.problem}; {self.remedy}")


@dataclass(eq=False)
class Faults:
    """The faults found in one batch, the first of each row."""

    first_row: int  # number in the log of the batch's first row
    size: int
    found: dict[int, Fault] = field(default_factory=dict)  # by index in the batch
    bad: Bools = field(init=False)  # (size,)

    def __post_init__(self) -> None:
        self.bad = np.zeros(self.size, np.bool_)

    def note(self, wrong: Bools, column: str, values: Any, problem: str, remedy: str = DROP, skip: bool = True) -> None:
        """Note the rows where `wrong` is set; `values` (Arrow or NumPy) are the content of the column."""
        if not wrong.any():
            return
        for place in np.flatnonzero(wrong & ~self.bad).tolist():
            self.note_one(place, column, values[place], problem, remedy, skip)

    def note_one(
        self, place: int, column: str, value: Any, problem: str, remedy: str = DROP, skip: bool = True
    ) -> None:
        """Note one row, by its index in the batch."""
        self.found[place] = Fault(self.first_row + place, column, shown(value), problem, remedy, skip)
        self.bad[place] = True


@dataclass(frozen=True, eq=False)
class Shown:
    """How the rows of a batch are shown in messages."""

    batch: Any
    first_row: int  # number in the log of the batch's first row
    where: Where

    def value(self, column: str, row: int) -> str:
        """Write the value of a column in a row of the batch."""
        return shown(column_of(self.batch, column)[row - self.first_row])

    def row(self, row: int, other: int) -> str:
        """Name a row beside another one, with its file if it is in another file."""
        (file, number), (same, _) = self.where(row), self.where(other)
        return f"row {number}" if file == same else f"row {number} of {file}"


def shown(value: Any) -> str:
    """Write a value of Arrow, NumPy or Python for a message.

    >>> shown(np.float64(0.5)), shown("a"), shown(None)
    ('0.5', "'a'", 'null')
    """
    try:
        plain = value.as_py() if hasattr(value, "as_py") else value
    except (ValueError, OverflowError):  # a time that Python cannot represent
        return str(value.type)
    if plain is None:
        return "null"
    text = str(plain.item() if isinstance(plain, np.generic) else plain) if not isinstance(plain, str) else repr(plain)
    return text if len(text) <= 60 else text[:57] + "..."
