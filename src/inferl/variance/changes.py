r"""Changes: whether, when and by how much a mean has changed, in blocks of dependent data.

Every border of two blocks may be where it changed. The means before and after it are compared by

.. math:: Z_k = (m_{after} - m_{before}) / \sqrt{v (1/k + 1/(n - k))}

with v the long-run variance. A p-value of Student's t is compared with a limit in proportion to the number of steps
after the border: a short piece at the end had as many chances to look unusual as there are such pieces. With `LIMIT`
one stream in a hundred that does not change raises an alarm within the first 512 blocks, whenever one looks, and at all
of them with about the same probability; it was found by simulation of Gaussian blocks (`studies.validity.drift`), as no
other distribution occurs in the limit. From there on the limit falls with n^2, so that another one in a hundred at most
does for all time to come.

A change looks like slow dependence to variance rates of blocks. So these are computed from what the two halves of a
block differ by: 2 v_j - v_(j+1), from the rates v_j of blocks of 2^j steps. That leaves the few blocks within which the
mean changed. They are short, or, where they are long, the most likely change is taken out first. Dependence over more
than four blocks counts as change: few blocks of such a length would leave few degrees of freedom, and where a p-value
of one in a million is asked for, these are what decides.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from inferl.data.arrays import Floats, Integers
from inferl.variance.long_run import FEWEST_USED, long_run

__all__ = ["FEWEST", "Change", "changes"]

LIMIT = 9.7  # -log of the p-value that counts as a change, less that of the share of `BLOCKS` blocks after it
BLOCKS = 512  # blocks for which LIMIT was found
FEWEST = 2  # blocks before a change, and after it
JOINED = 2  # levels of the variance above that of half a block
MOST = 16  # changes that are looked for
LIKELY = 7.35  # by how much Z^2 of the true border is below the largest, at most, in 95 % of all cases (Siegmund, 1988)


class Change(NamedTuple):
    """A change of the mean."""

    at: int  # steps (or episodes) before it
    latest: int  # at most, with 95 % confidence
    shift: float  # from the mean since the change before, to that until the next
    error: float  # its standard error


def changes(
    sums: Floats,
    length: Integers,
    added: int,
    rate: Floats,
    blocks: Integers,
    ess: float = np.inf,
    tests: int = 1,
    independent: bool = False,
) -> list[Change]:
    """Return the changes of a mean, in order of time.

    Parameters
    ----------
    sums, length
        Of blocks (B,), in order of time.
    added
        How many blocks they were before neighbours were joined.
    rate, blocks
        Variance rates (J,) of blocks of 1, 2, 4, ... steps, and their numbers (J,). Blocks longer than half a block of
        `sums` are not used.
    ess
        Effective number of steps behind the variance: fewer make Student's t of fewer degrees of freedom.
    tests
        Number of means that are looked at.
    independent
        Whether steps are independent, as episodes are: then single ones are all that their variance needs.

    >>> rng = np.random.default_rng(0)
    >>> steps = rng.normal(size=10_000) + np.where(np.arange(10_000) < 6000, 0.0, 1.0)
    >>> (change,) = changes(
    ...     steps.reshape(100, 100).sum(axis=1), np.full(100, 100), 100, np.ones(2), np.array([9999, 5000])
    ... )
    >>> change.at, round(change.shift, 1), round(change.error, 2)
    (6000, 1.0, 0.02)
    """
    short = np.flatnonzero(2.0 ** np.arange(1, len(rate)) <= length.min())[: 1 if independent else None]
    joined = 0 if independent and len(short) else JOINED
    halves, pairs = np.maximum(2 * rate[short] - rate[short + 1], 0.0), blocks[short + 1].astype(np.float64)

    def variance_without(borders: list[int]) -> tuple[float, float]:
        return _variance(sums, length, borders, halves, pairs, joined)

    borders: list[int] = []
    while len(borders) < MOST:
        likely = _most_likely(sums, length, added, borders, *variance_without(borders), ess)
        if likely is None:
            break
        without = variance_without(sorted([*borders, likely[0]]))
        found = _most_likely(sums, length, added, borders, *without, ess)
        if found is None or found[1] <= np.log(tests):
            break
        borders = sorted([*borders, found[0]])
    if not borders:
        return []
    variance, _ = variance_without(borders)
    end, made = np.cumsum(length), []
    for begin, k, stop in zip([0, *borders], borders, [*borders[1:], len(sums)], strict=False):
        one, other = float(np.sum(length[begin:k])), float(np.sum(length[k:stop]))
        shift = float(np.sum(sums[k:stop]) / other - np.sum(sums[begin:k]) / one)
        distance, *_ = _distances(sums, length, begin, stop, variance)
        plausible = np.flatnonzero(distance**2 >= distance[k - begin - FEWEST] ** 2 - LIKELY)
        latest = max([k, *(begin + FEWEST + plausible[-1:])])
        error = float(np.sqrt(variance * (1 / one + 1 / other)))
        made.append(Change(int(end[k - 1]), int(end[latest - 1]), shift, error))
    return made


def _most_likely(
    sums: Floats, length: Integers, added: int, borders: list[int], variance: float, df: float, ess: float
) -> tuple[int, float] | None:
    """Return the most likely border between those known, and by how much the limit is exceeded, as a logarithm.

    Of all borders that exceed the limit, that is the one at which the means differ most. P-values would prefer borders
    with more degrees of freedom, where a shift is so large that all of them are tiny.
    """
    best, total = None, float(np.sum(length))
    for first, stop in zip([0, *borders], [*borders, len(sums)], strict=True):
        if stop - first < 2 * FEWEST or not variance > 0:
            continue
        distance, before, after = _distances(sums, length, first, stop, variance)
        n = float(np.sum(length[first:stop]))
        few = 2 / (2 / df + total / (ess * np.minimum(before, after)))
        blocks = added * n / total
        limit = LIMIT + np.log(n / after) + abs(np.log(blocks / BLOCKS))
        excess = -_log_tail(distance, few) - limit
        most = float(excess.max())
        if best is None or most > best[1]:
            best = first + FEWEST + int(np.argmax(np.where(excess >= min(most, 0.0), distance, 0.0))), most
    return best


def _distances(sums: Floats, length: Integers, first: int, stop: int, variance: float) -> tuple[Floats, Floats, Floats]:
    """Return |Z_k| of all borders between two blocks, and the steps before and after each."""
    size = length[first:stop].astype(np.float64)
    before, n = np.cumsum(size)[FEWEST - 1 : -FEWEST], float(np.sum(size))
    after = n - before
    difference = np.cumsum(sums[first:stop])[FEWEST - 1 : -FEWEST] - before / n * np.sum(sums[first:stop])
    return np.abs(difference) / np.sqrt(variance * before * after / n), before, after


def _variance(
    sums: Floats, length: Integers, borders: list[int], halves: Floats, pairs: Floats, joined: int
) -> tuple[float, float]:
    """Return the long-run variance about the means between borders, and its degrees of freedom.

    Levels within blocks that are known less well than that of blocks would make growth between them look like noise.
    """
    part = np.searchsorted(borders, np.arange(len(sums)), side="right")
    mean = np.bincount(part, sums) / np.bincount(part, length)
    x, size = sums - length * mean[part], length.astype(np.float64)
    rate: list[float] = []
    df: list[float] = []
    while len(rate) < joined and len(x) // 2 > FEWEST_USED + len(borders):
        x, size = x[len(x) % 2 :].reshape(-1, 2), size[len(size) % 2 :].reshape(-1, 2)
        apart = (x / size) @ np.array([1.0, -1.0])
        df.append(len(x) - len(borders) / 2)
        rate.append(np.sum(apart**2 / (1 / size).sum(axis=1)) / df[-1])
        x, size = x.sum(axis=1), size.sum(axis=1)
    known = pairs >= max(df, default=0.0)
    every, freedom = np.concatenate([halves[known], rate])[:, None], np.concatenate([pairs[known], df])
    every = np.maximum.accumulate(every, axis=0)
    if not len(freedom) or freedom[0] < FEWEST_USED:
        return np.nan, np.nan
    variance, degrees, _ = long_run(every, freedom)
    return float(variance[0]), float(degrees[0])


def _log_tail(distance: Floats, df: Floats) -> Floats:
    """Logarithm of the probability of Student's t to be further from 0 than this."""
    from scipy.special import log_ndtr, stdtr

    with np.errstate(divide="ignore"):
        tail = np.where(df > 1e6, log_ndtr(-distance), np.log(stdtr(np.minimum(df, 1e6), -distance)))
    far = np.isneginf(tail)  # it underflows; the largest distance must still be told from the others
    tail[far] = -(df[far] + 1) / 2 * np.log1p(distance[far] ** 2 / df[far])
    return np.asarray(np.log(2) + tail)
