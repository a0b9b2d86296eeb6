"""The first epoch: the first rows of a stream, which least squares scores at its present estimate.

Later rows are scored once, at an estimate that had not seen them and knew less. While these are there, nothing needs to
be known beforehand; but the estimate has seen them, and is too close to them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from inferl.data.arrays import Rows
from inferl.data.increments import Increments
from inferl.data.streams import TILE, Clock

__all__ = ["FEWEST_KEPT", "FirstEpoch", "appended", "first_epoch_rows"]

FEWEST_KEPT = 256  # rows; and four a parameter, for a first solution
MOST_KEPT = 8192  # rows, if they have no more than ...
MOST_NUMBERS = 2**18  # ... numbers together, as each reading goes through them


@dataclass(frozen=True, eq=False)
class FirstEpoch(Rows):
    """Rows of the first epoch, as they came."""

    increments: Any  # Increments, or a short form of them
    clock: Clock


def first_epoch_rows(p: int, rows: Increments) -> int:
    """How many rows make the first epoch, in whole tiles: as many as may be kept, but enough for a first solution."""
    numbers = rows.numbers() // len(rows)
    longest = min(MOST_KEPT, MOST_NUMBERS // numbers)
    return -(-max(FEWEST_KEPT, 4 * p, longest) // TILE) * TILE


def appended(pieces: tuple[FirstEpoch, ...], rows: FirstEpoch) -> tuple[FirstEpoch, ...]:
    """Add rows tile by tile; pieces of equal length are joined, so that each row is copied a few times only.

    What belongs to all rows together, the damping, stays with the first piece.
    """
    for start in range(0, len(rows), TILE):
        new = rows[start : start + TILE].copied()
        if pieces:
            new = replace(new, increments=new.increments.following())
        while pieces and len(pieces[-1]) == len(new):
            pieces, new = pieces[:-1], FirstEpoch.join([pieces[-1], new])
        pieces = (*pieces, new)
    return pieces
