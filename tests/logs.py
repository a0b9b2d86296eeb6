"""Logs for tests: one small log in every format, and how to look at what was read from it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pyarrow as pa
from pyarrow import csv as arrow_csv
from pyarrow import feather, parquet

from inferl.data.transitions import Transitions

__all__ = ["FORMATS", "LOG", "joined", "same", "small_log", "write_jsonl", "write_parquet"]

FIELDS = ("features", "rewards", "next_features", "discounts", "ratios", "last", "episode", "stream")


def joined(source: Iterable[Transitions]) -> Transitions:
    return Transitions.join(list(source))


def same(one: Transitions, other: Transitions) -> bool:
    """Whether all fields have the same bits."""
    return all(getattr(one, name).tobytes() == getattr(other, name).tobytes() for name in FIELDS)


LOG: dict[str, list[Any]] = {
    "patient": ["a", "a", "a", "b", "b", "c"],
    "hour": [1, 2, 3, 1, 2, 7],
    "pulse": [0.5, 0.25, 0.125, 1.5, 1.25, 3.0],
    "pressure": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
    "state": [0, 1, 2, 3, 0, 1],
    "reward": [0.0, 0.5, 1.0, -1.0, 2.0, 0.75],
    "terminated": [False, False, True, False, False, True],
    "p": [0.5, 0.5, 0.25, 1.0, 0.5, 0.5],
    "q": [1.0, 0.25, 0.5, 0.0, 0.5, 1.0],
}


def write_csv(frame: pa.Table, path: Path) -> Path:
    arrow_csv.write_csv(frame, path)
    return path


def write_jsonl(frame: pa.Table, path: Path) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in frame.to_pylist()))
    return path


def write_parquet(frame: pa.Table, path: Path) -> Path:
    parquet.write_table(frame, path, row_group_size=4)
    return path


def write_arrow_stream(frame: pa.Table, path: Path) -> Path:
    with pa.ipc.new_stream(path, frame.schema) as writer:
        writer.write_table(frame, max_chunksize=5)
    return path


def write_arrow_file(frame: pa.Table, path: Path) -> Path:
    feather.write_feather(frame, str(path), chunksize=5)
    return path


def write_compressed(frame: pa.Table, path: Path) -> Path:
    path = path.with_suffix(".csv.gz")
    with pa.CompressedOutputStream(str(path), "gzip") as file:
        arrow_csv.write_csv(frame, file)
    return path


def write_with_tabs(frame: pa.Table, path: Path) -> Path:
    arrow_csv.write_csv(frame, path, arrow_csv.WriteOptions(delimiter="\t"))
    return path


FORMATS: dict[str, Callable[[pa.Table, Path], Any]] = {
    "csv": write_csv,
    "csv with tabs": write_with_tabs,
    "csv.gz": write_compressed,
    "jsonl": write_jsonl,
    "parquet": write_parquet,
    "arrow stream": write_arrow_stream,
    "arrow file": write_arrow_file,
    "pyarrow": lambda frame, _: frame,
    "pandas": lambda frame, _: frame.to_pandas(),
    "polars": lambda frame, _: polars.from_arrow(frame),
}


def small_log(n: int = 2000, seed: int = 0, **spoiled: Any) -> pa.Table:
    """A log of three states; a keyword (row, value) spoils a value."""
    rng = np.random.default_rng(seed)
    columns: dict[str, list[Any]] = {
        "s": rng.integers(3, size=n).tolist(),
        "reward": rng.normal(size=n).tolist(),
        "terminated": (rng.random(n) < 0.2).tolist(),
        "a": rng.choice([0.5, 1.5], size=n).tolist(),
        "b": rng.choice([0.5, 1.5], size=n).tolist(),
    }
    for name, (row, value) in spoiled.items():
        columns[name][row - 1] = value
    return pa.table(columns)
