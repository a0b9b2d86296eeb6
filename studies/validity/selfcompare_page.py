"""The numbers and the tables of docs/validity.md about comparisons of policies."""

from __future__ import annotations

from typing import Any

from studies.markdown import Columns, count, share, table_of, yes
from studies.provenance import origin

Cell = dict[str, Any]


def facts(content: dict[str, Any]) -> dict[str, Any]:
    """The numbers of the section, a table of comparisons and one of races."""
    cells: list[Cell] = content["cells"]
    races: list[Cell] = content["races"]
    columns: Columns = {
        "problem": lambda c: c["problem"],
        "policies": lambda c: count(c["policies"]),
        "episodes of each": lambda c: count(c["episodes"]),
        "a pair declared different": lambda c: f"{c['alarms']}, {share(c['alarms'] / c['runs'], c['binomial_95'])}",
        "by pointwise intervals": lambda c: count(c["pointwise"]),
        "met": lambda c: yes(c["met"]),
    }
    race_columns: Columns = {
        "lead of the best": lambda r: f"{r['lead']:g}" if r["lead"] else "none",
        "wrongly dropped": lambda r: f"{r['wrong']}, {share(r['wrong'] / r['runs'], r['binomial_95'])}",
        "the best won": lambda r: count(r["won"]) if r["lead"] else "-",
        "episodes, all three": lambda r: count(round(r["episodes"])),
        "fixed design": lambda r: "-" if r["fixed"] is None else f"3 x {count(r['fixed'])}",
        "met": lambda r: yes(r["met"]),
    }
    missed = [f"{c['problem']}, {c['policies']} policies" for c in cells if not c["met"]]
    missed += [f"race, lead {r['lead']:g}" for r in races if not r["met"]]
    return {
        "runs": cells[0]["runs"],
        "cells_table": table_of(cells, columns),
        "races_table": table_of(races, race_columns),
        "missed": "; ".join(missed),
        "origin": origin(content["provenance"]),
    }
