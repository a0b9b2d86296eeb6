"""Shapes: the engine against its rivals, in transitions a second and as a share of what the machine can do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from inferl.algorithms import GTD2, TD, Algorithm, DoublyRobust
from inferl.data.transitions import Transitions
from inferl.errors import MissingExtraError
from inferl.evaluator import Evaluator
from inferl.methods.bootstrap import OnlineBootstrap
from inferl.methods.least_squares import LeastSquares
from studies.benchmarks import rivals
from studies.benchmarks.machine import product
from studies.benchmarks.problems import STEP_SIZE, Problem, dense_problem, one_hot_problem
from studies.benchmarks.timing import Case, Times, interleaved

__all__ = ["LEAST_SQUARES", "SHAPES", "VALUES", "Shape", "measure_least_squares", "measure_shape", "measure_value"]

OURS, UNCHECKED, PLAIN, ARRAYS, STEP, PRINTED, NAIVE, JAX, RIVER, PEAK = (
    "inferl",
    "inferl without checks",
    "least squares",
    "inferl from arrays",
    "step",
    "step as printed",
    "naive",
    "jax",
    "river",
    "product",
)


@dataclass(frozen=True)
class Shape:
    """Algorithm 1 with p features and B replicas, and what it should reach."""

    name: str
    p: int
    n_replicas: int
    checked: float | None  # times faster than the step, at least, as users run it: with its checks
    faster: float  # without them
    share: float | None  # of the peak, at least, without them
    one_hot: bool = False
    gtd2: bool = False
    river: bool = False

    @property
    def operations(self) -> float:
        """Useful floating-point operations a transition: dot products, updates, averages."""
        return (10.0 if self.gtd2 else 6.0) * self.n_replicas * self.p


SHAPES = (
    Shape("one-hot, p = 64, B = 200", 64, 200, checked=70, faster=100, share=None, one_hot=True, river=True),
    Shape("p = 10, B = 200", 10, 200, checked=14, faster=15, share=None, river=True),
    Shape("p = 64, B = 200", 64, 200, checked=9, faster=15, share=0.5, river=True),
    Shape("p = 512, B = 200", 512, 200, checked=4, faster=16, share=0.65),
    Shape("p = 512, B = 1000", 512, 1000, checked=None, faster=20, share=0.65),
    Shape("GTD2, d = 512, B = 200", 512, 200, checked=None, faster=16, share=0.6, gtd2=True),
)
LEAST_SQUARES = ("least squares, p = 512", 512, 0.6)
VALUES = ((10, 1.5), (64, 1.3), (512, 1.3))  # features, and the most that the value may cost over plain least squares
EPISODE = 50  # steps


def measure_shape(shape: Shape, rounds: int, seconds: float) -> dict[str, Any]:
    """Time the engine and its rivals on one shape in turns, each for about so many seconds a turn."""
    numbers = shape.n_replicas * shape.p
    # What each is expected to take, on a machine of today, to give all about the same time.
    few = _rows(seconds, 15e-6 + (2.5e-9 if shape.gtd2 else 1.5e-9) * numbers, least=8)
    fewer = _rows(seconds, shape.n_replicas * 8e-6, least=2)
    many = -(-_rows(seconds, 4e-7 if shape.one_hot else 2e-7 + shape.operations / 4e10, least=1) // 1024) * 1024
    problem = one_hot_problem(many, shape.p, few) if shape.one_hot else dense_problem(max(many, few), shape.p)
    short, shorter = problem.first(few), problem.first(fewer)
    algorithm: Algorithm = GTD2(shape.p) if shape.gtd2 else TD(shape.p)
    checked = OnlineBootstrap(STEP_SIZE, n_replicas=shape.n_replicas)
    unchecked = replace(checked, companion=False)
    cases = [
        _ours(algorithm, checked, problem, many),
        _ours(algorithm, unchecked, problem, many, UNCHECKED),
        _ours_from_arrays(algorithm, checked, problem, many),
    ]
    typed = rivals.step_gtd2 if shape.gtd2 else rivals.step
    multipliers, multiplier = rivals.uniform(shape.n_replicas), rivals.uniform(None)
    cases.append(Case(STEP, lambda: typed(short, shape.n_replicas, multipliers), few))
    cases.append(Case(PRINTED, lambda: typed(short, shape.n_replicas, multipliers, printed=True), few))
    if not shape.gtd2:
        cases.append(Case(NAIVE, lambda: rivals.naive(shorter, shape.n_replicas, multiplier), fewer))
    missing = []
    for name, rival in ((JAX, _jax), *(((RIVER, _river),) if shape.river else ())):
        try:
            cases.append(rival(shape, short, shorter))
        except MissingExtraError as error:
            missing.append(f"{name} is left out: {error}")
    run, operations = product()
    cases.append(Case(PEAK, run, operations))
    times = interleaved(cases, rounds)
    peak = times.pop(PEAK)
    ours, bare = times[OURS], times[UNCHECKED]
    rivals_of_ours = {name: own for name, own in times.items() if name not in (OURS, UNCHECKED, ARRAYS)}
    return {
        "name": shape.name,
        "features": shape.p,
        "replicas": shape.n_replicas,
        "transitions per second": {name: own.rate for name, own in times.items()},
        "over": {name: ours.over(own) for name, own in rivals_of_ours.items()},
        "over, without checks": {name: bare.over(own) for name, own in rivals_of_ours.items()},
        "peak, operations per second": peak.rate,
        # An engine for tables does not do the operations of the dense form: a share would say nothing.
        "share of peak": None if shape.one_hot else _share(bare, shape.operations, peak),
        "most over step at peak": None if shape.one_hot else times[STEP].median * peak.rate / shape.operations,
        "left out": missing,
        "reach": {"checked": shape.checked, "step": shape.faster, "share": shape.share},
    }


def measure_least_squares(rounds: int, seconds: float, p: int = LEAST_SQUARES[1]) -> dict[str, Any]:
    """Time least squares: A costs 2 p^2 operations a transition, the scores p^2 at level 0 and as much above it."""
    operations = 4.0 * p * p
    many = -(-_rows(seconds, operations / 4e10, least=1) // 1024) * 1024
    problem = dense_problem(many, p)
    run, product_operations = product()
    cases = [_ours(TD(p), LeastSquares(), problem, many), Case(PEAK, run, product_operations)]
    times = interleaved(cases, rounds)
    return {
        "name": LEAST_SQUARES[0],
        "features": p,
        "transitions per second": {OURS: times[OURS].rate},
        "peak, operations per second": times[PEAK].rate,
        "share of peak": _share(times[OURS], operations, times[PEAK]),
        "reach": {"share": LEAST_SQUARES[2]},
    }


def measure_value(rounds: int, seconds: float, values: Sequence[tuple[int, float]] = VALUES) -> list[dict[str, Any]]:
    """Time the value of the starts, as people run it, against plain least squares; in episodes of 50 steps."""
    found = []
    for p, most in values:
        many = -(-_rows(seconds, 3e-7 + 5.0 * p * p / 4e10, least=1) // 1024) * 1024
        data = dense_problem(many, p).transitions
        ends = np.arange(1, many + 1) % EPISODE == 0
        data = Transitions(data.features, data.rewards, data.next_features, np.where(ends, 0.0, data.discounts))
        algorithms: dict[str, Algorithm] = {OURS: DoublyRobust(p), PLAIN: TD(p)}
        cases = [Case(name, _updating(algorithm, data), many) for name, algorithm in algorithms.items()]
        times = interleaved(cases, rounds)
        found.append({
            "name": f"the value, p = {p}",
            "features": p,
            "transitions per second": {name: own.rate for name, own in times.items()},
            "cost over least squares": 1 / times[OURS].over(times[PLAIN]),
            "reach": {"cost": most},
        })  # fmt: skip
    return found


def _updating(algorithm: Algorithm, data: Transitions) -> Callable[[], Evaluator]:
    return lambda: Evaluator(algorithm).update(data)


def _ours(
    algorithm: Algorithm, method: OnlineBootstrap | LeastSquares, problem: Problem, n: int, name: str = OURS
) -> Case:
    data = problem.transitions[:n]
    return Case(name, lambda: Evaluator(algorithm, method).update(data), n)


def _ours_from_arrays(algorithm: Algorithm, method: OnlineBootstrap, problem: Problem, n: int) -> Case:
    """As before, with the time that it takes to check and copy the user's arrays."""
    data = problem.transitions[:n]

    def run() -> Evaluator:
        chunk = Transitions(data.features, data.rewards, data.next_features, data.discounts)
        return Evaluator(algorithm, method).update(chunk)

    return Case(ARRAYS, run, n)


def _jax(shape: Shape, short: Problem, shorter: Problem) -> Case:
    scan = rivals.JaxScan(shape.n_replicas, shape.gtd2)
    columns = scan.prepare(short)
    return Case(JAX, lambda: scan(columns), len(short))


def _river(shape: Shape, short: Problem, shorter: Problem) -> Case:
    few = shorter.first(max(len(shorter) // 8, 1))
    return Case(RIVER, rivals.river_bagging(few, shape.n_replicas), len(few))


def _rows(seconds: float, each: float, least: int) -> int:
    return max(int(seconds / each), least)


def _share(ours: Times, operations: float, peak: Times) -> float:
    return operations * ours.over(peak)
