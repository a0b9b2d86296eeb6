"""Readers: a log opened, whatever it is, and read in pieces, so that memory stays flat.

The format of a file is seen from its first bytes, not from its name: Parquet, an Arrow file or stream, JSON lines, else
CSV. Compressed CSV and JSON lines are recognised by their name (.gz, .bz2, .zst, .lz4).
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

__all__ = ["Log", "damage", "import_pyarrow", "log_name", "open_log"]

CODECS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}
READ = 1 << 20  # bytes at a time
STREAM = b"\xff\xff\xff\xff"  # how an Arrow stream begins


class Log(Protocol):
    """A log that is open: its columns, and its rows piece by piece."""

    name: str
    columns: list[str]
    header: str  # what stands above the rows, and says what they mean

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
    """Name a log in messages."""
    if isinstance(source, str | os.PathLike):
        return "standard input" if source == "-" else str(source)
    return f"the {type(source).__module__.partition('.')[0]} {type(source).__name__}"


@contextmanager
def damage(where: str) -> Iterator[None]:
    """Say where a log is damaged: Arrow has many words for it, of many exceptions."""
    try:
        yield
    except InferlError:
        raise
    except MemoryError:
        raise DataError(f"{where}: it claims to hold more than there is memory for; it is damaged") from None
    except (
        import_pyarrow().ArrowException,
        OSError,
        EOFError,
        ValueError,
        LookupError,
        TypeError,
        OverflowError,
    ) as error:
        words = " ".join(str(error).split()).rstrip(".") or type(error).__name__
        raise DataError(f"{where}: {words}; it is damaged or cut off: write it anew") from None


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
        with _opened(name, str(source)) as file:
            yield _of_file(name, file, str(source))
    elif isinstance(source, str):
        stdin: Any = sys.stdin.buffer
        # Not a buffer around the buffer: it would wait until it is full.
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
    """Open a file; if its name says that it is compressed, so that plain bytes come out."""
    codec = CODECS.get(Path(path).suffix)
    try:
        if codec is None:
            return io.BufferedReader(io.FileIO(path), READ)
        return io.BufferedReader(import_pyarrow().input_stream(path, compression=codec), READ)
    except OSError as error:
        raise SettingError(f"{name} cannot be opened: {error.strerror or error}") from None


def _of_file(name: str, file: io.BufferedReader, path: str | None) -> Log:
    """Look at the first bytes."""
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
    """A stream of record batches; unless it is known to be `sound`, each is looked through before it is used."""

    header = ""

    def __init__(self, name: str, reader: Any, sound: bool = False) -> None:
        self.name, self.reader, self.sound = name, reader, sound
        self.columns = list(reader.schema.names)

    def pieces(self, columns: list[str], batch: int) -> Iterator[Piece]:
        """Cut the batches."""
        for whole in self.reader:
            wanted = whole.select(columns)
            if not self.sound:
                wanted.validate(full=True)  # else a wrong offset would be followed out of the memory that is ours
            for start in range(0, len(wanted), batch):
                yield ColumnPiece(wanted.slice(start, batch))


class _ParquetLog:
    """A Parquet file."""

    header = ""

    def __init__(self, name: str, path: str) -> None:
        from pyarrow import parquet

        self.name = name
        # Without pre_buffer: it would hold the whole file.
        self.file = parquet.ParquetFile(path, pre_buffer=False)
        self.columns = list(self.file.schema_arrow.names)

    def pieces(self, columns: list[str], batch: int) -> Iterator[Piece]:
        """Read row group by row group."""
        with self.file as file:
            for group in range(file.metadata.num_row_groups):
                for piece in file.iter_batches(batch, row_groups=[group], columns=columns, use_threads=False):
                    piece.validate(full=True)
                    yield ColumnPiece(piece)
