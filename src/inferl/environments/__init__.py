"""Environments whose true values are known exactly.

Begin with `finite.py`: `FiniteMDP` computes values, stationary laws, fixed points and the long-run covariance of the
scores by linear algebra, and simulates. `chains.py`, `classics.py` and `random_mdp.py` build small problems with it;
`sepsis` is a simulator of patients and `icu_sepsis` reads a published model. `outcomes.py`, `markov.py`,
`projection.py` and `trajectory.py` are parts of `FiniteMDP`. If Gymnasium is installed, the import registers
``inferl/Sepsis-v0``.
"""

from inferl.environments import icu_sepsis, sepsis
from inferl.environments.chains import random_walk, ring, two_state_chain
from inferl.environments.classics import baird, boyan_chain, frozen_lake, garnet
from inferl.environments.finite import FiniteMDP, GainAndBias
from inferl.environments.projection import ScoreCovariance
from inferl.environments.random_mdp import RandomProblem, random_mdp
from inferl.environments.registration import register
from inferl.environments.trajectory import Trajectory

__all__ = [
    "FiniteMDP",
    "GainAndBias",
    "RandomProblem",
    "ScoreCovariance",
    "Trajectory",
    "baird",
    "boyan_chain",
    "frozen_lake",
    "garnet",
    "icu_sepsis",
    "random_mdp",
    "random_walk",
    "ring",
    "sepsis",
    "two_state_chain",
]

register()
