"""The history of a stream in blocks: at most 1,024, whatever their lengths."""

from __future__ import annotations

import numpy as np
import pytest

from inferl.variance.history import MOST, History


@pytest.mark.parametrize(("early", "length"), [(300_000, 10_000), (100_000, 1_000_000)])
def test_blocks_of_any_lengths_are_joined(early: int, length: int) -> None:
    """Hours with many steps, and then quiet ones: no two blocks may be of nearly the same age."""
    history, total = History.empty(1), early * length
    for part in np.array_split(np.arange(early), 15):
        history._push(np.ones((len(part), 1)), np.full(len(part), length))
    for _ in range(3000):
        history._push(np.ones((1, 1)), np.ones(1, np.int64))
    assert len(history.sums) <= MOST
    assert history.sums.sum() == early + 3000
    assert history.length.sum() == total + 3000
