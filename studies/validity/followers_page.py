"""The numbers and the tables of docs/validity.md on what follows the paper."""

from __future__ import annotations

from functools import partial
from typing import Any

from studies.markdown import Columns, count, table_of
from studies.provenance import origin
from studies.validity.bootstraps_page import LOW, held, noise, nominal, spread
from studies.validity.followers import DISCOUNT

Cell = dict[str, Any]

OF_ITERATES = ("random scaling", "batch means", "online batch means", "subsample bootstrap")
CHAIN, RING, LAKE = "two-state chain .8", "ring 20/4, lazy", "FrozenLake"  # steps of the first two are dependent
COLUMNS = (("uniform", "larger"), ("linear", "larger"), ("uniform", "automatic"), ("linear", "automatic"))


def facts(content: dict[str, Any]) -> dict[str, Any]:
    """Tables of all methods, and the settings."""
    cells: list[Cell] = content["cells"]
    settings: dict[str, dict[str, Any]] = content["settings"]
    solved = {c["problem"] for c in cells if c["method"] == "least squares"}
    small, large = ([name for name in settings if (name in solved) == here] for here in (True, False))
    first, some = cells_of(cells, small), cells_of(cells, large)
    memory = round(2 * settings[large[0]]["parameters"] / (1 - DISCOUNT))  # 1 / (step size at the cap * slowest rate)
    return {
        "small_table": over_problems([c for c in first if c["length"] == longest(first)]),
        "large_table": over_problems([c for c in some if c["length"] == longest(some)]),
        **told_small([c for c in first if c["length"] == longest(first)]),
        **told([c for c in some if c["length"] == longest(some)]),
        "memory": count(memory),
        "stretches": round(longest(some) / memory),
        "details": {name: details([c for c in cells if c["problem"] == name]) for name in settings},
        "settings_table": settings_table(settings),
        "n_small": {4: "four"}.get(len(small), str(len(small))),
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


def told_small(cells: list[Cell]) -> dict[str, str]:
    """What the text says of the small problems, at the longest length."""

    def of(method: str | tuple[str, ...], *problems: str, **wanted: str) -> list[Cell]:
        own = [c for c in cells if c["method"].startswith(method) and c["problem"] in problems]
        return [c for c in own if all(c[key] == value for key, value in wanted.items())]

    elsewhere = [name for name in dict.fromkeys(c["problem"] for c in cells) if name not in (CHAIN, RING)]
    told = {
        f"{name}_{where}": of(method, *problems, average="linear")
        for name, method in (("independent", "plug-in, independent"), ("step", "bootstrap by step"))
        for where, problems in (("there", [CHAIN, RING]), ("elsewhere", elsewhere))
    }
    for where, problem in (("chain", CHAIN), ("ring", RING)):
        told[f"scaling_{where}"] = of("random scaling", problem, average="uniform")
        for step in ("automatic", "larger"):
            told[f"windows_{where}_{step}"] = of(OF_ITERATES[1:], problem, step=step)
    uniform, linear = (of(OF_ITERATES, LAKE, average=average) for average in ("uniform", "linear"))
    return {name: lowest_and_highest(found) for name, found in told.items()} | {
        "lake_uniform": lowest_and_highest(uniform),
        "lake_widths": widths(uniform),
        "off_uniform": span([abs(c["bias"]) for c in uniform]),
        "off_linear": span([abs(c["bias"]) for c in linear]),
    }


def lowest_and_highest(found: list[Cell]) -> str:
    return spread([c["coverage"] for c in found])


def widths(found: list[Cell]) -> str:
    return span([c["median_width"] for c in found if c["median_width"] is not None])


def span(numbers: list[float]) -> str:
    low, high = (f"{edge(numbers):.2f}" for edge in (min, max))
    return low if low == high else f"{low} to {high}"


def told(cells: list[Cell]) -> dict[str, str]:
    """What the text says of the large tables, at the longest length."""

    def covered(method: str, average: str = "linear") -> list[Cell]:
        return [c for c in cells if c["method"].startswith(method) and c["average"] == average]

    windows = [c for c in cells if c["method"].startswith(OF_ITERATES[1:])]
    (zero,) = covered("bootstrap by block, from 0")
    by_step = covered("bootstrap by step")
    by_block = [c for c in covered("bootstrap by block") if c is not zero]
    return {
        "by_block": lowest_and_highest(by_block),
        "by_block_width": widths(by_block),
        "scaling_width": widths(covered("random scaling", "uniform")),
        "by_step": lowest_and_highest([c for c in by_step if not c["problem"].endswith("dependent")]),
        "by_step_dependent": lowest_and_highest([c for c in by_step if c["problem"].endswith("dependent")]),
        "from_zero": held(zero),
        "windows": lowest_and_highest(windows),
        "scaling_uniform": lowest_and_highest(covered("random scaling", "uniform")),
        "scaling_linear": lowest_and_highest(covered("random scaling")),
    }


def verdict(cell: Cell) -> str:
    """Whether the coverage is nominal, too low or too high, at 99.9 %."""
    if nominal(cell):
        return "nominal"
    return "too low" if cell["binomial_99.9"][1] < LOW else "too high"
