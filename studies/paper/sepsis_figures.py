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

    cells = content["coverage"]  # those of the value, with a table, have few lengths and are a table
    groups = {}
    for label in FEATURES:
        names = {name: f"{name}, {label}, start" for name in ("GTD2", "TDC", "least squares")}
        # Where many repeats have no interval there is no coverage to draw.
        rows = {
            shown: [given(cell) for cell in select(cells, name) if cell["lost"] < cell["repeats"] / 10]
            for shown, name in names.items()
        }
        groups[label] = {shown: found for shown, found in rows.items() if found}
    figure, axes = figures.panels(2)
    for panel, (label, curves) in zip(axes, groups.items(), strict=True):
        if curves:
            figures.coverage(panel, curves, "episodes", figures.room(*filter(None, groups.values())))
        figures.title(panel, label)
    drawn = [row for curves in groups.values() for found in curves.values() for row in found]
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
