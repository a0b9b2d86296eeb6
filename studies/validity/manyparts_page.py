"""The part of docs/validity.md on many streams and merged parts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from studies.markdown import count, percent, share, table_of, yes
from studies.validity.trust_page import Cell, made

WORDS = """\
## Many streams, and parts that were merged

About 16,000 steps in 1, 8, 64 or 512 independent streams that begin in equilibrium: as *streams* of one evaluator,
their steps in turn, and as an evaluator each, *merged*. From 250 relaxation times on (of all streams together) the
interval has to hold: the 99.9 % binomial interval of its coverage must meet 93 to 97 %. Below, it has to hold, or a
check has to fire in 90 % of the misses. {met} of {cells} cells do. *Width* is the median over that of the interval with
the scatter of the runs. Streams that begin in equilibrium know more than one that must get around, so in the same
number of steps short ones have the narrower intervals.
"""

FAILING = """\
Not met: {failing}.
"""


def sections(content: dict[str, Any]) -> Iterable[str]:
    """Words, and a line for each problem and number of streams."""
    cells: list[Cell] = content["cells"]
    yield WORDS.format(met=sum(cell["met"] for cell in cells), cells=len(cells))
    yield table_of(
        cells,
        {
            "problem": lambda c: c["problem"],
            "streams": lambda c: f"{c['streams']} x {count(c['steps'])}",
            "method": lambda c: c["way"],
            "relaxation times": lambda c: f"{c['relaxation_times']:.0f}",
            "covered": held,
            "width": lambda c: f"{c['width']:.2f}",
            "a check fired": lambda c: percent(c["fired"]),
            "in misses": lambda c: percent(c["told"]),
            "met": lambda c: yes(c["met"]),
        },
    )
    failing = [f"{c['problem']}, {c['streams']} {c['way']}" for c in cells if not c["met"]]
    if failing:
        yield FAILING.format(failing="; ".join(failing))
    yield f"{cells[0]['runs']} runs a cell; {made(content)}\n"


def held(cell: Cell) -> str:
    """Coverage with its 99.9 % binomial interval."""
    return share(cell["held"] / cell["runs"], cell["binomial_99.9"])
