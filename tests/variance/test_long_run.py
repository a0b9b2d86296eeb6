"""The long-run variance: against the rule written out, and in edge cases."""

from __future__ import annotations

import numpy as np
import pytest

from inferl.data.arrays import Floats, Integers
from inferl.variance.long_run import long_run


def rate_by_the_rule(rate: Floats, df: Integers, final: bool) -> tuple[float, float]:
    """The rule of docs/method.md, literally."""
    last = sum(df >= 5) - 1
    shares: list[float] = []
    answers: list[float] = []
    weights = np.zeros(len(rate))
    for j in range(last + 1):
        above = [(rate[k] / rate[j], np.sqrt(2 / (df[k] + 1))) for k in range(j + 1, last + 1)]
        rise = max([np.log(ratio) / error for ratio, error in above], default=-np.inf)
        fall = max([(1 - ratio) / error for ratio, error in above], default=-np.inf)
        ended = max(min(2 - rise, 2 - fall, 1), 0) if j < last else 1
        shares.append((1 - sum(shares)) * ended)
        m = min(j + 1, last)
        half = 0.5 if rate[m] > rate[m - 1] and not (final and m == len(rate) - 1) else 0.0
        answers.append(rate[m] + half * (rate[m] - rate[m - 1]))
        weights[m] += (1 + half) * shares[-1]
        weights[m - 1] -= half * shares[-1]
    v = sum(share * answer for share, answer in zip(shares, answers, strict=True))
    noise = sum(
        weights[j] * weights[k] * rate[j] * rate[k] * 2 / df[min(j, k)]
        for j in range(last + 1)
        for k in range(last + 1)
    )
    between = sum(share * (answer - v) ** 2 for share, answer in zip(shares, answers, strict=True))
    return v, 2 * v**2 / (noise + between)


