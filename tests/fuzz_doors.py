"""What people hand in, sound and rotten, at every door of the package: `python tests/fuzz_doors.py --inputs 1000000`.

An input is a pure function of its seed and number, so that whatever is found can be looked at again (`--show 1234`).
What is sound must be taken, what is rotten must be refused by an error of the package, and a refusal must leave the
evaluator as it was. A step that is observed must be taken or refused as the same row of `Transitions` is.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any, cast

import numpy as np
import pandas
from fuzzing import Judgement, command

import inferl
from inferl.data.vectors import Sparse
from inferl.errors import InferlError
from inferl.policies import Deterministic, Probabilities, Ratio, as_policy, epsilon_greedy
from inferl.testing import arrays_of

__all__ = ["BAD", "DOORS", "campaign"]

OUTCOMES = ("taken", "refused", "taken though rotten", "refused though sound", "foreign exception", "state changed")
BAD = OUTCOMES[2:]

Generator = np.random.Generator


class Wrong(Exception):
    """A promise of the door was broken; the outcome is the first argument."""


class Evil:
    """Raises when it is asked for its array."""

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise KeyError("evil")


def _ragged(n: int) -> list[Any]:
    return [[1.0] * (1 + k % 2) for k in range(max(n, 2))]


def _endless() -> list[Any]:
    found: list[Any] = []
    found.append(found)
    return found


# What is no column of numbers, whatever the column: each made for n rows.

ROTTEN: dict[str, Callable[[Generator, int], Any]] = {
    "masked": lambda rng, n: np.ma.array(rng.random(n), mask=np.arange(n) == rng.integers(n)),
    "masked matrix": lambda rng, n: np.ma.array(rng.random((n, 2)), mask=True),
    "list with a mask": lambda rng, n: [np.ma.masked, *rng.random(n - 1).tolist()],
    "list of masked": lambda rng, n: [np.ma.array([1.0, 2.0], mask=[False, True])] * n,
    "dates": lambda rng, n: np.array(["2024-01-01"] * n, "M8[s]"),
    "date objects": lambda rng, n: [datetime(2024, 1, 1)] * n,
    "NaT": lambda rng, n: np.array(["NaT"] * n, "M8[ns]"),
    "durations": lambda rng, n: rng.integers(5, size=n).astype("m8[s]"),
    "records": lambda rng, n: np.zeros(n, "f8,i4"),
    "complex": lambda rng, n: rng.random(n) + 0j,
    "text": lambda rng, n: ["a"] * n,
    "numbers as text": lambda rng, n: [str(x) for x in rng.random(n)],
    "bytes": lambda rng, n: [b"1"] * n,
    "None": lambda rng, n: [None] * n,
    "some None": lambda rng, n: [None, *rng.random(n).tolist()][:n],
    "ragged": lambda rng, n: _ragged(n),
    "decimals": lambda rng, n: [Decimal("0.5")] * n,
    "fractions": lambda rng, n: [Fraction(1, 2)] * n,
    "objects": lambda rng, n: [object()] * n,
    "floats as objects": lambda rng, n: np.array(rng.random(n), object),
    "huge integers": lambda rng, n: [10 ** int(rng.integers(20, 60))] * n,
    "gigantic integers": lambda rng, n: [10**5000] * n,
    "NaN": lambda rng, n: np.where(np.arange(n) == rng.integers(n), np.nan, 0.5),
    "infinite": lambda rng, n: np.full(n, rng.choice([np.inf, -np.inf])),
    "long doubles": lambda rng, n: np.full(n, np.finfo(np.longdouble).max),
    "missing": lambda rng, n: pandas.array([None] * n, dtype="Float64"),
    "categories": lambda rng, n: pandas.Series(["a"] * n, dtype="category"),
    "dict": lambda rng, n: {},
    "set": lambda rng, n: {0.5},
    "generator": lambda rng, n: (x for x in range(n)),
    "object": lambda rng, n: object(),
    "type": lambda rng, n: float,
    "function": lambda rng, n: _ragged,
    "evil": lambda rng, n: Evil(),
    "in itself": lambda rng, n: _endless(),
    "empty": lambda rng, n: [],
    "too long": lambda rng, n: rng.random(n + 1),
    "too deep": lambda rng, n: rng.random((n, 1, 1, 1)),
    "a word": lambda rng, n: "values",
}

# What cannot be in one column, and may be in another.

WRONG: dict[str, list[Callable[[Generator, int], Any]]] = {
    "features": [lambda rng, n: rng.random(n), lambda rng, n: np.full(n, -1), lambda rng, n: rng.random((n, 0))],
    "next_features": [lambda rng, n: np.full(n, 2**63, np.uint64), lambda rng, n: np.ones(n, bool)],
    "rewards": [lambda rng, n: rng.random(n) > 2, lambda rng, n: rng.random((n, 1))],
    "discounts": [lambda rng, n: rng.random(n) + 1.001, lambda rng, n: True, lambda rng, n: -1e-9],
    "ratios": [lambda rng, n: -rng.random(n) - 1e-9, lambda rng, n: np.ones((n, 0)), lambda rng, n: False],
    "first": [lambda rng, n: np.full(n, 2), lambda rng, n: np.full(n, 0.5)],
    "last": [lambda rng, n: ["yes"] * n, lambda rng, n: rng.random((n, 2)) > 0.5],
    "episode": [lambda rng, n: rng.random(n), lambda rng, n: np.full(n, -1), lambda rng, n: ["a"] * n],
    "stream": [lambda rng, n: np.full(n, 2**32), lambda rng, n: 0.0, lambda rng, n: True, lambda rng, n: None],
    "truncated": [lambda rng, n: np.full(n, -1), lambda rng, n: "no"],
}


def sound_columns(rng: Generator, n: int, d: int, tabular: bool) -> dict[str, Any]:
    """Columns that every algorithm on d features takes, in one of the many forms that people have them in."""
    ends = rng.random(n) < 0.1
    made: dict[str, Any] = {
        "features": rng.integers(d, size=n) if tabular else rng.normal(size=(n, d)),
        "rewards": rng.normal(size=n),
        "next_features": rng.integers(d, size=n) if tabular else rng.normal(size=(n, d)),
        "discounts": np.where(ends, 0.0, 0.9),
    }
    if rng.random() < 0.3:
        made["last"] = ends | (rng.random(n) < 0.05)
    if rng.random() < 0.3:
        made["stream"] = rng.integers(3, size=n)
    return {name: _disguised(rng, value) for name, value in made.items()}


def _disguised(rng: Generator, values: Any) -> Any:
    """The same numbers as a list, a series, a view, or an array of another type."""
    form = rng.integers(6)
    if form == 0:
        return values.tolist()
    if form == 1 and values.ndim == 1:
        return pandas.Series(values)
    if form == 2:
        return np.repeat(values, 2, axis=0)[::2]
    if form == 3:
        return np.ma.array(values)  # nothing is masked
    if form == 4 and values.dtype == np.int64:
        return values.astype(rng.choice(["u1", "i4", "u8"]))
    return values


def rotten(rng: Generator, n: int, column: str) -> tuple[str, Any]:
    """Something that is none of the numbers of a column."""
    if rng.random() < 0.2 and column in WRONG:
        which = int(rng.integers(len(WRONG[column])))
        return f"wrong {which}", WRONG[column][which](rng, n)
    sort = str(rng.choice(list(ROTTEN)))
    return sort, ROTTEN[sort](rng, n)


def anything(rng: Generator) -> tuple[str, Any]:
    """A value for a setting, mostly none that it can have."""
    if rng.random() < 0.5:
        sort = str(rng.choice(list(ROTTEN)))
        return sort, ROTTEN[sort](rng, int(rng.integers(1, 4)))
    plain: list[Any] = [0, 1, 2, 3, -1, 2**70, 10**400, 0.5, 1.0, 1.5, -0.5, 1e300, np.nan, np.inf]
    plain += [None, True, False, (), (1, 2), "a"]
    value = plain[int(rng.integers(len(plain)))]
    return "huge" if value == 10**400 else f"{type(value).__name__} {value}", value


# The evaluators that things are handed to.

BOOTSTRAP = inferl.OnlineBootstrap(inferl.Polynomial(0.5), n_replicas=2)
ALGORITHMS: list[Callable[[], tuple[inferl.Evaluator, int, bool]]] = [
    lambda: (inferl.Evaluator(inferl.TD(3)), 3, True),
    lambda: (inferl.Evaluator(inferl.TD(2)), 2, False),
    lambda: (inferl.Evaluator(inferl.TD(2, trace=0.5), inferl.LeastSquares("episode")), 2, False),
    lambda: (inferl.Evaluator(inferl.DoublyRobust(2)), 2, True),
    lambda: (inferl.Evaluator(inferl.DoublyRobust(2)), 2, False),
    lambda: (inferl.Evaluator(inferl.QEvaluation(2)), 2, False),
    lambda: (inferl.Evaluator(inferl.AverageReward(3)), 3, True),
    lambda: (inferl.Evaluator(inferl.GTD2(2), BOOTSTRAP), 2, False),
    lambda: (inferl.Evaluator(inferl.NStepTD(2, n=3), BOOTSTRAP), 2, True),
    lambda: (inferl.Evaluator(inferl.Stack(inferl.TD(2), inferl.EmphaticTD(2))), 2, False),
    lambda: (inferl.Evaluator(inferl.Field(1, lambda theta, step: step.reward - theta, 2), BOOTSTRAP), 2, False),
]


def started(rng: Generator) -> tuple[inferl.Evaluator, int, bool]:
    """An evaluator that has seen some rows, or none."""
    evaluator, d, tabular = ALGORITHMS[int(rng.integers(len(ALGORITHMS)))]()
    if rng.random() < 0.8:
        evaluator.update(inferl.Transitions(**sound_columns(rng, int(rng.integers(1, 150)), d, tabular)))
    return evaluator, d, tabular


def bits(evaluator: inferl.Evaluator) -> list[bytes]:
    """All that an evaluator has learned; what was observed is gathered first."""
    evaluator.fingerprint  # noqa: B018
    return [array.tobytes() for array in arrays_of(evaluator._state)]


class FirstEpoch:
    """Checks that an evaluator is as it was if what is done inside is refused."""

    def __init__(self, evaluator: inferl.Evaluator) -> None:
        self.evaluator = evaluator

    def __enter__(self) -> None:
        self.n, self.before = self.evaluator.n, bits(self.evaluator)

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if isinstance(error, InferlError) and (self.evaluator.n != self.n or bits(self.evaluator) != self.before):
            raise Wrong("state changed", f"though it was refused: {error}")


# The doors. Each returns what sort of thing it tried, whether that was sound (None: not known), and what to call.

Trial = tuple[str, bool | None, Callable[[], Any]]
Door = Callable[[Generator], Trial]


def transitions(rng: Generator) -> Trial:
    """A chunk, with one rotten column or none."""
    n, sort = int(rng.integers(1, 8)), "sound"
    columns = sound_columns(rng, n, 2, bool(rng.integers(2)))
    if rng.random() < 0.8:
        name = str(rng.choice(list(WRONG)))
        sort, columns[name] = rotten(rng, n, name)
    return sort, sort == "sound", lambda: inferl.Transitions(**columns)


def increments(rng: Generator) -> Trial:
    """A user's own increments, by the constructor or by `dense`."""
    n, p, sort = int(rng.integers(1, 90)), 2, "sound"
    if rng.random() < 0.5:
        given: dict[str, Any] = {"matrix": rng.normal(size=(n, p, p)), "vector": rng.normal(size=(n, p))}
        make: Any = inferl.Increments.dense
    else:
        u, v = rng.normal(size=(2, n, 1, p))
        if rng.random() < 0.3:
            index = np.tile(np.arange(p), (n, 1, 1))
            u, v = Sparse(index, u, p), Sparse(index, v, p)
        make = inferl.Increments
        given = {"u": u, "v": v, "c": rng.normal(size=(n, 1)), "damping": np.zeros(p), "scale": np.ones(n)}
    evaluator = inferl.Evaluator(inferl.Linear(p), None if rng.random() < 0.5 else BOOTSTRAP).update(make(**given))
    if rng.random() < 0.8:
        name = str(rng.choice(list(given)))
        sort, given[name] = rotten(rng, n, name)
        if make is inferl.Increments and rng.random() < 0.5:
            sort, given[name] = _misshapen(rng, n, p)
    known = sort == "sound"

    def use() -> None:
        with FirstEpoch(evaluator):
            evaluator.update(make(**given))

    return sort, True if known else None if sort in ("too deep", "shape") else False, use


