"""``inferl compare``: the difference of two runs, in words, for machines, and as a gate."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from typer.testing import CliRunner

from inferl.cli import app
from inferl.runs import Run, difference

runner = CliRunner(env={"COLUMNS": "80", "FORCE_COLOR": None})


@pytest.fixture
def runs(tmp_path: Path) -> tuple[str, str]:
    """Two runs of logs of their own; the second is paid 1 more a step, which is worth 10."""
    paths = []
    for i in range(2):
        rng = np.random.default_rng(i)
        frame = pa.table({"s": rng.integers(2, size=1000), "reward": rng.normal(size=1000) + i})
        parquet.write_table(frame, tmp_path / f"{i}.parquet")
        paths.append(str(tmp_path / f"{i}.run"))
        options = ["--state", "s", "--n-states", "2", "--discount", "0.9", "--checkpoint", paths[-1]]
        assert runner.invoke(app, ["evaluate", str(tmp_path / f"{i}.parquet"), *options]).exit_code == 0
    return paths[0], paths[1]


def compare(*options: str, code: int = 0) -> Any:
    result = runner.invoke(app, ["compare", *options])
    assert result.exit_code == code, result.output
    return result


def test_in_words(runs: tuple[str, str]) -> None:
    lines = compare(*runs).stdout.splitlines()
    assert lines[0].startswith(f"{runs[0]}: ")
    assert lines[1].startswith(f"{runs[1]}: ")
    assert lines[2].startswith("difference -")
    assert lines[2].endswith("at 95%: the first is smaller")
    assert "standard error sqrt(s1^2 + s2^2)" in lines[3]
    assert "degrees of freedom after Welch" in lines[3]
    assert compare(*reversed(runs)).stdout.splitlines()[2].endswith("the first is larger")


def test_for_machines(runs: tuple[str, str]) -> None:
    found = json.loads(compare(*runs, "--json", "--level", "0.9").stdout)["interval"]
    expected = difference(Run.load(runs[0]), Run.load(runs[1]), 0.9)
    assert found["estimate"] == expected.estimate
    assert (found["level"], found["df"]) == (0.9, expected.df)
    assert abs(found["estimate"] + 10) < 5 * found["standard_error"]  # a false alarm with probability 1e-6


def test_as_a_gate(runs: tuple[str, str]) -> None:
    compare(runs[1], runs[0], "--require-lower", "0")
    assert "gate not met: the lower bound" in compare(*runs, "--require-lower", "0", code=1).stderr
    assert "gate not met: the width" in compare(*runs, "--require-width", "0.01", code=1).stderr


def test_runs_that_are_not_independent_are_refused(runs: tuple[str, str], tmp_path: Path) -> None:
    result = compare(runs[0], runs[0], code=2)
    assert "so they are not independent; evaluate both policies at once" in result.stderr
    lake = str(tmp_path / "lake.run")
    assert runner.invoke(app, ["rollout", "FrozenLake-v1", "--episodes", "5", "--checkpoint", lake]).exit_code == 0
    assert "both runs have the seed 0" in compare(lake, lake, code=2).stderr


def test_checks_that_failed_are_told(tmp_path: Path, runs: tuple[str, str]) -> None:
    parquet.write_table(pa.table({"s": [0, 1] * 6, "reward": [1.0, 2.0] * 6}), tmp_path / "few.parquet")
    few = str(tmp_path / "few.run")
    options = ["--state", "s", "--n-states", "2", "--checkpoint", few]
    assert runner.invoke(app, ["evaluate", str(tmp_path / "few.parquet"), *options]).exit_code == 0
    assert "note: second: length" in compare(runs[0], few).stdout
