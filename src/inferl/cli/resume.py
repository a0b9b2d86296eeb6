"""``inferl resume``: a run goes on where it stopped."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_type_hints

import typer

from inferl.cli.evaluate import MOMENTARY, evaluate
from inferl.cli.options import JSONLines, RequireLower, RequireWidth
from inferl.cli.rollout import rollout
from inferl.errors import CheckpointCorruptError, SettingError

if TYPE_CHECKING:
    from inferl.runs import Run

__all__ = ["check_options", "resume"]


def resume(
    run_file: Annotated[Path, typer.Argument(metavar="RUN", help="A run file, written by --checkpoint.")],
    json_lines: JSONLines = False,
    require_lower: RequireLower = None,
    require_width: RequireWidth = None,
    every: Annotated[int | None, typer.Option(min=1, help="Transitions between two writings; as before.")] = None,
    skip_bad: Annotated[int | None, typer.Option(min=0, help="Bad rows to go on over, in all; as before.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Run the code that the run file names, without asking.")] = False,
) -> None:
    """Go on with a run exactly where it stopped: the same bits as if it never had.

    A log is read on from the row where it was left, if the rows before are
    those that were read; standard input must be piped in again from its
    beginning. An environment is played again up to that step. A run that is
    complete is reported again, after rows that were appended to its log.

    [bold]inferl resume night.run[/bold]

    [bold]inferl resume night.run --skip-bad 10 --require-width 0.05[/bold]
    """
    from inferl.cli.building import make_table
    from inferl.cli.evaluate import read_on
    from inferl.cli.following import answer
    from inferl.cli.rollout import play_on
    from inferl.runs import Run

    run = Run.load(run_file)
    check_options(run, run_file)
    if run.before is not None and run.command == "evaluate" and Path(run.options["file"]).exists():
        run = Run.restored(run.before, run_file)
        check_options(run, run_file)
    changed = {"every": every, "skip_bad": skip_bad}
    run.options |= {name: value for name, value in changed.items() if value is not None}
    facts = {}
    if run.command == "evaluate":
        log = make_table(run.options).resume(run.position)
        if not run.complete:
            read_on(run, log, iter(log), None, run_file, json_lines)
        facts = log.facts()
    elif not run.complete:
        _ask(_code(run), run_file, yes)
        play_on(run, run_file, json_lines)
    answer(run, facts, json_lines, require_lower, require_width)


def check_options(run: Run, run_file: Path) -> None:
    """Refuse options that the command cannot have had."""
    from inferl.sources.logs.table import Progress
    from inferl.storage.checkpoint import fits

    commands: dict[str, Callable[..., None]] = {"evaluate": evaluate, "rollout": rollout}
    command = commands.get(run.command)
    if command is None:
        raise SettingError(f"{run_file} was not made by inferl evaluate or inferl rollout, so it cannot be resumed")
    kinds, parameters = get_type_hints(command), inspect.signature(command).parameters
    needed = {name for name, of in parameters.items() if of.default is not None} - {"ctx", *MOMENTARY}
    wrong = [name for name, value in run.options.items() if name not in kinds or not fits(value, kinds[name])]
    wrong += sorted(needed - run.options.keys())
    if run.command == "evaluate" and not isinstance(run.position, Progress):
        wrong.append("position")
    if wrong:
        raise CheckpointCorruptError(f"{run_file} has options that inferl {run.command} does not: {', '.join(wrong)}")


def _code(run: Run) -> list[str]:
    """Return what would be imported: policy, features, and the environment where its id names a module."""
    return [run.options[name] for name in ("policy", "features", "env") if ":" in run.options.get(name, "")]


def _ask(code: list[str], run_file: Path, yes: bool) -> None:
    """Say which code a run file names, and ask whether it may run."""
    if not code or yes:
        return
    said = f"{run_file} names code to be run: {', '.join(code)} (from {os.getcwd()} or an installed package)"
    if not _at_terminal():
        raise SettingError(f"{said}. Look at it, and if you trust it: inferl resume {run_file} --yes")
    if not typer.confirm(f"{said}. Run it?"):
        raise SettingError("not resumed; nothing was run")


def _at_terminal() -> bool:
    return sys.stdin.isatty()
