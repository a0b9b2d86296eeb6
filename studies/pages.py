"""Pages from templates: the prose is in ``templates/*.md.j2``; numbers and tables are passed in."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import fill
from typing import Any

from inferl.errors import DataError, MissingExtraError

__all__ = ["WIDTH", "render", "replaced"]

TEMPLATES = Path(__file__).parent / "templates"
WIDTH = 120


def render(name: str, **facts: Any) -> str:
    """Fill in the template of this name; a fact that is missing is an error.

    Between ``{% filter points %}`` and ``{% endfilter %}`` the lines of lists are broken anew, as numbers have made
    them longer.
    """
    try:
        import jinja2
    except ImportError:
        raise MissingExtraError("jinja2", "report") from None
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["points"] = _points
    return environment.get_template(f"{name}.md.j2").render(facts)


def _points(text: str) -> str:
    r"""Break the lines of the points of a list.

    >>> print(_points("One:\n\n- a\n  b\n"), end="")
    One:
    <BLANKLINE>
    - a b
    """

    def filled(point: re.Match[str]) -> str:
        return fill(" ".join(point[0].split()), WIDTH, subsequent_indent="  ", break_on_hyphens=False)

    return re.sub(r"^- .*(\n  .*)*", filled, text, flags=re.MULTILINE)


def replaced(text: str, begin: str, end: str, block: str) -> str:
    r"""A text with another block between two marks; what is around them stays.

    >>> replaced("a <!-- b --> old <!-- e --> c", "<!-- b -->", "<!-- e -->", "new")
    'a <!-- b -->\n\nnew\n\n<!-- e --> c'
    """
    before, first, rest = text.partition(begin)
    _, last, after = rest.partition(end)
    if not first or not last:
        raise DataError(f"there is no place for the results: lines {begin!r} and {end!r}")
    return f"{before}{begin}\n\n{block.strip()}\n\n{end}{after}"
