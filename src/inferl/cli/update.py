"""``inferl update``: continue a run with the next files of its log."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from inferl.cli.options import PolicyReply, expanded
from inferl.cli.resume import Every, Yes, before_its_end, go_on, loaded
from inferl.errors import SettingError

__all__ = ["update"]


@expanded
def update(
    run_file: Annotated[Path, typer.Argument(metavar="RUN", help="A run file, written by inferl evaluate.")],
    files: Annotated[
        list[str], typer.Argument(metavar="NEW...", help="Files that continue the log, with the same columns.")
    ],
    *,
    every: Every = None,
    yes: Yes = False,
    reply: PolicyReply,
) -> None:
    """Continue a run with new files, bit for bit as if they had been there at once.

    The new files are read after those that the run has read; episodes may go
    on across the border. A log that was changed since is refused. Rows that
    were appended to the old files are read, too, before the new ones.

    [bold]inferl evaluate monday.parquet --features hr,bp --checkpoint week.run[/bold]

    [bold]inferl update week.run tuesday.parquet wednesday.parquet[/bold]
    """
    from inferl.cli.building import absolute
    from inferl.cli.pace import Pace

    run = loaded(run_file)
    known, new = run.options.get("file", ()), tuple(map(absolute, files))
    if run.command != "evaluate" or "-" in (*known, *new):
        raise SettingError(f"{run_file} cannot be updated: only a run of inferl evaluate on files can")
    twice = [file for i, file in enumerate(new) if file in (*known, *new[:i])]
    if twice:
        raise SettingError(f"{run_file} has {twice[0]} already; rows appended to it are read by: inferl resume")
    if run.before is not None:
        run = before_its_end(run, run_file)
    elif run.complete:
        raise SettingError(
            f"{run_file} was merged, or stopped before the end of its log (--until-...), so no file comes next; "
            "evaluate the new files by themselves, and join both runs: inferl merge"
        )
    run.options |= {"file": (*known, *new)} | ({} if every is None else {"every": every})
    Pace.parsed(run.options["every"])
    go_on(run, run_file, yes, reply)
