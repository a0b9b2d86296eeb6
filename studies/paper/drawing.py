"""The figures of each study, from its JSON; PNG and SVG, and a CSV with the numbers behind each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from studies.paper import figures, pong_figures, sepsis_figures
from studies.paper.machinery import Result
from studies.paper.summaries import select

__all__ = ["draw"]


def draw(content: dict[str, Any], folder: Path) -> None:
    """Draw all figures of a study into a folder."""
    families = {
        "frozenlake": _frozenlake,
        "random-mdp": _random_mdp,
        "sepsis": sepsis_figures.draw,
        "pong": pong_figures.draw,
    }
    families[content["experiment"]](content, folder)


def _curves(cells: Sequence[Result], names: dict[str, str], kind: str | None = None) -> dict[str, list[Result]]:
    found = {shown: select(cells, method, kind) for method, shown in names.items()}
    return {shown: rows for shown, rows in found.items() if rows}


def _rows(*groups: dict[str, list[Result]]) -> list[Result]:
    return figures.flat([row for curves in groups for rows in curves.values() for row in rows])


def _frozenlake(content: dict[str, Any], folder: Path) -> None:
    _example(content, folder)
    printed = f"as printed, initial {content['settings']['printed_initials'][-1]:g}"
    corrected = {
        printed: "as printed",
        "law alone": "law alone",
        "bootstrap": "bootstrap",
        "least squares": "least squares",
    }

    figure, (left, right) = figures.panels(2)
    curves = _curves(content["coverage"], corrected | {"offline bootstrap": "offline"})
    figures.coverage(left, curves, "episodes")
    figures.widths(right, curves, "episodes")
    figures.write(figure, _rows(curves), folder, "frozenlake-coverage")

    figure, axes = figures.panels(2)
    kinds = {
        name: {kind: select(content["coverage"], name, kind) for kind in ("percentile", "basic", "normal")}
        for name in ("bootstrap", "law alone")
    }
    for panel, (name, curves) in zip(axes, kinds.items(), strict=True):
        figures.coverage(panel, curves, "episodes")
        panel.set_title({"bootstrap": "corrected bootstrap", "law alone": "law alone unrepaired"}[name], fontsize=8)
    figures.write(figure, _rows(*kinds.values()), folder, "frozenlake-kinds")

    settings = content["settings"]
    by_initial = {f"{a:g}, {settings['decay']:g}": f"$\\alpha_0$ = {a:g}" for a in settings["initials"]}
    by_decay = {f"{settings['initial']:g}, {d:g}": f"$\\eta$ = {d:g}" for d in settings["decays"]}
    for value, draw_one in (("width", figures.widths), ("coverage", figures.coverage)):
        figure, axes = figures.panels(2)
        groups = [_curves(content["sensitivity"], names) for names in (by_initial, by_decay)]
        for panel, curves in zip(axes, groups, strict=True):
            draw_one(panel, curves, "episodes")
        figures.write(figure, _rows(*groups), folder, f"frozenlake-sensitivity-{value}")

    figure, (left, right) = figures.panels(2)
    figures.errors(left, content["rates"])
    figures.slopes(right, content["rates"])
    rows = [
        {
            "kind": row["kind"],
            "episodes": n,
            "error": error,
            "standard_error": deviation,
            "slope": row["slope"],
            "slope_low": row["interval"][0],
            "slope_high": row["interval"][1],
        }
        for row in content["rates"]
        for n, error, deviation in zip(row["lengths"], row["error"], row["standard_error"], strict=True)
    ]
    figures.write(figure, rows, folder, "frozenlake-rates")

    figure, (left, right) = figures.panels(2)
    names = {
        "bootstrap, a multiplier a step": "by step",
        "bootstrap, a multiplier an episode": "by episode",
        "least squares": "least squares",
    }
    curves = _curves(content["random_features"], names)
    figures.coverage(left, curves, "episodes")
    figures.widths(right, curves, "episodes")
    figures.write(figure, _rows(curves), folder, "frozenlake-features")

    cost = content["cost"]
    _memory({"online": cost["memory"], "offline": cost["memory"]}, folder, "frozenlake-memory")


def _example(content: dict[str, Any], folder: Path) -> None:
    figure, (axes,) = figures.panels(1)
    names = {
        "bootstrap": "online bootstrap",
        "least squares": "least squares",
        "offline bootstrap": "offline bootstrap",
    }
    figures.bands(axes, content["example"], names, "episodes")
    columns = ("episodes", "estimate", "lower", "upper")
    rows = [
        {"method": method} | dict(zip(columns, row, strict=True))
        for method, readings in content["example"]["readings"].items()
        for row in readings
    ]
    figures.write(figure, rows, folder, "frozenlake-example")


def _random_mdp(content: dict[str, Any], folder: Path) -> None:
    cells = content["coverage"]
    online = {"GTD2": "GTD2", "TDC": "TDC", "GTD": "GTD", "least squares": "least squares", "SAVE": "SAVE"}
    offline = {"GTD2, offline": "GTD2 offline", "TDC, offline": "TDC offline"}

    figure, (left, right) = figures.panels(2)
    curves = _curves(cells, online | offline)
    figures.coverage(left, curves, "steps")
    figures.widths(right, curves, "steps", "width_over_oracle")
    figures.write(figure, _rows(curves), folder, "random-mdp-coverage")

    figure, axes = figures.panels(3)
    groups = []
    for panel, name in zip(axes, ("GTD2", "TDC", "GTD"), strict=True):
        names = {f"{name}, as printed": "as printed", f"{name}, law alone": "law alone", name: "bootstrap"}
        groups.append(_curves(cells, names | {"least squares": "least squares"}))
        figures.coverage(panel, groups[-1], "steps")
        panel.set_title(name, fontsize=8)
    figures.write(figure, _rows(*groups), folder, "random-mdp-errata")

    figure, axes = figures.panels(2)
    kinds = {
        name: {kind: select(cells, name, kind) for kind in ("percentile", "basic", "normal")}
        for name in ("GTD2", "TDC")
    }
    for panel, (name, curves) in zip(axes, kinds.items(), strict=True):
        figures.coverage(panel, curves, "steps")
        panel.set_title(name, fontsize=8)
    figures.write(figure, _rows(*kinds.values()), folder, "random-mdp-kinds")

    figure, (left, right) = figures.panels(2)
    curves = _curves(
        cells,
        {
            "SAVE": "of the value",
            "SAVE, of its own fixed point": "of its fixed point",
            "least squares": "least squares",
        },
    )
    figures.coverage(left, curves, "steps")
    figures.widths(right, curves, "steps")
    figures.write(figure, _rows(curves), folder, "random-mdp-save")

    cost = content["cost"]
    memory = {"GTD2 online": (cost["GTD2"]["memory"], "online"), "GTD2 offline": (cost["GTD2"]["memory"], "offline")}
    memory |= {name: (cost[name]["memory"], "peak") for name in ("least squares", "SAVE")}
    _memory_of(
        {name: (found["steps"], found[key]) for name, (found, key) in memory.items()}, folder, "random-mdp-memory"
    )


def _memory(found: dict[str, Any], folder: Path, name: str) -> None:
    _memory_of({key: (memory["steps"], memory[key]) for key, memory in found.items()}, folder, name)


def _memory_of(curves: dict[str, tuple[Sequence[int], Sequence[int]]], folder: Path, name: str) -> None:
    figure, (axes,) = figures.panels(1)
    figures.memory(axes, curves, "steps")
    rows = [
        {"method": method, "steps": n, "bytes": peak}
        for method, (steps, peaks) in curves.items()
        for n, peak in zip(steps, peaks, strict=True)
    ]
    figures.write(figure, rows, folder, name)
