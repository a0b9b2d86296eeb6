"""Files: those that a path, a glob, a folder or a URI names, in a fixed order.

Files are sorted by path; numbers in a path are compared as numbers, so part-2 comes before part-10. In a folder, all
files are read, also those of folders in it, except those whose name begins with a dot or an underscore.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from inferl.errors import InferlError, MissingExtraError, SettingError
from inferl.sources.logs.inputs.readers import READ, Part, import_pyarrow, read_part

__all__ = ["File", "find_files", "is_uri", "natural"]

_WILD = re.compile(r"[*?\[]")
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True)
class File:
    """A file of a log; `system` is the pyarrow filesystem on which it is, None for the local one."""

    name: str  # for messages
    path: str
    system: Any = None
    size: int | None = None

    @property
    def begin(self) -> int:
        """Rows before the first one (none, as a file is read from its beginning)."""
        return 0

    @property
    def partition(self) -> dict[str, str | None]:
        """The columns that are said by the folders, as Hive writes them.

        >>> File("", "log/day=3/ward=a%2Fb/part-0.parquet").partition
        {'day': '3', 'ward': 'a/b'}
        """
        pairs = (folder.split("=", 1) for folder in re.split(r"[/\\]", self.path)[:-1] if "=" in folder)
        return {key: None if value == _NO_VALUE else unquote(value) for key, value in pairs if key}

    @contextmanager
    def open(self) -> Iterator[Part | None]:
        """Open the file and recognise its format; None if it is empty."""
        with _refusal(self.name):
            file: Any = io.FileIO(self.path) if self.system is None else self.system.open_input_file(self.path)
        with file, io.BufferedReader(file, READ) as buffered:
            access = file if self.system is not None else self.path if file.seekable() else None
            yield read_part(self.name, buffered, access)


def natural(path: str) -> list[Any]:
    """Return the key by which paths are sorted.

    >>> sorted(["b/1", "a/part-10", "a/part-2", "a-z/0"], key=natural)
    ['a/part-2', 'a/part-10', 'a-z/0', 'b/1']
    """
    folders = re.split(r"[/\\]", path)
    # Text and numbers alternate, so that a number is never compared with text.
    return [[int(part) if i % 2 else part for i, part in enumerate(re.split("([0-9]+)", f))] for f in folders] + [path]


def is_uri(path: str) -> bool:
    """Return whether a path says on which filesystem it is.

    >>> is_uri("s3://bucket/log"), is_uri("C:/log"), is_uri("log.csv")
    (True, False, False)
    """
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", path) is not None


def find_files(path: str) -> list[File]:
    """Return the files that a path, a glob, a folder or a URI names."""
    with _refusal(path):
        system, place, prefix = _located(path)
        found = _files(system, place)
    if found is None:
        if _WILD.search(path):
            raise SettingError(f"no file matches {path}")
        raise SettingError(f"there is no file {path}")
    if not found:
        raise SettingError(f"there are no files in {path}")
    local = None if prefix is None else system
    return [
        File(path if prefix is None else prefix + path.lstrip("/"), path, local, size) for path, size in found.items()
    ]


@contextmanager
def _refusal(name: str) -> Iterator[None]:
    """Say in our words why a file cannot be opened."""
    try:
        yield
    except InferlError:
        raise
    except Exception as error:  # each filesystem has exceptions of its own
        why = (getattr(error, "strerror", None) or " ".join(str(error).split())).rstrip(".")
        raise SettingError(f"{name} cannot be opened: {why}") from None


def _located(path: str) -> tuple[Any, str, str | None]:
    """Return a pyarrow filesystem, the path on it, and what stands before a path in a name; None: it is local."""
    import_pyarrow()
    from pyarrow import fs

    if not is_uri(path):
        return fs.LocalFileSystem(), path, None
    scheme = path.partition("://")[0]
    base, wild = _split(path)  # a URI has no wildcards: they are put on again
    try:
        system, place = fs.FileSystem.from_uri(base)
    except ValueError:  # a scheme that Arrow does not know
        system, place = _by_fsspec(base)
    if wild:
        place = f"{place.rstrip('/')}/{wild}"
    return system, place, None if scheme == "file" else f"{scheme}://"


def _by_fsspec(uri: str) -> tuple[Any, str]:
    from pyarrow import fs

    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise MissingExtraError("fsspec", "remote") from None
    try:
        system, place = url_to_fs(uri)
    except ImportError as error:
        raise SettingError(f"{uri} cannot be opened: {error}") from None
    return fs.PyFileSystem(fs.FSSpecHandler(system)), str(place)


def _files(system: Any, path: str) -> dict[str, int | None] | None:
    """Return the files that a path names, sorted, with their sizes; None if nothing is there."""
    from pyarrow.fs import FileSelector, FileType

    (info,) = system.get_file_info([path])
    if info.type == FileType.NotFound:
        sizes: dict[str, int | None] = {}
        for one in _matching(system, path) if _WILD.search(path) else ():
            sizes |= _files(system, one) or {}
        return dict(sorted(sizes.items(), key=lambda item: natural(item[0]))) or None
    if info.type != FileType.Directory:
        return {path: info.size}
    inside = system.get_file_info(FileSelector(path, recursive=True))
    if any("/_delta_log/" in one.path for one in inside):
        raise SettingError(
            f"{path} is a Delta table, which keeps files of earlier versions; read it with the package deltalake, "
            "DeltaTable(path).to_pyarrow_dataset()"
        )
    visible = _pattern("**/*")
    sizes = {one.path: one.size for one in inside if one.type == FileType.File}
    return {file: sizes[file] for file in sorted(sizes, key=natural) if visible.fullmatch(_below(path, file))}


def _matching(system: Any, glob: str) -> list[str]:
    """Return the files and folders that match a glob."""
    from pyarrow.fs import FileSelector

    base, pattern = _split(glob)
    selector = FileSelector(base or ".", allow_not_found=True, recursive="/" in pattern)
    paths = (one.path if base else one.path.removeprefix("./") for one in system.get_file_info(selector))
    wanted = _pattern(pattern)
    return [path for path in paths if wanted.fullmatch(_below(base, path))]


def _split(glob: str) -> tuple[str, str]:
    """Split a glob before its first name that has wildcards.

    >>> _split("logs/2024/*/part-?.csv"), _split("*.csv")
    (('logs/2024/', '*/part-?.csv'), ('', '*.csv'))
    """
    wild = _WILD.search(glob)
    cut = len(glob) if wild is None else glob.rfind("/", 0, wild.start()) + 1
    return glob[:cut], glob[cut:]


def _below(folder: str, path: str) -> str:
    return path[len(folder.rstrip("/")) :].lstrip("/") if folder else path


def _pattern(glob: str) -> re.Pattern[str]:
    """Return a glob as a regular expression; ``*`` does not match names that begin with a dot or an underscore.

    >>> [path for path in ("a.csv", "b/c.csv", "b/_c.csv", ".b/c.csv") if _pattern("**/*.csv").fullmatch(path)]
    ['a.csv', 'b/c.csv']
    >>> [path for path in ("[1].csv", "1.csv", "!.csv") if _pattern("[[1!]*.csv").fullmatch(path)]
    ['[1].csv', '1.csv', '!.csv']
    """
    visible = "(?![._])"
    out = re.sub(
        r"(?P<deep>(?:(?<=/)|^)\*\*/)|(?P<first>(?:(?<=/)|^)\*+)|(?P<any>\*+)|(?P<one>\?)|(?P<set>\[[^]]+\])|(?P<text>.)",
        lambda m: {
            "deep": f"(?:{visible}[^/]*/)*",
            "first": f"{visible}[^/]*",
            "any": "[^/]*",
            "one": "[^/]",
            "set": re.sub(r"^\[!", "[^", m[0][:1] + m[0][1:].replace("[", r"\[")),
            "text": re.escape(m[0]),
        }[m.lastgroup or "text"],
        glob,
    )
    return re.compile(out, re.DOTALL)
