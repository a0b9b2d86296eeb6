"""The numbers and the table of docs/validity.md on many streams and merged parts."""

from __future__ import annotations

from typing import Any

from studies.markdown import Columns, count, percent, share, table_of, yes
from studies.provenance import origin

Cell = dict[str, Any]


def facts(content: dict[str, Any]) -> dict[str, Any]:
    """The numbers of the section, and a table with a line for each problem and number of streams."""
    cells: list[Cell] = content["cells"]
    columns: Columns = {
        "problem": lambda c: c["problem"],
        "streams": lambda c: f"{c['streams']} x {count(c['steps'])}",
        "method": lambda c: c["way"],
        "relaxation times": lambda c: f"{c['relaxation_times']:.0f}",
        "covered": held,
        "width": lambda c: f"{c['width']:.2f}",
        "a check failed": lambda c: percent(c["fired"]),
        "in misses": lambda c: percent(c["told"]),
        "met": lambda c: yes(c["met"]),
    }
    return {
        "met": sum(cell["met"] for cell in cells),
        "cells": len(cells),
        "cells_table": table_of(cells, columns),
        "failing": "; ".join(f"{c['problem']}, {c['streams']} {c['way']}" for c in cells if not c["met"]),
        "runs": cells[0]["runs"],
        "origin": origin(content["provenance"]),
    }


def held(cell: Cell) -> str:
    """Coverage with its 99.9 % binomial interval."""
    return share(cell["held"] / cell["runs"], cell["binomial_99.9"])
