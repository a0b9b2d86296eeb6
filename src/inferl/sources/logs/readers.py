"""Readers: a log opened, whatever it is, and read in record batches, so that memory stays flat.

The format of a file is seen from its first bytes, not from its name: Parquet, an Arrow file or stream, JSON lines, else
CSV. Compressed CSV and JSON lines are recognised by their name (.gz, .bz2, .zst).
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from inferl.errors import DataError, MissingExtraError, SettingError
from inferl.sources.logs.lines import CSVLog, JSONLog, Piece

__all__ = ["Log", "import_pyarrow", "open_log"]

STREAM = b"\xff\xff\xff\xff"  # how an Arrow stream begins


class Log(Protocol):
    """A log that is open: its columns, and its rows piece by piece."""

    name: str
    columns: list[str]

    def pieces(self, columns: list[str], batch: int, rows: int, mark: tuple[int, int] | None) -> Iterator[Piece]:
        """Yield the rows after the first `rows`, at most `batch` at a time; `mark` is that of an earlier piece."""
        ...


def import_pyarrow() -> Any:
    """Import pyarrow, or say how to install it."""
    try:
        import pyarrow
    except ImportError:
        raise MissingExtraError("pyarrow", "data") from None
    return pyarrow


def log_name(source: Any) -> str:
    """Name a log in messages."""
    if isinstance(source, str | os.PathLike):
        return "standard input" if source == "-" else str(source)
    return f"the {type(source).__module__.partition('.')[0]} {type(source).__name__}"


@contextmanager
def open_log(source: Any) -> Iterator[Log]:
    """Open a path, ``"-"`` (standard input), or a data frame that speaks Arrow."""
    pa = import_pyarrow()
    name = log_name(source)
    if isinstance(source, str | os.PathLike) and source != "-":
        if not Path(source).exists():
            raise SettingError(f"there is no file {name}")
        if Path(source).is_dir():
            raise SettingError(f"{name} is a folder; name one file, or read its files one after the other")
        with pa.input_stream(str(source), compression="detect") as raw, io.BufferedReader(raw, 1 << 20) as file:
            yield _of_file(name, file, str(source))
    elif isinstance(source, str):
        file = io.BufferedReader(sys.stdin.buffer, 1 << 20)
        try:
            yield _of_file(name, file, None)
        finally:
            file.detach()  # else standard input would be closed with it
    elif hasattr(source, "__arrow_c_stream__"):
        yield _BatchLog(name, pa.RecordBatchReader.from_stream(source))
    else:
        raise SettingError(
            f"{name} is no log: give a path, '-' for standard input, or a data frame (pandas, polars, pyarrow)"
        )


def _of_file(name: str, file: io.BufferedReader, path: str | None) -> Log:
    """Look at the first bytes."""
    pa = import_pyarrow()
    try:
        begin = file.peek(16)[:16]
    except OSError as error:
        raise DataError(f"{name}: {error}; it is damaged or cut off") from None
    if not begin:
        raise SettingError(f"{name} is empty")
    if begin.startswith(b"PAR1"):
        if path is None:
            raise SettingError("Parquet cannot be read from a pipe, its index is at its end; name the file")
        return _ParquetLog(name, path)
    try:
        if begin.startswith(b"ARROW1"):
            if path is None:
                raise SettingError("an Arrow file cannot be read from a pipe; pipe an Arrow stream, or name the file")
            return _BatchLog(name, _batches_of_file(pa.ipc.open_file(pa.OSFile(path))))
        if begin.startswith(STREAM):
            return _BatchLog(name, pa.ipc.open_stream(file))
    except pa.ArrowInvalid as error:
        raise SettingError(f"{name} is a damaged Arrow file ({error})") from None
    return JSONLog(name, file) if begin.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"{" else CSVLog(name, file)


def _batches_of_file(file: Any) -> Any:
    batches = (file.get_batch(i) for i in range(file.num_record_batches))
    return import_pyarrow().RecordBatchReader.from_batches(file.schema, batches)


class _BatchLog:
    """A stream of record batches."""

    def __init__(self, name: str, reader: Any) -> None:
        self.name, self.reader = name, reader
        self.columns = list(reader.schema.names)

    def pieces(self, columns: list[str], batch: int, rows: int, mark: tuple[int, int] | None) -> Iterator[Piece]:
        """Cut the batches, from the first row wanted on."""
        read = 0
        for whole in self.reader:
            for start in range(0, len(whole), batch):
                piece = whole.slice(start, batch)
                read += len(piece)
                if read > rows:
                    yield Piece(piece.select(columns).slice(max(rows - (read - len(piece)), 0)))
        _refuse_shorter(self.name, read, rows)


class _ParquetLog:
    """A Parquet file: row groups that were read before are not touched again."""

    def __init__(self, name: str, path: str) -> None:
        from pyarrow import ArrowInvalid, parquet

        self.name = name
        try:
            # Without pre_buffer: it would hold the whole file.
            self.file = parquet.ParquetFile(path, pre_buffer=False)
        except ArrowInvalid as error:
            raise SettingError(f"{name} is a damaged Parquet file ({error})") from None
        self.columns = list(self.file.schema_arrow.names)

    def pieces(self, columns: list[str], batch: int, rows: int, mark: tuple[int, int] | None) -> Iterator[Piece]:
        """Read row group by row group, so that batches end at the same rows wherever reading begins."""
        read = 0
        with self.file as file:
            for group in range(file.metadata.num_row_groups):
                size = file.metadata.row_group(group).num_rows
                if read + size <= rows:
                    read += size
                    continue
                for piece in file.iter_batches(batch, row_groups=[group], columns=columns, use_threads=False):
                    read += len(piece)
                    if read > rows:
                        yield Piece(piece.slice(max(rows - (read - len(piece)), 0)))
        _refuse_shorter(self.name, read, rows)


def _refuse_shorter(name: str, read: int, rows: int) -> None:
    if read < rows:
        raise SettingError(f"{name} has {read} rows, and {rows} were read before; it is another log")
