"""Changes of a mean are found where they are, whatever its unit, and nowhere else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import log_ndtr, stdtr

from inferl.data.arrays import Floats, Integers
from inferl.variance.changes import BLOCKS, LIMIT, Change, _most_likely, changes
from inferl.variance.history import STEPS, History

LENGTH = 128


def found(steps: Floats, **options: Any) -> list[Change]:
    """Changes of independent steps, in blocks of 128, with the variance rates of an evaluator."""
    rows, rate, blocks = steps.reshape(-1, LENGTH), [], []
    sums = rows.sum(axis=1)
    for level in range(8):
        of_blocks = (rows - steps.mean()).reshape(len(steps) >> level, 1 << level).sum(axis=1)
        rate.append(np.mean(of_blocks**2) / 2**level)
        blocks.append(len(of_blocks))
    return changes(sums, np.full(len(rows), LENGTH), len(rows), np.array(rate), np.array(blocks), **options)


def slots(rows: Floats) -> Integers:
    return np.zeros(len(rows), np.int64)


def noise(blocks: int, seed: int) -> Floats:
    return np.random.default_rng(seed).normal(size=blocks * LENGTH)


def test_a_mean_that_stays_has_no_changes() -> None:
    """Of 20 streams one in a hundred may raise an alarm: the chance of two or more is 1.7 %."""
    assert sum(bool(found(noise(100, seed))) for seed in range(20)) < 2


def test_changes_are_found_where_they_are() -> None:
    truth = np.repeat([0.0, 1.0, -0.5], np.array([100, 60, 40]) * LENGTH)
    seen = found(noise(200, 0) + truth)
    assert [change.at for change in seen] == [100 * LENGTH, 160 * LENGTH]
    for change, shift in zip(seen, [1.0, -1.5], strict=True):
        assert abs(change.shift - shift) < 3 * change.error
        assert change.at <= change.latest <= change.at + 5 * LENGTH  # large shifts are located well
    sizes = np.array([100, 60, 40]) * LENGTH
    for change, before, after in zip(seen, sizes[:-1], sizes[1:], strict=True):
        assert change.error == pytest.approx(np.sqrt(1 / before + 1 / after), rel=0.2)  # the variance of a step is 1


def test_units_and_origin_do_not_matter() -> None:
    steps = noise(80, 1) + np.where(np.arange(80 * LENGTH) < 50 * LENGTH, 0.0, 0.2)
    (one,), (other,) = found(steps), found(1e6 - 100 * steps)
    assert one.at == other.at
    assert other.shift == pytest.approx(-100 * one.shift, rel=1e-6)
    assert other.error == pytest.approx(100 * one.error, rel=1e-6)


def test_the_limit_is_that_of_a_pvalue_and_of_the_share_after_the_border() -> None:
    """Blocks of known variance without noise: how unusual the border is, is a formula."""

    def excess(before: int, after: int, added: int = 0, df: float = 1e9, ess: float = np.inf) -> float:
        n = before + after
        sums = np.where(np.arange(n) < before, 0.0, 7.0 * np.sqrt(LENGTH * n / (before * after)))
        seen = _most_likely(sums, np.full(n, LENGTH), added or n, [], 1.0, df, ess)
        assert seen is not None
        assert seen[0] == before
        return seen[1]

    for before, after in ((32, 32), (48, 16), (56, 8)):
        wanted = -log_ndtr(-7.0) - np.log(2) - LIMIT - np.log(BLOCKS / after)
        assert excess(before, after) == pytest.approx(wanted, abs=1e-6)
    # Later there are as many chances in each further doubling; blocks may have been joined since.
    assert excess(32, 32, added=10 * BLOCKS) == pytest.approx(excess(32, 32, added=BLOCKS) - np.log(10), abs=1e-9)
    for few in (excess(32, 32, df=20), excess(32, 32, ess=20)):  # Student's t, of 20 degrees of freedom
        assert few == pytest.approx(-np.log(2 * stdtr(20, -7.0)) - LIMIT - np.log(BLOCKS / 32), abs=1e-6)


def test_the_time_of_a_change_is_as_uncertain_as_it_is_said_to_be() -> None:
    """Of 60 streams whose mean shifts, the limit holds in 95 %: the chance of 8 or more misses is 1 %."""
    n, at, missed, told = 120 * LENGTH, 80 * LENGTH, 0, []
    for seed in range(60):
        steps = noise(120, seed) + np.where(np.arange(n) < at, 0.0, 7 * np.sqrt(1 / at + 1 / (n - at)))
        for change in found(steps)[-1:]:
            missed += change.latest < at
            told.append(change.latest - change.at)
    assert len(told) > 40
    assert missed < 8
    assert max(told) > 3 * LENGTH


@pytest.mark.parametrize("ess", [np.inf, 5000.0])
def test_a_change_of_any_size_is_one_change(ess: float) -> None:
    """Also where its p-value is 0 in floating point."""
    for size in (1.0, 30.0, 1e6):
        (change,) = found(noise(40, 0) + np.where(np.arange(40 * LENGTH) < 31 * LENGTH, 0.0, size), ess=ess)
        assert change.at == 31 * LENGTH
        assert change.shift == pytest.approx(size, rel=0.1)


def test_a_change_is_where_the_means_differ_most() -> None:
    """Not where the p-value is smallest: borders with longer pieces on both sides have more degrees of freedom."""
    steps = noise(40, 0) + np.where(np.arange(40 * LENGTH) < 31 * LENGTH, 0.0, 30.0)
    sums, length = steps.reshape(-1, LENGTH).sum(axis=1), np.full(40, LENGTH)
    likely = _most_likely(sums, length, 40, [], variance=1.0, df=1000.0, ess=5000.0)
    assert likely is not None
    assert likely[0] == 31


def test_more_is_asked_of_the_best_of_many_targets() -> None:
    n = 60 * LENGTH
    steps = noise(60, 2) + np.where(np.arange(n) < n / 2, 0.0, 7.5 * np.sqrt(4 / n))
    assert len(found(steps)) == 1
    assert not found(steps, tests=10**18)


def test_nothing_is_said_of_what_does_not_vary_or_is_too_short() -> None:
    assert not changes(np.arange(3.0), np.full(3, 1), 3, np.ones(1), np.array([10]))
    assert not found(np.zeros(20 * LENGTH))


def test_a_history_keeps_at_most_1024_blocks_and_all_of_the_sum() -> None:
    history, sums = History.empty(2), np.random.default_rng(0).normal(size=(3000, 2))
    for part in np.split(sums, 30):
        history._push(part, np.full(len(part), STEPS))
    assert history.added == 3000
    assert len(history.length) < 1024
    assert history.length.sum() == 3000 * STEPS
    np.testing.assert_allclose(history.sums.sum(axis=0), sums.sum(axis=0), rtol=1e-9)
    age = np.cumsum(history.length[::-1])[::-1] - history.length
    old = history.length > STEPS
    assert old.any()
    assert (history.length[old] <= 0.1 * (age[old] + history.length[old])).all()  # recent ones are short


@pytest.mark.parametrize("cuts", [(1, STEPS - 1, STEPS, STEPS + 1), (5000,), tuple(range(100, 9000, 700))])
def test_the_blocks_of_a_history_do_not_depend_on_chunks(cuts: tuple[int, ...]) -> None:
    rows = np.random.default_rng(0).normal(size=(9000, 2))
    whole, parts = History.empty(2), History.empty(2)
    whole.add(rows, slots(rows))
    for part in np.split(rows, cuts):
        parts.add(part, slots(part))
    for name in ("sums", "length", "open", "filled", "added"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(parts, name))


def test_blocks_of_episodes_are_in_the_order_of_time() -> None:
    """A block that is complete before an earlier one waits for it."""
    history = History.empty(1)
    history.enter(np.array([1, 2]), np.array([[1.0], [2.0]]))
    assert len(history.length) == 0
    history.enter(np.array([0]), np.array([[0.5]]))
    np.testing.assert_array_equal(history.sums[:, 0], [0.5, 1.0, 2.0])
    history.enter(np.array([4]), np.array([[4.0]]))
    assert history.next == 3
    history.verify()


def test_histories_of_data_that_follow_each_other_are_joined() -> None:
    rows = np.random.default_rng(0).normal(size=(9000, 1))
    parts = [History.empty(1), History.empty(1)]
    parts[0].add(rows[:5000], slots(rows[:5000]))
    parts[1].add(rows[5000:], slots(rows[5000:]))
    joined = History.joined(parts)
    np.testing.assert_array_equal(joined.length, [STEPS, STEPS, 904, STEPS, 1952])
    assert joined.sums.sum() == pytest.approx(rows.sum())
    assert joined.filled == 0
    panes = History.panes([np.array([1.0]), np.array([2.0]), np.array([3.0])], [5, 0, 7], 1)
    np.testing.assert_array_equal(panes.length, [5, 7])
    assert panes.added == 2


def test_blocks_are_joined_to_a_length() -> None:
    history = History.panes([np.array([float(k)]) for k in range(7)], [3, 3, 3, 20, 1, 1, 1], 4)
    sums, length = history.joined_to(6)
    np.testing.assert_array_equal(length, [6, 26])  # what is left belongs to the last
    np.testing.assert_array_equal(sums[:, 0], [1, 20])
    assert len(history.joined_to(33)[0]) == 0
    np.testing.assert_array_equal(history.joined_to(1)[1], history.length)
