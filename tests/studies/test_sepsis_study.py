from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import inferl
from inferl.environments import sepsis as simulator
from studies.paper import page, sepsis
from studies.paper.drawing import draw
from studies.paper.sepsis_scene import Sepsis, components, factors, learned, path_of, scene

FIGURES = ["sepsis-coverage", "sepsis-mspbe", "sepsis-widths"]
RESULTS = Path(__file__).parents[2] / "docs" / "results" / "sepsis.json"


@cache
def tiny() -> Sepsis:
    return learned(Sepsis(episodes=(60, 150), table_episodes=(100, 400), n_replicas=10, learning_steps=200_000))


def test_a_tiny_run_writes_all_files(tmp_path: Path) -> None:
    content = sepsis.run(tmp_path, repeats=2, settings=tiny())
    draw(content, tmp_path)
    names = [f"{name}.{end}" for name in FIGURES for end in ("png", "svg", "csv")]
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == sorted([*names, "sepsis.json"])
    assert json.loads((tmp_path / "sepsis.json").read_text()) == json.loads(json.dumps(content))
    assert content["settings"]["actions"] == tiny().actions
    assert sepsis.run(tmp_path, repeats=2, settings=tiny()) == content
    text = page.page(tmp_path)
    assert "images/reproduction/sepsis-mspbe.png" in text
    assert "<" not in text.replace("<!--", "")


def test_learning_is_reproducible_and_kept() -> None:
    assert learned(tiny()) is tiny()
    other = Sepsis(episodes=(60, 150), table_episodes=(100, 400), n_replicas=10, learning_steps=200_000)
    assert learned(other) == tiny()
    assert len(tiny().actions) == 1440


def test_the_policy_of_the_reported_run_is_near_optimal() -> None:
    settings = json.loads(RESULTS.read_text())["settings"]
    mdp = simulator.mdp()
    target = np.eye(8)[[int(digit) for digit in settings["actions"]]]
    best = mdp.initial @ mdp.values(mdp.optimal_policy(0.99), 0.99)
    assert 0.98 * best <= mdp.initial @ mdp.values(target, 0.99) <= best * (1 + 1e-12)
    assert settings["learning_steps"] == Sepsis().learning_steps


def test_features_are_what_they_are_called() -> None:
    assert components().shape == (1440, 9)
    assert components()[376].tolist() == [1, -1, 0, 0, 1, 0, -1, -1, -1]
    assert factors().shape == (1440, 14)
    assert np.linalg.matrix_rank(factors()) == 14
    assert factors()[376].tolist() == [1] + [0] * 13
    levels = simulator.decode(np.arange(1440))
    assert (factors().sum(axis=1) == 1 + (levels != [0, 1, 1, 1, 2, 0, 0, 0]).sum(axis=1)).all()


@pytest.mark.parametrize("label", ["components", "factors"])
def test_the_mspbe_is_the_norm_of_the_projected_error(label: str) -> None:
    here = scene(tiny())
    problem = here.problems[label]
    assert problem.objectives.mspbe(problem.theta) == pytest.approx(0, abs=1e-20)
    law = here.mdp.stationary(here.behaviour)
    theta = np.random.default_rng(0).standard_normal(len(problem.theta))
    values = np.where(here.mdp.terminal, 0, problem.features @ theta)
    states, _, next_states, _, rewards = here.mdp.outcomes
    errors = here.mdp.outcomes.weights(here.target) * (rewards + 0.99 * values[next_states] - values[states])
    mean = np.bincount(states, errors, 1440)
    phi, root = problem.features, np.sqrt(law)[:, None]
    projected = phi @ np.linalg.lstsq(root * phi, root[:, 0] * mean, rcond=None)[0]
    assert problem.objectives.mspbe(theta) == pytest.approx(law @ projected**2, rel=1e-9)


def test_the_sampled_mspbe_converges_and_is_zero_at_least_squares() -> None:
    settings = tiny()
    here = scene(settings)
    problem = here.problems["components"]
    path, ends = path_of(settings, 7, 3000)
    data = path.transitions(0.99, problem.features, path.ratios(here.target, here.behaviour))
    (sampled,) = sepsis.sampled(data, [ends[2999]])
    solved = inferl.Evaluator(inferl.TD(9)).update(data[: ends[2999]]).estimate(np.eye(9))
    assert sampled.mspbe(solved) == pytest.approx(0, abs=1e-15)
    # Its relative standard deviation over paths is .048, so this is 6 of them: false alarm 2e-9.
    assert sampled.mspbe(np.zeros(9)) == pytest.approx(problem.objectives.mspbe(np.zeros(9)), rel=0.29)
