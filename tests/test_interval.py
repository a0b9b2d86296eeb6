"""Intervals: bounds against scipy.stats and direct quantiles; membership, printing, JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from inferl.data.arrays import Floats
from inferl.errors import LevelError
from inferl.interval import Interval, basic, check_level, normal, percentile

INF = math.inf
LEVELS = st.floats(0.01, 0.999)


def interval(estimate: Any, lower: Any, upper: Any, **changes: Any) -> Interval:
    given_: dict[str, Any] = {"level": 0.95, "kind": "normal", "standard_error": 0.25, "n": 1000}
    return Interval(estimate, lower, upper, **given_ | changes)


def three() -> Interval:
    return interval(
        np.array([1.0, 2.0, 3.0]),
        np.array([0.0, -INF, 2.5]),
        np.array([2.0, INF, 3.5]),
        standard_error=np.array([0.5, INF, 0.25]),
        notes=("mind the gap",),
    )


# The bounds.


@given(level=LEVELS, df=st.floats(1, 1e6), estimate=st.floats(-5, 5), error=st.floats(0, 5))
def test_normal_agrees_with_scipy_stats(level: float, df: float, estimate: float, error: float) -> None:
    k = np.array([estimate, -estimate])
    for law, degrees in ((stats.norm(), INF), (stats.t(df), df)):
        lower, upper = normal(k, np.array([error, 2 * error]), level, degrees)
        reach = law.ppf(0.5 + level / 2) * np.array([error, 2 * error])
        np.testing.assert_allclose(lower, k - reach, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(upper, k + reach, rtol=1e-9, atol=1e-12)


def test_normal_takes_degrees_of_freedom_for_each_target() -> None:
    _, upper = normal(np.zeros(3), np.ones(3), 0.9, np.array([5.0, INF, 1.0]))
    np.testing.assert_allclose(upper, [2.0150484, 1.6448536, 6.3137515], rtol=1e-7)  # printed tables


def test_normal_is_infinite_without_degrees_of_freedom_or_with_an_infinite_error() -> None:
    lower, upper = normal(np.zeros(2), np.array([INF, INF]), 0.95, np.array([0.0, 3.0]))
    assert (lower.tolist(), upper.tolist()) == ([-INF, -INF], [INF, INF])


@st.composite
def replicas(draw: st.DrawFn) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, k = draw(st.integers(2, 30)), draw(st.integers(1, 3))
    return rng.normal(size=k), rng.exponential(size=(n, k)) - 0.5  # skew: percentile and basic differ


@given(rows=replicas(), level=LEVELS)
def test_percentile_and_basic_are_quantiles_and_their_reflection(rows: tuple[Floats, Floats], level: float) -> None:
    estimate, deviations = rows
    low, high = np.quantile(deviations, [(1 - level) / 2, (1 + level) / 2], axis=0, method="weibull")
    np.testing.assert_allclose(percentile(estimate, deviations, level), [estimate + low, estimate + high], atol=1e-12)
    np.testing.assert_allclose(basic(estimate, deviations, level), [estimate - high, estimate - low], atol=1e-12)


@pytest.mark.parametrize(("n_replicas", "level"), [(39, 0.95), (199, 0.95), (999, 0.95), (199, 0.9), (9, 0.8)])
@pytest.mark.parametrize("bounds", [percentile, basic])
def test_one_more_draw_of_the_replicas_law_is_held_as_often_as_the_level_says(
    bounds: Callable[[Floats, Floats, float], tuple[Floats, Floats]], n_replicas: int, level: float
) -> None:
    """Each of B + 1 draws may be the true value, with the others as replicas; all are equally likely."""
    draws = np.random.default_rng(0).exponential(size=n_replicas + 1)
    sign = 1 if bounds is percentile else -1  # basic: the true value deviates as the replicas do
    others = np.array([np.delete(draws, k) for k in range(len(draws))]).T  # (B, B + 1)
    lower, upper = bounds(np.zeros(len(draws)), sign * others, level)
    held = (lower < draws) & (draws < upper)
    assert held.sum() == round(level * len(draws))


@pytest.mark.parametrize("n_replicas", [100, 200, 400])
def test_between_two_replicas_the_uniform_law_is_held_as_often_as_the_level_says(n_replicas: int) -> None:
    """The mean of the k-th of B uniform numbers is k / (B + 1), so the mean of the bounds is the mean coverage."""
    means = np.arange(1.0, n_replicas + 1)[:, None] / (n_replicas + 1)
    lower, upper = percentile(np.zeros(1), means, 0.95)
    assert upper - lower == pytest.approx(0.95, abs=1e-12)


# Levels.


@pytest.mark.parametrize("level", [1e-9, 0.5, 0.95, 1 - 1e-9])
def test_levels_between_0_and_1(level: float) -> None:
    check_level(level)  # does not raise


@pytest.mark.parametrize("level", [0, 1, -0.95, 100, 200, math.nan, INF])
def test_bad_levels(level: float) -> None:
    with pytest.raises(LevelError, match=rf"level is {level}; it must be a probability") as caught:
        check_level(level)
    assert "did you mean" not in str(caught.value)


@pytest.mark.parametrize(("level", "meant"), [(95, "0.95"), (99.9, "0.999"), (50, "0.5")])
def test_percentages_get_a_hint(level: float, meant: str) -> None:
    with pytest.raises(LevelError, match=rf"level is {level}; .* did you mean {meant}\?"):
        check_level(level)


# Membership.


@pytest.mark.parametrize(
    ("value", "inside"), [(0.0, True), (2.0, True), (1.3, True), (-1e-9, False), (2.1, False), (math.nan, False)]
)
def test_in_and_contains(value: float, inside: bool) -> None:
    one = interval(1.0, 0.0, 2.0)
    assert (value in one) is inside
    assert bool(one.contains(value)) is inside
    assert (value in interval(1.0, -INF, INF)) is not math.isnan(value)


def test_contains_answers_for_each_target_and_in_for_all() -> None:
    assert three().contains(2.2).tolist() == [False, True, False]
    assert three().contains([1.0, 1e300, 3.5]).tolist() == [True, True, True]
    assert three().contains([1.0, 0.0, 3.6]).tolist() == [True, True, False]
    assert 2.2 not in three()
    assert 2.2 in interval(np.array([2.0, 2.1]), np.array([1.0, 1.0]), np.array([3.0, 3.0]))


def test_width() -> None:
    assert interval(1.0, 0.5, 2.0).width == 1.5
    assert three().width.tolist() == [2.0, INF, 1.0]


# Several targets.


def test_iteration_gives_an_interval_of_plain_numbers_for_each_target() -> None:
    parts = list(three())
    assert len(three()) == len(parts) == 3
    assert [part.to_dict() for part in parts] == [
        interval(e, lo, up, standard_error=se, notes=("mind the gap",)).to_dict()
        for e, lo, up, se in [(1.0, 0.0, 2.0, 0.5), (2.0, -INF, INF, INF), (3.0, 2.5, 3.5, 0.25)]
    ]
    assert all(type(number) is float for part in parts for number in (part.estimate, part.lower, part.standard_error))


def test_one_target_in_plain_numbers_is_iterable_too() -> None:
    one = interval(1.0, 0.5, 2.0)
    assert len(one) == 1
    assert [part.to_dict() for part in one] == [one.to_dict()]


def test_only() -> None:
    inside_arrays = interval(np.array([1.0]), np.array([0.5]), np.array([2.0]), standard_error=np.array([0.25]))
    assert inside_arrays.only().to_dict() == interval(1.0, 0.5, 2.0).to_dict()
    with pytest.raises(ValueError, match="unpack"):
        three().only()


# Printing.


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (interval(0.41234, 0.39812, 0.42634), "0.412 [0.398, 0.426] 95% pointwise, 1,000 transitions"),
        (interval(5.049, 4.83, 5.27, n=2_000_000), "5.05 [4.83, 5.27] 95% pointwise, 2,000,000 transitions"),
        (interval(-12.3, -40.0, 20.0, level=0.9, n=7), "-12 [-40, 20] 90% pointwise, 7 transitions"),
        (interval(1.5, -INF, INF, n=0), "1.5 [-inf, inf] 95% pointwise, 0 transitions"),
        (interval(math.nan, -INF, INF), "nan [-inf, inf] 95% pointwise, 1,000 transitions"),
        (interval(2.0, 2.0, 2.0), "2.0000 [2.0000, 2.0000] 95% pointwise, 1,000 transitions"),
        (
            interval(1e-4, 0.9e-4, 1.1e-4, level=0.999),
            "0.000100 [0.000090, 0.000110] 99.9% pointwise, 1,000 transitions",
        ),
        (interval(1.23456e6, 1.1e6, 1.4e6, level=0.57), "1234560 [1100000, 1400000] 57% pointwise, 1,000 transitions"),
    ],
)
def test_printing_shows_the_digits_that_the_width_gives_a_meaning_to(shown: Interval, text: str) -> None:
    assert str(shown) == text


def test_printing_several_targets_and_notes() -> None:
    assert str(three()).split("\n") == [
        "1.0 [0.0, 2.0] 95% pointwise, 1,000 transitions",
        "2 [-inf, inf] 95% pointwise, 1,000 transitions",
        "3.0 [2.5, 3.5] 95% pointwise, 1,000 transitions",
        "note: mind the gap",
    ]


# JSON.


@pytest.mark.parametrize("shown", [interval(np.float64(1), 0, 2.0), interval(np.ones(2), np.zeros(2), np.full(2, 2.0))])
def test_to_dict_survives_json(shown: Interval) -> None:
    plain = json.loads(json.dumps(shown.to_dict(), allow_nan=False))
    assert plain == shown.to_dict()
    assert set(plain) == {
        "estimate",
        "lower",
        "upper",
        "level",
        "kind",
        "standard_error",
        "df",
        "n",
        "estimand",
        "notes",
    }
    assert plain["upper"] == (2.0 if np.ndim(shown.estimate) == 0 else [2.0, 2.0])


def test_to_dict_of_an_infinite_interval_is_strict_json() -> None:
    """RFC 8259 has no Infinity: other readers (jq, browsers) reject what json.dumps writes for it."""
    assert json.dumps(three().to_dict(), allow_nan=False)
