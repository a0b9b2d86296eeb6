"""Extents: some rows of a file, as a log or a part of one; of a Parquet file, only their row groups are read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from inferl.sources.logs.inputs.files import File
from inferl.sources.logs.inputs.pieces import Piece
from inferl.sources.logs.inputs.readers import Part

__all__ = ["Extent"]


@dataclass(frozen=True)
class Extent:
    """The rows of a file from one to before another."""

    file: File
    begin: int = 0
    end: int | None = None  # None: the end of the file

    @property
    def name(self) -> str:
        """For messages."""
        return self.file.name

    @property
    def partition(self) -> dict[str, str | None]:
        """The columns that are said by the folders."""
        return self.file.partition

    @property
    def size(self) -> int | None:
        """Bytes of the whole file."""
        return self.file.size

    @contextmanager
    def open(self) -> Iterator[Part | None]:
        """Open the file; None if it is empty."""
        with self.file.open() as part:
            yield None if part is None else _Rows(part, self.begin, self.end)


class _Rows:
    """Some rows of a file that is open."""

    def __init__(self, part: Part, begin: int, end: int | None) -> None:
        self.part, self.begin, self.end = part, begin, end
        self.name, self.format, self.form = part.name, part.format, part.form
        self.columns, self.kinds = part.columns, part.kinds
        self.groups: tuple[int, ...] = ()  # of these rows alone, nobody asks for them

    def pieces(self, columns: list[str], batch: int, first: int = 0) -> Iterator[Piece]:
        """Yield the rows, from the row group on in which the first one is."""
        group = row = 0
        for size in self.part.groups:
            if row + size > self.begin:
                break
            group, row = group + 1, row + size
        if self.end is not None:  # of the last file of a part, often a few rows
            batch = max(min(batch, self.end - row), 1)
        pieces = self.part.pieces(columns, batch, group)
        while (self.end is None or row < self.end) and (piece := next(pieces, None)) is not None:
            stop = len(piece) if self.end is None else min(len(piece), self.end - row)
            wanted = piece[max(self.begin - row, 0) : stop]
            row += len(piece)
            if len(wanted):
                yield wanted

    def count(self, size: int | None) -> tuple[int | None, bool]:
        """Return the number of rows, if it is known."""
        whole, exact = (self.end, True) if self.end is not None else self.part.count(size)
        return None if whole is None else max(whole - self.begin, 0), exact

    def tail(self, columns: list[str], rows: int) -> Any:
        """Return the last rows, if they are those of the file."""
        return self.part.tail(columns, rows) if self.end is None else None
