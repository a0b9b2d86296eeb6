"""Contracts of algorithms, methods, sources and backends, as functions that raise `AssertionError` on a violation.

Run them on your own classes. The contracts are: any chunking of the stream and a resume after a save give the same
bits; a reading changes nothing; memory is flat; every backend agrees with the reference to 1e-12.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import fields, is_dataclass, replace
from itertools import islice, pairwise
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from inferl import engine
from inferl.algorithms import TD, TDC, Algorithm, DoublyRobust, Stack
from inferl.baselines import offline_bootstrap
from inferl.data.device import DeviceArray, on_host
from inferl.data.increments import GradientIncrements, Increments
from inferl.data.streams import Streams
from inferl.data.transitions import Transitions
from inferl.diagnostics import Check
from inferl.engine import Backend
from inferl.engine.multipliers import LAWS, BlockClock, Law, Multipliers, philox
from inferl.errors import CheckpointError, InferlError, KindError, SettingError, ShapeError
from inferl.evaluator import Evaluator
from inferl.merging import merge
from inferl.methods.base import Method
from inferl.methods.bootstrap import OnlineBootstrap
from inferl.methods.least_squares import LeastSquares
from inferl.methods.step_sizes import Polynomial
from inferl.sources.base import Source
from inferl.storage.checkpoint import read_checkpoint, write_checkpoint

__all__ = ["check_algorithm", "check_backend", "check_law", "check_method", "check_source"]

BOOTSTRAP = OnlineBootstrap(Polynomial(0.5, cap=0.1), n_replicas=5, seed=3)
DRAWS = 2**18  # of a law; with them, a mean that is 1.2 % of the deviation away from 1 is told
FAR = 6  # standard errors
FEWEST = 300  # rows: several tiles, and an incomplete one

Data = Transitions | Increments


def check_algorithm(algorithm: Algorithm, data: Data) -> None:
    """Run the contract of an algorithm on at least 300 rows of data.

    Increments are affine, and their value form has the same solution; inputs are not modified; with all multipliers 1
    all rows of the bootstrap are equal; chunks, resumes and shards give the same bits; memory is flat.

    >>> from inferl import TD, Transitions
    >>> rng = np.random.default_rng(0)
    >>> states = rng.integers(3, size=301)
    >>> check_algorithm(TD(3, trace=0.5), Transitions(states[:-1], rng.normal(size=300), states[1:], 0.9))
    """
    _enough(data)
    check_inputs_untouched(algorithm, BOOTSTRAP, data)
    _check_affine(algorithm, data)
    _check_value_form(algorithm, data)
    _check_unit_multipliers(algorithm, data)
    _check_shards(algorithm, data)
    for method in (BOOTSTRAP, *([LeastSquares()] if algorithm.affine else [])):
        for rows in (0, 8192):  # several epochs of least squares, and one long first epoch
            with mock.patch("inferl.variance.first_epoch.MOST_KEPT", rows):
                _check_bits(algorithm, method, data)
        check_flat_memory(algorithm, method, data)


def check_method(method: Method, algorithm: Algorithm, data: Data) -> None:
    """Run the contract of a method, with an algorithm that it supports, on at least 300 rows of data.

    Settings are a dataclass that equals its copy; chunks and resumes give the same bits; a reading changes nothing;
    estimate, intervals, covariance and report agree with each other; unknown kinds are refused; a merged evaluator has
    all data, and the parts do not change; memory is flat. The class must be registered (`inferl.methods.register`),
    because the contract saves and loads it.

    >>> from inferl import TD, LeastSquares, Transitions
    >>> rng = np.random.default_rng(0)
    >>> states = rng.integers(3, size=301)
    >>> data = Transitions(states[:-1], rng.normal(size=300), states[1:], 0.9)
    >>> check_method(LeastSquares(), TD(3), data)
    """
    _enough(data)
    _demand(hasattr(method, "__dataclass_fields__"), f"{method!r} is not a dataclass")
    _demand(method == deepcopy(method), f"{method!r} does not equal its copy")
    _demand("normal" in method.kinds, "kinds lacks 'normal', which anytime and simultaneous intervals need")
    check_inputs_untouched(algorithm, method, data)
    _check_state_untouched(algorithm, method, data)
    _check_bits(algorithm, method, data)
    nothing = Evaluator(algorithm, method).interval(
        algorithm.of_features(np.eye(algorithm.n_values)[:2]), kind="normal"
    )
    _demand(bool(np.all(np.isinf(nothing.width))), "before any data an interval is not infinite")
    _check_readings(evaluated(algorithm, method, data))
    _check_merging(algorithm, method, data)
    check_flat_memory(algorithm, method, data)
    information = [method.information(n) for n in (10, 100, 1000)]
    _demand(information == sorted(information), "information does not grow with the number of steps")


def check_backend(backend: Backend) -> None:
    """Compare a backend with the reference: all states agree to 1e-12, and to the bit for any number of threads.

    >>> from inferl import engine
    >>> check_backend(engine.backend_named("auto"))
    """
    rng = np.random.default_rng(0)
    n, d = 700, 4
    states, stream = rng.integers(d, size=n + 1), rng.integers(3, size=n)
    vectors = rng.normal(size=(n + 1, d)) / np.sqrt(d)
    columns = (rng.normal(size=n), np.where(rng.random(n) < 0.05, 0.0, 0.9), rng.gamma(4, 0.25, size=n))
    rewards, discounts, ratios = columns
    dense = Transitions(vectors[:-1], rewards, vectors[1:], discounts, ratios, stream=stream)
    table = Transitions(states[:-1], rewards, states[1:], discounts, ratios, stream=stream)
    both = Transitions(vectors[:-1], rewards, vectors[1:], discounts, np.stack([ratios, ratios[::-1]], 1))
    walks = [
        replace(BOOTSTRAP, multipliers=Multipliers(law)) for law in ("uniform", "two-point", "exponential", "poisson")
    ]
    walks.append(replace(BOOTSTRAP, multipliers=Multipliers("two-point", clock=BlockClock())))
    solved: list[Method] = [LeastSquares(blocks) for blocks in ("dyadic", "episode")]
    cases: tuple[tuple[Transitions, Algorithm, Sequence[Method]], ...] = (
        *((data, TD(d, trace=0.5), [*walks, *solved]) for data in (dense, table)),
        (dense, TDC(d), walks[:1]),
        (table, TDC(d), walks[:1]),
        (both, Stack(TD(d), TDC(d)), walks[:1]),
        *((data, DoublyRobust(TD(d)), solved) for data in (dense, table)),
    )
    for data, algorithm, methods in cases:
        for method in methods:
            for kept in (0, 8192):
                with mock.patch("inferl.variance.first_epoch.MOST_KEPT", kept):
                    _check_agreement(backend, algorithm, method, data)
    for data in (dense, table):
        found = []
        for used in (backend, engine.backend_named("reference")):
            with engine.using(used):
                found.append(
                    offline_bootstrap(data, TD(d), Polynomial(0.5, cap=0.1), 0 if data.tabular else vectors[0])
                )
        np.testing.assert_allclose(_bounds(found[0]), _bounds(found[1]), rtol=1e-10)


def check_law(law: Law) -> None:
    """Run the contract of a law of multipliers on many words.

    It is a pure function, applied elementwise; it is finite; its mean is 1, and its standard deviation is the declared
    one; replicas with it do not depend on how the stream is cut.

    >>> from inferl import Law
    >>> check_law(Law.of_uniform(lambda u: np.where(u < 0.2, 3.0, 0.5), deviation=1.0))
    """
    tick = np.arange(DRAWS, dtype=np.uint64)
    word = philox((tick[: DRAWS // 4], 0, 0, 0), (0, 0)).reshape(-1)
    drawn = law.multiplier(word, tick)
    _demand(drawn.shape == word.shape, f"{word.shape} words make multipliers of shape {np.shape(drawn)}")
    _demand(bool(np.isfinite(drawn).all()), "some multipliers are not finite")
    _demand(np.array_equal(drawn, law.multiplier(word, tick)), "the same words, given twice, make other multipliers")
    rows = tick[: DRAWS // 4]
    parts = law.multiplier(word[: 2 * len(rows)].reshape(2, -1), rows)
    ones = [law.multiplier(word[: len(rows)], rows), law.multiplier(word[len(rows) : 2 * len(rows)], rows)]
    _demand(np.array_equal(parts, ones), "it is not applied elementwise: multipliers depend on their neighbours")
    mean, deviation = float(drawn.mean()), float(drawn.std())
    noise = FAR / np.sqrt(DRAWS)
    _demand(abs(mean - 1) <= noise * deviation, f"the mean is {mean:.4g}, and not 1")
    excess = float(np.mean(((drawn - mean) / deviation) ** 4)) - 1
    told = f"the standard deviation is {deviation:.4g}, and not {law.deviation:.4g}"
    _demand(abs(deviation - law.deviation) <= noise * deviation * (np.sqrt(excess) / 2 + noise), told)
    rng = np.random.default_rng(0)
    states = rng.integers(3, size=FEWEST + 1)
    data = Transitions(states[:-1], rng.normal(size=FEWEST), states[1:], 0.9)
    with mock.patch.dict(LAWS, {"checked": law}):
        _check_bits(TD(3), replace(BOOTSTRAP, multipliers=Multipliers("checked"), companion=False), data)


def check_source(make: Callable[[], Source], chunks: int = 5) -> None:
    """Run the contract of a source on its first `chunks`; `make` builds a new source, at its beginning.

    It yields transitions; `start` returns a target that an evaluator accepts; `describe` returns text. If it can
    resume: new sources yield the same rows; a position is plain data, survives a checkpoint, and does not change when
    the source is read on; a new source resumed there continues with the same rows, to the last bit.

    Examples
    --------
    A random walk that is computed from its position, 50 steps at a time:

    >>> from inferl import Transitions
    >>> class Walk:
    ...     dimension = 7
    ...
    ...     def __init__(self, position=(0, 0)):
    ...         self.position = position  # chunks, and the state after them
    ...
    ...     def __iter__(self):
    ...         while True:
    ...             chunk, state = self.position
    ...             steps = np.random.default_rng(chunk).choice([-1, 1], size=50)
    ...             states = (state + np.cumsum([0, *steps])) % 7
    ...             self.position = (chunk + 1, int(states[-1]))
    ...             yield Transitions(states[:-1], 1.0 * (states[1:] == 3), states[1:], 0.9)
    ...
    ...     def resume(self, position):
    ...         return Walk(position)
    ...
    ...     def start(self):
    ...         return 0
    ...
    ...     def describe(self):
    ...         return {"walk": f"{50 * self.position[0]} steps"}
    >>> check_source(Walk)
    """
    source = make()
    _demand(isinstance(source, Source), f"{type(source).__name__} lacks a member of inferl.sources.Source")
    stream, positions = iter(source), [source.position]
    kept, read, ended = [deepcopy(positions[0])], list[Transitions](), False
    while len(read) < chunks and not ended:
        chunk = next(stream, None)
        ended = chunk is None
        positions.append(source.position)
        kept.append(deepcopy(positions[-1]))
        if chunk is not None:
            _demand(isinstance(chunk, Transitions), f"it yields a {type(chunk).__name__}, not Transitions")
            _demand(len(chunk) > 0, "it yields a chunk without rows")
            read.append(chunk)
    _demand(len(read) > 0, "it yields nothing")
    _check_answers(source, read)
    if kept[0] is None:
        _demand(all(position is None for position in kept), "its position is None at first, and later it is not")
        return
    again = list(islice(make(), len(read)))
    _demand(_same_rows(read, again), "two new sources do not yield the same rows")
    for number, position in enumerate(kept):
        resumed = make().resume(_through_a_file(position))
        where = f"resumed after {min(number, len(read))} chunks,"
        _demand(_same_plain(resumed.position, position), f"{where} its position is not the one that was given")
        rest = read[number:]
        found = _first_rows(resumed, None if ended else sum(map(len, rest)))
        _demand(_same_rows(rest, found), f"{where} it does not continue with the same rows")
        if ended:
            same = np.array_equal(np.asarray(resumed.start()), np.asarray(source.start()))
            _demand(same, f"{where} it does not end with the same start")
    for before, after in zip(kept, positions, strict=True):
        _demand(_same_plain(before, after), "a position changed after it was returned: return a copy")


def _check_answers(source: Source, read: Sequence[Transitions]) -> None:
    """Check that the start is a target, and that the facts are text."""
    one = [chunk if chunk.ratios.ndim == 1 else chunk.with_ratios(chunk.ratios[:, 0]) for chunk in read]
    try:
        Evaluator(TD(source.dimension)).update(one).interval(source.start())
    except InferlError as error:
        raise AssertionError(
            f"TD({source.dimension}) does not accept the data, or the target start(): {error}"
        ) from None
    facts: Any = source.describe()
    text = isinstance(facts, dict) and all(isinstance(part, str) for fact in facts.items() for part in fact)
    _demand(text, "describe() does not return a dict of strings")
    made: Any = source.checks() if hasattr(source, "checks") else ()
    sound = isinstance(made, tuple) and all(isinstance(check, Check) for check in made)
    _demand(sound, "checks() does not return a tuple of Check")


def _first_rows(source: Source, n: int | None) -> list[Transitions]:
    """Read the first n rows, or all; fewer if there are no more."""
    found: list[Transitions] = []
    for chunk in source if n != 0 else ():
        found.append(chunk if n is None else chunk[:n])
        n = None if n is None else n - len(found[-1])
        if n == 0:
            break
    return found


def _same_rows(one: Sequence[Transitions], other: Sequence[Transitions]) -> bool:
    if not one or not other:
        return len(one) == len(other)
    return _same_plain(
        *({f.name: getattr(Transitions.join(rows), f.name) for f in fields(Transitions)} for rows in (one, other))
    )


def _same_plain(one: Any, other: Any) -> bool:
    """Compare plain data, to the last bit."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same_plain(one[key], other[key]) for key in one)
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(_same_plain, one, other))
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return (one.dtype, one.shape) == (other.dtype, other.shape) and one.tobytes() == other.tobytes()
    return type(one) is type(other) and repr(one) == repr(other)


