"""Checks of the bootstrap: whether it has converged, and whether one step size suits all features."""

from __future__ import annotations

import numpy as np

from inferl.data.arrays import Floats
from inferl.diagnostics import Check
from inferl.methods.least_squares import LeastSquaresReading

__all__ = ["convergence", "unequal_features"]

MOST_NAMED = 4  # features named in a message
TOO_WIDE = 3  # times the standard error of least squares; after convergence the ratio is at most 1.15
FAR_APART = 10  # ratio of feature sizes; a step size that suits one then moves the other 100 times too slowly


def unequal_features(size: Floats, n_features: int) -> str:
    """Name the features that are so much smaller than the largest that no step size suits both.

    >>> unequal_features(np.array([1.0, 300.0, 2.0, 0.0]), 4)  # the last has always been 0
    'features 0 and 2 are up to 300 times smaller than feature 1 (1 beside 300), so no single step size suits them all'
    """
    if len(size) == 0 or len(size) % n_features:
        return ""
    size = size.reshape(-1, n_features).max(axis=0)  # the parts of a Stack share their features
    largest = int(np.argmax(size))
    small = np.flatnonzero((size > 0) & (FAR_APART * size <= size[largest]))
    if not len(small):
        return ""
    smallest = float(size[small].min())
    named = [str(k) for k in small[:MOST_NAMED].tolist()]
    if len(small) > MOST_NAMED:
        named[-1] = f"{len(small) - MOST_NAMED + 1} others"
    who = f"feature {named[0]} is" if len(named) == 1 else f"features {', '.join(named[:-1])} and {named[-1]} are up to"
    return (
        f"{who} {size[largest] / smallest:.3g} times smaller than feature {largest} ({smallest:.3g} beside "
        f"{size[largest]:.3g}), so no single step size suits {'both' if len(named) == 1 else 'them all'}"
    )


def convergence(
    estimate: Floats, standard_error: Floats, solved: LeastSquaresReading | None, average: str, units: str
) -> Check:
    """Check convergence by the distance to the least-squares solution and by the standard error.

    The distance alone is not enough: if the step size is too large, the rows scatter so widely that the solution is
    within their standard error. `units` is a message about features that are too small for the step size, or empty.
    """
    name = "convergence"
    if solved is None:
        message = "needs the least-squares sums of the companion, which are not kept"
        return Check(name, "not available", f"{message}; {units}" if units else message)
    if solved.n == 0:
        return Check(name, "not available", "no transitions so far")
    distance = np.abs(solved.estimate - estimate)
    with np.errstate(divide="ignore", invalid="ignore"):
        gap = float(np.max(np.where(distance > 0, distance / standard_error, 0.0)))
    most = 1.5 if average == "linear" else 0.5
    if not np.isfinite(gap):
        return Check(name, "failed", "the replicas have no spread yet, but least squares has a solution", gap)
    known = (solved.standard_error > 0) & np.isfinite(solved.standard_error)
    wider = float(np.max(standard_error[known] / solved.standard_error[known], initial=0.0))
    if gap <= most and wider <= TOO_WIDE:
        return Check(name, "passed", f"{gap:.2g} standard errors from the least-squares solution", gap)
    if gap > most:
        message = f"the average is {gap:.3g} standard errors away from the least-squares solution (the limit is {most})"
        value, remedy = gap, "use a larger step size, more data, or LeastSquares"
    else:
        message = f"the standard error is {wider:.3g} times that of least squares (the limit is {TOO_WIDE})"
        value, remedy = wider, "use more data, a smaller step size or cap, or LeastSquares"
    if units:
        remedy = "rescale the features, as features.Scaled does, or use LeastSquares, which is not affected"
    return Check(name, "failed", "; ".join(filter(None, [f"{message}: it has not converged", units])), value, remedy)
