"""Storable: the classes that a checkpoint may contain, and the consistency of a loaded state.

Each class verifies its own fields (`verify`). This module verifies that a state fits its algorithm and its method.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np

from inferl import algorithms
from inferl.algorithms import Algorithm, Carry
from inferl.data.arrays import alike
from inferl.data.constants import ConstantFit
from inferl.data.increments import Increments
from inferl.data.invariants import demand
from inferl.data.ratios import RatioSummary
from inferl.data.streams import TILE, Clock, Steps, Streams
from inferl.data.transitions import Transitions
from inferl.data.vectors import Sparse
from inferl.diagnostics import Check
from inferl.errors import SettingError
from inferl.methods.base import Method
from inferl.methods.registry import registered
from inferl.methods.schedule import EvaluatorState
from inferl.methods.window import Window, WindowState
from inferl.variance.episodes import EpisodeSummary

__all__ = ["storable", "verify_together"]

LONGEST_ROW = 2**24  # features; a file that claims more is not genuine

SHARED: tuple[type, ...] = (
    *(getattr(algorithms, name) for name in algorithms.__all__ if isinstance(getattr(algorithms, name), type)),
    *(
        Transitions,
        Increments,
        Sparse,
        Streams,
        Steps,
        Clock,
        RatioSummary,
        EpisodeSummary,
        EvaluatorState,
        Window,
        WindowState,
        Check,
        ConstantFit,
    ),
)


def storable() -> tuple[type, ...]:
    """Return the classes that a checkpoint may contain: those that all evaluators share, and those of every method.

    A file identifies classes by name, so two classes of the same name are refused.
    """
    found: dict[str, type] = {}
    for cls in (*SHARED, *(one for method in registered() for one in (method, *method.stores))):
        if found.setdefault(cls.__name__, cls) is not cls:
            one = found[cls.__name__]
            raise SettingError(
                f"{cls.__module__} and {one.__module__} both store a class {cls.__name__!r}, and a file could not tell "
                "them apart; rename one"
            )
    return tuple(found.values())


def verify_together(algorithm: Algorithm, method: Method, state: EvaluatorState, window: Window | None = None) -> None:
    """Refuse a state that does not fit this algorithm and this method.

    The algorithm processes one step of zeros. Its increments, and what it carries to the next step, have the types and
    lengths that the state must have. So an algorithm need not declare them.
    """
    method.verify_state(algorithm, state.method)
    demand((window is not None) == isinstance(state, WindowState), "the state is not that of a window, or of none")
    if isinstance(state, WindowState) and window is not None:
        demand(len(state.panes) <= window.panes + 1, f"{window} has {len(state.panes)} states")
        if state.past is not None:
            method.verify_state(algorithm, state.past)
        for pane in state.panes:
            verify_together(algorithm, method, pane)
        return
    n, pending = state.streams.n, state.pending
    demand((n == 0) == (state.tabular is None), f"there are {n} transitions, but tabular is {state.tabular}")
    if state.tabular is None:
        demand(not state.carry and pending is None, "rows are kept, but there were no transitions")
        return
    step = _zeros(algorithm, state)
    algorithm.check(step)
    first, width = state.constant.rows, step.features.shape[1:] if isinstance(step, Transitions) else ()
    demand(not len(first) or first.shape[1:] == width, "the first rows of the features have another length")
    _, steps = Streams().place(step)
    increments, _, carry = algorithm.increments(steps, {})
    if pending is not None:
        demand(0 < len(pending) < TILE, f"{len(pending)} rows are pending, in tiles of {TILE}")
        algorithm.check(pending.data)
        demand(alike(pending, steps), "the pending rows do not fit the algorithm")
        last = np.arange(n - len(pending) + 1, n + 1)
        demand(np.array_equal(pending.clock.step, last), "the pending rows are not the last ones")
    demand(_alike_carry(state.carry, carry), f"the values carried between steps do not fit {algorithm}")
    for kept in state.carry.values():
        if isinstance(kept, Steps):
            algorithm.check(kept.data)
    method.verify_rows(algorithm, state.method, increments)
    most = len(state.streams)
    for clock in _found(Clock, state):
        demand(int(clock.slot.max(initial=-1)) < most, f"a row belongs to none of the {most} streams")
    arrays = [state.episodes.open[0], *(x for x in state.carry.values() if isinstance(x, np.ndarray))]
    demand(all(len(x) <= most for x in arrays), f"arrays have more than {most} streams")


def _zeros(algorithm: Algorithm, state: EvaluatorState) -> Transitions | Increments:
    """Return one step of zeros, of the kind that was seen."""
    p, m = algorithm.n_parameters, len(state.ratios.total)
    known = {m}
    if isinstance(state.pending, Steps) and isinstance(state.pending.data, Transitions) and state.ratios.n == 0:
        m = state.pending.data.ratios[0].size  # only pending rows so far
        known.add(m)  # of a window, the episodes that are open may come from an earlier pane
    demand(len(state.episodes.open) in known, "the numbers of ratios and of policies differ")
    if state.ratios_ndim == 0:
        theirs = _found(Increments, state)  # a user's increments have any number of terms, dense or sparse
        one = np.zeros((1, 1, p))
        return theirs[0][:1] if theirs else Increments(one, one, one[0, :, :1], one[0, 0], one[0, :, 0])
    demand(
        state.tabular is True or algorithm.n_features <= LONGEST_ROW,
        f"{algorithm} has more than {LONGEST_ROW} features",
    )
    features = np.zeros(1, np.int64) if state.tabular else np.zeros((1, algorithm.n_features))
    ratios = np.ones((1, m) if state.ratios_ndim == 2 else 1)
    return Transitions(features, [0.0], features, 0.5, ratios, last=True)  # so that no algorithm waits for another


def _alike_carry(one: Carry, other: Carry) -> bool:
    """Return whether two carries have the same keys, types and lengths; before the first tile a carry is empty."""
    finite = all(np.isfinite(x).all() for x in one.values() if isinstance(x, np.ndarray))
    return not one or (finite and one.keys() == other.keys() and all(alike(one[k], other[k]) for k in one))


def _found(kind: type, of: Any) -> list[Any]:
    """Return all objects of a type inside an object."""
    if isinstance(of, kind):
        return [of]
    inside: list[Any] = list(of.values()) if isinstance(of, dict) else list(of) if isinstance(of, tuple) else []
    if hasattr(of, "__dataclass_fields__"):
        inside = [getattr(of, f.name) for f in fields(of)]
    return [one for part in inside for one in _found(kind, part)]
