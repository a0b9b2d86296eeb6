"""Readers: open one part of a log, a file or a stream of any format, and read it in pieces, so that memory stays flat.

The first bytes tell the format, not the name: compressed or not (gzip, bz2, zstd, lz4), Parquet, an Arrow file or
stream, JSON lines, else CSV.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from inferl.errors import DataError, InferlError, MissingExtraError, SettingError
from inferl.sources.logs.inputs.lines import CSVPart, JSONPart
from inferl.sources.logs.inputs.pieces import ColumnPiece, Piece
from inferl.sources.logs.values import kinds_of

__all__ = ["Batches", "Part", "codec_of", "damage", "import_pyarrow", "read_part"]

READ = 1 << 20  # bytes at a time
STREAM = b"\xff\xff\xff\xff"  # the first bytes of an Arrow stream


class Part(Protocol):
    """A part of a log, open: one file, one data frame or one stream."""

    name: str
    format: str  # for people
    columns: list[str]
    kinds: dict[str, str]  # kind of each column, where the format has types
    form: str  # how the rows are stored, for the digest: as columns, or as lines below a header

    @property
    def groups(self) -> tuple[int, ...]:
        """Rows of each row group, empty if the format has none."""
        ...

    def pieces(self, columns: list[str], batch: int, first: int = 0) -> Iterator[Piece]:
        """Yield the rows, at most `batch` at a time, from the first on, or from the first of a row group."""
        ...

    def count(self, size: int | None) -> tuple[int | None, bool]:
        """Return the number of rows, and whether this is exact or an estimate from the bytes; None: not known."""
        ...

    def tail(self, columns: list[str], rows: int) -> Piece | None:
        """Return the last rows, if they can be read without those before them."""
        ...


def import_pyarrow() -> Any:
    """Import pyarrow, or say how to install it."""
    try:
        import pyarrow
    except ImportError:
        raise MissingExtraError("pyarrow", "data") from None
    return pyarrow


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


def read_part(name: str, file: Any, random: Any = None) -> Part | None:
    """Recognise the format of an open file by its first bytes; None if it is empty.

    Parameters
    ----------
    name
        For messages.
    file
        Bytes in order: an object with ``peek`` and ``read1``.
    random
        The same bytes in any order, for pyarrow: a path or a file. None if there is no such access, as for a pipe.
    """
    pa = import_pyarrow()
    packed, read_bytes = "", getattr(file, "tell", None)
    with damage(name):
        begin = file.peek(16)[:16]
        codec = codec_of(begin)
        if codec is not None:
            packed, random = f" ({codec})", None
            file = io.BufferedReader(pa.CompressedInputStream(pa.PythonFile(file, "r"), codec), READ)
            begin = file.peek(16)[:16]
        if not begin:
            return None
        if begin.startswith(b"PAR1"):
            if random is None:
                raise SettingError(_needs_access(name, "Parquet", "name the file", codec))
            return _ParquetPart(name, random)
        if begin.startswith(b"ARROW1"):
            if random is None:
                raise SettingError(
                    _needs_access(name, "an Arrow file", "pipe an Arrow stream, or name the file", codec)
                )
            return _ArrowFile(name, pa.ipc.open_file(random if not isinstance(random, str) else pa.OSFile(random)))
        if begin.startswith(STREAM):
            reader = pa.ipc.open_stream(file)
            return Batches(name, "Arrow stream" + packed, reader.schema, lambda columns, batch: reader, sound=False)
        if begin.startswith(b"PK\3\4"):
            raise SettingError(f"{name} is a zip archive; unpack it, or compress it with gzip or zstd")
        if begin.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"{":
            return JSONPart(name, "JSON lines" + packed, file, read_bytes, random)
        return CSVPart(name, "CSV" + packed, file, read_bytes, random)


def codec_of(begin: bytes) -> str | None:
    r"""Return how bytes are compressed.

    >>> codec_of(b"\x1f\x8b\x08"), codec_of(b"BZhours,reward"), codec_of(b"x,reward")
    ('gzip', None, None)
    """
    for magic, codec in ((b"\x1f\x8b", "gzip"), (b"\x28\xb5\x2f\xfd", "zstd"), (b"\x04\x22\x4d\x18", "lz4")):
        if begin.startswith(magic):
            return codec
    # An empty bz2 file has another mark after its size.
    return "bz2" if begin.startswith(b"BZh") and begin[4:10] in (b"1AY&SY", b"\x17\x72\x45\x38\x50\x90") else None


def _needs_access(name: str, what: str, remedy: str, codec: str | None) -> str:
    if codec is not None:
        return f"{name}: {what} that is compressed as a whole cannot be read, its index is at its end; decompress it"
    return f"{name}: {what} cannot be read from a pipe, its index is at its end; {remedy}"


class Batches:
    """Record batches.

    Parameters
    ----------
    name, format
        For people.
    schema
        Of all columns.
    read
        Returns the batches; the columns that are needed, and a number of rows, are hints for it.
    sound
        Whether the batches are known to be valid; else each is validated before use.
    """

    form = "columns"
    groups: tuple[int, ...] = ()

    def __init__(
        self,
        name: str,
        format: str,
        schema: Any,
        read: Callable[[list[str], int], Iterable[Any]],
        sound: bool = True,
        rows: int | None = None,
    ) -> None:
        self.name, self.format, self.read, self.sound, self._rows = name, format, read, sound, rows
        self.columns = list(schema.names)
        self.kinds = kinds_of(schema)

    def pieces(self, columns: list[str], batch: int, first: int = 0) -> Iterator[Piece]:
        """Cut the batches."""
        for whole in self.read(columns, batch):
            wanted = whole.select(columns)
            if not self.sound:
                wanted.validate(full=True)  # a wrong offset would point outside our memory
            for start in range(0, len(wanted), batch):
                yield ColumnPiece(wanted.slice(start, batch))

    def count(self, size: int | None) -> tuple[int | None, bool]:
        """Return the number of rows of a frame; that of a stream is not known."""
        return self._rows, True

    def tail(self, columns: list[str], rows: int) -> Piece | None:
        """Return None: a stream has no end until it has been read."""
        return None


class _ArrowFile(Batches):
    """An Arrow file: batches with an index."""

    def __init__(self, name: str, file: Any) -> None:
        def read(columns: list[str], batch: int) -> Iterator[Any]:
            return (file.get_batch(i) for i in range(file.num_record_batches))

        super().__init__(name, "Arrow file", file.schema, read, sound=False)
        self.file = file

    def count(self, size: int | None) -> tuple[int | None, bool]:
        """Return the number of rows."""
        return self.file.count_rows(), True

    def tail(self, columns: list[str], rows: int) -> Piece | None:
        """Return rows of the last batch."""
        if self.file.num_record_batches == 0:
            return None
        batch = self.file.get_batch(self.file.num_record_batches - 1).select(columns)
        batch.validate(full=True)
        return ColumnPiece(batch)[-rows:]


class _ParquetPart:
    """A Parquet file."""

    format, form = "Parquet", "columns"

    def __init__(self, name: str, file: Any) -> None:
        from pyarrow import parquet

        self.name = name
        # Without pre_buffer, which would hold the whole file in memory.
        self.file = parquet.ParquetFile(file, pre_buffer=False)
        self.columns = list(self.file.schema_arrow.names)
        self.kinds = kinds_of(self.file.schema_arrow)

    @property
    def groups(self) -> tuple[int, ...]:
        """Rows of each row group."""
        metadata = self.file.metadata
        return tuple(metadata.row_group(group).num_rows for group in range(metadata.num_row_groups))

    def pieces(self, columns: list[str], batch: int, first: int = 0) -> Iterator[Piece]:
        """Read row group by row group."""
        with self.file as file:
            for group in range(first, file.metadata.num_row_groups):
                for piece in file.iter_batches(batch, row_groups=[group], columns=columns, use_threads=False):
                    piece.validate(full=True)
                    yield ColumnPiece(piece)

    def count(self, size: int | None) -> tuple[int | None, bool]:
        """Return the number of rows."""
        return int(self.file.metadata.num_rows), True

    def tail(self, columns: list[str], rows: int) -> Piece | None:
        """Return rows of the last row group."""
        groups = self.file.metadata.num_row_groups
        if groups == 0:
            return None
        table = self.file.read_row_group(groups - 1, columns=columns, use_threads=False)
        table.validate(full=True)
        return ColumnPiece(table)[-rows:]
