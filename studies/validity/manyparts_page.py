"""The numbers and the tables of docs/validity.md on many streams, merged parts, and environments side by side."""

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


def side_by_side(content: dict[str, Any]) -> dict[str, Any]:
    """The numbers of the section on environments side by side, and a table with a line for each number of them."""
    cells: list[Cell] = content["cells"]
    columns: Columns = {
        "problem": lambda c: c["problem"],
        "environments": lambda c: f"{c['environments']} x {count(c['steps'])}",
        "steps in order": lambda c: {"side by side": "of time", "one by one": "of environments"}[c["way"]],
        "covered": held,
        "width": lambda c: f"{c['width']:.2f}",
        "false alarms": lambda c: f"{c['alarms']} of {c['runs']}",
        "met": lambda c: yes(c["met"]),
    }
    alarms = {way: sum(c["alarms"] for c in cells if c["way"] == way) for way in ("side by side", "one by one")}
    return {
        "met": sum(cell["met"] for cell in cells),
        "cells": len(cells),
        "cells_table": table_of(cells, columns),
        "failing": "; ".join(f"{c['problem']}, {c['environments']} {c['way']}" for c in cells if not c["met"]),
        "alarms": alarms["side by side"],
        "alarms_one_by_one": alarms["one by one"],
        "runs": sum(cell["runs"] for cell in cells) // 2,
        "runs_a_cell": cells[0]["runs"],
        "origin": origin(content["provenance"]),
    }
