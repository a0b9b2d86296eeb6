"""The table of a finite MDP: every possible transition with its probability and reward.

Three notations of an MDP (dense arrays, sparse matrices, the dictionary of Gymnasium's toy-text environments) are
converted to the same flat table, validated once. Its size is the number of possible transitions, never A x S x S.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from inferl.errors import SettingError, ShapeError

__all__ = ["TOLERANCE", "Matrices", "Outcomes", "as_law", "as_mask", "as_matrices", "read_toy_text", "tabulate"]

Matrices: TypeAlias = ArrayLike | Sequence[Any]  # (A, S, S), or one sparse (S, S) matrix per action

TOLERANCE = 1e-9  # on the sum of a distribution


class Outcomes(NamedTuple):
    """All possible transitions of a finite MDP, one row each, ordered by state, action and successor.

    Row k means P(next_states[k] given states[k], actions[k]) = probabilities[k] > 0. No row leaves a terminal
    state. So a mean over stationary transitions is one sum over the rows.

    Examples
    --------
    >>> from inferl.environments import two_state_chain
    >>> mdp, _ = two_state_chain(0.5)
    >>> for row in zip(*(column.tolist() for column in mdp.outcomes)):
    ...     print(row)
    (0, 0, 0, 0.75, -1.0)
    (0, 0, 1, 0.25, 1.0)
    (1, 0, 0, 0.25, -1.0)
    (1, 0, 1, 0.75, 1.0)
    """

    states: NDArray[np.int64]  # (K,)
    actions: NDArray[np.int64]  # (K,)
    next_states: NDArray[np.int64]  # (K,)
    probabilities: NDArray[np.float64]  # (K,)
    rewards: NDArray[np.float64]  # (K,)

    def weights(self, policy: NDArray[np.float64]) -> NDArray[np.float64]:
        """Probability of each row given its state: pi(a given s) P(s' given s, a)."""
        return np.asarray(policy[self.states, self.actions] * self.probabilities)

    def kernel(self, weights: NDArray[np.float64], n_states: int) -> sparse.csr_array:
        """Sum a quantity of the rows over actions: (S, S)."""
        return sparse.csr_array((weights, (self.states, self.next_states)), shape=(n_states, n_states))

    def restarted(
        self, weights: NDArray[np.float64], initial: NDArray[np.float64], terminal: NDArray[np.bool_]
    ) -> sparse.csr_array:
        """`kernel`, with the mass that enters terminal states redistributed by the initial law."""
        kernel = self.kernel(weights, terminal.size)
        ended = sparse.csr_array((kernel @ terminal.astype(np.float64))[:, None])
        inside = kernel @ sparse.diags_array((~terminal).astype(np.float64))
        return sparse.csr_array(inside + ended @ sparse.csr_array(initial[None, :]))


def tabulate(transition: Sequence[sparse.csr_array], reward: Matrices, terminal: NDArray[np.bool_]) -> Outcomes:
    """Validate P and R and list the possible transitions; rows of terminal states are ignored.

    Parameters
    ----------
    transition
        One (S, S) matrix per action, from :func:`as_matrices`.
    reward
        (A, S, S), one sparse (S, S) matrix per action, or (S,): paid on entering a state.
    terminal
        (S,) mask.
    """
    n_actions, n_states = len(transition), terminal.size
    entries = [matrix.tocoo() for matrix in transition]
    states = np.concatenate([entry.row for entry in entries]).astype(np.int64)
    next_states = np.concatenate([entry.col for entry in entries]).astype(np.int64)
    probabilities = np.concatenate([entry.data for entry in entries])
    actions = np.repeat(np.arange(n_actions), [entry.nnz for entry in entries])

    # "not >= 0" also catches NaN
    possible = ~terminal[states] & (probabilities != 0)
    order = np.lexsort((next_states, actions, states))
    order = order[possible[order]]
    states, actions, next_states, probabilities = (x[order] for x in (states, actions, next_states, probabilities))
    for k in np.flatnonzero(~(probabilities >= 0) | np.isinf(probabilities))[:1]:
        raise SettingError(
            f"transition: action {actions[k]} leads from state {states[k]} to state {next_states[k]} with probability "
            f"{probabilities[k]}; probabilities must be finite and not negative"
        )
    sums = np.bincount(states * n_actions + actions, probabilities, n_states * n_actions).reshape(n_states, n_actions)
    for state, action in np.argwhere((np.abs(sums - 1) > TOLERANCE) & ~terminal[:, None])[:1]:
        raise SettingError(
            f"transition: the probabilities of action {action} in state {state} sum to {sums[state, action]:.12g}, "
            f"not 1; normalise that row, or name state {state} in terminal if episodes end there"
        )

    rewards = _rewards(reward, states, actions, next_states, (n_actions, n_states))
    for k in np.flatnonzero(~np.isfinite(rewards))[:1]:
        raise SettingError(
            f"reward: action {actions[k]} from state {states[k]} to state {next_states[k]} pays {rewards[k]}; "
            "rewards of possible transitions must be finite"
        )
    outcomes = Outcomes(states, actions, next_states, probabilities, rewards)
    for column in outcomes:
        column.flags.writeable = False
    return outcomes


def as_matrices(given: Matrices, name: str) -> list[sparse.csr_array]:
    """One CSR matrix per action, from any notation; duplicate entries of a sparse matrix add up, as in SciPy."""
    stack: Any = given  # a sequence of matrices, or an array of them
    if not _is_sparse(given):
        stack = np.asarray(given, dtype=np.float64)
        if stack.ndim != 3:
            raise ShapeError(f"{name} has shape {stack.shape}; give (actions, states, states) or one matrix per action")
    matrices: list[sparse.csr_array] = [sparse.csr_array(matrix, dtype=np.float64) for matrix in stack]
    if not matrices or matrices[0].shape[0] == 0:
        raise ShapeError(f"{name} is empty; an MDP has at least one action and one state")
    for action, matrix in enumerate(matrices):
        if matrix.shape != (matrices[0].shape[0],) * 2:
            raise ShapeError(
                f"{name} of action {action} has shape {matrix.shape}; all must be the same (states, states)"
            )
    return matrices


def as_mask(terminal: ArrayLike, n_states: int) -> NDArray[np.bool_]:
    """The terminal states as an (S,) mask, from a mask or from their numbers."""
    given = np.asarray(terminal)
    if given.dtype == np.bool_:
        if given.shape != (n_states,):
            raise ShapeError(
                f"terminal is a mask of shape {given.shape}; give one entry for each of the {n_states} states"
            )
        mask = given.copy()
    else:
        if given.ndim != 1 or (given.size and not np.issubdtype(given.dtype, np.integer)):
            raise ShapeError(f"terminal is {terminal!r}; give a mask of length {n_states}, or a list of state numbers")
        for state in given[(given < 0) | (given >= n_states)][:1]:
            raise SettingError(f"terminal names state {state}; states are numbered 0..{n_states - 1}")
        mask = np.zeros(n_states, dtype=np.bool_)
        mask[given.astype(np.int64)] = True
    mask.flags.writeable = False
    return mask


def as_law(initial: ArrayLike, terminal: NDArray[np.bool_]) -> NDArray[np.float64]:
    """The initial law as (S,) probabilities, from these or from the number of the only first state."""
    n_states = terminal.size
    given = np.asarray(initial)
    if given.ndim == 0 and np.issubdtype(given.dtype, np.integer):
        if not 0 <= given < n_states:
            raise SettingError(f"initial is state {given}; states are numbered 0..{n_states - 1}")
        law = np.zeros(n_states)
        law[int(given)] = 1.0
    else:
        law = np.array(given, dtype=np.float64)
    if law.shape != (n_states,):
        raise ShapeError(f"initial has shape {law.shape}; give {n_states} probabilities, or the number of a state")
    for state in np.flatnonzero(~(law >= 0))[:1]:
        raise SettingError(f"initial: state {state} has probability {law[state]}; probabilities must not be negative")
    if not abs(law.sum() - 1) <= TOLERANCE:
        raise SettingError(f"initial: the probabilities sum to {law.sum():.12g}, not 1; normalise them")
    for state in np.flatnonzero(terminal & (law > 0))[:1]:
        raise SettingError(
            f"initial: state {state} is terminal and has probability {law[state]}; an episode has at least one step, "
            "so start elsewhere"
        )
    law.flags.writeable = False
    return law


def _is_sparse(given: Matrices) -> bool:
    return isinstance(given, list | tuple) and len(given) > 0 and all(sparse.issparse(matrix) for matrix in given)


def _rewards(
    reward: Matrices,
    states: NDArray[np.int64],
    actions: NDArray[np.int64],
    next_states: NDArray[np.int64],
    shape: tuple[int, int],
) -> NDArray[np.float64]:
    """The reward of each listed transition: a lookup that never makes a sparse reward dense."""
    n_actions, n_states = shape
    if _is_sparse(reward):
        matrices = as_matrices(reward, "reward")
        if (len(matrices), matrices[0].shape[0]) != shape:
            raise ShapeError(f"reward has {len(matrices)} matrices of {matrices[0].shape}; transition has {shape}")
        found = np.zeros(states.size)
        for action, matrix in enumerate(matrices):
            matrix.sum_duplicates()  # sorts the indices too
            entry = matrix.tocoo()
            keys = np.append(entry.row.astype(np.int64) * n_states + entry.col, n_states**2)
            rows = np.flatnonzero(actions == action)
            wanted = states[rows] * n_states + next_states[rows]
            index = np.searchsorted(keys, wanted)
            found[rows] = np.where(keys[index] == wanted, np.append(entry.data, 0.0)[index], 0.0)
        return found
    array = np.asarray(reward, dtype=np.float64)
    if array.shape == (n_states,):
        return array[next_states]
    if array.shape == (n_actions, n_states, n_states):
        return np.asarray(array[actions, states, next_states])
    raise ShapeError(
        f"reward has shape {array.shape}; give {(n_actions, n_states, n_states)} for (actions, states, states), "
        f"or {(n_states,)} for a reward on entering a state"
    )


def read_toy_text(
    table: dict[int, dict[int, list[tuple[float, int, float, bool]]]], initial: NDArray[np.float64]
) -> tuple[list[sparse.csr_array], list[sparse.csr_array], list[int]]:
    """Read Gymnasium's ``P[state][action] = [(probability, successor, reward, done), ...]``.

    Returns
    -------
    transition, reward
        Sparse matrices per action; several entries for one successor are merged.
    terminal
        The successors marked done.
    """
    n_states, n_actions = len(table), len(table[0])
    probability: list[dict[tuple[int, int], float]] = [{} for _ in range(n_actions)]
    reward: list[dict[tuple[int, int], float]] = [{} for _ in range(n_actions)]
    ended: set[int] = set()
    entered: dict[int, set[int]] = {state: set() for state in range(n_states)}  # without the episode ending
    for state, row in table.items():
        for action, listed in row.items():
            for p, successor, r, done in listed:
                if p == 0:
                    continue
                key = int(state), int(successor)
                if reward[action].setdefault(key, float(r)) != r:
                    raise SettingError(
                        f"action {action} from state {state} to state {successor} pays {reward[action][key]} or {r}; "
                        "a finite MDP has one reward per transition: split the successor into two states"
                    )
                probability[action][key] = probability[action].get(key, 0.0) + float(p)
                (ended if done else entered[key[0]]).add(key[1])

    # Taxi lists moves of states that no episode visits, and these enter a final state without `done`. So only states
    # that can be visited count.
    live = {int(state) for state in np.flatnonzero(initial)}
    frontier = list(live)
    while frontier:
        fresh = entered[frontier.pop()] - live
        live |= fresh
        frontier.extend(fresh)
    for state in sorted(live & ended):
        raise SettingError(
            f"state {state} ends the episode on some transitions and not on others; "
            "a finite MDP ends by the state it enters: split the state into two"
        )

    def matrices(entries: list[dict[tuple[int, int], float]]) -> list[sparse.csr_array]:
        return [
            sparse.csr_array((list(entry.values()), tuple(zip(*entry, strict=True))), shape=(n_states, n_states))
            for entry in entries
        ]

    return matrices(probability), matrices(reward), sorted(ended)
