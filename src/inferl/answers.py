"""Answers: an interval is read off a state, with what it is about and the checks that belong to it."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple, cast

import numpy as np

from inferl.algorithms import Algorithm, DoublyRobust, Field, Linear
from inferl.bootstrap import BootstrapReading, BootstrapState, OnlineBootstrap
from inferl.diagnostics import Check, Misfit, checks
from inferl.episodes import EpisodeSummary
from inferl.interval import UNIFORM, Interval
from inferl.least_squares import LeastSquares, LeastSquaresReading, LeastSquaresState
from inferl.targets import Targets, value_of_starts
from inferl.tiles import COMPANION, EvaluatorState, Tiles
from inferl.uniform import anytime, grown, simultaneous

__all__ = ["Answer", "answer", "estimand"]


class Answer(NamedTuple):
    """An interval with its checks."""

    interval: Interval
    checks: tuple[Check, ...]
    misfit: Misfit | None  # how far the features are off, if starts tell


@np.errstate(all="ignore")  # where numbers overflow, a check says so
def answer(
    tiles: Tiles, state: EvaluatorState, targets: Targets, level: float, kind: str | None, tuning_time: int
) -> Answer:
    """Look along targets; what a check objects to becomes a note."""
    algorithm, method, rows = tiles.algorithm, tiles.method, targets.rows
    pointwise = "normal" if kind in UNIFORM else kind
    misfit = None
    if isinstance(method, OnlineBootstrap):
        replicas = method.read(cast(BootstrapState, state.method), algorithm.pad(rows))
        interval = method.interval(replicas, level, pointwise)
        reading: BootstrapReading | LeastSquaresReading = replicas
        solved = None
        if state.companion is not None and rows.shape[1] == algorithm.dimension:
            solved = COMPANION.read(state.companion, rows)
    else:
        sums = cast(LeastSquaresState, state.method)
        solved = reading = method.read(sums, rows, kind == "simultaneous")
        interval = method.interval(solved, level, pointwise)
        if sums.n > 0:
            misfit = _misfit(algorithm, method, sums)
    if kind == "anytime":
        interval = anytime(interval, grown(method.information, reading.n, tuning_time))
    elif kind == "simultaneous":
        interval = simultaneous(interval, reading.scores())
    made = checks(algorithm, method, targets.about, interval, reading, solved, state, misfit)
    notes = tuple(check.sentence for check in made if check.failed)
    about = estimand(algorithm, targets.about, state.episodes)
    return Answer(replace(interval, notes=notes, estimand=about), made, misfit)


def _misfit(algorithm: Algorithm, method: LeastSquares, sums: LeastSquaresState) -> Misfit | None:
    """Compare what the features say of the starts with what was earned; of several policies, where it differs most."""
    found = [Misfit.of(method.read(sums, rows, jointly=True)) for rows in algorithm.checked_targets()]
    return max(found, key=lambda misfit: misfit.size, default=None)


def estimand(algorithm: Algorithm, about: str, episodes: EpisodeSummary) -> str:
    """Say what an interval is about, in a user's words."""
    if isinstance(algorithm, Linear | Field):
        return "the solution of the equation"
    value = value_of_starts(episodes.limited > 0, episodes.steps > 0 and episodes.discounts[0] == 1)
    if about == "value":
        if isinstance(algorithm, DoublyRobust) and algorithm.start is not None:
            return "the value at the given start state"
        return value
    if about == "known start":
        return f"{value}, whose mean features are known"
    if about == "fitted":
        return "what the features alone say of the starts: the projected fixed point (LSTD)"
    if about == "average":
        return "the average reward per step"
    if about == "gap":
        return "the value of the start distribution, minus what the features alone say"
    if about == "observed":
        return "the observed starts, by the features alone: the projected fixed point"
    if about == "parameters":
        return "a combination of parameters"
    return "the value at given features: the projected fixed point"
