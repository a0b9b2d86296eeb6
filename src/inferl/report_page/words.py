"""What the page says in plain words: the questions behind the checks, and the verdict on an interval."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from inferl.diagnostics import Check

__all__ = ["LIGHTS", "QUESTIONS", "Verdict", "judged"]

QUESTIONS = {
    "divergence": "Did the calculation stay stable?",
    "convergence": "Has the estimate arrived where it was going?",
    "dependence": "Is it allowed for that steps depend on those before them?",
    "number of blocks": "Are there enough separate stretches of data to judge the noise?",
    "ratios": "Do many transitions decide, and not a few heavy ones?",
    "identification": "Do the data say anything about what was asked?",
}

LIGHTS = {"passed": "green", "failed": "red", "not available": "amber"}


class Verdict(NamedTuple):
    """A light, and what it means."""

    light: str
    words: str


def judged(checks: Sequence[Check]) -> Verdict:
    """Sum up the checks; one that could not be made never counts as passed.

    >>> judged([Check("ratios", "passed", ""), Check("convergence", "not available", "")])
    Verdict(light='amber', words='No check failed, but one could not be made: convergence.')
    """
    failed = [check.name for check in checks if check.failed]
    # An interval that is made without blocks cannot have too few of them.
    open_ones = [c.name for c in checks if c.status == "not available" and c.name != "number of blocks"]
    if failed:
        what = "a check" if len(failed) == 1 else f"{len(failed)} checks"
        return Verdict("red", f"Do not rely on this interval as it stands: {what} failed ({', '.join(failed)}).")
    if open_ones:
        what = "one" if len(open_ones) == 1 else str(len(open_ones))
        return Verdict("amber", f"No check failed, but {what} could not be made: {', '.join(open_ones)}.")
    return Verdict("green", "Every check that applies has passed.")
