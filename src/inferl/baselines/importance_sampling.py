"""Per-decision importance sampling: the value of one policy from the episodes of another."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike

from inferl.baselines.monte_carlo import Collector, Episodes, Weighted, check_time_limit, mean_interval
from inferl.data.arrays import Floats
from inferl.data.transitions import Transitions
from inferl.diagnostics import notes_of
from inferl.errors import DataError
from inferl.interval import Interval, check_level

__all__ = ["per_decision", "weight_notes"]

MIN_ESS = 5  # kurtosis-based effective number of episodes behind the variance of the weights; below it, a note
MAX_DEVIATION = 2.58  # largest distance of the mean weight from 1 in standard errors: one false alarm in 100


def per_decision(
    data: Transitions | Iterable[Transitions],
    start: ArrayLike | None = None,
    level: float = 0.95,
    *,
    weighted: bool = False,
    time_limit: str | None = None,
) -> Interval:
    """Estimate the value of the target policy by per-decision importance sampling.

    With w_t the product of the ratios of an episode up to step t, and d_t that of its discounts before step t, the
    ordinary estimate (PDIS) is the mean over episodes of the sum of d_t w_t r_t. It is unbiased. The weighted one
    (WPDIS) divides by the sum of the weights instead of the number of episodes, at each step::

        sum over t of (sum over episodes of d_t w_t r_t) / (sum over episodes of w_t)

    where an episode that has ended keeps its last weight. It is biased but consistent, and has a smaller variance.
    Its standard error is that of its influence function (delta method). Intervals use Student's t, for independent
    episodes.

    Products of ratios have heavy tails. Often the large weights are missing from the data: then the estimate is too
    close to 0, the interval is too narrow, and the effective sample size looks better than it is. Two notes report
    this. They use one weight per episode: the average of w_t with weights d_t - d_{t+1}, which is the last w_t if
    undiscounted.

    - ``ratio tails``: the variance of the weights rests on fewer than 5 episodes, by their kurtosis.
    - ``mean ratio``: the mean weight differs by more than 2.58 standard errors from its expectation, 1.

    With heavy tails, most intervals that miss the value have a note, and so do many that cover it. The absence of notes
    does not prove coverage.

    Parameters
    ----------
    data
        Transitions with ratios, or a source of them. With ``weighted=True`` four numbers per transition are stored,
        otherwise eight per episode.
    start
        Features of a state: only episodes that begin there count. None: all do, and the estimand is the value of the
        start distribution.
    level
        Confidence level of the interval.
    weighted
        Whether to normalise by the sum of the weights (WPDIS).
    time_limit
        Whether the return of a truncated episode counts, as for `monte_carlo`.

    Notes
    -----
    Precup, Sutton and Singh (2000), Eligibility traces for off-policy policy evaluation; Thomas (2015), Safe
    reinforcement learning.

    Examples
    --------
    One step, two actions with rewards 0 and 1. The behaviour is uniform, the target takes the second action with
    probability 0.9.

    >>> import inferl
    >>> from inferl.baselines import per_decision
    >>> action = np.random.default_rng(1).integers(2, size=1000)
    >>> ratios = np.where(action == 1, 0.9 / 0.5, 0.1 / 0.5)
    >>> data = inferl.Transitions(0 * action, action, 0 * action, discounts=0.0, ratios=ratios)
    >>> print(per_decision(data))
    0.88 [0.83, 0.94] 95% pointwise, 1,000 transitions
    >>> print(per_decision(data, weighted=True))
    0.897 [0.885, 0.908] 95% pointwise, 1,000 transitions
    """
    check_level(level)
    check_time_limit(time_limit)
    collector = Collector(keep_steps=weighted)
    for chunk in [data] if isinstance(data, Transitions) else data:
        collector.add(chunk, start)
    episodes, notes = collector.episodes(time_limit)
    if collector.off_policy:
        notes += weight_notes(collector.closed().average)
    notes += notes_of(data)
    if weighted:
        estimate, influence = _self_normalised(episodes, collector.steps)
    else:
        estimate, influence = float(episodes.total.mean()), episodes.total
    return mean_interval(estimate, influence, level, collector.streams.n, notes, collector.estimand(time_limit))


def weight_notes(weights: Floats) -> tuple[str, ...]:
    """Notes on suspicious weights of episodes, which are products of ratios with expectation 1.

    >>> weight_notes(np.array([0.5, 1.5] * 50))
    ()
    >>> for note in weight_notes(np.array([0.5] * 99 + [40.0])):
    ...     print(note)
    ratio tails: the variance of the weights rests on about 1.1 of 100 episodes (effective sample size 5); ...
    """
    n = len(weights)
    if n < 2:
        return ()
    notes = []
    # Scaled by the largest, whose fourth power might overflow.
    largest = max(float(weights.max()), 1.0)
    deviation = (weights - weights.mean()) / largest
    variance, fourth = float((deviation**2).sum()), float((deviation**4).sum())
    excess = fourth - 3 * variance**2 / n
    variance_ess = variance**2 / excess if excess > 0 else np.inf
    if variance_ess < MIN_ESS:
        effective = float((weights / largest).sum() ** 2 / ((weights / largest) ** 2).sum())
        notes.append(
            f"ratio tails: the variance of the weights rests on about {variance_ess:.1f} of {n} episodes (effective "
            f"sample size {effective:.0f}); few episodes dominate, and the interval may be far too narrow; use "
            "DoublyRobust, a policy closer to the behaviour, or more data"
        )
    mean, error = float(weights.mean()), largest * np.sqrt(variance / (n - 1) / n)
    if abs(mean - 1) > MAX_DEVIATION * error + 1e-9:
        cause = "large weights are missing so far, or these" if mean < 1 else "these"
        notes.append(
            f"mean ratio: the weights average {mean:.3g} with a standard error of {error:.2g}, and should average 1; "
            f"{cause} are not the ratios of the data; do not trust the interval, and check the probabilities"
        )
    return tuple(notes)


def _self_normalised(episodes: Episodes, parts: list[Weighted]) -> tuple[float, Floats]:
    """Return the weighted estimate and the influence of each episode on it, times their number."""
    steps = Weighted.join(parts)
    by_begin = np.argsort(episodes.begun)
    found = np.searchsorted(episodes.begun, steps.begun, sorter=by_begin)
    index = by_begin[np.minimum(found, len(by_begin) - 1)]  # of the step's episode
    used = episodes.begun[index] == steps.begun  # steps of episodes that are left out
    steps, index = steps[used], index[used]
    order = np.lexsort((steps.time, index))  # sums must not depend on chunk borders
    steps, index = steps[order], index[order]

    horizon = int(episodes.length.max())
    ended = np.cumsum(np.bincount(episodes.length, episodes.weight, minlength=horizon + 1))[:horizon]
    weight = np.bincount(steps.time, steps.weight, minlength=horizon) + ended
    if (weight == 0).any():
        raise DataError(
            f"all weights are 0 from step {int(np.argmin(weight > 0))} of the episodes on: none follows the "
            "target policy that far; collect more data, or use an Evaluator"
        )
    mean = np.bincount(steps.time, steps.reward, minlength=horizon) / weight
    influence = np.bincount(index, (steps.reward - steps.weight * mean[steps.time]) / weight[steps.time])
    ahead = np.r_[np.cumsum((mean / weight)[::-1])[::-1], 0.0]  # over the steps after the end of an episode
    return float(mean.sum()), len(episodes) * (influence - episodes.weight * ahead[episodes.length])
