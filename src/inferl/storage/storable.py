"""Storable: the classes that a checkpoint may contain, and how they go together.

Each class says what holds of it alone (`verify`). Here is what holds between them: a state must be one that its
algorithm and its method can have left.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np

from inferl import algorithms
from inferl.algorithms import Algorithm, Carry
from inferl.data.arrays import Rows
from inferl.data.increments import Increments
from inferl.data.invariants import demand, shapes
from inferl.data.ratios import RatioSummary
from inferl.data.streams import TILE, Clock, Steps, Streams
from inferl.data.transitions import Transitions
from inferl.data.vectors import Sparse
from inferl.engine.multipliers import BlockClock, Multipliers
from inferl.errors import CheckpointCorruptError
from inferl.methods.bootstrap import BootstrapState, BurnIn, EffectiveBlocks, OnlineBootstrap
from inferl.methods.least_squares import LeastSquares, LeastSquaresState
from inferl.methods.linear_system import Coordinates, Sums
from inferl.methods.schedule import MOST_COMPANIONED, EvaluatorState, Method
from inferl.methods.step_sizes import Constant, Polynomial
from inferl.variance.batch_means import Cascade, EpisodeSums, Moments
from inferl.variance.episodes import EpisodeSummary
from inferl.variance.first_epoch import FirstEpoch
from inferl.variance.mixing import Mixing
from inferl.variance.score_blocks import ScoreBlocks
from inferl.variance.segments import Segments, Wholes
from inferl.variance.sparse_batch_means import SparseCascade

__all__ = ["STORABLE", "verify_together"]

LONGEST_ROW = 2**24  # of features; more, a file may claim, but nobody has

STORABLE: tuple[type, ...] = (
    *(getattr(algorithms, name) for name in algorithms.__all__ if isinstance(getattr(algorithms, name), type)),
    *(
        OnlineBootstrap,
        BootstrapState,
        EffectiveBlocks,
        ScoreBlocks,
        BurnIn,
        Multipliers,
        BlockClock,
        Polynomial,
        Constant,
    ),
    *(
        LeastSquares,
        LeastSquaresState,
        FirstEpoch,
        Sums,
        Mixing,
        Coordinates,
        SparseCascade,
        Cascade,
        EpisodeSums,
        Moments,
        Segments,
        Wholes,
    ),
    *(Transitions, Increments, Sparse, Streams, Steps, Clock, RatioSummary, EpisodeSummary, EvaluatorState),
)


def verify_together(algorithm: Algorithm, method: Method, state: EvaluatorState) -> None:
    """Refuse a state that this algorithm and this method cannot have left.

    What an algorithm makes of a step, and keeps for the next, is what it makes of one step of zeros: the same types,
    the same lengths. So no algorithm has to say it twice.
    """
    _verify_sizes(algorithm, method, state)
    n, pending = state.streams.n, state.pending
    demand((n == 0) == (state.tabular is None), f"{n} transitions have features of an unknown kind")
    if state.tabular is None:
        demand(not state.carry and pending is None, "something was kept of no transitions")
        return
    step = _zeros(algorithm, state)
    algorithm.check(step)
    _, steps = Streams().place(step)
    increments, _, carry = algorithm.increments(steps, {})
    if pending is not None:
        demand(0 < len(pending) < TILE, f"{len(pending)} rows wait for a tile of {TILE}")
        algorithm.check(pending.data)
        demand(_alike(pending, steps), "rows wait that are not like those of the algorithm")
        last = np.arange(n - len(pending) + 1, n + 1)
        demand(np.array_equal(pending.clock.step, last), "the rows that wait are not the last ones")
    demand(_alike_carry(state.carry, carry), f"{algorithm} keeps nothing like that")
    for kept in state.carry.values():
        if isinstance(kept, Steps):
            algorithm.check(kept.data)
    if isinstance(state.method, BootstrapState):
        demand(len(state.method.size) in (0, len(increments.sizes())), "the features have another length")
    solved = algorithm.value_form(increments) if algorithm.affine else None
    for sums in (state.method, state.companion):
        if isinstance(sums, LeastSquaresState) and solved is not None:
            _verify_rows(method, sums, solved)
    most = len(state.streams)
    for clock in _found(Clock, state):
        demand(int(clock.slot.max(initial=-1)) < most, f"a row belongs to none of {most} streams")
    arrays = [state.episodes.open[0], *(x for x in state.carry.values() if isinstance(x, np.ndarray))]
    demand(all(len(x) <= most for x in arrays), f"something is kept for more than {most} streams")


def _verify_sizes(algorithm: Algorithm, method: Method, state: EvaluatorState) -> None:
    """Compare the sizes that the settings claim with those of the arrays that are there."""
    own, beside = state.method, state.companion
    if isinstance(method, OnlineBootstrap):
        if not isinstance(own, BootstrapState):
            raise CheckpointCorruptError("a bootstrap has no replicas")
        shapes(own, {"iterate": "p R"}, p=algorithm.n_parameters, R=method.n_replicas + 1)
        demand((own.blocks is None) == (method.multipliers.clock == "step"), f"blocks do not belong to {method}")
        shapes(own, {"scores.pilot": "p"}, p=algorithm.n_parameters)
        kept = method.companion and algorithm.affine and algorithm.dimension <= MOST_COMPANIONED
        demand(kept == (beside is not None), f"least squares beside {method}, or none")
    else:
        if not isinstance(own, LeastSquaresState) or beside is not None:
            raise CheckpointCorruptError(f"{method} has replicas")
        demand(np.array_equal(own.outputs, algorithm.outputs), f"{algorithm} has other outputs")
    for sums in (own, beside):
        if isinstance(sums, LeastSquaresState):
            shapes(sums, {"coordinates.index": "p"}, p=algorithm.dimension)


def _verify_rows(method: Method, sums: LeastSquaresState, like: Increments) -> None:
    """Compare what least squares keeps of rows with increments of the algorithm."""
    for number, kept in enumerate(sums.first_epoch or ()):
        whole = number > 0 or kept.increments.n_parameters == like.n_parameters  # the first has what all share
        demand(whole and _alike(kept.increments, like), "the first rows are not those of the algorithm")
    by_episodes = isinstance(method, LeastSquares) and method.blocks == "episode"
    demand((sums.wholes is None) == by_episodes, f"whole streams are summed, or not, otherwise than {method} does")
    if sums.n:
        named = np.arange(len(sums.coordinates.index)) if like.named() is None else sums.outputs
        seen = bool((sums.coordinates.index[named] >= 0).all())
        demand(seen, "parameters that every step touches have not been seen")
    if sums.first_epoch is not None:
        return
    scores = like.scores(np.zeros(like.n_parameters))
    wanted: type = SparseCascade if isinstance(scores, Sparse) else Cascade
    if by_episodes:
        wanted = EpisodeSums
    demand(type(sums.current) is wanted, f"scores are summed by {type(sums.current).__name__}, not {wanted.__name__}")
    if wanted is SparseCascade and isinstance(scores, Sparse):
        shapes(sums.current, {"index": "S T m"}, m=scores.index.shape[1])


def _zeros(algorithm: Algorithm, state: EvaluatorState) -> Transitions | Increments:
    """Make one step, of the kind that was seen."""
    p, m = algorithm.n_parameters, len(state.ratios.total)
    if isinstance(state.pending, Steps) and isinstance(state.pending.data, Transitions) and state.ratios.n == 0:
        m = state.pending.data.ratios.shape[-1]  # nothing but these rows has been seen yet
    demand(len(state.episodes.open) == len(state.ratios.total), "there are as many ratios as there are policies")
    if state.ratios_ndim == 0:
        theirs = _found(Increments, state)  # increments of a user may have any number of terms, dense or sparse
        one = np.zeros((1, 1, p))
        return theirs[0][:1] if theirs else Increments(one, one, one[0, :, :1], one[0, 0], one[0, :, 0])
    demand(
        state.tabular is True or algorithm.n_features <= LONGEST_ROW,
        f"no row of features is as long as {algorithm} says",
    )
    features = np.zeros(1, np.int64) if state.tabular else np.zeros((1, algorithm.n_features))
    return Transitions(features, [0.0], features, 0.0, np.ones((1, m) if state.ratios_ndim == 2 else 1))


def _alike(one: Any, other: Any) -> bool:
    """Say whether two records differ in nothing but their rows; what all rows share may be left to the first."""
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray):
        return bool(one.dtype == other.dtype and one.shape[1:] == other.shape[1:])
    if not isinstance(one, Rows):
        return bool(one == other)
    return all(_alike(getattr(one, f.name), getattr(other, f.name)) for f in fields(one))  # type: ignore[arg-type]


def _alike_carry(one: Carry, other: Carry) -> bool:
    """Say whether an algorithm can have kept this; before its first tile it keeps nothing."""
    finite = all(np.isfinite(x).all() for x in one.values() if isinstance(x, np.ndarray))
    return not one or (finite and one.keys() == other.keys() and all(_alike(one[k], other[k]) for k in one))


def _found(kind: type, of: Any) -> list[Any]:
    """Find all objects of a kind in an object."""
    if isinstance(of, kind):
        return [of]
    inside: list[Any] = list(of.values()) if isinstance(of, dict) else list(of) if isinstance(of, tuple) else []
    if hasattr(of, "__dataclass_fields__"):
        inside = [getattr(of, f.name) for f in fields(of)]
    return [one for part in inside for one in _found(kind, part)]
