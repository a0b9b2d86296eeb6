"""BLAS has one thread while an evaluator works, and as many as before afterwards (finding B12)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest
import scipy.linalg  # noqa: F401  its BLAS is loaded before the test counts
from threadpoolctl import OpenBLASController, ThreadpoolController

from inferl import Evaluator, Transitions
from inferl.algorithms import TD, Carry
from inferl.data.increments import Increments
from inferl.data.streams import Clock, Steps
from inferl.engine.blas import one_blas_thread


def numbers() -> list[int]:
    return [library.num_threads for library in ThreadpoolController().select(user_api="blas").lib_controllers]


def give(threads: Iterable[int]) -> None:
    libraries = ThreadpoolController().select(user_api="blas").lib_controllers
    for library, number in zip(libraries, threads, strict=True):
        library.set_num_threads(number)
    OpenBLASController.clear_controlling_thread()


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    """Two threads for each library, set as a user's own code may have done before."""
    before = numbers()
    give([2] * len(before))
    if set(numbers()) != {2}:
        pytest.skip("this BLAS cannot be given two threads")
    yield
    give(before)


class Watching(TD):
    """TD that notes the number of BLAS threads while it computes increments."""

    def increments(self, steps: Steps, carry: Carry) -> tuple[Increments, Clock, Carry]:
        SEEN.append(numbers())
        return super().increments(steps, carry)


SEEN: list[list[int]] = []


def test_an_evaluator_works_with_one_thread_and_restores_the_others() -> None:
    SEEN.clear()
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 3))
    evaluator = Evaluator(Watching(3)).update(Transitions(x, x[:, 0], x, 0.5))
    evaluator.interval(np.ones(3))
    assert SEEN
    assert {number for seen in SEEN for number in seen} == {1}
    assert set(numbers()) == {2}


def test_an_error_restores_the_threads() -> None:
    with pytest.raises(ZeroDivisionError), one_blas_thread():
        raise ZeroDivisionError
    assert set(numbers()) == {2}


def test_blocks_in_several_threads_leave_the_number_that_was_there() -> None:
    """The block that opens second must not take the 1 of the first for what was there before."""
    first_is_in, second_is_in, first_is_out = Barrier(2, timeout=10), Barrier(2, timeout=10), Barrier(2, timeout=10)

    def first() -> None:
        with one_blas_thread():
            first_is_in.wait()
            second_is_in.wait()
        first_is_out.wait()

    def second() -> None:
        first_is_in.wait()
        with one_blas_thread():
            second_is_in.wait()
            first_is_out.wait()
            assert set(numbers()) == {1}

    with ThreadPoolExecutor(2) as pool:
        for done in (pool.submit(first), pool.submit(second)):
            done.result()
    assert set(numbers()) == {2}


def test_bits_do_not_depend_on_the_number_of_threads() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(2000, 128))
    data = Transitions(x, x[:, 0], np.roll(x, -1, axis=0), 0.9)
    many = Evaluator(TD(128)).update(data).interval(x[0])
    give([1] * len(numbers()))
    one = Evaluator(TD(128)).update(data).interval(x[0])
    assert many.to_dict() == one.to_dict()
