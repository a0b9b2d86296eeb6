"""A method is one file and one registration: a toy is updated, merged, saved, loaded, reported, and in the shell."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pytest
from methods.batch_means_of_rewards import BATCH, BatchMeans

import inferl
from inferl.errors import CheckpointMismatchError, SettingError
from inferl.methods import registry
from inferl.testing import check_method


def ar(n: int, seed: int) -> inferl.Transitions:
    noise, zero = np.random.default_rng(seed).normal(size=n + 1), np.zeros(n, np.int64)
    return inferl.Transitions(zero, 1 + noise[1:] + 0.5 * noise[:-1], zero, 0.9)


def test_it_keeps_the_contract() -> None:
    check_method(BatchMeans(), inferl.TD(1), ar(320, 0))


def test_its_interval_is_that_of_batch_means() -> None:
    data = ar(BATCH * 100, 1)
    found = inferl.Evaluator(inferl.TD(1), BatchMeans()).update(data).interval(0)
    means = data.rewards.reshape(100, BATCH).mean(axis=1)
    assert found.estimate == pytest.approx(data.rewards.mean())
    assert found.standard_error == pytest.approx(means.std(ddof=1) / 10)
    assert found.df == 99


def test_merged_saved_loaded_and_reported(tmp_path: Path) -> None:
    parts = [inferl.Evaluator(inferl.TD(1), BatchMeans()).update(ar(640, seed)) for seed in range(3)]
    merged = inferl.merge(*parts)
    merged.save(tmp_path / "merged")
    again = inferl.Evaluator.load(tmp_path / "merged")
    assert again.method == BatchMeans()
    assert again.n == 1920
    assert str(again.interval(0)) == str(merged.interval(0))
    assert "BatchMeans()" in str(again.report(0))
    assert "'batch-means'" in repr(registry.names())


def test_names_are_unique() -> None:
    with pytest.raises(SettingError, match="there is a method 'bootstrap' already"):
        registry.register("bootstrap")(BatchMeans)
    with pytest.raises(SettingError, match="no method 'magic'; choose one of least-squares, bootstrap, batch-means"):
        registry.method_named("magic")


def test_a_file_of_a_method_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inferl.Evaluator(inferl.TD(1), BatchMeans()).update(ar(100, 0)).save(tmp_path / "run")
    monkeypatch.delitem(registry._REGISTERED, "batch-means")
    with pytest.raises(CheckpointMismatchError, match=r"holds a 'BatchMeans', which is not known here; .* import that"):
        inferl.Evaluator.load(tmp_path / "run")


def test_names_of_stored_classes_are_unique(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    inferl.Evaluator(inferl.TD(1)).save(tmp_path / "run")
    other = type("Sums", (), {})
    monkeypatch.setattr(BatchMeans, "stores", (other,))
    with pytest.raises(SettingError, match="both store a class 'Sums'"):
        inferl.Evaluator.load(tmp_path / "run")


def test_a_cell_may_be_run_again() -> None:
    again = type("BatchMeans", (BatchMeans,), {"__module__": BatchMeans.__module__})
    try:
        assert registry.register("batch-means")(again) is again
        assert registry.method_named("batch-means") is again
    finally:
        registry.register("batch-means")(BatchMeans)


def test_a_broken_package_does_not_stand_in_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("broken", "no.such.module:Method", "inferl.methods")
    monkeypatch.setattr(registry, "entry_points", lambda group: [point])
    assert "broken" in registry.names()
    with pytest.warns(RuntimeWarning, match="the method 'broken' cannot be imported"):
        assert inferl.LeastSquares in registry.registered()


SHELL = "import methods.batch_means_of_rewards; from inferl.cli import main; main()"


def in_the_shell(*options: str) -> str:
    command = [sys.executable, "-c", SHELL, *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[1])
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_in_the_shell(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    rewards = ar(640, 3).rewards
    log.write_text("state,reward\n" + "".join(f"0,{reward}\n" for reward in rewards.tolist()))
    columns = ("--state", "state", "--n-states", "1", "--reward", "reward", "--discount", "0.9", "--target", "0")
    assert "BatchMeans()" in in_the_shell("evaluate", str(log), *columns, "--method", "batch-means")
    assert "batch-means" in in_the_shell("evaluate", "--help")
