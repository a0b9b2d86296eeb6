"""Propensities: a first pass over a log fits the behaviour policy, whose probabilities the log does not have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from inferl.data.arrays import Floats, Integers
from inferl.data.invariants import COUNT, bounds, demand
from inferl.diagnostics import Check
from inferl.errors import DataError, SettingError
from inferl.sources.logs.columns import Columns, home_of
from inferl.sources.logs.faults import Faults
from inferl.sources.logs.features.encoding import FormulaEncoding, Learned, in_order, level_of
from inferl.sources.logs.features.formula import Formula, formula_of
from inferl.sources.logs.inputs.opening import log_name, open_log, rereadable
from inferl.sources.logs.policies.behaviour import FOLDS, Behaviour, fitted, folds_of, scrambled
from inferl.sources.logs.values import categories, column_of, integers, kind_of, labels, naming

__all__ = ["Propensities", "behaviour_formula", "fit_behaviour", "fit_source"]

ALARM = 4.0  # standard errors: of a few dozen comparisons
ROWS = 1_000_000  # to which a model is fitted, at most
NUMBERS = 1 << 25  # in the matrix of these rows, and in that of their probabilities, at most


@dataclass(frozen=True, eq=False)
class Propensities:
    """A behaviour policy that was fitted to a log, and how to read the columns that it depends on: plain data."""

    model: Behaviour
    learned: Learned  # of the formula
    by_row: bool  # whether the folds are of rows, because the log labels no episodes
    rows: int  # of the log

    def verify(self) -> None:
        """Check a model that comes from a file."""
        bounds(self, {"rows": COUNT})

    def log_probabilities(self, batch: Any, columns: Columns, formula: Formula, faults: Faults) -> Floats:
        """Return the log-probabilities of the actions of a batch, out of fold; 0 in bad rows."""
        action = columns.action
        assert action is not None
        encoder = FormulaEncoding(formula).fitted(self.learned)
        demand(
            encoder.dimension == self.model.coefficients.shape[1] - 1, "the model has other columns than its formula"
        )
        needed = ~faults.bad
        matrix = encoder.encode(batch, formula.variables, faults, needed).features
        taken = level_of(action, column_of(batch, action), self.model.actions, faults, needed)
        found, good = np.zeros(len(batch)), np.flatnonzero(~faults.bad)
        folds = folds_of(_episodes(batch, columns, faults.first_row + np.arange(len(batch))))
        found[good] = self.model.log_probabilities(matrix[good], folds[good], taken[good])
        return found

    def describe(self) -> str:
        """Say what was fitted, how well, and what an interval does not allow for."""
        model = self.model
        used = "" if model.rows == self.rows else f" (of {self.rows:,})"
        by = "row: the log labels no episodes" if self.by_row else "episode"
        return (
            f"fitted to {model.rows:,} rows{used} by logistic regression of the action on {self.learned.about}, "
            f"{FOLDS} folds by {by}; log-loss {model.log_loss:.3g}, of the frequencies alone "
            f"{model.log_loss_of_frequencies:.3g}; smallest probability {model.smallest:.2g}; the interval does not "
            "allow for a wrong formula"
        )

    def check(self) -> Check:
        """Check whether the actions were taken as often as fitted, wherever the fitted probability is high or low."""
        gap, name = self.model.gap, self.model.actions[self.model.gap.action]
        if gap.error == np.inf:
            return Check("propensities", "not available", "too few rows to compare fitted probabilities with actions")
        found = (
            f"in a tenth of the rows, action {name} was fitted with probability {gap.fitted:.3f} and taken with "
            f"frequency {gap.taken:.3f}, {gap.distance:.1f} standard errors apart"
        )
        if gap.distance <= ALARM:
            return Check("propensities", "passed", f"the fitted probabilities are calibrated: {found}", gap.distance)
        remedy = "add to fit_behaviour what the decisions depended on: columns, C(x), poly(x, 2), products"
        return Check("propensities", "failed", f"the behaviour policy does not fit: {found}", gap.distance, remedy)


def behaviour_formula(given: str | Sequence[str] | None, available: Sequence[str]) -> Formula | None:
    """Read the formula of a behaviour policy, if it is to be fitted."""
    try:
        formula = None if given is None else formula_of(given, available)
    except SettingError as error:
        raise SettingError(f"fit_behaviour{str(error).removeprefix('features')}") from None
    if formula is not None and any(factor.function == "age" for factor in formula.factors):
        raise SettingError("fit_behaviour: age() is not known yet where the policy is asked; give a column that counts")
    return formula


def fit_source(
    source: Any, given: str | Sequence[str], resolved: Callable[[str, list[str]], Columns], batch: int
) -> Propensities:
    """Fit the behaviour policy, in a pass over the whole log; `resolved` says which of its columns is what."""
    if not rereadable(source):
        raise SettingError(
            f"{log_name(source)}: fitting the behaviour policy takes a pass of its own, and this log can be read only "
            "once; write it to a file"
        )
    with open_log(source) as log:
        columns, formula = resolved(log.name, log.columns), behaviour_formula(given, log.columns)
        assert formula is not None
        names = (columns.action, columns.episode, *formula.variables)
        homes = dict.fromkeys(home_of(name, log.columns) or name for name in names if name is not None)
        try:
            return fit_behaviour((piece.parsed()[0] for piece in log.pieces(list(homes), batch)), columns, formula)
        except (SettingError, DataError) as error:
            raise type(error)(f"{log.name}: {error}") from None


def fit_behaviour(batches: Iterable[Any], columns: Columns, formula: Formula) -> Propensities:
    """Fit the behaviour policy to the rows of a log.

    Rows with invalid values do not count; reading the log reports them.
    """
    action = columns.action
    assert action is not None
    sample = _Sample()
    passing = sample.passing(batches)
    encoding = FormulaEncoding(formula)
    learned = encoding.learn(passing, [formula.variables], again=True)
    for _ in passing:  # those that it did not need
        pass
    if sample.seen == 0:
        raise DataError("there are no rows to fit the behaviour policy to")
    encoder = encoding.fitted(learned)
    names = in_order({name for part in sample.parts for name in _actions(part, action)})
    sample.shrink(NUMBERS // max(encoder.dimension, len(names)))
    matrices, taken, folds = [], [], []
    for part, numbers in zip(sample.parts, sample.numbers, strict=True):
        faults = Faults(1, len(part))
        every = ~faults.bad
        matrix = encoder.encode(part, formula.variables, faults, every).features
        levels = level_of(action, column_of(part, action), names, faults, every)
        good = np.flatnonzero(~faults.bad)
        matrices.append(matrix[good])
        taken.append(levels[good])
        folds.append(folds_of(_episodes(part, columns, numbers)[good]))
    model = fitted(np.concatenate(matrices), np.concatenate(taken), np.concatenate(folds), names)
    return Propensities(model, learned, columns.episode is None, sample.seen)


def _actions(batch: Any, action: str) -> list[str]:
    """Return the actions that occur, as text."""
    values = column_of(batch, action)
    with naming(action):
        _, found = categories(values)
        if kind_of(values) == "float" and not integers(values.drop_null())[1].all():
            raise SettingError("a behaviour policy can be fitted to discrete actions, and these are real numbers")
    return found


def _episodes(batch: Any, columns: Columns, numbers: Integers) -> Integers:
    """Return the label of the episode of each row; without labels, the number of the row."""
    return numbers if columns.episode is None else labels(column_of(batch, columns.episode))[0]


@dataclass(eq=False)
class _Sample:
    """Rows of a log: all of them, or those whose number has a small hash, whatever the batches."""

    seen: int = 0
    size: int = 0
    limit: int = 1 << 64  # of the hash
    parts: list[Any] = field(default_factory=list)  # Arrow tables
    numbers: list[Integers] = field(default_factory=list)  # of their rows, from 1

    def passing(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Pass batches on, and keep some of their rows."""
        import pyarrow as pa

        for batch in batches:
            self.parts.append(pa.table(batch))
            self.numbers.append(self.seen + 1 + np.arange(len(batch)))
            self.seen += len(batch)
            self.size += len(batch)
            self._thin(len(self.parts) - 1)
            self.shrink(ROWS)
            yield batch

    def shrink(self, most: int) -> None:
        """Halve the rows until there are at most so many."""
        while self.size > max(most, 1):
            self.limit //= 2
            for part in range(len(self.parts)):
                self._thin(part)

    def _thin(self, part: int) -> None:
        if self.limit < 1 << 64:
            self.size -= len(self.numbers[part])
            keep = np.flatnonzero(scrambled(self.numbers[part]) < np.uint64(self.limit))
            self.parts[part], self.numbers[part] = self.parts[part].take(keep), self.numbers[part][keep]
            self.size += len(keep)
