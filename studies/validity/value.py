"""The second atlas: how often an interval holds the true value of the start distribution, the question people ask.

Every problem of `value_problems` is played again and again, with fresh seeds; its truth is exact, or the mean of at
least 100,000 episodes. Counted are the default interval (`DoublyRobust`), what the features alone say, and what people
would compare with: the mean return on-policy, per-decision importance sampling off-policy. Besides, how often the check
of the features raises an alarm, and one policy against itself (Taxi, CartPole).

    python -m studies.validity.value --repeats 400 --processes 2

Finished blocks are kept, so a run that was stopped goes on where it was. Writes results/value.json.
"""

from __future__ import annotations

import time
from itertools import groupby
from typing import Any

import numpy as np

import inferl
from inferl.baselines import monte_carlo, per_decision
from inferl.errors import InferlError
from inferl.interval import Interval
from studies.provenance import provenance
from studies.repeats import Result, repeat
from studies.validity.study import clopper_pearson, coverage_cell, options, partial_file, write_results
from studies.validity.value_problems import NAMES, ValueProblem, problem

BLOCK = 10  # repeats a job
EXCUSED = ("ratios", "rarity", "ends")  # checks that may say that an interval cannot be believed
SELF_DIFFERENCES = ("Taxi: table", "CartPole lean: Fourier 1", "CartPole clumsy: Fourier 1")


def run(job: list[Any]) -> Result:
    """Play some repeats of the problems of a family that share their paths."""
    names, first, number, seed = job
    found: Result = {}
    for i in range(first, first + number):
        for name in names:
            asked = problem(name)
            began = time.perf_counter()
            for method, (lower, upper, fired) in one(asked, [seed, i]).items():
                column = found.setdefault(f"{name}|{method}", {"lower": [], "upper": [], "fired": []})
                column["lower"].append(float(f"{lower:.10g}"))
                column["upper"].append(float(f"{upper:.10g}"))
                column["fired"].append(fired)
            found.setdefault(f"{name}|seconds", []).append(time.perf_counter() - began)
    return found


def one(asked: ValueProblem, seed: list[int]) -> dict[str, tuple[float, float, list[str]]]:
    """Evaluate one repeat by all methods: bounds, and the names of the checks that failed."""
    data = asked.data(seed)
    evaluator = inferl.Evaluator(inferl.DoublyRobust(asked.dimension, start=asked.start)).update(data)
    found = {}
    for method, target in (("value", "value"), ("fitted", "fitted")):
        report = evaluator.report(target)
        fired = [check.name for check in report.checks if check.failed]
        found[method] = (float(report.interval.lower), float(report.interval.upper), fired)
    if asked.start is None:
        starts = data.features[evaluator_starts(data)]
        mean = np.eye(asked.dimension)[starts].mean(axis=0) if asked.tabular else starts.mean(axis=0)
        found["as before"] = bounds(inferl.Evaluator(inferl.TD(asked.dimension)).update(data).interval(mean))
        if (data.ratios == 1).all():
            found["mean return"] = tried(lambda: monte_carlo(data))
        else:
            found["PDIS"] = tried(lambda: per_decision(data))
            found["WPDIS"] = tried(lambda: per_decision(data, weighted=True))
    if asked.name in SELF_DIFFERENCES:
        again = asked.data([seed[0] + 1, *seed[1:]])
        other = inferl.Evaluator(inferl.DoublyRobust(asked.dimension)).update(again)
        found["self-difference"] = bounds(inferl.difference(evaluator, other))
    return found


def evaluator_starts(data: inferl.Transitions) -> Any:
    """Rows at which an episode begins; there is one stream."""
    return np.r_[True, data.last[:-1]]


def bounds(interval: Interval) -> tuple[float, float, list[str]]:
    return float(interval.lower), float(interval.upper), [note.split(":")[0] for note in interval.notes]


def tried(method: Any) -> tuple[float, float, list[str]]:
    """An interval that a method refuses to give is endless."""
    try:
        return bounds(method())
    except InferlError as error:
        return -np.inf, np.inf, [type(error).__name__]