def _misshapen(rng: Generator, n: int, p: int) -> tuple[str, Any]:
    shape = tuple(rng.integers(0, 4, size=rng.integers(0, 4)).tolist())
    if rng.random() < 0.3:
        return "shape", Sparse(rng.integers(-1, 4, size=shape), rng.normal(size=shape), int(rng.integers(1, 4)))
    return "shape", rng.normal(size=shape)


def update(rng: Generator) -> Trial:
    """Chunks of all kinds, and what is no chunk."""
    evaluator, d, tabular = started(rng)
    sort, data = "sound", None
    known: bool | None = True
    if rng.random() < 0.5:
        sort, data = anything(rng)
        known = None if sort in ("empty", "in itself", "tuple ()") else False
    else:
        wrong = [bool(x) for x in rng.random(2) < 0.2]
        columns = sound_columns(rng, int(rng.integers(1, 200)), d + 3 * wrong[0], tabular != wrong[1])
        data = inferl.Transitions(**columns)
        known = None if any(wrong) else True  # a larger table may be used in part
        sort = "another kind" if any(wrong) else "sound"
        data = [data, iter([data]), (data,), [data]][int(rng.integers(4))]

    def use() -> None:
        with FirstEpoch(evaluator):
            evaluator.update(cast(Any, data))

    return sort, known, use


