"""The numbers and the table of docs/validity.md on the best of many evaluations."""

from __future__ import annotations

from typing import Any

from scipy.integrate import quad
from scipy.stats import norm

from studies.markdown import Columns, percent, share, table_of
from studies.provenance import origin

Cell = dict[str, Any]


def facts(content: dict[str, Any]) -> dict[str, Any]:
    """The numbers of the section, and a table with a line for each law of the returns."""
    cells: list[Cell] = content["cells"]
    columns: Columns = {
        "returns": lambda c: c["law"],
        "largest mean, too high by": lambda c: f"{c['excess']:.2f} ± {1.96 * c['excess_error']:.2f}",
        "its new bests": lambda c: f"{c['usual_new_bests']:.1f}",
        "ever a false new best": lambda c: share(c["with_false_best"] / c["trainings"], c["false_best_95"]),
        "ever falsely above": lambda c: share(c["said_above"] / c["trainings"], c["said_above_95"]),
        "improvement seen at once": lambda c: percent(c["seen"]),
    }
    return {
        **content["settings"],
        "largest": percent(1 - content["settings"]["level"], 0),
        "trainings": cells[0]["trainings"],
        "exact": f"{largest_normal(content['settings']['evaluations']) / content['settings']['usual'] ** 0.5:.2f}",
        "cells_table": table_of(cells, columns),
        "too_often": "; ".join(
            f"{c['law']} ({what})"
            for c in cells
            for what, counted in (("new best", "with_false_best"), ("above", "said_above"))
            if c[counted] / c["trainings"] > 1 - content["settings"]["level"]
        ),
        "origin": origin(content["provenance"]),
    }


def largest_normal(n: int) -> float:
    """Mean of the largest of n standard normal numbers.

    >>> round(largest_normal(100), 4)
    2.5076
    """
    return float(quad(lambda x: n * x * norm.pdf(x) * norm.cdf(x) ** (n - 1), -10, 10)[0])
