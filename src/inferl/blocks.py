r"""Block sums of a stream of scores, online: what their long-run covariance is read from.

Scores that depend on each other make the variance of their sum differ from the sum of their variances. Sums over blocks
longer than the dependence are nearly independent again. `Cascade` forms blocks of length 1, 2, 4, ... at once
(Flyvbjerg and Petersen 1989): each level adds pairs of the level below. `EpisodeSums` takes whole episodes as blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from inferl.rows import Bools, Floats, Integers
from inferl.streams import Clock

__all__ = ["Cascade", "EpisodeSums", "Levels", "Moments", "choose_level"]

FEWEST_TESTED = 8  # a level with fewer blocks is too noisy to overrule a lower one
FEWEST_USED = 6  # the level above the chosen one is taken if it has this many


@dataclass(eq=False)
class Moments:
    """Sums of block sums g of one epoch, a row a level; changed in place."""

    outer: Floats  # (J, p, p) sum of g g'
    total: Floats  # (J, p) sum of g
    count: Integers  # (J,) number of blocks
    means: Integers  # (J,) number of means that the centred squares are taken about

    @classmethod
    def empty(cls, n_levels: int, p: int) -> Moments:
        """Start with no blocks."""
        whole = np.zeros(n_levels, np.int64)
        return cls(np.zeros((n_levels, p, p)), np.zeros((n_levels, p)), whole, whole + 1)

    @classmethod
    def pooled(cls, parts: Sequence[Moments]) -> Moments:
        """Add up epochs, each centred about its own mean."""
        n_levels = max(len(part.count) for part in parts)
        pool = cls.empty(n_levels, parts[0].total.shape[1])
        pool.means[:] = 0
        for part in parts:
            j = len(part.count)
            mean = part.total / np.maximum(part.count, 1)[:, None]
            pool.outer[:j] += part.outer - mean[:, :, None] * part.total[:, None, :]
            pool.count[:j] += part.count
            pool.means[:j] += np.minimum(part.means, part.count)
        return pool

    def add(self, level: int, g: Floats) -> None:
        """Take in block sums (m, p)."""
        self.outer[level] += g.T @ g
        self.total[level] += g.sum(axis=0)
        self.count[level] += len(g)

    def centred(self, directions: Floats) -> Floats:
        """Centred sum of squares of h . g for each level and each direction h (k, p): (J, k)."""
        squares = np.einsum("kp,jpq,kq->jk", directions, self.outer, directions, optimize=True)
        means = self.total @ directions.T
        return np.asarray(squares - means**2 / np.maximum(self.count, 1)[:, None])

    @property
    def freedom(self) -> Integers:
        """Degrees of freedom of each level."""
        return np.asarray(np.maximum(self.count - self.means, 0))

    def widened(self, more: int) -> Moments:
        """Add room for more parameters."""
        outer = np.pad(self.outer, ((0, 0), (0, more), (0, more)))
        return Moments(outer, np.pad(self.total, ((0, 0), (0, more))), self.count, self.means)

    def moved(self, place: Integers, room: int) -> Moments:
        """Write the parameters at other places."""
        new = Moments.empty(len(self.count), room)
        new.outer[:, place[:, None], place[None, :]] = self.outer
        new.total[:, place] = self.total
        return Moments(new.outer, new.total, self.count.copy(), self.means.copy())


@dataclass(eq=False)
class Cascade:
    """Dyadic blocks along each stream."""

    moments: Moments
    half: Floats  # (S, J, p) the first half of an open block
    open: Bools  # (S, J) whether there is one

    @classmethod
    def empty(cls, n_levels: int, p: int) -> Cascade:
        """Start with no blocks and no streams."""
        return cls(Moments.empty(n_levels, p), np.zeros((0, n_levels, p)), np.zeros((0, n_levels), np.bool_))

    def add(self, scores: Floats, clock: Clock) -> None:
        """Take in scores (T, p) and pair them up, level by level."""
        g, slot = scores, clock.slot
        self._grow(int(slot.max(initial=-1)) + 1)
        for level in range(len(self.moments.count)):
            if len(g) == 0:
                return
            self.moments.add(level, g)
            g, slot = self._paired(level, g, slot)

    def _paired(self, level: int, g: Floats, slot: Integers) -> tuple[Floats, Integers]:
        """Add up pairs of consecutive blocks of each stream; an odd one waits in `half`."""
        order = np.argsort(slot, kind="stable")
        g, slot = g[order], slot[order]
        begins = np.r_[True, slot[1:] != slot[:-1]]
        start = np.maximum.accumulate(np.where(begins, np.arange(len(slot)), 0))
        place = np.arange(len(slot)) - start + self.open[slot, level]  # within its stream, counting a waiting half
        second = place % 2 == 1
        partner = np.where(begins[:, None], self.half[slot, level], np.roll(g, 1, axis=0))
        pairs = partner[second] + g[second]
        ends = np.r_[begins[1:], True]
        waits = ends & ~second
        self.open[slot[ends], level] = waits[ends]
        self.half[slot[waits], level] = g[waits]
        return pairs, slot[second]

    def widened(self, more: int) -> Cascade:
        """Add room for more parameters."""
        return Cascade(self.moments.widened(more), np.pad(self.half, ((0, 0), (0, 0), (0, more))), self.open)

    def _grow(self, n_streams: int) -> None:
        new = n_streams - len(self.half)
        if new > 0:
            self.half = np.concatenate([self.half, np.zeros((new, *self.half.shape[1:]))])
            self.open = np.concatenate([self.open, np.zeros((new, *self.open.shape[1:]), np.bool_)])


@dataclass(eq=False)
class EpisodeSums:
    """Whole episodes as blocks: one level, which closes a block where an episode ends."""

    moments: Moments
    sum: Floats  # (S, p) of the open episode
    episode: Integers  # (S,) its number within the stream, 0 where none is open

    @classmethod
    def empty(cls, p: int) -> EpisodeSums:
        """Start with no episodes; there is one level."""
        return cls(Moments.empty(1, p), np.zeros((0, p)), np.zeros(0, np.int64))

    def add(self, scores: Floats, clock: Clock) -> None:
        """Take in scores (T, p); an episode cut by an epoch's edge is left out."""
        new = int(clock.slot.max(initial=-1)) + 1 - len(self.sum)
        if new > 0:
            self.sum = np.concatenate([self.sum, np.zeros((new, self.sum.shape[1]))])
            self.episode = np.concatenate([self.episode, np.zeros(new, np.int64)])
        closed = []
        rows = zip(clock.slot.tolist(), clock.episode.tolist(), clock.last.tolist(), scores, strict=True)
        for slot, episode, last, score in rows:
            if episode != self.episode[slot]:
                if self.episode[slot] > 0:
                    closed.append(self.sum[slot].copy())
                self.sum[slot] = 0.0
            self.sum[slot] += score
            self.episode[slot] = 0 if last else episode
            if last:
                closed.append(self.sum[slot].copy())
        if closed:
            self.moments.add(0, np.array(closed))

    def widened(self, more: int) -> EpisodeSums:
        """Add room for more parameters."""
        return EpisodeSums(self.moments.widened(more), np.pad(self.sum, ((0, 0), (0, more))), self.episode)


