"""Checkpoints: dataclasses of arrays and plain values in one versioned file, without pickle.

The file is a NumPy archive whose member ``header`` is JSON: the format's name and version, then the tree of objects,
with arrays replaced by the names of their members. Only the classes that the reader names are ever built.
"""

from __future__ import annotations

import json
import os
import tempfile
import zipfile
from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from inferl.errors import (
    CheckpointCorruptError,
    CheckpointError,
    CheckpointMismatchError,
    CheckpointVersionError,
)

__all__ = ["read_checkpoint", "write_checkpoint"]

FORMAT = "inferl checkpoint"
VERSION = 4

# What NumPy, zipfile and JSON raise between them when bytes are missing or changed.
_DAMAGES = (
    zipfile.BadZipFile,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    EOFError,
    OSError,
    RuntimeError,
)


def write_checkpoint(path: str | os.PathLike[str], content: Any) -> None:
    """Write `content` to `path` so that a crash leaves either the old file or the new one."""
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    header = {"format": FORMAT, "version": VERSION, "content": _encoded(content, arrays)}
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    target = Path(path)
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        os.chmod(temporary, 0o666 & ~_umask())  # as any new file, not private as a temporary one
        with os.fdopen(handle, "wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]  # no array is named allow_pickle
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def read_checkpoint(path: str | os.PathLike[str], classes: Iterable[type], entry: str | None = None) -> Any:
    """Read what `write_checkpoint` wrote; `classes` are those it may contain, `entry` a key that it must have."""
    known = {cls.__name__: cls for cls in classes}
    try:
        with Path(path).open("rb") as file, np.load(file, allow_pickle=False) as archive:
            header = json.loads(bytes(archive["header"]).decode())
            if not isinstance(header, dict) or header.get("format") != FORMAT:
                raise CheckpointCorruptError(f"{path} is a NumPy archive, but not a checkpoint of inferl")
            _check_version(path, header["version"])
            if entry is not None:
                _check_entry(path, header["content"], entry)
            return _decoded(header["content"], archive, known)
    except (FileNotFoundError, IsADirectoryError, PermissionError):
        raise
    except _DAMAGES as error:
        raise CheckpointCorruptError(
            f"{path} is truncated or not a checkpoint of inferl ({error}); use an earlier one"
        ) from error


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _check_version(path: str | os.PathLike[str], version: int) -> None:
    if version == VERSION:
        return
    which, remedy = ("newer", "upgrade inferl") if version > VERSION else ("older", "run the evaluation again")
    raise CheckpointVersionError(
        f"{path} has the {which} format {version}, and this version of inferl reads format {VERSION}: {remedy}"
    )


def _check_entry(path: str | os.PathLike[str], content: Any, entry: str) -> None:
    """Tell files of one kind from those of another by what they hold."""
    held = content.get("dict", {}) if isinstance(content, dict) else {}
    if entry not in held:
        instead = "; it is of a run, which inferl.runs.Run.load reads" if "run" in held else ""
        what = "a run" if entry == "run" else "an evaluator"
        raise CheckpointMismatchError(f"{path} is a checkpoint, but not of {what}{instead}")


def _encoded(value: Any, arrays: dict[str, np.ndarray[Any, Any]]) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        name = f"array{len(arrays)}"
        arrays[name] = value
        return {"array": name}
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {"dict": {key: _encoded(item, arrays) for key, item in value.items()}}
    if isinstance(value, tuple):
        return {"tuple": [_encoded(item, arrays) for item in value]}
    if is_dataclass(value) and not isinstance(value, type):
        members = {f.name: _encoded(getattr(value, f.name), arrays) for f in fields(value)}
        return {"class": type(value).__name__, "fields": members}
    what = "array of objects" if isinstance(value, np.ndarray) else type(value).__name__
    raise CheckpointError(
        f"a {what} cannot be stored; keep functions out of what is saved and hand them in when loading"
    )


def _decoded(tree: Any, archive: Any, known: dict[str, type]) -> Any:
    if not isinstance(tree, dict):
        return tree
    if "array" in tree:
        return archive[tree["array"]]
    if "dict" in tree:
        return {key: _decoded(item, archive, known) for key, item in tree["dict"].items()}
    if "tuple" in tree:
        return tuple(_decoded(item, archive, known) for item in tree["tuple"])
    if tree["class"] not in known:
        raise CheckpointCorruptError(f"the checkpoint holds a {tree['class']!r}, which this version does not know")
    new: Any = object.__new__(known[tree["class"]])  # as it was: nothing is computed or checked again
    for name, item in tree["fields"].items():
        object.__setattr__(new, name, _decoded(item, archive, known))
    return new
