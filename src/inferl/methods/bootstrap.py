r"""OnlineBootstrap: Algorithm 1.

B + 1 rows of parameters see the same increments. Row 0 is the estimate; in row b every increment is multiplied by a
random W of mean 1, drawn anew at each tick. For each transition t and each row b::

    theta_b  <-  theta_b + alpha_t W_tb H_t(theta_b)
    bar_b    <-  weighted average of theta_b over the steps so far

The spread of bar_b around bar_0, divided by the standard deviation of W, is that of bar_0 around the truth. The state
is O(B p), whatever the length of the stream.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from inferl import engine
from inferl.algorithms import Algorithm
from inferl.data.arrays import Bools, Floats, Integers
from inferl.data.increments import FieldIncrements, Increments
from inferl.data.invariants import COUNT, FINITE, bounds, demand, shapes
from inferl.data.streams import TILE, Clock, Steps
from inferl.diagnostics import Check, checks_of_scores
from inferl.engine import Foldable
from inferl.engine.multipliers import BlockClock, Multipliers
from inferl.errors import CheckpointCorruptError, DivergenceError, PairingError, SettingError
from inferl.interval import Interval, basic, normal, percentile, quantile
from inferl.methods.base import Method, covariance_of, no_replicas
from inferl.methods.convergence import convergence, unequal_features
from inferl.methods.least_squares import LeastSquares, LeastSquaresReading, LeastSquaresState
from inferl.methods.step_sizes import Constant, Polynomial, StepSize
from inferl.variance.score_blocks import ScoreBlocks

__all__ = ["BootstrapReading", "BootstrapState", "BurnIn", "EffectiveBlocks", "OnlineBootstrap"]


@dataclass(frozen=True, eq=False)
class EffectiveBlocks:
    """How many independent multipliers the average has seen: (sum q)^2 / sum q^2, q a block's squared weights."""

    tick: Integers = field(default_factory=lambda: np.zeros(0, np.int64))  # (S,) of the open block
    open: Floats = field(default_factory=lambda: np.zeros(0))  # (S,) q of the open block
    total: float = 0.0
    squares: float = 0.0  # over closed blocks

    def verify(self) -> None:
        """Refuse what no blocks leave."""
        shapes(self, {"tick": "S", "open": "S"})
        bounds(self, {"tick": (-1, COUNT[1])} | dict.fromkeys(("open", "total", "squares"), (0, 1e150)))

    def updated(self, slot: Integers, tick: Integers, weight: Floats) -> EffectiveBlocks:
        """Take in rows with their averaging weights."""
        new = int(slot.max(initial=-1)) + 1 - len(self.tick)
        ticks = np.r_[self.tick, np.full(max(new, 0), -1)]
        opened = np.r_[self.open, np.zeros(max(new, 0))]
        total, squares = self.total, self.squares
        for s, now, q in zip(slot.tolist(), tick.tolist(), (weight**2).tolist(), strict=True):
            if now != ticks[s]:
                squares += float(opened[s]) ** 2
                ticks[s], opened[s] = now, 0.0
            opened[s] += q
            total += q
        return EffectiveBlocks(ticks, opened, total, squares)

    @property
    def number(self) -> float:
        """K_eff."""
        squares = self.squares + float(np.sum(self.open**2))
        return self.total**2 / squares if squares > 0 else 0.0


MOST_COMPANIONED = 1000  # parameters up to which least-squares sums are kept beside the rows
COMPANION = LeastSquares()
EXPLODED = 1e8  # a row this many times larger than row 0 ever was has diverged


@dataclass(frozen=True)
class BurnIn:
    """Average uniformly, but only after the first `n` steps.

    >>> OnlineBootstrap(Polynomial(5.0), average=BurnIn(1000)).average
    BurnIn(n=1000)
    """

    n: int


