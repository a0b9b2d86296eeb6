"""``--every``: what a command does again and again while it reads, by the number of transitions or by time."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Self

from inferl.errors import SettingError
from inferl.methods.window import seconds_of

__all__ = ["Pace", "Task", "Ticker"]

SHARE = 10  # a task waits at least this many times as long as it took


@dataclass(frozen=True)
class Pace:
    """How often something is done: after so many transitions, or after so many seconds.

    >>> Pace.parsed("10s"), Pace.parsed("1.5m"), Pace.parsed("5000")
    (Pace(seconds=10.0, transitions=0), Pace(seconds=90.0, transitions=0), Pace(seconds=0.0, transitions=5000))
    """

    seconds: float = 0.0
    transitions: int = 0  # 0: by time

    @classmethod
    def parsed(cls, text: str) -> Pace:
        """Read a number of transitions, or a time such as 10s, 5m or 1h."""
        seconds = seconds_of(text)
        if seconds is not None:
            return cls(seconds=seconds)
        if re.fullmatch(r"\d{1,18}", text.strip()) and int(text) > 0:
            return cls(transitions=int(text))
        raise SettingError(
            f"--every is {text!r}; give a time, such as 10s, 5m or 1h, or a number of transitions, such as 100000"
        )


@dataclass
class Task:
    """Something that is done at a certain pace, if the run has grown since the last time."""

    act: Callable[[], None]
    pace: Pace
    n: int = 0  # transitions when it was done last
    due: float = 0.0  # by `time.monotonic`, if done by time

    def do(self, n: int) -> None:
        """Do it now."""
        begin = time.monotonic()
        self.act()
        self.rest(n, time.monotonic() - begin)

    def rest(self, n: int, cost: float = 0.0) -> None:
        """Begin to wait for the next time."""
        self.n, self.due = n, time.monotonic() + max(self.pace.seconds, SHARE * cost)

    def do_if_due(self, n: int) -> None:
        """Do it, if it is due and there are new transitions."""
        if n - self.n < self.pace.transitions if self.pace.transitions else time.monotonic() < self.due:
            return
        if n == self.n:
            self.rest(n)
        else:
            self.do(n)


class Ticker:
    """Does tasks when they are due, also while the source is silent.

    The thread that reads the source owns the run, except while it waits for data: then a second thread may look at it.
    So the two never touch the run at the same time, and a signal reaches the thread that waits.
    """

    def __init__(self, n: Callable[[], int], tasks: Sequence[Task]) -> None:
        self.n, self.tasks = n, tasks
        self._owned, self._stop = threading.Lock(), threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._error: BaseException | None = None

    def __enter__(self) -> Self:
        self._owned.acquire()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._owned.release()
        self._thread.join()

    def check(self) -> None:
        """Do what is due; called by the thread that owns the run."""
        if self._error is not None:
            raise self._error
        for task in self.tasks:
            task.do_if_due(self.n())

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Give the run to the second thread while the first waits for data."""
        self._owned.release()
        try:
            yield
        finally:
            self._owned.acquire()

    def _watch(self) -> None:
        while not self._stop.wait(self._pause()):
            with self._owned:
                try:
                    if not self._stop.is_set():
                        self.check()
                except BaseException as error:  # raised again where the source is read
                    self._error = error
                    return

    def _pause(self) -> float | None:
        """Seconds until the next task is due; None if all go by transitions."""
        dues = [task.due for task in self.tasks if not task.pace.transitions]
        return max(min(dues) - time.monotonic(), 0.001) if dues else None
