"""Plans: what would be read from a log, found without reading all of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from inferl.errors import SettingError
from inferl.sources.logs.columns import Columns, home_of, recognised
from inferl.sources.logs.cutting import ROWS, cut_log, is_cuttable
from inferl.sources.logs.inputs.opening import is_live, log_name, open_log, rereadable
from inferl.sources.logs.inputs.parts import OpenPart, check_kinds
from inferl.sources.logs.inputs.pieces import Piece
from inferl.sources.logs.values import column_of, flags, labels

__all__ = ["Plan", "PlannedFile", "make_plan"]

EDGE = 1000  # rows on each side of a border in which episodes are looked for
SHOWN = 5  # files that are named when a plan is printed


@dataclass(frozen=True)
class PlannedFile:
    """A file of a log, or another part of it."""

    name: str
    format: str
    rows: int | None  # None: not known
    exact: bool  # else the number of rows is an estimate from the size
    size: int | None  # bytes


@dataclass(frozen=True)
class Plan:
    """What would be read from a log; made by `Table.plan`.

    Attributes
    ----------
    log
        Its name.
    files
        In the order in which they would be read.
    columns
        For each role that is played, its columns.
    unused
        The columns that would not be read.
    borders
        For each two files that follow each other, the number of episodes of which rows were found on both sides, among
        the last and the first 1000 rows; None: not known without reading all.
    notes
        What a log without certain columns means for the answer.
    parts
        Rows of each part into which `inferl.scale` would cut the log; empty if it cannot be cut.
    problems
        Why the log cannot be evaluated like this; empty if it can.

    Examples
    --------
    >>> import pandas, inferl
    >>> frame = pandas.DataFrame({"s": [0, 1, 0], "reward": [0.0, 1.0, 0.0], "why": ["", "", ""]})
    >>> print(inferl.sources.table(frame, state="s", n_states=2).plan())
    the pandas DataFrame
      files     DataFrame
      rows      3
      features  s
      reward    reward
      not used  why
      note      no column says where episodes begin or end (episode, terminated, truncated): it is one stream
                no ratio, target probability or policy: the policy that made the log is evaluated
    """

    log: str
    files: tuple[PlannedFile, ...]
    columns: dict[str, tuple[str, ...]]
    unused: tuple[str, ...]
    borders: tuple[int | None, ...]
    notes: tuple[str, ...]
    parts: tuple[int, ...]
    problems: tuple[str, ...]

    @property
    def rows(self) -> int | None:
        """Number of rows of all files, or an estimate, or None if it is not known."""
        known = [file.rows for file in self.files if file.rows is not None]
        return sum(known) if len(known) == len(self.files) else None

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {**asdict(self), "rows": self.rows}

    def __str__(self) -> str:
        lines = [("files", text) for text in self._files()]
        lines.append(("rows", self._rows()))
        lines += [(role.replace("_", " "), ", ".join(names)) for role, names in self.columns.items()]
        if self.unused:
            lines.append(("not used", ", ".join(self.unused)))
        if self.borders:
            lines.append(("borders", self._borders()))
        if len(self.parts) > 1:
            lines.append(("parts", f"{len(self.parts):,}, of {min(self.parts):,} to {max(self.parts):,} rows"))
        lines += [("note", note) for note in self.notes]
        lines += [("problem", problem) for problem in self.problems]
        width = max(len(name) for name, _ in lines)
        named = [name if i == 0 or name != lines[i - 1][0] else "" for i, (name, _) in enumerate(lines)]
        return "\n".join(
            [self.log, *(f"  {name:{width}}  {text}" for name, (_, text) in zip(named, lines, strict=True))]
        )

    def _files(self) -> list[str]:
        formats = ", ".join(
            f"{n:,} {name}" if len(self.files) > 1 else name
            for name, n in Counter(f.format for f in self.files).items()
        )
        sizes = [file.size for file in self.files if file.size is not None]
        total = f", {_in_bytes(sum(sizes))}" if sizes else ""
        if len(self.files) == 1:
            return [formats + total]
        names = [_about(file) for file in self.files]
        if len(names) > SHOWN:
            names[2:-2] = [f"... {len(names) - 4:,} more ..."]
        return [formats + total, *names]

    def _rows(self) -> str:
        if self.rows is None:
            return "not known before they are read"
        return f"{self.rows:,}" if all(f.exact for f in self.files) else f"about {self.rows:,}, estimated from the size"

    def _borders(self) -> str:
        crossed, unknown = sum(bool(n) for n in self.borders), self.borders.count(None)
        text = f"{crossed} of {len(self.borders)} borders between files are crossed by an episode"
        if sum(n or 0 for n in self.borders) > crossed:
            text += f", by {sum(n or 0 for n in self.borders):,} episodes at least"
        return text + (f"; {unknown} not known: all of the file before had to be read" if unknown else "")


def _about(file: PlannedFile) -> str:
    rows = (
        ""
        if file.rows is None
        else f", {'' if file.exact else 'about '}{file.rows:,} row{'' if file.rows == 1 else 's'}"
    )
    return file.name + rows


def _in_bytes(size: float) -> str:
    """Write a number of bytes.

    >>> _in_bytes(999), _in_bytes(123456), _in_bytes(5e9)
    ('999 bytes', '123.5 kB', '5.0 GB')
    """
    if size < 1000:
        return f"{size:.0f} bytes"
    for unit in ("kB", "MB", "GB"):
        size /= 1000
        if size < 1000 or unit == "GB":
            break
    return f"{size:,.1f} {unit}"


def make_plan(
    source: Any,
    wanted: Mapping[str, object],
    resolved: Callable[[str, list[str]], Columns],
    same_columns: Callable[[Columns], Callable[[str, list[str]], None]],
    sessions: bool,
) -> Plan:
    """Look at the beginning and the end of each file of a log.

    Parameters
    ----------
    source
        The log.
    wanted
        What the user said about the roles of columns.
    resolved
        From the name of a part and its columns, what each is for. It raises a `SettingError` if something is missing.
    same_columns
        Returns a function that refuses a part whose columns would be read otherwise.
    sessions
        Whether labels are those of users, whose episodes end after a pause.
    """
    if is_live(source):
        raise SettingError(f"{log_name(source)} is a stream, which has no plan; leave the plan out")
    if not rereadable(source):
        raise SettingError(f"a plan would use up {log_name(source)}, which can be read only once; leave the plan out")
    problems: list[str] = []
    with open_log(source) as log:
        try:
            columns = resolved(log.name, log.columns)
        except SettingError as error:
            problems.append(str(error))
            columns = _recognised(wanted, log.columns)
        complete = not problems
        files: list[PlannedFile] = []
        borders: list[int | None] = []
        kinds: dict[str, tuple[str, str]] = {}
        before: set[tuple[int, int]] | None = None  # episodes that are open at the end of the file before
        for part in log.parts():
            rows, exact = part.count()
            try:
                if part.columns != log.columns and complete:
                    same_columns(columns)(part.name, part.columns)
                check_kinds(part.part, columns.to_read(part.columns), kinds)
                after = _left_open(part, columns)
                begun = None if before is None else _begun(part, columns)
            except SettingError as error:
                problems.append(str(error))
                begun = after = None
            if files:
                borders.append(None if before is None or begun is None else len(before & begun))
            files.append(PlannedFile(part.name, part.part.format, rows, exact, part.size))
            before = after
    unused = tuple(name for name in log.columns if name not in columns.to_read(log.columns))
    roles, notes, parts = _roles(columns), _notes(columns), tuple[int, ...]()
    if not problems and is_cuttable(source) and (len(files) > 1 or files[0].format == "Parquet"):
        try:
            parts = cut_log(source, ROWS, resolved, same_columns, sessions).rows
        except SettingError as error:
            notes.append(str(error))
    return Plan(log.name, tuple(files), roles, unused, tuple(borders), tuple(notes), parts, tuple(problems))


def _recognised(wanted: Mapping[str, object], available: list[str]) -> Columns:
    """Return the columns whose roles are known, where others are missing."""
    known = recognised(wanted, available)
    found = {role: known.get(role) if value is ... else value for role, value in wanted.items()}
    plain = {role: name for role, name in found.items() if isinstance(name, str) and name in available}
    return Columns(**{"features": (), "reward": "", **plain})  # type: ignore[arg-type]  # names of roles are fields


def _roles(columns: Columns) -> dict[str, tuple[str, ...]]:
    given = {f.name: getattr(columns, f.name) for f in fields(columns)}
    return {role: (names,) if isinstance(names, str) else tuple(names) for role, names in given.items() if names}


def _left_open(part: OpenPart, columns: Columns) -> set[tuple[int, int]] | None:
    """Return the episodes, by stream and label, that have not ended in the last rows of a part; None: not known."""
    if not _marks(columns, part.columns):
        return {(0, 0)}  # it is one stream
    rows = part.tail(_marks(columns, part.columns), EDGE)
    if rows is None:
        return None
    open_: dict[tuple[int, int], bool] = {}
    for episode, ended in _episodes(rows, columns):
        open_[episode] = not ended
    return {episode for episode, still in open_.items() if still}


def _begun(part: OpenPart, columns: Columns) -> set[tuple[int, int]]:
    """Return the episodes of the first rows of a part."""
    rows = next(part.pieces(_marks(columns, part.columns), EDGE), None)
    return set() if rows is None else {episode for episode, _ in _episodes(rows, columns)}


def _marks(columns: Columns, available: list[str]) -> list[str]:
    marks = (columns.stream, columns.episode, columns.terminated, columns.truncated)
    return list(dict.fromkeys(home_of(name, available) or name for name in marks if name is not None))


def _episodes(rows: Piece, columns: Columns) -> list[tuple[tuple[int, int], bool]]:
    """Return stream and label of each row, and whether the episode ends there."""
    batch, _ = rows.parsed()

    def column(name: str | None, read: Callable[[Any], Any]) -> Sequence[Any]:
        found: Sequence[Any] = [0] * len(rows) if name is None else read(column_of(batch, name))[0].tolist()
        return found

    stream, episode = column(columns.stream, labels), column(columns.episode, labels)
    ends = zip(column(columns.terminated, flags), column(columns.truncated, flags), strict=True)
    return [((s, e), bool(one or other)) for s, e, (one, other) in zip(stream, episode, ends, strict=True)]


def _notes(columns: Columns) -> list[str]:
    notes = []
    if columns.episode is None and columns.terminated is None and columns.truncated is None:
        notes.append("no column says where episodes begin or end (episode, terminated, truncated): it is one stream")
    if not (columns.ratio or columns.target_probability or columns.target_log_probability or columns.policy):
        notes.append("no ratio, target probability or policy: the policy that made the log is evaluated")
    return notes
