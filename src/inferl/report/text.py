"""Texts of the page: the question behind each check, and the verdict on an interval."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from inferl.diagnostics import Check

__all__ = ["QUESTIONS", "Verdict", "judged", "light"]

QUESTIONS = {
    "divergence": "Did the calculation stay stable?",
    "convergence": "Has the estimate converged?",
    "dependence": "Does the interval account for dependence between steps?",
    "length": "Is the stream long enough for its mixing time?",
    "rarity": "Have rare events occurred often enough?",
    "mean ratio": "Are these the importance ratios of the data?",
    "ratios": "Is the weight spread over many transitions?",
    "identification": "Do the data identify the target?",
    "drift": "Has the value changed?",
    "features": "Is the estimate robust to features that cannot express the value?",
    "intercept": "Can the features express a constant?",
    "ends": "Did episodes end, or were they truncated?",
    "range": "Is the answer a possible value?",
    "dropped rewards": "Were rewards lost with the last rows of episodes?",
    "time": "Do the times of the rows go forward?",
    "bad rows": "Did all rows fit those before them?",
    "labels": "Could episodes have been joined by mistake?",
    "propensities": "Do the fitted probabilities match the actions?",
    "randomness": "Was anything random at all?",
    "overflow": "Are the numbers finite?",
}

_LIGHTS = {"passed": "green", "failed": "red", "not available": "amber"}


class Verdict(NamedTuple):
    """A colour, and what it means."""

    light: str
    text: str


def light(check: Check) -> str:
    """Choose the colour for a check.

    >>> light(Check("ratios", "not available", "no transitions with ratios so far"))
    'amber'
    """
    return _LIGHTS[check.status]


def judged(checks: Sequence[Check]) -> Verdict:
    """Summarise the checks; one that is not available never counts as passed.

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
