"""Decoding: turn a record batch into rows of numbers, and note each invalid value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from inferl.data.arrays import Bools, Floats, Integers, Rows, taken
from inferl.data.invariants import demand, shapes
from inferl.data.transitions import FURTHEST
from inferl.sources.logs.columns import ENDED, Columns
from inferl.sources.logs.faults import DROP, Faults
from inferl.sources.logs.features.encoding import Encoder, finite
from inferl.sources.logs.inputs.pieces import Broken
from inferl.sources.logs.values import column_of, flags, kind_of, labels, naming, numbers, times

__all__ = ["Decoder", "LogRows", "Marks"]

LABEL = "repair the label, or drop the row"


@dataclass(frozen=True, eq=False)
class Marks(Rows):
    """Where each row of a log stands: its episode, its time, and what comes before and after it."""

    row: Integers  # (T,) number in the log, from 1
    group: Integers  # (T,) rows of one group follow each other in time
    episode: Integers  # (T,) code of the label
    labelled: Bools  # (T,) group and episode are readable
    order: Floats  # (T,) NaN where there is none
    counted: Bools  # (T,) the order counts steps, so a gap means missing rows
    terminated: Bools  # (T,)
    ended: Bools  # (T,) terminated or truncated
    bad: Bools  # (T,)
    cut: Bools  # (T,) rows are missing before this one
    begins: Bools  # (T,) the first of an episode, once known
    segment: Integers  # (T,) number of the unbroken part of an episode, -1 until known
    stream: Integers  # (T,) label for the evaluator, -1 until known


@dataclass(frozen=True, eq=False)
class LogRows(Rows):
    """Rows of a log, decoded but not yet paired with their next states."""

    features: Floats | Integers  # (T, d), or (T,) states of a table
    next_features: Floats | Integers | None  # the same, where the log has them
    rewards: Floats  # (T,)
    ratios: Floats  # (T,) or (T, m)
    limited: Bools  # (T,) ended by a time limit that is part of the task
    clock: Floats  # (T, a) times whose ages are features; once admitted, the times when the episode began
    time: Floats | None  # (T,) in seconds
    version: Integers | None  # (T,) label of the version of the policy
    marks: Marks

    def verify(self) -> None:
        """Check the shapes of rows that come from a file."""
        sizes = shapes(
            self,
            dict.fromkeys(("rewards", "limited", "time", "version", *(f"marks.{f.name}" for f in fields(Marks))), "T")
            | {"clock": "T a"},
        )
        for name in ("features", "next_features", "ratios"):
            column = getattr(self, name)
            fits = column is None or (column.ndim in (1, 2) and len(column) == sizes["T"])
            demand(fits, f"LogRows.{name} does not have {sizes['T']} rows")
        same = self.next_features is None or self.next_features.shape == self.features.shape
        demand(same, "LogRows.next_features has another shape than the features")

    def at(self, rows: slice | Integers, marks: Marks) -> LogRows:
        """Return some of the rows, with these marks."""
        after = None if self.next_features is None else taken(self.next_features, rows)
        columns = taken(self.features, rows), after, self.rewards[rows], taken(self.ratios, rows), self.limited[rows]
        time = None if self.time is None else self.time[rows]
        version = None if self.version is None else self.version[rows]
        return LogRows(*columns, self.clock[rows], time, version, marks)


# From a batch, its columns, the faults found and the features: ratios (T,) or (T, m).
Ratios = Callable[[Any, Columns, Faults, Any], Floats]


@dataclass(frozen=True, eq=False)
class Decoder:
    """How to read the columns of a log."""

    columns: Columns
    ratios: Ratios
    encoder: Encoder
    gaps: bool
    ends: bool  # whether a time limit terminates
    clock: bool = False  # the order is a time in seconds, even if its numbers are whole
    kept: bool = False  # a server keeps bad rows, which nobody can repair

    def decode(self, batch: Any, broken: Broken, first_row: int, mixed: bool = False) -> tuple[LogRows, Faults]:
        """Decode rows, the first of which has the number `first_row`; if episodes are mixed, each is a group."""
        columns = self.columns
        n = len(batch)
        faults = Faults(first_row, n)
        # With several episodes at once, a row of unknown episode could belong to any: it cannot be skipped in a log
        # that can be repaired.
        single = self.kept or (not mixed and columns.stream is None)
        for place, (value, problem) in broken.items():
            faults.note_one(place, "", value, problem, skip=single)
        episode, labelled = _labels(batch, columns.episode, faults, single)
        group, grouped = _labels(batch, columns.stream, faults, single)
        features, seen, clock = self.encoder.encode(batch, columns.features, faults, np.ones(n, np.bool_))
        terminated, truncated = (_flags(batch, name, faults) for name in (columns.terminated, columns.truncated))
        ended = terminated | truncated
        if columns.terminated in ENDED:
            terminated = terminated & ~truncated
        limited = ended & ~terminated & self.ends
        terminated = terminated | limited
        after = None
        if columns.next_features:
            after = self.encoder.encode(batch, columns.next_features, faults, ~terminated).features
            if terminated.any():  # the next state after a termination has no effect, whatever the log says
                after = np.where(terminated if after.ndim == 1 else terminated[:, None], features, after)
        rewards = _rewards(batch, columns.reward, faults)
        order, counted = self._order(batch, faults)
        ratios = self.ratios(batch, columns, faults, seen)
        time = None if columns.time is None else _seconds(batch, columns.time, faults)
        version = None
        if columns.version is not None:
            version = _labels(batch, columns.version, faults, skip=True)[0] & (2**63 - 1)
        bad = faults.bad
        if bad.any():  # harmless values, so that the arithmetic below works
            features, rewards, ratios = _without(features, bad, 0), _without(rewards, bad, 0), _without(ratios, bad, 1)
            after = None if after is None else _without(after, bad, 0)
        never, unknown = np.zeros(n, np.bool_), np.full(n, -1, np.int64)
        marks = Marks(
            row=first_row + np.arange(n),
            group=episode if mixed else group,
            episode=episode,
            labelled=labelled & grouped,
            order=order,
            counted=counted,
            terminated=terminated,
            ended=ended,
            bad=bad,
            cut=never.copy(),
            begins=never,
            segment=unknown,
            stream=unknown,
        )
        clock = np.zeros((n, 0)) if clock is None else clock
        rows = LogRows(features, after, rewards, ratios, limited, clock, time, version, marks)
        return rows, faults

    def _order(self, batch: Any, faults: Faults) -> tuple[Floats, Bools]:
        """Read the order as numbers, and where it counts steps: whole numbers do, times do not."""
        column, never = self.columns.order, np.zeros(len(batch), np.bool_)
        if column is None:
            return np.full(len(batch), np.nan), never
        values = column_of(batch, column)
        clock = times(values)
        if clock is not None:
            faults.note(np.isnan(clock), column, values, "is no time", LABEL)
            return clock / 1e6 if self.clock else clock, never
        order = finite(column, values, faults)
        counted = never if self.gaps or self.clock else order == np.floor(order)
        return np.where(np.isfinite(order), order, np.nan), counted


def _rewards(batch: Any, column: str, faults: Faults) -> Floats:
    """Read finite numbers, or flags, which are text in CSV."""
    values = column_of(batch, column)
    with naming(column):
        read = numbers(values)
    if kind_of(values) == "text" and np.isnan(read).any():
        flag, known = flags(values)
        read = np.where(known, flag, read)
    faults.note(~np.isfinite(read), column, values, "is not a finite number")
    return read


def _seconds(batch: Any, column: str, faults: Faults) -> Floats:
    """Read when rows were written: times, or numbers that count seconds."""
    values = column_of(batch, column)
    clock = times(values)
    if clock is None:
        clock = finite(column, values, faults)
    else:
        faults.note(np.isnan(clock), column, values, "is no time")
        clock = clock / 1e6
    far = np.abs(clock) > FURTHEST
    faults.note(far, column, values, "is no time in seconds since 1970", f"divide milliseconds by 1000; {DROP}")
    return np.where(np.isnan(clock) | far, 0.0, clock)


def _flags(batch: Any, column: str | None, faults: Faults) -> Bools:
    if column is None:
        return np.zeros(len(batch), np.bool_)
    values = column_of(batch, column)
    with naming(column):
        read, readable = flags(values)
    remedy = f"write 0 or 1, or name another column, or none; {DROP}"
    faults.note(~readable, column, values, "is neither true nor false", remedy)
    return read


def _labels(batch: Any, column: str | None, faults: Faults, skip: bool) -> tuple[Integers, Bools]:
    if column is None:
        return np.zeros(len(batch), np.int64), np.ones(len(batch), np.bool_)
    values = column_of(batch, column)
    with naming(column):
        codes, readable = labels(values)
    remedy = DROP if skip else LABEL + " (it cannot be skipped: it may belong to any episode)"
    faults.note(~readable, column, values, "is no label, neither a whole number nor text", remedy, skip)
    return codes, readable


def _without(array: Any, bad: Bools, value: float) -> Any:
    new = np.array(array)
    new[bad] = value
    return new
