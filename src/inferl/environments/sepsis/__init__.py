"""The sepsis simulator of Oberst and Sontag (2019): patients in intensive care, with an exact transition tensor.

`mdp` is the exact model, `sample` simulates many patients at once, and ``inferl/Sepsis-v0`` is the Gymnasium
environment.
"""

from inferl.environments.sepsis.law import VARIANTS, initial_law, mdp, transition
from inferl.environments.sepsis.patients import (
    FACTORS,
    LEVELS,
    N_ACTIONS,
    N_STATES,
    TREATMENTS,
    abnormal,
    decode,
    encode,
    is_death,
    is_discharge,
    observed,
    projected,
)
from inferl.environments.sepsis.sampler import HORIZON, sample

__all__ = [
    "FACTORS",
    "HORIZON",
    "LEVELS",
    "N_ACTIONS",
    "N_STATES",
    "TREATMENTS",
    "VARIANTS",
    "abnormal",
    "decode",
    "encode",
    "initial_law",
    "is_death",
    "is_discharge",
    "mdp",
    "observed",
    "projected",
    "sample",
    "transition",
]
