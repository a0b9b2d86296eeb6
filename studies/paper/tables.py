"""Small things that the pages of all studies are written with: tables, lines of criteria, provenance."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from studies.paper.machinery import Result
from studies.paper.summaries import select

__all__ = [
    "Columns",
    "by_length",
    "count",
    "coverage",
    "criteria_table",
    "filled",
    "line",
    "made_by",
    "meets",
    "percent",
    "table",
    "wide",
]

Columns = dict[str, Callable[[Result], str]]
GOOD = (0.93, 0.97)  # what the 99.9 % binomial interval of a nominal coverage has to meet


def line(what: str, wanted: str, found: str, met: bool) -> Result:
    """One thing that had to come out."""
    return {"what": what, "wanted": wanted, "found": found, "met": bool(met)}


def criteria_table(lines: Sequence[Result]) -> str:
    """All things that had to come out, and whether they did."""
    columns: Columns = {name: lambda row, name=name: row[name] for name in ("what", "wanted", "found")}  # type: ignore[misc]
    return table(lines, columns | {"met": lambda row: "yes" if row["met"] else "**no**"})


def filled(words: str, facts: dict[str, str]) -> str:
    """Words with the facts in place of their names in angle brackets."""
    for name, fact in facts.items():
        words = words.replace(f"<{name}>", fact)
    return words


def table(rows: Sequence[Result], columns: Columns) -> str:
    """A Markdown table with a row for each cell."""
    words = ("method", "interval", "what", "wanted", "met", "features")
    rule = ["---" if name in words else "---:" for name in columns]
    lines = [[show(row) for show in columns.values()] for row in rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in [list(columns), rule, *lines]).rstrip("\n")


def made_by(content: dict[str, Any]) -> str:
    """Say what made the results."""
    made = content["provenance"]
    versions = ", ".join(f"{name} {number}" for name, number in made["versions"].items())
    repeats = ", ".join(f"{name} {count}" for name, count in content["repeats"].items())
    return (
        f"Made by `{made['command']}`: seed {made['seed']}, commit {made['commit']}, kernel {made['kernel']}, "
        f"Python {made['python']}, {versions}; repeats: {repeats}."
    )


def count(n: int) -> str:
    """A whole number with thin groups.

    >>> count(12345)
    '12,345'
    """
    return f"{n:,}"


def by_length(cells: Sequence[Result], methods: Sequence[str], lengths: Sequence[int]) -> str:
    """Coverages with binomial intervals, a row for each method, a column for each length."""
    rows = [{cell["length"]: cell for cell in select(cells, method)} | {"method": method} for method in methods]
    columns: Columns = {"method": lambda row: row["method"]}
    for n in lengths:
        columns[count(n)] = lambda row, n=n: coverage(row[n]) if n in row else "-"  # type: ignore[misc]
    return table(rows, columns)


def coverage(cell: Result) -> str:
    """A coverage in per cent with its binomial 95 % interval."""
    low, high = cell["binomial_95"]
    return f"{100 * cell['coverage']:.1f} [{100 * low:.1f}, {100 * high:.1f}]"


def wide(cell: Result) -> str:
    """A coverage in per cent with its binomial 99.9 % interval."""
    low, high = cell["binomial_99.9"]
    return f"{100 * cell['coverage']:.1f} % [{100 * low:.1f}, {100 * high:.1f}]"


def meets(cell: Result) -> bool:
    """Whether a coverage is nominal as far as its repeats can tell."""
    low, high = cell["binomial_99.9"]
    return bool(low <= GOOD[1] and high >= GOOD[0])


def percent(x: float) -> str:
    """A share in per cent.

    >>> percent(0.9953)
    '99.53 %'
    """
    return f"{100 * x:.2f} %"
