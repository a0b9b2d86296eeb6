"""Features: maps from observations to the vectors, or table rows, in which values are linear.

A feature map has a `dimension` and is called with one observation, or with an array that has one row per observation.
It returns one vector or row number, or one per observation.

Begin with `base.py`, the interface. `one_hot.py` is the table; `bases.py` holds Fourier features, tile coding and
radial basis functions; `random_fourier.py` the default for observations that are numbers; `scaling.py` rescaling and an
intercept; `learned.py` functions, scikit-learn transformers and torch modules. `named.py` finds the map that a name
such as ``"auto"`` stands for, and `spaces.py` turns the observations of any Gymnasium space into numbers.
"""

from inferl.features.base import Features
from inferl.features.bases import RBF, Fourier, TileCoding
from inferl.features.learned import Function, Network, Transform
from inferl.features.one_hot import OneHot
from inferl.features.random_fourier import RandomFourier
from inferl.features.scaling import Scaled, WithIntercept

__all__ = [
    "RBF",
    "Features",
    "Fourier",
    "Function",
    "Network",
    "OneHot",
    "RandomFourier",
    "Scaled",
    "TileCoding",
    "Transform",
    "WithIntercept",
]
