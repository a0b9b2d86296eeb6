"""What all experiments share: repeats over processes, resume after a kill, provenance, files.

A study has parts; a part is a function of the number of a repeat, run so and so often. Finished repeats are lines of a
file in the output folder. A second start reads them and runs what is missing, so a killed run loses nothing, and a run
with more repeats builds on one with fewer.
"""

from __future__ import annotations

import csv
import json
import multiprocessing
import os
import platform
import subprocess
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from inferl.errors import SettingError

__all__ = ["Part", "Result", "provenance", "run_part", "run_parts", "write_csv", "write_json"]

Result = dict[str, Any]  # what one repeat found, ready for JSON
PACKAGES = ("inferl", "numpy", "scipy", "gymnasium", "matplotlib")


@dataclass(frozen=True)
class Part:
    """A part of a study: `function(settings, number)` for numbers 0 .. repeats - 1; a quick run has fewer."""

    name: str
    function: Callable[[Any, int], Result]
    repeats: int
    quick: int = 1


def run_parts(
    parts: Sequence[Part],
    settings: Any,
    folder: Path,
    *,
    quick: bool = False,
    repeats: int | None = None,
    processes: int = 1,
    only: Collection[str] | None = None,
) -> tuple[dict[str, list[Result]], dict[str, int]]:
    """Run the parts of a study, or what is missing of them; return the results, and how many repeats each part has.

    Parameters
    ----------
    parts
        The first is what `repeats` sets; others have at most as many.
    settings, folder, processes
        As for `run_part`.
    quick
        Take the small numbers of repeats.
    repeats
        None: the parts' own numbers.
    only
        Names of the parts to run; others have no results. None: all.
    """
    if repeats is not None and repeats < 2:
        raise SettingError(f"repeats is {repeats}; a coverage needs at least 2")
    found: dict[str, list[Result]] = {}
    for part in parts:
        count = part.quick if quick else part.repeats
        if repeats is not None:
            count = repeats if part is parts[0] else min(count, repeats)
        wanted = only is None or part.name in only
        found[part.name] = run_part(replace(part, repeats=count), settings, folder, processes) if wanted else []
    return found, {name: len(results) for name, results in found.items()}


def run_part(part: Part, settings: Any, folder: Path, processes: int = 1) -> list[Result]:
    """Run what is missing of a part, and return the results of all repeats in order.

    Parameters
    ----------
    part
        What to run.
    settings
        Given to every repeat; a dataclass whose printed form says all. A folder that holds repeats with other settings
        is refused.
    folder
        Where finished repeats are kept, in ``NAME.repeats.jsonl``.
    processes
        Number of worker processes; 1: in this process.

    Examples
    --------
    >>> import tempfile
    >>> squares = Part("squares", lambda settings, number: {"square": number**2}, repeats=3)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run_part(squares, None, Path(folder))
    [{'square': 0}, {'square': 1}, {'square': 4}]
    """
    if part.repeats < 1 or processes < 1:
        raise SettingError(f"{part.repeats} repeats over {processes} processes; both must be at least 1")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{part.name.replace(' ', '-')}.repeats.jsonl"
    found = _read(path, repr(settings))
    missing = [number for number in range(part.repeats) if number not in found]
    with path.open("a") as file, _progress(part.name, part.repeats, part.repeats - len(missing)) as advance:
        if path.stat().st_size == 0:
            _append(file, {"settings": repr(settings)})
        for number, result in _results(part, settings, missing, processes):
            found[number] = result
            _append(file, {"repeat": number, "result": result})
            advance()
    return [found[number] for number in range(part.repeats)]


def _results(part: Part, settings: Any, missing: Sequence[int], processes: int) -> Iterator[tuple[int, Result]]:
    """Results as they come in, each as JSON would give it back."""
    if processes == 1 or len(missing) < 2:
        for number in missing:
            yield number, json.loads(json.dumps(part.function(settings, number)))
        return
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # of the children: repeats are what is spread over the cores
    # Fresh processes: a forked one inherits threads' locks.
    fresh = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=fresh, initializer=_leave_with_parent) as pool:
        waiting = {pool.submit(part.function, settings, number): number for number in missing}
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


def _read(path: Path, settings: str) -> dict[int, Result]:
    """Read finished repeats; a line that a kill has cut is dropped from the file and run again."""
    if not path.exists():
        return {}
    lines = path.read_text().splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        lines.pop()
        path.write_text("".join(lines))
    if not lines:
        return {}
    header, *entries = map(json.loads, lines)
    if header != {"settings": settings}:
        raise SettingError(f"{path} holds repeats with other settings; choose another folder, or remove the file")
    return {entry["repeat"]: entry["result"] for entry in entries}


def _append(file: Any, entry: dict[str, Any]) -> None:
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


def provenance(command: str, seed: int) -> dict[str, Any]:
    """Say what made a result: command, seed, commit (if the source is a repository) and versions.

    >>> sorted(provenance("python -m studies.paper frozenlake", 1))
    ['command', 'commit', 'kernel', 'python', 'seed', 'system', 'versions']
    """
    from inferl import engine

    versions: dict[str, str | None] = {}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = None
    return {
        "command": command,
        "seed": seed,
        "commit": _commit(),
        "kernel": engine.name,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "versions": versions,
    }


def _commit() -> str | None:
    """Commit of the source that runs, marked if it has been changed since; None outside a repository."""
    command = ["git", "describe", "--always", "--dirty=+changes", "--exclude", "*", "--abbrev=12"]
    try:
        done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def write_json(path: Path, content: dict[str, Any]) -> Path:
    """Write a study's results, whole or not at all."""
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(content, indent=None, separators=(",", ":")).replace('{"', '\n{"') + "\n")
    temporary.replace(path)
    return path


def write_csv(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    """Write the numbers behind a figure, a line a row."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]) if rows else [])
        writer.writeheader()
        writer.writerows(rows)
    return path
