"""Drawing: one column wide, colour-blind safe, names beside the curves, error bars, the nominal line.

Functions take rows (the cells of a study's JSON) and return a Matplotlib Figure; `write` puts it beside its numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from inferl import plots
from studies.paper.machinery import Result, write_csv

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["COLORS", "bands", "coverage", "errors", "flat", "lines", "memory", "panels", "slopes", "widths", "write"]

COLORS = [plots.PALETTE[name] for name in ("blue", "vermillion", "green", "purple", "orange", "sky", "black")]
MARKERS = "osD^vPX"
LEVEL = 0.95
DEEPEST = 2000  # largest over smallest width that is shown


def panels(n: int, height: float = 2.6) -> tuple[Figure, list[Axes]]:
    """A figure with n panels side by side, each one column wide."""
    with plots.style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(3.5 * n, height), layout="constrained")
        return figure, list(figure.subplots(1, n, squeeze=False)[0])


def coverage(axes: Axes, curves: Mapping[str, Sequence[Result]], unit: str) -> None:
    """Coverage over length, with exact binomial 95 % intervals and the nominal line."""
    with plots.style():
        for i, (name, rows) in enumerate(curves.items()):
            x = np.array([row["length"] for row in rows]) * 1.035 ** (i - (len(curves) - 1) / 2)  # bars stay apart
            y = np.array([row["coverage"] for row in rows])
            low, high = np.array([row["binomial_95"] for row in rows]).T
            bars = np.maximum([y - low, high - y], 0)
            axes.errorbar(
                x, y, bars, color=COLORS[i], marker=MARKERS[i], markersize=3, capsize=1.5, elinewidth=0.8, label=name
            )
        axes.axhline(LEVEL, color="black", linewidth=0.6, linestyle="--", zorder=0)
        lowest = min(row["binomial_95"][0] for rows in curves.values() for row in rows)
        axes.set_ylim(lowest - 0.05 if lowest > 0.7 else -0.03, 1.01 if lowest > 0.7 else 1.03)
        axes.set_ylabel("coverage")
        _over(axes, curves, unit)


def widths(axes: Axes, curves: Mapping[str, Sequence[Result]], unit: str, value: str = "median_width") -> None:
    """Median width over length, both logarithmic; or the width over the oracle's."""
    with plots.style():
        for i, (name, rows) in enumerate(curves.items()):
            kept = [row for row in rows if row[value]]
            if not kept:  # no repeat had an interval
                continue
            axes.plot(
                [row["length"] for row in kept],
                [row[value] for row in kept],
                color=COLORS[i],
                marker=MARKERS[i],
                markersize=3,
                label=name,
            )
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
        for i, (key, name) in enumerate(names.items()):
            rows = np.array(example["readings"][key], dtype=np.float64)
            n, estimate, lower, upper = rows.T
            if key == "offline bootstrap":  # few readings: bars
                axes.errorbar(
                    n,
                    estimate,
                    np.maximum([estimate - lower, upper - estimate], 0),
                    color=COLORS[i],
                    fmt="s",
                    markersize=2.5,
                    capsize=1.5,
                    elinewidth=0.8,
                    label=name,
                )
            else:
                plots.band(axes, n, estimate, lower, upper, name, COLORS[i])
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
        for i, row in enumerate(rows):
            low, high = row["interval"]
            axes.plot([low, high], [i, i], color=COLORS[i], linewidth=2)
            axes.plot(row["slope"], i, marker="o", color=COLORS[i], markersize=5)
            axes.plot(row["fewer"], [i - 0.22] * len(row["fewer"]), "|", color=COLORS[i], markersize=6)
            axes.annotate(
                row["kind"],
                (row["slope"], i),
                (0, 5),
                textcoords="offset points",
                ha="center",
                fontsize=7,
                color=COLORS[i],
            )
        axes.margins(x=0.15)
        low, high = rows[0]["if_exact"]
        axes.axvspan(low, high, color="0.9", zorder=0)
        axes.annotate(
            "grey: 95% of the slopes of 200 repeats\nwhen every coverage is exactly 95%",
            (0.02, 0.02),
            xycoords="axes fraction",
            fontsize=6,
        )
        for x, name in ((-0.5, "first\norder"), (-1.0, "second\norder")):
            axes.axvline(x, color="black", linewidth=0.6, linestyle="--", zorder=0)
            axes.annotate(name, (x, 1), (2, -2), ("data", "axes fraction"), "offset points", va="top", fontsize=6)
        axes.set_ylim(-1.0, len(rows) - 0.2)
        axes.set_yticks([])
        axes.set_xlabel("slope of log coverage error on log episodes")


