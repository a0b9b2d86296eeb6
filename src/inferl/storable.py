"""Storable: the classes that a checkpoint may contain."""

from __future__ import annotations

from inferl import algorithms
from inferl.blocks import Cascade, EpisodeSums, Moments
from inferl.bootstrap import BootstrapState, BurnIn, OnlineBootstrap
from inferl.coordinates import Coordinates
from inferl.effective_blocks import EffectiveBlocks
from inferl.episodes import EpisodeSummary
from inferl.increments import Increments
from inferl.kept_rows import Kept
from inferl.least_squares import LeastSquares, LeastSquaresState
from inferl.multipliers import Blocks, Multipliers
from inferl.occupancy import Occupancy
from inferl.ratios import RatioSummary
from inferl.score_blocks import ScoreBlocks
from inferl.sparse_blocks import SparseCascade
from inferl.step_sizes import Constant, Polynomial
from inferl.streams import Clock, Steps, Streams
from inferl.sums import Sums
from inferl.transitions import Transitions
from inferl.vectors import Sparse
from inferl.witnesses import Witnesses

__all__ = ["STORABLE"]

STORABLE: tuple[type, ...] = (
    *(getattr(algorithms, name) for name in algorithms.__all__ if isinstance(getattr(algorithms, name), type)),
    *(OnlineBootstrap, BootstrapState, EffectiveBlocks, ScoreBlocks, BurnIn, Multipliers, Blocks, Polynomial, Constant),
    *(
        LeastSquares,
        LeastSquaresState,
        Kept,
        Sums,
        Occupancy,
        Coordinates,
        SparseCascade,
        Cascade,
        EpisodeSums,
        Moments,
        Witnesses,
    ),
    *(Transitions, Increments, Sparse, Streams, Steps, Clock, RatioSummary, EpisodeSummary),
)
