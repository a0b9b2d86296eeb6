"""Differences: independent streams, coupled bootstraps on one stream, one Stack, and a fixed number."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest

import inferl
from inferl import Evaluator, Transitions
from inferl.data.fingerprints import combined, fingerprints
from inferl.environments import random_mdp
from inferl.errors import KindError, PairingError, SettingError, TargetError
from inferl.methods.bootstrap import BootstrapReading

BOOTSTRAP = inferl.OnlineBootstrap(inferl.Polynomial(5, 0.65, cap=0.25), n_replicas=100, seed=4)


def logged(n: int = 4000, seed: int = 0) -> tuple[inferl.Transitions, inferl.Transitions, Any]:
    """One log of a behaviour; the same rows with the ratios of two similar target policies."""
    problem = random_mdp(seed=5, n_states=12, n_features=4)
    path = problem.mdp.sample(problem.behaviour, n, seed=seed)
    near = 0.9 * problem.target + 0.1 * problem.behaviour
    one, other = (
        path.transitions(problem.discount, problem.features, path.ratios(policy, problem.behaviour))
        for policy in (problem.target, near)
    )
    return one, other, problem


def evaluated(data: inferl.Transitions, method: Any = BOOTSTRAP) -> inferl.Evaluator:
    return inferl.Evaluator(inferl.TDC(4), method).update(data)


def test_coupled_rows_are_subtracted_one_by_one() -> None:
    one, other, problem = logged()
    a, b = evaluated(one), evaluated(other)
    target = problem.features[0]
    found = inferl.difference(a, b, target, paired=True)
    readings = [cast(BootstrapReading, e.read(target)) for e in (a, b)]
    rows = readings[0].deviations - readings[1].deviations
    assert found.kind == "percentile"
    assert found.estimate == pytest.approx(a.estimate(target) - b.estimate(target))
    assert found.standard_error == pytest.approx(rows.std(ddof=1))
    assert found.lower == pytest.approx(found.estimate + np.quantile(rows, 0.025, method="weibull"))
    assert found.n == 4000
    # positively correlated: narrower than for independent streams
    assert found.standard_error < 0.5 * np.hypot(a.interval(target).standard_error, b.interval(target).standard_error)
    assert str(inferl.difference(a, b, target)) == str(found)  # the fingerprints tell that it is one stream
    with pytest.raises(PairingError, match="fed the same stream"):
        inferl.difference(a, b, target, paired=False)
    assert inferl.difference(a, b, target, kind="anytime", paired=True).kind == "anytime"
    matrix = inferl.difference(a, b, problem.features[:3], paired=True)
    assert matrix.estimate.shape == (3,)
    assert matrix.estimate[0] == pytest.approx(found.estimate)


def test_the_method_without_replicas_is_named() -> None:
    data = logged()[0]
    walk, solved = evaluated(data), evaluated(data, inferl.LeastSquares())
    for pair in ((walk, solved), (solved, walk)):
        with pytest.raises(SettingError, match="LeastSquares has none; evaluate both policies at once with Stack"):
            inferl.difference(*pair, np.ones(4), paired=True)


@pytest.mark.parametrize("method", [BOOTSTRAP, inferl.LeastSquares()])
@pytest.mark.parametrize("targets", [(np.eye(4), np.eye(4)[:2]), (np.ones(4), np.eye(4)[:2])])
def test_both_need_as_many_targets(method: Any, targets: Any) -> None:
    one, other, _ = logged()
    pair = evaluated(one, method), evaluated(other if method is BOOTSTRAP else other[:900], method)
    with pytest.raises(TargetError, match=r"target has \d rows and other_target has 2; give as many for both"):
        inferl.difference(*pair, targets[0], other_target=targets[1])


@pytest.mark.parametrize("second", [None, "b", np.zeros(2), np.nan, np.inf])
def test_the_second_is_an_evaluator_or_a_number(second: Any) -> None:
    with pytest.raises(SettingError, match="give an evaluator, or a number"):
        inferl.difference(evaluated(logged()[0]), second, np.ones(4))


def test_the_same_question_to_a_stack() -> None:
    """Least squares on both at once: the same difference as two coupled bootstraps, up to their noise."""
    one, other, problem = logged(20_000)
    both = replace(one, ratios=np.stack([one.ratios, other.ratios], axis=1))
    stack = inferl.Evaluator(inferl.Stack(inferl.TD(4), inferl.TD(4))).update(both)
    c = problem.features[0]
    solved = stack.interval(np.concatenate([c, -c]))
    coupled = inferl.difference(evaluated(one), evaluated(other), c, paired=True)
    assert abs(solved.estimate - coupled.estimate) < 2 * coupled.standard_error
    assert 0.6 < coupled.standard_error / (1.155 * solved.standard_error) < 1.6


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 5},
        {"n_replicas": 50},
        {"average": "uniform"},
        {"multipliers": inferl.Multipliers("exponential")},
        {"first_replica": 3},
    ],
)
def test_bootstraps_that_are_not_coupled_are_refused(change: dict[str, Any]) -> None:
    one, other, problem = logged(500)
    (name,) = change
    with pytest.raises(PairingError, match=name):
        inferl.difference(
            evaluated(one), evaluated(other, replace(BOOTSTRAP, **change)), problem.features[0], paired=True
        )


def test_other_streams_are_refused() -> None:
    one, other, problem = logged(500)
    target = problem.features[0]
    for stranger in (logged(500, seed=1)[1], other[:499]):
        with pytest.raises(PairingError, match="not fed the same stream"):
            inferl.difference(evaluated(one), evaluated(stranger), target, paired=True)
    with pytest.raises(SettingError, match="Stack"):
        inferl.difference(evaluated(one, None), evaluated(other, None), target, paired=True)


def test_step_sizes_and_features_may_differ() -> None:
    one, other, problem = logged(2000)
    wider = np.eye(4, 5)
    wide = replace(other, features=other.features @ wider, next_features=other.next_features @ wider)
    a = evaluated(one, replace(BOOTSTRAP, step_size=inferl.Polynomial(4, 0.7, cap=0.25)))
    b = inferl.Evaluator(inferl.TDC(5), BOOTSTRAP).update(wide)
    target = problem.features[0]
    found = inferl.difference(a, b, target, paired=True, other_target=np.append(target, 0.0))
    assert found.estimate == pytest.approx(a.estimate(target) - b.estimate(np.append(target, 0.0)))


def test_against_a_number() -> None:
    one, _, problem = logged()
    a = evaluated(one, None)
    plain, found = a.interval(problem.features[0]), inferl.difference(a, 0.5, problem.features[0])
    assert (found.estimate, found.lower, found.upper) == (plain.estimate - 0.5, plain.lower - 0.5, plain.upper - 0.5)


def test_kinds_that_a_difference_has_not() -> None:
    one, _, problem = logged(500)
    a, b = evaluated(one), evaluated(logged(500, seed=9)[1])
    for kind in ("percentile", "simultaneous"):
        with pytest.raises(KindError):
            inferl.difference(a, b, problem.features[0], kind=kind)


def test_an_anytime_difference_counts_both_streams() -> None:
    one, _, problem = logged(2000)
    a, b, c = evaluated(one, None), evaluated(logged(2000, seed=9)[1], None), problem.features[0]
    wide, plain = (inferl.difference(a, b, c, kind=kind, tuning_time=4000) for kind in ("anytime", "normal"))
    assert wide.width / plain.width == pytest.approx(1.55, abs=0.01)


# Fingerprints.


def test_a_fingerprint_does_not_depend_on_how_the_stream_was_cut() -> None:
    one, _, _ = logged(1000)
    whole, parts, steps = (inferl.Evaluator(inferl.TD(4)) for _ in range(3))
    whole.update(one)
    for k in range(0, 1000, 77):
        parts.update(one[k : k + 77])
    for k in range(1000):
        steps.observe(one.features[k], one.rewards[k], one.next_features[k], one.discounts[k], one.ratios[k])
    assert whole.fingerprint == parts.fingerprint == steps.fingerprint
    assert 0 < whole.fingerprint < 2**64


def test_fingerprints_see_every_column_and_the_order_of_rows() -> None:
    step, stream, rng = np.arange(1, 51), np.zeros(50, np.int64), np.random.default_rng(0)
    columns = [rng.normal(size=50), rng.random(50), rng.integers(4, size=50), rng.normal(size=(50, 3))]
    bump = np.eye(50)[3]
    variants = [
        (step, stream, columns),
        (step, stream + 1, columns),
        (step, stream, [np.roll(column, 1, axis=0) for column in columns]),
        (step, stream, [columns[0] + 1e-12 * bump, *columns[1:]]),
        (step, stream, [columns[0], columns[1] + 1e-12 * bump, *columns[2:]]),
        (step, stream, [*columns[:2], columns[2] + bump.astype(np.int64), columns[3]]),
        (step, stream, [*columns[:3], columns[3] + 1e-12 * bump[:, None] * [0, 1, 0]]),
        (step, stream, [*columns[:3], columns[3][:, [1, 0, 2]]]),
    ]
    seen = [fingerprints(step, stream, found[:2], found[2:]) for step, stream, found in variants]
    assert len({whole for _, whole in seen}) == len(variants)
    assert len({outcomes for outcomes, _ in seen}) == 5  # features do not count
    zero = 0.0 * columns[0]
    assert fingerprints(step, stream, [zero]) == fingerprints(step, stream, [-np.abs(zero)])


def test_a_fingerprint_tells_features_and_ratios_apart_and_outcomes_do_not() -> None:
    one, other, _ = logged(300)  # one log, two policies
    a, b = (inferl.Evaluator(inferl.TD(4)).update(data) for data in (one, other))
    assert a.fingerprint != b.fingerprint
    assert a.outcomes == b.outcomes
    moved = replace(one, features=np.array(one.features + 1e-9, np.float64))
    c = inferl.Evaluator(inferl.TD(4)).update(moved)
    assert c.fingerprint != a.fingerprint
    assert c.outcomes == a.outcomes


def test_streams_that_differ_only_in_where_episodes_end_are_not_one_stream() -> None:
    """As CartPole's, whose rewards are all 1."""
    zero = np.zeros(400, int)
    streams = [inferl.Transitions(zero, 0 * zero + 1.0, zero, np.where(np.arange(400) % k, 0.9, 0.0)) for k in (7, 8)]
    a, b = (inferl.Evaluator(inferl.TD(1)).update(data) for data in streams)
    assert a.outcomes != b.outcomes
    assert inferl.difference(a, b, 0, paired=False).n == 800


