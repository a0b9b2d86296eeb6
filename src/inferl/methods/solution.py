"""Solution: what least squares says along targets."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from inferl.data.arrays import Floats
from inferl.errors import SettingError
from inferl.interval import correlated_scores
from inferl.methods.base import covariance_of
from inferl.methods.drift import Course
from inferl.variance.batch_means import Levels

__all__ = ["LeastSquaresReading"]

NOTHING = np.zeros(0)


class LeastSquaresReading(NamedTuple):
    """Solution and standard errors along k targets."""

    estimate: Floats  # (k,)
    standard_error: Floats  # (k,) infinite where it cannot be estimated yet
    df: Floats  # (k,)
    unidentified_fraction: Floats  # (k,) of the target, by the data
    levels: Levels | None  # of blocks of 1, 2, 4, ... steps or episodes; None before the first
    condition: float  # estimated condition number of A, in the 1-norm
    unseen: int  # parameters that no increment has involved
    n: int
    unit: str = "steps"  # what blocks are made of: "steps" or "episodes"
    units: int = 0  # how many of them
    effective: float = np.inf  # effective sample size in units, from the features and the scores
    variance_ess: Floats = NOTHING  # (k,) effective number of units behind the variance, NaN where unknown
    correlations: tuple[Floats, ...] = ()  # (k, k) of the errors, at single steps and at long blocks
    course: Course | None = None  # of the estimates, over time

    @property
    def solved(self) -> LeastSquaresReading:
        """Itself."""
        return self

    def scores(self) -> Floats:
        """Draw joint errors of all targets, in standard errors (m, k)."""
        return correlated_scores(self.correlations)

    def covariance(self) -> Floats:
        """Covariance matrix (k, k) of the estimates; several targets must have been read jointly."""
        if self.correlations:
            return covariance_of(self.standard_error, self.correlations[-1])
        if self.n and len(self.estimate) > 1:
            raise SettingError("these targets were not read jointly; use read(targets, jointly=True)")
        return covariance_of(self.standard_error, np.eye(len(self.estimate)))

    def ess(self) -> Floats:
        """Effective sample sizes (k,): n times the variance rate of single steps over that of long blocks."""
        if self.levels is None:
            return np.full(len(self.estimate), np.nan)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(self.levels.rate[0] / self.standard_error**2)
