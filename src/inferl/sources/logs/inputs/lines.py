"""Logs whose rows are lines, CSV and JSON lines, read in blocks of lines.

Arrow parses a block at once. If it fails, the block is parsed line by line, so that bad rows are named and good rows
are kept. A row is one line: line breaks inside quotes are not supported.
"""

from __future__ import annotations

import csv
import io
import json
import select
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

from inferl.errors import DataError, SettingError
from inferl.sources.logs.inputs.pieces import Broken, Piece

if TYPE_CHECKING:
    import pyarrow

    from inferl.sources.logs.inputs.digests import Digest

__all__ = ["CSVPart", "JSONPart", "LinePiece", "as_object"]

READ = 1 << 20  # bytes at a time
LONGEST = 1 << 26  # bytes of a line; a file with longer ones is not text
TAIL = 1 << 18  # bytes at the end of a file in which its last lines are
NESTED = 1000  # most opening brackets in a line of JSON that is passed to Arrow


class Lines:
    """The lines of a file that are not blank, without their line breaks.

    If lines are at hand, it does not wait for a pipe that has no data at the moment.
    """

    def __init__(self, name: str, file: io.BufferedIOBase) -> None:
        self.name, self.file = name, file
        self.held: list[bytes] = []
        self.taken = 0  # of those held
        self.rest = b""  # the beginning of a line whose end has not been read
        self.over = False

    def take(self, size: int) -> list[bytes]:
        """Return at most `size` lines; none if there are no more."""
        while len(self.held) - self.taken < size and not self.over:
            if len(self.held) > self.taken and self._would_wait():
                break
            self._read()
        block = self.held[self.taken : self.taken + size]
        self.taken += len(block)
        return block

    def peek(self) -> int:
        """Return how many lines the first megabytes have, and leave them to be taken."""
        if not self.over:
            self._read()
        return len(self.held) - self.taken

    def _read(self) -> None:
        data = self.file.read1(READ)
        self.over = not data
        *lines, self.rest = (self.rest + data + (b"\n" if self.over else b"")).split(b"\n")
        if len(self.rest) > LONGEST:
            raise DataError(f"{self.name} has a line of more than {LONGEST >> 20} MiB; it is not text")
        self.held[: self.taken], self.taken = [], 0
        self.held += filter(bytes.strip, lines)

    def _would_wait(self) -> bool:
        """Return whether reading would wait for more bytes."""
        if hasattr(self.file, "would_wait"):
            return bool(self.file.would_wait())
        if self.file.seekable():
            return False
        try:
            return not select.select([self.file], [], [], 0)[0]
        except (OSError, ValueError):  # not a pipe of the operating system
            return False


@dataclass(frozen=True, eq=False)
class LinePiece:
    """Some lines, parsed on demand."""

    part: _LinePart
    columns: list[str]
    lines: list[bytes]

    def __len__(self) -> int:
        return len(self.lines)

    def __getitem__(self, part: slice) -> LinePiece:
        return replace(self, lines=self.lines[part])

    def add_to(self, digest: Digest) -> None:
        """Add the lines, unparsed."""
        digest.add_lines(self.lines)

    def parsed(self) -> tuple[pyarrow.Table, Broken]:
        """Parse the lines in the format of the file."""
        table, broken = self.part.parsed(self.lines, self.columns)
        return _with_gaps(table, len(self.lines), broken), broken


