"""Small things that the pages of all studies are written with: tables, lines of criteria, provenance."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from inferl.experiments.machinery import Result

__all__ = ["Columns", "count", "criteria_table", "filled", "line", "made_by", "table"]

Columns = dict[str, Callable[[Result], str]]


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
    '12 345'
    """
    return f"{n:,}".replace(",", " ")
