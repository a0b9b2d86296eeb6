"""``inferl resume``: a run goes on where it stopped."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from inferl.cli.options import JSONLines, RequireLower, RequireWidth

__all__ = ["resume"]


def resume(
    run_file: Annotated[Path, typer.Argument(metavar="RUN", help="A run file, written by --checkpoint.")],
    json_lines: JSONLines = False,
    require_lower: RequireLower = None,
    require_width: RequireWidth = None,
    every: Annotated[int | None, typer.Option(min=1, help="Transitions between two writings; as before.")] = None,
    skip_bad: Annotated[int | None, typer.Option(min=0, help="Bad rows to go on over, in all; as before.")] = None,
) -> None:
    """Go on with a run exactly where it stopped: the same bits as if it never had.

    A log is read on from the row where it was left; standard input must be
    piped in again from its beginning. An environment is played again up to
    that step. A run that is complete is reported again.

    [bold]inferl resume night.run[/bold]

    [bold]inferl resume night.run --skip-bad 10 --require-width 0.05[/bold]
    """
    from inferl.cli.building import make_table
    from inferl.cli.evaluate import read_on
    from inferl.cli.following import answer
    from inferl.cli.rollout import play_on
    from inferl.runs import Run

    run = Run.load(run_file)
    changed = {"every": every, "skip_bad": skip_bad}
    run.options |= {name: value for name, value in changed.items() if value is not None}
    facts = {}
    if run.command == "evaluate":
        log = make_table(run.options).resume(run.position)
        if not run.complete:
            read_on(run, log, iter(log), None, run_file, json_lines)
        facts = log.facts()
    elif not run.complete:
        play_on(run, run_file, json_lines)
    answer(run, facts, json_lines, require_lower, require_width)