class _LinePart:
    """A file of lines."""

    columns: list[str]
    form = "lines"
    groups: tuple[int, ...] = ()

    def __init__(
        self,
        name: str,
        format: str,
        file: io.BufferedIOBase,
        read_bytes: Callable[[], int] | None = None,
        random: Any = None,
    ) -> None:
        self.name, self.format = name, format
        self.read_bytes, self.random = read_bytes, random  # for a plan: see `read_part`
        self.kinds: dict[str, str] = {}  # all is text, or differs from line to line
        self.lines = Lines(name, file)

    def pieces(self, columns: list[str], batch: int, first: int = 0) -> Iterator[Piece]:
        """Cut the lines into blocks."""
        while block := self.lines.take(batch):
            yield LinePiece(self, columns, block)

    def count(self, size: int | None) -> tuple[int | None, bool]:
        """Estimate the number of lines from those of the first megabytes."""
        lines = self.lines.peek()
        if self.lines.over:
            return lines, True
        if size is None or self.read_bytes is None:
            return None, False
        return round(lines * size / self.read_bytes()), False

    def tail(self, columns: list[str], rows: int) -> Piece | None:
        """Return the last lines, unless the text is compressed."""
        if self.random is None:
            return None
        with open(self.random, "rb") if isinstance(self.random, str) else nullcontext(self.random) as file:
            here = file.tell()
            begin = max(file.seek(0, io.SEEK_END) - TAIL, 0)
            file.seek(begin)
            # The first is not whole, or is the header; JSON lines of a short file have no header.
            lines = file.read().split(b"\n")[1 if begin or self.form != "lines" else 0 :]
            file.seek(here)
        return LinePiece(self, columns, list(filter(bytes.strip, lines))[-rows:])

    def parsed(self, block: list[bytes], columns: list[str]) -> tuple[pyarrow.Table, Broken]:
        """Return the good rows of a block, and the bad ones by their index."""
        raise NotImplementedError

    def _one_by_one(
        self, block: list[bytes], columns: list[str], row: Callable[[bytes], dict[str, Any]]
    ) -> tuple[pyarrow.Table, Broken]:
        import pyarrow as pa

        values: dict[str, list[Any]] = {column: [] for column in columns}
        broken = {}
        for place, line in enumerate(block):
            try:
                fields = row(line)
            except (ValueError, csv.Error, RecursionError) as error:
                broken[place] = (line[:200].decode(errors="replace").strip(), f"is not a row ({error})")
            else:
                for column in columns:
                    values[column].append(fields.get(column))
        return pa.table({column: _array(values[column]) for column in columns}), broken


class CSVPart(_LinePart):
    """Values separated by commas, tabs or semicolons; the first line has the names. Values stay text until decoded."""

    def __init__(self, name: str, format: str, file: io.BufferedIOBase, *plan: Any) -> None:
        super().__init__(name, format, file, *plan)
        header = next(iter(self.lines.take(1)), b"")
        try:
            names = header.decode("utf-8-sig").strip()
            self.delimiter = max(",\t;", key=names.count)
            self.columns = next(csv.reader([names], delimiter=self.delimiter, strict=True), [])
            self.form = f"lines below {names}"
        except UnicodeDecodeError:
            raise SettingError(f"{name} is neither Parquet nor Arrow, and no text in UTF-8") from None
        except csv.Error as error:
            raise SettingError(f"{name}: its first line is no row of names ({error}); is it CSV?") from None

    def parsed(self, block: list[bytes], columns: list[str]) -> tuple[pyarrow.Table, Broken]:
        """Parse the lines with Arrow."""
        import pyarrow as pa
        from pyarrow import csv as arrow_csv

        broken: Broken = {}

        def skip(row: Any) -> str:
            why = f"is not a row: it has {row.actual_columns} fields, the header {row.expected_columns}"
            broken[row.number - 1] = (row.text, why)
            return "skip"

        data = b"\n".join([*block, b""])
        if b'"' in data and any(line.count(b'"') % 2 for line in block):  # an open quote would swallow lines
            return self._one_by_one(block, columns, self._fields)
        try:
            table = arrow_csv.read_csv(
                pa.BufferReader(data),
                # One block and one thread: otherwise Arrow does not number the rows.
                arrow_csv.ReadOptions(column_names=self.columns, use_threads=False, block_size=len(data) + 1),
                arrow_csv.ParseOptions(delimiter=self.delimiter, invalid_row_handler=skip),
                arrow_csv.ConvertOptions(
                    column_types=dict.fromkeys(columns, pa.string()), include_columns=columns, strings_can_be_null=True
                ),
            )
        except pa.ArrowException:
            table = None
        if table is None or len(table) + len(broken) != len(block):
            return self._one_by_one(block, columns, self._fields)
        return table, broken

    def _fields(self, line: bytes) -> dict[str, Any]:
        (values,) = csv.reader([line.decode().strip("\r\n")], delimiter=self.delimiter, strict=True)
        if len(values) != len(self.columns):
            raise ValueError(f"it has {len(values)} fields, the header {len(self.columns)}")
        missing = _missing()
        return dict(zip(self.columns, (None if value in missing else value for value in values), strict=True))


