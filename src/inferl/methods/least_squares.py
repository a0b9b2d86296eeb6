r"""LeastSquares: solve the equation instead of iterating towards its solution.

The sums A and b of the increments give theta = A^-1 b at any time, without a step size and without a transient. The
covariance of theta is A^-1 Q A^-T, where Q is the long-run covariance of the scores f_t = H_t(theta). It is estimated
in the same pass: f_t is evaluated at a *pilot* theta, which is renewed at the end of each epoch (n_1, 2 n_1, 4 n_1,
...), and summed over blocks of 1, 2, 4, ... steps and over whole streams (see `inferl.variance`). When the pilot moves,
all block sums are shifted by A (old - new) / n per step. An early pilot is inaccurate, which makes its scores too
large; so the rows of the first epoch are kept, and scored at the current theta until the epoch ends. Memory is
O(p^2 log n), p the number of parameters seen, plus two megabytes or four rows per parameter, whichever is more (32
megabytes while most episodes are open).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np

from inferl import engine
from inferl.algorithms import Algorithm
from inferl.data.arrays import Floats, InPlace, Integers, alike, lengthened
from inferl.data.device import device_of, on_device, on_host
from inferl.data.increments import Increments
from inferl.data.invariants import COUNT, bounds, demand, shapes
from inferl.data.streams import TILE, Clock, Steps
from inferl.data.transitions import Transitions
from inferl.data.vectors import Sparse, Vectors, dense
from inferl.diagnostics import Check, checks_of_scores
from inferl.errors import CheckpointCorruptError, SettingError
from inferl.interval import Interval
from inferl.methods.base import Method
from inferl.methods.drift import Course, drift
from inferl.methods.linear_system import MOST_SOLVED, Coordinates, Factored, Sums, too_large
from inferl.methods.misfit import Misfit
from inferl.methods.solution import LeastSquaresReading
from inferl.variance.batch_means import Blocks, Cascade, Moments, Scores, block_error, correlation
from inferl.variance.episode_sums import EpisodeSums
from inferl.variance.first_epoch import FirstEpoch, appended, first_epoch_rows, n_levels, waits_for_ends
from inferl.variance.history import History
from inferl.variance.kurtosis import fourth_moments_of, kurtosis_ess, reduced_df
from inferl.variance.mixing import Mixing
from inferl.variance.segments import Segments, Wholes
from inferl.variance.sparse_batch_means import SparseCascade

__all__ = ["LeastSquares", "LeastSquaresReading", "LeastSquaresState"]

BlockSums = Cascade | SparseCascade | EpisodeSums

UNIDENTIFIED = 0.01  # a target with a larger unidentified fraction gets an infinite interval
ROUNDING = 1e-12  # relative to the estimate; a smaller standard error counts as 0
NONE = np.zeros(0, np.int64)


@dataclass(eq=False)
class LeastSquaresState(InPlace):
    """Sums over all increments, and of their scores over blocks; changed in place.

    Arrays hold the parameters seen so far, in the order of `coordinates`, with spare capacity.
    """

    coordinates: Coordinates
    outputs: Integers  # parameters that appear only in their own equation, see `Factored`
    sums: Sums  # A and b
    mixing: Mixing  # of the features
    n: int  # increments folded
    epoch_end: int  # step at which the epoch ends; the first epoch grows with the parameters seen
    pilot: Floats  # (p,)
    earlier: Floats  # (p,) pilot of episodes that were open when the epoch began
    first_epoch: tuple[FirstEpoch, ...] | None  # rows of the first epoch, joined when they are read; None after it
    past: Moments | None  # of earlier epochs, at the pilot
    fourth_moments: Segments  # of earlier epochs, at the pilot
    current: BlockSums
    wholes: Wholes | None  # of all epochs, at the pilot; None where episodes are blocks
    history: History  # likewise

    def verify(self) -> None:
        """Refuse parts of different sizes, and a first epoch with the wrong number of rows."""
        own = dict.fromkeys(("pilot", "earlier", "sums.vector", "mixing.total", "history.open"), "p")
        more = {"fourth_moments.sums": "m p", "wholes.sum": "S p", "past.total": "J p"}
        shapes(self, {**own, **more}, p=self.coordinates.capacity)
        blocks = self.current
        inner = getattr(blocks, "long", blocks)
        shapes(inner, {"moments.total": "K p"}, p=self.coordinates.capacity)
        levels = [len(moments.count) for moments in (self.past, inner.moments) if moments is not None]
        demand(min(levels) > 0, "there are no blocks of single steps")
        bounds(self, {"n": COUNT, "epoch_end": COUNT, "outputs": (0, len(self.coordinates.index) - 1)})
        demand(self.n == 0 or len(self.coordinates) > 0, f"{self.n} steps have named no parameter")
        kept = self.n if self.first_epoch is None else sum(len(rows) for rows in self.first_epoch)
        demand(kept == self.n, f"{kept} rows are kept of {self.n}")

    def copy(self) -> Self:
        """Return an independent copy; moments of earlier epochs are replaced, never changed in place."""
        new = replace(self)
        for name in ("sums", "mixing", "current", "wholes", "history"):
            setattr(new, name, (own := getattr(self, name)) and own.copy())
        return new

    def follow(self, device: str) -> None:
        """Move to a device what every row changes, unless it is there."""
        for name in ("sums", "mixing", "current", "wholes", "history"):
            setattr(self, name, on_device(getattr(self, name), device))

    def factored(self) -> tuple[Factored, Floats]:
        """Return A, factored, and b, for the parameters seen."""
        p = len(self.coordinates)
        matrix, vector = self.sums.total()
        outputs = self.coordinates.index[self.outputs]
        return Factored(matrix[:p, :p], self.sums.size[:p], outputs[outputs >= 0]), vector[:p]


class Combined(NamedTuple):
    """Moments of the scores over all epochs, at one pilot."""

    past: Moments
    fourth_moments: Segments
    wholes: Wholes | None
    history: History


@dataclass(frozen=True)
class LeastSquares(Method):
    """Streaming least squares (LSTD and its relatives) with a standard error that allows for dependence.

    Parameters
    ----------
    blocks
        ``"dyadic"``: blocks of 1, 2, 4, ... steps, whose length the data choose; ``"episode"``: episodes are
        independent blocks; ``"none"``: scores are assumed uncorrelated (correct for tabular features).

    Examples
    --------
    >>> LeastSquares()
    LeastSquares(blocks='dyadic')
    """

    blocks: str = "dyadic"

    stores = (
        *(LeastSquaresState, FirstEpoch, Sums, Mixing, Coordinates, SparseCascade),
        *(Cascade, EpisodeSums, History, Moments, Segments, Wholes),
    )

    def __post_init__(self) -> None:
        if self.blocks not in ("dyadic", "episode", "none"):
            raise SettingError(f"there are no blocks {self.blocks!r}; choose 'dyadic', 'episode' or 'none'")

    @property
    def unit(self) -> str:
        """Episodes, if they are the blocks."""
        return "episodes" if self.blocks == "episode" else "steps"

    def init(self, algorithm: Algorithm) -> LeastSquaresState:
        """Start with empty sums."""
        if not algorithm.affine:
            raise SettingError(f"{algorithm} is not linear, so LeastSquares cannot solve for it; use OnlineBootstrap")
        if not algorithm.sparse:
            self.admit_vectors(algorithm.dimension)
        return self.empty(algorithm.dimension, algorithm.outputs)

    def empty(self, n_parameters: int, outputs: Integers = NONE) -> LeastSquaresState:
        """Return sums over nothing."""
        return LeastSquaresState(
            coordinates=Coordinates.none_of(n_parameters),
            outputs=outputs,
            sums=Sums.empty(0),
            mixing=Mixing.empty(0),
            n=0,
            epoch_end=0,
            pilot=np.zeros(0),
            earlier=np.zeros(0),
            first_epoch=(),
            past=None,
            fourth_moments=Segments.none(0),
            current=Cascade.empty(1, 0),
            wholes=None if self.blocks == "episode" else Wholes.empty(0),
            history=History.empty(0),
        )

    def prepare(
        self, algorithm: Algorithm, state: LeastSquaresState, steps: Steps, increments: Increments, clock: Clock
    ) -> tuple[LeastSquaresState, Any]:
        """Compute the equations to add; `commit` adds them in place, as the sums are too large to copy."""
        return state, (algorithm.value_form(increments), clock) if len(increments) else None

    def commit(self, state: LeastSquaresState, work: Any) -> None:
        """Fold the increments."""
        if work is not None:
            self.fold(state, *work)

    def copy(self, state: LeastSquaresState) -> LeastSquaresState:
        """Copy the sums."""
        return state.copy()

    def limited(self, algorithm: Algorithm) -> bool:
        """Whether a table has more states than can be solved for."""
        return algorithm.dimension > MOST_SOLVED

    def admit(self, states: Sequence[LeastSquaresState], rows: Sequence[Transitions | Increments]) -> None:
        """Refuse rows that would make the matrix too large, or that of several states together."""
        Coordinates.check_room_for([state.coordinates for state in states], rows)

    @classmethod
    def admit_vectors(cls, n_parameters: int) -> None:
        """Refuse more parameters than can be solved for."""
        if n_parameters > MOST_SOLVED:
            raise SettingError(too_large(n_parameters, "parameters"))

    def fold(self, state: LeastSquaresState, increments: Increments, clock: Clock) -> LeastSquaresState:
        """Fold increments into the sums, in place; epochs end at tile edges.

        Sums are where the vectors are. They visit the host when an epoch ends, which happens a few dozen times.
        """
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
        device = device_of(increments)
        if device is not None:
            state.follow(device)
        seen = state.coordinates.relabelled(increments)
        state.sums.add(seen)
        state.mixing.add(seen.features(), clock)
        state.n += len(seen)
        if state.first_epoch is None:
            _add(state.current, state.wholes, state.history, _scores(state, seen, clock), clock)
        else:
            state.first_epoch = appended(state.first_epoch, FirstEpoch(increments, clock))
            state.epoch_end = max(state.epoch_end, first_epoch_rows(len(state.coordinates), increments))
            if state.n >= state.epoch_end and self.blocks == "episode" and waits_for_ends(state.first_epoch):
                state.epoch_end *= 2
        if state.n >= state.epoch_end:
            if device is not None:
                vars(state).update(vars(on_host(state)))
            self._end_epoch(state)

    def estimate(self, algorithm: Algorithm, state: LeastSquaresState, rows: Floats) -> Floats:
        """Solve, without standard errors."""
        if state.n == 0:
            return np.zeros(len(rows))
        inside, _ = state.coordinates.targets(rows)
        factored, vector = state.factored()
        return np.asarray(inside[:, : len(state.coordinates)] @ factored.solve(vector))

    def read(
        self, algorithm: Algorithm, state: LeastSquaresState, rows: Floats, jointly: bool = False
    ) -> LeastSquaresReading:
        """Read the solution along targets (k, p)."""
        return self.look(state, rows, jointly)

    def look(self, state: LeastSquaresState, targets: Floats, jointly: bool = False) -> LeastSquaresReading:
        """Read the solution along targets (k, p); `jointly` adds the correlations of their errors."""
        inside, missing = state.coordinates.targets(targets)
        if state.n == 0:
            nothing, never = np.zeros(len(targets)), np.full(len(targets), np.inf)
            return LeastSquaresReading(nothing, never, nothing + 1, nothing + 1, None, np.inf, targets.shape[1], 0)
        p, capacity = len(state.coordinates), state.coordinates.capacity
        factored, vector = state.factored()
        theta = factored.solve(vector)
        influence, unidentified_fraction = factored.influence(inside[:, :p], missing)
        blocks, wholes, history = self._scored(state, lengthened(theta, capacity), factored)
        parts: list[Blocks] = [blocks.moments] if state.past is None else [state.past, blocks.moments]
        combined, units, episodes = [state.fourth_moments, fourth_moments_of(blocks.moments)], state.n, False
        if isinstance(blocks, EpisodeSums):
            parts.append(blocks.so_far())
            combined.append(Segments(blocks.open, np.ones(len(blocks.open))))
            units, episodes = blocks.begun, True
        scores = Scores(tuple(parts), None if wholes is None else wholes.pieces())
        along = lengthened(influence, capacity)
        levels, error, df = block_error(scores, along, units, single=episodes or self.blocks == "none")
        one_by_one = Segments.joined(combined)
        variance_ess = kurtosis_ess([one_by_one, scores.wholes], along, int(scores.blocks[0]))
        df = reduced_df(df, variance_ess)
        estimate = inside[:, :p] @ theta
        error = np.where(unidentified_fraction > UNIDENTIFIED, np.inf, error)
        error = np.where(error < ROUNDING * np.abs(estimate), 0.0, error)  # no variation
        together: tuple[Floats, ...] = ()
        if jointly:
            longest = int(levels.main.max()) if self.blocks == "dyadic" else 0
            whole = levels.final and longest == len(levels.length) - 1
            among = dict.fromkeys((0, None if whole else longest))
            together = tuple(correlation(scores, along, level) for level in among)
        return LeastSquaresReading(
            estimate=estimate,
            standard_error=error,
            df=df,
            unidentified_fraction=unidentified_fraction,
            levels=levels,
            condition=factored.condition(),
            unseen=targets.shape[1] - p,
            n=state.n,
            unit="episodes" if episodes else "steps",
            units=units,
            # Episodes are independent, however slowly each of them mixes.
            effective=levels.effective if episodes else min(state.mixing.effective(), levels.effective),
            variance_ess=variance_ess,
            correlations=together,
            course=Course.of(history, units * along, levels, parts),
        )

    def checks(
        self, algorithm: Algorithm, state: LeastSquaresState, reading: LeastSquaresReading, interval: Interval
    ) -> Sequence[Check]:
        """Make the checks of the solution."""
        exact = Check("convergence", "passed", "least squares solves the equation exactly")
        return (exact, *checks_of_scores(reading, interval, allowed_for=self.blocks == "dyadic"), drift(reading))

    def misfit(self, algorithm: Algorithm, state: LeastSquaresState) -> Misfit | None:
        """Estimate the bias of the features from the returns; of several policies, the largest."""
        if state.n == 0:
            return None
        found = [Misfit.of(self.look(state, rows, jointly=True)) for rows in algorithm.checked_targets()]
        return max(found, key=lambda misfit: misfit.size, default=None)

    def merge(self, states: Sequence[LeastSquaresState]) -> LeastSquaresState:
        """Add the sums of separate streams; their blocks are scored at the common solution, or shifted to it.

        Open episodes of the first stream continue; those of the others end.
        """
        continues = states[0].n > 0
        states = [state for state in states if state.n] or states[:1]
        if states[0].n == 0:  # every row waits for later ones
            return states[0].copy()
        coordinates = states[0].coordinates
        for state in states[1:]:
            coordinates = coordinates.union(state.coordinates)
        capacity = coordinates.capacity
        indices = [coordinates.indices(state.coordinates) for state in states]
        sums = Sums.empty(capacity)
        for state, index in zip(states, indices, strict=True):
            matrix, vector = state.sums.total()
            sums.matrix[np.ix_(index, index)] += matrix
            sums.vector[index] += vector
            sums.size[index] = np.maximum(sums.size[index], state.sums.size)
        outputs = coordinates.index[states[0].outputs]
        factored = Factored(sums.matrix, sums.size, outputs[outputs >= 0])
        pilot = factored.solve(sums.vector)
        past, fourth_moments, pieces, histories = [], [], [], []
        ended: list[BlockSums] = []
        for state, index in zip(states, indices, strict=True):
            blocks, wholes, history = self._scored(state, pilot[index], factored, index)
            if isinstance(blocks, EpisodeSums) and (ended or not continues):
                blocks = blocks.ended()
            combined = self._combined(state, blocks, wholes, history, pilot[index])
            histories.append(combined.history.moved(index, capacity))
            past.append(combined.past.moved(index, capacity))
            fourth_moments.append(combined.fourth_moments.moved(index, capacity))
            pieces += [] if combined.wholes is None else [combined.wholes.pieces().moved(index, capacity)]
            ended.append(blocks)
        earlier = pilot.copy()
        if states[0].first_epoch is None:
            earlier[indices[0]] = states[0].pilot
            if isinstance(ended[0], EpisodeSums):
                ended[0] = ended[0].moved(self._drift(states[0], ended[0], pilot[indices[0]]))
        n = sum(state.n for state in states)
        current = ended[0].widened(capacity - states[0].coordinates.capacity)
        if isinstance(current, EpisodeSums):
            current.closed = sum(blocks.closed for blocks in ended if isinstance(blocks, EpisodeSums))
        current = current.next_epoch(n_levels(2 * (current.closed if isinstance(current, EpisodeSums) else n)))
        return LeastSquaresState(
            coordinates=coordinates,
            outputs=states[0].outputs,
            sums=sums,
            mixing=Mixing.joined(
                [state.mixing.moved(index, capacity) for state, index in zip(states, indices, strict=True)]
            ),
            n=n,
            epoch_end=2 * n,
            pilot=pilot,
            earlier=earlier,
            first_epoch=None,
            past=Moments.added(past),
            fourth_moments=Segments.joined(fourth_moments),
            current=current,
            wholes=Wholes.only(Segments.joined(pieces)) if pieces else None,
            history=History.joined(histories),
        )

    def closed(self, state: LeastSquaresState) -> LeastSquaresState:
        """Return the state with all of its data as one block of the history."""
        if state.n == 0:
            return state
        new = self.merge([state])
        matrix, vector = new.sums.total()
        units = new.current.begun if isinstance(new.current, EpisodeSums) else new.n
        new.history = History.panes([vector - matrix @ new.pilot], [units], new.history.streams)
        return new

    def recall(
        self,
        state: LeastSquaresState,
        past: LeastSquaresState | None,
        panes: Sequence[LeastSquaresState],
        units: Sequence[int],
    ) -> LeastSquaresState:
        """Return the state with a history of one block for each pane, after that of the past."""
        own, capacity, sums = state.coordinates, state.coordinates.capacity, []

        def place(other: Coordinates) -> tuple[Integers, Integers]:
            there = np.flatnonzero(own.index[other.seen] >= 0)  # a state may have been visited before the window only
            return there, own.index[other.seen[there]]

        for pane in panes:
            matrix, vector = pane.sums.total()
            there, here = place(pane.coordinates)
            pilot, sum = np.zeros(len(vector)), np.zeros(capacity)
            pilot[there] = state.pilot[here]
            sum[here] = (vector - matrix @ pilot)[there]
            sums.append(sum)
        history = History.panes(sums, units, state.history.streams)
        if past is not None:
            there, here = place(past.coordinates)
            pilot = past.pilot.copy()
            pilot[there] = state.pilot[here]
            drift = self._drift(past, past.current, pilot)
            before = past.history.shifted(drift).chosen(there, here, capacity)
            earlier = past.past and past.past.shifted(drift).chosen(there, here, capacity)
            history = history.after(before, earlier)
        return replace(state, history=history)

    def verify_state(self, algorithm: Algorithm, state: Any) -> None:
        """Refuse the state of another method, or of another size."""
        if not isinstance(state, LeastSquaresState):
            raise CheckpointCorruptError("the state is not that of least squares")
        demand(np.array_equal(state.outputs, algorithm.outputs), f"{algorithm} has other outputs")
        shapes(state, {"coordinates.index": "p"}, p=algorithm.dimension)

    def verify_rows(self, algorithm: Algorithm, state: LeastSquaresState, like: Increments) -> None:
        """Compare the rows that are kept with the increments of the algorithm."""
        like = algorithm.value_form(like)
        for number, kept in enumerate(state.first_epoch or ()):
            whole = number > 0 or kept.increments.n_parameters == like.n_parameters  # only the first holds the damping
            demand(whole and alike(kept.increments, like), "the first rows are not those of the algorithm")
        by_episodes = self.blocks == "episode"
        demand(
            (state.wholes is None) == by_episodes, f"sums over whole streams are missing, or do not belong to {self}"
        )
        if state.n:
            named = np.arange(len(state.coordinates.index)) if like.named() is None else state.outputs
            seen = bool((state.coordinates.index[named] >= 0).all())
            demand(seen, "parameters that every step touches have not been seen")
        if state.first_epoch is not None:
            return
        scores = like.scores(np.zeros(like.n_parameters))
        wanted: type = EpisodeSums if by_episodes else SparseCascade if isinstance(scores, Sparse) else Cascade
        found = type(state.current)
        demand(found is wanted, f"scores are summed by {found.__name__}, not {wanted.__name__}")
        if wanted is SparseCascade and isinstance(scores, Sparse):
            shapes(state.current, {"index": "S T m"}, m=scores.index.shape[1])

    @classmethod
    def from_options(cls, options: Mapping[str, Any], algorithm: Algorithm) -> LeastSquares:
        """Build the method from the options of the shell."""
        if "step_size" in options:
            raise SettingError("least squares has no step size; leave --step-size out, or use --method bootstrap")
        return cls(algorithm.blocks)

    def _make_room(self, state: LeastSquaresState, increments: Increments) -> None:
        """Give indices to the parameters that appear for the first time, and widen all arrays if needed."""
        state.coordinates = state.coordinates.including(increments)
        more = state.coordinates.capacity - len(state.pilot)
        if more > 0:
            state.sums = state.sums.widened(more)
            state.mixing = state.mixing.widened(more)
            state.pilot = lengthened(state.pilot, state.coordinates.capacity)
            state.earlier = lengthened(state.earlier, state.coordinates.capacity)
            state.past = state.past and state.past.widened(more)
            state.fourth_moments = state.fourth_moments.widened(more)
            state.current = state.current.widened(more)
            state.wholes = state.wholes and state.wholes.widened(more)
            state.history = state.history.widened(more)

    def _end_epoch(self, state: LeastSquaresState) -> None:
        """Renew the pilot, and shift all moments to it."""
        factored, vector = state.factored()
        pilot = lengthened(factored.solve(vector), state.coordinates.capacity)
        blocks, wholes, history = self._scored(state, pilot, factored)
        if isinstance(blocks, EpisodeSums) and blocks.closed == 0:  # without an end, values are not identified
            pilot = np.zeros_like(pilot)
            blocks, wholes, history = self._scored(state, pilot, factored)
        combined = self._combined(state, blocks, wholes, history, pilot)
        state.past, state.fourth_moments, state.wholes, state.history = combined
        # Rows of the first epoch have been scored at the new pilot, later ones at the previous one.
        state.earlier = state.pilot if state.first_epoch is None else pilot
        if isinstance(blocks, EpisodeSums) and state.first_epoch is None:
            blocks = blocks.moved(self._drift(state, blocks, pilot))
        state.pilot, state.first_epoch = pilot, None
        state.epoch_end *= 2
        expected = 2 * blocks.closed if isinstance(blocks, EpisodeSums) else state.epoch_end
        state.current = blocks.next_epoch(n_levels(expected))

    def _combined(
        self, state: LeastSquaresState, blocks: BlockSums, wholes: Wholes | None, history: History, pilot: Floats
    ) -> Combined:
        """Combine the moments of all epochs, this one included, at another pilot.

        The score of a step changes by A_t (old - new), whose mean over all steps is known.
        """
        moments = blocks.moments
        past = [moments] if state.past is None else [state.past, moments]
        combined = Combined(
            Moments.added(past), Segments.joined([state.fourth_moments, fourth_moments_of(moments)]), wholes, history
        )
        if state.first_epoch is not None:  # already scored at this pilot
            return combined
        drift = self._drift(state, blocks, pilot)
        return Combined(
            combined.past.shifted(drift),
            combined.fourth_moments.shifted(drift),
            wholes and wholes.shifted(drift),
            history.shifted(drift),
        )

    def _drift(self, state: LeastSquaresState, blocks: BlockSums, pilot: Floats) -> Floats:
        """Return by how much a step, or an episode, changes in the mean at another pilot.

        One open episode does not count: with constant features, what theta does to a return telescopes to 0 until the
        episode ends, so that returns that are equal stay equal. With many open at once, they count as the others do.
        """
        units = blocks.begun - (blocks.begun > blocks.closed) if isinstance(blocks, EpisodeSums) else state.n
        return np.asarray(state.sums.total()[0] @ (state.pilot - pilot) / max(units, 1))

    def _no_blocks(self, n: int, scores: Vectors) -> BlockSums:
        """Return empty block sums for a first epoch of n rows, of the type that suits its scores."""
        p = scores.size if isinstance(scores, Sparse) else scores.shape[1]
        if self.blocks == "episode":
            return EpisodeSums.empty(n_levels(n), p)
        if isinstance(scores, Sparse):
            return SparseCascade.empty(n_levels(n), p, scores.index.shape[1])
        return Cascade.empty(n_levels(n), p)

    def _scored(
        self, state: LeastSquaresState, pilot: Floats, factored: Factored, index: Integers | None = None
    ) -> tuple[BlockSums, Wholes | None, History]:
        """Return the block sums of this epoch, of whole streams and of all time; rows that are kept are scored now.

        The pilot was fitted to these rows, so their scores are too small; they are scaled up by their leverage. `index`
        maps the state's parameters to those of the factored matrix.
        """
        if not state.first_epoch:
            return state.current, state.wholes, state.history
        rows = FirstEpoch.join(state.first_epoch)
        seen = state.coordinates.relabelled(rows.increments)
        among = np.arange(len(state.coordinates)) if index is None else index[: len(state.coordinates)]
        inverse = np.zeros((state.coordinates.capacity,) * 2)
        inverse[: len(among), : len(among)] = factored.inverse[np.ix_(among, among)]
        scores = seen.scores(pilot, inverse)
        blocks = self._no_blocks(state.n, scores)
        wholes = None if state.wholes is None else Wholes.empty(state.coordinates.capacity)
        history = History.empty(state.coordinates.capacity)
        _add(blocks, wholes, history, scores, rows.clock)
        return blocks, wholes, history


def _scores(state: LeastSquaresState, increments: Increments, clock: Clock) -> Vectors:
    """Return the scores at the pilot, or at the earlier one for episodes that it has scored already."""
    old = state.current.carries(clock) if isinstance(state.current, EpisodeSums) else np.zeros(1, np.bool_)
    if not old.any():
        return _evaluated(increments, state.pilot)
    before = _evaluated(increments, state.earlier)
    if old.all():  # one long episode
        return before
    scores = _evaluated(increments, state.pilot)
    if isinstance(scores, Sparse) and isinstance(before, Sparse):
        return replace(scores, value=np.where(old[:, None], before.value, scores.value))
    return np.where(old[:, None], dense(before), dense(scores))


def _evaluated(increments: Increments, pilot: Floats) -> Vectors:
    """Evaluate increments at the pilot; dense ones of the general form in the backend."""
    if type(increments) is Increments and not isinstance(increments.u, Sparse):
        use = engine.active()
        return use.evaluate(increments, pilot, use.threads)
    return increments.scores(pilot)


def _add(blocks: BlockSums, wholes: Wholes | None, history: History, scores: Vectors, clock: Clock) -> None:
    if isinstance(blocks, EpisodeSums):
        blocks.add(scores, clock, history)
        return
    if isinstance(blocks, SparseCascade):
        assert isinstance(scores, Sparse)
        blocks.add(scores, clock)
    else:
        scores = dense(scores)
        blocks.add(scores, clock.slot)
    history.add(scores, clock.slot)
    if wholes is not None:
        wholes.add(scores, clock)
