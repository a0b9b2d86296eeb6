"""Handles: files that the caller has opened, and standard input. They are left open."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from inferl.errors import SettingError
from inferl.sources.logs.inputs.readers import READ, Part, import_pyarrow, read_part

__all__ = ["is_seekable", "open_handle"]


def is_seekable(handle: Any) -> bool:
    """Return whether an open file can be read again from its beginning."""
    seekable = getattr(handle, "seekable", None)
    return bool(seekable and seekable())


@contextmanager
def open_handle(name: str, handle: Any, seek: bool) -> Iterator[Part | None]:
    """Read an open file, from its beginning if it can `seek`, else from where it stands."""
    if isinstance(handle, io.TextIOBase):
        handle = getattr(handle, "buffer", None)
        if handle is None:
            raise SettingError(f"{name} is open as text; open it as bytes, with open(path, 'rb')")
    if not seek and hasattr(handle, "peek") and hasattr(handle, "read1"):
        yield read_part(name, handle)  # without a second buffer, which would wait until it is full
        return
    raw: Any = handle
    if seek:
        raw = _View(handle)
    elif not hasattr(handle, "readinto"):
        raw = import_pyarrow().PythonFile(handle, "r")
    buffered = io.BufferedReader(raw, READ)
    try:
        yield read_part(name, buffered, _View(handle) if seek else None)
    finally:
        buffered.detach()  # else it would be closed


class _View(io.RawIOBase):
    """An open file with a position of its own, so that it can be read twice at the same time."""

    def __init__(self, handle: Any) -> None:
        self._handle, self._at = handle, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if whence == io.SEEK_CUR:
            offset, whence = self._at + offset, io.SEEK_SET
        self._at = self._handle.seek(offset, whence)
        return self._at

    def readinto(self, buffer: Any) -> int:
        self._handle.seek(self._at)
        data = self._handle.read(len(buffer))
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)
