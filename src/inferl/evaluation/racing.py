"""race: play policies against each other on the same episodes, and drop those that are known to be worse."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations
from math import ceil
from typing import Any

from inferl.algorithms import DoublyRobust
from inferl.data.arrays import as_count
from inferl.data.transitions import Transitions
from inferl.errors import SettingError
from inferl.evaluation.comparing import check_names, exact, share_of
from inferl.evaluation.comparison import PASS, Comparison, check_margin, implied, unbeaten
from inferl.evaluation.watching import progress_bar
from inferl.evaluator import FEWEST, Evaluator
from inferl.interval import Interval, check_level
from inferl.runs import Run
from inferl.sources import Rollout, rollout
from inferl.sources.episodes import Copies, copies_of
from inferl.sources.steps import import_gymnasium

__all__ = ["race"]

FIRST = FEWEST["episodes"]  # of the first round, before which nothing is decided
GROWTH = 0.05  # of the number of episodes from round to round, at least one for each copy of the environment
EQUAL = 300  # episodes with equal returns, after which policies are taken to differ in 1 % of the episodes at most


def race(
    env: Any,
    policies: Mapping[str, Any],
    *,
    margin: float = 0.0,
    episodes: int = 1000,
    discount: float = 1.0,
    num_envs: int | None = None,
    seed: int = 0,
    level: float = 0.95,
    progress: bool | None = None,
) -> Comparison:
    """Find the best of several policies with as few episodes as it takes.

    All policies play the same episodes, in rounds. After every round, a policy that is known to be worse than another
    is dropped. The race ends when one policy is known to be at most `margin` worse than each of the others, or when
    `episodes` have been played. With a margin of 0 that means that all others have been dropped, so give a margin if
    some policies may be equally good. It also ends, undecided, if all that are left have returned the same in each of
    300 episodes: they may still differ in 1 % of the episodes, but more of the same would tell little.

    The intervals of all differences are anytime intervals that hold jointly, so looking after every round is allowed:
    the probability that the best policy is ever dropped is at most 1 - `level`. Nothing is decided before 32 episodes,
    nor on a difference of which a check fails.

    Parameters
    ----------
    env
        As for `sources.rollout`, but not a vector environment, whose episodes have no seeds of their own.
    policies
        By name; each as for `sources.rollout`.
    margin
        How much worse than the best is still good enough, 0 or more.
    episodes
        The most episodes that a policy plays.
    discount
        gamma, in (0, 1].
    num_envs, seed
        As for `sources.rollout`.
    level
        Probability that the intervals of all differences hold at once, at all times.
    progress
        Whether to show who is left meanwhile. Default: on a terminal and in a notebook.

    Returns
    -------
    Comparison
        With the winner first: ``comparison.verdict()`` is PASS if the race was decided. ``comparison.episodes`` says
        how many each policy played. The others follow by their mean returns.

    Examples
    --------
    >>> import inferl
    >>> def leaning(weight):
    ...     return lambda pole: int(pole[2] + weight * pole[3] > 0)
    >>> policies = {f"weight {weight}": leaning(weight) for weight in (0.0, 0.008, 0.01)}
    >>> print(inferl.race("CartPole-v1", policies))
    CartPole-v1: mean return, 95% anytime
      weight 0.01                 83 [69, 96]  48 episodes
      weight 0.008                71 [61, 81]  48 episodes
      weight 0.0                  41 [36, 46]  32 episodes
    differences, 95% anytime for all 3 at once, matched episodes
      weight 0.01 - weight 0.008  11 [1, 22]   PASS
      weight 0.01 - weight 0.0    40 [25, 54]  PASS
      weight 0.008 - weight 0.0   28 [17, 40]  PASS
    best: weight 0.01
    PASS: weight 0.01 is not worse than weight 0.008 and weight 0.0
    """
    check_level(level)
    check_margin(margin, least=0.0)
    as_count("episodes", episodes, FIRST)
    check_names(policies)
    if isinstance(env, import_gymnasium().vector.VectorEnv):
        raise SettingError(
            "a race needs episodes with seeds of their own, which a vector environment does not have; give the id of "
            "the environment, or a function that makes one"
        )
    copies = copies_of(env, num_envs)
    try:
        return _run(copies, policies, margin, episodes, discount, seed, level, progress)
    finally:
        copies.close()


def _run(
    copies: Copies,
    policies: Mapping[str, Any],
    margin: float,
    most: int,
    discount: float,
    seed: int,
    level: float,
    progress: bool | None,
) -> Comparison:
    """Play rounds until the race is decided, or the episodes are used up."""
    racers = {}
    for name, policy in policies.items():
        source = rollout(copies.envs, policy, discount=discount, seed=seed, time_limit="ends")
        run = Run(Evaluator(DoublyRobust(source.dimension)), "race", level=level, kind="anytime")
        racers[name] = _Racer(run, source)
    world = source.name
    quantity = f"{world}: {'mean return' if discount == 1 else 'discounted return'}"
    duels = {pair: _Duel(*(racers[name].run for name in pair)) for pair in combinations(racers, 2)}
    left, played, decided = set(racers), 0, False
    with progress_bar(world, progress) as show:
        while played < most and not decided:
            step = max(ceil(GROWTH * played), len(copies.envs)) if played else FIRST
            played = min(played + step, most)
            for name in sorted(left):
                racers[name].play(played)
            for pair, duel in duels.items():
                if left.issuperset(pair):
                    duel.read(share_of(level, len(duels)))
            least = implied(racers, {pair: duel.interval for pair, duel in duels.items()})
            left.intersection_update(unbeaten(racers, least))
            if show is not None:
                show(f"{world}: {len(left)} of {len(racers)} left, {played:,} episodes", played, most)
            good_enough = any(all(least[one, other] >= -margin for other in racers if other != one) for one in left)
            tied = played >= EQUAL and all(duel.tied for pair, duel in duels.items() if left.issuperset(pair))
            decided = good_enough or tied
    own = {name: racer.run.interval() for name, racer in racers.items()}
    about = f"difference of two policies: {max((one.estimand for one in own.values()), key=len)}"
    found = {pair: replace(duel.interval, level=level, estimand=about) for pair, duel in duels.items()}
    played_by = {name: racer.played for name, racer in racers.items()}
    return _ranked(Comparison(quantity, own, played_by, found, "matched", margin))


@dataclass(eq=False)
class _Racer:
    """A policy with the episodes that it has played."""

    run: Run
    source: Rollout

    @property
    def played(self) -> int:
        return self.run.evaluator.episodes

    def play(self, until: int) -> None:
        for chunk in self.source.take(episodes=until - self.played):
            self.run.fold(chunk, self.source)
        self.run.evaluator.heed(self.source)


@dataclass(eq=False)
class _Duel:
    """The difference of two policies in the episodes that both have played: the mean return of episodes again."""

    one: Run
    other: Run
    interval: Interval = field(init=False)
    _evaluator: Evaluator = field(init=False, default_factory=lambda: Evaluator(DoublyRobust(1)))

    @property
    def tied(self) -> bool:
        """Whether both have returned the same in all episodes."""
        return bool(self.interval.estimate == self.interval.standard_error == 0)

    def read(self, level: float) -> None:
        """Add the episodes that are new, and read the anytime interval."""
        done, sides = self._evaluator.episodes, (self.one, self.other)
        one, other = (run.returns.ended[done:] for run in sides if run.returns is not None)
        self._evaluator.update(Transitions.from_returns(one - other))
        found = self._evaluator.interval(None, level, "anytime")
        constant = found.standard_error == 0 and all(exact(run.evaluator) for run in sides)
        steps = sum(run.evaluator.n for run in sides)
        self.interval = replace(found, n=steps, notes=() if constant else found.notes)


def _ranked(found: Comparison) -> Comparison:
    """Return the comparison with the winner first, then those that may be the best, then the others."""
    best = found.best

    def rank(name: str) -> tuple[bool, bool, float]:
        return found.verdict(name) == PASS, name in best, found.policies[name].estimate

    names = sorted(found.policies, key=rank, reverse=True)
    return replace(
        found,
        policies={name: found.policies[name] for name in names},
        episodes={name: found.episodes[name] for name in names},
        differences={pair: found.difference(*pair) for pair in combinations(names, 2)},
    )
