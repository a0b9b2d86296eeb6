"""States: one or several columns of a log as the state of a table, or as what a feature map is applied to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from inferl.data.arrays import Bools, Integers, as_count, short
from inferl.data.invariants import demand
from inferl.errors import SettingError
from inferl.features import Features, OneHot
from inferl.features.one_hot import as_features
from inferl.sources.logs.columns import Columns, home_of, recognised
from inferl.sources.logs.faults import Faults
from inferl.sources.logs.features.ages import AgeColumns
from inferl.sources.logs.features.encoding import (
    Encoded,
    Encoding,
    FormulaEncoding,
    Learned,
    finite,
    form_of,
    in_order,
    level_of,
    lists,
)
from inferl.sources.logs.features.formula import formula_of
from inferl.sources.logs.inputs.opening import open_log
from inferl.sources.logs.inputs.readers import damage
from inferl.sources.logs.values import categories, column_of, integers, naming

__all__ = ["MappedStates", "NumberedStates", "StateTable", "check_next", "check_state", "encoding_of", "learn_source"]


class _Ageless:
    """What all encodings of states share: their features do not depend on ages."""

    ages: dict[str, str] = {}  # noqa: RUF012 (never changed)
    age_columns: AgeColumns = ()
    variables: tuple[str, ...]

    @property
    def asked(self) -> tuple[str, ...]:
        """What a target has to say."""
        return self.variables


@dataclass(frozen=True)
class NumberedStates(_Ageless):
    """A column of the numbers 0, 1, ... of states; nothing is learned."""

    variables: tuple[str, ...]
    n: int

    @property
    def about(self) -> str:
        """The column and the number of states."""
        return f"{self.n} states of {self.variables[0]}"

    @property
    def names(self) -> tuple[str, ...]:
        """The states."""
        return tuple(f"{self.variables[0]}={state}" for state in range(self.n))

    @property
    def dimension(self) -> int:
        """The number of states."""
        return self.n

    def learn(self, batches: Iterable[Any], columns: Sequence[Sequence[str]], again: bool) -> Learned:
        """Learn nothing."""
        return Learned(self.about)

    def fitted(self, learned: Learned) -> NumberedStates:
        """Return the encoder."""
        return self

    def encode(self, batch: Any, columns: Sequence[str], faults: Faults, needed: Bools) -> Encoded:
        """Return the states (T,)."""
        values = column_of(batch, columns[0])
        with naming(columns[0]):
            states, whole = integers(values)
        wrong = ~(whole & (states >= 0) & (states < self.n)) & needed
        remedy = f"states are 0 to {self.n - 1}; enlarge the table (n_states), or repair the row"
        faults.note(wrong, columns[0], values, f"is no state of the table of {self.n}", remedy)
        return Encoded(states, states)


@dataclass(frozen=True)
class StateTable(_Ageless):
    """The distinct values of some columns, of any type, are the states of a table."""

    variables: tuple[str, ...]

    @property
    def about(self) -> str:
        """The columns."""
        return f"states of {', '.join(self.variables)}"

    def learn(self, batches: Iterable[Any], columns: Sequence[Sequence[str]], again: bool) -> Learned:
        """Learn which combinations of values there are."""
        if not again:
            raise SettingError(
                "the states are not known before all rows are read, and this log can be read only once; if they are "
                f'0, 1, ... give their number (n_states); else name them: features="C({self.variables[0]}, '
                "levels=['...', '...']) - 1\""
            )
        numbers: list[dict[str, int]] = [{} for _ in self.variables]  # of each column's texts, as they come
        seen: set[tuple[int, ...]] = set()
        for batch in batches:
            for names in columns:
                codes = [_numbered(batch, name, known) for name, known in zip(names, numbers, strict=True)]
                there = np.flatnonzero(np.min(codes, axis=0) >= 0)
                first = there[_first_of_each([code[there] for code in codes])]
                seen.update(zip(*(code[first].tolist() for code in codes), strict=True))
        if not seen:
            raise SettingError(f"no row has a value of {' and '.join(self.variables)}")
        levels = [in_order(known) for known in numbers]
        place = [[own.index(text) for text in known] for own, known in zip(levels, numbers, strict=True)]
        states = sorted(tuple(place[i][code] for i, code in enumerate(row)) for row in seen)
        return Learned(self.about, dict(zip(self.variables, levels, strict=True)), {}, np.array(states, np.int64))

    def fitted(self, learned: Learned) -> StateTableEncoder:
        """Return the encoder."""
        rows = learned.states.tolist()
        same = tuple(learned.levels) == self.variables and not learned.sizes and rows and rows == sorted(rows)
        demand(bool(same) and len(set(map(tuple, rows))) == len(rows), "the states are not those of these columns")
        return StateTableEncoder(self.variables, learned)


def _first_of_each(codes: list[Integers]) -> Integers:
    """Return the first row of each combination of codes.

    >>> _first_of_each([np.array([1, 0, 1]), np.array([5, 5, 5])])
    array([1, 0])
    """
    group, first = np.zeros(len(codes[0]), np.int64), np.zeros(0, np.int64)
    for code in codes:  # one after the other, so that no number gets too large
        _, first, group = np.unique(group * (code.max(initial=0) + 1) + code, return_index=True, return_inverse=True)
    return first


def _numbered(batch: Any, column: str, known: dict[str, int]) -> Integers:
    """Number the texts of a column, and add new ones to those known."""
    with naming(column):
        codes, distinct = categories(column_of(batch, column))
    place = [known.setdefault(text, len(known)) for text in distinct]
    return np.array([*place, -1], np.int64)[codes]


@dataclass(frozen=True, eq=False)
class StateTableEncoder(_Ageless):
    """The number of the state of each row."""

    variables: tuple[str, ...]
    learned: Learned

    @property
    def names(self) -> tuple[str, ...]:
        """The states."""
        levels = [self.learned.levels[name] for name in self.variables]
        return tuple(
            ", ".join(f"{name}={own[i]}" for name, own, i in zip(self.variables, levels, row, strict=True))
            for row in self.learned.states.tolist()
        )

    @property
    def dimension(self) -> int:
        """The number of states."""
        return len(self.learned.states)

    def encode(self, batch: Any, columns: Sequence[str], faults: Faults, needed: Bools) -> Encoded:
        """Return the states (T,)."""
        # The first j columns of the states are numbered in their order, so that no number gets too large.
        prefix, number = np.zeros(len(batch), np.int64), np.zeros(self.dimension, np.int64)
        for j, (name, column) in enumerate(zip(self.variables, columns, strict=True)):
            levels = self.learned.levels[name]
            code = level_of(column, column_of(batch, column), levels, faults, needed)
            known, number = np.unique(number * len(levels) + self.learned.states[:, j], return_inverse=True)
            key = np.where(prefix < 0, -1, prefix * len(levels) + code)
            place = np.minimum(np.searchsorted(known, key), len(known) - 1)
            prefix = np.where((known[place] == key) & (code >= 0), place, -1)
        for row in np.flatnonzero((prefix < 0) & needed & ~faults.bad).tolist():
            value = ", ".join(str(column_of(batch, column)[row]) for column in columns)
            problem, remedy = "is a state that was not there when the run began", "read the log anew, or drop the row"
            faults.note_one(row, ", ".join(columns), value, problem, remedy)
        states = np.maximum(prefix, 0)
        return Encoded(states, states)


@dataclass(frozen=True, eq=False)
class MappedStates(_Ageless):
    """A feature map of columns of numbers, or of one column of lists."""

    variables: tuple[str, ...]
    features: Features

    @property
    def about(self) -> str:
        """The columns; a map cannot be recognised."""
        return f"a map of {', '.join(self.variables)}"

    def learn(self, batches: Iterable[Any], columns: Sequence[Sequence[str]], again: bool) -> Learned:
        """Learn the length of lists."""
        sizes = {}
        for batch in batches:
            form = form_of(self.variables[0], column_of(batch, self.variables[0])) if len(self.variables) == 1 else ""
            if isinstance(form, int):
                sizes[self.variables[0]] = form
            if form is not None or not again:
                break
        return Learned(self.about, {}, sizes)

    def fitted(self, learned: Learned) -> MappedStatesEncoder:
        """Return the encoder."""
        fits = not learned.levels and not learned.states.size and set(learned.sizes) <= set(self.variables)
        demand(fits, "what was learned of the log is not of this map")
        return MappedStatesEncoder(self.variables, self.features, learned.sizes.get(self.variables[0]))


@dataclass(frozen=True, eq=False)
class MappedStatesEncoder(_Ageless):
    """The features of a map."""

    variables: tuple[str, ...]
    features: Features
    size: int | None  # of lists

    @property
    def names(self) -> tuple[str, ...]:
        """The features by number."""
        return tuple(f"{type(self.features).__name__}[{i}]" for i in range(self.dimension))

    @property
    def dimension(self) -> int:
        """The number of features."""
        return self.features.dimension

    def encode(self, batch: Any, columns: Sequence[str], faults: Faults, needed: Bools) -> Encoded:
        """Apply the map to the rows that are sound."""
        values = [column_of(batch, column) for column in columns]
        if isinstance(self.features, OneHot):
            return NumberedStates(self.variables, self.dimension).encode(batch, columns, faults, needed)
        if self.size is not None:
            states = lists(columns[0], values[0], self.size, faults, needed)
        else:
            read = [finite(column, own, faults, needed) for column, own in zip(columns, values, strict=True)]
            states = np.stack(read, axis=1)
        sound = np.flatnonzero(~faults.bad & np.isfinite(states).all(axis=1))
        out = np.zeros((len(batch), self.dimension))
        if sound.size:
            found = np.asarray(self.features(states[sound]))
            if found.shape != (sound.size, self.dimension):
                raise SettingError(
                    f"the features map {sound.size} states to shape {found.shape}; expected one row of "
                    f"{self.dimension} numbers for each"
                )
            out[sound] = found
        return Encoded(out, states)


def encoding_of(features: Any, state: Any, n_states: int | None, available: Sequence[str]) -> Encoding:
    """Return the encoding that a user asked for: a formula, a map of a state, or a table of states.

    Without any, it is a constant.
    """
    if state is not None:
        columns = (state,) if isinstance(state, str) else tuple(state)
        if features is not ... and features is not None:
            return MappedStates(columns, features)
        return StateTable(columns) if n_states is None else NumberedStates(columns, n_states)
    if features is ...:
        features = recognised({}, available).get("features")
    return FormulaEncoding(formula_of("1" if features is None else features, available))


def check_state(features: Any, state: Any, n_states: int | None) -> None:
    """Refuse combinations of features, state and n_states that mean nothing."""
    mapped = callable(features) and not isinstance(features, str)
    if n_states is not None:
        as_count("n_states", n_states, 1)
        if not isinstance(state, str):
            raise SettingError("n_states goes with state, the one column that holds the numbers of the states")
    if state is None:
        if mapped:
            raise SettingError("features is a map; say of which columns, with state=")
        return
    names = [state] if isinstance(state, str) else list(state) if isinstance(state, Sequence) else []
    if not names or not all(isinstance(name, str) for name in names):
        raise SettingError(f"state is {short(state)}; expected the name of a column, or several")
    if features is ... or features is None:
        return
    if not mapped:
        raise SettingError("features and state are both given: the states of a table are its features; leave one out")
    as_features(features)
    if n_states is not None:
        raise SettingError("n_states is for a table of states; with a map as features, leave it out")


def check_next(encoding: Encoding, columns: Columns, asked: bool) -> None:
    """Refuse next states that do not fit the features; `asked`: a policy is asked about the features."""
    given, wanted = columns.next_features, encoding.variables
    if given and len(given) != len(wanted):
        raise SettingError(f"next_features names {len(given)} columns; give one for each of {', '.join(wanted)}")
    if encoding.ages and given:
        raise SettingError("age() counts from row to row of an episode; leave next_features out (None)")
    if encoding.ages and asked:
        raise SettingError("age() is not known yet where the policy is asked; give the policy columns of its own")


def learn_source(
    source: Any,
    encoding: Callable[[list[str]], Encoding],
    resolved: Callable[[str, list[str]], Columns],
    batch: int,
) -> Learned:
    """Learn what the features of a log depend on, in a pass over their columns alone.

    Parameters
    ----------
    source
        The log.
    encoding
        From its columns, how its features are encoded.
    resolved
        From its name and its columns, which column is what.
    batch
        Number of rows read at a time.
    """
    with open_log(source) as log:
        columns = resolved(log.name, log.columns)
        parts = [part for part in (columns.features, columns.next_features) if part]
        homes = dict.fromkeys(home_of(name, log.columns) or name for part in parts for name in part)
        batches = (piece.parsed()[0] for piece in log.pieces(list(homes), batch))
        try:
            with damage(log.name):
                return encoding(log.columns).learn(batches, parts, again=True)
        except SettingError as error:
            raise SettingError(f"{log.name}: {error}") from None
