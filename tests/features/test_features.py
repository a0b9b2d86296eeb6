"""Features: the same numbers for one observation or many; errors name the value."""

from typing import Any

import gymnasium
import numpy as np
import pytest
from sklearn.kernel_approximation import RBFSampler
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, PolynomialFeatures, StandardScaler

import inferl
from inferl.errors import DataError, SettingError, ShapeError
from inferl.features import (
    RBF,
    Features,
    Fourier,
    Function,
    Network,
    OneHot,
    RandomFourier,
    Scaled,
    TileCoding,
    Transform,
    WithIntercept,
)
from inferl.features.one_hot import as_features

POINTS = np.random.default_rng(0).uniform(-1, 1, size=(50, 2))

EVERY: dict[str, Features] = {
    "fourier": Fourier([-1, -1], [1, 1], 3),
    "two of the columns": Fourier([-1, -1], [1, 1], 3, interactions=1),
    "random fourier": RandomFourier(8, [0, 0.5], [1, 2], scale=0.7, seed=3),
    "tiles": TileCoding([-1, -1], [1, 1], tilings=3, tiles=4),
    "rbf": RBF(np.random.default_rng(1).normal(size=(7, 2)), [0.5, 2.0]),
    "scaled": Scaled([-1, -2], [1, 2]),
    "scaled rbf": Scaled([-1, -2], [1, 2], RBF([[0, 0], [1, 1]], 0.5)),
    "intercept": WithIntercept(Scaled([-1, -2], [1, 2])),
    "function": Function(lambda s: np.stack([s[..., 0], s[..., 1], s[..., 0] * s[..., 1]], axis=-1), 3),
    "slow function": Function(np.vectorize(lambda s: np.array([s[0], s[1] ** 2]), signature="(k)->(d)"), 2),
    "transformer": Transform(make_pipeline(StandardScaler(), PolynomialFeatures(2)).fit(POINTS)),
}


@pytest.mark.parametrize("name", EVERY)
def test_one_observation_or_many(name: str) -> None:
    features = EVERY[name]
    many = features(POINTS)
    assert many.dtype == np.float64
    assert many.shape == (len(POINTS), features.dimension)
    assert np.isfinite(many).all()
    for point, row in zip(POINTS, many, strict=True):
        np.testing.assert_allclose(features(point), row, rtol=1e-12, atol=1e-12)
    assert features(POINTS.astype(np.float32)).dtype == np.float64
    assert as_features(features) is features


@pytest.mark.parametrize("name", [name for name in EVERY if name not in ("function", "slow function", "transformer")])
@pytest.mark.parametrize("bad", [0.5, [0.1, 0.2, 0.3], [[0.1], [0.2]], "here", np.zeros((2, 2, 2))])
def test_observations_of_another_shape_are_refused(name: str, bad: Any) -> None:
    with pytest.raises(ShapeError, match=r"observations .*(shape|text)"):
        EVERY[name](bad)


@pytest.mark.parametrize("name", ["fourier", "random fourier", "tiles", "rbf", "scaled", "intercept"])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_is_named(name: str, bad: float) -> None:
    """A NaN would otherwise be assigned to some tile."""
    with pytest.raises(DataError, match=f"row 1, column 0: the observation is {bad}"):
        EVERY[name]([[0.0, 0.0], [bad, 0.0]])


@pytest.mark.parametrize(
    "name", ["fourier", "two of the columns", "random fourier", "tiles", "rbf", "scaled rbf", "intercept"]
)
def test_they_print_and_compare(name: str) -> None:
    features = EVERY[name]
    classes = (Fourier, RandomFourier, TileCoding, RBF, Scaled, WithIntercept)
    twin = eval(repr(features), {c.__name__: c for c in classes})
    assert twin == features
    assert hash(twin) == hash(features)


@pytest.mark.parametrize("make", [lambda lo, hi: Fourier(lo, hi, 2), lambda lo, hi: TileCoding(lo, hi, 1, 2), Scaled])
@pytest.mark.parametrize(
    ("low", "high"),
    [([0, 1], [1, 1]), ([0, 0], [1, np.inf]), ([0, np.nan], 1), ([0, 0], [1, 1, 1]), ("a", 1), ([], [])],
)
def test_bounds_that_make_no_sense_are_refused(make: Any, low: Any, high: Any) -> None:
    with pytest.raises(SettingError):
        make(low, high)


