"""Labelling: number the episodes of a log and their unbroken parts, and detect a label that comes back."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from inferl.data.arrays import Floats, Integers
from inferl.data.invariants import COUNT, bounds, shapes
from inferl.sources.logs.decoding import Marks
from inferl.sources.logs.episodes.arrangement import Arranged

__all__ = ["RECENT", "Labelling", "codes"]

RECENT = 4096  # episodes that are over whose labels are remembered, to detect a label that comes back
_MIX = np.int64(-7046029254386353131)  # odd, so that labels of different groups stay apart


@dataclass(eq=False)
class Labelling:
    """What is remembered about the episodes of a log; updated in place."""

    named: bool  # episodes have labels, each its own
    open: int = 0  # episodes that have begun and are not known to be over
    most_open: int = 0  # at once
    segments: int = 0  # unbroken parts of episodes begun
    recent: Integers = field(default_factory=lambda: np.zeros(0, np.int64))  # labels of the latest that were over

    def verify(self) -> None:
        """Check shapes and bounds of a state that comes from a file."""
        shapes(self, {"recent": "R"})
        bounds(self, dict.fromkeys(("open", "most_open", "segments"), COUNT))

    def returning(self, rows: Arranged) -> bool:
        """Return whether a new row begins an episode whose label was that of one of the latest that were over."""
        if not self.named:
            return False
        events = _Events.of(rows)
        label = np.concatenate([self.recent, events.label])
        over = np.concatenate([np.ones(len(self.recent), np.int64), -events.change > 0])
        number = np.cumsum(over)
        order = np.argsort(label, kind="stable")
        again = (label[order][1:] == label[order][:-1]) & (over[order][1:] == 0)
        return bool((again & (np.diff(number[order]) < RECENT)).any())

    def mix(self) -> None:
        """From now on, each episode is a group: remember the labels by their codes there."""
        self.recent = self.recent + _MIX * self.recent

    def label(self, rows: Arranged) -> tuple[Marks, Floats | Integers]:
        """Number the segments of the rows, and return their marks and the features of episode starts."""
        marks, linked = rows.marks, rows.linked()
        opens = rows.new & ~linked & ~marks.bad
        segment = marks.segment.copy()
        segment[rows.in_log_order(opens)] = self.segments + np.arange(np.count_nonzero(opens))
        source = np.maximum.accumulate(np.where(opens | ~rows.new, np.arange(len(marks)), 0))
        self.segments += int(np.count_nonzero(opens))
        events = _Events.of(rows)
        number = self.open + np.cumsum(events.change)
        self.open, self.most_open = (
            self.open + int(events.change.sum()),
            max(self.most_open, int(number.max(initial=0))),
        )
        if self.named:
            self.recent = np.concatenate([self.recent, events.label[events.change < 0]])[-RECENT:]
        begins = rows.in_log_order(rows.new & marks.begins & ~marks.bad)
        starts = rows.rows.features[rows.index(begins)]
        return replace(marks, segment=segment[source]), starts


@dataclass(frozen=True, eq=False)
class _Events:
    """Begins (+1) and ends (-1) of episodes, in order of time."""

    label: Integers
    change: Integers

    @classmethod
    def of(cls, rows: Arranged) -> _Events:
        """Find those that the new rows bring."""
        marks, new = rows.marks, rows.new
        begins, flagged = np.flatnonzero(new & marks.begins), np.flatnonzero(new & marks.ended)
        pauses = np.flatnonzero(rows.idle_at > 0)
        by_next = rows.has_next() & np.append((new & marks.begins)[1:], False) & ~marks.ended & (rows.idle_at == 0)
        replaced = np.flatnonzero(by_next)
        # Where a row begins an episode, those that are over by then have ended; where it ends one, that comes last.
        when = (
            3 * rows.idle_at[pauses],
            3 * marks.row[replaced + 1],
            3 * marks.row[begins] + 1,
            3 * marks.row[flagged] + 2,
        )
        who = np.concatenate([pauses, replaced, begins, flagged])
        change = np.repeat([-1, -1, 1, -1], [len(x) for x in when])
        order = np.argsort(np.concatenate(when), kind="stable")
        return cls(codes(marks)[who[order]], change[order])


def codes(marks: Marks) -> Integers:
    """Return a code for the episode of each row; equal labels in different groups are different episodes."""
    return marks.episode + _MIX * marks.group
