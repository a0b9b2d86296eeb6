"""Ticks of logarithmic axes: plain numbers, as many as can be read, decided when the size of the axes is known."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["lengths", "plain", "sizes"]

FEW = 8  # lengths that can have a tick each
ENOUGH = 3  # numbers without which a logarithmic axis cannot be read
GRIDS = ((1,), (1, 2, 5), (1, 2, 3, 5, 7), (1, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9))  # in each power of ten
SMALLEST_PLAIN = 1e-4  # below it, all numbers of an axis are powers of ten
DIGIT, COMMA, APART = 4.5, 2.3, 4.0  # points, of a label of 7 points


def plain(x: float) -> str:
    """A number as people write it.

    >>> plain(20_000), plain(0.05)
    ('20,000', '0.05')
    """
    return f"{x:,.0f}" if x >= 1 else f"{x:g}"


def lengths(axes: Axes, unit: str, measured: Collection[float] = ()) -> None:
    """Make the axis of lengths logarithmic; its ticks are at the lengths that were measured, if they are few.

    Where numbers would touch, a tick has none.
    """
    from matplotlib.ticker import FuncFormatter, Locator, NullFormatter, NullLocator

    few = 0 < len(set(measured)) <= FEW

    class Places(Locator):
        def __call__(self) -> Any:
            low, high = sorted(axes.get_xlim())
            return [x for x in sorted(set(measured)) if low <= x <= high] if few else _grid(low, high, (1, 2, 5))

        def tick_values(self, vmin: float, vmax: float) -> Any:
            return self()

    def written(x: float, _: object) -> str:
        every = places()
        shown = _apart(axes, every)
        if not few and len(shown) < len(every):  # of a regular grid, a part would look strange
            shown = {x for x in shown if _power(x)}
        return plain(x) if x in shown else ""

    places = Places()
    axes.set_xscale("log")
    axes.set_xlabel(unit)
    axes.xaxis.set_major_locator(places)
    axes.xaxis.set_major_formatter(FuncFormatter(written))
    axes.xaxis.set_minor_formatter(NullFormatter())
    if few:
        axes.xaxis.set_minor_locator(NullLocator())


def sizes(axes: Axes) -> None:
    """Make the vertical axis logarithmic, with at least three numbers."""
    from matplotlib.ticker import FuncFormatter, Locator, NullFormatter

    class Places(Locator):
        def __call__(self) -> Any:
            low, high = sorted(axes.get_ylim())
            grids = (_grid(low, high, factors) for factors in GRIDS)
            return next((grid for grid in grids if len(grid) >= ENOUGH), [low, high])

        def tick_values(self, vmin: float, vmax: float) -> Any:
            return self()

    def written(y: float, _: object) -> str:
        if min(axes.get_ylim()) >= SMALLEST_PLAIN / 2:
            return plain(y)
        power = round(np.log10(y))
        return f"$10^{{{power}}}$" if np.isclose(y, 10.0**power) else f"{y:g}"

    axes.set_yscale("log")
    axes.yaxis.set_major_locator(Places())
    axes.yaxis.set_major_formatter(FuncFormatter(written))
    axes.yaxis.set_minor_formatter(NullFormatter())


def _grid(low: float, high: float, factors: Collection[float]) -> list[float]:
    powers = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    return [x for power in powers for factor in factors if low <= (x := factor * 10.0**power) <= high]


def _power(x: float) -> bool:
    return bool(np.isclose(np.log10(x) % 1, [0, 1]).any())


def _apart(axes: Axes, places: list[float]) -> set[float]:
    """The places whose numbers do not touch; powers of ten come first, or the ends where these are few."""
    figure = axes.get_figure()
    points = 72 / figure.dpi if figure is not None else 1.0

    def span(x: float) -> tuple[float, float]:
        middle = axes.transData.transform((x, axes.get_ylim()[0]))[0] * points
        width = sum(COMMA if one in ",." else DIGIT for one in plain(x)) + APART
        return middle - width / 2, middle + width / 2

    kept: list[float] = []
    firsts = [x for x in places if _power(x)]
    firsts = firsts if len(firsts) >= ENOUGH else [min(places), max(places)] if places else []
    for x in sorted(places, key=lambda x: (x not in firsts, not _power(x), -x)):
        low, high = span(x)
        if all(high <= span(other)[0] or low >= span(other)[1] for other in kept):
            kept.append(x)
    return set(kept)
