"""``inferl resume``: a run goes on with the same bits, after a kill, after bad data, after a repair."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from dataclasses import replace
from importlib import import_module
from itertools import islice
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

import inferl
from inferl.cli import app
from inferl.cli.building import make_table
from inferl.environments import random_mdp
from inferl.runs import Run

runner = CliRunner(env={"COLUMNS": "80", "FORCE_COLOR": None})
INFERL = [sys.executable, "-c", "from inferl.cli import main; main()"]

DISCOUNT = 0.9


def off_policy_log(n: int, path: Path, row_group_size: int = 10_000) -> tuple[list[str], float]:
    """Write a log of a random MDP, acted in by one policy; return the options to evaluate another, and its value."""
    problem = random_mdp(seed=5, n_states=20, n_features=4, discount=DISCOUNT)
    walk = problem.mdp.sample(problem.behaviour, n, seed=0)
    taken = walk.states, walk.actions
    columns: dict[str, Any] = {f"x{i}": problem.features[walk.states, i] for i in range(4)}
    columns |= {"t": np.arange(n), "reward": walk.rewards, "p": problem.behaviour[taken], "q": problem.target[taken]}
    parquet.write_table(pa.table(columns), path, row_group_size=row_group_size)
    options = "--features x0+x1+x2+x3-1 --order t --behaviour-probability p --target-probability q --discount 0.9"
    value = problem.mdp.values(problem.target, DISCOUNT)[walk.states[0]]
    return options.split(), float(value)


SMALL = ["--state", "s", "--n-states", "3"]


def evaluate(*options: str | Path, code: int = 0) -> Any:
    result = runner.invoke(app, ["evaluate", *map(str, options)])
    assert result.exit_code == code, result.output
    return result


def killed_while_running(command: list[str], run_file: Path) -> None:
    """Start a command, and kill it as soon as it has written the run file once more."""
    before = run_file.stat().st_mtime_ns if run_file.exists() else 0
    process = subprocess.Popen([*INFERL, *command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    give_up = time.monotonic() + 120
    while not run_file.exists() or run_file.stat().st_mtime_ns == before:
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < give_up
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert not Run.load(run_file).complete


def test_killed_three_times_and_resumed_gives_the_same_bits_and_the_truth(tmp_path: Path) -> None:
    """The truth lies outside a 99.99% interval with probability 1e-4."""
    log, run_file, straight = tmp_path / "log.parquet", tmp_path / "night.run", tmp_path / "straight.run"
    options, truth = off_policy_log(400_000, log)
    start = ["evaluate", str(log), *options, "--level", "0.9999", "--checkpoint", str(run_file), "--every", "10000"]
    for command in (start, ["resume", str(run_file)], ["resume", str(run_file)]):
        killed_while_running(command, run_file)
    seen = [Run.load(run_file).evaluator.n]
    done = subprocess.run([*INFERL, "resume", str(run_file), "--json"], capture_output=True, text=True, check=True)
    answer = json.loads(done.stdout.splitlines()[-1])["interval"]
    assert 0 < seen[0] < answer["n"] == 399_999
    assert answer["lower"] <= truth <= answer["upper"]
    assert answer["upper"] - answer["lower"] < 0.5
    evaluate(log, *options, "--level", "0.9999", "--checkpoint", straight)
    assert evaluator_bits(run_file) == evaluator_bits(straight)
    one, other = Run.load(run_file), Run.load(straight)
    assert [(r.n, r.estimate, r.upper) for r in one.readings] == [(r.n, r.estimate, r.upper) for r in other.readings]


@pytest.mark.parametrize("options", ["--algorithm gtd2", "--method bootstrap --step-size 5 --replicas 20"])
def test_any_method_is_resumed_with_the_same_bits(options: str, tmp_path: Path) -> None:
    log, run_file, straight = tmp_path / "log.parquet", tmp_path / "night.run", tmp_path / "straight.run"
    columns, _ = off_policy_log(3000, log, row_group_size=500)
    evaluate(log, *columns, *options.split(), "--target", "1,0,0,0", "--checkpoint", straight)
    whole = Run.load(straight)
    # As if it had been killed after the third chunk.
    method: Any = whole.evaluator.method
    run = Run(inferl.Evaluator(whole.evaluator.algorithm, method), "evaluate", whole.options, whole.target)
    source = make_table(whole.options)
    for chunk in islice(source, 3):
        run.take(chunk, source)
    run.save(run_file)
    result = runner.invoke(app, ["resume", str(run_file)])
    assert result.exit_code == 0, result.output
    assert evaluator_bits(run_file) == evaluator_bits(straight)


# Bad data, and the end.


def test_a_bad_row_loses_nothing(tmp_path: Path) -> None:
    log, run_file, whole = tmp_path / "log.parquet", tmp_path / "small.run", tmp_path / "whole.run"
    parquet.write_table(small_log(reward=(1200, None)), log, row_group_size=500)
    result = evaluate(log, *SMALL, "--checkpoint", run_file, code=2)
    assert "row 1200, column 'reward': null is not a finite number; repair or drop the row" in result.stderr
    assert f"the run so far is in {run_file}; continue it with: inferl resume {run_file}" in result.stderr
    assert Run.load(run_file).position["rows"] == 1199

    again = runner.invoke(app, ["resume", str(run_file)])  # it is still there
    assert again.exit_code == 2
    skipped = runner.invoke(app, ["resume", str(run_file), "--skip-bad", "1"])
    assert skipped.exit_code == 0, skipped.output
    assert "bad rows skipped    1, the first: " in skipped.stdout
    evaluate(log, *SMALL, "--checkpoint", whole, "--skip-bad", "1")
    assert evaluator_bits(run_file) == evaluator_bits(whole)


def test_a_repaired_log_goes_on_after_the_bad_row(tmp_path: Path) -> None:
    log, run_file, whole = tmp_path / "log.csv", tmp_path / "small.run", tmp_path / "whole.run"
    arrow_csv.write_csv(small_log(reward=(1200, None)), log)
    evaluate(log, *SMALL, "--checkpoint", run_file, code=2)
    arrow_csv.write_csv(small_log(), log)
    assert runner.invoke(app, ["resume", str(run_file)]).exit_code == 0
    evaluate(log, *SMALL, "--checkpoint", whole)
    assert evaluator_bits(run_file) == evaluator_bits(whole)


def test_a_complete_run_is_reported_again(tmp_path: Path) -> None:
    log, run_file = tmp_path / "log.parquet", tmp_path / "small.run"
    parquet.write_table(small_log(), log)
    first = evaluate(log, *SMALL, "--checkpoint", run_file)
    again = runner.invoke(app, ["resume", str(run_file)])
    assert again.exit_code == 0
    assert again.stdout == first.stdout


# Files of others.


def saved_rollout(folder: Path, **options: Any) -> Path:
    """A run of CartPole with a policy in `folder`, stopped after its first episodes."""
    (folder / "my_policy.py").write_text("print('imported')\ndef act(pole):\n    return int(pole[2] > 0)\n")
    straight = folder / "straight.run"
    command = ["rollout", "CartPole-v1", "--policy", "my_policy:act", "--episodes", "3", "--checkpoint", str(straight)]
    assert runner.invoke(app, command).exit_code == 0
    run = Run.load(straight)
    run.complete, run.options = False, run.options | {"episodes": 5} | options
    run.save(folder / "half.run")
    return folder / "half.run"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "my_policy", raising=False)
    return tmp_path


def test_code_that_a_run_file_names_is_not_run_unasked(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_file = saved_rollout(here)
    monkeypatch.delitem(sys.modules, "my_policy")
    refused = runner.invoke(app, ["resume", str(run_file)])
    assert refused.exit_code == 2
    assert "names code to be run: my_policy:act" in refused.stderr
    assert f"inferl resume {run_file} --yes" in refused.stderr
    assert "my_policy" not in sys.modules
    done = runner.invoke(app, ["resume", str(run_file), "--yes"])
    assert done.exit_code == 0, done.output
    assert "my_policy" in sys.modules
    assert Run.load(run_file).evaluator.episodes == 5
    again = runner.invoke(app, ["resume", str(run_file)])  # it is complete: nothing is run
    assert again.exit_code == 0


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("n\n", 2)])
def test_on_a_terminal_it_is_asked(answer: str, code: int, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_file = saved_rollout(here)
    monkeypatch.setattr(import_module("inferl.cli.resume"), "_at_terminal", lambda: True)
    result = runner.invoke(app, ["resume", str(run_file)], input=answer)
    assert result.exit_code == code, result.output
    assert "my_policy:act" in result.output
    assert Run.load(run_file).complete == (code == 0)


@pytest.mark.parametrize(
    "options", [{"features": "elsewhere:map"}, {"env": "elsewhere:CartPole-v1", "policy": "random"}]
)
def test_features_and_environments_are_code_too(options: dict[str, str], here: Path) -> None:
    refused = runner.invoke(app, ["resume", str(saved_rollout(here, **options))])
    assert refused.exit_code == 2
    assert f"names code to be run: {'my_policy:act, ' if 'features' in options else ''}elsewhere:" in refused.stderr


@pytest.mark.parametrize(
    "options",
    [
        {"episodes": "many"},
        {"seed": None},
        {"env_option": 3},
        {"discount": "x"},
        {"nonsense": 1},
        {"algorithm": "magic"},
    ],
)
def test_options_that_no_command_has_are_refused(options: dict[str, Any], here: Path) -> None:
    result = runner.invoke(app, ["resume", str(saved_rollout(here, **options)), "--yes"])
    assert result.exit_code == 2
    assert f"has options that inferl rollout does not: {next(iter(options))!r}" in result.stderr


def test_a_run_of_one_s_own_has_no_command(here: Path) -> None:
    run = Run(inferl.Evaluator(inferl.TD(1)), target=0)
    run.save(here / "own.run")
    result = runner.invoke(app, ["resume", str(here / "own.run")])
    assert result.exit_code == 2
    assert "cannot be resumed" in result.stderr


def test_the_options_of_an_earlier_state_are_looked_at_too(tmp_path: Path) -> None:
    log, run_file = tmp_path / "log.parquet", tmp_path / "small.run"
    parquet.write_table(small_log(), log)
    evaluate(log, *SMALL, "--checkpoint", run_file)
    run = Run.load(run_file)
    run.before = replace(run.saved(), command="rollout", options={"policy": "my_policy:act"}, before=None)
    run.save(run_file)
    result = runner.invoke(app, ["resume", str(run_file)])
    assert result.exit_code == 2
    assert "has options that inferl rollout does not" in result.stderr
