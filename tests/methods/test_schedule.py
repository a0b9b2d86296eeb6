"""A chunk is taken in as a whole or, if anything raises while it is worked on, not at all."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest
from mdps import small_problem

from inferl import engine
from inferl.algorithms import TD, Carry, Field, Linear
from inferl.data.increments import Increments
from inferl.data.streams import Clock, Steps
from inferl.data.transitions import Transitions
from inferl.data.vectors import Sparse
from inferl.errors import BrokenError, InputError
from inferl.evaluator import Evaluator
from inferl.methods import schedule as schedule
from inferl.methods.bootstrap import OnlineBootstrap
from inferl.methods.least_squares import LeastSquares
from inferl.methods.step_sizes import Polynomial
from inferl.testing import assert_same_bits

PROBLEM = small_problem()
BOOTSTRAP = OnlineBootstrap(Polynomial(0.5), n_replicas=4)
RAISED: list[type[BaseException]] = [ValueError, MemoryError, KeyboardInterrupt]


class Fuse:
    """Raises at the n-th call after it was lit."""

    def __init__(self, error: type[BaseException]) -> None:
        self.error = error
        self.left: int | None = None

    def __call__(self) -> None:
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise self.error("as arranged")


@contextmanager
def unchanged(evaluator: Evaluator, error: type[BaseException]) -> Iterator[None]:
    before = evaluator.copy()
    with pytest.raises(error):
        yield
    assert evaluator.n == before.n
    assert evaluator.fingerprint == before.fingerprint
    assert_same_bits(before, evaluator)


@pytest.mark.parametrize("error", RAISED)
@pytest.mark.parametrize("calls", [0, 63, 64, 300])
def test_a_function_that_raises_leaves_a_field_as_it_was(error: type[BaseException], calls: int) -> None:
    fuse = Fuse(error)

    def function(theta: Any, transition: Any) -> Any:
        fuse()
        return transition.reward - theta

    data = PROBLEM.sample(700, seed=2)
    evaluator = Evaluator(Field(1, function, n_features=2), BOOTSTRAP).update(data[:100])
    fuse.left = calls
    with unchanged(evaluator, error):
        evaluator.update(data[100:])
    fuse.left = None
    whole = Evaluator(Field(1, function, n_features=2), BOOTSTRAP).update(data)
    assert_same_bits(whole, evaluator.update(data[100:]))


@pytest.mark.parametrize("error", RAISED)
@pytest.mark.parametrize("long", [False, True])
@pytest.mark.parametrize("method", [LeastSquares(), LeastSquares("episode"), BOOTSTRAP])
def test_an_algorithm_that_raises_in_a_later_run_leaves_sums_as_they_were(
    error: type[BaseException], long: bool, method: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = replace(engine.backend_named("auto"), run=256)  # 128 rows
    monkeypatch.setattr(schedule, "MANY_ROWS", 100 if long else 1000)
    monkeypatch.setattr("inferl.variance.first_epoch.MOST_KEPT", 0)
    fuse = Fuse(error)

    class Mine(TD):
        def increments(self, steps: Steps, carry: Carry) -> tuple[Increments, Clock, Carry]:
            fuse()
            return super().increments(steps, carry)

    data = PROBLEM.sample(900, seed=2)
    evaluator = Evaluator(Mine(2, trace=0.5), method, threads=1, backend=few).update(data[:150])
    fuse.left = 3
    with unchanged(evaluator, error):
        evaluator.update(data[150:])
    fuse.left = None
    assert_same_bits(Evaluator(Mine(2, trace=0.5), method).update(data), evaluator.update(data[150:]))


@pytest.mark.parametrize("method", [LeastSquares(), BOOTSTRAP])
def test_sums_that_run_out_of_memory(method: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A long chunk is worked on in a copy. In a short one sums are left half-changed, and nobody may read them."""
    data = PROBLEM.sample(700, seed=2)
    long, short = (Evaluator(TD(2), method).update(data[:100]) for _ in range(2))
    advance: Callable[..., Any] = LeastSquares.fold
    fuse = Fuse(MemoryError)

    def failing(*arguments: Any) -> Any:
        advance(*arguments)
        fuse()

    monkeypatch.setattr(LeastSquares, "fold", failing)
    fuse.left = 0
    monkeypatch.setattr(schedule, "MANY_ROWS", 500)
    before = short.copy()
    with unchanged(long, MemoryError):
        long.update(data[100:])
    with pytest.raises(MemoryError):
        short.update(data[100:300])
    fuse.left = None
    uses: list[Callable[[], object]] = [
        lambda: short.update(data[300:]),
        lambda: short.observe(data.features[0], 0.0, data.features[1], 0.5),
        lambda: short.interval([1.0, 0.0]),
        lambda: short.report([1.0, 0.0]),
        lambda: short.save("nowhere"),
        lambda: short.fingerprint,
        short.copy,
    ]
    for use in uses:
        with pytest.raises(BrokenError, match="cut off half-way"):
            use()
    assert_same_bits(long.update(data[100:]), before.update(data[100:]))


