"""What all experiments share: parts of repeats, and the files of results.

A study has parts; a part is a function of the number of a repeat, run so and so often. Finished repeats are kept in the
output folder, so a killed run loses nothing, and a run with more repeats builds on one with fewer.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from inferl.errors import SettingError
from studies.repeats import Result, repeat

__all__ = ["PACKAGES", "Part", "Result", "run_part", "run_parts", "write_csv", "write_json"]

PACKAGES = ("inferl", "numpy", "scipy", "gymnasium", "matplotlib")  # whose versions matter


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
    if part.repeats < 1:
        raise SettingError(f"{part.repeats} repeats of {part.name}; there must be at least 1")
    return repeat(
        partial(part.function, settings),
        range(part.repeats),
        folder / f"{part.name.replace(' ', '-')}.repeats.jsonl",
        processes=processes,
        settings=repr(settings),
        label="repeat",
    )


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
