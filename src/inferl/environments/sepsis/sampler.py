"""Simulation of many septic patients at once: four uniforms per step, one for each vital sign."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from inferl.environments.sepsis.law import REWARDS, STRIDES, initial_law, vital_rows
from inferl.environments.sepsis.patients import N_ACTIONS, N_STATES, treatments
from inferl.environments.trajectory import Seed, Trajectory
from inferl.errors import SettingError, ShapeError

__all__ = ["HORIZON", "sample", "successors"]

HORIZON = 20  # steps after which an episode is truncated
ABREAST = 1 << 14  # patients simulated together: their arrays stay in the cache

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def sample(
    policy: ArrayLike,
    n_episodes: int,
    seed: Seed,
    horizon: int = HORIZON,
    variant: str = "corrected",
    diabetes: float = 0.2,
) -> Trajectory:
    """Simulate patients under a policy, each until death, discharge or the horizon.

    Parameters
    ----------
    policy
        (1440, 8) probabilities. One that does not observe diabetes is ``policy[observed(np.arange(1440))]``.
    n_episodes
        Number of patients.
    seed
        Anything :func:`numpy.random.default_rng` takes.
    horizon
        Largest number of steps of an episode; episodes that reach it are marked in ``truncated``.
    variant, diabetes
        As in :func:`mdp`.

    Examples
    --------
    >>> path = sample(np.full((1440, 8), 1 / 8), n_episodes=1000, seed=0)
    >>> len(path), int(path.terminated.sum()), int(path.truncated.sum())
    (8741, 850, 150)
    """
    law = np.asarray(policy, dtype=np.float64)
    if law.shape != (N_STATES, N_ACTIONS):
        raise ShapeError(f"policy has shape {law.shape}; give (states, actions) = {(N_STATES, N_ACTIONS)}")
    wrong = ~(law >= 0).all(axis=1) | ~(np.abs(law.sum(axis=1) - 1) <= 1e-9)
    for state in np.flatnonzero(wrong & (REWARDS == 0))[:1]:
        raise SettingError(f"policy: the probabilities in state {state} are {law[state].tolist()}; they must sum to 1")
    if n_episodes < 1 or horizon < 1:
        raise SettingError(f"{n_episodes} episodes of at most {horizon} steps; both must be at least 1")
    choices = np.cumsum(law, axis=1)[:, :-1]
    starts = np.cumsum(initial_law(diabetes))
    starts[np.flatnonzero(initial_law(diabetes))[-1] :] = 1.0  # rounding must not leave a gap at the end
    generator = np.random.default_rng(seed)
    groups = []
    for begin in range(0, n_episodes, ABREAST):
        n = min(ABREAST, n_episodes - begin)
        first = np.searchsorted(starts, generator.random(n), side="right")
        groups.append(_treat(first, choices, horizon, variant, generator))
    states, actions, next_states, last = (np.concatenate(column) for column in zip(*groups, strict=True))
    rewards = REWARDS[next_states]
    terminated = rewards != 0
    return Trajectory(states, actions, rewards, next_states, terminated, last & ~terminated)


def successors(states: Integers, actions: Integers, uniforms: Floats, variant: str = "corrected") -> Integers:
    """Next states by inversion, (n,), from uniforms (4, n) for heart rate, pressure, oxygen and glucose.

    >>> successors(np.array([376]), np.array([4]), np.full((4, 1), 0.5)).tolist()
    [380]
    """
    pairs = states * N_ACTIONS + actions
    following = 720 * (states // 720) + treatments(actions)
    for uniform, stride, cuts in zip(uniforms, STRIDES, _cuts(variant), strict=True):
        for cut in cuts:
            following += stride * (uniform >= cut[pairs])
    return following


@cache
def _cuts(variant: str) -> list[list[Floats]]:
    """Cut points of the unit interval for each vital sign: one array over all (state, action) pairs per cut point."""
    # Where higher levels have probability 0 the cut point is 1 up to rounding; it is set to 1 exactly.
    tables = [np.cumsum(row.reshape(N_STATES * N_ACTIONS, -1), axis=1)[:, :-1] for row in vital_rows(variant)]
    return [[np.where(cut > 1 - 1e-12, 1.0, cut) for cut in table.T] for table in tables]


def _treat(
    state: Integers,
    choices: Floats,
    horizon: int,
    variant: str,
    generator: np.random.Generator,
) -> tuple[Integers, Integers, Integers, NDArray[np.bool_]]:
    """Simulate a group of patients together; return their steps patient by patient."""
    patient = np.arange(state.size)
    length = np.zeros(state.size, dtype=np.int64)
    steps = []
    for t in range(horizon):
        draws = generator.random((5, state.size))
        action = (draws[0][:, None] >= choices[state]).sum(axis=1)
        following = successors(state, action, draws[1:], variant)
        steps.append((patient, state, action, following))
        length[patient] = t + 1
        alive = REWARDS[following] == 0
        patient, state = patient[alive], following[alive]
        if patient.size == 0:
            break
    first = np.cumsum(length) - length
    columns = np.empty((3, int(length.sum())), dtype=np.int64)
    for t, (who, *values) in enumerate(steps):
        columns[:, first[who] + t] = values
    last = np.zeros(columns.shape[1], dtype=np.bool_)
    last[first + length - 1] = True
    return columns[0], columns[1], columns[2], last
