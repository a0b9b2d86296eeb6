"""Following a run: update it from a source, show the interval meanwhile, save the run file, check the gates."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from math import ceil, isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from inferl.errors import InputError, SettingError

if TYPE_CHECKING:
    from inferl.cli.options import Settings
    from inferl.data.transitions import Transitions
    from inferl.interval import Interval
    from inferl.runs import Run
    from inferl.sources import Source

__all__ = ["answer", "as_json", "evaluate_source", "follow", "judge"]

BASELINES = ("pdis", "wpdis", "monte-carlo")

LOOK = 0.5  # seconds between two looks at the interval on a terminal, at least
FIRST_READING = 100  # transitions
ASKED = 1.02  # whether a run may stop is checked when the data have grown by this factor
SHARE = 10  # and this many times the cost of a look


def evaluate_source(command: str, options: dict[str, Any], settings: Settings) -> None:
    """Evaluate a policy from the source that the options of a command describe, and print the answer."""
    from inferl.cli.building import aimed_at, asked_kind, check_checkpoint, make_evaluator, make_source, parsed_target
    from inferl.interval import check_level
    from inferl.runs import Run

    check_level(settings.level)
    check_checkpoint(settings.checkpoint)
    special = ("checkpoint", "until_width", "until_lower", "kind", "start")
    others = {name: getattr(settings, name) for name in special}
    aim = aimed_at(settings.estimator, parsed_target(settings.target), **others)
    kind = asked_kind(settings.kind, settings.until_width, settings.until_lower)
    source = make_source(command, options)
    if settings.estimator in BASELINES:
        return _answer_by_baseline(settings, source)
    chunks = iter(source)
    first = next(chunks, None)
    if first is None:
        facts = "; ".join(f"{name}: {fact}" for name, fact in source.describe().items())
        raise SettingError(f"there is no transition ({facts})")
    n_policies = 1 if first.ratios.ndim == 1 else first.ratios.shape[1]
    by_starts = isinstance(aim, str) and (settings.start is not None or getattr(source, "episodic", True))
    evaluator = make_evaluator(options, source.dimension, n_policies, by_starts)
    run = Run(evaluator, command, options, aim, settings.level, kind)
    follow(run, source, chain([first], chunks), settings.checkpoint, settings.json_lines)
    answer(run, settings.json_lines, settings.require_lower, settings.require_width)


def follow(run: Run, source: Source, chunks: Iterable[Transitions], checkpoint: Path | None, json_lines: bool) -> None:
    """Update a run with the chunks of a source until they end, or until the run may stop."""
    saved = run.evaluator.n
    stream, decided = iter(chunks), _decision(run)
    with _display(json_lines) as show:
        while True:
            try:
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
                run.keep(open_end)  # before the end of the data closes episodes: the data may grow
            if chunk is None:
                break
            for part in _parts(run, chunk):
                run.take(part, source)
                show(run)
                if decided():
                    return _finish(run, source, checkpoint)
            if checkpoint is not None and run.evaluator.n - saved >= run.options["every"]:
                run.save(checkpoint)
                saved = run.evaluator.n
    _finish(run, source, checkpoint)


def _finish(run: Run, source: Source, checkpoint: Path | None) -> None:
    run.follow(source)
    run.complete = True
    run.read()
    if checkpoint is not None:
        run.save(checkpoint)


def _decision(run: Run) -> Callable[[], bool]:
    """Return a function that says whether the run may stop; it looks when the data have grown by a little."""
    width, lower = run.options.get("until_width"), run.options.get("until_lower")
    due = 0.0

    def decided() -> bool:
        nonlocal due
        if (width is None and lower is None) or run.evaluator.n < due:
            return False
        due = ASKED * run.evaluator.n
        return run.is_decided(width, lower)

    return decided


def _parts(run: Run, chunk: Transitions) -> Iterator[Transitions]:
    """Cut a chunk where readings are due: logs come in large batches, and a short one would have a single reading."""
    from inferl.runs import SPACING

    start = 0
    while start < len(chunk):
        due = ceil(SPACING * run.readings[-1].n) if run.readings else FIRST_READING
        stop = start + max(due - run.evaluator.n, 1)
        yield chunk[start:stop]
        start = stop


@contextmanager
def _display(json_lines: bool) -> Iterator[Callable[[Run], None]]:
    """Show each new reading as a line of JSON, or, on a terminal, the present interval; else nothing."""
    from rich.console import Console

    console = Console(stderr=True, highlight=False)
    if json_lines:
        yield _line
    elif not console.is_terminal:
        yield lambda run: None
    else:
        from rich.live import Live
        from rich.text import Text

        with Live(console=console, transient=True, auto_refresh=False) as live:
            begin = due = time.monotonic()

            def show(run: Run) -> None:
                nonlocal due
                now = time.monotonic()
                if now < due:
                    return
                n = run.evaluator.n
                rate = f"{n / max(now - begin, 1e-9):,.0f} a second"
                interval = run.interval()
                live.update(Text(f"{interval}\n{rate}"))
                live.refresh()
                due = time.monotonic() + max(LOOK, SHARE * (time.monotonic() - now))

            yield show


def _line(run: Run) -> None:
    """Print the latest reading, if it is of the present data."""
    if run.readings and run.readings[-1].n == run.evaluator.n:
        typer.echo(as_json(run.interval().to_dict()))


def answer(run: Run, json_lines: bool, lower: float | None, width: float | None) -> None:
    """Print the report; exit with code 1 if a gate is not met."""
    report, differences = run.report(), run.differences()
    if json_lines:
        content = {"final": True, **report.to_dict()}
        if differences is not None:
            content["differences"] = differences.to_dict()
        typer.echo(as_json(content))
    else:
        typer.echo(str(report))
        if differences is not None:
            typer.echo("each policy minus the first, from the same data")
            typer.echo(str(differences))
    judge(report.interval, lower, width)


def _answer_by_baseline(settings: Settings, source: Source) -> None:
    """Print the interval of a baseline, which is computed in one go and not saved."""
    from inferl.baselines import monte_carlo, per_decision

    name, level, limit = settings.estimator, settings.level, settings.time_limit
    if name == "monte-carlo":
        interval = monte_carlo(source, level=level, time_limit=limit)
    else:
        interval = per_decision(source, level=level, weighted=name == "wpdis", time_limit=limit)
    if settings.json_lines:
        typer.echo(as_json({"final": True, "interval": interval.to_dict()}))
    else:
        typer.echo(f"{interval}\n  estimand  {interval.estimand}\n  by        {name}")
    judge(interval, settings.require_lower, settings.require_width)


def as_json(content: Any) -> str:
    """Return one line of JSON, with null for infinity and NaN.

    >>> as_json({"df": float("inf")})
    '{"df": null}'
    """
    return json.dumps(_finite(content), allow_nan=False)


def _finite(content: Any) -> Any:
    if isinstance(content, dict):
        return {name: _finite(value) for name, value in content.items()}
    if isinstance(content, list | tuple):
        return [_finite(value) for value in content]
    return None if isinstance(content, float) and not isfinite(content) else content


def judge(interval: Interval, lower: float | None, width: float | None) -> None:
    """Exit with code 1, and say why, if a gate is not met; an interval with a failed check meets none."""
    import numpy as np

    missed = []
    if lower is not None and not np.all(np.asarray(interval.lower) >= lower):
        missed.append(f"the lower bound {np.min(interval.lower):.6g} is below {lower:g}")
    if width is not None and not np.all(np.asarray(interval.width) <= width):
        missed.append(f"the width {np.max(interval.width):.6g} is above {width:g}")
    if lower is not None or width is not None:
        missed += [f"a check failed, {note}" for note in interval.notes]
    if missed:
        typer.echo(f"gate not met: {'; '.join(missed)}", err=True)
        raise typer.Exit(1)
