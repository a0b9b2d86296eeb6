r"""OnlineBootstrap: Algorithm 1.

B + 1 parameter vectors, called rows, see the same increments. Row 0 is the estimate; in row b every increment is
multiplied by a random W with mean 1, drawn anew at each tick of a clock. For each transition t and each row b::

    theta_b  <-  theta_b + alpha_t W_tb H_t(theta_b)
    bar_b    <-  weighted average of theta_b over the steps so far

The spread of bar_b around bar_0, divided by the standard deviation of W, estimates that of bar_0 around the truth. The
state has size O(B p), whatever the length of the stream.

`OnlineBootstrap._fold_rows` is this recursion: it computes alpha_t and the averaging weights, and the backend does the
loop. `look` and `interval` turn the rows into intervals.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from inferl import engine
from inferl.algorithms import Algorithm
from inferl.data.arrays import Bools, Floats, Integers, alike, as_floats, is_integer, short
from inferl.data.device import as_device, device_of, on_host
from inferl.data.increments import FieldIncrements, GradientIncrements, Increments
from inferl.data.invariants import COUNT, FINITE, bounds, demand, shapes
from inferl.data.streams import TILE, Clock, Steps
from inferl.diagnostics import Check, checks_of_scores
from inferl.engine import Foldable
from inferl.engine.multipliers import BlockClock, EffectiveBlocks, Multipliers
from inferl.errors import CheckpointCorruptError, DivergenceError, PairingError, SettingError
from inferl.interval import Interval, basic, normal, percentile, quantile
from inferl.methods.base import Method, covariance_of, no_replicas
from inferl.methods.convergence import convergence, unequal_features
from inferl.methods.drift import drift
from inferl.methods.least_squares import LeastSquares, LeastSquaresReading, LeastSquaresState
from inferl.methods.pilot import Solution, automatic
from inferl.methods.step_sizes import Constant, Polynomial, StepSize
from inferl.variance.first_epoch import FirstEpoch, appended, first_epoch_rows
from inferl.variance.score_blocks import ScoreBlocks

__all__ = ["BootstrapReading", "BootstrapState", "BurnIn", "OnlineBootstrap"]

MOST_COMPANIONED = 1000  # parameters; with more, no least-squares sums are kept beside the rows
COMPANION = LeastSquares()
EXPLODED = 1e8  # a row has diverged when it is this many times larger than row 0 ever was


@dataclass(frozen=True)
class BurnIn:
    """Average uniformly, but only after the first `n` steps.

    >>> OnlineBootstrap(Polynomial(5.0), average=BurnIn(1000)).average
    BurnIn(n=1000)
    """

    n: int

    def __post_init__(self) -> None:
        if not is_integer(self.n) or self.n < 0:
            raise SettingError(f"n of BurnIn is {short(self.n)}; it must be a number of steps, at least 0")


@dataclass(frozen=True, eq=False)
class BootstrapState:
    """The B + 1 rows, their averages, and what the checks need.

    As long as there is a pilot, the rows have not moved, and n is 0.
    """

    iterate: Floats  # (p, B + 1)
    average_offset: Floats  # (p, B + 1): the average is iterate - average_offset / weight_sum
    n: int  # increments folded
    scale: float  # largest parameter of row 0 so far, at the ends of tiles
    blocks: EffectiveBlocks | None  # None if every step has its own multiplier
    size: Floats = field(default_factory=lambda: np.zeros(0))  # (d,) largest |feature| of each column; empty for tables
    scores: ScoreBlocks | None = None  # of a nonlinear recursion
    companion: LeastSquaresState | None = None  # sums of the same increments, for the checks; changed in place
    pilot: tuple[FirstEpoch, ...] | None = None  # the first increments, until what is computed from them is known
    step_size: Polynomial | None = None  # that was chosen automatically

    def verify(self) -> None:
        """Refuse inconsistent sizes and numbers that are not finite."""
        shapes(self, {"iterate": "p R", "average_offset": "p R", "size": "d", "scores.pilot": "p"})
        bounds(self, {"iterate": FINITE, "n": COUNT, "scale": (0, FINITE[1]), "size": (0, FINITE[1])})
        demand(self.pilot is None or self.n == 0, f"{self.n} steps were folded before the pilot has ended")

    @property
    def seen(self) -> int:
        """Number of increments, those of the pilot included."""
        return self.n + sum(map(len, self.pilot or ()))


class BootstrapReading(NamedTuple):
    """The averages of all rows along k targets."""

    estimate: Floats  # (k,)
    deviations: Floats  # (B, k): (bar_b - bar_0) . target / standard deviation of W
    df: float  # effective number of blocks minus one; infinite if every step has its own multiplier
    n: int
    solved: LeastSquaresReading | None = None  # of the companion

    @property
    def units(self) -> int:
        """Number of steps."""
        return self.n

    @property
    def standard_error(self) -> Floats:
        """Standard deviations of the replicas (k,); infinite as long as there are no blocks to compare."""
        with np.errstate(over="ignore"):  # rows that are about to diverge have an infinite spread
            spread = self.deviations.std(axis=0, ddof=1)
        return np.asarray(spread + np.inf if self.n == 0 or self.df == 0 else spread)

    def scores(self) -> Floats:
        """Joint errors (B, k) of all targets, one draw per replica, in standard errors."""
        spread = self.deviations.std(axis=0, ddof=1)
        return np.asarray(self.deviations / np.where(spread > 0, spread, 1.0))

    def covariance(self) -> Floats:
        """Covariance matrix (k, k) of the estimates, from the replicas."""
        if self.n == 0 or self.df == 0:
            return covariance_of(self.standard_error, np.eye(len(self.estimate)))
        return np.atleast_2d(np.cov(self.deviations, rowvar=False))


@dataclass(frozen=True)
class OnlineBootstrap(Method):
    """Algorithm 1 of the paper, with the correct variance of its multipliers and less weight on the transient.

    Parameters
    ----------
    step_size
        alpha_t: ``"auto"``, which chooses it from the first rows, or a step size such as `Polynomial`; no value suits
        every problem.
    n_replicas
        B, the number of perturbed rows.
    multipliers
        Law and clock of W.
    average
        ``"linear"``: weights proportional to t, which discount the transient; ``"uniform"``: the paper's;
        ``BurnIn(n)``: uniform after n steps.
    seed
        Key of the multipliers. Two evaluators with the same seed are coupled.
    companion
        Keep least-squares sums of the same increments, for the checks of convergence and dependence; for a `Field`,
        block sums of its scores, for dependence only.
    first_replica
        Number of the first replica, to split replicas over several evaluators (see `concatenate`).
    initial
        theta_0, where all rows start: 0, a vector of the value's parameters or of all, or ``"solved"``: each row starts
        at the least-squares solution of its own perturbed equations of the first rows, so that there is no transient.
        Default: ``"solved"`` with an automatic step size, and 0 with one of your own.

    Notes
    -----
    ``"auto"`` and ``"solved"`` need linear equations with at most 1,000 parameters. They are computed when the first
    epoch of least squares would end (after 8,192 steps, earlier with long features); until then, a reading computes
    them from the rows so far.

    Examples
    --------
    >>> OnlineBootstrap(Polynomial(5.0), n_replicas=400).n_replicas
    400
    >>> OnlineBootstrap().initial, OnlineBootstrap(Polynomial(5.0)).initial
    ('solved', 0)
    """

    step_size: StepSize | str = "auto"
    n_replicas: int = 200
    multipliers: Multipliers = field(default_factory=Multipliers)
    average: str | BurnIn = "linear"
    seed: int = 0
    companion: bool = True
    first_replica: int = 0
    initial: Any = None  # an array becomes a tuple, so that methods can be compared

    kinds = ("percentile", "basic", "normal")
    solves = False
    whole = True
    stores = (
        *(BootstrapState, EffectiveBlocks, ScoreBlocks, BurnIn, Multipliers, BlockClock, Polynomial, Constant),
        *(FirstEpoch, GradientIncrements),
        *LeastSquares.stores,
    )

    def __post_init__(self) -> None:
        if not callable(self.step_size) and self.step_size != "auto":
            raise SettingError(f"step_size is {short(self.step_size)}; give 'auto', Polynomial(...) or Constant(...)")
        usual = "solved" if self.step_size == "auto" else 0
        object.__setattr__(self, "initial", usual if self.initial is None else _as_initial(self.initial))
        if not is_integer(self.n_replicas) or self.n_replicas < 2:
            raise SettingError(f"n_replicas is {short(self.n_replicas)}; give 2 or more")
        if not isinstance(self.average, BurnIn) and self.average not in ("linear", "uniform"):
            raise SettingError(f"there is no average {self.average!r}; choose 'linear', 'uniform' or BurnIn(n)")
        if not is_integer(self.seed) or not 0 <= self.seed < 2**64:
            raise SettingError(f"seed is {short(self.seed)}; it must be a whole number in 0 .. 2^64 - 1")
        if not is_integer(self.first_replica) or not 0 <= self.first_replica < 2**32 - self.n_replicas:
            raise SettingError(f"first_replica is {short(self.first_replica)}; replicas are whole numbers below 2^32")

    @classmethod
    def as_printed(cls, initial: float, n_replicas: int = 200, seed: int = 0) -> OnlineBootstrap:
        """Build the method exactly as the paper prints it, for comparison; its intervals are far too narrow.

        It divides by 1 instead of 1/3, the standard deviation of its multipliers; the average is uniform from the
        first step; the step size is initial / t^(3/4) without a cap.
        """
        return cls(Polynomial(initial, 0.75, cap=None), n_replicas, Multipliers("as-printed"), "uniform", seed)

    # The recursion.

    @property
    def has_pilot(self) -> bool:
        """Whether anything is computed from the first rows."""
        return self.step_size == "auto" or self.initial == "solved"

    @property
    def given_step_size(self) -> StepSize:
        """The step size, unless it is automatic and known to the state alone."""
        assert not isinstance(self.step_size, str)
        return self.step_size

    def at_zero(self, n_parameters: int) -> BootstrapState:
        """Return rows of zeros, without a companion or a pilot."""
        rows = np.zeros((n_parameters, self.n_replicas + 1))
        blocks = None if self.multipliers.clock == "step" else EffectiveBlocks()
        return BootstrapState(iterate=rows, average_offset=rows.copy(), n=0, scale=0.0, blocks=blocks)

    def _fold_rows(self, state: BootstrapState, increments: Foldable, clock: Clock) -> tuple[BootstrapState, Floats]:
        """Apply the recursion to the increments; return also the largest parameter of each row after each tile."""
        iterate, average_offset, device = state.iterate.copy(), state.average_offset.copy(), device_of(increments)
        if device is not None:  # the rows are where the vectors are
            iterate, average_offset = as_device(iterate, device), as_device(average_offset, device)
        step_size = (state.step_size or self.given_step_size)(clock.step, on_host(increments.scale))
        weight_sums = self.weight_sum(np.arange(state.n, state.n + len(increments) + 1))
        tick = self.multipliers.ticks(clock)
        draws = engine.Draws(self.multipliers, self.seed, self.first_replica, tick, clock.slot)
        use = engine.active()
        largest = use.fold(iterate, average_offset, increments, step_size, weight_sums[:-1], draws, use.threads)
        blocks = state.blocks and state.blocks.updated(clock.slot, tick, np.diff(weight_sums))
        after = replace(
            state, iterate=iterate, average_offset=average_offset, n=state.n + len(increments), blocks=blocks
        )
        return after, largest

    def weight_sum(self, n: Integers) -> Floats:
        """Sum of the averaging weights of the first n steps."""
        steps = n.astype(np.float64)
        if isinstance(self.average, BurnIn):
            return np.maximum(steps - self.average.n, 0.0)
        return steps if self.average == "uniform" else steps * (steps + 1) / 2

    def _averages(self, state: BootstrapState) -> Floats:
        """Weighted averages (p, B + 1) of the iterates; the iterates themselves before the first weight."""
        weight_sum = float(self.weight_sum(np.array(state.n)))
        return state.iterate - state.average_offset / weight_sum if weight_sum > 0 else state.iterate

    def fold(self, state: BootstrapState, increments: Foldable, clock: Clock) -> BootstrapState:
        """Return the state after whole tiles of increments; raise if a row diverges."""
        if state.pilot is not None:
            return self._gathered(state, increments, clock)
        if isinstance(increments, FieldIncrements) and len(increments) > TILE:  # epochs of the scores end at tile edges
            for start in range(0, len(increments), TILE):
                rows = slice(start, start + TILE)
                state = self.fold(state, increments[rows], clock[rows])
            return state
        after, largest = self._fold_rows(state, increments, clock)
        scale = np.maximum(np.maximum.accumulate(on_host(largest[:, 0])), state.scale)
        most = on_host(largest.max(axis=1))
        sound = (most <= EXPLODED * scale) & (most < np.inf)  # not where it is NaN
        if not sound.all():
            tile = int(np.argmin(sound))
            self._refuse_divergence(state, increments, clock, tile, on_host(largest[tile:]), float(scale[tile]))
        return replace(
            after, scale=float(scale[-1]), size=_sizes(state, increments), scores=self._scored(after, increments, clock)
        )

    def _gathered(self, state: BootstrapState, increments: Foldable, clock: Clock) -> BootstrapState:
        """Add increments to the pilot, tile by tile; the first tile that makes it long enough ends it."""
        for start in range(0, len(increments), TILE):
            rows = slice(start, start + TILE)
            new = on_host(increments[rows])
            state = replace(state, pilot=appended(state.pilot or (), FirstEpoch(new, clock[rows])))
            if state.seen >= first_epoch_rows(new.n_parameters, new):
                try:
                    state, rest = self.launched(state), slice(rows.stop, None)
                except DivergenceError as error:  # at whatever step: the rows of a pilot are folded with its last tile
                    error.first_unsound = int(clock.step[start])
                    raise
                return self.fold(state, increments[rest], clock[rest]) if rows.stop < len(increments) else state
        return state

    def launched(self, state: BootstrapState, perturbed: bool = True) -> BootstrapState:
        """Return the state after the rows of the pilot; without `perturbed`, only row 0 is that of a solved start.

        A solution stands for the pilot in the average, as if the rows had been there all along: what it knows of the
        pilot's rows has their weight. Otherwise the rows are folded, now that the step size is known.
        """
        if not state.pilot:
            return state
        rows = FirstEpoch.join(state.pilot)
        increments, clock = rows.increments, rows.clock
        chosen = automatic(increments.expanded()) if self.step_size == "auto" else None
        state = replace(state, pilot=None, step_size=chosen)
        if self.initial != "solved":
            return self.fold(state, increments, clock)
        solution = Solution(increments.expanded())
        iterate = np.repeat(solution.theta[:, None], self.n_replicas + 1, axis=1)
        if perturbed:
            replica = self.first_replica + np.arange(self.n_replicas)
            iterate[:, 1:] = solution.replicas(clock, self.multipliers, self.seed, replica)
        if not np.isfinite(iterate).all():
            first = int(np.argmin(np.isfinite(iterate).all(axis=0)))
            raise DivergenceError(
                "the least-squares solution of the first rows is not a finite number, so no row can start there; "
                "divide the features or the rewards by a large number",
                len(rows),
                None if first == 0 else self.first_replica + first - 1,
            )
        weights = np.diff(self.weight_sum(np.arange(len(rows) + 1)))
        blocks = state.blocks and state.blocks.updated(clock.slot, self.multipliers.ticks(clock), weights)
        scale = float(np.abs(solution.theta).max())
        return replace(state, iterate=iterate, n=len(rows), scale=scale, blocks=blocks, size=_sizes(state, increments))

    def _so_far(self, state: BootstrapState, perturbed: bool = True) -> BootstrapState:
        """Return a state that can be read: as if the pilot ended here. It is NaN if it would diverge."""
        try:
            return self.launched(state, perturbed)
        except DivergenceError:
            lost = np.full_like(state.iterate, np.nan)
            return replace(state, iterate=lost, average_offset=lost, n=state.seen, pilot=None)

    def _refuse_divergence(
        self, state: BootstrapState, increments: Foldable, clock: Clock, tile: int, found: Floats, limit: float
    ) -> None:
        """Raise for a tile in which a row diverged; find the first step at which it did.

        `found` has the largest parameters from this tile on. A backend that looks at several tiles at once repeats
        them, so the step may be in one of those. If no single step stands out, it is the last one of the tile.
        """
        edge, same = tile * TILE, int(np.argmin([*(found == found[0]).all(axis=1), False]))
        sound = self.fold(state, increments[:edge], clock[:edge]) if edge else state
        now, scale = sound, sound.scale
        for t in range(edge, min(edge + max(same, 1) * TILE, len(increments))):
            now, (after,) = self._fold_rows(now, increments[t : t + 1], clock[t : t + 1])
            largest = on_host(after)
            scale = max(scale, float(largest[0]))
            rows = np.flatnonzero(_exploded(largest, scale))
            if rows.size:
                break
        else:
            t, largest = min(edge + TILE, len(increments)) - 1, found[0]
            rows = np.flatnonzero(_exploded(largest, limit))
        replica = None if rows[0] == 0 else self.first_replica + int(rows[0]) - 1
        raise DivergenceError(
            f"{'the estimate' if replica is None else f'replica {replica}'} diverged at step {clock.step[t]}: its "
            f"largest parameter is {largest[rows[0]]:.3g}; use a smaller step size or a smaller cap. "
            "The state is that of the last tile before, and can be read",
            int(clock.step[t]),
            replica,
        )

    def _scored(self, after: BootstrapState, increments: Foldable, clock: Clock) -> ScoreBlocks | None:
        """Add the scores of a tile, for the dependence check of a nonlinear recursion."""
        if not isinstance(increments, FieldIncrements) or not self.companion:
            return None
        scores = after.scores or ScoreBlocks.start(np.zeros(len(after.iterate)))
        scores = scores.updated(increments, clock)
        return scores if after.n < scores.epoch_end else scores.next_epoch(self._averages(after)[:, 0])

    # Readings.

    def look(self, state: BootstrapState, targets: Floats) -> BootstrapReading:
        """Read the rows along targets (k, p).

        The variance of K blocks about their own mean is biased by (K - 1) / K; the deviations are scaled up for it.
        """
        state = self._so_far(state)
        seen = targets @ self._averages(state)  # (k, B + 1)
        deviations = (seen[:, 1:] - seen[:, :1]).T / self.multipliers.deviation
        df = np.inf if state.blocks is None else max(state.blocks.number - 1, 0.0)
        if 0 < df < np.inf:
            deviations = deviations * np.sqrt((df + 1) / df)
        return BootstrapReading(seen[:, 0], deviations, df, state.n)

    def interval(self, reading: BootstrapReading, level: float, kind: str | None = None) -> Interval:
        """Turn a reading into intervals."""
        kind = self.one_of_kinds(kind)
        estimate, deviations, df, n, _ = reading
        error = reading.standard_error
        if n == 0 or df == 0:
            return Interval(estimate, estimate - np.inf, estimate + np.inf, level, kind, error, n)
        if kind == "normal":
            lower, upper = normal(estimate, error, level, df)
        else:
            few = quantile(level, df) / quantile(level)  # widen as Student's t widens the normal interval
            lower, upper = (percentile if kind == "percentile" else basic)(estimate, few * deviations, level)
        return Interval(estimate, lower, upper, level, kind, error, n, df=df)

    def information(self, n: int) -> float:
        """Sum of the squared averaging weights of the first n steps."""
        steps = float(n)
        if isinstance(self.average, BurnIn):
            return max(steps - self.average.n, 0.0)
        return steps if self.average == "uniform" else steps * (steps + 1) * (2 * steps + 1) / 6

    # The rest of the protocol, and the companion.

    def init(self, algorithm: Algorithm) -> BootstrapState:
        """Start all rows at the initial vector; what is computed from a pilot comes later."""
        if not algorithm.recursive:
            raise SettingError(f"{algorithm} is a ratio of sums, which no step size leads to; use LeastSquares")
        if self.has_pilot and not _has_system(algorithm):
            raise SettingError(
                f"step_size='auto' and initial='solved' need a linear equation with at most {MOST_COMPANIONED:,} "
                f"parameters, not {algorithm}; give a step size, such as Polynomial(...), and numbers to start at"
            )
        companion = COMPANION.init(algorithm) if self._accompanied(algorithm) else None
        state = replace(self.at_zero(algorithm.n_parameters), companion=companion)
        if isinstance(self.initial, tuple):
            state.iterate[:] = self._begin(algorithm)[:, None]
        return replace(state, pilot=() if self.has_pilot else None)

    def _begin(self, algorithm: Algorithm) -> Floats:
        """Return the initial vector with all its parameters."""
        given = np.array(self.initial)
        if len(given) == algorithm.n_parameters:
            return given
        if len(given) != algorithm.dimension:
            lengths = " or ".join(str(n) for n in sorted({algorithm.dimension, algorithm.n_parameters}))
            raise SettingError(f"initial has length {len(given)}, but {algorithm} has {lengths} parameters")
        return np.asarray(algorithm.pad(given[None])[0])

    def _accompanied(self, algorithm: Algorithm) -> bool:
        return self.companion and algorithm.affine and algorithm.dimension <= MOST_COMPANIONED

    def prepare(
        self, algorithm: Algorithm, state: BootstrapState, steps: Steps, increments: Increments, clock: Clock
    ) -> tuple[BootstrapState, Any]:
        """Fold into the rows; leave the companion's sums to `commit`."""
        if not len(increments):
            return state, None
        work = None if state.companion is None else (algorithm.value_form(increments), clock)
        try:
            return self.fold(state, increments, clock), work
        except DivergenceError as error:
            units = unequal_features(_sizes(state, increments), algorithm.n_features)
            if not units:
                raise
            explained = DivergenceError(f"{error}; {units}", error.step, error.replica)
            explained.first_unsound = error.first_unsound
            raise explained from None

    def commit(self, state: BootstrapState, work: Any) -> None:
        """Fold into the companion, in place."""
        if work is not None and state.companion is not None:
            COMPANION.fold(state.companion, *work)

    def copy(self, state: BootstrapState) -> BootstrapState:
        """Copy the companion; the rows are never changed in place."""
        return state if state.companion is None else replace(state, companion=state.companion.copy())

    def read(
        self, algorithm: Algorithm, state: BootstrapState, rows: Floats, jointly: bool = False
    ) -> BootstrapReading:
        """Read the rows, and the companion, along targets."""
        reading = self.look(state, algorithm.pad(rows))
        if state.companion is None or rows.shape[1] != algorithm.dimension:
            return reading
        return reading._replace(solved=COMPANION.look(state.companion, rows))

    def estimate(self, algorithm: Algorithm, state: BootstrapState, rows: Floats) -> Floats:
        """Read row 0 alone, without the companion; the bits are those of `read`."""
        return np.asarray((algorithm.pad(rows) @ self._averages(self._so_far(state, perturbed=False)))[:, 0])

    def checks(
        self, algorithm: Algorithm, state: BootstrapState, reading: BootstrapReading, interval: Interval
    ) -> Sequence[Check]:
        """Check convergence, and what the companion's scores tell."""
        units = unequal_features(state.size, algorithm.n_features)
        converged = convergence(interval.estimate, interval.standard_error, reading.solved, str(self.average), units)
        by_blocks = self.multipliers.clock != "step"
        scores = checks_of_scores(reading, interval, allowed_for=by_blocks, scores=state.scores)
        return (converged, *scores, drift(reading.solved))

    def concatenate(
        self, methods: Sequence[Method], states: Sequence[BootstrapState]
    ) -> tuple[OnlineBootstrap, BootstrapState]:
        """Concatenate the replicas of several shards; all shards have the same row 0, which is kept once."""
        expected = self
        for method, state in zip(methods, states, strict=True):
            if not isinstance(method, OnlineBootstrap):
                raise SettingError("only replicas of OnlineBootstrap can be concatenated; LeastSquares can be merged")
            if replace(expected, n_replicas=method.n_replicas) != method:
                raise SettingError(f"{method} does not continue the replicas before it, which end at {expected}")
            if state.seen != states[0].seen or not np.array_equal(state.iterate[:, 0], states[0].iterate[:, 0]):
                raise SettingError("the shards have not seen the same stream: their estimates differ")
            expected = replace(expected, first_replica=method.first_replica + method.n_replicas)
        first, others = states[0], states[1:]
        iterate = np.concatenate([first.iterate, *(state.iterate[:, 1:] for state in others)], axis=1)
        offset = np.concatenate([first.average_offset, *(state.average_offset[:, 1:] for state in others)], axis=1)
        whole = replace(self, n_replicas=expected.first_replica - self.first_replica)
        return whole, replace(first, iterate=iterate, average_offset=offset)

    def subtract(self, other: Method, one: BootstrapReading, two: BootstrapReading) -> BootstrapReading:
        """Subtract replica by replica; noise that both share cancels."""
        if not isinstance(other, OnlineBootstrap):
            raise SettingError(no_replicas(other))
        for name in ("seed", "multipliers", "average", "n_replicas", "first_replica"):
            if getattr(self, name) != getattr(other, name):
                raise PairingError(
                    f"{name} is {getattr(self, name)} in the first and {getattr(other, name)} in the second; paired "
                    "bootstraps must share it"
                )
        df = min(one.df, two.df)
        return BootstrapReading(one.estimate - two.estimate, one.deviations - two.deviations, df, one.n)

    def verify_state(self, algorithm: Algorithm, state: Any) -> None:
        """Refuse the state of another method, or of another size."""
        if not isinstance(state, BootstrapState):
            raise CheckpointCorruptError("the state is not that of a bootstrap")
        shapes(state, {"iterate": "p R"}, p=algorithm.n_parameters, R=self.n_replicas + 1)
        demand((state.blocks is None) == (self.multipliers.clock == "step"), f"blocks do not belong to {self}")
        shapes(state, {"scores.pilot": "p"}, p=algorithm.n_parameters)
        demand(self.has_pilot or state.pilot is None, f"a pilot does not belong to {self}")
        chosen = self.step_size == "auto" and state.pilot is None
        demand(
            (state.step_size is not None) == chosen, f"an automatic step size is missing, or does not belong to {self}"
        )
        if isinstance(self.initial, tuple):
            self._begin(algorithm)
        kept = state.companion is not None
        demand(kept == self._accompanied(algorithm), f"least-squares sums are missing, or do not belong to {self}")
        if kept:
            COMPANION.verify_state(algorithm, state.companion)

    def verify_rows(self, algorithm: Algorithm, state: BootstrapState, like: Increments) -> None:
        """Compare the length of the features, and verify the companion."""
        measured = like.measured()
        demand(len(state.size) in (0, 0 if measured is None else measured.shape[1]), "the features have another length")
        for number, kept in enumerate(state.pilot or ()):
            whole = number > 0 or kept.increments.n_parameters == algorithm.n_parameters  # only it holds the damping
            demand(whole and alike(kept.increments, like), "the pilot's rows are not those of the algorithm")
        if state.companion is not None:
            COMPANION.verify_rows(algorithm, state.companion, like)

    @classmethod
    def from_options(cls, options: Mapping[str, Any], algorithm: Algorithm) -> OnlineBootstrap:
        """Build the method from the options of the shell."""
        clock: Any = BlockClock() if options["clock"] == "block" else options["clock"]
        settings = {"n_replicas": options["replicas"], "multipliers": Multipliers(clock=clock), "seed": options["seed"]}
        if "step_size" in options:
            return cls(Polynomial(options["step_size"]), **settings)
        if algorithm.recursive and not _has_system(algorithm):
            raise SettingError(
                f"with more than {MOST_COMPANIONED:,} parameters the bootstrap needs --step-size; try several, from 1 "
                "to 100"
            )
        return cls(**settings)


