"""Units: an interval of least squares does not depend on what features and rewards are measured in."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import inferl
from inferl.algorithms import Algorithm
from inferl.baselines import offline_bootstrap
from inferl.interval import Interval
from inferl.rows import Floats

D = 3
ALGORITHMS: dict[str, Algorithm] = {
    "TD": inferl.TD(D),
    "TD(.5)": inferl.TD(D, trace=0.5),
    "NStepTD": inferl.NStepTD(D, n=3),
    "EmphaticTD": inferl.EmphaticTD(D, trace=0.3),
    "QEvaluation": inferl.QEvaluation(D),
    "GTD": inferl.GTD(D),
    "GTD2": inferl.GTD2(D),
    "TDC": inferl.TDC(D),
    "Stack": inferl.Stack(inferl.TD(D), inferl.TD(D, trace=0.5)),
}


def steps(n: int, seed: int, ratios: bool) -> dict[str, Floats]:
    """A slow walk in three features with a constant, in episodes of about 20 steps."""
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=(n + 1, D))
    for t in range(1, n + 1):
        noise[t] += 0.8 * noise[t - 1]
    phi = np.column_stack([np.ones(n + 1), noise[:, 1], 3 + noise[:, 2]])
    ends = rng.random(n) < 0.05
    ratio = rng.uniform(0.5, 1.5, n) if ratios else np.ones(n)
    return {
        "features": phi[:-1],
        "rewards": phi[:-1, 1] + rng.normal(size=n),
        "next_features": phi[1:],
        "discounts": np.where(ends, 0.0, 0.9),
        "ratios": ratio,
    }


def scaled(columns: dict[str, Floats], factors: Floats, reward: float) -> inferl.Transitions:
    return inferl.Transitions(
        columns["features"] * factors,
        columns["rewards"] * reward,
        columns["next_features"] * factors,
        columns["discounts"],
        columns["ratios"],
    )


def same(one: Interval, other: Interval, reward: float) -> None:
    """Bounds agree to a millionth of the width."""
    for name in ("estimate", "lower", "upper"):
        assert abs(getattr(one, name) - getattr(other, name) / reward) < 1e-6 * one.width


def asked(algorithm: Algorithm, factors: Floats) -> Floats:
    target = np.array([1.0, 0.5, 3.0]) * factors
    return np.r_[target, 0 * target] if isinstance(algorithm, inferl.Stack) else target


powers = st.floats(-8, 8)


@pytest.mark.parametrize("name", ALGORITHMS)
@settings(max_examples=10, deadline=None)
@given(exponents=st.tuples(powers, powers, powers), power=powers, blocks=st.sampled_from(["dyadic", "episode", "none"]))
def test_factors_on_features_and_rewards_do_not_change_an_interval(
    name: str, exponents: tuple[float, float, float], power: float, blocks: str
) -> None:
    algorithm, factors, reward = ALGORITHMS[name], 10.0 ** np.array(exponents), 10.0**power
    columns = steps(1000, 0, ratios=name != "QEvaluation")
    one, other = (inferl.Evaluator(algorithm, inferl.LeastSquares(blocks)) for _ in range(2))
    one.update(scaled(columns, np.ones(D), 1.0))
    other.update(scaled(columns, factors, reward))
    same(one.interval(asked(algorithm, np.ones(D))), other.interval(asked(algorithm, factors)), reward)


@settings(max_examples=10, deadline=None)
@given(exponents=st.tuples(powers, powers, powers), power=powers)
def test_merged_evaluators_do_not_depend_on_units(exponents: tuple[float, float, float], power: float) -> None:
    factors, reward = 10.0 ** np.array(exponents), 10.0**power
    found = []
    for own, of_reward in ((np.ones(D), 1.0), (factors, reward)):
        parts = [inferl.Evaluator(inferl.TD(D)).update(scaled(steps(800, k, True), own, of_reward)) for k in range(2)]
        found.append(inferl.merge(*parts).interval(asked(inferl.TD(D), own)))
    same(found[0], found[1], reward)


@settings(max_examples=5, deadline=None)
@given(exponents=st.tuples(powers, powers, powers), power=powers)
def test_the_offline_bootstrap_does_not_depend_on_units(exponents: tuple[float, float, float], power: float) -> None:
    factors, reward = 10.0 ** np.array(exponents), 10.0**power
    columns = steps(600, 0, True)
    found = [
        offline_bootstrap(
            scaled(columns, own, r), inferl.TD(D), inferl.LeastSquares(), asked(inferl.TD(D), own), n_resamples=40
        )
        for own, r in ((np.ones(D), 1.0), (factors, reward))
    ]
    same(found[0], found[1], reward)


@settings(max_examples=10, deadline=None)
@given(power=powers)
def test_tables_do_not_depend_on_the_unit_of_rewards(power: float) -> None:
    rng, reward = np.random.default_rng(0), 10.0**power
    state = rng.integers(5, size=1001)
    pay = rng.normal(size=1000)
    one, other = (
        inferl.Evaluator(inferl.TD(5)).update(inferl.Transitions(state[:-1], pay * r, state[1:], 0.9))
        for r in (1, reward)
    )
    same(one.interval(2), other.interval(2), reward)


@pytest.mark.parametrize("unit", [1e-3, 1.0, 1e4, 1e6])
def test_platelets_may_be_counted_one_by_one(unit: float) -> None:
    """A column of about 250,000 +- 80,000 beside a constant and one of a few units: the value was 9.8, not 15.5."""
    rng = np.random.default_rng(3)
    n = 20_000
    lactate, platelets = 2 + rng.gamma(2.0, 1.0, n + 1), 2.5 + 0.8 * rng.normal(size=n + 1)
    phi = np.column_stack([np.ones(n + 1), lactate, platelets * unit])
    reward = 0.25 * lactate[:-1] + 0.1 * platelets[:-1] + rng.normal(size=n)
    evaluator = inferl.Evaluator(inferl.TD(3)).update(inferl.Transitions(phi[:-1], reward, phi[1:], 0.9))
    exact = 10 * (0.25 * 4 + 0.1 * 2.5)  # independent rows: each is worth its mean reward, 10 times
    assert exact in evaluator.interval(phi.mean(axis=0), level=0.999)
