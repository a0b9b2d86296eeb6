"""The contract: what every algorithm must satisfy, as functions that raise if it does not.

`check_algorithm` is the finish line for a new algorithm: it knows nothing of how increments are computed.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from dataclasses import fields, is_dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from inferl.algorithms import Algorithm
from inferl.data.increments import GradientIncrements, Increments
from inferl.data.streams import Streams
from inferl.data.transitions import Transitions
from inferl.engine.multipliers import LAWS, Law, Multipliers
from inferl.evaluator import Evaluator
from inferl.methods.bootstrap import BootstrapState, OnlineBootstrap
from inferl.methods.least_squares import LeastSquares
from inferl.methods.step_sizes import Polynomial

BOOTSTRAP = OnlineBootstrap(Polynomial(0.5, cap=0.1), n_replicas=5, seed=3)

Data = Transitions | Increments


def check_algorithm(algorithm: Algorithm, data: Data) -> None:
    """Run the whole contract on at least 300 rows of data."""
    assert len(data) >= 300
    check_inputs_untouched(algorithm, data)
    check_affine(algorithm, data)
    check_value_form(algorithm, data)
    check_unit_multipliers(algorithm, data)
    check_shards(algorithm, data)
    for method in (BOOTSTRAP, *([LeastSquares()] if algorithm.affine else [])):
        for rows in (0, 8192):  # with several epochs of least squares, and with one whose rows are kept
            with mock.patch("inferl.variance.first_epoch.MOST_KEPT", rows):
                check_chunks(algorithm, method, data, cuts=(1, 2, 63, 64, 65, 130, 200))
                check_chunks(algorithm, method, data, cuts=range(1, len(data)))
                check_resume(algorithm, method, data, stop=97)
                check_resume(algorithm, method, data, stop=257)
        check_flat_memory(algorithm, method, data)


def arrays_of(tree: Any) -> list[np.ndarray[Any, Any]]:
    """All arrays and numbers inside nested dataclasses, dicts and tuples."""
    if isinstance(tree, np.ndarray):
        return [tree]
    if isinstance(tree, bool | int | float):
        return [np.asarray(tree)]
    if isinstance(tree, dict):
        return [array for key in sorted(tree) for array in arrays_of(tree[key])]
    if isinstance(tree, tuple | list):
        return [array for item in tree for array in arrays_of(item)]
    if is_dataclass(tree):
        return [array for field in fields(tree) for array in arrays_of(getattr(tree, field.name))]
    return []


def assert_same_bits(one: Evaluator, other: Evaluator) -> None:
    """Two evaluators hold the same state, to the last bit."""
    one, other = one.copy(), other.copy()  # a copy has gathered what was observed
    left, right = arrays_of(one._state), arrays_of(other._state)
    assert len(left) == len(right)
    for a, b in zip(left, right, strict=True):
        assert a.shape == b.shape
        assert a.tobytes() == b.tobytes()


def evaluated(algorithm: Algorithm, method: Any, data: Data, cuts: Sequence[int] = ()) -> Evaluator:
    evaluator = Evaluator(algorithm, method)
    borders = [0, *cuts, len(data)]
    for start, stop in pairwise(borders):
        evaluator.update(data[start:stop])
    return evaluator


def check_chunks(algorithm: Algorithm, method: Any, data: Data, cuts: Sequence[int]) -> None:
    """Any cutting of the stream gives the same bits."""
    assert_same_bits(evaluated(algorithm, method, data), evaluated(algorithm, method, data, cuts))


def check_resume(algorithm: Algorithm, method: Any, data: Data, stop: int) -> None:
    """A run that was saved, loaded and continued has the bits of a run never stopped."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run"
        evaluated(algorithm, method, data[:stop]).save(path)
        resumed = Evaluator.load(path, algorithm).update(data[stop:])
    assert_same_bits(evaluated(algorithm, method, data), resumed)


def check_inputs_untouched(algorithm: Algorithm, data: Data) -> None:
    """Working on data does not change it."""
    before = [array.copy() for array in arrays_of(data)]
    evaluated(algorithm, BOOTSTRAP, data)
    for old, new in zip(before, arrays_of(data), strict=True):
        np.testing.assert_array_equal(old, new)


