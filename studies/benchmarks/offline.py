"""Online against offline: one pass with B replicas, against keeping the data and running the estimator B times."""

from __future__ import annotations

from typing import Any

import numpy as np

from inferl.algorithms import TD
from inferl.baselines import offline_bootstrap
from inferl.data.arrays import Floats
from inferl.evaluator import Evaluator
from inferl.methods.bootstrap import OnlineBootstrap
from studies.benchmarks.problems import STEP_SIZE, Problem, dense_problem, one_hot_problem
from studies.benchmarks.timing import Case, interleaved

__all__ = ["measure_offline"]

P, REPLICAS = 64, 200
REPORTS = 4


def measure_offline(rounds: int, seconds: float) -> list[dict[str, Any]]:
    """Time both up to an interval at the end, and with 4 intervals on the way."""
    found = []
    for name, problem in (
        ("one-hot, p = 64, B = 200", one_hot_problem(_rows(seconds, 1.4e-5), P, 1)),
        ("p = 64, B = 200", dense_problem(_rows(seconds, 3.5e-5), P)),
    ):
        n, target = len(problem.transitions), np.full(P, 1.0 / P)
        cases = [
            Case(f"{how} {reports}", _run(how, problem, target, reports), n)
            for reports in (1, REPORTS)
            for how in ("online", "offline")
        ]
        times = interleaved(cases, rounds)
        found.append(
            {
                "name": name,
                "transitions": n,
                "transitions per second": {case: own.rate for case, own in times.items()},
                "reports": REPORTS,
                "over": times["online 1"].over(times["offline 1"]),
                "over, with reports": times[f"online {REPORTS}"].over(times[f"offline {REPORTS}"]),
            }
        )
    return found


def _rows(seconds: float, each: float) -> int:
    return max(int(seconds / each) // 256, 1) * 256


def _run(how: str, problem: Problem, target: Floats, reports: int) -> Any:
    data, algorithm = problem.transitions, TD(P)
    ends = [len(data) * (i + 1) // reports for i in range(reports)]

    def online() -> None:
        evaluator = Evaluator(algorithm, OnlineBootstrap(STEP_SIZE, n_replicas=REPLICAS, companion=False))
        for start, end in zip([0, *ends], ends, strict=False):
            evaluator.update(data[start:end]).interval(target)

    def offline() -> None:
        for end in ends:
            offline_bootstrap(data[:end], algorithm, STEP_SIZE, target, unit="transition", n_resamples=REPLICAS)

    return online if how == "online" else offline