ROW = ("features", "rewards", "next_features", "discounts", "ratios", "first", "last", "episode", "stream", "truncated")
NAMES = {"rewards": "reward", "discounts": "discount", "ratios": "ratio"}


def observe(rng: Generator) -> Trial:
    """Rows, each handed to `observe` of one evaluator and, as `Transitions`, to `update` of another."""
    one, d, tabular = started(rng)
    other = one.copy()
    sorts, rows = [], []
    for _ in range(int(rng.integers(1, 12))):
        columns = sound_columns(rng, 1, d, tabular)
        row = {name: next(iter(np.asarray(column))) for name, column in columns.items()}
        if rng.random() < 0.5:
            row = {name: value.tolist() for name, value in row.items()}
        if rng.random() < 0.3:
            row["ratios"] = rng.choice([0.0, 1.0, 2.0])
        if rng.random() < 0.2:
            row[str(rng.choice(["first", "last", "truncated"]))] = bool(rng.integers(2))
        if rng.random() < 0.1:
            row["episode"] = int(rng.integers(3))
        if rng.random() < 0.5:
            name = str(rng.choice(ROW))
            sort, value = rotten(rng, 1, name) if rng.random() < 0.7 else anything(rng)
            with suppress(TypeError, IndexError, KeyError):  # the one row of the column
                value = value[0] if rng.random() < 0.6 else value
            if value is not None or name not in ("first", "last", "episode", "truncated"):
                row[name] = value
                sorts.append(sort)
        rows.append(row)

    def use() -> None:
        refusals: list[type[InferlError] | None] = []
        for row in rows:
            found: list[type[InferlError] | None] = []
            for evaluator in (one, other):
                n = evaluator.n
                try:
                    if evaluator is one:
                        evaluator.observe(**{NAMES.get(name, name): value for name, value in row.items()})
                    else:
                        evaluator.update(inferl.Transitions(**{name: [value] for name, value in row.items()}))
                    found.append(None)
                except InferlError as error:
                    found.append(type(error))
                if evaluator.n != n + (found[-1] is None):
                    raise Wrong("state changed", f"n went from {n} to {evaluator.n}")
            if found[0] != found[1]:
                outcome = "refused though sound" if found[1] is None else "taken though rotten"
                raise Wrong(outcome, f"observe: {found[0]}, update: {found[1]}, {row}")
            refusals.append(found[0])
        if bits(one) != bits(other):
            raise Wrong("state changed", f"observing differs from updating: {refusals}")
        if any(refusals):
            raise inferl.errors.InputError("some rows were refused")

    return sorts[0] if sorts else "sound", None, use


