"""Step sizes: initial / t^decay or a constant, never above cap / scale."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferl.errors import SettingError
from inferl.methods.step_sizes import Constant, Polynomial

POSITIVE = st.floats(1e-3, 1e3)


@given(
    initial=POSITIVE,
    decay=st.floats(0.51, 0.99),
    cap=st.none() | POSITIVE,
    steps=st.lists(st.tuples(st.integers(1, 10**12), st.floats(1e-6, 1e6)), min_size=1, max_size=5),
)
def test_formulas(initial: float, decay: float, cap: float | None, steps: list[tuple[int, float]]) -> None:
    t, scale = (np.array(column) for column in zip(*steps, strict=True))
    limits = [math.inf if cap is None else cap / s for _, s in steps]
    decaying = [min(initial / n**decay, limit) for (n, _), limit in zip(steps, limits, strict=True)]
    np.testing.assert_allclose(Polynomial(initial, decay, cap)(t, scale), decaying, rtol=1e-12)
    constant = [min(initial, limit) for limit in limits]
    np.testing.assert_allclose(Constant(initial, cap)(t, scale), constant, rtol=1e-15)


def test_defaults_are_those_of_the_documentation() -> None:
    assert Polynomial(5.0) == Polynomial(5.0, decay=0.75, cap=0.5)
    assert Constant(0.1) == Constant(0.1, cap=0.5)


@pytest.mark.parametrize("step_size", [Polynomial(3.0), Constant(3.0)])
@pytest.mark.parametrize("scale", [0.0, 5e-324])
def test_a_feature_of_length_zero_has_no_cap(step_size: Polynomial | Constant, scale: float) -> None:
    assert step_size(np.array([1]), np.array([scale])).tolist() == [3.0]


@pytest.mark.parametrize("initial", [0, -1.0, math.nan, math.inf])
@pytest.mark.parametrize("kind", [Polynomial, Constant])
def test_bad_initial(kind: Any, initial: float) -> None:
    with pytest.raises(SettingError, match=rf"step size is {initial}; it must be positive"):
        kind(initial)


@pytest.mark.parametrize("decay", [0.5, 1.0, 0.0, -0.75, 2, math.nan])
def test_bad_decay(decay: float) -> None:
    with pytest.raises(SettingError, match=rf"decay is {decay}"):
        Polynomial(1.0, decay)


@pytest.mark.parametrize("cap", [0, -0.5, math.nan])
@pytest.mark.parametrize("kind", [Polynomial, Constant])
def test_bad_cap(kind: Any, cap: float) -> None:
    with pytest.raises(SettingError, match=rf"cap is {cap}.*None"):
        kind(1.0, cap=cap)
