from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import inferl
from inferl.environments import random_walk
from studies.paper.summaries import binomial, cells, diverged, law_alone, rates, reading, readings, slope


def kept(lower: float, upper: float, truth: float = 0.0) -> dict[str, object]:
    return reading(inferl.Interval((lower + upper) / 2, lower, upper, 0.95, "normal", 1.0, 10), truth)


def test_coverage_width_and_losses_are_counted() -> None:
    results = [{"a|10": kept(-1, 1)}, {"a|10": kept(1, 4)}, {"a|10": kept(-2, 2)}, {"a|10": diverged(0.0, ["normal"])}]
    (cell,) = cells(results)
    assert (cell["method"], cell["length"], cell["repeats"], cell["covered"], cell["lost"]) == ("a", 10, 4, 2, 1)
    assert cell["median_width"] == 3
    assert cell["binomial_95"] == binomial(2, 4, 0.95)


def test_an_infinite_interval_is_lost() -> None:
    assert cells([{"a|10": kept(-np.inf, np.inf)}])[0]["lost"] == 1


@pytest.mark.parametrize(("k", "expected"), [(0, (0.0, 0.0183)), (200, (0.9817, 1.0)), (190, (0.9100, 0.9758))])
def test_binomial_intervals_are_exact(k: int, expected: tuple[float, float]) -> None:
    assert binomial(k, 200, 0.95) == pytest.approx(expected, abs=2e-4)


def test_the_law_alone_is_what_multipliers_as_printed_give() -> None:
    mdp, _ = random_walk(5)
    data = mdp.sample(np.ones((7, 1)), 500, seed=0).transitions(1.0)
    method = inferl.OnlineBootstrap(inferl.Polynomial(5.0), n_replicas=20)
    printed = replace(method, multipliers=inferl.Multipliers("as-printed"))
    ours = law_alone(readings(inferl.Evaluator(inferl.TD(7), method).update(data), 3, -9.0))
    theirs = readings(inferl.Evaluator(inferl.TD(7), printed).update(data), 3, -9.0)
    for kind in method.kinds:
        assert ours["bounds"][kind] == pytest.approx(theirs["bounds"][kind], rel=1e-12)


def test_the_slope_of_a_power_law() -> None:
    lengths = np.array([50.0, 100.0, 1000.0])
    assert slope(lengths, 0.95 - 2 / lengths, 10**9) == pytest.approx(-1.0)


def test_zero_errors_count_as_half_a_repeat() -> None:
    lengths = np.array([10.0, 100.0])
    assert slope(lengths, np.array([0.95, 0.95]), 200) == pytest.approx(0, abs=1e-12)
    assert slope(lengths, np.array([0.70, 0.95]), 200) == pytest.approx(np.log10(0.0025 / 0.25))


def test_rates_know_what_chance_gives() -> None:
    generator = np.random.default_rng(0)
    results = [
        {f"a|{n}": kept(-1, 1, truth=0.0 if generator.random() < 0.95 else 2.0) for n in (50, 100, 500)}
        for _ in range(400)
    ]
    found = rates(results, "a", "normal", (50, 100, 500))
    low, high = found["interval"]
    assert low < found["slope"] < high
    assert found["if_exact"][0] < -0.5 < 0.5 < found["if_exact"][1]
    assert len(found["fewer"]) == 2
