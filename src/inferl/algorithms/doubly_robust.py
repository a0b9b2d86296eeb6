r"""DoublyRobust: the value of the start distribution, consistent for any features.

TD fits the value within the span of the features: if they cannot express the value, the fit is biased, and theta does
not show by how much. The returns of the episodes do. With y_t the weight that an episode's start has at step t (the
product of discounts and ratios in between) and delta_t = r + g theta.phi' - theta.phi, the mean over starts of

    theta.phi_0 + sum_t y_t rho_t delta_t

has the value as its expectation, for every theta. So four parameters are appended to theta **in the same linear
system**, and least squares gives their standard errors as it does for theta: *fitted*, the mean of theta.phi_0; *gap*,
the correction from the returns, value minus fitted; and two gaps with bounded weights, *cut* (min(y, 1)) and *early*
(weights that halve at every step), which are 0 if the features can express the value and have smaller standard errors
than the gap.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from inferl import engine
from inferl.algorithms.base import Algorithm, Carry, carried, count, lengths, transitions_of
from inferl.algorithms.td import TD
from inferl.data.arrays import Bools, Floats, Integers, Rows, as_array, lengthened, shared
from inferl.data.device import as_device, device_of, on_host
from inferl.data.increments import Increments, unexplained
from inferl.data.invariants import bounds, demand, shapes
from inferl.data.streams import Clock, Steps
from inferl.data.transitions import Transitions
from inferl.data.vectors import (
    Sparse,
    Vectors,
    add,
    dense,
    embed,
    scale,
    stored_numbers,
    terms,
    verify_vectors,
)
from inferl.errors import InputError, SettingError, ShapeError

__all__ = ["DoublyRobust", "ValueIncrements"]

OUTPUTS = ("fitted", "gap", "cut", "early")
COLUMNS = ("ratio", "reward", "weight", "early", "starts", "scale")


@dataclass(frozen=True, repr=False)
class DoublyRobust(Algorithm):
    r"""The value of the start distribution, for any features: the TD estimate plus a correction from the returns.

    Parameters
    ----------
    base
        `TD`, or the number of features.
    start
        A state, as a row number or a feature vector: every visit to it is a start. For streams without episodes. The
        default is that starts are where episodes begin.

    Examples
    --------
    Two states with the same feature; episodes begin in the first, whose value is 1, and end after the second, which
    gives a reward:

    >>> from inferl import DoublyRobust, Evaluator, TD, Transitions
    >>> pay = np.random.default_rng(0).integers(3, size=500)
    >>> rows = np.zeros(1000, int)
    >>> data = Transitions(rows, np.column_stack([0 * pay, pay]).ravel(), rows, np.tile([1.0, 0.0], 500))
    >>> print(Evaluator(DoublyRobust(TD(1))).update(data).interval())
    1.07 [0.99, 1.14] 95% pointwise, 1,000 transitions
    """

    base: TD
    start: int | tuple[float, ...] | None

    def __init__(self, base: TD | int, start: ArrayLike | None = None) -> None:
        if isinstance(base, Algorithm) and not isinstance(base, TD):
            raise SettingError(f"DoublyRobust takes TD, or the number of features; not {base}")
        base = base if isinstance(base, TD) else TD(count(base, "DoublyRobust"))
        object.__setattr__(self, "base", base)
        object.__setattr__(self, "start", _as_start(start, base))
        object.__setattr__(self, "dimension", base.dimension + len(OUTPUTS))

    def verify(self) -> None:
        """Raise for fields that the constructor would not produce."""
        made = DoublyRobust(self.base, self.start)
        demand((self.dimension, self.start) == (made.dimension, made.start), f"no constructor makes {self}")

    def __repr__(self) -> str:
        return f"DoublyRobust({self.base}{'' if self.start is None else f', start={self.start}'})"

    @property
    def n_features(self) -> int:
        """Length of the features, or number of rows of the table."""
        return self.base.dimension

    @property
    def n_terms(self) -> int:
        """One for theta, one for the gaps, one for the fitted value, and three that count starts for the gaps."""
        return 6

    @property
    def sparse(self) -> bool:
        """As TD."""
        return self.base.sparse

    @property
    def checks_rows(self) -> bool:
        """As in TD, the first row decides whether the start has the right kind."""
        return self.base.checks_rows

    @property
    def recursive(self) -> bool:
        """False, because the gap is a ratio of sums, and no step size would suit both it and theta."""
        return False

    @property
    def blocks(self) -> str:
        """Episodes, if they are the starts, because they are independent; visits within a stream are not."""
        return "episode" if self.start is None else "dyadic"

    @property
    def outputs(self) -> Integers:
        """Indices of the parameters appended to theta."""
        return np.arange(self.base.dimension, self.dimension)

    def named_targets(self) -> dict[str, Floats]:
        """Return the value and its two parts: the TD estimate, and the correction from the returns."""
        unit = np.eye(self.dimension)[self.base.dimension :]
        return {"value": unit[:1] + unit[1:2], "fitted": unit[:1], "gap": unit[1:2]}

    def checked_targets(self) -> list[Floats]:
        """Return value, fitted, gap, cut and early; the last three are 0 if the features can express the value."""
        return [np.concatenate([self.named_targets()["value"], np.eye(self.dimension)[self.base.dimension :]])]

    @property
    def n_values(self) -> int:
        """Length of a vector that has a value, which is that of the features."""
        return self.base.dimension

    def of_features(self, vectors: Floats) -> Floats:
        """Pad vectors of features (k, d) with zeros: their value is the TD estimate."""
        return lengthened(vectors, self.dimension)

    def state_vector(self, state: int) -> Floats:
        """Convert the number of a state to a target."""
        return lengthened(self.base.state_vector(state), self.dimension)

    def check(self, data: Transitions | Increments) -> None:
        """Raise for data that TD rejects, and for a start of another kind."""
        self.base.check(data)
        if self.start is not None and isinstance(data, Transitions) and data.tabular != isinstance(self.start, int):
            kind = "row numbers of a table" if data.tabular else "vectors"
            raise ShapeError(f"start is {self.start}, but features are {kind}; give the start in the same form")

    def increments(self, steps: Steps, carry: Carry) -> tuple[ValueIncrements, Clock, Carry]:  # type: ignore[override]
        """Return the increments of theta, of the fitted value and of the gaps, in compact form."""
        data, slot = transitions_of(steps), steps.clock.slot
        phi, dphi = self.base.features(data)
        trace: Floats | None = None
        after: Carry = {}
        if self.base.trace > 0:
            traced, _, after = self.base.increments(steps, {key: carry[key] for key in carry if key == "trace"})
            trace = dense(traced.u)[:, 0]
        starts = steps.first if self.start is None else _visits(data, self.start)
        decay, add = data.discounts * data.ratios, starts.astype(np.float64)
        weights = []
        for name, factor in (("weight", 1.0), ("early", 0.5)):
            sums = carried(carry, name, slot)
            weights.append(engine.active().decaying_sum(add, factor * decay, slot, steps.first, sums, engine.LARGEST))
            after[name] = sums
        made = ValueIncrements(
            phi,
            dphi,
            trace,
            data.ratios,
            data.rewards,
            weights[0],
            weights[1],
            starts,
            lengths(phi),
            self.outputs,
            self.dimension,
        )
        return made, steps.clock, after


@dataclass(frozen=True, eq=False)
class ValueIncrements(Rows):
    """Increments of `DoublyRobust` in compact form, before their terms are expanded over all parameters."""

    phi: Vectors  # (T, d)
    dphi: Vectors  # (T, d)
    trace: Floats | None  # (T, d); None: rho phi
    ratio: Floats  # (T,)
    reward: Floats  # (T,)
    weight: Floats  # (T,) y: weight of the starts at this step, without its ratio
    early: Floats  # (T,) the same, halved at every step
    starts: Bools  # (T,)
    scale: Floats  # (T,)
    outputs: Integers = field(metadata=shared)  # indices of fitted, gap, cut and early
    size: int = field(metadata=shared)  # number of parameters

    def verify(self) -> None:
        """Raise if the arrays do not fit together."""
        super().verify()
        sizes = verify_vectors(self, "T d", ["phi", "dphi"])
        sizes = shapes(self, {"trace": "T d", "outputs": str(len(OUTPUTS))} | dict.fromkeys(COLUMNS, "T"), **sizes)
        bounds(self, {"outputs": (0, self.size - 1), "size": (sizes["d"] + len(OUTPUTS), sizes["d"] + len(OUTPUTS))})

    @property
    def n_parameters(self) -> int:
        """Length p of the parameter vector."""
        return self.size

    def expanded(self) -> Increments:
        """Expand the terms; slow, for a `Stack` and for tests."""
        n, p, starts = len(self), self.size, self.starts.astype(np.float64)
        sparse, nothing = isinstance(self.phi, Sparse) and self.trace is None, np.zeros(n)

        def entries(indices: Integers, values: list[Floats]) -> Vectors:
            x = Sparse(np.broadcast_to(indices, (n, len(indices))), np.stack(values, axis=1), p)
            return x if sparse else dense(x)

        fitted, gaps = self.outputs[:1], self.outputs[1:]
        theta, difference, phi = (embed(x, 0, p) for x in (self._traced(), self.dphi, scale(self.phi, -1.0)))
        at_fitted = entries(fitted, [nothing + 1])
        back = add(phi, at_fitted)
        u = [theta, entries(gaps, list(self._weights().T)), entries(fitted, [starts])]
        u += [entries(gaps[k : k + 1], [starts]) for k in range(3)]
        v = [difference, difference, back] + [entries(gaps[k : k + 1], [nothing + 1]) for k in range(3)]
        c = np.stack([self.reward, self.reward, *[nothing] * 4], axis=1)
        return Increments(terms(u), terms(v), c, np.zeros(p), self.scale)

    def named(self) -> Integers | None:
        """Indices of the parameters that these increments involve, row by row; None: all."""
        if not isinstance(self.phi, Sparse) or not isinstance(self.dphi, Sparse) or self.trace is not None:
            return None
        index = np.concatenate([self.phi.index, self.dphi.index], axis=1)
        value = np.concatenate([self.phi.value, self.dphi.value], axis=1)
        return np.concatenate([index[value != 0], self.outputs])

    def at_indices(self, index: Integers, seen: Integers, capacity: int) -> ValueIncrements:
        """Express sparse increments in compact indices instead of parameter numbers."""
        if not isinstance(self.phi, Sparse) or not isinstance(self.dphi, Sparse) or self.trace is not None:
            return self
        phi, dphi = (Sparse(np.maximum(index[x.index], 0), x.value, capacity) for x in (self.phi, self.dphi))
        return replace(self, phi=phi, dphi=dphi, outputs=index[self.outputs], size=capacity)

    def products(self) -> tuple[Vectors, Vectors, Floats]:
        """Vectors u and v (T, p), and c (T,), whose products add up to the equations of theta and of the gaps."""
        u, gaps = self._traced(), self.outputs[1:]
        if isinstance(u, Sparse) and isinstance(self.dphi, Sparse):
            index = np.concatenate([u.index, np.broadcast_to(gaps, (len(self), 3))], axis=1)
            value = np.concatenate([u.value, self._weights()], axis=1)
            return Sparse(index, value, self.size), self.dphi, self.reward
        left, d = np.zeros((len(self), self.size), like=dense(u)), self.size - len(OUTPUTS)
        left[:, :d], left[:, gaps] = dense(u), self._weights()
        return left, embed(dense(self.dphi), 0, self.size), self.reward

    def add_rest(self, matrix: Floats) -> None:
        """Add the starts to A: their number, and the sum of their features."""
        matrix[self.outputs, self.outputs] += np.count_nonzero(self.starts)
        row, phi = matrix[self.outputs[0]], self.phi[np.flatnonzero(self.starts)]
        if isinstance(phi, Sparse):
            np.subtract.at(row, phi.index, phi.value)
        elif device_of(phi) is not None:
            row[: phi.shape[1]] -= phi.sum(axis=0)
        elif len(phi):
            # One after the other, so that the sum does not depend on chunk borders.
            d = phi.shape[1]
            row[:d] = np.subtract.accumulate(np.concatenate([row[None, :d], phi]), axis=0)[-1]

    def features(self) -> Vectors:
        """The features of the steps, (T, d) or (T, entries)."""
        return self._traced()

    def numbers(self) -> int:
        """Number of stored numbers of these rows."""
        trace = 0 if self.trace is None else self.trace.size
        return stored_numbers(self.phi) + stored_numbers(self.dphi) + trace

    def following(self) -> ValueIncrements:
        """Return self: the rows share no damping."""
        return self

    def scores(self, theta: Floats, inverse: Floats | None = None) -> Vectors:
        """Evaluate the equations at theta: (T, p), or (T, 5) entries; see `Increments.scores`.

        The leverage correction applies to theta only, because only theta is fitted to the rows; the gaps use the plain
        residuals.
        """
        u, gaps = self._traced(), self.outputs[1:]
        residual = self.reward - _dot(self.dphi, theta)
        own = residual if inverse is None else unexplained(residual[:, None], self._leverage(u, inverse)[:, None])[:, 0]
        fitted = np.zeros(len(self), like=residual)
        at = np.flatnonzero(self.starts)
        fitted[at] = _dot(self.phi[at], theta) - theta[self.outputs[0]]
        added = self._weights() * residual[:, None] - self._there(self.starts.astype(np.float64))[:, None] * theta[gaps]
        if isinstance(u, Sparse):
            index = np.concatenate([u.index, np.broadcast_to(self.outputs, (len(self), len(OUTPUTS)))], axis=1)
            value = np.concatenate([u.value * own[:, None], fitted[:, None], added], axis=1)
            return Sparse(index, value, self.size)
        scores, d = np.zeros((len(self), self.size), like=u), self.size - len(OUTPUTS)
        np.multiply(u, own[:, None], out=scores[:, :d])
        scores[:, self.outputs[0]], scores[:, gaps] = fitted, added
        return scores

    def _traced(self) -> Vectors:
        return scale(self.phi, self.ratio) if self.trace is None else self.trace

    def _weights(self) -> Any:
        """Weights of the three gaps, (T, 3)."""
        weight, early, ratio = (self._there(x)[:, None] for x in (self.weight, self.early, self.ratio))
        columns = weight, np.minimum(weight, 1.0), np.minimum(early, 1.0)
        return np.multiply(ratio, np.concatenate(columns, axis=1))

    def _there(self, column: Floats) -> Floats:
        """Return a column where the vectors are."""
        device = device_of(self.phi)
        return column if device is None else as_device(column, device)

    def _leverage(self, u: Vectors, inverse: Floats) -> Floats:
        """Leverage of each step in the equation of theta, (T,)."""
        v = self.dphi
        if isinstance(u, Sparse) and isinstance(v, Sparse):
            between = inverse[v.index[:, :, None], u.index[:, None, :]]
            return np.asarray(np.einsum("ti,tij,tj->t", v.value, between, u.value))
        left, right = dense(v), dense(u)
        d = left.shape[1]
        return np.asarray(np.einsum("tp,tp->t", left, right @ inverse[:d, :d].T))


def _dot(x: Vectors, theta: Floats) -> Floats:
    if isinstance(x, Sparse):
        return np.asarray(np.add.reduce(x.value * theta[x.index], axis=-1))
    if device_of(x) is not None:
        return x @ theta[: x.shape[1]]
    # One product per row: in a matrix product the last bits depend on the number of rows.
    return np.asarray((x[:, None, :] @ theta[: x.shape[1]])[:, 0])


def _as_start(start: Any, base: TD) -> int | tuple[float, ...] | None:
    """Validate a start: a row number, or the features of a state."""
    if start is None:
        return None
    try:
        array = as_array("start", start)
    except InputError as error:
        raise SettingError(str(error)) from None
    if array.ndim == 0 and np.issubdtype(array.dtype, np.integer) and 0 <= int(array) < base.dimension:
        return int(array)
    if array.shape != (base.dimension,) or not np.isfinite(array.astype(np.float64)).all():
        raise SettingError(f"start is {start!r:.80}; give a row number of the table, or {base.dimension} features")
    return tuple(array.astype(np.float64).tolist())


def _visits(data: Transitions, start: int | tuple[float, ...]) -> Bools:
    """Which rows are visits to the start, (T,)."""
    if data.tabular:
        return np.asarray(data.features == start)
    return np.asarray(on_host((data.features == np.array(start)).all(axis=1)))