def test_an_interrupt_while_sums_change_comes_after_the_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    data = PROBLEM.sample(700, seed=2)
    whole, evaluator, observed = (Evaluator(TD(2)).update(data[:100]) for _ in range(3))
    whole.update(data[100:])
    for t in range(100, 700):
        observed.observe(data.features[t], data.rewards[t], data.next_features[t], data.discounts[t], data.ratios[t])
    advance: Callable[..., Any] = LeastSquares.fold

    def interrupted(*arguments: Any) -> Any:
        os.kill(os.getpid(), signal.SIGINT)
        return advance(*arguments)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore the signal
    monkeypatch.setattr(LeastSquares, "fold", interrupted)
    try:
        for use in (lambda: evaluator.update(data[100:]), lambda: observed.fingerprint):
            with pytest.raises(KeyboardInterrupt):
                use()
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    monkeypatch.undo()
    assert evaluator.n == observed.n == 700
    assert_same_bits(whole, evaluator)
    assert_same_bits(whole, observed)


@pytest.mark.parametrize("error", RAISED)
def test_observed_steps_wait_until_the_work_on_them_is_done(error: type[BaseException]) -> None:
    fuse = Fuse(error)

    def function(theta: Any, transition: Any) -> Any:
        fuse()
        return transition.reward - theta

    field = Field(1, function, n_features=2)
    data = PROBLEM.sample(300, seed=2)
    evaluator, whole = Evaluator(field, BOOTSTRAP), Evaluator(field, BOOTSTRAP).update(data)
    fuse.left = 200
    for t in range(300):
        evaluator.observe(data.features[t], data.rewards[t], data.next_features[t], data.discounts[t], data.ratios[t])
    assert evaluator.n == 300
    for _ in range(2):
        with pytest.raises(error):
            evaluator.interval([1.0])
        assert evaluator.n == 300
        fuse.left = 0
    fuse.left = None
    assert_same_bits(whole, evaluator)


def test_a_step_that_finds_no_room_is_not_taken() -> None:
    few = replace(engine.backend_named("auto"), run=128)  # 64 rows
    fuse = Fuse(ValueError)

    def function(theta: Any, transition: Any) -> Any:
        fuse()
        return transition.reward - theta

    data = PROBLEM.sample(200, seed=2)
    field = Field(1, function, n_features=2)
    evaluator, whole = Evaluator(field, BOOTSTRAP, backend=few), Evaluator(field, BOOTSTRAP).update(data)
    t, refused = 0, 0
    fuse.left = 20
    while t < 200:
        try:
            evaluator.observe(
                data.features[t], data.rewards[t], data.next_features[t], data.discounts[t], data.ratios[t]
            )
            t += 1
        except ValueError:
            refused += 1
            assert evaluator.n == t
            fuse.left = None if refused == 3 else 0
    assert refused == 3
    assert_same_bits(whole, evaluator)


