"""A closer look at the trusted cells that are next to a limit: many more runs, with a seed of their own.

    python -m studies.validity.closer [--processes 2] [--seed 60000]

Takes from validity/results/trust.json the cells of least squares, Baird's star apart, whose coverage is more than one
point off that with the true variance; a point more and the limit is missed. Writes validity/results/closer.json;
stopped and started again, it goes on. About 40 minutes of one core.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.special import ndtri

import inferl
from inferl.data.arrays import Floats
from studies.provenance import provenance
from studies.repeats import Result, repeat
from studies.validity.problems import problem
from studies.validity.study import RESULTS, options, partial_file, write_results

SEED = 60_000
LEVEL = 0.95
TRUSTED = 250  # relaxation times
NEAR = 0.01  # off
AT_ONCE = 100  # repeats of a job
DRAWS = 400


def repeats(length: int) -> int:
    return 10_000 if length <= 10_000 else 4_000 if length <= 100_000 else 2_000


def study() -> dict[str, Any]:
    """What trust.py found."""
    return dict(json.loads((RESULTS / "trust.json").read_text()))


def near() -> dict[tuple[str, int], list[dict[str, Any]]]:
    """The cells that are looked at, by problem and length."""
    found: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for cell in study()["cells"]:
        usual = cell["method"] == "least squares" and "Baird" not in cell["problem"]
        if usual and cell["relaxation_times"] >= TRUSTED and abs(distance(cell)) > NEAR + 1e-9:
            found.setdefault((cell["problem"], cell["length"]), []).append(cell)
    return found


def distance(cell: dict[str, Any]) -> float:
    """How far the coverage is off that with the true variance."""
    return float(cell["coverage"]["share"] - cell["oracle"]["share"])


def one_job(job: list[Any]) -> Result:
    """Errors and half widths of all targets."""
    name, n, first, last, seed = job
    asked = problem(name)
    truth, _ = asked.solution()
    found = []
    for number in range(first, last):
        interval = inferl.Evaluator(asked.algorithm).update(asked.data(n, [seed, number])).interval(asked.rows, LEVEL)
        error, half = np.asarray(interval.estimate) - truth, np.asarray(interval.width) / 2
        found.append([[float(f"{x:.7g}") for x in column] for column in (error, half)])
    return {"found": found}


def cells(todo: list[list[Any]], results: list[Result]) -> Iterator[dict[str, Any]]:
    for (name, n), others in near().items():
        asked = problem(name)
        _, rate = asked.solution()
        mine = [result["found"] for job, result in zip(todo, results, strict=True) if job[:2] == [name, n]]
        runs = np.concatenate([np.array(part) for part in mine])  # (runs, 2, targets)
        for other in others:
            i = list(asked.asked).index(other["target"])
            error, half = runs[:, 0, i], runs[:, 1, i]
            scatter = float(error.std(ddof=1))
            true = float(np.sqrt(rate[i] / n)) if rate is not None else scatter
            z, held = float(ndtri((1 + LEVEL) / 2)), np.abs(error) <= half
            labels = {key: other[key] for key in ("problem", "target", "length", "relaxation_times")}
            yield labels | {
                "before": distance(other),
                "runs": len(held),
                "held": float(held.mean()),
                "off": compared(held, np.abs(error) <= z * true),
                "at this length": against_scatter(error, half, z),
            }


def compared(held: Any, best: Any) -> dict[str, float]:
    """How far two coverages on the same runs are apart, with a standard error."""
    apart = held.astype(float) - best.astype(float)
    return {"mean": float(apart.mean()), "error": float(apart.std(ddof=1) / np.sqrt(len(apart)))}


def against_scatter(error: Floats, half: Floats, z: float) -> dict[str, float]:
    """The same with the scatter of these runs, whose own uncertainty is found by drawing runs again."""

    def apart(runs: Any) -> float:
        sizes = np.abs(error[runs])
        return float(np.mean(sizes <= half[runs]) - np.mean(sizes <= z * error[runs].std(ddof=1)))

    rng = np.random.default_rng(0)
    again = [apart(rng.integers(0, len(error), len(error))) for _ in range(DRAWS)]
    return {"mean": apart(slice(None)), "error": float(np.std(again, ddof=1))}


def main() -> None:
    asked = options(__doc__, SEED)
    made_by = provenance(asked.seed)
    todo = [
        [name, n, first, first + AT_ONCE, asked.seed]
        for name, n in sorted(near(), key=lambda cell: -cell[1])
        for first in range(0, repeats(n), AT_ONCE)
    ]
    found = list(cells(todo, repeat(one_job, todo, partial_file("closer"), processes=asked.processes)))
    for cell in found:
        print(cell)
    print(write_results("closer", {"provenance": made_by, "study": study()["provenance"], "cells": found}).name)


if __name__ == "__main__":
    main()
