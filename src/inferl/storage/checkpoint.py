"""Checkpoints: dataclasses of arrays and plain values in one versioned file, without pickle.

The file is an uncompressed NumPy archive. Its member ``header`` is JSON: the format's name and version, then the tree
of objects, with arrays replaced by the names of their members. Its member ``digest`` is a checksum of all others.

A file is not trusted. The checksum detects damage, but a valid checksum does not make a state valid: only classes that
the reader lists are built, with exactly their fields, each of the type of its annotation. Then the checks of the class
itself run, `__post_init__` and `verify` (see `inferl.data.invariants`).
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import secrets
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from functools import cache
from math import prod
from pathlib import Path
from types import NoneType, UnionType
from typing import IO, Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from inferl.errors import (
    CheckpointCorruptError,
    CheckpointError,
    CheckpointMismatchError,
    CheckpointVersionError,
)

__all__ = ["digest_of", "fits", "read_checkpoint", "refused", "replacing", "write_checkpoint"]

FORMAT = "inferl checkpoint"
VERSION = 13
DEEPEST = 32  # levels of nested objects

Array = np.ndarray[Any, Any]
_READERS = {
    "SavedEvaluator": "an evaluator, which Evaluator.load reads",
    "SavedRun": "a run, which runs.Run.load reads",
}


def write_checkpoint(path: str | os.PathLike[str], content: Any) -> None:
    """Write `content` to `path` so that a crash leaves either the old file or the new one."""
    arrays: dict[str, Array] = {}
    header = {"format": FORMAT, "version": VERSION, "content": _encoded(content, arrays)}
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    arrays["digest"] = _digest(arrays)
    with replacing(path) as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]  # no array is named allow_pickle


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a file that takes the place of `path` at the end, so that a crash leaves either the old file or the new."""
    target = Path(path)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    # With the default permissions of a new file; O_EXCL does not follow a link that is already there.
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def digest_of(content: Any) -> str:
    """Return a digest of what `write_checkpoint` would write: the same for the same content, wherever it is computed.

    >>> digest_of({"x": np.arange(3)}) == digest_of({"x": np.arange(3)}) != digest_of({"x": np.arange(4)})
    True
    """
    arrays: dict[str, Array] = {}
    arrays["header"] = np.frombuffer(json.dumps(_encoded(content, arrays)).encode(), dtype=np.uint8)
    return _digest(arrays).tobytes().hex()


def read_checkpoint(path: str | os.PathLike[str], classes: Iterable[type], kind: Any = Any) -> Any:
    """Read a checkpoint; `classes` are those it may contain, `kind` is the type of the whole content."""
    known = {cls.__name__: cls for cls in classes}
    content = Path(path).read_bytes()
    with refused(path):
        arrays = _members(content)
        header = json.loads(arrays["header"].tobytes().decode())
        if not isinstance(header, dict) or header.get("format") != FORMAT:
            raise CheckpointCorruptError("it is a NumPy archive of something else")
        _check_version(path, header["version"])
        if not np.array_equal(arrays.pop("digest"), _digest(arrays)):
            raise CheckpointCorruptError("its checksum is not that of its content")
        del arrays["header"]
        _check_root(path, header["content"], kind)
        whole = _decoded(header["content"], arrays, known)
        if arrays or not fits(whole, kind):
            raise CheckpointCorruptError(f"{', '.join(arrays) or 'its content'} does not belong there")
        return whole


