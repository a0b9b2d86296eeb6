"""Drawing: one colour a method in all figures, names beside the curves, error bars, the nominal line, panel letters.

Functions take rows (the cells of a study's JSON) and return a Matplotlib Figure; `write` puts it beside its numbers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from inferl import plots
from studies.paper.machinery import Result, write_csv

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "Look",
    "bands",
    "coverage",
    "errors",
    "flat",
    "lines",
    "logarithmic",
    "looks",
    "panels",
    "slopes",
    "title",
    "widths",
    "write",
]

LEVEL = 0.95
DEEPEST = 2000  # largest over smallest width that is shown
GREY = "#7F7F7F"
METHODS = {  # colour and marker; a label that begins with a name is that method's
    "least squares": (plots.PALETTE["blue"], "s"),
    "bootstrap": (plots.PALETTE["vermillion"], "o"),
    "GTD2": (plots.PALETTE["vermillion"], "o"),
    "TDC": (plots.PALETTE["purple"], "^"),
    "GTD": (plots.PALETTE["sky"], "v"),
    "SAVE": (plots.PALETTE["green"], "P"),
    "law alone": (plots.PALETTE["orange"], "X"),
    "as printed": (GREY, "d"),
    "Monte Carlo": (plots.PALETTE["black"], "D"),
    "θ*": (plots.PALETTE["black"], "D"),
}
LINES = {  # what else a label says
    "--": ("offline", "estimated", "normal", "episode", "fixed point", "small steps"),
    ":": ("basic", "block", "i.i.d.", "rule of thumb", "wrong ratios"),
}
MARKERS = "os^vDPX"
COLORS = 128  # in a PNG
MOST_DIGITS = 22  # of all numbers below an axis


class Look(NamedTuple):
    """How a curve is drawn."""

    color: str
    marker: str
    line: str

    @property
    def style(self) -> dict[str, Any]:
        """Keywords of `Axes.plot`; where the line is broken, markers are open."""
        inside = self.color if self.line == "-" else "white"
        return {"color": self.color, "marker": self.marker, "linestyle": self.line, "markerfacecolor": inside}


def looks(labels: Sequence[str], of: str = "bootstrap") -> dict[str, Look]:
    """Looks of the curves of a panel; labels that name no method are shades of the colour of method `of`.

    >>> looks(["least squares", "bootstrap offline"])["bootstrap offline"]
    Look(color='#D55E00', marker='o', line='--')
    """
    found, unknown = {}, [label for label in labels if _method(label) is None]
    for label in labels:
        name = _method(label)
        line = next((line for line, words in LINES.items() if any(_says(label, word) for word in words)), "-")
        if name is None:
            i = unknown.index(label)
            color = _shade(METHODS[of][0], i / max(len(unknown) - 1, 1))
            found[label] = Look(color, MARKERS[i % len(MARKERS)], line)
        else:
            found[label] = Look(*METHODS[name], line)
    return found


def _says(label: str, words: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(words)}(?!\w)", label) is not None


def _method(label: str) -> str | None:
    """The method whose name a label begins with; of GTD and GTD2 the longer name."""
    named = [name for name in METHODS if label == name or label.startswith((f"{name} ", f"{name},"))]
    return max(named, key=len, default=None)


def _shade(color: str, share: float) -> str:
    """A shade of a colour, from light (0) to dark (1)."""
    rgb = np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)], dtype=np.float64)
    mixed = rgb + (1 - 2 * share) * 0.4 * (255 - rgb) if share < 0.5 else rgb * (1 - 0.75 * (2 * share - 1))
    return "#" + "".join(f"{round(x):02X}" for x in mixed)


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


def coverage(axes: Axes, curves: Mapping[str, Sequence[Result]], unit: str, of: str = "bootstrap") -> None:
    """Coverage over length, with exact binomial 95 % intervals and the nominal line."""
    with plots.style():
        for i, (name, look) in enumerate(looks(list(curves), of).items()):
            rows = curves[name]
            x = np.array([row["length"] for row in rows]) * 1.035 ** (i - (len(curves) - 1) / 2)  # bars stay apart
            y = np.array([row["coverage"] for row in rows])
            low, high = np.array([row["binomial_95"] for row in rows]).T
            bars = np.maximum([y - low, high - y], 0)
            axes.errorbar(x, y, bars, **look.style, markersize=3, capsize=1.5, elinewidth=0.8, label=name)
        axes.axhline(LEVEL, color="black", linewidth=0.6, linestyle="--", zorder=0)
        lowest = min(row["binomial_95"][0] for rows in curves.values() for row in rows)
        axes.set_ylim(lowest - 0.05 if lowest > 0.7 else -0.03, 1.01 if lowest > 0.7 else 1.03)
        axes.set_ylabel("coverage")
        _over(axes, curves, unit)


def widths(
    axes: Axes,
    curves: Mapping[str, Sequence[Result]],
    unit: str,
    value: str = "median_width",
    of: str = "bootstrap",
) -> None:
    """Median width over length, both logarithmic; or the width over the oracle's."""
    with plots.style():
        for name, look in looks(list(curves), of).items():
            kept = [row for row in curves[name] if row[value]]
            if kept:  # else no repeat had an interval
                x, y = ([row[key] for row in kept] for key in ("length", value))
                axes.plot(x, y, **look.style, markersize=3, label=name)
        axes.set_yscale("log")
        axes.set_ylabel("median width" if value == "median_width" else "median of width / oracle's width")
        if value != "median_width":
            axes.axhline(1, color="black", linewidth=0.6, linestyle="--", zorder=0)
        drawn = [row[value] for rows in curves.values() for row in rows if row[value]]
        _plain_numbers(axes.yaxis, few=max(drawn) > 300 * min(drawn))
        if max(drawn) > DEEPEST * min(drawn):  # widths of intervals that are about to begin
            axes.set_ylim(max(drawn) / DEEPEST, 1.5 * max(drawn))
        _over(axes, curves, unit)


