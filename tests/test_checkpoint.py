"""Checkpoints: what is written comes back, damage has a name, a crash loses nothing, nothing is ever unpickled."""

from __future__ import annotations

import gc
import json
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_numpy

from inferl import checkpoint
from inferl.checkpoint import read_checkpoint, write_checkpoint
from inferl.errors import CheckpointCorruptError, CheckpointError, CheckpointVersionError
from inferl.increments import Increments
from inferl.streams import Streams
from inferl.vectors import Sparse, one_hot


@dataclass(frozen=True, eq=False)
class Leaf:
    values: Any
    name: str = "leaf"


@dataclass(eq=False)
class Tree:
    leaf: Any
    table: dict[str, Any]
    pair: tuple[Any, ...]
    nothing: None = None
    computed: int = field(default=0, init=False)


CLASSES = (Leaf, Tree)


def small_tree() -> Tree:
    tree = Tree(
        Leaf(np.arange(6.0).reshape(2, 3)),
        {"ü": Leaf(np.array([True, False]), "flags"), "empty": {}},
        (1, -0.1, None, True, "text", ("nested", np.array(7)), ()),
    )
    tree.computed = 2**63
    return tree


def same(a: Any, b: Any) -> bool:
    """Compare values of equal types, inside out."""
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        return bool(a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes())
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, CLASSES):
        return all(same(getattr(a, f.name), getattr(b, f.name)) for f in fields(a))
    if isinstance(a, float):
        # What bits a NaN has besides being one means nothing, and JSON does not keep them.
        return bool(np.float64(a).tobytes() == np.float64(b).tobytes() or (np.isnan(a) and np.isnan(b)))
    return bool(a == b)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.npz"


# There and back.


def test_tree_comes_back(path: Path) -> None:
    write_checkpoint(path, small_tree())
    assert same(read_checkpoint(path, CLASSES), small_tree())


