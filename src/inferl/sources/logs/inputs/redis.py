"""Redis Streams: the entries of one stream, in the order of their ids, without a consumer group.

An entry is a row: its fields are the columns; or it has one field, which holds rows as JSON objects, one a line.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from inferl.data.invariants import demand
from inferl.errors import CheckpointMismatchError, DataError, InputError, MissingExtraError, SettingError
from inferl.sources.logs.inputs.messages import Message, MessageLog, Patience, Place

__all__ = ["RedisStream"]

POLL = 250  # milliseconds until a signal is noticed
AGAIN = 0.5  # seconds between two attempts to reach a server
FIRST_ANSWER = 30.0  # seconds after which a server that has never answered is taken for a wrong name

Id = tuple[int, int]


@dataclass(frozen=True)
class RedisStream:
    """A stream of a Redis server."""

    server: str  # redis://host:port
    key: str
    settings: Mapping[str, Any] = field(default_factory=dict, repr=False)
    follow: bool = False

    @property
    def name(self) -> str:
        """As a URI."""
        return f"{self.server}/{self.key}"

    def open(self, place: Place | None, rows: int) -> MessageLog:
        """Return it as an open log."""
        return MessageLog(self, place, rows)

    @contextmanager
    def connect(self, place: Place | None) -> Iterator[_Entries]:
        """Connect to the server."""
        try:
            import redis
        except ImportError:
            raise MissingExtraError("redis", "redis") from None
        try:
            client = redis.Redis.from_url(self.server, **self.settings)
        except (ValueError, TypeError) as error:
            raise SettingError(f"{self.name}: {error}") from None
        with client:
            entries = _Entries(self, client)
            entries.begin(place)
            yield entries


class _Entries:
    """The entries of a stream from a place on: an id, and how many entries there were up to it.

    The number shows whether entries have been removed before they were read.
    """

    def __init__(self, stream: RedisStream, client: Any) -> None:
        self.stream, self.client = stream, client
        self.patience = Patience(stream.name)
        self.reached = False  # the server has answered

    def begin(self, place: Place | None) -> None:
        """Check that the entries after the place are there."""
        about = self._asked(lambda: self.client.xinfo_stream(self.stream.key))
        if "entries-added" not in about:
            raise SettingError(
                f"{self.stream.name}: this needs Redis 7.0 or newer, which counts the entries of a stream"
            )
        if place is None:
            self.last, self.number = (0, 0), about["entries-added"] - about["length"]
        else:
            demand(list(place.at) == [self.stream.key], "the place is that of another stream")
            self.last, self.number = _place(place.at[self.stream.key])
            self._check(about, CheckpointMismatchError)
        self.start = {self.stream.key: _text(self.last, self.number)}
        self.end: Id | None = None
        if not self.stream.follow:
            said = place is not None and place.ends
            self.end = _place(place.ends[self.stream.key])[0] if said else _id(about["last-generated-id"])  # type: ignore[union-attr]
        self.ends = {} if self.end is None else {self.stream.key: _text(self.end, 0)}

    def take(self, most: int) -> list[Message]:
        """Return the next entries."""
        while self.end is None or self.last < self.end:
            about, found = self._asked(lambda: self._read(most))
            self._check(about, DataError)
            if self.end is not None and not found:
                return []  # the last ones were deleted
            out = []
            for name, fields in found:
                if self.end is not None and _id(name) > self.end:
                    break
                before = _text(self.last, self.number)
                self.last, self.number = _id(name), self.number + 1
                out.append(Message(self.stream.key, before, _text(self.last, self.number), _row(fields)))
            if out or self.end is not None:
                return out
            self._asked(lambda: self.client.xread({self.stream.key: _name(self.last)}, count=1, block=POLL))
        return []

    def about(self, message: Message) -> str:
        """Name an entry."""
        return f"entry {str(message.after).partition(' ')[0]}"

    def _read(self, most: int) -> tuple[dict[str, Any], list[Any]]:
        """Return what the server says about the stream, and its next entries, at one moment."""
        pipeline = self.client.pipeline(transaction=True)
        pipeline.xinfo_stream(self.stream.key)
        pipeline.xrange(self.stream.key, f"({_name(self.last)}", "+", count=most)
        about, found = pipeline.execute()
        return about, found

    def _check(self, about: dict[str, Any], kind: type[CheckpointMismatchError] | type[InputError]) -> None:
        """Refuse a stream that has lost entries which were not read, or that is another one."""
        name, removed = self.stream.name, about["entries-added"] - about["length"]  # trimmed from the front, or deleted
        if _id(about["last-generated-id"]) < self.last or about["entries-added"] < self.number:
            raise kind(
                f"{name}: the run has read up to entry {_name(self.last)}, and the stream ends before it; it "
                "is another stream of that name, or was restored from a copy: evaluate it from the beginning"
            )
        if removed > self.number:
            raise kind(
                f"{name}: entries after {_name(self.last)} were removed before they were read; keep more of them "
                "(MAXLEN), and evaluate the stream from the beginning"
            )

    def _asked(self, question: Callable[[], Any]) -> Any:
        """Ask the server until it answers; give up only if it never did."""
        from redis import exceptions

        begin = time.monotonic()
        while True:
            try:
                answer = question()
            except exceptions.AuthenticationError as error:
                raise SettingError(f"{self.stream.name}: {error}") from None
            except (exceptions.ConnectionError, exceptions.TimeoutError) as error:
                why = " ".join(str(error).split())
                if not self.reached and time.monotonic() > begin + FIRST_ANSWER:
                    raise SettingError(
                        f"{self.stream.name}: the server does not answer ({why}); is it running, and is the address "
                        "right?"
                    ) from None
                self.patience.warn("the server does not answer; trying again", why)
                time.sleep(AGAIN)
            except exceptions.ResponseError as error:
                why = "there is no such stream" if "no such key" in str(error) else str(error)
                raise SettingError(f"{self.stream.name}: {why}") from None
            else:
                self.reached = True
                self.patience.over()
                return answer


def _row(fields: dict[bytes, bytes]) -> bytes:
    """Return the rows of an entry as JSON.

    >>> _row({b"state": b"1", b"reward": b"0.5"}), _row({b"row": b'{"state": 1}'})
    (b'{"state": "1", "reward": "0.5"}', b'{"state": 1}')
    """
    if len(fields) == 1:
        (value,) = fields.values()
        if value.lstrip()[:1] == b"{":
            return value
    text = {name.decode(errors="replace"): value.decode(errors="replace") for name, value in fields.items()}
    return json.dumps(text).encode()


def _id(name: Any) -> Id:
    first, _, second = (name.decode() if isinstance(name, bytes) else str(name)).partition("-")
    return int(first), int(second)


def _name(place: Id) -> str:
    return f"{place[0]}-{place[1]}"


def _text(place: Id, number: int) -> str:
    return f"{_name(place)} {number}"


def _place(text: str) -> tuple[Id, int]:
    """Read a place from a file."""
    first, _, rest = text.partition("-")
    second, _, number = rest.partition(" ")
    good = all(part.isdecimal() and len(part) < 21 for part in (first, second, number))
    demand(good, f"{text!r:.60} is no place in a stream of Redis")
    return (int(first), int(second)), int(number)
