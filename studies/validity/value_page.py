"""The numbers and the table of docs/validity.md about the value of the start distribution."""

from __future__ import annotations

from statistics import median
from typing import Any

from studies.markdown import percent, table
from studies.provenance import origin

Cell = dict[str, Any]

LOW = 0.92  # coverage of cells that are named

# The problems that the README shows, with its names for them.
README = {
    "FrozenLake: table": "FrozenLake: one for each state",
    "FrozenLake: tiles 4x4": "FrozenLake: four tiles",
    "Taxi: position": "Taxi: the position of the taxi only",
    "CartPole lean: linear": "CartPole, a policy that falls early: linear",
    "CartPole clumsy: linear": "CartPole, a policy that is often cut off at 500 steps: linear",
    "CartPole good: linear": "CartPole, a policy that seldom falls, 100 episodes: linear",
    "LunarLander: linear": "LunarLander, Gymnasium's heuristic: linear",
    "clinic 10, 0.6: 3 bins": "log of a clinic, off-policy, 10 visits: three bins of severity",
    "ads: hidden fatigue": "log of an ad server, off-policy, 50 steps: without the hidden state",
    "sepsis: components": "sepsis, off-policy, 25 steps: components of the state",
    "chain, on-policy: random 4": "one long chain without episodes: four random",
}

FITTING = ("FrozenLake: table", "Taxi: table", "CliffWalking, epsilon-greedy: table", "Blackjack, stick on 20: table",
           "Blackjack, stick on 18: table", "ads: all states", "sepsis: table")  # fmt: skip


def for_readme(content: dict[str, Any]) -> str:
    """A few rows for the README: coverage of the value, of the features alone, and of the returns alone."""
    by_method = _by_method(content)
    head, rows = ["problem: features", "inferl", "features alone (LSTD)", "returns alone"], []
    for name, words in README.items():
        returns = by_method["mean return"].get(name) or by_method["PDIS"].get(name)
        cells = (by_method["value"][name], by_method["fitted"][name], returns)
        rows.append([words, *("" if cell is None else f"{cell['coverage']:.3f}".lstrip("0") for cell in cells)])
    return table(head, rows, text=head[:1])


def _by_method(content: dict[str, Any]) -> dict[str, dict[str, Cell]]:
    found: dict[str, dict[str, Cell]] = {}
    for cell in content["cells"]:
        found.setdefault(cell["method"], {})[cell["problem"]] = cell
    return found


def facts(content: dict[str, Any]) -> dict[str, Any]:
    """The numbers and the table of the section."""
    by_method = _by_method(content)
    values, fitted = by_method["value"], by_method["fitted"]
    missing = [cell for cell in values.values() if cell["verdict"] not in ("holds", "exact", "told")]
    words = [
        f"{cell['problem']} ({percent(cell['coverage'])}; a check told {cell['misses_told']} of "
        f"{cell['repeats'] - cell['covered']} misses)"
        for cell in missing
    ]
    off = [cell for cell in fitted.values() if cell["coverage"] < 0.8]
    alarms = [fitted[name]["features_alarm"] / fitted[name]["repeats"] for name in FITTING]
    apart = [cell["repeats"] - cell["covered"] for cell in by_method["self-difference"].values()]
    worst = min(fitted.values(), key=lambda cell: cell["coverage"])
    return {
        "repeats": next(iter(values.values()))["repeats"],
        "cells": len(values),
        "holds": len(values) - len(missing),
        "families": len({name.split(":")[0] for name in values}),
        "low": ", ".join(lowest(list(values.values()))),
        "exact": sum(cell["verdict"] == "exact" for cell in values.values()),
        "missed": ", ".join(words),
        "fitted_cells": len(fitted),
        "fitted_holds": sum(holds(cell) for cell in fitted.values()),
        "fitted_lowest": f"{percent(worst['coverage'])} ({worst['problem']})",
        "false_alarms": f"{100 * min(alarms):.1f} to {100 * max(alarms):.1f} %",
        "power": percent(sum(cell["features_alarm"] / cell["repeats"] for cell in off) / len(off)),
        "self_differences": ", ".join(map(str, apart)),
        "cells_table": cells_table(by_method),
        "origin": origin(content),
        "core_minutes": f"{content['core_minutes']:.0f}",
    }


def summary(content: dict[str, Any]) -> dict[str, Any]:
    """The numbers of the first screen, over all cells in which something is random."""
    by_method = _by_method(content)
    values = [cell for cell in by_method["value"].values() if cell["verdict"] != "exact"]
    shares = sorted(cell["coverage"] for cell in values)
    fitted = [by_method["fitted"][cell["problem"]]["coverage"] for cell in values]
    low = {cell["problem"].split(":")[0] for cell in values if cell["coverage"] < LOW}
    rare = [words.split(":")[0] for name, words in README.items() if name.split(":")[0] in low]
    return facts(content) | {
        "lowest": percent(shares[0]),
        "middle": percent(median(shares)),
        "highest": percent(shares[-1]),
        "fitted_lowest": percent(min(fitted)),
        "fitted_highest": percent(max(fitted)),
        "fitted_off": sum(share < 0.8 for share in fitted),
        "misses": f"{sum(cell['repeats'] - cell['covered'] for cell in values):,}",
        "told": sum(cell["misses_told"] for cell in values),
        "rare": "; ".join(rare),
        "short_table": for_readme(content),
    }


def lowest(cells: list[Cell]) -> list[str]:
    """Name the cells of low coverage: meeting the rule is not being nominal."""
    low = sorted((cell for cell in cells if cell["coverage"] < LOW), key=lambda cell: cell["coverage"])
    return [f"{cell['problem']} ({percent(cell['coverage'])})" for cell in low]


def holds(cell: Cell) -> bool:
    """Whether the 99.9 % interval of the coverage meets 93 to 97 %."""
    low, high = cell["binomial_99.9"]
    return bool(low <= 0.97 and high >= 0.93)


def cells_table(by_method: dict[str, dict[str, Cell]]) -> str:
    """A row a problem."""
    head = ["problem", "value", "told", "features alone", "as before", "mean return", "PDIS", "WPDIS", "alarm"]
    rows = []
    for name, cell in by_method["value"].items():
        misses = cell["repeats"] - cell["covered"]
        row = [name, shown(cell, bold=True), f"{cell['misses_told']} of {misses}" if misses else ""]
        row += [
            shown(by_method[method].get(name)) for method in ("fitted", "as before", "mean return", "PDIS", "WPDIS")
        ]
        alarm = by_method["fitted"][name]
        rows.append([*row, percent(alarm["features_alarm"] / alarm["repeats"])])
    return table(head, rows)


def shown(cell: Cell | None, bold: bool = False) -> str:
    if cell is None:
        return ""
    width = cell["median_width"]
    number = f"{100 * cell['coverage']:.1f}"
    return f"{f'**{number}**' if bold else number} ({'-' if width is None else f'{width:.3g}'})"
