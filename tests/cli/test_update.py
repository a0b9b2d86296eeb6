"""``inferl update``: new files continue a run, with the bits of a run that had them at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from logs import small_log
from pyarrow import csv as arrow_csv
from pyarrow import parquet
from runfiles import evaluator_bits
from typer.testing import CliRunner

from inferl.cli import app
from inferl.runs import Run

runner = CliRunner(env={"COLUMNS": "80", "FORCE_COLOR": None})
ROLES = ["--state", "s", "--n-states", "3", "--episode", "e", "--terminated", "none", "--episodes-end"]


def call(*command: str | Path, code: int = 0) -> Any:
    result = runner.invoke(app, list(map(str, command)))
    assert result.exit_code == code, result.output
    return result


@pytest.fixture
def days(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A log in three files, whose borders lie in episodes."""
    monkeypatch.chdir(tmp_path)
    frame = small_log(900)
    labels = np.r_[0, np.cumsum(frame["terminated"].to_numpy())[:-1]]
    frame = frame.append_column("e", pa.array(labels))
    borders = [0, *(int(np.flatnonzero(np.diff(labels) == 0)[k]) + 1 for k in (200, 400)), 900]
    names = [f"{i}.parquet" for i in range(3)]
    for name, begin, end in zip(names, borders, borders[1:], strict=False):
        parquet.write_table(frame.slice(begin, end - begin), name)
    return names


def readings(path: str) -> list[Any]:
    return [(r.n, r.estimate.tolist(), r.upper.tolist()) for r in Run.load(path).readings]


def test_new_files_continue_a_run(days: list[str]) -> None:
    call("evaluate", days[0], *ROLES, "--checkpoint", "a.run")
    call("update", "a.run", days[1])
    found = call("update", "a.run", days[2])
    assert found.stdout == call("evaluate", *days, *ROLES, "--checkpoint", "b.run").stdout
    assert evaluator_bits(Path("a.run")) == evaluator_bits(Path("b.run"))
    assert [n for n, *_ in readings("a.run")] == [n for n, *_ in readings("b.run")]
    assert Run.load("a.run").options == Run.load("b.run").options
    call("evaluate", days[0], *ROLES, "--checkpoint", "c.run")
    call("update", "c.run", *days[1:], "--quiet", "--require-width", "1e-9", code=1)
    assert evaluator_bits(Path("c.run")) == evaluator_bits(Path("b.run"))
    assert call("resume", "c.run").stdout == found.stdout


def test_what_cannot_be_updated_is_refused(days: list[str]) -> None:
    call("evaluate", days[0], *ROLES, "--checkpoint", "a.run")
    assert f"{days[0]} already" in call("update", "a.run", days[0], code=2).stderr
    assert "there is no file" in call("update", "a.run", "no.parquet", code=2).stderr
    assert "only a run of inferl evaluate on files can" in call("update", "a.run", "-", code=2).stderr
    arrow_csv.write_csv(pa.table({"s": [0], "other": [1.0]}), "other.csv")
    assert "other.csv" in call("update", "a.run", "other.csv", code=2).stderr
    early = Run.load("a.run")
    early.before = None
    early.save("early.run")
    assert "stopped before the end of its log" in call("update", "early.run", days[1], code=2).stderr
    frame = parquet.read_table(days[0])
    parquet.write_table(frame.slice(1), days[0])
    assert "rows 1 to" in call("update", "a.run", days[1], code=2).stderr
