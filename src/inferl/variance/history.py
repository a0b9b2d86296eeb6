r"""History: sums of scores over the data in order of time, to tell whether the value has changed.

A block is 2,048 steps or 16 episodes, in the order in which they begin. There are at most 1,024. Then neighbours
are joined, so that 64 are left for each doubling of their age: what happened long ago needs to be known less exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from inferl.data.arrays import Floats, Integers, lengthened
from inferl.data.invariants import COUNT, bounds, demand, shapes
from inferl.data.vectors import Sparse, Vectors
from inferl.variance.batch_means import Moments
from inferl.variance.segments import add_rows

__all__ = ["GROUPED", "STEPS", "History"]

STEPS = 2048  # of a block
GROUPED = 4  # level of the blocks of episodes in `EpisodeSums`: 16 of them
MOST = 1024  # blocks; more than 64 for each doubling, however long the data are
FINE = 64  # blocks for each doubling of their age, once there are so many


@dataclass(eq=False)
class History:
    """Sums of scores over blocks of time, the oldest first; updated in place, but arrays are replaced."""

    sums: Floats  # (B, p)
    length: Integers  # (B,) in steps, or in episodes
    open: Floats  # (p,) sum over the steps of the block that is not full yet
    filled: int  # their number
    late: Floats  # (W, p) blocks of episodes that are complete before an earlier one is
    index: Integers  # (W,) their numbers
    next: int  # number of the first block of episodes that is not complete
    added: int  # blocks ever added
    streams: int = 0  # side by side, of which the steps are
    before: int = 0  # steps or episodes at the beginning that are not in the estimate, because they left its window
    earlier: Moments | None = None  # of blocks within these; only in a state that is read

    def verify(self) -> None:
        """Refuse shapes that do not fit, too many blocks, and blocks of episodes in another order."""
        sizes = shapes(self, {"sums": "B p", "length": "B", "open": "p", "late": "W p", "index": "W"})
        bounds(self, {"length": (1, COUNT[1]), **dict.fromkeys(("index", "next", "added", "streams", "before"), COUNT)})
        bounds(self, {"filled": (0, STEPS - 1)})
        demand(self.earlier is None, "what is only read was saved")
        demand(sizes["B"] <= MOST, f"History has {sizes['B']} blocks, and at most {MOST} are kept")
        in_order = len(self.index) == 0 or (int(self.index[0]) > self.next and bool((np.diff(self.index) > 0).all()))
        demand(in_order, "blocks of episodes are not in their order")

    def copy(self) -> History:
        """Return an independent copy."""
        return replace(self)

    @classmethod
    def empty(cls, p: int) -> History:
        """Start with no blocks."""
        none, rows = np.zeros(0, np.int64), np.zeros((0, p))
        return cls(rows, none, np.zeros(p), 0, rows, none, 0, 0)

    @classmethod
    def joined(cls, parts: Sequence[History]) -> History:
        """Join the histories of data that follow each other; the first goes on after the last."""
        new = replace(parts[0].copy(), open=np.zeros_like(parts[0].open), filled=0)
        new.sums, new.length, new.added = new.sums[:0], new.length[:0], 0
        for part in parts:
            open, filled = part.open[None][: part.filled], np.full(min(part.filled, 1), part.filled)
            new._push(np.concatenate([part.sums, open]), np.concatenate([part.length, filled]))
            new.added += part.added - len(part.sums)
            new.streams = max(new.streams, part.streams)
        return new

    @classmethod
    def panes(cls, sums: Sequence[Floats], length: Sequence[int], streams: int) -> History:
        """Return one block for each part of the data."""
        new = replace(cls.empty(len(sums[0])), streams=streams)
        there = np.flatnonzero(np.array(length) > 0)
        new._push(np.array(sums)[there], np.array(length, np.int64)[there])
        return new

    def after(self, before: History, earlier: Moments | None) -> History:
        """Return this history with what came before it; what overflowed is left out, as nothing compares with it."""
        if not np.isfinite(before.sums).all() or (earlier is not None and not np.isfinite(earlier.outer).all()):
            return self
        return replace(History.joined([before, self]), before=int(before.length.sum()), earlier=earlier)

    def add(self, scores: Vectors, slot: Integers) -> None:
        """Add steps, dense (T, p) or sparse with (T, m) entries, one by one: no sum depends on chunk borders."""
        self.streams = max(self.streams, int(slot.max(initial=-1)) + 1)
        n = len(scores.value if isinstance(scores, Sparse) else scores)
        row = (self.filled + np.arange(n)) // STEPS
        sums = np.zeros((int(row[-1]) + 2, len(self.open)), like=self.open)
        sums[0] = self.open
        add_rows(sums, row, scores)
        whole, self.filled = divmod(self.filled + n, STEPS)
        self.open = sums[whole].copy()
        self._push(sums[:whole], np.full(whole, STEPS))

    def enter(self, index: Integers, blocks: Floats) -> None:
        """Add blocks of episodes, by number; each waits until all before it are there."""
        index, blocks = np.concatenate([self.index, index]), np.concatenate([self.late, blocks])
        order = np.argsort(index)
        index, blocks = index[order], blocks[order]
        ready = int(np.count_nonzero(index == self.next + np.arange(len(index))))
        self.next += ready
        self.index, self.late = index[ready:], blocks[ready:]
        self._push(blocks[:ready], np.full(ready, 2**GROUPED))

    def joined_to(self, length: int) -> tuple[Floats, Integers]:
        """Return the sums and lengths of blocks that are at least so long; there may be none."""
        begins, before, end = [0], 0, 0
        for k, own in enumerate(self.length.tolist(), 1):
            end += own
            if end - before >= length:
                begins.append(k)
                before = end
        begins.pop()  # what is left at the end belongs to the last one
        if not begins:
            return self.sums[:0], self.length[:0]
        return np.add.reduceat(self.sums, begins, axis=0), np.add.reduceat(self.length, begins)

    def shifted(self, drift: Floats) -> History:
        """Add a vector (p,) for each step or episode."""
        return replace(
            self,
            sums=self.sums + self.length[:, None] * drift,
            open=self.open + self.filled * drift,
            late=self.late + 2**GROUPED * drift,
        )

    def widened(self, more: int) -> History:
        """Add capacity for more parameters."""
        p = len(self.open) + more
        sums, open, late = (lengthened(x, p) for x in (self.sums, self.open, self.late))
        return replace(self, sums=sums, open=open, late=late)

    def moved(self, index: Integers, capacity: int) -> History:
        """Move the parameters to other indices."""
        return self.chosen(np.arange(len(index)), index, capacity)

    def chosen(self, there: Integers, here: Integers, capacity: int) -> History:
        """Move some parameters to other indices, and leave out the rest."""
        new = replace(self)
        for name in ("sums", "open", "late"):
            old = getattr(self, name)
            setattr(new, name, np.zeros((*old.shape[:-1], capacity)))
            getattr(new, name)[..., here] = old[..., there]
        return new

    def _push(self, sums: Floats, length: Integers) -> None:
        """Append blocks one by one; neighbours are joined whenever there are too many."""
        self.added += len(sums)
        while len(sums):
            room = MOST - len(self.sums)
            self.sums = np.concatenate([self.sums, sums[:room]])
            self.length = np.concatenate([self.length, length[:room]])
            sums, length = sums[room:], length[room:]
            if len(self.sums) == MOST:
                self._thin()

    def _thin(self) -> None:
        """Join neighbours of nearly the same age."""
        age = np.cumsum(self.length[::-1])[::-1] - self.length / 2
        fine = FINE
        while True:
            octave = np.floor(fine * np.log2(age)).astype(np.int64)
            row = np.cumsum(np.r_[False, octave[1:] != octave[:-1]])
            if row[-1] + 1 < len(row):
                break
            fine //= 2  # lengths are so different that no two blocks are of the same age
        sums = np.zeros((int(row[-1]) + 1, self.sums.shape[1]), like=self.sums)
        add_rows(sums, row, self.sums)
        self.sums, self.length = sums, np.bincount(row, self.length).astype(np.int64)
