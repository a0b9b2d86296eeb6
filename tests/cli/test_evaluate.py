"""``inferl evaluate`` and ``inferl resume``: the library's answers, in every format, whatever happens on the way."""

from __future__ import annotations

import json
import math
import os
import pty
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from logs import small_log
from pyarrow import csv as arrow_csv
from pyarrow import parquet
from typer.testing import CliRunner

import inferl
from inferl.cli import app
from inferl.runs import Run
from inferl.sources import table

runner = CliRunner(env={"COLUMNS": "80", "FORCE_COLOR": None})
INFERL = [sys.executable, "-c", "from inferl.cli import main; main()"]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.parquet"
    parquet.write_table(small_log(), path, row_group_size=500)
    return path


SMALL = ["--state", "s", "--n-states", "3"]


def evaluate(*options: str | Path, code: int = 0) -> Any:
    result = runner.invoke(app, ["evaluate", *map(str, options)])
    assert result.exit_code == code, result.output
    return result


def last_line(result: Any) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(result.stdout.splitlines()[-1])
    return content


# Answers.


def by_hand(path: Path, **options: Any) -> Any:
    source = table(path, state="s", n_states=3, **options)
    return inferl.Evaluator(inferl.DoublyRobust(3)).update(source).interval(source.start(), 0.9)


def test_the_answer_is_the_library_s(log: Path) -> None:
    answer = last_line(evaluate(log, *SMALL, "--level", "0.9", "--json"))
    expected = by_hand(log)
    assert answer["final"]
    assert answer["interval"]["estimate"] == expected.estimate
    assert answer["interval"]["lower"] == expected.lower
    assert answer["facts"]["for"].endswith("observed starts")
    text = evaluate(log, *SMALL, "--level", "0.9").stdout
    assert text.startswith(str(expected).splitlines()[0])
    assert f"{log}, 2,000 rows" in text
    assert "observed starts" in text


def test_standard_input(log: Path, tmp_path: Path) -> None:
    arrow_csv.write_csv(parquet.read_table(log), tmp_path / "log.csv")
    result = runner.invoke(app, ["evaluate", "-", *SMALL, "--json"], input=(tmp_path / "log.csv").read_bytes())
    assert result.exit_code == 0, result.output
    assert last_line(result)["interval"]["estimate"] == by_hand(log).estimate
    assert last_line(result)["facts"]["log"] == "standard input, 2,000 rows"


def test_readings_come_as_lines_of_json(log: Path) -> None:
    lines = [json.loads(line) for line in evaluate(log, *SMALL, "--json").stdout.splitlines()]
    ns = [line["interval"]["n"] for line in lines]
    assert ns == sorted(ns)
    assert len(set(ns[:-1])) == len(ns) - 1 >= 4
    assert [line["final"] for line in lines] == [False] * (len(lines) - 1) + [True]


def test_a_batch_has_readings_inside(tmp_path: Path) -> None:
    """A log of 3000 rows comes as one batch; readings begin at 100 transitions all the same, and lie 1.25 apart."""
    rng = np.random.default_rng(0)
    path, run = tmp_path / "log.parquet", tmp_path / "log.run"
    parquet.write_table(pa.table({"s": rng.integers(3, size=3000), "reward": rng.normal(size=3000)}), path)
    lines = evaluate(path, *SMALL, "--json", "--checkpoint", run).stdout.splitlines()
    ns = [json.loads(line)["interval"]["n"] for line in lines[:-1]]
    assert ns[0] == 100
    assert all(later == math.ceil(1.25 * earlier) for earlier, later in pairwise(ns))
    readings = Run.load(run).readings
    assert [reading.n for reading in readings] == [*ns, 2999]
    begin = inferl.Evaluator(inferl.TD(3)).update(next(iter(table(path, state="s", n_states=3)))[: ns[5]])
    assert readings[5].estimate[0] == begin.estimate(Run.load(run).start)


