"""Features from a function, a scikit-learn transformer or a torch module."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from inferl.data.arrays import Floats, as_array, as_count, as_floats, is_integer, short
from inferl.data.batches import is_module, outputs
from inferl.errors import SettingError, ShapeError

__all__ = ["Function", "Network", "Transform"]


@dataclass(frozen=True)
class Function:
    """Features from a function of the observations.

    Parameters
    ----------
    function
        From observations (T, ...) to features (T, dimension), and, for targets, from one observation to one vector.
        ``numpy.vectorize(f, signature="(k)->(d)")`` does both for a function of one observation. Observations of a
        ``Dict`` or ``Tuple`` space come as a dict or tuple of arrays.
    dimension
        Length of a feature vector.

    Examples
    --------
    >>> features = Function(lambda s: np.stack([s[..., 0], s[..., 0] * s[..., 1]], axis=-1), dimension=2)
    >>> features(np.array([[1.0, 2.0], [3.0, 4.0]]))
    array([[ 1.,  2.], [ 3., 12.]])
    """

    tabular: ClassVar[bool] = False

    function: Callable[[Any], ArrayLike]
    dimension: int

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise SettingError(f"the function is {short(self.function)}, which is not callable")
        as_count("the number of features", self.dimension, 1)

    def __call__(self, observations: Any) -> Floats:
        """Return the features of one observation (d,), or of several (T, d)."""
        return _checked(
            self.function(observations),
            self.dimension,
            "the function",
            "; wrap a function of a single observation with numpy.vectorize(f, signature='(k)->(d)')",
        )


@dataclass(frozen=True, eq=False)
class Transform:
    """Features from a fitted scikit-learn transformer, or anything else with ``transform``.

    Parameters
    ----------
    transformer
        Its `transform` takes observations (T, k) and returns features (T, d), sparse or dense.
    n_features
        d; None: from the transformer (``get_feature_names_out``).

    Examples
    --------
    >>> from sklearn.preprocessing import PolynomialFeatures
    >>> features = Transform(PolynomialFeatures(degree=2).fit([[0.0, 0.0]]))
    >>> features.dimension
    6
    >>> features([2.0, 3.0])
    array([1., 2., 3., 4., 6., 9.])
    """

    tabular: ClassVar[bool] = False

    transformer: Any
    n_features: int | None = None

    def __post_init__(self) -> None:
        as_count("the number of features", self.dimension, 1)

    @property
    def dimension(self) -> int:
        """Length of a feature vector."""
        if self.n_features is not None:
            return self.n_features
        try:
            return len(self.transformer.get_feature_names_out())
        except Exception as error:  # a transformer that is not fitted, or has no names, may raise anything
            raise SettingError(
                f"{type(self.transformer).__name__} does not give its number of features ({error}); fit it first, or "
                "pass the number: Transform(transformer, n_features)"
            ) from None

    def __call__(self, observations: ArrayLike) -> Floats:
        """Return the features of one observation (d,), or of several (T, d)."""
        array = as_array("observations", observations)
        try:
            values = self.transformer.transform(np.atleast_2d(array))
        except (TypeError, ValueError) as error:
            raise ShapeError(
                f"{type(self.transformer).__name__} cannot take observations of shape {array.shape}: {error}"
            ) from None
        dense = values.toarray() if hasattr(values, "toarray") else values
        features = _checked(dense, self.dimension, type(self.transformer).__name__)
        return features[0] if array.ndim == 1 else features


@dataclass(frozen=True, eq=False)
class Network:
    """Features from a torch module, such as the last hidden layer of a trained network.

    The module is run in evaluation mode and without gradients, and is never trained.

    Parameters
    ----------
    module
        From a batch of observations (T, ...) to features (T, d), such as a feature extractor or the ``mlp_extractor``
        of a Stable-Baselines3 policy.
    n_features
        d; None: what a module of Stable-Baselines3 says, or the number of outputs of its last linear layer.
    observation_ndim
        Number of axes of one observation: 1 for vectors, 3 for images.
    output
        Which of several tensors to take, where the module returns a tuple (its number) or a dict (its name). The
        ``mlp_extractor`` of Stable-Baselines3 returns the last layers of the policy, 0, and of the value, 1.

    Examples
    --------
    >>> import torch
    >>> features = Network(torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU()))
    >>> features.dimension, features(np.zeros(4)).shape, features(np.zeros((5, 4))).shape
    (8, (8,), (5, 8))
    >>> Network(torch.nn.LSTM(4, 8), n_features=8, output=0)(np.zeros((5, 4))).shape  # it returns its state, too
    (5, 8)
    """

    tabular: ClassVar[bool] = False

    module: Any
    n_features: int | None = None
    observation_ndim: int = 1
    output: int | str | None = None

    def __post_init__(self) -> None:
        if not is_module(self.module):
            raise SettingError(f"Network takes a torch module, not {short(self.module)}")
        as_count("observation_ndim", self.observation_ndim, 0)
        as_count("the number of features", self.dimension, 1)

    @property
    def dimension(self) -> int:
        """Length of a feature vector."""
        if self.n_features is not None:
            return self.n_features
        # The names of Stable-Baselines3: of an mlp_extractor, and of a feature extractor.
        names: dict[Any, str] = {0: "latent_dim_pi", 1: "latent_dim_vf"}
        said = names.get(self.output, "features_dim")
        if is_integer(getattr(self.module, said, None)):
            return int(getattr(self.module, said))
        widths = [part.out_features for part in self.module.modules() if hasattr(part, "out_features")]
        if not widths:
            raise SettingError(
                f"{type(self.module).__name__} has no linear layer from which to read the number of features; pass "
                "it: Network(module, n_features)"
            )
        return int(widths[-1])

    def __call__(self, observations: ArrayLike) -> Floats:
        """Return the features of one observation (d,), or of several (T, d)."""
        array = as_array("observations", observations)
        if array.ndim not in (self.observation_ndim, self.observation_ndim + 1):
            raise ShapeError(
                f"observations have shape {array.shape}; expected {self.observation_ndim} axes for one, and one more "
                "for several; check observation_ndim"
            )
        single = array.ndim == self.observation_ndim
        features = _checked(
            outputs(self.module, array[None] if single else array, self.output),
            self.dimension,
            type(self.module).__name__,
            "; if that is right, say so: n_features",
        )
        return features[0] if single else features


def _checked(values: ArrayLike, dimension: int, who: str, remedy: str = "") -> Floats:
    features = as_floats(f"what {who} returned", values)
    if features.ndim not in (1, 2) or features.shape[-1] != dimension:
        raise ShapeError(
            f"{who} returned features of shape {features.shape}; expected ({dimension},) for one observation, "
            f"(T, {dimension}) for several{remedy}"
        )
    return features
