"""MSPBE and NEU of parameters on a log: their definitions, and what must not matter."""

from __future__ import annotations

import numpy as np
import pytest

from inferl import Objectives, Transitions


@pytest.mark.parametrize("scale", [1.0, 1e-9, 1e8])
def test_the_projected_error_does_not_depend_on_the_units_of_the_features(scale: float) -> None:
    rng = np.random.default_rng(0)
    x, unit = rng.normal(size=(5001, 2)), np.array([scale, 1.0])
    rewards, theta = rng.normal(size=5000) + x[:-1, 1], np.array([0.3, 0.5])

    def of(features: np.ndarray, parameters: np.ndarray) -> float:
        return float(Objectives.of(Transitions(features[:-1], rewards, features[1:], 0.9)).mspbe(parameters))

    assert of(x * unit, theta / unit) == pytest.approx(of(x, theta), rel=1e-9)
    assert of(x * unit, np.zeros(2)) == pytest.approx(of(x, np.zeros(2)), rel=1e-9)


def test_a_redundant_feature_changes_nothing() -> None:
    rng = np.random.default_rng(1)
    x, rewards = rng.normal(size=(2001, 2)), rng.normal(size=2000)
    twice = np.concatenate([x, 3 * x[:, :1]], axis=1)
    one, other = (Objectives.of(Transitions(f[:-1], rewards, f[1:], 0.9)) for f in (x, twice))
    assert other.mspbe([0.1, 0.5, 0.0]) == pytest.approx(one.mspbe([0.1, 0.5]), rel=1e-9)
