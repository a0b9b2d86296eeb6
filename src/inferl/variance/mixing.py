r"""Mixing: the effective sample size of a slow stream, from batch means of its features.

Scores can hide slow mixing: they are differences, and look nearly independent while the stream stays in one region of
the state space. Features cannot. If their sums over long segments vary more than those of independent steps would, the
effective sample size is below the number of steps::

    ess of a feature = steps x (variance of single steps) / (variance rate of long segments)

Segments have the same length in all streams. When there are 32, neighbours are merged and the length doubles; a shorter
stream is one segment. A long segment is sampled at 64 evenly spaced steps. So the cost is a few thousand steps for one
stream, and about a hundred for each of many, whatever their length. Segments of merged evaluators are stored with the
number of their stream, so that they can be merged with their neighbours as the data grow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from inferl import engine
from inferl.data.arrays import Floats, InPlace, Integers
from inferl.data.invariants import COUNT, bounds, demand, shapes
from inferl.data.streams import Clock
from inferl.data.vectors import Sparse, Vectors
from inferl.variance.segments import MOST as MOST_PIECES
from inferl.variance.segments import Segments

__all__ = ["Mixing"]

MOST = 32  # complete segments
FEWEST = 8  # segments needed to estimate the variance between them
SHORTEST = 8  # steps of a segment
SEEN = 64  # largest number of sampled steps of a segment


@dataclass(eq=False)
class Mixing(InPlace):
    """Sums of the features over segments of time; updated in place."""

    ended: Segments  # of merged evaluators, those of a stream in their order
    owner: Integers  # (m,) their streams
    means: Floats  # (MOST, p) of complete segments
    slot: Integers  # (MOST,) their streams
    filled: int  # number of complete segments
    length: int  # steps of a complete segment
    open: Floats  # (S, p) sum over the sampled steps of each stream's open segment
    looked: Integers  # (S,) their number
    done: Integers  # (S,) steps of the open segment
    total: Floats  # (p,) sum over all sampled steps
    squares: Floats  # (p,) of their squares
    seen: int  # number of sampled steps

    def verify(self) -> None:
        """Raise for impossible segments."""
        own = {"open": "S p", "looked": "S", "done": "S", "total": "p", "squares": "p"}
        ended = {"ended.sums": "m p", "owner": "m"}
        sizes = shapes(self, {"means": f"{MOST} p", "slot": f"{MOST}", **own, **ended})
        bounds(self, {"filled": (0, MOST - 1), "slot": (0, max(sizes["S"] - 1, 0)), "length": (SHORTEST, COUNT[1])})
        bounds(self, dict.fromkeys(("owner", "looked", "done", "seen"), COUNT))
        demand(self.length & (self.length - 1) == 0, f"Mixing.length is {self.length}, which is no power of two")

    @classmethod
    def empty(cls, p: int) -> Mixing:
        """Start with no steps."""
        none = np.zeros(0, np.int64)
        segments = np.zeros((MOST, p)), np.zeros(MOST, np.int64), 0, SHORTEST
        return cls(Segments.none(p), none, *segments, np.zeros((0, p)), none, none, np.zeros(p), np.zeros(p), 0)

    @property
    def stride(self) -> int:
        """One of `stride` steps is sampled."""
        return max(self.length // SEEN, 1)

    def add(self, features: Vectors, clock: Clock) -> None:
        """Add rows, dense (T, p) or sparse with (T, m) entries, one by one: no sum depends on chunk borders."""
        new = int(clock.slot.max(initial=-1)) + 1 - len(self.looked)
        if new > 0:
            self.open = np.concatenate([self.open, np.zeros((new, self.open.shape[1]), like=self.open)])
            self.looked, self.done = (np.concatenate([x, np.zeros(new, np.int64)]) for x in (self.looked, self.done))
        index, value = (features.index, features.value) if isinstance(features, Sparse) else (None, features)
        row = 0
        while row < len(value):
            row, self.filled, seen = engine.active().sum_segments(
                index,
                value,
                clock.slot,
                clock.count,
                self.length,
                self.stride,
                self.open,
                self.looked,
                self.done,
                self.total,
                self.squares,
                self.means,
                self.slot,
                self.filled,
                row,
            )
            self.seen += seen
            if self.filled == MOST:
                self._pair_up()

    def _pair_up(self) -> None:
        """Merge neighbours into segments of twice the length; one without a neighbour is reopened."""
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
        """Sums over segments of about 2 / `MOST` of the data, or over whole streams; and the stream of each."""
        there = np.flatnonzero(self.looked > 0)
        done = self.done[there].astype(np.float64)
        sums = self.means[: self.filled] * self.length, self.open[there] * (done / self.looked[there])[:, None]
        running = Segments(np.concatenate(sums), np.append(np.full(self.filled, float(self.length)), done))
        offset = int(self.owner.max(initial=-1)) + 1
        owner = np.concatenate([self.owner, offset + self.slot[: self.filled], offset + there])
        together = Segments.joined([self.ended, running], most=len(owner))
        order = np.argsort(owner, kind="stable")  # stable, so the open segment comes last
        return _coarse(Segments(together.sums[order], together.length[order]), owner[order])

    def effective(self) -> float:
        """Effective sample size in steps, from all features together; infinite if no feature varies."""
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
        """Add capacity for more parameters."""
        return self.moved(np.arange(len(self.total)), len(self.total) + more)

    def moved(self, index: Integers, capacity: int) -> Mixing:
        """Move the parameters to other indices."""
        new = self.copy()
        new.ended = self.ended.moved(index, capacity)
        for name in ("means", "open", "total", "squares"):
            old = getattr(self, name)
            setattr(new, name, np.zeros((*old.shape[:-1], capacity)))
            getattr(new, name)[..., index] = old
        return new

    @classmethod
    def joined(cls, parts: Sequence[Mixing]) -> Mixing:
        """Join the segments of separate streams."""
        new = cls.empty(len(parts[0].total))
        owners, offset = [], 0
        pieces = [part.pieces() for part in parts]
        for _, owner in pieces:
            owners.append(offset + owner)
            offset += int(owner.max(initial=-1)) + 1
        segments = Segments.joined([piece for piece, _ in pieces], most=sum(len(owner) for owner in owners))
        new.ended, new.owner = _coarse(segments, np.concatenate(owners))
        if len(new.owner) > MOST_PIECES:  # mostly whole streams that are shorter than a segment
            new.ended = Segments.joined([new.ended])
            new.owner = np.arange(MOST_PIECES)
        new.total = np.sum([part.total for part in parts], axis=0)
        new.squares = np.sum([part.squares for part in parts], axis=0)
        new.seen = sum(part.seen for part in parts)
        return new


def _coarse(pieces: Segments, owner: Integers) -> tuple[Segments, Integers]:
    """Merge neighbours of one stream into segments of 2 / `MOST` of the data, or into the whole stream."""
    if not len(owner):
        return pieces, owner
    before = np.cumsum(pieces.length) - pieces.length
    begins = np.r_[True, owner[1:] != owner[:-1]]
    within = before - np.maximum.accumulate(np.where(begins, before, 0.0))  # steps of the stream before the piece
    number = np.floor(within * (MOST / 2 / np.sum(pieces.length))).astype(np.int64)
    starts = np.flatnonzero(begins | np.r_[True, number[1:] != number[:-1]])
    return Segments(np.add.reduceat(pieces.sums, starts), np.add.reduceat(pieces.length, starts)), owner[starts]
