"""Parts: a log of several files or frames, read one after the other as one log."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from typing import Protocol

from inferl.errors import SettingError
from inferl.sources.logs.pieces import PartPiece, Piece
from inferl.sources.logs.readers import Part, damage

__all__ = ["Log", "Openable"]

_ALIKE = dict.fromkeys(("flag", "integer", "float"), "number")  # kinds that may differ between the parts of a log


class Openable(Protocol):
    """A part of a log before it is opened."""

    @property
    def partition(self) -> Mapping[str, str | None]:
        """Columns that have one value in the whole part."""
        ...

    def open(self) -> AbstractContextManager[Part | None]:
        """Open it; None if it is empty."""
        ...


class Log:
    """An open log: its columns, which are those of its first part, and its rows in pieces.

    Only one part is open at a time. Use it in a ``with`` statement.
    """

    def __init__(self, name: str, parts: Iterator[Openable]) -> None:
        self.name = name
        self._parts = parts
        self._open = ExitStack()
        self._begins: list[int] = []  # for each part, the number of rows before it
        self._names: list[str] = []

    def __enter__(self) -> Log:
        try:
            self._part = self._next()
            if self._part is None:
                raise SettingError(f"{self.name} is empty")
        except BaseException:
            self._open.close()
            raise
        self.columns = _columns(self._part, self._partition)
        return self

    def __exit__(self, *exception: object) -> None:
        self._open.close()

    def _next(self) -> Part | None:
        """Close the part that is open, and open the next one that is not empty."""
        for one in self._parts:
            self._open.close()
            self._partition = one.partition
            part = self._open.enter_context(one.open())
            if part is not None:
                return part
        return None

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
        part, rows, first, kinds = self._part, 0, self.columns, dict[str, tuple[str, str]]()
        while part is not None:
            columns = _columns(part, self._partition)
            if columns != first and check is not None:
                check(part.name, columns)
            _check_kinds(part, names, kinds)
            self._begins.append(rows)
            self._names.append(part.name)
            own = [name for name in names if name in part.columns or name not in self._partition]
            constants = {name: self._partition[name] for name in names if name not in own}
            pieces = part.pieces(own, batch)
            while True:
                with damage(f"{part.name}, after row {rows - self._begins[-1]}"):
                    piece = next(pieces, None)
                if piece is None:
                    break
                rows += len(piece)
                yield PartPiece(piece, part.form, constants)
            part = self._next()

    def where(self, row: int) -> tuple[str, int]:
        """Return the part in which a row is that has been read, and its number there, from 1."""
        place = max(bisect_left(self._begins, row) - 1, 0)
        return self._names[place], row - self._begins[place]


def _columns(part: Part, partition: Mapping[str, str | None]) -> list[str]:
    return part.columns + [name for name in partition if name not in part.columns]


def _check_kinds(part: Part, names: list[str], seen: dict[str, tuple[str, str]]) -> None:
    """Refuse a part in which a column has another kind than in the parts before it."""
    for name in names:
        kind = part.kinds.get(name, "null")
        kind = _ALIKE.get(kind, kind)
        if kind == "null":
            continue
        before, where = seen.setdefault(name, (kind, part.name))
        if kind != before:
            raise SettingError(
                f"{part.name}: column {name!r} holds {kind}, and in {where} it holds {before}; write both alike"
            )