@contextmanager
def refused(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn any error while a file is read into one that names the file."""
    try:
        yield
    except (CheckpointVersionError, CheckpointMismatchError, MemoryError):
        raise
    except Exception as error:
        raise CheckpointCorruptError(
            f"{path} is damaged, truncated or not a checkpoint of inferl ({error}); use an earlier one"
        ) from error


# Bytes and arrays.


def _members(content: bytes) -> dict[str, Array]:
    """Read all arrays of an archive; their sizes may not add up to more than the file has."""
    left = len(content)
    arrays: dict[str, Array] = {}
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        for member in archive.infolist():
            left -= member.file_size
            name = member.filename.removesuffix(".npy")
            stored = member.compress_type == zipfile.ZIP_STORED and member.compress_size == member.file_size
            if left < 0 or not stored or name in arrays:
                raise CheckpointCorruptError(f"{member.filename} is compressed, too long, or there twice")
            arrays[name] = _array(name, archive.read(member))
    return arrays


def _array(name: str, content: bytes) -> Array:
    """Read one array; the header is verified before memory is allocated, which NumPy does not do."""
    file = io.BytesIO(content)
    if np.lib.format.read_magic(file) != (1, 0):
        raise CheckpointCorruptError(f"{name} is no array")
    shape, by_columns, dtype = np.lib.format.read_array_header_1_0(file)
    start = file.tell()
    whole = all(type(size) is int and size >= 0 for size in shape)
    if not whole or dtype.kind not in "biuf" or prod(shape) * dtype.itemsize != len(content) - start:
        raise CheckpointCorruptError(f"{name} cannot have shape {shape} and type {dtype}")
    # A copy, which is writable and aligned.
    array: Array = np.ndarray(shape, dtype, content, start, order="F" if by_columns else "C").copy(order="A")
    if dtype.kind == "b" and (array.view(np.uint8) > 1).any():
        raise CheckpointCorruptError(f"{name} holds truth values that are neither true nor false")
    return array


def _digest(arrays: Mapping[str, Array]) -> Array:
    """Return a checksum of names, types, shapes and bytes."""
    digest = hashlib.blake2b(digest_size=32)
    for name in sorted(arrays):
        digest.update(f"{name} {arrays[name].dtype.str} {arrays[name].shape}\n".encode())
        digest.update(np.ascontiguousarray(arrays[name]).reshape(-1).view(np.uint8).data)
    return np.frombuffer(digest.digest(), np.uint8)


# The header.


def _check_version(path: str | os.PathLike[str], version: int) -> None:
    if type(version) is not int:
        raise CheckpointCorruptError(f"its version is {version!r}")
    if version == VERSION:
        return
    which, remedy = ("newer", "upgrade inferl") if version > VERSION else ("older", "run the evaluation again")
    raise CheckpointVersionError(
        f"{path} has the {which} format {version}, and this version of inferl reads format {VERSION}: {remedy}"
    )


def _check_root(path: str | os.PathLike[str], tree: Any, kind: Any) -> None:
    """Refuse a valid checkpoint of another kind, with a hint how to read it."""
    held = tree.get("class") if isinstance(tree, dict) else None
    if kind is not Any and held != kind.__name__ and held in _READERS:
        raise CheckpointMismatchError(f"{path} is a checkpoint of {_READERS[held]}")


def _encoded(value: Any, arrays: dict[str, Array], depth: int = 0) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic) and value.dtype.kind in "biuf":
        return value.item()
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        name = f"array{len(arrays)}"
        arrays[name] = value
        return {"array": name}
    if depth == DEEPEST:
        raise CheckpointError(f"objects nested {depth} levels deep cannot be stored")
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {"dict": {key: _encoded(item, arrays, depth + 1) for key, item in value.items()}}
    if isinstance(value, tuple):
        return {"tuple": [_encoded(item, arrays, depth + 1) for item in value]}
    if is_dataclass(value) and not isinstance(value, type):
        members = {f.name: _encoded(getattr(value, f.name), arrays, depth + 1) for f in fields(value)}
        return {"class": type(value).__name__, "fields": members}
    what = f"an array of {value.dtype}" if isinstance(value, np.ndarray) else f"a {type(value).__name__}"
    raise CheckpointError(
        f"{what} cannot be stored; a checkpoint holds numbers, strings, numeric arrays, tuples, dicts with strings as "
        "keys, and dataclasses"
    )


def _decoded(tree: Any, arrays: dict[str, Array], known: Mapping[str, type], depth: int = 0) -> Any:
    """Build the object that a node of the header describes; each array is used once."""
    if tree is None or isinstance(tree, bool | int | float | str):
        return tree
    if depth > DEEPEST:
        raise CheckpointCorruptError(f"objects are nested more than {DEEPEST} levels deep")
    match tree:
        case {"array": str(name), **rest} if not rest:
            return arrays.pop(name)
        case {"dict": dict(items), **rest} if not rest:
            return {key: _decoded(item, arrays, known, depth + 1) for key, item in items.items()}
        case {"tuple": list(items), **rest} if not rest:
            return tuple(_decoded(item, arrays, known, depth + 1) for item in items)
        case {"class": str(name), "fields": dict(members), **rest} if not rest:
            if name not in known:
                raise CheckpointMismatchError(
                    f"the file holds a {name!r}, which is not known here; if it belongs to a method of yours or of "
                    "another package, import that first; pass an algorithm of yours to load(path, algorithm)"
                )
            return _built(known[name], {key: _decoded(item, arrays, known, depth + 1) for key, item in members.items()})
    raise CheckpointCorruptError(f"{str(tree)[:60]} does not describe an object")


# Objects.


def _built(cls: Any, members: dict[str, Any]) -> Any:
    """Build an object from its members, and verify it."""
    kinds = _kinds(cls)
    if members.keys() != kinds.keys():
        names = ", ".join(sorted(members.keys() ^ kinds.keys()))
        raise CheckpointCorruptError(f"{cls.__name__} has missing or unknown fields: {names}")
    new = object.__new__(cls)
    for name, value in members.items():
        if not fits(value, kinds[name]):
            raise CheckpointCorruptError(f"{cls.__name__}.{name} cannot be {_shown(value)}")
        object.__setattr__(new, name, value)
    for check in ("__post_init__", "verify"):
        if hasattr(new, check):
            getattr(new, check)()
    return new


def fits(value: Any, kind: Any) -> bool:
    """Return whether a value has the type of an annotation; integers also count as floats, and have 64 bits.

    >>> fits((1, None), tuple[float, int | None]), fits(True, int), fits(np.zeros(2), np.ndarray)
    (True, False, True)
    """
    origin, inner = get_origin(kind), get_args(kind)
    if kind is Any:
        return True
    if hasattr(origin, "__value__"):  # an alias by the `type` statement, as `NDArray` is in newer NumPy
        return fits(value, origin.__value__[inner])
    if origin in (Union, UnionType):
        return any(fits(value, one) for one in inner)
    if origin is Literal:
        return value in inner
    if origin is np.ndarray:
        (scalar,) = get_args(inner[1])
        return isinstance(value, np.ndarray) and (scalar is Any or value.dtype == scalar)
    if origin in (tuple, list):
        if not isinstance(value, tuple):
            return False
        if origin is list or inner[1:] == (...,):
            return all(fits(item, inner[0]) for item in value)
        return len(value) == len(inner) and all(map(fits, value, inner))
    if origin is dict:
        return isinstance(value, dict) and all(fits(item, inner[1]) for item in value.values())
    if kind in (int, float):
        whole = type(value) is int and -(2**63) <= value < 2**64
        return whole or (kind is float and type(value) is float)
    return isinstance(value, NoneType if kind is None else kind)


@cache
def _kinds(cls: Any) -> dict[str, Any]:
    """Return the types of the fields, or Any: the annotations of a class inside a function may not be resolvable."""
    names = [f.name for f in fields(cls)]
    try:
        hints = get_type_hints(cls)
    except NameError:
        return dict.fromkeys(names, Any)
    return {name: hints[name] for name in names}


def _shown(value: Any) -> str:
    return f"an array {value.shape} of {value.dtype}" if isinstance(value, np.ndarray) else f"{value!r}"[:60]
