"""Policies as tables of probabilities: a file or a data frame, one row a state or one row a state and action.

The columns of a table that are columns of the log say on what the probabilities depend; a column ``state`` that the log
does not have is the number of the state. In a table with a column ``probability`` each row is one action, else each
remaining column is one.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, NamedTuple

import numpy as np

from inferl.data.arrays import Floats, Integers
from inferl.errors import DataError, SettingError
from inferl.policies import Policy, Probabilities
from inferl.policies.base import NETWORK_TOLERANCE
from inferl.sources.logs.columns import choice
from inferl.sources.logs.inputs.opening import open_log
from inferl.sources.logs.inputs.readers import damage, import_pyarrow
from inferl.sources.logs.values import column_of, labels, naming, numbers

__all__ = ["Listed", "Matched", "Rows", "digest_of", "is_frame", "listed", "plain_actions"]

STATE = "state"


@dataclass(frozen=True, eq=False)
class Rows:
    """Finds the row of a table for each row of a log, by the values of some columns."""

    keys: tuple[str | None, ...]  # columns of the log; None: the number of the state
    index: dict[tuple[int, ...], int]

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the log."""
        return tuple(key for key in self.keys if key is not None)

    def __call__(self, batch: Any, features: Any, rows: Integers) -> Integers:
        """Return the rows of the table."""
        codes = np.stack([self._codes(key, batch, features, rows) for key in self.keys], axis=1)
        different, inverse = np.unique(codes, axis=0, return_inverse=True)
        found = [self.index.get(tuple(code), -1) for code in different.tolist()]
        if -1 in found:
            shown = ", ".join(
                f"{key or STATE} {column_of(batch, key)[int(rows[place])] if key else features[rows[place]]}"
                for place in np.flatnonzero(inverse.ravel() == found.index(-1))[:1]
                for key in self.keys
            )
            raise DataError(f"the table has no row for {shown}")
        return np.array(found, np.int64)[inverse.ravel()]

    def _codes(self, key: str | None, batch: Any, features: Any, rows: Integers) -> Integers:
        if key is not None:
            with naming(key):
                codes, readable = labels(column_of(batch, key).take(rows))
            if not readable.all():
                raise DataError(f"column {key!r} holds no whole number or text")
            return codes
        if features.ndim != 1:
            raise SettingError(
                "a target policy given as a table needs features that are states (n_states), or columns that are named "
                "as in the log"
            )
        states: Integers = features[rows]
        return states


class Matched(NamedTuple):
    """A table, matched with the columns of a log."""

    policy: Policy  # of the rows of the table
    actions: tuple[Any, ...]
    rows: Rows
    digest: str


