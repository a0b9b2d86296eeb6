"""The studies that check the paper's theory: their ingredients against exact answers, and tiny runs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from inferl.data.arrays import Floats
from inferl.environments import random_mdp
from inferl.methods.bootstrap import BootstrapReading
from studies.paper import changing_behaviour, enumerations, limits, markov_noise, page, two_readings
from studies.paper.drawing import draw
from studies.paper.study import THEORY, stem

TINY = {
    "limits": replace(limits.QUICK, lengths=(100, 300), long_lengths=(100, 200, 300), n_replicas=20, few_replicas=5),
    "markov-noise": markov_noise.MarkovNoise(lengths=(100, 200), n_replicas=10),
    "two-readings": two_readings.TwoReadings(steps=(300, 600)),
    "changing-behaviour": changing_behaviour.ChangingBehaviour(steps=(200, 400)),
    "enumerations": enumerations.Enumerations(),
}
MODULES = (limits, markov_noise, two_readings, changing_behaviour, enumerations)


@pytest.mark.parametrize(("name", "module"), list(zip(THEORY, MODULES, strict=True)))
def test_a_tiny_run_writes_a_section_and_its_pictures(name: str, module: Any, tmp_path: Path) -> None:
    content = module.run(tmp_path, repeats=4, settings=TINY[name])
    assert module.run(tmp_path, repeats=4, settings=TINY[name]) == content  # nothing is run again
    draw(content, tmp_path)
    text = page.page(tmp_path)
    assert "<" not in text.replace("<!--", "")
    named = [line.split("(")[1].rstrip(")") for line in text.splitlines() if line.startswith("![")]
    drawn = {f"images/reproduction/{path.name}" for path in tmp_path.glob("*.png")}
    assert set(named) == drawn
    assert all((tmp_path / Path(one).with_suffix(".svg").name).exists() for one in named)
    stored = json.loads((tmp_path / f"{stem(name)}.json").read_text())
    assert stored == json.loads(json.dumps(content))


def test_main_terms_use_the_multipliers_of_the_replicas() -> None:
    """Lemma 4.1 holds for the sum with a replica's own multipliers only, or it would hold by chance."""
    settings = limits.Limits(lengths=(10_000,))
    method = limits.bootstrap(settings, "groups", 0)
    ((n, evaluator),) = limits.follow(settings, "groups", 0, method, settings.lengths)
    reading = cast(BootstrapReading, evaluator.read(np.eye(2)))
    averages = method.multipliers.deviation * reading.deviations  # (B, 2), from the estimate
    terms = limits.main_terms(settings, "groups", 0, n)
    shifts = (terms[:, 1:] - terms[:, :1]).T
    rest = np.linalg.norm(averages - shifts, axis=1) / np.linalg.norm(shifts, axis=1)
    assert np.median(rest) < 0.4
    others = np.linalg.norm(averages - np.roll(shifts, 1, axis=0), axis=1) / np.linalg.norm(shifts, axis=1)
    assert np.median(others) > 0.8


def test_scores_of_a_linear_value_are_martingale_differences_and_those_of_groups_are_not() -> None:
    errors = {name: limits.known(limits.Limits(), name) for name in limits.PROBLEMS}
    single, long_run = (
        errors["linear value"].error(x) for x in (errors["linear value"].lag_zero, errors["linear value"].long_run)
    )
    assert single == pytest.approx(long_run)
    assert errors["groups"].error(errors["groups"].long_run) > 2 * errors["groups"].error(errors["groups"].lag_zero)


def test_the_noise_splits_into_martingale_differences_and_a_rest_but_not_as_the_supplement_prints_it() -> None:
    """S1, proof of Proposition 4.1, for one function of the state in place of the matrix.

    f - mean = e_t + r_t, with the solution g of Poisson's equation g - P g = f - mean. Printed are
    e_t = g(X_t) - P g(X_(t+1)) and r_t = P g(X_(t+1)) - P g(X_t). With X_(t-1) in place of X_(t+1) e_t is a martingale
    difference and r_t telescopes; then both weighted sums converge, but none of their norms.
    """
    mdp, features, _, behaviour, *_ = random_mdp(3)
    chain = np.zeros((mdp.n_states, mdp.n_states))
    states, actions, following, chances, _ = mdp.outcomes
    np.add.at(chain, (states, following), behaviour[states, actions] * chances)
    law = mdp.stationary(behaviour)
    g = np.linalg.solve(np.eye(len(law)) - chain + law, features[:, 0] - law @ features[:, 0])
    ahead = chain @ g
    np.testing.assert_allclose(g - ahead, features[:, 0] - law @ features[:, 0], atol=1e-12)

    # Given X_t, the printed e_t has mean g - P P g; and the size of r_t is the same at every t.
    spread = np.sqrt(law @ (g - law @ g) ** 2)
    assert np.sqrt(law @ (g - chain @ ahead) ** 2) > 0.5 * spread
    rest = np.sqrt(law @ (chain * (ahead - ahead[:, None]) ** 2).sum(axis=1))
    assert rest > 0.1 * spread

    x = mdp.sample(behaviour, 400_000, seed=1).states
    noise, rests = g[x[1:]] - ahead[x[:-1]], ahead[x[:-1]] - ahead[x[1:]]  # with X_(t-1)
    np.testing.assert_allclose(noise + rests, (g - ahead)[x[1:]], atol=1e-12)
    assert np.sqrt(np.mean(rests[-1000:] ** 2)) == pytest.approx(rest, rel=0.3)
    counts = np.bincount(x[:-1], minlength=len(law))
    means = np.bincount(x[:-1], noise, len(law)) / np.maximum(counts, 1)
    assert np.all(np.abs(means) <= 5 * np.abs(noise).max() / np.sqrt(np.maximum(counts, 1)))
    steps = np.arange(1.0, len(noise) + 1) ** -0.75
    half = len(noise) // 2
    for part in (noise, rests):
        assert abs((steps * part)[half:].sum()) < 0.2 * spread  # converges: 5 standard deviations of what is left
        assert (steps * np.abs(part))[half:].sum() > 0.15 * (steps * np.abs(part)).sum()  # 1 - 2^(-1/4) of t^(1/4)


