"""Sparse and dense vectors: every operation agrees with plain NumPy on both."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferl.data.arrays import Floats
from inferl.data.vectors import (
    Sparse,
    Vectors,
    dense,
    embed,
    one_hot,
    scale,
    side_by_side,
    slice_of,
    squared_norm,
    subtract,
    terms,
)


def written_out(x: Sparse) -> Floats:
    """Convert to a dense array, entry by entry."""
    full = np.zeros((*x.index.shape[:-1], x.size))
    for place in np.ndindex(*x.index.shape):
        full[(*place[:-1], int(x.index[place]))] += x.value[place]
    return full


@st.composite
def sparse(draw: st.DrawFn, shape: tuple[int, ...] = (3,), size: int = 4, distinct: bool = False) -> Sparse:
    m = draw(st.integers(1, size if distinct else 5))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    if distinct:
        index = np.argsort(rng.random((*shape, size)), axis=-1)[..., :m]
    else:
        index = rng.integers(size, size=(*shape, m))  # repeated indices are likely
    return Sparse(index, rng.normal(size=(*shape, m)).round(2), size)


def agree(operation: Callable[..., Vectors], expected: Floats, *arguments: Sparse) -> None:
    """Compare an operation on every mix of sparse and dense arguments with the expected numbers."""
    for mask in range(2 ** len(arguments)):
        mixed = [written_out(x) if mask >> i & 1 else x for i, x in enumerate(arguments)]
        result = operation(*mixed)
        assert isinstance(result, Sparse) == (mask == 0)
        np.testing.assert_allclose(dense(result), expected, rtol=0, atol=1e-14)


@given(x=sparse() | sparse((2, 3)))
def test_dense_adds_entries_with_the_same_index(x: Sparse) -> None:
    np.testing.assert_allclose(dense(x), written_out(x), rtol=0, atol=1e-14)
    full = written_out(x)
    assert dense(full) is full


def test_one_hot_is_a_unit_vector_a_row() -> None:
    x = one_hot(np.array([2, 0, 2]), 3)
    assert x.index.shape == (3, 1)
    assert np.array_equal(dense(x), np.eye(3)[[2, 0, 2]])


@given(x=sparse())
def test_scale_by_one_factor_a_row_or_one_for_all(x: Sparse) -> None:
    factors = np.array([2.0, 0.0, -0.5])
    agree(lambda y: scale(y, factors), written_out(x) * factors[:, None], x)
    agree(lambda y: scale(y, -3.0), -3.0 * written_out(x), x)


@given(x=sparse((2, 3)))
def test_scale_by_one_factor_a_term(x: Sparse) -> None:
    factors = np.arange(6.0).reshape(2, 3)
    agree(lambda y: scale(y, factors), written_out(x) * factors[..., None], x)


@given(x=sparse(), y=sparse())
def test_subtract(x: Sparse, y: Sparse) -> None:
    agree(subtract, written_out(x) - written_out(y), x, y)


@given(x=sparse(), offset=st.integers(0, 3))
def test_embed_puts_zeros_around(x: Sparse, offset: int) -> None:
    expected = np.pad(written_out(x), ((0, 0), (offset, 3 - offset)))
    agree(lambda y: embed(y, offset, 7), expected, x)


@given(x=sparse((2, 3), size=5), data=st.data())
def test_slice_of_cuts_terms_and_coordinates(x: Sparse, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, 4))
    stop = data.draw(st.integers(start + 1, 5))
    term = data.draw(st.integers(0, 2))
    n_terms = data.draw(st.integers(1, 3 - term))
    expected = written_out(x)[:, term : term + n_terms, start:stop]
    agree(lambda y: slice_of(y, start, stop, term, n_terms), expected, x)


@given(x=sparse(distinct=True))
def test_squared_norm(x: Sparse) -> None:
    expected = [sum(entry**2 for entry in row) for row in written_out(x).tolist()]
    np.testing.assert_allclose(squared_norm(x), expected, rtol=1e-14)
    np.testing.assert_allclose(squared_norm(written_out(x)), expected, rtol=1e-14)


@given(x=sparse(), y=sparse())
def test_terms_stack_vectors_of_different_numbers_of_entries(x: Sparse, y: Sparse) -> None:
    agree(lambda *parts: terms(parts), np.stack([written_out(x), written_out(y)], axis=1), x, y)
    agree(lambda part: terms([part]), written_out(x)[:, None], x)


@given(x=sparse((2, 1)), y=sparse((2, 3)))
def test_side_by_side_joins_terms(x: Sparse, y: Sparse) -> None:
    agree(lambda *parts: side_by_side(parts), np.concatenate([written_out(x), written_out(y)], axis=1), x, y)


@given(x=sparse((6,)), stop=st.integers(0, 6))
def test_sparse_rows_are_cut_and_joined(x: Sparse, stop: int) -> None:
    parts = [x[:stop], x[stop:]]
    assert [len(part) for part in parts] == [stop, 6 - stop]
    assert all(part.size == x.size for part in parts)
    assert np.array_equal(dense(Sparse.join(parts)), dense(x))


@pytest.mark.parametrize(
    "operation",
    [
        lambda x: scale(x, 2.0),
        lambda x: subtract(x, x),
        lambda x: embed(x, 1, 9),
        lambda x: terms([x, x]),
        lambda x: slice_of(terms([x, x]), 0, 2, 0, 1),
    ],
    ids=["scale", "subtract", "embed", "terms", "slice_of"],
)
def test_arguments_stay_as_they_are(operation: Callable[[Vectors], Vectors]) -> None:
    x = Sparse(np.array([[0, 3], [1, 1]]), np.array([[1.0, 2.0], [3.0, 4.0]]), 4)
    full = written_out(x)
    operation(x)
    operation(full)
    assert (x.index.tolist(), x.value.tolist()) == ([[0, 3], [1, 1]], [[1.0, 2.0], [3.0, 4.0]])
    assert np.array_equal(full, written_out(x))
