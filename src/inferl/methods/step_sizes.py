"""Step sizes: callables that map the number of a step, and the scale of its features, to alpha_t."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from inferl.data.arrays import Floats, Integers
from inferl.errors import SettingError

__all__ = ["Constant", "Polynomial", "StepSize"]


@dataclass(frozen=True)
class Polynomial:
    r"""Polynomially decaying step sizes, capped where features are large.

    .. math:: \alpha_t = \min(\alpha_0 t^{-\eta},\; \text{cap} / |\phi_t|^2)

    Slow problems need a large `initial`; without the cap, the first steps would then overshoot.

    >>> Polynomial(initial=5.0, decay=0.65)(np.array([1, 1000]), scale=np.ones(2)).round(4)
    array([0.5   , 0.0561])
    """

    initial: float
    decay: float = 0.75
    cap: float | None = 0.5

    def __post_init__(self) -> None:
        if not self.initial > 0 or not np.isfinite(self.initial):
            raise SettingError(f"the initial step size is {self.initial}; it must be positive")
        if not 0.5 < self.decay < 1:
            raise SettingError(f"decay is {self.decay}; the average converges at its full rate for 1/2 < decay < 1")
        _check_cap(self.cap)

    def __call__(self, step: Integers, scale: Floats) -> Floats:
        """Return alpha_t for steps (T,) with squared feature norms `scale` (T,)."""
        return _capped(self.initial * step.astype(np.float64) ** -self.decay, scale, self.cap)


@dataclass(frozen=True)
class Constant:
    """A constant step size, capped where features are large.

    >>> Constant(0.1)(np.array([1, 1000]), scale=np.array([1.0, 10.0]))
    array([0.1 , 0.05])
    """

    initial: float
    cap: float | None = 0.5

    def __post_init__(self) -> None:
        if not self.initial > 0 or not np.isfinite(self.initial):
            raise SettingError(f"the step size is {self.initial}; it must be positive")
        _check_cap(self.cap)

    def __call__(self, step: Integers, scale: Floats) -> Floats:
        """Return alpha_t for steps (T,) with squared feature norms `scale` (T,)."""
        return _capped(np.full(len(step), self.initial), scale, self.cap)


StepSize = Polynomial | Constant


def _check_cap(cap: float | None) -> None:
    if cap is not None and not cap > 0:
        raise SettingError(f"cap is {cap}; it must be positive, or None for no cap")


def _capped(step_size: Floats, scale: Floats, cap: float | None) -> Floats:
    if cap is None:
        return step_size
    with np.errstate(divide="ignore", over="ignore"):  # zero features do not limit the step
        return np.minimum(step_size, cap / scale)