ONE = np.ones((70, 1, 2))
GOOD: dict[str, Any] = {"u": ONE, "v": ONE, "c": np.ones((70, 1)), "damping": np.zeros(2), "scale": np.ones(70)}
SPARSE = Sparse(np.zeros((70, 1, 1), np.int64), np.ones((70, 1, 1)), 2)
BAD: dict[str, dict[str, Any]] = {
    "u of three parameters": {"u": np.ones((70, 1, 3))},
    "v of two terms": {"v": np.ones((70, 2, 2))},
    "u of fewer rows": {"u": ONE[:69]},
    "c as a vector": {"c": np.ones(70)},
    "no terms": {"u": ONE[:, :0], "v": ONE[:, :0], "c": np.ones((70, 0))},
    "c of integers": {"c": np.ones((70, 1), int)},
    "c as a list": {"c": [[1.0]] * 70},
    "c is NaN": {"c": np.full((70, 1), np.nan)},
    "u is infinite": {"u": ONE * np.inf},
    "masked v": {"v": np.ma.array(ONE, mask=True)},
    "damping of three": {"damping": np.zeros(3)},
    "damping is a number": {"damping": 0.0},
    "negative damping": {"damping": np.array([0.0, -1.0])},
    "scale too short": {"scale": np.ones(3)},
    "scale is NaN": {"scale": np.full(70, np.nan)},
    "nothing": {"u": None, "v": None},
    "sparse beyond the table": {"u": Sparse(SPARSE.index + 2, SPARSE.value, 2), "v": SPARSE},
    "sparse of another size": {"u": Sparse(SPARSE.index, SPARSE.value, 3), "v": SPARSE},
    "sparse with an index for each row only": {"u": Sparse(SPARSE.index[:, 0], SPARSE.value, 2), "v": SPARSE},
    "sparse with a negative index": {"u": Sparse(SPARSE.index - 1, SPARSE.value, 2), "v": SPARSE},
    "sparse with real indices": {"u": Sparse(cast(Any, SPARSE.value), SPARSE.value, 2), "v": SPARSE},
}


@pytest.mark.parametrize("method", [LeastSquares(), BOOTSTRAP])
@pytest.mark.parametrize("change", BAD.values(), ids=BAD)
def test_increments_that_do_not_fit_are_refused_before_any_work(change: dict[str, Any], method: Any) -> None:
    evaluator = Evaluator(Linear(2), method).update(Increments(**GOOD))
    with unchanged(evaluator, InputError):
        evaluator.update(Increments(**(GOOD | change)))


def test_increments_that_fit_are_taken() -> None:
    rng = np.random.default_rng(0)
    u = rng.normal(size=(70, 1, 2))
    whole = Increments(u, u, rng.normal(size=(70, 1)), np.zeros(2), np.ones(70))
    assert np.isfinite(Evaluator(Linear(2)).update(whole).estimate([1.0, 0.0]))
    both = Sparse(np.tile([0, 1], (70, 1, 1)), u, 2)
    sparse = Increments(both, both, whole.c, np.zeros(2), np.ones(70))
    assert Evaluator(Linear(2)).update(sparse).estimate([1.0, 0.0]) == pytest.approx(
        Evaluator(Linear(2)).update(whole).estimate([1.0, 0.0])
    )


def test_increments_keep_to_one_form() -> None:
    """Rows of several chunks are worked on together: with another number of terms, or another damping, they cannot."""
    rng = np.random.default_rng(0)
    dense = Increments.dense(np.tile(np.eye(2), (70, 1, 1)), rng.normal(size=(70, 2)))
    damped = Increments(**(GOOD | {"damping": np.ones(2)}))
    sparse = Increments(**(GOOD | {"u": SPARSE, "v": SPARSE}))
    forms = [dense, Increments(**GOOD), damped, sparse]
    for first in forms:
        for method in (LeastSquares(), BOOTSTRAP):
            evaluator = Evaluator(Linear(2), method).update(first)
            for second in forms:
                if second is not first:
                    with unchanged(evaluator, InputError):
                        evaluator.update(second)
            assert evaluator.update(first).n == 140


def test_a_chunk_of_another_kind_changes_nothing() -> None:
    evaluator = Evaluator(TD(2)).update(PROBLEM.sample(100, seed=1))
    other: list[Transitions] = [PROBLEM.sample(10, seed=1, tabular=True), PROBLEM.sample(10, seed=1)[:0]]
    for chunk in other:
        with unchanged(evaluator, InputError):
            evaluator.update(chunk)
