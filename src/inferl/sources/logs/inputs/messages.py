"""Messages: a log whose rows arrive as messages, such as those of a Kafka topic, in an order of their own.

A message holds rows as JSON objects, one a line. What was read is not read again when a run is resumed: the position
names, for each part of the stream (a partition), the message that comes next.
"""

from __future__ import annotations

import io
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from inferl.data.invariants import COUNT, demand
from inferl.errors import DataError, SettingError
from inferl.sources.logs.columns import Columns
from inferl.sources.logs.inputs.lines import JSONPart, LinePiece
from inferl.sources.logs.inputs.pieces import Broken, Piece

if TYPE_CHECKING:
    import pyarrow

    from inferl.sources.logs.inputs.digests import Digest

__all__ = [
    *("PARTITION", "Message", "MessageLog", "MessageStream", "Messages", "OpenStream", "Patience", "Place", "Stream"),
    "by_partition",
]

PARTITION = "_partition"  # the column that says in which part of the stream a row was
FIRST = 1000  # rows among which one must be a JSON object
TOLD = 30.0  # seconds between two warnings about the same trouble


@dataclass(frozen=True, eq=False)
class Place:
    """How far a stream has been read, as part of a position."""

    columns: tuple[str, ...]  # of the rows, as the first has them
    at: dict[str, str]  # for each part, where the next message is, in the words of the stream
    lines: dict[str, int]  # rows of that message that have been read
    ends: dict[str, str]  # where reading ends; empty: nowhere

    def verify(self) -> None:
        """Check a place that comes from a file."""
        demand(bool(self.at) and self.lines.keys() == self.at.keys(), "a place in a stream does not name its parts")
        demand(self.ends.keys() in (set(), self.at.keys()), "a place in a stream has ends of other parts")
        demand(all(0 <= line <= COUNT[1] for line in self.lines.values()), "a place in a stream is before its message")


class Message(NamedTuple):
    """A message, and where in its part it is; `before` and `after` are places in the words of the stream, by `str`."""

    part: str
    before: Any
    after: Any
    value: bytes


class Messages(Protocol):
    """The messages of a stream, from a place on."""

    start: dict[str, str]  # for each part, where the first message is
    ends: dict[str, str]  # where reading ends; empty: nowhere

    def take(self, most: int) -> list[Message]:
        """Return the next messages, one at least, and wait for it; none if the end has been reached."""
        ...

    def about(self, message: Message) -> str:
        """Name a message."""
        ...


@runtime_checkable
class Stream(Protocol):
    """Messages in one part or several, such as the partitions of a topic, that a server or a journal keeps."""

    @property
    def name(self) -> str:
        """As a URI."""
        ...

    @property
    def follow(self) -> bool:
        """Whether to wait for more messages, and never end."""
        ...

    def open(self, place: Place | None, rows: int) -> OpenStream:
        """Return it as an open log, from a place on; `rows` have been read before."""
        ...


class OpenStream(Protocol):
    """A stream as an open log, for a ``with`` statement."""

    name: str
    columns: list[str]

    def __enter__(self) -> OpenStream: ...

    def __exit__(self, *exception: object) -> None: ...

    def pieces(
        self, names: list[str], batch: int, check: Callable[[str, list[str]], None] | None = None
    ) -> Iterator[Piece]:
        """Yield rows as they arrive, at most `batch` at a time."""
        ...

    def place(self, piece: Any) -> Place:
        """Return the place after a piece; pieces come in order."""
        ...

    def where(self, row: int) -> tuple[str, int]:
        """Return the message in which a row is, if it was handed out last, and the row."""
        ...


class MessageStream(Protocol):
    """A stream whose messages are rows of JSON."""

    @property
    def name(self) -> str:
        """As a URI."""
        ...

    @property
    def follow(self) -> bool:
        """Whether to wait for more messages, and never end."""
        ...

    def connect(self, place: Place | None) -> AbstractContextManager[Messages]:
        """Begin to read, at a place or where the server's messages begin."""
        ...


class _Row(NamedTuple):
    """Where a row is: in which message, and which of its lines it is."""

    message: Message
    line: int
    last: bool


@dataclass(frozen=True, eq=False)
class _MessagePiece:
    """Some rows of messages."""

    lines: LinePiece
    rows: list[_Row]
    by_part: bool  # whether the column of the part is wanted

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, part: slice) -> _MessagePiece:
        return replace(self, lines=self.lines[part], rows=self.rows[part])

    def add_to(self, digest: Digest) -> None:
        """Add nothing: the server keeps messages as they are, and those that were read are not read again."""

    def parsed(self) -> tuple[pyarrow.Table, Broken]:
        """Parse the lines."""
        import pyarrow as pa

        table, broken = self.lines.parsed()
        if self.by_part:
            table = table.append_column(PARTITION, pa.array([row.message.part for row in self.rows], pa.string()))
        return table, broken


