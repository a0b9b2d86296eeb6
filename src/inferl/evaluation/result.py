"""Result: the answer to a whole evaluation, with what can be said about its episodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from inferl.diagnostics import Check, Report
from inferl.evaluator import Evaluator
from inferl.interval import UNIFORM, Interval, brief
from inferl.runs import Run

__all__ = ["Result"]


@dataclass(frozen=True, eq=False)
class Result:
    """The answer of `evaluate_policy`; `print` shows it in a line.

    >>> import inferl
    >>> result = inferl.evaluate_policy("Blackjack-v1", lambda hand: int(hand[0] < 17), episodes=50)
    >>> result.episodes, result.smallest, result.largest
    (50, -1.0, 1.0)

    Attributes
    ----------
    name
        Of the environment.
    quantity
        What was estimated: mean return, discounted return, or value.
    report
        The interval with all checks and facts.
    episodes, steps
        How many were played.
    truncated
        Share of the episodes that were truncated, as by a time limit.
    smallest, largest, deviation
        Of the returns: the extremes, and the standard deviation. NaN where no return is complete.
    run
        What can be saved, compared and reported: `inferl report` and `inferl compare` read its file.
    """

    name: str
    quantity: str
    report: Report
    episodes: int
    steps: int
    truncated: float
    smallest: float
    largest: float
    deviation: float
    run: Run

    @property
    def interval(self) -> Interval:
        """The interval for the mean return."""
        return self.report.interval

    @property
    def checks(self) -> tuple[Check, ...]:
        """The checks of the interval."""
        return self.report.checks

    @property
    def evaluator(self) -> Evaluator:
        """The evaluator, which can be saved and merged with others."""
        return self.run.evaluator

    @property
    def exact(self) -> bool:
        """Whether all episodes were the same, step for step: nothing seems to be random."""
        return any(check.name == "randomness" and not check.failed for check in self.checks)

    def save(self, path: Any) -> None:
        """Write the run to a file, for `inferl report` and `inferl compare`."""
        self.run.save(path)

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, strings and lists, ready for JSON."""
        returns = {name: getattr(self, name) for name in ("smallest", "largest", "deviation")}
        return {
            "name": self.name,
            "quantity": self.quantity,
            "episodes": self.episodes,
            "steps": self.steps,
            "truncated": self.truncated,
            "returns": {name: value if np.isfinite(value) else None for name, value in returns.items()},
        } | self.report.to_dict()

    def __str__(self) -> str:
        now, line = self.interval, f"{self.name}: {self.quantity} "
        if self.exact:
            line += f"{now.estimate:.10g}, exact: all {self.episodes:,} episodes were the same"
        else:
            kind = f" {now.kind}" if now.kind in UNIFORM else ""
            line += brief(now.estimate, now.lower, now.upper)
            line += f", {now.level * 100:g}%{kind}, {self.episodes:,} episodes"
        if self.truncated:
            line += f", {self.truncated:.0%} truncated at the limit"
        return "\n".join([line, *(f"note: {note}" for note in now.notes)])
