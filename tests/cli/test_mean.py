"""``inferl mean``: the mean of all rows, or of the totals of episodes, with an interval that allows for dependence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv as arrow_csv
from scipy.stats import sem
from typer.testing import CliRunner

from inferl.cli import app
from inferl.runs import Run

runner = CliRunner(env={"COLUMNS": "80", "FORCE_COLOR": None})


def call(*command: str, code: int = 0) -> Any:
    result = runner.invoke(app, list(command))
    assert result.exit_code == code, result.output
    return result


def interval(*command: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(call("mean", *command, "--json", "--quiet").stdout)
    return answer["interval"]  # type: ignore[no-any-return]


@pytest.fixture
def frame(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pa.Table:
    """A log whose columns have names that usually mean something else, and one that depends on its past."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    noise = rng.normal(size=4000)
    slow = np.array([total := 0.0] + [total := 0.9 * total + x for x in noise[1:]])
    frame = pa.table(
        {
            "a session": np.sort(rng.integers(500, size=4000)),
            "latency": rng.exponential(size=4000),
            "slow": slow,
            "terminated": rng.random(4000) < 0.1,
            "action_prob": rng.random(4000),
            "order": rng.integers(9, size=4000),
        }
    )
    arrow_csv.write_csv(frame, "log.csv")
    arrow_csv.write_csv(frame.slice(0, 1500), "begin.csv")
    arrow_csv.write_csv(frame.slice(1500), "end.csv")
    return frame


def test_every_row_counts(frame: pa.Table) -> None:
    latency = frame["latency"].to_numpy()
    found = interval("log.csv", "latency")
    assert found["n"] == 4000
    assert found["estimate"] == pytest.approx(latency.mean())
    assert found["standard_error"] == pytest.approx(sem(latency), rel=0.1)
    assert interval("begin.csv", "end.csv", "latency") == found


def test_rows_that_depend_on_each_other_widen_the_interval(frame: pa.Table) -> None:
    """By sqrt((1 + r) / (1 - r)) = 4.4 for a correlation of 0.9."""
    slow = frame["slow"].to_numpy()
    found = interval("log.csv", "slow")
    assert found["estimate"] == pytest.approx(slow.mean())
    assert 3 < found["standard_error"] / sem(slow) < 6


def test_totals_of_episodes(frame: pa.Table) -> None:
    label = frame["a session"].to_numpy()
    totals = np.bincount(label, frame["latency"].to_numpy())[np.unique(label)]
    found = interval("log.csv", "latency", "--by", "a session", "--level", "0.9")
    assert found["estimate"] == pytest.approx(totals.mean())
    assert found["standard_error"] == pytest.approx(sem(totals), rel=1e-3)
    assert found["level"] == 0.9


def test_the_usual_options(frame: pa.Table) -> None:
    assert "95% anytime" in call("mean", "log.csv", "latency", "--kind", "anytime", "--quiet").stdout
    assert "gate not met" in call("mean", "log.csv", "latency", "--require-lower", "2", code=1).stderr
    assert "there is no column 'x'" in call("mean", "log.csv", "x", code=2).stderr
    call("mean", "begin.csv", "latency", "--checkpoint", "a.run")
    call("update", "a.run", "end.csv")
    assert Run.load("a.run").interval().estimate == interval("log.csv", "latency")["estimate"]
    call("mean", "log.csv", "latency", "--by", "a session", "--quiet", "--write-config", "a.toml")
    text = call("mean", "log.csv", "latency", "--by", "a session", "--quiet").stdout
    assert call("mean", "--config", "a.toml").stdout == text


def test_mixed_labels_need_their_times(frame: pa.Table) -> None:
    """Without them, a label that is used again could not be noticed."""
    mixed = frame.append_column("at", pa.array(np.arange(4000))).take(np.arange(4000).reshape(2, -1).T.ravel())
    mixed = mixed.set_column(mixed.column_names.index("at"), "at", pa.array(np.arange(4000)))
    arrow_csv.write_csv(mixed, "mixed.csv")
    alone = interval("mixed.csv", "latency", "--by", "a session")
    assert [note.partition(":")[0] for note in alone["notes"]] == ["labels"]
    timed = interval("mixed.csv", "latency", "--by", "a session", "--order", "at")
    assert timed["notes"] == []
    assert timed["estimate"] == pytest.approx(alone["estimate"])
    assert timed["estimate"] == pytest.approx(interval("log.csv", "latency", "--by", "a session")["estimate"])
    assert "--order goes with --by" in call("mean", "mixed.csv", "latency", "--order", "at", code=2).stderr
