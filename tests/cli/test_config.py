"""``--config`` and ``--write-config``: a file of options is as good as a command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from logs import small_log
from pyarrow import parquet
from typer.testing import CliRunner

from inferl.cli import app

runner = CliRunner(env={"COLUMNS": "80", "FORCE_COLOR": None})
OPTIONS = ["--state", "s", "--n-states", "3", "--ratio", "a,b", "--target", "start", "--target", "1", "--json"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    parquet.write_table(small_log(500), "log.parquet")
    return tmp_path


def call(*command: str, code: int = 0) -> Any:
    result = runner.invoke(app, list(command))
    assert result.exit_code == code, result.output
    return result


def test_what_was_written_gives_the_same_answer(here: Path) -> None:
    said = call("evaluate", "log.parquet", *OPTIONS, "--quiet", "--level", "0.9", "--write-config", "night.toml")
    assert said.stdout == "Options: night.toml; run them with: inferl evaluate --config night.toml\n"
    assert (here / "night.toml").read_text().splitlines() == [
        "# inferl evaluate --config night.toml",
        'file = ["log.parquet"]',
        'state = "s"',
        "n-states = 3",
        'ratio = "a,b"',
        'target = ["start", "1"]',
        "level = 0.9",
        "json = true",
        "quiet = true",
    ]
    expected = call("evaluate", "log.parquet", *OPTIONS, "--quiet", "--level", "0.9").stdout
    assert call("evaluate", "--config", "night.toml").stdout == expected
    changed = call("evaluate", "--config", "night.toml", "--level", "0.8", "--target", "2").stdout
    assert json.loads(changed)["interval"]["level"] == 0.8
    assert json.loads(changed)["interval"]["names"] == ["a", "b"]
    call("evaluate", "--config", "night.toml", "--write-config", "again.toml")
    assert (here / "again.toml").read_text().splitlines()[1:] == (here / "night.toml").read_text().splitlines()[1:]


def test_lists_stand_for_commas(here: Path) -> None:
    text = (
        'file = "log.parquet"\nstate = "s"\nn-states = 3\nratio = ["a", "b"]\ntarget = 1\njson = true\nquiet = true\n'
    )
    (here / "a.toml").write_text(text)
    answer = json.loads(call("evaluate", "--config", "a.toml").stdout)
    assert answer["interval"]["names"] == ["a", "b"]
    assert answer["facts"]["for"] == "target 1"


def test_a_rollout_has_one_too(here: Path) -> None:
    (here / "lake.toml").write_text('env = "FrozenLake-v1"\nepisodes = 20\nenv-option = ["is_slippery=true"]\n')
    assert "episodes completed  20" in call("rollout", "--config", "lake.toml").stdout


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("n_states = 3", "inferl evaluate has no option 'n_states'; did you mean n-states?"),
        ("x = 1\ny = 2", "has no option 'x', 'y'"),
        ("config = 'b.toml'", "has no option 'config'"),
        ("[state]\na = 1", "state is {'a': 1}; it must be text, a number, or a list of these"),
        ("state = true", "state is True; it must be text"),
        ("json = 1", "json is 1; it must be true or false"),
        ("state = ", "a.toml is no TOML"),
        ("discount = 'x'", "Invalid value for '--discount'"),
    ],
)
def test_a_wrong_file_is_refused(text: str, words: str, here: Path) -> None:
    (here / "a.toml").write_text(text)
    assert words in " ".join(call("evaluate", "log.parquet", "--config", "a.toml", code=2).stderr.split())


def test_a_file_that_is_not_there(here: Path) -> None:
    assert "cannot read no.toml: No such file" in call("evaluate", "--config", "no.toml", code=2).stderr
    assert "there is no folder" in call("evaluate", "log.parquet", "--write-config", "no/a.toml", code=2).stderr
