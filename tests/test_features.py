"""OneHot: numbers in, the same numbers out, and nothing else."""

import numpy as np
import pytest

from inferl.errors import DataError, SettingError
from inferl.features import Features, OneHot


def test_one_state_is_a_plain_int() -> None:
    assert OneHot(4)(3) == 3
    assert type(OneHot(4)(np.int32(3))) is int
    assert type(OneHot(4)(np.array(3))) is int


def test_many_states_are_int64() -> None:
    states = np.array([0, 3, 1], dtype=np.uint8)
    rows = OneHot(4)(states)
    assert rows.dtype == np.int64
    assert rows.tolist() == [0, 3, 1]


@pytest.mark.parametrize("bad", [4, -1, [0, 4], [-1, 0]])
def test_a_state_outside_the_table_is_refused(bad: int | list[int]) -> None:
    with pytest.raises(DataError, match=r"observation (4|-1) .* 0 to 3"):
        OneHot(4)(bad)


@pytest.mark.parametrize("bad", [0.5, [1.0], True])
def test_what_is_no_number_of_a_state_is_refused(bad: float | list[float]) -> None:
    with pytest.raises(DataError, match="integers"):
        OneHot(4)(bad)


def test_a_table_has_rows() -> None:
    with pytest.raises(SettingError):
        OneHot(0)


def test_it_is_a_feature_map_that_prints_and_compares() -> None:
    features: Features = OneHot(4)
    assert features.dimension == 4
    assert repr(features) == "OneHot(n=4)"
    assert features == OneHot(4)
