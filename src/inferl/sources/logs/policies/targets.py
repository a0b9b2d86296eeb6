"""Target policies of a log: probabilities of the logged actions, under whatever a user calls a policy."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from inferl.data.arrays import Bools, Floats, Integers, short
from inferl.data.batches import is_module
from inferl.errors import DataError, InputError, MissingExtraError, SettingError
from inferl.policies import Policy, Probabilities, Table
from inferl.policies import as_policy as as_acting_policy
from inferl.sources.logs.columns import Columns, choice
from inferl.sources.logs.faults import Faults
from inferl.sources.logs.policies.tables import Listed, digest_of, is_frame, listed, plain_actions
from inferl.sources.logs.values import (
    as_category,
    categories,
    column_of,
    integers,
    kind_of,
    kinds_of,
    naming,
    numbers,
    vectors,
)

__all__ = ["Choice", "Law", "Likelihood", "TargetPolicy", "as_targets", "bound"]


class TargetPolicy(Protocol):
    """A target policy of a log."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the log that it looks at, none if it looks at the features."""
        ...

    @property
    def digest(self) -> str:
        """Changes with the probabilities if they are data; empty if code computes them."""
        ...

    @property
    def n_states(self) -> int | None:
        """The number of states, if it knows them by number."""
        ...

    def bound(self, available: Sequence[str], action: str, log: str) -> TargetPolicy:
        """Return the policy for a log with these columns."""
        ...

    def __call__(self, batch: Any, action: str, faults: Faults, features: Any) -> Floats:
        """Return the probability of the action of each row; 0 where the row is bad."""
        ...


@dataclass(frozen=True, eq=False)
class _OfFeatures:
    """A target policy that looks at the features."""

    columns: tuple[str, ...] = field(default=(), init=False)
    digest: str = field(default="", init=False)
    n_states: int | None = field(default=None, init=False)

    def bound(self, available: Sequence[str], action: str, log: str) -> Any:
        return self


@dataclass(frozen=True, eq=False)
class Likelihood(_OfFeatures):
    """A function from features and actions, one row for each step, to the probabilities (T,) of these actions."""

    function: Callable[[Any, Any], Any]

    def __call__(self, batch: Any, action: str, faults: Faults, features: Any) -> Floats:
        """Ask the function about the good rows."""
        actions, asked = _actions(action, column_of(batch, action), faults), np.zeros(len(batch))
        sound = np.flatnonzero(~faults.bad)
        if sound.size:
            answer = np.asarray(self.function(features[sound], actions[sound]), np.float64)
            if answer.shape != sound.shape:
                raise SettingError(f"the target policy returned shape {answer.shape} for {sound.size} rows: one each")
            asked[sound] = answer
        wrong = ~((asked >= 0) & (asked <= 1)) & ~faults.bad
        faults.note(wrong, action, asked, "is no probability, and the target policy returned it", "repair the policy")
        return asked


@dataclass(frozen=True, eq=False)
class Choice(_OfFeatures):
    """A policy that is deterministic: the probability of an action is 1 if the policy chooses it, else 0."""

    policy: Policy

    def __call__(self, batch: Any, action: str, faults: Faults, features: Any) -> Floats:
        """Compare the actions of the good rows with those that the policy chooses."""
        actions, asked = _actions(action, column_of(batch, action), faults), np.zeros(len(batch))
        sound = np.flatnonzero(~faults.bad)
        if sound.size:
            chosen = np.asarray(self.policy.batch(features[sound], np.zeros(sound.size)))
            if chosen.shape != actions[sound].shape:
                shapes = f"{chosen.shape[1:]}, and those of the log {actions.shape[1:]}"
                raise SettingError(f"the actions of the target policy have the shape {shapes}; they must agree")
            same = np.asarray(chosen == actions[sound], np.bool_)
            asked[sound] = same.reshape(sound.size, -1).all(axis=1)
        return asked


class Observe(Protocol):
    """What a policy sees of some rows."""

    @property
    def columns(self) -> tuple[str, ...]: ...

    def __call__(self, batch: Any, features: Any, rows: Integers) -> Any: ...


@dataclass(frozen=True)
class _Features:
    columns: tuple[str, ...] = ()

    def __call__(self, batch: Any, features: Any, rows: Integers) -> Any:
        return features[rows]


