"""The projected Bellman equation of a finite MDP, and the exact covariance of its scores."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from inferl.environments.markov import LongRun
from inferl.environments.outcomes import TOLERANCE, Outcomes
from inferl.errors import SettingError

__all__ = ["Projection", "ScoreCovariance"]


class ScoreCovariance(NamedTuple):
    """Exact second moments of the TD(0) scores f_t at the fixed point; see :meth:`FiniteMDP.score_covariance`.

    The estimate from n steps has the asymptotic covariance A⁻¹ Q A⁻ᵀ / n, A = ``matrix`` and Q = ``long_run``.

    Examples
    --------
    >>> import numpy as np
    >>> from inferl.environments import two_state_chain
    >>> mdp, features = two_state_chain(0.5)
    >>> long_run, lag_zero, matrix, theta = mdp.score_covariance(features, np.ones((2, 1)), None, 0.9)
    >>> print(f"standard error from 10,000 steps: {np.sqrt(long_run / 10_000).item() / matrix.item():.3f}")
    standard error from 10,000 steps: 0.173
    """

    long_run: NDArray[np.float64]  # (d, d), the sum of E[f_0 f_k'] over all lags k
    lag_zero: NDArray[np.float64]  # (d, d), E[f_0 f_0']
    matrix: NDArray[np.float64]  # (d, d), A = Phi' Xi (I - P_g) Phi
    fixed_point: NDArray[np.float64]  # (d,), A theta = b


class Projection:
    """A theta = b with A = Phi' Xi (I - P_g) Phi and b = Phi' Xi r_pi, for one pair of policies.

    Parameters
    ----------
    outcomes
        The MDP.
    phi
        (S, d) features, 0 at terminal states: a step into one has no next value.
    target, behaviour
        (S, A) probabilities.
    chain
        Stationary law and Poisson solver of the behaviour chain.
    discount
        gamma.
    """

    def __init__(
        self,
        outcomes: Outcomes,
        phi: NDArray[np.float64],
        target: NDArray[np.float64],
        behaviour: NDArray[np.float64],
        chain: LongRun,
        discount: float,
    ) -> None:
        for state, action in np.argwhere((target > 0) & (behaviour == 0) & (chain.law > 0)[:, None])[:1]:
            raise SettingError(
                f"the target takes action {action} in state {state} and the behaviour never does, so its data carry "
                "no information about the target there; give the behaviour a positive probability"
            )
        self.outcomes, self.phi, self.chain, self.discount = outcomes, phi, chain, discount
        self.target, self.behaviour = target, behaviour
        weights = outcomes.weights(target)
        rewards = np.bincount(outcomes.states, weights * outcomes.rewards, len(phi))
        weighted = chain.law[:, None] * phi
        self.matrix = weighted.T @ (phi - discount * (outcomes.kernel(weights, len(phi)) @ phi))
        self.vector = weighted.T @ rewards

    def solve(self) -> NDArray[np.float64]:
        """The solution theta, of least norm if it is not unique."""
        # A feature that is always 0 has a row and a column of zeros: its coefficient is 0. Rows are divided by the mean
        # size of their feature, or a rare state would look like a missing one.
        seen = self.chain.law @ np.abs(self.phi)
        index = np.flatnonzero(seen)
        matrix = self.matrix[np.ix_(index, index)] / seen[index, None]
        vector = self.vector[index] / seen[index]
        theta = np.zeros(seen.size)
        left, sizes, right = np.linalg.svd(matrix)
        # Relative to the features, not to the matrix: with one feature, rounding errors would look like full rank.
        nonzero = sizes > 1e-12 * np.abs(self.phi).max(initial=0.0)
        if nonzero.all():
            theta[index] = np.linalg.solve(matrix, vector)
            return theta
        theta[index] = right[nonzero].T @ ((left[:, nonzero].T @ vector) / sizes[nonzero])
        if np.abs(matrix @ theta[index] - vector).max() > TOLERANCE * max(1.0, np.abs(vector).max()):
            raise SettingError(
                f"the projected Bellman equation has no solution: its matrix has rank {nonzero.sum()}, "
                f"not {nonzero.size}; drop features that are combinations of others, or use a discount below 1"
            )
        return theta

    def score_covariance(self, initial: NDArray[np.float64], terminal: NDArray[np.bool_]) -> ScoreCovariance:
        """Covariances of f = rho phi (r + g phi' theta - phi theta) at the solution theta."""
        phi, law, n_states = self.phi, self.chain.law, len(self.phi)
        states, actions, next_states, probabilities, rewards = self.outcomes
        theta = self.solve()
        values = phi @ theta
        errors = rewards + self.discount * values[next_states] - values[states]
        acting = self.behaviour[states, actions]
        ratios = np.divide(self.target[states, actions], acting, out=np.zeros_like(acting), where=acting > 0)
        scores = ratios * errors  # f = score * phi
        chances = acting * probabilities

        lag_zero = phi.T @ (np.bincount(states, law[states] * chances * scores**2, n_states)[:, None] * phi)
        means = np.bincount(states, chances * scores, n_states)[:, None] * phi
        # E[f_0 ; s_1 = s]
        arrivals = self.outcomes.restarted(law[states] * chances * scores, initial, terminal).T @ phi
        later = arrivals.T @ self.chain.poisson(means)
        return ScoreCovariance(lag_zero + later + later.T, lag_zero, self.matrix, theta)
