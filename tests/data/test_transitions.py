"""Validation in Transitions: accepted input, errors and their messages; slicing and joining of chunks."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import chunkings, cut, transitions

from inferl.data.transitions import Transitions
from inferl.errors import ContradictionError, DataError, InferlError, ShapeError

NAN, INF = float("nan"), float("inf")
COLUMNS = [field.name for field in fields(Transitions)]


def tabular(**changes: Any) -> dict[str, Any]:
    """Three valid tabular steps, with some arguments changed."""
    good: dict[str, Any] = {
        "features": [0, 1, 2],
        "rewards": [0.5, 1.5, 2.5],
        "next_features": [1, 2, 3],
        "discounts": [0.9, 0.9, 0.0],
    }
    return good | changes


def dense(**changes: Any) -> dict[str, Any]:
    """The same steps with vectors of length 2."""
    return tabular(features=[[0.0, 1.0]] * 3, next_features=[[1.0, 0.0]] * 3) | changes


def same(a: Transitions, b: Transitions) -> bool:
    pairs = [(getattr(a, name), getattr(b, name)) for name in COLUMNS]
    return all(x is y if x is None or y is None else x.dtype == y.dtype and np.array_equal(x, y) for x, y in pairs)


# Rejected input: the exception, and a message with the row, the value and a remedy.

BAD_VALUES = {
    "NaN feature": (dense(features=[[0, 1], [0, NAN], [0, 0]]), "row 1, column 1", "nan", "repair"),
    "infinite feature": (dense(features=[[0, 1], [0, 0], [-INF, 0]]), "row 2, column 0", "-inf", "repair"),
    "NaN next feature": (dense(next_features=[[NAN, 1], [0, 0], [0, 0]]), "row 0, column 0", "nan", "repair"),
    "infinite next feature": (dense(next_features=[[0, 1], [0, 0], [0, INF]]), "row 2, column 1", "inf", "repair"),
    "NaN reward": (tabular(rewards=[0, NAN, 0]), "row 1", "nan", "repair"),
    "infinite reward": (tabular(rewards=[0, 0, INF]), "row 2", "inf", "repair"),
    "missing reward": (tabular(rewards=[0, None, 0]), "row 1", "None", "repair"),
    "NaN for all rewards": (tabular(rewards=NAN), "row 0", "nan", "repair"),
    "NaN ratio": (tabular(ratios=[1, 1, NAN]), "row 2", "nan", "repair"),
    "infinite ratio": (tabular(ratios=[INF, 1, 1]), "row 0", "inf", "repair"),
    "negative ratio": (tabular(ratios=[1, -0.25, 1]), "row 1", "-0.25", "log-ratio"),
    "negative ratio of one policy": (tabular(ratios=[[1, 1], [1, 1], [1, -2]]), "row 2, column 1", "-2.0", "log-ratio"),
    "NaN discount": (tabular(discounts=[0.9, NAN, 0]), "row 1", "nan", "repair"),
    "infinite discount": (tabular(discounts=[0.9, 0.9, INF]), "row 2", "inf", "repair"),
    "negative discount": (tabular(discounts=[-1e-12, 0.9, 0]), "row 0", "-1e-12", "[0, 1]"),
    "discount above 1": (tabular(discounts=[0.9, 1.0000001, 0]), "row 1", "1.0000001", "[0, 1]"),
    "negative index": (tabular(features=[0, -3, 2]), "row 1", "-3", "counted from 0"),
    "negative next index": (tabular(next_features=[0, 1, -1]), "row 2", "-1", "counted from 0"),
    "negative stream": (tabular(stream=[0, 0, -7]), "row 2", "-7", "0 to 4294967295"),
    "stream above one word": (tabular(stream=[0, 2**32, 0]), "row 1", "4294967296", "0 to 4294967295"),
    "negative episode": (tabular(episode=[0, -1, 0]), "row 1", "-1", "0 to"),
    "index beyond 64 bits": (tabular(features=np.array([0, 1, 2**63], np.uint64)), "row 2", "9223372036854775808", ""),
    "last is 2": (tabular(last=[0, 2, 1]), "row 1", "2", "true"),
    "first is NaN": (tabular(first=[0, 0, NAN]), "row 2", "nan", "true"),
    "first is text": (tabular(first=["no", "yes", "yes"]), "row 0", "no", "true"),
    "last is missing": (tabular(last=[True, True, None]), "row 2", "None", "true"),
}


@pytest.mark.parametrize(("arguments", "where", "what", "remedy"), BAD_VALUES.values(), ids=BAD_VALUES)
def test_bad_value_is_refused_with_row_value_and_remedy(
    arguments: dict[str, Any], where: str, what: str, remedy: str
) -> None:
    with pytest.raises(DataError) as caught:
        Transitions(**arguments)
    message = str(caught.value)
    assert message.startswith(f"{where}: ")
    assert re.search(rf"(?<![\w.-]){re.escape(what)}\b", message)
    assert remedy in message


BAD_SHAPES = {
    "one vector": (dense(features=[0.0, 1.0, 2.0]), r"features.*\(3,\).*\(steps, dimension\)"),
    "next features one vector": (dense(next_features=[0.0, 1.0, 2.0]), r"next_features.*\(3,\)"),
    "features of three dimensions": (dense(features=np.zeros((3, 2, 2))), r"features.*\(3, 2, 2\)"),
    "one number": (tabular(features=0), r"features.*\(\)"),
    "truth values for states": (tabular(features=[True, False, True]), "features"),
    "no features": (dense(features=np.zeros((3, 0)), next_features=np.zeros((3, 0))), "features"),
    "ragged features": (dense(features=[[0.0, 1.0], [2.0], [0.0, 0.0]]), "features"),
    "next features of another length": (dense(next_features=[[1.0]] * 3), "length 2.*length 1"),
    "vectors, then a table": (dense(next_features=[1, 2, 3]), "vectors of length 2.*table"),
    "a table, then vectors": (tabular(next_features=[[1.0]] * 3), "table.*vectors of length 1"),
    "more next features": (tabular(next_features=[1, 2, 3, 4]), "3.*4"),
    "empty table": (tabular(features=[], rewards=[], next_features=[], discounts=[]), "empty"),
    "empty vectors": (
        dense(features=np.zeros((0, 2)), rewards=[], next_features=np.zeros((0, 2)), discounts=[]),
        "empty",
    ),
    "rewards too short": (tabular(rewards=[0.0, 1.0]), r"rewards.*\(2,\).*3 rows"),
    "rewards as a matrix": (tabular(rewards=[[0.0], [1.0], [2.0]]), r"rewards.*\(3, 1\).*3 rows"),
    "rewards as text": (tabular(rewards=["a", "b", "c"]), "rewards.*floats"),
    "ragged rewards": (tabular(rewards=[0.0, [1.0, 2.0], 3.0]), "rewards"),
    "complex rewards": (tabular(rewards=[0.0, 1j, 0.0]), "rewards.*complex"),
    "discounts too long": (tabular(discounts=[0.9] * 4), r"discounts.*\(4,\).*3 rows"),
    "ratios too short": (tabular(ratios=[1.0, 1.0]), r"ratios.*\(2,\).*3 rows"),
    "ratios of three dimensions": (tabular(ratios=np.ones((3, 2, 1))), r"ratios.*\(3, 2, 1\)"),
    "ratios of no policy": (tabular(ratios=np.ones((3, 0))), r"ratios.*\(3, 0\)"),
    "first too short": (tabular(first=[True]), r"first.*\(1,\).*3 rows"),
    "last as a matrix": (tabular(last=[[False, False, True]]), r"last.*\(1, 3\).*3 rows"),
    "episode too long": (tabular(episode=[0] * 5), r"episode.*\(5,\).*3 rows"),
    "stream too short": (tabular(stream=[0, 0]), r"stream.*\(2,\).*3 rows"),
}


@pytest.mark.parametrize(("arguments", "message"), BAD_SHAPES.values(), ids=BAD_SHAPES)
def test_bad_shape_is_refused_and_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        Transitions(**arguments)


@pytest.mark.parametrize("name", ["episode", "stream"])
@pytest.mark.parametrize("labels", [[0.0, 1.0, 1.0], ["a", "b", "b"], [True, False, False], 0.5])
def test_labels_must_be_integers(name: str, labels: Any) -> None:
    with pytest.raises(DataError, match=rf"{name} labels are .*they must be integers, so number them"):
        Transitions(**tabular(**{name: labels}))


@pytest.mark.parametrize("last", [False, [False, True, False]])
def test_discount_0_without_last_is_a_contradiction(last: Any) -> None:
    with pytest.raises(ContradictionError, match=r"row 2: the discount is 0.*last is False.*set last"):
        Transitions(**tabular(last=last))


@given(chunk=transitions(), data=st.data())
def test_one_bad_number_anywhere_is_found(chunk: Transitions, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(["rewards", "discounts", "ratios"]))
    row = data.draw(st.integers(0, len(chunk) - 1))
    columns: dict[str, Any] = {column: getattr(chunk, column) for column in COLUMNS}
    columns[name] = columns[name].copy()
    columns[name][row] = data.draw(st.sampled_from([NAN, INF, -INF]))
    with pytest.raises(InferlError, match=rf"^row {row}: {name[:-1]} is {columns[name][row]}"):
        Transitions(**columns)


# Accepted input.


def test_table_and_vectors_and_types() -> None:
    table, vectors = Transitions(**tabular()), Transitions(**dense(features=[[0, 1]] * 3))
    assert (len(table), table.tabular, len(vectors), vectors.tabular) == (3, True, 3, False)
    assert table.features.dtype == table.next_features.dtype == table.stream.dtype == np.int64
    assert vectors.features.dtype == table.rewards.dtype == table.discounts.dtype == table.ratios.dtype == np.float64
    assert table.last.dtype == np.bool_


def test_defaults() -> None:
    chunk = Transitions(**tabular())
    assert chunk.first is None
    assert chunk.episode is None
    assert chunk.last.tolist() == [False, False, True]
    assert chunk.ratios.tolist() == [1.0, 1.0, 1.0]
    assert chunk.stream.tolist() == [0, 0, 0]


def test_scalars_are_broadcast() -> None:
    given_once = Transitions([4, 5], 2.0, [5, 6], 0.5, ratios=3, first=True, last=True, episode=8, stream=2**32 - 1)
    written_out = Transitions(
        np.array([4, 5], np.int8),
        [2, 2],
        np.array([5, 6], np.uint16),
        np.array([0.5, 0.5], np.float32),
        ratios=[3, 3],
        first=[1, 1],
        last=[1.0, 1.0],
        episode=[8, 8],
        stream=[2**32 - 1] * 2,
    )
    assert same(given_once, written_out)
    assert given_once.rewards.tolist() == [2.0, 2.0]


@pytest.mark.parametrize("discount", [0.0, 5e-324, 1.0])
def test_the_ends_of_the_unit_interval_are_discounts(discount: float) -> None:
    chunk = Transitions([0], [0.0], [0], [discount])
    assert chunk.discounts.tolist() == [discount]
    assert chunk.last.tolist() == [discount == 0]


def test_ratios_of_several_policies_keep_their_columns() -> None:
    ratios = np.arange(6.0).reshape(3, 2)
    assert np.array_equal(Transitions(**tabular(ratios=ratios)).ratios, ratios)


@pytest.mark.parametrize("is_tabular", [True, False])
def test_arrays_are_copied(is_tabular: bool) -> None:
    arrays = {
        "features": np.array([1, 2]) if is_tabular else np.ones((2, 3)),
        "rewards": np.ones(2),
        "next_features": np.array([3, 4]) if is_tabular else np.ones((2, 3)),
        "discounts": np.full(2, 0.5),
        "ratios": np.ones((2, 2)),
        "first": np.array([True, True]),
        "last": np.array([True, True]),
        "episode": np.array([5, 5]),
        "stream": np.array([6, 6]),
    }
    chunk = Transitions(**arrays)
    kept = {name: array.copy() for name, array in arrays.items()}
    for array in arrays.values():
        array[:] = 0  # the caller reuses its buffers
    for name, array in kept.items():
        assert np.array_equal(getattr(chunk, name), array), name


def test_a_refused_chunk_leaves_the_arrays_alone() -> None:
    rewards = np.array([1.0, NAN, 2.0])
    with pytest.raises(DataError):
        Transitions(**tabular(rewards=rewards))
    assert np.array_equal(rewards, [1.0, NAN, 2.0], equal_nan=True)


# Slicing and joining.


@given(chunk=transitions(), data=st.data())
def test_cut_and_joined_chunk_is_the_same(chunk: Transitions, data: st.DataObject) -> None:
    parts = cut(chunk, data.draw(chunkings(len(chunk))))
    assert sum(map(len, parts)) == len(chunk)
    assert same(Transitions.join(parts), chunk)


@given(chunk=transitions(), data=st.data())
def test_slice_takes_the_rows_of_every_column(chunk: Transitions, data: st.DataObject) -> None:
    rows = data.draw(st.slices(len(chunk)))
    part = chunk[rows]
    for name in COLUMNS:
        whole = getattr(chunk, name)
        assert getattr(part, name) is None if whole is None else np.array_equal(getattr(part, name), whole[rows])


def test_chunk_is_not_a_sequence() -> None:
    with pytest.raises(TypeError, match=r"chunk\[start:stop\]"):
        iter(Transitions(**tabular()))
