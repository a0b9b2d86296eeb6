"""An experiment: a journal, and a thread that evaluates it as it grows.

The thread reads the journal as any table is read, so its run file names the place in the journal: what is counted and
how far the journal was read are one file, which is replaced at once.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from inferl.display import as_json
from inferl.errors import InferlError, SettingError
from inferl.evaluation.log import opened
from inferl.report import page
from inferl.runs import Run
from inferl.service.door import Door
from inferl.service.journal import Journal
from inferl.service.settings import Question, Settings
from inferl.service.snapshots import History, snapshot
from inferl.service.webhooks import Webhooks
from inferl.sources import Table
from inferl.sources.logs.inputs.journal import JournalStream
from inferl.storage.checkpoint import replacing

__all__ = ["Experiment", "Hub"]

LOOK = 1.0  # seconds between two snapshots
PACE = 0.05  # seconds between two chunks: many rows together take little longer than few, and others want the processor
SHARE = 10  # a snapshot or a checkpoint is made at most after this many times as long as it took
RECENT = 10.0  # seconds over which the rate is measured
MARK = 0.1  # seconds between two notes of how many rows there were
MARKS = 36_000


class _Stopped(Exception):
    """The evaluator is to stop: it waits for rows, and is between two chunks."""


@dataclass(eq=False)
class _Due:
    """When something that takes time is to be done again."""

    seconds: float
    at: float = 0.0

    def __call__(self) -> bool:
        return time.monotonic() >= self.at

    def done(self, begin: float) -> None:
        """Wait for the next time; it began when the thread had used so much of the processor."""
        self.at = time.monotonic() + max(self.seconds, SHARE * (time.thread_time() - begin))


class Experiment:
    """What is asked of the transitions that arrive under one name.

    Attributes
    ----------
    name
        In the settings, and in paths.
    run_snapshot
        The latest snapshot; it is replaced as a whole, and never changed. None: there is none yet.
    history
        Of the snapshots.
    version
        Number of snapshots so far, in this process.
    failure
        Why the evaluator has stopped, or cannot save the run; None: all is well. Rows are still recorded.
    thresholds
        Numbers that a decision waits for.
    """

    def __init__(self, name: str, question: Question, settings: Settings, webhooks: Webhooks) -> None:
        self.name, self.thresholds = name, question.thresholds
        self.run_snapshot: dict[str, Any] | None = None
        self.history = History()
        self.version = 0
        self.failure: str | None = None
        self.folder = settings.folder / name
        self._question, self._settings, self._webhooks = question, settings, webhooks
        self._run: Run | None = None
        self._page = threading.Lock()  # held while the run is changed, or shown
        self._read = 0  # rows that are evaluated, or wait for the row after them
        self._marks: deque[tuple[float, int]] = deque(maxlen=MARKS)  # when there were how many rows
        self._stop = threading.Event()
        self.folder.mkdir(parents=True, exist_ok=True)
        for path in self.folder.glob(".*"):  # what a kill left of a file that was to take the place of another
            path.unlink()
        self._check_question()
        limits = settings.limits
        self.journal = Journal(self.folder / "journal", limits.segment, limits.clients)
        place = str((self.folder / "journal").absolute())
        stream = JournalStream(place, follow=True, tail=_Tail(self), shown=name)
        self._table = question.source(stream)
        self.door = Door(self._table, settings.limits, self.folder / "first.arrow", question)
        self._thread = threading.Thread(target=self._evaluate, name=f"inferl {name}", daemon=True)

    @property
    def run_file(self) -> Path:
        """Where the run is saved."""
        return self.folder / "run.inferl"

    @property
    def lag_rows(self) -> int:
        """Rows that are recorded, and not yet evaluated."""
        return max(self.journal.rows - self._read, 0)

    @property
    def lag_bytes(self) -> int:
        """Bytes of the journal that are not yet evaluated."""
        return max(self.journal.durable - self._at, 0)

    @property
    def lag_seconds(self) -> float:
        """How long the oldest of these rows has waited."""
        waiting = next((when for when, rows in tuple(self._marks) if rows > self._read), None)
        return 0.0 if waiting is None or not self.lag_rows else max(time.monotonic() - waiting, 0.0)

    @property
    def rows_per_second(self) -> float:
        """Rows that arrived lately, a second."""
        now, marks = time.monotonic(), tuple(self._marks)
        before = next((mark for mark in marks if mark[0] >= now - RECENT), None)
        if before is None:
            return 0.0
        return (marks[-1][1] - before[1]) / max(now - before[0], 1.0)

    def start(self) -> None:
        """Start the evaluator."""
        self._thread.start()

    def stop(self) -> None:
        """Write what was accepted, save the run, and stop."""
        self._stop.set()
        self.journal.close()
        if self._thread.is_alive():
            self._thread.join()

    def recorded(self) -> None:
        """Note that rows have been recorded."""
        now = time.monotonic()
        if not self._marks or now > self._marks[-1][0] + MARK:
            self._marks.append((now, self.journal.rows))

    def state(self) -> dict[str, Any]:
        """Return the latest snapshot, with what has happened since."""
        return {
            "name": self.name,
            "rows": self.journal.rows,
            "n": self._n,
            "lag_rows": self.lag_rows,
            "lag_seconds": round(self.lag_seconds, 3),
            "rows_per_second": round(self.rows_per_second, 1),
            "bad_rows": self.bad_rows,
            "failure": self.failure,
            "version": self.version,
            "snapshot": self.run_snapshot,
        }

    @property
    def columns(self) -> list[str]:
        """Columns that a row has, as far as the settings say so."""
        wanted: dict[str, Any] = dict(self._table.wanted)
        wanted["reward"] = "reward" if wanted["reward"] is ... else wanted["reward"]
        first = [wanted.pop(role) for role in ("stream", "episode", "order", "time", "version")]
        names: list[str] = []
        for said in (*first, self._table.encoding([]).variables, *wanted.values()):
            names += [said] if isinstance(said, str) else said if isinstance(said, tuple | list) else []
        return list(dict.fromkeys(names))

    @property
    def bad_rows(self) -> int:
        """Rows that do not fit those before them, and were left out."""
        return self._bad

    def bad_rows_of(self, client: str) -> int:
        """Those of one client, among the rows that are evaluated."""
        return self._bad_of.get(client, 0)

    def html(self) -> str | None:
        """Return the report page; None before the first transition."""
        with self._page:
            if self._run is None:
                return None
            options = self._run.options | {"file": (self._table.name,)}  # without the folder
            return page({self.name: replace(self._run, options=options)})

    # The thread that evaluates.

    _source: Table
    _at = 0  # bytes of the journal that are evaluated
    _bad = _n = 0  # bad rows, and transitions
    _bad_of: Mapping[str, int] = MappingProxyType({})  # bad rows by client

    def _evaluate(self) -> None:
        try:
            self._follow()
        except _Stopped:
            pass
        except InferlError as error:
            self._fail(self._question.worded(str(error)))
        except Exception as error:
            logging.getLogger("inferl").exception("experiment %s", self.name)
            self._fail(f"an error of inferl itself ({type(error).__name__}); the log of the server says more")
        if self._run is not None and self._run.position is not None:
            try:
                if self.failure is None:
                    self._note()
                self._look()
                self._try_to_save()
            except InferlError as error:
                self._fail(f"the run cannot be saved: {error}")

    def _fail(self, why: str) -> None:
        self.failure = " ".join(why.split())
        logging.getLogger("inferl").error("experiment %s: %s", self.name, self.failure)

    def _follow(self) -> None:
        self._shown, self._saved = _Due(LOOK), _Due(self._question.every)
        table = self._table
        if self.run_file.exists():
            run = Run.load(self.run_file)
            table = table.resume(run.position)
            chunks = iter(table)
            self._source = table
            self._set(run)
            self.history = self._kept_history(run.evaluator.n)
            self._look()
        else:
            self._source = table
            chunks, n_policies = opened(table)
            run = self._question.run(table, n_policies)
        self._saved.done(time.thread_time())
        for chunk in chunks:
            begin = time.monotonic()
            with self._page:
                run.take(chunk, table)
            self._set(run)
            self._tick()
            if self._stop.wait(begin + PACE - time.monotonic()):
                return

    def _set(self, run: Run) -> None:
        self._run, place = run, run.position["place"]
        self._bad_of = run.position["skipped_of"]
        self._read, self._bad, self._n = self._source.rows, self._source.skipped, run.evaluator.n
        self._at = int(place["at"]["journal"])
        while self._marks and self._marks[0][1] <= self._read and self._marks[0][0] < time.monotonic() - RECENT:
            self._marks.popleft()

    def _note(self) -> None:
        """Note how far the journal was read: rows that are bad, or wait for the row after them, make no chunk."""
        if self._run is None:
            with suppress(SettingError):  # nothing was read
                self._read = self._source.rows
        elif self._source.rows > self._read:
            with self._page:
                self._run.follow(self._source)
            self._set(self._run)

    def _tick(self) -> None:
        """Show and save the run, if it is time."""
        if self._run is None:
            return
        if self._shown() and self._looked != (self._n, self._bad):
            self._look()
        if self._saved() and self._at > self._kept:
            self._try_to_save()

    def _look(self) -> None:
        assert self._run is not None
        begin = time.thread_time()
        now = snapshot(self._run, self.name, self.thresholds)
        worded = self._question.worded
        for check in now["checks"]:
            check |= {key: worded(check[key]) for key in ("message", "remedy")}
        self.history.add(now)
        if now["change"] is not None:
            now["change"] = self.history.placed(now["change"])
        self.run_snapshot = now
        self.version += 1
        self._webhooks.after(self, now)
        self._looked = self._n, self._bad
        self._shown.done(begin)

    _looked = -1, -1  # transitions and bad rows of the latest snapshot
    _kept = -1  # bytes of the journal that the run file has counted
    _unsaved = ""  # why the run was not saved when it was due

    def _try_to_save(self) -> None:
        """Save the run; if the disk is full, say so, and try again when it is due."""
        begin = time.thread_time()
        try:
            self._save()
        except OSError as error:
            self._unsaved = f"the run cannot be saved ({error.strerror}); free some space"
            self._fail(self._unsaved)
            self._saved.done(begin)
            return
        if self.failure == self._unsaved:
            self.failure = None

    def _save(self) -> None:
        assert self._run is not None
        begin, at = time.thread_time(), self._at
        with replacing(self.folder / "history.json") as file:
            file.write(as_json(self.history.saved()).encode())
        self._run.save(self.run_file)
        self._kept = at
        if not self._settings.keep_journal:
            _sync(self.folder)  # the run file must not be lost after what it has counted
            self.journal.forget(at)
        self._saved.done(begin)

    def _kept_history(self, n: int) -> History:
        """Read the history; without it the page begins anew, and nothing else is lost."""
        try:
            return History.restored(json.loads((self.folder / "history.json").read_bytes()), n)
        except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
            logging.getLogger("inferl").warning("experiment %s: its history cannot be read: %s", self.name, error)
            return History()

    def _check_question(self) -> None:
        """Refuse to go on with what another question has begun."""
        path, now = self.folder / "experiment.json", json.loads(json.dumps(dict(self._question.about)))
        if not (path.exists() and self.run_file.exists()):
            with replacing(path) as file:
                file.write(json.dumps(now, indent=2).encode() + b"\n")
            return
        try:
            before = json.loads(path.read_text("utf-8"))
        except ValueError:
            raise SettingError(f"{path} is damaged; restore it") from None
        other = sorted(key for key in before.keys() | now.keys() if before.get(key) != now.get(key))
        if other:
            key = other[0]
            raise SettingError(
                f"experiment {self.name} was begun with {key} = {before.get(key)!r}, and now it is {now.get(key)!r}; "
                f"take it back, give the experiment a new name, or delete {self.run_file} to evaluate its journal anew"
            )


@dataclass(frozen=True)
class _Tail:
    """The end of the journal for the evaluator, which does what is due while it waits there."""

    experiment: Experiment

    @property
    def durable(self) -> int:
        """Bytes that a crash cannot take away."""
        if self.experiment._stop.is_set():
            raise _Stopped
        return self.experiment.journal.durable

    def wait(self, beyond: int) -> None:
        """Wait for more."""
        self.experiment._note()
        while not self.experiment.journal.wait(beyond, LOOK / 4):
            if self.experiment._stop.is_set():
                raise _Stopped
            self.experiment._tick()


@dataclass(eq=False)
class Hub:
    """All experiments of a server."""

    settings: Settings
    experiments: Mapping[str, Experiment]
    webhooks: Webhooks
    started: float = field(default_factory=time.time)
    stopping: threading.Event = field(default_factory=threading.Event)  # set before connections are closed

    @classmethod
    def of(cls, settings: Settings) -> Hub:
        """Open the journals of all experiments."""
        webhooks = Webhooks.of(settings)
        experiments = {name: Experiment(name, one, settings, webhooks) for name, one in settings.experiments.items()}
        return cls(settings, experiments, webhooks)

    def start(self) -> None:
        """Start the evaluators, and what tells others of their findings."""
        self.webhooks.start()
        for experiment in self.experiments.values():
            experiment.start()

    def stop(self) -> None:
        """Stop all experiments."""
        self.stopping.set()
        for experiment in self.experiments.values():
            experiment.stop()
        self.webhooks.stop()

    @property
    def waiting_bytes(self) -> int:
        """Bytes that wait for the disk."""
        return sum(experiment.journal.waiting_bytes for experiment in self.experiments.values())


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
