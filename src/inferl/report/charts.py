"""Charts: lines, bands and ticks in the coordinates of a drawing 480 units wide; the template renders them as SVG.

Colours come from the style sheet, so that the same drawing works in light and in dark mode. Matplotlib is not used: its
import and first figure add 0.4 s to a command that renders the page in 0.05 s, and its SVG takes 10 kB per chart
instead of 2 to 4 kB. It would also cost the titles on hovering, the dark mode and a page without further dependencies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

import numpy as np

from inferl.data.arrays import Floats

__all__ = ["Axis", "Chart", "Curve", "logarithmic", "plain"]

WIDTH, HEIGHT = 480, 280
LEFT, RIGHT, TOP, BOTTOM = 58, 24, 28, 42  # margins


@dataclass(frozen=True)
class Axis:
    """The range of an axis, its scale and its ticks."""

    label: str
    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]  # values with their labels
    log: bool = False

    def share(self, values: Floats) -> Floats:
        """Relative positions of values on the axis: 0 at the low end, 1 at the high end.

        >>> Axis("n", 1, 100, (), log=True).share(np.array([1.0, 10.0, 100.0]))
        array([0. , 0.5, 1. ])
        """
        x, low, high = (np.log(y) if self.log else np.asarray(y) for y in (values, self.low, self.high))
        return np.asarray((x - low) / (high - low))


@dataclass(frozen=True, eq=False)
class Curve:
    """A line with a band or whiskers around it, and a text for each of its points."""

    name: str
    x: Floats  # (m,)
    y: Floats  # (m,)
    lower: Floats  # (m,)
    upper: Floats  # (m,)
    text: tuple[str, ...]  # (m,)
    style: str = "band"  # or "whiskers" or "bars"
    marked: int | None = None  # index of a highlighted point


@dataclass(frozen=True, eq=False)
class Chart:
    """Curves on common axes."""

    title: str  # for screen readers
    x: Axis
    y: Axis
    curves: tuple[Curve, ...]

    width, height = WIDTH, HEIGHT
    left, right, top, bottom = LEFT, WIDTH - RIGHT, TOP, HEIGHT - BOTTOM

    def across(self, values: Floats | float) -> Floats:
        """Return horizontal coordinates."""
        return self.left + self.x.share(np.asarray(values, np.float64)) * (self.right - self.left)

    def down(self, values: Floats | float) -> Floats:
        """Return vertical coordinates, from the top; values far outside are clipped."""
        share = np.clip(self.y.share(np.asarray(values, np.float64)), -5, 6)
        return self.bottom - share * (self.bottom - self.top)

    def line(self, curve: Curve) -> str:
        """Return the path of a line, with gaps where a number is not finite."""
        return _path(self.across(curve.x), self.down(curve.y))

    def band(self, curve: Curve) -> str:
        """Return the outline of a band, over the points with finite bounds."""
        seen = np.isfinite(curve.lower) & np.isfinite(curve.upper)
        x, low, high = self.across(curve.x[seen]), self.down(curve.lower[seen]), self.down(curve.upper[seen])
        return _path(np.r_[x, x[::-1]], np.r_[high, low[::-1]]) + "Z" if seen.any() else ""

    def bars(self, curve: Curve) -> list[tuple[float, float, float, float]]:
        """Return x, y, width, height of a bar for each point, side by side with those of other curves."""
        index = self.curves.index(curve)
        x = self.across(curve.x)
        width = 0.8 * float(np.min(np.diff(x), initial=60.0)) / len(self.curves)
        left, top = x + (index - len(self.curves) / 2) * width, self.down(curve.y)
        bottom = float(self.bottom)
        return [_round(at, y, width, max(bottom - y, 0.0)) for at, y in zip(left, top, strict=True)]

    def points(self, curve: Curve) -> list[tuple[float, float, str]]:
        """Return the coordinates of points, with their texts."""
        points = zip(self.across(curve.x), self.down(curve.y), curve.text, strict=True)
        return [(round(float(x), 1), round(float(y), 1), text) for x, y, text in points if np.isfinite(y)]

    def whiskers(self, curve: Curve) -> str:
        """Return the path of a vertical line for each point."""
        rows = zip(self.across(curve.x), self.down(curve.lower), self.down(curve.upper), strict=True)
        return "".join(f"M{x:.1f} {low:.1f}V{high:.1f}" for x, low, high in rows)

    @property
    def x_ticks(self) -> list[tuple[float, str]]:
        """Coordinates and labels of the horizontal ticks."""
        return [(round(float(self.across(value)), 1), text) for value, text in self.x.ticks]

    @property
    def y_ticks(self) -> list[tuple[float, str]]:
        """Coordinates and labels of the vertical ticks."""
        return [(round(float(self.down(value)), 1), text) for value, text in self.y.ticks]


def plain(label: str, low: float, high: float, percent: bool = False) -> Axis:
    """Return an axis with about five ticks at round numbers.

    >>> [label for _, label in plain("value", 0.36, 0.449).ticks]
    ['0.36', '0.38', '0.40', '0.42', '0.44']
    """
    if not high > low:
        reach = abs(low) or 1.0
        low, high = low - reach, high + reach
    rough = (high - low) / 5
    unit = 10.0 ** floor(log10(rough))
    step = min((unit * digit for digit in (1, 2, 5, 10)), key=lambda step: abs(step - rough))
    scaled = 100 * step if percent else step
    digits = max(0, -floor(log10(scaled) + 1e-9))
    numbers = [i * step for i in range(ceil(low / step - 1e-9), floor(high / step + 1e-9) + 1)]
    ticks = tuple((number, _number(number, digits, percent)) for number in numbers)
    return Axis(label, low, high, ticks)


def logarithmic(label: str, values: Sequence[float], base: int) -> Axis:
    """Return a logarithmic axis over some values, with ticks at few powers of 2, or at 1, 2, 5 times powers of 10.

    >>> [label for _, label in logarithmic("transitions", [120.0, 800.0], 10).ticks]
    ['200', '500']
    >>> [label for _, label in logarithmic("steps", [1.0, 64.0], 2).ticks]
    ['1', '2', '4', '8', '16', '32', '64']
    """
    low, high = float(min(values)), float(max(values))
    if not high > low:
        low, high = low / base, high * base
    powers = range(floor(log10(low) / log10(base)), ceil(log10(high) / log10(base)) + 1)
    numbers = [float(base) ** power for power in powers]
    if base == 10 and high / low < 30:
        numbers = [digit * number for number in numbers for digit in (1, 2, 5)]
    inside = [number for number in numbers if low / 1.0001 <= number <= high * 1.0001]
    inside = inside or [low, high]
    every = -(-len(inside) // 7)
    return Axis(label, low, high, tuple((number, _power(number)) for number in inside[::every]), log=True)


def _path(x: Floats, y: Floats) -> str:
    pen, path = "M", []
    for across, down in zip(x, y, strict=True):
        if np.isfinite(down):
            path.append(f"{pen}{across:.1f} {down:.1f}")
            pen = "L"
        else:
            pen = "M"
    return "".join(path)


def _round(*numbers: float) -> tuple[float, float, float, float]:
    a, b, c, d = (round(float(number), 1) for number in numbers)
    return a, b, c, d


def _number(number: float, digits: int, percent: bool) -> str:
    number = 0.0 if abs(number) < 1e-12 else number
    return f"{100 * number:.{digits}f}%" if percent else f"{number:.{digits}f}".replace("-", "\u2212")


def _power(number: float) -> str:
    if number >= 1e6:
        return f"{number / 1e6:g} million"
    return f"{number:,.0f}" if number >= 1 else f"1/{1 / number:g}"
