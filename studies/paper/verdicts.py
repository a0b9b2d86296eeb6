"""What the results say of a claim: it agrees, it does not, or they cannot decide."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from inferl.data.arrays import Floats
from studies.markdown import listed
from studies.paper.machinery import Result
from studies.paper.summaries import LEVEL, slope

__all__ = [
    "SETTLED",
    "Bounds",
    "below",
    "late_slope",
    "possible_rates",
    "said",
    "slope_bounds",
    "variance_ratios",
    "verdict",
]

SETTLED = 250  # episodes from which the average on FrozenLake has converged
DRAWS = 4_000  # of coverage errors, for the bounds of a slope
RATES = {"1/t": -1.0, "1/√t": -0.5, "a constant error": 0.0}  # slopes of the logarithm of the coverage error
Bounds = tuple[float, float]


def verdict(agrees: bool | None, but: str = "") -> str:
    """The last column of the opening table; None: the results cannot decide.

    >>> verdict(True), verdict(None, "the games are few")
    ('agrees', 'not decided; the games are few')
    """
    words = {True: "agrees", False: "**does not agree**", None: "not decided"}[agrees]
    return f"{words}; {but}" if but else words


def said(agrees: bool | None) -> str:
    """The same as the first words of a sentence in a section.

    >>> said(True), said(False)
    ('*Agrees*', '*Does not agree*')
    """
    return f"*{verdict(agrees).strip('*').capitalize()}*"


def below(bounds: Collection[Bounds], limit: float) -> bool | None:
    """Whether all of some numbers are below a limit, of which we have intervals; None: the intervals cannot tell.

    >>> below([(-2.0, -1.5), (-1.8, -1.2)], -1), below([(-2.0, -1.5), (-0.5, 0.5)], -1), below([(-1.5, -0.5)], -1)
    (True, False, None)
    """
    if bounds and all(upper <= limit for _, upper in bounds):
        return True
    return False if any(lower > limit for lower, _ in bounds) else None


def late_slope(row: Result) -> float:
    """Slope of the coverage error over the lengths at which the average has converged; nan: there are too few."""
    lengths, errors, _ = _of(row, late=True)
    return float(slope(lengths, LEVEL - errors, row["repeats"])) if len(lengths) > 1 else np.nan


def possible_rates(rows: Sequence[Result]) -> str:
    """Say which rates the slopes after the average has converged do not exclude, for any kind of interval."""
    bounds = [slope_bounds(row, late=True) for row in rows]
    left = [name for name, rate in RATES.items() if all(low <= rate <= high for low, high in bounds)]
    if not left:
        return f"none of {listed(list(RATES))} is possible"
    return f"{listed(left)} are possible" if len(left) > 1 else f"only {left[0]} is possible"


def slope_bounds(row: Result, late: bool) -> Bounds:
    """95 % of the slopes after, or until, the average has converged, if each coverage error has its standard error.

    Coverages of successive lengths are of the same paths and rise and fall together, which a slope does not see. So
    independent errors, which are drawn here, make the bounds rather too wide.
    """
    lengths, errors, deviations = _of(row, late)
    if len(lengths) < 2:
        return -np.inf, np.inf
    drawn = errors + deviations * np.random.default_rng(0).standard_normal((DRAWS, len(errors)))
    lower, upper = np.quantile(slope(lengths, LEVEL - drawn, row["repeats"]), ((1 - LEVEL) / 2, (1 + LEVEL) / 2))
    return float(lower), float(upper)


def _of(row: Result, late: bool) -> tuple[Floats, Floats, Floats]:
    """Lengths, errors and standard errors of one part of the curve; its border belongs to both."""
    kept = [length >= SETTLED if late else length <= SETTLED for length in row["lengths"]]
    found: Any = (np.asarray(row[name], dtype=np.float64)[kept] for name in ("lengths", "error", "standard_error"))
    lengths, errors, deviations = found
    return lengths, errors, deviations


def variance_ratios(rows: list[Result]) -> list[Bounds]:
    """95 % intervals of each variance over the first one, from runs of a normal law; as wide as can be if unknown."""
    from scipy.special import fdtri

    first, *others = rows
    found: list[Bounds] = []
    for row in others:
        if not (first["variance"] and row["variance"]):
            found.append((0.0, np.inf))
            continue
        ratio, n, m = row["variance"] / first["variance"], row["runs"] - 1, first["runs"] - 1
        upper, lower = (float(fdtri(n, m, p)) for p in ((1 + LEVEL) / 2, (1 - LEVEL) / 2))
        found.append((ratio / upper, ratio / lower))
    return found
