"""Time and memory of the online bootstrap and of the offline one, for the same estimator on the same stream.

Times are the process's own (a neighbour on the machine does not count). Memory is the peak of what Python and NumPy
allocate while the stream is generated in chunks of 1000 steps: the offline bootstrap must keep them, the online one
forgets them.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from time import process_time
from typing import Any

import numpy as np

import inferl
from inferl.algorithms import Algorithm
from inferl.baselines import offline_bootstrap
from inferl.methods.step_sizes import StepSize
from studies.paper.machinery import Result

__all__ = ["Contest", "cost", "cost_of_one"]

CHECKPOINTS = 100
MEASURED = 10  # of the 100 offline reports, evenly spaced; their time is nearly linear in the length, and so scaled up
SHARES = (0.1, 0.3, 1.0)  # of the stream, where memory is measured


@dataclass(frozen=True)
class Contest:
    """An estimator and a stream of it: `stream(n)` gives n transitions in chunks."""

    stream: Callable[[int], Iterable[inferl.Transitions]]
    algorithm: Algorithm
    step_size: StepSize
    target: Any
    unit: str | int
    n_replicas: int = 200

    def online(self, companion: bool = False) -> inferl.Evaluator:
        """Algorithm 1; with a companion it also knows whether it has arrived."""
        method = inferl.OnlineBootstrap(self.step_size, self.n_replicas, companion=companion)
        return inferl.Evaluator(self.algorithm, method)

    def offline(self, data: Iterable[inferl.Transitions]) -> inferl.Interval:
        """The same recursion on resamples of stored data."""
        return offline_bootstrap(
            data, self.algorithm, self.step_size, self.target, unit=self.unit, n_resamples=self.n_replicas
        )

    def report_online(self, n: int) -> inferl.Interval:
        """One report after n steps that are forgotten as they come."""
        return self.online().update(self.stream(n)).interval(self.target)

    def report_offline(self, n: int) -> inferl.Interval:
        """One report after n steps that are kept."""
        return self.offline(self.stream(n))


def cost(contest: Contest, n: int) -> Result:
    """Measure seconds for one report and for one after each of 100 checkpoints, and peaks of memory, for n steps."""
    chunks = list(contest.stream(n))
    whole = _joined(chunks)
    edges = np.linspace(0, len(whole), CHECKPOINTS + 1).astype(int)[1:]
    _once(contest, whole, [int(edges[9])], companion=True)  # libraries are loaded
    contest.offline([whole[: edges[9]]])
    seconds: dict[str, Any] = {
        "online_once": min(_once(contest, whole, [n]) for _ in range(3)),
        "online_100": min(_once(contest, whole, edges.tolist()) for _ in range(3)),
        "online_with_checks_once": min(_once(contest, whole, [n], companion=True) for _ in range(3)),
        "online_with_checks_100": _once(contest, whole, edges.tolist(), companion=True),
        "offline_once": _timed(lambda: contest.offline([whole])),
    }
    middle = edges[CHECKPOINTS // MEASURED // 2 :: CHECKPOINTS // MEASURED]
    sampled = [_timed(partial(contest.offline, [whole[:end]])) for end in middle]
    seconds["offline_100"] = CHECKPOINTS / len(sampled) * sum(sampled)
    lengths = [int(share * n) for share in SHARES]
    memory = {
        "steps": lengths,
        "online": [_peak(partial(contest.report_online, m)) for m in lengths],
        "offline": [_peak(partial(contest.report_offline, m)) for m in lengths],
    }
    return {
        "steps": n,
        "n_replicas": contest.n_replicas,
        "seconds": {name: float(f"{value:.4g}") for name, value in seconds.items()},
        "offline_over_online_once": round(seconds["offline_once"] / seconds["online_once"], 1),
        "offline_over_online_100": round(seconds["offline_100"] / seconds["online_100"], 1),
        "offline_reports_measured": len(sampled),
        "memory": memory,
    }


def cost_of_one(
    report: Callable[[Any], object],
    stream: Callable[[int], Iterable[inferl.Transitions]],
    n: int,
    stored: bool = False,
) -> Result:
    """Measure another method that makes one report of n steps; `stored`: it wants them as one."""

    def gathered_report(m: int) -> object:
        return report(_joined(list(stream(m))) if stored else stream(m))

    data = _joined(list(stream(n)))
    report(data[:1000] if stored else [data[:1000]])
    seconds = min(_timed(lambda: report(data if stored else [data])) for _ in range(3))
    lengths = [int(share * n) for share in SHARES]
    peaks = [_peak(partial(gathered_report, m)) for m in lengths]
    return {"steps": n, "seconds": {"once": float(f"{seconds:.4g}")}, "memory": {"steps": lengths, "peak": peaks}}


def _once(contest: Contest, data: inferl.Transitions, ends: list[int], companion: bool = False) -> float:
    """Seconds to take in data and report at each end."""

    def go() -> None:
        evaluator, start = contest.online(companion), 0
        for end in ends:
            evaluator.update(data[start:end])
            evaluator.interval(contest.target)
            start = end

    return _timed(go)


def _timed(function: Callable[[], object]) -> float:
    start = process_time()
    function()
    return process_time() - start


def _peak(function: Callable[[], object]) -> int:
    """Bytes allocated at the worst moment of a call."""
    tracemalloc.start()
    try:
        function()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def _joined(chunks: list[inferl.Transitions]) -> inferl.Transitions:
    columns = ("features", "rewards", "next_features", "discounts", "ratios", "last")
    return inferl.Transitions(**{name: np.concatenate([getattr(chunk, name) for chunk in chunks]) for name in columns})