def test_increments_have_fingerprints_too() -> None:
    rng = np.random.default_rng(0)
    y = rng.normal(size=(2, 100, 1))
    a, b = (inferl.Evaluator(inferl.Linear(1)).update(inferl.Increments.dense(np.ones((100, 1, 1)), x)) for x in y)
    assert a.fingerprint != b.fingerprint
    assert a.outcomes != b.outcomes


def test_fingerprints_combine_in_any_order() -> None:
    parts = [int(x) for x in np.random.default_rng(0).integers(2**63, size=4)]
    assert combined(parts) == combined(parts[::-1]) == combined([combined(parts[:2]), combined(parts[2:])])
    assert combined(parts[:1]) == parts[0]


def test_equal_questions_only() -> None:
    """Other discounts, other estimands, or the same data: no difference of two policies."""
    zero = np.zeros(300, int)

    def played(seed: int, discount: float = 0.9) -> Evaluator:
        rewards = np.random.default_rng(seed).normal(size=300)
        ends = np.arange(300) % 10 == 9
        data = Transitions(zero, rewards, zero, np.where(ends, 0.0, discount))
        return Evaluator(inferl.DoublyRobust(1)).update(data)

    found = inferl.difference(played(0), played(1))
    assert found.estimand == "difference of two policies: the value of the start distribution"
    with pytest.raises(SettingError, match=r"discounts differ: 0.9 in the first and 0.8"):
        inferl.difference(played(0), played(1, 0.8))
    with pytest.raises(SettingError, match="ask both the same question"):
        inferl.difference(played(0), played(1), "value", other_target="fitted")
    with pytest.raises(SettingError, match="Stack"):
        inferl.difference(played(0), played(0))


def test_a_limit_that_one_policy_never_meets() -> None:
    """Whether episodes reached the limit is found in the data; the question is the same."""
    zero = np.zeros(300, int)

    def played(seed: int, limited: bool) -> Evaluator:
        ends = np.arange(300) % 10 == 9
        rewards = np.random.default_rng(seed).normal(size=300)
        data = Transitions(zero, rewards, zero, np.where(ends, 0.0, 1.0), truncated=ends & limited)
        return Evaluator(inferl.DoublyRobust(1)).update(data)

    assert inferl.difference(played(0, True), played(1, False)).estimand.endswith("up to the time limit")


def test_discounts_that_vary_are_no_reason_to_refuse() -> None:
    """Times between steps differ, and with them the discounts."""
    zero, rng = np.zeros(300, int), np.random.default_rng(0)

    def played() -> Evaluator:
        discounts = np.where(np.arange(300) % 10 == 9, 0.0, 0.9 ** rng.exponential(size=300))
        return Evaluator(inferl.DoublyRobust(1)).update(Transitions(zero, rng.normal(size=300), zero, discounts))

    assert np.isfinite(inferl.difference(played(), played()).width)
