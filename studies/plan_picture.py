"""Draws the picture of docs/scale.md: files, the parts of a plan, and the tree in which they are merged.

python -m studies.plan_picture
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

__all__ = ["draw"]

PICTURE = Path(__file__).parents[1] / "docs" / "images" / "plan.png"
FILES = ["0.parquet", "1.parquet", "2.parquet", "3.parquet"]
GROUPS = 2  # row groups of a file
BORDERS = [0.0, 1.08, 2.0, 3.2, 4.0, 5.12, 6.15, 7.0, 8.0]  # of the parts, in row groups
COLOURS = ["#4477aa", "#66ccee", "#228833", "#ccbb44", "#ee6677", "#aa3377", "#777777", "#994455"]


def draw(path: Path = PICTURE) -> None:
    """Draw the picture."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.4, 3.9), dpi=150)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(-1.55, 8.25), ylim=(-1.05, 4.35))
    axes.axis("off")
    for number, name in enumerate(FILES):
        left = number * GROUPS
        for group in range(GROUPS):
            axes.add_patch(_box(left + group, 0.0, 1.0, "#eeeeee"))
        axes.text(left + GROUPS / 2, -0.28, name, ha="center", va="center", fontsize=9, family="monospace")
        axes.plot([left, left], [-0.1, 0.62], color="#333333", lw=1.6)
    axes.plot([8, 8], [-0.1, 0.62], color="#333333", lw=1.6)
    for number, (begin, end) in enumerate(itertools.pairwise(BORDERS)):
        axes.add_patch(_box(begin + 0.02, 0.92, end - begin - 0.04, COLOURS[number], height=0.42))
        axes.text((begin + end) / 2, 1.13, str(number + 1), ha="center", va="center", color="white", weight="bold")
        if begin != round(begin):
            axes.annotate(
                "", (begin, 0.25), (round(begin) - 0.14, 0.25), arrowprops={"arrowstyle": "->", "color": "#bb2222"}
            )
    level = [((begin + end) / 2, 1.36) for begin, end in itertools.pairwise(BORDERS)]
    height = 2.15
    while len(level) > 1:
        above = [((one[0] + other[0]) / 2, height) for one, other in zip(level[::2], level[1::2], strict=True)]
        for k, place in enumerate(level):
            axes.plot(*zip(place, above[k // 2], strict=True), color="#555555", lw=1, zorder=0)
        axes.scatter([x for x, _ in above], [y for _, y in above], s=42, color="#222222", zorder=2)
        level, height = above, height + 0.85
    axes.text(level[0][0] + 0.18, level[0][1] + 0.02, "the run: interval, checks, report", va="center", fontsize=10)
    for y, text in ((0.25, "row groups"), (1.13, "parts"), (2.6, "merges")):
        axes.text(-0.2, y, text, ha="right", va="center", fontsize=10)
    note = "red: an episode goes on across the border, and belongs to the part in which it begins"
    axes.text(4.0, -0.75, note, ha="center", va="center", fontsize=9, color="#bb2222")
    figure.savefig(path)


def _box(left: float, bottom: float, width: float, colour: str, height: float = 0.5) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((left, bottom), width, height, facecolor=colour, edgecolor="white")


if __name__ == "__main__":
    draw()
