"""Threads: how much faster an evaluator is on several cores, with its checks and without; by the clock on the wall.

    python -m studies.benchmarks.threads [--output studies/benchmarks/results/threads.json]

Needs an idle machine: what other processes take is counted against us.
"""

from __future__ import annotations

import argparse
import gc
import json
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from inferl import engine
from inferl.algorithms import TD, DoublyRobust
from inferl.algorithms.base import Algorithm
from inferl.evaluator import Evaluator
from inferl.methods.base import Method
from inferl.methods.bootstrap import OnlineBootstrap
from inferl.methods.least_squares import LeastSquares
from studies.benchmarks.machine import describe
from studies.benchmarks.problems import STEP_SIZE, dense_problem
from studies.provenance import command_line

ROUNDS = 2
SECONDS = 0.5  # of a run on one thread, about

Case = tuple[str, Algorithm, Method, int, float]  # name, what runs, features, and about how long a transition takes


def cases() -> list[Case]:
    """What is measured."""
    found: list[Case] = []
    for p, replicas, seconds in ((64, 200, 2e-6), (512, 200, 2e-5), (512, 1000, 8e-5)):
        for checks in (True, False):
            method = OnlineBootstrap(STEP_SIZE, n_replicas=replicas, companion=checks)
            said = "with its checks" if checks else "without checks"
            found.append((f"bootstrap, p = {p}, B = {replicas}, {said}", TD(p), method, p, seconds))
    for p, seconds in ((64, 1e-6), (512, 2e-5)):
        found.append((f"least squares, p = {p}", TD(p), LeastSquares(), p, seconds))
        found.append((f"the value, p = {p}", DoublyRobust(p), LeastSquares("episode"), p, seconds))
    return found


def numbers_of_threads() -> list[int]:
    """1, 2, 4, ... and all cores."""
    most = engine.cores()
    return sorted({most, *(2**k for k in range(10) if 2**k <= most)})


def measure(case: Case, threads: Sequence[int]) -> dict[str, Any]:
    """Time one case with each number of threads in turns; the first epoch and the first runs are not timed."""
    name, algorithm, method, p, each = case
    n = max(int(SECONDS / each), 16_384) // 1024 * 1024
    data = dense_problem(2 * n, p).transitions
    seconds: dict[int, list[float]] = {number: [] for number in threads}
    for _ in range(ROUNDS):
        for number in threads:
            evaluator = Evaluator(algorithm, method, threads=number).update(data[:n])
            gc.collect()
            begin = perf_counter()
            evaluator.update(data[n:])
            seconds[number].append((perf_counter() - begin) / n)
    rate = {number: 1 / median(own) for number, own in seconds.items()}
    return {"name": name, "transitions": n, "transitions per second": {str(k): v for k, v in rate.items()},
            "over one thread": rate[threads[-1]] / rate[threads[0]]}  # fmt: skip


def main() -> None:
    """Measure all cases, and print or write what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", metavar="FILE.json", type=Path)
    parser.add_argument("--only", default="", help="cases whose name contains this")
    asked = parser.parse_args()
    threads = numbers_of_threads()
    results: dict[str, Any] = {"machine": describe(command_line()), "threads": threads, "cases": []}
    for case in cases():
        if asked.only in case[0]:
            found = measure(case, threads)
            results["cases"].append(found)
            rates = ", ".join(f"{k}: {v:,.0f}" for k, v in found["transitions per second"].items())
            print(f"{found['name']}: x{found['over one thread']:.2f} ({rates})", flush=True)
            if asked.output is not None:  # after each case: a machine may be taken away before the last one
                asked.output.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
