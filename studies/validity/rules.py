"""How should rates at many block lengths become one? Rules on the same runs, with seeds apart from those of trust.py.

    python -m studies.validity.rules [--repeats 400] [--processes 2] [--seed 64000]

Also whether it matters that the rows of the first epoch are kept. Writes validity/results/rules.json; stopped and
started again, it goes on. About 25 minutes of one core.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from scipy.special import ndtri

import inferl
from inferl.data.arrays import Floats
from inferl.interval import quantile
from inferl.methods.least_squares import LeastSquaresState
from inferl.variance import first_epoch as first_epoch
from inferl.variance.batch_means import Levels
from inferl.variance.kurtosis import reduced_df
from inferl.variance.long_run import FEWEST_USED
from studies.provenance import provenance
from studies.repeats import Result, repeat
from studies.validity.problems import PROBLEMS, problem
from studies.validity.study import options, partial_file, write_results

SEED = 64_000
LEVEL = 0.95
LONGEST = 100_000
AT_ONCE = 50  # repeats of a job
TRUSTED, DOUBTFUL = 250, 50  # relaxation times


@dataclass(frozen=True)
class Rule:
    """Growth has ended at a level if no higher one differs from it by more than noise."""

    noise: float = 1.0  # standard errors: up to there a difference is noise,
    change: float = 2.0  # from there on it is real, and in between in part; where both are equal, one level is chosen
    falls: str = "plain"  # how a rate that falls is told from noise: "plain", in "logarithms" as a rise, or "never"
    higher: int = 1  # levels that the rate is taken above the one where growth has ended
    added: float = 0.5  # share of the last growth, if any: half of it is the next level's, all of it a lugsail
    fewest: int = FEWEST_USED  # degrees of freedom of a level that is used
    rare: bool = True  # fewer degrees of freedom where few steps decide

    def __str__(self) -> str:
        words = ["one level" if self.noise == self.change else "average"]
        words += [f"{self.noise:g}" if self.noise == self.change else f"{self.noise:g} to {self.change:g}"]
        words += {"plain": ["falls"], "logarithms": ["falls in logarithms"], "never": []}[self.falls]
        words += ["one level higher"] * self.higher
        words += ["lugsail" if self.added == 1 and not self.higher else f"{self.added:g} of the last growth"] * (
            self.added > 0
        )
        words += [f"{self.fewest} degrees of freedom"] * (self.fewest != FEWEST_USED) + ["rare scores"] * self.rare
        return ", ".join(words)

    def shares(self, rate: Floats, df: Floats) -> list[float]:
        """How far growth is believed to have ended at each level."""
        used = max(int(np.sum(df >= self.fewest)), 1)
        shares, left = [0.0] * used, 1.0
        for level in range(used):
            shares[level] = left * self.ended(rate, df, level, used)
            left -= shares[level]
        return shares

    def ended(self, rate: Floats, df: Floats, level: int, used: int) -> float:
        differs = 0.0
        for above in range(level + 1, used):
            ratio = rate[above] / rate[level] if rate[level] > 0 else np.inf if rate[above] > 0 else 1.0
            error, rise = np.sqrt(2 / (df[above] + 1)), np.log(max(ratio, 1e-300))
            fall = {"plain": 1 - ratio, "logarithms": -rise, "never": 0.0}[self.falls]
            differs = max(differs, rise / error, fall / error)
        if self.noise == self.change:
            return float(differs <= self.noise)
        return float(np.clip((self.change - differs) / (self.change - self.noise), 0.0, 1.0))

    def read(self, rate: Floats, df: Floats) -> tuple[float, float]:
        """The variance rate and its degrees of freedom."""
        shares = self.shares(rate, df)
        used = len(shares)
        shares[-1] += 1 - sum(shares)
        coefficients = np.zeros((used, used))  # of the rates, in the answer of those who stop at a level
        for level in range(used):
            at = min(level + self.higher, used - 1)
            coefficients[level, at] = 1.0
            if at > 0 and rate[at] > rate[at - 1]:
                coefficients[level, at] += self.added
                coefficients[level, at - 1] -= self.added
        v = rate[:used]
        answers = coefficients @ v
        variance = float(np.dot(shares, answers))
        lower = np.minimum.outer(np.arange(used), np.arange(used))
        covariance = np.outer(v, v) * (2 / np.maximum(df[:used], 1))[lower]
        together = shares @ coefficients
        doubt = together @ covariance @ together + np.dot(shares, (answers - variance) ** 2)
        return variance, max(2 * variance**2 / doubt, 1.0) if doubt > 0 else 1.0

    def reach(self, levels: Levels, variance_ess: Floats, n: int) -> Floats:
        """Half the width for each target."""
        half = np.full(len(variance_ess), np.inf)
        for target in range(len(variance_ess)):
            variance, df = self.read(levels.rate[:, target], levels.df)
            degrees = np.array(df)
            degrees = reduced_df(degrees, variance_ess[target]) if self.rare else degrees
            half[target] = quantile(LEVEL, degrees) * np.sqrt(variance / n)
        return half


CHOSEN = Rule()
RULES = (
    CHOSEN,
    Rule(1.25, 1.25, added=0),
    Rule(1, 1.5),
    Rule(1, 2.5),
    Rule(0.5, 2),
    Rule(falls="never"),
    Rule(falls="logarithms"),
    Rule(added=0),
    Rule(added=1),
    Rule(higher=0, added=1),
    Rule(0.5, 2, higher=0, added=1),
    Rule(fewest=10),
    Rule(rare=False),
)


FORGETFUL = f"{CHOSEN}; rows of the first epoch not kept"


@contextmanager
def keeping(rows: int) -> Iterator[None]:
    """Let least squares keep so many rows."""
    usual, first_epoch.MOST_KEPT = first_epoch.MOST_KEPT, rows
    try:
        yield
    finally:
        first_epoch.MOST_KEPT = usual


def one_job(job: list[Any]) -> Result:
    """Errors and half widths of a few runs of one problem."""
    name, first, last, seed = job
    asked = problem(name)
    columns: dict[str, list[list[float]]] = {}
    truth, _ = asked.solution()
    lengths = [n for n in asked.lengths if n <= LONGEST]
    for number in range(first, last):
        data, start = asked.data(lengths[-1], [seed, number]), 0
        usual, forgetful = inferl.Evaluator(asked.algorithm), inferl.Evaluator(asked.algorithm)
        for n in lengths:
            usual.update(data[start:n])
            reading = inferl.LeastSquares().look(cast(LeastSquaresState, usual.with_pending().method), asked.rows)
            assert reading.levels is not None
            found = {str(rule): rule.reach(reading.levels, reading.variance_ess, n) for rule in RULES}
            with keeping(0):
                interval = forgetful.update(data[start:n]).interval(asked.rows, LEVEL)
            start = n
            found |= {FORGETFUL: np.asarray(interval.width) / 2, "error": reading.estimate - truth}
            for key, value in found.items():
                columns.setdefault(f"{n}|{key}", []).append([float(f"{x:.6g}") for x in value])
    return columns


def cells(todo: list[list[Any]], results: list[Result]) -> Iterator[dict[str, Any]]:
    """Coverage by every rule, and with the true variance, for each problem, length and target."""
    for name in PROBLEMS:
        asked = problem(name)
        _, rate = asked.solution()
        for n in [n for n in asked.lengths if n <= LONGEST]:
            mine = [result for job, result in zip(todo, results, strict=True) if job[0] == name]
            column = {key: np.concatenate([np.array(part[f"{n}|{key}"]) for part in mine]) for key in KEYS}
            error = np.abs(column["error"])
            spread = np.sqrt(rate / n) if rate is not None else column["error"].std(axis=0, ddof=1)
            reach = float(ndtri((1 + LEVEL) / 2)) * spread
            for i, target in enumerate(asked.asked):
                yield {
                    "problem": name,
                    "target": target,
                    "length": n,
                    "relaxation_times": n / asked.relaxation_time,
                    "true variance": float(np.mean(error[:, i] <= reach[i])),
                    "covered": {key: float(np.mean(error[:, i] <= column[key][:, i])) for key in KEYS[1:]},
                    "width": {key: float(np.median(column[key][:, i]) / reach[i]) for key in KEYS[1:]},
                    "widest": {key: widest(column[key][:, i]) for key in KEYS[1:]},
                }


def widest(half: Floats) -> float:
    """The width that one run in forty exceeds, over the median: how far it jumps about."""
    return float(np.quantile(half, 0.975) / np.median(half))


KEYS = ["error", *(str(rule) for rule in RULES), FORGETFUL]


def summaries(found: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """One line a rule, Baird's star apart."""
    usual = [cell for cell in found if not cell["problem"].startswith("Baird")]
    trusted = [cell for cell in usual if cell["relaxation_times"] >= TRUSTED]
    doubtful = [cell for cell in usual if DOUBTFUL <= cell["relaxation_times"] < TRUSTED]
    star = [cell for cell in found if cell["problem"].startswith("Baird")]
    for rule in KEYS[1:]:
        off = [cell["covered"][rule] - cell["true variance"] for cell in trusted]
        yield {
            "rule": rule,
            "chosen": rule == str(CHOSEN),
            "trusted": len(trusted),
            "lowest": min(off),
            "highest": max(off),
            "mean": float(np.mean(off)),
            "doubtful": min(cell["covered"][rule] for cell in doubtful),
            "width": float(np.mean([cell["width"][rule] for cell in trusted])),
            "widest": float(np.mean([cell["widest"][rule] for cell in trusted])),
            "mean doubtful": float(np.mean([cell["covered"][rule] for cell in doubtful])),
            "star": [
                min(c["covered"][rule] for c in star if c["length"] == n) for n in sorted({c["length"] for c in star})
            ],
        }


def main() -> None:
    asked = options(__doc__, SEED, repeats=400)
    made_by = provenance(asked.seed)
    firsts = range(0, asked.repeats, AT_ONCE)
    todo = [[n, first, min(first + AT_ONCE, asked.repeats), asked.seed] for n in PROBLEMS for first in firsts]
    found = list(cells(todo, repeat(one_job, todo, partial_file("rules"), processes=asked.processes)))
    lines = list(summaries(found))
    for line in lines:
        print(line)
    content = {"provenance": made_by, "repeats": asked.repeats, "rules": lines, "cells": found}
    print(write_results("rules", content).name)


if __name__ == "__main__":
    main()
