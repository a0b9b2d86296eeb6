"""How many replicas, and which law: Monte-Carlo error of the bounds, coverage and width.

    python -m studies.validity.replicas [--repeats 400] [--processes 2]

Replicas are independent of each other, so one run with many of them contains many bootstraps with few. The spread of
their bounds over the same data is the Monte-Carlo error; it is given relative to half the width. The laws all have the
same clock; one of them is made by a user (3 with probability 1/5, else 1/2). Writes validity/results/replicas.json;
stopped and started again, it goes on.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

import inferl
from inferl.engine.multipliers import LAWS
from studies.provenance import provenance
from studies.repeats import Result, repeat
from studies.validity.problems import problem
from studies.validity.study import coverage_cell, options, partial_file, write_results

SEED = 95_000
LEVEL = 0.95
STEPS = 3_000
NUMBERS = (50, 100, 200, 500, 1_000, 2_000)
REPLICAS = 10_000
OWN = "three or a half"
OF_LAWS = ("uniform", "two-point", "exponential", "poisson", OWN)
OF_EACH_LAW = 1_000
PROBLEMS = ("random MDP, linear", "Boyan's chain")
KINDS = ("percentile", "normal")

if OWN not in LAWS:
    inferl.register_law(OWN, inferl.Law.of_uniform(lambda u: np.where(u < 0.2, 3.0, 0.5), deviation=1.0))


def one_job(job: list[Any]) -> Result:
    """One path: the bounds of many bootstraps with the same law, and of one bootstrap with each law."""
    name, number = job
    asked = problem(name)
    data, target = asked.data(STEPS, [SEED, number]), asked.rows[0]
    truth, _ = asked.solution()
    whole = inferl.OnlineBootstrap(
        inferl.Polynomial(asked.initial, decay=0.65), n_replicas=REPLICAS, seed=SEED + number, companion=False
    )
    reading: Any = inferl.Evaluator(asked.walking, whole).update(data).read(target)
    found: Result = {}
    for n in NUMBERS:
        batches = [reading._replace(deviations=reading.deviations[k : k + n]) for k in range(0, REPLICAS, n)]
        for kind in KINDS:
            intervals = [whole.interval(batch, LEVEL, kind) for batch in batches]
            bounds = np.array([[float(i.lower[0]), float(i.upper[0])] for i in intervals])
            held = (bounds[:, 0] <= truth[0]) & (truth[0] <= bounds[:, 1])
            half = float(np.diff(bounds).mean()) / 2
            found[f"{n}|{kind}"] = {
                "held": float(held.mean()),
                "spread": float(bounds.std(axis=0, ddof=1).mean()) / half,
            }
    for law in OF_LAWS:
        method = replace(whole, n_replicas=OF_EACH_LAW, multipliers=inferl.Multipliers(law))
        evaluator = inferl.Evaluator(asked.walking, method).update(data)
        for kind in KINDS:
            interval = evaluator.interval(target, LEVEL, kind)
            lower, upper = float(interval.lower), float(interval.upper)
            found[f"{law}|{kind}"] = {"held": bool(lower <= truth[0] <= upper), "width": upper - lower}
    return found


def main() -> None:
    asked = options(__doc__, repeats=400)
    made_by = provenance(SEED)
    jobs = [[name, number] for name in PROBLEMS for number in range(asked.repeats)]
    results = repeat(one_job, jobs, partial_file("replicas"), processes=asked.processes)
    numbers: list[dict[str, Any]] = []
    laws: list[dict[str, Any]] = []
    for name in PROBLEMS:
        runs = [result for job, result in zip(jobs, results, strict=True) if job[0] == name]
        _, rate = problem(name).solution()
        oracle = 2 * 1.959964 * float(np.sqrt((rate[0] if rate is not None else np.nan) / STEPS))
        for kind in KINDS:
            for n in NUMBERS:
                cells = [run[f"{n}|{kind}"] for run in runs]
                held = np.array([cell["held"] for cell in cells])
                numbers.append(
                    {
                        "problem": name,
                        "kind": kind,
                        "replicas": n,
                        "coverage": float(held.mean()),
                        "standard_error": float(held.std(ddof=1) / np.sqrt(len(held))),
                        "monte_carlo_error": float(np.sqrt(np.mean([cell["spread"] ** 2 for cell in cells]))),
                    }
                )
                print(numbers[-1])
            for law in OF_LAWS:
                own = [run[f"{law}|{kind}"] for run in runs]
                widths = [cell["width"] for cell in own]
                labels = {"problem": name, "kind": kind, "law": law, "width": float(np.median(widths)) / oracle}
                laws.append(coverage_cell([cell["held"] for cell in own], widths, **labels))
                print(laws[-1])
    content = {"provenance": made_by, "steps": STEPS, "of_each_law": OF_EACH_LAW, "numbers": numbers, "laws": laws}
    print(write_results("replicas", content).name)


if __name__ == "__main__":
    main()
