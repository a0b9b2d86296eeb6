"""The first epoch of least squares: its rows are kept, and scored at the estimate of the moment."""

from __future__ import annotations

import numpy as np
import pytest

from inferl.algorithms import TD, Linear
from inferl.environments import ring
from inferl.evaluator import Evaluator
from inferl.increments import Increments
from inferl.least_squares import LeastSquares, LeastSquaresState
from inferl.transitions import Transitions


def state_after(evaluator: Evaluator) -> LeastSquaresState:
    state = evaluator.settled().method
    assert isinstance(state, LeastSquaresState)
    return state


def test_the_standard_error_of_a_mean() -> None:
    """No pilot, no epochs: the textbook's formula, for all rows at once."""
    x = np.random.default_rng(0).normal(size=(5000, 3)) + np.array([1.0, 2.0, 3.0])
    evaluator = Evaluator(Linear(3), LeastSquares("none")).update(Increments.dense(np.tile(np.eye(3), (5000, 1, 1)), x))
    interval = evaluator.interval(np.eye(3))
    np.testing.assert_allclose(interval.standard_error, x.std(axis=0, ddof=1) / np.sqrt(5000), rtol=1e-9)


def test_scores_are_those_of_the_present_solution() -> None:
    mdp, _ = ring(20, 4)
    policy = np.full((mdp.n_states, mdp.n_actions), 1 / mdp.n_actions)
    data = mdp.sample(policy, 3000, seed=4).transitions(0.95)
    evaluator = Evaluator(TD(mdp.n_states)).update(data[:700]).update(data[700:])
    method = LeastSquares("none")
    target = np.eye(mdp.n_states)[:1]
    reading = method.read(state_after(evaluator), target)
    phi, after = np.eye(mdp.n_states)[data.features], np.eye(mdp.n_states)[data.next_features]
    dphi = phi - data.discounts[:, None] * after
    seen = phi.any(axis=0)
    a = (phi.T @ dphi)[np.ix_(seen, seen)]
    theta = np.linalg.solve(a, phi[:, seen].T @ data.rewards)
    h = np.linalg.solve(a.T, target[0, seen])
    scores = (phi[:, seen] @ h) * (data.rewards - dphi[:, seen] @ theta)
    error = np.sqrt(3000 * scores.var(ddof=1))
    assert reading.standard_error[0] == pytest.approx(error, rel=1e-6)


@pytest.mark.parametrize(
    ("p", "rows", "length"),
    [
        ("table", 10_000, 8192),
        (8, 10_000, 8192),
        (100, 10_000, 1344),  # 2^18 numbers, in whole tiles
        (400, 3000, 1600),  # four rows a parameter
    ],
)
def test_it_is_as_long_as_its_rows_may_be_kept(p: int | str, rows: int, length: int) -> None:
    rng = np.random.default_rng(1)
    table = p == "table"
    evaluator = Evaluator(TD(5 if table else int(p)))
    x = np.asarray(rng.integers(5, size=rows) if table else rng.normal(size=(rows, int(p))))
    data = Transitions(x, rng.normal(size=rows), np.roll(x, 1, axis=0), 0.5)
    evaluator.update(data[: length - 64])
    assert sum(len(piece) for piece in state_after(evaluator).kept or ()) == length - 64
    evaluator.update(data[length - 64 : length])
    state = state_after(evaluator)
    assert state.kept is None
    assert (state.n, state.epoch_end) == (length, 2 * length)


def test_its_end_changes_nothing_at_once() -> None:
    """The reading just before and just after the rows are let go: one row more."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=(8192, 4))
    data = Transitions(x, rng.normal(size=8192), np.roll(x, 1, axis=0), 0.5)
    evaluator = Evaluator(TD(4), LeastSquares("none")).update(data[:-1])
    before = evaluator.interval(np.eye(4))
    after = evaluator.update(data[-1:]).interval(np.eye(4))
    np.testing.assert_allclose(after.standard_error, before.standard_error, rtol=2e-3)  # a row has a weight of 1 / 8192
    np.testing.assert_allclose(after.width, before.width, rtol=2e-3)
