r"""Episodes as blocks: sums of scores over whole episodes, and over pairs, fours, ... of them.

Pairs show whether episodes depend on each other. Blocks are formed in the order in which episodes *begin*: episode k is
in block k >> j of 2^j episodes. In the order in which they end, a block of episodes that were played side by side would
consist of short ones, or of long ones, and look dependent where nothing is. An episode that began earlier may end
later, so a block waits for its other half, as many as there are open episodes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from inferl import engine
from inferl.data.arrays import GATHER, Bools, Floats, InPlace, Integers, lengthened
from inferl.data.invariants import COUNT, bounds, demand, shapes
from inferl.data.streams import Clock
from inferl.data.vectors import Sparse, Vectors
from inferl.variance.batch_means import Moments
from inferl.variance.history import GROUPED, History

__all__ = ["EpisodeSums", "OpenBlocks"]

HIGHEST = 62  # level of a block of more episodes than can be counted


@dataclass(frozen=True, eq=False)
class OpenBlocks:
    """Blocks that contain an open episode, up to its latest step, one by one."""

    levels: Sequence[Floats]  # (m, p) for each level

    @property
    def blocks(self) -> Integers:
        """Number of blocks of each level."""
        return np.array([len(g) for g in self.levels])

    def along(self, directions: Floats) -> tuple[Floats, Floats]:
        """Sums of squares of h . g and of h . g for each level and each direction h (k, p): (J, k) both."""
        each = [g @ directions.T for g in self.levels]
        return np.array([(x**2).sum(axis=0) for x in each]), np.array([x.sum(axis=0) for x in each])

    def spread(self, level: int) -> tuple[Floats, Floats]:
        """Sums of squares, and sums, of each parameter's g at one level: (p,) both."""
        g = self.levels[level]
        return np.einsum("gp,gp->p", g, g), g.sum(axis=0)

    def products(self, directions: Floats, level: int) -> tuple[Floats, Floats]:
        """Sums of products of h . g at one level, for all pairs of directions h (k, p), and sums: (k, k) and (k,)."""
        along = self.levels[level] @ directions.T
        return along.T @ along, along.sum(axis=0)


