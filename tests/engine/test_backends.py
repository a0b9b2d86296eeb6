"""Every kernel and instruction set of this machine against the reference; threads and shards change no bit."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from mdps import small_problem

import inferl
from inferl import engine
from inferl.algorithms import GTD, GTD2, TD, TDC, Algorithm, EmphaticTD, Linear, NStepTD, Stack
from inferl.data.arrays import Floats
from inferl.data.increments import Increments
from inferl.data.streams import Steps, Streams
from inferl.data.transitions import Transitions
from inferl.data.vectors import Sparse
from inferl.engine import Draws, _native, native, reference
from inferl.engine.backend import Fold
from inferl.engine.multipliers import BlockClock, Multipliers
from inferl.errors import SettingError
from inferl.methods.bootstrap import OnlineBootstrap
from inferl.methods.step_sizes import Polynomial
from inferl.testing import assert_same_bits, check_backend, evaluated

MISFIT = "do not fit together"
BOTH = pytest.mark.parametrize("kernel", [native, reference], ids=["native", "reference"])
INSTRUCTION_SETS = _native.instruction_sets()
PROBLEM = small_problem()


@pytest.fixture(params=INSTRUCTION_SETS)
def instruction_set(request: pytest.FixtureRequest) -> Iterator[str]:
    before = _native.chosen()
    _native.choose(request.param)
    yield request.param
    _native.choose(before)


def random_steps(n: int, d: int, tabular: bool) -> Steps:
    rng = np.random.default_rng(n + d)
    if tabular:
        states = rng.integers(d, size=n + 1)
        features, after = states[:-1], states[1:]
    else:
        vectors = rng.normal(size=(n + 1, d)) / np.sqrt(d)
        features, after = vectors[:-1], vectors[1:]
    discounts = np.where(rng.random(n) < 0.05, 0.0, 0.9)
    data = Transitions(
        features, rng.normal(size=n), after, discounts, rng.exponential(size=n), stream=rng.integers(2, size=n)
    )
    return Streams().place(data)[1]


ALGORITHMS: dict[str, tuple[Algorithm, bool]] = {
    "TD": (TD(7), False),
    "TD of many features": (TD(130), False),
    "TD of a table": (TD(7), True),
    "trace": (TD(7, trace=0.7), False),
    "trace in a table": (TD(7, trace=0.7), True),
    "windows": (NStepTD(7, n=3), False),
    "emphatic": (EmphaticTD(7, trace=0.2), False),
    "GTD": (GTD(7, 0.8), False),
    "GTD2": (GTD2(7, 1.3), False),
    "TDC": (TDC(7, 1.3), False),
    "GTD of a table": (GTD(7, 0.8), True),
    "GTD2 of a table": (GTD2(7), True),
    "TDC of a table": (TDC(7), True),
    "stack": (Stack(TD(7), TDC(7)), False),
}
LAWS = ["uniform", "two-point", "exponential", "as-printed"]


def folded(
    fold: Fold,
    algorithm: Algorithm,
    tabular: bool,
    law: str = "uniform",
    columns: int = 22,
    rows: int = 150,
    threads: int = 1,
    first_replica: int = 5,
) -> tuple[Floats, Floats, Floats]:
    increments, clock, _ = algorithm.increments(random_steps(rows, algorithm.n_features, tabular), {})
    rng = np.random.default_rng(1)
    iterate, average_offset = rng.normal(size=(2, algorithm.n_parameters, columns))
    n = len(increments)
    multipliers = Multipliers(law, "step")
    tick = multipliers.ticks(clock) + 2**33
    draws = Draws(multipliers, 0xABCDEF0123456789, first_replica, tick, clock.stream)
    step_size, weight_sum = np.linspace(0.3, 0.02, n), np.arange(float(n))
    largest = fold(iterate, average_offset, increments, step_size, weight_sum, draws, threads)
    return iterate, average_offset, largest


def assert_close(x: Floats, y: Floats) -> None:
    np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-12 * np.abs(y).max())


@pytest.mark.parametrize("name", ALGORITHMS)
@pytest.mark.parametrize("law", LAWS)
def test_native_agrees_with_the_reference(instruction_set: str, name: str, law: str) -> None:
    algorithm, tabular = ALGORITHMS[name]
    ours, theirs = folded(native.fold, algorithm, tabular, law), folded(reference.fold, algorithm, tabular, law)
    assert_close(ours[0], theirs[0])
    assert_close(ours[1], theirs[1])
    if not tabular:  # the sparse kernel looks at what it touches, at every step
        assert_close(ours[2], theirs[2])


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 63, 64, 65, 129])
@pytest.mark.parametrize("columns", [2, 3, 8, 16, 17, 201])
def test_any_number_of_rows_and_columns(instruction_set: str, rows: int, columns: int) -> None:
    for algorithm, tabular in (ALGORITHMS["TD"], ALGORITHMS["TD of a table"], ALGORITHMS["GTD2"]):
        ours = folded(native.fold, algorithm, tabular, columns=columns, rows=rows)
        theirs = folded(reference.fold, algorithm, tabular, columns=columns, rows=rows)
        assert_close(ours[0], theirs[0])
        assert_close(ours[1], theirs[1])


@pytest.mark.parametrize("name", ALGORITHMS)
def test_threads_and_shards_change_no_bit(instruction_set: str, name: str) -> None:
    algorithm, tabular = ALGORITHMS[name]
    one = folded(native.fold, algorithm, tabular, columns=101)
    for threads in (2, 3, 64):
        many = folded(native.fold, algorithm, tabular, columns=101, threads=threads)
        for a, b in zip(one, many, strict=True):
            assert a.tobytes() == b.tobytes()
    # Replica 40 is column 36 of the whole (first_replica 5), and some other column of a shard that starts elsewhere.
    increments, clock, _ = algorithm.increments(random_steps(150, algorithm.n_features, tabular), {})
    rows = {}
    for first in (5, 29):
        iterate, average_offset = np.zeros((2, algorithm.n_parameters, 50))
        draws = Draws(Multipliers(), 3, first, clock.step, clock.stream)
        step_size, weight_sum = np.linspace(0.3, 0.02, len(increments)), np.arange(float(len(increments)))
        native.fold(iterate, average_offset, increments, step_size, weight_sum, draws)
        rows[first] = np.concatenate([iterate[:, 40 - first + 1], average_offset[:, 40 - first + 1]]).tobytes()
    assert rows[5] == rows[29]


@pytest.mark.parametrize("n_replicas", [5, 20])
def test_a_table_longer_than_a_tile_is_cut_anywhere(instruction_set: str, n_replicas: int) -> None:
    """Whether a group of replicas is packed depends on the rows at hand, and must not show."""
    rng = np.random.default_rng(0)
    states = rng.integers(100, size=1001)
    data = Transitions(states[:-1], rng.normal(size=1000), states[1:], 0.9, rng.exponential(size=1000))
    method = OnlineBootstrap(Polynomial(0.5), n_replicas=n_replicas, companion=False)
    for algorithm in (TD(100), TDC(100)):
        whole = evaluated(algorithm, method, data)
        assert_same_bits(whole, evaluated(algorithm, method, data, range(64, 1000, 64)))
        assert_same_bits(whole, evaluated(algorithm, method, data, range(1, 1000, 7)))


@pytest.mark.parametrize("clock", ["step", "episode", BlockClock(2, 0.5)])
def test_ticks_that_stay_give_the_same_multiplier(instruction_set: str, clock: str | BlockClock) -> None:
    increments, place, _ = TD(7).increments(random_steps(150, 7, False), {})
    multipliers = Multipliers("exponential", clock)
    results = []
    for fold in (native.fold, reference.fold):
        iterate, average_offset = np.zeros((2, 7, 9))
        draws = Draws(multipliers, 1, 0, multipliers.ticks(place), place.stream)
        fold(iterate, average_offset, increments, np.full(150, 0.1), np.arange(150.0), draws)
        results.append(iterate)
    assert_close(*results)


def test_general_terms_with_damping(instruction_set: str) -> None:
    rng = np.random.default_rng(2)
    matrix = np.eye(3) + 0.2 * rng.normal(size=(100, 3, 3))
    steps = Streams().place(Increments.dense(matrix, rng.normal(size=(100, 3))))[1]
    increments, clock, _ = Linear(3).increments(steps, {})
    damped = Increments(increments.u, increments.v, increments.c, np.array([0.0, 0.5, 2.0]), increments.scale)
    results = []
    for fold in (native.fold, reference.fold):
        iterate, average_offset = np.zeros((2, 3, 9))
        fold(
            iterate,
            average_offset,
            damped,
            np.full(100, 0.1),
            np.arange(100.0),
            Draws(Multipliers(), 1, 0, clock.step, clock.stream),
        )
        results.append(np.concatenate([iterate, average_offset]))
    assert_close(*results)


def test_what_is_not_finite_is_noted(instruction_set: str) -> None:
    for tabular in (False, True):
        increments, clock, _ = TD(7).increments(random_steps(128, 7, tabular), {})
        for poison in (np.nan, np.inf, -np.inf):
            iterate, average_offset = np.zeros((2, 7, 9))
            iterate[:, 4] = poison
            draws = Draws(Multipliers(), 1, 0, clock.step, clock.stream)
            largest = native.fold(iterate, average_offset, increments, np.full(128, 0.1), np.arange(128.0), draws)
            assert np.isinf(largest[:, 4]).all()
            assert np.isfinite(np.delete(largest, 4, axis=1)).all()


@pytest.mark.parametrize("name", ALGORITHMS)
def test_resamples_walk_alike(instruction_set: str, name: str) -> None:
    algorithm, tabular = ALGORITHMS[name]
    increments, _, _ = algorithm.increments(random_steps(90, algorithm.n_features, tabular), {})
    increments = increments.expanded()
    rng = np.random.default_rng(2)
    rows, lengths = rng.integers(len(increments), size=(7, 120)), np.array([120, 0, 7, 120, 1, 63, 119])
    limit = np.where(rng.random(len(increments)) < 0.5, np.inf, 0.05)
    results = []
    for walk in (native.walk, reference.walk):
        iterate, average_offset = np.random.default_rng(3).normal(size=(2, 7, algorithm.n_parameters))
        walk(iterate, average_offset, increments, rows, lengths, np.linspace(0.3, 0.02, 120), np.arange(120.0), limit)
        results.append(np.stack([iterate, average_offset]))
    assert_close(*results)


@pytest.mark.parametrize("cuts", [[], [1, 7, 20, 26, 150]])
@pytest.mark.parametrize(("p", "threads"), [(1, 1), (5, 1), (23, 3), (70, 4)])
def test_blocks_add_up_alike(p: int, threads: int, cuts: list[int]) -> None:
    rng = np.random.default_rng(0)
    scores, slot = rng.normal(size=(300, p)), rng.integers(3, size=300)
    results: list[list[Any]] = []
    for add_blocks in (native.add_blocks, reference.add_blocks):
        half, is_open = np.zeros((3, 6, p)), np.zeros((3, 6), np.bool_)
        gathered, waiting = np.zeros((6, 20, p)), np.zeros(6, np.int64)
        moments = np.zeros((6, p, p)), np.zeros((6, p)), np.zeros(6, np.int64)
        for begin, end in pairwise([0, *cuts, 300]):
            add_blocks(scores[begin:end], slot[begin:end], half, is_open, gathered, waiting, *moments, threads)
        there = [gathered[level, :number] for level, number in enumerate(waiting)]
        results.append([half, is_open, waiting, moments[2], np.concatenate(there), *moments[:2]])
    for ours, theirs in zip(results[0][:5], results[1][:5], strict=True):
        np.testing.assert_array_equal(ours, theirs)
    for ours, theirs in zip(results[0][5:], results[1][5:], strict=True):
        assert_close(ours, theirs)


@pytest.mark.parametrize("cuts", [[], [1, 7, 16, 17, 150]])
@pytest.mark.parametrize(("p", "threads"), [(1, 1), (5, 1), (23, 3), (70, 4)])
def test_products_add_up_alike(p: int, threads: int, cuts: list[int]) -> None:
    rng = np.random.default_rng(0)
    u, v, c = rng.normal(size=(200, p)), rng.normal(size=(200, p)), rng.normal(size=200)
    results: list[list[Any]] = []
    for add_products in (native.add_products, reference.add_products):
        sums, waiting = (np.ones((p, p)), np.ones(p), np.zeros(p)), 0
        buffers = np.zeros((16, p)), np.zeros((16, p)), np.zeros(16)
        for begin, end in pairwise([0, *cuts, 200]):
            rows = u[begin:end], v[begin:end], c[begin:end]
            waiting = add_products(*sums, buffers, waiting, *rows, threads)
        results.append([*sums, *(buffer[:waiting] for buffer in buffers)])
        assert waiting == 200 % 16
    for ours, theirs in zip(*results, strict=True):
        assert_close(ours, theirs)
    whole = np.concatenate([u, v, c[:, None]], axis=1)[:192]
    assert_close(results[0][0], 1 + whole[:, :p].T @ whole[:, p : 2 * p])
    np.testing.assert_array_equal(results[0][2], np.abs(v).max(axis=0))


def test_threads_do_not_change_sums() -> None:
    """Each part of a matrix belongs to one thread; large enough here that several are woken."""
    rng = np.random.default_rng(0)
    u, v, c = rng.normal(size=(700, 150)), rng.normal(size=(700, 150)), rng.normal(size=700)
    found = []
    for threads in (1, 2, 5):
        sums = np.zeros((150, 150)), np.zeros(150), np.zeros(150)
        native.add_products(*sums, (np.zeros((128, 150)), np.zeros((128, 150)), np.zeros(128)), 0, u, v, c, threads)
        half, is_open = np.zeros((1, 6, 150)), np.zeros((1, 6), np.bool_)
        gathered, waiting = np.zeros((6, 128, 150)), np.zeros(6, np.int64)
        moments = np.zeros((6, 150, 150)), np.zeros((6, 150)), np.zeros(6, np.int64)
        native.add_blocks(u, np.zeros(700, np.int64), half, is_open, gathered, waiting, *moments, threads)
        found.append([*sums, *moments, half, gathered])
    for other in found[1:]:
        for one, two in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("n_short", [0, 1, 3])
@pytest.mark.parametrize("m", [1, 2])
def test_entries_add_up_alike(n_short: int, m: int) -> None:
    rng = np.random.default_rng(0)
    index, value, slot = rng.integers(7, size=(300, m)), rng.normal(size=(300, m)), rng.integers(3, size=300)
    value[::5] = 0.0
    results = []
    for add_entries in (native.add_entries, reference.add_entries):
        kept_index, kept_value = np.zeros((3, 2**n_short, m), np.int64), np.zeros((3, 2**n_short, m))
        kept_rows, count = np.zeros(3, np.int64), np.zeros(n_short, np.int64)
        outer, total = np.zeros((n_short, 7, 7)), np.zeros((n_short, 7))
        sums = []
        for rows in (slice(0, 50), slice(50, 300)):
            kept = (kept_index, kept_value, kept_rows)
            new, closed_by = add_entries(index[rows], value[rows], slot[rows], *kept, outer, total, count, 7)
            assert (np.diff(closed_by) > 0).all()
            sums.append(new)
        results.append((np.concatenate(sums), outer, total, count, kept_rows))
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12)


def test_bad_shapes_are_refused_not_followed() -> None:
    iterate, average_offset = np.zeros((2, 7, 9))
    increments, clock, _ = TD(7).increments(random_steps(10, 7, True), {})
    short = Draws(Multipliers(), 1, 0, clock.step[:5], clock.stream[:5])
    with pytest.raises(ValueError, match=MISFIT):
        native.fold(iterate, average_offset, increments, np.full(10, 0.1), np.arange(10.0), short)
    assert isinstance(increments.u, Sparse)
    outside = replace(increments, u=Sparse(increments.u.index + 100, increments.u.value, 7))
    draws = Draws(Multipliers(), 1, 0, clock.step, clock.stream)
    with pytest.raises(ValueError, match=MISFIT):
        native.fold(iterate, average_offset, outside, np.full(10, 0.1), np.arange(10.0), draws)
    walkers, steps = np.zeros((3, 7)), np.full(5, 0.1)
    for rows, lengths in ((10, 5), (-1, 5), (0, 6)):  # a row that is not there, a step that is not there
        places = (np.full((3, 5), rows), np.full(3, lengths))
        with pytest.raises(ValueError, match=MISFIT):
            native.walk(walkers, walkers.copy(), increments, *places, steps, steps, np.full(10, np.inf))


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {key: value for key, value in os.environ.items() if not key.startswith("INFERL_")}
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=clean | environment, check=False
    )


def test_the_kernel_is_chosen_by_the_environment() -> None:
    show = "import inferl.engine as k; print(k.active().name)"
    assert run(show, INFERL_KERNEL="reference").stdout.strip() == "reference"
    for name in INSTRUCTION_SETS:
        assert run(show, INFERL_ISA=name).stdout.strip() == f"native {name}"
    assert run(show).stdout.strip() == f"native {INSTRUCTION_SETS[0]}"
    assert "choose" in run(show, INFERL_KERNEL="quantum").stderr
    assert "no instruction set" in run(show, INFERL_ISA="mmx").stderr


def test_a_missing_native_kernel_is_said_or_refused() -> None:
    hide = "import sys; sys.modules['inferl.engine._native'] = None; import inferl.engine as k; print(k.active().name)"
    shown = run(hide)
    assert shown.stdout.strip() == "reference"
    assert shown.stderr.count("the compiled backend is missing") == 1
    refused = run(hide, INFERL_REQUIRE_NATIVE="1")
    assert refused.returncode != 0
    assert "SettingError" in refused.stderr


def episodes_of(n: int, seed: int) -> dict[str, Any]:
    """Rows of three streams, whose episodes end with or without a word."""
    rng = np.random.default_rng(seed)
    slot = rng.integers(3, size=n)
    last, unsaid = rng.random(n) < 0.15, rng.random(n) < 0.05
    episode, first = np.zeros(n, np.int64), np.zeros(n, np.bool_)
    for s in range(3):
        rows = np.flatnonzero(slot == s)
        first[rows] = np.r_[True, (last | unsaid)[rows[:-1]]]
        episode[rows] = np.cumsum(first[rows])
    return {"slot": slot, "last": last, "episode": episode, "first": first}


@pytest.mark.parametrize("seed", range(3))
def test_sums_decay_alike(seed: int) -> None:
    x, rng = episodes_of(400, seed), np.random.default_rng(seed)
    add, decay = (rng.random(400) < 0.3).astype(float), rng.choice([0.0, 0.5, 3.0], size=400)
    results = []
    for kernel in (native, reference):
        carried = np.array([0.5, 0.0, 2.0])
        out = kernel.decaying_sum(add, decay, x["slot"], x["first"], carried, 20.0)
        results.append((out.tobytes(), carried.tobytes()))
        assert carried.max() <= 20.0
    assert results[0] == results[1]


@pytest.mark.parametrize("sparse", [False, True])
def test_episodes_are_summed_alike(sparse: bool) -> None:
    x, rng = episodes_of(400, 0), np.random.default_rng(0)
    index = rng.integers(4, size=(400, 2)) if sparse else None
    value = rng.normal(size=(400, 2 if sparse else 4))
    results = []
    for kernel in (native, reference):
        total, is_open, order = np.zeros((3, 4)), np.zeros(3, np.int64), np.zeros(3, np.int64)
        row, begun, found, numbers = 0, 0, [], []
        while row < 400:
            row, closed, number, begun = kernel.sum_episodes(
                index, value, x["slot"], x["episode"], x["last"], total, is_open, order, begun, row
            )
            found.append(closed.copy())
            numbers.append(number.copy())
        results.append((np.concatenate(found), total, is_open, np.concatenate(numbers), order, begun))
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one, other)
    dense_value = value if index is None else np.zeros((400, 4))
    if index is not None:
        np.add.at(dense_value, (np.arange(400)[:, None], index), value)
    np.testing.assert_allclose(results[0][0].sum(axis=0) + results[0][1].sum(axis=0), dense_value.sum(axis=0))


def test_episodes_are_followed_alike() -> None:
    x, rng = episodes_of(500, 1), np.random.default_rng(1)
    columns = (rng.normal(size=500), np.where(x["last"], 0.0, 0.9), rng.choice([0.0, 0.5, 2.0], size=500))
    results = []
    for kernel in (native, reference):
        state, closed, row, found = np.zeros((3, 5)), np.empty((5, 5)), 0, []
        while row < 500:
            row, filled = kernel.follow_episodes(*columns, x["slot"], x["first"], x["last"], state, closed, 1e100, row)
            found.append(closed[:filled].copy())
        results.append((np.concatenate(found), state))
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-13)


@BOTH
@pytest.mark.parametrize("bad", [7, 3, -1, -(2**62)])
def test_kernels_refuse_slots_that_are_not_there(kernel: Any, bad: int) -> None:
    """Before anything is changed; a negative one would be a place from behind in NumPy."""
    x, one = episodes_of(20, 2), np.ones(20)
    x["slot"][11] = bad
    slot, last = x["slot"], x["last"]
    carried, sums, open_, numbers = np.zeros(3), np.zeros((3, 2)), np.zeros((3, 5)), np.zeros(3, np.int64)
    half, is_open, gathered = np.zeros((3, 4, 2)), np.zeros((3, 4), np.bool_), np.zeros((4, 64, 2))
    with pytest.raises(ValueError, match=MISFIT):
        kernel.decaying_sum(one, one, slot, x["first"], carried, 1.0)
    with pytest.raises(ValueError, match=MISFIT):
        kernel.sum_episodes(None, np.ones((20, 2)), slot, x["episode"], last, sums, numbers, numbers.copy(), 0, 0)
    with pytest.raises(ValueError, match=MISFIT):
        kernel.follow_episodes(one, one, one, slot, x["first"], last, open_, np.empty((4, 5)), 1e9, 0)
    with pytest.raises(ValueError, match=MISFIT):
        kernel.add_blocks(
            *(np.ones((20, 2)), slot, half, is_open, gathered, np.zeros(4, np.int64)),
            *(np.zeros((4, 2, 2)), np.zeros((4, 2)), np.zeros(4, np.int64)),
        )
    entries, kept = (np.zeros((20, 1), np.int64), np.ones((20, 1))), np.zeros((3, 2, 1))
    moments = np.zeros((1, 2, 2)), np.zeros((1, 2)), np.zeros(1, np.int64)
    with pytest.raises(ValueError, match=MISFIT):
        kernel.add_entries(*entries, slot, kept.astype(np.int64), kept, numbers, *moments, 2)
    assert not any(array.any() for array in (carried, sums, open_, half, is_open, gathered, numbers))


@BOTH
@pytest.mark.parametrize("waiting", [[-1, 0, 0], [0, 9, 0], [0, 0, 2**62], [-(2**63), 0, 0]])
def test_kernels_refuse_counts_out_of_range(kernel: Any, waiting: list[int]) -> None:
    """What a forged file may hold: places before an array's begin, or behind its end. None may lead to a hang."""
    scores, slot = np.ones((4, 2)), np.zeros(4, np.int64)
    half, is_open, gathered = np.zeros((1, 3, 2)), np.zeros((1, 3), np.bool_), np.zeros((3, 8, 2))
    moments = np.zeros((3, 2, 2)), np.zeros((3, 2)), np.zeros(3, np.int64)
    with pytest.raises(ValueError, match=MISFIT):
        kernel.add_blocks(scores, slot, half, is_open, gathered, np.array(waiting), *moments)
    buffers = np.zeros((8, 2)), np.zeros((8, 2)), np.zeros(8)
    with pytest.raises((ValueError, TypeError)):
        kernel.add_products(
            moments[0][0], np.zeros(2), np.zeros(2), buffers, max(waiting, key=abs), scores, scores, slot
        )