def test_the_bounds_of_an_open_space_say_what_to_do() -> None:
    space = gymnasium.make("CartPole-v1").observation_space
    assert isinstance(space, gymnasium.spaces.Box)
    with pytest.raises(SettingError, match=r"column 1 .* unbounded"):
        Fourier(space.low, space.high, 2)


def test_outside_the_bounds_is_on_their_edge() -> None:
    for name in ("fourier", "tiles", "scaled"):
        np.testing.assert_array_equal(EVERY[name]([5, -9]), EVERY[name]([2 if name == "scaled" else 1, -2]))


# One-hot.


def test_one_state_is_a_plain_int() -> None:
    assert OneHot(4)(3) == 3
    assert type(OneHot(4)(np.int32(3))) is int
    assert type(OneHot(4)(np.array(3))) is int


def test_many_states_are_int64() -> None:
    states = np.array([0, 3, 1], dtype=np.uint8)
    rows = OneHot(4)(states)
    assert rows.dtype == np.int64
    assert rows.tolist() == [0, 3, 1]


@pytest.mark.parametrize("bad", [4, -1, [0, 4], [-1, 0]])
def test_a_state_outside_the_table_is_refused(bad: int | list[int]) -> None:
    with pytest.raises(DataError, match=r"observation (4|-1) .* 0 to 3"):
        OneHot(4)(bad)


@pytest.mark.parametrize("bad", [0.5, [1.0], True])
def test_what_is_no_number_of_a_state_is_refused(bad: float | list[float]) -> None:
    with pytest.raises(DataError, match="integers"):
        OneHot(4)(bad)


def test_a_table_has_rows() -> None:
    with pytest.raises(SettingError):
        OneHot(0)


def test_it_is_a_feature_map_that_prints_and_compares() -> None:
    features: Features = OneHot(4)
    assert features.dimension == 4
    assert repr(features) == "OneHot(n=4)"
    assert features == OneHot(4)


def test_discrete_spaces_are_tables() -> None:
    assert as_features(gymnasium.spaces.Discrete(7)) == OneHot(7)
    with pytest.raises(SettingError, match="numbered from 1"):
        as_features(gymnasium.spaces.Discrete(7, start=1))
    with pytest.raises(SettingError, match=r"Function\(f, dimension\)"):
        as_features(lambda observation: observation)


# Fourier.


def test_fourier_is_the_cosines_of_all_frequencies() -> None:
    features = Fourier(low=[0, 10], high=[1, 20], order=2)
    assert features.dimension == 9
    expected = [np.cos(np.pi * (i * 0.3 + j * 0.8)) for i in range(3) for j in range(3)]
    assert features([0.3, 18]) == pytest.approx(expected)


def test_fourier_features_are_orthogonal_on_an_interval() -> None:
    points = -3 + 7 * (np.arange(40) + 0.5) / 40
    phi = Fourier(-3, 4, 5)(points[:, None])
    assert phi.T @ phi / 40 == pytest.approx(np.diag([1] + [0.5] * 5), abs=1e-12)


@pytest.mark.parametrize(("order", "columns"), [(-1, 1), (9, 8)])
def test_fourier_of_a_strange_order_is_refused(order: int, columns: int) -> None:
    with pytest.raises(SettingError, match="order"):
        Fourier(np.zeros(columns), np.ones(columns), order)


# Tile coding.


def test_one_tiling_is_a_plain_grid() -> None:
    features = TileCoding(low=[0, 0], high=[1, 1], tilings=1, tiles=4)
    cells = features([[0.1, 0.1], [0.1, 0.3], [0.3, 0.1], [1.0, 1.0]]).argmax(axis=1)
    assert cells.tolist() == [0, 1, 4, 15]


def test_each_tiling_has_one_tile() -> None:
    features = TileCoding(low=[0, -5], high=[1, 5], tilings=5, tiles=3)
    phi = features(np.random.default_rng(0).uniform([0, -5], [1, 5], size=(3000, 2)))
    assert features.dimension == 45
    assert set(np.unique(phi)) == {0.0, 1.0}
    assert (phi.reshape(-1, 5, 9).sum(axis=2) == 1).all()
    assert (phi.sum(axis=0) > 0).all()  # every tile can be reached


