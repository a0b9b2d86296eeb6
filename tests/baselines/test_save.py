from __future__ import annotations

import numpy as np
import pytest

import inferl
from inferl.baselines import save
from inferl.environments import random_mdp
from inferl.errors import DataError, LevelError, ShapeError
from studies.paper.random_mdp import projected_action_values, state_action_features


def problem_and_data(n: int) -> tuple[inferl.environments.RandomProblem, np.ndarray, inferl.Transitions]:
    problem = random_mdp(3)
    path = problem.mdp.sample(problem.behaviour, n, seed=5)
    psi, mean = state_action_features(problem)
    taken = psi[path.states * problem.mdp.n_actions + path.actions]
    return problem, mean, inferl.Transitions(taken, path.rewards, mean[path.next_states], problem.discount)


def test_it_is_least_squares_on_action_values() -> None:
    _, mean, data = problem_and_data(20_000)
    evaluator = inferl.Evaluator(inferl.QEvaluation(data.features.shape[1]), inferl.LeastSquares("none")).update(data)
    ours, theirs = save(data, mean[:3]), evaluator.interval(mean[:3])
    assert ours.estimate == pytest.approx(theirs.estimate, rel=1e-8)
    assert ours.standard_error == pytest.approx(theirs.standard_error, rel=0.1)


def test_the_variance_is_the_printed_formula() -> None:
    _, mean, data = problem_and_data(3_000)
    psi, n = data.features, len(data)
    difference = psi - data.discounts[:, None] * data.next_features
    inverse = np.linalg.inv(psi.T @ difference / n)
    beta = inverse @ psi.T @ data.rewards / n
    error = data.rewards - difference @ beta
    omega = (psi * error[:, None] ** 2).T @ psi / n
    expected = np.sqrt(mean[0] @ inverse @ omega @ inverse.T @ mean[0] / n)
    found = save(data, mean[0], level=0.9)
    assert found.standard_error == pytest.approx(expected, rel=1e-9)
    assert found.upper - found.estimate == pytest.approx(1.6448536 * expected, rel=1e-6)


def test_it_converges_to_its_own_fixed_point() -> None:
    # False alarm: 6 standard errors, 2e-9.
    problem, mean, data = problem_and_data(200_000)
    found = save(data, mean[0])
    assert abs(found.estimate - mean[0] @ projected_action_values(problem)) < 6 * found.standard_error


def test_what_the_data_do_not_identify_has_no_interval() -> None:
    data = inferl.Transitions([[1.0, 0.0]] * 50, np.arange(50.0), [[1.0, 0.0]] * 50, 0.5)
    found = save(data, [[1.0, 0.0], [0.0, 1.0]])
    assert np.isfinite(found.standard_error).tolist() == [True, False]
    assert found.notes


def test_bad_input_is_refused() -> None:
    one = np.ones((10, 1))
    data = inferl.Transitions(one, np.arange(10.0), one, 0.9)
    with pytest.raises(ShapeError):
        save(data, [1.0, 2.0])
    with pytest.raises(LevelError):
        save(data, [1.0], level=95)
    with pytest.raises(DataError, match="ratios"):
        save(inferl.Transitions(one, np.arange(10.0), one, 0.9, ratios=2.0), [1.0])
    with pytest.raises(ShapeError, match="table"):
        save(inferl.Transitions([0], [1.0], [0], 0.9), [1.0])
