"""Common mistakes in the input raise an error that names the value and the remedy; reasonable input works."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from mdps import small_problem

import inferl
from inferl.algorithms import Algorithm
from inferl.errors import (
    DataError,
    DivergenceError,
    InferlError,
    KindError,
    LevelError,
    SettingError,
    ShapeError,
    TargetError,
)
from inferl.policies import Deterministic
from inferl.testing import assert_same_bits

PROBLEM = small_problem()
BOOTSTRAP = inferl.OnlineBootstrap(inferl.Polynomial(0.5, cap=0.1), n_replicas=4)


def lake(policy: Any = None, **options: Any) -> Any:
    env = gymnasium.make("FrozenLake-v1")
    return inferl.sources.rollout(
        env, [[0.25] * 4] * 16 if policy is None else policy, env.observation_space, **options
    )


# Not a source.


class Columns:
    """Looks like a data frame, whose iteration gives the names of its columns."""

    columns = ("reward", "state")

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)


@pytest.mark.parametrize(
    "log",
    ["log.csv", b"log.csv", Path("log.csv"), Columns(), {"reward": [1.0]}],
    ids=lambda value: type(value).__name__,
)
def test_a_log_is_read_by_a_table(log: Any) -> None:
    evaluator = inferl.Evaluator(inferl.TD(2))
    for use in (evaluator.update, lambda data: next(evaluator.until(data, 0, width=1.0))):
        with pytest.raises(ShapeError, match=r"inferl\.sources\.table\("):
            use(log)
    assert evaluator.n == 0


def test_a_data_frame_is_read_by_a_table() -> None:
    pandas = pytest.importorskip("pandas")
    with pytest.raises(ShapeError, match=r"a DataFrame .* inferl\.sources\.table\("):
        inferl.Evaluator(inferl.TD(2)).update(pandas.DataFrame({"reward": [1.0]}))


@pytest.mark.parametrize("data", [None, 5, object(), [1, 2], [[0.0, 1.0]], ["a"], np.zeros(3), lambda: 0])
def test_what_is_no_source_is_refused(data: Any) -> None:
    with pytest.raises(ShapeError, match="Transitions"):
        inferl.Evaluator(inferl.TD(2)).update(data)


def test_a_source_with_a_bad_chunk_has_delivered_those_before() -> None:
    data = PROBLEM.sample(100, seed=1)
    evaluator = inferl.Evaluator(inferl.TD(2))
    with pytest.raises(ShapeError, match="yielded 'end'"):
        evaluator.update([data[:50], "end", data[50:]])  # type: ignore[list-item]
    assert_same_bits(evaluator, inferl.Evaluator(inferl.TD(2)).update(data[:50]))


# Rollouts as sources.


def test_a_rollout_goes_on_until_enough_is_known() -> None:
    evaluator = inferl.Evaluator(inferl.DoublyRobust(16))
    chunks = list(evaluator.until(lake(discount=0.9), width=0.02))
    assert evaluator.interval(kind="anytime").width <= 0.02
    assert sum(map(len, chunks)) == evaluator.n


def test_all_of_a_rollout_cannot_be_taken_in() -> None:
    with pytest.raises(SettingError, match=r"source\.take\(episodes=100\)"):
        inferl.Evaluator(inferl.TD(16)).update(lake(discount=0.9))


@pytest.mark.parametrize("seen", [0, 5])
def test_starts_that_a_source_will_observe_are_a_target(seen: int) -> None:
    """Even before the first episode: the interval uses the starts observed when it is read."""
    source = lake(discount=0.9)
    evaluator = inferl.Evaluator(inferl.TD(16)).update(source.take(episodes=seen))
    chunks = source.take(steps=20_000)
    for _ in evaluator.until(chunks, source.start(), width=0.02, after=500):
        pass
    found = evaluator.interval(source.start(), kind="anytime")
    assert found.width <= 0.02
    assert evaluator.n < 20_000
    with pytest.raises(TargetError, match="no episode has begun"):
        evaluator.interval(lake(discount=0.9).start())


def test_starts_that_a_log_will_show_are_a_target() -> None:
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame({"s": rng.integers(2, size=4000), "reward": rng.random(4000), "id": np.arange(4000) // 4})
    log = inferl.sources.table(frame, state="s", n_states=2, episode="id", discount=0.9, episodes_end=True, batch=500)
    evaluator = inferl.Evaluator(inferl.TD(2))
    for _ in evaluator.until(log, log.start(), width=0.5):
        pass
    assert evaluator.interval(log.start(), kind="anytime").width <= 0.5
    assert 1000 <= evaluator.n < 4000


def test_until_is_refused_when_it_is_called() -> None:
    evaluator = inferl.Evaluator(inferl.TD(2))
    calls: list[tuple[dict[str, Any], type[InferlError]]] = [
        ({}, SettingError),
        ({"width": "small"}, SettingError),
        ({"width": np.nan}, SettingError),
        ({"lower_above": [0.0]}, SettingError),
        ({"width": 1.0, "after": "soon"}, SettingError),
        ({"width": 1.0, "level": 95}, LevelError),
        ({"width": 1.0, "level": "high"}, LevelError),
    ]
    for asked, error in calls:
        with pytest.raises(error):
            evaluator.until([], 0, **asked)


# Algorithms.

EVERY: dict[str, Callable[[type[Any]], Algorithm]] = {
    "TD": lambda cls: cls(2, trace=0.5),
    "EmphaticTD": lambda cls: cls(2),
    "NStepTD": lambda cls: cls(2, n=3),
    "QEvaluation": lambda cls: cls(2),
    "GTD": lambda cls: cls(2),
    "GTD2": lambda cls: cls(2),
    "TDC": lambda cls: cls(2),
    "DoublyRobust": lambda cls: cls(2),
    "AverageReward": lambda cls: cls(2),
    "Linear": lambda cls: cls(2),
    "Field": lambda cls: cls(1, lambda theta, step: step.reward - theta, n_features=2),
    "Stack": lambda cls: cls(inferl.TD(2), inferl.TD(2)),
}


def made(name: str, cls: type[Any]) -> Algorithm:
    return EVERY[name](cls)


@pytest.mark.parametrize("method", [None, BOOTSTRAP], ids=["LeastSquares", "OnlineBootstrap"])
@pytest.mark.parametrize("name", EVERY)
def test_a_subclass_does_what_its_parent_does(name: str, method: Any, tmp_path: Path) -> None:
    parent = getattr(inferl, name)
    child = type("Mine", (parent,), {})
    on_policy = PROBLEM.sample(300, seed=1)
    data: Any = inferl.Transitions(on_policy.features, on_policy.rewards, on_policy.next_features, on_policy.discounts)
    if name == "Linear":
        data = inferl.Increments.dense(np.tile(np.eye(2), (300, 1, 1)), on_policy.features)
    if (name == "Field" and method is None) or (name == "DoublyRobust" and method is not None):
        with pytest.raises(SettingError):
            inferl.Evaluator(made(name, child), method)
        return
    one, other = (inferl.Evaluator(made(name, cls), method).update(data) for cls in (parent, child))
    assert_same_bits(one, other)
    target = np.ones(one.algorithm.dimension)
    assert one.interval(target).to_dict() == other.interval(target).to_dict()
    other.save(tmp_path / "run")
    loaded = inferl.Evaluator.load(tmp_path / "run", algorithm=other.algorithm)
    assert_same_bits(loaded.update(data), one.update(data))


@pytest.mark.parametrize("name", ["TD", "EmphaticTD", "NStepTD", "GTD2", "DoublyRobust", "AverageReward", "Linear"])
@pytest.mark.parametrize("wrong", [inferl.features.OneHot(16), 2.0, "2", None, True, [2], np.zeros(2), 0, -1])
def test_an_algorithm_takes_the_number_of_features(name: str, wrong: Any) -> None:
    with pytest.raises(SettingError, match="feature") as caught:
        getattr(inferl, name)(wrong)
    assert ("dimension" in str(caught.value)) == isinstance(wrong, inferl.features.OneHot)


def test_settings_of_another_kind_are_refused() -> None:
    wrong: list[Callable[[], Any]] = [
        lambda: inferl.TD(2, trace="half"),  # type: ignore[arg-type]
        lambda: inferl.TD(2, trace=np.nan),
        lambda: inferl.NStepTD(2, n=1.5),  # type: ignore[arg-type]
        lambda: inferl.GTD2(2, auxiliary_step=None),  # type: ignore[arg-type]
        lambda: inferl.GTD2(2, auxiliary_step=np.inf),
        lambda: inferl.Field(2, "function"),  # type: ignore[arg-type]
        lambda: inferl.Stack(inferl.TD(2), 2),  # type: ignore[arg-type]
        lambda: inferl.Stack(),
        lambda: inferl.DoublyRobust(2, start="here"),
        lambda: inferl.features.OneHot("many"),  # type: ignore[arg-type]
        lambda: inferl.features.WithIntercept(lambda observation: observation),  # type: ignore[arg-type]
        lambda: inferl.features.Function("f", 2),  # type: ignore[arg-type]
        lambda: inferl.policies.epsilon_greedy([[1.0]], "a little", 1),  # type: ignore[arg-type]
        lambda: inferl.features.Network(7),
    ]
    for call in wrong:
        with pytest.raises(SettingError):
            call()


def test_algorithms_that_take_no_ratios_refuse_observed_ones() -> None:
    """Each step is validated when it is observed, not when it is processed."""
    for algorithm in (inferl.QEvaluation(2), inferl.AverageReward(2), inferl.Stack(inferl.QEvaluation(2))):
        evaluator = inferl.Evaluator(algorithm)
        for n in range(3):
            with pytest.raises(DataError, match=r"ratio is 2\.0"):
                evaluator.observe(0, 1.0, 1, 0.9, ratio=2.0)
            assert evaluator.n == n
            evaluator.observe(0, 1.0, 1, 0.9)


# Recursions that diverge, and evaluators without data.


@pytest.mark.parametrize("observed", [False, True])
def test_a_delayed_algorithm_that_diverges_goes_back_to_the_last_sound_tile(observed: bool) -> None:
    rng = np.random.default_rng(0)
    n = 700
    phi = rng.normal(size=(n + 1, 2)) * np.where(np.arange(n + 1) < 330, 0.1, 30.0)[:, None]
    data = inferl.Transitions(phi[:-1], rng.normal(size=n), phi[1:], 0.99)
    method = inferl.OnlineBootstrap(inferl.Constant(0.5, cap=None), n_replicas=3)
    evaluator = inferl.Evaluator(inferl.NStepTD(2, n=50), method)

    def feed() -> None:
        if not observed:
            evaluator.update(data)
        for t in range(n):
            evaluator.observe(phi[t], data.rewards[t], phi[t + 1], 0.99)
        evaluator.interval([1.0, 0.0])

    with pytest.raises(DivergenceError) as caught:
        feed()
    sound = evaluator.n
    assert 0 < sound < caught.value.step + 64 + 50
    assert sound % 64 == 0
    found = evaluator.interval([1.0, 0.0])
    assert np.isfinite(found.estimate)
    assert any(note.startswith("divergence") for note in found.notes)
    expected = inferl.Evaluator(inferl.NStepTD(2, n=50), method).update(data[:sound]).interval([1.0, 0.0])
    assert (found.estimate, found.lower, found.upper) == (expected.estimate, expected.lower, expected.upper)
    with pytest.raises(DivergenceError):
        evaluator.update(data[:1])


def test_an_anytime_interval_and_a_burn_in() -> None:
    data = PROBLEM.sample(300, seed=1)
    method = inferl.OnlineBootstrap(inferl.Polynomial(0.5), n_replicas=20, average=inferl.BurnIn(200))
    evaluator = inferl.Evaluator(inferl.TD(2), method).update(data[:150])
    with pytest.raises(SettingError, match="burn-in"):
        evaluator.interval([1.0, 0.0], kind="anytime", tuning_time=200)
    assert evaluator.interval([1.0, 0.0], kind="anytime", tuning_time=1000).width == np.inf
    assert np.isfinite(evaluator.update(data[150:]).interval([1.0, 0.0], kind="anytime", tuning_time=1000).width)
    with pytest.raises(SettingError, match="burn-in"):
        inferl.difference(evaluator, evaluator.copy(), [1.0, 0.0], kind="anytime", tuning_time=100)
    for wrong in (0, 1.5, "soon", [100]):
        with pytest.raises(SettingError, match="tuning_time"):
            evaluator.interval([1.0, 0.0], kind="anytime", tuning_time=wrong)  # type: ignore[arg-type]


def test_a_question_before_the_first_row() -> None:
    for kind in (None, "anytime", "simultaneous"):
        assert inferl.Evaluator(inferl.TD(2)).interval(np.eye(2), kind=kind).width.tolist() == [np.inf] * 2


BAD_TARGETS = [
    "value",
    1j,
    [1j, 0],
    [None, 1.0],
    [[1.0], [1.0, 2.0]],
    np.array(["2020-01-01"] * 2, "M8[D]"),
    np.ma.array([1.0, 2.0], mask=[True, False]),
    {},
    object(),
    10**400,
    2**70,
    0.5,
    True,
    [np.nan, 0.0],
    ["1", "2"],
    ("value", [1.0, 0.0]),
    (1, 2, 3),
    b"12",
]


@pytest.mark.parametrize("target", BAD_TARGETS, ids=lambda target: type(target).__name__)
def test_what_is_no_target_is_refused(target: Any) -> None:
    evaluator = inferl.Evaluator(inferl.TD(2)).update(PROBLEM.sample(100, seed=1))
    for ask in (evaluator.interval, evaluator.report, evaluator.estimate):
        with pytest.raises(TargetError):
            ask(target)


def test_kinds_and_levels_of_another_type_are_refused() -> None:
    evaluator = inferl.Evaluator(inferl.TD(2)).update(PROBLEM.sample(100, seed=1))
    for kind in (5, ["normal"], np.array(["normal", "anytime"]), b"normal"):
        with pytest.raises(KindError):
            evaluator.interval([1.0, 0.0], kind=kind)  # type: ignore[arg-type]
    for level in ("high", None, [0.9], np.array([0.9, 0.95]), True, 95, np.nan):
        with pytest.raises(LevelError):
            evaluator.interval([1.0, 0.0], level=level)  # type: ignore[arg-type]


# Policies.


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        ((1, None), "give the model itself"),
        (np.array([0.1, 0.2, 0.3, 0.4]), r"Probabilities\(function\)"),
        ([0.1, 0.2, 0.3, 0.4], r"Probabilities\(function\)"),
        (5, "another environment"),
        (-1, "another environment"),
        (1.0, "no action of Discrete"),
        ("left", "no action of Discrete"),
        (None, "no action of Discrete"),
    ],
)
def test_what_is_no_action_is_refused_by_name(returned: Any, said: str) -> None:
    envs = gymnasium.make_vec("FrozenLake-v1", num_envs=2, vectorization_mode="sync")
    alone, together = (
        lake(lambda observation: returned, discount=0.9),
        inferl.sources.rollout(envs, Deterministic(lambda _: returned), envs.single_observation_space, discount=0.9),
    )
    with pytest.raises(DataError, match=said):
        next(alone.take(steps=10))
    if not isinstance(returned, tuple | list | str | type(None)):  # else there is no batch of them
        with pytest.raises(DataError, match=said):
            next(together.take(steps=10))


def test_continuous_actions_have_the_shape_of_their_space() -> None:
    env = gymnasium.make("Pendulum-v1")
    features = inferl.features.Function(lambda x: np.asarray(x, float), 3)
    for sound in (np.zeros(1), [0.0], np.zeros(1, np.float32)):
        source = inferl.sources.rollout(env, lambda _, sound=sound: sound, features, discount=0.9)
        assert len(next(source.take(steps=5))) == 5
    for bad in (0.0, np.zeros(2), (np.zeros(1), None), "left"):
        source = inferl.sources.rollout(env, lambda _, bad=bad: bad, features, discount=0.9)
        with pytest.raises(DataError, match="no action of Box"):
            next(source.take(steps=5))


@pytest.mark.torch
def test_tensors_are_no_actions_and_tuples_no_features() -> None:
    import torch

    with pytest.raises(DataError, match=r"int\(tensor\)"):
        next(lake(lambda observation: torch.tensor(1), discount=0.9).take(steps=5))

    Extractor = type("Extractor", (torch.nn.Linear,), {"forward": lambda self, observations: (observations, None)})
    with pytest.raises(SettingError, match="Extractor returned several parts"):
        inferl.features.Network(Extractor(4, 2))(np.zeros(4))
    with pytest.raises(ShapeError, match="Linear cannot take"):
        inferl.features.Network(torch.nn.Linear(4, 2))(np.zeros(3))


# Numbers beyond the range of a float.


def extremes() -> dict[str, inferl.Transitions]:
    rng = np.random.default_rng(0)
    n = 400
    phi, rewards = rng.normal(size=(n + 1, 2)), rng.normal(size=n)
    discounts, twos = np.full(n, 0.95), rng.choice([0.0, 3.0], size=n, p=[0.3, 0.7])
    return {
        "rewards": inferl.Transitions(phi[:-1], 1e300 * rewards, phi[1:], discounts),
        "largest rewards": inferl.Transitions(phi[:-1], 1.7e308 * np.sign(rewards), phi[1:], discounts),
        "features": inferl.Transitions(1e200 * phi[:-1], rewards, 1e200 * phi[1:], discounts),
        "ratios": inferl.Transitions(phi[:-1], rewards, phi[1:], discounts, 1e300),
        "many ratios": inferl.Transitions(phi[:-1], rewards, phi[1:], 1.0, twos),
        "small ratios": inferl.Transitions(phi[:-1], rewards, phi[1:], 1.0, 1e-300),
    }


@pytest.mark.parametrize("name", extremes())
@pytest.mark.parametrize(
    "algorithm",
    [
        inferl.TD(2),
        inferl.TD(2, trace=1.0),
        inferl.EmphaticTD(2),
        inferl.EmphaticTD(2, trace=0.9),
        inferl.NStepTD(2, n=50),
        inferl.GTD2(2),
        inferl.DoublyRobust(2),
    ],
    ids=str,
)
def test_an_answer_that_overflows_says_so(algorithm: Algorithm, name: str) -> None:
    data = extremes()[name]
    for method in (None, inferl.LeastSquares("episode"), BOOTSTRAP):
        if method is BOOTSTRAP and not algorithm.recursive:
            continue
        evaluator = inferl.Evaluator(algorithm, method)
        with suppress(DivergenceError):
            evaluator.update(data[:150]).update(data[150:])
        for kind in (None, "anytime", "simultaneous"):
            found = evaluator.interval(np.eye(2), kind=kind)
            lost = ~np.isfinite(found.estimate) | np.isnan(found.lower) | np.isnan(found.upper)
            assert lost.any() == any(note.startswith("overflow: ") for note in found.notes)
            report = evaluator.report(np.eye(2), kind=kind)
            assert any(check.name == "overflow" and check.failed for check in report.checks) == lost.any()
            assert str(report)


def test_large_features_are_observed_as_they_are_updated() -> None:
    rows = np.array([[1e200, 1.0], [1.0, 1.0], [1e200, -1e300]])
    one, other = inferl.Evaluator(inferl.TD(2)), inferl.Evaluator(inferl.TD(2))
    other.update(inferl.Transitions(rows, [0.0, 1.0, 2.0], rows[::-1], 0.9))
    for row, reward, after in zip(rows, [0.0, 1.0, 2.0], rows[::-1], strict=True):
        one.observe(row, reward, after, 0.9)
    assert_same_bits(one, other)


def test_products_of_ratios_do_not_become_infinite() -> None:
    """Long products of ratios above 1 are capped, so that the estimate stays finite."""
    data = extremes()["many ratios"]
    for algorithm in (inferl.TD(2, trace=1.0), inferl.EmphaticTD(2), inferl.NStepTD(2, n=300)):
        found = inferl.Evaluator(algorithm).update(data).interval(np.eye(2))
        assert np.isfinite(found.estimate).all()
        assert found.notes


# A package without its compiled extension.

MISSING = """
import sys, warnings

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name == "inferl.engine._native":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Hidden())
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import inferl.engine
    name = inferl.engine.active().name
print(name, caught[0].message)
"""


def test_a_missing_kernel_is_called_missing() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "INFERL_REQUIRE_NATIVE"}
    command = [sys.executable, "-c", MISSING]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.startswith("reference the compiled backend is missing")
    assert "circular" not in done.stdout
    assert "install inferl again" in done.stdout
