"""Drawing: names beside the curves, error bars, the nominal line, panel letters; `looks` has the colours.

Functions take rows (the cells of a study's JSON) and return a Matplotlib Figure; `write` puts it beside its numbers.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from inferl import plots
from studies.paper import ticks
from studies.paper.looks import LOOKS, Look, ink
from studies.paper.machinery import Result, write_csv

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "band",
    "bands",
    "beside",
    "coverage",
    "errors",
    "flat",
    "key",
    "lines",
    "panels",
    "room",
    "slopes",
    "title",
    "widths",
    "write",
]

LEVEL = 0.95
DEEPEST = 2000  # largest over smallest width that is shown
MANY = 12  # points without a marker each
COLORS = 128  # in a PNG
PALE = 0.75  # of a band, on the way to white


def panels(n: int, height: float = 2.6, rows: int = 1) -> tuple[Figure, list[Axes]]:
    """A figure with n panels in rows, with a letter each if there are several."""
    columns = n // rows
    with plots.style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(min(3.5, 9 / columns) * columns, height), layout="constrained")
        axes = list(figure.subplots(rows, columns, squeeze=False).flat)
        for letter, panel in zip("abcdef", axes, strict=False):
            if n > 1:
                panel.text(-0.16, 1.04, letter, transform=panel.transAxes, fontsize=9, fontweight="bold")
        return figure, axes


def title(axes: Axes, words: str) -> None:
    """Name a panel, beside its letter."""
    axes.set_title(words, loc="left", fontsize=8)


def room(*groups: Mapping[str, Sequence[Result]]) -> tuple[float, float]:
    """Limits of an axis of coverage that shows all error bars: up to 1, from a tenth below the lowest."""
    lowest = min(row["binomial_95"][0] for curves in groups for rows in curves.values() for row in rows)
    bottom = max(np.floor(10 * (lowest - 0.01)) / 10, 0)
    return float(bottom - 0.03 * (1 - bottom)), float(1 + 0.03 * (1 - bottom))


def coverage(
    axes: Axes, curves: Mapping[str, Sequence[Result]], unit: str, limits: tuple[float, float] | None = None
) -> None:
    """Coverage over length, with exact binomial 95 % intervals and the nominal line."""
    from matplotlib.ticker import MultipleLocator

    with plots.style():
        bars = []
        for i, (name, rows) in enumerate(curves.items()):
            x = np.array([row["length"] for row in rows]) * 1.035 ** (i - (len(curves) - 1) / 2)  # bars stay apart
            y = np.array([row["coverage"] for row in rows])
            low, high = np.array([row["binomial_95"] for row in rows]).T
            both = np.maximum([y - low, high - y], 0)
            style = LOOKS[name].style
            bars.append(axes.errorbar(x, y, both, **style, markersize=3, capsize=1.5, elinewidth=0.8, label=name)[0])
        axes.axhline(LEVEL, color="black", linewidth=0.6, linestyle="--", zorder=0)
        axes.set_ylim(*(limits or room(curves)))
        shown = 1 - axes.get_ylim()[0]
        axes.yaxis.set_major_locator(MultipleLocator(0.2 if shown > 0.75 else 0.1 if shown > 0.35 else 0.05))
        axes.set_ylabel("coverage")
        ticks.lengths(axes, unit, _lengths(curves))
        beside(axes, dict(zip(curves, bars, strict=True)))


def widths(axes: Axes, curves: Mapping[str, Sequence[Result]], unit: str, value: str = "median_width") -> None:
    """Median width over length, both logarithmic; or the width over the oracle's."""
    with plots.style():
        drawn: dict[str, Any] = {}
        for name, rows in curves.items():
            kept = [row for row in rows if row[value]]
            if kept:  # else no repeat had an interval
                x, y = ([row[key] for row in kept] for key in ("length", value))
                (drawn[name],) = axes.plot(x, y, **_style(LOOKS[name], len(kept)), label=name)
        ticks.sizes(axes)
        axes.set_ylabel("median width" if value == "median_width" else "median of width / oracle's width")
        if value != "median_width":
            axes.axhline(1, color="black", linewidth=0.6, linestyle="--", zorder=0)
        sizes = [row[value] for rows in curves.values() for row in rows if row[value]]
        if max(sizes) > DEEPEST * min(sizes):  # widths of intervals that are about to begin
            axes.set_ylim(max(sizes) / DEEPEST, 1.5 * max(sizes))
        _point_below(axes, drawn)
        ticks.lengths(axes, unit, _lengths(curves))
        beside(axes, drawn)


