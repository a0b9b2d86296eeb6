"""The law of the sepsis simulator: four vital signs move independently, given state and action.

A treatment is *on* if the action gives it, *withdrawn* if it was given before and no longer is, else *off*. First
antibiotics act, then ventilation, then vasopressors; then a vital sign that no treatment affects fluctuates. So

    P(s' given s, a) = [diabetes stays] [treatments = a] K_heart K_pressure K_oxygen K_glucose,

with one row of a small matrix for each vital sign.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from inferl.environments.finite import FiniteMDP
from inferl.environments.sepsis.patients import (
    LEVELS,
    N_ACTIONS,
    N_STATES,
    decode,
    is_death,
    is_discharge,
    treatments,
)
from inferl.errors import SettingError

__all__ = ["REWARDS", "VARIANTS", "VitalRows", "initial_law", "mdp", "transition", "vital_rows"]

Floats = NDArray[np.float64]

VARIANTS = ("corrected", "original")
OFF, ON, WITHDRAWN = range(3)
# Paid on entering a state, and not 0 exactly where the episode ends.
REWARDS: Floats = is_discharge(np.arange(N_STATES)).astype(np.float64) - is_death(np.arange(N_STATES))
REWARDS.flags.writeable = False
STRIDES = (240, 80, 40, 8)  # of heart rate, blood pressure, oxygen and glucose in a state's number
START = {
    "heart": (0.25, 0.50, 0.25),
    "pressure": (0.25, 0.50, 0.25),
    "oxygen": (0.20, 0.80),
    "glucose": ((0.05, 0.15, 0.60, 0.15, 0.05), (0.01, 0.05, 0.15, 0.60, 0.19)),  # without and with diabetes
}


class VitalRows(NamedTuple):
    """The law of each vital sign's next level, given state and action."""

    heart: Floats  # (S, A, 3)
    pressure: Floats  # (S, A, 3)
    oxygen: Floats  # (S, A, 2)
    glucose: Floats  # (S, A, 5)


@cache
def vital_rows(variant: str = "corrected") -> VitalRows:
    """Look up the rows of the small matrices for all 1440 states and 8 actions.

    >>> vital_rows().heart[376, 0].tolist()
    [0.1, 0.8, 0.1]
    """
    check_variant(variant)
    diabetes, heart, pressure, oxygen, glucose, *before = decode(np.arange(N_STATES))[:, None, :].transpose(2, 0, 1)
    after = decode(treatments(np.arange(N_ACTIONS)))[:, 5:].T
    antibiotics, vasopressors, ventilation = (
        np.where(q, ON, WITHDRAWN * p) for p, q in zip(before, after, strict=True)
    )
    rows = VitalRows(
        _heart()[antibiotics, heart],
        _pressure()[antibiotics, vasopressors, diabetes, pressure],
        _oxygen()[ventilation, oxygen],
        _glucose(variant)[(vasopressors == ON).astype(int), diabetes, glucose],
    )
    for row in rows:
        row.flags.writeable = False
    return rows


def mdp(variant: str = "corrected", diabetes: float = 0.2) -> FiniteMDP:
    """The simulator as a finite MDP: exact, sparse, in the full index of 1440 states and 8 actions.

    Death pays -1, discharge +1, once, on entering; both end the episode.

    Parameters
    ----------
    variant
        ``"corrected"``; or ``"original"``, in which a rise of a non-diabetic's glucose leads to "low" from any level,
        as in the code of the 2019 paper.
    diabetes
        Prevalence before patients who would start dead or discharged are replaced by others.

    Examples
    --------
    >>> model = mdp()
    >>> model
    FiniteMDP(1440 states, 8 actions, 834 terminal)
    >>> best = model.optimal_policy(0.99)
    >>> print(f"{model.initial @ model.values(best, 0.99):.6f}")
    0.743701
    """
    return FiniteMDP(transition(variant), REWARDS, initial_law(diabetes), REWARDS != 0)


