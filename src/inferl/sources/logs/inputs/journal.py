"""Journals: what the service has received, as a log that is read like any other stream.

A journal is a folder of segments, files whose names are the number of bytes before them. A segment is a sequence of
records. A record is a header, the name of a client and a payload; its checksum tells whether it was written to its end.
The payload is a batch of rows as an Arrow stream, or, in the first record of a segment, what the clients have sent
before (see `inferl.service.journal`, which writes).
"""

from __future__ import annotations

import io
import os
import re
import struct
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

from inferl.data.invariants import demand
from inferl.errors import CheckpointMismatchError, DataError, MissingExtraError, SettingError
from inferl.sources.logs.inputs.messages import PARTITION, Place
from inferl.sources.logs.inputs.pieces import Broken, Piece

if TYPE_CHECKING:
    import pyarrow

    from inferl.sources.logs.inputs.digests import Digest

__all__ = [
    "CLIENTS",
    "ROWS",
    "JournalStream",
    "Record",
    "Segment",
    "Tail",
    "ends_of",
    "folder_of",
    "packed",
    "segments",
]

HEADER = struct.Struct(
    "<IIQIHH"
)  # length of what follows the header, checksum, sequence, rows, length of the name, kind
CHECKED = 8  # the checksum is of the bytes after length and checksum
CLIENTS, ROWS = 0, 1  # kinds of records
LONGEST = 1 << 30  # bytes of a record
READ = 1 << 20  # bytes at a time
POLL = 0.1  # seconds between two looks at the end
PART = "journal"  # a journal has one part


class Record(NamedTuple):
    """A record, with the bytes of the journal before it and up to its end."""

    before: int
    after: int
    kind: int
    client: str
    sequence: int
    rows: int
    payload: bytes


class Segment(NamedTuple):
    """A file of a journal, and the bytes of the journal before it."""

    begin: int
    path: Path


class Tail(Protocol):
    """The end of a journal, as the process that writes knows it."""

    @property
    def durable(self) -> int:
        """Bytes of the journal that a crash cannot take away."""
        ...

    def wait(self, beyond: int) -> None:
        """Wait until there are more; an exception ends the reading."""
        ...


def packed(kind: int, client: str, sequence: int, rows: int, payload: bytes) -> bytes:
    """Return the bytes of a record."""
    name = client.encode()
    body = HEADER.pack(0, 0, sequence, rows, len(name), kind)[CHECKED:] + name + payload
    return struct.pack("<II", len(body) - HEADER.size + CHECKED, zlib.crc32(body)) + body


def _unpacked(data: memoryview, at: int, before: int) -> Record | None:
    """Return the record at a place in the bytes; None if it is not whole or was damaged."""
    if len(data) - at < HEADER.size:
        return None
    length, checksum, sequence, rows, named, kind = HEADER.unpack_from(data, at)
    stop = at + HEADER.size + length
    if stop > len(data) or named > length or zlib.crc32(data[at + CHECKED : stop]) != checksum:
        return None
    name = at + HEADER.size
    client, payload = bytes(data[name : name + named]).decode(), bytes(data[name + named : stop])
    return Record(before, before + stop - at, kind, client, sequence, rows, payload)


def segments(folder: Path) -> list[Segment]:
    """Return the segments of a journal, in order."""
    found = [(re.fullmatch(r"(\d{20})\.segment", path.name), path) for path in folder.glob("*.segment")]
    return sorted(Segment(int(name[1]), path) for name, path in found if name is not None)


def ends_of(segment: Segment) -> Iterator[Record]:
    """Yield the records of a segment, up to the first that is not whole."""
    with open(segment.path, "rb") as file:
        reader = _Reader(file, segment.begin)
        while (record := reader.next()) is not None:
            yield record


class _Reader:
    """The records of one segment, from a place on."""

    def __init__(self, file: io.BufferedReader, begin: int, at: int | None = None) -> None:
        self.file, self.at = file, begin if at is None else at  # of the next record
        self.data, self.used = b"", 0
        file.seek(self.at - begin)

    def next(self) -> Record | None:
        """Return the next record; None if it is not there, or not yet whole."""
        while True:
            record = _unpacked(memoryview(self.data), self.used, self.at)
            if record is not None:
                self.used += record.after - self.at
                self.at = record.after
                return record
            missing = self._missing()
            got = self.file.read(max(READ, missing)) if missing else b""
            if not got:
                return None
            self.data, self.used = self.data[self.used :] + got, 0

    def _missing(self) -> int:
        """Return how many bytes are missing for the next record; 0 if they are there, and damaged."""
        have = len(self.data) - self.used
        if have < HEADER.size:
            return HEADER.size - have
        length = HEADER.unpack_from(self.data, self.used)[0]
        return max(HEADER.size + length - have, 0) if length <= LONGEST else 0

    def again(self) -> None:
        """Forget what was read and not used: the file may have grown."""
        self.file.seek(self.file.tell() - len(self.data) + self.used)
        self.data, self.used = b"", 0


