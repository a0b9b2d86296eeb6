"""Answers: an interval with its checks, from the state of an evaluator."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from inferl.algorithms.targets import Targets, estimand
from inferl.diagnostics import Check, checks_of_data, divergence, overflow
from inferl.interval import UNIFORM, Interval, anytime, grown, simultaneous
from inferl.methods.misfit import Misfit
from inferl.methods.schedule import EvaluatorState, Schedule

__all__ = ["Answer", "answer"]


class Answer(NamedTuple):
    """An interval with its checks."""

    interval: Interval
    checks: tuple[Check, ...]
    misfit: Misfit | None  # bias of the features, if the starts of episodes allow an estimate


@np.errstate(all="ignore")  # overflow is reported by a check
def answer(
    schedule: Schedule, state: EvaluatorState, targets: Targets, level: float, kind: str | None, tuning_time: int | None
) -> Answer:
    """Read the state along targets, make the checks, and turn those that fail into notes."""
    algorithm, method = schedule.algorithm, schedule.method
    reading = method.read(algorithm, state.method, targets.rows, jointly=kind == "simultaneous")
    interval = method.interval(reading, level, "normal" if kind in UNIFORM else kind)
    if kind == "anytime":
        interval = anytime(interval, grown(method.information, reading.units, tuning_time, method.unit))
    elif kind == "simultaneous":
        interval = simultaneous(interval, reading.scores())
    misfit = method.misfit(algorithm, state.method)
    own = schedule.explained(method.checks(algorithm, state.method, reading, interval))
    lost = overflow(interval)
    made = (
        *(() if lost is None else (lost,)),
        divergence(state.diverged and state.diverged[0]),
        *own,
        *checks_of_data(algorithm, targets.about, interval, state.ratios, state.episodes, misfit, state.constant),
        *state.source_checks,
    )
    if not np.any(interval.standard_error) and any(check.name == "randomness" for check in made):
        made = tuple(check for check in made if check.name != "length")  # the width of 0 is right
    notes = tuple(check.sentence for check in made if check.failed)
    about = estimand(algorithm, targets.about, state.episodes)
    return Answer(replace(interval, notes=notes, estimand=about), made, misfit)
