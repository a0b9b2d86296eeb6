"""What the driver of a plan does: states come home, are kept, read and merged; and what regrouping a log costs."""

from __future__ import annotations

import subprocess
import sys
from math import ceil, log2
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

import numpy as np

from inferl.runs import Run
from inferl.scale import plans
from inferl.scale.folder import Folder
from inferl.scale.work import merged
from studies.benchmarks.logs import FILES, PEAK, SHARE, peak_of, write_log_in_time
from studies.markdown import table_of

__all__ = ["facts", "measure_driver", "measure_regrouping"]

FEATURES = (16, 64, 256)
STEPS, LENGTH = 60_000, 20  # of a part, and of an episode: the size of a state does not depend on them
TURNS = 9
SMALL, LARGE = 20_000_000, 100_000_000  # rows of a part, for a log of ...
ROWS = 10**12
NETWORK = 1.25e9  # bytes a second: 10 Gbit/s
MACHINES = 1000  # cores
LIMIT = "500MB"  # of DuckDB, which sorts in any memory

BY_INFERL = PEAK.format(
    command="import inferl; inferl.sources.table(sys.argv[1], features=['x', 'y', 'z'], episode='user', order='time')"
    ".regrouped(sys.argv[2])"
)
BY_DUCKDB = PEAK.format(
    command="import duckdb; duckdb.execute(sys.argv[3])"
    ".execute(f\"COPY (FROM '{sys.argv[1]}/*.parquet' ORDER BY user, time) TO '{sys.argv[2]}' (FORMAT parquet)\")"
)


