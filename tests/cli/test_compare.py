"""``inferl compare``: differences of runs, in words, for machines, and as a gate."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from typer.testing import CliRunner

import inferl
from inferl.cli import app, building
from inferl.runs import Run

runner = CliRunner(env={"COLUMNS": "80", "FORCE_COLOR": None})


@pytest.fixture
def runs(tmp_path: Path) -> tuple[str, str, str]:
    """Runs of logs of their own; the second and the third are paid 1 more a step, which is worth 10."""
    paths = []
    for i in range(3):
        rng = np.random.default_rng(i)
        frame = pa.table({"s": rng.integers(2, size=1000), "reward": rng.normal(size=1000) + (i > 0)})
        parquet.write_table(frame, tmp_path / f"{i}.parquet")
        paths.append(str(tmp_path / f"{i}.run"))
        options = ["--state", "s", "--n-states", "2", "--discount", "0.9", "--checkpoint", paths[-1]]
        assert runner.invoke(app, ["evaluate", str(tmp_path / f"{i}.parquet"), *options]).exit_code == 0
    return paths[0], paths[1], paths[2]


@pytest.fixture
def few(tmp_path: Path) -> str:
    """A run of twelve rows, whose length check fails."""
    parquet.write_table(pa.table({"s": [0, 1] * 6, "reward": [1.0, 2.0] * 6}), tmp_path / "few.parquet")
    options = ["--state", "s", "--n-states", "2", "--discount", "0.9", "--checkpoint", str(tmp_path / "few.run")]
    assert runner.invoke(app, ["evaluate", str(tmp_path / "few.parquet"), *options]).exit_code == 0
    return str(tmp_path / "few.run")


def compare(*options: str, code: int = 0) -> Any:
    result = runner.invoke(app, ["compare", *options])
    assert result.exit_code == code, result.output
    return result


def rollout(path: Path, *options: str) -> str:
    words = ["rollout", "FrozenLake-v1", "--episodes", "60", "--checkpoint", str(path), *options]
    assert runner.invoke(app, words).exit_code == 0
    return str(path)


def test_in_words(runs: tuple[str, str, str]) -> None:
    lines = compare(*runs[:2]).stdout.splitlines()
    assert lines[1].split()[0] == runs[0]
    assert lines[2].split()[0] == runs[1]
    assert lines[3] == "difference, 95%, independent data"
    assert lines[4].strip().startswith(f"{runs[0]} - {runs[1]}  -")
    assert lines[4].endswith(f"{runs[1]} is better")
    assert lines[5] == f"best: {runs[1]}"
    brief = compare(*runs[:2], "--quiet").stdout.splitlines()
    assert brief == [f"{runs[0]} - {runs[1]}: {' '.join(lines[4].split()[3:6])}"]


def test_for_machines(runs: tuple[str, str, str]) -> None:
    said = json.loads(compare(*runs[:2], "--json", "--level", "0.9", "--margin", "100").stdout)
    assert set(said) == {"final", "interval", "differences", "checks", "facts"}
    found, loaded = said["differences"], {path: Run.load(path) for path in runs[:2]}
    expected = inferl.compare(loaded, level=0.9).difference(runs[0], runs[1])
    assert (found["names"], found["estimate"]) == ([f"{runs[0]} - {runs[1]}"], [expected.estimate])
    assert (found["level"], found["df"]) == (0.9, [expected.df])
    assert abs(found["estimate"][0] + 10) < 5 * found["standard_error"][0]  # a false alarm with probability 1e-6
    assert said["interval"]["names"] == list(runs[:2])
    assert (said["facts"]["verdict"], said["facts"]["best"]) == ("PASS", runs[1])


def test_three_runs_are_compared_at_once(runs: tuple[str, str, str]) -> None:
    two, three = (json.loads(compare(*which, "--json").stdout)["differences"] for which in (runs[:2], runs))
    assert len(three["names"]) == 3
    assert three["kind"] == "simultaneous"
    assert three["estimate"][0] == two["estimate"][0]
    assert three["upper"][0] > two["upper"][0]


@pytest.mark.parametrize(
    ("order", "margin", "code", "said"),
    [
        ((1, 0), "0", 0, "PASS: {1} is not worse than {0}"),
        ((1, 2), "3", 0, "PASS: {1} is at most 3 worse than {2}"),
        ((1, 0, 2), "3", 0, "PASS: {1} is at most 3 worse than {0} and {2}"),
        ((1, 0), "-5", 0, "PASS: {1} is at least 5 better than {0}"),
        ((0, 1), "5", 1, "FAIL: {0} is more than 5 worse than {1}"),
        ((2, 0, 1), "0", 3, "INCONCLUSIVE: {2} may be worse than {1}"),
        ((0, 1), "10", 3, "INCONCLUSIVE: {0} may be more than 10 worse than {1}"),
    ],
)
def test_as_a_gate(runs: tuple[str, str, str], order: tuple[int, ...], margin: str, code: int, said: str) -> None:
    result = compare(*(runs[i] for i in order), "--margin", margin, code=code)
    assert said.format(*runs) in result.stdout
    assert (f"gate not met: {said.format(*runs)}" in result.stderr) == (code > 0)


def test_a_failed_check_decides_nothing(runs: tuple[str, str, str], few: str) -> None:
    assert f"note: {few}: length" in compare(runs[0], few).stdout
    compare(runs[0], few, "--margin", "1000", code=3)


def test_rollouts_with_one_seed_are_matched(tmp_path: Path) -> None:
    one = rollout(tmp_path / "one.run", "--seed", "1")
    same = rollout(tmp_path / "same.run", "--seed", "1", "--num-envs", "2")
    other = rollout(tmp_path / "other.run", "--seed", "2")
    found = json.loads(compare(one, same, "--json").stdout)
    assert found["facts"]["pairing"] == "matched"
    assert (found["differences"]["lower"], found["differences"]["upper"]) == ([0.0], [0.0])
    assert json.loads(compare(one, other, "--json").stdout)["facts"]["pairing"] == "independent"


def test_a_resumed_rollout_keeps_its_returns(tmp_path: Path) -> None:
    whole = Run.load(rollout(tmp_path / "whole.run", "--seed", "1"))
    source = building.make_rollout(whole.options)
    run = Run(building.make_evaluator(whole.options, 1, by_starts=True), "rollout", whole.options)
    for chunk in source.take(steps=100):  # stopped in the middle of an episode
        run.take(chunk, source)
    run.save(tmp_path / "cut.run")
    assert runner.invoke(app, ["resume", str(tmp_path / "cut.run")]).exit_code == 0
    again = Run.load(tmp_path / "cut.run")
    assert whole.returns is not None
    assert again.returns is not None
    assert again.returns.ended.tolist() == whole.returns.ended.tolist()


def test_runs_that_are_not_independent_are_refused(runs: tuple[str, str, str], tmp_path: Path) -> None:
    assert f"{runs[0]} is named twice" in compare(runs[0], runs[0], code=2).stderr
    copy = tmp_path / "copy.run"
    copy.write_bytes(Path(runs[0]).read_bytes())
    result = compare(runs[0], str(copy), code=2)
    assert "saw the same data, so they are not independent; evaluate both policies at once" in result.stderr
    assert "there is one run; name two or more" in compare(runs[0], code=2).stderr
    one = rollout(tmp_path / "one.run", "--seed", "1")
    fitted = rollout(tmp_path / "fitted.run", "--seed", "1", "--features", "observation", "--time-limit", "cut")
    result = compare(one, fitted, code=2)
    assert "both have the seed 1" in result.stderr
    assert "evaluate one of them with another seed" in " ".join(result.stderr.split())


def test_an_answer_can_be_written(runs: tuple[str, str, str], tmp_path: Path) -> None:
    compare(*runs[:2], "--output", str(tmp_path / "answer.json"))
    assert json.loads((tmp_path / "answer.json").read_text())["final"] is True
    compare(*runs[:2], "--output", str(tmp_path / "page.html"))
    assert "How far apart" in (tmp_path / "page.html").read_text("utf-8")
    assert "must end in" in compare(*runs[:2], "--output", str(tmp_path / "answer.txt"), code=2).stderr