@dataclass(frozen=True, eq=False)
class BootstrapState:
    """The rows, and what has been folded into them."""

    iterate: Floats  # (p, B + 1)
    average_offset: Floats  # (p, B + 1): the average is iterate - average_offset / weight_sum
    n: int  # increments folded
    scale: float  # largest parameter that row 0 ever had at a tile's edge
    blocks: EffectiveBlocks | None  # None if every step has its own multiplier
    size: Floats = field(default_factory=lambda: np.zeros(0))  # (d,) largest |feature| of each column; of a table none
    scores: ScoreBlocks | None = None  # of a nonlinear recursion
    companion: LeastSquaresState | None = None  # sums of the same increments, for the checks; changed in place

    def verify(self) -> None:
        """Refuse rows that no steps lead to; one that has diverged is not kept."""
        shapes(self, {"iterate": "p R", "average_offset": "p R", "size": "d", "scores.pilot": "p"})
        bounds(self, {"iterate": FINITE, "n": COUNT, "scale": (0, FINITE[1]), "size": (0, FINITE[1])})


class BootstrapReading(NamedTuple):
    """Averages seen along some targets."""

    estimate: Floats  # (k,)
    deviations: Floats  # (B, k): (bar_b - bar_0) . target / deviation of W
    df: float  # number of blocks less one; infinite if every step has its own multiplier
    n: int
    solved: LeastSquaresReading | None = None  # what the companion says

    @property
    def standard_error(self) -> Floats:
        """Standard deviations of the replicas (k,); infinite as long as there are no blocks to compare."""
        with np.errstate(over="ignore"):  # rows that are about to diverge have an infinite spread
            spread = self.deviations.std(axis=0, ddof=1)
        return np.asarray(spread + np.inf if self.n == 0 or self.df == 0 else spread)

    def scores(self) -> Floats:
        """Errors of all targets at once as the replicas show them, in standard errors (B, k)."""
        spread = self.deviations.std(axis=0, ddof=1)
        return np.asarray(self.deviations / np.where(spread > 0, spread, 1.0))

    def covariance(self) -> Floats:
        """Covariance matrix (k, k) of the estimates, from the replicas."""
        if self.n == 0 or self.df == 0:
            return covariance_of(self.standard_error, np.eye(len(self.estimate)))
        return np.atleast_2d(np.cov(self.deviations, rowvar=False))


