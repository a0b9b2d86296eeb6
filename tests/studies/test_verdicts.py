"""What the opening table says of the paper's claims follows from the results, whatever they are."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from scipy.stats import f as snedecor

from studies.paper import page, verdicts
from studies.paper.overview import overview_table

LENGTHS = [50, 100, 250, 500, 1000, 2000]


def rates(errors: list[float], standard_error: float) -> dict[str, Any]:
    return {
        "kind": "percentile",
        "lengths": LENGTHS,
        "repeats": 10**6,
        "error": errors,
        "standard_error": [standard_error] * len(LENGTHS),
        "slope": -1.5,
        "interval": [-2.0, -1.0],
        "if_exact": [-0.5, 0.5],
        "fewer": [],
    }


FAST = [0.95, 0.5, *(3 / n**1.2 for n in LENGTHS[2:])]
STUCK = [0.95, 0.5, 0.01, 0.01, 0.01, 0.01]


@pytest.mark.parametrize(
    ("errors", "noise", "words"),
    [
        (FAST, 1e-6, "agrees"),
        (STUCK, 1e-6, "**does not agree**"),
        (STUCK, 0.01, "not decided"),
        ([0.95] * 3 + FAST[3:], 1e-6, "**does not agree**"),  # fast in the end, and not at first
    ],
)
def test_the_rates_of_figure_8a_are_judged_by_their_slopes(errors: list[float], noise: float, words: str) -> None:
    content = json.loads((page.RESULTS / "frozenlake.json").read_text())
    content["rates"] = [rates(errors, noise)]
    (row,) = [line for line in overview_table({"frozenlake": content}).splitlines() if line.startswith("| 8a ")]
    assert row.endswith(f"| {words} |")


def test_bounds_of_a_slope_hold_the_slope_as_often_as_they_say() -> None:
    """Errors of 10 standard errors, that fall as 1/t: the slope is then nearly normal."""
    generator, true = np.random.default_rng(3), np.array([0.0, 0.0, *(25 / np.array(LENGTHS[2:]))])
    held = 0
    for _ in range(200):
        noise = true / 10
        row = rates((true + noise * generator.standard_normal(len(true))).tolist(), 0.0)
        row["standard_error"] = noise.tolist()
        low, high = verdicts.slope_bounds(row, late=True)
        held += low <= -1 <= high
    assert 175 <= held < 200  # 190 expected, with a standard deviation of 3; 200 has a probability of 4e-5


@pytest.mark.parametrize(
    ("errors", "noise", "words"),
    [
        (FAST, 1e-6, "none of 1/t, 1/√t and a constant error is possible"),
        ([0.95, 0.5, *(3 / n for n in LENGTHS[2:])], 1e-5, "only 1/t is possible"),
        (STUCK, 1e-6, "only a constant error is possible"),
        (STUCK, 0.01, "1/t, 1/√t and a constant error are possible"),
    ],
)
def test_the_rates_that_are_possible_are_those_in_all_intervals(errors: list[float], noise: float, words: str) -> None:
    content = json.loads((page.RESULTS / "frozenlake.json").read_text())
    assert verdicts.possible_rates([rates(errors, noise)]) == words
    content["rates"] = [rates(errors, noise)]
    (row,) = [line for line in overview_table({"frozenlake": content}).splitlines() if line.startswith("| 8b ")]
    assert row.endswith(f"| agrees; from 250 episodes on {words} |")


def test_a_curve_that_ends_early_decides_nothing() -> None:
    row = rates(STUCK, 0.001) | {"lengths": [20, 30, 40, 60, 80, 100]}
    assert verdicts.slope_bounds(row, late=True) == (-np.inf, np.inf)
    assert verdicts.below([verdicts.slope_bounds(row, late=True)], -1) is None


def test_ratios_of_variances_have_the_intervals_of_a_normal_law() -> None:
    rows: list[dict[str, Any]] = [{"variance": v, "runs": 10} for v in (2.0, 8.0, 0.1)]
    larger, smaller = verdicts.variance_ratios(rows)
    np.testing.assert_allclose(larger, (4 / snedecor.ppf(0.975, 9, 9), 4 / snedecor.ppf(0.025, 9, 9)))
    assert smaller[1] == pytest.approx(0.05 / snedecor.ppf(0.025, 9, 9))
    assert verdicts.variance_ratios([{"variance": None, "runs": 0}, rows[0]]) == [(0.0, np.inf)]
