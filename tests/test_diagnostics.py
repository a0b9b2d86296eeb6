"""The checks: each fires where it should, keeps quiet where it should, and says when it cannot know."""

from __future__ import annotations

import numpy as np
import pytest

from inferl.algorithms import TD, EmphaticTD, Field
from inferl.data.ratios import RatioSummary
from inferl.data.transitions import Transitions
from inferl.diagnostics import Check, Report, ratios
from inferl.engine.multipliers import BlockClock, Multipliers
from inferl.environments import two_state_chain
from inferl.evaluator import Evaluator
from inferl.methods.bootstrap import OnlineBootstrap
from inferl.methods.least_squares import LeastSquares
from inferl.methods.step_sizes import Polynomial


def check(report: Report, name: str) -> Check:
    return next(check for check in report.checks if check.name == name)


def chain_data(n: int, seed: int = 0) -> Transitions:
    chain, features = two_state_chain(0.8)
    return chain.sample(np.ones((2, 1)), n, seed=seed).transitions(0.5, features)


def test_dependence_fires_for_single_steps_only() -> None:
    data = chain_data(10_000)
    step_size = Polynomial(5, 0.65)
    for method in (OnlineBootstrap(step_size, n_replicas=50), LeastSquares("none")):
        report = Evaluator(TD(1), method).update(data).report([1.0])
        assert check(report, "dependence").status == "failed"
        assert any(note.startswith("dependence") for note in report.interval.notes)
        value = check(report, "dependence").value
        assert value == pytest.approx(3.0, rel=0.25)  # sqrt((1 + .8) / (1 - .8)) = 3
    for method in (
        OnlineBootstrap(step_size, 50, Multipliers("two-point", BlockClock())),
        LeastSquares(),
    ):
        report = Evaluator(TD(1), method).update(data).report([1.0])
        assert check(report, "dependence").status == "passed"
        assert not any(note.startswith("dependence") for note in report.interval.notes)


def test_convergence_fires_for_a_step_size_that_is_too_small() -> None:
    data = chain_data(2_000)
    slow = Evaluator(TD(1), OnlineBootstrap(Polynomial(0.001, 0.65), n_replicas=50)).update(data).report([1.0])
    assert check(slow, "convergence").status == "failed"
    good = Evaluator(TD(1), OnlineBootstrap(Polynomial(5, 0.65), n_replicas=50)).update(data).report([1.0])
    assert check(good, "convergence").status == "passed"


def test_what_cannot_be_computed_is_not_available() -> None:
    data = chain_data(500)
    bare = OnlineBootstrap(Polynomial(5, 0.65), n_replicas=20, companion=False)
    report = Evaluator(TD(1), bare).update(data).report([1.0])
    for name in ("convergence", "dependence", "identification"):
        assert check(report, name).status == "not available"
    field = Evaluator(Field(1, lambda theta, t: t.reward - theta), OnlineBootstrap(Polynomial(1.0), 20)).update(data)
    assert check(field.report([1.0]), "convergence").status == "not available"
    assert check(field.report([1.0]), "divergence").status == "passed"


def test_the_effective_sample_size_must_be_large_enough() -> None:
    """The effective sample size is a ninth of the steps: 20,000 steps are plenty, 600 are not, 200 too few to tell."""
    for n, status in ((20_000, "passed"), (600, "failed"), (200, "failed")):
        length = check(Evaluator(TD(1)).update(chain_data(n)).report([1.0]), "length")
        assert length.status == status, length
    assert "200 transitions are too few" in length.message
    coin = np.random.default_rng(0).normal(size=600)
    zero = np.zeros(600, np.int64)
    assert check(Evaluator(TD(1)).update(Transitions(zero, coin, zero, 0.5)).report(0), "length").status == "passed"


def test_a_stream_without_noise_is_not_believed() -> None:
    zero = np.zeros(1000, np.int64)
    report = Evaluator(TD(1)).update(Transitions(zero, np.ones(1000), zero, 0.5)).report(0)
    assert report.interval.width == 0
    assert "nothing has varied" in check(report, "length").message


