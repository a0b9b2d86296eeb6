"""Pieces: some rows of a log, as read; they are parsed and hashed only where needed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import pyarrow

    from inferl.sources.logs.inputs.digests import Digest

__all__ = ["Broken", "ColumnPiece", "PartPiece", "Piece"]

Broken = dict[int, tuple[str, str]]
"""Rows that could not be parsed, by their index in a piece: the text, and what is wrong with it."""


class Piece(Protocol):
    """Some rows of a log."""

    def __len__(self) -> int: ...

    def __getitem__(self, part: slice) -> Piece: ...

    def add_to(self, digest: Digest) -> None:
        """Add the rows to a digest."""
        ...

    def parsed(self) -> tuple[pyarrow.RecordBatch | pyarrow.Table, Broken]:
        """Return the rows as columns, and the broken rows, which are null in all columns."""
        ...


@dataclass(frozen=True, eq=False)
class ColumnPiece:
    """Rows that are Arrow columns."""

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
        """Return the rows; none is broken."""
        return self.batch, {}


@dataclass(frozen=True, eq=False)
class PartPiece:
    """Rows of one part of a log."""

    piece: Piece
    form: str  # how the part stores its rows
    constants: Mapping[str, str | None]  # columns that have one value in the whole part

    def __len__(self) -> int:
        return len(self.piece)

    def __getitem__(self, part: slice) -> PartPiece:
        return replace(self, piece=self.piece[part])

    def add_to(self, digest: Digest) -> None:
        """Add the rows, and what was the same for all of them."""
        if len(self.piece):
            digest.enter(f"{self.form}; {dict(self.constants)}" if self.constants else self.form)
            self.piece.add_to(digest)

    def parsed(self) -> tuple[pyarrow.RecordBatch | pyarrow.Table, Broken]:
        """Return the rows with all columns, and the broken ones."""
        import pyarrow as pa

        batch, broken = self.piece.parsed()
        for name, value in self.constants.items():
            batch = batch.append_column(name, pa.repeat(pa.scalar(value, pa.string()), len(batch)))
        return batch, broken
