"""User-defined algorithms: increments, a nonlinear function, or several algorithms on one stream."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

import numpy as np

from inferl.algorithms.base import Algorithm, Carry, count, transitions_of
from inferl.data.arrays import Floats, Integers, is_integer, short
from inferl.data.increments import FieldFunction, FieldIncrements, Increments
from inferl.data.invariants import demand
from inferl.data.streams import Clock, Steps
from inferl.data.transitions import Transitions
from inferl.data.vectors import embed, side_by_side
from inferl.errors import SettingError, ShapeError, TargetError

__all__ = ["Field", "Linear", "Stack"]


@dataclass(frozen=True)
class Linear(Algorithm):
    """User-defined increments: `Evaluator.update` takes `Increments` instead of Transitions.

    >>> Linear(3)
    Linear(dimension=3)
    """

    @property
    def sparse(self) -> bool:
        """User-defined increments are dense."""
        return False

    def increments(self, steps: Steps, carry: Carry) -> tuple[Increments, Clock, Carry]:
        """Return the data unchanged."""
        assert isinstance(steps.data, Increments)
        return steps.data, steps.clock, carry

    def check(self, data: Transitions | Increments) -> None:
        """Raise for data of another kind or dimension."""
        if not isinstance(data, Increments):
            raise ShapeError("Linear takes Increments, for example Increments.dense(matrix, vector), not Transitions")
        data.check(self.dimension)


@dataclass(frozen=True)
class Field(Algorithm):
    r"""A nonlinear recursion, theta += alpha W H(theta, transition), for the bootstrap only.

    `function(theta, transition)` returns H for all replicas at once: theta and the result are (R, p), the transition
    has `features`, `reward`, `next_features`, `discount` and `ratio`. Features may be of any length `n_features`
    (default p). If steps are dependent, give the multipliers a `BlockClock`; the dependence check tells whether one
    is needed. Whether the recursion has converged is not checked.

    >>> median = Field(1, lambda theta, transition: np.sign(transition.reward - theta))
    >>> median.affine
    False
    """

    function: FieldFunction
    n_features: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not callable(self.function):
            raise SettingError(f"the function of Field is {short(self.function)}, which is not callable")
        default = is_integer(self.n_features) and self.n_features == 0
        object.__setattr__(self, "n_features", self.dimension if default else count(self.n_features, "Field"))

    @property
    def affine(self) -> bool:
        """H is not affine in theta."""
        return False

    def increments(self, steps: Steps, carry: Carry) -> tuple[FieldIncrements, Clock, Carry]:  # type: ignore[override]
        """Return the function with the transitions to evaluate it at."""
        data = transitions_of(steps)
        scale = np.ones(len(data)) if data.tabular else (data.features**2).sum(axis=1)
        return FieldIncrements(data, scale, self.function), steps.clock, carry


@dataclass(frozen=True, init=False)
class Stack(Algorithm):
    """Several algorithms on one stream, with their parameters concatenated.

    Each uses its own column of the ratios, so two target policies can be compared on one log: with target
    ``np.r_[c, -c]`` the interval is that of the difference of their values.

    >>> from inferl import TD
    >>> Stack(TD(2), TD(2)).dimension
    4
    """

    parts: tuple[Algorithm, ...]

    def __init__(self, *parts: Algorithm) -> None:
        given: tuple[object, ...] = parts
        if not parts or not all(isinstance(part, Algorithm) for part in given):
            raise SettingError(f"Stack takes algorithms, such as TD(64); not {', '.join(map(short, given)) or 'none'}")
        if any(isinstance(part, Linear | Field | Stack) for part in parts):
            raise SettingError(
                "Stack takes algorithms that compute increments from transitions; not Linear, Field or Stack"
            )
        if len({part.n_features for part in parts}) > 1:
            raise SettingError(f"Stack needs algorithms with the same number of features, not {parts}")
        if any(part.delayed for part in parts) and len({str(getattr(part, "n", 1)) for part in parts}) > 1:
            raise SettingError("Stack needs algorithms with the same delay; use the same n for all")
        object.__setattr__(self, "dimension", sum(part.dimension for part in parts))
        object.__setattr__(self, "parts", parts)

    def verify(self) -> None:
        """Raise for fields that the constructor would not produce."""
        demand(self.dimension == Stack(*self.parts).dimension, f"no constructor makes {self}")

    @property
    def n_parameters(self) -> int:
        """Length of all parameters together."""
        return sum(part.n_parameters for part in self.parts)

    @property
    def n_features(self) -> int:
        """Length of the features, which all parts share."""
        return self.parts[0].n_features

    @property
    def sparse(self) -> bool:
        """Whether all parts are."""
        return all(part.sparse for part in self.parts)

    @property
    def delayed(self) -> bool:
        """Whether the parts need later steps."""
        return self.parts[0].delayed

    def increments(self, steps: Steps, carry: Carry) -> tuple[Increments, Clock, Carry]:
        """Put the terms of all parts side by side, each in its own coordinates."""
        data, clock = transitions_of(steps), steps.clock
        pieces, after = [], {}
        for i, part in enumerate(self.parts):
            own = {key.removeprefix(f"{i}."): value for key, value in carry.items() if key.startswith(f"{i}.")}
            piece, clock, own = part.increments(Steps(self._view(data, i), steps.first, steps.clock), own)
            pieces.append(piece.expanded())
            after.update({f"{i}.{key}": value for key, value in own.items()})
        return _stacked(pieces), clock, after

    def value_form(self, increments: Increments) -> Increments:
        """Reduce each part to the equations of its value."""
        pieces, term, offset = [], 0, 0
        for part in self.parts:
            pieces.append(part.value_form(increments.part(term, part.n_terms, offset, part.n_parameters)))
            term, offset = term + part.n_terms, offset + part.n_parameters
        return _stacked(pieces)

    def check(self, data: Transitions | Increments) -> None:
        """Let every part check its view of the data."""
        if not isinstance(data, Transitions):
            raise ShapeError("Stack takes Transitions; Increments are for Linear")
        if data.ratios.ndim == 2 and data.ratios.shape[1] != len(self.parts):
            raise ShapeError(f"there are {data.ratios.shape[1]} columns of ratios for {len(self.parts)} algorithms")
        for i, part in enumerate(self.parts):
            part.check(self._view(data, i))

    def pad(self, target: Floats) -> Floats:
        """Pad each part of the targets (k, d) with zeros."""
        shares = np.split(target, np.cumsum([part.dimension for part in self.parts])[:-1], axis=1)
        return np.concatenate([part.pad(share) for part, share in zip(self.parts, shares, strict=True)], axis=1)

    @property
    def checks_rows(self) -> bool:
        """Whether any part does."""
        return any(part.checks_rows for part in self.parts)

    @property
    def recursive(self) -> bool:
        """Whether all parts are."""
        return all(part.recursive for part in self.parts)

    @property
    def blocks(self) -> str:
        """Those of the parts, if they agree."""
        return self.parts[0].blocks if len({part.blocks for part in self.parts}) == 1 else "dyadic"

    @property
    def outputs(self) -> Integers:
        """Those of all parts."""
        return np.concatenate([part.outputs + offset for part, offset in self._offsets()])

    @property
    def n_values(self) -> int:
        """Length of the vectors of all parts together."""
        return sum(part.n_values for part in self.parts)

    def named_targets(self) -> dict[str, Floats]:
        """Return one row per part, for the names that all parts have."""
        found = [(part.named_targets(), offset) for part, offset in self._offsets()]
        return {
            name: np.concatenate([_placed(names[name], offset, self.dimension) for names, offset in found])
            for name in found[0][0]
            if all(name in names for names, _ in found)
        }

    def checked_targets(self) -> list[Floats]:
        """Return those of all parts."""
        return [
            _placed(rows, offset, self.dimension) for part, offset in self._offsets() for rows in part.checked_targets()
        ]

    def of_features(self, vectors: Floats) -> Floats:
        """Convert the vectors of each part to its targets."""
        pieces = np.split(vectors, np.cumsum([part.n_values for part in self.parts])[:-1], axis=1)
        return np.concatenate([part.of_features(own) for part, own in zip(self.parts, pieces, strict=True)], axis=1)

    def _offsets(self) -> list[tuple[Algorithm, int]]:
        ends = np.cumsum([0] + [part.dimension for part in self.parts]).tolist()
        return list(zip(self.parts, ends[:-1], strict=True))

    def state_vector(self, state: int) -> Floats:
        """Raise: the number of a state does not tell which part is meant."""
        raise TargetError(
            f"target is state {state}, which has {len(self.parts)} values here; pass a vector, such as np.r_[c, -c]"
        )

    def _view(self, data: Transitions, i: int) -> Transitions:
        """The data with the column of the ratios that belongs to part i."""
        return data if data.ratios.ndim == 1 else data.with_ratios(data.ratios[:, i])


def _placed(rows: Floats, offset: int, size: int) -> Floats:
    wide = np.zeros((len(rows), size))
    wide[:, offset : offset + rows.shape[1]] = rows
    return wide


def _stacked(pieces: list[Increments]) -> Increments:
    """Combine increments of the same steps into one with a block-diagonal matrix."""
    p = sum(piece.n_parameters for piece in pieces)
    offsets = np.cumsum([0] + [piece.n_parameters for piece in pieces])[:-1].tolist()
    u = side_by_side([embed(piece.u, offset, p) for piece, offset in zip(pieces, offsets, strict=True)])
    v = side_by_side([embed(piece.v, offset, p) for piece, offset in zip(pieces, offsets, strict=True)])
    return Increments(
        u,
        v,
        np.concatenate([piece.c for piece in pieces], axis=1),
        np.concatenate([piece.damping for piece in pieces]),
        reduce(np.maximum, [piece.scale for piece in pieces]),
    )