def test_tilings_are_displaced_by_even_parts() -> None:
    """Along a line, 8 tilings of 4 tiles change at 8 different points within the width of each tile."""
    line = np.linspace(0, 1, 100_001)[:, None]
    active = TileCoding(0, 1, tilings=8, tiles=4)(line)
    changes = np.flatnonzero((active[1:] != active[:-1]).any(axis=1)) / 100_000
    assert len(changes) == 8 * 3
    assert np.diff(changes) == pytest.approx(1 / 32, abs=2e-5)
    assert np.abs(active[1:] - active[:-1]).sum(axis=1).max() == 2  # one tiling at a time


@pytest.mark.parametrize(("tilings", "tiles", "columns"), [(0, 2, 1), (2, 0, 1), (8, 10, 8)])
def test_tiles_of_a_strange_number_are_refused(tilings: int, tiles: int, columns: int) -> None:
    with pytest.raises(SettingError, match=r"tilings|tiles is 0"):
        TileCoding(np.zeros(columns), np.ones(columns), tilings, tiles)


# Radial basis functions.


def test_rbf_is_its_formula() -> None:
    features = RBF([[0.0, 1.0], [2.0, 3.0]], width=[1.0, 2.0])
    expected = [np.exp(-(0.5**2 + (0.5 / 2) ** 2) / 2), np.exp(-(1.5**2 + (2.5 / 2) ** 2) / 2)]
    assert features([0.5, 0.5]) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("centers", "width"),
    [([0.0], 1.0), ([[np.nan]], 1.0), ([[0.0]], 0.0), ([[0.0]], [1.0, 1.0]), ([[]], 1.0), ("x", 1)],
)
def test_rbf_of_strange_centers_is_refused(centers: Any, width: Any) -> None:
    with pytest.raises(SettingError):
        RBF(centers, width)


# Functions and transformers.


def test_a_function_of_one_observation_is_told_what_to_do() -> None:
    with pytest.raises(ShapeError, match=r"numpy.vectorize\(f, signature="):
        Function(lambda s: np.array([s[0], s[1]]), 2)(np.ones((5, 3)))


def test_an_intercept_comes_first_and_not_twice() -> None:
    assert WithIntercept(Scaled(0, 1))([1.0]).tolist() == [1, 1]
    with pytest.raises(SettingError, match="no intercept"):
        WithIntercept(OneHot(3))


def test_transformers_sparse_and_named_or_not() -> None:
    encoder = Transform(OneHotEncoder().fit([[0, 5], [1, 7]]))
    assert encoder.dimension == 4
    assert encoder([1, 5]).tolist() == [0, 1, 1, 0]
    sampler = Transform(RBFSampler(n_components=20, random_state=0).fit(POINTS))
    assert sampler(POINTS).shape == (50, 20)

    class Squares:
        def transform(self, observations: Any) -> Any:
            return np.square(observations)

    assert Transform(Squares(), n_features=2)([2.0, 3.0]).tolist() == [4, 9]
    with pytest.raises(SettingError, match="n_features"):
        Transform(Squares())
    with pytest.raises(SettingError, match="fit it first"):
        Transform(PolynomialFeatures())
    with pytest.raises(ShapeError, match="Squares returned"):
        Transform(Squares(), n_features=3)([2.0, 3.0])


@pytest.mark.parametrize("name", ["fourier", "tiles", "rbf", "transformer"])
def test_an_evaluator_learns_with_them(name: str) -> None:
    """A walk on the square whose value is known: reward s_0 at each step, next states drawn at random.

    V(s) = s_0 + discount / (1 - discount) E[s_0] = s_0, since the mean of s_0 is 0.
    """
    generator = np.random.default_rng(5)
    states = generator.uniform(-1, 1, size=(4001, 2))
    phi = EVERY[name](states)
    chunk = inferl.Transitions(phi[:-1], states[:-1, 0], phi[1:], 0.9)
    evaluator = inferl.Evaluator(inferl.TD(EVERY[name].dimension)).update(chunk)
    interval = evaluator.interval(EVERY[name](np.array([[0.5, 0.0], [-0.5, 0.0]])).mean(axis=0))
    assert abs(interval.estimate) < 0.2
    assert interval.standard_error < 0.2


# Torch.


