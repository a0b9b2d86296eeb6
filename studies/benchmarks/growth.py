"""Growth: memory against the length of the stream, time against its length, the replicas and the features."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from inferl.algorithms import TD
from inferl.evaluator import Evaluator
from inferl.methods.bootstrap import OnlineBootstrap
from studies.benchmarks.machine import child
from studies.benchmarks.problems import STEP_SIZE, dense_problem
from studies.benchmarks.timing import Case, interleaved, slope

__all__ = ["measure_memory", "measure_slopes"]

TIMES_LONGER = 64
METHODS = {  # least squares, alone or as a companion, keeps a few more sums whenever the stream has doubled
    "online bootstrap": "OnlineBootstrap(STEP_SIZE, companion=False)",
    "online bootstrap with its companion": "OnlineBootstrap(STEP_SIZE)",
    "least squares": "LeastSquares()",
}

# A fresh process, so that nothing but the stream can make it grow. Its memory is noted after T steps and after 64 T;
# steps are handed in from the same arrays again and again.
MEMORY = """
import json, os, resource
from inferl import Evaluator, LeastSquares, OnlineBootstrap, TD
from studies.benchmarks.problems import STEP_SIZE, dense_problem

def megabytes():
    if os.path.exists("/proc/self/statm"):
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * resource.getpagesize() / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10  # the largest so far

chunk = dense_problem(1024, 64).transitions
evaluator = Evaluator(TD(64), {method})
held = []
for number in range({longer} * {chunks}):
    evaluator.update(chunk).interval(chunk.features[0])
    if number + 1 in ({chunks}, {longer} * {chunks}):
        held.append(megabytes())
print(json.dumps(held))
"""


def measure_memory(chunks: int) -> dict[str, Any]:
    """Megabytes after T = 1024 x chunks transitions, and after 64 times as many, with p = 64 and B = 200."""
    held = {
        name: json.loads(child(MEMORY.format(method=method, longer=TIMES_LONGER, chunks=chunks)))
        for name, method in METHODS.items()
    }
    return {
        "transitions": 1024 * chunks,
        "times longer": TIMES_LONGER,
        "megabytes": held,
        "growth in megabytes": {name: late - early for name, (early, late) in held.items()},
    }


def measure_slopes(rounds: int, seconds: float) -> dict[str, Any]:
    """Exponents of the time: in T and in p with 200 replicas, in B with 64 features."""
    base = max(int(seconds / 2.5e-6) // 1024, 1) * 1024  # transitions at p = 64, B = 200
    lengths = [base, 2 * base, 4 * base, 8 * base]
    widths = [64, 128, 256, 512, 1024]
    numbers = [400, 800, 1600, 3200]
    return {
        "T": _fitted(lengths, [_case(n, 64, 200) for n in lengths], rounds),
        "B": _fitted(numbers, [_case(base, 64, n_replicas) for n_replicas in numbers], rounds),
        "p": _fitted(widths, [_case(max(base // 4, 1024), p, 200) for p in widths], rounds),
    }


def _case(n: int, p: int, n_replicas: int) -> Case:
    data = dense_problem(n, p).transitions
    method = OnlineBootstrap(STEP_SIZE, n_replicas=n_replicas, companion=False)
    return Case(f"{n} {p} {n_replicas}", lambda: Evaluator(TD(p), method).update(data), 1)


def _fitted(sizes: Sequence[int], cases: Sequence[Case], rounds: int) -> dict[str, Any]:
    times = interleaved(cases, rounds)
    seconds = [times[case.name].median for case in cases]
    return {"sizes": list(sizes), "seconds": seconds, "slope": slope(sizes, seconds)}
