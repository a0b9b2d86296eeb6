"""AverageReward: what a policy earns in a step, in the long run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from inferl.algorithms.base import Algorithm, Carry, count, single, transitions_of
from inferl.data.arrays import Floats
from inferl.data.increments import Increments
from inferl.data.invariants import demand
from inferl.data.streams import Clock, Steps
from inferl.data.transitions import Transitions
from inferl.errors import DataError, TargetError

__all__ = ["AverageReward"]


@dataclass(frozen=True, repr=False)
class AverageReward(Algorithm):
    r"""The average reward per step of a policy that acts itself; features and discounts do not matter.

    .. math:: u = 1, \quad v = 1, \quad c = r

    Least squares allows for steps that depend on each other, which a standard error of independent rewards does not.

    Parameters
    ----------
    n_features
        Length of the features, or number of rows of the table, of the transitions that it is fed.

    Examples
    --------
    >>> from inferl import AverageReward, Evaluator, Transitions
    >>> coin = np.random.default_rng(1).integers(2, size=2000)
    >>> evaluator = Evaluator(AverageReward(1)).update(Transitions(0 * coin, coin, 0 * coin, 0.9))
    >>> print(evaluator.interval())
    0.507 [0.484, 0.530] 95% pointwise, 2,000 transitions
    """

    features_seen: int

    def __init__(self, n_features: int) -> None:
        object.__setattr__(self, "dimension", 1)
        object.__setattr__(self, "features_seen", count(n_features, "AverageReward"))

    def verify(self) -> None:
        """Refuse what the constructor would not make."""
        demand(self.dimension == AverageReward(self.features_seen).dimension, f"no constructor makes {self}")

    def __repr__(self) -> str:
        return f"AverageReward({self.features_seen})"

    @property
    def n_features(self) -> int:
        """Length of the features, which are not looked at."""
        return self.features_seen

    def named_targets(self) -> dict[str, Floats]:
        """Return the only number that there is."""
        return {"average": np.ones((1, 1))}

    def state_vector(self, state: int) -> Floats:
        """A state has no average of its own."""
        raise TargetError(f"the average reward is that of all steps, not of state {state}; ask for no target")

    def check(self, data: Transitions | Increments) -> None:
        """Refuse ratios: how often another policy would be where is not known."""
        super().check(data)
        if isinstance(data, Transitions) and (data.ratios != 1).any():
            row = int(np.flatnonzero(data.ratios != 1)[0])
            raise DataError(
                f"row {row}: ratio is {data.ratios[row]}; the average reward is that of the policy that acts, as "
                "nothing tells how often another would visit which state: leave ratios out"
            )

    def increments(self, steps: Steps, carry: Carry) -> tuple[Increments, Clock, Carry]:
        """Return one rank-one term a step."""
        data = transitions_of(steps)
        one = np.ones((len(data), 1))
        return single(one, one, data.rewards, one), steps.clock, carry