def test_few_episodes_are_not_believed() -> None:
    rng = np.random.default_rng(0)
    ends = np.arange(3000) % 250 == 249
    zero = np.zeros(3000, np.int64)
    data = Transitions(zero, rng.normal(size=3000), zero, np.where(ends, 0.0, 0.9))
    report = Evaluator(TD(1), LeastSquares(blocks="episode")).update(data).report(0)
    assert "only 12 episodes" in check(report, "length").message
    assert check(report, "length").failed
    assert check(Evaluator(TD(1)).update(data).report(0), "length").status == "passed"


def test_ratios_are_summarised_and_judged() -> None:
    rho = np.random.default_rng(0).exponential(size=1000)
    summary = RatioSummary()
    for start in range(0, 1000, 64):
        summary = summary.updated(rho[start : start + 64], np.full(len(rho[start : start + 64]), 0.9))
    assert ratios(summary).value == pytest.approx(rho.sum() ** 2 / (1000 * (rho**2).sum()))
    assert ratios(summary).status == "passed"
    wild = rho.copy()
    wild[3] = 500.0
    assert ratios(RatioSummary().updated(wild, np.ones(1000))).failed
    assert ratios(RatioSummary()).status == "not available"


def test_ratios_are_counted_by_powers_of_two() -> None:
    rho = np.array([0.0, 2.0**-40, 0.99, 1.0, 1.99, 2.0, 3.0, 2.0**20])
    ones = np.ones(len(rho))
    tails = RatioSummary().updated(rho[:3], ones[:3]).updated(rho[3:], ones[3:]).tails
    assert tails.shape == (32, 1)
    assert {row: int(n) for row, n in enumerate(tails[:, 0]) if n} == {0: 2, 16: 1, 17: 2, 18: 2, 31: 1}
    two = RatioSummary().updated(np.stack([rho, ones], axis=1), ones)
    assert np.array_equal(two.tails[:, :1], tails)
    assert two.tails[17, 1] == 8
    assert np.array_equal(two.plus(two).tails, 2 * two.tails)
    assert two.effective == pytest.approx([rho.sum() ** 2 / (8 * (rho**2).sum()), 1.0])
    assert two.largest_share == pytest.approx([2.0**20 / rho.sum(), 1 / 8])


def test_a_failed_check_says_what_to_do() -> None:
    short = check(Evaluator(TD(1)).update(chain_data(200)).report([1.0]), "length")
    assert short.remedy == "collect 250 or more"
    assert str(short) == f"!! {short.sentence}"
    words = "200 transitions are too few to estimate their autocorrelation"
    assert short.sentence == f"length: {words}; collect 250 or more"
    report = Evaluator(TD(1), LeastSquares("none")).update(chain_data(10_000)).report([1.0])
    assert report.interval.notes == (check(report, "dependence").sentence,)
    assert report.to_dict()["checks"][2]["remedy"] == check(report, "dependence").remedy
    assert check(report, "length").remedy == ""


def test_reports_read_well() -> None:
    data = chain_data(10_000)
    report = Evaluator(TD(1)).update(data).report([1.0])
    text = str(report)
    assert "checks" in text
    assert all(check.name in text for check in report.checks)
    assert "!!" not in text


def test_emphasis_of_infinite_variance_is_said() -> None:
    """Mean squared ratio 4, discount .9: 4 x .81 > 1."""
    n = 2000
    rho = np.where(np.random.default_rng(0).random(n) < 0.25, 4.0, 0.0)
    zero = np.zeros(n, np.int64)
    data = Transitions(zero, np.ones(n), zero, 0.9, rho)
    assert "infinite variance" in check(Evaluator(EmphaticTD(1)).update(data).report(0), "ratios").message
    assert check(Evaluator(TD(1)).update(data).report(0), "ratios").status == "passed"


def test_nothing_yet_is_not_available() -> None:
    report = Evaluator(TD(1)).report(0)
    assert check(report, "length").status == "not available"
    assert report.interval.width == np.inf