def bands(axes: Axes, example: Result, names: Mapping[str, str], unit: str) -> None:
    """One run's intervals over length, with the exact value."""
    with plots.style():
        for (key, name), look in zip(names.items(), looks(list(names.values())).values(), strict=True):
            rows = np.array(example["readings"][key], dtype=np.float64)
            n, estimate, lower, upper = rows.T
            if key == "offline bootstrap":  # few readings: bars
                axes.errorbar(
                    n,
                    estimate,
                    np.maximum([estimate - lower, upper - estimate], 0),
                    color=look.color,
                    markerfacecolor="white",
                    fmt="o",
                    markersize=3,
                    capsize=1.5,
                    elinewidth=0.8,
                    label=name,
                )
            else:
                plots.band(axes, n, estimate, lower, upper, name, look.color)
        axes.axhline(example["truth"], color="black", linewidth=0.6, linestyle="--")
        ends = [np.array(rows, dtype=np.float64) for rows in example["readings"].values()]
        first = min(rows[0, 0] for rows in ends)
        axes.set_xlim(first, max(rows[-1, 0] for rows in ends) * 1.05)
        axes.set_ylim(-0.05, 1.6 * example["truth"])
        axes.annotate("exact", (first, example["truth"]), (4, 3), textcoords="offset points", fontsize=7)
        axes.set_ylabel("value of the start, 95% interval")
        axes.legend(frameon=False, fontsize=7, loc="lower right", handlelength=1.2)
        _logarithmic(axes, unit)


def slopes(axes: Axes, rows: Sequence[Result]) -> None:
    """Slopes of the coverage error with their intervals, what batches of 200 repeats say, and what chance gives."""
    with plots.style():
        for i, (row, look) in enumerate(zip(rows, looks([row["kind"] for row in rows]).values(), strict=True)):
            low, high = row["interval"]
            axes.plot([low, high], [i, i], color=look.color, linewidth=2)
            axes.plot(row["slope"], i, marker=look.marker, color=look.color, markersize=5)
            axes.plot(row["fewer"], [i - 0.22] * len(row["fewer"]), "|", color=look.color, markersize=6)
            place: dict[str, Any] = {"xytext": (0, 5), "textcoords": "offset points", "ha": "center", "fontsize": 7}
            axes.annotate(row["kind"], (row["slope"], i), color=look.color, **place)
        axes.margins(x=0.15)
        low, high = rows[0]["if_exact"]
        axes.axvspan(low, high, color="0.9", zorder=0)
        words = "grey: 95% of the slopes of 200 repeats\nwhen every coverage is exactly 95%"
        axes.annotate(words, (0.02, 0.02), xycoords="axes fraction", fontsize=6)
        for x, name in ((-0.5, "first\norder"), (-1.0, "second\norder")):
            axes.axvline(x, color="black", linewidth=0.6, linestyle="--", zorder=0)
            axes.annotate(name, (x, 1), (2, -2), ("data", "axes fraction"), "offset points", va="top", fontsize=6)
        axes.set_ylim(-1.0, len(rows) - 0.2)
        axes.set_yticks([])
        axes.set_xlabel("slope of log coverage error on log episodes")