def written_out(increments: Any) -> Any:
    """Terms over all parameters, where an algorithm keeps them in a shorter form."""
    return increments.expanded() if isinstance(increments, GradientIncrements) else increments


def increments_of(algorithm: Algorithm, data: Data) -> Any:
    _, steps = Streams().place(data)
    return written_out(algorithm.increments(steps, {})[0])


def check_affine(algorithm: Algorithm, data: Data) -> None:
    """at(theta) = vector - matrix theta."""
    if not algorithm.affine:
        return
    increments = increments_of(algorithm, data)
    theta = np.random.default_rng(0).normal(size=algorithm.n_parameters)
    np.testing.assert_allclose(
        increments.at(theta), increments.vector() - increments.matrix() @ theta, rtol=1e-12, atol=1e-12
    )


def check_value_form(algorithm: Algorithm, data: Data) -> None:
    """Where the mean increment vanishes, the mean of the value form does too, in the first d parameters."""
    if not algorithm.affine:
        return
    increments = increments_of(algorithm, data)
    both = np.linalg.solve(increments.matrix().mean(axis=0), increments.vector().mean(axis=0))
    reduced = algorithm.value_form(increments)
    theta = np.linalg.solve(reduced.matrix().mean(axis=0), reduced.vector().mean(axis=0))
    chosen = algorithm.pad(np.eye(algorithm.dimension)) @ both
    np.testing.assert_allclose(chosen, theta, rtol=1e-8, atol=1e-10)
    _, steps = Streams().place(data)
    short = algorithm.value_form(algorithm.increments(steps, {})[0])
    theta = np.linalg.solve(short.matrix().mean(axis=0), short.vector().mean(axis=0))
    np.testing.assert_allclose(chosen, theta, rtol=1e-8, atol=1e-10)


def check_unit_multipliers(algorithm: Algorithm, data: Data) -> None:
    """If all multipliers are 1, all rows are equal."""
    ones = Law(1.0, 4, lambda word, tick: np.ones(word.shape))
    with mock.patch.dict(LAWS, {"ones": ones}):
        state = evaluated(algorithm, replace(BOOTSTRAP, multipliers=Multipliers("ones")), data)._state.method
    assert isinstance(state, BootstrapState)
    np.testing.assert_array_equal(state.iterate, np.repeat(state.iterate[:, :1], 6, axis=1))
    np.testing.assert_array_equal(state.average_offset, np.repeat(state.average_offset[:, :1], 6, axis=1))
    assert np.abs(state.iterate).max() > 0


def check_shards(algorithm: Algorithm, data: Data) -> None:
    """Replicas split over evaluators are the same rows, bit for bit."""
    whole = evaluated(algorithm, replace(BOOTSTRAP, n_replicas=7), data)._state.method
    parts = [
        evaluated(algorithm, replace(BOOTSTRAP, n_replicas=n, first_replica=first), data)._state.method
        for first, n in ((0, 2), (2, 3), (5, 2))
    ]
    assert isinstance(whole, BootstrapState)
    for name in ("iterate", "average_offset"):
        rows = [getattr(part, name)[:, 1:] for part in parts]
        joined = np.concatenate([getattr(parts[0], name)[:, :1], *rows], axis=1)
        assert joined.tobytes() == np.ascontiguousarray(getattr(whole, name)).tobytes()


@mock.patch("inferl.variance.first_epoch.MOST_KEPT", 0)  # what is kept stops growing early
def check_flat_memory(algorithm: Algorithm, method: Any, data: Data) -> None:
    """What is kept does not grow with the stream (least squares adds a block level at each doubling)."""

    def size(evaluator: Evaluator) -> int:
        return sum(sys.getsizeof(array.tobytes()) for array in arrays_of(evaluator.copy()._state))

    evaluator = evaluated(algorithm, method, data)
    for _ in range(3):
        evaluator.update(data)
    early = size(evaluator)
    for _ in range(12):
        evaluator.update(data)
    levels = 0 if isinstance(method, OnlineBootstrap) and not method.companion else 6
    allowance = levels * 8 * (algorithm.dimension + 2) ** 2 * 2
    assert size(evaluator) <= early + allowance + 64 * len(data)