def test_targets(log: Path) -> None:
    state = last_line(evaluate(log, *SMALL, "--target", "1", "--json"))["interval"]
    assert state == last_line(evaluate(log, *SMALL, "--target", "0,1,0", "--json"))["interval"]
    for target, words in (
        ("9", "state 9 is outside the table"),
        ("x", "target is 'x'; say start"),
        ("1,2", "length 3"),
    ):
        assert words in evaluate(log, *SMALL, "--target", target, code=2).stderr


def test_every_option_reaches_the_library(tmp_path: Path) -> None:
    frame = pa.table(
        {
            "x": [0.0, 1.0, 0.5, 2.0, 3.0, 1.0],
            "pay": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
            "who": [1, 2, 1, 2, 1, 2],
            "step": [0, 0, 2, 2, 4, 4],
            "over": [0, 0, 0, 0, 1, 0],
            "cut": [0, 0, 0, 0, 0, 1],
            "y": [0.5, 2.0, 3.0, 1.0, 0.0, 4.0],
            "lp": [-1.0] * 6,
            "lq": [-1.0, -0.5, 2.0, -1.0, -1.0, -1.0],
        }
    )
    parquet.write_table(frame, tmp_path / "log.parquet")
    options = "--features x --next-features y --reward pay --episode who --order step --gaps "
    options += "--terminated over --truncated cut --behaviour-log-probability lp --target-log-probability lq --clip 1.5"
    text = evaluate(tmp_path / "log.parquet", *options.split(), "--target", "1,1").stdout
    source = table(
        frame,
        features=["x"],
        next_features=["y"],
        reward="pay",
        episode="who",
        order="step",
        gaps=True,
        terminated="over",
        truncated="cut",
        behaviour_log_probability="lp",
        target_log_probability="lq",
        clip=1.5,
    )
    expected = inferl.Evaluator(inferl.TD(2)).update(source)
    assert text.startswith(str(expected.interval([1.0, 1.0])).splitlines()[0])
    assert "ratios clipped      2 at 1.5, which biases the estimate" in text


def test_sessions_of_users_in_order_of_time(tmp_path: Path) -> None:
    """A user who comes back after half an hour begins a new session."""
    minutes = np.array([0, 1, 5, 9, 20, 60, 61, 70])
    frame = pa.table({
        "user": [1, 2, 1, 2, 1, 2, 1, 2], "reward": [1.0] * 8, "x": np.arange(8) % 3 * 1.0,
        "at": (minutes * 60_000_000).astype("datetime64[us]"),
    })  # fmt: skip
    parquet.write_table(frame, tmp_path / "log.parquet")
    options = ["--features", "x", "--episode", "user", "--order", "at", "--episodes-end", "--idle-timeout"]
    text = evaluate(tmp_path / "log.parquet", *options, "30m", "--estimator", "pdis", "--discount", "1").stdout
    assert text.startswith("2.0 ["), text  # 8 rewards of 4 sessions
    assert "mixed in order of time, at most 2 open at once" in text
    refused = evaluate(tmp_path / "log.parquet", *options, "30", code=2)
    assert "--idle-timeout is '30'; give a time, such as 90s, 30m or 2h" in " ".join(refused.stderr.split())


def test_several_policies_at_once(log: Path) -> None:
    answer = last_line(evaluate(log, *SMALL, "--ratio", "a,b", "--json"))
    assert len(answer["interval"]["estimate"]) == 2
    assert answer["interval"]["estimate"][0] == pytest.approx(by_hand(log, ratio="a").estimate)
    assert "each policy minus the first, from the same data" in evaluate(log, *SMALL, "--ratio", "a,b").stdout


