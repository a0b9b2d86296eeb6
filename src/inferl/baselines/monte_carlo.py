"""Monte Carlo: the mean return of episodes with a Student's t interval.

`Collector` also computes the returns for `importance_sampling`: it reads a stream in chunks of any size, with the
episodes of several streams interleaved, and returns a record with one entry per episode.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace

import numpy as np
from numpy.typing import ArrayLike

from inferl.algorithms.targets import value_of_starts
from inferl.data.arrays import Bools, Floats, Integers, Rows
from inferl.data.streams import Streams
from inferl.data.transitions import Transitions
from inferl.diagnostics import notes_of
from inferl.errors import DataError, SettingError, ShapeError
from inferl.interval import Interval, check_level, normal

__all__ = ["Collector", "Episodes", "Weighted", "check_time_limit", "mean_interval", "monte_carlo"]

TIME_LIMITS = (None, "ends", "cut")
MAX_TRUNCATED = 0.01  # share of truncated episodes above which the note says that the estimate is biased
ON_POLICY = 1e-9  # ratios this close to 1 are rounding errors


def monte_carlo(
    data: Transitions | Iterable[Transitions],
    start: ArrayLike | None = None,
    level: float = 0.95,
    time_limit: str | None = None,
) -> Interval:
    """Estimate the value of the start by the mean discounted return G = r_1 + g_1 r_2 + g_1 g_2 r_3 + ... of episodes.

    The discounts are those of the transitions. Episodes are assumed to be independent: the interval uses Student's t.
    The data must be on-policy; `per_decision` takes data with importance ratios. A few numbers per episode are stored.

    Episodes without an end in the data are left out, and a note gives their number. In parallel streams, short episodes
    are more likely to have ended; collect whole episodes, or many per stream.

    Parameters
    ----------
    data
        Transitions, or a source of them.
    start
        Features of a state: only episodes that begin there count. None: all do, and the estimand is the value of the
        start distribution.
    level
        Confidence level of the interval.
    time_limit
        How to treat a truncated episode (`last` is set, the discount is not 0). ``"ends"``: the time limit belongs to
        the task, and the return up to it counts. ``"cut"``: the return beyond the limit is missing; the episode is left
        out, which favours episodes that end early, and a note says so. None: ``"ends"`` if the data are undiscounted
        (every discount is 0 or 1), ``"cut"`` otherwise.

    Examples
    --------
    A coin is tossed until it shows heads, at a cost of 1 per toss; the expected number of tosses is 2.

    >>> import inferl
    >>> from inferl.baselines import monte_carlo
    >>> mdp = inferl.environments.FiniteMDP([[[0.5, 0.5], [0, 1]]], reward=[-1, -1], initial=0, terminal=[1])
    >>> path = mdp.sample([[1.0], [1.0]], n=2000, seed=0)
    >>> print(monte_carlo(path.transitions(discount=1.0)))
    -1.98 [-2.07, -1.89] 95% pointwise, 2,000 transitions
    """
    check_level(level)
    check_time_limit(time_limit)
    collector = Collector()
    for chunk in [data] if isinstance(data, Transitions) else data:
        collector.add(chunk, start)
        if collector.off_policy:
            raise DataError(
                "some ratios are not 1: the data are off-policy, and their mean return does not estimate the value of "
                "the target policy; use inferl.baselines.per_decision"
            )
    episodes, notes = collector.episodes(time_limit)
    notes += notes_of(data)
    estimand = collector.estimand(time_limit)
    return mean_interval(float(episodes.total.mean()), episodes.total, level, collector.streams.n, notes, estimand)


def mean_interval(
    estimate: float, influence: Floats, level: float, n: int, notes: tuple[str, ...], estimand: str
) -> Interval:
    """Student's t interval for an estimate that is, up to a constant, the mean of independent terms."""
    episodes = len(influence)
    error = float(np.std(influence, ddof=1) / np.sqrt(episodes)) if episodes > 1 else np.inf
    df = float(episodes - 1)
    lower, upper = normal(np.asarray(estimate), np.asarray(error), level, df)
    return Interval(estimate, float(lower), float(upper), level, "normal", error, n, notes, df, estimand)


def check_time_limit(time_limit: str | None) -> None:
    """Raise for an unknown `time_limit`."""
    if time_limit not in TIME_LIMITS:
        raise SettingError(f"time_limit is {time_limit!r}; choose 'ends', 'cut' or None")


@dataclass(frozen=True, eq=False)
class Episodes(Rows):
    """Ended episodes, in the order of their ends."""

    begun: Integers  # (E,) number of the first transition in arrival order; identifies the episode
    closed: Integers  # (E,) number of the last one
    length: Integers  # (E,)
    total: Floats  # (E,) sum of d_t w_t r_t: the return, each reward weighted by discounts and ratios up to its step
    weight: Floats  # (E,) w_T, the product of all ratios
    average: Floats  # (E,) average of w_t with weights d_t - d_{t+1}; w_T if undiscounted; its expectation is 1
    truncated: Bools  # (E,) the discount at the end is not 0
    counts: Bools  # (E,) whether it began at the requested start