def _through_a_file(position: Any) -> Any:
    """Write a position to a checkpoint, and read it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "position"
        try:
            write_checkpoint(path, position)
            found = read_checkpoint(path, ())
        except CheckpointError as error:
            raise AssertionError(f"its position is not plain data: {error}") from None
    _demand(
        _same_plain(found, position), f"a checkpoint does not preserve the position {position!r:.80}: use plain data"
    )
    return found


# Parts of the checks.


def _demand(holds: bool, otherwise: str) -> None:
    if not holds:
        raise AssertionError(otherwise)


def _enough(data: Data) -> None:
    _demand(len(data) >= FEWEST, f"{len(data)} rows are too few for this check; give {FEWEST} or more")


def arrays_of(tree: Any) -> list[np.ndarray[Any, Any]]:
    """Return all arrays and numbers in nested dataclasses, dicts and tuples."""
    if isinstance(tree, np.ndarray | DeviceArray):
        return [on_host(tree)]
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
    """Demand that two evaluators have the same state, to the last bit."""
    one, other = one.copy(), other.copy()  # a copy has no buffered steps
    left, right = arrays_of(one._state), arrays_of(other._state)
    _demand(len(left) == len(right), f"one state has {len(left)} arrays and numbers, the other {len(right)}")
    for a, b in zip(left, right, strict=True):
        _demand(a.shape == b.shape, f"one state has an array of shape {a.shape}, the other of {b.shape}")
        _demand(a.tobytes() == b.tobytes(), "the states differ")


def evaluated(algorithm: Algorithm, method: Method, data: Data, cuts: Sequence[int] = (), **options: Any) -> Evaluator:
    """Return an evaluator of the data, updated in chunks that are cut at these rows."""
    evaluator = Evaluator(algorithm, method, **options)
    for start, stop in pairwise([0, *cuts, len(data)]):
        evaluator.update(data[start:stop])
    return evaluator


def _check_bits(algorithm: Algorithm, method: Method, data: Data) -> None:
    check_chunks(algorithm, method, data, cuts=(1, 2, 63, 64, 65, 130, 200))
    check_chunks(algorithm, method, data, cuts=range(1, len(data)))
    check_resume(algorithm, method, data, stop=97)
    check_resume(algorithm, method, data, stop=257)


def check_chunks(algorithm: Algorithm, method: Method, data: Data, cuts: Sequence[int]) -> None:
    """Demand that any chunking of the stream gives the same bits."""
    assert_same_bits(evaluated(algorithm, method, data), evaluated(algorithm, method, data, cuts))


def check_resume(algorithm: Algorithm, method: Method, data: Data, stop: int) -> None:
    """Demand that a run that is saved, loaded and continued has the bits of an uninterrupted run."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run"
        evaluated(algorithm, method, data[:stop]).save(path)
        resumed = Evaluator.load(path, algorithm).update(data[stop:])
    assert_same_bits(evaluated(algorithm, method, data), resumed)


