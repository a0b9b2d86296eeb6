"""AverageReward: the long-run average reward per step of a policy."""

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
    r"""The average reward per step of the behaviour policy; features and discounts do not matter.

    .. math:: u = 1, \quad v = 1, \quad c = r

    With least squares, the standard error accounts for the dependence between steps.

    Parameters
    ----------
    n_features
        Length of the feature vectors of the transitions, or number of rows of the table.

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
        """Raise for fields that the constructor would not produce."""
        demand(self.dimension == AverageReward(self.features_seen).dimension, f"no constructor makes {self}")

    def __repr__(self) -> str:
        return f"AverageReward({self.features_seen})"

    @property
    def n_features(self) -> int:
        """Length of the features, which are not used."""
        return self.features_seen

    def named_targets(self) -> dict[str, Floats]:
        """Return the only target, the average."""
        return {"average": np.ones((1, 1))}

    def state_vector(self, state: int) -> Floats:
        """Raise: the average is not a property of a state."""
        raise TargetError(f"target is state {state}, but the average reward is that of all steps; leave the target out")

    def check(self, data: Transitions | Increments) -> None:
        """Raise for ratios: they do not give the state distribution of another policy."""
        super().check(data)
        if isinstance(data, Transitions) and (data.ratios != 1).any():
            row = int(np.flatnonzero(data.ratios != 1)[0])
            raise DataError(
                f"row {row}: ratio is {data.ratios[row]}; the average reward is that of the behaviour policy: ratios "
                "of actions do not correct the distribution of states; leave ratios out"
            )

    def increments(self, steps: Steps, carry: Carry) -> tuple[Increments, Clock, Carry]:
        """Return one rank-one term per step."""
        data = transitions_of(steps)
        one = np.ones((len(data), 1))
        return single(one, one, data.rewards, one), steps.clock, carry
