"""What a bootstrap computes from its first rows: a solved start, and a step size; and starts that are given."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from mdps import small_problem

import inferl
from inferl.algorithms import GTD2, TD, Field, Linear, NStepTD, Stack
from inferl.data.arrays import Floats
from inferl.data.increments import Increments
from inferl.engine import backend_named
from inferl.errors import CheckpointCorruptError, SettingError
from inferl.evaluator import Evaluator
from inferl.merging import concatenate
from inferl.methods.bootstrap import BootstrapState, OnlineBootstrap
from inferl.methods.pilot import automatic
from inferl.methods.step_sizes import Polynomial
from inferl.testing import assert_same_bits, check_chunks, check_resume, evaluated

PROBLEM = small_problem()
SHORT = mock.patch("inferl.variance.first_epoch.MOST_KEPT", 0)  # pilots of 256 rows
WALK = OnlineBootstrap(Polynomial(0.5, cap=0.1), n_replicas=5, seed=3)
PILOTED = {
    "automatic": replace(WALK, step_size="auto", initial=0),
    "solved": replace(WALK, initial="solved"),
    "both, by blocks": replace(
        WALK, step_size="auto", initial="solved", multipliers=inferl.Multipliers(clock=inferl.BlockClock())
    ),
}
ALGORITHMS: dict[str, Any] = {"TD": TD, "GTD2": GTD2, "windows": lambda d: NStepTD(d, 3)}


def state_of(evaluator: Evaluator) -> BootstrapState:
    state = evaluator.with_pending().method
    assert isinstance(state, BootstrapState)
    return state


@SHORT
@pytest.mark.parametrize("method", PILOTED.values(), ids=PILOTED)
@pytest.mark.parametrize("algorithm", ALGORITHMS.values(), ids=ALGORITHMS)
@pytest.mark.parametrize("tabular", [False, True], ids=["vectors", "table"])
def test_the_end_of_the_pilot_does_not_depend_on_chunks(method: OnlineBootstrap, algorithm: Any, tabular: bool) -> None:
    made, data = algorithm(4 if tabular else 2), PROBLEM.sample(500, seed=1, tabular=tabular)
    assert state_of(evaluated(made, method, data)).pilot is None
    check_chunks(made, method, data, (1, 63, 64, 255, 256, 257, 300))
    for stop in (100, 400):
        check_resume(made, method, data, stop)


@SHORT
@pytest.mark.parametrize("n", [150, 420], ids=["in the pilot", "after it"])
@pytest.mark.parametrize("method", PILOTED.values(), ids=PILOTED)
def test_shards_concatenate(method: OnlineBootstrap, n: int) -> None:
    data = PROBLEM.sample(n, seed=2)
    whole = evaluated(TD(2), replace(method, n_replicas=7), data)
    parts = [
        evaluated(TD(2), replace(method, n_replicas=size, first_replica=first), data)
        for first, size in ((0, 3), (3, 4))
    ]
    joined = concatenate(parts)
    assert_same_bits(joined, whole)
    rows = [replace(method, n_replicas=7).launched(state_of(one)).iterate for one in (joined, whole)]
    assert rows[0].tobytes() == rows[1].tobytes()
    parts[1].update(data)
    with pytest.raises(SettingError, match="same stream"):
        concatenate(parts)


@SHORT
@pytest.mark.parametrize("method", PILOTED.values(), ids=PILOTED)
@pytest.mark.parametrize("algorithm", ALGORITHMS.values(), ids=ALGORITHMS)
def test_backends_agree(method: OnlineBootstrap, algorithm: Any) -> None:
    data = PROBLEM.sample(420, seed=3)
    rows = [
        state_of(evaluated(algorithm(2), method, data, backend=backend_named(name))).iterate
        for name in ("reference", "native")
    ]
    np.testing.assert_allclose(rows[1], rows[0], rtol=1e-12, atol=1e-12 * np.abs(rows[0]).max())


@pytest.mark.parametrize("tabular", [False, True], ids=["vectors", "table"])
@pytest.mark.parametrize("algorithm", [TD, GTD2], ids=["TD", "GTD2"])
def test_a_solved_start_is_the_solution_of_perturbed_equations(algorithm: Any, tabular: bool) -> None:
    """With small perturbations, the first order is all there is: each replica solves sum of W (b - A theta) = 0."""
    d, n = (4, 2000) if tabular else (2, 2000)
    data, method = PROBLEM.sample(n, seed=5, tabular=tabular), replace(WALK, initial="solved")
    state = method.launched(state_of(evaluated(algorithm(d), method, data)))
    phi, phi_next = (np.eye(d)[x] if tabular else x for x in (data.features, data.next_features))
    tick = np.arange(1, n + 1)
    w = method.multipliers.draw(method.seed, tick, np.zeros(n, np.int64), np.arange(5))
    a = np.einsum("t,ti,tj->tij", data.ratios, phi, phi - data.discounts[:, None] * phi_next)
    b = (data.ratios * data.rewards)[:, None] * phi
    theta = np.linalg.lstsq(a.sum(axis=0), b.sum(axis=0))[0]  # a terminal state has no equation
    np.testing.assert_allclose(state.iterate[:d, 0], theta, rtol=1e-8)
    np.testing.assert_allclose(state.iterate[d:], 0.0, atol=1e-10)  # y
    for replica in range(5):
        own = np.linalg.lstsq(np.einsum("t,tij->ij", w[replica], a), w[replica] @ b)[0]
        moved = state.iterate[:d, 1 + replica] - theta
        assert np.abs(moved - (own - theta)).max() < 0.1 * np.abs(own - theta).max()


@SHORT
def test_a_solved_start_has_the_weight_of_its_rows() -> None:
    """The average is that of a recursion that has stood at its start until the pilot ended."""
    method, data = replace(WALK, initial="solved", average="uniform"), PROBLEM.sample(257 + 63, seed=6)
    before, after = (state_of(evaluated(TD(2), method, data[:n])) for n in (256, 320))
    rows = method._averages(after)
    one_by_one, total = before, 256 * before.iterate
    increments, clock = increments_of(TD(2), data)
    for t in range(256, 320):
        one_by_one = method.fold(one_by_one, increments[t : t + 1], clock[t : t + 1])
        total = total + one_by_one.iterate
    assert before.n == 256
    np.testing.assert_allclose(rows, total / 320, rtol=1e-10)


def increments_of(algorithm: Any, data: Any) -> tuple[Increments, Any]:
    from inferl.data.streams import Streams

    _, steps = Streams().place(data)
    increments, clock, _ = algorithm.increments(steps, {})
    return increments, clock


@SHORT
def test_an_automatic_step_size_is_that_of_the_rows_of_the_pilot() -> None:
    """The run is the one with this step size, given from the beginning."""
    data = PROBLEM.sample(700, seed=7)
    state = state_of(evaluated(TD(2), PILOTED["automatic"], data))
    chosen = automatic(increments_of(TD(2), data)[0][:256])
    assert state.step_size == chosen
    given = state_of(evaluated(TD(2), replace(WALK, step_size=chosen), data))
    np.testing.assert_array_equal(state.iterate, given.iterate)
    np.testing.assert_array_equal(state.average_offset, given.average_offset)


def test_an_automatic_step_size_follows_the_slowest_direction() -> None:
    def rule(*rates: float) -> Polynomial:
        matrix = np.broadcast_to(np.diag(rates), (1000, len(rates), len(rates)))
        return automatic(Increments.dense(matrix, np.ones((1000, len(rates))), np.ones(1000)))

    slow, fast = rule(1.0, 0.01), rule(1.0, 0.1)
    assert slow.initial == pytest.approx(10 * fast.initial, rel=0.1)
    assert rule(1.0, 1e-9).initial == rule(1.0, -1.0).initial  # neither can be told from 0
    assert fast.decay == pytest.approx(2 / 3)
    turning = np.array([[0.1, -1.0], [1.0, 0.1]])  # eigenvalues .1 +- i
    chosen = automatic(Increments.dense(np.broadcast_to(turning, (1000, 2, 2)), np.ones((1000, 2)), np.ones(1000)))
    assert chosen.initial == fast.initial


def test_gradient_methods_get_a_smaller_cap() -> None:
    """Where the auxiliary step x is large, a step of y contracts by x |phi|^2."""
    data = PROBLEM.sample(1000, seed=8)
    small, large = (automatic(increments_of(GTD2(2, x), data)[0].expanded()).cap or 0.0 for x in (10.0, 100.0))
    assert large == pytest.approx(0.5 / 100, rel=0.1)
    assert small == pytest.approx(10 * large, rel=0.3)


@pytest.mark.parametrize(
    ("algorithm", "initial"),
    [
        (TD(2), [3.0, -1.0]),
        (GTD2(2), [3.0, -1.0]),
        (GTD2(2), [3.0, -1.0, 0.5, 0.0]),
        (Stack(TD(2), GTD2(2)), [3.0, -1.0, 2.0, 4.0]),
    ],
    ids=["TD", "GTD2", "GTD2 with y", "Stack"],
)
def test_all_rows_start_where_they_are_told(algorithm: Any, initial: list[float]) -> None:
    """With a step size of nearly 0 they stay there."""
    method = OnlineBootstrap(Polynomial(1e-12), n_replicas=3, initial=np.array(initial))
    state = state_of(evaluated(algorithm, method, PROBLEM.sample(100, seed=1)))
    whole: Floats = np.array(initial)
    if len(whole) != algorithm.n_parameters:
        whole = algorithm.pad(whole[None])[0]
    np.testing.assert_allclose(state.iterate, np.repeat(whole[:, None], 4, axis=1), atol=1e-9)
    np.testing.assert_allclose(method._averages(state), state.iterate, atol=1e-9)
    assert method == OnlineBootstrap(Polynomial(1e-12), n_replicas=3, initial=initial)


def test_the_recursion_forgets_where_it_started() -> None:
    data, c = PROBLEM.sample(20_000, seed=9), PROBLEM.features[0]
    far, near = (
        evaluated(TD(2), OnlineBootstrap(Polynomial(2.0, 0.65), initial=start, seed=1), data).interval(c)
        for start in ([50.0, 50.0], None)
    )
    assert abs(far.estimate - near.estimate) < near.standard_error


def test_settings_that_have_no_meaning_are_refused() -> None:
    for wrong in ("zero", [[1.0, 2.0]], [np.nan, 1.0], 3.0):
        with pytest.raises(SettingError, match="initial is"):
            OnlineBootstrap(Polynomial(1.0), initial=wrong)
    with pytest.raises(SettingError, match="step_size is"):
        OnlineBootstrap("automatic")
    with pytest.raises(SettingError, match="initial has length 3, but TD"):
        Evaluator(TD(2), OnlineBootstrap(Polynomial(1.0), initial=[1.0, 2.0, 3.0]))
    for method in (OnlineBootstrap("auto", initial=0), OnlineBootstrap(Polynomial(1.0), initial="solved")):
        for algorithm in (Field(2, lambda theta, step: -theta), Linear(1001)):
            with pytest.raises(SettingError, match="need a linear equation with at most 1,000 parameters"):
                Evaluator(algorithm, method)


def test_a_run_that_diverges_in_its_pilot_says_so() -> None:
    """Off-policy TD has no step size that is safe; the first rows can be read, and are not a number."""
    features = np.ones((6000, 1))
    data = inferl.Transitions(features, np.ones(6000), 3 * features, 0.99)
    evaluator = evaluated(TD(1), replace(WALK, step_size="auto", initial=0), data)
    assert np.isnan(evaluator.estimate([1.0]))
    assert next(check.name for check in evaluator.report([1.0]).checks if check.failed) == "overflow"
    with SHORT, pytest.raises(inferl.errors.DivergenceError):
        evaluated(TD(1), replace(WALK, step_size="auto", initial=0), data)


@SHORT
def test_files_with_impossible_pilots_are_refused(tmp_path: Path) -> None:
    data, path = PROBLEM.sample(420, seed=1), tmp_path / "forged"
    method = PILOTED["automatic"]
    inside, after = (evaluated(TD(2), method, data[:n])._state.method for n in (200, 420))
    other = evaluated(TD(3), method, three_features())._state.method.pilot
    wrong = {
        "a pilot does not belong": (WALK, 200, inside),
        "is missing, or does not belong": (WALK, 420, after),
        "automatic step size is missing": (method, 420, replace(after, step_size=None)),
        "10 steps were folded before": (method, 200, replace(inside, n=10)),
        "the pilot's rows are not those": (method, 200, replace(inside, pilot=other)),
    }
    for message, (settings, n, state) in wrong.items():
        forged = evaluated(TD(2), settings, data[:n])
        forged._state.method = state
        forged.save(path)
        with pytest.raises(CheckpointCorruptError, match=message):
            Evaluator.load(path)


def three_features() -> inferl.Transitions:
    rng = np.random.default_rng(1)
    phi = rng.normal(size=(201, 3))
    return inferl.Transitions(phi[:-1], rng.normal(size=200), phi[1:], 0.9)


@pytest.mark.parametrize("chunk", [7, 64, 100, 1000, 5000])
@pytest.mark.parametrize("lengths", [[1.0], [1.0, 1e6]])  # the message says more about those that differ
def test_what_diverges_in_a_pilot_stops_at_one_place(lengths: list[float], chunk: int) -> None:
    """The features of the next step are much longer, so the recursion explodes within its first rows."""
    d = len(lengths)
    one = np.ones((5000, d)) * lengths
    data = inferl.Transitions(one, 1e290 * np.random.default_rng(0).normal(size=5000), 20 * one, 0.99)
    method = replace(PILOTED["automatic"], initial=np.zeros(d))
    with SHORT:
        evaluator = Evaluator(TD(d), method)
        with pytest.raises(inferl.errors.DivergenceError):
            evaluator.update(data[start : start + chunk] for start in range(0, 5000, chunk))
        assert evaluator.n == state_of(evaluator).seen == 192  # of a pilot of 256 rows, all but its last tile


def test_a_solution_that_overflows_is_no_start(tmp_path: Path) -> None:
    here = np.random.default_rng(0).integers(2, size=300)
    with SHORT:
        evaluator = Evaluator(TD(2), PILOTED["solved"])
        with pytest.raises(inferl.errors.DivergenceError, match="not a finite number"):
            evaluator.update(inferl.Transitions(here, np.full(300, 1e308), here, 0.5))
        evaluator.save(tmp_path / "run")
        assert_same_bits(Evaluator.load(tmp_path / "run"), evaluator)


def test_increments_that_diverge_in_the_first_tile_of_a_chunk_say_so() -> None:
    y = np.random.default_rng(0).normal(size=(4000, 1))
    rows = Increments.dense(np.full((4000, 1, 1), -1.0), y)
    evaluator = Evaluator(Linear(1), OnlineBootstrap(inferl.Constant(0.5, cap=None), n_replicas=10, initial=0))
    with pytest.raises(inferl.errors.DivergenceError):
        evaluator.update(rows[start : start + 64] for start in range(0, 4000, 64))
    assert evaluator.n % 64 == 0
