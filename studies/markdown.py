"""Markdown tables, and the numbers in them as all pages write them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

__all__ = ["Columns", "count", "listed", "percent", "share", "table", "table_of", "yes"]

Columns = Mapping[str, Callable[[Any], str]]  # heads, and what stands in a row

# Columns of words; all others hold numbers.
TEXT = (
    *("data and method", "variance_ess", "features", "interval", "met", "method", "problem", "rule"),
    *("series", "sizes", "target", "wanted", "what"),
)


def table(head: Sequence[str], rows: Iterable[Iterable[str]], text: Collection[str] = TEXT) -> str:
    """A table; columns of `text` are aligned to the left, others to the right.

    >>> print(table(["method", "covered"], [["least squares", "95.1 %"]]))
    | method | covered |
    | --- | ---: |
    | least squares | 95.1 % |
    """
    rule = ["---" if name in text else "---:" for name in head]
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, rule, *rows])


def table_of(cells: Iterable[Any], columns: Columns) -> str:
    """A table with a row for each cell.

    >>> print(table_of([{"n": 1000}, {"n": 2000}], {"steps": lambda cell: count(cell["n"])}))
    | steps |
    | ---: |
    | 1,000 |
    | 2,000 |
    """
    return table(list(columns), ([show(cell) for show in columns.values()] for cell in cells))


def count(n: int) -> str:
    """A whole number with groups of thousands.

    >>> count(12345)
    '12,345'
    """
    return f"{n:,}"


def percent(x: float | None, digits: int = 1) -> str:
    """A share in per cent; None: not known.

    >>> percent(0.9953), percent(0.9953, 2), percent(None)
    ('99.5 %', '99.53 %', '-')
    """
    return "-" if x is None else f"{100 * x:.{digits}f} %"


def share(x: float, bounds: Sequence[float]) -> str:
    """A share in per cent with its interval.

    >>> share(0.95, (0.925, 0.97))
    '95.0 % [92.5, 97.0]'
    """
    low, high = bounds
    return f"{percent(x)} [{100 * low:.1f}, {100 * high:.1f}]"


def yes(met: bool) -> str:
    """Whether a criterion is met.

    >>> yes(True), yes(False)
    ('yes', '**no**')
    """
    return "yes" if met else "**no**"


def listed(words: Sequence[str]) -> str:
    """An enumeration.

    >>> listed(["10", "50", "200"]), listed(["10"])
    ('10, 50 and 200', '10')
    """
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
