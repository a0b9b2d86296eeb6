"""BestSoFar: what is better replaces the best, luck does not, and levels add up."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import inferl
from inferl import BestSoFar, DoublyRobust, Evaluator, Transitions
from inferl.errors import LevelError, SettingError, ShapeError

RNG = np.random.default_rng(7)


def evaluated(returns: Any) -> Evaluator:
    return Evaluator(DoublyRobust(1)).update(Transitions.from_returns(returns))


def spread(mean: float, episodes: int = 50) -> Evaluator:
    """Returns with this mean exactly, and a standard deviation of about 1."""
    returns = RNG.normal(size=episodes)
    return evaluated(returns - returns.mean() + mean)


def test_the_levels_of_all_evaluations_add_up() -> None:
    best, spent = BestSoFar(0.9), 0.0
    for _ in range(1000):
        best.evaluations += 1
        spent += 1 - best.level_now
    assert 0.0998 < spent < 0.1


def test_the_first_is_the_best_and_only_what_is_known_to_be_better_replaces_it() -> None:
    best = BestSoFar()
    first, lucky, better, worse = spread(0.0), spread(0.3), spread(1.2), spread(0.9)
    assert best.update(first)
    found = [best.difference]
    assert not best.update(lucky)
    found.append(best.difference)
    assert best.best is first
    assert best.update(better)
    found.append(best.difference)
    assert not best.update(worse)
    found.append(best.difference)
    assert best.best is better
    assert best.evaluations == 4
    expected = (
        inferl.difference(lucky, first, level=1 - 0.05 / 6),
        inferl.difference(better, first, level=1 - 0.05 / 12),
    )
    bounds = [None if one is None else (one.lower, one.upper) for one in found]
    assert bounds == [None, *((one.lower, one.upper) for one in expected), None]
    assert expected[0].lower < 0 < expected[0].estimate


def test_later_evaluations_need_more() -> None:
    returns = RNG.normal(size=50)
    new, first = evaluated(returns - returns.mean() + 0.6), spread(0.0)
    found = []
    for before in (0, 1000):
        best = BestSoFar()
        best.update(first)
        best.evaluations += before
        found.append(best.update(new))
    assert found == [True, False]


def test_a_number_of_episodes_that_depended_on_the_data_takes_anytime_intervals() -> None:
    for anytime, kind in ((False, "normal"), (True, "anytime")):
        best = BestSoFar()
        best.update(spread(0.0), anytime=anytime)
        best.update(spread(0.1))  # compared with the best, whose number decides, too
        assert best.difference is not None
        assert best.difference.kind == kind
    results = [inferl.evaluate_policy("Blackjack-v1", lambda hand: 0, until_width=1.0, seed=seed) for seed in (0, 1)]
    results.sort(key=lambda result: result.interval.estimate)
    best = BestSoFar()
    for result in results:
        best.update(result)
    assert best.difference is not None
    assert best.difference.kind == "anytime"


def test_equal_returns_are_no_improvement() -> None:
    """Two perfect evaluations look like one stream, which may not be subtracted from itself."""
    best = BestSoFar()
    assert best.update(evaluated([500.0] * 20))
    assert not best.update(evaluated([500.0] * 20))
    assert best.update(evaluated([501.0] * 20))


def test_an_evaluation_with_an_old_seed_is_refused_and_changes_nothing() -> None:
    best = BestSoFar()
    result = inferl.evaluate_policy("Blackjack-v1", lambda hand: 0, episodes=20, seed=3)
    best.update(result)
    with pytest.raises(SettingError, match="the seed 3, too"):
        best.update(result)
    assert best.evaluations == 1


@pytest.mark.parametrize("wrong", [None, 3.0, [1.0, 2.0], Evaluator(DoublyRobust(1))])
def test_what_is_no_evaluation_is_refused(wrong: Any) -> None:
    best = BestSoFar()
    with pytest.raises(SettingError, match="give the result of evaluate_policy"):
        best.update(wrong)
    assert best.evaluations == 0


def test_settings_are_checked() -> None:
    with pytest.raises(LevelError):
        BestSoFar(95)
    with pytest.raises(SettingError, match="the threshold is"):
        BestSoFar().is_above("high")  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match="one number for each episode"):
        Transitions.from_returns([[1.0, 2.0]])


def test_above_a_threshold_only_if_the_lower_bound_at_the_level_of_now_is() -> None:
    best = BestSoFar()
    assert not best.is_above(-1e9)
    first, latest = spread(0.0), spread(5.0)
    best.update(first)
    best.update(latest)
    interval, worst = latest.interval(level=1 - 0.05 / 6), first.with_pending().episodes.earned[0]
    unseen = 1 - (0.05 / 12) ** (1 / 50)
    bound = interval.lower - unseen * (5 - worst)
    assert 3 < bound < interval.lower
    assert best.is_above(bound - 1e-9)
    assert not best.is_above(bound + 1e-9)


def test_a_row_of_successes_is_not_taken_for_certainty() -> None:
    """p = 0.9 gives 20 successes in a row with a probability of 12 %: nothing that could be known to be above."""
    best = BestSoFar()
    best.update(evaluated([1.0] * 1000))
    assert not best.is_above(0.1)  # who knows what a failure costs?
    best = BestSoFar()
    best.update(evaluated([0.0, 1.0] * 10))
    best.update(evaluated([1.0] * 20))
    chance = 0.05 / 6 / 2
    assert best.is_above(chance ** (1 / 20) - 1e-9)  # p with which 20 successes have this chance
    assert not best.is_above(chance ** (1 / 20) + 1e-9)
    best.update(evaluated([1.0] * 400))
    assert best.is_above(0.97)


def test_too_few_episodes_decide_nothing() -> None:
    best = BestSoFar()
    assert best.update(evaluated([0.0, 0.1, 0.2, 0.1, 0.0]))
    assert not best.update(evaluated([100.0, 100.1, 100.2, 100.1, 100.0]))
    assert not best.is_above(10.0)
