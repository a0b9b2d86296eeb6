"""The summary of importance ratios: its blocks do not depend on the chunks, and see what single steps do not."""

from __future__ import annotations

import numpy as np
import pytest

from inferl.data.arrays import Floats
from inferl.data.ratios import MOST, RatioSummary


def summarised(ratios: Floats, *cuts: int) -> RatioSummary:
    summary = RatioSummary()
    for part in np.split(ratios, cuts):
        summary = summary.updated(part, np.ones(len(part)))
    return summary


@pytest.mark.parametrize("n", [5, 64, 65, 129, 130, 131, 1000, 5001])
@pytest.mark.parametrize("policies", [1, 2])
def test_blocks_do_not_depend_on_the_chunks(n: int, policies: int) -> None:
    rng = np.random.default_rng(n)
    ratios = rng.exponential(size=(n, policies))
    whole = summarised(ratios)
    whole.verify()
    assert len(whole.marks) == n // whole.length + 1 <= MOST + 1
    assert np.array_equal(whole.marks[1:], np.cumsum(ratios, axis=0)[whole.length - 1 :: whole.length])
    for cuts in ([1], [n // 2], range(1, n, 3), np.unique(rng.integers(1, n, size=4))):
        parts = summarised(ratios, *map(int, cuts))
        for name in vars(whole):
            assert np.array_equal(getattr(parts, name), getattr(whole, name)), name


@pytest.mark.parametrize(("n", "more"), [(3, 4), (64, 1000), (1000, 65), (777, 778)])
def test_merged_blocks(n: int, more: int) -> None:
    rng = np.random.default_rng(0)
    one, other, after = (rng.exponential(size=size) for size in (n, more, 50))
    merged = summarised(one).plus(summarised(other)).updated(after, np.ones(50))
    merged.verify()
    own, length = np.concatenate([one, after]), merged.length
    sums = [x[: len(x) // length * length].reshape(-1, length).sum(axis=1) for x in (other, own)]
    assert np.diff(merged.marks, axis=0)[:, 0] == pytest.approx(np.concatenate(sums))
    assert merged.total == pytest.approx([one.sum() + other.sum() + after.sum()])


def test_ones_are_counted_as_other_ratios_are() -> None:
    ones = np.ones(300)
    assert summarised(ones).on_policy
    assert np.array_equal(summarised(ones).marks[:, 0], np.arange(0, 301, 8)[:38])
    assert summarised(np.ones((300, 2))).marks.shape == (38, 2)
    mixed = np.r_[ones, 0.5, 1.5]
    assert not summarised(mixed).on_policy
    assert np.array_equal(summarised(mixed).marks, summarised(mixed, 300).marks)


def test_the_distance_of_the_mean_from_one() -> None:
    """One draw for all 20 visits of a user: the standard error of independent steps is 4.5 times too small."""
    far = [0, 0]
    for seed in range(200):
        taken = np.repeat(np.random.default_rng(seed).random(150) < 0.3, 20)
        for which, behaviour in enumerate((0.3, 0.5)):  # the right propensity, and a wrong one
            ratios = np.where(taken, 0.6 / behaviour, 0.4 / (1 - behaviour))
            far[which] += bool(summarised(ratios).distance_from_one[0] > 4)
    assert far[0] <= 2
    assert far[1] >= 160
