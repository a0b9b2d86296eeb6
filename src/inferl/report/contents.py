"""The contents of the page, read from runs through their public interface."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from inferl.comparison import verdict
from inferl.data.arrays import Floats
from inferl.data.ratios import RatioSummary
from inferl.diagnostics import Check
from inferl.errors import SettingError
from inferl.evaluation import compare
from inferl.interval import Interval, brief
from inferl.methods.base import Reading as MethodReading
from inferl.report.charts import Chart, Curve, logarithmic, plain
from inferl.report.text import QUESTIONS, Verdict, judged, light
from inferl.runs import Reading, Run
from inferl.variance.batch_means import Levels
from inferl.variance.long_run import FEWEST_USED

__all__ = ["Answer", "Apart", "Shown", "apart", "over_time"]

VISIBLE = 8  # times the final width: wider bands are clipped, or they would dominate the chart


class Answer(NamedTuple):
    """An interval as the command line prints it, in parts."""

    name: str
    estimate: str
    bounds: str
    tail: str

    @classmethod
    def of(cls, name: str, interval: Interval) -> Answer:
        """Split the printed line."""
        estimate, _, bounds = brief(interval.estimate, interval.lower, interval.upper).partition(" ")
        return cls(name, estimate, bounds, interval.scope)


@dataclass(frozen=True, eq=False)
class Shown:
    """A run as the page shows it."""

    name: str
    run: Run
    several: bool  # whether the page shows other runs too
    colour: int  # of its first curve; the others follow
    answers: tuple[Answer, ...]  # one per target policy
    differences: tuple[Answer, ...]  # of the other policies from the first
    checks: tuple[Check, ...]
    facts: dict[str, Any]
    reading: MethodReading
    ratios: RatioSummary

    @classmethod
    def of(cls, name: str, run: Run, facts: Mapping[str, Any], several: bool, colour: int) -> Shown:
        """Read everything the page needs from a run."""
        report, apart = run.report(), run.differences()
        names = run.names or (name,)
        return cls(
            name=name,
            run=run,
            several=several,
            colour=colour,
            answers=tuple(map(Answer.of, names, report.interval)),
            differences=() if apart is None else tuple(map(Answer.of, run.difference_names, apart)),
            checks=report.checks,
            facts={**report.facts, **facts},
            reading=run.reading(),
            ratios=run.evaluator.with_pending().ratios,
        )

    @property
    def levels(self) -> Levels | None:
        """Variance rates of blocks of growing length, if least squares is there to see them."""
        return None if self.reading.solved is None else self.reading.solved.levels

    @property
    def verdict(self) -> Verdict:
        """The overall verdict."""
        return judged(self.checks)

    @property
    def judgements(self) -> list[tuple[str, str, Check]]:
        """Each check with its colour and its question."""
        return [(light(check), QUESTIONS.get(check.name, check.name), check) for check in self.checks]

    @property
    def names(self) -> list[str]:
        """Names of the curves, those of the run, of its policies, or of both."""
        if len(self.answers) == 1:
            return [self.name]
        return [f"{self.name}: {answer.name}" if self.several else answer.name for answer in self.answers]

    @property
    def off_policy(self) -> bool:
        """Whether any ratio is not 1."""
        return bool(np.any(self.ratios.squares != self.ratios.n))

    @property
    def settings(self) -> dict[str, str]:
        """The options of the command, as text."""
        return {name.replace("_", "-"): _text(value) for name, value in self.run.options.items()}

    def rows(self) -> list[tuple[str, list[Answer]]]:
        """Return the readings over time: the number of transitions, and the intervals."""
        return [(_count(reading.n), list(_read(reading, self.run.level))) for reading in self.run.readings]

    @property
    def dependence(self) -> Chart | None:
        """How the standard error grows with the length of the blocks."""
        if self.levels is None:
            return None
        levels, used = self.levels, np.flatnonzero(self.levels.df >= FEWEST_USED)
        if len(used) < 2 or not (levels.rate[0] > 0).all():
            return None
        length = levels.length[used]
        ratio = np.sqrt(levels.rate[used] / levels.rate[0])  # (levels, targets)
        # Two standard errors of the ratio itself.
        spread = np.minimum(2 / np.sqrt(2 * levels.blocks[used]), 1.0)[:, None] * ratio
        sizes = [f"{n} blocks of {size:.0f} {self.unit}" for n, size in zip(levels.blocks[used], length, strict=True)]
        curves = [
            Curve(
                name,
                length,
                ratio[:, i],
                ratio[:, i] - spread[:, i],
                ratio[:, i] + spread[:, i],
                tuple(f"{text}: {value:.3g} times" for text, value in zip(sizes, ratio[:, i], strict=True)),
                "whiskers",
                int(levels.main[i]),
            )
            for i, name in enumerate(self.names)
        ]
        top = max(1.5, 1.05 * float(np.max(ratio + spread)))
        return Chart(
            f"Standard error from blocks of growing length, relative to single {self.unit}",
            logarithmic(f"{self.unit} in a block", length.tolist(), 2),
            plain(f"standard error, single {self.unit} = 1", 0.0, top),
            tuple(curves),
        )

    @property
    def dependence_text(self) -> str:
        """Which blocks have the largest weight."""
        assert self.levels is not None
        lengths = " and ".join(f"{n:.0f}" for n in sorted(set(self.levels.length[self.levels.main].tolist())))
        if self.reading.solved is not self.reading:
            return f"Least squares, which runs beside the bootstrap for this check, rests most on blocks of {lengths}."
        if self.unit == "episodes":
            return "The interval assumes that episodes are independent of each other (ringed)."
        return f"The interval combines several lengths, and rests most on blocks of {lengths} (ringed)."

    @property
    def unit(self) -> str:
        """The unit that blocks consist of."""
        return "steps" if self.reading.solved is None else self.reading.solved.unit

    @property
    def tails(self) -> Chart | None:
        """Histogram of the ratios, over powers of 2."""
        if not self.off_policy:
            return None
        begin, share = self.ratios.shares()
        low = np.where(begin == 0, 1 / 128, begin)  # what begins at 0 is drawn as wide as the others
        names = [f"{x:g} to {2 * y:g}" for x, y in zip(begin, low, strict=True)]
        axis = logarithmic("ratio, target to behaviour", [float(low[0]), 2 * float(low[-1])], 2)
        if begin[0] == 0:
            axis = replace(axis, ticks=((axis.low, "0"), *(tick for tick in axis.ticks if tick[0] > 2 * axis.low)))
        curves = [
            Curve(
                name,
                low * np.sqrt(2),
                share[:, i],
                share[:, i],
                share[:, i],
                tuple(f"{text}: {part:.2%} of the transitions" for text, part in zip(names, share[:, i], strict=True)),
                "bars",
            )
            for i, name in enumerate(self.run.policies or (self.name,))
        ]
        return Chart(
            "Distribution of the importance ratios over the transitions",
            axis,
            plain("share of the transitions", 0.0, 1.05 * float(share.max()), percent=True),
            tuple(curves),
        )

    @property
    def tail_rows(self) -> list[tuple[str, list[str]]]:
        """Statistics of the ratios, with one value per target policy."""
        ratios = self.ratios
        return [
            ("mean ratio (1 if the propensities are right)", [f"{x:.3g}" for x in ratios.total / ratios.n]),
            ("largest ratio", [f"{x:.4g}" for x in ratios.largest]),
            ("its share of the total weight", [f"{x:.2%}" for x in ratios.largest_share]),
            ("effective sample size", [f"{x:.1%}" for x in ratios.effective]),
        ]


class Apart(NamedTuple):
    """The difference of a run from the first one on the page."""

    answer: Answer | None  # named after the run
    text: str  # which is larger, or why there is no comparison


def apart(shown: Sequence[Shown]) -> list[Apart]:
    """Compare each run with the first, if they are independent or can be matched."""
    found = []
    for other in shown[1:]:
        try:
            both = compare({"this run": other.run, "the first": shown[0].run}, level=shown[0].run.level)
            interval = both.difference("this run", "the first")
        except SettingError as error:
            found.append(Apart(None, f"{other.name}: {error}"))
        else:
            doubt = ", but a check of one of them failed" if interval.notes else ""
            found.append(Apart(Answer.of(other.name, interval), verdict(interval, other.name) + doubt))
    return found


def over_time(shown: Sequence[Shown]) -> Chart | None:
    """Chart of the estimates of all runs, with their bands, over the number of transitions."""
    curves = []
    for one in shown:
        readings = one.run.readings
        if len(readings) < 2:
            continue
        n = np.array([float(reading.n) for reading in readings])
        table = np.array([(reading.estimate, reading.lower, reading.upper) for reading in readings])  # (m, 3, policies)
        for i, name in enumerate(one.names):
            text = tuple(f"{_count(r.n)} transitions: {_line(r, one.run.level, i)}" for r in readings)
            estimate, lower, upper = table[:, :, i].T
            curves.append(Curve(name, n, estimate, lower, upper, text))
    if not curves:
        return None
    low, high = _seen(curves)
    return Chart(
        "The estimate and its interval over the number of transitions",
        logarithmic("transitions", [float(x) for curve in curves for x in curve.x[[0, -1]]], 10),
        plain("value", low, high),
        tuple(curves),
    )


def _seen(curves: Sequence[Curve]) -> tuple[float, float]:
    """Choose the range of the vertical axis, from bands that are not much wider than the final ones."""
    bounds: list[Floats] = []
    for curve in curves:
        width = curve.upper - curve.lower
        near = np.isfinite(width) & (width <= VISIBLE * width[-1])
        bounds += [curve.lower[near], curve.upper[near], curve.y[np.isfinite(curve.y)][-1:]]
    everything = np.concatenate(bounds)
    low, high = float(everything.min()), float(everything.max())
    margin = 0.05 * (high - low)
    return low - margin, high + margin


def _read(reading: Reading, level: float) -> Any:
    columns = (reading.estimate, reading.lower, reading.upper)
    interval = Interval(*columns, level, "", reading.standard_error, reading.n)
    return (Answer.of("", one) for one in interval)


def _line(reading: Reading, level: float, policy: int) -> str:
    answer = list(_read(reading, level))[policy]
    return f"{answer.estimate} {answer.bounds}"


def _count(n: int) -> str:
    return f"{n:,}"


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
