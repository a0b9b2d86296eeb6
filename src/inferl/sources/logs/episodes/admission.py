"""Admission: find rows that are out of order, duplicated or after a gap, and skip as many bad rows as allowed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from inferl.data.arrays import Bools
from inferl.sources.logs.columns import Columns
from inferl.sources.logs.decoding import LogRows, Marks
from inferl.sources.logs.episodes.arrangement import Arranged
from inferl.sources.logs.episodes.labelling import RECENT, codes
from inferl.sources.logs.episodes.pairing import Pairing
from inferl.sources.logs.faults import Fault, Faults, Shown

__all__ = ["Admitted", "admit"]


class Admitted(NamedTuple):
    """The part of a batch that is admitted."""

    rows: Arranged | None  # good rows, and bad rows in place, which separate the rows before them from those after
    skipped: list[Fault]
    fatal: Fault | None  # the first fault that may not be skipped; no row from there on is admitted


def admit(rows: LogRows, faults: Faults, pairing: Pairing, columns: Columns, shown: Shown, allowed: int) -> Admitted:
    """Check the order of the rows of a batch, and of those that wait; skip up to `allowed` faults."""
    found = dict(faults.found)
    out = np.zeros(len(rows), np.bool_)  # not admitted: treated as absent
    rows = _labelled(rows, out, pairing)
    fatal = _fatal(found, allowed)
    stop = len(rows) if fatal is None else fatal.row - faults.first_row
    arranged = _arranged(rows, out, stop, pairing)
    if arranged is not None and not _fit(arranged, pairing):
        fatal, stop = _walk(rows.marks, out, found, pairing, columns, shown, allowed)
        arranged = _arranged(rows, out, stop, pairing)
    return Admitted(arranged, [fault for place, fault in sorted(found.items()) if place < stop], fatal)


def _arranged(rows: LogRows, out: Bools, stop: int, pairing: Pairing) -> Arranged | None:
    """Arrange the rows that are admitted; None if there are none."""
    admitted = rows[np.flatnonzero(~out[:stop])] if out.any() else rows[:stop]
    return pairing.arrange(admitted) if len(admitted) else None


def _fatal(found: dict[int, Fault], allowed: int) -> Fault | None:
    """Find the first fault that may not be skipped."""
    for count, (_, fault) in enumerate(sorted(found.items())):
        if count >= allowed or not fault.skippable:
            return fault
    return None


def _labelled(rows: LogRows, out: Bools, pairing: Pairing) -> LogRows:
    """Count a row without a label to the open episode; if none is open, or several may be, treat it as absent."""
    marks = rows.marks
    if marks.labelled.all():
        return rows
    episode = marks.episode.copy()
    waiting = pairing.waiting
    several = bool(pairing.mixed) or pairing.streams.named
    open_episode = None if waiting is None else int(waiting.marks.episode[-1])
    for place in range(len(rows)):
        if marks.labelled[place]:
            open_episode = int(episode[place])
        elif several or open_episode is None:
            out[place] = True
        else:
            episode[place] = open_episode
        if marks.ended[place]:
            open_episode = None
    return replace(rows, marks=replace(marks, episode=episode))


def _fit(rows: Arranged, pairing: Pairing) -> bool:
    """Return whether all rows fit those before them: the common case, checked at once."""
    marks = rows.marks
    step = np.append(np.nan, np.diff(marks.order))  # NaN where one is unknown: no comparison holds
    counted = marks.counted & np.append(False, marks.counted[:-1])
    wrong = rows.late | (rows.follows & ((step <= 0) | ((step > 1) & counted)))
    return not (wrong & rows.new).any() and not pairing.labelling.returning(rows)


class _Before(NamedTuple):
    """The row before, of a group."""

    row: int
    episode: int
    label: int  # of the episode, among those of all groups
    order: float
    counted: bool
    ended: bool


def _walk(
    marks: Marks,
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
    before = {} if pairing.waiting is None else dict(_places(pairing.waiting.marks))
    over = {label: number for number, label in enumerate(pairing.labelling.recent.tolist(), 1)}
    ended, clock, skipped = len(pairing.labelling.recent), pairing.clock, 0
    for place, (group, now) in enumerate(_places(marks)):
        fault = found.get(place)
        if fault is not None and (skipped >= allowed or not fault.skippable):
            return fault, place
        misfit = None
        last = before.get(group)
        clock = max(clock, now.order) if pairing.mixed else now.order  # in this order, as a time may be NaN
        same = last is not None and last.episode == now.episode and not last.ended
        if out[place]:
            pass
        elif clock > now.order + pairing.idle:
            misfit = _late(now, columns, shown)
            out[place] = True
        elif last is not None and same and not clock > last.order + pairing.idle:
            step = now.order - last.order
            if step <= 0 or (step > 1 and now.counted and last.counted):
                misfit = _misplaced(now, last, columns, shown)
                marks.cut[place] = step > 0
                out[place] = step <= 0
        else:
            replaces = last is not None and not last.ended
            if pairing.labelling.named and ended + replaces - over.get(now.label, -RECENT) < RECENT:
                misfit = _returning(now.row, columns, shown)
                out[place] = True
            elif replaces and last is not None:
                ended += 1
                over[last.label] = ended
        if misfit is not None:
            if fault is None and skipped >= allowed:
                return misfit, place
            found[place] = misfit
        skipped += place in found
        if not out[place]:
            before[group] = now
            if now.ended:
                ended += 1
                over[now.label] = ended
    return None, len(marks)


def _places(rows: Marks) -> Iterator[tuple[int, _Before]]:
    columns = (rows.row, rows.episode, codes(rows), rows.order, rows.counted, rows.ended)
    return zip(rows.group.tolist(), map(_Before, *(column.tolist() for column in columns)), strict=True)


def _misplaced(now: _Before, last: _Before, columns: Columns, shown: Shown) -> Fault:
    assert columns.order is not None
    value = shown.value(columns.order, now.row)
    # Times have become numbers, which would not be readable.
    number = f"{last.order:.15g} in " if value.lstrip("-").replace(".", "").isdecimal() else ""
    where = f" of episode {shown.value(columns.episode, now.row)}" if columns.episode else ""
    if now.order == last.order:
        problem, remedy = "is there twice", "drop the copy, or go on over it with skip_bad"
    elif now.order < last.order:
        problem, remedy = "is out of order", "sort the log by episode and order, or go on over the row with skip_bad"
    else:
        problem = "leaves rows out"
        remedy = "restore the missing rows, say gaps if the column does not count steps, or go on with skip_bad"
    return Fault(
        now.row, columns.order, value, f"{problem}, after {number}{shown.row(last.row, now.row)}{where}", remedy
    )


def _late(now: _Before, columns: Columns, shown: Shown) -> Fault:
    assert columns.order is not None
    problem = "is before times of earlier rows, by more than the timeout"
    remedy = "sort the log by time, or by episode and time"
    return Fault(now.row, columns.order, shown.value(columns.order, now.row), problem, remedy)


def _returning(row: int, columns: Columns, shown: Shown) -> Fault:
    assert columns.episode is not None
    if columns.terminated is None and columns.truncated is None:
        problem = "comes back after other episodes"
        remedy = (
            "give each episode its own label or, if rows are mixed, evaluate the log from its beginning, as a file and "
            "not as a pipe, or say where episodes end: terminated, truncated or idle_timeout"
        )
    else:
        problem = "comes back after it ended, or after others"
        remedy = (
            "check the columns that mark the end, and give each episode its own label; if rows were appended, evaluate "
            "the log from its beginning"
        )
    return Fault(row, columns.episode, shown.value(columns.episode, row), problem, remedy)