def _point_below(axes: Axes, drawn: Mapping[str, Any]) -> None:
    """Point down where a curve is below the axis, and say so."""
    from matplotlib.markers import CARETDOWN

    bottom = axes.get_ylim()[0]
    for line in drawn.values():
        x, y = (np.asarray(of, dtype=np.float64) for of in (line.get_xdata(), line.get_ydata()))
        if (below := x[y < bottom]).size:
            color = line.get_color()
            axes.plot(below, [bottom * 1.2] * len(below), linestyle="", marker=CARETDOWN, color=color, markersize=4)
            place: dict[str, Any] = {"xytext": (0, 6), "textcoords": "offset points", "fontsize": 6}
            axes.annotate("below the axis", (below[0], bottom * 1.2), color=ink(color), ha="left", **place)


def bands(axes: Axes, example: Result, names: Mapping[str, str], unit: str) -> None:
    """One run's intervals over length, with the exact value."""
    with plots.style():
        for key_, name in names.items():
            look = LOOKS[name]
            rows = np.array(example["readings"][key_], dtype=np.float64)
            n, estimate, lower, upper = rows.T
            if key_ == "offline bootstrap":  # few readings: bars
                both = np.maximum([estimate - lower, upper - estimate], 0)
                style: dict[str, Any] = {"markersize": 3, "capsize": 1.5, "elinewidth": 0.8, "linestyle": ""}
                axes.errorbar(n, estimate, both, **(look.style | style), label=name)
            else:
                band(axes, n, estimate, lower, upper, name, filled=key_ == "bootstrap")
        look = LOOKS["exact"]
        axes.axhline(example["truth"], color=look.color, linewidth=0.6, linestyle=look.line, label="exact")
        ends = [np.array(rows, dtype=np.float64) for rows in example["readings"].values()]
        first = min(rows[0, 0] for rows in ends)
        axes.set_xlim(first / 1.05, max(rows[-1, 0] for rows in ends) * 1.05)
        axes.set_ylim(-0.05, 1.6 * example["truth"])
        axes.set_ylabel("value of the start, 95% interval")
        axes.legend(frameon=False, fontsize=7, loc="lower right", handlelength=1.8)
        ticks.lengths(axes, unit)


def band(axes: Axes, n: Any, estimate: Any, lower: Any, upper: Any, name: str, filled: bool = True) -> None:
    """An estimate as a line, with its interval: a band, or its bounds, as two bands mix to a third colour."""
    color = LOOKS[name].color
    if filled:
        axes.fill_between(n, lower, upper, color=_pale(color), linewidth=0, zorder=0.5)
    else:
        for bound in (lower, upper):
            axes.plot(n, bound, color=color, linewidth=0.6)
    axes.plot(n, estimate, color=color, label=name)


def _pale(color: str) -> str:
    rgb = [int(color[i : i + 2], 16) for i in (1, 3, 5)]
    return "#" + "".join(f"{round(255 * PALE + (1 - PALE) * x):02X}" for x in rgb)