def test_autoregressions_have_the_covariance_that_the_truth_assumes() -> None:
    n, one = 50, 0.8
    map_ = markov_noise.autoregression(np.eye(n)[:, :, None], one)[..., 0]  # row i: the answer to innovation i
    covariance = map_.T @ map_
    lags = np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
    np.testing.assert_allclose(covariance, one**lags, atol=1e-12)


@pytest.mark.parametrize("case", markov_noise.CASES)
def test_the_long_run_variance_is_that_of_the_scores(case: str) -> None:
    """Autocovariances of the score of the target, added up by hand over 400 lags of one path."""
    settings = markov_noise.MarkovNoise()
    one, n = settings.correlation, 400
    lags = np.arange(1, n)
    if case == "mean, dependent errors":
        expected = 1 + 2 * (one**lags).sum()
    elif case == "regression, independent errors":
        expected = 1.0
    elif case == "regression, dependent errors":
        expected = 1 + 2 * (one ** (2 * lags)).sum()
    else:
        within = np.abs(np.subtract.outer(np.arange(settings.episode), np.arange(settings.episode)))
        expected = (one ** (2 * within)).sum() / settings.episode
    assert settings.long_run(case) == pytest.approx(expected)


def test_only_one_reading_has_a_value_that_is_linear() -> None:
    settings, problem = two_readings.TwoReadings(), random_mdp(3)
    value = float(problem.features[0] @ problem.theta)
    as_read = {name: two_readings.problem_as_read(settings, problem, name) for name in two_readings.READINGS}
    assert as_read["linear target"].value == pytest.approx(value)
    assert as_read["linear target"].fixed_point == pytest.approx(value)
    for name in ("greedy", "mixture"):
        assert abs(as_read[name].value - as_read[name].fixed_point) > 1e-4
    np.testing.assert_allclose(as_read["greedy"].target, problem.target)
    # Under the paper's reward it is the generated policy whose value is linear.
    own = as_read["mixture"].mdp.values(problem.behaviour, problem.discount)
    np.testing.assert_allclose(own, problem.features @ problem.theta)


def test_the_fixed_point_follows_the_behaviour_only_where_features_cannot_express_the_value() -> None:
    settings = changing_behaviour.ChangingBehaviour()
    problem = changing_behaviour.draw(settings, 1)
    for name in changing_behaviour.BEHAVIOURS:
        policies = changing_behaviour.policies_of(settings, problem, name, 1)
        np.testing.assert_allclose([policy.sum(axis=1) for policy in policies], 1.0)
        each, whole = changing_behaviour.fixed_points(problem, policies, problem.features)
        np.testing.assert_allclose([*each, whole], problem.features[0] @ problem.theta, atol=1e-10)
        each, whole = changing_behaviour.fixed_points(problem, policies, problem.features[:, ::2])
        assert (np.ptp(each) > 0.01) == (name != "constant")
        assert min(each) - 1e-9 <= whole <= max(each) + 1e-9


def test_ratios_follow_the_policy_that_acted() -> None:
    settings = changing_behaviour.ChangingBehaviour()
    problem = changing_behaviour.draw(settings, 0)
    policies = changing_behaviour.policies_of(settings, problem, "switches", 0)
    followed, first = (
        changing_behaviour.sample(problem, policies, 20_000, [0], problem.features, follow).ratios.reshape(5, -1)
        for follow in (True, False)
    )
    np.testing.assert_array_equal(followed[0], first[0])
    np.testing.assert_allclose(followed.mean(axis=1), 1.0, atol=0.1)  # 5 standard errors
    assert np.abs(first[1:].mean(axis=1) - 1).max() > 0.1


def test_tdc_is_stable_above_its_threshold() -> None:
    """And the threshold is no more than sufficient: the stored study has stable cases below it."""
    settings = enumerations.Enumerations()
    for number in range(50):
        assert enumerations.stability_repeat(settings, number)["TDC above"]
    stored = json.loads((page.RESULTS / "enumerations.json").read_text())["stability"]
    assert stored["TDC above"]["stable"] == stored["TDC above"]["cases"]
    assert 0 < stored["TDC below"]["stable"] < stored["TDC below"]["cases"]


def test_the_emphasis_grows_by_the_spectral_radius() -> None:
    """Second moments of F by state, iterated: they grow at the rate of the radius, whatever the mean ratio is."""
    system = enumerations.draw(enumerations.Enumerations(), 5)
    radius, _ = enumerations.emphasis(system)
    states, actions, next_states, probabilities, _ = system.mdp.outcomes
    ratios = (system.target / system.behaviour)[states, actions]
    mass: Floats = system.law
    sizes = []
    for _ in range(200):
        flow = mass[states] * system.behaviour[states, actions] * probabilities * (ratios * system.discount) ** 2
        mass = np.asarray(np.bincount(next_states, flow, len(mass)), dtype=np.float64)
        sizes.append(mass.sum())
    assert (sizes[-1] / sizes[99]) ** (1 / 100) == pytest.approx(radius, rel=1e-3)
