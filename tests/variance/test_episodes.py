"""The summary of episodes: how they ended, their weights, and the range of possible values."""

from __future__ import annotations

import numpy as np
import pytest

import inferl
from inferl import TD, DoublyRobust, Evaluator, LeastSquares, Transitions, merge
from inferl.data.streams import Streams
from inferl.diagnostics import Check, Report, features
from inferl.methods.misfit import Misfit
from inferl.variance.episodes import EpisodeSummary


def summary(data: Transitions, cuts: tuple[int, ...] = ()) -> EpisodeSummary:
    streams, found = Streams(), EpisodeSummary()
    for start, stop in zip((0, *cuts), (*cuts, len(data)), strict=True):
        streams, steps = streams.place(data[start:stop])
        found.add(steps)
    return found


def check(report: Report, name: str) -> Check:
    return next(check for check in report.checks if check.name == name)


def test_how_episodes_ended() -> None:
    """One terminates, one is truncated, one ends by a limit, one is open; and one has no mark at its end."""
    zero = np.zeros(9, int)
    data = Transitions(
        zero,
        [1, 2, 3, 4, 5, 6, 7, 8, 9],
        zero,
        [0.5, 0, 0.5, 0.5, 0.5, 0, 0.5, 0.5, 0.5],
        last=[0, 1, 0, 1, 0, 1, 0, 0, 0],
        truncated=[0, 0, 0, 1, 0, 1, 0, 0, 0],
        episode=[0, 0, 1, 1, 2, 2, 3, 4, 4],
    )
    found = summary(data)
    assert (found.begun, found.terminated, found.cut, found.limited) == (5, 1, 2, 1)
    assert found.beyond.tolist() == [0.5**2 + 0.5]  # discounts up to the truncation, and up to the unmarked end
    assert found.share_beyond == (0.5**2 + 0.5 + 0.5**2) / 5  # and of the open one
    assert found.earned.tolist() == [1 + 0.5 * 2, 5 + 0.5 * 6]
    assert found.possible() == (1.0, 18.0)
    assert found.weights.tolist() == [[4.0, 4.0]]


