"""The part of docs/validity.md about the true value of the start distribution, from results/value.json."""

from __future__ import annotations

import re
import textwrap
from typing import Any

from studies.markdown import percent, table
from studies.provenance import origin

Cell = dict[str, Any]

HEAD = """\
## Coverage of the value of the start distribution

The sections after this one measure how often an interval covers its own estimand. Here the truth is the **value of the
start distribution**, whatever the features are: exact, or the mean of at least 100,000 episodes. Every problem was run
{repeats} times with new seeds. *Value* is the default (`DoublyRobust`); *features alone* is LSTD on the same data
(`"fitted"`); *as before* is LSTD at the observed starts, which was the default until this study. *Mean return* leaves
out truncated episodes; *PDIS* and *WPDIS* are ordinary and weighted per-decision importance sampling.

The cells of a family (the name before the colon) share their data, and on-policy the value hardly depends on the
features: {cells} cells are {families} families, not {cells} independent findings. Where a problem itself was drawn at
random (random features, the chain, the laws of the ads and of the bandit), its seed was chosen, among about a dozen, so
that LSTD is off by several of its standard deviations; coverage was not considered in this choice. So *features alone*
shows how large the bias can be, not how often it occurs. The ratios check was developed on the clinic and on a version
of the ads problem, so *told* is not held out there.

- The value passes in {holds} of {cells} cells: the exact binomial 99.9 % interval of its coverage meets 93 to 97 %
  ({exact} of them without any randomness, where it is exact).{missed}{low}
- The estimate from the features alone covers the value in {fitted_holds} of {fitted_cells} cells by the same rule. The
  lowest coverage is {fitted_lowest}.
- The **features** check fails in {false_alarms} of the runs with one feature for each state (false alarms); where the
  coverage of the features alone is below 80 %, it fails in {power} of the runs (the mean over these cells).
- One policy against itself, with different seeds: declared different in {self_differences} of {repeats} runs.
"""

COLUMNS = """\
Coverage in per cent, and the median width in parentheses. *Told*: of the runs in which the interval of the value
missed, how many had a failed ratios, rarity or ends check. *Alarm*: how often the features check failed.
"""

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


def sections(content: dict[str, Any]) -> list[str]:
    """The text with its numbers, and the table."""
    by_method: dict[str, dict[str, Cell]] = {}
    for cell in content["cells"]:
        by_method.setdefault(cell["method"], {})[cell["problem"]] = cell
    head = wrapped(HEAD.format(**facts(by_method)))
    made = f"Made by {origin(content)}, {content['core_minutes']:.0f} core minutes."
    return [head, COLUMNS, cells_table(by_method), made]


def wrapped(text: str) -> str:
    """Fill the lines of a text's list again, once its numbers are in."""
    lines = []
    for line in re.sub(r"\n  (?=\S)", " ", text).split("\n"):
        lines += textwrap.wrap(line, 118, subsequent_indent="  ") if line.startswith("- ") else [line]
    return "\n".join(lines)


def for_readme(content: dict[str, Any]) -> str:
    """A few rows for the README: coverage of the value, of the features alone, and of the returns alone."""
    by_method: dict[str, dict[str, Cell]] = {}
    for cell in content["cells"]:
        by_method.setdefault(cell["method"], {})[cell["problem"]] = cell
    head, rows = ["problem: features", "inferl", "features alone (LSTD)", "returns alone"], []
    for name, words in README.items():
        returns = by_method["mean return"].get(name) or by_method["PDIS"].get(name)
        cells = (by_method["value"][name], by_method["fitted"][name], returns)
        rows.append([words, *("" if cell is None else f"{cell['coverage']:.3f}".lstrip("0") for cell in cells)])
    return table(head, rows, text=head[:1])


def facts(by_method: dict[str, dict[str, Cell]]) -> dict[str, Any]:
    """Everything that the text says in numbers."""
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
        "low": lowest(list(values.values())),
        "exact": sum(cell["verdict"] == "exact" for cell in values.values()),
        "missed": f" The others are: {', '.join(words)}." if words else "",
        "fitted_cells": len(fitted),
        "fitted_holds": sum(holds(cell) for cell in fitted.values()),
        "fitted_lowest": f"{percent(worst['coverage'])} ({worst['problem']})",
        "false_alarms": f"{100 * min(alarms):.1f} to {100 * max(alarms):.1f} %",
        "power": percent(sum(cell["features_alarm"] / cell["repeats"] for cell in off) / len(off)),
        "self_differences": ", ".join(map(str, apart)),
    }


def lowest(cells: list[Cell]) -> str:
    """Name the cells below 92 %: meeting the rule is not being nominal."""
    low = sorted((cell for cell in cells if cell["coverage"] < 0.92), key=lambda cell: cell["coverage"])
    words = [f"{cell['problem']} ({percent(cell['coverage'])})" for cell in low]
    return f" Coverage is below 92 % in: {', '.join(words)}." if words else ""


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
