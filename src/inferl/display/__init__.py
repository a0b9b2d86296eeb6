"""Display: HTML fragments that a notebook shows for an object, made by its `_repr_html_`; and JSON.

A notebook has a theme of its own, light or dark, which no style sheet of ours can ask for. So text takes the colour
and the font that it finds, and the few colours of ours are readable on both. Styles stand in the elements, because
notebooks are shown in places that remove style sheets. All text is escaped.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from html import escape
from math import isfinite
from typing import Any, Protocol

import numpy as np

from inferl.interval import Interval, brief

__all__ = ["as_json", "block", "checks", "facts", "finite", "headline", "intervals", "notes", "paragraph", "titled"]

_MUTED = "opacity:.7"
_MARKS = {"passed": ("✓", "#00915f"), "failed": ("✕", "#d35400"), "not available": ("?", "#a87400")}
_BAR = "#2b8cc4"
_CELL = "text-align:left;vertical-align:top;padding:.15em 1em .15em 0;background:none;border:0"
_WIDTH = 160  # of a bar, in pixels


def as_json(content: Any, indent: int | None = None) -> str:
    """Return JSON in one line, or indented, with null for infinity and NaN.

    >>> as_json({"df": float("inf")})
    '{"df": null}'
    """
    return json.dumps(finite(content), allow_nan=False, indent=indent)


def finite(content: Any) -> Any:
    """Replace infinity and NaN, which JSON does not have, by None in dicts and lists.

    >>> finite({"df": [float("inf"), 3.0]})
    {'df': [None, 3.0]}
    """
    if isinstance(content, dict):
        return {name: finite(value) for name, value in content.items()}
    if isinstance(content, list | tuple):
        return [finite(value) for value in content]
    return None if isinstance(content, float) and not isfinite(content) else content


def block(*parts: str) -> str:
    """Join fragments into one, as wide as text should be.

    >>> block("<p>a</p>", "", "<p>b</p>")
    '<div style="max-width:60em;line-height:1.45"><p>a</p><p>b</p></div>'
    """
    return f'<div style="max-width:60em;line-height:1.45">{"".join(parts)}</div>'


def headline(interval: Interval) -> str:
    """Show an interval: large numbers, and what they estimate; a table for several targets.

    >>> html = headline(Interval(0.412, 0.398, 0.426, 0.95, "normal", 0.007, 43210, estimand="the value of <start>"))
    >>> "[0.398, 0.426]" in html, "&lt;start&gt;" in html
    (True, True)
    """
    if np.ndim(interval.estimate) == 0:
        shown = titled("", brief(interval.estimate, interval.lower, interval.upper), interval.scope)
    else:
        named = {str(i): one for i, one in enumerate(interval)}
        shown = intervals(named) + f'<div style="{_MUTED}">{escape(interval.scope)}</div>'
    about = f'<div style="{_MUTED}">{escape(interval.estimand)}</div>' if interval.estimand else ""
    return shown + about


def titled(about: str, numbers: str, scope: str) -> str:
    """Show an interval that was formatted before: what it is about, large numbers, and what they rest on.

    >>> titled("CartPole-v1: mean return", "387 [362, 411]", "95%, 100 episodes").count("387")
    1
    """
    estimate, _, bounds = numbers.partition(" ")
    return (f"<div>{escape(about)}</div>" if about else "") + (
        f'<div><b style="font-size:1.5em">{escape(estimate)}</b> '
        f'<span style="font-size:1.15em">{escape(bounds)}</span> '
        f'<span style="{_MUTED}">{escape(scope)}</span></div>'
    )


def paragraph(text: str) -> str:
    """Show a line of text.

    >>> paragraph("a < b")
    '<div>a &lt; b</div>'
    """
    return f"<div>{escape(text)}</div>"


def notes(failed: Iterable[str]) -> str:
    """Show notes: each is a check that failed.

    >>> notes(["ratios: few carry all"]).count("✕")
    1
    """
    return "".join(f"<div>{_mark('failed')} {escape(note)}</div>" for note in failed)


def intervals(named: Mapping[str, Interval], reference: float | None = None) -> str:
    """Show intervals of one number each as rows of a table, with bars on a common scale.

    Parameters
    ----------
    named
        The intervals, by name.
    reference
        A number to mark on the scale, such as 0 for differences.

    Examples
    --------
    >>> one = Interval(1.0, 0.5, 1.5, 0.95, "normal", 0.25, 100)
    >>> intervals({"new": one, "old": one}, reference=0.0).count("<svg")
    2
    """
    bounds = [x for one in named.values() for x in (one.estimate, one.lower, one.upper)]
    seen = [float(x) for x in (*bounds, *(() if reference is None else (reference,))) if np.isfinite(x)]
    low, high = (min(seen), max(seen)) if seen else (0.0, 1.0)
    rows = []
    for name, one in named.items():
        estimate, _, limits = brief(one.estimate, one.lower, one.upper).partition(" ")
        cells = (escape(name), f"<b>{escape(estimate)}</b>", escape(limits), _bar(one, low, high, reference))
        mark = f" {_mark('failed')}" if one.notes else ""
        rows.append("".join(f'<td style="{_CELL}">{cell}</td>' for cell in (cells[0] + mark, *cells[1:])))
    return _table(rows)


class Checked(Protocol):
    """What is shown of a check."""

    @property
    def status(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def message(self) -> str: ...
    @property
    def remedy(self) -> str: ...


def checks(made: Iterable[Checked]) -> str:
    """Show checks; those that did not pass come first, and stay open.

    >>> from inferl.diagnostics import Check
    >>> found = [Check("range", "passed", "fine"), Check("ratios", "failed", "few carry all", remedy="collect more")]
    >>> html = checks(found)
    >>> html.index("ratios") < html.index("range"), "What to do: collect more" in html
    (True, True)
    """
    doubtful: list[str] = []
    fine: list[str] = []
    for check in made:
        todo = f'<div style="{_MUTED}">What to do: {escape(check.remedy)}</div>' if check.remedy else ""
        cells = (_mark(check.status), f"<b>{escape(check.name)}</b>", escape(check.message) + todo)
        row = "".join(f'<td style="{_CELL}">{cell}</td>' for cell in cells)
        (fine if check.status == "passed" else doubtful).append(row)
    return _table(doubtful) + (_folded(f"{len(fine)} checks passed", _table(fine)) if fine else "")


def facts(about: Mapping[str, Any]) -> str:
    """Show facts by name, folded away.

    >>> "<td" in facts({"method": "LeastSquares"}), facts({})
    (True, '')
    """
    rows = [
        f'<td style="{_CELL};{_MUTED}">{escape(str(name))}</td><td style="{_CELL}">{escape(str(value))}</td>'
        for name, value in about.items()
    ]
    return _folded("data and method", _table(rows)) if rows else ""


def _table(rows: Iterable[str]) -> str:
    inner = "".join(f'<tr style="background:none">{row}</tr>' for row in rows)
    return f'<table style="border:0;margin:.3em 0;border-collapse:collapse">{inner}</table>' if inner else ""


def _folded(summary: str, inner: str) -> str:
    return f'<details><summary style="cursor:pointer;{_MUTED}">{escape(summary)}</summary>{inner}</details>'


def _mark(status: str) -> str:
    sign, colour = _MARKS[status]
    return f'<span style="color:{colour};font-weight:700" title="{status}">{sign}</span>'


def _bar(one: Interval, low: float, high: float, reference: float | None) -> str:
    """Draw an interval between two ends of a scale; bounds that are not finite reach beyond it."""

    def at(value: float) -> float:
        share = (value - low) / (high - low) if high > low else 0.5
        return round(4 + (_WIDTH - 8) * float(np.clip(share, -0.1, 1.1)), 1)

    drawn = ""
    if reference is not None:
        x = at(reference)
        drawn += f'<line x1="{x}" x2="{x}" y1="0" y2="16" stroke="currentColor" stroke-opacity=".5"/>'
    if not (np.isnan(one.lower) or np.isnan(one.upper)):
        drawn += f'<line x1="{at(one.lower)}" x2="{at(one.upper)}" y1="8" y2="8" stroke="{_BAR}" stroke-width="3"/>'
    if np.isfinite(one.estimate):
        drawn += f'<circle cx="{at(one.estimate)}" cy="8" r="4" fill="{_BAR}"/>'
    return f'<svg width="{_WIDTH}" height="16" role="presentation" style="vertical-align:middle">{drawn}</svg>'
