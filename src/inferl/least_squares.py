r"""LeastSquares: solve the equation instead of walking towards it.

The increments' sums A and b give theta = A^-1 b at any time: no step size, no transient. The covariance of theta is
A^-1 Q A^-T with Q the long-run covariance of the scores f_t = H_t(theta), which is estimated in the same pass: f_t is
evaluated at a *pilot* theta that is renewed at the end of each epoch (n_1, 2 n_1, 4 n_1, ...), and summed over blocks
of 1, 2, 4, ... steps (`blocks`, `long_run`). A pilot is off by what it had not seen, which makes its scores
too large; so the rows of the first epoch are kept, and scored at the theta of the moment as long as it lasts. Memory is
O(p^2 log n), p the number of parameters seen, and two megabytes or four rows a parameter, whichever is more.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import floor, log2
from typing import NamedTuple

import numpy as np

from inferl.blocks import Cascade, EpisodeSums, Levels, Moments, block_error, correlation
from inferl.coordinates import Coordinates
from inferl.errors import KindError, SettingError
from inferl.increments import Increments
from inferl.interval import Interval, normal
from inferl.kept_rows import FEWEST_KEPT, Kept, appended, rows_kept
from inferl.occupancy import Occupancy
from inferl.rows import Floats, InPlace, Integers, lengthened
from inferl.solving import Factored
from inferl.sparse_blocks import SparseCascade
from inferl.streams import TILE, Clock
from inferl.sums import Sums
from inferl.uniform import correlated_scores
from inferl.vectors import Sparse, Vectors, dense
from inferl.witnesses import Witnesses, decisive_steps, fewer_degrees, kept_together

__all__ = ["LeastSquares", "LeastSquaresReading", "LeastSquaresState"]

Blocks = Cascade | SparseCascade | EpisodeSums

UNIDENTIFIED = 0.01  # a target with a larger share outside the identified space gets an infinite interval
ROUNDING = 1e-12  # of an estimate; a smaller standard error is none
NOTHING = np.zeros(0)
NONE = np.zeros(0, np.int64)


@dataclass(eq=False)
class LeastSquaresState(InPlace):
    """Sums over all increments, and the score moments of the previous and the current epoch; changed in place.

    Arrays speak of the parameters seen so far, in the order of `coordinates`, and have room for more.
    """

    coordinates: Coordinates
    outputs: Integers  # parameters that no equation but their own contains, see `Factored`
    sums: Sums  # A and b
    occupancy: Occupancy  # of the features
    n: int  # increments folded
    epoch_end: int  # where the current epoch ends; the first grows with the parameters seen
    pilot: Floats  # (p,)
    kept_rows: tuple[Kept, ...] | None  # rows of the first epoch, joined when they are read; None after it
    previous: Moments | None
    witnesses: tuple[Witnesses, ...]  # of the previous epoch; after a merge, of all streams
    current: Blocks

    def factored(self) -> tuple[Factored, Floats]:
        """Return A, ready to solve with, and b, of the parameters seen."""
        p = len(self.coordinates)
        matrix, vector = self.sums.total()
        outputs = self.coordinates.place[self.outputs]
        return Factored(matrix[:p, :p], self.sums.size[:p], outputs[outputs >= 0]), vector[:p]


class LeastSquaresReading(NamedTuple):
    """What the sums say along k targets."""

    estimate: Floats  # (k,)
    standard_error: Floats  # (k,) infinite where nothing can be said yet
    freedom: Floats  # (k,)
    outside: Floats  # (k,) share of the target that the data do not identify
    levels: Levels | None  # of blocks of 1, 2, 4, ... steps or episodes; None before the first
    condition: float  # estimated condition number of A, in the 1-norm
    unseen: int  # parameters that no increment has named
    n: int
    unit: str = "steps"  # what blocks are made of: "steps" or "episodes"
    effective: float = np.inf  # independent units that the stream is worth, by its features and by its scores
    decisive: Floats = NOTHING  # (k,) units that the width rests on, NaN where unknown
    correlations: tuple[Floats, ...] = ()  # (k, k) of the errors, at single steps and at long blocks

    def scores(self) -> Floats:
        """Draw errors of all targets at once, in standard errors (m, k)."""
        return correlated_scores(self.correlations)


@dataclass(frozen=True)
class LeastSquares:
    """Streaming least squares (LSTD and its relatives) with a standard error that allows for dependence.

    Parameters
    ----------
    blocks
        ``"dyadic"``: blocks of 1, 2, 4, ... steps, weighed by what the data show; ``"episode"``: episodes are
        independent blocks; ``"none"``: scores are taken to be uncorrelated (right for tabular features).

    Examples
    --------
    >>> LeastSquares()
    LeastSquares(blocks='dyadic')
    """

    blocks: str = "dyadic"

    kinds = ("normal",)

    def __post_init__(self) -> None:
        if self.blocks not in ("dyadic", "episode", "none"):
            raise SettingError(f"there are no blocks {self.blocks!r}; choose 'dyadic', 'episode' or 'none'")

    def init(self, n_parameters: int, outputs: Integers = NONE) -> LeastSquaresState:
        """Start with empty sums."""
        return LeastSquaresState(
            coordinates=Coordinates.none_of(n_parameters),
            outputs=outputs,
            sums=Sums.empty(0),
            occupancy=Occupancy.empty(0),
            n=0,
            epoch_end=0,
            pilot=np.zeros(0),
            kept_rows=(),
            previous=None,
            witnesses=(),
            current=Cascade.empty(1, 0),
        )

    def advance(self, state: LeastSquaresState, increments: Increments, clock: Clock) -> LeastSquaresState:
        """Fold increments into the sums, in place; epochs end at tile edges."""
        start = 0
        while start < len(increments):
            left = max(state.epoch_end - state.n, 1)
            rows = slice(start, start + -(-left // TILE) * TILE)
            self._advance_within(state, increments[rows], clock[rows])
            start = rows.stop
        return state

    def _advance_within(self, state: LeastSquaresState, increments: Increments, clock: Clock) -> None:
        """Fold rows that end with the epoch or before."""
        self._make_room(state, increments)
        seen = state.coordinates.relabelled(increments)
        state.sums.add(seen)
        state.occupancy.add(seen.features())
        state.n += len(seen)
        if state.kept_rows is None:
            _add(state.current, seen.scores(state.pilot), clock)
        else:
            state.kept_rows = appended(state.kept_rows, Kept(increments, clock))
            state.epoch_end = rows_kept(len(state.coordinates), increments)
        if state.n >= state.epoch_end:
            self._end_epoch(state)

    def read(self, state: LeastSquaresState, targets: Floats, jointly: bool = False) -> LeastSquaresReading:
        """Look along targets (k, p); `jointly`, also at how their errors go together."""
        inside, missing = state.coordinates.targets(targets)
        if state.n == 0:
            nothing, never = np.zeros(len(targets)), np.full(len(targets), np.inf)
            return LeastSquaresReading(nothing, never, nothing + 1, nothing + 1, None, np.inf, targets.shape[1], 0)
        p, room = len(state.coordinates), state.coordinates.room
        factored, vector = state.factored()
        theta = factored.solve(vector)
        influence, unknown, size = factored.influence(inside[:, :p])  # (k, p): A^-T c
        outside = np.minimum(np.hypot(unknown, missing) / np.maximum(np.hypot(size, missing), 1e-300), 1.0)
        blocks = self._scored(state, lengthened(theta, room), factored)
        kept = [blocks.moments] if state.previous is None else [state.previous, blocks.moments]
        along = lengthened(influence, room)
        whole = isinstance(blocks, EpisodeSums)
        units = blocks.closed if isinstance(blocks, EpisodeSums) else state.n
        levels, error, freedom = block_error(kept, along, units, whole or self.blocks == "none")
        decisive = decisive_steps([*state.witnesses, Witnesses.of(kept[-1])], along, int(levels.blocks[0]))
        freedom = fewer_degrees(freedom, decisive)
        estimate = inside[:, :p] @ theta
        error = np.where(outside > UNIDENTIFIED, np.inf, error)
        error = np.where(error < ROUNDING * np.abs(estimate), 0.0, error)  # nothing has varied
        together: tuple[Floats, ...] = ()
        if jointly:
            longest = int(levels.main.max()) if self.blocks == "dyadic" else 0
            together = tuple(correlation(kept, along, level) for level in sorted({0, longest}))
        return LeastSquaresReading(
            estimate=estimate,
            standard_error=error,
            freedom=freedom,
            outside=outside,
            levels=levels,
            condition=factored.condition(),
            unseen=targets.shape[1] - p,
            n=state.n,
            unit="episodes" if whole else "steps",
            # Episodes are independent however slowly each of them moves.
            effective=levels.effective if whole else min(state.occupancy.effective(), levels.effective),
            decisive=decisive,
            correlations=together,
        )

    def interval(self, reading: LeastSquaresReading, level: float, kind: str | None = None) -> Interval:
        """Turn a reading into intervals."""
        kind = kind or "normal"
        if kind not in self.kinds:
            raise KindError(
                f"LeastSquares has no {kind!r} interval, only {', '.join(self.kinds)}; OnlineBootstrap has replicas"
            )
        lower, upper = normal(reading.estimate, reading.standard_error, level, reading.freedom)
        error, freedom = reading.standard_error, reading.freedom
        return Interval(reading.estimate, lower, upper, level, kind, error, reading.n, freedom=freedom)

    def information(self, n: int) -> float:
        """All steps count alike."""
        return float(n)

    def merge(self, one: LeastSquaresState, other: LeastSquaresState) -> LeastSquaresState:
        """Add the sums of two separate streams; what both know of the variance becomes the previous epoch."""
        coordinates = one.coordinates.union(other.coordinates)
        room = coordinates.room
        sums = Sums.empty(room)
        matrix, vector = sums.matrix, sums.vector
        for state in (one, other):
            place = coordinates.places(state.coordinates)
            own_matrix, own_vector = state.sums.total()
            matrix[np.ix_(place, place)] += own_matrix
            vector[place] += own_vector
            sums.size[place] = np.maximum(sums.size[place], state.sums.size)
        outputs = coordinates.place[one.outputs]
        factored = Factored(matrix, sums.size, outputs[outputs >= 0])
        pilot = factored.solve(vector)
        n = one.n + other.n
        known: list[Moments] = []
        stands_for: list[float] = []  # how many steps, or episodes, each one that is known of stands for
        seen: list[Witnesses] = []
        ended: list[Blocks] = []
        for state in (one, other):
            place = coordinates.places(state.coordinates)
            blocks = self._scored(state, pilot[place], factored, place)
            moments = blocks.moments
            own = [part.moved(place, room) for part in (state.previous, moments) if part is not None]
            all_blocks = blocks.closed if isinstance(blocks, EpisodeSums) else state.n
            stands_for += [all_blocks / max(sum(int(part.blocks[0]) for part in own), 1)] * len(own)
            known += own
            seen += [part.moved(place, room) for part in (*state.witnesses, Witnesses.of(moments))]
            ended.append(blocks)
        visits = [state.occupancy.moved(coordinates.places(state.coordinates), room) for state in (one, other)]
        current = ended[0].widened(room - one.coordinates.room).next_epoch(_n_levels(2 * n))
        if isinstance(current, EpisodeSums) and isinstance(ended[1], EpisodeSums):
            current.closed += ended[1].closed
        return LeastSquaresState(
            coordinates=coordinates,
            outputs=one.outputs,
            sums=sums,
            occupancy=visits[0].joined(visits[1]),
            n=n,
            epoch_end=2 * n,
            pilot=pilot,
            kept_rows=None,
            previous=Moments.pooled(known, stands_for),
            witnesses=kept_together(seen),
            current=current,
        )

    def _make_room(self, state: LeastSquaresState, increments: Increments) -> None:
        """Give the parameters that appear for the first time a place."""
        state.coordinates = state.coordinates.including(increments)
        more = state.coordinates.room - len(state.pilot)
        if more > 0:
            state.sums = state.sums.widened(more)
            state.occupancy = state.occupancy.widened(more)
            state.pilot = lengthened(state.pilot, state.coordinates.room)
            state.previous = state.previous and state.previous.widened(more)
            state.witnesses = tuple(part.widened(more) for part in state.witnesses)
            state.current = state.current.widened(more)

    def _end_epoch(self, state: LeastSquaresState) -> None:
        """Renew the pilot; the current moments become the previous ones."""
        factored, vector = state.factored()
        state.pilot = lengthened(factored.solve(vector), state.coordinates.room)
        state.current, state.kept_rows = self._scored(state, state.pilot, factored), None
        state.epoch_end *= 2
        moments = state.current.moments
        state.previous, state.witnesses = moments.settled(), (Witnesses.of(moments),)
        expected = 2 * state.current.closed if isinstance(state.current, EpisodeSums) else state.epoch_end
        state.current = state.current.next_epoch(_n_levels(expected))

    def _no_blocks(self, epoch_end: int, scores: Vectors) -> Blocks:
        """Start the first epoch, with blocks that suit its scores."""
        p = scores.size if isinstance(scores, Sparse) else scores.shape[1]
        if self.blocks == "episode":
            return EpisodeSums.empty(_n_levels(epoch_end), p)
        if isinstance(scores, Sparse):
            return SparseCascade.empty(_n_levels(epoch_end), p, scores.index.shape[1])
        return Cascade.empty(_n_levels(epoch_end), p)

    def _scored(
        self, state: LeastSquaresState, pilot: Floats, factored: Factored, place: Integers | None = None
    ) -> Blocks:
        """Blocks of the current epoch; if its rows are still there, scored at this pilot.

        The pilot has seen these rows, and goes towards them; what it leaves unexplained is stretched accordingly.
        `place` says where the state's parameters are in the factored matrix.
        """
        if not state.kept_rows:
            return state.current
        rows = Kept.join(state.kept_rows)
        seen = state.coordinates.relabelled(rows.increments)
        among = np.arange(len(state.coordinates)) if place is None else place[: len(state.coordinates)]
        inverse = np.zeros((state.coordinates.room,) * 2)
        inverse[: len(among), : len(among)] = factored.inverse()[np.ix_(among, among)]
        scores = seen.scores(pilot, inverse)
        blocks = self._no_blocks(state.epoch_end, scores)
        _add(blocks, scores, rows.clock)
        return blocks


def _add(blocks: Blocks, scores: Vectors, clock: Clock) -> None:
    if isinstance(blocks, EpisodeSums):
        blocks.add(scores, clock)
    elif isinstance(blocks, SparseCascade):
        assert isinstance(scores, Sparse)
        blocks.add(scores, clock)
    else:
        blocks.add(dense(scores), clock.slot)


def _n_levels(epoch_end: int) -> int:
    """Longer blocks than a sixth of the data kept at an epoch's end are of no use."""
    return 1 + floor(log2(max(epoch_end, FEWEST_KEPT) / 6))
