r"""Batch means of a stream of scores, online: block sums from which their long-run covariance is estimated.

If scores are dependent, the variance of their sum differs from the sum of their variances. Sums over blocks longer than
the dependence are nearly independent again. `Cascade` forms blocks of length 1, 2, 4, ... at once (Flyvbjerg and
Petersen 1989): each level adds pairs of the level below. All parts of the data (epochs, streams, merged evaluators) are
centred at one common mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from inferl import engine
from inferl.data.arrays import GATHER, Bools, Floats, InPlace, Integers, lengthened, room_for, squared
from inferl.data.invariants import COUNT, bounds, shapes
from inferl.variance.long_run import FEWEST_USED, long_run
from inferl.variance.segments import Segments

__all__ = ["Cascade", "Levels", "Moments", "Scores", "block_error", "correlation"]

FEWEST_BLOCKS = 8  # with fewer, the variance cannot be estimated
FEWEST_FOR_ESS = 32  # blocks of the level from which the effective sample size of the scores is read


@dataclass(eq=False)
class Moments(InPlace):
    """First and second moments of block sums g, one row per level; updated in place.

    Block sums are buffered in `gathered` until one matrix product can add many of them.
    """

    outer: Floats  # (J, p, p) sum of g g' without the buffered ones, lower triangle only
    total: Floats  # (J, p) sum of g, likewise
    count: Integers  # (J,) number of blocks, likewise
    gathered: Floats  # (J, GATHER, p) buffered block sums
    waiting: Integers  # (J,) number of buffered block sums

    def verify(self) -> None:
        """Raise for shapes that do not fit, and for more buffered block sums than the buffer holds."""
        sizes = shapes(self, {"outer": "J p p", "total": "J p", "count": "J", "gathered": "J G p", "waiting": "J"})
        bounds(self, {"count": COUNT, "waiting": (0, max(sizes["G"] - 1, 0))})

    @classmethod
    def empty(cls, n_levels: int, p: int, gather: int = GATHER) -> Moments:
        """Start with no blocks."""
        none = np.zeros(n_levels, np.int64)
        gathered = np.zeros((n_levels, gather, p))
        return cls(np.zeros((n_levels, p, p)), np.zeros((n_levels, p)), none, gathered, none.copy())

    @classmethod
    def added(cls, parts: Sequence[Moments]) -> Moments:
        """Add the moments of several parts of the data that were scored at the same estimate."""
        if len(parts) == 1:
            return parts[0].with_pending()
        sum = cls.empty(max(len(part.count) for part in parts), parts[0].total.shape[1], gather=0)
        for part in parts:
            part, j = part.with_pending(), len(part.count)
            sum.outer[:j] += part.outer
            sum.total[:j] += part.total
            sum.count[:j] += part.count
        return sum

    @classmethod
    def stacked(cls, lower: Moments, upper: Moments) -> Moments:
        """Append higher levels to lower ones, whose buffers are empty."""
        capacity = np.full((len(lower.count), *upper.gathered.shape[1:]), np.nan)  # never used
        return cls(
            np.concatenate([lower.outer, upper.outer]),
            np.concatenate([lower.total, upper.total]),
            np.concatenate([lower.count, upper.count]),
            np.concatenate([capacity, upper.gathered]),
            np.concatenate([lower.waiting, upper.waiting]),
        )

    @property
    def blocks(self) -> Integers:
        """Number of blocks of each level, including buffered ones."""
        return self.count + self.waiting

    def with_pending(self) -> Moments:
        """Return the same moments with the buffered block sums added, and no buffer."""
        from scipy.linalg.blas import dsyrk

        new = self.copy()
        for level in np.flatnonzero(self.waiting):
            g = self.gathered[level, : self.waiting[level]]
            # BLAS is column-major: our lower triangle is its upper one.
            dsyrk(1.0, g.T, beta=1.0, c=new.outer[level].T, lower=False, overwrite_c=True)
            new.total[level] += g.sum(axis=0)
        # A new array: a view would keep the whole buffer alive.
        gathered = np.zeros((len(self.count), 0, self.total.shape[1]))
        return Moments(new.outer, new.total, self.blocks, gathered, np.zeros_like(self.waiting))

    def along(self, directions: Floats) -> tuple[Floats, Floats]:
        """Sums of squares of h . g and of h . g for each level and each direction h (k, p): (J, k) both."""
        lower = np.einsum("jpk,kp->jk", self.outer @ directions.T, directions)
        diagonal = np.einsum("jpp->jp", self.outer) @ (directions**2).T
        squares, sums = 2 * lower - diagonal, self.total @ directions.T
        most = int(self.waiting.max(initial=0))
        if most:
            along = self.gathered[:, :most] @ directions.T
            along[np.arange(most) >= self.waiting[:, None]] = 0.0  # unused rows of the buffer
            squares += np.einsum("jgk,jgk->jk", along, along)
            sums += along.sum(axis=1)
        return squares, sums

    def spread(self, level: int) -> tuple[Floats, Floats]:
        """Sums of squares, and sums, of each parameter's g at one level: (p,) both."""
        rows = self.gathered[level, : self.waiting[level]]
        squares = np.diagonal(self.outer[level]) + np.einsum("gp,gp->p", rows, rows)
        return squares, self.total[level] + rows.sum(axis=0)

    def products(self, directions: Floats, level: int) -> tuple[Floats, Floats]:
        """Sums of products of h . g at one level, for all pairs of directions h (k, p), and sums: (k, k) and (k,)."""
        half = directions @ self.outer[level] @ directions.T
        diagonal = (directions * np.diagonal(self.outer[level])) @ directions.T
        along = self.gathered[level, : self.waiting[level]] @ directions.T
        return half + half.T - diagonal + along.T @ along, directions @ self.total[level] + along.sum(axis=0)

    def shifted(self, drift: Floats) -> Moments:
        """Add a vector (p,) to every step of every block, as if its scores had been shifted."""
        from scipy.linalg.blas import dsyr2

        new = self.with_pending()
        for level, (count, total) in enumerate(zip(new.count, new.total, strict=True)):
            more = 2.0**level * drift  # added to each block
            # The sum of (g + m) (g + m)' grows by m w' + w m', where w is the sum of all g + m / 2.
            dsyr2(1.0, more, total + 0.5 * count * more, lower=False, a=new.outer[level].T, overwrite_a=True)
            total += count * more
        return new

    def widened(self, more: int) -> Moments:
        """Add capacity for more parameters."""
        p = self.total.shape[1] + more
        outer, total, gathered = squared(self.outer, p), lengthened(self.total, p), lengthened(self.gathered, p)
        return Moments(outer, total, self.count, gathered, self.waiting)

    def moved(self, index: Integers, capacity: int) -> Moments:
        """Move the parameters to other indices."""
        return self.chosen(np.arange(len(index)), index, capacity)

    def chosen(self, there: Integers, here: Integers, capacity: int) -> Moments:
        """Move some parameters to other indices, and leave out the rest."""
        with_pending, new = self.with_pending(), Moments.empty(len(self.count), capacity, gather=0)
        whole = with_pending.outer + np.transpose(np.tril(with_pending.outer, -1), (0, 2, 1))
        new.outer[:, here[:, None], here[None, :]] = whole[:, there[:, None], there[None, :]]
        new.total[:, here] = with_pending.total[:, there]
        return Moments(np.tril(new.outer), new.total, with_pending.count, new.gathered, new.waiting)


