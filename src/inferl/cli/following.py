"""Following a run: update it from a source, show the interval meanwhile, save the run file, and answer."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer

from inferl.cli.answering import Answer, check_reply, give
from inferl.cli.building import (
    aimed_at,
    asked_kind,
    check_writable,
    located,
    make_evaluator,
    make_source,
    make_window,
    parsed_start,
    parsed_targets,
)
from inferl.cli.options import Reply, Settings
from inferl.cli.pace import Pace, Task, Ticker
from inferl.data.transitions import Transitions
from inferl.diagnostics import Check, Report
from inferl.display import as_json
from inferl.errors import InputError, SettingError
from inferl.evaluation.log import opened
from inferl.interval import check_level
from inferl.methods.registry import method_named
from inferl.methods.schedule import uninterrupted
from inferl.runs import POLICIES, Run
from inferl.sources import Source

__all__ = ["BASELINES", "INTERRUPTED", "asked", "check_aim", "complete", "decision", "evaluate_source"]

BASELINES = ("pdis", "wpdis", "monte-carlo")
LOOK = Pace(seconds=0.5)  # between two looks at the interval on a terminal
ASKED = 1.02  # whether a run may stop is checked when the data have grown by this factor
INTERRUPTED, TERMINATED = 130, 143  # exit codes, as shells have them: 128 + SIGINT, 128 + SIGTERM


def evaluate_source(command: str, options: dict[str, Any], settings: Settings, reply: Reply) -> None:
    """Evaluate a policy from the source that the options of a command describe, and print the answer."""
    check_level(settings.level)
    check_writable(settings.checkpoint)
    Pace.parsed(settings.every)
    check_aim(settings)
    make_window(options)
    baseline = settings.estimator in BASELINES
    check_reply(reply, 1 if baseline else None, page=not baseline)
    several = [str(options[name]) for name in POLICIES if "," in str(options.get(name, ""))]
    if baseline and several:
        raise SettingError(f"--estimator {settings.estimator} is for one policy; name one, not {several[0]}")
    source = make_source(command, options)
    if baseline:
        return _answer_by_baseline(settings, source, reply)
    if getattr(source, "tabular", None) is False:
        method_named(settings.method).admit_vectors(source.dimension)
    chunks, n_policies = opened(source)
    check_reply(reply, n_policies)
    run = asked(command, options, settings, source, n_policies)
    complete(run, source, chunks, settings.checkpoint, reply)


def check_aim(settings: Settings) -> tuple[Any, str | None]:
    """Return what the value of which is asked, and the kind of the interval; refuse options that do not go together."""
    special = ("checkpoint", "until_width", "until_lower", "kind", "start", "window", "pane")
    others = {name: getattr(settings, name) for name in special}
    aim = aimed_at(settings.estimator, parsed_targets(settings.target), **others)
    kind = asked_kind(settings.kind, settings.until_width, settings.until_lower)
    if kind == "anytime" and settings.window is not None:
        raise SettingError(
            "a window has no anytime interval, which --until-width and --until-lower need too: what it is about moves "
            "on; leave --window out, or these"
        )
    return aim, kind


def asked(command: str, options: dict[str, Any], settings: Settings, source: Source, n_policies: int) -> Run:
    """Return a run without data that asks what the options ask of a source, of which the first rows are read."""
    aim, kind = check_aim(settings)
    at_start = any(isinstance(target, str) for target in (aim if isinstance(aim, tuple) else (aim,)))
    by_starts = at_start and (settings.start is not None or getattr(source, "episodic", True))
    start = parsed_start(settings.start, source)
    evaluator = make_evaluator(options, source.dimension, n_policies, by_starts, start)
    return Run(evaluator, command, options, located(aim, source), settings.level, kind)


def complete(run: Run, source: Source, chunks: Iterable[Transitions], checkpoint: Path | None, reply: Reply) -> None:
    """Update a run until its source ends, and answer; if interrupted, answer with what was read."""
    name = "run" if checkpoint is None else checkpoint.stem
    try:
        with _terminable():
            _follow(run, source, chunks, checkpoint, reply)
    except KeyboardInterrupt as interrupt:
        so_far = Answer.of(run, name)
        typer.echo(as_json(so_far.content(final=False)) if reply.json_lines else so_far.brief)
        kept = ""
        if checkpoint is not None:
            run.save(checkpoint)
            kept = f"; the run so far is in {checkpoint}; continue it with: inferl resume {checkpoint}"
        typer.echo(f"inferl: interrupted after {run.evaluator.n:,} transitions{kept}", err=True)
        raise typer.Exit(TERMINATED if isinstance(interrupt, _Terminated) else INTERRUPTED) from None
    give(Answer.of(run, name), reply)


class _Terminated(KeyboardInterrupt):
    """SIGTERM."""


@contextmanager
def _terminable() -> Iterator[None]:
    """Treat SIGTERM, by which services are stopped, as an interrupt."""

    def terminate(*_: object) -> None:
        raise _Terminated

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    usual = signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, usual)


def _follow(run: Run, source: Source, chunks: Iterable[Transitions], checkpoint: Path | None, reply: Reply) -> None:
    """Update a run with the chunks of a source until they end, or until the run may stop.

    An interrupt waits until a chunk is taken, so that the run and its position belong together.
    """
    stream, decided = iter(chunks), decision(run.options)
    pace = Pace.parsed(run.options["every"])
    with _display(run, reply, pace) as show:
        tasks = [show]
        if checkpoint is not None:
            tasks.append(Task(lambda: run.save(checkpoint), pace))
            tasks[-1].rest(run.evaluator.n)
        with Ticker(lambda: run.evaluator.n, tasks) as ticker:
            stop = False
            while not stop:
                try:
                    with ticker.waiting():
                        chunk = next(stream, None)
                except InputError as error:  # bad data: the rows before them are kept
                    if checkpoint is None or run.evaluator.n == 0:
                        raise
                    run.follow(source)
                    run.save(checkpoint)
                    kept = f"the run so far is in {checkpoint}; continue it with: inferl resume {checkpoint}"
                    raise type(error)(f"{error}; {kept}") from None
                open_end = getattr(source, "open_end", None)
                if checkpoint is not None and open_end is not None and run.before is None:
                    run.keep(source.resume(open_end))  # before the end of the data closes episodes: the data may grow
                if chunk is None:
                    break
                with uninterrupted():
                    for _ in run.taking(chunk, source):
                        if reply.json_lines and run.readings and run.readings[-1].n == run.evaluator.n:
                            show.do(run.evaluator.n)
                        else:
                            show.do_if_due(run.evaluator.n)
                        stop = decided(run)
                        if stop:
                            break
                    else:
                        ticker.check()
    _finish(run, source, checkpoint)


def _finish(run: Run, source: Source, checkpoint: Path | None) -> None:
    run.follow(source)
    run.complete = True
    run.read()
    if checkpoint is not None:
        run.save(checkpoint)


def decision(options: Mapping[str, Any]) -> Callable[[Run], bool]:
    """Return a function that says whether the run may stop; it looks when the data have grown by a little."""
    width, lower = options.get("until_width"), options.get("until_lower")
    due = 0.0

    def decided(run: Run) -> bool:
        nonlocal due
        if (width is None and lower is None) or run.evaluator.n < due:
            return False
        due = ASKED * run.evaluator.n
        return run.is_decided(width, lower)

    return decided


@contextmanager
def _display(run: Run, reply: Reply, pace: Pace) -> Iterator[Task]:
    """Yield the task that shows a run: as a line of JSON, or, on a terminal, in place; else nothing."""
    from rich.console import Console

    console = Console(stderr=True, highlight=False)
    if reply.quiet or not (reply.json_lines or console.is_terminal):
        yield Task(lambda: None, pace)
    elif reply.json_lines:
        lines = Task(lambda: typer.echo(as_json(Answer.of(run).content(final=False))), pace)
        lines.rest(run.evaluator.n)
        yield lines
    else:
        from rich.live import Live
        from rich.text import Text

        with Live(console=console, transient=True, auto_refresh=False) as live:
            begin = time.monotonic()

            def show() -> None:
                rate = f"{run.evaluator.n / max(time.monotonic() - begin, 1e-9):,.0f} a second"
                live.update(Text(f"{Answer.of(run).brief}\n{rate}"))
                live.refresh()

            yield Task(show, LOOK)


def _answer_by_baseline(settings: Settings, source: Source, reply: Reply) -> None:
    """Print the interval of a baseline, which is computed in one go and not saved."""
    from inferl.baselines import monte_carlo, per_decision

    name, level, limit = settings.estimator, settings.level, settings.time_limit
    if name == "monte-carlo":
        interval = monte_carlo(source, level=level, time_limit=limit)
    else:
        interval = per_decision(source, level=level, weighted=name == "wpdis", time_limit=limit)
    facts = {"estimand": interval.estimand, "by": name} | source.describe()
    give(Answer(Report(interval, tuple(map(_failed, interval.notes)), facts)), reply)


def _failed(note: str) -> Check:
    """Return the failed check that a note of an interval is about."""
    name, _, message = note.partition(": ")
    return Check(name, "failed", message)
