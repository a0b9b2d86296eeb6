"""Whether a combination of the features is constant: the same for any chunks, and in any units."""

from __future__ import annotations

import numpy as np
import pytest

from inferl.data.constants import MOST, ROWS, ConstantFit
from inferl.errors import CheckpointCorruptError

X = np.random.default_rng(0).normal(size=(400, 3))


@pytest.mark.parametrize("cuts", [[1], [255, 256], [100, 200, 300], range(1, 400)])
def test_the_chunks_do_not_matter(cuts: list[int]) -> None:
    fit = ConstantFit()
    for part in np.split(X, cuts):
        fit = fit.updated(part)
        fit.verify()
    assert fit.residual == ConstantFit().updated(X).residual == ConstantFit().updated(X[:ROWS]).residual
    assert len(fit.rows) == 0


def test_rows_of_a_file_are_finite() -> None:
    rows = X[:10].copy()
    rows[3, 1] = np.nan
    with pytest.raises(CheckpointCorruptError, match=r"ConstantFit\.rows is nan"):
        ConstantFit(rows).verify()


def test_constants_in_any_units() -> None:
    for constant in (1.0, 1e-8, 250_000.0):
        for other in (X, 1e7 * X + 3e7):
            assert ConstantFit().updated(np.column_stack([other, np.full(400, constant)])).residual == 0
    dummies = np.eye(3)[np.arange(400) % 3]
    assert ConstantFit().updated(dummies).residual == 0
    assert ConstantFit().updated(dummies[:, :2]).residual == pytest.approx(np.sqrt(1 / 3), rel=0.01)
    assert ConstantFit().updated(0 * X).residual == 1


def test_no_answer() -> None:
    for rows in (X[: ROWS - 1], np.ones((400, MOST + 1)), np.arange(400)):
        assert ConstantFit().updated(rows).residual is None


def test_of_two_streams_the_one_that_proves_more() -> None:
    near, far, none = ConstantFit().updated(X + 9), ConstantFit().updated(X), ConstantFit()
    assert near.plus(far) is far.plus(near) is far
    assert none.plus(near) is near.plus(none) is near
