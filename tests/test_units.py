"""Units: intervals of least squares do not depend on the units of features and rewards; other methods report it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import inferl
from inferl.algorithms import Algorithm
from inferl.baselines import monte_carlo, offline_bootstrap, per_decision, save
from inferl.data.arrays import Floats
from inferl.diagnostics import Check
from inferl.errors import DivergenceError
from inferl.interval import Interval

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


BOOTSTRAP = inferl.OnlineBootstrap(inferl.Polynomial(0.5), 20)
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
    exact = 10 * (0.25 * 4 + 0.1 * 2.5)  # independent rows: the value is 10 times the mean reward
    assert exact in evaluator.interval(phi.mean(axis=0), level=0.999)


# The bootstrap: a step size is measured in the units of the features, so only rewards may change theirs.


@pytest.mark.parametrize("name", ALGORITHMS)
@settings(max_examples=5, deadline=None)
@given(
    power=powers,
    kind=st.sampled_from(["percentile", "basic", "normal", "anytime"]),
    clock=st.sampled_from(["step", "episode", inferl.BlockClock()]),
    average=st.sampled_from(["linear", "uniform", inferl.BurnIn(100)]),
)
def test_a_factor_on_rewards_is_one_on_the_bootstraps_interval_and_changes_no_check(
    name: str, power: float, kind: str, clock: Any, average: Any
) -> None:
    algorithm, reward = ALGORITHMS[name], 10.0**power
    columns = steps(500, 0, ratios=name != "QEvaluation")
    method = inferl.OnlineBootstrap(inferl.Polynomial(0.5, cap=0.1), 20, inferl.Multipliers(clock=clock), average)
    found = []
    for own in (1.0, reward):
        evaluator = inferl.Evaluator(algorithm, method).update(scaled(columns, np.ones(D), own))
        target = asked(algorithm, np.ones(D))
        found.append((evaluator.interval(target, kind=kind), evaluator.report(target, kind=kind).checks))
    (one, checks), (other, others) = found
    same(one, other, reward)
    assert [(check.name, check.status) for check in checks] == [(check.name, check.status) for check in others]
    for check, again in zip(checks, others, strict=True):
        if check.value is not None and check.name != "range":  # which is in the units of the rewards
            assert again.value == pytest.approx(check.value, rel=1e-6)


@settings(max_examples=10, deadline=None)
@given(power=powers)
def test_a_factor_on_rewards_is_one_on_the_bootstraps_interval_of_a_table(power: float) -> None:
    rng, reward = np.random.default_rng(0), 10.0**power
    state, pay = rng.integers(5, size=1001), rng.normal(size=1000)
    method = inferl.OnlineBootstrap(inferl.Polynomial(5.0), 20)
    one, other = (
        inferl.Evaluator(inferl.TD(5), method).update(inferl.Transitions(state[:-1], pay * r, state[1:], 0.9))
        for r in (1, reward)
    )
    same(one.interval(2), other.interval(2), reward)
    assert [c.status for c in one.report(2).checks] == [c.status for c in other.report(2).checks]


@pytest.mark.parametrize("reward", [1e-8, 1e8])
def test_a_replica_that_diverges_does_so_in_any_unit_of_rewards(reward: float) -> None:
    """A slow column without a mean, whose scale keeps the step size at its cap."""
    columns, factors, found = steps(3000, 0, False), np.array([1.0, 1e3, 1.0]), []
    for own in (1.0, reward):
        evaluator = inferl.Evaluator(inferl.TD(D, trace=0.5), BOOTSTRAP)
        with pytest.raises(DivergenceError) as caught:
            evaluator.update(scaled(columns, factors, own))
        found.append((caught.value.step, caught.value.replica))
        (check,) = (check for check in evaluator.report([1.0, 0.0, 3.0]).checks if check.name == "divergence")
        assert check.failed
        assert "features 0 and 2 are up to" in check.message
    assert found[0] == found[1]


def convergence(method: Any, factors: Floats, n: int = 3000, algorithm: Algorithm | None = None) -> Check:
    algorithm = algorithm or inferl.TD(D)
    evaluator = inferl.Evaluator(algorithm, method).update(scaled(steps(n, 0, False), factors, 1.0))
    target = asked(algorithm, factors) * ([1, 1, 0] if algorithm.dimension == D else [1, 1, 0, 0, 0, 0])
    (check,) = (check for check in evaluator.report(target).checks if check.name == "convergence")
    return check


@pytest.mark.parametrize("algorithm", [inferl.TD(D), inferl.TDC(D), inferl.TD(D, trace=0.5)])
@pytest.mark.parametrize("unit", [1e-6, 1e-3, 1e3, 1e6])
def test_features_of_very_different_size_fail_a_check_that_names_them(algorithm: Algorithm, unit: float) -> None:
    check = convergence(BOOTSTRAP, np.array([unit, 1.0, 1.0]), algorithm=algorithm)
    assert check.failed
    assert ("feature 0 is" if unit < 1 else "features 1 and 2 are up to") in check.message
    assert ("times smaller than feature 2" if unit < 1 else "times smaller than feature 0") in check.message
    assert "features.Scaled" in check.remedy
    assert "LeastSquares" in check.remedy


def test_both_policies_of_a_stack_have_the_same_features() -> None:
    both = inferl.Stack(inferl.TD(D), inferl.TD(D, trace=0.5))
    check = convergence(BOOTSTRAP, np.array([1e4, 1.0, 1.0]), algorithm=both)
    assert check.failed
    assert "features 1 and 2 are up to" in check.message


def test_without_a_companion_features_of_very_different_size_are_named_all_the_same() -> None:
    alone = replace(BOOTSTRAP, companion=False)
    check = convergence(alone, np.array([1e4, 1.0, 1.0]))
    assert check.status == "not available"
    assert "features 1 and 2 are up to" in check.message
    assert "smaller" not in convergence(alone, np.ones(D)).message


@pytest.mark.parametrize("unit", [1e4, 1e6])
def test_rows_that_a_step_size_throws_about_have_not_arrived(unit: float) -> None:
    """They are close to the solution in standard errors, but these are 100 times too large."""
    check = convergence(BOOTSTRAP, np.array([1.0, unit, 1.0]))
    assert check.failed
    assert "times that of least squares" in check.message
    assert "features 0 and 2 are up to" in check.message


def test_features_of_similar_size_are_not_blamed_for_a_step_size_that_is_too_small() -> None:
    check = convergence(replace(BOOTSTRAP, step_size=inferl.Polynomial(1e-4)), np.ones(D))
    assert check.failed
    assert "smaller" not in check.message
    assert "larger step size" in check.remedy


# Baselines.


@pytest.mark.parametrize("weighted", [None, False, True])
@settings(max_examples=10, deadline=None)
@given(exponents=st.tuples(powers, powers, powers), power=powers)
def test_mean_returns_do_not_depend_on_units(
    weighted: bool | None, exponents: tuple[float, float, float], power: float
) -> None:
    factors, reward = 10.0 ** np.array(exponents), 10.0**power
    columns = steps(1000, 0, ratios=weighted is not None)
    columns["ratios"] = 1 + (columns["ratios"] - 1) / 10
    found = [
        monte_carlo(data) if weighted is None else per_decision(data, weighted=weighted)
        for data in (scaled(columns, np.ones(D), 1.0), scaled(columns, factors, reward))
    ]
    same(found[0], found[1], reward)
    assert found[0].notes == found[1].notes


@settings(max_examples=10, deadline=None)
@given(exponents=st.tuples(powers, powers, powers), power=powers)
def test_save_does_not_depend_on_units(exponents: tuple[float, float, float], power: float) -> None:
    factors, reward = 10.0 ** np.array(exponents), 10.0**power
    columns = steps(1000, 0, ratios=False)
    one = save(scaled(columns, np.ones(D), 1.0), asked(inferl.TD(D), np.ones(D)))
    other = save(scaled(columns, factors, reward), asked(inferl.TD(D), factors))
    same(one, other, reward)


@pytest.mark.parametrize("unit", ["episode", "transition", 25])
@settings(max_examples=5, deadline=None)
@given(power=powers)
def test_a_factor_on_rewards_is_one_on_a_replay(unit: str | int, power: float) -> None:
    columns, reward = steps(600, 0, True), 10.0**power
    found = [
        offline_bootstrap(
            scaled(columns, np.ones(D), r),
            inferl.TD(D),
            inferl.Polynomial(0.5),
            [1.0, 0.5, 3.0],
            unit=unit,
            n_resamples=40,
        )
        for r in (1.0, reward)
    ]
    same(found[0], found[1], reward)