def transition(variant: str = "corrected") -> list[sparse.csr_array]:
    """One (1440, 1440) matrix per action, without termination: the states of death and discharge have successors too.

    >>> len(transition()), max(int(np.diff(matrix.indptr).max()) for matrix in transition())
    (8, 54)
    """
    heart, pressure, oxygen, glucose = (row.transpose(1, 0, 2) for row in vital_rows(variant))
    chances = np.einsum("ash,asp,aso,asg->ashpog", heart, pressure, oxygen, glucose, optimize=True)
    moves = sum(
        stride * np.arange(n).reshape([-1 if i == k else 1 for i in range(4)])
        for k, (stride, n) in enumerate(zip(STRIDES, LEVELS[1:5], strict=True))
    )
    stay = 720 * (np.arange(N_STATES) // 720)
    matrices = []
    for action in range(N_ACTIONS):
        state, *levels = np.nonzero(chances[action])
        successor = stay[state] + np.asarray(moves)[tuple(levels)] + treatments(action)
        entries = chances[action][(state, *levels)]
        matrices.append(sparse.csr_array((entries, (state, successor)), shape=(N_STATES, N_STATES)))
    return matrices


def initial_law(diabetes: float = 0.2) -> Floats:
    """Law of the first state, (1440,): vital signs are drawn, and drawn again if the patient is dead or discharged.

    Everything is drawn again, including diabetes, so the prevalence among starting patients is not `diabetes`. For the
    law given diabetes, or given none, pass 1 or 0.

    >>> print(f"{initial_law()[720:].sum():.8f}")
    0.18972896
    """
    if not 0 <= diabetes <= 1:
        raise SettingError(f"diabetes is {diabetes}; it must be a prevalence, between 0 and 1")
    law = np.zeros((2, 3, 3, 2, 5, 2, 2, 2))
    for has, share in enumerate((1 - diabetes, diabetes)):
        vitals = (START["heart"], START["pressure"], START["oxygen"], START["glucose"][has])
        law[has, ..., 0, 0, 0] = share * np.einsum("h,p,o,g->hpog", *map(np.array, vitals))
    accepted = np.where(REWARDS == 0, law.ravel(), 0.0)
    return np.asarray(accepted / accepted.sum())


def check_variant(variant: str) -> None:
    """Raise for an unknown variant."""
    if variant not in VARIANTS:
        raise SettingError(f"variant is {variant!r}; choose one of {VARIANTS}")


def _moves(n: int, *moves: tuple[int, int, float]) -> Floats:
    """A row-stochastic matrix from moves (from, to, probability); the remaining probability stays."""
    matrix = np.zeros((n, n))
    for start, end, chance in moves:
        matrix[start, end] += chance
    return matrix + np.diag(1 - matrix.sum(axis=1))


def _walk(n: int, chance: float) -> Floats:
    """One level down or up with equal probability; a blocked move stays."""
    steps = [(i, j, chance) for i in range(n) for j in (i - 1, i + 1) if 0 <= j < n]
    return _moves(n, *steps)


def _heart() -> Floats:
    """By antibiotics."""
    return np.stack([_walk(3, 0.1), _moves(3, (2, 1, 0.5)), _moves(3, (1, 2, 0.1))])


def _pressure() -> Floats:
    """By antibiotics, vasopressors, diabetes. Antibiotics act first, and fluctuation needs both to be off."""
    antibiotics = [np.eye(3), _moves(3, (2, 1, 0.5)), _moves(3, (1, 2, 0.1))]
    rise = [_moves(3, (0, 1, 0.7), (1, 2, 0.7)), _moves(3, (0, 1, 0.5), (0, 2, 0.4), (1, 2, 0.9))]
    fall = [_moves(3, (2, 1, chance), (1, 0, chance)) for chance in (0.1, 0.05)]
    table = np.empty((3, 3, 2, 3, 3))
    for a, first in enumerate(antibiotics):
        for v in (OFF, ON, WITHDRAWN):
            for has in (0, 1):
                table[a, v, has] = first @ {OFF: np.eye(3), ON: rise[has], WITHDRAWN: fall[has]}[v]
    table[OFF, OFF] = _walk(3, 0.1)
    return table


def _oxygen() -> Floats:
    """By ventilation."""
    return np.stack([_walk(2, 0.1), _moves(2, (0, 1, 0.7)), _moves(2, (1, 0, 0.1))])


def _glucose(variant: str) -> Floats:
    """By whether vasopressors are on, and diabetes."""
    healthy = _walk(5, 0.1)
    if variant == "original":  # a rise goes to min(1, level + 1), from any level
        healthy = _moves(5, *((i, i - 1, 0.1) for i in range(1, 5)), *((i, 1, 0.1) for i in range(5)))
    raised = _moves(5, *((i, i + 1, 0.5) for i in range(4)))
    return np.stack([[healthy, _walk(5, 0.3)], [np.eye(5), raised]])
