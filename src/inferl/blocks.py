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

from inferl import kernels
from inferl.long_run import long_run
from inferl.rows import Bools, Floats, InPlace, Integers
from inferl.streams import Clock
from inferl.sums import GATHER
from inferl.vectors import Sparse, Vectors

__all__ = ["Cascade", "EpisodeSums", "Levels", "Moments", "block_error", "correlation"]

FEWEST_BLOCKS = 8  # below, nothing can be said of the variance
FEWEST_HEARD = 32  # blocks, of the level that tells how slowly scores change


@dataclass(eq=False)
class Moments(InPlace):
    """Sums of block sums g of one epoch, a row a level; changed in place.

    Block sums wait in `gathered` until one matrix product can add many of them.
    """

    outer: Floats  # (J, p, p) sum of g g' without the waiting ones, lower triangle only
    total: Floats  # (J, p) sum of g, likewise
    count: Integers  # (J,) number of blocks, likewise
    means: Integers  # (J,) number of means that the centred squares are taken about
    gathered: Floats  # (J, GATHER, p) block sums that wait
    waiting: Integers  # (J,) how many

    @classmethod
    def empty(cls, n_levels: int, p: int, gather: int = GATHER) -> Moments:
        """Start with no blocks."""
        none = np.zeros(n_levels, np.int64)
        gathered = np.zeros((n_levels, gather, p))
        return cls(np.zeros((n_levels, p, p)), np.zeros((n_levels, p)), none, none + 1, gathered, none.copy())

    @classmethod
    def pooled(cls, parts: Sequence[Moments], stands_for: Sequence[float]) -> Moments:
        """Add up epochs, each centred about its own mean.

        A block stands for `stands_for` times as many steps as it has, as not all streams keep the same share of theirs;
        squares are weighted so, relative to the mean.
        """
        steps = [int(part.blocks[0]) for part in parts]
        usual = np.dot(stands_for, steps) / max(sum(steps), 1)
        n_levels = max(len(part.count) for part in parts)
        pool = cls.empty(n_levels, parts[0].total.shape[1], gather=0)
        pool.means[:] = 0
        for part, own in zip(parts, stands_for, strict=True):
            part = part.settled()
            j, weight = len(part.count), own / usual if usual > 0 else 1.0
            mean = part.total / np.maximum(part.count, 1)[:, None]
            pool.outer[:j] += weight * np.tril(part.outer - mean[:, :, None] * part.total[:, None, :])
            pool.count[:j] += part.count
            pool.means[:j] += np.minimum(part.means, part.count)
        return pool

    @classmethod
    def stacked(cls, lower: Moments, upper: Moments) -> Moments:
        """Put higher levels on top of lower ones, at which nothing waits."""
        room = np.full((len(lower.count), *upper.gathered.shape[1:]), np.nan)  # never used
        return cls(
            np.concatenate([lower.outer, upper.outer]),
            np.concatenate([lower.total, upper.total]),
            np.concatenate([lower.count, upper.count]),
            np.concatenate([lower.means, upper.means]),
            np.concatenate([room, upper.gathered]),
            np.concatenate([lower.waiting, upper.waiting]),
        )

    @property
    def blocks(self) -> Integers:
        """Number of blocks of each level, the waiting ones included."""
        return self.count + self.waiting

    @property
    def freedom(self) -> Integers:
        """Degrees of freedom of each level."""
        return np.asarray(np.maximum(self.blocks - self.means, 0))

    def flush(self, level: int) -> None:
        """Add the waiting block sums of a level."""
        from scipy.linalg.blas import dsyrk

        g = self.gathered[level, : self.waiting[level]]
        if len(g):
            # Seen from BLAS, which counts columns first, our lower triangle is the upper one.
            dsyrk(1.0, g.T, beta=1.0, c=self.outer[level].T, lower=False, overwrite_c=True)
            self.total[level] += g.sum(axis=0)
            self.count[level] += len(g)
            self.waiting[level] = 0

    def settled(self) -> Moments:
        """Return the same moments with nothing waiting, and no room for it."""
        settled = self.copy()
        for level in range(len(self.count)):
            settled.flush(level)
        settled.gathered = np.zeros((len(self.count), 0, self.total.shape[1]))  # not a view, which would keep it all
        return settled

    def centred(self, directions: Floats) -> Floats:
        """Centred sum of squares of h . g for each level and each direction h (k, p): (J, k)."""
        lower = np.einsum("jpk,kp->jk", self.outer @ directions.T, directions)
        diagonal = np.einsum("jpp->jp", self.outer) @ (directions**2).T
        squares, sums = 2 * lower - diagonal, self.total @ directions.T
        most = int(self.waiting.max(initial=0))
        if most:
            along = self.gathered[:, :most] @ directions.T
            along[np.arange(most) >= self.waiting[:, None]] = 0.0  # nobody waits there
            squares += np.einsum("jgk,jgk->jk", along, along)
            sums += along.sum(axis=1)
        return np.asarray(squares - sums**2 / np.maximum(self.blocks, 1)[:, None])

    def spread(self, level: int) -> Floats:
        """Centred sums of squares of each parameter's g at one level: (p,)."""
        rows = self.gathered[level, : self.waiting[level]]
        squares = np.diagonal(self.outer[level]) + np.einsum("gp,gp->p", rows, rows)
        sums = self.total[level] + rows.sum(axis=0)
        return np.asarray(squares - sums**2 / max(int(self.blocks[level]), 1))

    def products(self, directions: Floats, level: int) -> Floats:
        """Centred sums of products of h . g at one level, for all pairs of directions h (k, p): (k, k)."""
        half = directions @ self.outer[level] @ directions.T
        diagonal = (directions * np.diagonal(self.outer[level])) @ directions.T
        along = self.gathered[level, : self.waiting[level]] @ directions.T
        sums = directions @ self.total[level] + along.sum(axis=0)
        products = half + half.T - diagonal + along.T @ along
        return np.asarray(products - np.outer(sums, sums) / max(int(self.blocks[level]), 1))

    def widened(self, more: int) -> Moments:
        """Add room for more parameters."""
        outer = np.pad(self.outer, ((0, 0), (0, more), (0, more)))
        gathered = np.pad(self.gathered, ((0, 0), (0, 0), (0, more)))
        total = np.pad(self.total, ((0, 0), (0, more)))
        return Moments(outer, total, self.count, self.means, gathered, self.waiting)

    def moved(self, place: Integers, room: int) -> Moments:
        """Write the parameters at other places."""
        settled, new = self.settled(), Moments.empty(len(self.count), room, gather=0)
        whole = settled.outer + np.transpose(np.tril(settled.outer, -1), (0, 2, 1))
        new.outer[:, place[:, None], place[None, :]] = whole
        new.total[:, place] = settled.total
        return Moments(np.tril(new.outer), new.total, settled.count, self.means.copy(), new.gathered, new.waiting)