@cache
def _missing() -> frozenset[str]:
    """Return how a missing value is written in CSV, by the convention of Arrow: NA, null, nothing and so on."""
    from pyarrow import csv as arrow_csv

    return frozenset(arrow_csv.ConvertOptions().null_values)


class JSONPart(_LinePart):
    """JSON lines: one object in each line; the keys of the first are the columns."""

    def __init__(self, name: str, format: str, file: io.BufferedIOBase, *plan: Any) -> None:
        super().__init__(name, format, file, *plan)
        self.texts: set[str] = set()  # columns that Arrow would parse as times; as labels they are text
        first = next(iter(self.lines.take(1)), b"")
        self.lines.taken -= 1  # it is a row
        try:
            self.columns = list(as_object(first))
        except (ValueError, RecursionError) as error:
            raise SettingError(f"{name}: the first line is no JSON object ({error})") from None

    def parsed(self, block: list[bytes], columns: list[str]) -> tuple[pyarrow.Table, Broken]:
        """Parse the lines with Arrow."""
        import pyarrow as pa
        from pyarrow import json as arrow_json

        table = None
        if all(map(_harmless, block)):
            data = b"\n".join([*block, b""])
            options = arrow_json.ReadOptions(use_threads=False, block_size=len(data) + 1)
            parsing = arrow_json.ParseOptions(explicit_schema=pa.schema(dict.fromkeys(self.texts, pa.string())))
            try:
                table = arrow_json.read_json(pa.BufferReader(data), options, parsing)
                table.validate(full=True)  # Arrow does not check that text is UTF-8
            except (pa.ArrowException, UnicodeDecodeError):  # the latter of names
                table = None
        if table is None or len(table) != len(block):
            return self._one_by_one(block, columns, as_object)
        missing = pa.nulls(len(table))
        place = {name: i for i, name in enumerate(table.column_names)}  # there may be thousands
        types = table.schema.types
        times = {name for name in columns if name in place and pa.types.is_temporal(types[place[name]])}
        if times:
            self.texts |= times
            return self.parsed(block, columns)
        return pa.table({name: table.column(place[name]) if name in place else missing for name in columns}), {}


def _harmless(line: bytes) -> bool:
    """Return whether a line may be passed to Arrow, which crashes on a bare null and on deep nesting."""
    return line.lstrip()[:1] == b"{" and line.count(b"[") + line.count(b"{") <= NESTED


def as_object(line: bytes) -> dict[str, Any]:
    """Read a line of JSON; raise `ValueError` or `RecursionError` if it is no object."""
    value = json.loads(line.decode("utf-8-sig"))
    if not isinstance(value, dict):
        raise ValueError("a line holds an object, {...}")
    if b"\\u" in line:
        json.dumps(value, ensure_ascii=False).encode()  # half a pair of surrogates is no text
    return value


def _array(values: list[Any]) -> pyarrow.Array:
    """Make a column of values; if they are not of one type, all become text."""
    import pyarrow as pa

    try:
        return pa.array(values)
    except (pa.ArrowException, OverflowError, ValueError):
        return pa.array([value if value is None or isinstance(value, str) else json.dumps(value) for value in values])


def _with_gaps(table: pyarrow.Table, size: int, broken: Broken) -> pyarrow.Table:
    """Put a row of nulls where a row could not be parsed."""
    import pyarrow as pa

    if not broken:
        return table
    places: list[int | None] = [None] * size
    good = 0
    for place in range(size):
        if place not in broken:
            places[place] = good
            good += 1
    return table.take(pa.array(places, pa.int64()))