def errors(axes: Axes, rows: Sequence[Result]) -> None:
    """Coverage errors over length, with the error that chance alone gives, and the slopes that theory promises."""
    place: dict[str, Any]
    with plots.style():
        for i, (row, look) in enumerate(zip(rows, looks([row["kind"] for row in rows]).values(), strict=True)):
            x = np.array(row["lengths"]) * 1.04 ** (i - (len(rows) - 1) / 2)
            error, deviation = np.array(row["error"]), np.array(row["standard_error"])
            drawn = np.maximum(error, 0.5 / row["repeats"])
            bars = [np.minimum(drawn, 1.96 * deviation) * 0.999, 1.96 * deviation]
            sizes: dict[str, Any] = {"markersize": 3, "capsize": 1.5, "elinewidth": 0.8, "linewidth": 1}
            axes.errorbar(x, drawn, bars, **(look.style | sizes), label=row["kind"])
        lengths = np.array(rows[0]["lengths"], dtype=np.float64)
        for power, name in ((-0.5, "$t^{-1/2}$"), (-1.0, "$t^{-1}$")):  # from where the paper begins its own
            reference = rows[0]["error"][0] * (lengths / lengths[0]) ** power
            axes.plot(lengths, reference, color="black", linewidth=0.8, linestyle="-.", zorder=0)
            place = {"xytext": (3, -1), "textcoords": "offset points", "fontsize": 7}
            axes.annotate(name, (lengths[-1], reference[-1]), annotation_clip=False, **place)
        repeats = rows[0]["repeats"]
        for n in {repeats, 200}:
            level = 1.96 * np.sqrt(LEVEL * (1 - LEVEL) / n)
            axes.axhline(level, color="0.4", linewidth=0.6, linestyle=":")
            place = {"xytext": (2, 2), "textcoords": "offset points", "fontsize": 6, "color": "0.4"}
            axes.annotate(f"noise of {n} repeats", (0, level), xycoords=("axes fraction", "data"), **place)
        axes.set_yscale("log")
        axes.set_ylim(0.3 / max(repeats, 200), 1)
        _plain_numbers(axes.yaxis, few=True)
        axes.set_ylabel("|coverage - 95%|")
        axes.legend(frameon=False, fontsize=7, handlelength=2, loc="lower left")
        _logarithmic(axes, "episodes")


def lines(axes: Axes, curves: Mapping[str, tuple[Any, Any]], unit: str, quantity: str, of: str = "bootstrap") -> None:
    """Anything positive over length, both logarithmic."""
    with plots.style():
        for name, look in looks(list(curves), of).items():
            x, y = curves[name]
            style = look.style | ({} if len(x) < 12 else {"marker": ""})
            axes.plot(x, np.asarray(y, dtype=np.float64), **style, markersize=3, label=name)
        logarithmic(axes, unit, quantity)
        _over(axes, {name: [] for name in curves}, unit)


def logarithmic(axes: Axes, unit: str, quantity: str) -> None:
    """Make both axes logarithmic, with plain numbers."""
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    _plain_numbers(axes.yaxis, few=high > 30 * low)
    axes.set_ylabel(quantity)
    _logarithmic(axes, unit)


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


def _over(axes: Axes, curves: Mapping[str, Any], unit: str) -> None:
    """Name the curves at their right ends, apart from each other, and make the axis of lengths logarithmic."""
    _logarithmic(axes, unit)
    # The line of an errorbar carries no label; its container does.
    named: list[tuple[Any, str]] = [(bars[0], str(bars.get_label())) for bars in axes.containers]
    named = named or [(line, str(line.get_label())) for line in axes.lines if line.get_label() in curves]
    bottom, top = axes.get_ylim()  # settled from here on
    height = axes.get_window_extent().height or 1.0
    places: list[list[Any]] = []
    for line, label in named:
        y = float(np.asarray(line.get_ydata(), dtype=np.float64)[-1])
        label = f"{label} (below)" if y < bottom else label
        places.append([axes.transData.transform((1.0, np.clip(y, bottom, top)))[1], label, line])
    places.sort(key=lambda place: place[0])
    gap = 8.5 / 72 * axes.figure.dpi
    lowest = axes.get_window_extent().y0
    at = lowest - gap
    for place in places:
        at = max(place[0], at + gap)
        place[0] = at
    at = lowest + height + gap
    for place in reversed(places):  # what has been pushed out at the top comes down again
        at = place[0] = min(place[0], at - gap)
    for place, label, line in places:
        y = (place - lowest) / height
        drawn = {name: getattr(line, f"get_{name}")() for name in ("color", "linestyle", "marker", "markerfacecolor")}
        axes.plot([1.03, 1.09], [y, y], **drawn, markersize=2.5, transform=axes.transAxes, clip_on=False)
        axes.annotate(
            label,
            (1.11, y),
            xycoords="axes fraction",
            va="center",
            fontsize=7,
            color=drawn["color"],
            annotation_clip=False,
        )


def _logarithmic(axes: Axes, unit: str) -> None:
    axes.set_xscale("log")
    axes.set_xlabel(unit)
    first, final = axes.get_xlim()
    ticks = [_thin(m * 10.0**k) for k in range(-3, 8) for m in (1, 2, 5) if first <= m * 10.0**k <= final]
    _plain_numbers(axes.xaxis, few=len("".join(ticks)) > MOST_DIGITS)


def _plain_numbers(axis: Any, few: bool = False) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis.set_major_locator(LogLocator(subs=(1.0,) if few else (1.0, 2.0, 5.0), numticks=20))
    axis.set_major_formatter(FuncFormatter(lambda x, _: _thin(x)))
    axis.set_minor_formatter(NullFormatter())


def _thin(x: float) -> str:
    return f"{x:,.0f}" if x >= 1 else f"{x:g}"
