"""Labelling: find where episodes begin in a log, and label them for the evaluator.

Traces and blocks run along a *stream* of the evaluator. Rows of one group follow each other, so a group is a stream.
Where episodes are interleaved, each open episode needs its own stream. When it ends, the next episode reuses the
stream, so there are never more streams than open episodes.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heappush

import numpy as np

from inferl.data.arrays import Bools, Floats, Integers
from inferl.data.invariants import COUNT, bounds, shapes
from inferl.sources.logs.decoding import LogRows

__all__ = ["RECENT", "Labelling", "arrangement", "codes", "follows", "linked_to_previous"]

RECENT = 4096  # episodes whose labels are remembered, to detect a label that comes back
_MIX = np.int64(-7046029254386353131)  # odd, so that labels of different groups stay apart


def arrangement(rows: LogRows) -> Integers | None:
    """Return the order that sorts rows by group, and by time within a group; None if they are sorted."""
    if (rows.group == rows.group[0]).all():
        return None
    return np.argsort(rows.group, kind="stable")


def follows(rows: LogRows) -> Bools:
    """Return which of the sorted rows continue the episode of the row before."""
    same = (rows.group[1:] == rows.group[:-1]) & (rows.episode[1:] == rows.episode[:-1]) & ~rows.ended[:-1]
    return np.concatenate([[False], same])


def linked_to_previous(rows: LogRows, following: Bools) -> Bools:
    """Return which rows are the next step of the row before: no row is missing between them, and both are good."""
    after_bad = np.concatenate([[True], rows.bad[:-1]])
    return np.asarray(following & ~rows.cut & ~rows.bad & ~after_bad)


@dataclass(eq=False)
class Labelling:
    """What is remembered about the episodes of a log; updated in place."""

    named: bool  # the log has episode labels
    interleaved: bool
    episodes: int = 0  # begun
    segments: int = 0  # unbroken parts of episodes begun
    recent: Integers = field(default_factory=lambda: np.zeros(0, np.int64))  # labels of the latest episodes
    streams: Integers = field(default_factory=lambda: np.zeros(0, np.int64))  # groups in order of appearance

    def verify(self) -> None:
        """Check shapes and bounds of a state that comes from a file."""
        shapes(self, {"recent": "R", "streams": "S"})
        bounds(self, {"episodes": COUNT, "segments": COUNT})

    def returning(self, rows: LogRows, begins: Integers) -> Integers:
        """Return those of the rows `begins`, in the order of the log, whose episode label has occurred before."""
        if not self.named or begins.size == 0:
            return begins[:0]
        label = np.concatenate([self.recent, codes(rows)[begins]])
        order = np.argsort(label, kind="stable")
        again = (label[order][1:] == label[order][:-1]) & (np.diff(order) <= RECENT)
        back: Integers = np.sort(order[1:][again]) - len(self.recent)
        return begins[back[back >= 0]]

    def label(self, rows: LogRows, new: Bools, following: Bools) -> tuple[LogRows, Floats | Integers]:
        """Number the segments of sorted rows, give them streams, and return the features of episode starts."""
        linked = linked_to_previous(rows, following)
        begins = _in_log_order(rows, new & ~following)
        opens = new & ~linked & ~rows.bad
        segment = rows.segment.copy()
        segment[_in_log_order(rows, opens)] = self.segments + np.arange(np.count_nonzero(opens))
        stream = self._streams(rows, new, begins, following)
        self.segments += int(np.count_nonzero(opens))
        self.episodes += len(begins)
        if self.named:
            self.recent = np.concatenate([self.recent, codes(rows)[begins]])[-RECENT:]
        source = np.maximum.accumulate(np.where(opens | ~new, np.arange(len(rows)), 0))
        labelled = replace(rows, segment=segment[source], stream=stream)
        return labelled, rows.features[begins[~rows.bad[begins]]]

    def _streams(self, rows: LogRows, new: Bools, begins: Integers, following: Bools) -> Integers:
        if self.interleaved:
            stream = rows.stream.copy()
            stream[begins] = self._taken_over(rows, new, begins)
            return stream[np.maximum.accumulate(np.where(~following | ~new, np.arange(len(rows)), 0))]
        if len(self.streams) == 1 and (rows.group == self.streams[0]).all():  # the common case, and much quicker
            return np.zeros(len(rows), np.int64)
        groups, first, inverse = np.unique(rows.group, return_index=True, return_inverse=True)
        order = np.argsort(rows.row[first])
        unknown = order[~np.isin(groups[order], self.streams)]
        self.streams = np.concatenate([self.streams, groups[unknown]])
        place = {int(group): label for label, group in enumerate(self.streams)}
        return np.array([place[int(group)] for group in groups], np.int64)[inverse]

    def _taken_over(self, rows: LogRows, new: Bools, begins: Integers) -> list[int]:
        """Give each new episode the smallest stream that no open episode has."""
        ends = np.flatnonzero(new & rows.ended)
        events = sorted(
            (int(rows.row[i]), kind, int(rows.group[i])) for kind, places in enumerate((begins, ends)) for i in places
        )
        holder = {int(g): int(s) for g, s in zip(rows.group[~new], rows.stream[~new], strict=True)}
        free = list(set(range(len(self.streams))) - set(holder.values()))
        heapify(free)
        given, known = [], len(self.streams)
        for _, is_end, group in events:
            if is_end:
                heappush(free, holder.pop(group))
                continue
            if not free:
                free, known = [known], known + 1
            holder[group] = heappop(free)
            given.append(holder[group])
        self.streams = np.arange(known)
        return given


def _in_log_order(rows: LogRows, which: Bools) -> Integers:
    places = np.flatnonzero(which)
    return places[np.argsort(rows.row[places], kind="stable")]


def codes(rows: LogRows) -> Integers:
    """Return a code for the episode of each row; equal labels in different groups are different episodes."""
    return rows.episode + _MIX * rows.group