@dataclass(eq=False)
class EpisodeSums(InPlace):
    """Sums of scores over episodes, and moments of their blocks.

    An episode that is open when an epoch ends belongs to the next. `carries` finds its later rows, which are scored at
    the pilot of its first ones: with two pilots, parts that cancel over a whole episode would not, and a poor early
    pilot would make that one episode as large as all others. When an interval is read, open episodes are blocks too, up
    to their latest step, because the estimate has used them.
    """

    moments: Moments  # of episodes that have ended, of pairs, and so on
    half: Floats  # (W, p) blocks whose other half has not ended
    level: Integers  # (W,) of these blocks
    index: Integers  # (W,) their numbers within the level
    sum: Floats  # (S, p) of the open episode
    episode: Integers  # (S,) its number within the stream, 0 where none is open
    order: Integers  # (S,) its number among all, from 0 in the order in which they begin
    carried: Integers  # (S,) the number within the stream of the one that was open when the epoch began, or 0
    numbered: int  # episodes that have begun
    closed: int  # episodes that have ended, in all epochs, and in those of merged evaluators

    def verify(self) -> None:
        """Raise for shapes that do not fit, and for a block that waits twice."""
        own = {"half": "W p", "level": "W", "index": "W", "sum": "S p"} | dict.fromkeys(
            ("episode", "order", "carried"), "S"
        )
        shapes(self, {"moments.total": "J p", "moments.gathered": f"J {GATHER} p", **own})
        bounds(self, dict.fromkeys(("episode", "order", "carried", "numbered", "closed", "index"), COUNT))
        bounds(self, {"level": (0, HIGHEST)})
        parents = np.stack([self.level, self.index >> 1])
        demand(np.unique(parents, axis=1).shape[1] == len(self.level), "both halves of a block wait for each other")

    @classmethod
    def empty(cls, n_levels: int, p: int) -> EpisodeSums:
        """Start with no episodes."""
        none = np.zeros(0, np.int64)
        return cls(Moments.empty(n_levels, p), np.zeros((0, p)), none, none, np.zeros((0, p)), none, none, none, 0, 0)

    @property
    def open(self) -> Floats:
        """Sums of the episodes that are open, (m, p)."""
        return np.asarray(self.sum[self.episode > 0])

    @property
    def begun(self) -> int:
        """Number of episodes, open ones included."""
        return self.closed + int(np.count_nonzero(self.episode))

    def ended(self) -> EpisodeSums:
        """Return a copy in which the open episodes have ended at their latest step."""
        new, there = self.copy(), self.episode > 0
        new._enter(self.order[there], self.open)
        none = np.zeros_like(self.episode)
        return replace(new, sum=np.zeros_like(self.sum), episode=none, carried=none.copy(), closed=self.begun)

    def so_far(self) -> OpenBlocks:
        """Blocks with open episodes, as if these had ended at their latest step."""
        levels: list[Floats] = []
        self._paired(self.order[self.episode > 0], self.open, lambda level, index, blocks: levels.append(blocks))
        return OpenBlocks(levels[: len(self.moments.count)] or [self.open])

    def next_epoch(self, n_levels: int) -> EpisodeSums:
        """Start an epoch with new moments; open episodes continue, and blocks wait for their other halves."""
        return replace(self.copy(), moments=Moments.empty(n_levels, self.sum.shape[1]), carried=self.episode.copy())

    def moved(self, drift: Floats) -> EpisodeSums:
        """Add to each open episode what the mean one changes by at the next pilot; later rows use the present one."""
        sum = np.where(self.episode[:, None] > 0, self.sum + drift, self.sum)
        return replace(self, sum=sum, half=self.half + 2.0 ** self.level[:, None] * drift)

    def carries(self, clock: Clock) -> Bools:
        """Return which rows belong to episodes that were open when the epoch began."""
        old, known = np.zeros(len(clock.slot), np.bool_), clock.slot < len(self.carried)
        carried = self.carried[clock.slot[known]]
        old[known] = (carried > 0) & (carried == clock.episode[known])
        return old

    def add(self, scores: Vectors, clock: Clock, history: History | None = None) -> None:
        """Add scores, dense (T, p) or sparse with (T, m) entries; note blocks of episodes in the history."""
        p, new = self.sum.shape[1], int(clock.slot.max(initial=-1)) + 1 - len(self.sum)
        if new > 0:
            self.sum = np.concatenate([self.sum, np.zeros((new, p), like=self.sum)])
            for name in ("episode", "order", "carried"):
                setattr(self, name, np.concatenate([getattr(self, name), np.zeros(new, np.int64)]))
        index, value = (scores.index, scores.value) if isinstance(scores, Sparse) else (None, scores)
        row, blocks, numbers = 0, [], []
        while row < len(value):
            row, ended, number, self.numbered = engine.active().sum_episodes(
                index,
                value,
                clock.slot,
                clock.episode,
                clock.last,
                self.sum,
                self.episode,
                self.order,
                self.numbered,
                row,
            )
            blocks.append(ended)
            numbers.append(number)
        if any(map(len, numbers)):
            self._enter(np.concatenate(numbers), np.concatenate(blocks) if len(blocks) > 1 else blocks[0], history)

    def widened(self, more: int) -> EpisodeSums:
        """Add capacity for more parameters."""
        p = self.sum.shape[1] + more
        return replace(
            self, moments=self.moments.widened(more), sum=lengthened(self.sum, p), half=lengthened(self.half, p)
        )

    def _enter(self, number: Integers, blocks: Floats, history: History | None = None) -> None:
        """Add episodes that ended, in this order."""

        def record(level: int, index: Integers, blocks: Floats) -> None:
            self._add(level, blocks)
            if level == GROUPED and history is not None:
                history.enter(index, blocks)

        self.half, self.level, self.index = self._paired(number, blocks, record)
        self.closed += len(number)

    def _add(self, level: int, blocks: Floats) -> None:
        """Add blocks to the moments of their level."""
        m, here = self.moments, slice(level, level + 1)
        if level < len(m.count):
            slot, alone = np.zeros(len(blocks), np.int64), np.zeros((1, 1, blocks.shape[1]), like=blocks)
            into = m.gathered[here], m.waiting[here], m.outer[here], m.total[here], m.count[here]
            engine.active().add_blocks(blocks, slot, alone, np.zeros((1, 1), np.bool_), *into, engine.active().threads)

    def _paired(
        self, index: Integers, blocks: Floats, record: Callable[[int, Integers, Floats], None]
    ) -> tuple[Floats, Integers, Integers]:
        """Join blocks (m, p) with their other halves, level by level, and return the blocks that wait afterwards.

        `record` is called with the blocks of each level and their numbers, in the order in which they are complete, so
        that no result depends on how many were entered at once.
        """
        found: list[tuple[Floats, Integers, Integers]] = []
        level = 0
        while len(index):
            record(level, index, blocks)
            here = self.level == level
            if here.any():
                index, blocks = np.concatenate([self.index[here], index]), np.concatenate([self.half[here], blocks])
            parent = index >> 1
            order = np.argsort(parent, kind="stable")
            twin = np.flatnonzero(parent[order[1:]] == parent[order[:-1]])
            by_end = twin[np.argsort(order[twin + 1])]
            first, second = order[by_end], order[by_end + 1]
            alone = np.ones(len(index), np.bool_)
            alone[first] = alone[second] = False
            if alone.any():
                left = np.flatnonzero(alone)[np.argsort(index[alone])]
                found.append((blocks[left], np.full(len(left), level), index[left]))
            index, blocks, level = parent[second], blocks[first] + blocks[second], level + 1
        above = self.level >= level
        if above.any() or not found:
            found.append((self.half[above], self.level[above], self.index[above]))
        if len(found) == 1:
            return found[0]
        halves, levels, indices = zip(*found, strict=True)
        return np.concatenate(halves), np.concatenate(levels), np.concatenate(indices)