def slopes(axes: Axes, rows: Sequence[Result]) -> None:
    """Slopes of the coverage error with their intervals, what batches of 200 repeats say, and what chance gives."""
    with plots.style():
        for i, row in enumerate(rows):
            name = f"bootstrap, {row['kind']}"
            look = LOOKS[name]
            low, high = row["interval"]
            axes.plot([low, high], [i, i], color=look.color, linewidth=2)
            axes.plot(row["slope"], i, **look.style, markersize=5, label=name)
            axes.plot(row["fewer"], [i - 0.22] * len(row["fewer"]), "|", color=look.color, markersize=6)
            place: dict[str, Any] = {"xytext": (0, 5), "textcoords": "offset points", "ha": "center", "fontsize": 7}
            axes.annotate(row["kind"], (row["slope"], i), color=ink(look.color), **place)
        axes.margins(x=0.08)
        low, high = rows[0]["if_exact"]
        axes.axvspan(low, high, color="0.9", zorder=0)
        words = "95% of the\nslopes of 200\nrepeats when\ncoverage is\nexactly 95%"
        middle: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 6}
        axes.annotate(words, ((low + high) / 2, 0.5), xycoords=("data", "axes fraction"), **middle)
        for x, name in ((-0.5, "first\norder"), (-1.0, "second\norder")):
            axes.axvline(x, color="black", linewidth=0.6, linestyle="--", zorder=0)
            axes.annotate(name, (x, 1), (2, -2), ("data", "axes fraction"), "offset points", va="top", fontsize=6)
        axes.set_ylim(-0.6, len(rows) - 0.2)
        axes.set_yticks([])
        axes.set_xlabel("slope of log coverage error on log episodes")


def errors(axes: Axes, rows: Sequence[Result]) -> None:
    """Coverage errors over length, with the error that chance alone gives, and the slopes that theory promises."""
    with plots.style():
        named: dict[str, Any] = {}
        for i, row in enumerate(rows):
            name = f"bootstrap, {row['kind']}"
            x = np.array(row["lengths"]) * 1.04 ** (i - (len(rows) - 1) / 2)
            error, deviation = np.array(row["error"]), np.array(row["standard_error"])
            drawn = np.maximum(error, 0.5 / row["repeats"])
            bars = [np.minimum(drawn, 1.96 * deviation) * 0.999, 1.96 * deviation]
            sizes: dict[str, Any] = {"markersize": 3, "capsize": 1.5, "elinewidth": 0.6, "linewidth": 1}
            named[row["kind"]] = axes.errorbar(x, drawn, bars, **(LOOKS[name].style | sizes), label=name)[0]
        lengths = np.array(rows[0]["lengths"], dtype=np.float64)
        for power, name in ((-0.5, "$t^{-1/2}$"), (-1.0, "$t^{-1}$")):
            named[name] = reference(axes, lengths, rows[0]["error"][0], power, name)
        repeats = rows[0]["repeats"]
        for n in sorted({repeats, 200}):
            level = 1.96 * np.sqrt(LEVEL * (1 - LEVEL) / n)
            named[f"noise, n = {n:,}"] = axes.axhline(level, color="#666666", linewidth=0.8, linestyle=":", zorder=0)
        ticks.sizes(axes)
        axes.set_ylim(0.3 / max(repeats, 200), 1.2)
        axes.set_ylabel("|coverage - 95%|")
        ticks.lengths(axes, "episodes", lengths)
        beside(axes, named)


def reference(axes: Axes, lengths: Any, first: float, power: float, name: str) -> Any:
    """A power of the length, from a first value on."""
    x = np.asarray(lengths, dtype=np.float64)
    look = LOOKS[name]
    style: dict[str, Any] = {"color": look.color, "linestyle": look.line, "linewidth": 0.7, "zorder": 1}
    return axes.plot(x, first * (x / x[0]) ** power, **style, label=name)[0]


