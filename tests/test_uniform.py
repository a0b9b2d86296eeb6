"""Intervals for all times or all targets at once: their formulas, and their use by evaluators."""

from __future__ import annotations

from itertools import pairwise
from math import exp, log, sqrt

import numpy as np
import pytest
from scipy.stats import norm, t

import inferl
from inferl.environments import random_mdp
from inferl.errors import KindError, SettingError
from inferl.interval import Interval, anytime, correlated_scores, simultaneous, tightest


def coin(n: int, seed: int = 0) -> inferl.Transitions:
    toss = np.random.default_rng(seed).integers(2, size=n)
    return inferl.Transitions(0 * toss, toss, 0 * toss, 0.9)


def standard(level: float = 0.95, df: float = np.inf) -> Interval:
    return Interval(1.0, 0.0, 2.0, level, "normal", 0.5, 100, df=df)


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.999])
def test_the_tuning_time_is_where_it_is_tightest(level: float) -> None:
    """The width at equal standard error x sqrt(n), as a function of the time, has its minimum at the tuning time."""
    widths = {grown: anytime(standard(level), grown).width for grown in (0.98, 1.0, 1.02)}
    assert widths[1.0] < min(widths[0.98], widths[1.02])
    x = tightest(level)
    assert x == pytest.approx(log(1 + x) - 2 * log(1 - level), rel=1e-12)


def test_the_boundary_is_that_of_the_normal_mixture() -> None:
    """The mixture martingale exp(x z^2 / 2 (1 + x)) / sqrt(1 + x) reaches 1 / (1 - level) at the bounds."""
    for grown in (0.01, 1.0, 300.0):
        found = anytime(standard(), grown)
        z, x = (found.upper - 1.0) / 0.5, tightest(0.95) * grown
        assert exp(x * z**2 / (2 * (1 + x))) / sqrt(1 + x) == pytest.approx(20.0)
        assert found.upper - 1.0 == pytest.approx(1.0 - found.lower)
    assert anytime(standard(), 1.0).width / (2 * 1.96 * 0.5) == pytest.approx(1.55, abs=0.01)


def test_few_degrees_of_freedom_widen_it() -> None:
    """By the same factor as the pointwise interval that has the same width at the tuning time."""
    least = anytime(standard(), 1.0).width  # in standard errors, which are 0.5
    for grown in (0.01, 1.0, 2.0):
        few, many = anytime(standard(df=5), grown), anytime(standard(), grown)
        assert few.width / many.width == pytest.approx(t.ppf(norm.cdf(least), 5) / least)


def test_a_brownian_path_stays_inside_as_often_as_promised() -> None:
    """4000 random walks observed at all steps from 100 to 10,000: at most 5 % ever leave; false alarm 1e-4 (3.7 sd)."""
    generator = np.random.default_rng(3)
    left = pointwise_left = 0
    steps = np.arange(1, 10_001)[99:]
    boundary = np.array([anytime(standard(), n / 1000).width for n in steps])  # se 0.5: width / 2 / se = width
    for _ in range(40):
        paths = np.cumsum(generator.normal(size=(100, 10_000)), axis=1)[:, 99:] / np.sqrt(steps)
        left += int((np.abs(paths) > boundary).any(axis=1).sum())
        pointwise_left += int((np.abs(paths) > 1.96).any(axis=1).sum())
    assert left / 4000 < 0.05 + 3.7 * sqrt(0.05 * 0.95 / 4000)
    assert pointwise_left / 4000 > 0.3


@pytest.mark.parametrize("average", ["linear", "uniform", inferl.BurnIn(100)])
def test_the_bootstrap_measures_time_by_its_averaging_weights(average: str | inferl.BurnIn) -> None:
    method = inferl.OnlineBootstrap(inferl.Polynomial(1.0), 10, average=average)
    weights = np.diff(method.weight_sum(np.arange(501)))
    assert method.information(500) == pytest.approx(float((weights**2).sum()))
    evaluator = inferl.Evaluator(inferl.TD(1), method).update(coin(500))
    plain, wide = (evaluator.interval(0, kind=kind, tuning_time=500) for kind in ("normal", "anytime"))
    assert wide.width / plain.width == pytest.approx(1.55, abs=0.01)  # tightest here


