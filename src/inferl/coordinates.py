"""Coordinates: which parameters have been seen, so that sums over a large table only hold the part in use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from inferl.errors import SettingError
from inferl.increments import Increments
from inferl.invariants import bounds, demand, shapes
from inferl.rows import Floats, Integers
from inferl.transitions import Transitions

__all__ = ["MOST_SOLVED", "Coordinates", "too_large"]

SMALLEST_ROOM = 16
MOST_SOLVED = 2000  # parameters of which least squares keeps the square


@dataclass(frozen=True, eq=False)
class Coordinates:
    """Places 0, 1, 2, ... given to parameters in the order in which they are first seen.

    One-hot increments name the few parameters they touch; dense ones touch all, and then place i is parameter i.

    >>> none = Coordinates.none_of(5)
    >>> len(none), none.room
    (0, 0)
    """

    place: Integers  # (p,) of each parameter, -1 where it has not been seen
    seen: Integers  # (S,) the parameters, in order of their places
    room: int  # length of the arrays that hold them: S and some to grow

    def verify(self) -> None:
        """Refuse places that are not those of the parameters seen."""
        sizes = shapes(self, {"place": "p", "seen": "S"})
        bounds(self, {"seen": (0, sizes["p"] - 1), "room": (sizes["S"], sizes["p"])})
        place = np.full(sizes["p"], -1)
        place[self.seen] = np.arange(sizes["S"])
        demand(np.array_equal(place, self.place), "Coordinates.place does not say where the parameters seen are")

    @classmethod
    def none_of(cls, n_parameters: int) -> Coordinates:
        """Start with nothing seen of p parameters."""
        return cls(np.full(n_parameters, -1), np.zeros(0, np.int64), 0)

    def __len__(self) -> int:
        return len(self.seen)

    def including(self, increments: Increments) -> Coordinates:
        """Give places to the parameters that these increments name for the first time."""
        named = increments.named()
        return self._with(np.arange(len(self.place)) if named is None else named)

    def check_room_for(self, chunks: Sequence[Transitions | Increments]) -> None:
        """Refuse data that would name more parameters than can be solved for."""
        if len(self.place) <= MOST_SOLVED:
            return
        if any(isinstance(chunk, Increments) or not chunk.tabular for chunk in chunks):
            raise SettingError(too_large(len(self.place), "parameters"))
        named = np.unique(np.concatenate([x for c in chunks for x in (c.features, c.next_features)]))  # type: ignore[union-attr]
        total = len(self) + int(np.sum(self.place[named] < 0))
        if total > MOST_SOLVED:
            raise SettingError(too_large(total, "states seen"))

    def union(self, other: Coordinates) -> Coordinates:
        """Give places to what the other has seen too."""
        return self._with(other.seen)

    def places(self, other: Coordinates) -> Integers:
        """Say where the other's arrays go in ours: a place for each of its `room`."""
        free = np.setdiff1d(np.arange(self.room), self.place[other.seen])
        return np.concatenate([self.place[other.seen], free[: other.room - len(other)]])

    def relabelled(self, increments: Increments) -> Increments:
        """Write increments in terms of places instead of parameters."""
        return increments.at_places(self.place, self.seen, self.room)

    def targets(self, targets: Floats) -> tuple[Floats, Floats]:
        """Write targets (k, p) in terms of places (k, room), with the length of what has never been seen."""
        inside = np.zeros((len(targets), self.room))
        inside[:, : len(self)] = targets[:, self.seen]
        missing = np.linalg.norm(targets[:, self.place < 0], axis=1)
        return inside, missing

    def _with(self, named: Integers) -> Coordinates:
        new = named[self.place[named] < 0]
        if new.size == 0:
            return self
        values, first = np.unique(new, return_index=True)
        seen = np.r_[self.seen, values[np.argsort(first)]]
        place = self.place.copy()
        place[seen] = np.arange(len(seen))
        # Powers of two, so that growing costs little in all and depends on nothing but the number seen.
        room = min(max(1 << (len(seen) - 1).bit_length(), SMALLEST_ROOM), len(place))
        return Coordinates(place, seen, room)


def too_large(number: int, of_what: str) -> str:
    """Say why least squares is refused, and what to use instead."""
    return (
        f"LeastSquares keeps the square of {number} {of_what} in memory, more than {MOST_SOLVED}; "
        "use OnlineBootstrap, whose memory grows with their number"
    )
