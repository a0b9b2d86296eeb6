"""Plots: functions that take and return a Matplotlib Axes.

No global state: figures are created without pyplot, so none has to be closed, and no window opens.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from io import BytesIO
from typing import IO, TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike

from inferl.data.arrays import Bools, Floats, Integers
from inferl.errors import MissingExtraError, ShapeError
from inferl.interval import Interval, brief

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["PALETTE", "band", "closing_bands", "forest", "new_axes", "save", "side_by_side", "stacked", "style"]

PALETTE = {
    "blue": "#0072B2",
    "vermillion": "#D55E00",
    "green": "#009E73",
    "purple": "#CC79A7",
    "orange": "#E69F00",
    "sky": "#56B4E9",
    "yellow": "#F0E442",
    "black": "#000000",
}
"""Colours of Okabe and Ito, by name, distinguishable for colour-blind readers, and in print."""

SCREEN = 140  # pixels of a notebook for an inch of paper

_STYLE: Any = {
    "figure.figsize": (3.5, 2.6),  # one column of a paper, in inches
    "figure.dpi": 300,
    "savefig.dpi": 300,
    "font.size": 8,
    "axes.labelsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.minor.width": 0.4,
    "lines.linewidth": 1.2,
    "pdf.fonttype": 42,  # text stays text, as journals require
    "svg.fonttype": "none",
}


@contextmanager
def style() -> Iterator[None]:
    """Context manager for the style of this package: one column wide, 300 dpi, text of 7 and 8 points.

    >>> with style():
    ...     axes = new_axes()
    >>> axes.figure.get_size_inches().tolist()
    [3.5, 2.6]
    """
    try:
        import matplotlib
    except ImportError:
        raise MissingExtraError("matplotlib", "plot") from None
    with matplotlib.rc_context(_STYLE):
        yield


def new_axes() -> Axes:
    """New axes on their own figure, in the style of this package; write them to a file with `save`.

    >>> new_axes().figure.get_dpi()
    300.0
    """
    return side_by_side(1)[0]


def side_by_side(number: int) -> list[Axes]:
    """Several axes in a row on one figure, in the style of this package.

    >>> left, right = side_by_side(2)
    >>> left.figure.get_size_inches().tolist()
    [7.0, 2.6]
    """
    with style():
        from matplotlib.figure import Figure

        width, height = _STYLE["figure.figsize"]
        figure = Figure((number * width, height), layout="constrained")
        return list(figure.subplots(1, number, squeeze=False, subplot_kw={"axes_class": _shown_axes()})[0])


def stacked(rows: Sequence[int]) -> list[Axes]:
    """Several axes below each other on one figure, for forest plots with so many rows.

    >>> above, below = stacked([3, 1])
    >>> bool(above.get_position().height > below.get_position().height)
    True
    """
    with style():
        from matplotlib.figure import Figure

        figure = Figure((4.5, sum(map(_height, rows))), layout="constrained")
        options: Any = {"height_ratios": list(map(_height, rows)), "subplot_kw": {"axes_class": _shown_axes()}}
        return list(figure.subplots(len(rows), 1, squeeze=False, **options)[:, 0])


def _height(rows: int) -> float:
    """Height of a forest plot, in inches."""
    return 0.62 + 0.24 * rows


@cache
def _shown_axes() -> type[Axes]:
    """Axes that a notebook shows as the value of a cell. Those of pyplot are shown by pyplot."""
    from matplotlib.axes import Axes

    class ShownAxes(Axes):
        def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
            file = BytesIO()
            save(self, file)
            width, height = cast("Figure", self.figure).get_size_inches() * SCREEN
            return file.getvalue(), {"width": int(width), "height": int(height)}

    return ShownAxes


def save(axes: Axes, path: str | os.PathLike[str] | IO[bytes]) -> None:
    """Write the figure of some axes to a file; its suffix (.png, .pdf, .svg) selects the format.

    >>> import io
    >>> file = io.BytesIO()
    >>> save(new_axes(), file)
    >>> file.getvalue()[1:4]
    b'PNG'
    """
    with style():
        cast("Figure", axes.figure).savefig(path)


def band(
    axes: Axes,
    n: ArrayLike,
    estimate: ArrayLike,
    lower: ArrayLike,
    upper: ArrayLike,
    label: str,
    color: str,
    pale: bool = False,
) -> Axes:
    """Draw an estimate as a line, with its interval as a band around it.

    Parameters
    ----------
    axes
        Where to draw.
    n
        Horizontal coordinates, (m,).
    estimate, lower, upper
        (m,); a gap where they are not finite.
    label
        Label for a legend.
    color
        Of the line and the band.
    pale
        Draw in a pale colour with a dotted line: for intervals with failed checks.

    Examples
    --------
    >>> axes = band(new_axes(), [10, 100], [0.3, 0.4], [0.1, 0.3], [0.5, 0.5], "least squares", PALETTE["blue"])
    >>> len(axes.lines), len(axes.collections)
    (1, 1)
    """
    line, low, high = (np.where(np.isfinite(y), y, np.nan) for y in (estimate, lower, upper))
    axes.fill_between(np.asarray(n), low, high, color=color, alpha=0.12 if pale else 0.25, linewidth=0)
    axes.plot(np.asarray(n), line, color=color, label=label, linestyle=":" if pale else "-")
    return axes


def closing_bands(
    readings: Mapping[str, Sequence[tuple[int, Interval]]], truth: float, axes: Axes | None = None
) -> Axes:
    """Draw how intervals converge to the exact value, over episodes on a logarithmic axis.

    Intervals with notes, because a check failed, are drawn pale.

    Parameters
    ----------
    readings
        For each of two methods, by name: intervals with the number of episodes after which they were read.
    truth
        The exact value.
    axes
        Where to draw; None: a new figure.

    Examples
    --------
    >>> def reading(episodes, width):
    ...     return episodes, Interval(0.4, 0.4 - width, 0.4 + width, 0.95, "normal", width / 2, 90 * episodes)
    >>> axes = closing_bands(
    ...     {
    ...         "bootstrap": [reading(10, 0.3), reading(1000, 0.03)],
    ...         "least squares": [reading(10, 0.2), reading(1000, 0.02)],
    ...     },
    ...     truth=0.41,
    ... )
    >>> axes.get_xscale(), axes.get_xlabel()
    ('log', 'episodes')
    """
    if len(readings) != 2 or any(len(read) < 2 for read in readings.values()):
        raise ShapeError("readings must be of two methods, with at least two readings each")
    axes = new_axes() if axes is None else axes
    colors = (PALETTE["vermillion"], PALETTE["blue"])
    curves = [_Curve.of(name, color, read) for (name, read), color in zip(readings.items(), colors, strict=True)]
    with style():
        for curve in curves:
            curve.draw(axes)
        axes.axhline(truth, color="black", linewidth=0.6, zorder=3)
        _scale_episodes(axes, curves)
        level = next(iter(readings.values()))[0][1].level
        axes.set_ylabel(f"value and its {level * 100:g}% interval")
        _write_names(axes, curves, truth)
    return axes


def forest(intervals: Mapping[str, Interval], axes: Axes | None = None, reference: float | None = None) -> Axes:
    """Draw intervals below each other, with their names and numbers: a forest plot.

    Intervals with notes, because a check failed, are drawn pale and dotted.

    Parameters
    ----------
    intervals
        Intervals of one number each, by name; the first is drawn at the top.
    axes
        Where to draw; None: a new figure.
    reference
        A number to mark by a vertical line, such as 0 for differences.

    Examples
    --------
    >>> new = Interval(437.0, 408.0, 466.0, 0.95, "anytime", 14.0, 52_440)
    >>> old = Interval(391.0, 369.0, 413.0, 0.95, "anytime", 11.0, 46_920)
    >>> axes = forest({"new": new, "old": old})
    >>> [label.get_text() for label in axes.get_yticklabels()]
    ['new', 'old']
    """
    if not intervals:
        raise ShapeError("there is no interval to draw; give at least one")
    if axes is None:
        axes = new_axes()
        cast("Figure", axes.figure).set_size_inches(4.5, _height(len(intervals)))
    with style():
        for row, one in enumerate(intervals.values()):
            color, alpha, line = PALETTE["blue"], 0.5 if one.notes else 1.0, ":" if one.notes else "-"
            bounds = np.array([one.lower, one.upper], np.float64)
            axes.plot(np.where(np.isfinite(bounds), bounds, np.nan), [row, row], line, color=color, alpha=alpha)
            axes.plot([one.estimate], [row], "o", markersize=4, markeredgewidth=0, color=color, alpha=alpha)
            text = brief(one.estimate, one.lower, one.upper)
            axes.annotate(text, (1, row), (4, 0), axes.get_yaxis_transform(), "offset points", va="center", fontsize=7)
        if reference is not None:
            axes.axvline(reference, color="black", linewidth=0.6, zorder=0)
        axes.set_yticks(range(len(intervals)), list(intervals))
        axes.set_ylim(len(intervals) - 0.5, -0.5)
        axes.tick_params("y", length=0)
        axes.spines["left"].set_visible(False)
        levels = sorted({one.level for one in intervals.values()})
        axes.set_xlabel(f"estimate and its {' or '.join(f'{level * 100:g}%' for level in levels)} interval")
    return axes


class _Curve(NamedTuple):
    """The readings of one method."""

    name: str
    color: str
    episodes: Integers  # (m,)
    rows: Floats  # (3, m): estimate, lower, upper
    noted: Bools  # (m,) a check failed

    @classmethod
    def of(cls, name: str, color: str, readings: Sequence[tuple[int, Interval]]) -> _Curve:
        """Convert readings to arrays."""
        rows = [(interval.estimate, interval.lower, interval.upper) for _, interval in readings]
        noted = np.array([bool(interval.notes) for _, interval in readings])
        return cls(name, color, np.array([n for n, _ in readings]), np.array(rows, dtype=np.float64).T, noted)

    def draw(self, axes: Axes) -> None:
        """Draw readings without notes in full colour, and the others pale, up to the next reading without notes."""
        pale = self.noted.copy()
        pale[1:] |= self.noted[:-1]
        pale[:-1] |= self.noted[1:]
        for where, is_pale in ((pale, True), (~self.noted, False)):
            if where.any():
                estimate, lower, upper = np.where(where, self.rows, np.nan)
                band(axes, self.episodes, estimate, lower, upper, self.name, self.color, is_pale)

    def between(self, left: float, right: float) -> Floats:
        """Finite bounds between two numbers of episodes."""
        bounds = self.rows[1:, (self.episodes >= left) & (self.episodes <= right)]
        return bounds[np.isfinite(bounds)]


def _scale_episodes(axes: Axes, curves: Sequence[_Curve]) -> None:
    """Make the horizontal axis logarithmic, with plain numbers at 1, 2, 5 times powers of ten."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    first = min(int(curve.episodes[0]) for curve in curves)
    final = max(int(curve.episodes[-1]) for curve in curves)
    rounds = [digit * 10**power for power in range(len(str(final))) for digit in (1, 2, 5)]
    ticks = [first, *(tick for tick in rounds if 1.6 * first < tick < final / 1.6), final]  # labels must not overlap
    axes.set_xscale("log")
    axes.set_xlim(first, final)
    axes.set_xlabel("episodes")
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda tick, _: f"{tick:,.0f}"))


