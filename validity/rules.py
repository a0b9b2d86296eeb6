"""How should the block length be chosen? Rules compared on the same runs, with seeds apart from those of trust.py.

    python validity/rules.py [--repeats 400] [--processes 2] [--seed 62000]

Also whether it matters that the rows of the first epoch are kept. Writes validity/results/rules.json; stopped and
started again, it goes on. About 20 minutes of one core.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from problems import PROBLEMS, problem
from scipy.special import ndtri
from study import Result, provenance, repeat, write_results

import inferl
from inferl import kept_rows
from inferl.blocks import FEWEST_TESTED, FEWEST_USED, Levels
from inferl.interval import quantile
from inferl.least_squares import LeastSquaresState
from inferl.rows import Floats, Integers
from inferl.witnesses import fewer_degrees

SEED = 62_000
LEVEL = 0.95
LONGEST = 100_000
AT_ONCE = 50  # repeats of a job
TRUSTED, DOUBTFUL = 250, 50  # relaxation times


@dataclass(frozen=True)
class Rule:
    """The smallest level whose variance rate none of the next `ahead` clearly exceeds; then one level higher."""

    ahead: int
    clearly: float  # standard errors
    alternating: bool = True  # from n^(1/3) steps on, where neighbours tend to opposite signs
    lugsail: bool = False  # the rate extrapolated: 2 v_j - v_(j - 1)
    rare: bool = True  # fewer degrees of freedom where few steps decide

    def __str__(self) -> str:
        words = [f"{'all' if self.ahead > 20 else self.ahead} levels ahead, {self.clearly:g}"]
        words += ["alternating scores"] * self.alternating + ["lugsail"] * self.lugsail + ["rare scores"] * self.rare
        return ", ".join(words)

    def level(self, rate: Floats, blocks: Integers) -> int:
        alternates = len(rate) > 1 and rate[1] < rate[0] * (1 - 3 / np.sqrt(max(blocks[1], 1)))
        tested = int(np.sum(blocks >= FEWEST_TESTED))
        shortest = min(round(float(np.log2(blocks[0])) / 3), max(tested - 1, 0))
        level = shortest if self.alternating and alternates else 0
        while level + 1 < tested:
            above = slice(level + 1, min(level + 1 + self.ahead, tested))
            if np.all(rate[above] <= rate[level] * (1 + self.clearly * np.sqrt(2 / blocks[above]))):
                break
            level += 1
        return level + 1 if level + 1 < len(blocks) and blocks[level + 1] >= FEWEST_USED else level

    def reach(self, levels: Levels, decisive: Floats, n: int) -> Floats:
        """Half the width for each target."""
        half = np.full(len(decisive), np.inf)
        for target in range(len(decisive)):
            rate = levels.rate[:, target]
            level = self.level(rate, levels.blocks)
            variance = 2 * rate[level] - rate[level - 1] if self.lugsail and level else rate[level]
            freedom = np.maximum(levels.freedom[level], 1.0)
            freedom = fewer_degrees(freedom, decisive[target]) if self.rare else freedom
            half[target] = quantile(LEVEL, freedom) * np.sqrt(max(variance, rate[level]) / n)
        return half


CHOSEN = Rule(99, 1.25)
RULES = (
    Rule(3, 1.0, alternating=False, rare=False),
    Rule(99, 1.0, alternating=False, rare=False),
    Rule(99, 1.25, alternating=False, rare=False),
    Rule(99, 1.5, alternating=False, rare=False),
    Rule(99, 1.25, rare=False),
    CHOSEN,
    Rule(99, 1.0),
    Rule(99, 1.5),
    Rule(99, 1.25, lugsail=True),
)


FORGETFUL = f"{CHOSEN}; rows of the first epoch not kept"


@contextmanager
def keeping(rows: int) -> Iterator[None]:
    """Let least squares keep so many rows."""
    usual, kept_rows.MOST_KEPT = kept_rows.MOST_KEPT, rows
    try:
        yield
    finally:
        kept_rows.MOST_KEPT = usual


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
            reading = inferl.LeastSquares().read(cast(LeastSquaresState, usual.settled().method), asked.rows)
            assert reading.levels is not None
            found = {str(rule): rule.reach(reading.levels, reading.decisive, n) for rule in RULES}
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
                }


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
            "star": [
                min(c["covered"][rule] for c in star if c["length"] == n) for n in sorted({c["length"] for c in star})
            ],
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=400)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seed", type=int, default=SEED)
    options = parser.parse_args()
    made_by = provenance(options.seed)
    firsts = range(0, options.repeats, AT_ONCE)
    todo = [[n, first, min(first + AT_ONCE, options.repeats), options.seed] for n in PROBLEMS for first in firsts]
    found = list(cells(todo, repeat(one_job, todo, "rules", options.processes)))
    lines = list(summaries(found))
    for line in lines:
        print(line)
    content = {"provenance": made_by, "repeats": options.repeats, "rules": lines, "cells": found}
    print(write_results("rules", content).name)


if __name__ == "__main__":
    main()