@dataclass(eq=False)
class Cascade(InPlace):
    """Dyadic blocks along each stream."""

    moments: Moments
    half: Floats  # (S, J, p) first half of an open block
    open: Bools  # (S, J) whether there is one

    def verify(self) -> None:
        """Raise for shapes that do not fit."""
        shapes(self, {"moments.gathered": f"J {GATHER} p", "half": "S J p", "open": "S J"})

    @classmethod
    def empty(cls, n_levels: int, p: int) -> Cascade:
        """Start with no blocks and no streams."""
        return cls(Moments.empty(n_levels, p), np.zeros((0, n_levels, p)), np.zeros((0, n_levels), np.bool_))

    def add(self, scores: Floats, slot: Integers) -> None:
        """Add scores (T, p) of the streams in `slot` (T,), and pair them up."""
        self._grow(int(slot.max(initial=-1)) + 1)
        use, m = engine.active(), self.moments
        blocks = scores, slot, self.half, self.open, m.gathered, m.waiting, m.outer, m.total, m.count
        use.add_blocks(*blocks, use.threads)

    def next_epoch(self, n_levels: int) -> Cascade:
        """Start an epoch with new moments; halves of open blocks are dropped."""
        return Cascade.empty(n_levels, self.moments.total.shape[1])

    def widened(self, more: int) -> Cascade:
        """Add capacity for more parameters."""
        return Cascade(self.moments.widened(more), lengthened(self.half, self.half.shape[2] + more), self.open)

    def _grow(self, n_streams: int) -> None:
        if n_streams > len(self.half):
            new = room_for(n_streams) - len(self.half)
            self.half = np.concatenate([self.half, np.zeros((new, *self.half.shape[1:]), like=self.half)])
            self.open = np.concatenate([self.open, np.zeros((new, *self.open.shape[1:]), np.bool_)])


