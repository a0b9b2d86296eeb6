"""The effective sample size of slow streams, against chains whose relaxation time is known."""

from __future__ import annotations

import numpy as np
import pytest

from inferl.data.arrays import Floats, Integers
from inferl.data.streams import Clock
from inferl.data.vectors import one_hot
from inferl.environments import ring
from inferl.variance.mixing import MOST, SEEN, Mixing


def clock(slot: Integers) -> Clock:
    count = np.zeros(len(slot), np.int64)
    for s in np.unique(slot):
        count[slot == s] = np.arange(1, int(np.sum(slot == s)) + 1)
    return Clock(np.arange(1, len(slot) + 1), slot, slot, count, 0 * slot + 1, np.zeros(len(slot), np.bool_))


def of(features: Floats, cuts: list[int] | None = None, slot: Integers | None = None) -> Mixing:
    seen = Mixing.empty(features.shape[1])
    placed = clock(np.zeros(len(features), np.int64) if slot is None else slot)
    for rows in np.split(np.arange(len(features)), cuts or []):
        seen.add(features[rows], placed[rows])
    return seen


def autoregression(correlation: float, n: int, p: int = 8, seed: int = 0) -> Floats:
    rng = np.random.default_rng(seed)
    x = np.zeros((n, p))
    noise = rng.normal(size=(n, p)) * np.sqrt(1 - correlation**2)
    for t in range(1, n):
        x[t] = correlation * x[t - 1] + noise[t]
    return x


@pytest.mark.parametrize("n", [300, 3000, 30_000])
def test_means_over_stretches_by_hand(n: int) -> None:
    x = np.random.default_rng(1).normal(size=(n, 3))
    seen = of(x)
    assert MOST // 2 <= seen.filled < MOST
    assert seen.length * (seen.filled + 1) > n >= seen.length * seen.filled
    if seen.length <= SEEN:  # every step was sampled
        whole = x[: seen.length * seen.filled].reshape(seen.filled, seen.length, 3)
        np.testing.assert_allclose(seen.means[: seen.filled], whole.mean(axis=1), atol=1e-12)
    assert seen.seen <= n
    assert seen.seen < 2000 * np.log2(n)


@pytest.mark.parametrize("many", [False, True])
def test_cuts_do_not_matter(many: bool) -> None:
    x = np.random.default_rng(1).normal(size=(5000, 3))
    slot = np.random.default_rng(2).integers(5, size=5000) if many else np.zeros(5000, np.int64)
    one, other = of(x, slot=slot), of(x, [1, 64, 65, 1000, 1001, 4999], slot)
    for name in ("means", "slot", "open", "total", "squares", "filled", "length", "done", "looked", "seen"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def test_one_hot_rows_are_the_same() -> None:
    states = np.random.default_rng(1).integers(5, size=3000)
    sparse = Mixing.empty(5)
    sparse.add(one_hot(states, 5), clock(0 * states))
    np.testing.assert_allclose(sparse.means, of(np.eye(5)[states]).means)
    assert sparse.effective() == pytest.approx(of(np.eye(5)[states]).effective())


@pytest.mark.parametrize("correlation", [0.0, 0.9, 0.99])
def test_the_worth_of_an_autoregression(correlation: float) -> None:
    """n (1 - rho) / (1 + rho); 8 features, 16 to 32 segments: it varies by 15 %, slightly more with sampled steps."""
    n = 30_000
    worth = min(n * (1 - correlation) / (1 + correlation), MOST * SEEN)
    assert 0.5 < of(autoregression(correlation, n)).effective() / worth < 2


def test_a_ring_that_its_scores_hide() -> None:
    """30 relaxation times of the lazy ring of 100 states have an effective sample size of about 100."""
    mdp, features = ring(100, 10, laziness=0.5)
    path = mdp.sample(np.ones((100, 1)), 30_000, seed=0)
    assert of(features[path.states]).effective() < 150


def test_what_does_not_vary_says_nothing() -> None:
    assert of(np.ones((3000, 2))).effective() == np.inf
    assert of(np.random.default_rng(0).normal(size=(50, 2))).effective() == np.inf  # too few segments
    mixed = np.column_stack([np.ones(3000), autoregression(0.99, 3000, 1)])
    assert of(mixed).effective() < 100


@pytest.mark.parametrize("n_streams", [2, 7, 40, 400])
def test_streams_side_by_side_are_worth_their_sum(n_streams: int) -> None:
    """Each stream is slow; in order of arrival, mixed, they would look fast."""
    correlation, n = 0.99, 40_000
    streams = [autoregression(correlation, n // n_streams + 500, 4, seed)[500:] for seed in range(n_streams)]
    x = np.stack(streams, axis=1).reshape(-1, 4)
    seen = of(x, slot=np.arange(len(x)) % n_streams)
    pieces, _ = seen.pieces()
    assert np.sum(pieces.length) == len(x)
    steps = float(np.sum(pieces.length**2) / np.sum(pieces.length))  # of a typical segment
    relaxed = (1 + correlation) / (1 - correlation)
    growth = relaxed - 2 * correlation * (1 - correlation**steps) / (steps * (1 - correlation) ** 2)  # exact
    assert 0.6 < seen.effective() * growth / len(x) < 1.6


def test_pieces_are_those_of_the_streams() -> None:
    """33 streams of 8 steps: segments are closed when 32 streams have 8 steps, and then reopened."""
    x = np.random.default_rng(3).normal(size=(33 * 8, 2))
    pieces, owner = of(x, slot=np.arange(len(x)) % 33).pieces()
    assert len(np.unique(owner)) == 33
    order = np.argsort(pieces.sums[:, 0])
    whole = x.reshape(8, 33, 2).sum(axis=0)
    np.testing.assert_allclose(pieces.sums[order], whole[np.argsort(whole[:, 0])], atol=1e-12)
    assert (pieces.length == 8).all()


def test_separate_streams_join() -> None:
    x = autoregression(0.95, 20_000)
    for cut in (10_000, 3000, 19_900):
        joined = Mixing.joined([of(x[:cut]), of(x[cut:])])
        assert 0.5 < joined.effective() / of(x).effective() < 2
    many = Mixing.joined([of(part) for part in np.split(x, 500)])
    assert len(many.ended.length) <= 256
    assert np.sum(many.ended.length) == 20_000
    moved = of(x).moved(np.arange(8)[::-1], 10)
    assert moved.effective() == pytest.approx(of(x).effective())


@pytest.mark.parametrize("n_streams", [2, 8, 64])
def test_merged_one_by_one_or_at_once_or_never(n_streams: int) -> None:
    x = np.concatenate([autoregression(0.99, 4096 // n_streams + 500, 4, s)[500:] for s in range(n_streams)])
    parts = [of(part) for part in np.split(x, n_streams)]
    one_by_one = parts[0]
    for part in parts[1:]:
        one_by_one = Mixing.joined([one_by_one, part])
    side_by_side = of(x, slot=np.arange(len(x)) * n_streams // len(x))
    worth = side_by_side.effective()
    assert Mixing.joined(parts).effective() == pytest.approx(worth, rel=0.3)
    assert one_by_one.effective() == pytest.approx(worth, rel=0.3)
