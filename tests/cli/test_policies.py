"""``inferl evaluate --policy``: target policies in files and in code."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv as arrow_csv
from typer.testing import CliRunner

import inferl
from inferl.cli import app
from inferl.runs import Run
from inferl.sources import table

runner = CliRunner(env={"COLUMNS": "80", "FORCE_COLOR": None})
LAW = np.array([[0.25, 0.75], [0.5, 0.5]])
OPTIONS = ["--state", "s", "--n-states", "2", "--discount", "0.5", "--behaviour-probability", "p"]
POLICY = """import numpy as np

def careful(states, actions):
    return np.array([[0.25, 0.75], [0.5, 0.5]])[states, actions]
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    rng = np.random.default_rng(0)
    data = {"s": rng.integers(2, size=300), "action": rng.integers(2, size=300), "reward": rng.normal(size=300)}
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "my_policies", raising=False)
    arrow_csv.write_csv(pa.table(data | {"p": np.full(300, 0.5), "terminated": np.arange(300) % 3 == 2}), "log.csv")
    Path("new.csv").write_text("state,action,probability\n0,0,0.25\n0,1,0.75\n1,0,0.5\n1,1,0.5\n")
    Path("my_policies.py").write_text(POLICY)
    return tmp_path


def evaluate(*options: str, code: int = 0) -> Any:
    result = runner.invoke(app, ["evaluate", "log.csv", *OPTIONS, *options])
    assert result.exit_code == code, result.output
    return result


def test_a_file_and_code_give_the_answer_of_the_library(here: Path) -> None:
    log = table(here / "log.csv", state="s", n_states=2, discount=0.5, behaviour_probability="p", policy=LAW)
    expected = str(inferl.Evaluator(inferl.DoublyRobust(2)).update(log).interval())
    for policy in ("new.csv", "my_policies:careful"):
        assert evaluate("--policy", policy).stdout.startswith(expected)
    both = evaluate("--policy", "new.csv,my_policies:careful").stdout
    assert both.startswith(f"new.csv: {expected}\nmy_policies:careful: {expected}\n")


def test_what_is_neither_is_refused(here: Path) -> None:
    assert "there is no file lost.csv" in evaluate("--policy", "lost.csv", code=2).stderr
    assert "cannot import my_policies:bold" in evaluate("--policy", "my_policies:bold", code=2).stderr
    Path("new.csv").write_text("state,action,probability\n0,0,0.25\n0,1,0.5\n1,0,0.5\n1,1,0.5\n")
    refused = evaluate("--policy", "new.csv", code=2)
    assert "row 0 of the policy is not a distribution: its sum is 0.75" in refused.stderr


def stopped(policy: str, **options: Any) -> None:
    """Evaluate, and pretend that the run did not reach the end of its log."""
    evaluate("--policy", policy, "--checkpoint", "a.run")
    run = Run.load(Path("a.run"))
    assert run.before is not None
    run.options |= options
    run.save(Path("a.run"))


def test_code_that_a_run_file_names_is_not_run_unasked(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped("new.csv,my_policies:careful")
    monkeypatch.delitem(sys.modules, "my_policies")
    refused = runner.invoke(app, ["resume", "a.run"])
    assert refused.exit_code == 2
    assert "names code to be run: my_policies:careful (from" in refused.stderr
    assert "my_policies" not in sys.modules
    done = runner.invoke(app, ["resume", "a.run", "--yes"])
    assert done.exit_code == 0, done.output
    assert done.stdout == evaluate("--policy", "new.csv,my_policies:careful").stdout


def test_a_policy_in_a_file_may_not_change(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped("new.csv")
    (here / "elsewhere").mkdir()
    monkeypatch.chdir(here / "elsewhere")
    assert runner.invoke(app, ["resume", "../a.run"]).exit_code == 0
    (here / "new.csv").write_text("state,0,1\n0,0.25,0.75\n1,0.25,0.75\n")
    refused = runner.invoke(app, ["resume", "../a.run"])
    assert refused.exit_code == 2
    assert "probabilities of the target policy are not those of the run" in refused.stderr


def test_a_log_without_probabilities(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fit = ["--state", "s", "--n-states", "2", "--discount", "0.5", "--policy", "new.csv", "--fit-behaviour", "C(s)"]
    log = table(here / "log.csv", state="s", n_states=2, discount=0.5, fit_behaviour="C(s)", policy=LAW)
    expected = str(inferl.Evaluator(inferl.DoublyRobust(2)).update(log).interval())
    straight = runner.invoke(app, ["evaluate", "log.csv", *fit, "--checkpoint", "a.run"])
    assert straight.exit_code == 0, straight.output
    assert straight.stdout.startswith(expected)
    assert "fitted to 300 rows by logistic regression of the action on C(s)" in " ".join(straight.stdout.split())
    again = runner.invoke(app, ["resume", "a.run"])
    assert again.stdout == straight.stdout
    pipe = runner.invoke(app, ["evaluate", "-", *fit], input=(here / "log.csv").read_bytes())
    assert pipe.exit_code == 2
    assert "standard input: fitting the behaviour policy takes a pass of its own" in pipe.stderr


def test_the_column_of_the_actions_may_be_named(here: Path) -> None:
    expected = evaluate("--policy", "new.csv").stdout
    log = arrow_csv.read_csv("log.csv")
    arrow_csv.write_csv(log.rename_columns(["treatment" if n == "action" else n for n in log.column_names]), "log.csv")
    assert "say which column holds them" in evaluate("--policy", "new.csv", code=2).stderr
    assert evaluate("--policy", "new.csv", "--action", "treatment").stdout == expected