def _write(path: Path, rows: int, features: int) -> dict[str, Any]:
    """Write a log with noise as features, and return the roles of its columns."""
    import pyarrow as pa
    from pyarrow import parquet

    rng, row = np.random.default_rng(features), np.arange(rows)
    columns: dict[str, Any] = {f"x{k}": rng.normal(size=rows).astype(np.float32) for k in range(features)}
    columns |= {"episode": row // LENGTH, "reward": rng.normal(size=rows), "terminated": row % LENGTH == LENGTH - 1}
    parquet.write_table(pa.table(columns), path, row_group_size=STEPS)
    return {"features": [f"x{k}" for k in range(features)], "episode": "episode"}


def measure_driver(folder: Path) -> dict[str, Any]:
    """Measure what the driver does with states of several sizes, and how fast a worker reads."""
    return {"states": _states(folder), "rate": _rate(folder)}


def _states(folder: Path) -> list[dict[str, Any]]:
    """Keep, read and merge the runs of parts as the driver does: bytes, and processor seconds (medians)."""
    found, kept, key = [], Folder.at(folder / "parts"), "0" * 16
    for features in FEATURES:
        path = folder / "features.parquet"
        plan = plans.plan(path, rows=STEPS, **_write(path, 4 * STEPS, features))
        work = plan.work(plan.blank(None, None, "start", 0.95, None))
        parts = [plans.evaluate_part(work.saved(i), *own) for i, own in enumerate(work.parts)]
        runs = [Run.restored(part, path, threads=1) for part in parts]
        pair = [merged(plan.table, runs[:2]), merged(plan.table, runs[2:])]
        times: dict[str, list[float]] = {"keep": [], "read": [], "merge": []}
        for _ in range(TURNS):
            begin = process_time()
            kept.keep(1, key, parts[0])
            wrote = process_time()
            kept.load(1, key)
            read = process_time()
            merged(plan.table, pair)
            end = process_time()
            for name, seconds in zip(times, (wrote - begin, read - wrote, end - read), strict=True):
                times[name].append(seconds)
        size = kept.file(1, key).stat().st_size
        found.append({"features": features, "bytes": size} | {name: median(seconds) for name, seconds in times.items()})
    return found


def _rate(folder: Path, rows: int = 1_000_000) -> float:
    """Return rows a second of one core that evaluates a part, with the fewest features."""
    path = folder / "features.parquet"
    plan = plans.plan(path, rows=rows, **_write(path, rows, FEATURES[0]))
    work = plan.work(plan.blank(None, None, "start", 0.95, None))
    times = []
    for _ in range(3):
        begin = process_time()
        plans.evaluate_part(work.saved(0), *work.parts[0])
        times.append(process_time() - begin)
    return rows / median(times)


def measure_regrouping(folder: Path, rows: int) -> dict[str, Any]:
    """Bring the rows of each episode together, by inferl and by DuckDB: processor seconds and the most memory."""
    import duckdb

    log = folder / "scattered"
    log.mkdir()
    write_log_in_time(log, rows, rows // SHARE)
    settings = f"SET memory_limit='{LIMIT}'; SET temp_directory='{folder}/spilled'; SET preserve_insertion_order=false"
    found: dict[str, Any] = {"rows": rows, "files": FILES, "limit": LIMIT, "duckdb": duckdb.__version__}
    for name, command in (("inferl", BY_INFERL), ("DuckDB", BY_DUCKDB)):
        target = folder / (name if name == "inferl" else f"{name}.parquet")
        begin = _children()
        done = subprocess.run(
            [sys.executable, "-c", command, str(log), str(target), settings], capture_output=True, text=True, check=True
        )
        found[name] = {"cpu": _children() - begin, "megabytes": peak_of(done.stderr), "rows": _sorted_rows(target)}
    return found


def _children() -> float:
    """Processor seconds of the processes that have ended."""
    import resource

    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _sorted_rows(target: Path) -> int:
    """Number of rows, each after those of its episode that came before it."""
    from pyarrow import parquet

    rows = 0
    for path in sorted(target.glob("part-*.parquet")) if target.is_dir() else [target]:
        found = parquet.read_table(path, columns=["user", "time"])
        user, time = (found[name].to_numpy() for name in ("user", "time"))
        assert ((user[1:] != user[:-1]) | (time[1:] >= time[:-1])).all()
        rows += len(user)
    return rows


def facts(driver: dict[str, Any], regrouping: dict[str, Any]) -> str:
    """Say what states and merges cost, what that means for a trillion transitions, and what regrouping costs."""
    states, rate = driver["states"], driver["rate"]
    table = table_of(
        states,
        {
            "number of features": lambda s: str(s["features"]),
            "state of a part": lambda s: f"{s['bytes'] / 1e6:.{1 if s['bytes'] > 1e6 else 2}f} MB",
            "write": lambda s: f"{1e3 * s['keep']:.0f} ms",
            "read": lambda s: f"{1e3 * s['read']:.0f} ms",
            "merge of two": lambda s: f"{1e3 * s['merge']:.0f} ms",
        },
    )
    small, large = states[0], states[-1]
    parts, fewer = ROWS // SMALL, ROWS // LARGE
    each, other = (sum(s[name] for name in ("keep", "read", "merge")) for s in (small, large))
    deep, hours = ceil(log2(parts)), ROWS / rate / 3600
    ours, theirs = regrouping["inferl"], regrouping["DuckDB"]
    return "\n".join(
        [
            "The driver writes the state of a part to the folder, reads it, and merges it. The size of a state depends "
            "on the features alone. With `DoublyRobust`, in CPU time:",
            "",
            table,
            "",
            f"**A trillion transitions**, with {small['features']} features, in parts of {SMALL // 10**6} million rows "
            f"(`inferl.scale.plan(..., rows={SMALL:_})`): {parts:,} parts and a tree {deep} levels deep, so that at "
            f"most {deep} states, {deep * small['bytes'] / 1e6:.0f} MB, are in memory. The states that come home are "
            f"{parts * small['bytes'] / 1e9:.0f} GB: {parts * small['bytes'] / NETWORK:.0f} seconds of a network of "
            f"10 Gbit/s. At {1e3 * each:.0f} ms a part, the driver works for {parts * each / 60:.0f} minutes. The rows "
            f"themselves, at {rate / 1e6:.2g} million a second and core, take {hours:,.0f} core hours: "
            f"{60 * hours / MACHINES:.0f} minutes on {MACHINES:,} cores. With {large['features']} features the states "
            f"are {parts * large['bytes'] / 1e9:,.0f} GB, and the driver works for {parts * other / 60:.0f} minutes; "
            f"with parts of {LARGE // 10**6} million rows, for {fewer * other / 60:.0f}.",
            "",
            f"**Regrouping** {regrouping['rows']:,} rows of nine columns in {regrouping['files']} files took "
            f"{ours['cpu']:.1f} CPU seconds and {ours['megabytes']:.0f} MB. DuckDB {regrouping['duckdb']}, with a "
            f"limit of {regrouping['limit']}, sorts them in {theirs['cpu']:.1f} CPU seconds and "
            f"{theirs['megabytes']:.0f} MB.",
        ]
    )
