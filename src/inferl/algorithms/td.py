"""Temporal-difference algorithms: d equations, one rank-one term per step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from inferl.algorithms.base import Algorithm, Carry, carried, check_setting, single, transitions_of
from inferl.data.arrays import Bools, Floats, Integers, is_integer, short
from inferl.data.device import as_device, device_of, on_host
from inferl.data.increments import Increments
from inferl.data.streams import Clock, Steps
from inferl.data.transitions import Transitions
from inferl.data.vectors import dense, scale, subtract_scaled
from inferl.engine import LARGEST
from inferl.errors import DataError, SettingError

__all__ = ["TD", "EmphaticTD", "NStepTD", "QEvaluation"]


@dataclass(frozen=True)
class TD(Algorithm):
    r"""Temporal-difference learning, with an accumulating trace if `trace` (lambda) is positive.

    .. math:: u = z_t = \rho_t (\lambda g_t z_{t-1} + \phi_t), \quad v = \phi_t - g_{t+1} \phi'_t, \quad c = r_{t+1}

    The trace restarts where an episode begins.

    >>> TD(64)
    TD(dimension=64, trace=0.0)
    """

    trace: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_trace(self.trace)

    @property
    def sparse(self) -> bool:
        """False with a trace, which involves many states."""
        return self.trace == 0

    def increments(self, steps: Steps, carry: Carry) -> tuple[Increments, Clock, Carry]:
        """Return one rank-one term per step."""
        data = transitions_of(steps)
        phi, dphi = self.features(data)
        u = scale(phi, data.ratios)
        if self.trace > 0:
            decayed = carried(carry, "trace", steps.clock.slot, self.dimension)
            u = _traces(dense(phi), np.ones(len(data)), data.ratios, self.trace * data.discounts, steps, decayed)
            dphi, carry = dense(dphi), {"trace": decayed}
        return single(u, dphi, data.rewards, phi), steps.clock, carry


@dataclass(frozen=True)
class EmphaticTD(Algorithm):
    r"""Emphatic TD(lambda): traces weighted by the emphasis M, which corrects the state distribution.

    .. math:: F_t = \rho_{t-1} g_t F_{t-1} + 1, \quad M_t = \lambda + (1 - \lambda) F_t, \quad
              u = e_t = \rho_t (g_t \lambda e_{t-1} + M_t \phi_t)

    Its expected update is stable off-policy. But F has infinite variance where E[rho^2] g^2 > 1, and then no interval
    is valid.

    >>> EmphaticTD(3, trace=0.5)
    EmphaticTD(dimension=3, trace=0.5)
    """

    trace: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_trace(self.trace)

    @property
    def sparse(self) -> bool:
        """False, because traces involve many states."""
        return False

    def increments(self, steps: Steps, carry: Carry) -> tuple[Increments, Clock, Carry]:
        """Return one rank-one term per step."""
        data = transitions_of(steps)
        phi, dphi = self.features(data)
        follow = carried(carry, "follow_on", steps.clock.slot)
        decayed = carried(carry, "trace", steps.clock.slot, self.dimension)
        emphasis = np.empty(len(data))
        for t, slot in enumerate(steps.clock.slot.tolist()):
            follow_on = 1.0 if steps.first[t] else follow[slot] + 1.0
            emphasis[t] = self.trace + (1.0 - self.trace) * follow_on
            follow[slot] = min(data.ratios[t] * data.discounts[t] * follow_on, LARGEST)
        u = _traces(dense(phi), emphasis, data.ratios, self.trace * data.discounts, steps, decayed)
        return (
            single(u, dense(dphi), data.rewards, phi),
            steps.clock,
            {"follow_on": follow, "trace": decayed},
        )


@dataclass(frozen=True)
class NStepTD(Algorithm):
    r"""n-step TD: n rewards before bootstrapping, or fewer at the end of an episode.

    .. math:: u = \left(\prod_{i<m} \rho_{t+i}\right) \phi_t, \quad
              v = \phi_t - \left(\prod_{i<m} g_{t+1+i}\right) \phi'_{t+m-1}, \quad
              c = \sum_{i<m} \left(\prod_{j<i} g_{t+1+j}\right) r_{t+1+i}

    The increment of a step is pending until its window of n steps is full. The scores are dependent even if the
    features can express the value: use LeastSquares, or multipliers with a `BlockClock`.

    >>> NStepTD(3, n=5)
    NStepTD(dimension=3, n=5)
    """

    n: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if not is_integer(self.n) or self.n < 1:
            raise SettingError(f"n is {short(self.n)}; it must be a whole number of steps, at least 1")

    @property
    def delayed(self) -> bool:
        """Whether a step needs the n - 1 steps that follow it."""
        return self.n > 1

    def increments(self, steps: Steps, carry: Carry) -> tuple[Increments, Clock, Carry]:
        """Return one rank-one term for each step whose window has closed."""
        steps = Steps.join([carry["open"], steps]) if carry else steps
        order = np.argsort(steps.clock.slot, kind="stable")  # rows of one stream become contiguous
        end = _window_ends(steps.clock.slot[order], steps.first[order], steps.clock.last[order], self.n)
        full = end >= 0
        start = np.flatnonzero(full)
        data = transitions_of(steps)
        ratio, discount, reward = np.ones(len(start)), np.ones(len(start)), np.zeros(len(start))
        for i in range(int(np.max(end[start] - start, initial=-1)) + 1):  # the longest window; n may be huge
            inside = start + i <= end[start]
            row = order[np.minimum(start + i, len(order) - 1)]
            reward += np.where(inside, discount * data.rewards[row], 0.0)
            ratio = np.minimum(ratio * np.where(inside, data.ratios[row], 1.0), LARGEST)
            discount *= np.where(inside, data.discounts[row], 1.0)
        first_row, last_row = order[start], order[end[start]]
        emitted = np.lexsort((first_row, last_row))  # in the order in which windows close
        first_row, last_row = first_row[emitted], last_row[emitted]
        window = steps[first_row]
        closing = transitions_of(steps[last_row])
        phi, _ = self.features(transitions_of(window))
        v = subtract_scaled(phi, self.vectors(closing.next_features), discount[emitted])
        increments = single(scale(phi, ratio[emitted]), v, reward[emitted], phi)
        return increments, window.clock, {"open": steps[np.sort(order[~full])]}


@dataclass(frozen=True)
class QEvaluation(Algorithm):
    r"""Evaluation of action values (LSTD-Q): off-policy without ratios.

    Features are those of a state and the action taken, psi(s, a); next features are averaged over the target policy,
    U(s') = sum over a of pi(a | s') psi(s', a). The target of a state's value is U(s).

    .. math:: u = \psi(s, a), \quad v = \psi(s, a) - g\, U(s'), \quad c = r

    >>> QEvaluation(8)
    QEvaluation(dimension=8)
    """

    def increments(self, steps: Steps, carry: Carry) -> tuple[Increments, Clock, Carry]:
        """Return one rank-one term per step."""
        data = transitions_of(steps)
        psi, difference = self.features(data)
        return single(psi, difference, data.rewards, psi), steps.clock, carry

    def check(self, data: Transitions | Increments) -> None:
        """Raise for ratios: the target policy is in the next features."""
        super().check(data)
        if isinstance(data, Transitions) and (data.ratios != 1).any():
            row = int(np.flatnonzero(data.ratios != 1)[0])
            raise DataError(
                f"row {row}: ratio is {data.ratios[row]}; QEvaluation reads the target policy from next_features, "
                "averaged over its actions; leave ratios out"
            )


def _check_trace(trace: float) -> None:
    check_setting("trace", trace, 0, 1, "lambda lies in [0, 1]")


def _traces(phi: Floats, emphasis: Floats, ratios: Floats, decay: Floats, steps: Steps, decayed: Floats) -> Floats:
    """Compute z = rho (decayed + emphasis phi) along each stream; `decayed` (S, d) is updated in place.

    The carried array is the trace times the decay of the next step, so chunk borders make no difference.
    """
    device, phi = device_of(phi), on_host(phi)
    z = np.empty_like(phi)
    for t, slot in enumerate(steps.clock.slot.tolist()):
        if steps.first[t]:
            decayed[slot] = 0.0
        z[t] = ratios[t] * (decayed[slot] + emphasis[t] * phi[t])
        if ratios[t] > 1:  # products of ratios may overflow, and 0 times infinity is NaN
            np.clip(z[t], -LARGEST, LARGEST, out=z[t])
        decayed[slot] = decay[t] * z[t]
    return z if device is None else as_device(z, device)


def _window_ends(slot: Integers, first: Bools, last: Bools, n: int) -> Integers:
    """Find the row that closes the window of each row, or -1 where it is open; rows of a stream are contiguous."""
    rows = np.arange(len(slot))
    new_stream = np.r_[slot[1:] != slot[:-1], True]
    closes = last | (np.r_[first[1:], False] & ~new_stream)  # its episode; a new episode may begin without `last`
    unknown = len(slot) + n
    ahead = np.minimum.accumulate(np.where(closes | new_stream, rows, unknown)[::-1])[::-1]
    episode_end = np.where(closes[np.minimum(ahead, len(slot) - 1)], ahead, unknown)
    stream_end = np.minimum.accumulate(np.where(new_stream, rows, unknown)[::-1])[::-1]
    end = np.minimum(rows + n - 1, episode_end)
    return np.where(end <= stream_end, end, -1)