ARRAYS = st_numpy.arrays(
    st.sampled_from([np.dtype(kind) for kind in ("f8", "f4", "i8", "u8", "?", ">f8")]),
    st_numpy.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3),
)
PLAIN = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=5)
KEYS = st.text(max_size=4) | st.sampled_from(["array", "dict", "tuple", "class", "header"])
CONTENT = st.recursive(
    PLAIN | ARRAYS,
    lambda inner: (
        st.dictionaries(KEYS, inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.builds(Leaf, inner)
        | st.builds(Tree, inner, st.dictionaries(KEYS, inner, max_size=2), st.tuples(inner))
    ),
    max_leaves=6,
)


@given(content=CONTENT)
def test_whatever_can_be_written_comes_back(content: Any, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("checkpoint") / "any name, no suffix"
    write_checkpoint(str(path), content)
    assert same(read_checkpoint(str(path), CLASSES), content)


def test_classes_of_the_package_come_back(path: Path) -> None:
    index = one_hot(np.array([1, 0]), 2)
    increments = Increments(index, index, np.ones((2, 1)), np.zeros(2), np.ones(2))
    write_checkpoint(path, (Streams(), increments, np.broadcast_to(np.eye(2), (3, 2, 2)), np.arange(6)[::2]))
    streams, back, eyes, every_other = read_checkpoint(path, [Streams, Increments, Sparse])
    assert (streams.n, streams.label.dtype) == (0, np.int64)
    assert isinstance(back.u, Sparse)
    assert np.array_equal(back.u.index, index.index)
    assert (eyes.tolist(), every_other.tolist()) == ([np.eye(2).tolist()] * 3, [0, 2, 4])
    eyes[0] = 5.0  # arrays that come back can be worked on


@pytest.mark.parametrize("key", [1, None, ("a", 1)])
def test_keys_that_are_not_text_are_refused(path: Path, key: Any) -> None:
    """JSON would turn them into text without a word."""
    with pytest.raises(CheckpointError):
        write_checkpoint(path, {key: 2})
    assert not path.exists()


# What cannot be stored.


@pytest.mark.parametrize(
    "content",
    [len, lambda x: x, Leaf, [1, 2], {1, 2}, 1j, Leaf(len), {"a": (object(),)}],
    ids=["function", "lambda", "class", "list", "set", "complex", "function inside", "object inside"],
)
def test_what_cannot_be_stored_is_refused(path: Path, content: Any) -> None:
    write_checkpoint(path, "old")
    with pytest.raises(CheckpointError, match="cannot be stored"):
        write_checkpoint(path, content)
    assert read_checkpoint(path, ()) == "old"
    assert list(path.parent.iterdir()) == [path]


def test_object_arrays_are_refused_not_pickled(path: Path) -> None:
    with pytest.raises(CheckpointError, match="object"):
        write_checkpoint(path, Leaf(np.array([{}, len], dtype=object)))
    assert list(path.parent.iterdir()) == []


class Bomb:
    """Explodes when it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (pytest.fail, ("something was unpickled",))


def test_pickles_are_not_read(path: Path) -> None:
    header = {"format": checkpoint.FORMAT, "version": checkpoint.VERSION, "content": {"array": "array0"}}
    with path.open("wb") as file:
        np.savez(file, header=as_bytes(header), array0=np.array([Bomb()], dtype=object))
    with pytest.raises(CheckpointCorruptError):
        read_checkpoint(path, ())
    np.save(path.with_suffix(".npy"), np.array([Bomb()], dtype=object))
    with pytest.raises(CheckpointCorruptError):
        read_checkpoint(path.with_suffix(".npy"), ())


# Damage.


def as_bytes(header: Any) -> Any:
    return np.frombuffer(json.dumps(header).encode(), np.uint8)


def write_header(path: Path, header: Any) -> None:
    with path.open("wb") as file:
        np.savez(file, header=as_bytes(header))


def test_truncated_anywhere(path: Path) -> None:
    write_checkpoint(path, small_tree())
    whole = path.read_bytes()
    for size in [*range(0, len(whole), 37), len(whole) - 1]:
        path.write_bytes(whole[:size])
        with pytest.raises(CheckpointCorruptError, match=r"run\.npz is truncated or not a checkpoint"):
            read_checkpoint(path, CLASSES)


def test_a_flipped_bit_is_found_or_harmless(path: Path) -> None:
    write_checkpoint(path, small_tree())
    whole = path.read_bytes()
    found = 0
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << place % 8
        path.write_bytes(damaged)
        try:
            content = read_checkpoint(path, CLASSES)
        except CheckpointCorruptError:
            found += 1
        else:
            assert same(content, small_tree()), place
    assert found > len(whole) / 2


def test_a_damaged_file_is_closed_again(path: Path) -> None:
    """An open handle is a ResourceWarning here, and keeps Windows from replacing the file."""
    path.write_bytes(b"PK\x03\x04 and then nothing of an archive")
    with pytest.raises(CheckpointCorruptError):
        read_checkpoint(path, ())
    gc.collect()  # pytest turns the warning of a forgotten file into a failure
    path.unlink()


@pytest.mark.parametrize(
    "garbage",
    [b"", b"x", b"PK\x03\x04", b"\x93NUMPY\x01\x00", b"\x80\x04K\x01.", bytes(range(256)) * 20],
    ids=["empty", "a letter", "zip magic", "npy magic", "a pickle", "noise"],
)
def test_garbage(path: Path, garbage: bytes) -> None:
    path.write_bytes(garbage)
    with pytest.raises(CheckpointCorruptError, match=r"run\.npz.*not a checkpoint"):
        read_checkpoint(path, CLASSES)


def test_other_peoples_arrays(path: Path) -> None:
    np.savez(path, x=np.ones(3))
    with pytest.raises(CheckpointCorruptError, match="not a checkpoint"):
        read_checkpoint(path, CLASSES)
    np.save(path.with_suffix(".npy"), np.ones(3))
    with pytest.raises(CheckpointCorruptError, match="not a checkpoint"):
        read_checkpoint(path.with_suffix(".npy"), CLASSES)


SOUND = {"format": "inferl checkpoint", "version": checkpoint.VERSION}
BROKEN: dict[str, Any] = {
    "not an object": [1, 2],
    "another format": {"format": "something else", "version": checkpoint.VERSION, "content": 1},
    "no format": {"version": checkpoint.VERSION, "content": 1},
    "no version": {"format": "inferl checkpoint", "content": 1},
    "version is text": SOUND | {"version": "one", "content": 1},
    "no content": SOUND,
    "a missing array": SOUND | {"content": {"array": "array7"}},
    "an unknown node": SOUND | {"content": {"what": 1}},
    "a dict that is none": SOUND | {"content": {"dict": [1]}},
    "a tuple that is none": SOUND | {"content": {"tuple": 1}},
    "fields that are none": SOUND | {"content": {"class": "Leaf", "fields": [1]}},
    "no fields": SOUND | {"content": {"class": "Leaf"}},
}


@pytest.mark.parametrize("header", BROKEN.values(), ids=BROKEN)
def test_broken_headers(path: Path, header: Any) -> None:
    write_header(path, header)
    with pytest.raises(CheckpointCorruptError, match=r"run\.npz"):
        read_checkpoint(path, CLASSES)


def test_header_that_is_not_json(path: Path) -> None:
    np.savez(path, header=np.frombuffer(b"{not json", np.uint8))
    with pytest.raises(CheckpointCorruptError):
        read_checkpoint(path, CLASSES)


@pytest.mark.parametrize(
    ("version", "message"), [(checkpoint.VERSION + 1, "newer.*upgrade"), (1000, "newer.*upgrade"), (0, "older.*again")]
)
def test_other_versions(path: Path, version: int, message: str) -> None:
    write_header(path, {"format": checkpoint.FORMAT, "version": version, "content": {"only they": "know"}})
    with pytest.raises(CheckpointVersionError, match=rf"run\.npz.*{message}"):
        read_checkpoint(path, CLASSES)


def test_version_is_written(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_checkpoint(path, 1)
    now = checkpoint.VERSION
    monkeypatch.setattr(checkpoint, "VERSION", now + 1)
    with pytest.raises(CheckpointVersionError, match=rf"older format {now}, .* reads format {now + 1}"):
        read_checkpoint(path, ())


def test_classes_that_the_reader_does_not_name_are_not_built(path: Path) -> None:
    write_checkpoint(path, Leaf(1))
    with pytest.raises(CheckpointCorruptError, match=r"'Leaf'.*does not know"):
        read_checkpoint(path, [Tree])


def test_missing_file_is_the_usual_error(path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_checkpoint(path, CLASSES)


# Crashes.


@pytest.mark.parametrize("crash", [OSError("disk full"), KeyboardInterrupt()], ids=["disk full", "interrupt"])
@pytest.mark.parametrize("moment", ["savez", "fsync", "replace"])
def test_crash_while_writing_keeps_the_old_file(
    path: Path, monkeypatch: pytest.MonkeyPatch, moment: str, crash: BaseException
) -> None:
    write_checkpoint(path, "old")

    def half_written(file: Any, *_: Any, **__: Any) -> None:
        file.write(b"PK\x03\x04 half of the new file")
        raise crash

    def raising(*_: Any) -> None:
        raise crash

    if moment == "savez":
        monkeypatch.setattr(np, "savez", half_written)
    else:
        monkeypatch.setattr(checkpoint.os, moment, raising)  # type: ignore[attr-defined]
    with pytest.raises(type(crash)):
        write_checkpoint(path, small_tree())
    monkeypatch.undo()
    assert read_checkpoint(path, ()) == "old"
    assert list(path.parent.iterdir()) == [path]


def test_new_file_replaces_the_old_one(path: Path) -> None:
    write_checkpoint(path, small_tree())
    write_checkpoint(path, "new")
    assert read_checkpoint(path, ()) == "new"
    assert list(path.parent.iterdir()) == [path]