@dataclass(frozen=True)
class _Frame:
    """The columns on which a classifier was fitted, as a data frame."""

    columns: tuple[str, ...]

    def __call__(self, batch: Any, features: Any, rows: Integers) -> Any:
        try:
            import pandas
        except ImportError:
            raise MissingExtraError("pandas", "fit") from None
        as_csv = set(kinds_of(batch.schema).values()) == {"text"}
        read = {name: column_of(batch, name).take(rows) for name in self.columns}
        return pandas.DataFrame(
            {name: _typed(values) if as_csv else values.to_pandas() for name, values in read.items()}
        )


@dataclass(frozen=True, eq=False)
class Law:
    """A policy with probabilities of all actions; `actions` names them if they are not 0, 1, ..."""

    policy: Policy
    actions: tuple[Any, ...] | None = None
    observe: Observe = field(default_factory=_Features)
    digest: str = ""
    n_states: int | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the log that it looks at."""
        return self.observe.columns

    def bound(self, available: Sequence[str], action: str, log: str) -> Law:
        """Refuse a log without these columns."""
        for name in self.columns:
            if name not in available:
                raise SettingError(f"{log}: the target policy looks at a column {name!r}; {choice(available)}")
        return self

    def __call__(self, batch: Any, action: str, faults: Faults, features: Any) -> Floats:
        """Compute the probabilities of all actions, for good rows only, and pick those of the actions taken."""
        if isinstance(self.policy, Table) and features.ndim != 1:
            raise SettingError("a target policy given as a table needs features that are states (n_states)")
        values = column_of(batch, action)
        with naming(action):
            taken, known = self._taken(values)
        faults.note(~known, action, values, "is no action of the target policy")
        asked = np.zeros(len(values))
        sound = np.flatnonzero(~faults.bad)
        if sound.size == 0:
            return asked
        table = self._probabilities(batch, features, sound, faults, action, values)
        inside = (taken[sound] >= 0) & (taken[sound] < table.shape[1])
        asked[sound[inside]] = table[inside, taken[sound[inside]]]
        outside = np.zeros(len(values), np.bool_)
        outside[sound[~inside]] = True
        faults.note(outside, action, values, f"is no action of the target policy, which has {table.shape[1]}")
        return asked

    def _taken(self, values: Any) -> tuple[Integers, Bools]:
        """Return the index of each action of the log in the policy, and where there is one."""
        if self.actions is None:
            return integers(values)
        if not any(isinstance(action, str) for action in self.actions):
            taken, whole = integers(values)
            index = {action: number for number, action in enumerate(self.actions)}
            found = np.array([index.get(name, -1) for name in taken.tolist()], np.int64)
            return found, whole & (found >= 0)
        if kind_of(values) not in ("text", "flag"):
            raise SettingError(
                f"the target policy names its actions ({self.actions[0]!r}, ...), and the log holds {values.type}; if "
                "they are the actions 0, 1, ... give their probabilities as an array"
            )
        codes, names = categories(values)
        index = {as_category(action): number for number, action in enumerate(self.actions)}
        found = np.array([*(index.get(name, -1) for name in names), -1], np.int64)[codes]
        return found, found >= 0

    def _probabilities(
        self, batch: Any, features: Any, rows: Integers, faults: Faults, column: str, values: Any
    ) -> Floats:
        """Return the probabilities (n, actions) in some rows; if there are none for a row, the row is bad."""
        try:
            return self.policy.probabilities(self.observe(batch, features, rows))
        except InputError:
            found: list[Floats | None] = []
        for row in rows.tolist():
            try:
                found.append(self.policy.probabilities(self.observe(batch, features, np.array([row])))[0])
            except InputError as error:
                found.append(None)
                problem = f"has no probability under the target policy ({error})"
                faults.note_one(row, column, values[row], problem, "repair the policy or the row")
        n_actions = max((len(one) for one in found if one is not None), default=1)
        return np.array([np.zeros(n_actions) if one is None else one for one in found])


@dataclass(frozen=True, eq=False)
class _TableOfLog(_OfFeatures):
    """Probabilities from a file or a frame; the log says which of its columns they depend on."""

    table: Listed

    def bound(self, available: Sequence[str], action: str, log: str) -> Law:
        found = self.table.matched(available, action, log)
        by_number = None in found.rows.keys
        return Law(found.policy, found.actions, found.rows, found.digest, len(found.rows.index) if by_number else None)

    def __call__(self, batch: Any, action: str, faults: Faults, features: Any) -> Floats:
        raise AssertionError("bound to a log first")


def as_targets(policy: Any) -> dict[str, TargetPolicy]:
    """Return the target policies by name; a single one has no name.

    >>> as_targets([[0.5, 0.5], [0.0, 1.0]])[""].policy
    Table(2 states, 2 actions)
    >>> list(as_targets({"new": lambda x, a: 0.5 + 0 * a, "old": [[0.5, 0.5]]})), as_targets(None)
    (['new', 'old'], {})
    """
    if policy is None:
        return {}
    if isinstance(policy, Mapping):
        if not policy or not all(isinstance(name, str) and name for name in policy):
            raise SettingError("policy is a dict: give the name of each policy, and at least one")
        return {name: _as_target(one) for name, one in policy.items()}
    return {"": _as_target(policy)}


def bound(
    policies: Mapping[str, TargetPolicy], columns: Columns, available: Sequence[str], log: str
) -> tuple[Columns, tuple[TargetPolicy, ...]]:
    """Return the target policies for the columns of a log, and these with those that the policies look at."""
    if not policies:
        return columns, ()
    if columns.action is None:
        raise SettingError(f"{log}: the target policy needs the actions; say which column holds them (action)")
    targets = tuple(policy.bound(available, columns.action, log) for policy in policies.values())
    seen = dict.fromkeys(name for target in targets for name in target.columns)
    return replace(columns, policy=tuple(seen)), targets


def _as_target(policy: Any) -> TargetPolicy:
    if isinstance(policy, Policy):
        n_states = len(policy.table) if isinstance(policy, Table) else None
        return Choice(policy) if policy.deterministic else Law(policy, n_states=n_states)
    if hasattr(policy, "predict_proba"):  # a classifier of scikit-learn
        columns = tuple(getattr(policy, "feature_names_in_", ()))
        return Law(_classifier(policy), plain_actions(policy.classes_), _Frame(columns) if columns else _Features())
    if hasattr(policy, "predict") or is_module(policy):
        return _as_target(as_acting_policy(policy))
    if isinstance(policy, str | os.PathLike) or is_frame(policy):
        return _TableOfLog(listed(policy))
    if callable(policy):
        return Likelihood(policy)
    table = Table(policy)
    return Law(table, digest=digest_of(table.table), n_states=len(table.table))


def _classifier(model: Any) -> Policy:
    def probabilities(observations: Any) -> Any:
        try:
            return model.predict_proba(observations[:, None] if np.ndim(observations) == 1 else observations)
        except (ValueError, TypeError, KeyError) as error:
            raise DataError(f"{type(model).__name__} cannot take it: {short(str(error))}") from None

    return Probabilities(probabilities, batched=True)


def _typed(values: Any) -> Any:
    """Return a column of CSV for a data frame: text as numbers if all of it is, because all values of CSV are text."""
    read = numbers(values)
    return read if not np.isnan(read).any() else np.array(values.to_pylist(), object)


def _actions(column: str, values: Any, faults: Faults) -> Any:
    """Read actions as a function expects them: whole numbers, other numbers, text, or vectors.

    Text that is a whole number is that number, because all values of CSV are text.
    """
    with naming(column):
        if kind_of(values) == "list":
            actions, readable = vectors(values, 0)
            faults.note(~readable, column, values, "is no action")
            return actions
        read = numbers(values)
        whole, is_whole = integers(values)
    if kind_of(values) == "text" and np.isnan(read).any():
        named = values.is_valid().to_numpy(zero_copy_only=False)
        faults.note(~named, column, values, "is no action")
        return np.array(
            [int(n) if w else t for n, w, t in zip(whole, is_whole, values.to_pylist(), strict=True)], object
        )
    faults.note(np.isnan(read), column, values, "is no action")
    return whole if kind_of(values) != "float" and is_whole[~np.isnan(read)].all() else read