def test_what_is_asked_of_the_starts(log: Path) -> None:
    """The value, what the features alone say, and three rivals; each says what it is about."""
    source = table(log, state="s", n_states=3, ratio="a")
    data = inferl.Transitions.join(list(source))
    evaluator = inferl.Evaluator(inferl.DoublyRobust(3)).update(data)
    options = [str(log), *SMALL, "--ratio", "a", "--json", "--estimator"]
    for name, expected in (
        ("value", evaluator.interval()),
        ("fitted", evaluator.interval("fitted")),
        ("pdis", inferl.baselines.per_decision(data)),
        ("wpdis", inferl.baselines.per_decision(data, weighted=True)),
    ):
        found = last_line(evaluate(*options, name))["interval"]
        assert found["estimate"] == pytest.approx(expected.estimate), name
        assert found["estimand"] == expected.estimand
    plain = last_line(evaluate(log, *SMALL, "--json", "--estimator", "monte-carlo"))["interval"]
    assert plain["estimate"] == pytest.approx(inferl.baselines.monte_carlo(table(log, state="s", n_states=3)).estimate)
    assert "leave --target out" in evaluate(log, *SMALL, "--estimator", "fitted", "--target", "1", code=2).stderr
    text = evaluate(log, *SMALL, "--estimator", "monte-carlo").stdout
    assert "estimand" in text
    assert "monte-carlo" in text


def test_the_report_of_a_baseline_shows_what_is_wrong(tmp_path: Path) -> None:
    cut = np.arange(300) % 3 == 0
    frame = pa.table({
        "episode": np.repeat(np.arange(300), 2), "x": np.ones(600), "reward": np.ones(600),
        "truncated": np.stack([0 * cut, cut], axis=1).ravel(), "terminated": np.stack([0 * cut, ~cut], axis=1).ravel(),
    })  # fmt: skip
    parquet.write_table(frame, tmp_path / "log.parquet")
    path, options = tmp_path / "log.parquet", ["--features", "x", "--discount", "0.9", "--estimator", "monte-carlo"]
    assert "!! truncation: 100 of 300 episodes" in " ".join(evaluate(path, *options).stdout.split())
    answer = last_line(evaluate(path, *options, "--json"))
    assert [check["name"] for check in answer["checks"] if check["status"] == "failed"] == ["truncation"]


def test_options_that_would_be_ignored_are_refused(log: Path) -> None:
    assert "pdis has no --kind" in evaluate(log, *SMALL, "--estimator", "pdis", "--kind", "anytime", code=2).stderr
    for more in (("--algorithm", "gtd2"), ("--target", "1")):
        assert "--start needs" in evaluate(log, *SMALL, "--start", "0", *more, code=2).stderr


def test_the_average_of_all_steps(log: Path) -> None:
    found = last_line(evaluate(log, *SMALL, "--estimator", "average", "--json"))
    data = inferl.Transitions.join(list(table(log, state="s", n_states=3)))
    assert found["interval"]["estimate"] == pytest.approx(data.rewards.mean())
    assert found["interval"]["estimand"] == "the average reward per step"
    assert found["facts"]["for"] == "all steps"
    assert not {"features", "ends", "range"} & {check["name"] for check in found["checks"]}
    refused = evaluate(log, *SMALL, "--estimator", "average", "--ratio", "a,b", code=2).stderr
    assert "average is on-policy" in refused
    assert "leave ratios out" in evaluate(log, *SMALL, "--estimator", "average", "--ratio", "a", code=2).stderr


def test_visits_to_a_state_are_starts(log: Path) -> None:
    found = last_line(evaluate(log, *SMALL, "--start", "0", "--json"))["interval"]
    data = inferl.Transitions.join(list(table(log, state="s", n_states=3)))
    expected = inferl.Evaluator(inferl.DoublyRobust(3, start=0)).update(data).interval()
    assert found["estimate"] == expected.estimate
    assert found["estimand"] == "the value at the given start state"


def test_a_state_is_asked_for_by_the_features(log: Path) -> None:
    found = last_line(evaluate(log, *SMALL, "--target", "1", "--json"))
    assert found["interval"]["estimand"] == "the value at given features: the projected fixed point"
    assert [check["status"] for check in found["checks"] if check["name"] == "features"] == ["not available"]


# Gates.


@pytest.mark.parametrize(
    ("gate", "code", "words"),
    [
        (["--require-lower", "-5"], 0, ""),
        (["--require-lower", "5"], 1, "gate not met: the lower bound -0"),
        (["--require-width", "5"], 0, ""),
        (["--require-width", "0.001"], 1, "is above 0.001"),
    ],
)
def test_gates(gate: list[str], code: int, words: str, log: Path, tmp_path: Path) -> None:
    run_file = tmp_path / "small.run"
    result = evaluate(log, *SMALL, "--checkpoint", run_file, *gate, code=code)
    assert words in result.stderr
    assert "observed starts" in result.stdout  # the answer is there in any case
    assert runner.invoke(app, ["resume", str(run_file), *gate]).exit_code == code