def test_an_evaluator_has_both_kinds() -> None:
    evaluator = inferl.Evaluator(inferl.TD(1), inferl.LeastSquares("none")).update(coin(5000))
    plain = evaluator.interval(0)
    wide = evaluator.interval(0, kind="anytime", tuning_time=5000)
    assert wide.kind == "anytime"
    assert "95% anytime" in str(wide)
    assert wide.width / plain.width == pytest.approx(1.55, abs=0.01)
    assert wide.estimate == plain.estimate
    later = evaluator.interval(0, kind="anytime", tuning_time=100)
    assert later.width > wide.width
    assert evaluator.report(0, kind="anytime").interval.kind == "anytime"
    alone = evaluator.interval([[1.0]], kind="simultaneous")
    assert alone.width[0] == pytest.approx(plain.width, rel=0.03)  # of one target, up to the draws
    with pytest.raises(SettingError, match="tuning_time is 0"):
        evaluator.interval(0, kind="anytime", tuning_time=0)
    with pytest.raises(KindError):
        evaluator.interval(0, kind="sometimes")


def test_nothing_known_is_endless_at_any_time() -> None:
    evaluator = inferl.Evaluator(inferl.TD(1)).update(coin(5))
    for kind in ("anytime", "simultaneous"):
        found = evaluator.interval(0, kind=kind)
        assert (found.lower, found.upper) == (-np.inf, np.inf)


@pytest.mark.parametrize("k", [1, 2, 20])
def test_independent_targets_need_sidaks_quantile(k: int) -> None:
    many = Interval(np.zeros(k), -np.ones(k), np.ones(k), 0.95, "normal", np.ones(k), 100)
    found = simultaneous(many, correlated_scores([np.eye(k)]))
    assert found.upper == pytest.approx(norm.ppf((1 + 0.95 ** (1 / k)) / 2), rel=0.02)


def test_replicas_widen_by_the_quantile_that_one_more_of_them_needs() -> None:
    """The 190th smallest of 199 replicas: a 200th from the same distribution is covered in 95 of 100 cases."""
    scores = np.random.default_rng(0).normal(size=(199, 4))
    many = Interval(np.zeros(4), -np.ones(4), np.ones(4), 0.95, "normal", np.ones(4), 100)
    assert simultaneous(many, scores).upper == pytest.approx(np.sort(np.abs(scores).max(axis=1))[189])


def test_equal_targets_need_no_more_than_one() -> None:
    many = Interval(np.zeros(9), -np.ones(9), np.ones(9), 0.95, "normal", np.ones(9), 100)
    assert simultaneous(many, correlated_scores([np.ones((9, 9))])).upper == pytest.approx(1.96, rel=0.02)
    # of two correlations, the one with the wider interval
    both = correlated_scores([np.ones((9, 9)), np.eye(9)])
    assert simultaneous(many, both).upper == pytest.approx(norm.ppf((1 + 0.95 ** (1 / 9)) / 2), rel=0.02)


def test_targets_without_noise_or_without_data_do_not_count() -> None:
    error = np.array([1.0, 0.0, np.inf])
    many = Interval(np.zeros(3), -error, error, 0.95, "normal", error, 100)
    found = simultaneous(many, correlated_scores([np.eye(3)]))
    assert found.upper == pytest.approx([1.96, 0.0, np.inf], rel=0.02)