def check_inputs_untouched(algorithm: Algorithm, method: Method, data: Data) -> None:
    """Demand that an update does not change the data."""
    before = [array.copy() for array in arrays_of(data)]
    evaluated(algorithm, method, data)
    for old, new in zip(before, arrays_of(data), strict=True):
        np.testing.assert_array_equal(old, new)


def _check_state_untouched(algorithm: Algorithm, method: Method, data: Data) -> None:
    """Demand that folding rows into a copy of a state does not change the state."""
    evaluator = evaluated(algorithm, method, data[:97])
    before = deepcopy(evaluator)
    evaluator.with_pending()
    try:
        assert_same_bits(before, evaluator)
    except AssertionError:
        raise AssertionError(
            "folding rows changed the given state: `advance` must return a new one, or `copy` must copy what is changed"
        ) from None


def written_out(increments: Any) -> Any:
    """Return increments in full form, with terms over all parameters."""
    return increments.expanded() if isinstance(increments, GradientIncrements) else increments


def _increments_of(algorithm: Algorithm, data: Data) -> Any:
    _, steps = Streams().place(data)
    return written_out(algorithm.increments(steps, {})[0])


def _check_affine(algorithm: Algorithm, data: Data) -> None:
    """Demand at(theta) = vector - matrix theta."""
    if not algorithm.affine:
        return
    increments = _increments_of(algorithm, data)
    theta = np.random.default_rng(0).normal(size=algorithm.n_parameters)
    np.testing.assert_allclose(
        increments.at(theta), increments.vector() - increments.matrix() @ theta, rtol=1e-12, atol=1e-12
    )


