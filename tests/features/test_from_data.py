"""Features that are fitted to observations: bounds, widths and centers from data; random Fourier features."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest

from inferl.errors import DataError, SettingError, ShapeError
from inferl.features import RBF, Features, Fourier, RandomFourier, Scaled, TileCoding

ROWS = np.random.default_rng(0).normal(size=(500, 3)) * [1, 100, 1e-3] + [0, 1e4, 0]

FITTED: dict[str, Features] = {
    "fourier": Fourier.from_data(ROWS, 3, interactions=2),
    "tiles": TileCoding.from_data(ROWS, tilings=2, tiles=3),
    "rbf": RBF.from_data(ROWS, 20),
    "random fourier": RandomFourier.from_data(ROWS, 30),
    "scaled": Scaled.from_data(ROWS),
}


@pytest.mark.parametrize("name", FITTED)
def test_a_row_has_the_same_bits_in_any_batch(name: str) -> None:
    features = FITTED[name]
    whole = features(ROWS)
    assert whole.shape == (500, features.dimension)
    for size in (1, 3, 64):
        parts = [features(ROWS[i : i + size]) for i in range(0, len(ROWS), size)]
        assert np.array_equal(np.concatenate(parts), whole)
    assert np.array_equal(features(ROWS[7]), whole[7])


@pytest.mark.parametrize("name", ["rbf", "random fourier", "scaled"])
def test_units_do_not_matter(name: str) -> None:
    units = np.array([1e6, 1e-3, 10.0])
    make: dict[str, Any] = {
        "rbf": lambda rows: RBF.from_data(rows, 20),
        "random fourier": lambda rows: RandomFourier.from_data(rows, 30),
        "scaled": Scaled.from_data,
    }
    other = make[name](ROWS * units)
    np.testing.assert_allclose(other(ROWS * units), FITTED[name](ROWS), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(
    "make", [lambda r: Fourier.from_data(r, 2), lambda r: TileCoding.from_data(r, 1, 2), Scaled.from_data]
)
def test_bounds_hold_the_data_and_a_little_more(make: Any) -> None:
    fitted = make(ROWS)
    assert (np.array(fitted.low) < ROWS.min(axis=0)).all()
    assert (np.array(fitted.high) > ROWS.max(axis=0)).all()
    share = (np.array(fitted.high) - fitted.low) / np.ptp(ROWS, axis=0)
    np.testing.assert_allclose(share, 1.2)


@pytest.mark.parametrize("name", ["fourier", "tiles", "rbf", "random fourier", "scaled"])
def test_a_column_that_never_varied_is_no_obstacle(name: str) -> None:
    rows = np.column_stack([ROWS, np.full(len(ROWS), 7.0)])
    make: dict[str, Any] = {
        "fourier": lambda: Fourier.from_data(rows, 2),
        "tiles": lambda: TileCoding.from_data(rows, 1, 2),
        "rbf": lambda: RBF.from_data(rows, 5),
        "random fourier": lambda: RandomFourier.from_data(rows, 5),
        "scaled": lambda: Scaled.from_data(rows),
    }
    assert np.isfinite(make[name]()(rows)).all()


@pytest.mark.parametrize("bad", [[1.0, 2.0], [[1.0, 2.0]], np.zeros((3, 0)), np.zeros((2, 2, 2))])
def test_what_is_no_table_of_observations_is_refused(bad: Any) -> None:
    with pytest.raises(ShapeError, match="observations have shape"):
        RandomFourier.from_data(bad, 5)
    with pytest.raises(ShapeError, match="observations have shape"):
        Fourier.from_data(bad, 2)


def test_what_is_not_finite_is_named() -> None:
    with pytest.raises(DataError, match="row 1, column 0: the observation is nan"):
        RBF.from_data([[0.0], [np.nan]], 2)


# Fourier with few interactions.


@pytest.mark.parametrize(
    ("k", "order", "interactions", "number"), [(4, 2, 2, 33), (8, 3, 1, 25), (3, 2, 3, 27), (3, 2, 9, 27)]
)
def test_frequencies_with_few_columns(k: int, order: int, interactions: int, number: int) -> None:
    features = Fourier(np.zeros(k), np.ones(k), order, interactions)
    assert features.dimension == features._frequencies.shape[1] == number
    assert np.count_nonzero(features._frequencies, axis=0).max() == min(interactions, k)
    assert len(set(map(tuple, features._frequencies.T))) == number


def test_all_interactions_are_the_whole_grid() -> None:
    points = np.random.default_rng(0).random((20, 3))
    limited, whole = (Fourier(np.zeros(3), np.ones(3), 2, m)(points) for m in (3, None))
    np.testing.assert_array_equal(limited, whole)
    grid = np.indices((3, 3, 3)).reshape(3, -1)
    np.testing.assert_allclose(whole, np.cos(np.pi * points @ grid), atol=1e-12)


def test_too_many_frequencies_say_what_to_do() -> None:
    with pytest.raises(SettingError, match="interactions=2"):
        Fourier(np.zeros(20), np.ones(20), 3)
    assert Fourier(np.zeros(20), np.ones(20), 3, interactions=2).dimension == 1 + 60 + 190 * 9


# Radial basis functions.


def test_centers_are_observations_far_from_each_other() -> None:
    clusters = np.repeat([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0]], 100, axis=0)
    rows = clusters + np.random.default_rng(1).normal(size=(300, 2)) * 0.01
    found = {tuple(np.round(center).tolist()) for center in RBF.from_data(rows, 3).centers}
    assert len(found) == 3


def test_seeds_choose_other_centers() -> None:
    assert RBF.from_data(ROWS, 5, seed=1) == RBF.from_data(ROWS, 5, seed=1) != RBF.from_data(ROWS, 5, seed=2)


def test_fewer_different_observations_than_centers() -> None:
    assert RBF.from_data([[0.0], [1.0]], 4).dimension == 4


# Random Fourier features.


def test_the_kernel_is_gaussian() -> None:
    """The product of the cosines of two points approaches exp(-|z - z'|^2 / (2 scale^2))."""
    features = RandomFourier(20_000, [0, 0], [1, 1], scale=1.5, seed=4)
    points = np.array([[0.0, 0.0], [1.0, 0.5], [2.0, -1.0]])
    cosines = features(points)[:, 3:]
    squares = np.sum((points[:, None] - points) ** 2, axis=-1)
    np.testing.assert_allclose(cosines @ cosines.T, np.exp(-squares / (2 * 1.5**2)), atol=0.03)


def test_a_constant_and_the_standardised_observation_come_first() -> None:
    rows = RandomFourier.from_data(ROWS, 4)(ROWS)
    assert (rows[:, 0] == 1).all()
    np.testing.assert_allclose(rows[:, 1:4].mean(axis=0), 0, atol=1e-9)
    np.testing.assert_allclose(rows[:, 1:4].std(axis=0), 1)


def test_the_numbers_of_a_seed_never_change() -> None:
    """Files hold the seed alone. These are the numbers of NumPy's RandomState, which are frozen."""
    weights, phases = RandomFourier(2, [0.0], [1.0], scale=2.0, seed=5)._drawn
    np.testing.assert_allclose(weights, [[0.4412274891 / 2, -0.3308701673 / 2]], atol=1e-9)
    assert phases.shape == (2,)


@pytest.mark.parametrize(
    "settings",
    [
        {"n": -1},
        {"mean": [0, 0]},
        {"deviation": [0.0]},
        {"deviation": [np.inf]},
        {"scale": 0},
        {"scale": "wide"},
        {"seed": 2**32},
        {"seed": -1},
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any]) -> None:
    usual: dict[str, Any] = {"n": 3, "mean": [0.0], "deviation": [1.0]}
    with pytest.raises(SettingError):
        RandomFourier(**usual | settings)


def test_an_open_space_needs_no_bounds() -> None:
    env = gymnasium.make("CartPole-v1")
    env.action_space.seed(0)
    rows = [env.reset(seed=0)[0]]
    for _ in range(10):
        rows.append(env.step(env.action_space.sample())[0])
    for made in (Fourier.from_data(rows, 2), TileCoding.from_data(rows, 2, 2), RandomFourier.from_data(rows, 8)):
        assert np.isfinite(made(np.array(rows))).all()
