"""Misfit: how far the features alone are from the value, estimated from the returns of episodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from inferl.methods.least_squares import LeastSquaresReading

__all__ = ["Misfit"]

ROUNDING = 1e-9  # relative to a value


@dataclass(frozen=True)
class Misfit:
    """The bias of the features at the starts of episodes, estimated from the returns."""

    value_error: float
    fitted: float
    fitted_error: float
    gap: float  # value minus fitted
    gap_error: float
    wald: float  # of two gaps with bounded weights; chi-squared with two degrees of freedom if the features are exact

    @classmethod
    def of(cls, reading: LeastSquaresReading) -> Misfit:
        """Compute it from a reading of value, fitted, gap, cut and early; rounding errors count as 0."""
        tiny = ROUNDING * max(abs(reading.estimate[0]), abs(reading.estimate[1]))
        estimate, error = (np.where(np.abs(x) > tiny, x, 0.0) for x in (reading.estimate, reading.standard_error))
        with np.errstate(divide="ignore", invalid="ignore"):
            t = np.where(error[3:] > 0, estimate[3:] / error[3:], 0.0)
        between = reading.correlations[-1][3:, 3:]
        alike = float(between[0, 1])
        # If the weights are nearly the same, one of the two gaps is enough.
        wald = t[0] ** 2 if abs(alike) > 0.999 else (t @ t - 2 * alike * t[0] * t[1]) / (1 - alike**2)
        return cls(*(float(x) for x in (error[0], estimate[1], error[1], estimate[2], error[2], wald)))

    @property
    def size(self) -> float:
        """Size of the gap in standard errors."""
        if self.gap_error > 0:
            return abs(self.gap) / self.gap_error
        return np.inf if self.gap else 0.0

    @property
    def narrower(self) -> float:
        """How much narrower the interval would be if the features were exact."""
        return self.value_error / self.fitted_error if self.fitted_error > 0 else np.nan

    @property
    def beside(self) -> str:
        """The LSTD estimate, and what the returns add to it, in words."""
        error = self.gap_error or self.fitted_error
        digits = int(np.clip(1 - np.floor(np.log10(error)), 0, 12)) if error > 0 else 4
        text = f"{self.fitted:.{digits}f} ± {self.fitted_error:.{digits}f} (LSTD)"
        text += f"; the returns add {self.gap:+.{digits}f} ± {self.gap_error:.{digits}f}"
        return text + (
            f"; {self.narrower:.2f} times narrower, if the features were right" if self.narrower > 1.005 else ""
        )