KINDS = (None, "normal", "percentile", "basic", "anytime", "simultaneous")


def interval(rng: Generator) -> Trial:
    """Questions: a target, a level, a kind and a tuning time, one of them rotten or none; also as a report."""
    evaluator, _, _ = started(rng)
    asked: dict[str, Any] = {"target": rng.normal(size=evaluator.algorithm.n_values), "level": 0.9, "kind": None}
    sort, known = "sound", cast("bool | None", True)
    if rng.random() < 0.8:
        name = str(rng.choice(["target", "level", "kind", "tuning_time"]))
        sort, asked[name] = anything(rng)
        known = False if name == "target" and sort in ROTTEN and sort not in ("empty", "too long") else None
        known = None if name == "target" and asked[name] is None else known
        if name in ("kind", "tuning_time") and rng.random() < 0.5:
            asked["kind"], known = KINDS[int(rng.integers(len(KINDS)))], None
    ask = [evaluator.interval, evaluator.report][int(rng.integers(2))]

    def use() -> None:
        before = bits(evaluator)
        try:
            str(ask(**asked))
        finally:
            if bits(evaluator) != before:
                raise Wrong("state changed", "by a question")

    return sort, known, use


def until(rng: Generator) -> Trial:
    """A source that is watched, with something rotten or not."""
    evaluator, d, tabular = started(rng)
    rows = inferl.Transitions(**sound_columns(rng, 100, d, tabular))
    given: dict[str, Any] = {
        "source": [rows[:50], rows[50:]],
        "target": np.ones(evaluator.algorithm.n_values),
        "width": 1.0,
        "after": 10,
    }
    sort, known = "sound", cast("bool | None", True)
    if rng.random() < 0.8:
        name = str(rng.choice([*given, "lower_above", "upper_below", "level", "tuning_time"]))
        sort, given[name] = anything(rng)
        known = None
    return sort, known, lambda: list(evaluator.until(**given))


