"""The figures of each study, from its JSON; PNG and SVG, and a CSV with the numbers behind each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from studies.paper import figures, pong_figures, sepsis_figures, theory_figures
from studies.paper.machinery import Result
from studies.paper.summaries import select

__all__ = ["draw"]

RATIO = "width_over_oracle"


def draw(content: dict[str, Any], folder: Path) -> None:
    """Draw all figures of a study into a folder."""
    families = {
        "frozenlake": _frozenlake,
        "random-mdp": _random_mdp,
        "sepsis": sepsis_figures.draw,
        "pong": pong_figures.draw,
    }
    families.get(content["experiment"], theory_figures.draw)(content, folder)


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
    curves = _curves(content["coverage"], corrected | {"offline bootstrap": "bootstrap, offline"})
    figures.coverage(left, curves, "episodes")
    figures.widths(right, curves, "episodes")
    figures.write(figure, _rows(curves), folder, "frozenlake-coverage")

    figure, axes = figures.panels(2)
    kinds = {
        name: {f"{name}, {kind}": select(content["coverage"], name, kind) for kind in ("percentile", "basic", "normal")}
        for name in ("bootstrap", "law alone")
    }
    for panel, (name, curves) in zip(axes, kinds.items(), strict=True):
        figures.coverage(panel, curves, "episodes")
        figures.title(panel, {"bootstrap": "corrected bootstrap", "law alone": "law alone unrepaired"}[name])
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
        "bootstrap, a multiplier a step": "bootstrap, by step",
        "bootstrap, a multiplier an episode": "bootstrap, by episode",
        "least squares": "least squares",
    }
    curves = _curves(content["random_features"], names)
    figures.coverage(left, curves, "episodes")
    figures.widths(right, curves, "episodes")
    figures.write(figure, _rows(curves), folder, "frozenlake-features")


def _example(content: dict[str, Any], folder: Path) -> None:
    figure, (axes,) = figures.panels(1)
    names = {
        "bootstrap": "bootstrap",
        "least squares": "least squares",
        "offline bootstrap": "bootstrap, offline",
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
    groups = {
        "online": ("GTD2", "TDC", "GTD", "least squares"),
        "offline": ("GTD2, offline", "TDC, offline", "GTD, offline"),
        "SAVE": ("SAVE",),
    }

    figure, (first, *others) = figures.panels(4, height=4.8, rows=2)
    shown = {name: _curves(cells, {method: method for method in methods}) for name, methods in groups.items()}
    figures.widths(first, {name: rows for curves in shown.values() for name, rows in curves.items()}, "steps", RATIO)
    figures.title(first, "widths")
    near = figures.room(shown["online"], shown["offline"])
    for panel, (name, curves) in zip(others, shown.items(), strict=True):
        if curves:
            figures.coverage(panel, curves, "steps", near if name != "SAVE" else None)
        figures.title(panel, f"coverage, {name}")
    figures.write(figure, _rows(*shown.values()), folder, "random-mdp-coverage")

    figure, axes = figures.panels(3)
    drawn = {}
    for name in ("GTD2", "TDC", "GTD"):
        names = {f"{name}, as printed": "as printed", f"{name}, law alone": "law alone", name: name}
        drawn[name] = _curves(cells, names | {"least squares": "least squares"})
    for panel, (name, curves) in zip(axes, drawn.items(), strict=True):
        figures.coverage(panel, curves, "steps", figures.room(*drawn.values()))
        figures.title(panel, name)
    figures.write(figure, _rows(*drawn.values()), folder, "random-mdp-errata")

    figure, (left, right) = figures.panels(2)
    curves = _curves(
        cells,
        {
            "SAVE": "SAVE, of the value",
            "SAVE, of its own fixed point": "SAVE, of its fixed point",
            "least squares": "least squares",
        },
    )
    figures.coverage(left, curves, "steps")
    figures.widths(right, _curves(cells, {"SAVE": "SAVE", "least squares": "least squares"}), "steps")
    figures.write(figure, _rows(curves), folder, "random-mdp-save")
