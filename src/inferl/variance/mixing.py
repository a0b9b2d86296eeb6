r"""Mixing: where each stream has been, in a few stretches of time, to see how slowly it moves.

Scores can hide a slow stream: they are differences, and look nearly independent while the stream lingers in one corner
of its world. Features cannot. If their sums over long stretches differ by more than independent steps would, the data
are worth fewer steps than there are::

    effective steps of a feature = steps x (variance of single steps) / (variance that a step adds to long sums)

Stretches have one length in all streams. When there are 32, neighbours join and the length doubles; a stream that is
shorter is one stretch. Of a long one only 64 evenly spaced steps are looked at. So the cost is a few thousand steps for
one stream, and about a hundred for each of many, whatever their length. A stretch that other evaluators have seen is
kept with the number of its stream, so that it can grow too when the whole does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from inferl.data.arrays import Floats, InPlace, Integers, lengthened
from inferl.data.invariants import COUNT, bounds, shapes
from inferl.data.streams import Clock
from inferl.data.vectors import Sparse, Vectors
from inferl.variance.segments import MOST as MOST_PIECES
from inferl.variance.segments import Segments

__all__ = ["Mixing"]

MOST = 32  # stretches that are complete
FEWEST = 8  # stretches from which the variance between them is taken
SHORTEST = 8  # steps of a stretch
SEEN = 64  # steps of a stretch that are looked at, at most


@dataclass(eq=False)
class Mixing(InPlace):
    """Sums of the features over stretches of time; changed in place."""

    ended: Segments  # of evaluators that were merged into this one, those of a stream in their order
    owner: Integers  # (m,) their streams
    means: Floats  # (MOST, p) of complete stretches
    slot: Integers  # (MOST,) their streams
    filled: int  # how many there are
    length: int  # steps of a complete stretch
    open: Floats  # (S, p) sum over those steps of each stream's open stretch that were looked at
    looked: Integers  # (S,) at so many
    done: Integers  # (S,) steps of the open stretch
    total: Floats  # (p,) sum over all steps that were looked at
    squares: Floats  # (p,) of their squares
    seen: int  # all steps that were looked at

    def verify(self) -> None:
        """Refuse stretches that no streams leave."""
        own = {"open": "S p", "looked": "S", "done": "S", "total": "p", "squares": "p"}
        ended = {"ended.sums": "m p", "owner": "m"}
        sizes = shapes(self, {"means": f"{MOST} p", "slot": f"{MOST}", **own, **ended})
        bounds(self, {"filled": (0, MOST - 1), "slot": (0, max(sizes["S"] - 1, 0)), "length": (SHORTEST, COUNT[1])})
        bounds(self, dict.fromkeys(("owner", "looked", "done", "seen"), COUNT))

    @classmethod
    def empty(cls, p: int) -> Mixing:
        """Start with nothing seen."""
        none = np.zeros(0, np.int64)
        segments = np.zeros((MOST, p)), np.zeros(MOST, np.int64), 0, SHORTEST
        return cls(Segments.none(p), none, *segments, np.zeros((0, p)), none, none, np.zeros(p), np.zeros(p), 0)

    @property
    def stride(self) -> int:
        """Of how many steps one is looked at."""
        return max(self.length // SEEN, 1)

    def add(self, features: Vectors, clock: Clock) -> None:
        """Take in rows (T, p), or with (T, m) entries, one after the other: no sum depends on how they are cut."""
        new = int(clock.slot.max(initial=-1)) + 1 - len(self.looked)
        if new > 0:
            self.open = np.concatenate([self.open, np.zeros((new, self.open.shape[1]))])
            self.looked, self.done = (np.concatenate([x, np.zeros(new, np.int64)]) for x in (self.looked, self.done))
        row = 0
        while row < len(features):
            closes = np.flatnonzero(clock.count[row:] % self.length == 0)
            end = row + int(closes[0]) + 1 if len(closes) else len(features)
            self._look(features, clock, row + np.flatnonzero((clock.count[row:end] - 1) % self.stride == 0))
            self.done += np.bincount(clock.slot[row:end], minlength=len(self.done))
            if len(closes):
                self._close(int(clock.slot[end - 1]))
            row = end

    def _look(self, features: Vectors, clock: Clock, rows: Integers) -> None:
        slot = clock.slot[rows]
        if isinstance(features, Sparse):
            index, value = features.index[rows], features.value[rows]
            np.add.at(self.open, (slot[:, None], index), value)
            np.add.at(self.total, index, value)
            np.add.at(self.squares, index, value**2)
        else:
            x = lengthened(features[rows], self.open.shape[1])  # parameters behind the features have none
            np.add.at(self.open, slot, x)
            np.add.at(self.total[None], np.zeros_like(slot), x)
            np.add.at(self.squares[None], np.zeros_like(slot), x * x)
        np.add.at(self.looked, slot, 1)
        self.seen += len(rows)

    def _close(self, slot: int) -> None:
        if self.looked[slot]:
            self.means[self.filled], self.slot[self.filled] = self.open[slot] / self.looked[slot], slot
            self.filled += 1
        self.open[slot], self.looked[slot], self.done[slot] = 0.0, 0, 0
        if self.filled == MOST:
            self._pair_up()

    def _pair_up(self) -> None:
        """Join neighbours to stretches of twice the length; one without a neighbour is open again."""
        looked, filled = self.length // self.stride, 0
        means, slots = self.means.copy(), self.slot.copy()
        for slot in dict.fromkeys(slots.tolist()):
            own = means[slots == slot]
            pairs = (own[: len(own) // 2 * 2 : 2] + own[1::2]) / 2
            self.means[filled : filled + len(pairs)], self.slot[filled : filled + len(pairs)] = pairs, slot
            filled += len(pairs)
            if len(own) % 2:
                self.open[slot] += own[-1] * looked
                self.looked[slot] += looked
                self.done[slot] += self.length
        self.means[filled:], self.slot[filled:] = 0.0, 0
        self.filled, self.length = filled, 2 * self.length

    def pieces(self) -> tuple[Segments, Integers]:
        """Sums over stretches of about 2 / `MOST` of the data, or of whole streams; and which stream each is of."""
        there = np.flatnonzero(self.looked > 0)
        done = self.done[there].astype(np.float64)
        sums = self.means[: self.filled] * self.length, self.open[there] * (done / self.looked[there])[:, None]
        running = Segments(np.concatenate(sums), np.append(np.full(self.filled, float(self.length)), done))
        known = int(self.owner.max(initial=-1)) + 1
        owner = np.concatenate([self.owner, known + self.slot[: self.filled], known + there])
        together = Segments.joined([self.ended, running], most=len(owner))
        order = np.argsort(owner, kind="stable")  # what is open is the latest
        return _coarse(Segments(together.sums[order], together.length[order]), owner[order])

    def effective(self) -> float:
        """How many independent steps the data are worth, by all features together; infinite if nothing varies."""
        pieces, _ = self.pieces()
        if pieces.df < FEWEST - 1:
            return np.inf
        variance = self.squares / self.seen - (self.total / self.seen) ** 2
        varies = variance > 1e-9 * np.maximum(self.squares / self.seen, 1e-300)
        if not varies.any():
            return np.inf
        slowness = float((pieces.rate()[varies] / variance[varies]).mean())
        return float(np.sum(pieces.length)) / slowness if slowness > 0 else np.inf

    def widened(self, more: int) -> Mixing:
        """Add room for more parameters."""
        return self.moved(np.arange(len(self.total)), len(self.total) + more)

    def moved(self, index: Integers, capacity: int) -> Mixing:
        """Write the parameters at other places."""
        new = self.copy()
        new.ended = self.ended.moved(index, capacity)
        for name in ("means", "open", "total", "squares"):
            old = getattr(self, name)
            setattr(new, name, np.zeros((*old.shape[:-1], capacity)))
            getattr(new, name)[..., index] = old
        return new

    @classmethod
    def joined(cls, parts: Sequence[Mixing]) -> Mixing:
        """Put what was seen of separate streams together."""
        new = cls.empty(len(parts[0].total))
        owners, known = [], 0
        pieces = [part.pieces() for part in parts]
        for _, owner in pieces:
            owners.append(known + owner)
            known += int(owner.max(initial=-1)) + 1
        segments = Segments.joined([piece for piece, _ in pieces], most=sum(len(owner) for owner in owners))
        new.ended, new.owner = _coarse(segments, np.concatenate(owners))
        if len(new.owner) > MOST_PIECES:  # mostly streams that are shorter than that, each of them whole
            new.ended = Segments.joined([new.ended])
            new.owner = np.arange(MOST_PIECES)
        new.total = np.sum([part.total for part in parts], axis=0)
        new.squares = np.sum([part.squares for part in parts], axis=0)
        new.seen = sum(part.seen for part in parts)
        return new


def _coarse(pieces: Segments, owner: Integers) -> tuple[Segments, Integers]:
    """Add up neighbours of one stream to stretches of 2 / `MOST` of the whole, or to the whole stream."""
    if not len(owner):
        return pieces, owner
    before = np.cumsum(pieces.length) - pieces.length
    begins = np.r_[True, owner[1:] != owner[:-1]]
    within = before - np.maximum.accumulate(np.where(begins, before, 0.0))  # steps of the stream before the piece
    number = np.floor(within * (MOST / 2 / np.sum(pieces.length))).astype(np.int64)
    starts = np.flatnonzero(begins | np.r_[True, number[1:] != number[:-1]])
    return Segments(np.add.reduceat(pieces.sums, starts), np.add.reduceat(pieces.length, starts)), owner[starts]