class Levels(NamedTuple):
    """Variance rates at each block length, and their weights in the long-run variance of each of k targets."""

    length: Floats  # (J,) of a block: 1, 2, 4, ... steps or episodes; the mean of whole streams
    rate: Floats  # (J, k) v_j
    blocks: Integers  # (J,) number of blocks at each level
    df: Floats  # (J,)
    share: Floats  # (levels in use, k) weight of each level; they add up to 1 for each target
    effective: float  # effective sample size in steps (or episodes), from the scores of all parameters
    final: bool  # the last level consists of whole streams
    between: Floats  # (k,) excess variance between a few streams, in standard errors; 0 if streams form a level

    @property
    def main(self) -> Integers:
        """The level with the largest weight for each target, (k,)."""
        return np.asarray(np.argmax(self.share, axis=0))


class Blocks(Protocol):
    """Block sums g of 1, 2, 4, ... units, of one part of the data: `Moments` of them, or one by one."""

    @property
    def blocks(self) -> Integers:
        """Number of blocks of each level, (J,)."""
        ...

    def along(self, directions: Floats) -> tuple[Floats, Floats]:
        """Sums of squares of h . g and of h . g for each level and each direction h (k, p): (J, k) both."""
        ...

    def spread(self, level: int) -> tuple[Floats, Floats]:
        """Sums of squares, and sums, of each parameter's g at one level: (p,) both."""
        ...

    def products(self, directions: Floats, level: int) -> tuple[Floats, Floats]:
        """Sums of products of h . g at one level, for all pairs of directions h (k, p), and sums: (k, k) and (k,)."""
        ...