@dataclass(frozen=True, eq=False)
class Listed:
    """A table of probabilities, as it was given."""

    name: str
    table: Any  # of Arrow

    def matched(self, available: Sequence[str], action: str, log: str) -> Matched:
        """Find on which columns of a log the probabilities depend, and check that they add up to 1."""
        names = list(self.table.column_names)
        long = "probability" in names
        if long:
            acting = action if action in names else "action"
            keys = [name for name in names if name not in ("probability", acting)]
            unknown = [name for name in keys if name not in (*available, STATE)]
            if acting not in names or unknown:
                problem = f"a column {unknown[0]!r}, which the log does not" if unknown else "no column 'action'"
                raise SettingError(f"{log}: {self.name} has {problem}; {choice(available)}")
        else:
            keys = [name for name in names if name in available or name == STATE]
        codes = self._codes(keys)
        if long:
            index, actions, law = self._long(codes, acting)
        else:
            index = {tuple(code): row for row, code in enumerate(codes.tolist())}
            if len(index) < len(codes):
                raise DataError(f"{self.name}: two rows are about the same state; keep one")
            columns = [name for name in names if name not in keys]
            actions, law = plain_actions(columns), np.stack([self._numbers(name) for name in columns], axis=1)
        self._check(law)
        found = Rows(tuple(key if key in available else None for key in keys) or (None,), index)
        return Matched(
            Probabilities(lambda rows: law[rows], batched=True),
            actions,
            found,
            digest_of(law, repr((found.keys, sorted(index.items()), actions))),
        )

    def _codes(self, keys: list[str]) -> Integers:
        if not keys:  # the rows are the states
            return np.arange(len(self.table))[:, None]
        columns = []
        for key in keys:
            with naming(key):
                codes, readable = labels(column_of(self.table, key))
            if not readable.all():
                raise DataError(f"{self.name}: column {key!r} holds values that are neither whole numbers nor text")
            columns.append(codes)
        return np.stack(columns, axis=1)

    def _long(self, codes: Integers, acting: str) -> tuple[dict[tuple[int, ...], int], tuple[Any, ...], Floats]:
        """Spread one row for each state and action."""
        index: dict[tuple[int, ...], int] = {}
        rows = [index.setdefault(tuple(code), len(index)) for code in codes.tolist()]
        names: dict[str, int] = {}
        columns = [names.setdefault(str(name), len(names)) for name in column_of(self.table, acting).to_pylist()]
        if len(set(zip(rows, columns, strict=True))) < len(rows):
            raise DataError(f"{self.name}: there are two probabilities of one action in one state; drop one")
        law = np.zeros((len(index), len(names)))
        law[rows, columns] = self._numbers("probability")
        return index, plain_actions(names), law

    def _numbers(self, name: str) -> Floats:
        with naming(name):
            return numbers(column_of(self.table, name))

    def _check(self, law: Floats) -> None:
        if law.size == 0:
            raise DataError(f"{self.name} holds no probabilities; name its columns after the actions")
        sums = law.sum(axis=1)
        for row in np.flatnonzero(~((law >= 0).all(axis=1) & (np.abs(sums - 1) <= NETWORK_TOLERANCE)))[:1]:
            raise DataError(
                f"row {row} of the policy is not a distribution: its sum is {sums[row]:g}, its smallest entry "
                f"{law[row].min():g}; give probabilities that add up to 1, in columns named after the actions"
            )


def is_frame(table: Any) -> bool:
    """Whether something is a data frame, of pandas, polars or pyarrow."""
    return hasattr(table, "__arrow_c_stream__") or (hasattr(table, "columns") and hasattr(table, "to_numpy"))


def listed(table: Any) -> Listed:
    """Read a table of probabilities from a file or a data frame.

    >>> import pandas
    >>> frame = pandas.DataFrame({"state": [0, 0, 1], "action": ["a", "b", "b"], "probability": [0.5, 0.5, 1.0]})
    >>> found = listed(frame).matched(["x"], "action", "log.csv")
    >>> found.actions, found.rows.index
    (('a', 'b'), {(0,): 0, (1,): 1})
    """
    pa = import_pyarrow()
    if isinstance(table, str | os.PathLike):
        try:
            with open_log(table) as log, damage(log.name):
                pieces = [piece.parsed() for piece in log.pieces(log.columns, 65536)]
        except SettingError as error:
            hint = "policy is the target policy itself; for a column of its probabilities use target_probability"
            raise SettingError(f"{error} ({hint})") from None
        for _, broken in pieces:
            for value, problem in broken.values():
                raise DataError(f"{table}: {value} {problem}")
        if not pieces:
            raise DataError(f"{table} holds no probabilities")
        return Listed(str(table), pa.concat_tables([pa.table(columns) for columns, _ in pieces]))
    if hasattr(table, "index"):  # pandas: an index with names are columns of the log
        if all(name is not None for name in table.index.names):
            table = table.reset_index()
        elif not np.array_equal(table.index, np.arange(len(table))):
            raise SettingError(
                "the rows of a target policy are the states 0, 1, ... in this order; reset its index, or name it after "
                "a column of the log"
            )
        table = table.set_axis([str(name) for name in table.columns], axis=1)
    with damage("the target policy"):
        return Listed("the target policy", pa.RecordBatchReader.from_stream(table).read_all())


def plain_actions(actions: Any) -> tuple[Any, ...]:
    """Return the names of actions: numbers, even if written as text, else text."""
    names = [str(name) for name in actions]
    plain = [name.removesuffix(".0") for name in names]
    whole = [int(name) for name in plain if name.removeprefix("-").isdecimal()]
    return tuple(whole) if len(whole) == len(names) else tuple(names)


def digest_of(law: Floats, about: str = "") -> str:
    """Return a hash of probabilities and of what they are about."""
    return sha256(np.ascontiguousarray(law).tobytes() + f"{law.shape} {about}".encode()).hexdigest()
