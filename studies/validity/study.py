"""Machinery of the coverage studies: repeats over processes, resume, binomial intervals, provenance."""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import numpy as np
import scipy
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from scipy.special import betaincinv

import inferl

RESULTS = Path(__file__).parent / "results"

Result = dict[str, Any]  # what one repeat found: cell -> readings


def options(description: str | None, seed: int, repeats: int | None = None) -> argparse.Namespace:
    """Read the options of a study: how many repeats (where they may be chosen), processes, the seed."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    if repeats is not None:
        parser.add_argument("--repeats", type=int, default=repeats)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seed", type=int, default=seed)
    return parser.parse_args()


def repeat(function: Callable[[Any], Result], jobs: Iterable[Any], name: str, processes: int) -> list[Result]:
    """Run `function(job)` for every job over processes, and keep what is finished if the run is stopped.

    A job is anything that JSON has. Finished ones are lines of ``results/NAME.partial.jsonl``; a second start goes on
    where the first was stopped.
    """
    RESULTS.mkdir(exist_ok=True)
    partial = RESULTS / f"{name}.partial.jsonl"
    found: dict[str, Result] = {}
    if partial.exists():
        for line in partial.read_text().splitlines():
            if line.endswith("}"):  # a line cut by a kill is run again
                entry = json.loads(line)
                found[json.dumps(entry["job"])] = entry["result"]
    keys = {json.dumps(job): job for job in jobs}
    columns = (TextColumn(name), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns) as progress, partial.open("a") as file, ProcessPoolExecutor(processes) as pool:
        task = progress.add_task(name, total=len(keys), completed=sum(key in found for key in keys))
        waiting = {pool.submit(function, job): key for key, job in keys.items() if key not in found}
        try:
            for done in as_completed(waiting):
                key = waiting[done]
                found[key] = done.result()
                file.write(json.dumps({"job": keys[key], "result": found[key]}) + "\n")
                file.flush()
                progress.advance(task)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)  # or the error would show after all the other jobs
            raise
    return [found[key] for key in keys]


def coverage_cell(covered: list[bool], widths: list[float], **labels: Any) -> dict[str, Any]:
    """Summarise one cell: coverage with its exact binomial intervals, and the width."""
    n, k = len(covered), int(sum(covered))
    finite = np.array([w for w in widths if np.isfinite(w)])
    return labels | {
        "repeats": n,
        "covered": k,
        "coverage": k / n,
        "binomial_95": clopper_pearson(k, n, 0.95),
        "binomial_99.9": clopper_pearson(k, n, 0.999),
        "median_width": float(np.median(finite)) if finite.size else None,
        "infinite": n - finite.size,
    }


def clopper_pearson(k: int, n: int, level: float) -> tuple[float, float]:
    """Exact binomial interval for k successes of n."""
    tail = (1 - level) / 2
    lower = float(betaincinv(k, n - k + 1, tail)) if k > 0 else 0.0
    upper = float(betaincinv(k + 1, n - k, 1 - tail)) if k < n else 1.0
    return lower, upper


def provenance(seed: int) -> dict[str, Any]:
    """What made a result: command, seed, commit and versions."""
    git = ["git", "-C", str(Path(__file__).parent)]
    commit = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=False).stdout.strip()
    changed = subprocess.run([*git, "status", "--porcelain", "src"], capture_output=True, text=True, check=False).stdout
    return {
        "command": " ".join(["python", "-m", f"studies.validity.{Path(sys.argv[0]).stem}", *sys.argv[1:]]),
        "seed": seed,
        "commit": commit + ("+changes" if changed.strip() else ""),
        "inferl": inferl.__version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
    }


def write_results(name: str, content: dict[str, Any]) -> Path:
    """Write the study's JSON, a line an entry, and remove its partial file."""
    path = RESULTS / f"{name}.json"
    path.write_text(_as_lines(content))
    (RESULTS / f"{name}.partial.jsonl").unlink(missing_ok=True)
    return path


def _as_lines(content: dict[str, Any]) -> str:
    entries = []
    for key, value in content.items():
        rows = [json.dumps(entry) for entry in value] if isinstance(value, list) else []
        body = "[\n  " + ",\n  ".join(rows) + "\n ]" if rows else json.dumps(value)
        entries.append(f"{json.dumps(key)}: {body}")
    return "{\n " + ",\n ".join(entries) + "\n}\n"
