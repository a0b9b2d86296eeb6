"""How much a slow stream is worth, against chains whose slowness is known."""

from __future__ import annotations

import numpy as np
import pytest

from inferl.environments import ring
from inferl.occupancy import MOST, SEEN, Occupancy
from inferl.rows import Floats
from inferl.vectors import one_hot


def of(features: Floats, cuts: list[int] | None = None) -> Occupancy:
    seen = Occupancy.empty(features.shape[1])
    for part in np.split(features, cuts or []):
        seen.add(part)
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
    if seen.length <= SEEN:  # every step was looked at
        whole = x[: seen.length * seen.filled].reshape(seen.filled, seen.length, 3)
        np.testing.assert_allclose(seen.means[: seen.filled], whole.mean(axis=1), atol=1e-12)
    assert seen.seen <= n
    assert seen.seen < 2000 * np.log2(n)


def test_cuts_do_not_matter() -> None:
    x = np.random.default_rng(1).normal(size=(5000, 3))
    one, other = of(x), of(x, [1, 64, 65, 1000, 1001, 4999])
    for name in ("means", "open", "total", "squares", "filled", "length", "done", "looked", "seen"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def test_one_hot_rows_are_the_same() -> None:
    states = np.random.default_rng(1).integers(5, size=3000)
    sparse = Occupancy.empty(5)
    sparse.add(one_hot(states, 5))
    np.testing.assert_allclose(sparse.means, of(np.eye(5)[states]).means)
    assert sparse.effective() == pytest.approx(of(np.eye(5)[states]).effective())


@pytest.mark.parametrize("correlation", [0.0, 0.9, 0.99])
def test_the_worth_of_an_autoregression(correlation: float) -> None:
    """n (1 - rho) / (1 + rho); 8 features of 16 to 32 stretches scatter by 15 %, of steps looked at by few more."""
    n = 30_000
    worth = min(n * (1 - correlation) / (1 + correlation), MOST * SEEN)
    assert 0.5 < of(autoregression(correlation, n)).effective() / worth < 2


def test_a_ring_that_its_scores_hide() -> None:
    """30 relaxation times of the lazy ring of 100 are worth about 100 steps."""
    mdp, features = ring(100, 10, laziness=0.5)
    path = mdp.sample(np.ones((100, 1)), 30_000, seed=0)
    assert of(features[path.states]).effective() < 150


def test_what_does_not_vary_says_nothing() -> None:
    assert of(np.ones((3000, 2))).effective() == np.inf
    assert of(np.random.default_rng(0).normal(size=(50, 2))).effective() == np.inf  # too few stretches
    mixed = np.column_stack([np.ones(3000), autoregression(0.99, 3000, 1)])
    assert of(mixed).effective() < 100


def test_two_streams_join() -> None:
    x = autoregression(0.95, 20_000)
    for cut in (10_000, 3000, 19_900):
        joined = of(x[:cut]).joined(of(x[cut:]))
        assert joined.filled < MOST
        assert 0.5 < joined.effective() / of(x).effective() < 2
    moved = of(x).moved(np.arange(8)[::-1], 10)
    assert moved.effective() == pytest.approx(of(x).effective())