def test_an_interval_that_failed_a_check_meets_no_gate(tmp_path: Path) -> None:
    parquet.write_table(small_log(12), tmp_path / "few.parquet")
    result = evaluate(tmp_path / "few.parquet", *SMALL, "--require-lower", "-1e9", code=1)
    assert "a check failed, length" in result.stderr


def test_a_bootstrap_needs_no_step_size(log: Path) -> None:
    """It starts at the solution of the first rows; so the estimate is that of least squares."""
    common = ["--state", "s", "--n-states", "3", "--estimator", "fitted", "--json"]
    solved, walked = (last_line(evaluate(log, *common, "--method", name)) for name in ("least-squares", "bootstrap"))
    assert walked["interval"]["estimate"] == pytest.approx(solved["interval"]["estimate"], rel=1e-6)
    assert 0.8 < walked["interval"]["standard_error"] / solved["interval"]["standard_error"] < 1.25


# Bad input.


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--level", "95"], "did you mean 0.95?"),
        (["--features", "z"], "there is no column 'z' (--features)"),
        (["--features", "s + / r"], "a column or a function should stand at character 5"),
        ([*SMALL, "--step-size", "3"], "least squares has no step size"),
        (["--state", "s", "--n-states", "1001", "--method", "bootstrap"], "the bootstrap needs --step-size"),
        ([*SMALL, "--algorithm", "gtd2", "--trace", "0.5"], "gtd2 has no trace"),
        ([*SMALL, "--steps", "3"], "--steps is for nstep"),
        ([*SMALL, "--discount", "1.5"], "discount is 1.5"),
        ([*SMALL, "--checkpoint", "nowhere/small.run"], "there is no folder nowhere"),
        ([*SMALL, "--reward", "none"], "say which column holds the reward"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(options: list[str], words: str, log: Path) -> None:
    result = evaluate(log, *options, code=2)
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1
    assert words in result.stderr


def test_files_that_are_not_there(tmp_path: Path) -> None:
    assert "there is no file" in evaluate(tmp_path / "no.csv", *SMALL, code=2).stderr
    for command in (["resume", "no.run"], ["compare", "no.run", "no.run"]):
        result = runner.invoke(app, command)
        assert result.exit_code == 2
        assert "no.run" in result.stderr
        assert len(result.stderr.splitlines()) == 1


def test_a_log_without_a_transition(tmp_path: Path) -> None:
    parquet.write_table(pa.table({"s": [0], "reward": [1.0]}), tmp_path / "one.parquet")
    result = evaluate(tmp_path / "one.parquet", *SMALL, code=2)
    assert "there is no transition (log: " in result.stderr
    assert "one.parquet, 1 rows; rows dropped: 1: the last of an episode, without a next state" in result.stderr


# The terminal.


def test_a_terminal_shows_the_interval_while_it_runs(tmp_path: Path) -> None:
    log = tmp_path / "log.parquet"
    parquet.write_table(small_log(100_000), log, row_group_size=5000)
    ours, theirs = pty.openpty()
    command = [*INFERL, "evaluate", str(log), *SMALL]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, env=environment) as process:
        os.close(theirs)
        shown = b""
        while True:
            try:
                piece = os.read(ours, 65536)
            except OSError:  # the other side has been closed
                break
            if not piece:
                break
            shown += piece
        assert process.stdout is not None
        answer = process.stdout.read()
    os.close(ours)
    assert b"a second" in shown
    assert b"95% pointwise" in shown
    assert b"a second" not in answer
    assert answer.count(b"95% pointwise") == 1


def test_help_has_examples_and_completion() -> None:
    for command in ("evaluate", "rollout", "resume", "compare"):
        text = runner.invoke(app, [command, "--help"]).stdout
        assert f"inferl {command}" in text
    assert "--install-completion" in runner.invoke(app, ["--help"]).stdout
