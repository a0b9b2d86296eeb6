"""Answers: names, JSON of one shape, short answers, files, several targets, and gates."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from logs import small_log
from pyarrow import parquet
from typer.testing import CliRunner

from inferl.cli import app
from inferl.runs import Run

runner = CliRunner(env={"COLUMNS": "80", "FORCE_COLOR": None})
SMALL = ["--state", "s", "--n-states", "3"]
JSON = ["--json", "--quiet"]  # the answer, without readings


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("logs") / "log.parquet"
    parquet.write_table(small_log(), path, row_group_size=500)
    return path


def call(*command: str | Path, code: int = 0) -> Any:
    result = runner.invoke(app, list(map(str, command)))
    assert result.exit_code == code, result.output
    return result


def last_line(result: Any) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(result.stdout.splitlines()[-1])
    return content


KEYS = ["final", "interval", "differences", "checks", "facts"]
INTERVAL = [
    *("names", "estimate", "lower", "upper", "level", "kind", "standard_error", "df", "n", "estimand", "notes"),
]  # fmt: skip


def test_every_line_has_one_shape(log: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.parquet"
    parquet.write_table(small_log(seed=1), other)
    runs = [tmp_path / "a.run", tmp_path / "b.run"]
    commands: list[list[str | Path]] = [
        ["evaluate", log, *SMALL, "--checkpoint", runs[0]],
        ["evaluate", other, *SMALL, "--checkpoint", runs[1]],
        ["evaluate", log, *SMALL, "--ratio", "a,b", "--target", "start", "--target", "1"],
        ["evaluate", log, *SMALL, "--estimator", "monte-carlo"],
        ["resume", runs[0]],
        ["compare", *runs],
    ]
    for command in commands:
        for line in map(json.loads, call(*command, "--json").stdout.splitlines()):
            assert list(line) == KEYS
            assert list(line["interval"]) == INTERVAL
            assert line["differences"] is None or list(line["differences"]) == INTERVAL
            several = line["interval"]["names"] is not None
            for name in ("estimate", "lower", "upper", "standard_error", "df"):
                assert isinstance(line["interval"][name], list) == several or line["interval"][name] is None


def test_policies_are_named_after_their_columns(log: Path) -> None:
    options = [str(log), *SMALL, "--ratio", "a,b"]
    answer = last_line(call("evaluate", *options, *JSON))
    assert answer["interval"]["names"] == ["a", "b"]
    assert answer["differences"]["names"] == ["b - a"]
    lines = call("evaluate", *options).stdout.splitlines()
    assert [line.split(" ")[0] for line in lines[:2]] == ["a:", "b:"]
    assert lines[-1].startswith("b - a: ")


def test_names_of_columns_are_not_taken_for_options(tmp_path: Path) -> None:
    frame = small_log(300).rename_columns(["s", "reward", "terminated", "target_probability", "n_states"])
    parquet.write_table(frame, tmp_path / "log.parquet")
    options = [str(tmp_path / "log.parquet"), *SMALL, "--ratio", "target_probability,n_states"]
    answer = last_line(call("evaluate", *options, *JSON))
    assert answer["interval"]["names"] == ["target_probability", "n_states"]
    lines = call("evaluate", *options).stdout.splitlines()
    assert [line.split(" ")[0] for line in lines[:2]] == ["target_probability:", "n_states:"]
    refused = call("evaluate", *options, "--reward", "x", code=2).stderr
    assert refused.endswith("the log has the columns s, reward, terminated, target_probability, n_states\n")


def test_several_targets(log: Path) -> None:
    options = [str(log), *SMALL, *JSON]
    asked = ["--target", "start", "--target", "1", "--target", "0,0,1"]
    answer = last_line(call("evaluate", *options, *asked))
    assert answer["interval"]["names"] == ["start", "target 1", "target 0,0,1"]
    alone = [last_line(call("evaluate", *options, *asked[i : i + 2])) for i in (0, 2, 4)]
    assert answer["interval"]["estimate"] == pytest.approx([one["interval"]["estimate"] for one in alone])
    assert answer["interval"]["lower"][0] == alone[0]["interval"]["lower"]  # beside it, states by episodes too
    assert answer["facts"]["for"].startswith("the ")
    assert {check["name"] for check in alone[0]["checks"]} <= {check["name"] for check in answer["checks"]}
    both = last_line(call("evaluate", *options, *asked[:4], "--ratio", "a,b"))
    assert both["interval"]["names"] == ["a, start", "b, start", "a, target 1", "b, target 1"]
    assert both["differences"]["names"] == ["b - a, start", "b - a, target 1"]
    estimate = both["interval"]["estimate"]
    assert both["differences"]["estimate"] == pytest.approx([estimate[1] - estimate[0], estimate[3] - estimate[2]])
    refused = call("evaluate", log, *SMALL, *asked, "--estimator", "fitted", code=2).stderr
    assert "leave --target out" in refused


def test_simultaneous_intervals_are_wider(log: Path) -> None:
    options = [str(log), *SMALL, *JSON, "--ratio", "a,b"]
    plain, joint = (last_line(call("evaluate", *options, *kind)) for kind in ([], ["--kind", "simultaneous"]))
    assert joint["interval"]["kind"] == "simultaneous"
    assert joint["interval"]["estimate"] == plain["interval"]["estimate"]
    assert all(one < other for one, other in zip(joint["interval"]["lower"], plain["interval"]["lower"], strict=True))


def test_a_run_of_several_targets_is_resumed_and_shown(log: Path, tmp_path: Path) -> None:
    run_file = tmp_path / "many.run"
    options = ["--ratio", "a,b", "--target", "start", "--target", "1"]
    first = call("evaluate", log, *SMALL, *options, "--checkpoint", run_file)
    assert call("resume", run_file).stdout == first.stdout
    assert Run.load(run_file).readings[-1].estimate.shape == (4,)
    call("report", run_file)
    page = (tmp_path / "many.html").read_text()
    assert all(name in page for name in ("a, start", "b, target 1", "b - a, target 1", "Each policy minus a"))


def test_quiet_prints_the_interval_only(log: Path) -> None:
    whole = call("evaluate", log, *SMALL).stdout
    assert call("evaluate", log, *SMALL, "--quiet").stdout == whole.splitlines()[0] + "\n"
    (line,) = call("evaluate", log, *SMALL, *JSON).stdout.splitlines()
    assert json.loads(line)["final"]


def test_the_report_goes_to_a_file(log: Path, tmp_path: Path) -> None:
    path = tmp_path / "answer.json"
    answer = last_line(call("evaluate", log, *SMALL, *JSON, "--output", path))
    assert json.loads(path.read_text()) == answer
    call("evaluate", log, *SMALL, "--output", tmp_path / "answer.html", "--quiet")
    assert "<!DOCTYPE html>" in (tmp_path / "answer.html").read_text()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--output", "answer.txt"], "its name must end in .json or .html"),
        (["--output", "nowhere/answer.json"], "there is no folder nowhere"),
        (["--output", "answer.html", "--estimator", "pdis"], "its name must end in .json"),
        (["--checkpoint", "."], "it is a folder or a device; name a file"),
        (["--checkpoint", "/dev/null"], "it is a folder or a device; name a file"),
        (["--estimator", "pdis", "--ratio", "a,b"], "--estimator pdis is for one policy; name one, not a,b"),
        (["--require-difference", "0"], "--require-difference compares target policies, and there is one"),
    ],
)
def test_what_cannot_be_written_or_decided_is_refused(options: list[str], words: str, log: Path) -> None:
    result = call("evaluate", log, *SMALL, *options, code=2)
    assert result.stdout == ""
    assert words in result.stderr


@pytest.mark.parametrize(
    ("gate", "code", "words"),
    [
        (["--require-upper", "5"], 0, ""),
        (["--require-upper", "-5"], 1, "gate not met: the upper bound"),
        (["--require-difference", "-5"], 0, ""),
        (["--require-difference", "5"], 1, "gate not met: the lower bound of a difference, -"),
    ],
)
def test_gates(gate: list[str], code: int, words: str, log: Path) -> None:
    assert words in call("evaluate", log, *SMALL, "--discount", "0.5", "--ratio", "a,b", *gate, code=code).stderr
