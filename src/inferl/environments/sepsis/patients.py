"""Encoding of patients: eight factors form a state, three treatments an action.

A state is the number of its factor levels in mixed radix, diabetes first. Beware of two orders: an action lists
(antibiotics, ventilation, vasopressors), a state (antibiotics, vasopressors, ventilation).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from inferl.errors import DataError, ShapeError

__all__ = [
    "FACTORS",
    "LEVELS",
    "NORMAL",
    "N_ACTIONS",
    "N_STATES",
    "TREATMENTS",
    "abnormal",
    "decode",
    "encode",
    "is_death",
    "is_discharge",
    "observed",
    "projected",
    "treatments",
]

Integers = NDArray[np.int64]

FACTORS = (
    "diabetes",
    "heart rate",
    "blood pressure",
    "oxygen",
    "glucose",
    "antibiotics",
    "vasopressors",
    "ventilation",
)
LEVELS = (2, 3, 3, 2, 5, 2, 2, 2)
NORMAL = {1: 1, 2: 1, 3: 1, 4: 2}  # normal level of each vital sign, by the index of its factor
TREATMENTS = ("antibiotics", "ventilation", "vasopressors")  # of an action, highest bit first
N_STATES = 1440
N_ACTIONS = 8


def encode(factors: ArrayLike) -> Integers:
    """Number of the state with given levels, (..., 8) to (...).

    >>> int(encode([0, 1, 1, 1, 2, 0, 0, 0]))
    376
    """
    levels = np.asarray(factors)
    if levels.ndim == 0 or levels.shape[-1] != len(LEVELS) or not np.issubdtype(levels.dtype, np.integer):
        raise ShapeError(f"factors have shape {levels.shape}; give the levels of {', '.join(FACTORS)} as integers")
    for index in np.argwhere((levels < 0) | (levels >= np.array(LEVELS)))[:1]:
        name, most = FACTORS[index[-1]], LEVELS[index[-1]] - 1
        raise DataError(f"{name} is {levels[tuple(index)]}; its levels are 0 to {most}")
    return np.asarray(np.ravel_multi_index(tuple(np.moveaxis(levels, -1, 0)), LEVELS), dtype=np.int64)


def decode(states: ArrayLike) -> Integers:
    """Levels of the factors of states, (...) to (..., 8).

    >>> decode(376).tolist()
    [0, 1, 1, 1, 2, 0, 0, 0]
    """
    return np.stack(np.unravel_index(_states(states), LEVELS), axis=-1).astype(np.int64)


def observed(states: ArrayLike) -> Integers:
    """Index among the 720 states in which diabetes is not observed.

    >>> int(observed(1096))
    376
    """
    return np.asarray(_states(states) % 720)


def projected(states: ArrayLike) -> Integers:
    """Index among the 144 states in which neither diabetes nor glucose is observed.

    >>> int(projected(376))
    72
    """
    seen = observed(states)
    return np.asarray(seen // 40 * 8 + seen % 8)


def abnormal(states: ArrayLike) -> Integers:
    """Number of the four vital signs that are not at their normal level.

    >>> abnormal([376, 368, 0]).tolist()
    [0, 1, 4]
    """
    levels = decode(states)
    return np.asarray(sum(levels[..., index] != normal for index, normal in NORMAL.items()), dtype=np.int64)


def is_death(states: ArrayLike) -> NDArray[np.bool_]:
    """Whether three or four vital signs are abnormal.

    >>> is_death([376, 368, 0]).tolist()
    [False, False, True]
    """
    return np.asarray(abnormal(states) >= 3)


def is_discharge(states: ArrayLike) -> NDArray[np.bool_]:
    """Whether all vital signs are normal without any treatment.

    >>> is_discharge([376, 377, 1096]).tolist()
    [True, False, True]
    """
    return np.asarray((abnormal(states) == 0) & (_states(states) % 8 == 0))


def treatments(actions: ArrayLike) -> Integers:
    """The three lowest bits of the next state, (antibiotics, vasopressors, ventilation), as an action sets them.

    >>> treatments(np.arange(8)).tolist()
    [0, 2, 1, 3, 4, 6, 5, 7]
    """
    action = np.asarray(actions, dtype=np.int64)
    return np.asarray((action & 4) | (action & 1) << 1 | (action & 2) >> 1)


def describe(state: int, names: Sequence[str] = ("low", "normal", "high")) -> str:
    """Describe a state in words.

    >>> describe(376 + 5)
    'heart rate normal, blood pressure normal, oxygen normal, glucose normal; antibiotics, ventilation on'
    """
    levels = decode(state).tolist()
    vitals = [f"{FACTORS[i]} {names[levels[i]]}" for i in (1, 2, 3)]
    vitals.append(f"glucose {('very low', *names, 'very high')[levels[4]]}")
    given = [FACTORS[i] for i in (5, 6, 7) if levels[i]]
    diabetes = "diabetes; " if levels[0] else ""
    return f"{diabetes}{', '.join(vitals)}; {', '.join(given) + ' on' if given else 'no treatment'}"


def _states(states: ArrayLike) -> Integers:
    given = np.asarray(states)
    if not np.issubdtype(given.dtype, np.integer):
        raise DataError(f"states are of type {given.dtype}; they must be integers, 0 to {N_STATES - 1}")
    for state in given[(given < 0) | (given >= N_STATES)].ravel()[:1]:
        raise DataError(f"state {state} does not exist; states are 0 to {N_STATES - 1}")
    return given.astype(np.int64)
