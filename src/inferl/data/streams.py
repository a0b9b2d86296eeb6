"""Streams: the position of every row in time. `Steps` are rows of data with their positions.

A stream is one sequence of transitions in time; rows of several streams may arrive interleaved. This file numbers rows
in arrival order, within their stream and within the episodes of their stream, and finds where episodes begin.

The state of a stream is stored in a *slot*. When `MOST_QUIET` slots are in use, a new stream reuses the slot of the
stream whose latest episode ended longest ago, and continues its counts. So the number of streams is unlimited, and
memory grows only with the number of streams that are open at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from heapq import heappop, heappush
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from inferl.data.arrays import Bools, Integers, Rows
from inferl.data.increments import Increments
from inferl.data.invariants import COUNT, bounds, demand, shapes
from inferl.data.transitions import Transitions
from inferl.errors import ContradictionError

__all__ = ["TILE", "Clock", "Steps", "Streams", "by_slot"]

Scalar = TypeVar("Scalar", np.int64, np.bool_)

MOST_QUIET = 4096  # from this many slots on, a new stream may take the slot of one between two episodes
TILE = 64  # rows are processed in tiles kL+1 .. (k+1)L of the whole stream, wherever chunks end


@dataclass(frozen=True, eq=False)
class Clock(Rows):
    """The position of each row in time; all numbers count from 1."""

    step: Integers  # (T,) number in arrival order, over all streams
    stream: Integers  # (T,) label of the stream
    slot: Integers  # (T,) index of the stream's carry, from 0
    count: Integers  # (T,) number within the slot
    episode: Integers  # (T,) number of the episode within the slot
    last: Bools  # (T,) closes its episode

    def verify(self) -> None:
        """Raise for impossible positions."""
        shapes(self, dict.fromkeys(("step", "stream", "slot", "count", "episode", "last"), "T"))
        bounds(self, dict.fromkeys(("step", "count", "episode"), (1, COUNT[1])))
        bounds(self, {"stream": (0, 2**32 - 1), "slot": COUNT})


@dataclass(frozen=True, eq=False)
class Steps(Rows):
    """Rows of data with their positions in time."""

    data: Transitions | Increments
    first: Bools  # (T,) opens an episode
    clock: Clock

    def verify(self) -> None:
        """Raise if columns have different lengths."""
        shapes(self, {"first": "T", "clock.step": "T"}, T=len(self.data))


@dataclass(frozen=True, eq=False)
class Streams:
    """The state of each slot that is needed to position its next row."""

    n: int = 0  # transitions seen
    label: Integers = field(default_factory=lambda: np.zeros(0, np.int64))  # (S,) of the stream that has the slot
    count: Integers = field(default_factory=lambda: np.zeros(0, np.int64))  # (S,)
    episodes: Integers = field(default_factory=lambda: np.zeros(0, np.int64))  # (S,) begun
    completed: Integers = field(default_factory=lambda: np.zeros(0, np.int64))  # (S,) closed by `last`
    ended: Bools = field(default_factory=lambda: np.zeros(0, np.bool_))  # (S,) the latest row was `last`
    episode: Integers = field(default_factory=lambda: np.zeros(0, np.int64))  # (S,) label of the latest row, or -1
    latest: Integers = field(default_factory=lambda: np.zeros(0, np.int64))  # (S,) its number in arrival order

    def verify(self) -> None:
        """Raise for impossible slots."""
        shapes(self, {f.name: "S" for f in fields(self) if f.name != "n"})
        bounds(self, dict.fromkeys(("n", "count", "episodes", "completed", "latest"), COUNT))
        bounds(self, {"label": (0, 2**32 - 1), "episode": (-1, np.inf)})
        demand(len(np.unique(self.label)) == len(self.label), "Streams.label contains a label twice")

    def __len__(self) -> int:
        return len(self.label)

    def place(self, chunk: Transitions | Increments) -> tuple[Streams, Steps]:
        """Number the rows of a chunk and find the episode borders; self is not changed.

        Increments have no episodes: they form one stream with one endless episode.
        """
        if len(chunk) == 0:
            empty = chunk if isinstance(chunk, Increments) else chunk.without_borders()
            none, no = np.zeros(0, np.int64), np.zeros(0, bool)
            return self, Steps(empty, no, Clock(none, none, none, none, none, no))
        if isinstance(chunk, Increments):
            zero = np.zeros(len(chunk), np.int64)
            after, steps = self.place(Transitions(zero, zero, zero, discounts=1.0))
            return after, Steps(chunk, steps.first, steps.clock)
        if chunk.stream.min() == chunk.stream.max():
            return self._place_one_stream(chunk)
        # Successive rows of one stream are a run: what happens within it concerns no other stream.
        start = np.flatnonzero(np.concatenate([[True], chunk.stream[1:] != chunk.stream[:-1]]))
        length = np.diff(start, append=len(chunk))
        now, run_slot, begins = self._with_slots(chunk.stream[start], chunk.last[start + length - 1], start + length)
        runs = by_slot(run_slot)  # the rows of a slot come one after the other in this order of the runs
        in_order = bool((run_slot[1:] >= run_slot[:-1]).all())
        into = np.cumsum(length[runs]) - length[runs]  # the place of the first row of each run in that order
        rows = np.repeat(start[runs] - into, length[runs]) + np.arange(len(chunk))
        there: Integers | slice = slice(None) if in_order else rows
        slot = run_slot[runs]
        opens = np.concatenate([[True], slot[1:] != slot[:-1]])  # a slot's first run within this chunk
        seen, begin = slot[opens], into[opens]
        size = np.diff(begin, append=len(chunk))
        close = begin + size - 1

        last = chunk.last[there]
        fresh = into[begins[runs]]  # the first rows of new streams
        after_last = np.concatenate([[False], last[:-1]])
        after_last[begin] = now.ended[seen]
        after_last[fresh] = False
        first, label = after_last, np.full(len(seen), -1)
        if chunk.first is not None or chunk.episode is not None:
            labels = np.full(len(chunk), -1) if chunk.episode is None else chunk.episode[there]
            previous = np.concatenate([[-1], labels[:-1]])
            previous[begin] = now.episode[seen]
            changed = (labels != previous) & (labels >= 0) & (previous >= 0)
            changed[fresh] = False
            first = after_last | changed if chunk.first is None else chunk.first[there].copy()
            _refuse_contradiction(rows, first, after_last, changed)
            label = labels[close]
        first[fresh] = True  # the first row of a stream opens an episode, whatever preceded it

        begun = np.cumsum(first)
        episode = begun + np.repeat(now.episodes[seen] - (begun[begin] - first[begin]), size)
        count = np.arange(1, len(chunk) + 1) + np.repeat(now.count[seen] - begin, size)
        after = replace(
            now,
            n=self.n + len(chunk),
            count=_with(now.count, seen, count[close]),
            episodes=_with(now.episodes, seen, episode[close]),
            completed=_with(now.completed, seen, now.completed[seen] + np.add.reduceat(last, begin, dtype=np.int64)),
            ended=_with(now.ended, seen, last[close]),
            episode=_with(now.episode, seen, label),
            latest=_with(now.latest, seen, self.n + 1 + rows[close]),
        )
        back = there
        if not in_order:
            back = np.empty_like(rows)
            back[rows] = np.arange(len(rows))
        clock = Clock(
            step=np.arange(self.n + 1, after.n + 1),
            stream=chunk.stream,
            slot=np.repeat(run_slot, length),
            count=count[back],
            episode=episode[back],
            last=chunk.last,
        )
        return after, Steps(chunk.without_borders(), first[back], clock)

    def _place_one_stream(self, chunk: Transitions) -> tuple[Streams, Steps]:
        """`place` for a chunk of a single stream: half the cost where chunks are small."""
        now, slots, begins = self._with_slots(chunk.stream[:1], chunk.last[-1:], np.array([len(chunk)]))
        n, slot = len(chunk), int(slots[0])
        first = after_last = np.concatenate([now.ended[slot : slot + 1] & ~begins, chunk.last[:-1]])
        if chunk.first is not None or chunk.episode is not None:
            label = np.full(n, -1) if chunk.episode is None else chunk.episode
            previous = np.concatenate([now.episode[slot : slot + 1], label[:-1]])
            changed = (label != previous) & (label >= 0) & (previous >= 0)
            changed[:1] &= ~begins
            first = after_last | changed if chunk.first is None else chunk.first.copy()
            _refuse_contradiction(np.arange(n), first, after_last, changed)
        first[:1] |= begins
        clock = Clock(
            step=np.arange(self.n + 1, self.n + n + 1),
            stream=chunk.stream,
            slot=np.full(n, slot),
            count=np.arange(now.count[slot] + 1, now.count[slot] + n + 1),
            episode=np.cumsum(first) + now.episodes[slot],
            last=chunk.last,
        )
        here = slots[:1]
        after = replace(
            now,
            n=self.n + n,
            count=_with(now.count, here, clock.count[-1:]),
            episodes=_with(now.episodes, here, clock.episode[-1:]),
            completed=_with(now.completed, here, now.completed[here] + int(chunk.last.sum())),
            ended=_with(now.ended, here, chunk.last[-1:]),
            episode=_with(now.episode, here, here * 0 - 1 if chunk.episode is None else chunk.episode[-1:]),
            latest=_with(now.latest, here, clock.step[-1:]),
        )
        return after, Steps(chunk.without_borders(), first, clock)

    def _with_slots(self, stream: Integers, ends: Bools, stop: Integers) -> tuple[Streams, Integers, Bools]:
        """Find the slot of each run, and the runs at which a new stream is assigned one.

        Runs have the label of their stream, whether they end with an episode, and the number of rows up to their end.
        """
        begins = np.zeros(len(stream), np.bool_)
        slot, known = self._known(stream)
        if known.all():
            return self, slot, begins
        if self._none_is_quiet(stream, ends, slot, known):  # new streams have new slots, in order of appearance
            labels, first, which = np.unique(stream[~known], return_index=True, return_inverse=True)
            order = np.argsort(first)
            slot[~known] = len(self) + np.argsort(order)[which]
            begins[np.flatnonzero(~known)[first]] = True
            return self._lengthened(np.concatenate([self.label, labels[order]])), slot, begins
        owner, ended = self.label.tolist(), self.ended.tolist()
        holder = {label: slot for slot, label in enumerate(owner)}
        latest = self.latest.tolist()
        quiet = sorted((latest[slot], slot) for slot in np.flatnonzero(self.ended).tolist())  # a heap
        slots = []
        for run, (label, end, final) in enumerate(
            zip(stream.tolist(), ends.tolist(), (self.n + stop).tolist(), strict=True)
        ):
            if label not in holder:
                begins[run] = True
                while quiet and (latest[quiet[0][1]] != quiet[0][0] or not ended[quiet[0][1]]):
                    heappop(quiet)  # the stream has continued since
                if quiet and len(owner) >= MOST_QUIET:
                    _, holder[label] = heappop(quiet)
                    del holder[owner[holder[label]]]
                else:
                    holder[label] = len(owner)
                    owner.append(label)
                    ended.append(False)
                    latest.append(0)
                owner[holder[label]] = label
            slots.append(holder[label])
            ended[slots[-1]], latest[slots[-1]] = end, final
            if end:
                heappush(quiet, (latest[slots[-1]], slots[-1]))
        return self._lengthened(np.array(owner, np.int64)), np.array(slots, np.int64), begins

    def _known(self, stream: Integers) -> tuple[Integers, Bools]:
        """Find the slot of each run whose stream has one."""
        if len(self) == 0:
            return np.zeros(len(stream), np.int64), np.zeros(len(stream), np.bool_)
        slot = np.minimum(stream, len(self) - 1)  # labels are often 0, 1, ...
        if (self.label[slot] != stream).any():
            order = np.argsort(self.label)
            slot = order[np.minimum(np.searchsorted(self.label, stream, sorter=order), len(order) - 1)]
        return slot, np.asarray(self.label[slot] == stream)

    def _none_is_quiet(self, stream: Integers, ends: Bools, slot: Integers, known: Bools) -> bool:
        """Return whether no slot can be taken over where new streams come: all are in use, or they are few."""
        order = np.argsort(stream, kind="stable")
        again = np.concatenate([[False], stream[order][1:] == stream[order][:-1]])
        new = np.sort(order[~again & ~known[order]])  # the first run of each new stream
        if len(self) + len(new) <= MOST_QUIET:
            return True
        wakes = np.zeros(len(stream), np.int64)  # a run after the end of an episode of its stream
        wakes[order[1:]] = again[1:] & ends[order[:-1]]
        if len(self):
            first = order[~again & known[order]]
            wakes[first] = self.ended[slot[first]]
        change = ends - wakes
        quiet = np.count_nonzero(self.ended) + np.cumsum(change) - change  # before each run
        return not quiet[new].any()

    def _lengthened(self, label: Integers) -> Streams:
        """Return the slots with these labels, some of which may be new."""
        zeros = np.zeros(len(label) - len(self), np.int64)
        return replace(
            self,
            label=label,
            count=np.concatenate([self.count, zeros]),
            episodes=np.concatenate([self.episodes, zeros]),
            completed=np.concatenate([self.completed, zeros]),
            ended=np.concatenate([self.ended, zeros.astype(np.bool_)]),
            episode=np.concatenate([self.episode, zeros - 1]),
            latest=np.concatenate([self.latest, zeros]),
        )


def by_slot(slot: Integers) -> Integers:
    """Return the order in which rows of one stream are contiguous; NumPy sorts short integers by their digits.

    >>> by_slot(np.array([1, 0, 1, 0]))
    array([1, 3, 0, 2])
    """
    short = slot.astype(np.uint16) if slot.max(initial=0) < 2**16 else slot
    return np.argsort(short, kind="stable")


def _with(array: NDArray[Scalar], where: Integers, values: NDArray[Scalar]) -> NDArray[Scalar]:
    new = array.copy()
    new[where] = values
    return new


def _refuse_contradiction(order: Integers, first: Bools, after_last: Bools, changed: Bools) -> None:
    for wrong, why in (
        (after_last & ~first, "the step before it in its stream ended the episode"),
        (changed & ~first, "its episode label differs from the step before it"),
    ):
        if wrong.any():
            row = int(order[wrong].min())
            raise ContradictionError(f"row {row}: first is False, but {why}; set first there, or leave first out")
