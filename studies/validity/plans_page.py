"""The numbers and the table of docs/validity.md on evaluators merged in the tree of a plan."""

from __future__ import annotations

from typing import Any

from studies.markdown import Columns, count, percent, table_of, yes
from studies.provenance import origin
from studies.validity.manyparts_page import held

Cell = dict[str, Any]


def facts(content: dict[str, Any]) -> dict[str, Any]:
    """The numbers of the section, and a table with a line for each problem, number of parts and way."""
    cells: list[Cell] = content["cells"]
    columns: Columns = {
        "problem": lambda c: c["problem"],
        "parts": lambda c: f"{count(c['parts'])} x {count(c['steps'])}",
        "evaluators": lambda c: {"merged": "one a part, merged", "one": "one"}[c["way"]],
        "runs": lambda c: count(c["runs"]),
        "covered": held,
        "width": lambda c: f"{c['width']:.2f}",
        "beside one": lambda c: f"{c['beside_one']:.3f}",
        "a check failed": lambda c: percent(c["fired"]),
        "met": lambda c: yes(c["met"]),
    }
    merged = [cell for cell in cells if cell["way"] == "merged"]
    return {
        "met": sum(cell["met"] for cell in merged),
        "cells": len(merged),
        "cells_table": table_of(cells, columns),
        "failing": "; ".join(f"{c['problem']}, {c['parts']} {c['way']}" for c in cells if not c["met"]),
        "origin": origin(content["provenance"]),
    }
