"""Readers: open a log of any format, and read it in pieces, so that memory stays flat.

The first bytes of a file tell its format, not its name: Parquet, an Arrow file or stream, JSON lines, else CSV. The
name tells whether CSV or JSON lines are compressed (.gz, .bz2, .zst, .lz4).
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from inferl.errors import DataError, InferlError, MissingExtraError, SettingError
from inferl.sources.logs.lines import CSVLog, JSONLog
from inferl.sources.logs.pieces import ColumnPiece, Piece

__all__ = ["Log", "damage", "import_pyarrow", "log_name", "open_log", "rereadable"]

CODECS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}
READ = 1 << 20  # bytes at a time
STREAM = b"\xff\xff\xff\xff"  # the first bytes of an Arrow stream


class Log(Protocol):
    """An open log: its columns, and its rows in pieces."""

    name: str
    columns: list[str]
    header: str  # the line above the rows, if there is one

    def pieces(self, columns: list[str], batch: int) -> Iterator[Piece]:
        """Yield the rows from the first on, at most `batch` at a time."""
        ...


def import_pyarrow() -> Any:
    """Import pyarrow, or say how to install it."""
    try:
        import pyarrow
    except ImportError:
        raise MissingExtraError("pyarrow", "data") from None
    return pyarrow


def log_name(source: Any) -> str:
    """Return the name of a log for messages."""
    if isinstance(source, str | os.PathLike):
        return "standard input" if source == "-" else str(source)
    return f"the {type(source).__module__.partition('.')[0]} {type(source).__name__}"


def rereadable(source: Any) -> bool:
    """Return whether a log can be read more than once: a pipe, an iterator or a stream of batches cannot.

    >>> rereadable("-"), rereadable(iter([])), rereadable("log.csv")
    (False, False, True)
    """
    if isinstance(source, str | os.PathLike):
        return source != "-" and not Path(source).is_fifo()
    return not hasattr(source, "__next__") and type(source).__name__ not in ("RecordBatchReader", "Scanner")


@contextmanager
def damage(where: str) -> Iterator[None]:
    """Turn the many exceptions of Arrow into a `DataError` that says where a log is damaged."""
    try:
        yield
    except InferlError:
        raise
    except MemoryError:
        raise DataError(f"{where}: its header asks for more memory than there is; it is damaged") from None
    except (
        import_pyarrow().ArrowException,
        OSError,
        EOFError,
        ValueError,
        LookupError,
        TypeError,
        OverflowError,
    ) as error:
        message = " ".join(str(error).split()).rstrip(".") or type(error).__name__
        raise DataError(f"{where}: {message}; it is damaged or cut off: write it again") from None


@contextmanager
def open_log(source: Any) -> Iterator[Log]:
    """Open a path, ``"-"`` (standard input), or a data frame with the Arrow interface."""
    pa = import_pyarrow()
    name = log_name(source)
    if isinstance(source, str | os.PathLike) and source != "-":
        if not Path(source).exists():
            raise SettingError(f"there is no file {name}")
        if Path(source).is_dir():
            raise SettingError(f"{name} is a folder; name one file, or read its files one after the other")
        with _opened(name, str(source)) as file:
            yield _of_file(name, file, str(source))
    elif isinstance(source, str):
        stdin: Any = sys.stdin.buffer
        # Without a second buffer, which would wait until it is full.
        yield _of_file(name, stdin if hasattr(stdin, "peek") else io.BufferedReader(stdin), None)
    elif hasattr(source, "__arrow_c_stream__"):
        with damage(name):
            reader = pa.RecordBatchReader.from_stream(source)
        yield _BatchLog(name, reader, sound=True)
    else:
        raise SettingError(
            f"{name} is no log: give a path, '-' for standard input, or a data frame (pandas, polars, pyarrow)"
        )


def _opened(name: str, path: str) -> io.BufferedReader:
    """Open a file, and decompress it if its name says that it is compressed."""
    codec = CODECS.get(Path(path).suffix)
    try:
        if codec is None:
            return io.BufferedReader(io.FileIO(path), READ)
        return io.BufferedReader(import_pyarrow().input_stream(path, compression=codec), READ)
    except OSError as error:
        raise SettingError(f"{name} cannot be opened: {error.strerror or error}") from None


def _of_file(name: str, file: io.BufferedReader, path: str | None) -> Log:
    """Recognise the format by the first bytes."""
    pa = import_pyarrow()
    with damage(name):
        begin = file.peek(16)[:16]
        if not begin:
            raise SettingError(f"{name} is empty")
        if begin.startswith(b"PAR1"):
            if path is None:
                raise SettingError("Parquet cannot be read from a pipe, its index is at its end; name the file")
            return _ParquetLog(name, path)
        if begin.startswith(b"ARROW1"):
            if path is None:
                raise SettingError("an Arrow file cannot be read from a pipe; pipe an Arrow stream, or name the file")
            return _BatchLog(name, _batches_of_file(pa.ipc.open_file(pa.OSFile(path))))
        if begin.startswith(STREAM):
            return _BatchLog(name, pa.ipc.open_stream(file))
        return JSONLog(name, file) if begin.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"{" else CSVLog(name, file)


def _batches_of_file(file: Any) -> Any:
    batches = (file.get_batch(i) for i in range(file.num_record_batches))
    return import_pyarrow().RecordBatchReader.from_batches(file.schema, batches)


class _BatchLog:
    """A stream of record batches; each is validated before use, unless the stream is known to be `sound`."""

    header = ""

    def __init__(self, name: str, reader: Any, sound: bool = False) -> None:
        self.name, self.reader, self.sound = name, reader, sound
        self.columns = list(reader.schema.names)

    def pieces(self, columns: list[str], batch: int) -> Iterator[Piece]:
        """Cut the batches."""
        for whole in self.reader:
            wanted = whole.select(columns)
            if not self.sound:
                wanted.validate(full=True)  # a wrong offset would point outside our memory
            for start in range(0, len(wanted), batch):
                yield ColumnPiece(wanted.slice(start, batch))


class _ParquetLog:
    """A Parquet file."""

    header = ""

    def __init__(self, name: str, path: str) -> None:
        from pyarrow import parquet

        self.name = name
        # Without pre_buffer, which would hold the whole file in memory.
        self.file = parquet.ParquetFile(path, pre_buffer=False)
        self.columns = list(self.file.schema_arrow.names)

    def pieces(self, columns: list[str], batch: int) -> Iterator[Piece]:
        """Read row group by row group."""
        with self.file as file:
            for group in range(file.metadata.num_row_groups):
                for piece in file.iter_batches(batch, row_groups=[group], columns=columns, use_threads=False):
                    piece.validate(full=True)
                    yield ColumnPiece(piece)