@pytest.mark.parametrize("final", [False, True])
@pytest.mark.parametrize("n", [2100, 3000, 3100, 3600])  # the longest blocks: 8, 5, 6 and 7; before them 16, 11, 12, 14
def test_the_long_run_rate_is_the_rule(n: int, final: bool) -> None:
    rng = np.random.default_rng(3)
    df = np.array([n // 2**j - 1 for j in range(11)])
    rates = np.exp(rng.normal(size=(11, 500)) * 0.3).cumsum(axis=0)
    rates[:, ::2] = np.exp(rng.normal(size=(11, 250)) * 0.02)
    rates[0, ::10] *= 2.0  # negatively correlated neighbours
    rates[:3, 1::10] = 2 * rates[3, 1::10]  # a cycle
    rates[:, 3::10] *= 1.5 ** np.arange(11)[:, None]  # growth that does not end
    rates[8:, 5::10] *= 3.0  # only at the longest blocks
    rates[5, 8::10] = rates[0, 8::10] * (1 - rng.uniform(0.5, 2.5, 50) * np.sqrt(2 / (df[5] + 1)))  # a fall
    variance, degrees, share = long_run(rates, df, final)
    expected = np.array([rate_by_the_rule(rates[:, i], df, final) for i in range(500)])
    np.testing.assert_allclose(variance, expected[:, 0], rtol=1e-12)
    np.testing.assert_allclose(degrees, np.maximum(expected[:, 1], 1), rtol=1e-9)
    np.testing.assert_allclose(share.sum(axis=0), 1.0, rtol=1e-12)
    assert len(set(share.argmax(axis=0).tolist())) > 4
    assert ((share > 0.1).sum(axis=0) > 1).any()
    for i in range(8, 500, 10):  # one by one: other targets do not matter
        alone, _, _ = long_run(rates[:, i : i + 1], df, final)
        assert alone[0] == pytest.approx(variance[i], rel=1e-12)


def test_there_is_at_least_one_degree_of_freedom() -> None:
    rates = np.exp(np.random.default_rng(6).normal(size=(4, 10_000)) * np.linspace(0.1, 5, 10_000))
    for of_levels in ([40, 20, 10, 5], [5, 2, 1, 0], [7, 6, 6, 5], [1, 0, 0, 0]):
        _, df, _ = long_run(rates, np.array(of_levels))
        assert (df >= 1).all()


def test_what_falls_is_not_expected_to_fall_further() -> None:
    """A falling rate is not extrapolated: streams may be too short for longer blocks."""
    rates = np.array([[9.0], [3.0], [0.5], [0.1]])
    variance, df, _ = long_run(rates, np.array([63, 31, 15, 7]))
    assert variance == pytest.approx(0.1)
    assert df == pytest.approx(7.0)


def test_a_cycle_is_passed_over() -> None:
    """A negative correlation at lag 3: 1 - .6 B^3. The variance of long sums is small."""
    noise = np.random.default_rng(7).normal(size=(300, 20_003))
    x = noise[:, 3:] - 0.6 * noise[:, :-3]
    rates, df = [], []
    for j in range(12):
        g = x[:, : x.shape[1] // 2**j * 2**j].reshape(300, -1, 2**j).sum(axis=2)
        rates.append(g.var(axis=1, ddof=1) / 2**j)
        df.append(g.shape[1] - 1)
    variance, _, _ = long_run(np.array(rates), np.array(df))
    assert 0.8 < np.median(variance) / 0.16 < 1.5  # single steps: 8.5


def test_a_level_without_blocks_shows_nothing() -> None:
    rates = np.array([[1.0], [1.9], [3.6], [7.0], [0.0]])
    variance, df, share = long_run(rates, np.array([2388, 1188, 588, 24, 0]))
    assert share[-1] == pytest.approx(1.0)
    assert len(share) == 4
    assert variance > 7.0
    assert df < 24


def test_nothing_that_varies_has_a_rate_of_nothing() -> None:
    variance, df, share = long_run(np.zeros((3, 2)), np.array([39, 19, 9]))
    assert variance.tolist() == [0, 0]
    assert np.isfinite(df).all()
    assert share.sum(axis=0).tolist() == [1, 1]


@pytest.mark.parametrize("n", [1, 7, 11])
def test_a_single_level_is_what_it_is(n: int) -> None:
    variance, df, share = long_run(np.array([[2.0, 3.0]]), np.array([n - 1]))
    assert variance.tolist() == [2, 3]
    assert df.tolist() == [max(n - 1, 1)] * 2
    assert share.tolist() == [[1, 1]]


def test_a_rate_moves_little_when_a_level_moves_little() -> None:
    """The variance is continuous in the rates; there is no threshold at which it jumps."""
    df_of_levels = np.array([1024 // 2**j - 1 for j in range(8)])
    heights = np.linspace(0.5, 4.0, 4001)
    rates = np.ones((8, len(heights)))
    rates[6:] = heights  # 16 and 8 blocks
    variance, df, _ = long_run(rates, df_of_levels)
    assert np.abs(np.diff(variance)).max() < 0.01
    assert np.abs(np.diff(1 / df)).max() < 0.01
    assert variance[np.argmin(np.abs(heights - 1))] == pytest.approx(1.0, abs=1e-3)
    assert variance[0] < 1.0
    assert variance[-1] > 2.0


def test_units_do_not_matter() -> None:
    rates = np.exp(np.random.default_rng(5).normal(size=(8, 20)))
    of_levels = np.array([1024 // 2**j - 1 for j in range(8)])
    _, df, share = long_run(rates, of_levels)
    for unit in (1e-200, 1e200):
        _, same, alike = long_run(unit * rates, of_levels)
        np.testing.assert_allclose(same, df, rtol=1e-9)
        np.testing.assert_allclose(alike, share, atol=1e-9)


def test_no_targets_have_no_rates() -> None:
    variance, df, share = long_run(np.zeros((3, 0)), np.array([39, 19, 9]))
    assert variance.shape == df.shape == (0,)
    assert share.shape == (3, 0)
