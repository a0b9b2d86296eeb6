"""The best of many evaluations: how much luck there is in it, and how often `BestSoFar` falls for it.

    python -m studies.validity.best_of [--quick] [--processes 2] [--seed 62000]

A training evaluates its model 100 times. Here the model never changes, so every new best is false. The usual rule takes
the largest mean of 5 episodes. `BestSoFar` sees 50 episodes each time. It is also asked, each time, whether the mean
return is above its true value, which it never is. Last, a model that becomes better by a standard deviation at
evaluation 10: is it a new best at once? There are 400 trainings for each law of the returns. Writes
validity/results/best_of.json; about 20 minutes of one core.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import inferl
from inferl.data.arrays import Floats
from studies.provenance import provenance
from studies.repeats import Result, repeat
from studies.validity.study import clopper_pearson, options, partial_file, write_results

SEED = 62_000
TRAININGS, EVALUATIONS, LEVEL = 400, 100, 0.95
USUAL, OURS = 5, 50  # episodes of an evaluation
BETTER, THEN = 1.0, 10  # so many standard deviations, at which evaluation
AT_ONCE = 20  # trainings of a job

Draw = Callable[[np.random.Generator, int], Floats]

# Returns of episodes, with their mean and standard deviation.
LAWS: dict[str, tuple[Draw, float, float]] = {
    "normal": (lambda rng, n: rng.normal(size=n), 0.0, 1.0),
    "exponential": (lambda rng, n: rng.exponential(size=n), 1.0, 1.0),
    "minus exponential": (lambda rng, n: -rng.exponential(size=n), -1.0, 1.0),
    "succeeds in 95 %": (lambda rng, n: (rng.random(n) < 0.95).astype(np.float64), 0.95, float(np.sqrt(0.95 * 0.05))),
    "succeeds in 5 %": (lambda rng, n: (rng.random(n) < 0.05).astype(np.float64), 0.05, float(np.sqrt(0.95 * 0.05))),
}


def evaluated(returns: Floats) -> inferl.Evaluator:
    return inferl.Evaluator(inferl.DoublyRobust(1)).update(inferl.Transitions.from_returns(returns))


def usual(law: str, rng: np.random.Generator) -> tuple[float, int]:
    """How far the largest mean of an unchanged policy lies above its mean, in standard deviations; and new bests."""
    draw, mean, deviation = LAWS[law]
    means = draw(rng, EVALUATIONS * USUAL).reshape(EVALUATIONS, USUAL).mean(axis=1)
    largest = np.maximum.accumulate(means)
    return float((largest[-1] - mean) / deviation), int(np.count_nonzero(np.diff(largest) > 0))


def unchanged(law: str, rng: np.random.Generator, evaluations: int = EVALUATIONS) -> tuple[int, bool]:
    """False new bests of a policy that never changes; and whether it was ever said to be above its own mean."""
    draw, mean, _ = LAWS[law]
    best, false, above = inferl.BestSoFar(LEVEL), 0, False
    for number in range(evaluations):
        new = best.update(evaluated(draw(rng, OURS)))
        false += new and number > 0
        above = above or best.is_above(mean)
    return false, above


def improved(law: str, rng: np.random.Generator) -> bool:
    """Whether a policy that becomes better is a new best at once."""
    draw, _, deviation = LAWS[law]
    best = inferl.BestSoFar(LEVEL)
    for _ in range(1, THEN):
        best.update(evaluated(draw(rng, OURS)))
    return best.update(evaluated(draw(rng, OURS) + BETTER * deviation))


def one_job(job: list[Any]) -> Result:
    """Some trainings of a law."""
    law, seed = job
    found: Result = {"excess": [], "usual": [], "false": [], "above": [], "seen": []}
    for number in range(AT_ONCE):
        rng = np.random.default_rng([seed, number])
        parts = (*usual(law, rng), *unchanged(law, rng), improved(law, rng))
        for name, part in zip(found, parts, strict=True):
            found[name].append(part)
    return found


def cell_of(law: str, found: dict[str, list[Any]]) -> dict[str, Any]:
    """Summarise the trainings of a law."""
    trainings = len(found["excess"])
    false, above = (int(np.count_nonzero(found[name])) for name in ("false", "above"))
    return {
        "law": law,
        "trainings": trainings,
        "excess": float(np.mean(found["excess"])),
        "excess_error": float(np.std(found["excess"], ddof=1) / np.sqrt(trainings)),
        "usual_new_bests": float(np.mean(found["usual"])),
        "with_false_best": false,
        "false_best_95": clopper_pearson(false, trainings, 0.95),
        "said_above": above,
        "said_above_95": clopper_pearson(above, trainings, 0.95),
        "seen": float(np.mean(found["seen"])),
    }


def main() -> None:
    asked = options(__doc__, SEED, quick="20 trainings of the first law, to see that it works; writes nothing")
    made_by = provenance(asked.seed)
    cells = []
    for law in list(LAWS)[:1] if asked.quick else LAWS:
        jobs = [[law, asked.seed + number] for number in range(1 if asked.quick else TRAININGS // AT_ONCE)]
        if asked.quick:
            results = [one_job(job) for job in jobs]
        else:
            results = repeat(one_job, jobs, partial_file("best_of"), processes=asked.processes)
        found = {name: [part for result in results for part in result[name]] for name in results[0]}
        cells.append(cell_of(law, found))
        print(cells[-1], flush=True)
    if not asked.quick:
        settings = {"evaluations": EVALUATIONS, "level": LEVEL, "usual": USUAL, "ours": OURS}
        settings |= {"better": BETTER, "then": THEN}
        print(write_results("best_of", {"provenance": made_by, "settings": settings, "cells": cells}).name)


if __name__ == "__main__":
    main()
