"""The first epoch: the first rows of a stream, which least squares stores and scores at its current estimate.

Later rows are scored once, at a pilot estimate that was computed before them, from fewer data. The rows of the first
epoch need no pilot. But the estimate was fitted to them, so their residuals are too small and need a leverage
correction.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import floor, log2
from typing import Any

import numpy as np

from inferl.data.arrays import Rows
from inferl.data.increments import Increments
from inferl.data.streams import TILE, Clock

__all__ = ["FirstEpoch", "appended", "first_epoch_rows", "n_levels", "waits_for_ends"]

FEWEST_KEPT = 256  # rows; at least four per parameter are needed for a first solution
MOST_KEPT = 8192  # rows, unless they hold more than ...
MOST_NUMBERS = 2**18  # ... numbers in total, because every interval is computed from them
MOST_WAITING = 2**22  # numbers, clock included, while most episodes that have begun have not ended
BESIDE = 8  # numbers of a row beside its vectors


@dataclass(frozen=True, eq=False)
class FirstEpoch(Rows):
    """Rows of the first epoch, in order of arrival."""

    increments: Any  # Increments, or a compact form of them
    clock: Clock


def first_epoch_rows(p: int, rows: Increments) -> int:
    """Length of the first epoch in rows, in whole tiles: as long as memory allows, but enough for a first solution."""
    numbers = rows.numbers() // len(rows)
    longest = min(MOST_KEPT, MOST_NUMBERS // numbers)
    return -(-max(FEWEST_KEPT, 4 * p, longest) // TILE) * TILE


def n_levels(epoch_end: int) -> int:
    """Number of block lengths: blocks longer than a sixth of the data at an epoch's end are of no use."""
    return 1 + floor(log2(max(epoch_end, FEWEST_KEPT) / 6))


def waits_for_ends(pieces: tuple[FirstEpoch, ...]) -> bool:
    """Return whether most episodes have not ended yet, and twice as many rows may be kept.

    With rewards of many episodes and the ends of few, values are far off at discount 1. Off-policy, an episode that is
    scored at such values has a score of another size, and in a log in order of time all of them would be.
    """
    slot, episode, last = (
        np.concatenate([getattr(rows.clock, name) for rows in pieces]) for name in ("slot", "episode", "last")
    )
    begun = len(np.unique(slot * (int(episode.max()) + 1) + episode))
    numbers = sum(rows.increments.numbers() + BESIDE * len(rows) for rows in pieces)
    return 2 * int(np.count_nonzero(last)) < begun and 2 * numbers <= MOST_WAITING


def appended(pieces: tuple[FirstEpoch, ...], rows: FirstEpoch) -> tuple[FirstEpoch, ...]:
    """Append rows; pieces of equal length are joined, so that each row is copied only a few times.

    Lengths are those of a binary counter of tiles: they do not depend on how the rows were cut into calls. The damping,
    which all rows share, stays with the first piece.
    """
    start = 0
    while start < len(rows):
        tiles = max((len(rows) - start) // TILE, 1)
        if pieces:  # a longer one would have to wait for others of its length
            tiles = min(tiles, max(len(pieces[-1]) // TILE, 1))
        length = 2 ** (tiles.bit_length() - 1) * TILE
        new = rows[start : start + length].copied()
        start += length
        if pieces:
            new = replace(new, increments=new.increments.following())
        while pieces and len(pieces[-1]) == len(new):
            pieces, new = pieces[:-1], FirstEpoch.join([pieces[-1], new])
        pieces = (*pieces, new)
    return pieces