def by_partition(columns: Columns, sessions: bool) -> Columns:
    """Take each part of a stream for a sequence by itself, unless labels and ends of episodes tell rows apart."""
    ends = columns.terminated is not None or columns.truncated is not None or sessions
    if columns.stream is not None or (columns.episode is not None and ends):
        return columns
    return replace(columns, stream=PARTITION)


class MessageLog:
    """A stream as an open log, from a place on; `rows` have been read before. Use it in a ``with`` statement."""

    def __init__(self, stream: MessageStream, place: Place | None, rows: int) -> None:
        self.name, self.columns = stream.name, list[str]()
        self._stream, self._place, self._rows = stream, place, rows
        self._open = ExitStack()
        self._held: list[tuple[bytes, _Row]] = []  # rows that were received, and not handed out
        self._latest = list[_Row]()  # the piece that was handed out last

    def __enter__(self) -> MessageLog:
        try:
            self._messages = self._open.enter_context(self._stream.connect(self._place))
            start, ends = self._messages.start, self._messages.ends
            if self._place is None:
                self._text = self._first()
                at, lines = start, dict.fromkeys(start, 0)
                self._place = Place(tuple(self._text.columns), at, lines, ends)
            else:
                self._text = JSONPart(self.name, "JSON", io.BytesIO(b"{}"))
                self._place = replace(self._place, ends=ends)
        except BaseException:
            self._open.close()
            raise
        self.columns = [*self._place.columns, *([] if PARTITION in self._place.columns else [PARTITION])]
        return self

    def __exit__(self, *exception: object) -> None:
        self._open.close()

    def pieces(
        self, names: list[str], batch: int, check: Callable[[str, list[str]], None] | None = None
    ) -> Iterator[Piece]:
        """Yield rows as they arrive, at most `batch` at a time."""
        own = [name for name in names if name != PARTITION]
        while self._receive(batch):
            block, self._held = self._held[:batch], self._held[batch:]
            self._latest = [row for _, row in block]
            lines = LinePiece(self._text, own, [line for line, _ in block])
            yield _MessagePiece(lines, self._latest, len(own) < len(names))
            self._rows += len(block)

    def place(self, piece: Any) -> Place:
        """Return the place after a piece; pieces come in order."""
        assert self._place is not None
        at, lines = dict(self._place.at), dict(self._place.lines)
        for part, row in {row.message.part: row for row in piece.rows}.items():
            at[part] = str(row.message.after if row.last else row.message.before)
            lines[part] = 0 if row.last else row.line + 1
        self._place = replace(self._place, at=at, lines=lines)
        return self._place

    def where(self, row: int) -> tuple[str, int]:
        """Return the message in which a row is, if it was handed out last, and the row."""
        place = row - 1 - self._rows
        if not 0 <= place < len(self._latest):
            return self.name, row
        return f"{self.name}, {self._messages.about(self._latest[place].message)}", row

    def _receive(self, most: int) -> bool:
        """Hold the next rows, `most` of them, or those at hand if the stream is followed; return if there are any."""
        done = {} if self._place is None else self._place.lines  # rows that were read before a run was resumed
        at = {} if self._place is None else self._place.at
        while len(self._held) < most and not (self._held and self._stream.follow):
            messages = self._messages.take(most - len(self._held))
            if not messages:
                break
            for message in messages:
                lines = list(filter(bytes.strip, message.value.split(b"\n")))
                again = done.get(message.part, 0) if str(message.before) == at.get(message.part) else 0
                for number in range(again, len(lines)):
                    self._held.append((lines[number], _Row(message, number, number == len(lines) - 1)))
        return bool(self._held)

    def _first(self) -> JSONPart:
        """Return the reader of JSON whose columns are those of the first row that is an object."""
        held, error = list[tuple[bytes, _Row]](), ""
        while len(held) < FIRST and self._receive(1):
            for line, _ in self._held:
                try:
                    text = JSONPart(self.name, "JSON", io.BytesIO(line))
                except SettingError as problem:
                    error = error or str(problem).partition("the first line ")[2]
                else:
                    self._held = held + self._held
                    return text
            held, self._held = held + self._held, []
        if not held:
            raise SettingError(f"{self.name} is empty")
        about = self._messages.about(held[0][1].message)
        raise DataError(f"{self.name}, {about} {error}, nor is any other of the first {len(held)} rows; write JSON")


@dataclass(eq=False)
class Patience:
    """Warnings about a server that does not answer, each trouble at once and then now and again."""

    name: str
    told: dict[str, float] = field(default_factory=dict)

    def warn(self, trouble: str, why: str = "") -> None:
        """Warn, unless this was said a short time ago."""
        now = time.monotonic()
        if now >= self.told.get(trouble, 0.0) + TOLD or trouble not in self.told:
            self.told[trouble] = now
            logging.getLogger("inferl").warning("%s: %s%s", self.name, trouble, f" ({why})" if why else "")

    def over(self) -> None:
        """Say that messages arrive again, if there was trouble."""
        if self.told:
            self.told.clear()
            logging.getLogger("inferl").warning("%s: messages arrive again", self.name)
