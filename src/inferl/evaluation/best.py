"""BestSoFar: which of the policies that a training passes through is the best, without being fooled by luck."""

from __future__ import annotations

import numpy as np

from inferl.comparison import difference
from inferl.data.arrays import is_number, short
from inferl.errors import SettingError
from inferl.evaluation.result import Result
from inferl.evaluator import Evaluator
from inferl.interval import Interval, check_level, unseen_share

__all__ = ["BestSoFar"]


class BestSoFar:
    """Keeps the best of the policies that are evaluated one after the other, as the models of a training are.

    The largest of many estimates is usually a lucky one. So a policy replaces the best so far only if the interval of
    the difference to it lies above 0. Evaluations are many, and each is a chance to be wrong: evaluation k uses the
    level ``1 - (1 - level) / (k (k + 1))``. These chances add up to ``1 - level``, however many evaluations there are.
    Within a whole training, the probability that a policy that is no better ever replaces the best, or that `is_above`
    ever says so wrongly, is then at most ``1 - level``, if the intervals are valid.

    Every evaluation must use fresh seeds. If all used the same episodes, differences would be narrower, but training
    would be steered towards the policy that suits just these episodes, and no interval accounts for that.

    Parameters
    ----------
    level
        Probability that no decision of the whole training is wrong.

    Attributes
    ----------
    evaluations
        How many there were.
    best
        The evaluator of the best policy, or None.
    difference
        Interval of the latest policy minus the best before it, at the level of its evaluation; None if there was
        nothing to compare, or if the estimate is not larger.

    Examples
    --------
    >>> import inferl
    >>> best = BestSoFar()
    >>> for step, damping in enumerate((0.0, 0.0, 0.0, 0.01)):  # a training that learns nothing at first
    ...     policy = lambda pole: int(pole[2] + damping * pole[3] > 0)
    ...     result = inferl.evaluate_policy("CartPole-v1", policy, episodes=50, seed=step)
    ...     print(f"{result.interval.estimate:.1f} {best.update(result)}")
    41.4 True
    41.1 False
    40.5 False
    89.0 True
    >>> print(best.difference)  # at the level of the fourth evaluation
    48 [34, 61] 99.75% pointwise, 6,517 transitions
    """

    def __init__(self, level: float = 0.95) -> None:
        check_level(level)
        self.level = level
        self.evaluations = 0
        self.best: Evaluator | None = None
        self.difference: Interval | None = None
        self._latest: Evaluator | None = None
        self._estimate = {"latest": -np.inf, "best": -np.inf}
        self._anytime = {"latest": False, "best": False}
        self._smallest = np.inf  # return of all evaluations
        self._seeds: set[int] = set()

    @property
    def level_now(self) -> float:
        """Level of the latest evaluation's decisions.

        >>> best = BestSoFar(0.95)
        >>> for _ in range(3):
        ...     best.evaluations += 1
        ...     print(f"{best.level_now:.4f}")
        0.9750
        0.9917
        0.9958
        """
        return 1 - (1 - self.level) / (self.evaluations * (self.evaluations + 1))

    def update(self, evaluated: Evaluator | Result, *, anytime: bool | None = None) -> bool:
        """Take the evaluation of the next policy; return whether it is the new best. The first one always is.

        Parameters
        ----------
        evaluated
            What `evaluate_policy` returned, or an evaluator whose data are independent of all before.
        anytime
            Whether the number of episodes depended on what was seen, as with `until_width`. Default: for a `Result`
            as its interval says, for an evaluator False.
        """
        if isinstance(evaluated, Result):
            self._refuse_seed(evaluated.run.options.get("seed"))
            anytime = evaluated.interval.kind == "anytime" if anytime is None else anytime
            evaluated = evaluated.evaluator
        if not getattr(evaluated, "n", 0):
            raise SettingError(
                f"the evaluation is {short(evaluated)}, without data; give the result of evaluate_policy, or an "
                "evaluator that was updated"
            )
        estimate = evaluated.estimate()
        self.evaluations += 1
        self._latest, self._estimate["latest"], self._anytime["latest"] = evaluated, estimate, bool(anytime)
        self._smallest = min(self._smallest, float(evaluated.with_pending().episodes.earned[0]))
        self.difference = None
        if self.best is not None:
            if estimate <= self._estimate["best"]:
                return False
            kind = "anytime" if any(self._anytime.values()) else "normal"
            self.difference = difference(evaluated, self.best, None, self.level_now, kind, paired=False)
            if not self.difference.lower > 0:
                return False
        self.best, self._estimate["best"], self._anytime["best"] = evaluated, estimate, bool(anytime)
        return True

    def is_above(self, threshold: float) -> bool:
        """Return whether the latest policy is known to earn more than a threshold.

        The lower bound alone would be too high: 50 successes in a row do not show that a policy never fails, and where
        failures are rare, the standard error rests on few of them. So episodes of a kind that has not been seen are
        taken to be as frequent as the data allow, and as bad as the worst return of all evaluations so far. Like the
        second term of Bernstein's inequality, this is of order 1 / n, for n episodes. Before any return was worse,
        nothing is known.

        >>> from inferl import DoublyRobust, Transitions
        >>> best = BestSoFar()
        >>> for successes in ([0.0, 1.0] * 50, [1.0] * 100):
        ...     new = best.update(Evaluator(DoublyRobust(1)).update(Transitions.from_returns(successes)))
        >>> best.is_above(0.9), best.is_above(0.99)
        (True, False)
        """
        if not is_number(threshold):
            raise SettingError(f"the threshold is {short(threshold)}; it must be a number")
        if self._latest is None or self._estimate["latest"] <= threshold:
            return False
        interval = self._latest.interval(None, self.level_now, "anytime" if self._anytime["latest"] else "normal")
        if not interval.estimate > self._smallest:
            return False
        share = unseen_share(self._latest.episodes, (1 - self.level_now) / 2)
        return bool(interval.lower - share * (interval.estimate - self._smallest) > threshold)

    def _refuse_seed(self, seed: int | None) -> None:
        if seed in self._seeds:
            raise SettingError(
                f"an earlier evaluation had the seed {seed}, too, so it met the same episodes; give each its own, as "
                "seed=step"
            )
        if seed is not None:
            self._seeds.add(seed)
