"""Answers: an interval is read off a state, with the checks that belong to it."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from inferl.bootstrap import BootstrapReading, BootstrapState, OnlineBootstrap
from inferl.diagnostics import Check, checks
from inferl.errors import SettingError
from inferl.interval import UNIFORM, Interval
from inferl.least_squares import LeastSquaresReading, LeastSquaresState
from inferl.rows import Floats
from inferl.tiles import COMPANION, EvaluatorState, Tiles
from inferl.uniform import anytime, simultaneous

__all__ = ["answer"]


def answer(
    tiles: Tiles, state: EvaluatorState, targets: Floats, level: float, kind: str | None, tuning_time: int
) -> tuple[Interval, tuple[Check, ...]]:
    """Look along targets (k, d), or (k, p) for a bootstrap; what a check objects to becomes a note."""
    algorithm, method = tiles.algorithm, tiles.method
    pointwise = "normal" if kind in UNIFORM else kind
    if isinstance(method, OnlineBootstrap):
        replicas = method.read(cast(BootstrapState, state.method), algorithm.pad(targets))
        interval = method.interval(replicas, level, pointwise)
        reading: BootstrapReading | LeastSquaresReading = replicas
        solved = None
        if state.companion is not None and targets.shape[1] == algorithm.dimension:
            solved = COMPANION.read(state.companion, targets)
    else:
        solved = reading = method.read(cast(LeastSquaresState, state.method), targets, kind == "simultaneous")
        interval = method.interval(solved, level, pointwise)
    if kind == "anytime":
        if tuning_time < 1:
            raise SettingError(f"tuning_time is {tuning_time}; it is a number of transitions, at least 1")
        interval = anytime(interval, method.information(reading.n) / method.information(tuning_time))
    elif kind == "simultaneous":
        interval = simultaneous(interval, reading.scores())
    message = state.diverged and state.diverged[0]
    made = checks(algorithm, method, interval, reading, solved, state.ratios, message)
    notes = tuple(check.sentence for check in made if check.failed)
    return replace(interval, notes=notes), made
