"""Features by name, such as ``"auto"`` or ``"fourier:2"``, which a source fits to its first observations."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from inferl.errors import SettingError
from inferl.features.base import Features
from inferl.features.bases import RBF, Fourier, TileCoding
from inferl.features.one_hot import as_features
from inferl.features.random_fourier import RandomFourier
from inferl.features.scaling import WithIntercept
from inferl.features.spaces import flattened, number_of_columns, table_of

__all__ = ["FITTED_ON", "FromData", "features_for", "is_name"]

FITTED_ON = 1000  # observations
MOST_COLUMNS = 500  # numbers of an observation; with more, such as those of an image, a network is better


class _Kind(NamedTuple):
    """A class of maps with ``from_data(observations, *numbers)``."""

    cls: Any
    example: str
    numbers: tuple[int, ...]  # how many may follow the name
    dimension: Callable[..., int]  # of the number of columns and those numbers


KINDS = {
    "random-fourier": _Kind(RandomFourier, "random-fourier:128", (1,), lambda k, n: 1 + k + n),
    "fourier": _Kind(Fourier, "fourier:2x2", (1, 2), lambda k, *said: Fourier([0] * k, 1, *said).dimension),
    "rbf": _Kind(RBF, "rbf:50", (1,), lambda k, n: 1 + n),  # with an intercept
    "tiles": _Kind(TileCoding, "tiles:8x4", (2,), lambda k, *said: TileCoding([0] * k, 1, *said).dimension),
}
PATTERN = re.compile(rf"auto|observation|({'|'.join(KINDS)})(?::(\d+(?:x\d+)*))?")


def is_name(text: str) -> bool:
    """Whether a text names features, and not code.

    >>> is_name("auto"), is_name("tiles:8x4"), is_name("my_features:tiles")
    (True, True, False)
    """
    return PATTERN.fullmatch(text) is not None


@dataclass(eq=False)
class FromData:
    """A feature map with a name, fitted to the first 1,000 observations of a source.

    Attributes
    ----------
    name
        As it was given.
    space
        Observation space; its observations are flattened.
    dimension
        Length of a feature vector, known before the data.
    fitted
        The map of the flattened observations, all of it plain data; None before the first steps.
    """

    name: str
    space: Any
    dimension: int
    kind: _Kind
    numbers: tuple[int, ...]
    fitted: Features | None = None

    tabular = False

    def fit(self, observations: Any) -> None:
        """Fit the map to some observations."""
        self.fitted = self.kind.cls.from_data(flattened(self.space, observations), *self.numbers)

    def restore(self, fitted: Features) -> None:
        """Take over a map that was fitted before."""
        self.fitted = fitted
        if self._map.dimension != self.dimension:
            self.fitted = None
            raise SettingError(f"{fitted} does not have the {self.dimension} features of {self.name!r}")

    def __call__(self, observations: Any) -> Any:
        """Return the features of one observation (d,), or of several (T, d)."""
        if self.fitted is None:
            raise SettingError(f"the features {self.name!r} are fitted to the first steps; take some steps first")
        return self._map(flattened(self.space, observations))

    def __repr__(self) -> str:
        return f"FromData({self.name!r}, dimension={self.dimension}, fitted={self.fitted})"

    @property
    def text(self) -> str:
        """What the features are, for a report."""
        n = self.numbers[0]
        cosines = f", {n} random Fourier features" if n else ""
        what = f"a constant, the observation{cosines}" if self.kind.cls is RandomFourier else self.name
        return f"{what}; fitted to the first {FITTED_ON:,} steps"

    @property
    def _map(self) -> Features:
        assert self.fitted is not None
        return WithIntercept(self.fitted) if self.kind.cls is RBF else self.fitted


def features_for(features: Any, space: Any) -> Features:
    """Return the feature map for the observations of a space: one that was given, or one that a name stands for.

    >>> import gymnasium
    >>> features_for("auto", gymnasium.make("FrozenLake-v1").observation_space)
    OneHot(n=16)
    >>> features_for("auto", gymnasium.make("CartPole-v1").observation_space)
    FromData('auto', dimension=69, fitted=None)
    """
    if not isinstance(features, str):
        return as_features(features)
    found = PATTERN.fullmatch(features)
    if found is None:
        raise SettingError(
            f"there are no features {features!r}; say auto, observation, {', '.join(k.example for k in KINDS.values())}"
        )
    table = table_of(space)
    if table is not None:
        if found[1] is not None:
            raise SettingError(f"{features} is for numbers, and {space} has {table.dimension} states; say auto")
        return table
    k = number_of_columns(space)
    if k > MOST_COLUMNS:
        raise SettingError(
            f"observations of {space} have {k:,} numbers, more than {MOST_COLUMNS}; give features, such as "
            "Network(module) of a trained network"
        )
    numbers = tuple(map(int, (found[2] or "").split("x"))) if found[2] else ()
    if found[1] is None:
        numbers = (0 if features == "observation" else usual_number(k),)
    kind = KINDS[found[1] or "random-fourier"]
    if len(numbers) not in kind.numbers:
        raise SettingError(f"{features!r} needs a number of features, or two; write, for example, {kind.example}")
    return FromData(features, space, kind.dimension(k, *numbers), kind, numbers)


def usual_number(k: int) -> int:
    """Return the number of random Fourier features of "auto" for observations of k numbers.

    >>> [usual_number(k) for k in (1, 4, 6, 8, 100)]
    [64, 64, 128, 128, 128]
    """
    return 64 if k <= 4 else 128
