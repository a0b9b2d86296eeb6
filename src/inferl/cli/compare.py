"""``inferl compare``: compare two independent runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from inferl.cli.options import Level, Reply, expanded

__all__ = ["compare"]


@expanded
def compare(
    first: Annotated[Path, typer.Argument(metavar="A", help="A run file.")],
    second: Annotated[Path, typer.Argument(metavar="B", help="Another run file, from independent data.")],
    *,
    level: Level = 0.95,
    reply: Reply,
) -> None:
    """Compare two independent runs: the value of A minus that of B.

    The standard error is sqrt(s1^2 + s2^2), with Welch's degrees of freedom.
    Two policies on one log are not independent: evaluate them together, with
    inferl evaluate --ratio a,b.

    [bold]inferl compare new.run old.run --require-lower 0[/bold]
    """
    from inferl.cli.answering import Answer, check_reply, give
    from inferl.comparison import verdict
    from inferl.diagnostics import Report
    from inferl.interval import check_level
    from inferl.runs import Run, difference

    check_level(level)
    check_reply(reply, policies=1)
    runs = Run.load(first), Run.load(second)
    found = difference(*runs, level)
    digits = f"{found.estimate:.4g} [{found.lower:.4g}, {found.upper:.4g}]"
    text = [
        f"{path}: {str(run.interval(level=level)).splitlines()[0]}"
        for path, run in zip((first, second), runs, strict=True)
    ]
    text += [f"difference {digits} at {level * 100:g}%: {verdict(found)}"]
    text += [
        f"(for independent runs: standard error sqrt(s1^2 + s2^2) = {found.standard_error:.3g}, "
        f"{found.df:.4g} degrees of freedom after Welch)"
    ]
    text += [f"note: {note}" for note in found.notes]
    facts = {"estimand": found.estimand, "for": f"{first} minus {second}", "verdict": verdict(found)}
    pages = dict(zip((str(first), str(second)), runs, strict=True))
    give(Answer(Report(found, (), facts), runs=pages), reply, "\n".join(text))
