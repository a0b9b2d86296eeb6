"""Targets: conversion of what a user asks for to vectors, with the kind of estimand."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from inferl.algorithms import Algorithm, AverageReward, DoublyRobust, Field, Linear
from inferl.data.arrays import Floats, as_array, as_floats
from inferl.errors import InputError, TargetError
from inferl.variance.episodes import EpisodeSummary

__all__ = ["Targets", "as_targets", "estimand", "value_of_starts"]


class Targets(NamedTuple):
    """Target vectors, and the kind of estimand."""

    rows: Floats  # (k, dimension); for a bootstrap also (k, n_parameters)
    single: bool  # the user asked for one target, not for a list
    # "value", "values", "known start", "observed value", "fitted", "gap", "average", "observed", "state", "features"
    # or "parameters"
    about: str


def value_of_starts(limited: bool, undiscounted: bool) -> str:
    """Name the default estimand; `limited`: a time limit that belongs to the task has ended episodes.

    >>> value_of_starts(limited=True, undiscounted=True)
    'the mean return up to the time limit'
    """
    if limited and undiscounted:
        return "the mean return up to the time limit"
    return "the value of the start distribution" + (", up to the time limit" if limited else "")


def estimand(algorithm: Algorithm, about: str, episodes: EpisodeSummary) -> str:
    """Describe what an interval estimates."""
    if isinstance(algorithm, Linear | Field):
        return "the solution of the equation"
    value = value_of_starts(episodes.limited > 0, episodes.steps > 0 and episodes.discounts[0] == 1)
    if about == "value":
        if isinstance(algorithm, DoublyRobust) and algorithm.start is not None:
            return "the value at the given start state"
        return value
    if about == "values":
        return f"a combination of several policies' values: {value}"
    if about == "observed value":
        return value.replace("start distribution", "observed starts").replace("return", "return of the observed starts")
    if about == "known start":
        return f"{value}, whose mean features are known"
    if about == "fitted":
        return "what the features alone say of the starts: the projected fixed point (LSTD)"
    if about == "average":
        return "the average reward per step"
    if isinstance(algorithm, AverageReward) and about in ("features", "observed", "state"):
        return "the bias at given features: how much more than the average is earned from there on"
    if about == "gap":
        return "the value of the start distribution, minus what the features alone say"
    if about == "observed":
        return "the observed starts, by the features alone: the projected fixed point"
    if about == "parameters":
        return "a combination of parameters"
    return "the value at given features: the projected fixed point"


def as_targets(target: Any, algorithm: Algorithm, tabular: bool | None, whole: bool) -> Targets:
    """Convert a target to rows.

    A target is a name that the algorithm defines, such as ``"value"``; the number of a state (tabular features); a
    vector of features, or a matrix with k of them; with `whole`, vectors of all p parameters too. None is ``"value"``.
    Starts observed by a source are ``"value"`` too, if the algorithm defines it: the estimand is the value of their
    distribution. ``("value", c)`` is the same, for a distribution whose mean features c are known.

    >>> from inferl import TD
    >>> as_targets(1, TD(3), tabular=True, whole=False).rows
    array([[0., 1., 0.]])
    """
    names = algorithm.named_targets()
    if target is None or isinstance(target, str):
        name = next(iter(names), "value") if target is None else target
        if name in names:
            return Targets(names[name], len(names[name]) == 1, name)
        if target is None:
            raise TargetError(
                f"{algorithm} needs a target: the number of a state, or features; DoublyRobust needs none"
            )
        choices = ", ".join(map(repr, names)) or "none; DoublyRobust has 'value'"
        raise TargetError(f"target is {target!r}; the names that {algorithm} defines are: {choices}")
    if getattr(target, "conditional", False) and isinstance(algorithm, DoublyRobust) and algorithm.start is None:
        given = as_targets(np.asarray(target), algorithm, tabular, whole=False)
        return Targets(given.rows + names["gap"], True, "observed value")
    if hasattr(target, "text") and "value" in names:  # the starts that a source has observed
        if getattr(target, "conditional", False):
            raise TargetError(f"{algorithm} has no value of the observed starts; leave conditional out")
        return Targets(names["value"], len(names["value"]) == 1, "value")
    if isinstance(target, tuple) and len(target) == 2 and isinstance(target[0], str):
        if target[0] != "value" or not isinstance(algorithm, DoublyRobust):
            raise TargetError(f"target is {target!r:.80}; ('value', c) with mean features c is for DoublyRobust only")
        given = as_targets(_array("mean features", target[1]), algorithm, tabular, whole=False)
        return Targets(given.rows + names["gap"], given.single, "known start")
    array = _array("target", target)
    if array.ndim == 0:
        if not np.issubdtype(array.dtype, np.integer):
            raise TargetError(f"target {target!r:.80} is neither the number of a state nor a vector of features")
        if tabular is False:
            raise TargetError(f"target {target!r} is the number of a state, but features are vectors; pass phi(s)")
        return Targets(algorithm.state_vector(int(array))[None], True, "state")
    lengths = {algorithm.n_values, algorithm.dimension} | ({algorithm.n_parameters} if whole else set())
    rows = np.atleast_2d(as_floats("target", array))
    if rows.ndim != 2 or rows.shape[1] not in lengths or len(rows) == 0:
        expected = " or ".join(str(length) for length in sorted(lengths))
        raise TargetError(f"target has shape {array.shape}; expected vectors of length {expected}")
    if not np.isfinite(rows).all():
        raise TargetError("target has entries that are not finite; replace them")
    if rows.shape[1] == algorithm.n_values:
        about = "observed" if hasattr(target, "text") else "features"
        return Targets(algorithm.of_features(rows), array.ndim == 1, about)
    combined = "value" in names and _combines(rows, names["value"])
    return Targets(rows, array.ndim == 1, "values" if combined else "parameters")


def _combines(rows: Floats, values: Floats) -> bool:
    """Return whether rows are combinations of the values of policies, such as their difference."""
    own = values.argmax(axis=1)  # a parameter that only this policy's value contains
    return bool(np.array_equal(rows[:, own] @ values, rows))


def _array(name: str, values: Any) -> NDArray[Any]:
    try:
        return as_array(name, values)
    except InputError as error:
        raise TargetError(str(error)) from None
