"""Logs whose rows are lines, CSV and JSON lines, in blocks of lines.

Arrow parses a block at once. Where it stumbles, the block is gone through line by line, so that the bad rows are named
and the good ones kept. A row is one line: line breaks inside quotes are not taken.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, NamedTuple

from inferl.errors import SettingError

if TYPE_CHECKING:
    import pyarrow

__all__ = ["CSVLog", "JSONLog", "Piece"]


class Piece(NamedTuple):
    """Some rows of a log; a row that could not be parsed is all null."""

    batch: pyarrow.RecordBatch | pyarrow.Table
    broken: dict[int, tuple[str, str]] = {}  # place in the batch -> what was there, why it is no row  # noqa: RUF012
    mark: tuple[int, int] | None = None  # (rows before it, byte offset) of a place to read on from


class _LineLog:
    """A log of lines; those in `held` have been looked at already, and come first."""

    columns: list[str]
    held: tuple[bytes, ...] = ()

    def __init__(self, name: str, file: io.BufferedIOBase) -> None:
        self.name = name
        self.file = file

    def pieces(self, columns: list[str], batch: int, rows: int, mark: tuple[int, int] | None) -> Iterator[Piece]:
        """Parse blocks of `batch` lines, after the first `rows`; `mark` helps to find them."""
        lines = filter(bytes.strip, chain(self.held, iter(self.file.readline, b"")))
        read = 0
        if mark is not None and self.file.seekable():
            read = mark[0]
            self.file.seek(mark[1])
            lines = filter(bytes.strip, iter(self.file.readline, b""))
        if sum(1 for _ in islice(lines, rows - read)) < rows - read:
            raise SettingError(f"{self.name} has fewer than the {rows} rows that were read before; it is another log")
        place = mark if rows == read else self._place(rows)
        while block := list(islice(lines, batch)):
            table, broken = self._parsed(block, columns)
            yield Piece(_with_gaps(table, len(block), broken), broken, place)
            rows += len(block)
            place = self._place(rows)

    def _place(self, rows: int) -> tuple[int, int] | None:
        return (rows, self.file.tell()) if self.file.seekable() else None

    def _parsed(self, block: list[bytes], columns: list[str]) -> tuple[pyarrow.Table, dict[int, tuple[str, str]]]:
        """Return the good rows of a block, and the bad ones by their place."""
        raise NotImplementedError

    def _one_by_one(
        self, block: list[bytes], columns: list[str], row: Callable[[bytes], dict[str, Any]]
    ) -> tuple[pyarrow.Table, dict[int, tuple[str, str]]]:
        import pyarrow as pa

        values: dict[str, list[Any]] = {column: [] for column in columns}
        broken = {}
        for place, line in enumerate(block):
            try:
                fields = row(line)
            except (ValueError, csv.Error) as error:
                broken[place] = (line.decode(errors="replace").strip(), f"is not a row ({error})")
            else:
                for column in columns:
                    values[column].append(fields.get(column))
        return pa.table({column: _array(values[column]) for column in columns}), broken


class CSVLog(_LineLog):
    """Comma-separated values (or tabs, or semicolons), the first line with the names; values are text until decoded."""

    def __init__(self, name: str, file: io.BufferedIOBase) -> None:
        super().__init__(name, file)
        try:
            header = file.readline().decode("utf-8-sig").strip()
        except UnicodeDecodeError:
            raise SettingError(f"{name} is neither Parquet nor Arrow, and no text in UTF-8") from None
        self.delimiter = max(",\t;", key=header.count)
        self.columns = next(csv.reader([header], delimiter=self.delimiter)) if header else []
        twice = {column for column in self.columns if self.columns.count(column) > 1}
        if twice:
            raise SettingError(f"{name} has more than one column {twice.pop()!r}; rename one")

    def _parsed(self, block: list[bytes], columns: list[str]) -> tuple[pyarrow.Table, dict[int, tuple[str, str]]]:
        import pyarrow as pa
        from pyarrow import csv as arrow_csv

        broken: dict[int, tuple[str, str]] = {}

        def skip(row: Any) -> str:
            why = f"is not a row: it has {row.actual_columns} fields, the header {row.expected_columns}"
            broken[row.number - 1] = (row.text, why)
            return "skip"

        data = b"".join(block)
        try:
            table = arrow_csv.read_csv(
                pa.BufferReader(data),
                # One block and one thread: else rows have no numbers.
                arrow_csv.ReadOptions(column_names=self.columns, use_threads=False, block_size=len(data) + 1),
                arrow_csv.ParseOptions(delimiter=self.delimiter, invalid_row_handler=skip),
                arrow_csv.ConvertOptions(
                    column_types=dict.fromkeys(columns, pa.string()), include_columns=columns, strings_can_be_null=True
                ),
            )
        except pa.ArrowInvalid:
            table = None
        if table is None or len(table) + len(broken) != len(block):  # a quote that is never closed swallows lines
            return self._one_by_one(block, columns, self._fields)
        return table, broken

    def _fields(self, line: bytes) -> dict[str, Any]:
        (values,) = csv.reader([line.decode().strip("\r\n")], delimiter=self.delimiter, strict=True)
        if len(values) != len(self.columns):
            raise ValueError(f"it has {len(values)} fields, the header {len(self.columns)}")
        return dict(zip(self.columns, (value or None for value in values), strict=True))


class JSONLog(_LineLog):
    """JSON lines: an object a line; the first line says which columns there are."""

    def __init__(self, name: str, file: io.BufferedIOBase) -> None:
        super().__init__(name, file)
        first = next(filter(bytes.strip, iter(file.readline, b"")), b"")
        try:
            self.columns = list(_object(first))
        except ValueError as error:
            raise SettingError(f"{name}: the first line is no JSON object ({error})") from None
        self.held = (first,)

    def _parsed(self, block: list[bytes], columns: list[str]) -> tuple[pyarrow.Table, dict[int, tuple[str, str]]]:
        import pyarrow as pa
        from pyarrow import json as arrow_json

        data = b"".join(block)
        try:
            options = arrow_json.ReadOptions(use_threads=False, block_size=len(data) + 1)
            table = arrow_json.read_json(pa.BufferReader(data), options)
        except pa.ArrowInvalid:
            table = None
        if table is None or len(table) != len(block):
            return self._one_by_one(block, columns, _object)
        missing = pa.nulls(len(table))
        names = table.column_names
        return pa.table({column: table[column] if column in names else missing for column in columns}), {}


def _object(line: bytes) -> dict[str, Any]:
    value = json.loads(line)
    if not isinstance(value, dict):
        raise ValueError("a line holds an object, {...}")
    return value


def _array(values: list[Any]) -> pyarrow.Array:
    """Make a column of values that need not be of one type: then all become text, and are read as such."""
    import pyarrow as pa

    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return pa.array([value if value is None or isinstance(value, str) else json.dumps(value) for value in values])


def _with_gaps(table: pyarrow.Table, size: int, broken: dict[int, tuple[str, str]]) -> pyarrow.Table:
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
