"""Plans of logs: what would be read, found without reading all of it."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv as arrow_csv
from pyarrow import feather, parquet

from inferl.errors import SettingError
from inferl.sources import table
from inferl.sources.logs.inputs.lines import Lines

ROLES: dict[str, Any] = {"features": ["x"], "episode": "e"}


def log(n: int, episodes: list[int] | None = None, **columns: Any) -> pa.Table:
    labels = np.zeros(n, int) if episodes is None else np.repeat(np.arange(len(episodes)), episodes)
    plain = {"x": np.arange(n) / n, "reward": np.ones(n), "e": labels, "comment": ["."] * n}
    return pa.table({**plain, **columns})


def write(frame: pa.Table, path: Path) -> Path:
    if path.suffix == ".parquet":
        parquet.write_table(frame, path, row_group_size=50)
    elif path.suffix == ".arrow":
        feather.write_feather(frame, str(path), compression="uncompressed")
    else:
        arrow_csv.write_csv(frame, path)
    return path


@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".csv"])
def test_episodes_across_files(suffix: str, tmp_path: Path) -> None:
    frame = log(300, [120, 80, 100])  # cut in an episode, and between two
    for number, (start, stop) in enumerate([(0, 100), (100, 200), (200, 300)]):
        write(frame.slice(start, stop - start), tmp_path / f"{number}{suffix}")
    plan = table(tmp_path, **ROLES).plan()
    assert plan.borders == (1, 0)
    assert (plan.rows, [file.rows for file in plan.files]) == (300, [100, 100, 100])
    assert plan.columns == {"features": ("x",), "reward": ("reward",), "episode": ("e",)}
    assert plan.unused == ("comment",)
    assert plan.problems == ()
    assert "1 of 2 borders between files are crossed by an episode" in str(plan)
    assert plan.to_dict()["files"][2]["name"].endswith(f"2{suffix}")


def test_an_end_at_the_border_and_episodes_without_labels(tmp_path: Path) -> None:
    frame = log(200, terminated=np.arange(200) == 99)
    paths = [write(frame.slice(0, 100), tmp_path / "0.csv"), write(frame.slice(100), tmp_path / "1.csv")]
    assert table(paths, features=["x"], episode=None).plan().borders == (0,)
    assert table(paths, features=["x"], episode=None, terminated=None).plan().borders == (1,)


def test_mixed_episodes(tmp_path: Path) -> None:
    frame = log(200).set_column(2, "e", pa.array(np.arange(200) % 7))
    paths = [write(frame.slice(0, 100), tmp_path / "0.parquet"), write(frame.slice(100), tmp_path / "1.parquet")]
    plan = table(paths, **ROLES).plan()
    assert plan.borders == (7,)
    assert "by 7 episodes at least" in str(plan)


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_rows_of_text_are_estimated_from_a_little_of_it(
    pack: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, n = tmp_path / "log.csv", 300_000
    path.write_bytes(pack(write(log(n, x=np.random.default_rng(0).random(n)), path).read_bytes()))
    read: list[Lines] = []
    original = Lines._read

    def counted(self: Lines) -> None:
        read.append(self)
        original(self)

    monkeypatch.setattr(Lines, "_read", counted)
    plan = table(path, **ROLES).plan()
    assert len(read) <= 2  # megabytes, of the eight that there are
    assert plan.rows is not None
    assert abs(plan.rows / n - 1) < 0.1
    assert not plan.files[0].exact
    assert "estimated from the size" in str(plan)


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    paths = [write(log(10), tmp_path / "0.csv"), write(log(10).drop_columns(["reward"]), tmp_path / "1.csv")]
    plan = table(paths).plan()
    assert plan.columns == {"reward": ("reward",)}
    assert "say which features to use" in plan.problems[0]
    plan = table(paths, **ROLES).plan()
    assert ["1.csv" in problem and "reward" in problem for problem in plan.problems] == [True]
    assert plan.borders == (None,)
    assert "problem" in str(plan)


def test_fields_of_columns_and_one_stream() -> None:
    frame = pa.table({"obs": [{"x": 1.0, "y": 2.0}] * 3, "reward": [1.0] * 3})
    plan = table([frame, frame], features="obs.x").plan()
    assert plan.columns["features"] == ("obs.x",)
    assert plan.unused == ()
    assert plan.borders == (1,)


def test_what_can_be_read_once_is_not_used_up_by_a_plan() -> None:
    reader = log(10).to_reader()
    with pytest.raises(SettingError, match="a plan would use up the pyarrow RecordBatchReader"):
        table(reader, **ROLES).plan()
    assert sum(map(len, table(reader, **ROLES))) == 9
