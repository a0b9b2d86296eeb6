"""Cutting: a log in parts that several readers can read apart from each other, decided by the data alone.

A part is some row groups or files that follow each other. It owns the episodes that begin in it: it skips the rows of
an episode that began before, and reads on until its own last episode is over, as is done where text is split into
lines. So every row is read once, in the same way for any number of readers. The labels of a few rows on both sides of a
border are enough to find where it is; no other row is read.

Where rows of several episodes are mixed, or of several streams, one cannot see from a few rows which episodes are open
at a border. Then only whole files are parts, and a border that is crossed is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from inferl.data.arrays import Bools, Integers, Rows
from inferl.errors import SettingError
from inferl.sources.logs.columns import Columns, home_of
from inferl.sources.logs.inputs.extents import Extent
from inferl.sources.logs.inputs.files import File
from inferl.sources.logs.inputs.opening import files_of, log_name, open_log
from inferl.sources.logs.inputs.parts import OpenPart, check_kinds
from inferl.sources.logs.inputs.pieces import Piece
from inferl.sources.logs.values import column_of, flags, labels

__all__ = ["ROWS", "Cut", "cut_log", "is_cuttable"]

ROWS = 1_000_000  # of a part; fewer cost more: each part is merged
EDGE = 1000  # rows on each side of a border that are looked at
WALK = 65_536  # rows at a time in which the end of a long episode is looked for


class Unit(NamedTuple):
    """What is not cut: a row group, or a whole file of another format."""

    file: int
    begin: int  # row of the file
    rows: int  # an estimate, for a file that does not tell


@dataclass(frozen=True)
class Cut:
    """How a log is cut.

    Attributes
    ----------
    parts
        The rows of each part, in the order of the log.
    rows
        How many they are, roughly where the format of a file does not tell.
    whole_files
        Whether parts are whole files, because rows of several episodes or streams are mixed.
    crossing
        Number of borders that were moved because an episode crosses them.
    """

    parts: tuple[tuple[Extent, ...], ...]
    rows: tuple[int, ...]
    whole_files: bool
    crossing: int


def is_cuttable(source: Any) -> bool:
    """Return whether a log is in files."""
    return files_of(source) is not None


def cut_log(
    source: Any,
    rows: int,
    resolved: Callable[[str, list[str]], Columns],
    same_columns: Callable[[Columns], Callable[[str, list[str]], None]],
    sessions: bool,
) -> Cut:
    """Cut a log into parts of about so many rows.

    Parameters
    ----------
    source
        The log; it has to be in files.
    rows
        Number of rows of a part, roughly: a part ends with the row group, or file, that reaches it.
    resolved, same_columns
        As for `make_plan`.
    sessions
        Whether labels are those of users, whose episodes end after a pause.
    """
    files = files_of(source)
    if files is None:
        raise SettingError(
            f"{log_name(source)} is not in files, and only files are cut into parts; write it to Parquet"
        )
    with open_log(source) as log:
        columns = resolved(log.name, log.columns)
        same, kinds = same_columns(columns), dict[str, tuple[str, str]]()
        groups: list[list[int]] = []  # rows of each group of each file
        at = 0
        for part in log.parts():
            while files[at].name != part.name:  # empty files are not opened
                groups.append([])
                at += 1
            if part.columns != log.columns:
                same(part.name, part.columns)
            check_kinds(part.part, columns.to_read(part.columns), kinds)
            groups.append(list(part.part.groups) or [part.count()[0] or rows])
            at += 1
        groups += [[] for _ in files[at:]]
        marks = Labels(columns, [home_of(name, log.columns) or name for name in _marking(columns)], sessions)
    if not marks.names:  # one stream without episodes
        return Cut((tuple(map(Extent, files)),), (sum(map(sum, groups)),), True, 0)
    units = [Unit(i, sum(own[:j]), size) for i, own in enumerate(groups) for j, size in enumerate(own) if size]
    firsts = _firsts(units, rows)
    before = {first: marks.before(files, units[first - 1]) for first in firsts[1:]}
    whole = columns.stream is not None or any(found.mixed() for found in before.values())
    if not whole and columns.episode is not None:
        head = [found for first in firsts if (found := marks.first_rows(files, units[first])) is not None]
        whole = any(found.mixed() for found in head)
    if whole:
        units = [Unit(i, 0, sum(own)) for i, own in enumerate(groups) if sum(own)]
        firsts = _firsts(units, rows)
        for first in firsts[1:]:
            marks.refuse_crossing(files, units[first - 1], units[first], log_name(source))
        borders = [(units[first].file, 0) for first in firsts]
        crossing = 0
    else:
        borders = [(units[first].file, units[first].begin) for first in firsts[:1]]
        borders += [marks.border(files, units, first, before[first]) for first in firsts[1:]]
        plain = [(units[first].file, units[first].begin) for first in firsts]
        crossing = sum(one != other for one, other in zip(borders, plain, strict=True))
        for i in range(1, len(borders)):
            borders[i] = max(borders[i], borders[i - 1])
    sizes = [sum(unit.rows for unit in units[first:last]) for first, last in pairwise([*firsts, len(units)])]
    parts = [_between(files, groups, begin, end) for begin, end in pairwise([*borders, (len(files), 0)])]
    kept = [i for i, part in enumerate(parts) if part]
    return Cut(tuple(parts[i] for i in kept), tuple(sizes[i] for i in kept), whole, crossing)


def _firsts(units: Sequence[Unit], rows: int) -> list[int]:
    """Return the index of the first unit of each part.

    >>> _firsts([Unit(0, 0, 60), Unit(0, 60, 60), Unit(1, 0, 500), Unit(2, 0, 10)], 100)
    [0, 2, 3]
    """
    firsts, full = [], rows
    for i, unit in enumerate(units):
        if full >= rows:
            firsts.append(i)
            full = 0
        full += unit.rows
    return firsts


def _between(
    files: Sequence[File], groups: Sequence[Sequence[int]], begin: tuple[int, int], end: tuple[int, int]
) -> tuple[Extent, ...]:
    """Return the rows from one place in the log to another, without empty files."""
    found = []
    for i in range(begin[0], min(end[0] + 1, len(files))):
        extent = Extent(files[i], begin[1] if i == begin[0] else 0, end[1] if i == end[0] else None)
        if groups[i] and extent.begin != extent.end:
            found.append(extent)
    return tuple(found)


def _marking(columns: Columns) -> list[str]:
    marks = (columns.stream, columns.episode, columns.terminated, columns.truncated)
    return [name for name in marks if name is not None]


@dataclass(frozen=True, eq=False)
class Seen(Rows):
    """What the columns of a few rows say: the stream and the label of each, and whether its episode ends."""

    label: Integers
    readable: Bools
    ended: Bools
    key: Integers  # of stream and label

    def mixed(self) -> bool:
        """Return whether a label comes back after another one, although its episode had not ended."""
        key, ended = self.key[self.readable], self.ended[self.readable]
        final = np.flatnonzero(np.append(key[1:] != key[:-1], True)) if len(key) else np.zeros(0, np.int64)
        key, ended = key[final], ended[final]
        order = np.argsort(key, kind="stable")
        return bool(((key[order][1:] == key[order][:-1]) & ~ended[order][:-1]).any())

    def left_open(self) -> set[int]:
        """Return the episodes whose latest row is not an end."""
        latest = dict(zip(self.key[self.readable].tolist(), self.ended[self.readable].tolist(), strict=True))
        return {key for key, ended in latest.items() if not ended}


@dataclass(frozen=True)
class Labels:
    """How episodes are told apart."""

    columns: Columns
    names: list[str]
    sessions: bool

    def seen(self, piece: Piece) -> Seen:
        """Read the labels of some rows."""
        batch, _ = piece.parsed()
        n = len(batch)
        label, readable = np.zeros(n, np.int64), np.ones(n, np.bool_)
        if self.columns.episode is not None:
            label, readable = labels(column_of(batch, self.columns.episode))
        ended = np.zeros(n, np.bool_)
        for name in (self.columns.terminated, self.columns.truncated):
            if name is not None and not self.sessions:
                ended |= flags(column_of(batch, name))[0]
        key = label
        if self.columns.stream is not None:
            stream, known = labels(column_of(batch, self.columns.stream))
            key, readable = label + stream * np.int64(-7046029254386353131), readable & known
        return Seen(label, readable, ended, key)

    def before(self, files: Sequence[File], unit: Unit) -> Seen:
        """Read the last rows of a unit; where a file has no access to them, all of it is read."""
        file = files[unit.file]
        with file.open() as part:
            if part is not None and not part.groups:
                tail = OpenPart(part, file.partition, file.size).tail(self.names, EDGE)
                if tail is not None:
                    return self.seen(tail)
        end = unit.begin + unit.rows if unit.begin or (part is not None and part.groups) else None
        last: Seen | None = None
        with open_log([Extent(file, unit.begin, end)]) as log:
            for piece in log.pieces(self.names, WALK):
                now = self.seen(piece)
                last = now if last is None else Seen.join([last, now])[-EDGE:]
        assert last is not None
        return last[-EDGE:]

    def first_rows(self, files: Sequence[File], unit: Unit) -> Seen | None:
        """Read the first rows of a unit."""
        with open_log([Extent(files[unit.file], unit.begin)]) as log:
            piece = next(log.pieces(self.names, EDGE), None)
        return None if piece is None else self.seen(piece)

    def border(self, files: Sequence[File], units: Sequence[Unit], first: int, before: Seen) -> tuple[int, int]:
        """Return the place where the first episode begins that does so in a unit, or after it: a file, and a row."""
        known = np.flatnonzero(before.readable)
        by_label = self.columns.episode is not None
        if (not by_label and before.ended[-1]) or (by_label and not known.size):
            return units[first].file, units[first].begin
        label, over = before.label[known[-1]] if by_label else 0, False
        for file, row, now in self._from(files, units, first):
            if by_label:
                begins = now.readable & (now.label != label)
            else:
                begins = np.append(over, now.ended[:-1])
                over = bool(now.ended[-1])
            if begins.any():
                return file, row + int(np.argmax(begins))
        return len(files), 0

    def _from(self, files: Sequence[File], units: Sequence[Unit], first: int) -> Iterator[tuple[int, int, Seen]]:
        """Read on from a unit: yield the file, the number of rows of it before, and what the next rows say."""
        batch = EDGE
        for i in dict.fromkeys(unit.file for unit in units[first:]):
            row = units[first].begin if i == units[first].file else 0
            with open_log([Extent(files[i], row)]) as log:
                for piece in log.pieces(self.names, batch):
                    yield i, row, self.seen(piece)
                    row, batch = row + len(piece), WALK

    def refuse_crossing(self, files: Sequence[File], last: Unit, first: Unit, log: str) -> None:
        """Refuse a border between files where rows of one episode are on both sides."""
        after = self.first_rows(files, first)
        open_ = self.before(files, last).left_open()
        both = open_ & set([] if after is None else after.key[after.readable].tolist())
        if both:
            raise SettingError(
                f"{log}: rows of several episodes are mixed, and {len(both)} of them have rows in both "
                f"{files[last.file].name} and {files[first.file].name}, so the files cannot be evaluated apart from "
                "each other; bring the rows of each episode together first (regroup), or use one process"
            )