@dataclass(frozen=True, eq=False)
class Scores:
    """All block sums of scores at one estimate, centred at one mean: dyadic blocks, and whole streams above them."""

    parts: tuple[Blocks, ...]
    wholes: Segments | None

    @property
    def blocks(self) -> Integers:
        """Number of blocks of each dyadic level."""
        return np.asarray(_padded([part.blocks for part in self.parts]))

    def rates(self, directions: Floats) -> Floats:
        """Variance rates of h . g for each dyadic level and each direction h (k, p): (J, k)."""
        squares, sums = (_padded(x) for x in zip(*(part.along(directions) for part in self.parts), strict=True))
        return self._rates(squares, sums, np.arange(len(squares)))

    def spread(self, level: int | None) -> Floats:
        """Variance rates of each parameter at a dyadic level, or of whole streams: (p,)."""
        if level is None:
            assert self.wholes is not None
            return self.wholes.rate()
        there = [part.spread(level) for part in self.parts if level < len(part.blocks)]
        squares, sums = (np.sum(x, axis=0)[None] for x in zip(*there, strict=True))
        return np.asarray(self._rates(squares, sums, np.array([level]))[0])

    def products(self, directions: Floats, level: int | None) -> Floats:
        """Sums of products about the mean, of all pairs of directions (k, p) at a level: (k, k)."""
        if level is None:
            assert self.wholes is not None
            residual = self.wholes.residual(directions)
            return np.asarray(residual.T @ residual)
        there = [part.products(directions, level) for part in self.parts if level < len(part.blocks)]
        products, sums = (np.sum(x, axis=0) for x in zip(*there, strict=True))
        return np.asarray(products - np.outer(sums, sums) / max(int(self.blocks[level]), 1))

    def _rates(self, squares: Floats, sums: Floats, levels: Integers) -> Floats:
        blocks = self.blocks[levels]
        about_mean = np.maximum(squares - sums**2 / np.maximum(blocks, 1)[:, None], 0.0)
        return np.asarray(about_mean / (2.0**levels * np.maximum(blocks - 1, 1))[:, None])


def _padded(arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Sum of arrays whose first axes may differ."""
    sum = np.zeros((max(len(x) for x in arrays), *arrays[0].shape[1:]), arrays[0].dtype)
    for x in arrays:
        sum[: len(x)] += x
    return sum


def block_error(scores: Scores, influence: Floats, n: int, single: bool) -> tuple[Levels, Floats, Floats]:
    """Standard errors sqrt(v / n), v the long-run variance or (`single`) that of single steps; degrees of freedom.

    If there are many streams, whole streams are the longest blocks: dyadic levels with fewer blocks are left out.
    """
    rate, blocks, wholes = scores.rates(n * influence), scores.blocks, scores.wholes
    length, df = np.exp2(np.arange(float(len(blocks)))), np.maximum(blocks - 1.0, 0.0)
    among = wholes is not None and wholes.df >= FEWEST_USED
    if wholes is not None and among:
        below = df >= wholes.df
        rate = np.concatenate([rate[below], wholes.rate(n * influence)[None]])
        length = np.append(length[below], wholes.length.mean())
        df, blocks = np.append(df[below], wholes.df), np.append(blocks[below], len(wholes.length))
    highest = int(np.count_nonzero(df >= FEWEST_FOR_ESS - 1)) - 1
    top = None if among and highest == len(df) - 1 else max(highest, 0)
    effective = n / _slowness(scores.spread(0), scores.spread(top))
    shown = 1 if single else len(rate)
    variance, degrees, share = long_run(rate[:shown], df[:shown], final=among and not single)
    between = np.zeros(len(influence))
    if wholes is not None and not among and wholes.df >= 1:
        with np.errstate(divide="ignore", invalid="ignore"):
            excess = np.log(wholes.rate(n * influence) / variance) / np.sqrt(2 / (wholes.df + 1))
        between = np.where(variance > 0, excess, 0.0)
    error = np.sqrt(variance / n) if df[0] >= FEWEST_BLOCKS - 1 else np.full(len(influence), np.inf)
    return Levels(length, rate, blocks, df, share, effective, among, between), error, degrees


def _slowness(single: Floats, long: Floats) -> float:
    """Steps per effective step: by how much the variance rates grow with block length, averaged over parameters."""
    noisy = single > 0
    return max(float((long[noisy] / single[noisy]).mean()), 1.0) if noisy.any() else 1.0


def correlation(scores: Scores, influence: Floats, level: int | None) -> Floats:
    """Correlations (k, k) of the errors of k targets, from blocks of one length."""
    products = scores.products(influence, level)
    size = np.sqrt(np.maximum(np.diagonal(products), 0.0))
    scale = np.where(size > 0, size, 1.0)
    return np.asarray(products / np.outer(scale, scale))
