"""Parts: a log of several files or frames, read one after the other as one log."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from typing import Protocol

from inferl.errors import SettingError
from inferl.sources.logs.inputs.pieces import PartPiece, Piece
from inferl.sources.logs.inputs.readers import Part, damage

__all__ = ["Log", "OpenPart", "Openable", "check_kinds"]

_ALIKE = dict.fromkeys(("flag", "integer", "float"), "number")  # kinds that may differ between the parts of a log


class Openable(Protocol):
    """A part of a log before it is opened."""

    @property
    def partition(self) -> Mapping[str, str | None]:
        """Columns that have one value in the whole part."""
        ...

    @property
    def size(self) -> int | None:
        """Bytes, if it is a file."""
        ...

    @property
    def begin(self) -> int:
        """Rows of the file before the first one."""
        ...

    def open(self) -> AbstractContextManager[Part | None]:
        """Open it; None if it is empty."""
        ...


@dataclass(frozen=True, eq=False)
class OpenPart:
    """A part of a log that is open, with the columns that have one value in all of it."""

    part: Part
    partition: Mapping[str, str | None]
    size: int | None
    begin: int = 0  # rows of the file before the first one

    @property
    def name(self) -> str:
        """For messages."""
        return self.part.name

    @property
    def columns(self) -> list[str]:
        """All columns."""
        return self.part.columns + [name for name in self.partition if name not in self.part.columns]

    def pieces(self, names: list[str], batch: int) -> Iterator[Piece]:
        """Yield the rows from the first on, at most `batch` at a time."""
        own, constants = self._divided(names)
        rows, pieces = self.begin, self.part.pieces(own, batch)
        while True:
            with damage(f"{self.name}, after row {rows}"):
                piece = next(pieces, None)
            if piece is None:
                return
            rows += len(piece)
            yield PartPiece(piece, self.part.form, constants)

    def count(self) -> tuple[int | None, bool]:
        """Return the number of rows, and whether this is exact or an estimate; None: not known."""
        with damage(self.name):
            return self.part.count(self.size)

    def tail(self, names: list[str], rows: int) -> Piece | None:
        """Return the last rows; None if the whole part had to be read for them."""
        own, constants = self._divided(names)
        with damage(self.name):
            piece = self.part.tail(own, rows)
        return None if piece is None else PartPiece(piece, self.part.form, constants)

    def _divided(self, names: list[str]) -> tuple[list[str], dict[str, str | None]]:
        own = [name for name in names if name in self.part.columns or name not in self.partition]
        return own, {name: self.partition[name] for name in names if name not in own}


class Log:
    """An open log: its columns, which are those of its first part, and its rows in pieces.

    Only one part is open at a time. Use it in a ``with`` statement.
    """

    def __init__(self, name: str, parts: Iterator[Openable]) -> None:
        self.name = name
        self._parts = parts
        self._open = ExitStack()
        self._begins: list[int] = []  # for each part, the number of rows before it
        self._named: list[tuple[str, int]] = []  # the name of its file, and the number of rows before it there

    def __enter__(self) -> Log:
        try:
            self._part = self._next()
            if self._part is None:
                raise SettingError(f"{self.name} is empty")
        except BaseException:
            self._open.close()
            raise
        self.columns = self._part.columns
        return self

    def __exit__(self, *exception: object) -> None:
        self._open.close()

    def _next(self) -> OpenPart | None:
        """Close the part that is open, and open the next one that is not empty."""
        for one in self._parts:
            self._open.close()
            part = self._open.enter_context(one.open())
            if part is not None:
                return OpenPart(part, one.partition, one.size, one.begin)
        return None

    def parts(self) -> Iterator[OpenPart]:
        """Yield the parts one after the other; when the next is opened, the one before is closed."""
        part = self._part
        while part is not None:
            yield part
            part = self._next()

    def pieces(
        self, names: list[str], batch: int, check: Callable[[str, list[str]], None] | None = None
    ) -> Iterator[Piece]:
        """Yield the rows from the first on, at most `batch` at a time.

        Parameters
        ----------
        names
            The columns to read.
        batch
            Largest number of rows in a piece.
        check
            Refuses the columns of a part, given its name and its columns, if they differ from those of the first.
        """
        rows, kinds = 0, dict[str, tuple[str, str]]()
        for part in self.parts():
            if check is not None and part.columns != self.columns:
                check(part.name, part.columns)
            if missing := [name for name in names if name not in part.columns]:
                raise SettingError(f"{part.name}: there is no column {missing[0]!r}, which the files before it have")
            check_kinds(part.part, names, kinds)
            self._begins.append(rows)
            self._named.append((part.name, part.begin))
            for piece in part.pieces(names, batch):
                rows += len(piece)
                yield piece

    def place(self, piece: Piece) -> None:
        """Return None: rows that were read are read again when a run is resumed."""

    def where(self, row: int) -> tuple[str, int]:
        """Return the file in which a row is that has been read, and its number there, from 1."""
        place = max(bisect_left(self._begins, row) - 1, 0)
        name, before = self._named[place]
        return name, row - self._begins[place] + before


def check_kinds(part: Part, names: list[str], seen: dict[str, tuple[str, str]]) -> None:
    """Refuse a part in which a column has another kind than in the parts before it, which are `seen`."""
    for name in names:
        kind = part.kinds.get(name, "null").partition("<")[0]  # two structs may differ in fields that nobody reads
        kind = _ALIKE.get(kind, kind)
        if kind == "null":
            continue
        before, where = seen.setdefault(name, (kind, part.name))
        if kind != before:
            raise SettingError(
                f"{part.name}: column {name!r} holds {kind}, and in {where} it holds {before}; write both alike"
            )
