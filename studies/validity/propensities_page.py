"""The numbers and the table of docs/validity.md about fitted propensities."""

from __future__ import annotations

from typing import Any

from studies.markdown import count, listed, percent, table
from studies.provenance import origin, software

Cell = dict[str, Any]

METHODS = ("value", "PDIS", "WPDIS")
KINDS = {
    "true": "true",
    "right": "fitted, formula right",
    "wrong": "fitted, formula wrong",
    "frequencies": "frequencies of the actions",
}


def facts(content: dict[str, Any]) -> dict[str, Any]:
    """The numbers and the table of the section."""
    cells: list[Cell] = content["cells"]
    values = [cell for cell in cells if cell["method"] == "value"]
    right = of_kind(values, "right")
    wrong = max(of_kind(values, "wrong"), key=lambda cell: cell["episodes"])
    longest = max(cell["episodes"] for cell in right)
    spread = [cell["sd"] / error(cell) for cell in right if cell["episodes"] == longest]
    return {
        "repeats": cells[0]["repeats"],
        "formulas": listed([f"`{p['formulas']['right']}` ({p['problem']})" for p in content["problems"]]),
        "right": between([cell["coverage"] for cell in right]),
        "known": between([cell["coverage"] for cell in of_kind(values, "true")]),
        "longest": count(longest),
        "spread": f"{min(spread):.2f} to {max(spread):.2f}",
        "low": listed_cells([cell for cell in of_kind(cells, "right") if cell["binomial_95"][1] < 0.95]),
        "low_true": listed_cells([cell for cell in of_kind(cells, "true") if cell["binomial_95"][1] < 0.95]),
        "wrong": percent(wrong["coverage"]),
        "wrong_episodes": count(wrong["episodes"]),
        "wrong_told": between([c["propensities_alarm"] / c["repeats"] for c in of_kind(values, "wrong")]),
        "wrong_ratios": percent(max(c["ratios_alarm"] / c["repeats"] for c in of_kind(values, "wrong"))),
        "false_alarms": percent(max(cell["propensities_alarm"] / cell["repeats"] for cell in right)),
        "frequencies": between([cell["coverage"] for cell in of_kind(values, "frequencies")]),
        "frequencies_ratios": between([c["ratios_alarm"] / c["repeats"] for c in of_kind(values, "frequencies")]),
        "cells_table": cells_table(cells),
        "origin": origin(content["provenance"]),
        "software": software(content["provenance"]),
        "core_minutes": f"{content['core_minutes']:.0f}",
    }


def of_kind(cells: list[Cell], kind: str) -> list[Cell]:
    return [cell for cell in cells if cell["propensities"] == kind]


def error(cell: Cell) -> float:
    """The standard error that the median width shows."""
    return float(cell["median_width"] / 2 / 1.96)


def between(shares: list[float]) -> str:
    low, high = percent(min(shares)), percent(max(shares))
    return low if low == high else f"{low.removesuffix(' %')} to {high}"


def listed_cells(cells: list[Cell]) -> str:
    return ", ".join(
        f"{cell['problem']}, {count(cell['episodes'])} episodes, {cell['method']} ({percent(cell['coverage'])})"
        for cell in cells
    )


def cells_table(cells: list[Cell]) -> str:
    """A row for each problem, length and kind of probabilities."""
    found = {(c["problem"], c["episodes"], c["propensities"], c["method"]): c for c in cells}
    head = ["problem", "episodes", "probabilities", *METHODS, "ratios fail", "propensities fails"]
    rows = []
    for problem, episodes, kind in dict.fromkeys(key[:3] for key in found):
        of_methods = [found[problem, episodes, kind, method] for method in METHODS]
        alarms = [
            percent(of_methods[0][f"{name}_alarm"] / of_methods[0]["repeats"]) for name in ("ratios", "propensities")
        ]
        if kind == "true":
            alarms[1] = ""
        rows.append([problem, count(episodes), KINDS[kind], *map(shown, of_methods), *alarms])
    return table(head, rows, text=("problem", "probabilities"))


def shown(cell: Cell) -> str:
    return f"{100 * cell['coverage']:.1f} ({cell['median_width']:.3g})"
