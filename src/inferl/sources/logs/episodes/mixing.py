"""Mixing: whether the episodes of a log come one after the other, or mixed, as in order of time.

Rows of both kinds look the same up to the first row at which the label changes although nothing marked an end. Then the
episode is over, or other episodes come in between. It cannot be left open to find out: transitions are handed out in
the order in which they are complete, and those of a log that is sorted by episode should need no memory. So a log that
can be read again is looked through at that row, by its labels and ends alone: it is mixed if an episode that did not
end has rows after rows of another. The look stops at the first such row, and a sorted log that marks its ends needs
none. The answer does not depend on how the log is cut into batches.

A log that cannot be read again, such as a pipe, is taken for mixed if it has a column of ends, which would have marked
one there, or a timeout; else an episode is over where another begins, and a label that comes back is refused.
"""

from __future__ import annotations

import numpy as np

from inferl.data.arrays import Bools, Integers
from inferl.sources.logs.columns import Columns, home_of
from inferl.sources.logs.inputs.parts import Log
from inferl.sources.logs.values import column_of, flags, labels

__all__ = ["is_mixed"]


def is_mixed(log: Log, columns: Columns, batch: int, sessions: bool) -> bool:
    """Look through a log: return whether an episode has rows after rows of another, and did not end before them.

    `sessions`: the label is that of a user, who may come back after an end.
    """
    assert columns.episode is not None
    ends = [column for column in (columns.terminated, columns.truncated) if column is not None]
    runs, last = _Runs(), None
    homes = [home_of(name, log.columns) or name for name in (columns.episode, *ends)]
    for piece in log.pieces(list(dict.fromkeys(homes)), batch):
        rows, _ = piece.parsed()
        label, readable = labels(column_of(rows, columns.episode))
        ended = np.zeros(len(label), np.bool_)
        for column in ends:
            ended |= flags(column_of(rows, column))[0]
        label, ended = label[readable], ended[readable] & (not sessions)
        if last is not None:
            label, ended = np.append(last[0], label), np.append(last[1], ended)
        if len(label) == 0:
            continue
        final = np.flatnonzero(label[1:] != label[:-1])  # of a run of equal labels
        last = label[-1], ended[-1]
        if runs.add(label[final], ~ended[final]):
            return True
    return last is not None and runs.add(np.array([last[0]]), np.array([not last[1]]), check=True)


class _Runs:
    """The labels of runs of rows, and whether each was left open; checked at each doubling, which takes little time."""

    def __init__(self) -> None:
        self.label, self.open, self.checked = np.zeros(0, np.int64), np.zeros(0, np.bool_), 0
        self.parts: list[tuple[Integers, Bools]] = []
        self.waiting = 0

    def add(self, label: Integers, open: Bools, check: bool = False) -> bool:
        """Add runs in the order of the log; return whether one has the label of an earlier one that was left open."""
        self.parts.append((label, open))
        self.waiting += len(label)
        if self.waiting < max(self.checked, 1) and not check:
            return False
        label = np.concatenate([self.label, *(part for part, _ in self.parts)])
        open = np.concatenate([self.open, *(part for _, part in self.parts)])
        order = np.argsort(label, kind="stable")
        again = (label[order][1:] == label[order][:-1]) & open[order][:-1]
        self.label, self.open, self.parts, self.waiting = label[open], open[open], [], 0
        self.checked = len(self.label)
        return bool(again.any())