@BOTH
def test_kernels_need_room(kernel: Any) -> None:
    scores, slot = np.ones((4, 2)), np.zeros(4, np.int64)
    half, is_open, waiting = np.zeros((1, 3, 2)), np.zeros((1, 3), np.bool_), np.zeros(3, np.int64)
    moments = np.zeros((3, 2, 2)), np.zeros((3, 2)), np.zeros(3, np.int64)
    with pytest.raises(ValueError, match=MISFIT):
        kernel.add_blocks(scores, slot, half, is_open, np.zeros((3, 0, 2)), waiting, *moments)


@BOTH
@pytest.mark.parametrize(("place", "rows"), [(7, 0), (-1, 0), (0, 2), (0, -1), (0, 2**62)])
def test_kernels_refuse_kept_entries_out_of_range(kernel: Any, place: int, rows: int) -> None:
    index, value, slot = np.zeros((4, 1), np.int64), np.ones((4, 1)), np.zeros(4, np.int64)
    moments = np.zeros((1, 2, 2)), np.zeros((1, 2)), np.zeros(1, np.int64)
    with pytest.raises(ValueError, match=MISFIT):
        kernel.add_entries(
            index, value, slot, np.full((1, 2, 1), place), np.zeros((1, 2, 1)), np.array([rows]), *moments, 2
        )
    assert not any(array.any() for array in moments)


