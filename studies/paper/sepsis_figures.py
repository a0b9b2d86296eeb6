"""The figures of the sepsis study, from its JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from studies.paper import figures
from studies.paper.machinery import Result
from studies.paper.summaries import given, select

__all__ = ["draw"]

FEATURES = ("components", "factors")
Line = tuple[Sequence[float], Sequence[float]]


def draw(content: dict[str, Any], folder: Path) -> None:
    """Draw all figures into a folder."""
    curves = content["curves"]
    errors = {
        "GTD2": ("GTD2", "exact"),
        "GTD2, estimated": ("GTD2", "estimated"),
        "TDC": ("TDC", "exact"),
        "GTD2, rule of thumb": ("GTD2, rule of thumb", "exact"),
        "least squares": ("least squares", "exact"),
        "θ*, estimated": ("fixed point", "estimated"),
    }
    widths = {
        "GTD2, percentile": ("GTD2", "percentile"),
        "GTD2, normal": ("GTD2", "normal"),
        "TDC, percentile": ("TDC", "percentile"),
        "GTD2, rule of thumb": ("GTD2, rule of thumb", "percentile"),
        "least squares": ("least squares", "normal"),
    }
    _over_episodes(curves, errors, "MSPBE", folder, "sepsis-mspbe")
    _over_episodes(curves, widths, "width of the 95% interval", folder, "sepsis-widths")

    cells = content["coverage"]
    groups: dict[str, dict[str, str]] = {
        "value, by table": {
            name: f"least squares, table, {name}"
            for name in ("start", "observed starts", "slow heart", "two abnormal", "diabetes")
        }
    }
    for label in FEATURES:
        groups[f"θ*, {label}"] = {name: f"{name}, {label}, start" for name in ("GTD2", "TDC", "least squares")}
    figure, axes = figures.panels(3)
    drawn = []
    for panel, (title, names) in zip(axes, groups.items(), strict=True):
        # Where many repeats have no interval there is no coverage to draw.
        rows = {
            shown: [given(cell) for cell in select(cells, name) if cell["lost"] < cell["repeats"] / 10]
            for shown, name in names.items()
        }
        rows = {shown: found for shown, found in rows.items() if found}
        if rows:
            figures.coverage(panel, rows, "episodes", of="least squares")
        figures.title(panel, title)
        drawn += [row for found in rows.values() for row in found]
    figures.write(figure, figures.flat(drawn), folder, "sepsis-coverage")


def _over_episodes(
    curves: Mapping[str, Any], names: Mapping[str, tuple[str, str]], quantity: str, folder: Path, file: str
) -> None:
    """Medians over the repeats as lines, a panel for each kind of features."""
    figure, axes = figures.panels(2)
    rows: list[Result] = []
    for panel, label in zip(axes, FEATURES, strict=True):
        lines: dict[str, Line] = {}
        for shown, (method, line) in names.items():
            lines[shown] = (curves["episodes"], curves["median"][f"{method}, {label}"][line])
            first = curves["first"][f"{method}, {label}"][line]
            rows += [
                {"features": label, "line": shown, "episodes": n, "median": y, "first repeat": one}
                for n, y, one in zip(*lines[shown], first, strict=True)
            ]
        figures.lines(panel, lines, "episodes", quantity)
        figures.title(panel, label)
    figures.write(figure, rows, folder, file)
