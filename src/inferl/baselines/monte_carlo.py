"""Monte Carlo: the mean of the discounted returns, with a t interval. What people compare with first."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from inferl.errors import DataError, ShapeError
from inferl.interval import Interval, check_level, normal
from inferl.streams import Streams
from inferl.transitions import Transitions

__all__ = ["monte_carlo"]


@dataclass(eq=False)
class _Open:
    """An episode under way."""

    counts: bool  # whether it began where it should
    weight: float = 1.0  # product of the discounts and ratios so far
    total: float = 0.0


@dataclass(eq=False)
class _Returns:
    """The returns of the episodes that terminated, by Welford's recursion; in one pass and fixed memory."""

    n: int = 0
    mean: float = 0.0
    squares: float = 0.0
    cut: int = 0  # episodes without an end of their own
    open: dict[int, _Open] = field(default_factory=dict)  # stream -> episode

    def step(self, stream: int, first: bool, counts: bool, reward: float, discount: float, ratio: float) -> None:
        if first:
            self.leave(stream)
            self.open[stream] = _Open(counts)
        episode = self.open[stream]
        episode.weight *= ratio
        episode.total += episode.weight * reward
        episode.weight *= discount

    def end(self, stream: int, terminated: bool) -> None:
        if not terminated:
            self.leave(stream)
        elif (episode := self.open.pop(stream)).counts:
            self.n += 1
            deviation = episode.total - self.mean
            self.mean += deviation / self.n
            self.squares += deviation * (episode.total - self.mean)

    def leave(self, stream: int) -> None:
        """Give up the episode that is open in a stream, if there is one."""
        episode = self.open.pop(stream, None)
        self.cut += episode is not None and episode.counts


def monte_carlo(
    data: Transitions | Iterable[Transitions], start: ArrayLike | None = None, level: float = 0.95
) -> Interval:
    """Estimate the value of the start by the mean discounted return G = r_1 + g_1 r_2 + g_1 g_2 r_3 + ... of episodes.

    The discounts are those of the transitions. With ratios, each reward is weighted by the product of the ratios up to
    its step (per-decision importance sampling). Episodes are taken to be independent: the interval is Student's.

    An episode that was cut off, or is still open at the end, has no return. It is left out, and a note says how many
    were: if long episodes are cut off more often, what remains is biased, as is what of several parallel streams has
    ended first. (TD needs no ends: it keeps all steps.)

    Parameters
    ----------
    data
        Transitions, or a source of them.
    start
        Features of a state: only episodes that begin there count. None: all do, and the value is that of the start's
        distribution.
    level
        Probability with which the interval holds the truth.

    Examples
    --------
    A coin is tossed until it shows heads, at a price of 1 a toss; two tosses are expected.

    >>> import inferl
    >>> from inferl.baselines import monte_carlo
    >>> mdp = inferl.environments.FiniteMDP([[[0.5, 0.5], [0, 1]]], reward=[-1, -1], initial=0, terminal=[1])
    >>> path = mdp.sample([[1.0], [1.0]], n=2000, seed=0)
    >>> print(monte_carlo(path.transitions(discount=1.0)))
    -1.98 [-2.07, -1.89] 95% pointwise, 2 000 transitions
    """
    check_level(level)
    returns, streams = _Returns(), Streams()
    for chunk in [data] if isinstance(data, Transitions) else data:
        if chunk.ratios.ndim != 1:
            raise ShapeError(f"there are {chunk.ratios.shape[1]} columns of ratios; choose one with with_ratios")
        streams, steps = streams.place(chunk)
        columns = (chunk.stream, steps.first, _begins(chunk, start), chunk.rewards, chunk.discounts, chunk.ratios)
        for row, last in zip(zip(*(column.tolist() for column in columns), strict=True), chunk.last, strict=True):
            returns.step(*row)
            if last:
                returns.end(row[0], terminated=row[4] == 0)
    for stream in list(returns.open):
        returns.leave(stream)
    if returns.n == 0:
        raise DataError(
            f"no episode has a return: {returns.cut} were cut off or are still open, and none terminated"
            + ("" if start is None else " among those that begin at the start")
            + "; take more steps, raise the time limit, or use an Evaluator, which needs no ends"
        )
    error = np.sqrt(returns.squares / (returns.n - 1) / returns.n) if returns.n > 1 else np.inf
    lower, upper = normal(np.asarray(returns.mean), np.asarray(error), level, float(returns.n - 1))
    notes = (
        (f"left out: {returns.cut} of {returns.n + returns.cut} episodes have no end, and so no return",)
        if returns.cut
        else ()
    )
    return Interval(returns.mean, float(lower), float(upper), level, "normal", float(error), streams.n, notes)


def _begins(chunk: Transitions, start: ArrayLike | None) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Say which rows have the features of the start."""
    if start is None:
        return np.ones(len(chunk), np.bool_)
    wanted = np.asarray(start)
    if wanted.shape != chunk.features.shape[1:]:
        raise ShapeError(
            f"start has shape {wanted.shape}, but the features of a state have shape {chunk.features.shape[1:]}"
        )
    return np.asarray((chunk.features == wanted).reshape(len(chunk), -1).all(axis=1))
