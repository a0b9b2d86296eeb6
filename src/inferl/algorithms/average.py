"""AverageReward: the long-run average reward per step of a policy, and how much better a state is than the average."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from inferl.algorithms.base import Algorithm, Carry, count, lengths, single, transitions_of
from inferl.data.arrays import Floats, Integers
from inferl.data.increments import Increments
from inferl.data.invariants import demand
from inferl.data.streams import Clock, Steps
from inferl.data.transitions import Transitions
from inferl.data.vectors import Sparse, Vectors, add, dense, embed, subtract, terms
from inferl.errors import DataError, TargetError

__all__ = ["AverageReward"]


@dataclass(frozen=True, repr=False)
class AverageReward(Algorithm):
    r"""The average reward per step of the behaviour policy (the gain), and with `bias` the differential values.

    .. math:: E[r - g] = 0, \qquad E[\phi (r - g + \phi'^\top\theta - \phi^\top\theta)] = 0, \qquad
        E[\phi^\top\theta + m] = 0

    The bias of a state, its differential value, is how much more than the average is earned from there on:
    phi(s) . theta + m. Its mean over all steps is 0, so it is known even where features contain a constant.
    Discounts do not matter. With least squares, the standard error accounts for the dependence between steps.

    Parameters
    ----------
    n_features
        Length of the feature vectors of the transitions, or number of rows of the table.
    bias
        Estimate the bias too, in one linear system with the gain; the parameters are theta, g and m. Otherwise features
        are not used. The stream must not contain terminations: the state after one is not known.

    Examples
    --------
    A chain of two states pays 1 on entering the one and -1 on entering the other; it changes in one step of ten. The
    average is 0, the bias 4 or -4.

    >>> from inferl import AverageReward, Evaluator, environments
    >>> chain, _ = environments.two_state_chain(correlation=0.8)
    >>> data = chain.sample(np.ones((2, 1)), 20_000, seed=1).transitions(discount=0.9)
    >>> evaluator = Evaluator(AverageReward(2, bias=True)).update(data)
    >>> print(evaluator.interval())
    -0.010 [-0.056, 0.036] 95% pointwise, 20,000 transitions
    >>> print(evaluator.interval(1))
    4.06 [3.79, 4.32] 95% pointwise, 20,000 transitions
    """

    features_seen: int
    bias: bool

    def __init__(self, n_features: int, bias: bool = False) -> None:
        object.__setattr__(self, "features_seen", count(n_features, "AverageReward"))
        object.__setattr__(self, "bias", bool(bias))
        object.__setattr__(self, "dimension", self.features_seen + 2 if bias else 1)

    def verify(self) -> None:
        """Raise for fields that the constructor would not produce."""
        made = AverageReward(self.features_seen, self.bias)
        demand(self.dimension == made.dimension, f"no constructor makes {self}")

    def __repr__(self) -> str:
        return f"AverageReward({self.features_seen}{', bias=True' if self.bias else ''})"

    @property
    def n_features(self) -> int:
        """Length of the features, which the gain alone does not use."""
        return self.features_seen

    @property
    def n_terms(self) -> int:
        """One for each equation."""
        return 3 if self.bias else 1

    @property
    def outputs(self) -> Integers:
        """With `bias`, the index of m."""
        return np.array([self.dimension - 1] if self.bias else [], np.int64)

    @property
    def n_values(self) -> int:
        """Length of a vector of features, or 1."""
        return self.features_seen if self.bias else 1

    def named_targets(self) -> dict[str, Floats]:
        """Return the average."""
        return {"average": np.eye(self.dimension)[-2:-1] if self.bias else np.ones((1, 1))}

    def of_features(self, vectors: Floats) -> Floats:
        """Convert features (k, d) to targets: their bias."""
        return np.hstack([vectors, np.zeros((len(vectors), 1)), np.ones((len(vectors), 1))]) if self.bias else vectors

    def state_vector(self, state: int) -> Floats:
        """Return the target of a state's bias; without `bias`, raise: the average is not a property of a state."""
        if not self.bias:
            raise TargetError(
                f"target is state {state}, but the average reward is that of all steps; leave the target out, or "
                "estimate the bias of states, by bias=True"
            )
        if not 0 <= state < self.features_seen:
            raise TargetError(f"state {state} is outside the table, whose rows are 0 to {self.features_seen - 1}")
        return np.asarray(self.of_features(np.eye(self.features_seen)[state : state + 1])[0])

    def check(self, data: Transitions | Increments) -> None:
        """Raise for ratios: they do not give the state distribution of another policy; and for ends, with `bias`."""
        super().check(data)
        if isinstance(data, Transitions) and (data.ratios != 1).any():
            row = int(np.flatnonzero(data.ratios != 1)[0])
            raise DataError(
                f"row {row}: ratio is {data.ratios[row]}; the average reward is that of the behaviour policy: ratios "
                "of actions do not correct the distribution of states; leave ratios out"
            )
        if self.bias and isinstance(data, Transitions) and (data.discounts == 0).any():
            row = int(np.flatnonzero(data.discounts == 0)[0])
            raise DataError(
                f"row {row}: the discount is 0; the bias needs a stream that goes on, and which state follows a "
                "termination is not known: give the state after the reset and any other discount, or leave bias out"
            )

    def increments(self, steps: Steps, carry: Carry) -> tuple[Increments, Clock, Carry]:
        """Return a rank-one term for each equation."""
        data = transitions_of(steps)
        if not self.bias:
            one = np.ones((len(data), 1))
            return single(one, one, data.rewards, one), steps.clock, carry
        d, p, sparse = self.features_seen, self.dimension, data.tabular
        phi, after = (_embedded(x, d, p) for x in (data.features, data.next_features))
        gain, mean = (_unit(len(data), k, p, sparse) for k in (d, d + 1))
        minus = subtract(_unit(len(data), d, p, sparse), after)  # gain - phi'
        u, v = [phi, gain, mean], [add(phi, minus), gain, add(phi, mean)]
        c = np.stack([data.rewards, data.rewards, np.zeros(len(data))], axis=1)
        return Increments(terms(u), terms(v), c, np.zeros(p), lengths(phi) + 1.0), steps.clock, carry


def _embedded(features: Floats | Integers, d: int, p: int) -> Vectors:
    if features.ndim == 1:
        return Sparse(features.astype(np.int64)[:, None], np.ones((len(features), 1)), p)
    return embed(features.astype(np.float64, copy=False), 0, p)


def _unit(n: int, index: int, p: int, sparse: bool) -> Vectors:
    """Unit vectors (n, p)."""
    x = Sparse(np.full((n, 1), index), np.ones((n, 1)), p)
    return x if sparse else dense(x)
