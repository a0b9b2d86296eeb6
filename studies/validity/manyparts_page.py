"""The part of docs/validity.md on many streams and merged parts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from studies.markdown import count, percent, share, table_of, yes
from studies.validity.trust_page import Cell, made

WORDS = """\
## Many streams, and merged parts

About 16,000 steps in 1, 8, 64 or 512 independent streams that start in the stationary distribution: as *streams* of one
evaluator, with interleaved steps, and with a separate evaluator for each, *merged*. With 250 relaxation times or more
(of all streams together) the interval must cover: the 99.9 % binomial interval of its coverage must meet 93 to 97 %.
With fewer, it must cover, or a check must fail in 90 % of the misses. {met} of {cells} cells meet this. *Width* is the
median width relative to the interval with the standard deviation of the estimates over the runs. Short streams that
start in the stationary distribution explore more than one long stream, so with the same number of steps their intervals
are narrower.
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
            "a check failed": lambda c: percent(c["fired"]),
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