@pytest.mark.torch
def test_a_network_gives_its_outputs() -> None:
    import torch

    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(2, 6), torch.nn.ReLU(), torch.nn.Dropout(0.5)).train()
    features = Network(module)
    assert features.dimension == 6
    many = features(POINTS)
    assert many.dtype == np.float64
    np.testing.assert_allclose(features(POINTS[3]), many[3], rtol=1e-5, atol=1e-6)
    with torch.no_grad():
        expected = torch.relu(module[0](torch.as_tensor(POINTS, dtype=torch.float32))).numpy()
    np.testing.assert_allclose(many, expected, rtol=1e-6)  # without dropout
    assert module.training


@pytest.mark.torch
def test_a_network_of_images() -> None:
    import torch

    module = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.Flatten(), torch.nn.Linear(2 * 6 * 6, 5))
    features = Network(module, observation_ndim=3)
    images = np.random.default_rng(0).random((4, 1, 8, 8))
    assert features(images).shape == (4, 5)
    np.testing.assert_allclose(features(images[1]), features(images)[1], rtol=1e-4, atol=1e-6)
    with pytest.raises(ShapeError, match="observation_ndim"):
        Network(module)(images)


@pytest.mark.torch
def test_a_network_that_does_not_tell_its_width() -> None:
    import torch

    with pytest.raises(SettingError, match="n_features"):
        Network(torch.nn.Flatten())
    assert Network(torch.nn.Flatten(), n_features=4, observation_ndim=2)(np.ones((2, 2))).tolist() == [1, 1, 1, 1]
    with pytest.raises(ShapeError, match="Linear returned"):
        Network(torch.nn.Linear(2, 3), n_features=4)([0.0, 0.0])


@pytest.mark.torch
def test_an_evaluator_learns_with_a_network() -> None:
    import torch

    torch.manual_seed(0)
    env = gymnasium.make("CartPole-v1", max_episode_steps=30)
    features = WithIntercept(Network(torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh())))
    source = inferl.sources.rollout(env, lambda pole: int(pole[2] > 0), features, discount=0.9)
    evaluator = inferl.Evaluator(inferl.TD(features.dimension)).update(source.take(steps=2000))
    assert 9 < evaluator.interval(source.start()).estimate < 10.1


@pytest.mark.torch
def test_a_network_with_several_outputs() -> None:
    import torch

    class Both(torch.nn.Module):  # type: ignore[misc]
        def __init__(self, names: bool) -> None:
            super().__init__()
            self.one, self.two, self.names = torch.nn.Linear(2, 3), torch.nn.Linear(2, 5), names

        def forward(self, x: Any) -> Any:
            both = self.one(x), self.two(x)
            return {"one": both[0], "two": both[1]} if self.names else both

    assert Network(Both(False), output=1)(POINTS).shape == (50, 5)
    assert Network(Both(True), n_features=3, output="one")(POINTS).shape == (50, 3)
    with pytest.raises(SettingError, match=r"several parts \(0, 1\), not a tensor; say which of them, output=0"):
        Network(Both(False))(POINTS)
    with pytest.raises(SettingError, match=r"no output 'three': .* has the parts 'one', 'two'"):
        Network(Both(True), output="three")(POINTS)
    with pytest.raises(SettingError, match=r"no output 1: .* is not in parts"):
        Network(torch.nn.Linear(2, 5), output=1)(POINTS)
    with pytest.raises(ShapeError, match=r"features of shape \(50, 3\).*n_features"):
        Network(Both(True), output="one")(POINTS)


@pytest.mark.torch
def test_parts_of_a_stable_baselines_policy() -> None:
    from stable_baselines3 import PPO

    model = PPO("MlpPolicy", "CartPole-v1", policy_kwargs={"net_arch": {"pi": [16], "vf": [24]}}, device="cpu", seed=0)
    pole = np.random.default_rng(0).normal(size=(7, 4))
    policy = model.policy
    for output, width in ((0, 16), (1, 24)):
        features = Network(policy.mlp_extractor, output=output)
        assert features.dimension == width
        assert features(pole).shape == (7, width)
    assert Network(policy.features_extractor).dimension == 4
    np.testing.assert_allclose(Network(policy.features_extractor)(pole), pole, rtol=1e-6)
    with pytest.raises(SettingError, match="output=0"):
        Network(policy.mlp_extractor)(pole)