def _check_value_form(algorithm: Algorithm, data: Data) -> None:
    """Demand that the value form has the same solution, in the first d parameters."""
    if not algorithm.affine:
        return
    increments = _increments_of(algorithm, data)
    both = np.linalg.solve(increments.matrix().mean(axis=0), increments.vector().mean(axis=0))
    reduced = algorithm.value_form(increments)
    theta = np.linalg.solve(reduced.matrix().mean(axis=0), reduced.vector().mean(axis=0))
    chosen = algorithm.pad(np.eye(algorithm.dimension)) @ both
    np.testing.assert_allclose(chosen, theta, rtol=1e-8, atol=1e-10)
    _, steps = Streams().place(data)
    short = algorithm.value_form(algorithm.increments(steps, {})[0])
    theta = np.linalg.solve(short.matrix().mean(axis=0), short.vector().mean(axis=0))
    np.testing.assert_allclose(chosen, theta, rtol=1e-8, atol=1e-10)


def _check_unit_multipliers(algorithm: Algorithm, data: Data) -> None:
    """Demand that all rows are equal if all multipliers are 1."""
    ones = Law(1.0, 4, lambda word, tick: np.ones(word.shape))
    with mock.patch.dict(LAWS, {"ones": ones}):
        state = evaluated(algorithm, replace(BOOTSTRAP, multipliers=Multipliers("ones")), data)._state.method
    np.testing.assert_array_equal(state.iterate, np.repeat(state.iterate[:, :1], 6, axis=1))
    np.testing.assert_array_equal(state.average_offset, np.repeat(state.average_offset[:, :1], 6, axis=1))
    _demand(np.abs(state.iterate).max() > 0, "the data have changed no parameter")


