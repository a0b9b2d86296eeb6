"""Importance ratios, target over behaviour probability, from the columns of a log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from inferl.data.arrays import Bools, Floats, Integers
from inferl.errors import InputError, SettingError
from inferl.policies import Policy, Probabilities, Table
from inferl.policies import as_policy as chooser
from inferl.sources.logs.columns import Columns
from inferl.sources.logs.faults import DROP, Faults
from inferl.sources.logs.values import column_of, integers, kind_of, naming, numbers, vectors

__all__ = ["Law", "RatioReader", "TargetPolicy", "as_policy"]

TargetPolicy = Callable[[Any, Any], Any]
"""From features and actions, both with one row for each step, to the probabilities (T,) of these actions."""


@dataclass(frozen=True, eq=False)
class Law:
    """A policy with probabilities of all actions; `actions` names them if they are not 0, 1, ..."""

    policy: Policy
    actions: tuple[Any, ...] | None = None

    def columns(self, values: Any) -> tuple[Integers, Bools]:
        """Return the index of each action of the log in the policy, and where there is one."""
        if self.actions is None:
            return integers(values)
        if not any(isinstance(action, str) for action in self.actions):
            taken, whole = integers(values)
            names: list[Any] = np.where(whole, taken, -1).tolist()
        elif kind_of(values) == "text":
            names = values.to_pylist()
        else:
            raise SettingError(
                f"the target policy names its actions ({self.actions[0]!r}, ...), and the log holds {values.type}; if "
                "they are the actions 0, 1, ... give their probabilities as an array"
            )
        place = {action: number for number, action in enumerate(self.actions)}
        found = np.array([place.get(name, -1) for name in names], np.int64)
        return found, found >= 0


@dataclass(frozen=True, eq=False)
class RatioReader:
    """Reads ratios, or computes them with the target policy; an invalid probability is noted as a fault."""

    policy: Law | TargetPolicy | None = None

    def __call__(self, batch: Any, columns: Columns, faults: Faults, features: Any) -> Floats:
        """Return ratios (T,), or (T, m) for m target policies."""
        if columns.ratio:
            return _joined([_ratio(batch, column, faults) for column in columns.ratio])
        if columns.behaviour_probability or columns.behaviour_log_probability:
            behaviour, logarithmic = self._behaviour(batch, columns, faults)
            targets = self._targets(batch, columns, faults, features)
            return _joined([_quotient(*target, behaviour, logarithmic, faults) for target in targets])
        return np.ones(len(batch))

    def _behaviour(self, batch: Any, columns: Columns, faults: Faults) -> tuple[Floats, bool]:
        if columns.behaviour_log_probability:
            return _log_probability(batch, columns.behaviour_log_probability, faults, taken=True), True
        assert columns.behaviour_probability is not None
        return _probability(batch, columns.behaviour_probability, "behaviour", faults, taken=True), False

    def _targets(self, batch: Any, columns: Columns, faults: Faults, features: Any) -> list[tuple[str, Floats, bool]]:
        """Return (column, values, whether logarithmic) of each target policy."""
        if self.policy is not None:
            assert columns.action is not None
            return [(columns.action, self._asked(batch, columns.action, faults, features), False)]
        if columns.target_log_probability:
            names = columns.target_log_probability
            return [(name, _log_probability(batch, name, faults, taken=False), True) for name in names]
        names = columns.target_probability
        return [(name, _probability(batch, name, "target", faults, taken=False), False) for name in names]

    def _asked(self, batch: Any, column: str, faults: Faults, features: Any) -> Floats:
        """Return the probabilities of the actions under the target policy."""
        values = column_of(batch, column)
        if isinstance(self.policy, Law):
            asked = self._looked_up(self.policy, column, values, faults, features)
        else:
            assert self.policy is not None
            actions, asked = _actions(column, values, faults), np.zeros(len(batch))
            sound = np.flatnonzero(~faults.bad)
            if sound.size:
                answer = np.asarray(self.policy(features[sound], actions[sound]), np.float64)
                if answer.shape != sound.shape:
                    raise SettingError(
                        f"the target policy returned shape {answer.shape} for {sound.size} rows: one each"
                    )
                asked[sound] = answer
        wrong = ~((asked >= 0) & (asked <= 1)) & ~faults.bad
        faults.note(wrong, column, asked, "is no probability, and the target policy returned it", "repair the policy")
        return asked

    def _looked_up(self, law: Law, column: str, values: Any, faults: Faults, features: Any) -> Floats:
        """Compute the probabilities of all actions, for good rows only, and pick those of the actions taken."""
        if isinstance(law.policy, Table) and features.ndim != 1:
            raise SettingError("a target policy given as a table needs features that are states (n_states)")
        chosen, known = law.columns(values)
        faults.note(~known, column, values, "is no action of the target policy")
        asked = np.zeros(len(values))
        sound = np.flatnonzero(~faults.bad)
        if sound.size == 0:
            return asked
        table = _probabilities(law.policy, features, sound, faults, column, values)
        inside = (chosen[sound] >= 0) & (chosen[sound] < table.shape[1])
        asked[sound[inside]] = table[inside, chosen[sound[inside]]]
        outside = np.zeros(len(values), np.bool_)
        outside[sound[~inside]] = True
        faults.note(outside, column, values, f"is no action of the target policy, which has {table.shape[1]}")
        return asked


def _probabilities(policy: Policy, features: Any, rows: Integers, faults: Faults, column: str, values: Any) -> Floats:
    """Return the probabilities (n, actions) of a policy in some rows; if it has none for a row, the row is bad."""
    try:
        return policy.probabilities(features[rows])
    except InputError:
        found: list[Floats | None] = []
    for place in rows.tolist():
        try:
            found.append(policy.probabilities(features[place : place + 1])[0])
        except InputError as error:
            found.append(None)
            problem = f"has no probability under the target policy ({error})"
            faults.note_one(place, column, values[place], problem, "repair the policy or the row")
    n_actions = max((len(row) for row in found if row is not None), default=1)
    return np.array([np.zeros(n_actions) if row is None else row for row in found])


def _actions(column: str, values: Any, faults: Faults) -> Any:
    """Read actions as a function expects them: whole numbers, other numbers, or vectors."""
    with naming(column):
        if kind_of(values) == "list":
            actions, readable = vectors(values, 0)
            faults.note(~readable, column, values, "is no action")
            return actions
        read = numbers(values)
        faults.note(np.isnan(read), column, values, "is no action")
        whole, is_whole = integers(values)
    return whole if kind_of(values) != "float" and is_whole[~np.isnan(read)].all() else read


def _ratio(batch: Any, column: str, faults: Faults) -> Floats:
    values = column_of(batch, column)
    read = numbers(values)
    remedy = "a ratio of probabilities is never negative; was a log-ratio passed?"
    faults.note(read < 0, column, values, "is negative", remedy)
    faults.note(~np.isfinite(read), column, values, "is not a finite number")
    return read


def _probability(batch: Any, column: str, whose: str, faults: Faults, taken: bool) -> Floats:
    values = column_of(batch, column)
    read = numbers(values)
    faults.note(np.isnan(read), column, values, "is not a number")
    logs = f"name the column {whose}_log_probability if it holds logarithms"
    faults.note(read < 0, column, values, "is negative, as a log-probability is and a probability is not", logs)
    density = f"for densities give logarithms, as {whose}_log_probability"
    faults.note(read > 1, column, values, "is above 1, so it is no probability", density)
    if taken:
        _refuse_impossible(read == 0, column, values, faults)
    return read


def _log_probability(batch: Any, column: str, faults: Faults, taken: bool) -> Floats:
    values = column_of(batch, column)
    read = numbers(values)
    faults.note(np.isnan(read) | (read == np.inf), column, values, "is no log-probability")
    if taken:
        _refuse_impossible(read == -np.inf, column, values, faults)
    return read


def _refuse_impossible(never: Bools, column: str, values: Any, faults: Faults) -> None:
    remedy = "an action that was taken had a chance; log the behaviour's probability of it"
    faults.note(never, column, values, "says that the action was impossible", remedy)


def _quotient(
    column: str, target: Floats, logs: bool, behaviour: Floats, behaviour_logs: bool, faults: Faults
) -> Floats:
    with np.errstate(all="ignore"):  # values that are not finite are noted
        if logs or behaviour_logs:
            above = target if logs else np.log(target)
            ratio = np.exp(above - (behaviour if behaviour_logs else np.log(behaviour)))
        else:
            ratio = target / behaviour
    wrong = ~np.isfinite(ratio) & ~faults.bad
    faults.note(wrong, column, ratio, "is the ratio to the behaviour's probability", "check both columns; " + DROP)
    return ratio


def _joined(columns: list[Floats]) -> Floats:
    return columns[0] if len(columns) == 1 else np.stack(columns, axis=1)


def as_policy(target: Any) -> Law | TargetPolicy | None:
    """Return the policy if `target` is one, and None if it names columns.

    >>> as_policy([[0.5, 0.5], [0.0, 1.0]]).policy, as_policy("q"), as_policy(["q", "r"])
    (Table(2 states, 2 actions), None, None)
    """
    if target is None or isinstance(target, str):
        return None
    if isinstance(target, Policy):
        return Law(target)
    if hasattr(target, "predict_proba"):  # a classifier of scikit-learn
        law = Probabilities(lambda x: target.predict_proba(x[:, None] if np.ndim(x) == 1 else x), batched=True)
        return Law(law, _plain(target.classes_))
    if hasattr(target, "predict"):
        return Law(chooser(target))
    if callable(target):
        function: TargetPolicy = target
        return function
    if hasattr(target, "columns") and hasattr(target, "to_numpy"):  # a data frame (states, actions)
        index = getattr(target, "index", None)
        if index is not None and not np.array_equal(index, np.arange(len(target))):
            raise SettingError("the rows of a target policy are the states 0, 1, ... in this order; reset its index")
        return Law(Table(target.to_numpy()), _plain(target.columns))
    if isinstance(target, list | tuple) and all(isinstance(name, str) for name in target):
        return None
    return Law(Table(target))


def _plain(actions: Any) -> tuple[Any, ...]:
    """Return the names of actions: numbers, even if written as text, else text."""
    names = [str(name) for name in actions]
    whole = [int(float(name)) for name in names if name.removesuffix(".0").isdecimal()]
    return tuple(whole) if len(whole) == len(names) else tuple(names)
