"""Fitted behaviour policies: multinomial logistic regression of the actions of a log, cross-fitted by episode."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

from inferl.data.arrays import Floats, Integers
from inferl.data.invariants import COUNT, bounds, demand, shapes
from inferl.errors import DataError, MissingExtraError, SettingError

__all__ = ["FOLDS", "Behaviour", "Gap", "fitted", "folds_of", "scrambled"]

FOLDS = 5
TENTHS = 10
FEWEST = 5  # variance of the number of actions in a tenth that is compared: the rule of thumb for counts
ROUNDING = 1e-12  # standard deviation of a column, relative to its mean, that is rounding: the column is constant


@dataclass(frozen=True)
class Gap:
    """How often an action was fitted to be taken in a tenth of the rows, and how often it was."""

    action: int
    fitted: float
    taken: float
    error: float  # standard error of the difference

    def verify(self) -> None:
        """Check the bounds of numbers that come from a file."""
        bounds(self, {"action": COUNT, "fitted": (0, 1), "taken": (0, 1), "error": (0, np.inf)})

    @property
    def distance(self) -> float:
        """The difference in standard errors."""
        return abs(self.taken - self.fitted) / self.error if self.error else 0.0


@dataclass(frozen=True, eq=False)
class Behaviour:
    """Probabilities of actions as a function of some columns: one model for each fold of the episodes.

    The model of a fold was fitted to the episodes of the other folds.
    """

    actions: tuple[str, ...]
    coefficients: Floats  # (folds, columns + 1, actions); the last row is the intercept
    rows: int  # that were fitted
    log_loss: float  # mean of -log p of the actions taken, out of fold
    log_loss_of_frequencies: float  # the same for the frequencies of the actions, whatever the columns
    smallest: float  # probability of an action that was taken
    gap: Gap  # the largest

    def verify(self) -> None:
        """Check the shapes and bounds of a model that comes from a file."""
        shapes(self, {"coefficients": f"{FOLDS} P {len(self.actions)}"})
        demand(self.coefficients.shape[1] > 0 and len(self.actions) > 1, "a fitted behaviour policy without actions")
        demand(bool(np.isfinite(self.coefficients).all()), "a fitted behaviour policy with infinite coefficients")
        bounds(self, {"rows": COUNT, "smallest": (0, 1), "gap.action": (0, len(self.actions) - 1)})
        bounds(self, dict.fromkeys(("log_loss", "log_loss_of_frequencies"), (0, np.inf)))

    def log_probabilities(self, columns: Floats, folds: Integers, actions: Integers) -> Floats:
        """Return the log-probabilities (T,) of actions, by their number, given the columns (T, P - 1)."""
        found = _log_probabilities(self.coefficients, columns, folds)
        taken: Floats = np.take_along_axis(found, actions[:, None], axis=1)[:, 0]
        return taken


def fitted(columns: Floats, actions: Integers, folds: Integers, names: tuple[str, ...]) -> Behaviour:
    """Fit the probabilities of actions (T,), numbered as their names, given columns (T, P - 1).

    The penalty is half the sum of squares of the coefficients of the standardised columns, against the sum of the
    log-losses (scikit-learn's default, ``C=1``); it matters only where there are few rows. The intercept has none.

    >>> rng = np.random.default_rng(0)
    >>> x = rng.integers(2, size=(10_000, 1)).astype(float)
    >>> took = rng.random(10_000) < np.where(x[:, 0] == 1, 0.8, 0.3)
    >>> model = fitted(x, took.astype(int), folds_of(np.arange(10_000)), ("no", "yes"))
    >>> np.exp(model.log_probabilities(np.array([[0.0], [1.0]]), np.array([0, 0]), np.array([1, 1]))).round(2)
    array([0.29, 0.8 ])
    """
    if len(names) < 2:
        raise DataError(f"the action is {', '.join(names) or 'nowhere given'} in all rows: there is nothing to fit")
    center, scale = columns.mean(axis=0), columns.std(axis=0)
    varies = scale > ROUNDING * np.abs(center)
    scale = np.where(varies, scale, 1.0)
    standard = np.where(varies, (columns - center) / scale, 0.0)
    coefficients = np.zeros((FOLDS, columns.shape[1] + 1, len(names)))
    frequencies = np.zeros(len(actions))
    for fold in range(FOLDS):
        train, test = folds != fold, folds == fold
        counts = np.bincount(actions[train], minlength=len(names))
        if (counts == 0).any():
            missing = int(np.argmin(counts))
            raise DataError(
                f"action {names[missing]!r} occurs {np.sum(actions == missing)} times, in episodes of one fold only, "
                "so its probability cannot be fitted to other episodes; join rare actions, or drop their episodes"
            )
        slopes, intercepts = _regression(standard[train], actions[train])
        coefficients[fold, :-1] = slopes / scale[:, None]
        coefficients[fold, -1] = intercepts - (center / scale) @ slopes
        frequencies[test] = -np.log(counts / counts.sum())[actions[test]]
    found = _log_probabilities(coefficients, columns, folds)
    losses = -np.take_along_axis(found, actions[:, None], axis=1)[:, 0]
    return Behaviour(
        names,
        coefficients,
        len(actions),
        float(losses.mean()),
        float(frequencies.mean()),
        float(np.exp(-losses.max())),
        _worst_gap(np.exp(found), actions, int(varies.sum()) + 1),
    )


def _log_probabilities(coefficients: Floats, columns: Floats, folds: Integers) -> Floats:
    """Return the log-probabilities (T, actions).

    Column by column: the bits of a matrix product would depend on the number of rows.
    """
    logits = coefficients[folds, -1]
    for number, column in enumerate(columns.T):
        logits = logits + column[:, None] * coefficients[folds, number]
    logits = logits - logits.max(axis=1, keepdims=True)
    total = np.exp(logits[:, 0])
    for column in logits.T[1:]:
        total = total + np.exp(column)
    found: Floats = logits - np.log(total)[:, None]
    return found


def _worst_gap(fitted: Floats, actions: Integers, parameters: int) -> Gap:
    """Return the largest gap between frequencies and fitted probabilities, of the tenths of the rows by these.

    The standard error allows for the coefficients, whose errors a tenth of the rows shares: on average over the rows
    they add `parameters` / n times the variance of an action, and more where the columns are extreme (twice that).
    """
    worst = Gap(0, 0.0, 0.0, np.inf)
    for action, law in enumerate(fitted.T):
        tenth = np.searchsorted(np.quantile(law, np.arange(1, TENTHS) / TENTHS), law)
        size = np.bincount(tenth, minlength=TENTHS)
        taken, expected = (np.bincount(tenth, x, TENTHS) for x in (actions == action, law))
        variance = np.bincount(tenth, law * (1 - law), TENTHS)
        error = np.sqrt(variance * (1 + 2 * FOLDS / (FOLDS - 1) * parameters * size / len(law)))
        for group in np.flatnonzero(variance >= FEWEST):
            gap = Gap(action, *((x[group] / size[group]).item() for x in (expected, taken, error)))
            worst = max(worst, gap, key=lambda gap: gap.distance)
    return worst


def _regression(columns: Floats, actions: Integers) -> tuple[Floats, Floats]:
    """Return slopes (P - 1, actions) and intercepts (actions,)."""
    try:
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.linear_model import LogisticRegression
    except ImportError:
        raise MissingExtraError("scikit-learn", "fit") from None
    if columns.shape[1] == 0:  # the frequencies
        counts = np.bincount(actions)
        return np.zeros((0, len(counts))), np.log(counts / counts.sum())
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        try:
            model = LogisticRegression(C=1.0, tol=1e-6, max_iter=10_000).fit(columns, actions)
        except ConvergenceWarning:
            raise SettingError("the behaviour policy cannot be fitted: the regression does not converge") from None
    if len(model.classes_) == 2:  # scikit-learn has a single row then, of the second action
        return np.stack([np.zeros(columns.shape[1]), model.coef_[0]], axis=1), np.array([0.0, model.intercept_[0]])
    return model.coef_.T, model.intercept_


def folds_of(labels: Integers) -> Integers:
    """Return the fold of each episode, by a hash of its label: whatever the order of the rows, or the batches.

    >>> np.bincount(folds_of(np.arange(10_000)))
    array([2005, 2032, 2011, 1972, 1980])
    """
    return (scrambled(labels) % np.uint64(FOLDS)).astype(np.int64)


def scrambled(labels: Integers) -> Integers:
    """Return a 64-bit hash of each number (splitmix64)."""
    z = labels.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
