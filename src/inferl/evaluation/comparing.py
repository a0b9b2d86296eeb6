"""compare: the differences of policies, with intervals that hold for all pairs at once.

Independent results are subtracted by `welch`. Results with the same seed met the same episodes, so the returns of each
episode are subtracted, and the difference is the mean return of episodes again. If results were stopped by looking at
them, the differences are anytime intervals, each with its share of the error probability (a union bound).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from inferl.algorithms import DoublyRobust
from inferl.comparison import difference_of, grown_together, jointly, refuse_other_questions, welch
from inferl.data.arrays import Floats, short
from inferl.data.transitions import Transitions
from inferl.errors import KindError, SettingError
from inferl.evaluation.comparison import Comparison, check_margin
from inferl.evaluation.result import Result
from inferl.evaluator import Evaluator
from inferl.interval import Interval, anytime, check_level
from inferl.methods.base import Reading
from inferl.runs import Run

__all__ = ["check_names", "compare", "exact", "share_of"]

PLAYED = ("rollout", "evaluate_policy")  # commands whose episodes follow from a seed
KINDS = (None, "simultaneous", "anytime")


def compare(
    results: Mapping[str, Result | Run | Evaluator],
    *,
    level: float = 0.95,
    margin: float | None = None,
    kind: str | None = None,
) -> Comparison:
    """Compare policies: which may be the best, and by how much they differ.

    Results of `evaluate_policy` with the same environment and seed met the same episodes. They are compared episode by
    episode, on those that all of them have, which usually gives narrower intervals. Results with other seeds, and logs
    of their own, are independent. Results that are neither, such as two of one log, are refused.

    Parameters
    ----------
    results
        By name: results of `evaluate_policy`, runs, or evaluators that have a default target.
    level
        Probability that the intervals of all differences hold at once.
    margin
        How much worse is still good enough: verdicts are about the claim that a policy is at most `margin` worse than
        another (see `Comparison`). Default: no verdicts.
    kind
        ``"simultaneous"``: valid for numbers of episodes that were fixed beforehand. ``"anytime"``: valid if you have
        looked before, and stopped or will go on by what you saw. Default: ``"anytime"`` if a result was stopped by a
        rule, as by `until_width`.

    Examples
    --------
    >>> import inferl
    >>> lean = lambda pole: int(pole[2] > 0)
    >>> swing = lambda pole: int(pole[2] + 0.005 * pole[3] > 0)
    >>> new, old = (inferl.evaluate_policy("CartPole-v1", policy) for policy in (swing, lean))
    >>> print(inferl.compare({"new": new, "old": old}, margin=5))
    CartPole-v1: mean return, 95%
      new        54.0 [51.6, 56.4]  100 episodes
      old        42.2 [40.4, 44.0]  100 episodes
    difference, 95%, matched episodes
      new - old  11.8 [9.1, 14.5]   PASS
    best: new
    PASS: new is at most 5 worse than old
    """
    check_level(level)
    if margin is not None:
        check_margin(margin)
    if kind not in KINDS:
        raise KindError(f"kind is {short(kind)}; differences of policies are 'simultaneous' or 'anytime'")
    sides = _sides(results)
    stopped = [side.name for side in sides if side.stopped]
    if kind == "simultaneous" and stopped:
        raise KindError(
            f"{stopped[0]} was stopped by looking at it, so only anytime intervals hold; leave kind out, or evaluate a "
            "fixed number of episodes"
        )
    always = kind == "anytime" or bool(stopped)
    pairs = list(combinations(range(len(sides)), 2))
    matched = {pair for pair in pairs if _matched(*(sides[i] for i in pair))}
    cut = [side.cut([sides[j] for p in matched if i in p for j in p]) for i, side in enumerate(sides)]
    share = share_of(level, len(pairs)) if always else level
    found = [_difference(cut[i], cut[j], (i, j) in matched, share, always) for i, j in pairs]
    apart = [replace(one, level=level) for one in found] if always else jointly(found, _covariance(cut, pairs, matched))
    own = {side.name: side.interval("anytime" if always else None, level) for side in sides}
    return Comparison(
        quantity=_quantity(results, sides),
        policies=own,
        episodes={side.name: side.evaluator.episodes for side in sides},
        differences={(sides[i].name, sides[j].name): one for (i, j), one in zip(pairs, apart, strict=True)},
        pairing="matched" if len(matched) == len(pairs) else "partly matched" if matched else "independent",
        margin=margin,
    )


def share_of(level: float, pairs: int) -> float:
    """Return the level of each of some intervals that hold jointly by a union bound.

    >>> round(share_of(0.95, 10), 4)
    0.995
    """
    return 1 - (1 - level) / pairs


def exact(evaluator: Evaluator) -> bool:
    """Whether all episodes were the same, step for step, so that nothing seems to be random."""
    return any(check.name == "randomness" for check in evaluator.with_pending().source_checks)


@dataclass(frozen=True, eq=False)
class _Side:
    """A policy to compare."""

    name: str
    given: Run | Evaluator
    returns: Floats | None  # of episodes that can be matched

    @property
    def run(self) -> Run | None:
        return self.given if isinstance(self.given, Run) else None

    @property
    def evaluator(self) -> Evaluator:
        return self.given.evaluator if isinstance(self.given, Run) else self.given

    @property
    def stopped(self) -> bool:
        """Whether a rule that looks at the interval has stopped it."""
        return self.run is not None and self.run.kind == "anytime"

    @property
    def seeds(self) -> range | None:
        """Seeds of its episodes; None if they do not follow from a seed, as those of a log."""
        run = self.run
        if run is None or run.command not in PLAYED or "seed" not in run.options:
            return None
        return range(run.options["seed"], run.options["seed"] + run.options.get("streams", 1))

    def interval(self, kind: str | None, level: float) -> Interval:
        if isinstance(self.given, Run):
            return self.given.interval(kind, level)
        return self.given.interval(None, level, kind)

    def reading(self) -> Reading:
        return self.given.reading() if isinstance(self.given, Run) else self.given.read()

    def cut(self, others: list[_Side]) -> _Side:
        """Return this side with the episodes that all matched ones have."""
        if self.returns is None or not others:
            return self
        common = min(len(side.returns) for side in others if side.returns is not None)
        if common == len(self.returns):
            return self
        returns = self.returns[:common]
        return _Side(self.name, Evaluator(DoublyRobust(1)).update(Transitions.from_returns(returns)), returns)


def check_names(policies: Any) -> None:
    """Refuse anything but two or more policies by name."""
    if not isinstance(policies, Mapping) or len(policies) < 2:
        raise SettingError('give two or more policies by name: {"new": ..., "old": ...}')
    for name in policies:
        if not isinstance(name, str) or not name:
            raise SettingError(f"a policy has the name {short(name)}; give a text")


def _sides(results: Any) -> list[_Side]:
    """Turn what a user gave into sides, or say what is wrong with it."""
    check_names(results)
    sides = []
    for name, given in results.items():
        if not isinstance(given, Result | Run | Evaluator):
            raise SettingError(f"{name} is {short(given)}; give a Result of evaluate_policy, a Run or an Evaluator")
        inner = given.run if isinstance(given, Result) else given
        if isinstance(inner, Run) and (inner.policies or isinstance(inner.target, tuple)):
            raise SettingError(f"{name} is a run of several policies or targets; compare runs of one")
        sides.append(_Side(name, inner, _returns(inner)))
    return sides


def _returns(given: Run | Evaluator) -> Floats | None:
    """Return what can be matched: the returns whose mean is the answer."""
    if not isinstance(given, Run) or given.returns is None:
        return None
    if not (isinstance(given.target, str) and given.target == "start"):
        return None
    return given.returns.ended if "value" in given.evaluator.algorithm.named_targets() else None


def _matched(a: _Side, b: _Side) -> bool:
    """Return whether two sides met the same episodes, or are independent; refuse anything else."""
    names = a.name, b.name
    refuse_other_questions(a.evaluator, b.evaluator, names)
    difference_of(a.interval("normal", 0.95).estimand, b.interval("normal", 0.95).estimand, names)
    if a.seeds is not None and b.seeds is not None:
        common = range(max(a.seeds.start, b.seeds.start), min(a.seeds.stop, b.seeds.stop))
        if not common:
            return False
        worlds = [side.run.options.get("env") for side in (a, b) if side.run is not None]
        reason = ""
        if worlds[0] != worlds[1]:
            reason = f"they are of two environments, {worlds[0]} and {worlds[1]}"
        elif a.returns is None or b.returns is None:
            bare = a.name if a.returns is None else b.name
            reason = f"{bare} has no returns of whole episodes with seeds of their own"
        elif not len(a.returns) or not len(b.returns):
            reason = "one of them has no episode yet"
        if reason:
            raise SettingError(
                f"{a.name} and {b.name} both have the seed {common[0]}, so they are not independent, and their "
                f"episodes cannot be matched: {reason}; evaluate one of them with another seed"
            )
        return True
    logs = [_files(side.run) for side in (a, b)]
    same = a.evaluator.n == b.evaluator.n > 0 and a.evaluator.outcomes == b.evaluator.outcomes
    if a.evaluator is b.evaluator or same or logs[0] & logs[1]:
        raise SettingError(
            f"{a.name} and {b.name} saw the same data, so they are not independent; evaluate both policies at once: "
            "with several columns, as in inferl evaluate --ratio a,b, or a Stack of two algorithms"
        )
    return False


def _files(run: Run | None) -> set[str]:
    """Return the logs that a run has read; pipes have no name."""
    given = () if run is None else run.options.get("file", ())
    return {os.fspath(name) for name in np.ravel(given).tolist() if name != "-"}


def _difference(a: _Side, b: _Side, matched: bool, level: float, always: bool) -> Interval:
    """Return the interval of one difference, by itself."""
    one, other = (side.interval("normal", level) for side in (a, b))
    if matched:
        assert a.returns is not None
        assert b.returns is not None
        evaluator = Evaluator(DoublyRobust(1)).update(Transitions.from_returns(a.returns - b.returns))
        found = evaluator.interval(None, level, "anytime" if always else "normal")
        constant = exact(a.evaluator) and exact(b.evaluator) and found.standard_error == 0
        about = difference_of(one.estimand, other.estimand)
        return replace(found, n=one.n + other.n, notes=() if constant else found.notes, estimand=about)
    found = welch(one, other)
    if always:
        found = anytime(found, grown_together([(side.evaluator.method, side.reading()) for side in (a, b)]))
    notes = tuple(f"{side.name}: {note}" for side, part in ((a, one), (b, other)) for note in part.notes)
    return replace(found, notes=notes)


def _covariance(sides: list[_Side], pairs: list[tuple[int, int]], matched: set[tuple[int, int]]) -> Floats:
    """Return the covariance of the estimated differences (m, m): policies are correlated if they are matched."""
    errors = [float(side.interval("normal", 0.95).standard_error) for side in sides]
    between = np.diag([error**2 if np.isfinite(error) else 0.0 for error in errors])
    for i, j in matched:
        one, other = sides[i].returns, sides[j].returns
        assert one is not None
        if len(one) > 1:
            between[i, j] = between[j, i] = np.cov(one, other)[0, 1] / len(one)
    contrasts = np.zeros((len(pairs), len(sides)))
    for row, (i, j) in enumerate(pairs):
        contrasts[row, i], contrasts[row, j] = 1, -1
    return np.asarray(contrasts @ between @ contrasts.T)


def _quantity(results: Mapping[str, Any], sides: list[_Side]) -> str:
    """Return what was estimated, and where."""
    worlds = dict.fromkeys(str(side.run.options["env"]) for side in sides if side.run and "env" in side.run.options)
    said = {given.quantity for given in results.values() if isinstance(given, Result)}
    complete = len(said) == 1 and all(isinstance(given, Result) for given in results.values())
    about = said.pop() if complete else max((side.interval("normal", 0.95).estimand for side in sides), key=len)
    return f"{', '.join(worlds)}: {about}" if worlds else about
