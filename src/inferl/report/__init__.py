"""The report page: one or several runs as a single HTML file without dependencies, for screen, phone or print.

Begin with `page`, below. `contents.py` collects what the page shows of a run, `text.py` the questions behind the checks
and the verdict, `charts.py` the coordinates of the charts; `templates/` holds the page and its style sheet.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from inferl.errors import MissingExtraError, SettingError
from inferl.report.contents import Shown, apart, over_time
from inferl.runs import Run

__all__ = ["page"]

MOST = 5  # runs on a page: the number of colours


def page(runs: Mapping[str, Run], facts: Mapping[str, Mapping[str, Any]] | None = None) -> str:
    """Render a page about one run, or about several side by side.

    Parameters
    ----------
    runs
        Runs by the name under which the page shows them.
    facts
        Further facts about their sources, by the same names.

    Examples
    --------
    >>> import numpy as np
    >>> from inferl import TD, Evaluator, Transitions
    >>> coin = np.random.default_rng(1).integers(2, size=2000)
    >>> run = Run(Evaluator(TD(1)), target=0)
    >>> run.take(Transitions(0 * coin, coin, 0 * coin, 0.9))
    >>> html = page({"coin": run})
    >>> "5.07" in html, "[4.84, 5.30]" in html
    (True, True)
    """
    try:
        import jinja2
    except ImportError:
        raise MissingExtraError("jinja2", "report") from None
    if not 0 < len(runs) <= MOST:
        raise SettingError(f"there are {len(runs)} runs; a page shows 1 to {MOST}")
    shown: list[Shown] = []
    for name, run in runs.items():
        used = sum(len(one.answers) for one in shown)
        shown.append(Shown.of(name, run, (facts or {}).get(name, {}), len(runs) > 1, used))
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("page.html").render(
        runs=shown, apart=apart(shown), over_time=over_time(shown), version=version("inferl")
    )
