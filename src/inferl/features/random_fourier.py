"""Random Fourier features: the default for observations that are numbers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from inferl.data.arrays import Floats, as_count, as_floats, is_number, short
from inferl.errors import SettingError
from inferl.features.base import (
    Bounds,
    as_seed,
    combined,
    median_distance,
    rows_of,
    set_fields,
    typical,
    vectors,
)

__all__ = ["RandomFourier"]


@dataclass(frozen=True, init=False)
class RandomFourier:
    """Random Fourier features: phi(s) = (1, z, sqrt(2 / n) cos(W z + b)), with z the standardised observation.

    The entries of W are normal with standard deviation 1 / scale, those of b uniform in [0, 2 pi]. Values that are
    linear in these features are smooth functions: a linear one, plus one of a Gaussian kernel whose length scale is
    `scale` (Rahimi and Recht, 2007). All settings are plain numbers, from which W and b are drawn again.

    Parameters
    ----------
    n
        Number of cosines; there are 1 + k + n features. With 0, they are a constant and the observation.
    mean, deviation
        Of the observations, (k,): z = (s - mean) / deviation.
    scale
        Length scale, in units of z.
    seed
        Of W and b.

    Examples
    --------
    >>> rows = np.random.default_rng(0).normal(size=(1000, 2)) * [1, 100]
    >>> features = RandomFourier.from_data(rows, n=64)
    >>> features.dimension, features([0.5, -30.0]).shape, features(rows).shape
    (67, (67,), (1000, 67))
    >>> RandomFourier(0, mean=[10, 0], deviation=[2, 1])([14, 3])
    array([1., 2., 3.])
    """

    tabular: ClassVar[bool] = False

    n: int
    mean: Bounds
    deviation: Bounds
    scale: float
    seed: int

    def __init__(self, n: int, mean: ArrayLike, deviation: ArrayLike, scale: float = 1.0, seed: int = 0) -> None:
        centre, spread = (np.atleast_1d(as_floats(*x)) for x in (("mean", mean), ("deviation", deviation)))
        if centre.ndim != 1 or centre.shape != spread.shape or centre.size == 0:
            raise SettingError(f"mean has shape {centre.shape} and deviation {spread.shape}; expected (k,) for both")
        if not (np.isfinite(centre).all() and np.isfinite(spread).all() and (spread > 0).all()):
            raise SettingError("mean and deviation must be finite, and deviations positive")
        if not (is_number(scale) and 0 < scale < np.inf):
            raise SettingError(f"scale is {short(scale)}; it must be finite and positive")
        set_fields(
            self,
            n=as_count("n", n, 0),
            mean=tuple(centre.tolist()),
            deviation=tuple(spread.tolist()),
            scale=float(scale),
            seed=as_seed(seed),
        )

    @classmethod
    def from_data(cls, observations: ArrayLike, n: int, seed: int = 0) -> RandomFourier:
        """Take mean and deviation from observations (T, k); the length scale is half the median distance of two."""
        mean, deviation = typical(observations)
        # Half: with the whole distance, more than 100 features are nearly collinear, and early estimates are poor.
        return cls(n, mean, deviation, median_distance((rows_of(observations) - mean) / deviation) / 2, seed)

    @property
    def dimension(self) -> int:
        """Number of features, 1 + k + n."""
        return 1 + len(self.mean) + self.n

    @cached_property
    def _drawn(self) -> tuple[Floats, Floats]:  # W (k, n) and b (n,)
        # RandomState: NumPy promises the same numbers in all versions, which it does not for newer generators.
        draw = np.random.RandomState(self.seed)
        return draw.standard_normal((len(self.mean), self.n)) / self.scale, draw.uniform(0, 2 * np.pi, self.n)

    def __call__(self, observations: ArrayLike) -> Floats:
        """Return the features of one observation (d,), or of several (T, d)."""
        z = (vectors(observations, len(self.mean)) - np.array(self.mean)) / np.array(self.deviation)
        weights, phases = self._drawn
        cosines = np.sqrt(2 / max(self.n, 1)) * np.cos(combined(z, weights) + phases)
        return np.concatenate([np.ones((*z.shape[:-1], 1)), z, cosines], axis=-1)