def test_what_is_changed_in_place_is_not_copied() -> None:
    """A copy would be changed instead, and the work be lost without a word."""
    x, one = episodes_of(20, 2), np.ones(20)
    copies: list[Any] = [np.zeros(3, np.float32), np.zeros(6)[::2], np.zeros(3, np.int64)]
    for carried in copies:
        with pytest.raises(TypeError, match="incompatible function arguments"):
            native.decaying_sum(one, one, x["slot"], x["first"], carried, 1.0)
    increments, clock, _ = TD(7).increments(random_steps(10, 7, True), {})
    draws = Draws(Multipliers(), 1, 0, clock.step, clock.stream)
    copies = [np.zeros((7, 9), np.float32), np.zeros((9, 7)).T, np.zeros((14, 9))[::2]]
    for iterate in copies:
        with pytest.raises(TypeError, match="incompatible function arguments"):
            native.fold(iterate, np.zeros((7, 9)), increments, np.full(10, 0.1), np.arange(10.0), draws)


# The contract.


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.torch] * (name == "torch")) for name in engine.names()]
)
def test_every_backend_keeps_the_contract(name: str) -> None:
    check_backend(engine.backend_named(name))


def test_every_instruction_set_keeps_the_contract(instruction_set: str) -> None:
    check_backend(engine.backend_named("native"))


