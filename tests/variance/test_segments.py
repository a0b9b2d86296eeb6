"""Segments: many are merged as if one by one, the two shortest first."""

from heapq import heapify, heappop, heappush

import numpy as np
import pytest

from inferl.variance.segments import Segments


@pytest.mark.parametrize("seed", range(6))
def test_many_segments_are_merged_as_if_one_by_one(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2000, 6000))
    sums = rng.normal(size=(n, 2))
    length = np.ones(n) if seed < 2 else rng.choice([1.0, 1.0, 2.0, 3.0, 8.0], size=n)
    if seed > 3:
        length[rng.integers(n, size=20)] = 50 * rng.random(20)
    expected = {i: (length[i], sums[i].tolist()) for i in range(n)}
    shortest = [(float(length[i]), i) for i in range(n)]
    heapify(shortest)
    while len(shortest) > 64:
        (one, first), (other, second) = heappop(shortest), heappop(shortest)
        added = [a + b for a, b in zip(expected[first][1], expected.pop(second)[1], strict=True)]
        expected[first] = (one + other, added)
        heappush(shortest, (one + other, first))
    found = Segments.joined([Segments(sums, length)], most=64)
    pairs = zip(found.length.tolist(), found.sums.tolist(), strict=True)
    assert sorted(pairs) == sorted(expected.values())
