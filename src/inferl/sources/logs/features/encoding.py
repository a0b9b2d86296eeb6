"""Encoding: features from the columns of a log.

What depends on the data, such as the levels of a category, is learned once, in a first pass, and is then part of every
position in the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, pairwise
from math import prod
from typing import Any, NamedTuple, Protocol

import numpy as np

from inferl.data.arrays import Bools, Floats, Integers
from inferl.data.invariants import COUNT, bounds, demand, shapes
from inferl.errors import SettingError, TargetError
from inferl.sources.logs.faults import DROP, Faults
from inferl.sources.logs.features.ages import AgeColumns, clock_of, multiply
from inferl.sources.logs.features.design import Coded, coded_terms
from inferl.sources.logs.features.formula import Factor, Formula
from inferl.sources.logs.values import categories, column_of, kind_of, moments, naming, numbers, times, vectors

__all__ = [
    "Encoded",
    "Encoder",
    "Encoding",
    "FormulaEncoding",
    "Learned",
    "encoded_state",
    "finite",
    "form_of",
    "in_order",
    "level_of",
    "lists",
]


@dataclass(frozen=True, eq=False)
class Learned:
    """What an encoding has learned from a log, as plain data."""

    about: str  # the text of the encoding
    levels: dict[str, tuple[str, ...]] = field(default_factory=dict)  # of each category
    sizes: dict[str, int] = field(default_factory=dict)  # of each column of lists
    states: Integers = field(default_factory=lambda: np.zeros((0, 0), np.int64))  # (n, k) levels of each state

    def verify(self) -> None:
        """Check the content of a position that comes from a file."""
        shapes(self, {"states": "n k"})
        for name, size in self.sizes.items():
            demand(0 < size <= COUNT[1], f"the lists of {name} have length {size}")
        for name, levels in self.levels.items():
            demand(0 < len(set(levels)) == len(levels), f"the levels of {name} are none, or not all different")
        sizes = [len(levels) for levels in self.levels.values()]
        if self.states.size:
            demand(self.states.shape[1] == len(sizes), "the states have other columns than their levels")
            bounds(self, {"states": COUNT})
            demand(bool((self.states < sizes).all()), "a state has levels that are not there")


class Encoded(NamedTuple):
    """The rows of a batch, encoded."""

    features: Any  # (T, d), or (T,) states of a table
    seen: Any  # what a policy sees: the features without their intercept, or the state before a map was applied
    clock: Floats | None = None  # (T, a): times whose ages are still to be multiplied with features


class Encoder(Protocol):
    """Turns the columns of a batch into features."""

    @property
    def variables(self) -> tuple[str, ...]:
        """The columns."""
        ...

    @property
    def names(self) -> tuple[str, ...]:
        """A name for each feature, or for each state of a table."""
        ...

    @property
    def age_columns(self) -> AgeColumns:
        """Features that are still to be multiplied by ages."""
        ...

    @property
    def ages(self) -> dict[str, str]:
        """For each age, the column of its times."""
        ...

    @property
    def asked(self) -> tuple[str, ...]:
        """What a target has to say (values of columns, and ages)."""
        ...

    @property
    def dimension(self) -> int:
        """The number of features, or of states."""
        ...

    def encode(self, batch: Any, columns: Sequence[str], faults: Faults, needed: Bools) -> Encoded:
        """Encode columns, in the order of the variables.

        Invalid values are noted as faults, where they are `needed`.
        """
        ...


def encoded_state(encoder: Encoder, values: Mapping[str, Any]) -> Any:
    """Return the features, or the number, of the state with these values of the columns."""
    import pyarrow as pa

    ages, wanted = encoder.ages, encoder.asked
    if set(values) != set(wanted):
        given = ", ".join(values) or "nothing"
        raise TargetError(f"a state has a value of each of {', '.join(wanted)}; given is {given}")
    try:
        read = {name: pa.array([np.asarray(values[name]).tolist()]) for name in wanted}
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise TargetError(f"a value of the state cannot be read: {error}") from None
    row = pa.table({ages[age]: read[age] for age in ages} | {name: read[name] for name in read if name not in ages})
    faults = Faults(1, 1)
    features = encoder.encode(row, encoder.variables, faults, np.ones(1, np.bool_)).features
    for fault in faults.found.values():
        raise TargetError(f"{fault.column} = {fault.value} {fault.problem}")
    if ages:
        multiply(features, np.stack([finite(age, read[age], faults) for age in ages], axis=1), encoder.age_columns)
    return int(features[0]) if features.ndim == 1 else features[0]


class Encoding(Protocol):
    """How to get features from the columns of a log."""

    @property
    def variables(self) -> tuple[str, ...]:
        """The columns."""
        ...

    @property
    def about(self) -> str:
        """A text that identifies the encoding."""
        ...

    @property
    def ages(self) -> dict[str, str]:
        """For each age, the column of its times."""
        ...

    def learn(self, batches: Iterable[Any], columns: Sequence[Sequence[str]], again: bool) -> Learned:
        """Learn from rows; `columns` are those of the variables, and of the next state.

        Unless the log can be read `again`, the first batch must be enough.
        """
        ...

    def fitted(self, learned: Learned) -> Encoder:
        """Return the encoder; raise `CheckpointCorruptError` if what was learned is not of this encoding."""
        ...


@dataclass(frozen=True)
class FormulaEncoding:
    """The features of a formula."""

    formula: Formula

    @property
    def variables(self) -> tuple[str, ...]:
        """The columns."""
        return self.formula.variables

    @property
    def about(self) -> str:
        """The formula."""
        return str(self.formula)

    @property
    def ages(self) -> dict[str, str]:
        """For each age, the column of its times."""
        return {str(factor): factor.variable for factor in self.formula.factors if factor.function == "age"}

    def learn(self, batches: Iterable[Any], columns: Sequence[Sequence[str]], again: bool) -> Learned:
        """Learn which columns are categories or lists, and the levels of categories."""
        factors = self.formula.factors
        unknown = [factor for factor in factors if not factor.function]
        levels = {str(factor): factor.levels for factor in factors if factor.levels}
        seen: dict[Factor, set[str]] = {f: set() for f in factors if f.function == "C" and not f.levels}
        sizes: dict[str, int] = {}
        for batch in batches if unknown or seen else ():
            for factor in list(unknown):
                form = form_of(factor.variable, column_of(batch, factor.variable))
                if form is None:
                    continue
                unknown.remove(factor)
                if form == "flag":
                    levels[str(factor)] = FLAGS
                elif form == "category":
                    seen[factor] = set()
                elif isinstance(form, int):
                    sizes[str(factor)] = form
            for factor, found in seen.items():
                for names in columns:
                    column = names[self.variables.index(factor.variable)]
                    with naming(column):
                        found.update(categories(column_of(batch, column))[1])
            if not again or not (unknown or seen):
                break
        for factor, found in seen.items():
            if not again:
                raise SettingError(
                    f"the categories of {factor.variable!r} are not known before all rows are read, and this log can "
                    f"be read only once; name them: C({factor.variable}, levels=['...', '...'])"
                )
            if not found:
                raise SettingError(f"column {factor.variable!r} has no value in any row")
            levels[str(factor)] = in_order(found)
        return Learned(self.about, levels, sizes)

    def fitted(self, learned: Learned) -> FormulaEncoder:
        """Return the encoder."""
        factors = {str(factor): factor for factor in self.formula.factors}
        known = [factors.get(name) for name in (*learned.levels, *learned.sizes)]
        fits = all(f is not None and (f.function == "C" or not f.function) for f in known) and not learned.states.size
        fits &= all(f.function != "C" or str(f) in learned.levels for f in factors.values())
        demand(fits and len(set(known)) == len(known), "what was learned of the log is not of these features")
        encoder = FormulaEncoder(self.formula, learned)
        if encoder.dimension == 0:
            raise SettingError(f"the formula {self.about!r} gives no feature; add a column to it, or 1")
        return encoder


@dataclass(frozen=True, eq=False)
class FormulaEncoder:
    """The matrix of a formula."""

    formula: Formula
    learned: Learned

    @cached_property
    def terms(self) -> list[Coded]:
        """The terms, with how their categories are coded; the intercept is an empty product."""
        alone = self.formula.terms == (self.formula.factors,) and str(self.formula.factors[0]) in self.learned.sizes
        intercept = not alone if self.formula.intercept is None else self.formula.intercept
        categories = {factor for factor in self.formula.factors if self._is_category(factor)}
        return ([()] if intercept else []) + coded_terms(self.formula, categories, intercept)

    @cached_property
    def parts(self) -> list[slice]:
        """The columns of each term."""
        stops = accumulate((prod(self._width(factor, full) for factor, full in term) for term in self.terms), initial=0)
        return [slice(start, stop) for start, stop in pairwise(stops)]

    @property
    def dimension(self) -> int:
        """The number of features."""
        return self.parts[-1].stop if self.parts else 0

    @property
    def names(self) -> tuple[str, ...]:
        """A name for each feature."""
        return tuple(name for term in self.terms for name in self._names(term))

    @property
    def age_columns(self) -> AgeColumns:
        """The terms that have ages, which are still to be multiplied in."""
        ages, found = [*self.ages], []
        for term, part in zip(self.terms, self.parts, strict=True):
            which = tuple(ages.index(str(factor)) for factor, _ in term if factor.function == "age")
            found += [(part, which)] if which else []
        return tuple(found)

    @property
    def variables(self) -> tuple[str, ...]:
        """The columns."""
        return self.formula.variables

    @property
    def ages(self) -> dict[str, str]:
        """For each age, the column of its times."""
        return FormulaEncoding(self.formula).ages

    @property
    def asked(self) -> tuple[str, ...]:
        """What a target has to say (values of columns, and ages)."""
        factors = self.formula.factors
        return tuple(dict.fromkeys(str(f) if f.function == "age" else f.variable for f in factors))

    def _is_category(self, factor: Factor) -> bool:
        """Return whether a factor has levels; a flag, unless it is made a category by C, is a number, 0 or 1."""
        levels = self.learned.levels.get(str(factor), ())
        return bool(levels) and (factor.function == "C" or levels != FLAGS)

    def _width(self, factor: Factor, full: bool) -> int:
        """Return the number of columns of a factor."""
        name = str(factor)
        if self._is_category(factor):
            return len(self.learned.levels[name]) - (not full)
        return self.learned.sizes.get(name) or {"poly": factor.degree, "hour": 2}.get(factor.function, 1)

    def _names(self, term: Coded) -> list[str]:
        names = [""]
        for factor, full in term:
            names = [f"{name}:{own}" if name else own for own in self._names_of(factor, full) for name in names]
        return names if term else ["1"]

    def _names_of(self, factor: Factor, full: bool) -> list[str]:
        """Return the names of the columns of a factor."""
        name = str(factor)
        if self._is_category(factor):
            return [f"{factor.variable}[{level}]" for level in self.learned.levels[name][0 if full else 1 :]]
        if name in self.learned.sizes:
            return [f"{factor.variable}[{i}]" for i in range(self.learned.sizes[name])]
        if factor.function == "poly":
            return [factor.variable, *(f"{factor.variable}^{power}" for power in range(2, factor.degree + 1))]
        return [f"{name}[sin]", f"{name}[cos]"] if factor.function == "hour" else [name]

    def encode(self, batch: Any, columns: Sequence[str], faults: Faults, needed: Bools) -> Encoded:
        """Return the matrix (T, d)."""
        names = dict(zip(self.formula.variables, columns, strict=True))
        read: dict[Factor, Any] = {}
        for factor in self.formula.factors:
            column = names[factor.variable]
            with naming(column):
                read[factor] = self._read(factor, column, column_of(batch, column), faults, needed)
        out = np.empty((len(batch), self.dimension))
        for term, part in zip(self.terms, self.parts, strict=True):
            self._fill(out[:, part], term, read)
            if len(term) > 1:
                wrong = needed & ~faults.bad & ~np.isfinite(out[:, part]).all(axis=1)
                column = names[term[0][0].variable]
                faults.note(wrong, column, column_of(batch, column), f"makes {_written(term)} too large", RESCALE)
        clock = [read[factor] for factor in self.formula.factors if factor.function == "age"]
        seen = out[:, 1:] if self.terms[0] == () else out
        return Encoded(out, seen, np.stack(clock, axis=1) if clock else None)

    def _read(self, factor: Factor, column: str, values: Any, faults: Faults, needed: Bools) -> Any:
        """Return the levels (T,) of a category, or the numbers (T, k) of another factor."""
        name = str(factor)
        if name in self.learned.levels:
            named = f"C({factor.variable}, levels=[...])"
            codes = level_of(column, values, self.learned.levels[name], faults, needed, named)
            return codes if self._is_category(factor) else codes[:, None]
        if name in self.learned.sizes:
            return lists(column, values, self.learned.sizes[name], faults, needed)
        if factor.function == "age":
            clock = clock_of(values)
            faults.note(np.isnan(clock) & needed, column, values, "is no time")
            return clock
        if factor.function == "hour":
            return _time_of_day(column, values, faults, needed)
        read = finite(column, values, faults, needed)
        with np.errstate(all="ignore"):  # values that are not finite are noted
            if factor.function == "log":
                faults.note(needed & (read <= 0), column, values, "has no logarithm: it is not positive")
                read = np.log(read)
            if factor.function == "poly":
                powers = read[:, None] ** np.arange(1, factor.degree + 1)
                wrong = needed & ~faults.bad & ~np.isfinite(powers[:, -1])
                faults.note(wrong, column, values, f"is too large for the power {factor.degree}", RESCALE)
                return powers
        return read[:, None]

    def _fill(self, out: Floats, term: Coded, read: dict[Factor, Any]) -> None:
        """Write the columns of a term, apart from its ages."""
        term = tuple((factor, full) for factor, full in term if factor.function != "age")
        if len(term) == 1 and read[term[0][0]].ndim == 1:
            codes, first = read[term[0][0]], 0 if term[0][1] else 1
            out[:] = 0
            there = np.flatnonzero(codes >= first)
            out[there, codes[there] - first] = 1
        elif len(term) == 1:
            out[:] = read[term[0][0]]
        else:
            product = np.ones((len(out), 1))
            for factor, full in term:
                block = read[factor]
                if block.ndim == 1:
                    levels = len(self.learned.levels[str(factor)])
                    block = block[:, None] == np.arange(0 if full else 1, levels)
                with np.errstate(all="ignore"):  # values that are not finite are noted
                    product = (block[:, :, None] * product[:, None, :]).reshape(len(out), -1)
            out[:] = product


FLAGS = ("false", "true")
RESCALE = "divide the column by a constant; intervals do not depend on units"


def form_of(name: str, values: Any) -> str | int | None:
    """Say what a column holds, by its type and its first value: number, flag, category, or the length of its lists.

    None if there is no value. Text is a number if the first value reads as one, so that CSV is as other formats.
    """
    kind, there = kind_of(values), values.drop_null()
    if kind in ("integer", "float", "flag"):
        return "flag" if kind == "flag" else "number"
    if len(there) == 0:
        return None
    text = str(there[0].as_py()).strip() if kind == "text" else ""
    if kind == "list" or text.startswith("["):
        with naming(name):
            return int(vectors(there, 0)[0].shape[1])
    clock = times(there[:1]) if kind in ("text", "time") else None
    if clock is not None and not np.isnan(clock).any():
        raise SettingError(
            f"column {name!r} holds times; write hour({name}) for the time of day, age({name}) for the time since the "
            f"episode began, or C({name}) for a category"
        )
    if kind != "text":
        named = f"; name its fields, such as {name}.{values.type[0].name}" if kind.startswith("struct<") else ""
        raise SettingError(f"column {name!r} of {values.type} is neither numbers, text nor lists of numbers{named}")
    if not np.isnan(numbers(there[:1])[0]):
        return "number"
    return "flag" if text.lower() in ("true", "false") else "category"


def in_order(levels: Iterable[str]) -> tuple[str, ...]:
    """Sort levels, by size if all are numbers.

    >>> in_order({"10", "9"}), in_order({"10", "9", "b"})
    (('9', '10'), ('10', '9', 'b'))
    """
    found = sorted(levels)
    try:
        return tuple(sorted(found, key=float))
    except ValueError:
        return tuple(found)


def level_of(
    column: str, values: Any, levels: Sequence[str], faults: Faults, needed: Bools, named: str = ""
) -> Integers:
    """Return the number of the level of each row; a value that is none is a fault. `named`: how to name the levels."""
    codes, distinct = categories(values)
    number = {level: place for place, level in enumerate(levels)}
    read = np.array([*(number.get(text, -1) for text in distinct), -1], np.int64)[codes]
    wrong = (read < 0) & needed
    if wrong.any():
        known = ", ".join(levels[:10]) + (", ..." if len(levels) > 10 else "")
        remedy = (
            f"begin anew, with the levels of all rows{' or those that you name, ' + named if named else ''}; or " + DROP
        )
        faults.note(
            wrong & (codes >= 0), column, values, f"is none of the levels known from the start: {known}", remedy
        )
        faults.note(wrong, column, values, "is no category")
    return read


def lists(column: str, values: Any, size: int, faults: Faults, needed: Bools) -> Floats:
    """Read lists of `size` numbers."""
    with naming(column):
        rows, fits = vectors(values, size)
    faults.note(~fits & needed, column, values, f"is no vector of {size} numbers, as the first row has")
    faults.note(~np.isfinite(rows).all(axis=1) & needed, column, values, "has entries that are not finite")
    return rows


def finite(column: str, values: Any, faults: Faults, needed: Bools | None = None) -> Floats:
    """Read finite numbers."""
    with naming(column):
        read = numbers(values)
    wrong = ~np.isfinite(read)
    faults.note(wrong if needed is None else wrong & needed, column, values, "is not a finite number")
    return read


def _time_of_day(column: str, values: Any, faults: Faults, needed: Bools) -> Floats:
    """Return sine and cosine of the time of day, in UTC if the times have a zone."""
    clock = moments(values)
    faults.note(np.isnan(clock) & needed, column, values, "is no time")
    angle = 2 * np.pi * (clock % 86_400e6) / 86_400e6
    return np.stack([np.sin(angle), np.cos(angle)], axis=1)


def _written(term: Coded) -> str:
    return ":".join(str(factor) for factor, _ in term)
