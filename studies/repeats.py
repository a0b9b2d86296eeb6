"""Repeats over processes that survive a kill: finished ones are lines of a file, and a second start runs the rest."""

from __future__ import annotations

import json
import multiprocessing
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from inferl.errors import SettingError

__all__ = ["Result", "repeat"]

Result = dict[str, Any]  # what one repeat found, ready for JSON


def repeat(
    function: Callable[[Any], Result],
    jobs: Iterable[Any],
    path: Path,
    *,
    processes: int = 1,
    settings: str | None = None,
    label: str = "job",
) -> list[Result]:
    """Run `function(job)` for every job that the file does not have yet, and return the results of all, in order.

    Parameters
    ----------
    function
        With several processes it must be importable, as a function of a module is.
    jobs
        Anything that JSON has.
    path
        File of finished jobs, a line each: ``{"job": ..., "result": ...}``. The file may hold other jobs too.
    processes
        Number of worker processes; 1: in this process.
    settings
        What the results depend on besides the job. A file that was begun with other settings is refused.
    label
        Name of the jobs in the file.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     repeat(lambda number: {"square": number**2}, range(3), Path(folder) / "squares.partial.jsonl")
    [{'square': 0}, {'square': 1}, {'square': 4}]
    """
    if processes < 1:
        raise SettingError(f"{processes} processes; there must be at least 1")
    path.parent.mkdir(parents=True, exist_ok=True)
    keys = {json.dumps(job): job for job in jobs}
    found = _read(path, settings, label)
    missing = [job for key, job in keys.items() if key not in found]
    name = path.name.split(".")[0]
    with path.open("a") as file, _progress(name, len(keys), len(keys) - len(missing)) as advance:
        if settings is not None and path.stat().st_size == 0:
            _append(file, {"settings": settings})
        for job, result in _results(function, missing, processes):
            found[json.dumps(job)] = result
            _append(file, {label: job, "result": result})
            advance()
    return [found[key] for key in keys]


def _results(function: Callable[[Any], Result], missing: Sequence[Any], processes: int) -> Iterator[tuple[Any, Result]]:
    """Results as they come in, each as JSON would give it back."""
    if processes == 1 or len(missing) < 2:
        for job in missing:
            yield job, json.loads(json.dumps(function(job)))
        return
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):  # of the children: repeats are spread over the cores
        os.environ.setdefault(name, "1")
    # Fresh processes: a forked one inherits threads' locks.
    fresh = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=fresh, initializer=_leave_with_parent) as pool:
        waiting = {pool.submit(function, job): job for job in missing}
        try:
            for done in as_completed(waiting):
                yield waiting[done], json.loads(json.dumps(done.result()))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _leave_with_parent() -> None:
    """End this worker when the process that started it has been killed."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _read(path: Path, settings: str | None, label: str) -> dict[str, Result]:
    """Read finished jobs; a line that a kill has cut is dropped from the file and run again."""
    if not path.exists():
        return {}
    lines = path.read_text().splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        lines.pop()
        path.write_text("".join(lines))
    entries = [json.loads(line) for line in lines]
    if settings is not None and entries and entries.pop(0) != {"settings": settings}:
        raise SettingError(f"{path} holds repeats with other settings; choose another folder, or remove the file")
    return {json.dumps(entry[label]): entry["result"] for entry in entries}


def _append(file: TextIO, entry: dict[str, Any]) -> None:
    file.write(json.dumps(entry) + "\n")
    file.flush()


@contextmanager
def _progress(name: str, total: int, done: int) -> Iterator[Callable[[], None]]:
    """A bar with the time left, on a terminal only."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda: None
        return
    columns = (TextColumn(f"{name:<12}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("left"))
    with Progress(*columns, TimeRemainingColumn(), console=console) as bar:
        task = bar.add_task(name, total=total, completed=done)
        yield lambda: bar.advance(task)
