"""Random streams of transitions, and random ways to cut them, for hypothesis.

The structure (streams, episode borders, labels) is drawn by hypothesis, so that it shrinks; the numbers come from a
seeded generator.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from hypothesis import strategies as st

from inferl.data.arrays import Bools, Floats, Integers
from inferl.data.transitions import Transitions

__all__ = ["chunkings", "cut", "transitions"]


@st.composite
def transitions(
    draw: st.DrawFn,
    tabular: bool | None = None,
    dimension: int | None = None,
    max_steps: int = 40,
    borders: bool = True,
    off_policy: bool | None = None,
) -> Transitions:
    """Draw a valid chunk of 1 to 3 interleaved streams, with terminations (discount 0) and truncations (last).

    Parameters
    ----------
    tabular
        Features as row numbers of a table (True), as vectors (False), or either.
    dimension
        Length of the features, or size of the table; 1 to 4 if not given.
    borders
        Whether explicit `first` flags and episode labels may come too. They agree with `last`.
    off_policy
        Whether ratios are given, some of them 0.
    """
    n = draw(st.integers(1, max_steps))
    d = draw(st.integers(1, 4)) if dimension is None else dimension
    labels = draw(st.lists(st.integers(0, 5) | st.just(2**32 - 1), min_size=1, max_size=3, unique=True))
    stream = np.array(draw(st.lists(st.sampled_from(labels), min_size=n, max_size=n)), np.int64)
    discount = draw(st.sampled_from([0.5, 0.9, 1.0]))
    how = draw(st.lists(st.sampled_from(["goes on", "goes on", "terminates", "is truncated"]), min_size=n, max_size=n))
    discounts = np.array([0.0 if end == "terminates" else discount for end in how])
    last = np.array([end != "goes on" for end in how])
    episode = _labels(draw, n) if borders else None

    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    features, next_features = _features(rng, n, d, draw(st.booleans()) if tabular is None else tabular)
    weighted = draw(st.booleans()) if off_policy is None else off_policy
    return Transitions(
        features,
        rng.normal(size=n),
        next_features,
        discounts,
        ratios=rng.choice([0.0, 0.5, 1.0, 1.7], size=n) if weighted else 1.0,
        first=_first(draw, stream, last, episode) if borders else None,
        last=None if (last == (discounts == 0)).all() else last,
        episode=episode,
        stream=stream,
    )


def chunkings(n: int) -> st.SearchStrategy[tuple[int, ...]]:
    """Draw cut points 0 = c_0 < c_1 < ... < c_k = n: the borders of chunks that are never empty."""
    inner = st.sets(st.integers(1, n - 1)) if n > 1 else st.just(set[int]())
    return inner.map(lambda points: (0, *sorted(points), n))


def cut(chunk: Transitions, cuts: tuple[int, ...]) -> list[Transitions]:
    """Cut a chunk at the points that `chunkings` drew."""
    return [chunk[start:stop] for start, stop in pairwise(cuts)]


def _features(rng: np.random.Generator, n: int, d: int, tabular: bool) -> tuple[Any, Any]:
    if tabular:
        return rng.integers(d, size=n), rng.integers(d, size=n)
    vectors: Floats = rng.normal(size=(2, n, d))
    return vectors[0], vectors[1]


def _labels(draw: st.DrawFn, n: int) -> Integers | None:
    if draw(st.booleans()):
        return None
    return np.array(draw(st.lists(st.integers(0, 2), min_size=n, max_size=n)), np.int64)


def _first(draw: st.DrawFn, stream: Integers, last: Bools, episode: Integers | None) -> Bools | None:
    """Draw flags that are set wherever they must be, and here and there where they need not be."""
    if draw(st.booleans()):
        return None
    first = np.array(draw(st.lists(st.booleans(), min_size=len(stream), max_size=len(stream))))
    before: dict[int, int] = {}  # stream -> its latest row
    for row, label in enumerate(stream.tolist()):
        if label in before:
            previous = before[label]
            first[row] |= last[previous] or (episode is not None and episode[row] != episode[previous])
        before[label] = row
    return first
