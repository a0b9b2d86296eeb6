"""Logs in files that cut episodes, for the tests of plans."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

ROLES: dict[str, Any] = {
    "features": "x",
    "episode": "e",
    "order": "t",
    "behaviour_probability": "p",
    "target_probability": "q",
    "discount": 0.9,
}


def frame(rows: int = 20_000, longest: int = 40, seed: int = 0) -> pa.Table:
    """Episodes of random lengths, each one third of which is longer than the others."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, longest, size=rows)
    episode = np.repeat(np.arange(rows), lengths)[:rows]
    first = np.append(True, episode[1:] != episode[:-1])
    start = np.flatnonzero(first)
    step = np.arange(rows) - start[np.cumsum(first) - 1]
    return pa.table(
        {
            "e": episode,
            "t": step,
            "x": np.round(rng.normal(size=rows), 3),
            "ward": np.array(["er", "icu", "ward"])[rng.integers(3, size=rows)],
            "reward": np.round(rng.normal(size=rows), 3) + 1,
            "p": np.full(rows, 0.5),
            "q": rng.choice([0.4, 0.6], size=rows),
            "terminated": np.append(first[1:], True) & (episode % 3 > 0),
            "truncated": np.append(first[1:], True) & (episode % 3 == 0),
        }
    )


def write(folder: Path, log: pa.Table, files: int, row_group_size: int = 700) -> Path:
    """Write a log in so many Parquet files."""
    folder.mkdir(parents=True, exist_ok=True)
    size = -(-len(log) // files)
    for k in range(files):
        parquet.write_table(log.slice(size * k, size), folder / f"part-{k}.parquet", row_group_size=row_group_size)
    return folder
