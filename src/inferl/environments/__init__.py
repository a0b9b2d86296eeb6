"""Environments whose truth is known exactly."""

from inferl.environments import icu_sepsis, sepsis
from inferl.environments.chains import random_walk, ring, two_state_chain
from inferl.environments.classics import baird, boyan_chain, garnet
from inferl.environments.finite import FiniteMDP
from inferl.environments.projection import ScoreCovariance
from inferl.environments.random_mdp import RandomProblem, random_mdp
from inferl.environments.registration import register
from inferl.environments.trajectory import Trajectory

__all__ = [
    "FiniteMDP",
    "RandomProblem",
    "ScoreCovariance",
    "Trajectory",
    "baird",
    "boyan_chain",
    "garnet",
    "icu_sepsis",
    "random_mdp",
    "random_walk",
    "ring",
    "sepsis",
    "two_state_chain",
]

register()
