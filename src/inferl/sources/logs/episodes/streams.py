"""Streams: the stream of the evaluator in which each transition of a log belongs.

Traces and blocks run along a stream. A stream column names them. Without one, each unbroken part of an episode has a
stream to itself, from its first transition to its last; then another may have it. Where episodes come one after the
other, all have stream 0; and there are never more streams than episodes that are open at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heappop, heappush

import numpy as np

from inferl.data.arrays import Bools, Integers
from inferl.data.invariants import COUNT, bounds, demand, shapes
from inferl.sources.logs.decoding import Marks

__all__ = ["StreamLabels"]


def _none() -> Integers:
    return np.zeros(0, np.int64)


@dataclass(eq=False)
class StreamLabels:
    """The streams given so far; updated in place."""

    named: bool = False  # by a column of the log
    groups: Integers = field(default_factory=_none)  # of a stream column, in order of appearance
    free: Integers = field(default_factory=_none)  # streams that no open episode has, increasing
    given: int = 0  # number of streams

    def verify(self) -> None:
        """Check shapes and bounds of a state that comes from a file."""
        shapes(self, {"groups": "S", "free": "F"})
        bounds(self, {"given": COUNT, "free": (0, self.given - 1)})
        demand(bool((np.diff(self.free) > 0).all()), "StreamLabels.free does not increase")
        demand(len(np.unique(self.groups)) == len(self.groups), "StreamLabels.groups contains a group twice")

    def by_group(self, marks: Marks) -> Integers:
        """Return the stream of each row, by its group; a new group is a new stream."""
        groups, first, inverse = np.unique(marks.group, return_index=True, return_inverse=True)
        known = np.isin(groups, self.groups)
        new = np.flatnonzero(~known)
        self.groups = np.concatenate([self.groups, groups[new[np.argsort(marks.row[first[new]])]]])
        order = np.argsort(self.groups)
        return np.asarray(order[np.searchsorted(self.groups, groups, sorter=order)][inverse])

    def by_segment(self, segment: Integers, last: Bools, stream: Integers, rank: Integers) -> Integers:
        """Return the stream of each transition: that of its segment or, if it has none yet, the smallest that is free.

        Transitions are sorted by segment; `rank` is their place in the order in which they are handed out. `last`
        closes a segment; `stream` is -1 where it is not known.
        """
        border = segment[1:] != segment[:-1]
        held = self.given - len(self.free)
        if held == int(stream[0] == 0) and (rank[1:] > rank[:-1]).all() and last[:-1][border].all():
            # One segment after the other, the common case.
            self.given = max(self.given, 1)
            self.free = np.arange(0 if last[-1] else 1, self.given)
            return np.zeros(len(segment), np.int64)
        first = np.concatenate([[0], 1 + np.flatnonzero(border)])
        of_segment = np.repeat(np.arange(len(first)), np.diff(np.append(first, len(segment))))
        streams = stream[first]
        opens, closes = np.flatnonzero(streams < 0), np.flatnonzero(last)
        when = np.concatenate([2 * rank[first[opens]], 2 * rank[closes] + 1])
        order = np.argsort(when)
        who = np.concatenate([opens, of_segment[closes]])[order]
        free, given, new = self.free.tolist(), self.given, dict[int, int]()  # sorted, so it is a heap
        for one, its, is_end in zip(who.tolist(), streams[who].tolist(), (when[order] % 2).tolist(), strict=True):
            if is_end:
                heappush(free, new[one] if its < 0 else its)
            elif free:
                new[one] = heappop(free)
            else:
                new[one], given = given, given + 1
        self.free, self.given = np.sort(np.array(free, np.int64)), given
        streams[list(new)] = list(new.values())
        return np.asarray(streams[of_segment])