class Levels(NamedTuple):
    """Variance rates seen at each block length, and the level that was chosen for each of k targets."""

    rate: Floats  # (J, k) v_j
    blocks: Integers  # (J,) number of blocks at each level
    freedom: Integers  # (J,)
    chosen: Integers  # (k,)


def choose_level(squares: Floats, blocks: Integers, freedom: Integers) -> Levels:
    """Choose, for each target, the shortest blocks beyond which the variance rate no longer grows.

    `squares` (J, k) are centred sums of squares at block length 2^j. The smallest level is taken whose rate is not
    clearly exceeded by any of the next three; then one level higher for safety, if it has enough blocks.
    """
    length = 2.0 ** np.arange(len(blocks))
    rate = np.maximum(squares, 0.0) / (length * np.maximum(freedom, 1))[:, None]
    tested = int(np.sum(blocks >= FEWEST_TESTED))
    chosen = np.zeros(rate.shape[1], np.int64)
    for target in range(rate.shape[1]):
        v = rate[:, target]
        level = 0
        while level + 1 < tested and any(
            v[above] > v[level] * (1 + np.sqrt(2 / blocks[above])) for above in range(level + 1, min(level + 4, tested))
        ):
            level += 1
        higher = level + 1
        chosen[target] = higher if higher < len(blocks) and blocks[higher] >= FEWEST_USED else level
    return Levels(rate, blocks, freedom, chosen)
