"""Simulation by several workers plays the episodes of one process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scale.test_plans import Inline, digest
from scale.walkers import cart, lean, tilt
from typer.testing import CliRunner

import inferl
from inferl.cli import app
from inferl.errors import SettingError
from inferl.runs import Run
from inferl.scale import simulate


def call(*arguments: Any, code: int = 0) -> str:
    result = CliRunner(env={"COLUMNS": "80", "FORCE_COLOR": None}).invoke(app, list(map(str, arguments)))
    assert result.exit_code == code, (result.output, result.exception)
    return result.output


def test_the_episodes_of_one_process() -> None:
    run = simulate(cart, tilt, episodes=70, seed=5, executor=Inline(late=True))
    one = inferl.evaluate_policy(cart, tilt, episodes=70, seed=5).run
    assert one is not None
    assert run.returns is not None
    assert one.returns is not None
    assert np.array_equal(run.returns.ended, one.returns.ended)
    assert run.evaluator.n == one.evaluator.n
    assert np.isclose(run.interval().estimate, one.interval().estimate, rtol=1e-9)
    assert np.isclose(run.interval().width, one.interval().width, rtol=0.02)
    assert run.facts["environment"].startswith("CartPole-v1, 70 episodes")
    ours = {check.name: check.status for check in run.report().checks}
    assert ours.items() >= {c.name: c.status for c in one.report().checks if c.name != "features"}.items()
    assert digest(run) == digest(simulate(cart, tilt, episodes=70, seed=5, executor=2))


def test_fitted_features_are_the_same_in_all_parts() -> None:
    options: dict[str, Any] = {"episodes": 50, "features": "auto", "discount": 0.95, "time_limit": "cut"}
    run = simulate(cart, lean, executor=Inline(), **options)
    one = inferl.evaluate_policy(cart, lean, **options)
    assert np.isclose(run.interval().estimate, one.interval.estimate, rtol=1e-9)
    assert one.run is not None
    assert run.facts["features"] == one.run.facts["features"]


def test_stopping_them_all(tmp_path: Path) -> None:
    executor = Inline()
    run = simulate("CartPole-v1", tilt, until_width=8, executor=executor, checkpoint=tmp_path)
    assert run.interval().kind == "anytime"
    assert run.interval().width <= 8
    assert 32 <= run.evaluator.episodes < 10_000
    assert run.evaluator.episodes % 16 == 0
    again = Inline()
    assert digest(simulate("CartPole-v1", tilt, until_width=8, executor=again, checkpoint=tmp_path)) == digest(run)
    assert again.computed == 0
    other = Inline()
    simulate("CartPole-v1", tilt, until_width=8, seed=1, executor=other, checkpoint=tmp_path)
    assert other.computed > 0


def test_refusals() -> None:
    with pytest.raises(SettingError, match="exists already"):
        simulate(cart(), tilt, episodes=10)
    with pytest.raises(SettingError, match="cannot be sent to another process"):
        simulate("CartPole-v1", lambda observation: 0, episodes=10)


def test_the_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    command = ["rollout", "FrozenLake-v1", "--episodes", 60, "--features", "auto", "--discount", 0.9]
    one = json.loads(call(*command, "--json", "--quiet"))
    many = json.loads(call(*command, "--json", "--quiet", "--workers", 2, "--checkpoint", "run"))
    assert np.isclose(one["interval"]["estimate"], many["interval"]["estimate"], rtol=1e-9)
    assert one["facts"] == many["facts"]
    run = Run.load("run/all.inferl")
    assert run.provenance["parts"] == "4 of 4"
    call("report", "run/all.inferl")
