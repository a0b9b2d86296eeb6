"""Evaluators of the parts of a plan, merged in its tree: does the interval still hold with 64 and with 1,000 parts?

    python -m studies.validity.plans [--repeats 200] [--processes 2] [--seed 74000]

Each part has an evaluator of its own, as in `inferl.scale`, and they are merged two by two in the tree that a plan has.
Beside it, one evaluator that reads all parts, each as a stream. Writes validity/results/plans.json; stopped and started
again, it goes on. About three quarters of an hour of one core.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np

import inferl
from inferl.runs import Reading, Run
from inferl.scale.prefix import Prefix
from studies.provenance import provenance
from studies.repeats import Result, repeat
from studies.validity.manyparts import LEVEL, Parts, autoregression, frozen_lake, grouped, queue, together
from studies.validity.study import clopper_pearson, options, partial_file, write_results

SEED = 74_000
SHAPES = ((64, 1000), (1000, 100))
AT_ONCE = 5  # repeats of a job
NONE = {"made": "by this study"}  # looking versions up would take as long as a merge
END, DISCOUNT = 0.2, 0.9


def episodes() -> Parts:
    """Whole episodes of a geometric number of steps, each of which earns 1 and noise; their value by `DoublyRobust`."""

    def stream(n: int, rng: np.random.Generator) -> inferl.Transitions:
        last = rng.random(n) < END
        last[-1] = True  # a part ends with an episode: it reads on until then
        here = np.zeros(n, np.int64)
        discount = np.where(last, 0.0, DISCOUNT)
        discount[-1] = 0.0 if rng.random() < END else DISCOUNT  # but this one may be cut off
        return inferl.Transitions(here, 1 + rng.normal(size=n), here, discount, last=last)

    return Parts(inferl.DoublyRobust(inferl.TD(1)), None, 1 / (1 - DISCOUNT * (1 - END)), 1.0, stream)


PROBLEMS: dict[str, Callable[[], Parts]] = {
    "episodes": episodes,
    "AR(.98)": autoregression,
    "ring 20/4, lazy": lambda: grouped(20, 4, 0.5),
    "queue": lambda: queue(0.20, 0.35),
    "FrozenLake": frozen_lake,
}


@cache
def problem(name: str) -> Parts:
    return PROBLEMS[name]()


def merged(asked: Parts, parts: list[inferl.Transitions]) -> inferl.Evaluator:
    """Merge an evaluator of each part in the tree of a plan."""
    prefix = Prefix(Run.merge)
    reading = Reading(10**12, *(np.zeros(1) for _ in range(4)))  # so that none is due, which would take time
    for part in parts:
        evaluator = inferl.Evaluator(asked.algorithm, threads=1).update(part)
        prefix.add(Run(evaluator, target=0, readings=(reading,), complete=True, provenance=NONE))
    return prefix.folded().evaluator


def one_job(job: list[Any]) -> Result:
    """Error, half width and what fired, for a few runs of one problem and shape."""
    name, number, steps, first, last, seed = job
    asked = problem(name)
    columns: Result = {"merged": [], "one": []}
    for run in range(first, last):
        rng = np.random.default_rng([seed, number, run])
        parts = [asked.stream(steps, rng) for _ in range(number)]
        evaluators = {
            "merged": merged(asked, parts),
            "one": inferl.Evaluator(asked.algorithm, threads=1).update(together(parts)),
        }
        for way, evaluator in evaluators.items():
            report = evaluator.report(asked.target, LEVEL)
            fired = [check.name for check in report.checks if check.failed]
            missing = [check.name for check in report.checks if check.status == "not available"]
            columns[way].append([report.interval.estimate - asked.truth, report.interval.width / 2, fired, missing])
    return columns


def cells(todo: list[list[Any]], results: list[Result]) -> Iterator[dict[str, Any]]:
    for name in PROBLEMS:
        for number, steps in SHAPES:
            mine = [r for job, r in zip(todo, results, strict=True) if job[:3] == [name, number, steps]]
            one_width = np.array([run[1] for result in mine for run in result["one"]])
            for way in ("merged", "one"):
                runs = [run for result in mine for run in result[way]]
                error, half = np.array([run[:2] for run in runs]).T
                held = np.abs(error) <= half
                low, high = clopper_pearson(int(held.sum()), len(held), 0.999)
                yield {
                    "problem": name,
                    "parts": number,
                    "steps": steps,
                    "way": way,
                    "runs": len(held),
                    "held": int(held.sum()),
                    "binomial_99.9": [low, high],
                    "width": float(np.median(half) / (1.959964 * error.std(ddof=1))),
                    "beside_one": float(np.median(half / one_width)),
                    "fired": float(np.mean([bool(run[2]) for run in runs])),
                    "which": {c: sum(c in run[2] for run in runs) for c in sorted({c for r in runs for c in r[2]})},
                    "missing": {c: sum(c in run[3] for run in runs) for c in sorted({c for r in runs for c in r[3]})},
                    "met": bool(low <= 0.97 and high >= 0.93),
                }


def main() -> None:
    asked = options(__doc__, SEED, repeats=200)
    made_by = provenance(asked.seed)
    todo = [
        [name, *shape, first, min(first + AT_ONCE, asked.repeats), asked.seed]
        for first in range(0, asked.repeats, AT_ONCE)
        for shape in reversed(SHAPES)
        for name in PROBLEMS
    ]
    found = list(cells(todo, repeat(one_job, todo, partial_file("plans"), processes=asked.processes)))
    for cell in found:
        print({key: round(value, 3) if isinstance(value, float) else value for key, value in cell.items()})
    print(write_results("plans", {"provenance": made_by, "cells": found}).name)


if __name__ == "__main__":
    main()