MAPS: list[Callable[[], Any]] = [
    lambda: inferl.features.OneHot(3),
    lambda: inferl.features.Fourier([0, 0], [1, 1], 2),
    lambda: inferl.features.TileCoding(0, 1, 2, 3),
    lambda: inferl.features.RBF([[0.0, 1.0], [1.0, 1.0]], 0.5),
    lambda: inferl.features.Scaled([0, 0], [1, 1]),
    lambda: inferl.features.WithIntercept(inferl.features.Scaled([0, 0], [1, 1])),
    lambda: inferl.features.Function(lambda x: x, 2),
]


def features(rng: Generator) -> Trial:
    """Observations for feature maps, and what maps are made of."""
    sort, value = anything(rng)
    if rng.random() < 0.5:
        chosen = MAPS[int(rng.integers(len(MAPS)))]()
        fit = ("too long", "empty", "NaN", "missing", "infinite", "long doubles")  # maybe, for some of them
        return sort, False if sort in ROTTEN and sort not in fit else None, lambda: chosen(value)
    makes: list[Callable[[], Any]] = [
        lambda: inferl.features.OneHot(value),
        lambda: inferl.features.Fourier(value, 1, 2),
        lambda: inferl.features.Fourier(0, value, 2),
        lambda: inferl.features.Fourier(0, 1, value),
        lambda: inferl.features.TileCoding(0, 1, value, 2),
        lambda: inferl.features.TileCoding(0, 1, 2, value),
        lambda: inferl.features.RBF(value, 1),
        lambda: inferl.features.RBF([[0.0]], value),
        lambda: inferl.features.Function(value, 2),
        lambda: inferl.features.Function(lambda x: x, value),
        lambda: inferl.features.Function(lambda x: value, 2)(0),
        lambda: inferl.features.WithIntercept(value),
        lambda: inferl.features.Scaled(value, 1),
        lambda: inferl.features.Scaled(0, 1, value),
        lambda: inferl.features.Network(value),
    ]
    return sort, None, makes[int(rng.integers(len(makes)))]