@dataclass(frozen=True)
class OnlineBootstrap(Method):
    """Algorithm 1 of the paper, with its multipliers' spread accounted for and the transient weighted down.

    Parameters
    ----------
    step_size
        alpha_t; no value is safe for every problem, see `Polynomial`.
    n_replicas
        B, the number of perturbed rows.
    multipliers
        Law and clock of W.
    average
        ``"linear"``: weights proportional to t, so that the start is forgotten; ``"uniform"``: the paper's;
        ``BurnIn(n)``: uniform after n steps.
    seed
        Key of the multipliers. Two evaluators with one seed are coupled.
    companion
        Keep least-squares sums beside the rows, for the checks of convergence and dependence; of a `Field`, which has
        none, sums of its scores, for dependence only.
    first_replica
        Number of the first replica, for sharding replicas over several evaluators.

    Examples
    --------
    >>> OnlineBootstrap(Polynomial(5.0), n_replicas=400).n_replicas
    400
    """

    step_size: StepSize
    n_replicas: int = 200
    multipliers: Multipliers = field(default_factory=Multipliers)
    average: str | BurnIn = "linear"
    seed: int = 0
    companion: bool = True
    first_replica: int = 0

    kinds = ("percentile", "basic", "normal")
    solves = False
    whole = True
    stores = (
        *(BootstrapState, EffectiveBlocks, ScoreBlocks, BurnIn, Multipliers, BlockClock, Polynomial, Constant),
        *LeastSquares.stores,
    )

    def __post_init__(self) -> None:
        if self.n_replicas < 2:
            raise SettingError(f"n_replicas is {self.n_replicas}; a spread needs at least 2")
        if not isinstance(self.average, BurnIn) and self.average not in ("linear", "uniform"):
            raise SettingError(f"there is no average {self.average!r}; choose 'linear', 'uniform' or BurnIn(n)")
        if not 0 <= self.seed < 2**64:
            raise SettingError(f"seed is {self.seed}; it must be in 0 .. 2^64 - 1")
        if not 0 <= self.first_replica < 2**32 - self.n_replicas:
            raise SettingError(f"first_replica is {self.first_replica}; replicas are numbered below 2^32")

    @classmethod
    def as_printed(cls, initial: float, n_replicas: int = 200, seed: int = 0) -> OnlineBootstrap:
        """Build the paper's text to the letter, for comparison: its intervals are far too narrow.

        The multipliers' variance is taken to be 1 (it is 1/9), the average is uniform from the first step, the step
        size is initial / t^(3/4) without a cap.
        """
        return cls(Polynomial(initial, 0.75, cap=None), n_replicas, Multipliers("as-printed"), "uniform", seed)

    def init(self, algorithm: Algorithm) -> BootstrapState:
        """Start all rows at 0."""
        if not algorithm.recursive:
            raise SettingError(f"{algorithm} is a ratio of sums, which no step size leads to; use LeastSquares")
        companion = COMPANION.init(algorithm) if self._accompanied(algorithm) else None
        return replace(self.at_zero(algorithm.n_parameters), companion=companion)

    def _accompanied(self, algorithm: Algorithm) -> bool:
        return self.companion and algorithm.affine and algorithm.dimension <= MOST_COMPANIONED

    def at_zero(self, n_parameters: int) -> BootstrapState:
        """Return rows that have seen nothing, without a companion."""
        rows = np.zeros((n_parameters, self.n_replicas + 1))
        blocks = None if self.multipliers.clock == "step" else EffectiveBlocks()
        return BootstrapState(iterate=rows, average_offset=rows.copy(), n=0, scale=0.0, blocks=blocks)

    def prepare(
        self, algorithm: Algorithm, state: BootstrapState, steps: Steps, increments: Increments, clock: Clock
    ) -> tuple[BootstrapState, Any]:
        """Fold into the rows; the sums of the companion are changed by `commit`."""
        if not len(increments):
            return state, None
        work = None if state.companion is None else (algorithm.value_form(increments), clock)
        try:
            return self.fold(state, increments, clock), work
        except DivergenceError as error:
            size = increments.sizes()
            size = np.maximum(state.size, size) if len(state.size) else size
            units = unequal_features(size, algorithm.n_features)
            if not units:
                raise
            raise DivergenceError(f"{error}; {units}", error.step, error.replica) from None

    def commit(self, state: BootstrapState, work: Any) -> None:
        """Fold into the companion."""
        if work is not None and state.companion is not None:
            COMPANION.fold(state.companion, *work)

    def copy(self, state: BootstrapState) -> BootstrapState:
        """Copy the companion; rows are never changed in place."""
        return state if state.companion is None else replace(state, companion=state.companion.copy())

    def fold(self, state: BootstrapState, increments: Foldable, clock: Clock) -> BootstrapState:
        """Fold whole tiles of increments into the rows; the old state stays as it is."""
        if isinstance(increments, FieldIncrements) and len(increments) > TILE:  # epochs of the scores end at tile edges
            for start in range(0, len(increments), TILE):
                rows = slice(start, start + TILE)
                state = self.fold(state, increments[rows], clock[rows])
            return state
        after, largest = self._folded(state, increments, clock)
        scale = np.maximum(np.maximum.accumulate(largest[:, 0]), state.scale)
        most = largest.max(axis=1)
        sound = (most <= EXPLODED * scale) & (most < np.inf)  # not where it is NaN
        if not sound.all():
            tile = int(np.argmin(sound))
            exploded = np.flatnonzero(_exploded(largest[tile], scale[tile]))
            self._refuse_divergence(state, increments, clock, tile, exploded)
        size = increments.sizes()
        if len(state.size):
            size = np.maximum(state.size, size)
        return replace(after, scale=float(scale[-1]), size=size, scores=self._scored(after, increments, clock))

    def _scored(self, after: BootstrapState, increments: Foldable, clock: Clock) -> ScoreBlocks | None:
        """Take in the scores of a tile of a nonlinear recursion."""
        if not isinstance(increments, FieldIncrements) or not self.companion:
            return None
        scores = after.scores or ScoreBlocks.start(np.zeros(len(after.iterate)))
        scores = scores.updated(increments, clock)
        return scores if after.n < scores.epoch_end else scores.next_epoch(self._averages(after)[:, 0])

    def _folded(self, state: BootstrapState, increments: Foldable, clock: Clock) -> tuple[BootstrapState, Floats]:
        """Fold, and return the largest parameter of each row after each tile."""
        iterate, average_offset = state.iterate.copy(), state.average_offset.copy()
        step_size = self.step_size(clock.step, increments.scale)
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

    def information(self, n: int) -> float:
        """Sum of the squared averaging weights of the first n steps: how fast the average's error settles."""
        steps = float(n)
        if isinstance(self.average, BurnIn):
            return max(steps - self.average.n, 0.0)
        return steps if self.average == "uniform" else steps * (steps + 1) * (2 * steps + 1) / 6

    def read(
        self, algorithm: Algorithm, state: BootstrapState, rows: Floats, jointly: bool = False
    ) -> BootstrapReading:
        """Look along targets, and at what the companion says along them."""
        reading = self.look(state, algorithm.pad(rows))
        if state.companion is None or rows.shape[1] != algorithm.dimension:
            return reading
        return reading._replace(solved=COMPANION.look(state.companion, rows))

    def estimate(self, algorithm: Algorithm, state: BootstrapState, rows: Floats) -> Floats:
        """Return row 0 along targets: without the companion, but with the bits of `read`."""
        return np.asarray((algorithm.pad(rows) @ self._averages(state))[:, 0])

    def look(self, state: BootstrapState, targets: Floats) -> BootstrapReading:
        """Look along targets (k, p).

        The spread of K blocks about their own mean is short by (K - 1) / K; the deviations make up for it.
        """
        seen = targets @ self._averages(state)  # (k, B + 1)
        deviations = (seen[:, 1:] - seen[:, :1]).T / self.multipliers.deviation
        df = np.inf if state.blocks is None else max(state.blocks.number - 1, 0.0)
        if 0 < df < np.inf:
            deviations = deviations * np.sqrt((df + 1) / df)
        return BootstrapReading(seen[:, 0], deviations, df, state.n)

    def _averages(self, state: BootstrapState) -> Floats:
        weight_sum = float(self.weight_sum(np.array(state.n)))
        return state.iterate - state.average_offset / weight_sum if weight_sum > 0 else state.iterate

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
            few = quantile(level, df) / quantile(level)  # as few blocks widen the normal interval
            lower, upper = (percentile if kind == "percentile" else basic)(estimate, few * deviations, level)
        return Interval(estimate, lower, upper, level, kind, error, n, df=df)

    def checks(
        self, algorithm: Algorithm, state: BootstrapState, reading: BootstrapReading, interval: Interval
    ) -> Sequence[Check]:
        """Make the checks of the recursion, and those that the companion allows."""
        units = unequal_features(state.size, algorithm.n_features)
        converged = convergence(interval.estimate, interval.standard_error, reading.solved, str(self.average), units)
        by_blocks = self.multipliers.clock != "step"
        return (converged, *checks_of_scores(reading, interval, allowed_for=by_blocks, scores=state.scores))

    def concatenate(
        self, methods: Sequence[Method], states: Sequence[BootstrapState]
    ) -> tuple[OnlineBootstrap, BootstrapState]:
        """Join the replicas of several shards; row 0, which every shard has, is taken once."""
        expected = self
        for method, state in zip(methods, states, strict=True):
            if not isinstance(method, OnlineBootstrap):
                raise SettingError("only replicas of OnlineBootstrap can be concatenated; LeastSquares can be merged")
            if replace(expected, n_replicas=method.n_replicas) != method:
                raise SettingError(f"{method} does not continue the replicas before it, which end at {expected}")
            if state.n != states[0].n or not np.array_equal(state.iterate[:, 0], states[0].iterate[:, 0]):
                raise SettingError("the shards have not seen the same stream: their estimates differ")
            expected = replace(expected, first_replica=method.first_replica + method.n_replicas)
        first, others = states[0], states[1:]
        iterate = np.concatenate([first.iterate, *(state.iterate[:, 1:] for state in others)], axis=1)
        offset = np.concatenate([first.average_offset, *(state.average_offset[:, 1:] for state in others)], axis=1)
        whole = replace(self, n_replicas=expected.first_replica - self.first_replica)
        return whole, replace(first, iterate=iterate, average_offset=offset)

    def subtract(self, other: Method, one: BootstrapReading, two: BootstrapReading) -> BootstrapReading:
        """Subtract replica by replica: what both streams' multipliers share falls out."""
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
        """Refuse what is no state of a bootstrap, or one of another size."""
        if not isinstance(state, BootstrapState):
            raise CheckpointCorruptError("a bootstrap has no replicas")
        shapes(state, {"iterate": "p R"}, p=algorithm.n_parameters, R=self.n_replicas + 1)
        demand((state.blocks is None) == (self.multipliers.clock == "step"), f"blocks do not belong to {self}")
        shapes(state, {"scores.pilot": "p"}, p=algorithm.n_parameters)
        kept = state.companion is not None
        demand(kept == self._accompanied(algorithm), f"least squares beside {self}, or none")
        if kept:
            COMPANION.verify_state(algorithm, state.companion)

    def verify_rows(self, algorithm: Algorithm, state: BootstrapState, like: Increments) -> None:
        """Compare the lengths of features, and what the companion keeps."""
        demand(len(state.size) in (0, len(like.sizes())), "the features have another length")
        if state.companion is not None:
            COMPANION.verify_rows(algorithm, state.companion, like)

    @classmethod
    def from_options(cls, options: Mapping[str, Any], algorithm: Algorithm) -> OnlineBootstrap:
        """Build it from the options of the shell."""
        if "step_size" not in options:
            raise SettingError(
                "the bootstrap needs --step-size; try a few, from 1 to 100, or take --method least-squares"
            )
        clock: Any = BlockClock() if options["clock"] == "block" else options["clock"]
        return cls(
            Polynomial(options["step_size"]),
            n_replicas=options["replicas"],
            multipliers=Multipliers(clock=clock),
            seed=options["seed"],
        )

    def _refuse_divergence(
        self, state: BootstrapState, increments: Foldable, clock: Clock, tile: int, rows: Integers
    ) -> None:
        """Name the first step and row of a tile that exploded."""
        edge = tile * TILE
        sound = self.fold(state, increments[:edge], clock[:edge]) if edge else state
        now, scale = sound, sound.scale
        for t in range(edge, min(edge + TILE, len(increments))):
            now, (largest,) = self._folded(now, increments[t : t + 1], clock[t : t + 1])
            scale = max(scale, float(largest[0]))
            exploded = np.flatnonzero(_exploded(largest, scale))
            if exploded.size:
                rows = exploded
                break
        replica = None if rows[0] == 0 else self.first_replica + int(rows[0]) - 1
        raise DivergenceError(
            f"{'the estimate' if replica is None else f'replica {replica}'} diverged at step {clock.step[t]}: its "
            f"largest parameter is {largest[rows[0]]:.3g}; use a smaller step size or a smaller cap. "
            "The state is that of the last sound tile, and can be read",
            int(clock.step[t]),
            replica,
        )


def _exploded(largest: Floats, scale: float) -> Bools:
    return ~np.isfinite(largest) | (largest > EXPLODED * scale)
