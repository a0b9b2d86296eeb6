"""What the page says in plain words: the questions behind the checks, and the verdict on an interval."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from inferl.diagnostics import Check

__all__ = ["QUESTIONS", "Verdict", "judged", "light"]

QUESTIONS = {
    "divergence": "Did the calculation stay stable?",
    "convergence": "Has the estimate arrived where it was going?",
    "dependence": "Is it allowed for that steps depend on those before them?",
    "length": "Is the stream long enough, for how slowly it moves?",
    "rarity": "Has what is rare happened often enough?",
    "ratios": "Do many transitions decide, and not a few heavy ones?",
    "identification": "Do the data say anything about what was asked?",
    "features": "Is the answer safe from features that miss the value?",
    "ends": "Did episodes end, or were they cut off?",
    "range": "Is the answer a value that can be?",
}

_LIGHTS = {"passed": "green", "failed": "red", "not available": "amber"}


class Verdict(NamedTuple):
    """A light, and what it means."""

    light: str
    text: str


def light(check: Check) -> str:
    """Choose the colour of a lamp.

    >>> light(Check("ratios", "not available", "no transitions with ratios so far"))
    'amber'
    """
    return _LIGHTS[check.status]


def judged(checks: Sequence[Check]) -> Verdict:
    """Sum up the checks; one that could not be made never counts as passed.

    >>> judged([Check("ratios", "passed", ""), Check("convergence", "not available", "")])
    Verdict(light='amber', text='No check failed, but one could not be made: convergence.')
    """
    failed = [check.name for check in checks if check.failed]
    open_ones = [check.name for check in checks if light(check) == "amber"]
    if failed:
        what = "a check" if len(failed) == 1 else f"{len(failed)} checks"
        return Verdict("red", f"Do not rely on this interval as it stands: {what} failed ({', '.join(failed)}).")
    if open_ones:
        what = "one" if len(open_ones) == 1 else str(len(open_ones))
        return Verdict("amber", f"No check failed, but {what} could not be made: {', '.join(open_ones)}.")
    return Verdict("green", "Every check that applies has passed.")
