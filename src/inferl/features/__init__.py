"""Features: what an evaluator sees of an observation.

A feature map has a `dimension` and is called with one observation or with an array of them (its first axis counts
them). It returns one vector or row number, or one per observation.
"""

from inferl.features.base import Features
from inferl.features.bases import RBF, Fourier, TileCoding
from inferl.features.learned import Function, Network, Transform
from inferl.features.one_hot import OneHot
from inferl.features.scaling import Scaled, WithIntercept

__all__ = [
    "RBF",
    "Features",
    "Fourier",
    "Function",
    "Network",
    "OneHot",
    "Scaled",
    "TileCoding",
    "Transform",
    "WithIntercept",
]