@dataclass(frozen=True)
class JournalStream:
    """A journal, as it is, or as it grows."""

    folder: str
    follow: bool = False
    tail: Tail | None = field(default=None, compare=False, repr=False)  # None: another process may write
    shown: str = ""  # instead of the folder, to those who see the answers of a server
    unattended: ClassVar[bool] = True  # the service leaves bad rows out, and a check says so

    @property
    def name(self) -> str:
        """As a URI."""
        return f"journal://{self.shown or self.folder}"

    def open(self, place: Place | None, rows: int) -> JournalLog:
        """Return it as an open log."""
        return JournalLog(self, place, rows)


class _Batch(NamedTuple):
    """Rows of a record: from the first, so many."""

    record: Record
    table: Any
    first: int
    rows: int


@dataclass(frozen=True, eq=False)
class _BatchPiece:
    """Rows of records that have the same columns."""

    batches: list[_Batch]
    names: list[str]

    def __len__(self) -> int:
        return sum(batch.rows for batch in self.batches)

    def __getitem__(self, part: slice) -> _BatchPiece:
        start, stop, _ = part.indices(len(self))
        kept, at = [], 0
        for batch in self.batches:
            low, high = max(start - at, 0), min(stop - at, batch.rows)
            if low < high:
                kept.append(batch._replace(first=batch.first + low, rows=high - low))
            at += batch.rows
        return replace(self, batches=kept)

    def add_to(self, digest: Digest) -> None:
        """Add nothing: records have checksums, and those that were read are not read again."""

    def parsed(self) -> tuple[pyarrow.Table, Broken]:
        """Return the rows as columns."""
        import numpy as np
        import pyarrow as pa

        tables = [batch.table.slice(batch.first, batch.rows).select(self.names) for batch in self.batches]
        table = pa.concat_tables(tables).combine_chunks()
        table.validate(full=True)
        clients = list(dict.fromkeys(batch.record.client for batch in self.batches))
        number = np.repeat(
            [clients.index(batch.record.client) for batch in self.batches], [batch.rows for batch in self.batches]
        )
        who = pa.DictionaryArray.from_arrays(pa.array(number, pa.int32()), pa.array(clients, pa.string()))
        return table.append_column(PARTITION, who), {}


