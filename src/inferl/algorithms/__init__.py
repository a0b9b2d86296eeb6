r"""Algorithms: what a transition adds to the equation that the value parameters solve.

Every algorithm is an increment, H_t(theta) = b_t - A_t theta, written as a few rank-one terms u (c - v . theta) and a
damping. It never sees replicas, step sizes or multipliers. With phi, phi' the features, g the discount, rho the ratio
and dphi = phi - g phi', TD(0) for example says: u = rho phi, v = dphi, c = r.

To add one: subclass `Algorithm`, write `increments`, and run the contract `check_algorithm` of the tests on it.
"""

from inferl.algorithms.average import AverageReward
from inferl.algorithms.base import Algorithm, Carry
from inferl.algorithms.custom import Field, Linear, Stack
from inferl.algorithms.doubly_robust import DoublyRobust, ValueIncrements
from inferl.algorithms.gradient import GTD, GTD2, TDC
from inferl.algorithms.td import TD, EmphaticTD, NStepTD, QEvaluation

__all__ = [
    "GTD",
    "GTD2",
    "TD",
    "TDC",
    "Algorithm",
    "AverageReward",
    "Carry",
    "DoublyRobust",
    "EmphaticTD",
    "Field",
    "Linear",
    "NStepTD",
    "QEvaluation",
    "Stack",
    "ValueIncrements",
]
