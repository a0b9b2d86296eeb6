"""Simulation by several workers: each plays some of the episodes that one process would play.

Episode k has seeds that follow from (seed, k), so it is the same whoever plays it. A part is a fixed number of
episodes, and the answer is read off the longest finished prefix of the parts. Which episodes happen to be done first
depends on how long they are; a mean over those would favour short ones.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import Any

from inferl.algorithms import DoublyRobust
from inferl.data.arrays import as_count
from inferl.errors import SettingError
from inferl.evaluation.policy import LOOK, MOST, USUAL
from inferl.evaluation.watching import watched
from inferl.evaluator import Evaluator
from inferl.interval import check_level
from inferl.runs import Run, SavedRun
from inferl.scale.plans import identity, question
from inferl.scale.work import Work
from inferl.sources import Rollout, rollout
from inferl.storage.checkpoint import digest_of

__all__ = ["EPISODES", "Simulation", "simulate"]

EPISODES = 16  # of a part


@dataclass(frozen=True, eq=False)
class Simulation:
    """Episodes in parts; `make` makes the rollout, in any process."""

    make: Callable[[], Rollout]
    source: Rollout  # that of this process, of which the first steps are played where features are fitted to them
    episodes: int
    features: dict[str, Any] | None

    @classmethod
    def of(cls, make: Callable[[], Rollout], episodes: int) -> Simulation:
        """Make a rollout here, and fit its features, which all parts then have."""
        source, other = make(), make()
        try:
            next(iter(other))  # what is wrong with the environment or the policy is said here
            features = other.position["features"]
        finally:
            other.close()
        if features is not None:
            source.after(0, features)
        return cls(make, source, episodes, features)

    def work(self, blank: Run) -> Work:
        """Return the parts with a question about them."""
        begins = range(0, self.episodes, EPISODES)
        parts = [(self.make, first, min(EPISODES, self.episodes - first), self.features) for first in begins]
        asked = digest_of((question(blank), identity(self.make), self.features or {}))
        keys = [digest_of((asked, first, number)) for _, first, number, _ in parts]
        places = [{"from": f"episode {first + 1}", "to": f"episode {first + n + 1}"} for _, first, n, _ in parts]
        return Work(blank, play_part, parts, places, keys, self.source)


def play_part(
    blank: SavedRun, make: Callable[[], Rollout], first: int, number: int, features: dict[str, Any] | None
) -> SavedRun:
    """Play some episodes, in an environment made for them."""
    run = Run.restored(deepcopy(blank), f"episode {first + 1}", threads=1)
    source = make().after(first, features)
    try:
        for chunk in source.take(episodes=number):
            if first == 0:
                run.take(chunk, source)
            else:
                run.fold(chunk, source)
        run.follow(source)
    finally:
        source.close()
    run.complete = True
    return run.saved()


def simulate(
    env: Any,
    policy: Any,
    *,
    episodes: int | None = None,
    until_width: float | None = None,
    until_lower: float | None = None,
    executor: Any = None,
    checkpoint: str | os.PathLike[str] | None = None,
    level: float = 0.95,
    progress: bool | None = None,
    **options: Any,
) -> Run:
    """Let a policy act in environments of several workers, and return its mean return with an interval.

    The episodes are those of `evaluate_policy` with the same seed, whatever the number of workers.

    Parameters
    ----------
    env, policy
        As for `sources.rollout`; they are sent to other processes, so give an id or a function of a module.
    episodes, until_width, until_lower, level, progress
        As for `evaluate_policy`; a stopping rule stops all workers.
    executor, checkpoint
        As for `Plan.evaluate`.
    **options
        As for `sources.rollout`: `features`, `discount`, `seed`, `time_limit`, `num_envs`.

    Examples
    --------
    >>> run = simulate("FrozenLake-v1", [[0.0, 0.5, 0.5, 0.0]] * 16, episodes=400, executor=2)
    >>> print(run.interval())
    0.052 [0.030, 0.075] 95% pointwise, 2,270 transitions
    """
    check_level(level)
    if episodes is not None:
        as_count("episodes", episodes, 1)
    if "seed" in options:
        as_count("seed", options["seed"], 0)
    if hasattr(env, "reset"):
        raise SettingError("this environment exists already; give its id, or a function that makes one")
    stops = until_width is not None or until_lower is not None
    most = (MOST if stops else USUAL) if episodes is None else episodes
    simulation = Simulation.of(partial(rollout, env, policy, **options), most)
    source = simulation.source
    try:
        about = {"env": source.name, "episodes": most, "seed": source.seed, "streams": 1}
        kind = "anytime" if stops else "normal"
        blank = Run(Evaluator(DoublyRobust(source.dimension)), "simulate", about, level=level, kind=kind)
        with watched(source.name, progress) as show:
            for run, done in decided(simulation.work(blank), executor, checkpoint, until_width, until_lower):
                if show is not None:
                    show(run.interval(), f"{run.evaluator.episodes:,} episodes", done, None if stops else 1.0)
        return run
    finally:
        source.close()


def decided(
    work: Work,
    executor: Any,
    checkpoint: str | os.PathLike[str] | None,
    width: float | None,
    lower: float | None,
) -> Iterator[tuple[Run, float]]:
    """Yield the run of the prefix when it has grown by a little, until it is decided; and the share that is done."""
    due = 0.0
    for prefix in work.follow(executor, checkpoint):
        over = prefix.number == len(work.parts)
        if prefix.n < due and not over:
            continue
        due = (1 + LOOK) * prefix.n
        run = work.finished(prefix)
        yield run, prefix.number / len(work.parts)
        if not over and (width is not None or lower is not None) and run.is_decided(width, lower):
            return