def errors(axes: Axes, rows: Sequence[Result]) -> None:
    """Coverage errors over length, with the error that chance alone gives."""
    with plots.style():
        for i, row in enumerate(rows):
            x = np.array(row["lengths"]) * 1.04 ** (i - (len(rows) - 1) / 2)
            error, deviation = np.array(row["error"]), np.array(row["standard_error"])
            drawn = np.maximum(error, 0.5 / row["repeats"])
            low = np.minimum(drawn, 1.96 * deviation) * 0.999
            axes.errorbar(
                x,
                drawn,
                [low, 1.96 * deviation],
                color=COLORS[i],
                marker=MARKERS[i],
                markersize=3,
                capsize=1.5,
                elinewidth=0.8,
                linewidth=1,
                label=row["kind"],
            )
        repeats = rows[0]["repeats"]
        noise = [1.96 * np.sqrt(LEVEL * (1 - LEVEL) / n) for n in (repeats, 200)]
        for level, n in zip(noise, (repeats, 200), strict=True):
            axes.axhline(level, color="0.4", linewidth=0.6, linestyle=":")
            axes.annotate(
                f"noise of {n} repeats",
                (1, level),
                (-2, 2),
                ("axes fraction", "data"),
                "offset points",
                ha="right",
                fontsize=6,
                color="0.4",
            )
        axes.set_yscale("log")
        axes.set_ylim(0.3 / max(repeats, 200), 1)
        _plain_numbers(axes.yaxis, few=True)
        axes.set_ylabel("|coverage - 95%|")
        axes.legend(frameon=False, fontsize=7, handlelength=1.2)
        _logarithmic(axes, "episodes")


def memory(axes: Axes, curves: Mapping[str, tuple[Sequence[int], Sequence[int]]], unit: str) -> None:
    """Peaks of memory over length."""
    lines(axes, {name: (n, np.array(peak) / 1e6) for name, (n, peak) in curves.items()}, unit, "peak memory (MB)")


def lines(axes: Axes, curves: Mapping[str, tuple[Any, Any]], unit: str, quantity: str) -> None:
    """Anything positive over length, both logarithmic; what is estimated is dashed."""
    with plots.style():
        for i, (name, (x, y)) in enumerate(curves.items()):
            few = len(x) < 12
            axes.plot(
                x,
                np.asarray(y, dtype=np.float64),
                color=COLORS[i],
                marker=MARKERS[i] if few else "",
                markersize=3,
                linestyle="--" if name.endswith("estimated") else "-",
                label=name,
            )
        axes.set_yscale("log")
        axes.set_ylabel(quantity)
        low, high = axes.get_ylim()
        _plain_numbers(axes.yaxis, few=high > 300 * low)
        _over(axes, {name: [] for name in curves}, unit)


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
        figure.savefig(folder / f"{name}.png", dpi=200)
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
    for place in places:
        y = (place[0] - lowest) / height
        axes.annotate(
            place[1],
            (1.02, y),
            xycoords="axes fraction",
            va="center",
            fontsize=7,
            color=place[2].get_color(),
            annotation_clip=False,
        )


def _logarithmic(axes: Axes, unit: str) -> None:
    axes.set_xscale("log")
    axes.set_xlabel(unit)
    first, final = axes.get_xlim()
    _plain_numbers(axes.xaxis, few=final > 99 * first)  # large numbers need room


def _plain_numbers(axis: Any, few: bool = False) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis.set_major_locator(LogLocator(subs=(1.0,) if few else (1.0, 2.0, 5.0), numticks=20))
    axis.set_major_formatter(FuncFormatter(lambda x, _: _thin(x)))
    axis.set_minor_formatter(NullFormatter())


def _thin(x: float) -> str:
    return f"{x:,.0f}" if x >= 1 else f"{x:g}"
