"""Growing files: text that another program is still writing, read to its end and then as it grows."""

from __future__ import annotations

import io
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from inferl.errors import DataError, SettingError
from inferl.sources.logs.inputs.readers import Part, codec_of, read_part

__all__ = ["GrowingFile"]

POLL = 0.1  # seconds between two looks at the file


@dataclass(frozen=True)
class GrowingFile:
    """A file whose end is not the end of the log: a reader waits there for the next line."""

    path: str
    partition: Mapping[str, str | None] = field(default_factory=dict)
    size: int | None = None
    begin: int = 0
    follow: bool = True

    @contextmanager
    def open(self) -> Iterator[Part | None]:
        """Open the file, and wait for its first line."""
        with _Tail(self.path) as tail:
            begin = tail.peek(16)
            if codec_of(begin) is not None or begin.startswith((b"PAR1", b"ARROW1", b"\xff\xff\xff\xff")):
                raise SettingError(f"{self.path} cannot be followed: only text that is not compressed grows by lines")
            yield read_part(self.path, tail)


class _Tail:
    """The bytes of a file, in order; at its end, reading waits until there are more."""

    def __init__(self, path: str) -> None:
        if not os.path.isfile(path):
            raise SettingError(f"{path} cannot be followed: it is no file; name one file of text")
        self.path, self.file, self.held = path, io.FileIO(path), b""
        self.opened = os.fstat(self.file.fileno())

    def __enter__(self) -> _Tail:
        return self

    def __exit__(self, *exception: object) -> None:
        self.file.close()

    def peek(self, size: int) -> bytes:
        """Return at least one byte, and leave it to be read."""
        while len(self.held) < size and b"\n" not in self.held:
            self.held += self._next(size)
        return self.held

    def read1(self, size: int) -> bytes:
        """Return at least one byte."""
        held, self.held = self.held, b""
        return held or self._next(size)

    def tell(self) -> int:
        """Return how many bytes were read."""
        return self.file.tell() - len(self.held)

    def would_wait(self) -> bool:
        """Return whether the end of the file has been reached."""
        return not self.held and os.fstat(self.file.fileno()).st_size <= self.file.tell()

    def _next(self, size: int) -> bytes:
        while not (data := self.file.read(size)):
            self._check()
            time.sleep(POLL)
        return bytes(data)

    def _check(self) -> None:
        """Refuse a file that was cut or replaced: it is not the one that was read."""
        try:
            now = os.stat(self.path)
        except FileNotFoundError:
            raise DataError(f"{self.path} was removed while it was followed; evaluate what continues it") from None
        if (now.st_ino, now.st_dev) != (self.opened.st_ino, self.opened.st_dev) or now.st_size < self.file.tell():
            raise DataError(
                f"{self.path} was cut off or replaced while it was followed; keep it, or evaluate the new one by itself"
            )
