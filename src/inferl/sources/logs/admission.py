"""Admission: find rows that are out of order, duplicated or after a gap, and skip as many bad rows as allowed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from inferl.data.arrays import Bools
from inferl.sources.logs.columns import Columns
from inferl.sources.logs.decoding import LogRows
from inferl.sources.logs.faults import Fault, Faults
from inferl.sources.logs.labelling import RECENT, Labelling, arrangement, codes, follows
from inferl.sources.logs.pairing import Pairing

__all__ = ["Admitted", "admit"]

Shown = Callable[[str, int], str]  # the value of a column in a row of the log, as text


class Admitted(NamedTuple):
    """The part of a batch that is admitted."""

    rows: LogRows  # good rows, and bad rows in place, which separate the rows before them from those after
    skipped: list[Fault]
    fatal: Fault | None  # the first fault that may not be skipped; no row from there on is admitted


def admit(rows: LogRows, faults: Faults, pairing: Pairing, columns: Columns, shown: Shown, allowed: int) -> Admitted:
    """Check the order of the rows of a batch, and of those that wait; skip up to `allowed` faults."""
    found = dict(faults.found)
    out = np.zeros(len(rows), np.bool_)  # not admitted: treated as absent
    rows = _labelled(rows, out, pairing)
    fatal = _fatal(found, allowed)
    stop = len(rows) if fatal is None else fatal.row - faults.first_row
    if not _fit(rows[np.flatnonzero(~out[:stop])], pairing):
        fatal, stop = _walk(rows, out, found, pairing, columns, shown, allowed)
    admitted = rows[np.flatnonzero(~out[:stop])] if out.any() else rows[:stop]
    return Admitted(admitted, [fault for place, fault in sorted(found.items()) if place < stop], fatal)


def _fatal(found: dict[int, Fault], allowed: int) -> Fault | None:
    """Find the first fault that may not be skipped."""
    for count, (_, fault) in enumerate(sorted(found.items())):
        if count >= allowed or not fault.skippable:
            return fault
    return None


def _labelled(rows: LogRows, out: Bools, pairing: Pairing) -> LogRows:
    """Count a row without a label to the open episode; if none is open, treat it as absent."""
    if rows.labelled.all():
        return rows
    episode = rows.episode.copy()
    waiting = pairing.waiting
    open_episode = None if waiting is None else int(waiting.episode[-1])
    for place in range(len(rows)):
        if rows.labelled[place]:
            open_episode = int(episode[place])
        elif open_episode is None:
            out[place] = True
        else:
            episode[place] = open_episode
        if rows.ended[place]:
            open_episode = None
    return replace(rows, episode=episode)


def _fit(rows: LogRows, pairing: Pairing) -> bool:
    """Return whether all rows fit those before them: the common case, checked at once."""
    if len(rows) == 0:
        return True
    joined = rows if pairing.waiting is None else LogRows.join([pairing.waiting, rows])
    order = arrangement(joined)
    if order is not None:
        joined = joined[order]
    following = follows(joined)
    new = joined.row >= rows.row[0]
    step = np.r_[np.nan, np.diff(joined.order)]  # NaN where one is unknown: no comparison holds
    counted = joined.counted & np.r_[False, joined.counted[:-1]]
    begins = np.flatnonzero(new & ~following)
    if order is not None:
        begins = begins[np.argsort(joined.row[begins])]
    wrong = following & new & ((step <= 0) | ((step > 1) & counted))
    return not wrong.any() and pairing.labelling.returning(joined, begins).size == 0


class _Before(NamedTuple):
    """The row before, of a group."""

    row: int
    episode: int
    order: float
    counted: bool
    ended: bool


def _walk(
    rows: LogRows,
    out: Bools,
    found: dict[int, Fault],
    pairing: Pairing,
    columns: Columns,
    shown: Shown,
    allowed: int,
) -> tuple[Fault | None, int]:
    """Check the rows one by one, each against the last admitted; return the fatal fault, and its index.

    Rows that do not fit are added to those found. They are left out, or marked if rows before them are missing.
    """
    before = {} if pairing.waiting is None else dict(_places(pairing.waiting))
    recent, labels = pairing.labelling.recent.tolist(), codes(rows).tolist()
    begun, latest = len(recent), {label: number for number, label in enumerate(recent)}
    skipped = 0
    for place, (group, now) in enumerate(_places(rows)):
        fault = found.get(place)
        if fault is not None and (skipped >= allowed or not fault.skippable):
            return fault, place
        misfit = None
        last = before.get(group)
        if out[place]:
            pass
        elif last is not None and last.episode == now.episode and not last.ended:
            step = now.order - last.order
            if step <= 0 or (step > 1 and now.counted and last.counted):
                misfit = _misplaced(now, last, columns, shown)
                rows.cut[place] = step > 0
                out[place] = step <= 0
        elif pairing.labelling.named and begun - latest.get(labels[place], -RECENT - 1) <= RECENT:
            misfit = _returning(now.row, columns, shown, pairing.labelling)
            out[place] = True
        else:
            latest[labels[place]] = begun
            begun += 1
        if misfit is not None:
            if fault is None and skipped >= allowed:
                return misfit, place
            found[place] = misfit
        skipped += place in found
        if not out[place]:
            before[group] = now
    return None, len(rows)


def _places(rows: LogRows) -> Iterator[tuple[int, _Before]]:
    columns = (rows.row, rows.episode, rows.order, rows.counted, rows.ended)
    return zip(rows.group.tolist(), map(_Before, *(column.tolist() for column in columns)), strict=True)


def _misplaced(now: _Before, last: _Before, columns: Columns, shown: Shown) -> Fault:
    assert columns.order is not None
    value = shown(columns.order, now.row)
    # Times have become numbers, which would not be readable.
    number = f"{last.order:.15g} in " if value.lstrip("-").replace(".", "").isdecimal() else ""
    where = f" of episode {shown(columns.episode, now.row)}" if columns.episode else ""
    if now.order == last.order:
        problem, remedy = "is there twice", "drop the copy, or go on over it with skip_bad"
    elif now.order < last.order:
        problem, remedy = "is out of order", "sort the log by episode and order, or go on over the row with skip_bad"
    else:
        problem = "leaves rows out"
        remedy = "restore the missing rows, say gaps if the column does not count steps, or go on with skip_bad"
    return Fault(now.row, columns.order, value, f"{problem}, after {number}row {last.row}{where}", remedy)


def _returning(row: int, columns: Columns, shown: Shown, labelling: Labelling) -> Fault:
    assert columns.episode is not None
    if labelling.interleaved:
        problem = "goes on after its end, or is the label of two episodes"
        remedy = "check the columns that mark the end, and give each episode its own label"
    else:
        problem = "comes back after it ended, or after other episodes"
        remedy = "say interleaved if rows of several episodes are mixed; else give each episode its own label"
    return Fault(row, columns.episode, shown(columns.episode, row), problem, remedy)
