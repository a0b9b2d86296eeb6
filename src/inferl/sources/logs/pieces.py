"""Pieces: some rows of a log, as they were read; they are parsed, and their digest taken, only where that is needed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import pyarrow

    from inferl.sources.logs.digests import Digest

__all__ = ["Broken", "ColumnPiece", "Piece"]

Broken = dict[int, tuple[str, str]]
"""Rows that could not be parsed, by their place in a piece: what was there, and why it is no row."""


class Piece(Protocol):
    """Some rows of a log."""

    def __len__(self) -> int: ...

    def __getitem__(self, part: slice) -> Piece: ...

    def add_to(self, digest: Digest) -> None:
        """Add the rows to a digest."""
        ...

    def parsed(self) -> tuple[pyarrow.RecordBatch | pyarrow.Table, Broken]:
        """Return the rows as columns; one that could not be parsed is all null, and among the broken ones."""
        ...


@dataclass(frozen=True, eq=False)
class ColumnPiece:
    """Rows that came as columns of Arrow."""

    batch: pyarrow.RecordBatch

    def __len__(self) -> int:
        return len(self.batch)

    def __getitem__(self, part: slice) -> ColumnPiece:
        start, stop, _ = part.indices(len(self.batch))
        return ColumnPiece(self.batch.slice(start, max(stop - start, 0)))

    def add_to(self, digest: Digest) -> None:
        """Add the columns."""
        digest.add_columns(self.batch)

    def parsed(self) -> tuple[pyarrow.RecordBatch, Broken]:
        """Return what there is."""
        return self.batch, {}
