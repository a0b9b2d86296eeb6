"""The study of the best of many evaluations: what it simulates, and what it counts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from studies.validity import best_of


@pytest.mark.parametrize("law", best_of.LAWS)
def test_the_laws_have_the_moments_that_are_said(law: str) -> None:
    draw, mean, deviation = best_of.LAWS[law]
    returns = draw(np.random.default_rng(0), 200_000)
    assert returns.mean() == pytest.approx(mean, abs=5 * deviation / np.sqrt(200_000))
    assert returns.std() == pytest.approx(deviation, rel=0.02)


def test_the_largest_of_a_hundred_means_of_five_is_as_high_as_theory_says() -> None:
    """The largest of 100 normal numbers is 2.508 on average, with a deviation of 0.43; new bests are H(100) - 1."""
    found = [best_of.usual("normal", np.random.default_rng(number)) for number in range(2000)]
    excess, new_bests = np.mean(found, axis=0)
    assert excess == pytest.approx(2.508 / np.sqrt(5), abs=5 * 0.43 / np.sqrt(5) / np.sqrt(2000))
    assert new_bests == pytest.approx(sum(1 / k for k in range(2, 101)), abs=5 * 1.9 / np.sqrt(2000))


def test_trainings_are_counted() -> None:
    found: dict[str, list[Any]] = {
        "excess": [1.0, 1.2, 1.4, 1.2],
        "usual": [3, 4, 5, 4],
        "false": [0, 2, 0, 0],
        "above": [True, False, True, False],
        "seen": [True, True, True, False],
    }
    cell = best_of.cell_of("normal", found)
    assert (cell["trainings"], cell["with_false_best"], cell["said_above"]) == (4, 1, 2)
    assert (cell["excess"], cell["usual_new_bests"], cell["seen"]) == pytest.approx((1.2, 4.0, 0.75))


def test_a_short_training_of_each_kind() -> None:
    rng = np.random.default_rng(1)
    false, above = best_of.unchanged("normal", rng, evaluations=3)
    assert 0 <= false <= 2
    assert above in (True, False)
    assert best_of.improved("normal", rng) in (True, False)
