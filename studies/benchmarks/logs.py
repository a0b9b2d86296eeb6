"""Logs: what `inferl evaluate` does to long Parquet files, start-up included: sorted by episode, or by time."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from inferl.data.arrays import Integers

__all__ = ["columns_of", "measure_log", "measure_log_in_time", "peak_of", "write_log", "write_log_in_time"]

STATES = 50
LENGTH = 20  # steps of an episode
FILES, SHARE = 40, 100  # of the log in order of time: files, and rows to an open episode
BATCH = 500_000  # rows written at a time, so that making the log needs no memory either

# Runs a command in a process of its own, and says how much memory that process had at most. Linux keeps that number for
# a process alone in /proc; what getrusage tells is inherited from the one that started it.
PEAK = """
import pathlib, resource, sys
try:
    {command}
finally:
    status = pathlib.Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    peak = [int(line.split()[1]) for line in lines if line.startswith("VmHWM")]
    print("megabytes", (peak or [resource.getrusage(resource.RUSAGE_SELF).ru_maxrss])[0] / 1024, file=sys.stderr)
"""
RUN = PEAK.format(command="from inferl.cli import main; sys.argv = ['inferl', *sys.argv[1:]]; main()")


def columns_of(row: Integers, rng: np.random.Generator) -> dict[str, Any]:
    """Return rows of an off-policy log of a table of states: episode, hour, state, reward, both probabilities, end."""
    hour = row % LENGTH
    return {
        "patient": row // LENGTH,
        "hour": hour,
        "state": rng.integers(STATES, size=len(row)),
        "reward": rng.normal(size=len(row)),
        "p": rng.uniform(0.3, 0.7, size=len(row)),
        "q": rng.uniform(0.3, 0.7, size=len(row)),
        "terminated": hour == LENGTH - 1,
    }


def write_log(path: Path, rows: int) -> None:
    """Write the log to one file."""
    import pyarrow as pa
    from pyarrow import parquet

    rng = np.random.default_rng(0)
    writer = None
    for start in range(0, rows, BATCH):
        batch = pa.table(columns_of(np.arange(start, min(start + BATCH, rows)), rng))
        writer = writer or parquet.ParquetWriter(path, batch.schema)
        writer.write_table(batch)
    if writer is not None:
        writer.close()


def write_log_in_time(folder: Path, rows: int, n_open: int) -> None:
    """Write an off-policy log in order of time, with so many episodes open at once, in several files.

    Each user comes once in every round, in any order. When an episode ends, another user comes in that place.
    """
    import pyarrow as pa
    from pyarrow import parquet

    rng = np.random.default_rng(0)
    age = rng.integers(LENGTH, size=n_open)  # so that they do not all end in one round
    places, parts, size = np.zeros(0, np.int64), 0, -(-rows // FILES)
    for start in range(0, rows, size):
        n = min(size, rows - start)
        while len(places) < n:
            places = np.append(places, rng.permutation(n_open) + n_open * parts)
            parts += 1
        (turn, place), places = np.divmod(places[:n], n_open), places[n:]
        episode, step = np.divmod(age[place] + turn, LENGTH)
        columns = {
            "user": episode * n_open + place,
            "time": (start + np.arange(n)).astype("datetime64[ms]"),
            **{name: rng.normal(size=n).astype(np.float32) for name in ("x", "y", "z")},
            "reward": rng.normal(size=n),
            "p": rng.uniform(0.3, 0.7, size=n),
            "q": rng.uniform(0.3, 0.7, size=n),
            "terminated": step == LENGTH - 1,
        }
        parquet.write_table(pa.table(columns), folder / f"part-{start // size}.parquet")


def measure_log(rows: int) -> dict[str, Any] | None:
    """Evaluate a log of so many rows, sorted by episode; None where pyarrow is missing."""
    options = ["--state", "state", "--n-states", str(STATES), "--episode", "patient", "--order", "hour"]
    return _measured(rows, lambda folder: write_log(folder / "log.parquet", rows), options)


def measure_log_in_time(rows: int) -> dict[str, Any] | None:
    """Evaluate a log of so many rows in order of time, in several files; None where pyarrow is missing."""
    n_open = rows // SHARE
    options = ["--features", "x,y,z", "--episode", "user", "--order", "time"]
    measured = _measured(rows, lambda folder: write_log_in_time(folder, rows, n_open), options)
    return measured and {**measured, "files": FILES, "open": n_open}


def _measured(rows: int, write: Callable[[Path], None], options: list[str]) -> dict[str, Any] | None:
    """Evaluate a log by the command line: rows per second on the clock, and the most memory it had."""
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        return None
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder))
        ratios = ["--behaviour-probability", "p", "--target-probability", "q", "--json"]
        begin = perf_counter()
        done = subprocess.run(
            [sys.executable, "-c", RUN, "evaluate", folder, *options, *ratios],
            capture_output=True,
            text=True,
            check=True,
        )
        seconds = perf_counter() - begin
    return {"rows": rows, "rows per second": rows / seconds, "megabytes": peak_of(done.stderr)}


def peak_of(stderr: str) -> float:
    """Read the megabytes that a process of `PEAK` had at most."""
    return float(stderr.split()[-1])