def _write_names(axes: Axes, curves: Sequence[_Curve], truth: float) -> None:
    """Write each name beside its band, the higher one above both bands and the lower one below; instead of a legend."""
    low, high = sorted(curves, key=lambda curve: float(np.nanmean(curve.rows[0])))
    first, final = axes.get_xlim()
    left, middle, right = (first * (final / first) ** share for share in (0.3, 0.52, 0.8))
    above = max(np.max(curve.between(left, right), initial=truth) for curve in curves)
    below = min(np.min(curve.between(middle, final), initial=truth) for curve in curves)
    bottom, top = axes.get_ylim()
    height = top - bottom
    axes.set_ylim(min(bottom, below - 0.22 * height), max(top, above + 0.1 * height))
    axes.annotate(high.name, (left, above), (4, 3), textcoords="offset points", color=high.color)
    axes.annotate(low.name, (middle, below), (0, -3), textcoords="offset points", color=low.color, va="top")
    small: dict[str, Any] = {"textcoords": "offset points", "fontsize": 7}
    axes.annotate(f"exact\n{truth:.4g}", (1, truth), (3, 0), axes.get_yaxis_transform(), va="center", **small)
    if any(curve.noted.any() for curve in curves):
        axes.annotate("dotted while a check fails", (1, 0), (0, 3), "axes fraction", ha="right", **small)
