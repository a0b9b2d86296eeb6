"""The evaluator's promises: the same bits however rows arrive, all or nothing, exact resume."""

from __future__ import annotations

from contextlib import nullcontext
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mdps import small_problem

import inferl
from inferl.algorithms import GTD2, TD, Field, Linear, NStepTD
from inferl.data.increments import Increments
from inferl.data.transitions import Transitions
from inferl.errors import (
    CheckpointCorruptError,
    CheckpointMismatchError,
    ContradictionError,
    DataError,
    InferlError,
    LevelError,
    SettingError,
    ShapeError,
    TargetError,
)
from inferl.evaluator import Evaluator
from inferl.methods.bootstrap import OnlineBootstrap
from inferl.methods.least_squares import LeastSquares
from inferl.methods.step_sizes import Polynomial
from inferl.testing import assert_same_bits

pytestmark = pytest.mark.usefixtures("both_epochs")

PROBLEM = small_problem()
METHODS: list[LeastSquares | OnlineBootstrap] = [
    LeastSquares(),
    LeastSquares("episode"),
    OnlineBootstrap(Polynomial(0.5), n_replicas=4),
]


@settings(max_examples=25)
@given(
    cuts=st.lists(st.integers(1, 599), max_size=12),
    stops=st.lists(st.integers(0, 599), max_size=3),
    method=st.sampled_from(METHODS),
)
def test_any_cutting_and_any_resume_give_the_same_bits(
    cuts: list[int], stops: list[int], method: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    data = PROBLEM.sample(600, seed=2)
    whole = Evaluator(TD(2, trace=0.5), method).update(data)
    path = tmp_path_factory.getbasetemp() / "run"
    evaluator = Evaluator(TD(2, trace=0.5), method)
    borders = sorted({0, 600, *cuts, *stops})
    for start, stop in pairwise(borders):
        if start in stops:
            evaluator.save(path)
            evaluator = Evaluator.load(path)
        evaluator.update(data[start:stop])
    assert_same_bits(whole, evaluator)


def observe_all(evaluator: Evaluator, data: Transitions) -> None:
    for t in range(len(data)):
        features = int(data.features[t]) if data.tabular else data.features[t]
        after = int(data.next_features[t]) if data.tabular else data.next_features[t]
        evaluator.observe(
            features,
            float(data.rewards[t]),
            after,
            float(data.discounts[t]),
            float(data.ratios[t]),
            last=bool(data.last[t]),
        )


@pytest.mark.parametrize("method", METHODS, ids=lambda m: type(m).__name__)
@pytest.mark.parametrize("tabular", [False, True])
def test_observing_equals_updating(method: Any, tabular: bool) -> None:
    data = PROBLEM.sample(300, seed=5, tabular=tabular)
    algorithm = TD(4 if tabular else 2, trace=0.3)
    one, other = Evaluator(algorithm, method).update(data), Evaluator(algorithm, method)
    observe_all(other, data)
    assert_same_bits(one, other)
    target = np.ones(algorithm.dimension)
    assert one.interval(target).to_dict() == other.interval(target).to_dict()


def test_many_observations_equal_one_update() -> None:
    rng = np.random.default_rng(0)
    n = 200_000
    state = rng.integers(3, size=n + 1)
    rewards, discounts = rng.random(n), np.where(rng.random(n) < 0.1, 0.0, 0.9)
    data = Transitions(state[:-1], rewards, state[1:], discounts)
    one, other = Evaluator(TD(3)).update(data), Evaluator(TD(3))
    for row in zip(state[:-1].tolist(), rewards.tolist(), state[1:].tolist(), discounts.tolist(), strict=True):
        other.observe(*row)
    assert_same_bits(one, other)


def test_observed_buffers_may_be_reused() -> None:
    data = PROBLEM.sample(100, seed=5)
    one, other = Evaluator(TD(2)).update(data), Evaluator(TD(2))
    buffer, after = np.empty(2), np.empty(2)
    for t in range(100):
        buffer[:], after[:] = data.features[t], data.next_features[t]
        other.observe(buffer, data.rewards[t], after, data.discounts[t], data.ratios[t])
    assert_same_bits(one, other)


def test_reading_does_not_disturb_the_stream() -> None:
    data = PROBLEM.sample(500, seed=1)
    for method in METHODS:
        quiet, watched = Evaluator(GTD2(2), method).update(data), Evaluator(GTD2(2), method)
        for start in range(0, 500, 7):
            watched.update(data[start : start + 7])
            watched.report([1.0, 0.0])
        assert_same_bits(quiet, watched)


def test_a_reading_counts_the_rows_that_wait() -> None:
    data = PROBLEM.sample(130, seed=1)
    evaluator = Evaluator(TD(2)).update(data)
    assert evaluator.interval([1.0, 0.0]).n == evaluator.n == 130
    evaluator.observe([1.0, 1.0], 0.0, [1.0, 1.0], 0.5)
    assert evaluator.interval([1.0, 0.0]).n == evaluator.n == 131


BAD_ROWS: list[tuple[dict[str, Any], type[InferlError], str]] = [
    ({"reward": np.nan}, DataError, "reward is nan"),
    ({"reward": np.inf}, DataError, "reward is inf"),
    ({"discount": 1.5}, DataError, "discount is 1.5"),
    ({"discount": -0.1}, DataError, r"discount is -0\.1"),
    ({"discount": np.nan}, DataError, "discount is nan"),
    ({"ratio": -1.0}, DataError, r"ratio is -1\.0"),
    ({"ratio": np.inf}, DataError, "ratio is inf"),
    ({"features": 9}, DataError, "features index is 9"),
    ({"next_features": 9}, DataError, "next_features index is 9"),
    ({"features": -1}, DataError, "features index is -1"),
    ({"features": [1.0, 0.0]}, ShapeError, "features"),
    ({"discount": 0.0, "last": False}, ContradictionError, "discount is 0"),
    ({"first": False}, ContradictionError, "first is False"),
]


@pytest.mark.parametrize(("bad", "error", "message"), BAD_ROWS, ids=[str(bad) for bad, _, _ in BAD_ROWS])
@pytest.mark.parametrize("method", [LeastSquares(), OnlineBootstrap(Polynomial(0.5), n_replicas=3)], ids=["ls", "ob"])
def test_a_bad_row_changes_nothing(bad: dict[str, Any], error: type[InferlError], message: str, method: Any) -> None:
    evaluator = Evaluator(TD(4), method)
    good: dict[str, Any] = {"features": 0, "reward": 1.0, "next_features": 1, "discount": 0.5, "last": True}
    for _ in range(70):
        evaluator.observe(**good)
    before = evaluator.copy()
    with pytest.raises(error, match=message):
        evaluator.observe(**(good | bad))
    assert_same_bits(before, evaluator)
    evaluator.observe(**good)
    assert evaluator.n == 71


def test_a_bad_chunk_changes_nothing() -> None:
    data = PROBLEM.sample(200, seed=1, tabular=True)
    evaluator = Evaluator(TD(4)).update(data)
    before = evaluator.copy()
    outside = Transitions([0, 1, 4], [0.0, 0.0, 0.0], [0, 0, 0], 0.5)
    with pytest.raises(DataError, match=r"row 2.*index is 4.*0 to 3"):
        evaluator.update(outside)
    with pytest.raises(ShapeError):
        evaluator.update(PROBLEM.sample(10, seed=1))
    with pytest.raises(ShapeError):
        evaluator.update(Increments.dense(np.eye(4), np.ones(4)))
    assert_same_bits(before, evaluator)


def test_levels_kinds_and_targets_are_checked() -> None:
    evaluator = Evaluator(TD(4)).update(PROBLEM.sample(100, seed=1, tabular=True))
    with pytest.raises(LevelError, match=r"did you mean 0\.95"):
        evaluator.interval(0, level=95)
    with pytest.raises(LevelError):
        evaluator.interval(0, level=0.0)
    for bad in (4, -1, 0.5, [1.0, 2.0], [np.nan] * 4, np.zeros((2, 2, 4))):
        with pytest.raises(TargetError):
            evaluator.interval(bad)
    dense = Evaluator(TD(2)).update(PROBLEM.sample(100, seed=1))
    with pytest.raises(TargetError, match="phi"):
        dense.interval(0)


def test_many_targets_are_one_interval() -> None:
    for method in METHODS:
        evaluator = Evaluator(TD(4), method).update(PROBLEM.sample(400, seed=1, tabular=True))
        many = evaluator.interval(np.eye(4)[:3])
        assert len(many) == 3
        for state, one in enumerate(many):
            single = evaluator.interval(state)
            assert (one.lower, one.estimate, one.upper) == pytest.approx((single.lower, single.estimate, single.upper))
        assert many.contains((many.lower + many.upper) / 2).all()


def test_gradient_algorithms_take_both_lengths_of_target() -> None:
    evaluator = Evaluator(GTD2(2), METHODS[2]).update(PROBLEM.sample(200, seed=1))
    assert evaluator.estimate([1.0, 2.0]) == evaluator.estimate([1.0, 2.0, 0.0, 0.0])


def test_large_or_nonlinear_problems_name_the_bootstrap() -> None:
    with pytest.raises(SettingError, match="OnlineBootstrap"):
        Evaluator(Linear(2001))
    with pytest.raises(SettingError, match="OnlineBootstrap"):
        Evaluator(Field(1, lambda theta, _: theta))


def test_a_source_is_a_stream_of_chunks() -> None:
    data = PROBLEM.sample(300, seed=1)
    chunks = (data[start : start + 11] for start in range(0, 300, 11))
    assert_same_bits(Evaluator(TD(2)).update(data), Evaluator(TD(2)).update(chunks))


def test_copies_are_independent() -> None:
    data = PROBLEM.sample(300, seed=1)
    evaluator = Evaluator(TD(2)).update(data)
    twin = evaluator.copy()
    twin.update(data)
    assert (evaluator.n, twin.n) == (300, 600)
    assert_same_bits(evaluator, Evaluator(TD(2)).update(data))


def test_files_of_something_else_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "run"
    Evaluator(TD(2)).update(PROBLEM.sample(100, seed=1)).save(path)
    assert Evaluator.load(path, algorithm=TD(2)).algorithm == TD(2)
    with pytest.raises(CheckpointMismatchError, match="TD"):
        Evaluator.load(path, algorithm=GTD2(2))
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(CheckpointCorruptError):
        Evaluator.load(path)
    with pytest.raises(FileNotFoundError):
        Evaluator.load(tmp_path / "nothing")


def test_backend_and_threads_of_a_loaded_evaluator(tmp_path: Path) -> None:
    path = tmp_path / "run"
    Evaluator(TD(2)).update(PROBLEM.sample(100, seed=1)).save(path)
    assert Evaluator.load(path, backend="reference").backend.name == "reference"
    with pytest.raises(SettingError, match="no backend 'abacus'"):  # the file is sound
        Evaluator.load(path, backend="abacus")
    with pytest.raises(SettingError, match="threads is 0; give 1 or more"):
        Evaluator.load(path, threads=0)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"algorithm": TD}, r"algorithm is a type; give one with its settings, such as TD\(4\)"),
        ({"algorithm": 4}, "algorithm is 4"),
        ({"method": LeastSquares}, "method is a type; give one with its settings"),
        ({"method": "bootstrap"}, "method is 'bootstrap'"),
        ({"backend": np}, "backend is a module; give a name, such as 'auto', or a Backend"),
        ({"backend": None}, "backend is None"),
        ({"threads": 1.5}, "threads is 1.5; give 1 or more"),
    ],
)
def test_parts_of_another_kind_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        Evaluator(**({"algorithm": TD(2)} | wrong))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("n", [0, 1, 2, 300])
def test_covariance_agrees_with_the_intervals(method: Any, n: int) -> None:
    evaluator = Evaluator(TD(4), method)
    if n:
        evaluator.update(PROBLEM.sample(n, seed=1, tabular=True))
    for target in (0, np.eye(4), np.ones(4)):
        interval, matrix = evaluator.interval(target), evaluator.covariance(target)
        error = np.atleast_1d(interval.standard_error)
        np.testing.assert_allclose(np.diagonal(matrix), error**2, rtol=1e-6)
        known = np.isfinite(error)
        apart = ~np.eye(len(error), dtype=bool)
        np.testing.assert_array_equal(np.isfinite(matrix)[apart], np.outer(known, known)[apart])
    with pytest.raises(SettingError, match="not read jointly") if n and method in METHODS[:2] else nullcontext():
        evaluator.read(np.eye(4)).covariance()


