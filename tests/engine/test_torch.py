"""The torch backend, on the CPU and, where there is one, on a GPU (`make test-gpu`): the answers of the native one."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inferl import (
    GTD,
    GTD2,
    TD,
    TDC,
    Constant,
    DoublyRobust,
    EmphaticTD,
    Evaluator,
    Increments,
    LeastSquares,
    Linear,
    Multipliers,
    NStepTD,
    OnlineBootstrap,
    Polynomial,
    Transitions,
    engine,
)
from inferl.data.device import DeviceArray, as_device, device_of, on_host
from inferl.engine.multipliers import BlockClock
from inferl.errors import DataError, DeviceError, DivergenceError, SettingError, ShapeError
from inferl.testing import assert_same_bits, check_backend

pytestmark = pytest.mark.torch
torch = pytest.importorskip("torch")

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
D = 5
BOOTSTRAP = OnlineBootstrap(Polynomial(0.5), n_replicas=40)
METHODS = [
    (DoublyRobust(D), LeastSquares("episode")),
    (DoublyRobust(TD(D, trace=0.5)), LeastSquares("episode")),
    (DoublyRobust(D, start=np.eye(D)[0]), LeastSquares()),
    (TD(D), LeastSquares()),
    (TD(D), LeastSquares("none")),
    (TD(D, trace=0.7), LeastSquares()),
    (EmphaticTD(D), LeastSquares()),
    (TD(D), BOOTSTRAP),
    (TD(D, trace=0.7), BOOTSTRAP),
    (TD(D), replace(BOOTSTRAP, multipliers=Multipliers("exponential", clock=BlockClock()), companion=False)),
    (TD(D), replace(BOOTSTRAP, multipliers=Multipliers("two-point", clock="episode"), seed=2**63 + 5)),
    (NStepTD(D, n=3), replace(BOOTSTRAP, step_size=Polynomial(0.2))),
    (GTD(D), BOOTSTRAP),
    (GTD2(D), BOOTSTRAP),
    (TDC(D), replace(BOOTSTRAP, first_replica=7)),
]


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def sample(n: int, streams: int = 1, seed: int = 0) -> Transitions:
    rng = np.random.default_rng(seed)
    phi, following = (np.column_stack([np.ones(n), rng.normal(size=(n, D - 1))]) for _ in range(2))
    phi[rng.random(n) < 0.1] = np.eye(D)[0]
    discounts = np.where(rng.random(n) < 0.05, 0.0, 0.9)
    ratios = rng.choice([0.5, 1.0, 1.5], size=n)
    return Transitions(phi, phi[:, 1] + rng.normal(size=n), following, discounts, ratios, stream=np.arange(n) % streams)


def there(data: Transitions, device: str) -> Transitions:
    """The same steps with their vectors on a device, as a user would pass them."""
    columns = {name: getattr(data, name) for name in ("rewards", "discounts", "ratios", "stream")}
    vectors = [torch.from_numpy(x).to(device) for x in (data.features, data.next_features)]
    return Transitions(features=vectors[0], next_features=vectors[1], **columns)


def bounds_of(evaluator: Evaluator) -> Any:
    targets = None if isinstance(evaluator.algorithm, DoublyRobust) else np.eye(D)
    report = evaluator.report(targets)
    interval = report.interval
    numbers = np.concatenate([np.atleast_1d(x) for x in (interval.estimate, interval.lower, interval.upper)])
    return numbers, [(check.name, check.failed) for check in report.checks]


@pytest.mark.parametrize("streams", [1, 7, 60])
@pytest.mark.parametrize(("algorithm", "method"), METHODS, ids=str)
def test_the_answers_are_those_of_the_native_backend(algorithm: Any, method: Any, streams: int, device: str) -> None:
    slow = isinstance(algorithm, GTD | EmphaticTD) or getattr(algorithm, "trace", 0) > 0
    chunks = [sample(n, streams, seed=n) for n in ((100, 1900, 333) if slow else (100, 9000, 333, 12_000))]
    native, own = Evaluator(algorithm, method), Evaluator(algorithm, method, backend="torch", device=device)
    for number, data in enumerate(chunks):
        native.update(data)
        own.update(there(data, device) if number % 2 else data)
        (numbers, checks), (expected, wanted) = bounds_of(own), bounds_of(native)
        width = np.abs(expected).max()
        np.testing.assert_allclose(numbers, expected, rtol=0, atol=1e-10 * width)
        assert checks == wanted
    assert own.fingerprint == native.fingerprint


def test_the_contract(device: str) -> None:
    check_backend(engine.backend_named("torch", device))


@pytest.mark.parametrize(("algorithm", "method"), [METHODS[0], METHODS[3], METHODS[7]], ids=str)
def test_a_run_continues_on_another_backend_and_bit_for_bit_on_the_same(
    algorithm: Any, method: Any, device: str, tmp_path: Path
) -> None:
    first, second = sample(9000, 3, seed=1), sample(7000, 3, seed=2)
    evaluator = Evaluator(algorithm, method, backend="torch", device=device).update(first)
    evaluator.save(tmp_path / "run")
    evaluator.update(second)
    same = Evaluator.load(tmp_path / "run", backend="torch", device=device).update(second)
    assert_same_bits(evaluator, same)
    host = Evaluator.load(tmp_path / "run").update(second)
    np.testing.assert_allclose(bounds_of(host)[0], bounds_of(evaluator)[0], rtol=1e-10, atol=1e-12)
    host.save(tmp_path / "back")
    back = Evaluator.load(tmp_path / "back", backend="torch", device=device).update(first)
    np.testing.assert_allclose(bounds_of(back)[0], bounds_of(host.update(first))[0], rtol=1e-10, atol=1e-12)


def test_the_state_is_on_the_device_and_readings_leave_it_there(device: str) -> None:
    evaluator = Evaluator(TD(D), BOOTSTRAP, backend="torch", device=device).update(sample(9000))
    before = evaluator.copy()
    state = evaluator._state.method
    assert device_of(state) is not None
    assert isinstance(state.iterate, DeviceArray)
    assert isinstance(state.companion.sums.matrix, DeviceArray)
    assert device_of(evaluator.with_pending()) is None
    evaluator.report(np.eye(D))
    assert_same_bits(before, evaluator)


def test_single_steps_and_chunks_give_the_same_answer(device: str) -> None:
    data = sample(700)
    whole = Evaluator(TD(D), backend="torch", device=device).update(data)
    single = Evaluator(TD(D), backend="torch", device=device)
    for t in range(len(data)):
        single.observe(data.features[t], data.rewards[t], data.next_features[t], data.discounts[t], data.ratios[t])
    np.testing.assert_allclose(bounds_of(single)[0], bounds_of(whole)[0], rtol=1e-10, atol=1e-12)


def test_tables_stay_on_the_host(device: str) -> None:
    rng = np.random.default_rng(0)
    data = Transitions(rng.integers(6, size=5000), rng.normal(size=5000), rng.integers(6, size=5000), 0.9)
    for method in (LeastSquares(), BOOTSTRAP):
        one, other = (Evaluator(TD(6), method, backend=name).update(data) for name in ("torch", "native"))
        assert_same_bits(one, other)


def test_linear_increments(device: str) -> None:
    rng = np.random.default_rng(0)
    matrix = np.eye(2) + 0.1 * rng.normal(size=(600, 2, 2))
    data = Increments.dense(matrix, rng.normal(size=(600, 2)))
    for method in (LeastSquares(), BOOTSTRAP):
        one, other = (Evaluator(Linear(2), method, backend=name).update(data) for name in ("torch", "native"))
        expected = other.interval(np.eye(2))
        np.testing.assert_allclose(one.interval(np.eye(2)).upper, expected.upper, rtol=1e-10)


@pytest.mark.parametrize("step", [0.3, 0.35, 0.5, 2.0])
def test_divergence_is_told(step: float, device: str) -> None:
    """Parameters are looked at every 512 steps, not every 64, so a search from an earlier edge may find more."""
    data = sample(4000)
    method = OnlineBootstrap(Constant(step, cap=None), n_replicas=10)
    native, own = Evaluator(TD(D), method), Evaluator(TD(D), method, backend="torch", device=device)
    errors = []
    for evaluator in (native, own):
        with pytest.raises(DivergenceError) as error:
            evaluator.update(data)
        errors.append(error.value)
        assert evaluator.n == (error.value.step - 1) // 64 * 64
        assert any(check.failed for check in evaluator.report(np.eye(D)).checks)
    assert errors[0].replica == errors[1].replica
    assert errors[0].step - 512 < errors[1].step <= errors[0].step


def test_bad_values_on_the_device_are_named_and_nothing_is_lost(device: str) -> None:
    data = sample(3000)
    evaluator = Evaluator(TD(D), backend="torch", device=device).update(data)
    before = evaluator.copy()
    vectors = as_device(data.features.copy(), device)
    vectors.tensor[17, 2] = float("nan")
    with pytest.raises(DataError, match=r"row 17, column 2: features is nan"):
        evaluator.update(Transitions(vectors, data.rewards, data.next_features, data.discounts))
    with pytest.raises(ShapeError, match="complex"):
        Transitions(as_device(np.zeros((2, 3), complex), device), [0, 0], np.zeros((2, 3)), 0.9)
    with pytest.raises(ShapeError, match=r"\(2, 3, 1\)"):
        Transitions(as_device(np.zeros((2, 3, 1)), device), [0, 0], np.zeros((2, 3)), 0.9)
    with pytest.raises(ShapeError, match="length 3"):
        evaluator.update(Transitions(as_device(np.zeros((2, 3)), device), [0, 0], np.zeros((2, 3)), 0.9))
    assert_same_bits(before, evaluator)


def test_types_of_the_device_are_converted(device: str) -> None:
    data = sample(500)
    expected = Evaluator(TD(D)).update(
        Transitions(data.features.astype(np.float32), data.rewards, data.next_features.astype(np.float32), 0.5)
    )
    vectors = [as_device(x.astype(np.float32), device) for x in (data.features, data.next_features)]
    given = Transitions(vectors[0], torch.from_numpy(data.rewards).to(device), vectors[1], 0.5)
    assert given.features.dtype == np.float64
    own = Evaluator(TD(D), backend="torch", device=device).update(given)
    np.testing.assert_allclose(bounds_of(own)[0], bounds_of(expected)[0], rtol=1e-9)


def test_vectors_on_a_device_need_the_torch_backend(device: str) -> None:
    data = sample(100).on(device)
    with pytest.raises(SettingError, match="use backend='torch'"):
        Evaluator(TD(D)).update(data)
    with pytest.raises(SettingError, match="works on the host only"):
        Evaluator(TD(D), backend="native", device=device)


@pytest.mark.parametrize("name", ["cuda:99", "nowhere", "meta:x"])
def test_a_device_that_is_not_there(name: str) -> None:
    with pytest.raises(DeviceError, match=name):
        Evaluator(TD(D), backend="torch", device=name)


def test_memory_that_is_full_is_a_named_error_and_nothing_is_lost(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    evaluator = Evaluator(TD(D), backend="torch", device=device).update(sample(6000))
    before = evaluator.copy()

    def full(*_: Any) -> Any:
        raise torch.cuda.OutOfMemoryError("of the test")

    monkeypatch.setattr(LeastSquares, "fold", full)
    with pytest.raises(DeviceError, match="is full"):
        evaluator.update(sample(6000, seed=1))
    assert_same_bits(before, evaluator)


def test_nothing_is_copied_to_the_host_silently(device: str) -> None:
    x = as_device(np.arange(6.0).reshape(2, 3), device)
    with pytest.raises(TypeError, match="on_host"):
        np.asarray(x)
    np.testing.assert_array_equal(on_host(np.ones((2, 3)) - 2 * x), 1 - 2 * np.arange(6.0).reshape(2, 3))


@pytest.mark.skipif("cuda" not in DEVICES, reason="there is no GPU")
def test_graphs_and_chunks_agree() -> None:
    """A long chunk runs as CUDA graphs; the same rows in short ones do not."""
    data = sample(20_000)
    long, short = (Evaluator(TD(D), BOOTSTRAP, backend="torch", device="cuda") for _ in range(2))
    long.update(data)
    for start in range(0, 20_000, 1000):
        short.update(data[start : start + 1000])
    np.testing.assert_allclose(bounds_of(long)[0], bounds_of(short)[0], rtol=1e-10, atol=1e-12)


@pytest.mark.skipif("cuda" not in DEVICES, reason="there is no GPU")
@pytest.mark.parametrize("library", ["jax", "cupy"])
def test_arrays_of_other_libraries(library: str) -> None:
    data = sample(800)
    numpy_like = pytest.importorskip("jax.numpy" if library == "jax" else "cupy")
    vectors = [numpy_like.asarray(x.astype(np.float32)) for x in (data.features, data.next_features)]
    given = Transitions(vectors[0], numpy_like.asarray(data.rewards.astype(np.float32)), vectors[1], 0.5)
    assert device_of(given) == "cuda:0"
    Evaluator(TD(D), backend="torch").update(given).interval(np.eye(D))
