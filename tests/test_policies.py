"""Policies: tables draw what they say, and say what is wrong with them."""

from typing import Any

import numpy as np
import pytest

from inferl.errors import DataError, ShapeError
from inferl.policies import as_policy


def test_a_table_draws_its_probabilities() -> None:
    generator = np.random.default_rng(0)
    probabilities = np.array([0.1, 0.0, 0.6, 0.3])
    policy = as_policy(np.array([[1, 0, 0, 0], probabilities]))
    n = 20_000
    counts = np.bincount([policy(1, generator) for _ in range(n)], minlength=4)
    assert counts[1] == 0
    # Four standard deviations on three counts: a false alarm once in 5000 generators, and this one is fixed.
    assert (np.abs(counts - n * probabilities) <= 4 * np.sqrt(n * probabilities * (1 - probabilities))).all()
    assert {policy(0, generator) for _ in range(100)} == {0}


def test_rounding_never_draws_an_action_of_probability_zero() -> None:
    class Largest(np.random.Generator):
        def random(self, *_: Any, **__: Any) -> Any:
            return np.nextafter(1.0, 0.0)

    row = [0.1] * 10 + [0.0]  # in floating point these ten add up to less than 1
    assert as_policy([row])(0, Largest(np.random.PCG64())) == 9


def test_a_function_is_a_policy() -> None:
    assert as_policy(lambda observation: -observation)(3, np.random.default_rng(0)) == -3


def test_a_policy_stays_itself() -> None:
    policy = as_policy([[1.0]])
    assert as_policy(policy) is policy


@pytest.mark.parametrize("bad", [[[0.5, 0.4]], [[1.5, -0.5]], [[np.nan, 1.0]]])
def test_a_row_that_is_no_distribution_is_named(bad: list[list[float]]) -> None:
    with pytest.raises(DataError, match="row 1 "):
        as_policy([[0.5, 0.5], *bad])


@pytest.mark.parametrize("bad", [[0.5, 0.5], [[]], "greedy", None])
def test_what_is_no_table_is_refused(bad: Any) -> None:
    with pytest.raises(ShapeError):
        as_policy(bad)


@pytest.mark.parametrize("observation", [2, -1])
def test_an_observation_without_a_row_is_refused(observation: int) -> None:
    with pytest.raises(DataError, match="rows are 0 to 1"):
        as_policy(np.eye(2))(observation, np.random.default_rng(0))
