"""Rollouts with features by name: fitted to the first steps, the same however the rollout is played or resumed."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, Graph, MultiBinary, MultiDiscrete, Text, Tuple

import inferl
from inferl.data.batches import stacked
from inferl.data.transitions import Transitions
from inferl.errors import CheckpointError, DataError, SettingError, ShapeError
from inferl.features import OneHot, RandomFourier
from inferl.features.named import FITTED_ON, FromData, features_for, is_name
from inferl.features.spaces import Combinations, flattened, number_of_columns
from inferl.policies import Uniform
from inferl.sources import Rollout, rollout
from inferl.testing import check_source

NAMES = ("auto", "observation", "random-fourier:16", "fourier:2x2", "rbf:10", "tiles:2x2")


def lean(pole: Any) -> int:
    return int(pole[2] > 0)


def pole(features: Any = "auto", **settings: Any) -> Rollout:
    return rollout("CartPole-v1", lean, features, 0.99, **settings)


def joined(source: Rollout, **amount: int) -> Transitions:
    return Transitions.join(list(source.take(**amount)))


def same(a: Transitions, b: Transitions) -> bool:
    return np.array_equal(a.features, b.features) and np.array_equal(a.next_features, b.next_features)


@pytest.mark.parametrize("name", NAMES)
def test_the_same_bits_for_any_copies_and_chunks(name: str) -> None:
    expected = joined(pole(name), episodes=30)
    assert expected.features.shape[1] == pole(name).dimension
    for settings in ({"num_envs": 1, "chunk": 7}, {"num_envs": 3, "chunk": 1000}):
        assert same(joined(pole(name, **settings), episodes=30), expected)


def test_the_same_bits_however_it_is_taken() -> None:
    """Fewer steps than the features are fitted to, at first."""
    source, whole = pole(), joined(pole(), steps=1500)
    parts = [joined(source, episodes=1), joined(source, steps=10), joined(source, steps=1500)]
    assert same(Transitions.join(parts)[:1500], whole)


@pytest.mark.parametrize("name", NAMES)
def test_a_resumed_rollout_has_the_features_of_the_first(name: str) -> None:
    source = pole(name)
    for _ in source.take(steps=1234):
        pass
    again = pole(name, num_envs=2).resume(source.position)
    assert same(joined(again, steps=300), joined(source, steps=300))
    assert again.position["features"] == source.position["features"]
    observation = np.array([0.1, -0.2, 0.05, 0.3])
    assert np.array_equal(again.features(observation), source.features(observation))


def test_they_are_fitted_to_the_first_steps_of_the_source() -> None:
    source, plain = pole(), pole(inferl.features.Function(lambda seen: np.asarray(seen, float), 4))
    for _ in source.take(steps=1):
        pass
    assert isinstance(source.features, FromData)
    assert source.features.fitted == RandomFourier.from_data(joined(plain, steps=FITTED_ON).features, 64)


@pytest.mark.parametrize("name", ["auto", "rbf:10"])
def test_the_contract_of_a_source(name: str) -> None:
    check_source(lambda: pole(name, episodes=40))


def test_before_the_first_step_there_are_none() -> None:
    source = pole()
    assert source.dimension == 69
    assert source.position["features"] is None
    with pytest.raises(SettingError, match="take some steps first"):
        source.features(np.zeros(4))
    assert list(source.take(steps=0)) == []
    assert pole().resume(source.position).position["features"] is None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (None, "features were fitted to the data before"),
        ({"n": 3}, "does not have the 69 features"),
        ({"scale": -1.0}, "scale is -1"),
        ({"scale": "wide"}, "scale"),
        ({"more": 1}, "does not hold the fields"),
    ],
)
def test_a_position_from_a_file_is_not_trusted(change: dict[str, Any] | None, words: str) -> None:
    source = pole()
    for _ in source.take(steps=10):
        pass
    position = source.position
    forged = None if change is None else position["features"] | change
    with pytest.raises(CheckpointError, match=words):
        pole().resume(position | {"features": forged})


def test_features_that_are_not_fitted_do_not_take_a_position_of_fitted_ones() -> None:
    source = pole()
    for _ in source.take(steps=10):
        pass
    with pytest.raises(CheckpointError, match="features were fitted"):
        pole(None).resume(source.position)


def test_vector_environments() -> None:
    def make() -> Rollout:
        envs = gymnasium.make_vec("CartPole-v1", num_envs=3, vectorization_mode="sync")
        return rollout(envs, lean, "auto", 0.99)

    source = make()
    first = joined(source, steps=1300)
    assert first.features.shape == (1300, 69)
    assert same(joined(make().resume(source.position), steps=100), joined(source, steps=100))


def test_evaluate_policy_takes_names() -> None:
    """On-policy, and where episodes end, features change nothing; beyond a limit they are needed."""
    plain, fitted = (inferl.evaluate_policy("CartPole-v1", lean, features=f) for f in (None, "auto"))
    assert fitted.interval.estimate == pytest.approx(plain.interval.estimate, rel=1e-9)
    assert fitted.interval.width == pytest.approx(plain.interval.width, rel=0.02)
    assert "64 random Fourier features" in fitted.report.facts["features"]
    beyond = inferl.evaluate_policy("CartPole-v1", lean, features="auto", time_limit="cut", discount=0.99)
    assert 33.2592 < beyond.interval.estimate < 35.2592  # the mean of a million episodes is 34.2592
    assert abs(float(beyond.evaluator.interval("fitted").estimate) - 34.2592) < 1.5  # the observation alone: 29.8


def test_too_many_features_are_refused_before_the_first_step() -> None:
    calls = []

    def acting(seen: Any) -> int:
        calls.append(seen)
        return 0

    with pytest.raises(SettingError, match=r"at most 2,000 parameters, not 8\d,\d+: .* GB of memory, .* hours"):
        inferl.evaluate_policy("CartPole-v1", acting, features="tiles:8x10")
    source = rollout("CartPole-v1", acting, "tiles:8x10", 0.99, episodes=5)
    with pytest.raises(SettingError, match="at most 2,000"):
        inferl.Evaluator(inferl.DoublyRobust(source.dimension)).update(source)
    with pytest.raises(SettingError, match="at most 2,000"):
        next(inferl.Evaluator(inferl.DoublyRobust(source.dimension)).until(source, width=1))
    assert calls == []


def test_a_large_table_is_not_refused() -> None:
    source = rollout("Taxi-v4", Uniform(Discrete(6)), OneHot(5000), episodes=2)
    assert inferl.Evaluator(inferl.DoublyRobust(5000)).update(source).episodes == 2


# Spaces.

PLACE = Box(-np.inf, np.inf, (2,))
HOUSE = Dict(place=PLACE, key=Discrete(3), lights=MultiBinary(2))


@pytest.mark.parametrize(
    ("space", "dimension"),
    [
        (Discrete(7), 7),
        (Discrete(7, start=3), 7),
        (MultiDiscrete([3, 4]), 12),
        (MultiBinary(3), 8),
        (Tuple([Discrete(2), MultiDiscrete([2, 2])]), 8),
        (Dict(a=Discrete(2), b=Discrete(5)), 10),
    ],
)
def test_finite_spaces_are_tables(space: Any, dimension: int) -> None:
    features = features_for("auto", space)
    assert features.dimension == dimension
    space.seed(0)
    numbers = {features(space.sample()) for _ in range(500)}
    assert numbers == set(range(dimension))


def test_parts_of_a_finite_space_in_batches() -> None:
    space = Dict(a=Discrete(2), b=MultiDiscrete([2, 5]))
    features = Combinations(space)
    batch = {"b": np.array([[1, 4], [0, 2]]), "a": np.array([1, 0])}
    assert features(batch).tolist() == [19, 2]
    with pytest.raises(DataError, match="is none of Dict"):
        features({"a": 2, "b": np.array([0, 0])})


@pytest.mark.parametrize(
    ("space", "columns"),
    [(PLACE, 2), (HOUSE, 7), (Tuple([PLACE, PLACE]), 4), (MultiDiscrete([10] * 6), 60), (Box(0, 1, (3, 4)), 12)],
)
def test_other_spaces_are_flattened(space: Any, columns: int) -> None:
    features = features_for("auto", space)
    assert number_of_columns(space) == columns
    assert features.dimension == 1 + columns + (64 if columns <= 4 else 128)
    assert isinstance(features, FromData)
    space.seed(1)
    observations = [space.sample() for _ in range(50)]
    features.fit(stacked(observations))
    rows = features(stacked(observations))
    assert rows.shape == (50, features.dimension)
    assert np.array_equal(features(observations[3]), rows[3])
    one: Any = gymnasium.spaces.utils.flatten(space, observations[3])
    assert np.array_equal(flattened(space, observations[3]), one)


def test_an_observation_of_another_shape_is_refused() -> None:
    with pytest.raises(ShapeError, match=r"expected \(2,\)"):
        flattened(PLACE, np.zeros(3))
    with pytest.raises(ShapeError, match="is none of Dict"):
        flattened(HOUSE, {"place": np.zeros(2), "key": 5, "lights": np.zeros(2, np.int8)})


@pytest.mark.parametrize(
    ("space", "words"),
    [
        (Box(0, 255, (84, 84, 3), np.uint8), "21,168 numbers, more than 500; give features, such as Network"),
        (Text(5), "no features by name"),
        (Dict(a=Text(5), b=PLACE), "no features by name"),
        (Graph(PLACE, None), "no features by name"),
    ],
)
def test_spaces_without_features_by_name(space: Any, words: str) -> None:
    with pytest.raises(SettingError, match=words):
        features_for("auto", space)


@pytest.mark.parametrize("name", ["Auto", "fourier:", "fourier:a", "tiles", "rbf:5x5", "tiles:8", "fourier", "random"])
def test_names_that_make_no_sense_say_what_there_is(name: str) -> None:
    with pytest.raises(SettingError, match=r"tiles:8x4|for example"):
        features_for(name, PLACE)


def test_code_is_no_name() -> None:
    assert [is_name(text) for text in (*NAMES, "my_map:tiles", "fourier:map")] == [True] * len(NAMES) + [False] * 2


def test_a_dict_space_in_a_rollout() -> None:
    class House(gymnasium.Env[Any, Any]):
        observation_space, action_space = HOUSE, Discrete(2)

        def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
            super().reset(seed=seed)
            return self._seen(), {}

        def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
            return self._seen(), 1.0, bool(self.np_random.random() < 0.2), False, {}

        def _seen(self) -> dict[str, Any]:
            lights = self.np_random.integers(2, size=2).astype(np.int8)
            return {"place": self.np_random.normal(size=2), "key": self.np_random.integers(3), "lights": lights}

    result = inferl.evaluate_policy(House, lambda seen: 0, features="auto", episodes=300)
    assert result.interval.lower < 5 < result.interval.upper
    assert result.evaluator.algorithm.n_features == 1 + 7 + 128
