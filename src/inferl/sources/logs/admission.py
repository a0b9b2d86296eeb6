"""Admission: rows out of order, twice there, or after a gap are found; as many bad rows as allowed are let pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from inferl.rows import Bools
from inferl.sources.logs.columns import Columns
from inferl.sources.logs.decoding import LogRows
from inferl.sources.logs.faults import Fault, Faults
from inferl.sources.logs.labelling import Labelling, arrangement, follows
from inferl.sources.logs.pairing import Pairing

__all__ = ["Admitted", "admit"]

Shown = Callable[[str, int], str]  # the value of a column in a row of the log, as text


class Admitted(NamedTuple):
    """What of a batch may go on."""

    rows: LogRows  # the sound rows, and bad ones in their places, which part what is before from what is after
    skipped: list[Fault]
    fatal: Fault | None  # the first fault that may not be skipped; no row from there on is admitted


def admit(rows: LogRows, faults: Faults, pairing: Pairing, columns: Columns, shown: Shown, allowed: int) -> Admitted:
    """Check the order of a batch's rows against each other and the rows that wait; let `allowed` faults pass."""
    found = dict(faults.found)
    out = np.zeros(len(rows), np.bool_)  # not admitted: as if it were not there
    rows = _labelled(rows, out, pairing)
    first_row = faults.first_row
    while True:
        fatal = _fatal(found, allowed)
        stop = len(rows) if fatal is None else fatal.row - first_row
        now = rows[np.flatnonzero(~out[:stop])] if out.any() else rows[:stop]
        misfit = _first_misfit(now, pairing, columns, shown) if len(now) else None
        if misfit is None:
            skipped = [fault for place, fault in sorted(found.items()) if place < stop]
            return Admitted(now, skipped, fatal)
        place = misfit.fault.row - first_row
        found[place] = misfit.fault
        (rows.cut if misfit.after_gap else out)[place] = True


class _Misfit(NamedTuple):
    fault: Fault
    after_gap: bool  # the row is sound, but rows before it are missing


def _fatal(found: dict[int, Fault], allowed: int) -> Fault | None:
    """Find the first fault that may not be skipped."""
    for count, (_, fault) in enumerate(sorted(found.items())):
        if count >= allowed or not fault.skippable:
            return fault
    return None


def _labelled(rows: LogRows, out: Bools, pairing: Pairing) -> LogRows:
    """Count a row without a label to the episode that is open; if none is, it is as if it were not there."""
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


def _first_misfit(rows: LogRows, pairing: Pairing, columns: Columns, shown: Shown) -> _Misfit | None:
    """Find the first row that does not fit those before it."""
    first_row = rows.row[0]
    joined = rows if pairing.waiting is None else LogRows.join([pairing.waiting, rows])
    order = arrangement(joined)
    if order is not None:
        joined = joined[order]
    following = follows(joined)
    new = joined.row >= first_row
    step = np.r_[np.nan, np.diff(joined.order)]  # NaN where one is unknown: no comparison holds
    counted = joined.counted & np.r_[False, joined.counted[:-1]]
    wrong = following & new & ((step <= 0) | ((step > 1) & counted & ~joined.cut))
    begins = np.flatnonzero(new & ~following)
    if order is not None:
        begins = begins[np.argsort(joined.row[begins])]
    back = pairing.labelling.returning(joined, begins)
    candidates = np.concatenate([np.flatnonzero(wrong), back])
    if candidates.size == 0:
        return None
    at = int(candidates[np.argmin(joined.row[candidates])])
    row = int(joined.row[at])
    if not wrong[at]:
        return _Misfit(_returning(row, columns, shown, pairing.labelling), after_gap=False)
    assert columns.order is not None
    value = shown(columns.order, row)
    # Times have become numbers that nobody could read.
    number = f"{joined.order[at - 1]:.15g} in " if value.lstrip("-").replace(".", "").isdecimal() else ""
    where = f" of episode {shown(columns.episode, row)}" if columns.episode else ""
    if step[at] == 0:
        problem, remedy = "is there twice", "drop the copy, or go on over it with skip_bad"
    elif step[at] < 0:
        problem, remedy = "is out of order", "sort the log by episode and order, or go on over the row with skip_bad"
    else:
        problem = "leaves rows out"
        remedy = "restore the missing rows, say gaps if the column does not count steps, or go on with skip_bad"
    problem = f"{problem}, after {number}row {joined.row[at - 1]}{where}"
    return _Misfit(Fault(row, columns.order, value, problem, remedy), after_gap=bool(step[at] > 0))


def _returning(row: int, columns: Columns, shown: Shown, labelling: Labelling) -> Fault:
    assert columns.episode is not None
    if labelling.interleaved:
        problem = "goes on after its end, or is the label of two episodes"
        remedy = "check the columns that mark the end, and give each episode its own label"
    else:
        problem = "comes back after it ended, or after other episodes"
        remedy = "say interleaved if rows of several episodes are mixed; else give each episode its own label"
    return Fault(row, columns.episode, shown(columns.episode, row), problem, remedy)
