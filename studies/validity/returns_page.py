"""The numbers and the table of docs/validity.md about mean returns."""

from __future__ import annotations

from typing import Any

from studies.markdown import listed, percent, share, table_of, yes
from studies.provenance import origin, software

Cell = dict[str, Any]

NOMINAL = (0.93, 0.97)  # what the 99.9 % binomial interval of the coverage must meet
TOLD = 0.9  # or the share of the misses in which the rarity check must fail


def facts(none: dict[str, Any], auto: dict[str, Any]) -> dict[str, Any]:
    """The numbers and the table of the section."""
    cells: list[Cell] = [
        cell
        for pair in zip(none["cells"], auto["cells"], strict=True)
        for cell in pair  # a problem's two rows, one below the other
    ]
    ratios = [cell["width_ratio"] for cell in auto["cells"] if cell["width_ratio"] is not None]
    return {
        "runs": none["cells"][0]["repeats"],
        "runs_auto": auto["cells"][0]["repeats"],
        "episodes": none["cells"][0]["episodes"],
        "problems": len(none["cells"]),
        "failing": listed([f"{cell['problem']}, features {cell['features']}" for cell in cells if not met(cell)]),
        "told": listed(
            [f"{cell['problem']} ({percent(cell['coverage'])})" for cell in cells if verdict(cell) == "told"]
        ),
        "medians": f"{min(r[1] for r in ratios):.3f} to {max(r[1] for r in ratios):.3f}",
        "extremes": f"{min(r[0] for r in ratios):.2f} to {max(r[2] for r in ratios):.2f}",
        "apart": f"{max(cell['largest_difference'] for cell in auto['cells']):.0e}",
        "same": all(cell["covered"] == cell["covered without"] for cell in auto["cells"]),
        "disagreeing": listed(
            [
                f"{cell['problem']} ({cell['covered']} of {cell['repeats']} with, {cell['covered without']} without)"
                for cell in auto["cells"]
                if cell["covered"] != cell["covered without"]
            ]
        ),
        "cells_table": cells_table(cells),
        "origin": origin(none["provenance"]),
        "origin_auto": origin(auto["provenance"]),
        "software": software(none["provenance"]),
    }


def verdict(cell: Cell) -> str:
    """Whether a cell is exact, holds, misses only where a check says so, or fails."""
    if cell["median_width"] == 0:
        return "exact" if cell["covered"] == cell["repeats"] else "fails"
    low, high = cell["binomial_99.9"]
    if low <= NOMINAL[1] and high >= NOMINAL[0]:
        return "holds"
    return "told" if rare(cell) >= TOLD * len(cell["misses"]) else "fails"


def met(cell: Cell) -> bool:
    return verdict(cell) != "fails"


def rare(cell: Cell) -> int:
    """Number of misses in which the rarity check failed."""
    return sum("rarity" in failed for failed in cell["misses"])


def cells_table(cells: list[Cell]) -> str:
    """Two rows for each problem."""
    return table_of(
        cells,
        {
            "problem": lambda cell: cell["problem"],
            "features": lambda cell: cell["features"],
            "runs": lambda cell: str(cell["repeats"]),
            "truth": lambda cell: f"{cell['truth']:.5g} ± {cell['error of the truth']:.1g}",
            "covered [99.9 %]": lambda cell: share(cell["coverage"], cell["binomial_99.9"]),
            "mean ± 1.96 s / √n": lambda cell: percent(cell["plain covered"] / cell["repeats"]),
            "median width": lambda cell: f"{cell['median_width']:.3g}",
            "its width": lambda cell: f"{cell['median_plain_width']:.3g}",
            "misses with *rarity*": lambda cell: f"{rare(cell)} of {len(cell['misses'])}",
            "met": lambda cell: yes(met(cell)),
        },
    )