def lines(
    axes: Axes,
    curves: Mapping[str, tuple[Any, Any]],
    unit: str,
    quantity: str,
    powers: Mapping[str, float] | None = None,
    limits: tuple[float, float] | None = None,
) -> None:
    """Anything positive over length, both logarithmic; with powers of the length, from the first point of the first."""
    with plots.style():
        named: dict[str, Any] = {}
        for name, (x, y) in curves.items():
            of = np.asarray(y, dtype=np.float64)
            (named[name],) = axes.plot(x, of, **_style(LOOKS[name], len(x)), label=name)
        for name, power in (powers or {}).items():
            x, y = next(iter(curves.values()))
            named[name] = reference(axes, x, y[0], power, name)
        ticks.sizes(axes)
        if limits:
            axes.set_ylim(*limits)
        axes.set_ylabel(quantity)
        ticks.lengths(axes, unit, {n for x, _ in curves.values() for n in x})
        beside(axes, named)


def _style(look: Look, points: int) -> dict[str, Any]:
    return look.style | ({"markersize": 3} if points < MANY else {"marker": ""})


def _lengths(curves: Mapping[str, Sequence[Result]]) -> Collection[float]:
    return {row["length"] for rows in curves.values() for row in rows}


def key(figure: Figure, axes: Axes) -> None:
    """One legend for all panels, below them."""
    with plots.style():
        handles, labels = axes.get_legend_handles_labels()
        how: dict[str, Any] = {"frameon": False, "fontsize": 7, "handlelength": 1.8, "columnspacing": 1.5}
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), **how)


def flat(cells: Sequence[Result]) -> list[Result]:
    """Cells as rows of a table."""
    rows = []
    for cell in cells:
        row = {key: value for key, value in cell.items() if not key.startswith("binomial")}
        row["binomial_95_low"], row["binomial_95_high"] = cell["binomial_95"]
        rows.append(row)
    return rows


def write(figure: Figure, rows: Sequence[Result], folder: Path, name: str) -> None:
    """Write NAME.png, NAME.svg and the numbers behind them, NAME.csv."""
    folder.mkdir(parents=True, exist_ok=True)
    with plots.style():
        import matplotlib
        from PIL import Image

        figure.savefig(drawn := BytesIO(), format="png", dpi=200)
        with Image.open(drawn) as picture:  # few colours: a third of the size
            picture.convert("RGB").quantize(COLORS, dither=Image.Dither.NONE).save(
                folder / f"{name}.png", optimize=True
            )
        with matplotlib.rc_context({"svg.hashsalt": name}):  # the same picture is the same file
            figure.savefig(folder / f"{name}.svg", metadata={"Date": None})
    write_csv(folder / f"{name}.csv", rows)


def beside(axes: Axes, named: Mapping[str, Any]) -> None:
    """Name lines at their right ends, apart from each other."""
    bottom, top = axes.get_ylim()  # settled from here on
    height = axes.get_window_extent().height or 1.0
    places: list[list[Any]] = []
    for label, line in named.items():
        y = float(np.asarray(line.get_ydata(), dtype=np.float64)[-1])
        places.append([axes.transData.transform((1.0, np.clip(y, bottom, top)))[1], label, line])
    places.sort(key=lambda place: place[0])
    gap = 8.5 / 72 * axes.figure.dpi
    lowest = axes.get_window_extent().y0
    at = lowest - gap
    for place in places:
        at = max(place[0], at + gap)
        place[0] = at
    at = lowest + height + 0.7 * gap  # clear of the title
    for place in reversed(places):  # what has been pushed out at the top comes down again
        at = place[0] = min(place[0], at - gap)
    for place, label, line in places:
        y = (place - lowest) / height
        same = ("color", "linestyle", "linewidth", "marker", "markerfacecolor")
        drawn = {name: getattr(line, f"get_{name}")() for name in same} | {"markevery": [1], "markersize": 3}
        axes.plot([1.03, 1.065, 1.1], [y, y, y], **drawn, transform=axes.transAxes, clip_on=False)
        where: dict[str, Any] = {"xycoords": "axes fraction", "va": "center", "fontsize": 7, "annotation_clip": False}
        axes.annotate(label, (1.12, y), color=ink(drawn["color"]), **where)
