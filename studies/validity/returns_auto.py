"""The mean return with features="auto": the same coverage, and nearly the same interval, as without features.

    python -m studies.validity.returns_auto [--quick] [--processes 2] [--seed 95000]

A run is `evaluate_policy(..., features="auto")` with 200 episodes, really played with features, and beside it the same
episodes without features. There are 200 runs of each problem of `returns`, whose truths are taken from its results.
Writes validity/results/returns_auto.json; about 100 minutes of one core.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

import inferl
from studies.provenance import provenance
from studies.repeats import Result, repeat
from studies.validity.returns import EPISODES, PROBLEMS, cell_of, found_in, one_run, returns_of
from studies.validity.study import RESULTS, options, partial_file, write_results

SEED, RUNS = 95_000, 200


def one_job(job: list[Any]) -> Result:
    """A run with features, and the same episodes without."""
    name, episodes, seed = job
    problem, returns = PROBLEMS[name], returns_of(name, episodes, seed)
    result = inferl.evaluate_policy(problem.env, problem.policy(), episodes=episodes, seed=seed, features="auto")
    size = result.evaluator.algorithm.n_features
    return {"auto": found_in(result.report, returns), "none": one_run(returns), "size": size}


def auto_cell(name: str, results: list[Result], episodes: int, truth: float, error: float) -> dict[str, Any]:
    """Summarise the runs of a problem, and compare them with those of the same episodes without features."""
    auto, none = ([result[features] for result in results] for features in ("auto", "none"))
    widths = np.array([[run["interval"][2] - run["interval"][1] for run in runs] for runs in (auto, none)])
    apart = np.array([one["interval"][0] - two["interval"][0] for one, two in zip(auto, none, strict=True)])
    ratios = widths[0][widths[1] > 0] / widths[1][widths[1] > 0]
    return cell_of(name, "auto", auto, episodes, truth, error) | {
        "n_features": results[0]["size"],
        "covered without": cell_of(name, "none", none, episodes, truth, error)["covered"],
        "width_ratio": np.quantile(ratios, [0, 0.5, 1]).tolist() if ratios.size else None,
        "largest_difference": float(np.abs(apart / np.where(widths[1] > 0, widths[1], 1)).max()),  # in widths
    }


def main() -> None:
    asked = options(__doc__, SEED, quick="2 runs of 20 episodes, to see that it works; writes nothing")
    made_by = provenance(asked.seed)
    runs, episodes = (2, 20) if asked.quick else (RUNS, EPISODES)
    found = {}
    for name in PROBLEMS:
        jobs = [[name, episodes, asked.seed + i] for i in range(runs)]
        if asked.quick:
            found[name] = [one_job(job) for job in jobs]
        else:
            found[name] = repeat(one_job, jobs, partial_file("returns_auto"), processes=asked.processes)
    cells = []
    for known in json.loads((RESULTS / "returns.json").read_text())["cells"]:
        name = known["problem"]
        cells.append(auto_cell(name, found[name], episodes, known["truth"], known["error of the truth"]))
        print(cells[-1], flush=True)
    if not asked.quick:
        print(write_results("returns_auto", {"provenance": made_by, "cells": cells}).name)


if __name__ == "__main__":
    main()
