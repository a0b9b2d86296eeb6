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

__all__ = ["Result", "quantity_of"]

VALUE = "value"


def quantity_of(discount: float, ends: bool) -> str:
    """Name what is estimated: returns count up to the time limit; a value extends beyond it.

    >>> quantity_of(1.0, ends=True), quantity_of(0.9, ends=True), quantity_of(0.9, ends=False)
    ('mean return', 'discounted return', 'value')
    """
    return VALUE if not ends else "mean return" if discount == 1 else "discounted return"


@dataclass(frozen=True, eq=False)
class Result:
    """The answer of `evaluate_policy` and `evaluate_log`; `print` shows it in a line, or in one for each policy.

    >>> import inferl
    >>> result = inferl.evaluate_policy("Blackjack-v1", lambda hand: int(hand[0] < 17), episodes=50)
    >>> result.episodes, result.smallest, result.largest
    (50, -1.0, 1.0)

    Attributes
    ----------
    name
        Of the environment or the log.
    quantity
        What was estimated: mean return, discounted return, or value.
    report
        The interval with all checks and facts.
    episodes, steps
        How many were played or read.
    truncated
        Share of the episodes that were truncated, as by a time limit.
    smallest, largest, deviation
        Of the returns: the extremes, and the standard deviation. NaN where no return is complete, and off-policy,
        where the returns are those of another policy.
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

    @classmethod
    def of(cls, run: Run, name: str, quantity: str, report: Report) -> Result:
        """Add to a report what the evaluator of its run has noted about the episodes."""
        state = run.evaluator.with_pending()
        episodes, closed = state.episodes, state.episodes.closed
        own = closed > 0 and state.ratios.on_policy
        low, high = (float(bound) if own and np.isfinite(bound) else np.nan for bound in episodes.earned)
        return cls(
            name=name,
            quantity=quantity,
            report=report,
            episodes=closed,
            steps=run.evaluator.n,
            truncated=(episodes.limited + episodes.cut) / max(closed, 1),
            smallest=low,
            largest=high,
            deviation=float(report.interval.standard_error) * closed**0.5 if np.isfinite(low) else np.nan,
            run=run,
        )

    @property
    def interval(self) -> Interval:
        """The interval; for several target policies of a log, one entry for each."""
        return self.report.interval

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the target policies, in the order of the interval's entries; empty for a single policy."""
        return self.run.names

    @property
    def differences(self) -> Interval | None:
        """Each policy minus the first, from the same data; None for a single policy."""
        return self.run.differences()

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
        """Whether all episodes were the same, step for step, so that nothing seems to be random or it is too rare."""
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
            "names": list(self.names) or None,
            "differences": None if self.differences is None else self.differences.to_dict(),
        } | self.report.to_dict()

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Write the page of `inferl report`: the interval, the checks and charts in one HTML file."""
        self.run.to_html(path)

    def plot(self, axes: Axes | None = None, reference: float | None = None) -> Axes:
        """Draw the interval, as `Interval.plot` does, with the name of the environment, or those of the policies."""
        return self.interval.plot(axes, self.names or [self.name], reference)

    def _repr_html_(self) -> str:
        from inferl.display import block, checks, facts, intervals, titled

        about, numbers, scope = self._line()
        if not self.names:
            return block(titled(about, numbers, scope), checks(self.checks), facts(self.report.facts))
        apart = intervals(self._differences(), reference=0.0)
        shown = titled(about, "", scope) + intervals(dict(zip(self.names, self.interval, strict=True))) + apart
        return block(shown, checks(self.checks), facts(self.report.facts))

    def _differences(self) -> dict[str, Interval]:
        return dict(zip(self.run.difference_names, self.differences or (), strict=True))

    def _line(self) -> tuple[str, str, str]:
        """Return what was estimated, the numbers (none for several policies), and what they rest on."""
        now = self.interval
        if self.exact:
            numbers = f"{now.estimate:.10g}"
            scope = f"exact if nothing is random: all {self.episodes:,} episodes were the same"
        else:
            kind = f" {now.kind}" if now.kind in UNIFORM else ""
            numbers = "" if self.names else brief(now.estimate, now.lower, now.upper)
            size = f"{self.episodes:,} episodes" if self.episodes else f"{self.steps:,} transitions"
            scope = f"{now.level * 100:g}%{kind}, {size}"
        if self.truncated:
            share = f"{self.truncated:.0%}" if self.truncated >= 0.01 else f"{self.truncated:.2%}"
            scope += f", {share} truncated" + ("" if self.quantity == VALUE else " at the limit")
        return f"{self.name}: {self.quantity}", numbers, scope

    def __str__(self) -> str:
        about, numbers, scope = self._line()
        lines = [f"{about}{' ' if numbers else ''}{numbers}, {scope}"]
        each = dict(zip(self.names, self.interval, strict=True)) if self.names else {}
        for name, one in (each | self._differences()).items():
            lines.append(f"  {name}: {brief(one.estimate, one.lower, one.upper)}")
        return "\n".join([*lines, *(f"note: {note}" for note in self.interval.notes)])
