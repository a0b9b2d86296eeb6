"""The journal of an experiment, as its only writer keeps it: append, group commit, and what each client has sent.

What arrives while the disk is busy waits, goes out with one write and one fdatasync, and is answered together. A
segment begins with the sequence numbers of all clients, so they survive the deletion of the segments before it, and the
last segment is all that is read at the start. The format, and how it is read: `inferl.sources.logs.inputs.journal`.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from inferl.errors import DataError, InferlError, SettingError
from inferl.sources.logs.inputs.journal import CLIENTS, ROWS, Segment, ends_of, packed, segments

__all__ = ["Closed", "Gap", "Journal", "JournalError", "TooManyClients"]


class JournalError(InferlError):
    """The disk did not take what was to be written."""


class Closed(JournalError):
    """The journal was closed."""


class TooManyClients(InferlError):
    """One client more than are allowed."""


class Gap(InferlError):
    """A sequence number that is not the next of its client."""

    def __init__(self, client: str, sequence: int, expected: int) -> None:
        super().__init__(f"batch {sequence} of {client!r} came before batch {expected}")
        self.expected = expected


@dataclass(frozen=True)
class _Waiting:
    """A record that is not yet on disk."""

    client: str
    sequence: int
    rows: int
    data: bytes
    done: Future[None]


class Journal:
    """A folder of segments, open for appending; from `append` to the future's result, nothing is promised.

    Attributes
    ----------
    durable
        Bytes of the journal that a crash cannot take away.
    rows
        Rows in them.
    waiting_bytes
        Bytes that were appended and are not on disk.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     journal = Journal(Path(folder))
    ...     journal.append("robot", 1, 2, b"two rows").result()
    ...     journal.append("robot", 1, 2, b"two rows").result()  # a repeat has no effect
    ...     journal.close()
    ...     Journal(Path(folder)).sequence("robot"), journal.rows
    (1, 2)
    """

    def __init__(self, folder: Path, segment: int = 64 << 20, most_clients: int = 10_000) -> None:
        self._folder, self._size, self._most_clients = folder, segment, most_clients
        folder.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Condition()
        self._queue: list[_Waiting] = []
        self._latest: dict[str, _Waiting] = {}  # of each client, the last that is not on disk
        self.waiting_bytes = 0
        self._own = _owned(folder)
        self._file = -1
        self._begin = self.durable = self.rows = 0
        self._clients: dict[str, int] = {}  # the last sequence number of each client that is on disk
        self._closing = False
        self.failure: str | None = None
        self.syncs, self.sync_seconds = 0, 0.0  # how often, and how long, the disk was waited for
        self._recover()
        self._thread = threading.Thread(target=self._commit, name="inferl journal", daemon=True)
        self._thread.start()

    def sequence(self, client: str) -> int:
        """Return the last sequence number of a client that was accepted; 0 if there is none."""
        with self._lock:
            return self._accepted(client)

    def append(self, client: str, sequence: int, rows: int, payload: bytes) -> Future[None]:
        """Append a batch; the future has a result when it cannot be lost any more, and so has that of a repeat."""
        done: Future[None] = Future()
        done.set_running_or_notify_cancel()  # whoever waits cannot cancel what is being written
        with self._lock:
            if self._closing:
                raise Closed("the server is stopping; send the batch again")
            if self.failure is not None:
                raise JournalError(self.failure)
            last = self._accepted(client)
            if sequence <= last:
                waiting = self._latest.get(client)
                if waiting is None or sequence <= self._clients.get(client, 0):
                    done.set_result(None)
                    return done
                return next(one.done for one in self._unwritten() if (one.client, one.sequence) == (client, sequence))
            if sequence > last + 1:
                raise Gap(client, sequence, last + 1)
            if last == 0 and len(self._clients.keys() | self._latest.keys()) >= self._most_clients:
                raise TooManyClients(f"there are {self._most_clients:,} clients, as many as are allowed")
            waiting = _Waiting(client, sequence, rows, packed(ROWS, client, sequence, rows, payload), done)
            self._queue.append(waiting)
            self._latest[client] = waiting
            self.waiting_bytes += len(waiting.data)
            self._lock.notify_all()
        return done

    def wait(self, beyond: int, seconds: float) -> bool:
        """Wait until more bytes than these are durable, or so long; return whether there are."""
        with self._lock:
            self._lock.wait_for(lambda: self.durable > beyond or self._closing, seconds)
            return self.durable > beyond

    def forget(self, before: int) -> None:
        """Delete the segments that hold nothing after so many bytes."""
        found = segments(self._folder)
        for segment, following in pairwise(found):
            if following.begin <= before:
                segment.path.unlink()

    def close(self) -> None:
        """Write what waits, and close."""
        with self._lock:
            self._closing = True
            self._lock.notify_all()
        self._thread.join()
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
        self._own.close()

    # At the start.

    def _recover(self) -> None:
        """Read the last segment, cut off what was not written to its end, and go on there."""
        found = segments(self._folder)
        if not found:
            self._begin_segment()
            return
        last = found.pop()
        self._read(last)
        torn = last.begin + last.path.stat().st_size - self.durable
        if self.durable == last.begin and found:  # the crash was at its first record
            self._read(found[-1])
            if self.durable != last.begin:
                where = self.durable - found[-1].begin
                raise DataError(f"{found[-1].path} is damaged at byte {where:,}; restore it from a copy")
        if torn:
            self._set_aside(last, torn)
        if self._begin != last.begin:  # it is empty now; the segment before may go on beyond its place
            last.path.unlink()
        if self._begin == self.durable:
            self._begin_segment()
        else:
            self._file = os.open(_path(self._folder, self._begin), os.O_WRONLY | os.O_APPEND)

    def _read(self, segment: Segment) -> None:
        """Read a segment: what the clients have sent, and where it ends."""
        self._begin = self.durable = segment.begin
        for record in ends_of(segment):
            if record.kind == CLIENTS:
                head = json.loads(record.payload)
                self._clients, self.rows = dict(head["clients"]), int(head["rows"])
            else:
                self._clients[record.client] = record.sequence
                self.rows += record.rows
            self.durable = record.after

    def _set_aside(self, segment: Segment, torn: int) -> None:
        """Cut off the end of a segment; it is kept in a file of its own: it may be damaged, and have been confirmed."""
        with open(segment.path, "r+b") as file:
            whole = self.durable - segment.begin
            file.seek(whole)
            aside = self._folder / f"{self.durable:020d}.torn"
            aside.write_bytes(file.read())
            file.truncate(whole)
            os.fsync(file.fileno())
        logging.getLogger("inferl").warning(
            "%s: the last %d bytes were not written to their end, and so never confirmed, or were damaged later; "
            "they are now in %s",
            segment.path,
            torn,
            aside,
        )

    # The thread that writes.

    def _commit(self) -> None:
        while True:
            with self._lock:
                self._lock.wait_for(lambda: self._queue or self._closing)
                if not self._queue:
                    return
                group, self._queue = self._queue, []
                self._group = group
            problem = self._write(group)
            with self._lock:
                self._group = []
                if problem is not None:
                    group, self._queue = group + self._queue, []  # those after them would be gaps
                    self._latest.clear()
                else:
                    for one in group:
                        self._clients[one.client] = one.sequence
                        self.rows += one.rows
                        if self._latest.get(one.client) is one:
                            del self._latest[one.client]
                    self.durable += sum(len(one.data) for one in group)
                self.waiting_bytes -= sum(len(one.data) for one in group)
                self._lock.notify_all()
            for one in group:
                if problem is None:
                    one.done.set_result(None)
                else:
                    one.done.set_exception(problem)

    def _write(self, group: list[_Waiting]) -> JournalError | None:
        """Write records and wait for the disk; on failure, take them back."""
        try:
            if self.durable - self._begin >= self._size:
                self._begin_segment()
            _write_all(self._file, b"".join(one.data for one in group))
        except OSError as error:
            why = f"the journal cannot be written ({error.strerror})"
            try:
                os.ftruncate(self._file, self.durable - self._begin)
            except OSError:
                self.failure = f"{why}, and is in disorder; restart the server"
            return JournalError(f"{why}; free some space")
        begin = time.monotonic()
        try:
            os.fdatasync(self._file)
        except OSError as error:  # what is on disk is not known, and asking again would not tell
            self.failure = f"the disk failed ({error.strerror}); repair it and restart the server"
            return JournalError(self.failure)
        self.syncs, self.sync_seconds = self.syncs + 1, self.sync_seconds + time.monotonic() - begin
        return None

    def _begin_segment(self) -> None:
        """Begin a segment, with what each client has sent."""
        head = json.dumps({"clients": self._clients, "rows": self.rows}).encode()
        data = packed(CLIENTS, "", 0, 0, head)
        begin = self.durable
        path = _path(self._folder, begin)
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
        try:
            _write_all(file, data)
            os.fdatasync(file)
            folder = os.open(self._folder, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError:
            os.close(file)
            path.unlink()
            raise
        if self._file >= 0:
            os.close(self._file)
        self._file, self._begin, self.durable = file, begin, begin + len(data)

    # Under the lock.

    def _accepted(self, client: str) -> int:
        waiting = self._latest.get(client)
        return self._clients.get(client, 0) if waiting is None else waiting.sequence

    def _unwritten(self) -> list[_Waiting]:
        return [*self._group, *self._queue]

    _group: list[_Waiting] = []  # noqa: RUF012 (replaced, never changed)


def _write_all(file: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(file, left) :]


def _path(folder: Path, begin: int) -> Path:
    return folder / f"{begin:020d}.segment"


def _owned(folder: Path) -> Any:
    """Refuse a journal that another process writes to; the lock ends with the process, however it ends."""
    file = open(folder / "lock", "w")  # noqa: SIM115 (open as long as the journal is)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise SettingError(f"{folder} belongs to a server that is running; stop it, or name another folder") from None
    return file
