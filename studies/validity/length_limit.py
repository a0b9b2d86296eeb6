"""What another limit of the length check would do: misses that it would flag, and alarms that it would cost.

Run it with `python -m studies.validity.length_limit`; it prints the figures of docs/method.md in some minutes. The busy
queue in 8 streams is where the interval is too narrow and the check is needed most. In the other problems, which are
long enough for the interval to be trusted, every alarm is a false one.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import inferl
from studies.validity import manyparts
from studies.validity.problems import problem

SEED = 99_000
LIMITS = (150, 175, 200, 210, 220, 225, 230, 240, 250)
STREAMS, STEPS, RUNS = 8, 2_000, 4_000  # of the busy queue
# Trusted cells of the study of trust in which the check is closest to its limit: steps and runs.
TRUSTED = {
    "two-state chain 0": (300, 2000),
    "two-state chain .95": (10_000, 1000),
    "random MDP, lazy": (10_000, 1000),
    "random MDP, misspecified": (300, 1000),
    "ring 60/6, lazy": (100_000, 200),
}


def looked_at(report: inferl.Report) -> tuple[float, bool]:
    """Return the effective sample size, infinite where it is too large to be reported, and if another check failed."""
    (length,) = (check for check in report.checks if check.name == "length")
    others = any(check.failed for check in report.checks if check is not length)
    return np.inf if length.value is None else length.value, others


def busy() -> Iterator[tuple[float, bool, bool]]:
    """Yield, for each run of the busy queue, what is looked at, and whether the interval covers."""
    asked = manyparts.problem("queue, busy")
    for number in range(RUNS):
        rng = np.random.default_rng([SEED, STREAMS, number])
        data = manyparts.together([asked.stream(STEPS, rng) for _ in range(STREAMS)])
        report = inferl.Evaluator(asked.algorithm).update(data).report(asked.target)
        yield *looked_at(report), asked.truth in report.interval


def main() -> None:
    """Print the shares for each limit."""
    size, others, held = (np.array(column) for column in zip(*busy(), strict=True))
    missed = ~held.astype(bool)
    print(f"busy queue in {STREAMS} streams: {missed.sum()} of {RUNS} runs miss; with each limit, these are flagged:")
    print("  ", {limit: f"{np.mean((size < limit) | others, where=missed):.1%}" for limit in LIMITS})
    for name, (steps, runs) in TRUSTED.items():
        asked = problem(name)
        first = asked.rows[0]
        found = [
            looked_at(inferl.Evaluator(asked.algorithm).update(asked.data(steps, [SEED, number])).report(first))[0]
            for number in range(runs)
        ]
        print(f"{name}, {steps} steps, {runs} runs: false alarms")
        print("  ", {limit: f"{np.mean(np.array(found) < limit):.1%}" for limit in LIMITS}, flush=True)


if __name__ == "__main__":
    main()
