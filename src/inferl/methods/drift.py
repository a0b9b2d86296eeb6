"""Drift: whether the value has changed within the data, or since the data before a window."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from inferl.data.arrays import Floats, Integers
from inferl.diagnostics import Check, signed
from inferl.variance.batch_means import Blocks, Levels, Scores
from inferl.variance.changes import FEWEST, changes
from inferl.variance.history import GROUPED, STEPS, History

if TYPE_CHECKING:
    from inferl.methods.least_squares import LeastSquaresReading

__all__ = ["Course", "LatestChange", "drift", "latest_change"]


class Course(NamedTuple):
    """What the estimates of k targets are over time: sums over blocks, the oldest first."""

    sums: Floats  # (B, k) of what each step, or episode, adds to the estimate, times their number
    length: Integers  # (B,)
    added: int  # blocks, before neighbours were joined
    before: int  # steps or episodes at the beginning that are not in the estimate
    rate: Floats  # (J, k) variance rates of blocks of 1, 2, 4, ... of them, also of those before
    blocks: Integers  # (J,) their numbers

    @classmethod
    def of(cls, history: History, along: Floats, levels: Levels, parts: Sequence[Blocks]) -> Course:
        """Return it along directions (k, p); `levels` are those of the estimate, from `parts` of the data."""
        if history.earlier is None:
            dyadic = len(levels.rate) - levels.final
            rate, blocks = levels.rate[:dyadic], levels.blocks[:dyadic]
        else:
            scores = Scores((*parts, history.earlier), None)
            rate, blocks = scores.rates(along), scores.blocks
        sums, length, added = history.sums, history.length, history.added
        if history.streams > 1:
            # A stretch of time is as many steps of each stream: with short ones, neighbours depend on each other.
            sums, length = history.joined_to(STEPS * history.streams)
            added = added * len(length) // max(len(history.length), 1)
            within = STEPS.bit_length()  # levels of blocks along a stream that are not longer
            rate, blocks = rate[:within], blocks[:within]
        return cls(sums @ along.T, length, added, history.before, rate, blocks)


class LatestChange(NamedTuple):
    """The latest change of the value, along the target that shows it most clearly."""

    shift: float
    error: float  # standard error of the shift
    ago: int  # steps or episodes after it
    unit: str  # "steps" or "episodes"
    number: int  # of changes, this one included
    within: bool  # it is within the data that the interval is about; else it was before the window
    windowed: bool  # there are data before the window


def drift(reading: LeastSquaresReading | None) -> Check:
    """Check whether the value has changed within the data that the interval is about.

    The check may be looked at all the time: docs/validity.md counts how often it fails where nothing changes.
    """
    name, found = "drift", _found(reading)
    if isinstance(found, str):
        return Check(name, "not available", found)
    if found is None:
        return Check(name, "passed", "no sign that the value has changed", 0.0)
    times = f", the last of {found.number} changes" if found.number > 1 else ""
    message = f"the value changed by {signed(found.shift, found.error)} about {found.ago:,} {found.unit} ago{times}"
    if not found.within:
        return Check(name, "passed", f"{message}, before the window", found.shift)
    remedy = "wait until the window has passed the change" if found.windowed else "look at a window of the latest data"
    return Check(name, "failed", message, found.shift, f"{remedy}, or evaluate each version by itself")


def latest_change(reading: LeastSquaresReading | None) -> LatestChange | None:
    """Return what the check says as numbers; None if nothing has changed, or nobody can tell."""
    found = _found(reading)
    return None if isinstance(found, str) else found


def _found(reading: LeastSquaresReading | None) -> LatestChange | str | None:
    """Return the latest change, None if there is none, or why none can be told from noise."""
    if reading is None or reading.course is None:
        return "needs block sums, which are not kept here"
    course, unit = reading.course, reading.unit
    total, shortest = int(course.length.sum()), 2**GROUPED if unit == "episodes" else STEPS
    if len(course.length) < 2 * FEWEST:
        return (
            f"too few blocks to tell a change from noise: {len(course.length)} of {2 * FEWEST}; a block is "
            f"{shortest:,} {unit}{'' if unit == 'episodes' else ' of each stream'}, or a pane of a window"
        )
    known = np.isfinite(course.sums).all(axis=0) & np.isfinite(course.rate).all(axis=0)
    noisy = np.flatnonzero((reading.standard_error > 0) & np.isfinite(reading.standard_error) & known)
    if not len(noisy):
        return "nothing varies, or the variance is not known"
    ess = np.where(np.isnan(reading.variance_ess), np.inf, reading.variance_ess) * total / reading.units
    every = [
        changes(
            *(course.sums[:, i], course.length, course.added, course.rate[:, i], course.blocks, ess[i], len(noisy)),
            independent=unit == "episodes",
        )
        for i in noisy
    ]
    within = [[change for change in found if change.latest > course.before] for found in every]
    clearest = max(
        within if any(within) else every, key=lambda found: max((abs(c.shift / c.error) for c in found), default=0)
    )
    if not clearest:
        return None
    latest = clearest[-1]
    ago = reading.units + course.before - latest.at
    return LatestChange(latest.shift, latest.error, ago, unit, len(clearest), any(within), course.before > 0)
