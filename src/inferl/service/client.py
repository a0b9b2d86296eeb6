"""The client: rows of a running policy, gathered, numbered and sent until the service has them.

It needs the standard library and NumPy; with pyarrow it sends Arrow columns, which the service reads faster than JSON.
"""

from __future__ import annotations

import atexit
import http.client
import json
import logging
import os
import re
import secrets
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote, urlsplit

import numpy as np

from inferl.errors import SendingError, SettingError

__all__ = ["NAME", "Client"]

NAME = re.compile(r"[\x21-\x7e]{1,128}")  # of a client
AGAIN = (0.05, 2.0)  # seconds until a batch is sent again: at first, and at most
PATIENCE = 30.0  # seconds for an answer
LONGEST = 60.0  # seconds that a service may ask to wait
BEHIND = 10  # times `rows` are in a batch, if so many wait
PLAIN = frozenset((bool, int, float, str, type(None)))
LATER = (408, 429, 500, 502, 503, 504, 507)  # answers after which the batch is sent again

try:
    import pyarrow
except ImportError:
    pyarrow = None


class Client:
    """Sends transitions to an experiment of a service, each exactly once, from a thread of its own.

    Batches are numbered. What is not answered is sent again with the same number, also after the server was restarted,
    and the server counts each number once. A client of the same name goes on with the number after the last that the
    server has. A batch that the server refuses, because a row is bad, is an error at the next call; nothing of it was
    kept.

    Parameters
    ----------
    url
        Of the service, ``"http://127.0.0.1:8000"``.
    experiment
        Its name.
    name
        Of this sender; each of several senders needs its own. Its rows are one stream, unless columns of the rows tell
        streams or episodes apart. Default: a new name.
    token
        With the scope write; default: the environment variable INFERL_WRITE_TOKEN.
    rows, seconds
        A batch is sent when there are so many rows, or when its first row has waited so long. If more wait, up to ten
        times as many are sent together.
    most_waiting
        Rows that wait at most, while the server is away or slow.
    when_full
        What to do with one more: ``"wait"``, or ``"raise"``.

    Examples
    --------
    ::

        with Client("http://127.0.0.1:8000", "checkout", name="web-1") as client:
            client.send(page=3, reward=0.0, terminated=False)
    """

    def __init__(
        self,
        url: str,
        experiment: str,
        name: str | None = None,
        *,
        token: str | None = None,
        rows: int = 100,
        seconds: float = 0.05,
        most_waiting: int = 100_000,
        when_full: str = "wait",
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise SettingError(f"{url!r} is not the address of a service, such as http://127.0.0.1:8000")
        if when_full not in ("wait", "raise"):
            raise SettingError(f"when_full is {when_full!r}; say wait or raise")
        if not 0 < rows <= most_waiting:
            raise SettingError(f"rows is {rows}; it must be between 1 and most_waiting, {most_waiting}")
        host = re.sub(r"[^\x21-\x7e]", "-", socket.gethostname())[:64]
        self.name = name or f"{host}-{os.getpid()}-{secrets.token_hex(4)}"
        if not NAME.fullmatch(self.name):
            raise SettingError(f"name is {self.name!r:.200}; use at most 128 letters, digits and signs, without spaces")
        self.sequence = 0  # of the last batch that the server has
        self.bad_rows = 0  # of this sender, that do not fit those before them and were left out, as far as is known
        self._secure, self._host, self._port = parts.scheme == "https", parts.hostname, parts.port
        self._path = f"{parts.path.rstrip('/')}/v1/experiments/{quote(experiment, safe='')}"
        token = (token or os.environ.get("INFERL_WRITE_TOKEN", "")).strip()
        if not re.fullmatch(r"[\x21-\x7e]*", token):
            raise SettingError("the token has spaces or other characters that no token has")
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._rows, self._seconds, self._most, self._when_full = rows, seconds, most_waiting, when_full
        self._lock = threading.Condition()
        self._waiting: deque[tuple[float, dict[str, Any]]] = deque()
        self._on_the_way = 0  # rows of the batch that is being sent
        self._flushing = 0
        self._closing = False
        self._error: SendingError | None = None
        self._floats: set[str] = set()  # columns that have held fractions
        self._process = os.getpid()
        self._connection: http.client.HTTPConnection | None = None
        self._thread = threading.Thread(target=self._run, name=f"inferl client {self.name}", daemon=True)
        self._thread.start()
        atexit.register(self._at_exit)

    def send(self, **row: Any) -> None:
        """Send one row: a value for each column, numbers, flags, text or vectors."""
        self.send_rows([row])

    def send_rows(self, rows: list[dict[str, Any]] | Mapping[str, Any]) -> None:
        """Send several rows: a list of rows, or columns of equal length."""
        if isinstance(rows, Mapping):
            names, columns = list(rows), [list(column) for column in rows.values()]
            if len({len(column) for column in columns}) > 1:
                raise SettingError(f"columns have the lengths {[len(column) for column in columns]}; give equal ones")
            rows = [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]
        self._check_process()
        kept = [_kept_row(row) for row in rows]
        with self._lock:
            if self._when_full == "raise" and self.waiting + len(kept) > self._most and not self._over():
                raise SendingError(
                    f"{self.waiting:,} rows wait for the service, and {len(kept):,} more are too many "
                    f"(most_waiting={self._most:,}); none of them was taken"
                )
            for row in kept:
                while self.waiting >= self._most and not self._over():
                    self._lock.wait()
                self._check()
                self._waiting.append((time.monotonic(), row))
                if len(self._waiting) in (1, self._rows):
                    self._lock.notify_all()

    @property
    def waiting(self) -> int:
        """Rows that the service has not yet confirmed."""
        return len(self._waiting) + self._on_the_way

    def flush(self, timeout: float | None = None) -> None:
        """Wait until the service has confirmed all rows; after `timeout` seconds, raise `TimeoutError`."""
        self._check_process()
        with self._lock:
            self._flushing += 1
            self._lock.notify_all()
            try:
                done = self._lock.wait_for(lambda: self._error is not None or not self.waiting, timeout)
            finally:
                self._flushing -= 1
            if self._error is not None:
                raise self._error
            if not done:
                raise TimeoutError(f"{self.waiting:,} rows were not confirmed within {timeout:g} seconds")

    def close(self, timeout: float | None = None) -> None:
        """Flush, and stop; rows that were not confirmed after `timeout` seconds are lost."""
        try:
            if not self._closing:
                self.flush(timeout)
        finally:
            with self._lock:
                self._closing = True
                self._lock.notify_all()
            atexit.unregister(self._at_exit)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    def _at_exit(self) -> None:
        try:
            if self._process == os.getpid():
                self.close(timeout=5.0)
        except (SendingError, TimeoutError) as error:
            logging.getLogger("inferl").error("rows for %s were lost at exit: %s", self._path, error)

    def _check_process(self) -> None:
        """Refuse a process that was forked: it has no thread, and perhaps a lock that nobody opens."""
        if self._process != os.getpid():
            raise SendingError("this client belongs to the process that was forked; make one in each process")

    def _check(self) -> None:
        if self._error is not None:
            raise self._error
        if self._closing:
            raise SendingError("this client was closed")

    def _over(self) -> bool:
        return self._closing or self._error is not None

    # The thread that sends.

    def _run(self) -> None:
        try:
            path = f"{self._path}/clients/{quote(self.name, safe='')}"
            status, content, _ = self._until_answered("GET", path, b"", {})
            self._refuse(status, content)
            if type(content.get("sequence")) is not int:
                raise SendingError("what answers there is no service of inferl")
            self.sequence = content["sequence"]
            while (batch := self._next_batch()) is not None:
                self._send(batch)
        except _Closed:
            pass
        except Exception as error:  # else whoever waits would wait for ever
            why = error if isinstance(error, SendingError) else SendingError(f"{type(error).__name__}: {error}")
            with self._lock:
                self._error = why
                self._lock.notify_all()
        finally:
            if self._connection is not None:
                self._connection.close()

    def _next_batch(self) -> list[dict[str, Any]] | None:
        """Wait for a batch; None: the client was closed."""
        with self._lock:
            while True:
                if self._closing:
                    return None
                left = self._waiting[0][0] + self._seconds - time.monotonic() if self._waiting else None
                if self._waiting and (len(self._waiting) >= self._rows or self._flushing or (left or 0) <= 0):
                    break
                self._lock.wait(left)
            batch = [self._waiting.popleft()[1] for _ in range(min(len(self._waiting), BEHIND * self._rows))]
            self._on_the_way = len(batch)
        return batch

    def _send(self, batch: list[dict[str, Any]]) -> None:
        """Send a batch, or if it is too large its halves."""
        try:
            body, kind = self._encoded(batch)
        except (TypeError, ValueError, OverflowError, NotImplementedError) as error:  # the last: a type of Arrow's
            raise SendingError(f"a row cannot be written: {' '.join(str(error).split())}") from None
        sequence = self.sequence + 1
        headers = {"Inferl-Client": self.name, "Inferl-Sequence": str(sequence), "Content-Type": kind}
        status, content, times = self._until_answered("POST", f"{self._path}/transitions", body, headers)
        if status == 413 and len(batch) > 1:
            for half in (batch[: len(batch) // 2], batch[len(batch) // 2 :]):
                self._send(half)
            return
        self._refuse(status, content)
        if times == 1 and content.get("repeat"):  # the service had a batch of this number before it was sent
            raise SendingError(f"batch {sequence} was that of another sender; give each sender a name of its own")
        bad = int(content.get("bad_rows", 0))
        if bad and not self.bad_rows:
            logging.getLogger("inferl").warning(
                "%s: %d rows of %s did not fit those before them, and were left out", self._path, bad, self.name
            )
        with self._lock:
            self.sequence, self.bad_rows = sequence, bad
            self._on_the_way -= len(batch)
            self._lock.notify_all()

    def _refuse(self, status: int, content: dict[str, Any]) -> None:
        if status == 200:
            return
        error, remedy = content.get("error", f"the service answered {status}"), content.get("remedy", "")
        if status == 409:
            remedy = "the service has lost or never had what was sent before, or another sender has the same name"
        raise SendingError("; ".join(filter(None, (error, remedy))), status, content.get("row"))

    def _until_answered(
        self, method: str, path: str, body: bytes, headers: dict[str, str]
    ) -> tuple[int, dict[str, Any], int]:
        """Send a request until there is an answer that is not *later*; return it, and how often it was sent."""
        logger, pause, times = logging.getLogger("inferl"), AGAIN[0], 0
        while True:
            times += 1
            asked = pause
            try:
                status, content, after = self._request(method, path, body, headers)
                if status not in LATER:
                    if times > 2:
                        logger.warning("%s: the service answers again", self._path)
                    return status, content, times
                why = str(content.get("error", status))
                asked = max(min(after, LONGEST), pause)
            except (OSError, http.client.HTTPException) as error:
                why = str(error) or type(error).__name__
                if self._connection is not None:
                    self._connection.close()
                    self._connection = None
            if times == 2:  # a connection that was idle is closed by the other side, which is no trouble
                logger.warning("%s: %.200s; trying until it works", self._path, why)
            with self._lock:
                if self._lock.wait_for(lambda: self._closing, asked):
                    raise _Closed
            pause = min(2 * pause, AGAIN[1])

    def _request(
        self, method: str, path: str, body: bytes, headers: dict[str, str]
    ) -> tuple[int, dict[str, Any], float]:
        if self._connection is None:
            if self._secure:
                context = ssl.create_default_context()
                self._connection = http.client.HTTPSConnection(
                    self._host, self._port, timeout=PATIENCE, context=context
                )
            else:
                self._connection = http.client.HTTPConnection(self._host, self._port, timeout=PATIENCE)
        self._connection.request(method, path, body, {**self._headers, **headers})
        answer = self._connection.getresponse()
        data = answer.read()
        try:
            content = json.loads(data)
        except ValueError:
            content = {"error": data[:200].decode(errors="replace").strip() or answer.reason}
        after = answer.headers.get("Retry-After", "")
        content = content if isinstance(content, dict) else {}
        return answer.status, content, float(after) if after.isascii() and after.isdecimal() else 0.0

    def _encoded(self, batch: list[dict[str, Any]]) -> tuple[bytes, str]:
        """Return a batch as Arrow columns, or as lines of JSON."""
        if pyarrow is None:
            return b"\n".join(json.dumps(row, default=_plain).encode() for row in batch), "application/x-ndjson"
        columns = {}
        for name in dict.fromkeys(name for row in batch for name in row):
            column = _column([row.get(name) for row in batch])
            if pyarrow.types.is_floating(column.type):
                self._floats.add(name)
            elif name in self._floats and pyarrow.types.is_integer(column.type):
                column = column.cast(pyarrow.float64())  # the type of a column should not change from batch to batch
            columns[name] = column
        table = pyarrow.table(columns)
        sink = pyarrow.BufferOutputStream()
        with pyarrow.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        return bytes(sink.getvalue()), "application/vnd.apache.arrow.stream"


class _Closed(Exception):
    """The client was closed while it waited."""


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is neither number, text nor vector")


def _column(values: list[Any]) -> Any:
    """Return a column; of vectors, which pyarrow takes one by one, in a tenth of the time."""
    if not all(isinstance(value, np.ndarray) for value in values):
        return pyarrow.array(values)
    offsets = np.cumsum([0, *map(len, values)], dtype=np.int32)
    return pyarrow.ListArray.from_arrays(pyarrow.array(offsets), pyarrow.array(np.concatenate(values)))


def _kept_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row that nobody else changes, as pyarrow takes it: vectors, and numbers instead of arrays of one."""
    return {name: value if type(value) in PLAIN else _kept(value) for name, value in row.items()}


def _kept(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.flatten() if value.ndim else value.item()
    return list(value) if type(value) is list else value
