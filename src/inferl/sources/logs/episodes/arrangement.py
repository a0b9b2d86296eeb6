"""Arrangement: rows that wait and rows that are new, sorted by group and, within a group, by time.

Rows of a *group* follow each other. Where episodes come one after the other, the whole log is one group. Where they are
mixed, each episode label is a group. With a stream column, each stream is.

Of the rows that wait, only those take part whose group has new rows, or whose episode has been idle for too long. So
a batch takes time for its own rows, however many episodes are open.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from inferl.data.arrays import Bools, Floats, Integers
from inferl.sources.logs.decoding import LogRows, Marks

__all__ = ["Arranged", "arranged"]


@dataclass(frozen=True, eq=False)
class Arranged:
    """Rows with their sorted marks."""

    rows: LogRows  # not sorted: all that waited, then the new ones
    place: Integers | None  # (T,) index among `rows` of the sorted rows that take part; None: these are sorted
    marks: Marks  # sorted
    new: Bools  # (T,) sorted
    follows: Bools  # (T,) continues the episode of the row before it
    late: Bools  # (T,) so long after a later row that its episode would have been over by then
    idle_at: Integers  # (T,) number of the row at whose time the episode had been idle for too long; 0: not yet
    others: Integers  # index among `rows` of those that wait and do not take part, sorted by group

    def has_next(self) -> Bools:
        """Return which rows are followed by a row of their group."""
        return np.append(self.marks.group[1:] == self.marks.group[:-1], False)

    def linked(self) -> Bools:
        """Return which rows are the next step of the row before: no row is missing between them, and both are good."""
        after_bad = np.concatenate([[True], self.marks.bad[:-1]])
        return np.asarray(self.follows & ~self.marks.cut & ~self.marks.bad & ~after_bad)

    def in_log_order(self, which: Bools) -> Integers:
        """Return the indices of the rows where `which` is set, as they are in the log."""
        places = np.flatnonzero(which)
        return places if self.place is None else places[np.argsort(self.marks.row[places])]

    def index(self, which: Integers) -> Integers:
        """Return the index among `rows` of some of the sorted rows."""
        return which if self.place is None else self.place[which]

    def of(self, which: Integers) -> LogRows:
        """Return some of the rows, by their sorted index, with the sorted marks."""
        if self.place is None and len(which) and which[-1] - which[0] + 1 == len(which):
            part = slice(int(which[0]), int(which[-1]) + 1)  # without a copy
            return self.rows.at(part, self.marks[part])
        return self.rows.at(self.index(which), self.marks[which])

    def kept(self, which: Integers) -> LogRows:
        """Return some of the rows, and those that did not take part, sorted by group."""
        if self.place is None:
            return self.of(which)
        place = np.concatenate([self.others, self.place[which]])
        place = place[np.argsort(self.rows.marks.group[place], kind="stable")]  # two sorted runs: quick
        changed = {}
        for name in ("begins", "segment", "stream"):
            column = getattr(self.rows.marks, name).copy()
            column[self.place] = getattr(self.marks, name)
            changed[name] = column[place]
        return self.rows.at(place, replace(self.rows.marks[place], **changed))


def arranged(waiting: LogRows | None, new: LogRows, clocks: Floats | None = None, idle: float = np.inf) -> Arranged:
    """Arrange the rows that wait, sorted by group, and new ones, in the order of the log.

    An episode is over after a pause longer than `idle`. Where episodes are mixed, `clocks` are the latest times of the
    log up to each new row, and the pause is over with the first of them that is late enough. Else only the next row of
    a group tells how long its pause was.
    """
    held, group = None if waiting is None else waiting.marks.group, new.marks.group
    if (group == group[0]).all() and (held is None or (held == group[0]).all()):
        rows = new if waiting is None else LogRows.join([waiting, new])
        return _linked(rows, None, len(rows) - len(new), np.zeros(0, np.int64), clocks, idle)
    by_group = np.argsort(group, kind="stable")
    if waiting is None or held is None:
        return _linked(new, by_group, 0, by_group[:0], clocks, idle)
    group = group[by_group]
    takes_part = np.zeros(len(held) + 2, np.bool_)  # two rows of a group wait at most
    at = np.searchsorted(held, group)
    same = np.append(held, [-1, -1])
    for near in (at, at + 1):
        takes_part[near] |= same[near] == group
    takes_part = takes_part[:-2]
    if clocks is not None and np.isfinite(idle):
        takes_part |= _idle(waiting.marks, float(clocks[-1]), idle)
    old = np.flatnonzero(takes_part)
    merged = np.argsort(np.concatenate([held[old], group]), kind="stable")  # two sorted runs: quick
    place = np.concatenate([old, len(held) + by_group])[merged]
    return _linked(LogRows.join([waiting, new]), place, len(held), np.flatnonzero(~takes_part), clocks, idle)


def _linked(
    rows: LogRows, place: Integers | None, n_old: int, others: Integers, clocks: Floats | None, idle: float
) -> Arranged:
    """Find the rows that begin an episode, and those that were the last before a long pause."""
    marks = rows.marks if place is None else rows.marks[place]
    new = (np.arange(len(marks)) if place is None else place) >= n_old
    same = marks.group[1:] == marks.group[:-1]
    goes_on = same & (marks.episode[1:] == marks.episode[:-1]) & ~marks.ended[:-1]
    late, idle_at = np.zeros(len(marks), np.bool_), np.zeros(len(marks), np.int64)
    if not np.isfinite(idle):
        clocks = None
    elif clocks is None:  # the time of each row itself
        goes_on &= ~(marks.order[1:] > marks.order[:-1] + idle)  # not if a time is unknown
    else:
        clock = np.concatenate([rows.marks.order[:n_old], clocks])[slice(None) if place is None else place]
        goes_on &= ~(clock[1:] > marks.order[:-1] + idle)
        late = clock > marks.order + idle
    follows = np.concatenate([[False], np.where(new[1:], goes_on, same & ~marks.begins[1:])])
    if clocks is not None:
        at = np.searchsorted(clocks, marks.order + idle, side="right")
        over = (at < len(clocks)) & ~np.append(follows[1:], False) & ~marks.ended
        idle_at[over] = rows.marks.row[n_old + at[over]]
    marks = replace(marks, begins=np.where(new, ~follows, marks.begins))
    return Arranged(rows, place, marks, new, follows, late, idle_at, others)


def _idle(marks: Marks, clock: float, idle: float) -> Bools:
    """Return the sorted rows of groups that have been idle for too long."""
    latest = np.append(marks.group[1:] != marks.group[:-1], True)
    over = latest & (clock > marks.order + idle)
    return np.asarray(over | np.append(over[1:] & ~latest[:-1], False))  # two rows of a group wait at most
