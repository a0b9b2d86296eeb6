"""Pairing: join each row of a log with its next state, from the row itself or from the next row of its episode.

A row waits for the next row of its group. Without next features it also waits for the one after that, which shows
whether it was the last row with a next state. So at most two rows of each group are carried from batch to batch, and
batches may be cut anywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import NamedTuple

import numpy as np

from inferl.data.arrays import Bools, Floats, Integers, is_number, short, taken
from inferl.data.invariants import bounds, demand
from inferl.errors import SettingError
from inferl.sources.logs.decoding import LogRows, Marks
from inferl.sources.logs.episodes.arrangement import Arranged, arranged
from inferl.sources.logs.episodes.endings import NO_ROWS, RowCount
from inferl.sources.logs.episodes.labelling import Labelling
from inferl.sources.logs.episodes.streams import StreamLabels

__all__ = ["Paired", "Pairing", "idle_seconds"]


class Paired(NamedTuple):
    """Rows with their next states, in the order in which they were joined."""

    rows: LogRows
    next_features: Floats | Integers
    last: Bools  # (T,) no row of the unbroken part of an episode comes after this one
    starts: Floats | Integers  # (k, d) or (k,): features of the rows that began an episode


@dataclass(eq=False)
class Pairing:
    """Rows that wait for their next state, and the number dropped; updated in place."""

    labelling: Labelling
    streams: StreamLabels = field(default_factory=StreamLabels)
    episodes_end: bool = False  # the last row of every episode ends it
    mixed: bool | None = None  # each episode is a group; None: not known yet, and it does not matter so far
    idle: float = np.inf  # an episode is over after a longer pause
    clock: float = -np.inf  # the latest time, if episodes are mixed
    waiting: LogRows | None = None  # sorted by group
    dropped: RowCount = NO_ROWS  # rows without a next state: the last of an episode that does not terminate
    lost: int = 0  # episodes of which no row is left, since the only one was dropped

    def verify(self) -> None:
        """Check a state that comes from a file: the rows that wait are sorted, and have streams that were given."""
        bounds(self, {"idle": (0, np.inf), "clock": (-np.inf, np.inf), "lost": (0, self.dropped.rows)})
        if self.waiting is None:
            return
        marks = self.waiting.marks
        demand(len(marks) > 0, "Pairing.waiting has no rows")
        again = marks.group[1:] == marks.group[:-1]
        in_order = (marks.group[1:] > marks.group[:-1]) | (again & (marks.row[1:] > marks.row[:-1]))
        demand(bool(in_order.all()), "the rows that wait are not sorted")
        demand(not (again[1:] & again[:-1]).any(), "more than two rows of a group wait")
        if not self.streams.named:
            held = marks.stream[(marks.stream >= 0) & ~marks.bad & ~np.concatenate([again, [False]])]
            every = np.sort(np.concatenate([held, self.streams.free]))
            fits = len(every) == self.streams.given and bool((every == np.arange(len(every))).all())
            demand(fits, "the streams of the rows that wait are not those that were given")

    @classmethod
    def joined(cls, parts: Sequence[Pairing]) -> Pairing:
        """Return the pairing of one reader of parts of which all rows are complete."""
        first, labellings = parts[0], [part.labelling for part in parts]
        return cls(
            Labelling(
                first.labelling.named,
                most_open=max(labelling.most_open for labelling in labellings),
                segments=sum(labelling.segments for labelling in labellings),
            ),
            episodes_end=first.episodes_end,
            mixed=any(part.mixed for part in parts),
            idle=first.idle,
            dropped=RowCount.joined([part.dropped for part in parts]),
            lost=sum(part.lost for part in parts),
        )

    def arrange(self, new: LogRows) -> Arranged:
        """Arrange new rows, at least one, with those that wait."""
        clocks = np.fmax.accumulate(np.append(self.clock, new.marks.order))[1:] if self.mixed else None
        return arranged(self.waiting, new, clocks, self.idle)

    def take(self, rows: Arranged) -> Paired | None:
        """Add rows, and return those that are complete."""
        if self.mixed:
            self.clock = float(np.fmax.reduce(rows.marks.order, initial=self.clock))
        return self._resolved(rows)

    def finish(self) -> Paired | None:
        """Return the rows that are complete if no rows follow."""
        if self.waiting is None:
            return None
        marks = self.waiting.marks
        same, never = marks.group[1:] == marks.group[:-1], np.zeros(len(marks), np.bool_)
        follows = np.concatenate([[False], same & ~marks.begins[1:]])
        place = None if same.all() else np.arange(len(marks))
        none = np.zeros(len(marks), np.int64)
        held = Arranged(self.waiting, place, marks, never, follows, never, none, none[:0])
        return self._resolved(held, final=True)

    def first_change(self, new: LogRows) -> int | None:
        """Return the index of the first row that tells a log with mixed episodes from another, if not known before.

        Its label is not that of the row before, which did not end its episode. Rows without a label do not count.
        """
        if self.mixed is not None:
            return None
        known = new.marks if new.marks.labelled.all() else new.marks[np.flatnonzero(new.marks.labelled)]
        marks = known if self.waiting is None else Marks.join([self.waiting.marks[-1:], known])
        changes = np.flatnonzero((marks.episode[1:] != marks.episode[:-1]) & ~marks.ended[:-1])
        return int(marks.row[changes[0] + 1] - new.marks.row[0]) if len(changes) else None

    def mix(self) -> None:
        """From now on, each episode is a group."""
        self.mixed = True
        self.labelling.mix()
        if self.waiting is not None:
            marks = self.waiting.marks
            self.waiting = replace(self.waiting, marks=replace(marks, group=marks.episode))
            self.clock = float(np.fmax.reduce(marks.order, initial=-np.inf))

    def _resolved(self, rows: Arranged, final: bool = False) -> Paired | None:
        """Return the rows about which everything is known; the others keep waiting."""
        marks, starts = self.labelling.label(rows)
        n = len(marks)
        linked = np.append(rows.linked()[1:], False)  # to the next row of its group
        has_next, idle = rows.has_next(), rows.idle_at > 0
        known = marks.ended | has_next | idle  # whether it is linked
        after = np.minimum(np.arange(n) + 1, n - 1)
        # The row with which it is known.
        known_by = np.where(marks.ended, marks.row, np.where(idle, rows.idle_at, marks.row[after]))
        if self.episodes_end:  # where another episode follows, or nothing does
            closing = (known & ~np.append(rows.follows[1:], False)) | (final & ~has_next)
            marks = replace(marks, terminated=marks.terminated | (closing & ~marks.ended))
        if rows.rows.next_features is not None:
            ready = (known | final) & ~marks.bad
            last = known & ~linked
            settled_by, done = known_by, known
        else:
            alone = marks.terminated & ~marks.bad
            ready = alone | (linked & (known[after] | final))
            gives_up = ~linked & ~marks.terminated & ~marks.bad  # of the rows that are known: no next state
            last = alone | (linked & known[after] & gives_up[after])
            dropped = np.flatnonzero((known | final) & gives_up)
            self.dropped = self.dropped.plus(rows.rows.rewards[rows.index(dropped)])
            self.lost += int(np.count_nonzero(marks.begins[dropped]))
            settled_by = np.where(linked, known_by[after], known_by)
            done = known & (~linked | known[after])
        which = np.flatnonzero(ready)
        rank = np.arange(len(which))
        if rows.place is not None:  # in the order of completion, so that the batches do not matter
            order = _by_two(marks.row[which] if final else settled_by[which], marks.row[which])
            rank[order] = np.arange(len(which))
        if self.streams.named:
            marks = replace(marks, stream=self.streams.by_group(marks))
        elif which.size:
            given = self.streams.by_segment(marks.segment[which], last[which], marks.stream[which], rank)
            marks = replace(marks, stream=_followed(marks.stream, marks.segment, which, given))
        rows = replace(rows, marks=marks)
        kept = None if final else rows.kept(np.flatnonzero(~done))
        self.waiting = kept if kept is not None and len(kept) else None
        if which.size == 0:
            return None if len(starts) == 0 else Paired(rows.of(which), rows.rows.features[:0], last[:0], starts)
        if rows.place is not None:
            which = which[order]
        out = rows.of(which)
        if out.next_features is not None:
            return Paired(out, out.next_features, last[which], starts)
        goes_on = np.where(marks.terminated[which], which, after[which])
        features = taken(rows.rows.features, rows.index(goes_on))
        return Paired(out, features, last[which], starts)


def _by_two(first: Integers, second: Integers) -> Integers:
    """Return the order by two columns of row numbers, as `np.lexsort` does, which takes more than twice as long."""
    if len(first) == 0:
        return first
    first, second = first - first.min(), second - second.min()
    span = int(second.max()) + 1
    if int(first.max()) * span >= 2**62:
        return np.lexsort((second, first))
    return np.argsort(first * span + second)


def _followed(stream: Integers, segment: Integers, which: Integers, given: Integers) -> Integers:
    """Return the streams of sorted rows: as given to some, and later rows of their segments have the same."""
    stream = stream.copy()
    stream[which] = given
    opens = np.concatenate([[True], segment[1:] != segment[:-1]])
    source = np.maximum.accumulate(np.where(opens | (stream >= 0), np.arange(len(stream)), 0))
    return np.asarray(stream[source])


def idle_seconds(timeout: float | timedelta | None) -> float:
    """Return a pause in seconds, infinite if there is none.

    >>> idle_seconds(timedelta(minutes=30)), idle_seconds(None)
    (1800.0, inf)
    """
    if timeout is None:
        return np.inf
    seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
    if not is_number(seconds) or not 0 < seconds < np.inf:
        raise SettingError(f"idle_timeout is {short(timeout)}; it must be a positive number of seconds, or a timedelta")
    return float(seconds)