def policies(rng: Generator) -> Trial:
    """Policies of what is none, and what functions of policies return."""
    (sort, value), n = anything(rng), int(rng.integers(1, 4))
    table, uniforms = np.full((3, 2), 0.5), rng.random(n)
    makes: list[Callable[[], Any]] = [
        lambda: as_policy(value).batch(np.zeros(n, int), uniforms) if not callable(value) else None,
        lambda: as_policy(table).batch(value, uniforms),
        lambda: as_policy(table).probabilities(value),
        lambda: as_policy(table)(value, 0.5),
        lambda: Probabilities(lambda _: value).batch(np.zeros(n), uniforms),
        lambda: Probabilities(lambda _: value, batched=True).batch(np.zeros(n), uniforms),
        lambda: Probabilities(lambda _: value).probabilities(np.zeros(n)),
        lambda: Deterministic(lambda _: value, batched=True).batch(np.zeros(n), uniforms),
        lambda: epsilon_greedy(lambda _: value, 0.1, 2).batch(np.zeros(n), uniforms),
        lambda: epsilon_greedy(table, value, 2),
        lambda: epsilon_greedy(table, 0.1, value),
        lambda: Ratio(table, table).batch(value, np.zeros(n, int)),
        lambda: Ratio(table, table).batch(np.zeros(n, int), value),
    ]
    return sort, None, makes[int(rng.integers(len(makes)))]


def algorithms(rng: Generator) -> Trial:
    """Algorithms, methods and evaluators of what they are not made of."""
    sort, value = anything(rng)
    makes: list[Callable[[], Any]] = [
        lambda: inferl.TD(value),
        lambda: inferl.TD(2, value),
        lambda: inferl.EmphaticTD(2, value),
        lambda: inferl.NStepTD(2, value),
        lambda: inferl.QEvaluation(value),
        lambda: inferl.GTD2(2, value),
        lambda: inferl.DoublyRobust(value),
        lambda: inferl.DoublyRobust(2, value),
        lambda: inferl.AverageReward(value),
        lambda: inferl.Linear(value),
        lambda: inferl.Field(1, value),
        lambda: inferl.Field(1, lambda theta, step: theta, value),
        lambda: inferl.Stack(inferl.TD(2), value),
    ]
    return sort, None, makes[int(rng.integers(len(makes)))]


