"""evaluate_policy: the mean return of a policy, with an interval, in one call."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from inferl.algorithms import DoublyRobust
from inferl.data.arrays import as_count
from inferl.errors import SettingError
from inferl.evaluation.result import Result
from inferl.evaluator import Evaluator
from inferl.features.one_hot import OneState
from inferl.interval import Interval, brief, check_level
from inferl.runs import Run
from inferl.sources import Rollout, rollout

__all__ = ["evaluate_policy"]

USUAL, MOST = 100, 10_000  # episodes: without a stopping rule, and at most with one
LOOK = 0.02  # the stopping rule is asked when the episodes have grown by this share


def evaluate_policy(
    env: Any,
    policy: Any,
    *,
    episodes: int | None = None,
    until_width: float | None = None,
    until_lower: float | None = None,
    discount: float = 1.0,
    features: Any = None,
    time_limit: str | None = None,
    num_envs: int | None = None,
    seed: int = 0,
    level: float = 0.95,
    progress: bool | None = None,
) -> Result:
    """Let a policy act in an environment, and return its mean return with an interval.

    The interval is for the mean over all episodes that the environment may give, so it contains the chance of its
    starts. If the number of episodes is fixed, it is valid at that number; if a stopping rule decides (`until_width`,
    `until_lower`), it is an anytime interval, which is wider and may be looked at repeatedly.

    Parameters
    ----------
    env
        As for `sources.rollout`: the id of a Gymnasium environment, a function that makes one, an environment, a list
        of copies, or a vector environment.
    policy
        As for `sources.rollout`: a Stable-Baselines3 model (its best actions; else
        ``Predictor(model, deterministic=False)``), a function, a table of probabilities, or any of `inferl.policies`.
    episodes
        Number of episodes; with a stopping rule, the largest. Default: 100; with a stopping rule 10,000.
    until_width
        Stop when the interval is no wider than this.
    until_lower
        Stop when the lower bound is above this.
    discount
        gamma, in (0, 1].
    features
        Turns observations into features, or the name of some, as for `sources.rollout`: ``"auto"``. Not needed for
        returns: on-policy, and where episodes end, the answer does not depend on them. ``time_limit="cut"`` needs them.
    time_limit
        What a truncation means. ``"ends"``: returns count up to it. ``"cut"``: the value extends beyond it. Default:
        ``"ends"`` without features or with discount 1.
    num_envs, seed
        As for `sources.rollout`. Two policies with the same seed meet the same episodes, so they are not independent.
    level
        Nominal coverage.
    progress
        Whether to show the interval and the time left meanwhile. Default: on a terminal and in a notebook.

    Examples
    --------
    >>> import inferl
    >>> lean = lambda observation: int(observation[2] + 0.3 * observation[3] > 0)
    >>> policy = inferl.policies.epsilon_greedy(lean, epsilon=0.3, n_actions=2)
    >>> print(inferl.evaluate_policy("CartPole-v1", policy))
    CartPole-v1: mean return 387 [362, 411], 95%, 100 episodes, 39% truncated at the limit
    >>> result = inferl.evaluate_policy("CartPole-v1", lambda observation: int(observation[2] > 0), until_width=5)
    >>> print(result)
    CartPole-v1: mean return 42.4 [39.9, 44.9], 95% anytime, 126 episodes
    >>> result.smallest, result.largest
    (24.0, 62.0)
    """
    check_level(level)
    if episodes is not None:
        as_count("episodes", episodes, 1)
    watched = until_width is not None or until_lower is not None
    most = (MOST if watched else USUAL) if episodes is None else episodes
    source = rollout(env, policy, features, discount, seed, time_limit=time_limit, episodes=most, num_envs=num_envs)
    try:
        options = {"env": source.name, "episodes": most, "seed": seed}
        kind = "anytime" if watched else "normal"
        run = Run(Evaluator(DoublyRobust(source.dimension)), "evaluate_policy", options, level=level, kind=kind)
        run.evaluator.method.expect(run.evaluator.algorithm, source)
        with _display(source.name, most, until_width, progress) as show:
            _play(run, source, until_width, until_lower, show)
        return _result(run, source)
    finally:
        source.close()


def _play(
    run: Run, source: Rollout, width: float | None, lower: float | None, show: Callable[[Interval, int], None]
) -> None:
    """Process the episodes until they end, or until the stopping rule is met; look after whole ones only."""
    due = 0.0
    for chunk in source:
        ended = np.flatnonzero(chunk.last)
        whole = int(ended[-1]) + 1 if len(ended) else 0
        if whole:
            run.evaluator.update(chunk[:whole])
            run.evaluator.heed(source)
            if run.evaluator.n >= run.due:
                run.read()
            if run.evaluator.episodes >= due:
                due = (1 + LOOK) * run.evaluator.episodes
                show(run.interval(), run.evaluator.episodes)
                if (width is not None or lower is not None) and run.is_decided(width, lower):
                    break
        if whole < len(chunk):
            run.evaluator.update(chunk[whole:])
    run.read()
    run.complete = True


def _result(run: Run, source: Rollout) -> Result:
    summary = run.evaluator.with_pending().episodes
    run.facts = source.describe() | {
        "environment": f"{source.name}, {summary.closed:,} episodes, {run.evaluator.n:,} steps, seed {source.seed}"
    }
    report = run.report()
    if isinstance(source.features, OneState):  # there are none to speak of
        facts = {name: fact for name, fact in report.facts.items() if name != "features alone"}
        report = replace(report, facts=facts, checks=tuple(c for c in report.checks if c.name != "features"))
    discounted = "discounted return" if source.ends else "value"
    low, high = (float(bound) if np.isfinite(bound) else np.nan for bound in summary.earned)
    return Result(
        name=source.name,
        quantity="mean return" if source.discount == 1 and source.ends else discounted,
        report=report,
        episodes=summary.closed,
        steps=run.evaluator.n,
        truncated=(summary.limited + summary.cut) / max(summary.closed, 1),
        smallest=low,
        largest=high,
        deviation=float(report.interval.standard_error) * summary.closed**0.5,
        run=run,
    )


@contextmanager
def _display(
    name: str, most: int, width: float | None, progress: bool | None
) -> Iterator[Callable[[Interval, int], None]]:
    """Yield a function that shows the interval and the time left; off a terminal or notebook it does nothing."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    if not isinstance(progress, bool | None):
        raise SettingError(f"progress is {progress!r}; say True or False")
    console = Console(stderr=True, force_terminal=progress)
    if progress is False or (progress is None and not (console.is_terminal or console.is_jupyter)):
        yield lambda interval, episodes: None
        return
    columns = TextColumn("{task.description}", markup=False), BarColumn(bar_width=24), TimeRemainingColumn()
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(name, total=None)

        def show(interval: Interval, episodes: int) -> None:
            said = f"{name}: {brief(interval.estimate, interval.lower, interval.upper)}, {episodes:,} episodes"
            total = float(most)
            if width is not None and 0 < interval.width < np.inf:  # widths shrink with the root of the number
                total = min(total, max(episodes * (interval.width / width) ** 2, episodes))
            bar.update(task, description=said, completed=episodes, total=total)

        yield show
