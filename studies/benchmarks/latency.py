"""Latency: what a single thing costs. The first interval of a fresh process, one observation, one reading."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from time import perf_counter, perf_counter_ns
from typing import Any

import numpy as np

from inferl.algorithms import TD
from inferl.data.streams import TILE
from inferl.evaluator import Evaluator
from inferl.methods.bootstrap import OnlineBootstrap
from studies.benchmarks.problems import STEP_SIZE, Problem, dense_problem, one_hot_problem
from studies.benchmarks.timing import Case, interleaved

__all__ = ["measure_cold_start", "measure_observe", "measure_read"]

P = 64
METHOD = OnlineBootstrap(STEP_SIZE, n_replicas=200, companion=False)

COLD = """
import numpy as np, inferl
state = np.random.default_rng(0).integers(64, size=1001)
evaluator = inferl.Evaluator(inferl.TD(64), {method})
evaluator.update(inferl.Transitions(state[:-1], np.ones(1000), state[1:], 0.9))
print(evaluator.interval(0))
"""


def measure_cold_start(repeats: int) -> dict[str, float]:
    """Seconds on the clock from the start of Python to a printed interval; the least of several."""
    return {
        "least squares": _least(COLD.format(method="inferl.LeastSquares()"), repeats),
        "online bootstrap": _least(COLD.format(method="inferl.OnlineBootstrap(inferl.Polynomial(1.0))"), repeats),
        "python alone, with numpy": _least("import numpy", repeats),
    }


def measure_observe(rounds: int, calls: int) -> dict[str, dict[str, float]]:
    """Microseconds of `observe` with p = 64 and B = 200: the call itself, and with its share of the work on tiles."""
    calls = max(calls // TILE, 1) * TILE
    problems = {"tabular": one_hot_problem(calls, P, 1), "dense": dense_problem(calls, P)}
    cases = [Case(name, _observing(problem), calls) for name, problem in problems.items()]
    with_work = interleaved(cases, rounds)
    return {
        name: {"call": _one_call(problem), "with its work": 1e6 * with_work[name].median}
        for name, problem in problems.items()
    }


def measure_read(rounds: int, calls: int) -> dict[str, float]:
    """Milliseconds to read an interval while a tile is half full, with p = 64 and B = 200."""
    readers = {
        f"{kind}, {with_companion} companion": _reading(problem, OnlineBootstrap(STEP_SIZE, companion=companion), calls)
        for kind, problem in (("tabular", one_hot_problem(20_032, P, 1)), ("dense", dense_problem(20_032, P)))
        for with_companion, companion in (("with", True), ("without", False))
    }
    times = interleaved([Case(name, run, calls) for name, run in readers.items()], rounds)
    return {name: 1e3 * own.median for name, own in times.items()}


def _least(code: str, repeats: int) -> float:
    seconds = []
    for _ in range(repeats):
        start = perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
        seconds.append(perf_counter() - start)
    return min(seconds)


def _arguments(problem: Problem) -> list[tuple[Any, float, Any, float]]:
    """Steps as a program that acts in an environment has them at hand: plain numbers, and arrays of features."""
    data = problem.transitions
    features, after = (
        (data.features.tolist(), data.next_features.tolist())
        if data.tabular
        else (list(data.features), list(data.next_features))
    )
    return list(zip(features, data.rewards.tolist(), after, data.discounts.tolist(), strict=True))


def _observing(problem: Problem) -> Callable[[], object]:
    steps = _arguments(problem)

    def run() -> None:
        observe = Evaluator(TD(P), METHOD).observe
        for features, reward, after, discount in steps:
            observe(features, reward, after, discount)

    return run


def _one_call(problem: Problem) -> float:
    """Microseconds of the call alone: the median, so that the calls that complete a tile do not count."""
    observe = Evaluator(TD(P), METHOD).observe
    taken = []
    for features, reward, after, discount in _arguments(problem):
        start = perf_counter_ns()
        observe(features, reward, after, discount)
        taken.append(perf_counter_ns() - start)
    return float(np.median(taken)) / 1e3


def _reading(problem: Problem, method: OnlineBootstrap, calls: int) -> Callable[[], object]:
    evaluator = Evaluator(TD(P), method).update(problem.transitions)
    target = np.full(P, 1.0 / P)

    def run() -> None:
        for _ in range(calls):
            evaluator.interval(target)

    return run