class JournalLog:
    """A journal as an open log, from a place on; `rows` have been read before. Use it in a ``with`` statement."""

    def __init__(self, stream: JournalStream, place: Place | None, rows: int) -> None:
        self.name, self.columns = stream.name, list[str]()
        self._stream, self._place, self._rows = stream, place, rows
        self._folder = Path(stream.folder)
        self._file: io.BufferedReader | None = None
        self._held: list[_Batch] = []  # received, and not handed out
        self._latest: list[_Batch] = []  # of the piece that was handed out last

    def __enter__(self) -> JournalLog:
        if not self._folder.is_dir():
            raise SettingError(f"{self.name}: there is no such folder; name the journal of an experiment")
        try:
            at, self._passed = self._begin(), 0
            self._open(at)
            self._end = None if self._stream.follow else self._last()
            if self._place is None:
                if not self._receive(1):
                    raise SettingError(f"{self.name} is empty")
                columns, at = self._held[0].table.column_names, self._held[0].record.before
                ends = {} if self._end is None else {PART: str(self._end)}
                self._place = Place(tuple(columns), {PART: str(at)}, {PART: 0}, ends)
            else:
                self._passed = self._place.lines[PART]
                if self._end is not None and self._place.ends:
                    self._end = min(self._end, _offset(self._place.ends[PART]))
                ends = {} if self._end is None else {PART: str(self._end)}
                self._place = replace(self._place, ends=ends)
        except BaseException:
            self.__exit__()
            raise
        self.columns = [*self._place.columns, PARTITION]
        return self

    def __exit__(self, *exception: object) -> None:
        if self._file is not None:
            self._file.close()

    def pieces(
        self, names: list[str], batch: int, check: Callable[[str, list[str]], None] | None = None
    ) -> Iterator[Piece]:
        """Yield rows as they arrive, at most `batch` at a time, and all of the same types."""
        own = [name for name in names if name != PARTITION]
        while self._receive(batch):
            first = self._held[0].table.select(own).schema
            alike, rows = 0, 0
            for held in self._held:
                if rows >= batch or held.table.select(own).schema != first:
                    break
                alike, rows = alike + 1, rows + held.rows
            piece = _BatchPiece(self._held[:alike], own)
            rest = self._held[alike:]
            if rows > batch:
                piece, rest = piece[:batch], [*piece[batch:].batches, *rest]
            self._held, self._latest = rest, piece.batches
            yield piece
            self._rows += len(piece)

    def place(self, piece: Any) -> Place:
        """Return the place after a piece; pieces come in order."""
        assert self._place is not None
        if piece.batches:
            record, _, first, rows = piece.batches[-1]
            whole = first + rows == record.rows
            at, line = (record.after, 0) if whole else (record.before, first + rows)
            self._place = replace(self._place, at={PART: str(at)}, lines={PART: line})
        return self._place

    def where(self, row: int) -> tuple[str, int]:
        """Return the batch in which a row is, if it was handed out last, and the row."""
        place = row - 1 - self._rows
        for batch in self._latest:
            if 0 <= place < batch.rows:
                return f"batch {batch.record.sequence} of {batch.record.client!r}", row  # wherever the journal is
            place -= batch.rows
        return self.name, row

    def _begin(self) -> int:
        """Return where to begin; refuse a place that is not in the journal any more, or not yet."""
        found = segments(self._folder)
        if self._place is None:
            if found and found[0].begin > 0:
                raise DataError(
                    f"{self.name}: its first {found[0].begin:,} bytes were deleted after they were evaluated; resume "
                    "the run file of the experiment, or keep all segments (keep-journal)"
                )
            return 0
        demand(list(self._place.at) == [PART], "the place is not one in a journal")
        at = _offset(self._place.at[PART])
        if not found or found[0].begin > at:
            raise CheckpointMismatchError(
                f"{self.name}: the run has read up to byte {at:,}, and what comes next was deleted; evaluate the "
                "journal from the beginning, if it was kept"
            )
        if at > found[-1].begin + found[-1].path.stat().st_size:
            raise CheckpointMismatchError(
                f"{self.name}: the run has read up to byte {at:,}, and the journal ends before it; it is another "
                "journal, or was restored from a copy: evaluate it from the beginning"
            )
        return at

    def _open(self, at: int) -> None:
        """Open the segment of a place."""
        if self._file is not None:
            self._file.close()
            self._file = None
        before = [segment for segment in segments(self._folder) if segment.begin <= at]
        if before:
            self._file = open(before[-1].path, "rb")  # noqa: SIM115 (closed by __exit__)
            self._reader = _Reader(self._file, before[-1].begin, at)
        self._at = at

    def _last(self) -> int:
        """Return where the last whole record ends."""
        found = segments(self._folder)
        last = found[-1].begin if found else 0
        for record in ends_of(found[-1]) if found else ():
            last = record.after
        return last

    def _receive(self, most: int) -> bool:
        """Hold the next rows, `most` of them, or those at hand if the journal is followed; return if there are any."""
        rows = sum(batch.rows for batch in self._held)
        while rows < most:
            record = self._next(wait=self._stream.follow and not self._held)
            if record is None:
                break
            if record.kind == ROWS:
                batch = _batch(record, self._passed)
                self._passed = 0
                self._held.append(batch)
                rows += batch.rows
        return bool(self._held)

    def _next(self, wait: bool) -> Record | None:
        """Return the next record; None if there is none, or none yet."""
        while True:
            limit = self._end if self._end is not None else self._durable()
            if limit is None or self._at < limit:
                record = self._read()
                if record is not None:
                    self._at = record.after
                    return record
                if limit is not None:
                    raise DataError(f"{self.name} is damaged at byte {self._at:,}; restore it from a copy")
            if not wait:
                return None
            if self._stream.tail is not None:
                self._stream.tail.wait(self._at)
            else:
                time.sleep(POLL)

    def _durable(self) -> int | None:
        return None if self._stream.tail is None else self._stream.tail.durable

    def _read(self) -> Record | None:
        """Read the next record, in this segment or the one after it."""
        for _ in range(2):
            if self._file is None:
                self._open(self._at)
            if self._file is None:
                return None
            record = self._reader.next()
            if record is not None:
                return record
            self._reader.again()
            if any(segment.begin == self._at for segment in segments(self._folder)):
                self._open(self._at)
        return None


def _batch(record: Record, passed: int) -> _Batch:
    """Return the rows of a record, without those that were passed before."""
    try:
        import pyarrow as pa
    except ImportError:
        raise MissingExtraError("pyarrow", "data") from None
    with pa.ipc.open_stream(record.payload) as reader:
        table = reader.read_all()
    demand(len(table) == record.rows and 0 <= passed < record.rows, "the place is not in its batch of the journal")
    return _Batch(record, table, passed, record.rows - passed)


def _offset(text: str) -> int:
    """Read a place from a file."""
    demand(text.isdecimal() and len(text) < 21, f"{text!r:.60} is no place in a journal")
    return int(text)


def folder_of(uri: str) -> str:
    """Return the folder that a URI names, as an absolute path.

    >>> folder_of("journal:///data/robots/journal")
    '/data/robots/journal'
    """
    return os.path.abspath(uri.removeprefix("journal://"))