@pytest.mark.parametrize(
    "method",
    [
        inferl.LeastSquares(),
        inferl.LeastSquares(blocks="none"),
        inferl.OnlineBootstrap(inferl.Polynomial(50, 0.65), n_replicas=400),
    ],
)
def test_all_states_of_a_random_mdp(method: inferl.LeastSquares | inferl.OnlineBootstrap) -> None:
    """The quantile lies between that of one target and Bonferroni's, and is the same for all targets."""
    mdp, _, policy, _, _, discount = random_mdp(seed=1, n_states=12)
    data = mdp.sample(policy, 8000, seed=2).transitions(discount)
    evaluator = inferl.Evaluator(inferl.TD(12), method).update(data)
    plain = evaluator.interval(np.eye(12), kind="normal")
    band = evaluator.interval(np.eye(12), kind="simultaneous")
    factor = band.width / plain.width
    assert 1.0 < factor.min() <= factor.max() < 1.1 * norm.ppf(1 - 0.025 / 12) / norm.ppf(0.975)
    truth = mdp.values(policy, discount)
    assert np.all(np.abs(band.estimate - truth) < 6 * band.standard_error)
    assert len(list(band)) == 12


# Stopping.


def chunks(data: inferl.Transitions, size: int = 250) -> list[inferl.Transitions]:
    return [data[a:b] for a, b in pairwise(range(0, len(data) + 1, size))]


def test_until_stops_when_the_interval_is_narrow() -> None:
    evaluator = inferl.Evaluator(inferl.TD(1))
    taken = list(evaluator.until(chunks(coin(50_000)), 0, width=0.3))
    assert sum(map(len, taken)) == evaluator.n < 50_000
    assert evaluator.interval(0, kind="anytime").width <= 0.3
    before = inferl.Evaluator(inferl.TD(1)).update(coin(50_000)[: evaluator.n - 250])
    assert before.interval(0, kind="anytime").width > 0.3


def test_until_stops_when_the_question_is_answered() -> None:
    evaluator = inferl.Evaluator(inferl.TD(1))
    for _ in evaluator.until(chunks(coin(50_000)), 0, lower_above=4.5, tuning_time=2000):
        pass
    assert evaluator.interval(0, kind="anytime", tuning_time=2000).lower > 4.5
    assert evaluator.n < 50_000
    for _ in (other := inferl.Evaluator(inferl.TD(1))).until(chunks(coin(50_000)), 0, upper_below=5.5):
        pass
    assert other.interval(0, kind="anytime").upper < 5.5


def test_until_reads_a_source_to_its_end_if_nothing_is_known() -> None:
    evaluator = inferl.Evaluator(inferl.TD(1))
    assert len(list(evaluator.until(chunks(coin(5000)), 0, lower_above=6.0))) == 20


def test_no_noise_and_failed_checks_decide_nothing() -> None:
    zero = np.zeros(5000, np.int64)
    silent = inferl.Transitions(zero, 0.0 * zero, zero, 0.9)
    evaluator = inferl.Evaluator(inferl.TD(1))
    assert len(list(evaluator.until(chunks(silent), 0, width=0.1))) == 20
    slow = inferl.Evaluator(inferl.TD(1), inferl.OnlineBootstrap(inferl.Polynomial(0.01)))  # never reached
    assert len(list(slow.until(chunks(coin(5000)), 0, upper_below=4.0))) == 20
    assert slow.interval(0, kind="anytime").upper < 4.0  # it would have stopped, wrongly


def test_until_must_be_told_when() -> None:
    with pytest.raises(SettingError, match="say when to stop"):
        next(inferl.Evaluator(inferl.TD(1)).until([coin(10)], 0))


def test_the_tuning_time_counts_episodes_where_these_are_the_blocks() -> None:
    """10,000 transitions by default; 100 episodes with `DoublyRobust`, however long they are."""
    data = inferl.Transitions(np.zeros(2000, int), coin(2000).rewards, np.zeros(2000, int), np.tile([1.0, 0.0], 1000))
    for algorithm, target, usual in ((inferl.TD(1), 0, 10_000), (inferl.DoublyRobust(1), None, 100)):
        evaluator = inferl.Evaluator(algorithm).update(data)
        unsaid, said = (evaluator.interval(target, kind="anytime", tuning_time=time) for time in (None, usual))
        assert unsaid.to_dict() == said.to_dict()
    few = inferl.Evaluator(inferl.DoublyRobust(1)).update(data[:62])  # 31 episodes
    assert not few.is_decided(lower_above=-100.0)
    assert few.update(data[62:64]).is_decided(lower_above=-100.0)