def _check_shards(algorithm: Algorithm, data: Data) -> None:
    """Demand that replicas split over evaluators are the same rows, bit for bit."""
    whole = evaluated(algorithm, replace(BOOTSTRAP, n_replicas=7), data)._state.method
    parts = [
        evaluated(algorithm, replace(BOOTSTRAP, n_replicas=n, first_replica=first), data)._state.method
        for first, n in ((0, 2), (2, 3), (5, 2))
    ]
    for name in ("iterate", "average_offset"):
        rows = [getattr(part, name)[:, 1:] for part in parts]
        joined = np.concatenate([getattr(parts[0], name)[:, :1], *rows], axis=1)
        same = joined.tobytes() == np.ascontiguousarray(getattr(whole, name)).tobytes()
        _demand(same, "replicas of a shard differ from those of the whole")


@mock.patch("inferl.variance.first_epoch.MOST_KEPT", 0)  # a short first epoch
def check_flat_memory(algorithm: Algorithm, method: Method, data: Data) -> None:
    """Demand that the state does not grow with the stream (least squares adds a block level at each doubling)."""

    def size(evaluator: Evaluator) -> int:
        return sum(sys.getsizeof(array.tobytes()) for array in arrays_of(evaluator.copy()._state))

    evaluator = evaluated(algorithm, method, data)
    for _ in range(3):
        evaluator.update(data)
    early = size(evaluator)
    for _ in range(12):
        evaluator.update(data)
    levels = 0 if getattr(method, "companion", True) is False else 6
    allowance = levels * 8 * (algorithm.dimension + 2) ** 2 * 2
    late = size(evaluator)
    grown = f"the state grew from {early} to {late} bytes while the data grew fourfold"
    _demand(late <= early + allowance + 64 * len(data), grown)