# Which argument is spoiled on its way in, of those that are not written to.
SPOILED = {
    "fold": 3,
    "walk": 5,
    "add_products": 5,
    "add_blocks": 0,
    "evaluate": 1,
    "add_entries": 1,
    "decaying_sum": 0,
    "sum_episodes": 1,
    "follow_episodes": 0,
}


@pytest.mark.parametrize("name", SPOILED)
def test_the_contract_tells_what_is_wrong(name: str) -> None:
    right: Any = getattr(reference, name)

    def wrong(*arguments: Any) -> Any:
        return right(*(1.001 * x if i == SPOILED[name] else x for i, x in enumerate(arguments)))

    with pytest.raises(AssertionError):
        check_backend(replace(engine.backend_named("reference"), **{name: wrong}))  # type: ignore[arg-type]


def test_an_evaluator_owns_its_backend() -> None:
    data = PROBLEM.sample(200, seed=0)
    slow = inferl.Evaluator(TD(2), backend="reference").update(data)
    assert (slow.backend.name, inferl.Evaluator(TD(2)).backend.name.split()[0]) == ("reference", "native")
    assert slow.interval(np.ones(2)).estimate == pytest.approx(
        inferl.Evaluator(TD(2)).update(data).interval(np.ones(2)).estimate, rel=1e-12
    )
    with pytest.raises(SettingError, match="no backend 'quantum'; choose 'auto' or one of 'native', 'reference'"):
        inferl.Evaluator(TD(2), backend="quantum")


def test_a_backend_of_ones_own_is_registered_once() -> None:
    made = replace(engine.backend_named("reference"), name="mine")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(engine._REGISTERED, "mine", lambda: made)
        assert inferl.Evaluator(TD(2), backend="mine").backend is made
        engine.backend_named.cache_clear()
    with pytest.raises(SettingError, match="there is a backend 'native' already"):
        engine.register("native", lambda: made)
