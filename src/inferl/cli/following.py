"""Following a run: data go in, the interval is shown while they do, the run file is kept, gates are judged."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from math import ceil, isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from inferl.errors import InputError

if TYPE_CHECKING:
    from inferl.data.transitions import Transitions
    from inferl.interval import Interval
    from inferl.runs import Run

__all__ = ["BASELINES", "answer", "answer_by_baseline", "as_json", "follow", "judge"]

BASELINES = ("pdis", "wpdis", "monte-carlo")

LOOK = 0.5  # seconds between two looks at the interval on a terminal, at least
FIRST_READING = 100  # transitions
ASKED = 1.02  # whether a run may stop is asked when the data have grown by this factor
SHARE = 10  # and this many times what a look costs


def follow(
    run: Run,
    chunks: Iterable[Transitions],
    where: Callable[[], tuple[Any, Any]],
    checkpoint: Path | None,
    json_lines: bool,
) -> None:
    """Take in all chunks; `where` says where the source stands: its position, and the starts observed."""
    saved = run.evaluator.n
    stream, answered = iter(chunks), _question(run)
    with _display(json_lines) as show:
        while True:
            try:
                chunk = next(stream, None)
            except InputError as error:  # bad data: what came before them is kept
                if checkpoint is None or run.evaluator.n == 0:
                    raise
                run.move(*where())
                run.save(checkpoint)
                kept = f"what came before is in {checkpoint}, and goes on with: inferl resume {checkpoint}"
                raise type(error)(f"{error}; {kept}") from None
            if chunk is None:
                break
            for part in _parts(run, chunk):
                run.take(part, *where())
                show(run)
                if answered(run):
                    return _finish(run, where, checkpoint)
            if checkpoint is not None and run.evaluator.n - saved >= run.options["every"]:
                run.save(checkpoint)
                saved = run.evaluator.n
    _finish(run, where, checkpoint)


def _finish(run: Run, where: Callable[[], tuple[Any, Any]], checkpoint: Path | None) -> None:
    run.move(*where())
    run.complete = True
    run.read()
    if checkpoint is not None:
        run.save(checkpoint)


def _question(run: Run) -> Callable[[Run], bool]:
    """Make the question whether the run may stop, asked whenever the data have grown by a little."""
    width, lower = run.options.get("until_width"), run.options.get("until_lower")
    due = 0.0

    def answered(run: Run) -> bool:
        nonlocal due
        if (width is None and lower is None) or run.evaluator.n < due:
            return False
        due = ASKED * run.evaluator.n
        return run.known(width, lower)

    return answered


def _parts(run: Run, chunk: Transitions) -> Iterator[Transitions]:
    """Cut a chunk where readings are due: a log comes in large batches, and its first would be its only reading."""
    from inferl.runs import SPACING

    start = 0
    while start < len(chunk):
        due = ceil(SPACING * run.readings[-1].n) if run.readings else FIRST_READING
        stop = start + max(due - run.evaluator.n, 1)
        yield chunk[start:stop]
        start = stop


@contextmanager
def _display(json_lines: bool) -> Iterator[Callable[[Run], None]]:
    """Show each new reading as a line of JSON; or, on a terminal, the interval as it is now; else nothing."""
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
    """Print the latest reading, if it is that of this moment."""
    if run.readings and run.readings[-1].n == run.evaluator.n:
        typer.echo(as_json(run.interval().to_dict()))


def answer(run: Run, facts: Mapping[str, str], json_lines: bool, lower: float | None, width: float | None) -> None:
    """Print the report; leave with exit code 1 if a gate is not met."""
    from inferl.diagnostics import Report

    report = run.report()
    report = Report(report.interval, report.checks, {**report.facts, **facts})
    differences = run.differences()
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


def answer_by_baseline(
    name: str,
    time_limit: str | None,
    level: float,
    chunks: Iterable[Transitions],
    json_lines: bool,
    lower: float | None,
    width: float | None,
) -> None:
    """Print what somebody would compare with; it is computed in one go, and kept nowhere."""
    from inferl.baselines import monte_carlo, per_decision

    if name == "monte-carlo":
        interval = monte_carlo(chunks, level=level, time_limit=time_limit)
    else:
        interval = per_decision(chunks, level=level, weighted=name == "wpdis", time_limit=time_limit)
    if json_lines:
        typer.echo(as_json({"final": True, "interval": interval.to_dict()}))
    else:
        typer.echo(f"{interval}\n  estimand  {interval.estimand}\n  by        {name}")
    judge(interval, lower, width)


def as_json(content: Any) -> str:
    """Write one line of JSON, null for numbers that JSON does not have.

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
    """Leave with exit code 1, and say why, if a gate is not met; an interval that failed a check meets none."""
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