@dataclass(eq=False)
class Cascade(InPlace):
    """Dyadic blocks along each stream."""

    moments: Moments
    half: Floats  # (S, J, p) the first half of an open block
    open: Bools  # (S, J) whether there is one

    @classmethod
    def empty(cls, n_levels: int, p: int) -> Cascade:
        """Start with no blocks and no streams."""
        return cls(Moments.empty(n_levels, p), np.zeros((0, n_levels, p)), np.zeros((0, n_levels), np.bool_))

    def add(self, scores: Floats, slot: Integers) -> None:
        """Take in scores (T, p) of the streams in `slot` (T,) and pair them up; a level that is full is flushed."""
        self._grow(int(slot.max(initial=-1)) + 1)
        moments, row = self.moments, 0
        while row < len(scores):
            row = kernels.pair_up(scores, slot, self.half, self.open, moments.gathered, moments.waiting, row)
            for level in np.flatnonzero(moments.waiting == GATHER):
                moments.flush(int(level))

    def next_epoch(self, n_levels: int) -> Cascade:
        """Start an epoch with new moments; halves of open blocks are dropped."""
        return Cascade.empty(n_levels, self.moments.total.shape[1])

    def widened(self, more: int) -> Cascade:
        """Add room for more parameters."""
        return Cascade(self.moments.widened(more), np.pad(self.half, ((0, 0), (0, 0), (0, more))), self.open)

    def _grow(self, n_streams: int) -> None:
        new = n_streams - len(self.half)
        if new > 0:
            self.half = np.concatenate([self.half, np.zeros((new, *self.half.shape[1:]))])
            self.open = np.concatenate([self.open, np.zeros((new, *self.open.shape[1:]), np.bool_)])


