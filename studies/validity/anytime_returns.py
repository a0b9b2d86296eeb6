"""How often the anytime interval of a mean return is ever wrong, if it is looked at again and again.

Run it with `python -m studies.validity.anytime_returns`; it prints the figures of docs/guides/returns.md in some
minutes.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import inferl
from inferl.data.arrays import Floats

RUNS, EPISODES = 400, 2000
FIRST = (32, 64)  # episodes before the first look
LOOKS = np.unique(np.ceil(16 * 1.1 ** np.arange(51)).astype(np.int64))

Draw = Callable[[np.random.Generator], Floats]

# Returns of episodes, and their mean.
LAWS: dict[str, tuple[Draw, float]] = {
    "exponential": (lambda rng: rng.exponential(size=EPISODES), 1.0),
    "lognormal": (lambda rng: np.exp(rng.normal(size=EPISODES)), float(np.exp(0.5))),
    "one in twenty pays": (lambda rng: (rng.random(EPISODES) < 0.05).astype(np.float64), 0.05),
}


def misses(returns: Floats, mean: float) -> list[tuple[int, bool]]:
    """Return the numbers of episodes at which the interval is wrong, and whether a check fails there."""
    evaluator = inferl.Evaluator(inferl.DoublyRobust(1))
    found, before = [], 0
    for n in LOOKS[LOOKS <= EPISODES].tolist():
        evaluator.update(inferl.Transitions.from_returns(returns[before:n]))
        interval, before = evaluator.interval(kind="anytime"), n
        if mean not in interval:
            found.append((n, bool(interval.notes)))
    return found


def main() -> None:
    """Count the runs in which an interval was ever wrong."""
    for name, (draw, mean) in LAWS.items():
        runs = [misses(draw(np.random.default_rng(number)), mean) for number in range(RUNS)]
        for first in FIRST:
            ever = np.mean([any(n >= first for n, _ in run) for run in runs])
            unnoticed = np.mean([any(n >= first and not failed for n, failed in run) for run in runs])
            print(f"{name}, from {first} episodes on: {ever:.2%} ever outside, {unnoticed:.2%} while no check failed")


if __name__ == "__main__":
    main()
