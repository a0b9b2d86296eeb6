"""Transitions: a chunk of steps as arrays, validated here and nowhere else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from inferl.data.arrays import Bools, Floats, Integers, Rows, as_array, as_floats, is_integer, place, read, short
from inferl.data.device import as_device, as_vectors, device_of, is_elsewhere
from inferl.errors import ContradictionError, DataError, ShapeError

__all__ = ["FURTHEST", "MOST_STREAM", "Transitions"]

_MOST_LABEL = 2**63 - 1
FURTHEST = 1e11  # seconds since 1970, in the year 5138; milliseconds and the like are beyond
MOST_STREAM = 2**32 - 1  # a stream's label is one 32-bit word of the random generator's counter


@dataclass(frozen=True, eq=False)
class Transitions(Rows):
    """A chunk of T steps (s, r, s') of one or several streams, in order of arrival.

    Termination is data, not a branch: the discount is 0 where the next state is terminal. A truncated episode keeps its
    discount and its true last observation, and is marked by `last`.

    Parameters
    ----------
    features, next_features
        phi_t and phi'_t: floats (T, d), or integers (T,): the state's row number in a table (one-hot). Vectors on a
        GPU (of torch, or of any library with DLPack) stay there, for an evaluator with ``backend="torch"``.
    rewards
        r_{t+1}, (T,).
    discounts
        g_{t+1}, (T,) or one number: gamma, and 0 where the next state is terminal.
    ratios
        Importance ratios pi/b: (T,), one number, or (T, m) for m target policies on one log.
    first
        Where an episode begins. Default: where a stream begins, after `last`, or where `episode` changes.
    last
        Where an episode ends. Default: where the discount is 0, or `truncated` is set.
    truncated
        Where a time limit ended the episode. Default: where `last` is set and the discount is not 0; the rewards
        after it are unobserved. With a discount of 0 the limit is part of the task, and no rewards follow.
    episode, stream
        Integer labels, (T,) or one number. Steps of one stream follow each other in time; streams do not mix.
    time
        When each step was taken, in seconds or as datetime64: what a `Window` of so many hours goes by.
    version
        Integer label of the version of the policy. Without a `Window` there must be one.

    Examples
    --------
    >>> chunk = Transitions([0, 1, 2], [0.0, 0.0, 1.0], [1, 2, 3], [0.9, 0.9, 0.0])
    >>> len(chunk), chunk.tabular, chunk.last
    (3, True, array([False, False,  True]))
    """

    features: Floats | Integers  # (T, d) or (T,)
    rewards: Floats  # (T,)
    next_features: Floats | Integers  # (T, d) or (T,)
    discounts: Floats  # (T,)
    ratios: Floats  # (T,) or (T, m)
    first: Bools | None  # (T,); None: the default
    last: Bools  # (T,)
    episode: Integers | None  # (T,)
    stream: Integers  # (T,)
    truncated: Bools  # (T,)
    time: Floats | None  # (T,) seconds
    version: Integers | None  # (T,)

    def __init__(
        self,
        features: ArrayLike,
        rewards: ArrayLike,
        next_features: ArrayLike,
        discounts: ArrayLike,
        ratios: ArrayLike = 1.0,
        first: ArrayLike | None = None,
        last: ArrayLike | None = None,
        episode: ArrayLike | None = None,
        stream: ArrayLike = 0,
        truncated: ArrayLike | None = None,
        time: ArrayLike | None = None,
        version: ArrayLike | None = None,
    ) -> None:
        phi, phi_next = _features("features", features), _features("next_features", next_features)
        phi, phi_next = _together(phi, phi_next)
        n = len(phi)
        if n == 0:
            raise ShapeError("the chunk is empty; it needs at least one transition")
        if phi.shape != phi_next.shape or phi.dtype != phi_next.dtype:
            raise ShapeError(
                f"features are {_kind(phi)} and next_features are {_kind(phi_next)}; both must have one kind and shape"
            )
        g = _column("discounts", discounts, n)
        rho = _column("ratios", ratios, n, wide=True)
        _refuse("discount", (g < 0) | (g > 1), g, "a discount lies in [0, 1], with 0 at termination")
        _refuse("ratio", rho < 0, rho, "a ratio of probabilities is never negative; was a log-ratio passed?")
        by_limit = None if truncated is None else _flags("truncated", truncated, n)
        ends = (g == 0) | (by_limit is not None and by_limit) if last is None else _flags("last", last, n)
        contradicted = np.flatnonzero(ends < (g == 0))
        if contradicted.size:
            raise ContradictionError(
                f"row {contradicted[0]}: the discount is 0, which ends the episode, but last is False; "
                "set last there, or leave last out"
            )
        limited = ends & (g != 0) if by_limit is None else by_limit
        contradicted = np.flatnonzero(limited & ~ends)
        if contradicted.size:
            raise ContradictionError(
                f"row {contradicted[0]}: truncated is set, which ends the episode, but last is False; set last there"
            )
        columns = {
            "features": phi,
            "rewards": _column("rewards", rewards, n),
            "next_features": phi_next,
            "discounts": g,
            "ratios": rho,
            "first": None if first is None else _flags("first", first, n),
            "last": ends,
            "episode": None if episode is None else _labels("episode", episode, n, _MOST_LABEL),
            "stream": _labels("stream", stream, n, MOST_STREAM),
            "truncated": limited,
            "time": None if time is None else _column("time", _in_seconds(time), n),
            "version": None if version is None else _labels("version", version, n, _MOST_LABEL),
        }
        for name, value in columns.items():
            object.__setattr__(self, name, value)

    @classmethod
    def of_checked(cls, **columns: Floats | Integers | Bools) -> Transitions:
        """Build a chunk from arrays that are valid already, without episode borders."""
        new = object.__new__(cls)
        for name, value in {**dict.fromkeys(("first", "episode", "time", "version")), **columns}.items():
            object.__setattr__(new, name, value)
        return new

    @classmethod
    def from_returns(cls, returns: ArrayLike) -> Transitions:
        """Build a chunk from the returns of whole episodes: each episode is one step that earns all of it.

        For the mean return nothing else is needed, so this is the way in for loops and libraries that play episodes
        themselves. Episodes must be chosen beforehand: those that *end* first would be the short ones.

        >>> from inferl import DoublyRobust, Evaluator
        >>> played = np.random.default_rng(0).normal(100.0, 20.0, size=50)
        >>> print(Evaluator(DoublyRobust(1)).update(Transitions.from_returns(played)).interval())
        103 [97, 108] 95% pointwise, 50 transitions
        """
        earned = as_array("returns", returns)
        if earned.ndim != 1:
            raise ShapeError(f"returns have shape {earned.shape}; expected one number for each episode")
        nowhere = np.zeros(len(earned), np.int64)
        return cls(nowhere, earned, nowhere, 0.0)

    def verify(self) -> None:
        """Raise for values that the constructor rejects."""
        if len(self.features):
            Transitions(**{f.name: getattr(self, f.name) for f in fields(self)})
        super().verify()

    @property
    def tabular(self) -> bool:
        """Whether the features are row numbers of a table."""
        return self.features.ndim == 1

    def on(self, device: str) -> Transitions:
        """Return the same steps with their vectors on a device; row numbers of a table stay on the host."""
        if self.tabular:
            return self
        vectors = {"features": self.features, "next_features": self.next_features}
        return self._rebuilt({name: as_device(x, device) for name, x in vectors.items()})

    def with_ratios(self, ratios: Floats) -> Transitions:
        """Return the same steps with other ratios."""
        return self._rebuilt({"ratios": ratios})

    def without_borders(self) -> Transitions:
        """Return the same steps without `first`, `episode`, `time` and `version`, once these have been read."""
        return self._rebuilt(dict.fromkeys(("first", "episode", "time", "version")))

    def with_first(self, first: Bools) -> Transitions:
        """Return the same steps, which say themselves where episodes begin."""
        return self._rebuilt({"first": first})

    def __iter__(self) -> Iterator[Transitions]:
        raise TypeError("Transitions are a chunk, not a sequence of steps; slice them with chunk[start:stop]")

    def __getitem__(self, rows: slice | Integers) -> Transitions:
        if is_integer(rows):
            raise ShapeError(f"chunk[{rows}] asks for a single step; slice the chunk with chunk[start:stop]")
        return super().__getitem__(rows)


def _features(name: str, values: Any) -> Any:
    if is_elsewhere(values) and values.ndim != 1:
        return as_vectors(name, values)  # stay there; row numbers of a table do not
    array = as_array(name, values)
    if array.ndim == 1 and np.issubdtype(array.dtype, np.integer):
        _refuse(f"{name} index", (array < 0) | (array > _MOST_LABEL), array, "rows of a table are counted from 0")
        return array.astype(np.int64)
    if array.ndim == 1 and array.size == 0:
        return array.astype(np.int64)
    if array.ndim != 2 or array.shape[1] == 0:
        raise ShapeError(
            f"{name} have shape {array.shape}; expected floats (steps, dimension), or integers (steps,) for a table"
        )
    vectors = as_floats(name, array)
    _refuse(name, ~np.isfinite(vectors), vectors, "drop the row or repair its features")
    return vectors


def _together(phi: Any, phi_next: Any) -> tuple[Any, Any]:
    """Move vectors to one device, if one of the two is on a device."""
    device = device_of((phi, phi_next))
    if device is None or 1 in (phi.ndim, phi_next.ndim):
        return phi, phi_next
    return as_device(phi, device), as_device(phi_next, device)


def _column(name: str, values: ArrayLike, n: int, wide: bool = False) -> Floats:
    given = as_array(name, values)
    if given.dtype == np.bool_:
        raise DataError(f"{name} are booleans; they must be numbers")
    array = as_floats(name, given)
    if array.ndim == 0:
        array = np.full(n, float(array))
    if array.shape != (n,) and not (wide and array.ndim == 2 and len(array) == n and array.shape[1] > 0):
        raise ShapeError(f"{name} have shape {array.shape}, but there are {n} rows of features")
    _refuse(name.removesuffix("s"), ~np.isfinite(array), array, "drop the row or repair it")
    return array


def _in_seconds(time: Any) -> Any:
    """Turn dates into seconds; they are whole microseconds."""
    array = read("time", time)
    if array.dtype.kind != "M":
        return time
    _refuse("time", np.isnat(array), array, "drop the row or repair it")
    return array.astype("datetime64[us]").astype(np.int64) / 1e6


def _flags(name: str, values: ArrayLike, n: int) -> Bools:
    array = read(name, values)
    if array.dtype != np.bool_:
        valid = np.isin(array, (0, 1)) if array.dtype.kind in "iuf" else np.zeros(array.shape, np.bool_)
        if array.dtype.kind == "O":  # report the entry that is not a flag
            valid = np.array([isinstance(flag, bool) for flag in array.flat], np.bool_).reshape(array.shape)
        _refuse(name, ~valid, array, "a flag is true or false")
    flags: Bools = _filled(name, array.astype(np.bool_), n)
    return flags


def _labels(name: str, values: ArrayLike, n: int, most: int) -> Integers:
    array = read(name, values)
    if array.dtype.kind not in "iu":
        raise DataError(f"{name} labels are {array.dtype}; they must be integers, so number them first")
    labels = _filled(name, array, n)
    _refuse(f"{name} label", (labels < 0) | (labels > most), labels, f"labels are 0 to {most}")
    return np.array(labels, np.int64)


def _filled(name: str, array: Any, n: int) -> Any:
    if array.ndim == 0:
        return np.full(n, array)
    if array.shape != (n,):
        raise ShapeError(f"{name} has shape {array.shape}, but there are {n} rows of features")
    return array


def _refuse(name: str, bad: Bools, values: Any, remedy: str) -> None:
    """Raise for the first bad entry, with its row, its value and a remedy."""
    if bad.any():
        where = tuple(np.argwhere(bad)[0])
        raise DataError(f"{place(where)}: {name} is {short(values[where])}; {remedy}")


def _kind(features: Floats | Integers) -> str:
    kind = "row numbers of a table" if features.ndim == 1 else f"vectors of length {features.shape[1]}"
    return f"{len(features)} {kind}"