@dataclass(eq=False)
class EpisodeSums(InPlace):
    """Whole episodes as blocks, and pairs, fours, ... of them in the order in which they close.

    Pairs tell whether episodes depend on each other. An episode that is open when an epoch ends belongs to the next;
    its first scores were taken at the pilot before, which is better than to leave long episodes out.
    """

    cascade: Cascade  # of one stream, whose rows are the episodes
    sum: Floats  # (S, p) of the open episode
    episode: Integers  # (S,) its number within the stream, 0 where none is open
    closed: int  # episodes that have ended, in all epochs

    @classmethod
    def empty(cls, n_levels: int, p: int) -> EpisodeSums:
        """Start with no episodes."""
        return cls(Cascade.empty(n_levels, p), np.zeros((0, p)), np.zeros(0, np.int64), 0)

    @property
    def moments(self) -> Moments:
        """Moments of single episodes, of pairs, and so on."""
        return self.cascade.moments

    def next_epoch(self, n_levels: int) -> EpisodeSums:
        """Start an epoch with new moments; open episodes go on."""
        cascade = Cascade.empty(n_levels, self.sum.shape[1])
        return EpisodeSums(cascade, self.sum.copy(), self.episode.copy(), self.closed)

    def add(self, scores: Vectors, clock: Clock) -> None:
        """Take in scores (T, p), or with (T, m) entries."""
        p, new = self.sum.shape[1], int(clock.slot.max(initial=-1)) + 1 - len(self.sum)
        if new > 0:
            self.sum = np.concatenate([self.sum, np.zeros((new, p))])
            self.episode = np.concatenate([self.episode, np.zeros(new, np.int64)])
        index, value = (scores.index, scores.value) if isinstance(scores, Sparse) else (None, scores)
        ended, row = np.empty((GATHER, p)), 0
        while row < len(value):
            row, number = kernels.sum_episodes(
                index, value, clock.slot, clock.episode, clock.last, self.sum, self.episode, ended, row
            )
            self.cascade.add(ended[:number], np.zeros(number, np.int64))
            self.closed += number

    def widened(self, more: int) -> EpisodeSums:
        """Add room for more parameters."""
        wider = np.pad(self.sum, ((0, 0), (0, more)))
        return EpisodeSums(self.cascade.widened(more), wider, self.episode, self.closed)


class Levels(NamedTuple):
    """Variance rates seen at each block length, and how much the answer for each of k targets rests on each."""

    rate: Floats  # (J, k) v_j
    blocks: Integers  # (J,) number of blocks at each level
    freedom: Integers  # (J,)
    share: Floats  # (levels in use, k), of each target adding up to 1
    effective: float  # independent steps (or episodes) that the data are worth, by the scores of all parameters

    @property
    def main(self) -> Integers:
        """The level that each target rests on most, (k,)."""
        return np.asarray(np.argmax(self.share, axis=0))


def block_error(kept: list[Moments], influence: Floats, n: int, single_steps: bool) -> tuple[Levels, Floats, Floats]:
    """Standard error from dyadic blocks: sqrt(v / n), v the variance rate of very long blocks or of single steps."""
    n_levels = max(len(moments.count) for moments in kept)
    squares = np.zeros((n_levels, len(influence)))
    blocks, freedom = np.zeros(n_levels, np.int64), np.zeros(n_levels, np.int64)
    for moments in kept:
        j = len(moments.count)
        squares[:j] += moments.centred(n * influence)
        blocks[:j] += moments.blocks
        freedom[:j] += moments.freedom
    steps = (2.0 ** np.arange(n_levels) * np.maximum(freedom, 1)).astype(np.float64)
    rate = np.maximum(squares, 0.0) / steps[:, None]
    heard = (blocks >= FEWEST_HEARD) & (freedom >= FEWEST_HEARD - len(kept))  # merged streams have many means
    effective = n / _slowness(kept, max(int(np.sum(heard)) - 1, 0), steps)
    shown = 1 if single_steps else n_levels
    variance, degrees, share = long_run(rate[:shown], freedom[:shown])
    error = np.sqrt(variance / n) if freedom[0] >= FEWEST_BLOCKS - 1 else np.full(len(influence), np.inf)
    return Levels(rate, blocks, freedom, share, effective), error, degrees


def _slowness(kept: list[Moments], level: int, steps: Floats) -> float:
    """How many steps one independent score stands for: the growth of all parameters' variance rates up to a level."""
    single, long = (sum(moments.spread(j) for moments in kept if j < len(moments.count)) / steps[j] for j in (0, level))
    noisy = single > 0
    return max(float((long[noisy] / single[noisy]).mean()), 1.0) if noisy.any() else 1.0


def correlation(kept: list[Moments], influence: Floats, level: int) -> Floats:
    """Correlations (k, k) of the errors of k targets, from blocks of one length."""
    products = np.sum([moments.products(influence, level) for moments in kept if level < len(moments.count)], axis=0)
    size = np.sqrt(np.maximum(np.diagonal(products), 0.0))
    scale = np.where(size > 0, size, 1.0)
    return np.asarray(products / np.outer(scale, scale))
