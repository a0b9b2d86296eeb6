"""The numbers and the tables of docs/validity.md on what follows the paper."""

from __future__ import annotations

from functools import partial
from typing import Any

from studies.markdown import Columns, count, table_of
from studies.provenance import origin
from studies.validity.bootstraps_page import held, noise, nominal, spread

Cell = dict[str, Any]

OF_ITERATES = ("random scaling", "batch means", "online batch means", "subsample bootstrap")
COLUMNS = (("uniform", "larger"), ("linear", "larger"), ("uniform", "automatic"), ("linear", "automatic"))


def facts(content: dict[str, Any]) -> dict[str, Any]:
    """Tables of all methods, and the settings."""
    cells: list[Cell] = content["cells"]
    settings: dict[str, dict[str, Any]] = content["settings"]
    solved = {c["problem"] for c in cells if c["method"] == "least squares"}
    small, large = ([name for name in settings if (name in solved) == here] for here in (True, False))
    first, some = cells_of(cells, small), cells_of(cells, large)
    return {
        "small_table": over_problems([c for c in first if c["length"] == longest(first)]),
        "large_table": over_problems([c for c in some if c["length"] == longest(some)]),
        "details": {name: details([c for c in cells if c["problem"] == name]) for name in settings},
        "settings_table": settings_table(settings),
        "small": ", ".join(small),
        "small_steps": count(longest(first)),
        "large_steps": count(longest(some)),
        "parameters": count(settings[large[0]]["parameters"]),
        "repeats": count(first[0]["repeats"]),
        "repeats_large": count(some[0]["repeats"]),
        "noise": noise(first[0]["repeats"]),
        "noise_large": noise(some[0]["repeats"]),
        "uniform": f"{content['critical_values']['uniform']:.3f}",
        "linear": f"{content['critical_values']['linear']:.3f}",
        "infinite": sum(c["infinite"] for c in cells),
        "origin": origin(content["provenance"]),
    }


def cells_of(cells: list[Cell], problems: list[str]) -> list[Cell]:
    return [c for c in cells if c["problem"] in problems]


def longest(cells: list[Cell]) -> int:
    return max(int(c["length"]) for c in cells)


def over_problems(cells: list[Cell]) -> str:
    """The lowest and the highest coverage over the problems, a line for each method."""

    def covered(average: str, step: str, method: str) -> str:
        found = [c["coverage"] for c in own(method, average, step)]
        return spread(found) if found else "-"

    def own(method: str, average: str, step: str) -> list[Cell]:
        wanted = [average] if average == "uniform" else ["linear", "none"]
        return [c for c in cells if c["method"] == method and c["average"] in wanted and c["step"] == step]

    columns: Columns = {
        "method": lambda method: method,
        **{f"{average}, {step}": partial(covered, average, step) for average, step in COLUMNS},
    }
    return table_of(dict.fromkeys(c["method"] for c in cells), columns)


def chosen(cells: list[Cell]) -> list[Cell]:
    """Of the methods that look at iterates those with larger steps, which suit them better; of the others automatic."""
    return [c for c in cells if c["step"] == ("larger" if c["method"].startswith(OF_ITERATES) else "automatic")]


def details(cells: list[Cell]) -> str:
    """All methods on one problem: coverage at all lengths, and width, bias and spread at the longest."""
    shown = chosen(cells)
    last = longest(cells)
    lines = [c for c in shown if c["length"] == last]

    def at(length: int, line: Cell) -> str:
        same = [c for c in shown if all(c[k] == line[k] for k in ("method", "average")) and c["length"] == length]
        return held(same[0])

    columns: Columns = {
        "method": lambda c: c["method"],
        "average": lambda c: "-" if c["average"] == "none" else c["average"],
        **{f"at {count(n)}": partial(at, n) for n in sorted({c["length"] for c in cells})},
        "width": lambda c: "-" if c["median_width"] is None else f"{c['median_width']:.2f}",
        "bias": lambda c: f"{c['bias']:.2f}",
        "spread": lambda c: f"{c['spread']:.2f}",
    }
    return table_of(lines, columns)


def settings_table(settings: dict[str, dict[str, Any]]) -> str:
    columns: Columns = {
        "problem": lambda name: name,
        "parameters": lambda name: count(settings[name]["parameters"]),
        "algorithm": lambda name: f"`{settings[name]['algorithm']}`",
        "automatic": lambda name: f"`{rounded(settings[name]['automatic'])}`",
        "larger": lambda name: f"`{rounded(settings[name]['larger'])}`",
    }
    return table_of(settings, columns)


def rounded(step_size: str) -> str:
    """A step size with a short exponent.

    >>> rounded("Polynomial(initial=0.25, decay=0.6666666666666666, cap=0.5)")
    'Polynomial(initial=0.25, decay=2/3, cap=0.5)'
    """
    return step_size.replace(str(2 / 3), "2/3").replace("5.000000000000001", "5.0")


def best(cells: list[Cell]) -> list[str]:
    """Methods that are nominal on all given problems, at the longest length and with the steps that suit them."""
    shown = [c for c in chosen(cells) if c["average"] != "uniform" and c["length"] == longest(cells)]
    methods = dict.fromkeys(c["method"] for c in shown)
    return [m for m in methods if all(nominal(c) for c in shown if c["method"] == m)]
