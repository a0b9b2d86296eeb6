"""Inputs: what a log may be.

- a path, a glob, a folder, a folder with partitions (``day=3/``), or a URI (``s3://...``): its files, see `files`;
- ``"-"``, standard input; or an open file;
- a data frame: anything with the Arrow interface for streams (pandas, polars, pyarrow, a DuckDB relation);
- a pyarrow ``Dataset`` or ``Scanner``, or a polars ``LazyFrame``;
- a list or an iterator of any of these, read in this order;
- a stream of messages (`messages`), or a file that is being written (`growing`), alone.

Whatever it is, it becomes parts (`parts`), which are read one after the other as one log.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from inferl.errors import CheckpointMismatchError, SettingError
from inferl.sources.logs.inputs.extents import Extent
from inferl.sources.logs.inputs.files import File, find_files, is_uri
from inferl.sources.logs.inputs.frames import is_frame, is_relation, open_frame
from inferl.sources.logs.inputs.growing import GrowingFile
from inferl.sources.logs.inputs.handles import is_seekable, open_handle
from inferl.sources.logs.inputs.messages import OpenStream, Place, Stream
from inferl.sources.logs.inputs.parts import Log, Openable
from inferl.sources.logs.inputs.readers import Part
from inferl.sources.logs.inputs.streams import is_stream

__all__ = ["exists", "files_of", "is_live", "log_name", "open_at", "open_log", "reopenable", "rereadable"]


def open_at(source: Any, place: Place | None, rows: int) -> Log | OpenStream:
    """Open whatever may be a log, for a ``with`` statement; a stream at a place, after so many rows."""
    if isinstance(source, Stream) != (place is not None) and rows:
        raise CheckpointMismatchError(
            f"{log_name(source)}: the position to resume from is that of a log of another kind; evaluate this one from "
            "the beginning"
        )
    return source.open(place, rows) if isinstance(source, Stream) else open_log(source)


def open_log(source: Any) -> Log:
    """Open whatever may be a log, except a stream, at its beginning."""
    parts = _each_once(_parts(source))
    if rereadable(source):  # all files are looked for before the first is read
        parts = iter(list(parts))
    return Log(log_name(source), parts)


def _each_once(parts: Iterator[Openable]) -> Iterator[Openable]:
    """Refuse a file that would be read twice."""
    seen = set()
    for part in parts:
        if isinstance(part, File):
            if part.name in seen:
                raise SettingError(f"{part.name} is there twice; name each file once")
            seen.add(part.name)
        yield part


def log_name(source: Any) -> str:
    """Return the name of a log for messages.

    >>> log_name("log.csv"), log_name(["a.csv", "b.csv", "c.csv"]), log_name(iter([]))
    ('log.csv', '3 files, a.csv to c.csv', 'the list_iterator')
    """
    if isinstance(source, str | os.PathLike):
        return "standard input" if source == "-" else os.fspath(source)
    if isinstance(source, Extent):
        return source.name
    if isinstance(source, list | tuple) and source:
        if len(source) == 1:
            return log_name(source[0])
        kind = "files" if all(isinstance(one, str | os.PathLike | Extent) for one in source) else "logs"
        return f"{len(source)} {kind}, {log_name(source[0])} to {log_name(source[-1])}"
    if isinstance(source, GrowingFile):
        return source.path
    if isinstance(source, Stream) or hasattr(source, "read"):
        name = getattr(source, "name", None)
        if isinstance(name, str):
            return name
    library, kind = type(source).__module__.partition(".")[0], type(source).__name__
    return f"the {kind}" if library == "builtins" else f"the {library} {kind}"


def rereadable(source: Any) -> bool:
    """Return whether a log can be read more than once: a pipe, an iterator or a stream of batches cannot.

    >>> rereadable("-"), rereadable(iter([])), rereadable("log.csv"), rereadable(["log.csv", "-"])
    (False, False, True, False)
    """
    if isinstance(source, str | os.PathLike):
        return source != "-" and (is_uri(os.fspath(source)) or not Path(source).is_fifo())
    if isinstance(source, list | tuple):
        return all(map(rereadable, source))
    if hasattr(source, "read"):
        return is_seekable(source)
    if is_live(source):
        return False
    return not hasattr(source, "__next__") and type(source).__name__ != "Scanner"


def is_live(source: Any) -> bool:
    """Return whether a log may grow while it is read: a stream, or a file that is followed."""
    return isinstance(source, GrowingFile | Stream)


def reopenable(source: Any) -> bool:
    """Return whether a log can be read a second time while it is being read; a database does one thing at a time."""
    if isinstance(source, list | tuple):
        return all(map(reopenable, source))
    return rereadable(source) and not is_relation(source)


def exists(source: Any) -> bool:
    """Return whether a log is there to be read again: some of its files, if it has files.

    >>> exists("-"), exists("no such file"), exists([])
    (False, False, False)
    """
    if is_stream(source):
        return True
    if isinstance(source, list | tuple):
        return any(map(exists, source))
    try:
        return rereadable(source) and any(True for _ in _parts(source))
    except SettingError:
        return False


def _parts(source: Any, name: str = "") -> Iterator[Openable]:
    if isinstance(source, str | os.PathLike):
        if source == "-":
            yield _Unopened(lambda: open_handle("standard input", sys.stdin.buffer, seek=False))
        else:
            yield from find_files(os.fspath(source))
    elif isinstance(source, Extent | GrowingFile):
        yield source
    elif is_frame(source):
        yield _Unopened(lambda: open_frame(name or log_name(source), source))
    elif hasattr(source, "read"):
        yield _Unopened(lambda: open_handle(log_name(source), source, seek=is_seekable(source)))
    elif isinstance(source, list | tuple) or hasattr(source, "__next__"):
        for number, one in enumerate(source, 1):
            yield from _parts(one, f"frame {number}")
    else:
        raise SettingError(
            f"{log_name(source)} is no log: give a path or several, a glob, a folder, a URI, '-' for standard input, "
            "an open file, a data frame (pandas, polars, pyarrow, DuckDB), a pyarrow Dataset, or an iterator of these"
        )


def files_of(source: Any) -> list[File] | None:
    """Return the files of a log; None if some of it is no file, such as a data frame."""
    found = list(_each_once(_parts(source))) if rereadable(source) else []
    files = [part for part in found if isinstance(part, File)]
    return files if files and len(files) == len(found) else None


@dataclass(frozen=True)
class _Unopened:
    """A part that is no file."""

    open: Callable[[], AbstractContextManager[Part | None]]
    partition: Mapping[str, str | None] = field(default_factory=dict)
    size: int | None = None
    begin: int = 0
