"""Importance ratios, target over behaviour probability, from the columns of a log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from inferl.data.arrays import Bools, Floats
from inferl.errors import SettingError
from inferl.sources.logs.columns import Columns
from inferl.sources.logs.faults import DROP, Faults
from inferl.sources.logs.features.formula import Formula
from inferl.sources.logs.policies.propensities import Propensities
from inferl.sources.logs.policies.targets import TargetPolicy
from inferl.sources.logs.values import column_of, numbers

__all__ = ["RatioReader"]


@dataclass(frozen=True, eq=False)
class RatioReader:
    """Reads ratios, or computes them with the target policies; an invalid probability is noted as a fault."""

    policies: tuple[TargetPolicy, ...] = ()
    formula: Formula | None = None  # of a behaviour policy that was fitted
    propensities: Propensities | None = None

    def check_states(self, names: tuple[str, ...]) -> None:
        """Refuse policies that know states by number, unless there are as many as distinct states in the log."""
        for policy in self.policies:
            if policy.n_states not in (None, len(names)):
                raise SettingError(
                    f"the target policy has {policy.n_states} states, and the log has {len(names)}, {names[0]} and so "
                    "on; give its probabilities as a data frame or file with the columns of the state, or, if these "
                    "are the states 0, 1, ..., say their number (n_states)"
                )

    def __call__(self, batch: Any, columns: Columns, faults: Faults, features: Any) -> Floats:
        """Return ratios (T,), or (T, m) for m target policies."""
        if columns.ratio:
            return _joined([_ratio(batch, column, faults) for column in columns.ratio])
        if columns.behaviour_probability or columns.behaviour_log_probability or self.propensities is not None:
            behaviour, logarithmic = self._behaviour(batch, columns, faults)
            targets = self._targets(batch, columns, faults, features)
            return _joined([_quotient(*target, behaviour, logarithmic, faults) for target in targets])
        return np.ones(len(batch))

    def _behaviour(self, batch: Any, columns: Columns, faults: Faults) -> tuple[Floats, bool]:
        if self.propensities is not None and self.formula is not None:
            return self.propensities.log_probabilities(batch, columns, self.formula, faults), True
        if columns.behaviour_log_probability:
            return _log_probability(batch, columns.behaviour_log_probability, faults, taken=True), True
        assert columns.behaviour_probability is not None
        return _probability(batch, columns.behaviour_probability, "behaviour", faults, taken=True), False

    def _targets(self, batch: Any, columns: Columns, faults: Faults, features: Any) -> list[tuple[str, Floats, bool]]:
        """Return (column, values, whether logarithmic) of each target policy."""
        if self.policies:
            action = columns.action
            assert action is not None
            return [(action, policy(batch, action, faults, features), False) for policy in self.policies]
        if columns.target_log_probability:
            names = columns.target_log_probability
            return [(name, _log_probability(batch, name, faults, taken=False), True) for name in names]
        names = columns.target_probability
        return [(name, _probability(batch, name, "target", faults, taken=False), False) for name in names]


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
