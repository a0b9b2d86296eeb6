"""``inferl compare``: compare two independent runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from inferl.cli.options import JSONLines, Level, RequireLower, RequireWidth

__all__ = ["compare"]


def compare(
    first: Annotated[Path, typer.Argument(metavar="A", help="A run file.")],
    second: Annotated[Path, typer.Argument(metavar="B", help="Another run file, from independent data.")],
    level: Level = 0.95,
    json_lines: JSONLines = False,
    require_lower: RequireLower = None,
    require_width: RequireWidth = None,
) -> None:
    """Compare two independent runs: the value of A minus that of B.

    The standard error is sqrt(s1^2 + s2^2), with Welch's degrees of freedom.
    Two policies on one log are not independent: evaluate them together, with
    inferl evaluate --ratio a,b.

    [bold]inferl compare new.run old.run --require-lower 0[/bold]
    """
    from inferl.cli.following import as_json, judge
    from inferl.comparison import verdict
    from inferl.interval import check_level
    from inferl.runs import Run, difference

    check_level(level)
    runs = Run.load(first), Run.load(second)
    found = difference(*runs, level)
    if json_lines:
        typer.echo(as_json({**found.to_dict(), "df": found.df}))
    else:
        for path, run in zip((first, second), runs, strict=True):
            typer.echo(f"{path}: {str(run.interval(level=level)).splitlines()[0]}")
        digits = f"{found.estimate:.4g} [{found.lower:.4g}, {found.upper:.4g}]"
        typer.echo(f"difference {digits} at {level * 100:g}%: {verdict(found)}")
        typer.echo(
            f"(for independent runs: standard error sqrt(s1^2 + s2^2) = {found.standard_error:.3g}, "
            f"{found.df:.4g} degrees of freedom after Welch)"
        )
        for note in found.notes:
            typer.echo(f"note: {note}")
    judge(found, require_lower, require_width)
