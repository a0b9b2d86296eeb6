"""Fixed bases on a box of observations: Fourier, tile coding, radial basis functions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, product
from math import comb
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from inferl.data.arrays import Floats, Integers, as_count, as_floats
from inferl.errors import SettingError
from inferl.features.base import (
    Bounds,
    as_bounds,
    as_seed,
    bounds_of,
    combined,
    median_distance,
    rows_of,
    set_fields,
    typical,
    unit,
    vectors,
)

__all__ = ["RBF", "Fourier", "TileCoding"]

MOST = 1_000_000  # features; more would not fit into memory, and are probably a mistake


@dataclass(frozen=True, init=False)
class Fourier:
    """The Fourier cosine basis: phi_c(s) = cos(pi c . s) for c in {0, ..., order}^k, with s scaled to [0, 1]^k.

    The first feature is constant. An observation outside the bounds is clipped to them.

    Parameters
    ----------
    low, high
        Bounds of the observations, (k,).
    order
        Largest frequency.
    interactions
        Largest number of columns in one feature; None: all. With all there are (order + 1)^k features; with 2,
        1 + k order + k (k - 1) / 2 order^2.

    Examples
    --------
    >>> features = Fourier(low=[-1, -1], high=[1, 1], order=1)
    >>> features.dimension
    4
    >>> features([-0.5, 1]).round(3).tolist()  # (0.25, 1) when scaled
    [1.0, -1.0, 0.707, -0.707]
    >>> Fourier(np.zeros(8), np.ones(8), order=3, interactions=2).dimension  # with all, 65,536
    277
    """

    tabular: ClassVar[bool] = False

    low: Bounds
    high: Bounds
    order: int
    interactions: int | None

    def __init__(self, low: ArrayLike, high: ArrayLike, order: int, interactions: int | None = None) -> None:
        lower, upper = as_bounds(low, high)
        order = as_count("order", order, 0)
        if interactions is not None:
            interactions = as_count("interactions", interactions, 1)
        set_fields(self, low=lower, high=upper, order=order, interactions=interactions)
        _check_number(self.dimension, f"order {order} in {len(lower)} columns", "interactions=2, ")

    @classmethod
    def from_data(cls, observations: ArrayLike, order: int, interactions: int | None = None) -> Fourier:
        """Take the bounds from observations (T, k): their range, and a tenth of it on both sides.

        >>> Fourier.from_data([[0.0], [10.0]], order=2)
        Fourier(low=(-1.0,), high=(11.0,), order=2, interactions=None)
        """
        return cls(*bounds_of(observations), order, interactions)

    @property
    def dimension(self) -> int:
        """Number of features."""
        return sum(comb(len(self.low), r) * self.order**r for r in range(self._most + 1))

    @property
    def _most(self) -> int:
        return len(self.low) if self.interactions is None else min(self.interactions, len(self.low))

    @cached_property
    def _frequencies(self) -> Integers:  # (k, d)
        k = len(self.low)
        found = []
        for columns in (chosen for r in range(self._most + 1) for chosen in combinations(range(k), r)):
            for values in product(range(1, self.order + 1), repeat=len(columns)):
                found.append(np.zeros(k, np.int64))
                found[-1][list(columns)] = values
        return np.array(sorted(map(tuple, found))).T

    def __call__(self, observations: ArrayLike) -> Floats:
        """Return the features of one observation (d,), or of several (T, d)."""
        points = unit(observations, self.low, self.high)
        values: Floats = np.cos(np.pi * combined(points, self._frequencies.astype(np.float64)))
        return values


@dataclass(frozen=True, init=False)
class TileCoding:
    """Tile coding: several grids over the box, each slightly offset; a feature is 1 inside its tile.

    With one tiling this is a plain grid. Offsets are spread evenly over the width of a tile, by odd multiples from
    column to column, and are centred, so that every tile can be reached. An observation outside the bounds is clipped
    to them.

    Parameters
    ----------
    low, high
        Bounds of the observations, (k,).
    tilings
        Number of grids; for each observation this many features are 1.
    tiles
        Number of tiles of a grid along each column; there are tilings * tiles^k features.

    Examples
    --------
    >>> features = TileCoding(low=0, high=1, tilings=2, tiles=4)
    >>> features([0.3]).tolist()
    [1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0]
    """

    tabular: ClassVar[bool] = False

    low: Bounds
    high: Bounds
    tilings: int
    tiles: int

    def __init__(self, low: ArrayLike, high: ArrayLike, tilings: int, tiles: int) -> None:
        lower, upper = as_bounds(low, high)
        tilings, tiles = as_count("tilings", tilings, 1), as_count("tiles", tiles, 1)
        _check_number(tilings * tiles ** len(lower), f"{tilings} tilings of {tiles} tiles in {len(lower)} columns")
        set_fields(self, low=lower, high=upper, tilings=tilings, tiles=tiles)

    @classmethod
    def from_data(cls, observations: ArrayLike, tilings: int, tiles: int) -> TileCoding:
        """Take the bounds from observations (T, k): their range, and a tenth of it on both sides.

        >>> TileCoding.from_data([[0.0], [10.0]], tilings=2, tiles=4)
        TileCoding(low=(-1.0,), high=(11.0,), tilings=2, tiles=4)
        """
        return cls(*bounds_of(observations), tilings, tiles)

    @property
    def dimension(self) -> int:
        """Number of features, tilings * tiles^k."""
        return int(self.tilings * self.tiles ** len(self.low))

    @cached_property
    def _offsets(self) -> Floats:  # (tilings, k), in widths of a tile
        odd = 2 * np.arange(len(self.low)) + 1
        return (np.arange(self.tilings)[:, None] * odd % self.tilings + 0.5) / self.tilings - 0.5

    def __call__(self, observations: ArrayLike) -> Floats:
        """Return the features of one observation (d,), or of several (T, d)."""
        points = unit(observations, self.low, self.high)
        cells = np.floor(points[..., None, :] * self.tiles + self._offsets)  # (..., tilings, k)
        cells = np.clip(cells, 0, self.tiles - 1).astype(np.int64)
        grid = (self.tiles,) * len(self.low)
        inside = np.ravel_multi_index(tuple(np.moveaxis(cells, -1, 0)), grid)  # (..., tilings)
        active = inside + np.arange(self.tilings) * self.tiles ** len(self.low)
        features = np.zeros((*points.shape[:-1], self.dimension))
        np.put_along_axis(features, active, 1.0, axis=-1)
        return features


@dataclass(frozen=True, init=False)
class RBF:
    """Radial basis functions: ``phi_i(s) = exp(-|(s - center_i) / width|^2 / 2)``.

    Parameters
    ----------
    centers
        (d, k), one row per feature.
    width
        One number, or one for each column of the observations, (k,).

    Examples
    --------
    >>> features = RBF(centers=[[0.0], [1.0]], width=0.5)
    >>> features([1.0]).round(3).tolist()
    [0.135, 1.0]
    """

    tabular: ClassVar[bool] = False

    centers: tuple[tuple[float, ...], ...]
    width: tuple[float, ...]

    def __init__(self, centers: ArrayLike, width: ArrayLike) -> None:
        try:
            points = as_floats("centers", centers)
            widths = np.broadcast_to(as_floats("width", width), points.shape[-1:])
        except ValueError as error:  # also those of this package
            raise SettingError(f"centers must be numbers (d, k), and width one number or (k,): {error}") from None
        if points.ndim != 2 or points.size == 0 or not np.isfinite(points).all():
            raise SettingError(f"centers of shape {points.shape}; expected finite numbers (d, k), one row per feature")
        if not (np.isfinite(widths) & (widths > 0)).all():
            raise SettingError(f"width is {width!r}; widths must be finite and positive")
        set_fields(self, centers=tuple(map(tuple, points.tolist())), width=tuple(widths.tolist()))

    @classmethod
    def from_data(cls, observations: ArrayLike, n: int, seed: int = 0) -> RBF:
        """Choose n of the observations (T, k) as centers, far from each other; the width is their median distance.

        Centers are drawn as by k-means++: each with a probability that grows with the squared distance from those
        drawn before, in standardised units.

        >>> RBF.from_data([[0.0], [0.1], [1.0], [1.1]], n=2).dimension
        2
        """
        n = as_count("the number of centers", n, 1)
        mean, deviation = typical(observations)
        rows = (rows_of(observations) - mean) / deviation
        # RandomState: NumPy promises the same numbers in all versions, which it does not for newer generators.
        draw = np.random.RandomState(as_seed(seed))
        chosen = [int(draw.randint(len(rows)))]
        away = np.full(len(rows), np.inf)
        while len(chosen) < n:
            away = np.minimum(away, np.sum((rows - rows[chosen[-1]]) ** 2, axis=1))
            shares = np.cumsum(away if away.any() else np.ones(len(rows)))  # fewer different rows than centers
            chosen.append(int(np.searchsorted(shares, draw.random_sample() * shares[-1], side="right")))
        return cls(rows[chosen] * deviation + mean, median_distance(rows) * deviation)

    @property
    def dimension(self) -> int:
        """Number of centers."""
        return len(self.centers)

    @cached_property
    def _scaled(self) -> Floats:  # (d, k)
        scaled: Floats = np.array(self.centers) / np.array(self.width)
        return scaled

    def __call__(self, observations: ArrayLike) -> Floats:
        """Return the features of one observation (d,), or of several (T, d)."""
        points = vectors(observations, len(self.width)) / np.array(self.width)
        squares: Floats = np.sum((points[..., None, :] - self._scaled) ** 2, axis=-1)
        values: Floats = np.exp(-squares / 2)
        return values


def _check_number(number: int, of_what: str, remedy: str = "") -> None:
    if number > MOST:
        raise SettingError(
            f"{of_what} give {number} features, more than {MOST}; use {remedy}a lower order, fewer tiles, or fewer "
            "columns"
        )
