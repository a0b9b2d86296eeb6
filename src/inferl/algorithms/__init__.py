r"""Algorithms: the contribution of each transition to the equation that the value parameters solve.

Every algorithm defines an increment, H_t(theta) = b_t - A_t theta, as a few rank-one terms u (c - v . theta) and a
damping. It does not depend on replicas, step sizes or multipliers. With phi, phi' the features, g the discount, rho the
importance ratio and dphi = phi - g phi', TD(0) for example has u = rho phi, v = dphi, c = r.

Begin with `base.py` (the interface) and `td.py` (the simplest algorithms). `doubly_robust.py` is the default for values
of start distributions; `custom.py` takes user-defined increments; `targets.py` converts targets to vectors. To add an
algorithm, subclass `Algorithm`, write `increments`, and run `inferl.testing.check_algorithm` on it.
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