def _has_system(algorithm: Algorithm) -> bool:
    """Whether a step size and a start can be computed: from a linear equation that is not too large."""
    return algorithm.affine and algorithm.n_parameters <= MOST_COMPANIONED


def _as_initial(initial: Any) -> tuple[float, ...] | str | int:
    """Return an initial vector as a tuple."""
    if isinstance(initial, str) and initial == "solved":
        return initial
    if is_integer(initial) and initial == 0:
        return 0
    if isinstance(initial, str):
        raise SettingError(f"initial is {initial!r}; give 0, a vector of parameters, or 'solved'")
    vector = as_floats("initial", initial)
    if vector.ndim != 1 or not np.isfinite(vector).all():
        raise SettingError(f"initial is {short(initial)}; give a vector of finite numbers")
    return tuple(vector.tolist())


def _sizes(state: BootstrapState, increments: Foldable) -> Floats:
    """The largest absolute value of each feature so far, (d,); empty for one-hot features."""
    measured, use = increments.measured(), engine.active()
    if measured is None:
        return state.size
    size: Floats = on_host(use.largest(measured, use.threads))
    return np.maximum(state.size, size) if len(state.size) else size


def _exploded(largest: Floats, scale: float) -> Bools:
    return ~np.isfinite(largest) | (largest > EXPLODED * scale)
