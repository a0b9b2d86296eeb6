"""``--kind`` and ``--until-...``: a run stops when it knows enough, by an interval that allows for looking."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from typer.testing import CliRunner

from inferl.cli import app
from inferl.runs import Run

runner = CliRunner()
LAKE = ["rollout", "FrozenLake-v1", "--env-option", "is_slippery=true", "--episodes", "4000", "--discount", "0.9"]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    frame = pa.table({"s": rng.integers(3, size=30_000), "reward": rng.normal(size=30_000) + 1})
    parquet.write_table(frame, tmp_path / "log.parquet")
    return tmp_path / "log.parquet"


def test_a_log_is_read_until_the_interval_is_narrow(log: Path, tmp_path: Path) -> None:
    options = ["evaluate", str(log), "--state", "s", "--n-states", "3", "--discount", "0.5"]
    run_file = str(tmp_path / "narrow.run")
    result = runner.invoke(app, [*options, "--until-width", "0.2", "--json", "--checkpoint", run_file])
    assert result.exit_code == 0, result.output
    final = json.loads(result.stdout.splitlines()[-1])["interval"]
    assert final["kind"] == "anytime"
    assert final["upper"] - final["lower"] <= 0.2
    assert 1000 <= final["n"] < 29_000
    run = Run.load(run_file)
    assert run.complete
    assert run.kind == "anytime"
    assert runner.invoke(app, ["resume", run_file]).stdout.splitlines()[0].count("95% anytime") == 1


def test_a_lower_bound_stops_too_and_what_is_never_known_does_not(log: Path) -> None:
    options = ["evaluate", str(log), "--state", "s", "--n-states", "3", "--discount", "0.5", "--json"]
    known = runner.invoke(app, [*options, "--until-lower", "1.5"])
    assert json.loads(known.stdout.splitlines()[-1])["interval"]["lower"] > 1.5
    never = runner.invoke(app, [*options, "--until-lower", "2.5"])
    assert json.loads(never.stdout.splitlines()[-1])["interval"]["n"] == 29_999


def test_a_rollout_stops(tmp_path: Path) -> None:
    result = runner.invoke(app, [*LAKE, "--until-width", "0.02", "--json"])
    assert result.exit_code == 0, result.output
    final = json.loads(result.stdout.splitlines()[-1])["interval"]
    assert final["upper"] - final["lower"] <= 0.02
    assert final["n"] < 30_000


def test_another_kind_cannot_stop_a_run(log: Path) -> None:
    options = ["evaluate", str(log), "--state", "s", "--n-states", "3", "--kind", "normal", "--until-width", "1"]
    result = runner.invoke(app, options)
    assert result.exit_code == 2
    assert "leave --kind normal out" in result.stderr
    plain = runner.invoke(app, [*options[:-4], "--kind", "anytime"])
    assert "95% anytime, 29,999 transitions" in plain.stdout
