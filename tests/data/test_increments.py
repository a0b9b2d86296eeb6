"""Increments: H(theta) = sum of u (c - v . theta) - damping theta = b - A theta; sparse, dense, or user-built."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferl.data.arrays import Floats
from inferl.data.increments import Increments
from inferl.data.vectors import Sparse, dense
from inferl.errors import DataError, ShapeError


@st.composite
def increments(draw: st.DrawFn, sparse: bool = True) -> Increments:
    steps, n_terms, p, m = (draw(st.integers(1, most)) for most in (4, 3, 4, 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))

    def vectors() -> Sparse:
        return Sparse(rng.integers(p, size=(steps, n_terms, m)), rng.normal(size=(steps, n_terms, m)), p)

    u, v = vectors(), vectors()
    c, damping, scale = rng.normal(size=(steps, n_terms)), rng.random(p), rng.random(steps)
    return Increments(u if sparse else dense(u), v if sparse else dense(v), c, damping, scale)


def with_zeros(x: Increments) -> Increments:
    return Increments(dense(x.u), dense(x.v), x.c, x.damping, x.scale)


def by_loops(x: Increments, theta: Floats) -> list[list[float]]:
    """H_t(theta) from its definition, one number at a time."""
    u, v, p = dense(x.u).tolist(), dense(x.v).tolist(), x.n_parameters
    result = []
    for t in range(len(x)):
        h = [-float(x.damping[i] * theta[i]) for i in range(p)]
        for k in range(x.n_terms):
            error = float(x.c[t, k]) - sum(v[t][k][j] * float(theta[j]) for j in range(p))
            h = [h[i] + u[t][k][i] * error for i in range(p)]
        result.append(h)
    return result


@given(x=increments(), seed=st.integers(0, 2**32 - 1))
def test_at_is_its_definition_and_vector_minus_matrix_theta(x: Increments, seed: int) -> None:
    theta = np.random.default_rng(seed).normal(size=x.n_parameters)
    expected = by_loops(x, theta)
    for form in (x, with_zeros(x)):
        np.testing.assert_allclose(form.at(theta), expected, rtol=0, atol=1e-12)
        np.testing.assert_allclose(form.vector() - form.matrix() @ theta, expected, rtol=0, atol=1e-12)


@given(x=increments())
def test_sparse_and_dense_write_out_the_same(x: Increments) -> None:
    full = with_zeros(x)
    p = x.n_parameters
    assert x.matrix().shape == (len(x), p, p)
    assert x.vector().shape == (len(x), p)
    np.testing.assert_allclose(x.matrix(), full.matrix(), rtol=0, atol=1e-14)
    np.testing.assert_allclose(x.vector(), full.vector(), rtol=0, atol=1e-14)


@given(x=increments(), data=st.data())
def test_rows_are_cut_and_joined(x: Increments, data: st.DataObject) -> None:
    stop = data.draw(st.integers(0, len(x)))
    joined = Increments.join([x[:stop], x[stop:]])
    assert np.array_equal(joined.matrix(), x.matrix())
    assert np.array_equal(joined.vector(), x.vector())
    assert np.array_equal(joined.scale, x.scale)
    assert joined.damping is x.damping


@given(x=increments(), data=st.data())
def test_part_is_the_block_of_some_terms_and_coordinates(x: Increments, data: st.DataObject) -> None:
    term = data.draw(st.integers(0, x.n_terms - 1))
    n_terms = data.draw(st.integers(1, x.n_terms - term))
    offset = data.draw(st.integers(0, x.n_parameters - 1))
    width = data.draw(st.integers(1, x.n_parameters - offset))
    chosen, block = slice(term, term + n_terms), slice(offset, offset + width)
    u, v = dense(x.u)[:, chosen, block], dense(x.v)[:, chosen, block]
    for form in (x, with_zeros(x)):
        part = form.part(term, n_terms, offset, width)
        assert (part.n_terms, part.n_parameters) == (n_terms, width)
        expected = (u[..., :, None] * v[..., None, :]).sum(axis=1) + np.diag(x.damping[block])
        np.testing.assert_allclose(part.matrix(), expected, rtol=0, atol=1e-14)
        np.testing.assert_allclose(part.vector(), (u * x.c[:, chosen, None]).sum(axis=1), rtol=0, atol=1e-14)
        assert np.array_equal(part.scale, x.scale)


def test_dense_takes_steps_as_they_are() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(5, 3, 3)), rng.normal(size=(5, 3))
    x = Increments.dense(a, b)
    assert (len(x), x.n_terms, x.n_parameters) == (5, 3, 3)
    assert np.array_equal(x.matrix(), a)
    assert np.array_equal(x.vector(), b)
    theta = rng.normal(size=3)
    np.testing.assert_allclose(x.at(theta), b - a @ theta, rtol=0, atol=1e-14)
    np.testing.assert_allclose(x.scale, [np.linalg.svd(step)[1].max() for step in a], rtol=1e-12)


def test_dense_takes_one_step_and_lists() -> None:
    one = Increments.dense([[1, 2], [3, 4]], [5, 6], scale=7)
    assert one.matrix().tolist() == [[[1.0, 2.0], [3.0, 4.0]]]
    assert one.vector().tolist() == [[5.0, 6.0]]
    assert one.scale.tolist() == [7.0]


def test_dense_copies() -> None:
    a, b, scale = np.ones((2, 1, 1)), np.ones((2, 1)), np.ones(2)
    x = Increments.dense(a, b, scale)
    for array in (a, b, scale):
        array[...] = 9
    assert (x.matrix().max(), x.vector().max(), x.scale.max()) == (1.0, 1.0, 1.0)


NAN, INF = float("nan"), float("inf")
EYES = np.stack([np.eye(2)] * 3)


BAD_SHAPES: dict[str, tuple[Any, Any, Any]] = {
    "numbers": (1.0, 2.0, None),
    "not square": (np.ones((3, 2)), np.ones(3), None),
    "vector too long": (np.eye(2), np.ones(3), None),
    "one matrix, several vectors": (np.eye(2), np.ones((3, 2)), None),
    "several matrices, one vector": (EYES, np.ones(2), None),
    "another number of steps": (EYES, np.ones((4, 2)), None),
    "no step": (np.zeros((0, 2, 2)), np.zeros((0, 2)), None),
    "no parameter": (np.zeros((0, 0)), np.zeros(0), None),
    "ragged": ([[1.0, 2.0], [3.0]], [1.0, 2.0], None),
    "text": ([["a", "b"], ["c", "d"]], [1.0, 2.0], None),
    "scale of another length": (EYES, np.ones((3, 2)), np.ones(2)),
}


@pytest.mark.parametrize(("matrix", "vector", "scale"), BAD_SHAPES.values(), ids=BAD_SHAPES)
def test_dense_refuses_shapes(matrix: Any, vector: Any, scale: Any) -> None:
    with pytest.raises(ShapeError):
        Increments.dense(matrix, vector, scale)


@pytest.mark.parametrize("bad", [NAN, INF, -INF])
def test_dense_names_a_bad_entry(bad: float) -> None:
    a, b = EYES.copy(), np.ones((3, 2))
    a[1, 0, 1] = bad
    with pytest.raises(DataError, match=rf"^row 1: matrix entry \(0, 1\) is {bad}; .*repair"):
        Increments.dense(a, b)
    b[2, 1] = bad
    with pytest.raises(DataError, match=rf"^row 2: vector entry \(1,\) is {bad}; .*repair"):
        Increments.dense(EYES, b)


@pytest.mark.parametrize("bad", [NAN, INF, -1.0])
def test_dense_names_a_bad_scale(bad: float) -> None:
    with pytest.raises(DataError, match=rf"^row 1: scale is {bad}"):
        Increments.dense(EYES, np.ones((3, 2)), [1.0, bad, 1.0])
