"""What the pages of all experiments have: tables by length, criteria, provenance."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from textwrap import fill
from typing import Any

from studies.markdown import count, share, table, yes
from studies.pages import WIDTH, render
from studies.paper.machinery import Result
from studies.paper.summaries import select
from studies.provenance import machine, software

__all__ = [
    "by_length",
    "coverage",
    "criteria_table",
    "line",
    "made_by",
    "meets",
    "picture",
    "span",
    "table_by",
    "wide",
]

GOOD = (0.93, 0.97)  # what the 99.9 % binomial interval of a nominal coverage has to meet


def line(what: str, wanted: str, found: str, met: bool) -> Result:
    """One thing that had to come out."""
    return {"what": what, "wanted": wanted, "found": found, "met": bool(met)}


def criteria_table(lines: Sequence[Result]) -> str:
    """All things that had to come out, and whether they did."""
    head = ["what", "wanted", "found", "met"]
    return table(head, [[line["what"], line["wanted"], line["found"], yes(line["met"])] for line in lines])


def made_by(content: dict[str, Any]) -> str:
    """Say what made the results."""
    made = content["provenance"]
    repeats = ", ".join(f"{name} {count}" for name, count in content["repeats"].items())
    return render("made_by", made=made, machine=machine(made), software=software(made), repeats=repeats).rstrip()


def picture(name: str, words: str) -> str:
    """A picture of the page with its caption, and the same as vector graphics."""
    path = f"images/reproduction/{name}"
    return f"![{name}]({path}.png)\n\n{fill(f'{words} [SVG]({path}.svg)', WIDTH, break_on_hyphens=False)}"


def span(values: Collection[float], show: Callable[[float], str]) -> str:
    """The least and the largest of some numbers.

    >>> span([0.5, 0.25], "{:.2f}".format), span([0.5, 0.5], "{:.2f}".format)
    ('0.25 to 0.50', '0.50')
    """
    ends = dict.fromkeys(show(f(values)) for f in (min, max))
    return " to ".join(ends)


def by_length(cells: Sequence[Result], methods: Sequence[str], lengths: Sequence[int]) -> str:
    """Coverages with binomial intervals, a row for each method, a column for each length."""
    rows = [{cell["length"]: cell for cell in select(cells, method)} | {"method": method} for method in methods]
    return table_by(rows, ["method"], lengths, coverage)


def table_by(
    rows: Sequence[dict[Any, Any]], names: Sequence[str], lengths: Sequence[int], show: Callable[[Any], str]
) -> str:
    """A table of rows by length: their names, and then a cell for each length that a row has."""
    shown = [[*(row[name] for name in names), *(show(row[n]) if n in row else "-" for n in lengths)] for row in rows]
    return table([*names, *map(count, lengths)], shown)


def coverage(cell: Result) -> str:
    """A coverage in per cent with its binomial 95 % interval."""
    return share(cell["coverage"], cell["binomial_95"]).replace(" %", "")


def wide(cell: Result) -> str:
    """A coverage in per cent with its binomial 99.9 % interval."""
    return share(cell["coverage"], cell["binomial_99.9"])


def meets(cell: Result) -> bool:
    """Whether a coverage is nominal as far as its repeats can tell."""
    low, high = cell["binomial_99.9"]
    return bool(low <= GOOD[1] and high >= GOOD[0])
