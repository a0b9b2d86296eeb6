"""Window: the latest panes of a stream, for a policy, or a world, that changes.

A pane is the state of an evaluator, of the steps between two borders of time; a window is the latest of them; what is
read is all of them, merged. A state before the window is kept too, merged from the panes that left it: the drift check
compares the panes with it, and with each other.

Where episodes are independent blocks, an episode belongs to the pane in which it began, and its later rows go there.
Elsewhere a pane begins in the middle of a stream: eligibility traces and open episodes go over from one to the next,
but no trace, and no step that waits for later ones, to a new version of the policy.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from inferl.data.arrays import Floats, Integers, is_integer, short
from inferl.data.increments import Increments
from inferl.data.invariants import COUNT, bounds, demand, shapes
from inferl.data.streams import Steps, by_slot
from inferl.data.transitions import FURTHEST, Transitions
from inferl.diagnostics import Check
from inferl.errors import DataError, SettingError, ShapeError
from inferl.methods.base import Method
from inferl.methods.schedule import MANY_ROWS, EvaluatorState, Schedule, _fingerprints, merged_states, uninterrupted

__all__ = ["Window", "WindowSchedule", "WindowState", "seconds_of"]

MOST_LATE = 0.1  # share of the rows of a window that may be older than the pane before the one that was open
UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


def seconds_of(text: str) -> float | None:
    """Read a time such as 10s, 5m, 1h or 2d; None if it is not one, or not positive.

    >>> seconds_of("30m"), seconds_of("30"), seconds_of("0s")
    (1800.0, None, None)
    """
    timed = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd])", text.strip())
    return float(timed[1]) * UNITS[timed[2]] or None if timed is not None else None


@dataclass(frozen=True)
class Window:
    """The latest data of a stream: what an evaluator reads, if it has a window.

    Parameters
    ----------
    panes
        Number of full panes. The one that is being filled is read too.
    every
        Length of a pane: a number of transitions, or a time such as ``"1h"`` (s, m, h, d) by the column `time` of the
        data, never by the clock on the wall. A window of 24 panes of an hour holds the last 24 hours.

    Examples
    --------
    >>> from inferl import TD, Evaluator, Transitions
    >>> coin = np.random.default_rng(1).integers(2, size=20_000) + (np.arange(20_000) > 10_000)  # from 0.5 to 1.5
    >>> data = Transitions(0 * coin, coin, 0 * coin, 0.9)
    >>> print(Evaluator(TD(1), window=Window(panes=5, every=1000)).update(data).interval(0))
    14.94 [14.81, 15.07] 95% pointwise, 6,000 transitions
    """

    panes: int = 24
    every: int | str = 100_000

    def __post_init__(self) -> None:
        if not is_integer(self.panes) or not 1 <= self.panes <= 10_000:
            raise SettingError(f"panes is {short(self.panes)}; give a number of panes, 1 to 10,000")
        if is_integer(self.every) and 1 <= int(self.every) <= COUNT[1]:
            return
        if not isinstance(self.every, str) or seconds_of(self.every) is None:
            raise SettingError(
                f"every is {short(self.every)}; give a number of transitions, such as 100_000, or a time, such as '1h'"
            )

    @property
    def seconds(self) -> float | None:
        """Length of a pane in seconds; None if it is a number of transitions."""
        return seconds_of(self.every) if isinstance(self.every, str) else None

    def __str__(self) -> str:
        length = self.every if isinstance(self.every, str) else f"{self.every:,} transitions"
        return f"{self.panes} panes of {length}, and the open one"


@dataclass(eq=False)
class WindowState(EvaluatorState):
    """What is kept of a stream of which the latest panes are read; `method` has seen nothing."""

    panes: tuple[EvaluatorState, ...] = ()  # the oldest first; the last is open
    serials: Integers = field(default_factory=lambda: np.zeros(0, np.int64))  # (m,) their places among all panes
    numbers: Integers = field(default_factory=lambda: np.zeros(0, np.int64))  # (m,) their places in time
    late: Integers = field(default_factory=lambda: np.zeros(0, np.int64))  # (m,) rows whose time was long over
    home: Integers = field(default_factory=lambda: np.zeros(0, np.int64))  # (S,) pane of each slot's latest episode
    serial: int = 0  # of the open pane; 0: there is none
    number: int = -(2**62)  # of the open pane
    past: Any = None  # the method's state, of the panes that have left the window

    def verify(self) -> None:
        """Refuse panes that cannot be those of one window."""
        super().verify()
        m = len(self.panes)
        shapes(self, {**dict.fromkeys(("serials", "numbers", "late"), f"{m}"), "home": "S"}, S=len(self.streams))
        bounds(self, {"serials": (1, COUNT[1]), "late": COUNT, "home": (0, self.serial), "serial": COUNT})
        ordered = bool((np.diff(self.serials) > 0).all() and (np.diff(self.numbers) > 0).all())
        demand(ordered, "the panes are not in their order")
        demand(
            m == 0 or (int(self.serials[-1]), int(self.numbers[-1])) == (self.serial, self.number), "no pane is open"
        )
        demand(m > 0 or self.streams.n == 0, "there are transitions, and no pane")
        demand(all(type(pane) is EvaluatorState for pane in self.panes), "a pane has panes")


@dataclass(frozen=True)
class WindowSchedule(Schedule):
    """Shares the rows of a stream out to panes, and merges these to be read."""

    window: Window = field(default_factory=Window)

    @property
    def _inner(self) -> Schedule:
        return Schedule(self.algorithm, self.method, self.backend, self.threads)

    @property
    def _whole(self) -> bool:
        """Whether an episode belongs to one pane."""
        return self.method.unit == "episodes"

    def start(self) -> WindowState:
        """Return the state before the first row; refuse a method whose states cannot be merged."""
        if type(self.method).merge is Method.merge:
            raise SettingError(f"{type(self.method).__name__} cannot be merged, so it has no window; use LeastSquares")
        return WindowState(self.method.init(self.algorithm))

    def admit(self, state: EvaluatorState, data: Transitions | Increments) -> None:
        """Refuse rows with which the panes and the past together would be too large; any version is fine."""
        assert isinstance(state, WindowState)
        if self.method.limited(self.algorithm):
            past = [] if state.past is None else [state.past]
            pending = [pane.pending.data for pane in state.panes if pane.pending is not None]
            self.method.admit([state.method, *past, *(pane.method for pane in state.panes)], [*pending, data])

    def explained(self, checks: Sequence[Check]) -> Sequence[Check]:
        """Return the checks of the method: what it takes for streams are panes."""
        message = "the panes differ by more than the variation within them explains: the value may have changed"
        remedy = "wait until the window has passed the change, or until the check drift says when it was"
        differ = [one.name == "dependence" and one.message.startswith("the streams differ") for one in checks]
        return super().explained(
            [
                replace(one, message=message, remedy=remedy) if panes else one
                for one, panes in zip(checks, differ, strict=True)
            ]
        )

    def borders(self, state: EvaluatorState, data: Transitions | Increments) -> list[int]:
        """Return the rows with which a pane opens, apart from the first of all."""
        assert isinstance(state, WindowState)
        _, steps = state.streams.place(data)
        serial, _ = self._serials(state, data, steps)
        opens = np.flatnonzero(np.diff(serial, prepend=state.serial))
        return [int(row) for row in opens if row > 0 or state.serial > 0]

    def update(self, state: EvaluatorState, data: Transitions | Increments) -> None:
        """Share rows out to the panes that they belong to; if anything raises, change nothing."""
        assert isinstance(state, WindowState)
        streams, steps = state.streams.place(data)
        serial, number = self._serials(state, data, steps)
        late = np.zeros(len(data), np.bool_) if self.window.seconds is None else self._numbers(data) < number - 1
        home = self._home(state, steps, serial) if self._whole else serial
        draft = replace(state, streams=streams)
        draft.outcomes, draft.fingerprint = _fingerprints(state, steps)
        draft.home = _with_last(state.home, steps.clock.slot, home, len(streams))
        if len(data):
            draft.tabular = isinstance(data, Transitions) and data.tabular
            draft.ratios_ndim = data.ratios.ndim if isinstance(data, Transitions) else 0
            if isinstance(data, Increments) and draft.like is None:
                draft.like = data[:0].copied()
        rows = steps.data if not isinstance(data, Transitions) else _with_first(data, steps)
        opens = np.flatnonzero(np.diff(serial, prepend=state.serial))
        # Rows of one pane are folded in place if they are few: then nothing may come between the pane and the rest.
        copied = len(opens) > 0 or len(np.unique(home)) > 1 or len(data) >= max(MANY_ROWS, len(streams))
        own = set(state.serials.tolist()) if copied else set()  # panes that must not be changed in place
        with nullcontext() if copied else uninterrupted():
            try:
                for start, stop in zip([0, *opens], [*opens, len(data)], strict=True):
                    if start == stop:
                        continue
                    if serial[start] != draft.serial:
                        self._open(draft, int(serial[start]), int(number[start]), own, data, start)
                    for there in np.unique(home[start:stop]).tolist():
                        part = start + np.flatnonzero(home[start:stop] == there)
                        self._fold_into(draft, there, rows[part], int(late[part].sum()), own)
            except BaseException:
                state.broken = any(pane.broken for pane in state.panes)
                raise
            vars(state).update(vars(draft))

    def with_pending(self, own: EvaluatorState) -> EvaluatorState:
        """Return the merged state of the window, on the host; the given one does not change."""
        assert isinstance(own, WindowState)
        inner = self._inner
        checks = own.source_checks if self.window.seconds is None else (*own.source_checks, self._time(own))
        if not own.panes:
            return replace(inner.start(), source_checks=checks)
        panes = [inner.with_pending(pane) for pane in own.panes]
        there = [k for k, pane in enumerate(panes) if pane.streams.n] or [0]
        merged = merged_states(inner, [panes[k] for k in there])
        over = [k for k in there if k < len(panes) - 1]
        if over:
            units = [panes[k].episodes.begun if self._whole else panes[k].streams.n for k in over]
            with self.working(), np.errstate(all="ignore"):
                states = [panes[k].method for k in over]
                merged.method = self.method.recall(merged.method, own.past, states, units)
        return replace(merged, streams=own.streams, source_checks=checks)

    def fingerprints(self, state: EvaluatorState) -> tuple[int, int]:
        """Return the fingerprints of all rows, also of those that have left the window."""
        return state.outcomes, state.fingerprint

    def _serials(self, state: WindowState, data: Transitions | Increments, steps: Steps) -> tuple[Integers, Integers]:
        """Return the open pane at each row, once it is there: its place among all panes, and in time.

        Time does not go back: a row that comes late belongs to the pane that is open.
        """
        if self.window.seconds is None:
            number = (steps.clock.step - 1) // int(self.window.every)
        else:
            number = self._numbers(data)
        version = data.version if isinstance(data, Transitions) else None
        if self._whole:  # only the beginning of an episode opens a pane
            begins = steps.first
            if state.serial == 0:
                begins = begins | (np.arange(len(begins)) == 0)
            place = np.maximum.accumulate(np.where(begins, np.arange(len(begins)), -1))
            number = np.where(place >= 0, number[place], state.number)
            if version is not None:
                version = np.where(place >= 0, version[place], state.version)
        number = np.maximum.accumulate(np.append(state.number, number))[1:]
        changed = np.diff(number, prepend=state.number) != 0
        if version is not None:
            changed |= np.diff(version, prepend=version[0] if state.serial == 0 else state.version) != 0
        return state.serial + np.cumsum(changed), number

    def _numbers(self, data: Transitions | Increments) -> Integers:
        """Return the panes to which the rows belong by their own time."""
        assert self.window.seconds is not None
        return np.floor(self._times(data) / self.window.seconds).astype(np.int64)

    def _time(self, state: WindowState) -> Check:
        """Check whether the window holds the latest data: a row that is late is in the open pane all the same."""
        name, n, late = "time", sum(pane.streams.n for pane in state.panes), int(state.late.sum())
        if not n:
            return Check(name, "not available", "no transitions so far")
        share = min(late / n, 1.0)
        if share <= MOST_LATE:
            return Check(name, "passed", f"{share:.2%} of the rows of the window came more than a pane late", share)
        assert self.window.seconds is not None
        message = (
            f"{share:.0%} of the rows of the window are more than a pane older than the open one, which began at "
            f"{_moment(state.number * self.window.seconds)}: it holds more than the latest data"
        )
        remedy = "repair the clocks of what writes the rows, or sort them by time; or wait until that time has passed"
        return Check(name, "failed", message, share, remedy)

    def _times(self, data: Transitions | Increments) -> Floats:
        if not isinstance(data, Transitions) or data.time is None:
            raise ShapeError(
                f"panes of {self.window.every} need the time of each row: name its column (time), or give "
                "Transitions(..., time=...)"
            )
        far = np.flatnonzero(np.abs(data.time) > FURTHEST)
        if far.size:
            raise DataError(f"row {far[0]}: the time {data.time[far[0]]:g} is not in seconds; divide, or drop the row")
        return data.time

    def _home(self, state: WindowState, steps: Steps, serial: Integers) -> Integers:
        """Return the pane in which the episode of each row began."""
        slot = steps.clock.slot
        order = by_slot(slot)
        opens = np.concatenate([[True], slot[order][1:] != slot[order][:-1]])
        known = _lengthened(state.home, int(slot.max(initial=-1)) + 1)
        begins = steps.first[order]
        own = np.where(begins, serial[order], known[slot[order]])
        place = np.maximum.accumulate(np.where(opens | begins, np.arange(len(order)), 0))
        home = np.empty_like(serial)
        home[order] = own[place]
        return home

    def _open(
        self, draft: WindowState, serial: int, number: int, own: set[int], data: Transitions | Increments, row: int
    ) -> None:
        """Open a pane; those that have become too old leave the window, or all, if the policy has a new version."""
        inner, new = self._inner, self._inner.start()
        version = draft.version
        if isinstance(data, Transitions) and data.version is not None:
            version = int(data.version[row])
        anew = version != draft.version and draft.serial > 0
        if draft.panes and not self._whole:  # the stream goes on in it
            before = replace(inner.with_pending(draft.panes[-1]), pending=None)
            new = replace(new, streams=_from_zero(before.streams), carry={} if anew else before.carry)
            new.tabular, new.ratios_ndim, new.like = before.tabular, before.ratios_ndim, before.like
            new.episodes, before.episodes = before.episodes.handed_over()
            draft.panes = (*draft.panes[:-1], before)
            own.discard(draft.serial)
        panes = [*zip(draft.panes, draft.serials.tolist(), draft.numbers.tolist(), strict=True), (new, serial, number)]
        keep = [
            k for k, (_, s, at) in enumerate(panes) if s == serial or (not anew and at >= number - self.window.panes)
        ]
        for k in sorted(set(range(len(panes))) - set(keep)):
            left = inner.with_pending(panes[k][0])
            if left.streams.n and not anew:
                with self.working(), np.errstate(all="ignore"):
                    one = self.method.closed(left.method)
                    draft.past = one if draft.past is None else self.method.merge([draft.past, one])
        draft.past = None if anew else draft.past
        draft.panes = tuple(panes[k][0] for k in keep)
        draft.serials, draft.numbers = (np.array([panes[k][i] for k in keep], np.int64) for i in (1, 2))
        draft.late = np.append(draft.late, 0)[keep]
        draft.serial, draft.number, draft.version = serial, number, version

    def _fold_into(
        self, draft: WindowState, serial: int, rows: Transitions | Increments, late: int, own: set[int]
    ) -> None:
        """Fold rows into their pane, unless it has left the window."""
        (place,) = np.nonzero(draft.serials == serial)
        if not len(place):
            return
        k = int(place[0])
        if late:
            draft.late = draft.late.copy()
            draft.late[k] += late
        if serial in own:
            own.discard(serial)
            panes = list(draft.panes)
            panes[k] = self._inner._copied(panes[k])
            draft.panes = tuple(panes)
        self._inner.update(draft.panes[k], rows)


def _moment(seconds: float) -> str:
    """Write a time.

    >>> _moment(1.7e9), _moment(-1e11)
    ('1,700,000,000 s (2023-11-14 22:13 UTC)', '-100,000,000,000 s (-1199-02-15 14:13 UTC)')
    """
    return f"{seconds:,.0f} s ({str(np.datetime64(int(seconds // 60), 'm')).replace('T', ' ')} UTC)"


def _with_first(data: Transitions, steps: Steps) -> Transitions:
    """Return the rows of a chunk, which say themselves where episodes begin, and nothing that only a window needs."""
    rows = steps.data
    assert isinstance(rows, Transitions)
    return rows.with_first(steps.first)


def _with_last(home: Integers, slot: Integers, now: Integers, n_slots: int) -> Integers:
    """Return the pane of the latest row of each slot."""
    new = _lengthened(home, n_slots).copy()
    new[slot] = now  # the last of several counts
    return new


def _lengthened(home: Integers, n: int) -> Integers:
    return np.concatenate([home, np.zeros(max(n - len(home), 0), np.int64)])


def _from_zero(streams: Any) -> Any:
    """Return the same streams, of which no row has been counted."""
    return replace(streams, n=0, completed=np.zeros_like(streams.completed))