def summary(name: str, method: str, column: Any) -> dict[str, Any]:
    """Count one cell."""
    truth = 0.0 if method == "self-difference" else problem(name).truth
    lower, upper = np.array(column["lower"]), np.array(column["upper"])
    slack = 1e-9 * max(abs(truth), 1.0)  # where nothing is random, bounds agree to rounding
    covered = (lower - slack <= truth) & (truth <= upper + slack)
    widths = upper - lower
    fired: dict[str, int] = {}
    for names in column["fired"]:
        for check in names:
            fired[check] = fired.get(check, 0) + 1
    told = np.array([any(check in EXCUSED for check in names) for names in column["fired"]])
    wrong = np.array(["features" in names for names in column["fired"]])
    finite = np.isfinite(widths)
    center = (lower + upper)[finite] / 2
    return coverage_cell(covered.tolist(), widths.tolist(), problem=name, method=method) | {
        "misses_told": int(np.sum(told & ~covered)),
        "told": int(told.sum()),
        "features_alarm": int(wrong.sum()),
        "fired": fired,
        "bias_over_sd": float((center.mean() - truth) / center.std()) if len(center) > 1 and center.std() > 0 else 0.0,
        "rmse": float(np.sqrt(np.mean((center - truth) ** 2))) if len(center) else None,
    }


def verdict(cell: dict[str, Any], deterministic: bool) -> str:
    """Whether a cell of the default interval is as it should be."""
    low, high = cell["binomial_99.9"]
    if deterministic:
        return "exact" if cell["coverage"] == 1 and cell["median_width"] < 1e-6 else "not exact"
    if low <= 0.97 and high >= 0.93:
        return "holds"
    misses = cell["repeats"] - cell["covered"]
    if cell["coverage"] < 0.95 and misses and cell["misses_told"] >= 0.9 * misses:
        return "told"
    return "too wide" if cell["coverage"] > 0.95 else "too narrow"


def main() -> None:
    asked = options(__doc__, 71_000, 400)
    families = [list(names) for _, names in groupby(NAMES, key=lambda name: name.split(":")[0])]
    jobs = [
        [names, first, min(BLOCK, asked.repeats - first), asked.seed]
        for first in range(0, asked.repeats, BLOCK)
        for names in sorted(families, key=lambda names: "LunarLander" not in names[0])
    ]
    columns: dict[str, Any] = {}
    seconds: dict[str, float] = {}
    for result in repeat(run, jobs, partial_file("value"), processes=asked.processes):
        for key, column in result.items():
            if key.endswith("|seconds"):
                seconds[key] = seconds.get(key, 0.0) + sum(column)
            else:
                whole = columns.setdefault(key, {"lower": [], "upper": [], "fired": []})
                for part, values in column.items():
                    whole[part] += values
    cells = [summary(key.split("|")[0], key.split("|")[1], column) for key, column in columns.items()]
    for cell in cells:
        if cell["method"] == "value":
            cell["verdict"] = verdict(cell, problem(cell["problem"]).deterministic)
    cells.sort(key=lambda cell: NAMES.index(cell["problem"]))
    truths = [
        {
            "problem": name,
            "truth": problem(name).truth,
            "error": problem(name).truth_error,
            "episodes": problem(name).episodes,
        }
        for name in NAMES
    ]
    minutes = sum(seconds.values()) / 60
    write_results(
        "value", provenance(asked.seed) | {"core_minutes": round(minutes, 1), "problems": truths, "cells": cells}
    )
    for cell in cells:
        extra = cell.get("verdict", "")
        low, high = clopper_pearson(cell["covered"], cell["repeats"], 0.999)
        print(
            f"{cell['problem']:38s} {cell['method']:15s} {cell['coverage']:.3f} [{low:.3f}, {high:.3f}] "
            f"width {cell['median_width'] or np.nan:9.4g} told {cell['misses_told']} of "
            f"{cell['repeats'] - cell['covered']} alarm {cell['features_alarm']} {extra}"
        )


if __name__ == "__main__":
    main()
