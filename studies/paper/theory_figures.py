"""The figures of the studies that check the paper's theory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from inferl import plots
from studies.paper import figures
from studies.paper.changing_behaviour import BEHAVIOURS, FEATURES
from studies.paper.limits import PROBLEMS
from studies.paper.looks import LOOKS
from studies.paper.machinery import Result
from studies.paper.markov_noise import CASES
from studies.paper.summaries import select
from studies.paper.two_readings import READINGS

__all__ = ["draw"]

ITERATES = {"iterate": "iterate", "perturbed": "perturbed iterate"}
REMAINDERS = {"(4.6)": "average, (4.6)", "(4.5)": "perturbed, (4.5)", "(4.7)": "difference, (4.7)"}


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
    decays = content["settings"]["decays"]
    figure, axes = figures.panels(len(decays), height=4.8, rows=2)
    own = {of: [_row(content["iterates"], f"groups, {decay:g}", of) for decay in decays] for of in ITERATES}
    distances = [size for rows in own.values() for row in rows for size in row["size"]]
    limits = (min(distances) / 1.5, max(distances) * 1.2)
    for i, (panel, decay) in enumerate(zip(axes, decays, strict=True)):
        curves = {name: (own[of][i]["lengths"], own[of][i]["size"]) for of, name in ITERATES.items()}
        powers = {"$t^{-(\\eta - 1/2)}$": 0.5 - decay, "$t^{-\\eta/2}$": -decay / 2}
        figures.lines(panel, curves, "steps", "distance from θ*, r.m.s.", powers, limits)
        figures.title(panel, f"$\\eta$ = {decay:g}")
    figures.write(figure, _flat([row for rows in own.values() for row in rows]), folder, "limits-rates")

    figure, axes = figures.panels(2)
    drawn, ratios = [], {}
    for problem in PROBLEMS:
        for number, name in REMAINDERS.items():
            main, rest = (_row(content["remainders"], f"{problem}, {number}", of) for of in ("main term", "remainder"))
            drawn += [main, rest]
            ratios[problem, name] = (main["lengths"], np.array(rest["size"]) / np.array(main["size"]))
    both = [y for _, ys in ratios.values() for y in ys]
    limits = (min(both) / 1.2, max(both) * 1.2)
    for panel, problem in zip(axes, PROBLEMS, strict=True):
        curves = {name: ratios[problem, name] for name in REMAINDERS.values()}
        figures.lines(panel, curves, "steps", "remainder / main term", limits=limits)
        figures.title(panel, problem)
    figures.write(figure, _flat(drawn), folder, "limits-remainders")

    figure, axes = figures.panels(2)
    laws = {
        "linear value": {"step": "bootstrap, by step", "as printed": "as printed"},
        "groups": {"step": "bootstrap, by step", "block": "bootstrap, by block"},
    }
    for panel, (problem, shown_as) in zip(axes, laws.items(), strict=True):
        medians = {}
        for law, shown in shown_as.items():
            found = [row for row in content["distances"] if row["law"] == f"{problem}, {law}"]
            medians[shown] = ([row["length"] for row in found], [row["quartiles"][1] for row in found])
        low, _, high = content["equal_laws"]
        with plots.style():
            panel.axhspan(low, high, color="0.9", zorder=0)
            limit = content["limit"]["step, groups" if problem == "groups" else "as printed, linear value"]
            panel.axhline(limit, color="black", linewidth=0.6, linestyle="--", zorder=0)
        figures.lines(panel, medians, "steps", "Kolmogorov distance")
        figures.title(panel, problem)
    figures.write(figure, _flat(content["distances"]), folder, "limits-kolmogorov")


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
    figures.coverage(left, curves, "steps")
    distances = {
        name: [row for row in content["distance"] if row["reading"] == name]
        for name in READINGS
        if name != "linear target"
    }
    medians = {}
    with plots.style():
        for name, rows in distances.items():
            low, middle, high = np.array([row["quartiles"] for row in rows]).T
            medians[name] = ([row["steps"] for row in rows], middle)
            right.fill_between(medians[name][0], low, high, color=LOOKS[name].color, alpha=0.2, linewidth=0)
    figures.lines(right, medians, "steps", "|value - fixed point| / standard error")
    figures.write(figure, figures.flat([row for rows in curves.values() for row in rows]), folder, "two-readings")


def _changing_behaviour(content: dict[str, Any], folder: Path) -> None:
    figure, axes = figures.panels(2)
    every: dict[str, dict[str, list[Result]]] = {}
    for features in FEATURES:
        curves = {
            f"{name}{', wrong ratios' if wrong else ''}": select(
                content["coverage"],
                f"{features}: {name}: least squares{', ratios of the first policy' if wrong else ''}",
            )
            for wrong in (False, True)
            for name in BEHAVIOURS
        }
        every[features] = {name: rows for name, rows in curves.items() if rows}
    limits = figures.room(*every.values())
    for panel, (features, curves) in zip(axes, every.items(), strict=True):
        figures.coverage(panel, curves, "steps", limits)
        figures.title(panel, features)
    cells = [row for curves in every.values() for rows in curves.values() for row in rows]
    figures.write(figure, figures.flat(cells), folder, "changing-behaviour")
