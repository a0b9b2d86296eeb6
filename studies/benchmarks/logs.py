"""Logs: what `inferl evaluate` does to a long Parquet file, start-up included."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

__all__ = ["measure_log", "write_log"]

STATES = 50
LENGTH = 20  # steps of an episode
BATCH = 500_000  # rows written at a time, so that making the log needs no memory either

# Runs the shell in a process of its own, and says how much memory that process had at most. Linux keeps that number for
# a process alone in /proc; what getrusage tells is inherited from the one that started it.
RUN = """
import pathlib, resource, sys
from inferl.cli import main
sys.argv = ["inferl", *sys.argv[1:]]
try:
    main()
finally:
    status = pathlib.Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    peak = [int(line.split()[1]) for line in lines if line.startswith("VmHWM")]
    print("megabytes", (peak or [resource.getrusage(resource.RUSAGE_SELF).ru_maxrss])[0] / 1024, file=sys.stderr)
"""


def write_log(path: Path, rows: int) -> None:
    """Write an off-policy log of a table of states: episode, hour, state, reward, both probabilities, end."""
    import pyarrow as pa
    from pyarrow import parquet

    rng = np.random.default_rng(0)
    writer = None
    for start in range(0, rows, BATCH):
        row = np.arange(start, min(start + BATCH, rows))
        hour = row % LENGTH
        columns = {
            "patient": row // LENGTH,
            "hour": hour,
            "state": rng.integers(STATES, size=len(row)),
            "reward": rng.normal(size=len(row)),
            "p": rng.uniform(0.3, 0.7, size=len(row)),
            "q": rng.uniform(0.3, 0.7, size=len(row)),
            "terminated": hour == LENGTH - 1,
        }
        batch = pa.table(columns)
        writer = writer or parquet.ParquetWriter(path, batch.schema)
        writer.write_table(batch)
    if writer is not None:
        writer.close()


def measure_log(rows: int) -> dict[str, Any] | None:
    """Evaluate a log of so many rows by the command line: rows per second on the clock, and the most memory it had.

    None where pyarrow is missing.
    """
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        return None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.parquet"
        write_log(path, rows)
        options = ["--state", "state", "--n-states", str(STATES), "--episode", "patient", "--order", "hour"]
        ratios = ["--behaviour-probability", "p", "--target-probability", "q", "--json"]
        begin = perf_counter()
        done = subprocess.run(
            [sys.executable, "-c", RUN, "evaluate", str(path), *options, *ratios],
            capture_output=True,
            text=True,
            check=True,
        )
        seconds = perf_counter() - begin
    return {"rows": rows, "rows per second": rows / seconds, "megabytes": float(done.stderr.split()[-1])}
