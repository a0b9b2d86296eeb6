"""Episodes as blocks, in the order in which they begin."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import inferl
from inferl.data.arrays import Floats, Integers
from inferl.data.streams import Clock, Streams
from inferl.data.transitions import Transitions
from inferl.errors import CheckpointCorruptError
from inferl.variance.batch_means import Scores
from inferl.variance.episode_sums import EpisodeSums

LEVELS = 5


def mixed(streams: int, steps: int, seed: int, mean: float = 6.0) -> Clock:
    """Episodes of several streams, whose rows arrive in turns; every episode has its own length."""
    rng = np.random.default_rng(seed)
    stream = np.tile(np.arange(streams), steps)
    zero = np.zeros(len(stream), np.int64)
    last = rng.random(len(stream)) < 1 / mean
    data = Transitions(zero, np.zeros(len(stream)), zero, np.where(last, 0.0, 0.9), stream=stream)
    return Streams().place(data)[1].clock


def by_hand(scores: Floats, clock: Clock, with_open: bool) -> list[list[Floats]]:
    """Blocks of each level: episodes numbered as they begin, in groups of 2^j, complete ones only."""
    number: dict[tuple[int, int], int] = {}
    sums: list[Floats] = []
    ended: list[bool] = []
    for slot, episode, last, score in zip(clock.slot, clock.episode, clock.last, scores, strict=True):
        key = int(slot), int(episode)
        if key not in number:
            number[key] = len(sums)
            sums.append(np.zeros(scores.shape[1]))
            ended.append(False)
        sums[number[key]] = sums[number[key]] + score
        ended[number[key]] |= bool(last)
    found = []
    for level in range(LEVELS):
        size = 2**level
        groups = [range(k, k + size) for k in range(0, len(sums) - size + 1, size)]
        whole = [group for group in groups if all(ended[k] for k in group)]
        chosen = [group for group in groups if group not in whole] if with_open else whole
        found.append([np.sum([sums[k] for k in group], axis=0) for group in chosen])
    return found


def summed(scores: Floats, clock: Clock, cuts: Integers) -> EpisodeSums:
    sums = EpisodeSums.empty(LEVELS, scores.shape[1])
    for start, stop in zip([0, *cuts], [*cuts, len(scores)], strict=True):
        sums.add(scores[start:stop], clock[start:stop])
    return sums


@pytest.mark.parametrize("streams", [1, 2, 7, 40])
def test_blocks_are_formed_as_episodes_begin(streams: int) -> None:
    clock = mixed(streams, 1200 // streams, seed=streams)
    scores = np.random.default_rng(1).normal(size=(len(clock), 2))
    sums = summed(scores, clock, np.arange(50, len(scores), 50))
    moments, so_far = sums.moments.with_pending(), sums.so_far()
    for level in range(LEVELS):
        g = np.array(by_hand(scores, clock, with_open=False)[level]).reshape(-1, 2)
        assert moments.count[level] == len(g) > 0
        np.testing.assert_allclose(moments.outer[level], np.tril(g.T @ g), rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(moments.total[level], g.sum(axis=0), rtol=1e-12, atol=1e-12)
        if level < len(so_far.levels):
            h = np.array(by_hand(scores, clock, with_open=True)[level]).reshape(-1, 2)
            squares, sum = so_far.spread(level)
            np.testing.assert_allclose(squares, (h**2).sum(axis=0), rtol=1e-12, atol=1e-12)
            np.testing.assert_allclose(sum, h.sum(axis=0), rtol=1e-12, atol=1e-12)
    assert sums.begun == sums.numbered == len(np.unique(np.stack([clock.slot, clock.episode]), axis=1).T)
    assert len(sums.half) <= LEVELS * max(1, int(np.count_nonzero(sums.episode))) + 12


@given(st.lists(st.integers(1, 599), max_size=20), st.integers(1, 30))
def test_no_bit_depends_on_how_rows_were_cut(cuts: list[int], streams: int) -> None:
    clock = mixed(streams, 600 // streams, seed=3)
    scores = np.random.default_rng(4).normal(size=(len(clock), 3))
    ordered = np.unique(np.minimum(cuts, len(scores) - 1)).astype(np.int64)
    one, other = summed(scores, clock, np.zeros(0, np.int64)), summed(scores, clock, ordered)
    for name in ("half", "level", "index", "sum", "order", "numbered", "closed"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    for name in ("outer", "total", "count", "gathered", "waiting"):
        np.testing.assert_array_equal(getattr(one.moments, name), getattr(other.moments, name), err_msg=name)


def test_a_block_may_be_completed_in_a_later_epoch() -> None:
    """Otherwise only blocks of short episodes would count, and then only blocks of long ones."""
    clock = mixed(30, 40, seed=5)
    scores = np.random.default_rng(6).normal(size=(len(clock), 2))
    whole = summed(scores, clock, np.zeros(0, np.int64))
    parts, sums = [], EpisodeSums.empty(LEVELS, 2)
    for start in range(0, len(scores), 100):
        sums = sums.next_epoch(LEVELS)
        sums.add(scores[start : start + 100], clock[start : start + 100])
        parts.append(sums.moments)
    np.testing.assert_array_equal(np.sum([part.blocks for part in parts], axis=0), whole.moments.blocks)
    total = np.sum([part.with_pending().total for part in parts], axis=0)
    np.testing.assert_allclose(total, whole.moments.with_pending().total, rtol=1e-10, atol=1e-10)


def test_waiting_blocks_move_with_the_pilot() -> None:
    """Each of their episodes changes by as much as an open one."""
    clock = mixed(10, 40, seed=7)
    scores = np.random.default_rng(8).normal(size=(len(clock), 2))
    sums = summed(scores, clock, np.zeros(0, np.int64))
    drift = np.array([1.0, -2.0])
    moved = sums.moved(drift)
    assert len(sums.half) > 3
    np.testing.assert_allclose(moved.half - sums.half, np.outer(2.0**sums.level, drift), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(moved.open - sums.open, np.tile(drift, (len(sums.open), 1)), atol=1e-12)


def test_a_forged_block_that_waits_for_its_own_half_is_refused() -> None:
    clock = mixed(10, 40, seed=9)
    sums = summed(np.ones((len(clock), 2)), clock, np.zeros(0, np.int64))
    sums.verify()
    sums.level[1], sums.index[1] = sums.level[0], sums.index[0] ^ 1
    with pytest.raises(CheckpointCorruptError, match="both halves"):
        sums.verify()


def side_by_side(extra: Floats, length: Integers, steps: int) -> Transitions:
    """Environments (S, k episodes) that are played at once; each step earns 1, and the last one something extra."""
    end = np.cumsum(length, axis=1)
    now = np.arange(steps)
    which = np.array([np.searchsorted(own, now, side="right") for own in end]).T  # (steps, S)
    stream = np.broadcast_to(np.arange(len(length)), which.shape)
    last = end[stream, which] == now[:, None] + 1
    rewards = 1.0 + np.where(last, extra[stream, which], 0.0)
    zero = np.zeros(last.size, np.int64)
    return Transitions(zero, rewards.ravel(), zero, np.where(last, 0.0, 1.0).ravel(), stream=stream.ravel())


@pytest.mark.parametrize("dependent", [False, True])
def test_environments_side_by_side_look_dependent_only_if_they_are(dependent: bool) -> None:
    """Long episodes earn more and end later: in the order of their ends, episodes of a block were alike."""
    rng = np.random.default_rng(10)
    length = rng.geometric(0.05, size=(256, 400))
    extra = rng.normal(size=length.shape)
    if dependent:  # a common shock for episodes that begin at about the same time
        begins = np.cumsum(length, axis=1) - length
        extra = extra + 20 * rng.normal(size=20)[np.minimum(begins // 20, 19)]
    evaluator = inferl.Evaluator(inferl.DoublyRobust(1), inferl.LeastSquares("episode"))
    evaluator = evaluator.update(side_by_side(extra, length, 200))
    (check,) = (check for check in evaluator.report().checks if check.name == "dependence")
    assert check.status == ("failed" if dependent else "passed"), check.message


def test_open_episodes_join_the_moments_of_scores() -> None:
    clock = mixed(20, 30, seed=11)
    scores = np.random.default_rng(12).normal(size=(len(clock), 2))
    sums = summed(scores, clock, np.zeros(0, np.int64))
    direction = np.array([[1.0, 2.0]])
    rates = Scores((sums.moments, sums.so_far()), None).rates(direction)
    closed, still_open = (by_hand(scores, clock, with_open) for with_open in (False, True))
    for level in range(3):
        along = np.array(closed[level] + still_open[level]) @ direction[0]
        assert rates[level, 0] == pytest.approx(along.var(ddof=1) / 2**level)