def test_a_field_is_supplied_again_when_loading(tmp_path: Path) -> None:
    field = Field(2, lambda theta, transition: transition.reward - theta)
    evaluator = Evaluator(field, METHODS[2]).update(PROBLEM.sample(100, seed=1))
    evaluator.save(tmp_path / "run")
    with pytest.raises(CheckpointMismatchError, match="algorithm=Field"):
        Evaluator.load(tmp_path / "run")
    assert_same_bits(evaluator, Evaluator.load(tmp_path / "run", algorithm=field))


def test_report_says_what_it_speaks_of() -> None:
    tabular = Evaluator(TD(4)).update(PROBLEM.sample(400, seed=1, tabular=True)).report(0)
    linear = Evaluator(TD(2)).update(PROBLEM.sample(400, seed=1)).report([1.0, 0.0])
    assert (
        tabular.interval.estimand
        == tabular.facts["estimand"]
        == "the value at given features: the projected fixed point"
    )
    assert "projected fixed point" in str(linear)
    assert str(tabular).splitlines()[0].endswith("95% pointwise, 400 transitions")
    assert {check.name for check in tabular.checks} == {
        "divergence",
        "convergence",
        "dependence",
        "length",
        "rarity",
        "mean ratio",
        "ratios",
        "identification",
        "drift",
        "features",
        "ends",
        "range",
    }
    import json

    assert json.loads(json.dumps(tabular.to_dict()))["interval"]["n"] == 400


def test_delayed_rows_are_folded_when_their_window_closes() -> None:
    data = PROBLEM.sample(200, seed=1)
    evaluator = Evaluator(NStepTD(2, n=4)).update(data)
    open_rows = 0
    for t in range(199, 195, -1):
        if data.last[t]:
            break
        open_rows += 1
    assert evaluator.interval([1.0, 0.0]).n == 200 - min(open_rows, 3)


def test_public_names_are_importable() -> None:
    for name in inferl.__all__:
        assert getattr(inferl, name) is not None
    assert set(inferl._HOME) <= set(inferl.__all__)
    with pytest.raises(AttributeError):
        inferl.nothing  # noqa: B018
    assert "Evaluator" in dir(inferl)


def test_linear_takes_increments_in_any_cutting() -> None:
    rng = np.random.default_rng(1)
    chunk = Increments.dense(np.eye(2) + 0.1 * rng.normal(size=(300, 2, 2)), rng.normal(size=(300, 2)))
    one, other = Evaluator(Linear(2)).update(chunk), Evaluator(Linear(2))
    for start in range(0, 300, 17):
        other.update(chunk[start : start + 17])
    assert_same_bits(one, other)