@dataclass(frozen=True, eq=False)
class Weighted(Rows):
    """Single steps of episodes."""

    begun: Integers  # (T,) identifies the episode
    time: Integers  # (T,) within the episode, from 0
    weight: Floats  # (T,) w_t
    reward: Floats  # (T,) d_t w_t r_t


@dataclass(frozen=True, eq=False)
class _Open(Rows):
    """The state of the open episode of each stream."""

    begun: Integers  # (S,) 0: none is open
    length: Integers  # (S,)
    total: Floats  # (S,)
    weight: Floats  # (S,)
    average: Floats  # (S,) without the weight beyond the latest step
    discount: Floats  # (S,) product of the discounts so far
    counts: Bools  # (S,)

    @classmethod
    def fresh(cls, begun: Integers, counts: Bools) -> _Open:
        n = len(begun)
        return cls(begun, np.zeros(n, np.int64), np.zeros(n), np.ones(n), np.zeros(n), np.ones(n), counts)

    def where(self, condition: Bools, other: _Open) -> _Open:
        """Take the rows of self where the condition holds, and those of the other elsewhere."""
        return _Open(*(np.where(condition, getattr(self, x.name), getattr(other, x.name)) for x in fields(self)))


@dataclass(eq=False)
class Collector:
    """Accumulates chunks of transitions into episodes; the result does not depend on chunk borders, bit for bit."""

    keep_steps: bool = False
    streams: Streams = field(default_factory=Streams)
    off_policy: bool = False  # a ratio was not 1
    discounted: bool = False  # a discount was neither 0 nor 1
    limited: bool = False  # a time limit that belongs to the task ended an episode
    unfinished: int = 0  # episodes without `last` when the next one of their stream began
    steps: list[Weighted] = field(default_factory=list)
    _closed: list[Episodes] = field(default_factory=list)
    _open: _Open = field(default_factory=lambda: _Open.fresh(np.zeros(0, np.int64), np.zeros(0, np.bool_)))

    def add(self, chunk: Transitions, start: ArrayLike | None = None) -> None:
        """Add a chunk; only episodes that begin at the start count."""
        if chunk.ratios.ndim != 1:
            raise ShapeError(f"there are {chunk.ratios.shape[1]} columns of ratios; select one with with_ratios")
        counts = _begins(chunk, start)
        if len(chunk) == 0:
            return
        self.streams, placed = self.streams.place(chunk)
        self.off_policy |= bool((np.abs(chunk.ratios - 1) > ON_POLICY).any())
        self.limited |= bool((chunk.truncated & (chunk.discounts == 0)).any())
        self.discounted |= bool(((chunk.discounts != 0) & (chunk.discounts != 1)).any())
        more = len(self.streams) - len(self._open)
        now = _Open.join([self._open, _Open.fresh(np.zeros(more, np.int64), np.zeros(more, np.bool_))])

        # Segments: the rows of an episode in this chunk. Those of one stream are contiguous.
        order = np.argsort(placed.clock.slot, kind="stable")
        slot, opens = placed.clock.slot[order], placed.first[order]
        other_stream = np.r_[True, slot[1:] != slot[:-1]]
        begin = np.flatnonzero(opens | other_stream)
        stop = np.r_[begin[1:], len(order)]
        segment_slot, leads, fresh = slot[begin], other_stream[begin], opens[begin]
        trails = np.r_[leads[1:], True]  # the latest of its stream

        carried = now[segment_slot]
        rows = order[begin]
        before = _Open.fresh(placed.clock.step[rows], counts[rows]).where(fresh, carried)
        after = self._advance(chunk, order, before, begin, stop)

        final = order[stop - 1]
        ends = chunk.last[final]
        abandoned = fresh & leads & (carried.begun > 0) & carried.counts
        self.unfinished += int(abandoned.sum()) + int((~ends & ~trails & after.counts).sum())
        self._close(after[np.flatnonzero(ends)], placed.clock.step[final[ends]], chunk.discounts[final[ends]] != 0)

        # The latest segment of a stream stays open, unless it ended.
        index = np.arange(len(now))
        index[segment_slot[trails]] = len(now) + np.flatnonzero(trails)
        self._open = _Open.join([now, replace(after, begun=np.where(ends, 0, after.begun))])[index]

    def episodes(self, time_limit: str | None) -> tuple[Episodes, tuple[str, ...]]:
        """Return the episodes that have a return, with notes on the others."""
        every = self.closed()
        unfinished = self.unfinished + int(((self._open.begun > 0) & self._open.counts).sum())
        ends = self._ends(time_limit)
        used = every if ends else every[np.flatnonzero(~every.truncated)]
        cut = len(every) - len(used)
        if len(used) == 0:
            raise DataError(
                f"no episode has a return: {cut} were truncated, {unfinished} have no end in the data, none terminated"
                + "; collect whole episodes"
                + (", count the returns up to the time limit with time_limit='ends'" if cut else "")
                + ", or use an Evaluator, which needs no ends"
            )
        notes = []
        if cut:
            share = cut / len(every)
            biased = "the estimate is" if share > MAX_TRUNCATED else "the estimate may be"
            notes.append(
                f"{'truncation' if share > MAX_TRUNCATED else 'left out'}: {cut} of {len(every)} episodes "
                f"({share:.1%}) were truncated and have no return; {biased} biased towards episodes that end early; "
                "use time_limit='ends' for the return up to the time limit, or an Evaluator, which needs no ends"
            )
        if unfinished:
            notes.append(f"left out: {unfinished} of {len(every) + unfinished} episodes have no end in the data")
        return used, tuple(notes)

    def estimand(self, time_limit: str | None) -> str:
        """The estimand of the mean return, named as by an evaluator."""
        counted = self._ends(time_limit) and bool(self.closed().truncated.any())
        return value_of_starts(self.limited or counted, not self.discounted)

    def closed(self) -> Episodes:
        """Return the ended episodes that began at the start, including truncated ones."""
        if not self._closed:
            none, zero, no = np.zeros(0, np.int64), np.zeros(0), np.zeros(0, np.bool_)
            return Episodes(none, none, none, zero, zero, zero, no, no)
        every = Episodes.join(self._closed)
        order = np.argsort(every.closed)
        return every[order[every.counts[order]]]

    def _ends(self, time_limit: str | None) -> bool:
        """Whether the returns of truncated episodes count."""
        return time_limit == "ends" or (time_limit is None and not self.discounted)

    def _close(self, episodes: _Open, step: Integers, truncated: Bools) -> None:
        if len(step):
            self._closed.append(
                Episodes(
                    begun=episodes.begun,
                    closed=step,
                    length=episodes.length,
                    total=episodes.total,
                    weight=episodes.weight,
                    average=episodes.average + episodes.discount * episodes.weight,
                    truncated=truncated,
                    counts=episodes.counts,
                )
            )

    def _advance(self, rows: Transitions, order: Integers, before: _Open, begin: Integers, stop: Integers) -> _Open:
        """Add to each episode its rows order[begin:stop], one by one.

        Segments of similar length (within a factor of 2) are padded to one matrix and processed together.
        """
        length = stop - begin
        group = np.frexp(length)[1]
        total, weight, average, discount = (np.empty(len(begin)) for _ in range(4))
        for power in np.unique(group):
            own = np.flatnonzero(group == power)
            time = np.arange(length[own].max())
            there = time < length[own, None]
            where = order[np.where(there, begin[own, None] + time, 0)]
            with np.errstate(over="ignore", invalid="ignore"):
                w = _running(np.multiply, before.weight[own], np.where(there, rows.ratios[where], 1.0))
                d = _running(np.multiply, before.discount[own], np.where(there, rows.discounts[where], 1.0))
                paid = d[:, :-1] * w[:, 1:] * np.where(there, rows.rewards[where], 0.0)
                total[own] = _running(np.add, before.total[own], paid)[:, -1]
                average[own] = _running(np.add, before.average[own], (d[:, :-1] - d[:, 1:]) * w[:, 1:])[:, -1]
            weight[own], discount[own] = w[:, -1], d[:, -1]
            if self.keep_steps:
                at = before.length[own, None] + time
                begun = np.broadcast_to(before.begun[own, None], there.shape)
                self.steps.append(Weighted(begun[there], at[there], w[:, 1:][there], paid[there]))
        if not (np.isfinite(total) & np.isfinite(average)).all():
            row = int(np.flatnonzero(~(np.isfinite(total) & np.isfinite(average)))[0])
            raise DataError(
                f"the product of the ratios overflows in the episode that begins at transition {before.begun[row]}; "
                "check that they are ratios of probabilities"
            )
        return _Open(before.begun, before.length + length, total, weight, average, discount, before.counts)


def _running(operation: np.ufunc, first: Floats, values: Floats) -> Floats:
    """Accumulate along rows that begin with `first`, strictly from left to right."""
    return np.asarray(operation.accumulate(np.concatenate([first[:, None], values], axis=1), axis=1))


def _begins(chunk: Transitions, start: ArrayLike | None) -> Bools:
    """Which rows have the features of the start, (T,)."""
    if start is None:
        return np.ones(len(chunk), np.bool_)
    wanted = np.asarray(start)
    if wanted.shape != chunk.features.shape[1:]:
        raise ShapeError(
            f"start has shape {wanted.shape}, but the features of a state have shape {chunk.features.shape[1:]}"
        )
    return np.asarray((chunk.features == wanted).reshape(len(chunk), -1).all(axis=1))
