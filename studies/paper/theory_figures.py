"""The figures of the studies that check the paper's theory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from inferl import plots
from studies.paper import figures
from studies.paper.changing_behaviour import BEHAVIOURS, FEATURES
from studies.paper.limits import PROBLEMS
from studies.paper.machinery import Result
from studies.paper.markov_noise import CASES
from studies.paper.summaries import select
from studies.paper.two_readings import READINGS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw"]


def draw(content: dict[str, Any], folder: Path) -> None:
    """Draw the figures of a study into a folder; enumerations are a table."""
    families: dict[str, Callable[[dict[str, Any], Path], None]] = {
        "limits": _limits,
        "markov-noise": _markov_noise,
        "two-readings": _two_readings,
        "changing-behaviour": _changing_behaviour,
    }
    if content["experiment"] in families:
        families[content["experiment"]](content, folder)


def _limits(content: dict[str, Any], folder: Path) -> None:
    figure, (left, right) = figures.panels(2)
    rows = _iterates(left, content)
    ratios = {}
    for problem in PROBLEMS:
        for number in ("(4.5)", "(4.6)", "(4.7)"):
            main, rest = (_row(content["remainders"], f"{problem}, {number}", of) for of in ("main term", "remainder"))
            rows += [main, rest]
            ratios[f"{number}, {problem}"] = (main["lengths"], np.array(rest["size"]) / np.array(main["size"]))
    figures.lines(right, ratios, "steps", "remainder / main term")
    figures.write(figure, _flat(rows), folder, "limits-rates")

    figure, axes = figures.panels(2)
    panels = {
        "linear value": {"step": "bootstrap by step", "as printed": "as printed"},
        "groups": {"step": "bootstrap by step", "block": "bootstrap by block"},
    }
    for panel, (problem, names) in zip(axes, panels.items(), strict=True):
        lines = {}
        for law, shown in names.items():
            own = [row for row in content["distances"] if row["law"] == f"{problem}, {law}"]
            lines[shown] = ([row["length"] for row in own], [row["quartiles"][1] for row in own])
        low, _, high = content["equal_laws"]
        with plots.style():
            panel.axhspan(low, high, color="0.9", zorder=0)
            limit = content["limit"]["step, groups" if problem == "groups" else "as printed, linear value"]
            panel.axhline(limit, color="black", linewidth=0.6, linestyle="--", zorder=0)
        figures.lines(panel, lines, "steps", "Kolmogorov distance")
        figures.title(panel, problem)
    figures.write(figure, _flat(content["distances"]), folder, "limits-kolmogorov")


def _iterates(axes: Axes, content: dict[str, Any]) -> list[Result]:
    """Distances from theta*, a shade a learning rate; dotted: of the perturbed iterates. Return what is drawn."""
    decays, rows = content["settings"]["decays"], []
    with plots.style():
        for decay, look in zip(decays, figures.looks([f"{decay:g}" for decay in decays]).values(), strict=True):
            for of, line in (("iterate", "-"), ("perturbed", ":")):
                row = _row(content["iterates"], f"groups, {decay:g}", of)
                label = f"$\\eta$ = {decay:g}" if of == "iterate" else None
                axes.plot(
                    row["lengths"],
                    row["size"],
                    color=look.color,
                    linestyle=line,
                    marker=look.marker,
                    markersize=3,
                    label=label,
                )
                rows.append(row)
        figures.logarithmic(axes, "steps", "distance from θ*, root mean square")
        axes.legend(frameon=False, fontsize=7, handlelength=2)
    return rows


def _row(rows: Sequence[Result], case: str, of: str) -> Result:
    return next(row for row in rows if (row["case"], row["of"]) == (case, of))


def _flat(rows: Sequence[Result]) -> list[Result]:
    """Rows with lists as text, for a CSV."""
    return [{key: " ".join(map(str, x)) if isinstance(x, list) else x for key, x in row.items()} for row in rows]


def _markov_noise(content: dict[str, Any], folder: Path) -> None:
    figure, axes = figures.panels(4, height=5.0, rows=2)
    drawn = []
    for panel, case in zip(axes, CASES, strict=True):
        methods = dict.fromkeys(
            cell["method"] for cell in content["coverage"] if cell["method"].startswith(f"{case}: ")
        )
        curves = {
            method.removeprefix(f"{case}: ").removeprefix("bootstrap, "): select(content["coverage"], method)
            for method in methods
        }
        figures.coverage(panel, curves, "steps")
        figures.title(panel, case)
        drawn += [row for rows in curves.values() for row in rows]
    figures.write(figure, figures.flat(drawn), folder, "markov-noise-coverage")


def _two_readings(content: dict[str, Any], folder: Path) -> None:
    figure, (left, right) = figures.panels(2)
    curves = {name: select(content["coverage"], f"{name}, value") for name in READINGS}
    figures.coverage(left, curves, "steps", of="least squares")
    distances = {
        name: [row for row in content["distance"] if row["reading"] == name]
        for name in READINGS
        if name != "linear target"
    }
    shades = list(figures.looks(list(READINGS), "least squares").values())
    with plots.style():
        for (name, rows), look in zip(distances.items(), shades, strict=False):
            low, middle, high = np.array([row["quartiles"] for row in rows]).T
            x = [row["steps"] for row in rows]
            right.plot(x, middle, **look.style, markersize=3, label=name)
            right.fill_between(x, low, high, color=look.color, alpha=0.2, linewidth=0)
        figures.logarithmic(right, "steps", "|value - fixed point| / standard error")
        right.legend(frameon=False, fontsize=7)
    figures.write(figure, figures.flat([row for rows in curves.values() for row in rows]), folder, "two-readings")


def _changing_behaviour(content: dict[str, Any], folder: Path) -> None:
    figure, axes = figures.panels(2)
    drawn = []
    for panel, features in zip(axes, FEATURES, strict=True):
        curves = {
            f"{name}{', wrong ratios' if wrong else ''}": select(
                content["coverage"],
                f"{features}: {name}: least squares{', ratios of the first policy' if wrong else ''}",
            )
            for wrong in (False, True)
            for name in BEHAVIOURS
        }
        curves = {name: rows for name, rows in curves.items() if rows}
        drawn += [row for rows in curves.values() for row in rows]
        figures.coverage(panel, curves, "steps", of="least squares")
        figures.title(panel, features)
    figures.write(figure, figures.flat(drawn), folder, "changing-behaviour")