def field_function(rng: Generator) -> Trial:
    """What a user's function returns, or raises, in the midst of the work."""
    sort, value = anything(rng)
    calls, last = 0, int(rng.integers(150))

    def function(theta: Any, step: Any) -> Any:
        nonlocal calls
        calls += 1
        return value if calls > last + 70 else step.reward - theta

    evaluator = inferl.Evaluator(inferl.Field(1, function, 2), BOOTSTRAP)
    evaluator.update(inferl.Transitions(**sound_columns(rng, 70, 2, False)))
    data = inferl.Transitions(**sound_columns(rng, 140, 2, False))

    def use() -> None:
        nonlocal calls
        n, before, calls = evaluator.n, bits(evaluator), 70
        try:
            evaluator.update(data)
        except inferl.errors.DivergenceError:
            raise  # then the state is that of the last sound tile
        except InferlError:
            if evaluator.n != n or bits(evaluator) != before:
                raise Wrong("state changed", "though the function was refused") from None
            raise

    return sort, None, use


FRAME_SORTS = [
    sort for sort in ROTTEN if sort not in ("dict", "set", "generator", "object", "type", "function", "evil")
]


def table(rng: Generator) -> Trial:
    """Data frames, with a rotten column or a rotten argument, or none."""
    n = int(rng.integers(2, 30))
    columns: dict[str, Any] = {
        "one": np.ones(n),
        "x": rng.normal(size=n),
        "r": rng.normal(size=n),
        "episode": np.repeat(np.arange(n), 3)[:n],
        "w": rng.choice([0.5, 1.5], size=n),
    }
    given: dict[str, Any] = {
        "features": "x",
        "reward": "r",
        "episode": "episode",
        "ratio": "w",
        "discount": 0.9,
    }
    sort = "sound"
    draw = rng.random()
    if draw < 0.4:
        sort = str(rng.choice(FRAME_SORTS))
        columns[str(rng.choice(list(columns)))] = ROTTEN[sort](rng, n)
    elif draw < 0.8:
        sort, given[str(rng.choice(list(given)))] = anything(rng)
    try:
        frame = pandas.DataFrame(columns)
    except Exception:  # no frame can hold it
        frame, sort, given = pandas.DataFrame({"one": np.ones(n)}), "no frame", {"features": ["one"], "discount": 0.9}
    evaluator = inferl.Evaluator(inferl.DoublyRobust(2))
    return sort, True if sort == "sound" else None, lambda: evaluator.update(inferl.sources.table(frame, **given))


DOORS: dict[str, Door] = {
    "transitions": transitions,
    "increments": increments,
    "update": update,
    "observe": observe,
    "interval": interval,
    "until": until,
    "features": features,
    "policies": policies,
    "algorithms": algorithms,
    "field": field_function,
    "table": table,
}


# How often each is tried in a round: those that cost little more often.
ROUND = [
    door
    for times, doors in (
        (6, ["transitions"]),
        (3, ["features", "policies", "update", "observe"]),
        (2, ["algorithms", "increments", "interval"]),
        (1, ["until", "field", "table"]),
    )
    for door in doors
    for _ in range(times)
]


def judged(number: int, seed: int) -> Judgement:
    """Try one input."""
    rng = np.random.default_rng([seed, number])
    door = ROUND[number % len(ROUND)]
    sort, known, use = DOORS[door](rng)
    words = ""
    try:
        use()
        outcome = "taken"
    except Wrong as wrong:
        outcome, words = wrong.args
    except InferlError as error:
        outcome, words = "refused", str(error)
    except Exception as error:
        outcome, words = "foreign exception", f"{type(error).__name__}: {error}"
    if known is True and outcome == "refused":
        outcome = "refused though sound"
    if known is False and outcome == "taken":
        outcome = "taken though rotten"
    return Judgement(number, door, sort, outcome, words)


def campaign(numbers: Iterable[int], seed: int) -> Iterator[Judgement]:
    """Try inputs one after the other."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a masked element that becomes NaN warns, and is refused
        for number in numbers:
            yield judged(number, seed)


def show(number: int, seed: int) -> None:
    """Try one input, and say what was found."""
    print(*next(campaign([number], seed)), sep=": ")


if __name__ == "__main__":
    command(__doc__, OUTCOMES, BAD, campaign, show, inputs=100_000)