def test_no_cutting_changes_it() -> None:
    rng = np.random.default_rng(0)
    ends = rng.random(300) < 0.1
    data = Transitions(
        np.zeros(300, int),
        rng.normal(size=300),
        np.zeros(300, int),
        np.where(ends, 0, 0.9),
        rng.choice([0.5, 1.5], size=300),
        stream=rng.integers(3, size=300),
    )
    one, other = summary(data), summary(data, tuple(range(1, 300, 7)))
    for name in ("open", "begun", "terminated", "cut", "beyond", "weights", "earned", "rewards", "discounts"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def test_two_streams_add_up() -> None:
    zero = np.zeros(4, int)
    data = Transitions(zero, [1.0, -3.0, 2.0, 2.0], zero, [0.9, 0, 0.9, 0.9])
    merged = merge(*(Evaluator(DoublyRobust(1)).update(part) for part in (data[:2], data[2:])))
    found = merged.with_pending().episodes
    assert (found.begun, found.terminated, found.steps) == (2, 1, 4)
    assert found.share_beyond == pytest.approx(0.9**2 / 2)
    assert found.rewards.tolist() == [-3.0, 2.0]


def off_policy(n: int, wrong: float = 1.0, seed: int = 0) -> Transitions:
    """Episodes of two steps; half of the actions have the ratio .5, half 1.5, all of them times `wrong`."""
    rng = np.random.default_rng(seed)
    ratios = wrong * rng.choice([0.5, 1.5], size=2 * n)
    return Transitions(
        np.zeros(2 * n, int), rng.normal(size=2 * n), np.zeros(2 * n, int), np.tile([1.0, 0.0], n), ratios
    )


def test_ratios_that_are_not_of_this_log() -> None:
    right = Evaluator(DoublyRobust(1)).update(off_policy(500)).report()
    assert check(right, "ratios").status == "passed"
    wrong = Evaluator(DoublyRobust(1)).update(off_policy(500, wrong=0.8)).report()
    assert check(wrong, "ratios").failed
    assert check(right, "mean ratio").status == "passed"
    assert check(wrong, "mean ratio").failed
    assert "not the importance ratios of this log" in check(wrong, "mean ratio").message
    assert check(Evaluator(TD(1)).update(off_policy(500, wrong=0.8)).report(0), "mean ratio").failed


def test_large_weights_that_have_not_been_seen() -> None:
    """Ratios of .7 and 1.2, and a rare large one that has not occurred; single ratios are too few to show it."""
    n, rng = 30, np.random.default_rng(1)
    rows, ratios = np.zeros(10 * n, int), rng.permutation(np.repeat([0.7, 1.2], 5 * n))
    data = Transitions(rows, rng.normal(size=10 * n), rows, np.tile([1.0] * 9 + [0.0], n), ratios)
    found = check(Evaluator(DoublyRobust(1)).update(data).report(), "ratios")
    assert found.failed
    assert "large weights have not been seen yet" in found.message
    assert check(Evaluator(TD(1)).update(data).report(0), "ratios").status == "passed"


def test_what_lies_beyond_cuts() -> None:
    n = 400
    zero = np.zeros(n, int)
    cut = np.arange(n) % 10 == 9
    data = Transitions(zero, np.random.default_rng(0).normal(size=n), zero, 0.9, last=cut)
    report = Evaluator(DoublyRobust(1)).update(data).report()
    assert check(report, "ends").failed
    assert check(report, "ends").value == pytest.approx(0.9**10)
    assert not check(Evaluator(TD(1)).update(data).report(0), "ends").failed
    ended = Transitions(zero, data.rewards, zero, np.where(cut, 0.0, 0.9), truncated=cut)
    limited = Evaluator(DoublyRobust(1)).update(ended).report()
    assert not check(limited, "ends").failed
    assert limited.interval.estimand == "the value of the start distribution, up to the time limit"
    undiscounted = Transitions(zero, data.rewards, zero, np.where(cut, 0.0, 1.0), truncated=cut)
    found = Evaluator(DoublyRobust(1)).update(undiscounted).interval()
    assert found.estimand == "the mean return up to the time limit"


def test_values_that_cannot_be() -> None:
    """Rewards of 1 at a discount of .9 give a value of at most 10; with growing features TD estimates more."""
    n = 300
    phi = np.linspace(1.0, 1.1, n + 1)[:, None]
    data = Transitions(phi[:-1], np.ones(n), 1.09 * phi[:-1], 0.9)
    report = Evaluator(TD(1)).update(data).report([1.0])
    assert "range" not in {check.name for check in report.checks}  # the range of a feature vector is unknown
    state = Evaluator(TD(2)).update(Transitions(np.tile([0, 1], n), np.ones(2 * n), np.tile([1, 0], n), 0.9)).report(0)
    assert check(state, "range").status == "passed"
    ends = np.arange(n) % 10 == 9
    episodic = Transitions(phi[:-1], np.ones(n), 1.09 * phi[:-1], 0.9, last=ends)
    assert check(Evaluator(DoublyRobust(1)).update(episodic).report("fitted"), "range").failed


def test_features_that_cannot_express_the_value_are_named() -> None:
    """A clinic without an intercept: rewards come at the end, and the only feature is 0 on average."""
    rng = np.random.default_rng(0)
    n = 500
    phi = rng.normal(size=(2 * n, 1))
    data = Transitions(phi, np.tile([0.0, 1.0], n), np.roll(phi, -1, axis=0), np.tile([1.0, 0.0], n))
    evaluator = Evaluator(DoublyRobust(1)).update(data)
    report = evaluator.report()
    assert report.interval.estimate == pytest.approx(1.0)
    assert check(report, "features").status == "passed"  # the value does not depend on them
    assert "bias the value" in check(report, "features").message
    for target in ("fitted", [0.3]):
        assert check(evaluator.report(target), "features").failed
    assert check(Evaluator(TD(1)).update(data).report([0.3]), "features").status == "not available"


def test_rounding_is_no_misfit() -> None:
    """Undiscounted and with a constant feature, the fitted value of the starts is the mean return."""
    rng = np.random.default_rng(2)
    phi = np.column_stack([np.ones(2001), rng.normal(size=2001)])
    ends = np.arange(2000) % 20 == 19
    data = Transitions(phi[:-1], rng.normal(50, 1, 2000), phi[1:], np.where(ends, 0.0, 1.0))
    found = check(Evaluator(DoublyRobust(2)).update(data).report("fitted"), "features")
    assert found.status == "passed"
    assert found.value == 0.0


def test_several_policies_have_weights_of_their_own() -> None:
    """The first is the behaviour; the second has products of ratios with an effective sample size of a few."""
    rng = np.random.default_rng(3)
    n = 3000
    ends = np.arange(n) % 10 == 9
    ratios = np.column_stack([np.ones(n), rng.choice([0.2, 1.8], size=n)])
    data = Transitions(np.zeros(n, int), rng.normal(size=n), np.zeros(n, int), np.where(ends, 0.0, 1.0), ratios)
    both = summary(data, (7, 500, 1999))
    alone = summary(data.with_ratios(ratios[:, 1]))
    assert both.closed == alone.closed == 300
    assert both.effective == alone.effective < 100
    assert both.mean_weight == alone.mean_weight
    assert both.weights[0].tolist() == [300.0, 300.0]


def test_few_episodes_that_carry_the_weight() -> None:
    rng, n = np.random.default_rng(4), 400
    ratios = np.ones(2 * n)
    ratios[0] = 1e6
    zero = np.zeros(2 * n, int)
    data = Transitions(zero, rng.normal(size=2 * n), zero, np.tile([1.0, 0.0], n), ratios)
    found = check(Evaluator(DoublyRobust(1)).update(data).report(), "ratios")
    assert found.failed
    assert "a few episodes dominate" in found.message


def test_a_weight_beyond_all_powers_is_rare() -> None:
    """The fourth power of 1e77 overflows; the weight must still count as one episode."""
    rng, n = np.random.default_rng(5), 400
    ratios = rng.choice([0.5, 1.5], size=2 * n)
    ratios[100] = 1e77
    zero = np.zeros(2 * n, int)
    data = Transitions(zero, rng.normal(size=2 * n), zero, np.tile([1.0, 0.0], n), ratios)
    assert check(Evaluator(DoublyRobust(1)).update(data).report(), "rarity").failed


def test_an_equation_of_ones_own_has_no_range() -> None:
    """A median by a recursion: neither its size nor the ends of episodes can be checked."""
    rng = np.random.default_rng(6)
    field = inferl.Field(1, lambda theta, step: np.sign(step.reward - theta))
    data = Transitions(np.zeros(2000, int), rng.normal(5, 1, 2000), np.zeros(2000, int), 1.0)
    report = Evaluator(field, inferl.OnlineBootstrap(inferl.Polynomial(1.0), n_replicas=20)).update(data).report([1.0])
    assert not {"ends", "range"} & {check.name for check in report.checks}


@pytest.mark.parametrize(
    ("gap", "gap_error", "wald", "alarm"),
    [
        (0.018, 0.034, 26.0, "not exact"),  # the returns show nothing, the bounded weights do
        (0.018, 0.034, 5.0, ""),
        (0.100, 0.034, 5.0, "bias"),  # the returns show it
        (0.004, 0.001, 90.0, ""),  # negligible beside a standard error of .016
        (0.018, 0.004, 90.0, "bias"),
    ],
)
def test_when_features_raise_an_alarm(gap: float, gap_error: float, wald: float, alarm: str) -> None:
    misfit = Misfit(0.03, 0.7, 0.016, gap, gap_error, wald)
    found = features(misfit, beyond=None)
    assert found.failed == bool(alarm)
    assert alarm in found.message
    assert not features(misfit, beyond=0.0).failed  # the value does not depend on them


def test_open_episodes_count_as_far_as_they_have_come() -> None:
    """200 parallel environments; nearly all episodes are open when the interval is read."""
    n_streams, steps, errors, estimates = 200, 50, [], []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        n = n_streams * steps
        state, reward = rng.integers(2, size=n), rng.normal(size=n)
        last = rng.random(n) < 0.003
        data = Transitions(
            state, reward + state, rng.integers(2, size=n), np.where(last, 0.0, 0.5), stream=np.arange(n) % n_streams
        )
        interval = Evaluator(TD(2), LeastSquares("episode")).update(data).interval(0)
        errors.append(float(interval.standard_error))
        estimates.append(float(interval.estimate))
    assert np.sqrt(np.mean(np.square(errors))) == pytest.approx(np.std(estimates, ddof=1), rel=0.3)
