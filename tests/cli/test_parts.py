"""Evaluating in parts by the shell: workers, batch jobs, and merging."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from scale.logs import ROLES, frame, write
from scale.test_plans import digest
from typer.testing import CliRunner

from inferl.cli import app
from inferl.runs import Run

OPTIONS = [text for name, value in ROLES.items() for text in (f"--{name.replace('_', '-')}", str(value))]


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("inferl.sources.logs.plan.ROWS", 1000)
    monkeypatch.setattr("inferl.scale.plans.ROWS", 1000)
    return write(tmp_path / "log", frame(8000), files=4)


def call(*arguments: Any, code: int = 0) -> str:
    result = CliRunner(env={"COLUMNS": "80", "FORCE_COLOR": None}).invoke(app, list(map(str, arguments)))
    assert result.exit_code == code, (result.output, result.exception)
    return result.output


def evaluate(log: Path, *more: Any, code: int = 0) -> str:
    return call("evaluate", log, *OPTIONS, *more, code=code)


def test_workers_batch_jobs_and_merging_give_the_same_bits(log: Path) -> None:
    said = evaluate(log, "--workers", 2, "--checkpoint", "run")
    run = Run.load("run/all.inferl")
    assert str(run.interval()).splitlines()[0] in said
    parts = sorted(Path("run").glob("part-*.inferl"))
    assert len(parts) == int(run.provenance["parts"].split()[2]) > 5
    for job in (3, 1, 2):
        told = evaluate(log, "--part", f"{job}/3", "--workers", 1, "--checkpoint", "jobs")
        assert "inferl merge jobs/part-*.inferl" in told
    files = sorted(Path("jobs").glob("*.inferl"), reverse=True)
    assert [file.name for file in reversed(files)] == [file.name for file in parts]
    merged = call("merge", *files, "-o", "all.inferl")
    assert digest(Run.load("all.inferl")) == digest(run)
    assert merged.splitlines() == said.splitlines()
    call("report", "all.inferl")
    assert "8,000 rows" in Path("all.html").read_text("utf-8")
    told = call("merge", *files[1:], "-o", "x.inferl", code=2)
    assert not Path("x.inferl").exists()
    assert f"of {len(parts)} parts, 1 are missing: {len(parts)}" in told


def test_json_lines_and_stopping(log: Path) -> None:
    lines = [json.loads(line) for line in evaluate(log, "--workers", 1, "--json").splitlines()]
    assert len(lines) > 2
    assert [line["final"] for line in lines] == [False] * (len(lines) - 1) + [True]
    numbers = [line["interval"]["n"] for line in lines]
    assert numbers == sorted(numbers)
    stopped = json.loads(evaluate(log, "--workers", 1, "--json", "--quiet", "--until-width", 3, "--time-limit", "ends"))
    assert 0 < stopped["interval"]["n"] < numbers[-1]


def test_refusals(log: Path, tmp_path: Path) -> None:
    assert "give a number, or all" in evaluate(log, "--workers", "many", code=2)
    assert "write I/N with I from 1 to N" in evaluate(log, "--part", "5/4", "--checkpoint", "run", code=2)
    assert "--part needs --checkpoint" in evaluate(log, "--part", "1/4", code=2)
    assert "cannot be merged" in evaluate(log, "--workers", 1, "--method", "bootstrap", "--step-size", 1, code=2)
    assert "say ray, or ray://HOST:10001" in evaluate(log, "--on", "dask", code=2)
    assert "leave --workers and --on out" in evaluate(log, "--workers", 1, "--estimator", "wpdis", code=2)


def test_a_bad_row_and_going_on(log: Path) -> None:
    whole = frame(8000)
    rewards = whole["reward"].to_pylist()
    rewards[5010] = float("nan")
    write(log, whole.set_column(whole.column_names.index("reward"), "reward", pa.array(rewards)), files=4)
    said = evaluate(log, "--workers", 1, "--checkpoint", "run", code=2)
    assert "part-2.parquet, row 1011, column 'reward'" in said
    assert "finished parts are in run: the same command continues" in said
    assert "bad rows skipped" in evaluate(log, "--workers", 1, "--checkpoint", "run", "--skip-bad", 1)


def test_the_plan_shows_the_parts(log: Path) -> None:
    assert re.search(r"parts +6, of 1,300 to 1,400 rows", evaluate(log, "--plan"))
    assert json.loads(evaluate(log, "--plan", "--json"))["parts"]


def test_runs_of_separate_logs(log: Path, tmp_path: Path) -> None:
    monday, tuesday = write(tmp_path / "monday", frame(3000, seed=1), 1), write(tmp_path / "tuesday", frame(3000), 1)
    evaluate(monday, "--checkpoint", "monday.run")
    evaluate(tuesday, "--checkpoint", "tuesday.run")
    said = call("merge", "monday.run", "tuesday.run", "-o", "week.run")
    assert "2 files" in said
    assert "6,000 rows" in said
    assert "given twice" in call("merge", "monday.run", "monday.run", "-o", "x.run", code=2)
    evaluate(monday, "--checkpoint", "again.run")
    assert "two of the runs have read" in call("merge", "monday.run", "again.run", "-o", "x.run", code=2)
    copied = write(tmp_path / "copied", frame(3000, seed=1), 1)
    evaluate(copied, "--checkpoint", "copy.run")
    assert "have read the same data; give each once" in call("merge", "monday.run", "copy.run", "-o", "x.run", code=2)
    evaluate(tuesday, "--checkpoint", "other.run", "--discount", 0.5)
    assert "different" in call("merge", "monday.run", "other.run", "-o", "x.run", code=2)
