"""``inferl resume``: continue a run where it stopped."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_type_hints

import typer

from inferl.cli.evaluate import evaluate
from inferl.cli.options import MOMENTARY, PolicyReply, expanded
from inferl.cli.rollout import rollout
from inferl.errors import CheckpointCorruptError, SettingError

if TYPE_CHECKING:
    from inferl.runs import Run

__all__ = ["Every", "Yes", "before_its_end", "check_options", "go_on", "loaded", "resume"]

Every = Annotated[
    str | None,
    typer.Option(
        help="How often to print a reading and to save, as for inferl evaluate; default: as before.", metavar="TIME|N"
    ),
]
Yes = Annotated[bool, typer.Option("--yes", help="Run the code named in the run file, without asking.")]


@expanded
def resume(
    run_file: Annotated[Path, typer.Argument(metavar="RUN", help="A run file, written by --checkpoint.")],
    *,
    every: Every = None,
    skip_bad: Annotated[
        int | None, typer.Option(min=0, help="Skip at most this many bad rows in all; default: as before.")
    ] = None,
    yes: Yes = False,
    reply: PolicyReply,
) -> None:
    """Continue a run where it stopped, bit for bit as if it had not stopped.

    A log is read from the row where the run stopped, if the rows before it
    have not changed; pipe in standard input again from its beginning. In an
    environment, the episode that was open is played again up to that step. A
    complete run is reported again, after reading the rows appended to its
    log, if any. For rows in new files, see inferl update.

    [bold]inferl resume night.run[/bold]

    [bold]inferl resume night.run --skip-bad 10 --require-width 0.05[/bold]
    """
    from inferl.sources.logs.inputs.opening import exists

    run = loaded(run_file)
    if run.before is not None and exists(run.options.get("file", ())):
        run = before_its_end(run, run_file)
    changed = {"every": every, "skip_bad": skip_bad}
    run.options |= {name: value for name, value in changed.items() if value is not None}
    go_on(run, run_file, yes, reply)


def loaded(run_file: Path) -> Run:
    """Read a run file of a command."""
    from inferl.runs import Run

    run = Run.load(run_file)
    check_options(run, run_file)
    return run


def before_its_end(run: Run, run_file: Path) -> Run:
    """Return the run before the end of its log was taken for the end of its last episodes."""
    from inferl.runs import Run

    assert run.before is not None
    run = Run.restored(run.before, run_file)
    check_options(run, run_file)
    return run


def go_on(run: Run, run_file: Path, yes: bool, reply: PolicyReply) -> None:
    """Continue a run from its position, unless it is complete, and answer."""
    from inferl.cli.answering import Answer, check_reply, give
    from inferl.cli.building import make_source
    from inferl.cli.following import complete

    check_reply(reply, max(len(run.policies), 1))
    if run.complete:
        return give(Answer.of(run, run_file.stem), reply)
    _ask(_code(run), run_file, yes)
    source = make_source(run.command, run.options).resume(run.position)
    complete(run, source, source, run_file, reply)


def check_options(run: Run, run_file: Path) -> None:
    """Refuse options that the command does not have."""
    from inferl.storage.checkpoint import fits

    commands: dict[str, Callable[..., None]] = {"evaluate": evaluate, "rollout": rollout}
    command = commands.get(run.command)
    if command is None:
        raise SettingError(f"{run_file} was not made by inferl evaluate or inferl rollout, so it cannot be resumed")
    kinds, parameters = get_type_hints(command), inspect.signature(command).parameters
    needed = {name for name, of in parameters.items() if of.default is not None} - {"ctx", *MOMENTARY}
    wrong = [name for name, value in run.options.items() if name not in kinds or not fits(value, kinds[name])]
    wrong += sorted(needed - run.options.keys())
    if wrong:
        raise CheckpointCorruptError(
            f"{run_file} has options that inferl {run.command} does not: {', '.join(map(repr, wrong))}"
        )


def _code(run: Run) -> list[str]:
    """Return what a run would import: feature map and policies of a log; policy, features and world of a rollout."""
    from inferl.cli.building import code_in, map_in
    from inferl.features.named import is_name

    if run.command == "evaluate":
        return [*map_in(run.options), *code_in(run.options.get("policy", ""))]
    named = [run.options.get(name, "") for name in ("policy", "features", "env")]
    return [text for text in named if ":" in text and not is_name(text)]


def _ask(code: list[str], run_file: Path, yes: bool) -> None:
    """Ask whether the code that a run file names may run."""
    if not code or yes:
        return
    said = f"{run_file} names code to be run: {', '.join(code)} (from {os.getcwd()} or an installed package)"
    if not _at_terminal():
        raise SettingError(f"{said}. Check it, and if you trust it: inferl resume {run_file} --yes")
    if not typer.confirm(f"{said}. Run it?"):
        raise SettingError("not resumed; no code was run")


def _at_terminal() -> bool:
    return sys.stdin.isatty()