def _check_readings(evaluator: Evaluator) -> None:
    """Demand that all readings agree, and that they change nothing."""
    before, method = evaluator.copy(), evaluator.method
    targets = evaluator.algorithm.of_features(np.eye(evaluator.algorithm.n_values)[:2])
    estimate = evaluator.estimate(targets)
    for kind in (None, *method.kinds, "anytime"):
        interval = evaluator.interval(targets, kind=kind)
        np.testing.assert_allclose(interval.estimate, estimate, rtol=1e-9, atol=1e-12)
        _demand(bool(np.all(interval.lower <= interval.upper)), f"an interval of kind {kind!r} is empty")
        _demand(bool(np.all(np.asarray(interval.standard_error) >= 0)), "a standard error is negative or NaN")
    error = np.asarray(evaluator.interval(targets).standard_error)
    np.testing.assert_allclose(np.sqrt(np.diagonal(evaluator.covariance(targets))), error, rtol=1e-6)
    together = evaluator.interval(targets, kind="simultaneous")
    alone = evaluator.interval(targets, kind="normal")
    _demand(bool(np.all(together.width >= 0.999 * alone.width)), "simultaneous intervals are narrower than pointwise")
    try:
        evaluator.interval(targets, kind="no such kind")
    except KindError:
        pass
    else:
        raise AssertionError("an unknown kind of interval was not refused")
    report = evaluator.report(targets)
    _demand(bool(str(report)) and bool(json.dumps(report.to_dict(), default=str)), "the report cannot be printed")
    try:
        evaluator.update(())
        evaluator.update(Transitions(np.zeros((0, 1)), [], np.zeros((0, 1)), []))
    except (ShapeError, SettingError):
        pass
    assert_same_bits(before, evaluator)


def _check_merging(algorithm: Algorithm, method: Method, data: Data) -> None:
    """Demand that a merged evaluator has all data, and shares nothing with its parts; some methods cannot merge."""
    parts = [evaluated(algorithm, method, rows) for rows in (data[:128], data[128:])]
    before = [part.copy() for part in parts]
    try:
        merged = merge(*parts)
    except SettingError:
        return
    _demand(merged.n == len(data), f"{len(data)} transitions were merged, but n is {merged.n}")
    merge(*parts).update(data[:70])
    for part, same in zip(parts, before, strict=True):
        assert_same_bits(part, same)
    targets = algorithm.of_features(np.eye(algorithm.n_values)[:2])
    _demand(bool(np.isfinite(merged.estimate(targets)).all()), "merged evaluators have no estimate")
    other = merge(*reversed(parts))
    np.testing.assert_allclose(merged.estimate(targets), other.estimate(targets), rtol=1e-6, atol=1e-9)


def _check_agreement(backend: Backend, algorithm: Algorithm, method: Method, data: Data) -> None:
    """Demand the state of the reference to 1e-12 of its largest number, and the same bits on three threads."""
    own = evaluated(algorithm, method, data, backend=backend)
    assert_same_bits(own, evaluated(algorithm, method, data, backend=backend, threads=3))
    expected = evaluated(algorithm, method, data, backend=engine.backend_named("reference"))
    states = [one.copy()._state.method for one in (own, expected)]
    if hasattr(states[0], "scale"):  # a bound that only serves to detect divergence, see `Fold`
        states = [replace(state, scale=0.0) for state in states]
    left, right = (
        arrays_of((state, one.copy()._state.episodes)) for state, one in zip(states, (own, expected), strict=True)
    )
    _demand(len(left) == len(right), "the states have different parts")
    for a, b in zip(left, right, strict=True):
        scale = float(np.abs(b.astype(np.float64)).max(initial=0.0))
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12 * max(scale, 1e-300))


def _bounds(interval: Any) -> list[float]:
    return [float(interval.estimate), float(interval.lower), float(interval.upper)]
