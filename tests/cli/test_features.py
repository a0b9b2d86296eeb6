"""Features, states and targets in the words of the shell."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from typer.testing import CliRunner

import inferl
from inferl.cli import app
from inferl.runs import Run
from inferl.sources import table

runner = CliRunner(env={"COLUMNS": "80", "FORCE_COLOR": None})


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rng, n = np.random.default_rng(0), 600
    columns = {"ward": rng.choice(["er", "icu"], n), "hr": rng.normal(80, 5, n).round(1), "e": np.arange(n) // 4}
    frame = pandas.DataFrame(columns | {"reward": rng.random(n) + (columns["ward"] == "icu"), "last": np.arange(n) % 4})
    frame.assign(terminated=frame.pop("last") == 3).to_csv("log.csv", index=False)
    Path("my_maps.py").write_text(
        "import inferl\ntiles = inferl.features.TileCoding(low=[60], high=[100], tilings=2, tiles=3)\n"
    )
    return tmp_path / "log.csv"


def run(*options: str, code: int = 0) -> Any:
    result = runner.invoke(app, list(options))
    assert result.exit_code == code, result.output
    return result


USUAL = ("--episode", "e", "--discount", "0.5")


def estimate(*options: str) -> float:
    line = json.loads(run("evaluate", "log.csv", *options, *USUAL, "--json").stdout.splitlines()[-1])
    found: float = np.atleast_1d(line["interval"]["estimate"])[0]
    return found


def test_a_target_in_the_words_of_the_columns(log: Path) -> None:
    source = table(log, features="hr + ward", episode="e", discount=0.5)
    evaluator = inferl.Evaluator(inferl.TD(3)).update(source)
    expected = evaluator.estimate(source.at(ward="icu", hr=80))
    assert estimate("--features", "hr + ward", "--target", "ward=icu,hr=80") == pytest.approx(float(expected))
    assert estimate("--features", "hr,ward", "--target", "hr=80,ward=icu") == pytest.approx(float(expected))
    source = table(log, state="ward", episode="e", discount=0.5)
    expected = inferl.Evaluator(inferl.TD(2)).update(source).estimate(source.at(ward="er"))
    assert estimate("--state", "ward", "--target", "ward=er") == pytest.approx(float(expected))
    both = run("evaluate", "log.csv", "--state", "ward", *USUAL, "--target", "ward=er", "--target", "ward=icu").stdout
    assert [line.partition(":")[0] for line in both.splitlines()[:2]] == ["ward=er", "ward=icu"]
    for target, words in (
        ("ward=morgue", "ward = 'morgue' is none of the levels"),
        ("hr=80", "a state has a value of each of ward; given is hr"),
        ("ward=er,3", "'3' is no value of a column; write name=value"),
    ):
        assert words in run("evaluate", "log.csv", "--state", "ward", *USUAL, "--target", target, code=2).stderr


def test_a_feature_map_is_imported_and_resume_asks_first(log: Path) -> None:
    options = ("--features", "my_maps:tiles", "--state", "hr", *USUAL, "--checkpoint", "a.run")
    run("evaluate", "log.csv", *options)
    assert Run.load("a.run").evaluator.algorithm.n_values == 6
    Path("log.csv").write_text(Path("log.csv").read_text() + "er,80.0,900,1.0,True\n")
    assert "names code to be run: my_maps:tiles" in run("resume", "a.run", code=2).stderr
    assert "601 transitions" in run("resume", "a.run", "--yes").stdout


def test_a_run_of_categories_is_resumed_with_the_same_levels(log: Path) -> None:
    run("evaluate", "log.csv", "--features", "hr*ward", *USUAL, "--checkpoint", "a.run")
    Path("log.csv").write_text(Path("log.csv").read_text() + "er,80.0,900,1.0,True\nmorgue,80.0,901,0.0,True\n")
    found = run("resume", "a.run", code=2)
    assert "row 602, column 'ward': 'morgue' is none of the levels known from the start: er, icu" in found.stderr
    assert "601 transitions" in run("resume", "a.run", "--skip-bad", "1").stdout


def test_features_beside_a_state_are_a_map(log: Path) -> None:
    options = ("evaluate", "log.csv", "--features", "hr", "--state", "ward")
    assert "--features and --state are both given" in run(*options, code=2).stderr


def test_visits_to_a_state_in_the_words_of_the_columns_are_starts(log: Path) -> None:
    usual = ("--state", "ward", "--discount", "0.5", "--terminated", "none")
    number = run("evaluate", "log.csv", *usual, "--start", "1").stdout
    assert run("evaluate", "log.csv", *usual, "--start", "ward=icu").stdout == number
