"""Finite Markov decision processes, with exact values and exact covariances.

The estimands of an interval (the value, the projected fixed point) and its correct width (from the long-run covariance
of the scores) are computed by linear algebra, not by simulation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.sparse.linalg import splu

from inferl.data.objectives import Objectives
from inferl.environments.markov import LongRun, long_run, reached
from inferl.environments.outcomes import (
    TOLERANCE,
    Matrices,
    Outcomes,
    as_law,
    as_mask,
    as_matrices,
    read_toy_text,
    tabulate,
)
from inferl.environments.projection import Projection, ScoreCovariance
from inferl.environments.trajectory import Seed, Trajectory, simulate
from inferl.errors import DataError, SettingError, ShapeError

__all__ = ["FiniteMDP", "GainAndBias"]


class GainAndBias(NamedTuple):
    """The average reward of a policy, the bias of each state, and the long-run variance of the rewards.

    The mean of the rewards of n steps has the standard error sqrt(variance / n), asymptotically.

    >>> from inferl.environments import two_state_chain
    >>> chain, _ = two_state_chain(0.8)
    >>> f"{np.sqrt(chain.average_reward(np.ones((2, 1))).variance / 10_000):.3f}"
    '0.030'
    """

    gain: float
    bias: NDArray[np.float64]  # (S,)
    variance: float


@dataclass(frozen=True, init=False, eq=False, repr=False)
class FiniteMDP:
    """A finite Markov decision process (P, R, initial law, terminal states).

    Entering a terminal state ends the episode: the discount of that step is 0, and the next step starts from the
    initial law. A policy is an (S, A) array of probabilities; its rows at terminal states do not matter.

    Parameters
    ----------
    transition
        P(s' given s, a) as an (A, S, S) array, or one sparse (S, S) matrix per action. Rows of terminal states are
        ignored. Sparse input is never made dense.
    reward
        (A, S, S), or one sparse (S, S) matrix per action, or (S,): paid on entering a state.
    initial
        Law of the first state of an episode, (S,), or the number of the only one.
    terminal
        (S,) mask, or the numbers of the terminal states.

    Attributes
    ----------
    outcomes
        The possible transitions with probabilities and rewards, as one flat table.
    initial
        (S,) probabilities.
    terminal
        (S,) mask.
    n_actions
        Number of actions.

    Examples
    --------
    A coin is tossed until it shows heads (state 1), at a cost of 1 per toss; the expected number of tosses is 2.

    >>> import numpy as np
    >>> mdp = FiniteMDP(transition=[[[0.5, 0.5], [0, 1]]], reward=[-1, -1], initial=0, terminal=[1])
    >>> mdp
    FiniteMDP(2 states, 1 action, 1 terminal)
    >>> mdp.values(np.ones((2, 1)), discount=1.0).tolist()
    [-2.0, 0.0]
    """

    outcomes: Outcomes
    initial: NDArray[np.float64]
    terminal: NDArray[np.bool_]
    n_actions: int

    def __init__(self, transition: Matrices, reward: Matrices, initial: ArrayLike, terminal: ArrayLike = ()) -> None:
        matrices = as_matrices(transition, "transition")
        ends = as_mask(terminal, matrices[0].shape[0])
        object.__setattr__(self, "outcomes", tabulate(matrices, reward, ends))
        object.__setattr__(self, "initial", as_law(initial, ends))
        object.__setattr__(self, "terminal", ends)
        object.__setattr__(self, "n_actions", len(matrices))

    @classmethod
    def from_toy_text(cls, env: Any) -> FiniteMDP:
        """The exact model of a Gymnasium toy-text environment (FrozenLake, Taxi, CliffWalking), without time limit.

        Parameters
        ----------
        env
            An environment whose ``unwrapped`` has ``P`` and ``initial_state_distrib``.

        Examples
        --------
        >>> import gymnasium
        >>> mdp = FiniteMDP.from_toy_text(gymnasium.make("FrozenLake-v1", map_name="8x8"))
        >>> mdp
        FiniteMDP(64 states, 4 actions, 11 terminal)
        >>> print(f"{mdp.values(mdp.optimal_policy(0.99), 0.99)[0]:.5f}")
        0.41464
        """
        world = env.unwrapped
        if not (hasattr(world, "P") and hasattr(world, "initial_state_distrib")):
            raise SettingError(
                f"{type(world).__name__} has no transition table (P and initial_state_distrib); "
                "only toy-text environments such as FrozenLake, Taxi and CliffWalking have one"
            )
        initial = np.asarray(world.initial_state_distrib, dtype=np.float64)
        transition, reward, terminal = read_toy_text(world.P, initial)
        return cls(transition, reward, initial, np.array(terminal, dtype=np.int64))

    def __repr__(self) -> str:
        actions = "action" if self.n_actions == 1 else "actions"
        return f"FiniteMDP({self.n_states} states, {self.n_actions} {actions}, {int(self.terminal.sum())} terminal)"

    @property
    def n_states(self) -> int:
        """Number of states, terminal ones included."""
        return int(self.terminal.size)

    def values(self, policy: ArrayLike, discount: float) -> NDArray[np.float64]:
        """Exact values V = (I - P_g)⁻¹ r_pi of a policy, (S,); 0 at terminal states.

        A discount of 1 is allowed if the policy ends the episode with probability 1 from every state.

        Examples
        --------
        >>> import numpy as np
        >>> from inferl.environments import random_walk
        >>> mdp, _ = random_walk(3)
        >>> mdp.values(np.ones((5, 1)), discount=1.0).round(12).tolist()
        [0.0, -3.0, -4.0, -3.0, 0.0]
        """
        weights = self.outcomes.weights(self._policy(policy))
        kernel = _checked(discount) * self.outcomes.kernel(weights, self.n_states)
        if discount == 1:
            endless = ~self.terminal & ~reached(kernel.T, self.terminal)
            for state in np.flatnonzero(endless)[:1]:
                raise SettingError(
                    f"from state {state} this policy never ends the episode, so it has no value at discount 1; "
                    "use a discount below 1"
                )
        live = np.flatnonzero(~self.terminal)
        rewards = np.bincount(self.outcomes.states, weights * self.outcomes.rewards, self.n_states)
        values = np.zeros(self.n_states)
        values[live] = splu((sparse.diags_array(np.ones(live.size)) - kernel[live][:, live]).tocsc()).solve(
            rewards[live]
        )
        return values

    def action_values(self, policy: ArrayLike, discount: float) -> NDArray[np.float64]:
        """Exact action values Q(s, a) = E[r + g V(s') given s, a] of a policy, (S, A); 0 at terminal states.

        Examples
        --------
        >>> import numpy as np
        >>> from inferl.environments import two_state_chain
        >>> mdp, _ = two_state_chain(0.0)
        >>> mdp.action_values(np.ones((2, 1)), discount=0.9).round(12).tolist()
        [[0.0], [0.0]]
        """
        values = self.values(policy, discount)
        states, actions, next_states, probabilities, rewards = self.outcomes
        gains = probabilities * (rewards + discount * values[next_states])
        pairs = states * self.n_actions + actions
        sums = np.bincount(pairs, gains, self.n_states * self.n_actions)
        return sums.reshape(self.n_states, self.n_actions).astype(np.float64)

    def optimal_policy(self, discount: float) -> NDArray[np.float64]:
        """The best deterministic policy as one-hot rows, (S, A), by policy iteration: pi(s) = argmax_a Q^pi(s, a).

        Actions whose values differ by less than 1e-12 (relative) are tied, and the lowest one is chosen. The discount
        must be below 1: without discounting, a policy that never ends may tie with one that does.

        Examples
        --------
        >>> mdp = FiniteMDP(transition=[[[1, 0], [0, 1]], [[0, 1], [1, 0]]], reward=[0, 1], initial=0)
        >>> mdp.optimal_policy(0.9).tolist()
        [[0.0, 1.0], [1.0, 0.0]]
        """
        if _checked(discount) == 1:
            raise DataError("discount is 1; optimal_policy needs a discount below 1, such as 0.99")
        choice = np.zeros(self.n_states, dtype=np.int64)
        seen: set[bytes] = set()
        # Stop when a policy recurs: the same one twice, or a cycle between policies that are equal up to rounding.
        while choice.tobytes() not in seen:
            seen.add(choice.tobytes())
            gains = self.action_values(np.eye(self.n_actions)[choice], discount)
            best = gains.max(axis=1, keepdims=True)
            choice = np.argmax(gains >= best - 1e-12 * np.abs(best), axis=1)
        return np.eye(self.n_actions)[choice]

    def stationary(self, policy: ArrayLike) -> NDArray[np.float64]:
        """The stationary law mu = mu P of the current state s_t, with restarts at the ends of episodes, (S,).

        Terminal states are never current: a step into one leads to a draw of the initial law. Transient and unreachable
        states have probability 0.

        Examples
        --------
        >>> import numpy as np
        >>> from inferl.environments import random_walk
        >>> mdp, _ = random_walk(3)
        >>> mdp.stationary(np.ones((5, 1))).round(12).tolist()
        [0.0, 0.25, 0.5, 0.25, 0.0]
        """
        return self._long_run(self._policy(policy)).law

    def average_reward(self, policy: ArrayLike) -> GainAndBias:
        """The long-run average reward per step of a policy, with restarts at the ends of episodes, and the bias.

        The bias solves Poisson's equation h = r_pi - g + P h with mean 0 under the stationary law: it is how much more
        than the average is earned from a state on. It is 0 in states that the policy never visits, or leaves for good.

        Examples
        --------
        >>> import numpy as np
        >>> from inferl.environments import two_state_chain
        >>> gain, bias, variance = two_state_chain(0.8)[0].average_reward(np.ones((2, 1)))
        >>> print(f"{gain:.1f} {bias.round(6).tolist()} {variance:.1f}")
        0.0 [-4.0, 4.0] 9.0
        """
        weights = self.outcomes.weights(self._policy(policy))
        chain = self._long_run(self._policy(policy))
        states, _, next_states, _, rewards = self.outcomes
        means = np.bincount(states, weights * rewards, self.n_states)
        gain = float(chain.law @ means)
        excess = np.where(chain.law > 0, means - gain, 0.0)
        solved = chain.poisson(excess[:, None])[:, 0]
        bias = np.where(chain.law > 0, solved - chain.law @ solved, 0.0)
        after = np.where(self.terminal, self.initial @ bias, bias)  # the state after an end is a new start
        surprises = rewards - gain + after[next_states] - bias[states]
        return GainAndBias(gain, bias, float(np.sum(chain.law[states] * weights * surprises**2)))

    def relaxation_time(self, policy: ArrayLike) -> float:
        """Relaxation time of the chain of a policy, in steps: the largest Re 1 / (1 - eigenvalue of P).

        >>> from inferl.environments import two_state_chain
        >>> round(two_state_chain(0.8)[0].relaxation_time(np.ones((2, 1))), 9)
        5.0
        """
        return self._long_run(self._policy(policy)).relaxation_time()

    def fixed_point(
        self,
        features: ArrayLike,
        target: ArrayLike,
        behaviour: ArrayLike | None = None,
        discount: float = 1.0,
    ) -> NDArray[np.float64]:
        """Solve the projected Bellman equation: A theta = b, A = Phi' Xi (I - P_g) Phi, b = Phi' Xi r_pi.

        P_g and r_pi are those of the target policy, Xi is the stationary law of the behaviour chain. If A is singular
        but the equation has solutions (a feature that is always 0), the one of least norm is returned.

        Parameters
        ----------
        features
            Phi, (S, d): row s the features of state s; rows of terminal states do not matter.
        target
            The policy that is evaluated.
        behaviour
            The policy that generates the data; None: the target.
        discount
            In [0, 1]; 1 for undiscounted episodes.

        Examples
        --------
        >>> from inferl.environments import random_mdp
        >>> problem = random_mdp(seed=0)
        >>> theta = problem.mdp.fixed_point(problem.features, problem.target, problem.behaviour, problem.discount)
        >>> bool(abs(theta - problem.theta).max() < 1e-10)
        True
        """
        return self._projection(features, target, behaviour, discount).solve()

    def objectives(
        self,
        features: ArrayLike,
        target: ArrayLike,
        behaviour: ArrayLike | None = None,
        discount: float = 1.0,
    ) -> Objectives:
        """The MSPBE and the NEU of any parameters, exactly; both are 0 at the :meth:`fixed_point`.

        Parameters are those of :meth:`fixed_point`.

        Examples
        --------
        >>> from inferl.environments import random_mdp
        >>> problem = random_mdp(seed=0)
        >>> exact = problem.mdp.objectives(problem.features, problem.target, problem.behaviour, problem.discount)
        >>> print(f"{exact.mspbe(problem.theta):.4f} {exact.mspbe(0 * problem.theta):.4f}")
        0.0000 0.5760
        """
        projection = self._projection(features, target, behaviour, discount)
        moments = projection.phi.T @ (projection.chain.law[:, None] * projection.phi)
        return Objectives(projection.matrix, projection.vector, moments)

    def score_covariance(
        self,
        features: ArrayLike,
        target: ArrayLike,
        behaviour: ArrayLike | None = None,
        discount: float = 1.0,
    ) -> ScoreCovariance:
        """Exact covariances of the scores f_t = rho_t (r + g theta . phi' - theta . phi_t) phi_t at the fixed point.

        With m(s) = E[f_0 given s_0 = s] and x a solution of Poisson's equation (I - P) x = m of the behaviour chain,
        the covariances at all later lags add up to G = E[f_0 x(s_1)'], and the long-run covariance is
        E[f f'] + G + G'. (For a periodic chain the sum over lags is a Cesàro sum.)

        Parameters are those of :meth:`fixed_point`.

        Examples
        --------
        >>> import numpy as np
        >>> from inferl.environments import two_state_chain
        >>> mdp, features = two_state_chain(0.8)
        >>> covariance = mdp.score_covariance(features, np.ones((2, 1)), None, 0.9)
        >>> print(f"{covariance.lag_zero.item():.1f} {covariance.long_run.item():.1f}")
        1.0 9.0
        """
        return self._projection(features, target, behaviour, discount).score_covariance(self.initial, self.terminal)

    def sample(self, policy: ArrayLike, n: int, seed: Seed, start: int | None = None) -> Trajectory:
        """Simulate n steps of a policy, episode after episode.

        A shorter sample with the same seed is a prefix of a longer one.

        Parameters
        ----------
        policy
            (S, A) probabilities.
        n
            Number of steps; the last episode may be incomplete.
        seed
            Anything :func:`numpy.random.default_rng` takes.
        start
            First state; None: drawn from the initial law.

        Examples
        --------
        >>> import numpy as np
        >>> from inferl.environments import two_state_chain
        >>> mdp, _ = two_state_chain(0.8)
        >>> mdp.sample(np.ones((2, 1)), n=8, seed=0, start=0).next_states.tolist()
        [0, 0, 0, 0, 0, 1, 1, 1]
        """
        if n < 1:
            raise DataError(f"n is {n}; sample at least one step")
        if start is not None and not (0 <= start < self.n_states and not self.terminal[start]):
            raise DataError(f"start is {start}; give a state in 0..{self.n_states - 1} that is not terminal")
        weights = self.outcomes.weights(self._policy(policy))
        return simulate(self.outcomes, weights, self.initial, self.terminal, n, seed, start)

    def _policy(self, policy: ArrayLike, name: str = "policy") -> NDArray[np.float64]:
        probabilities = np.asarray(policy, dtype=np.float64)
        if probabilities.shape != (self.n_states, self.n_actions):
            raise ShapeError(
                f"{name} has shape {probabilities.shape}; give (states, actions) = {(self.n_states, self.n_actions)}"
            )
        # "not all >= 0" also catches NaN
        wrong = ~(probabilities >= 0).all(axis=1) | ~(np.abs(probabilities.sum(axis=1) - 1) <= TOLERANCE)
        for state in np.flatnonzero(wrong & ~self.terminal)[:1]:
            raise SettingError(
                f"{name}: the action probabilities in state {state} are {probabilities[state].tolist()}; "
                "they must not be negative and must sum to 1"
            )
        return probabilities

    def _long_run(self, policy: NDArray[np.float64]) -> LongRun:
        weights = self.outcomes.weights(policy)
        return long_run(self.outcomes.restarted(weights, self.initial, self.terminal), self.initial)

    def _projection(
        self, features: ArrayLike, target: ArrayLike, behaviour: ArrayLike | None, discount: float
    ) -> Projection:
        phi = np.asarray(features, dtype=np.float64)
        if phi.ndim != 2 or phi.shape[0] != self.n_states or phi.shape[1] == 0:
            raise ShapeError(f"features has shape {phi.shape}; give one row for each of the {self.n_states} states")
        for state, feature in np.argwhere(~np.isfinite(phi))[:1]:
            raise DataError(f"feature {feature} of state {state} is {phi[state, feature]}; features must be finite")
        phi = np.where(self.terminal[:, None], 0.0, phi)
        pi = self._policy(target, "target")
        acting = pi if behaviour is None else self._policy(behaviour, "behaviour")
        return Projection(self.outcomes, phi, pi, acting, self._long_run(acting), _checked(discount))


def _checked(discount: float) -> float:
    if not 0 <= discount <= 1:
        raise DataError(f"discount is {discount}; it must be in [0, 1]")
    return discount
