"""Result: the answer to a whole evaluation, with what can be said about its episodes."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from inferl.data.arrays import Floats
from inferl.diagnostics import Check, Report
from inferl.evaluator import Evaluator
from inferl.interval import UNIFORM, Interval, brief
from inferl.runs import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
    def returns(self) -> Floats | None:
        """Returns of the episodes in their order, for `compare`.

        None where they cannot be matched with those of another policy: in a vector environment, and where the value
        extends beyond the time limit.
        """
        return None if self.run.returns is None else self.run.returns.ended

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
        """Whether all episodes were the same, step for step: nothing seems to be random, or it is too rare."""
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

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Write the page of `inferl report`: the interval, the checks and charts in one HTML file."""
        self.run.to_html(path)

    def plot(self, axes: Axes | None = None, reference: float | None = None) -> Axes:
        """Draw the interval, as `Interval.plot` does, with the name of the environment."""
        return self.interval.plot(axes, [self.name], reference)

    def _repr_html_(self) -> str:
        from inferl.display import block, checks, facts, titled

        return block(titled(*self._line()), checks(self.checks), facts(self.report.facts))

    def _line(self) -> tuple[str, str, str]:
        """Return what was estimated, the numbers, and what they rest on."""
        now = self.interval
        if self.exact:
            numbers = f"{now.estimate:.10g}"
            scope = f"exact if nothing is random: all {self.episodes:,} episodes were the same"
        else:
            kind = f" {now.kind}" if now.kind in UNIFORM else ""
            numbers = brief(now.estimate, now.lower, now.upper)
            scope = f"{now.level * 100:g}%{kind}, {self.episodes:,} episodes"
        if self.truncated:
            scope += f", {self.truncated:.0%} truncated at the limit"
        return f"{self.name}: {self.quantity}", numbers, scope

    def __str__(self) -> str:
        about, numbers, scope = self._line()
        return "\n".join([f"{about} {numbers}, {scope}", *(f"note: {note}" for note in self.interval.notes)])
