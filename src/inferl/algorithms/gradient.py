r"""Gradient temporal-difference learning: stable off-policy, at the price of a second vector of parameters.

The parameters are (theta, y). y tracks the expected TD error, and theta descends along it. At the fixed point, y is 0
and theta solves the equation of TD(0), which is the one that least squares solves.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from inferl.algorithms.base import Algorithm, Carry, check_setting, lengths, single, transitions_of
from inferl.data.arrays import Floats
from inferl.data.increments import GradientIncrements, Increments
from inferl.data.streams import Clock, Steps
from inferl.data.vectors import Vectors, embed, scale, slice_of, subtract

__all__ = ["GTD", "GTD2", "TDC"]

SMALLEST, LARGEST = sys.float_info.min, sys.float_info.max


@dataclass(frozen=True)
class _Gradient(Algorithm):
    """Base of GTD, GTD2 and TDC; `auxiliary_step` x is the step size of y relative to that of theta."""

    auxiliary_step: float = 1.0

    kernel: ClassVar[str]  # name of the form of the terms in the compiled kernel

    def __post_init__(self) -> None:
        super().__post_init__()
        check_setting("auxiliary_step", self.auxiliary_step, SMALLEST, LARGEST, "it must be positive, and finite")

    @property
    def n_parameters(self) -> int:
        """Length of (theta, y)."""
        return 2 * self.dimension

    @property
    def n_terms(self) -> int:
        """One for y, one for theta."""
        return 2

    def value_form(self, increments: Increments | GradientIncrements) -> Increments:
        """Return the equation of theta alone: phi rho (r - dphi . theta)."""
        if isinstance(increments, GradientIncrements):
            x = increments
            return single(scale(x.phi, x.ratio), x.dphi, x.reward, x.phi)
        # In expanded form it is the first term, x phi (rho r - rho dphi . theta), without its part in y.
        d = self.dimension
        u, v = slice_of(increments.u, d, 2 * d, 0, 1), slice_of(increments.v, 0, d, 0, 1)
        return Increments(u, v, increments.c[:, :1], np.zeros(d), increments.scale)

    def increments(self, steps: Steps, carry: Carry) -> tuple[GradientIncrements, Clock, Carry]:  # type: ignore[override]
        """Return the increments of y and theta, in compact form."""
        data = transitions_of(steps)
        phi, dphi = self.features(data)
        return GradientIncrements(phi, dphi, data.ratios, data.rewards, lengths(phi), self), steps.clock, carry

    def written_out(
        self, phi: Vectors, dphi: Vectors, rho: Floats, reward: Floats
    ) -> list[tuple[Vectors, Vectors, Floats]]:
        """Return (u, v, c) of each term, that of y first."""
        raise NotImplementedError

    def damping(self) -> float:
        """Return the damping of y."""
        return 0.0

    def _theta(self, x: Vectors) -> Vectors:
        return embed(x, 0, 2 * self.dimension)

    def _y(self, x: Vectors) -> Vectors:
        return embed(x, self.dimension, 2 * self.dimension)


@dataclass(frozen=True)
class GTD(_Gradient):
    r"""Gradient TD of 2008: stochastic descent on the norm of the expected update (NEU).

    .. math:: \Delta y = x (\rho \delta \phi - y), \quad \Delta \theta = \rho\, d\phi\, (\phi \cdot y),
              \quad \delta = r - d\phi \cdot \theta

    It converges slowly where features are small or correlated; GTD2 and TDC are better scaled.

    >>> GTD(10).n_parameters
    20
    """

    kernel = "gtd"

    def written_out(
        self, phi: Vectors, dphi: Vectors, rho: Floats, reward: Floats
    ) -> list[tuple[Vectors, Vectors, Floats]]:
        """Return (u, v, c) of each term, that of y first."""
        x, against = self.auxiliary_step, self._theta(scale(dphi, rho))
        return [
            (self._y(scale(phi, x)), against, rho * reward),
            (against, self._y(scale(phi, -1.0)), 0.0 * reward),
        ]

    def damping(self) -> float:
        """Return the damping of y."""
        return self.auxiliary_step


@dataclass(frozen=True)
class GTD2(_Gradient):
    r"""Gradient TD, version 2: stochastic descent on the mean squared projected Bellman error (MSPBE).

    .. math:: \Delta y = x \phi (\rho \delta - \phi \cdot y), \quad
              \Delta \theta = \rho\, d\phi\, (\phi \cdot y), \quad \delta = r - d\phi \cdot \theta

    >>> GTD2(10, auxiliary_step=4).n_parameters
    20
    """

    kernel = "gtd2"

    def written_out(
        self, phi: Vectors, dphi: Vectors, rho: Floats, reward: Floats
    ) -> list[tuple[Vectors, Vectors, Floats]]:
        """Return (u, v, c) of each term, that of y first."""
        x, against, minus_phi = self.auxiliary_step, self._theta(scale(dphi, rho)), self._y(scale(phi, -1.0))
        return [
            (self._y(scale(phi, x)), subtract(against, minus_phi), rho * reward),
            (against, minus_phi, 0.0 * reward),
        ]


@dataclass(frozen=True)
class TDC(_Gradient):
    r"""TD with gradient correction: a TD step, less the part that makes TD unstable off-policy.

    .. math:: \Delta y = x \phi (\rho \delta - \phi \cdot y), \quad
              \Delta \theta = \rho \delta \phi - \rho\, g \phi' (\phi \cdot y), \quad
              \delta = r - d\phi \cdot \theta

    >>> TDC(10).n_parameters
    20
    """

    kernel = "tdc"

    @property
    def n_terms(self) -> int:
        """One for y, two for theta."""
        return 3

    def written_out(
        self, phi: Vectors, dphi: Vectors, rho: Floats, reward: Floats
    ) -> list[tuple[Vectors, Vectors, Floats]]:
        """Return (u, v, c) of each term, that of y first."""
        x, in_y, discounted_next = self.auxiliary_step, self._y(phi), subtract(phi, dphi)
        return [
            (
                self._y(scale(phi, x)),
                subtract(self._theta(scale(dphi, rho)), self._y(scale(phi, -1.0))),
                rho * reward,
            ),
            (self._theta(scale(phi, rho)), self._theta(dphi), reward),
            (self._theta(scale(discounted_next, rho)), in_y, 0.0 * reward),
        ]
