"""Checkpoints: what is written comes back, nothing that is read is believed, a crash loses nothing, no code is run."""

from __future__ import annotations

import gc
import io
import json
import os
import stat
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_numpy
from typing_extensions import TypeAliasType

from inferl import TD, Evaluator, Polynomial, Transitions
from inferl.data.arrays import Floats, Integers
from inferl.data.increments import Increments
from inferl.data.streams import Streams
from inferl.data.vectors import Sparse, one_hot, terms
from inferl.errors import CheckpointCorruptError, CheckpointError, CheckpointMismatchError, CheckpointVersionError
from inferl.storage import checkpoint
from inferl.storage.checkpoint import fits, read_checkpoint, write_checkpoint


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
    index = terms([one_hot(np.array([1, 0]), 2)])
    assert isinstance(index, Sparse)
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


def write_header(path: Path, header: Any, **arrays: Any) -> None:
    """Write a file whose checksum is right, whatever it holds."""
    arrays["header"] = as_bytes(header)
    with path.open("wb") as file:
        np.savez(file, **arrays, digest=checkpoint._digest(arrays))


def forge(path: Path, change: Callable[[Any, dict[str, Any]], None]) -> None:
    """Change the tree or the arrays of a file, and make its checksum again."""
    with np.load(path) as archive:
        arrays = {name: archive[name] for name in archive if name != "digest"}
    header = json.loads(arrays.pop("header").tobytes())
    change(header["content"], arrays)
    write_header(path, header, **arrays)


def test_truncated_anywhere(path: Path) -> None:
    write_checkpoint(path, small_tree())
    whole = path.read_bytes()
    for size in [*range(0, len(whole), 37), len(whole) - 1]:
        path.write_bytes(whole[:size])
        with pytest.raises(CheckpointCorruptError, match=r"run\.npz is damaged, truncated or not a checkpoint"):
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


def test_a_changed_number_is_found_by_the_checksum(path: Path) -> None:
    write_checkpoint(path, small_tree())
    with np.load(path) as archive:
        arrays = dict(archive)
    name = next(name for name in arrays if arrays[name].shape == (2, 3))
    arrays[name] = arrays[name] + 1e-9
    np.savez(path, **arrays)
    with pytest.raises(CheckpointCorruptError, match="checksum"):
        read_checkpoint(path, CLASSES)


def test_swapped_names_are_found_by_the_checksum(path: Path) -> None:
    write_checkpoint(path, (np.zeros(3), np.ones(3)))
    with np.load(path) as archive:
        arrays = dict(archive)
    arrays["array0"], arrays["array1"] = arrays["array1"], arrays["array0"]
    np.savez(path, **arrays)
    with pytest.raises(CheckpointCorruptError, match="checksum"):
        read_checkpoint(path, ())


def test_a_file_without_a_checksum_is_refused(path: Path) -> None:
    np.savez(path, header=as_bytes(SOUND | {"content": 1}))
    with pytest.raises(CheckpointCorruptError):
        read_checkpoint(path, ())


# Archives that claim more than they are.


def with_member(path: Path, name: str, content: bytes, compression: int = zipfile.ZIP_STORED) -> None:
    with zipfile.ZipFile(path) as archive:
        members = {one: archive.read(one) for one in archive.namelist()}
    with zipfile.ZipFile(path, "w", compression) as archive:
        for one, old in (members | {name: content}).items():
            archive.writestr(one, old)


@pytest.mark.parametrize("shape", [(2**40,), (2**62, 2**62), (2**20, 2**20, 2**20), (-1,), (-3, -1), (4,), (2,), ()])
def test_sizes_are_believed_as_far_as_there_are_bytes(path: Path, shape: tuple[int, ...]) -> None:
    """Each would be made before it is read: NumPy trusts the header of an array."""
    write_checkpoint(path, np.zeros(3))
    out = io.BytesIO()
    np.lib.format.write_array_header_1_0(out, {"descr": "<f8", "fortran_order": False, "shape": shape})
    with_member(path, "array0.npy", out.getvalue() + bytes(24))
    with pytest.raises(CheckpointCorruptError, match="array0 cannot have shape"):
        read_checkpoint(path, ())


@pytest.mark.parametrize("kind", ["<U5", "<M8[s]", "|V8", "<c16", "|O"])
def test_arrays_of_other_types_are_refused(path: Path, kind: str) -> None:
    write_checkpoint(path, np.zeros(2))
    out = io.BytesIO()
    np.lib.format.write_array_header_1_0(out, {"descr": kind, "fortran_order": False, "shape": (1,)})
    with_member(path, "array0.npy", out.getvalue() + bytes(np.dtype(kind).itemsize))
    with pytest.raises(CheckpointCorruptError, match="array0 cannot have shape"):
        read_checkpoint(path, ())


def test_what_grows_when_it_is_unpacked_is_refused(path: Path) -> None:
    write_checkpoint(path, np.zeros(10**6))
    assert path.stat().st_size > 8e6
    with_member(path, "more.npy", bytes(10**6), zipfile.ZIP_DEFLATED)
    assert path.stat().st_size < 1e5
    with pytest.raises(CheckpointCorruptError, match="is compressed, too long, or there twice"):
        read_checkpoint(path, ())


def test_a_length_that_the_directory_claims_is_not_asked_for(path: Path) -> None:
    """Two gigabytes would be made before the end of the file is seen."""
    write_checkpoint(path, np.zeros(3))
    damaged = bytearray(path.read_bytes())
    entry = damaged.index(b"PK\x01\x02")  # the first of the directory; its length in the archive is at 20
    damaged[entry + 20 : entry + 24] = (2**31 - 2).to_bytes(4, "little")
    path.write_bytes(damaged)
    with pytest.raises(CheckpointCorruptError, match="is compressed, too long, or there twice"):
        read_checkpoint(path, ())


def test_truth_values_are_true_or_false(path: Path) -> None:
    """Compiled code may do anything with a third value."""
    write_checkpoint(path, np.array([True, False]))
    out = io.BytesIO()
    np.lib.format.write_array_header_1_0(out, {"descr": "|b1", "fortran_order": False, "shape": (2,)})
    with_member(path, "array0.npy", out.getvalue() + b"\x01\x07")
    with pytest.raises(CheckpointCorruptError, match="neither true nor false"):
        read_checkpoint(path, ())


@pytest.mark.parametrize("depth", [40, 5000, 200_000])
def test_objects_deep_inside_each_other_are_refused(path: Path, depth: int) -> None:
    text = json.dumps(SOUND | {"content": "here"}).replace('"here"', '{"tuple": [' * depth + "1" + "]}" * depth)
    arrays: dict[str, Any] = {"header": np.frombuffer(text.encode(), np.uint8)}
    np.savez(path, **arrays, digest=checkpoint._digest(arrays))
    with pytest.raises(CheckpointCorruptError):
        read_checkpoint(path, ())


def test_what_could_not_be_read_again_is_not_written(path: Path) -> None:
    content: Any = 1
    for _ in range(40):
        content = (content,)
    with pytest.raises(CheckpointError, match="deep"):
        write_checkpoint(path, content)
    assert not path.exists()


def test_an_array_belongs_to_one_place(path: Path) -> None:
    """Two names of one array would change together."""
    write_checkpoint(path, (np.zeros(3), np.ones(3)))
    forge(path, lambda content, arrays: content["tuple"].__setitem__(1, {"array": "array0"}))
    with pytest.raises(CheckpointCorruptError, match="array0"):
        read_checkpoint(path, ())


def test_an_array_without_a_place_is_refused(path: Path) -> None:
    write_checkpoint(path, (1, 2))
    forge(path, lambda content, arrays: arrays.update(more=np.zeros(3)))
    with pytest.raises(CheckpointCorruptError, match="more does not belong there"):
        read_checkpoint(path, ())


# Objects that nobody can have written.


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        (1, int, True), (True, int, False), (1.0, int, False), (2**64, int, False), (-(2**63), int, True),
        (1, float, True), (1.5, float, True), (True, float, False), ("1", float, False), (None, float, False),
        (None, float | None, True), ("a", str | int, True), (b"a", str, False), (1, bool, False), (True, bool, True),
        (np.zeros(2), Floats, True), (np.zeros(2, "f4"), Floats, False), (np.zeros(2, ">f8"), Floats, False),
        (np.zeros(2, np.int64), Floats, False), (0.0, Floats, False), (np.zeros(2, np.int64), Integers, True),
        ((1, 2), tuple[int, ...], True), ((1, "a"), tuple[int, ...], False), ((), tuple[int, ...], True),
        ((1, "a"), tuple[int, str], True), ((1,), tuple[int, str], False), ([1], tuple[int, ...], False),
        ({"a": 1}, dict[str, int], True), ({"a": "b"}, dict[str, int], False), ({}, dict[str, int], True),
        ("cut", Literal["ends", "cut"], True), ("x", Literal["ends", "cut"], False), (object(), Any, True),
    ],
)  # fmt: skip
def test_types(value: Any, kind: Any, expected: bool) -> None:
    assert fits(value, kind) is expected


def test_an_array_type_that_is_an_alias() -> None:
    # `NDArray` is made by the `type` statement from NumPy 2.5 on, which needs Python 3.12.
    scalar = TypeVar("scalar", bound=np.generic)
    made, array, dtype = (cast(Any, one) for one in (TypeAliasType, np.ndarray, np.dtype))  # at run time, not for mypy
    alias = made("alias", array[Any, dtype[scalar]], type_params=(scalar,))
    assert fits(np.zeros(2), alias[np.float64])
    assert not fits(np.zeros(2, np.int64), alias[np.float64])
    assert fits(None, alias[np.float64] | None)


@pytest.mark.parametrize(
    "change",
    [
        lambda fields: fields.pop("name"),
        lambda fields: fields.update(more=1),
        lambda fields: fields.update(name=3),
        lambda fields: fields.update(name={"tuple": []}),
    ],
)
def test_fields_that_the_class_does_not_have(path: Path, change: Callable[[Any], Any]) -> None:
    write_checkpoint(path, Leaf(1))
    forge(path, lambda content, arrays: change(content["fields"]))
    with pytest.raises(CheckpointCorruptError, match="Leaf"):
        read_checkpoint(path, CLASSES)


@pytest.mark.parametrize("members", [{"initial": -1.0}, {"decay": 0.2}, {"cap": float("nan")}, {"initial": "5"}])
def test_settings_that_no_constructor_takes(path: Path, members: dict[str, Any]) -> None:
    write_checkpoint(path, Polynomial(5.0))
    forge(path, lambda content, arrays: content["fields"].update(members))
    with pytest.raises(CheckpointCorruptError, match=r"run\.npz"):
        read_checkpoint(path, [Polynomial])


def test_the_whole_has_a_type(path: Path) -> None:
    write_checkpoint(path, Leaf(1))
    assert read_checkpoint(path, CLASSES, Leaf).values == 1
    with pytest.raises(CheckpointCorruptError, match="does not belong there"):
        read_checkpoint(path, CLASSES, Tree)


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
    with pytest.raises(CheckpointMismatchError, match=r"'Leaf', which is not known here"):
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
        monkeypatch.setattr(os, moment, raising)
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


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_a_file_has_the_rights_of_any_new_file(path: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        write_checkpoint(path, 1)
        path.with_suffix(".other").touch()
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(path.with_suffix(".other").stat().st_mode) == 0o666 & ~mask


def test_saving_leaves_the_process_as_it_is(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mask of new files belongs to all threads."""
    monkeypatch.setattr(os, "umask", lambda mask: pytest.fail("the mask was changed"))
    write_checkpoint(path, 1)
    assert read_checkpoint(path, ()) == 1


# Evaluators.


def saved(path: Path, n_features: int = 3) -> Evaluator:
    rng = np.random.default_rng(0)
    phi = rng.normal(size=(301, n_features))
    evaluator = Evaluator(TD(n_features)).update(Transitions(phi[:-1], rng.normal(size=300), phi[1:], 0.9))
    evaluator.save(path)
    return evaluator


def at(tree: Any, *names: str) -> Any:
    """Follow names of fields down the tree of a file."""
    for name in names:
        tree = tree["fields"][name]
    return tree


STATE = ("state", "method")
FORGED: dict[str, tuple[tuple[str, ...], Any]] = {
    "a table of terabytes": (("algorithm", "dimension"), 10**12),
    "another algorithm": (("parameters",), 4),
    "no step": (("state", "streams", "n"), 0),
    "steps before the first": (("state", "streams", "n"), -1),
    "more steps than can be counted": (("state", "streams", "n"), 2**62),
    "a flag that is a number": (("state", "tabular"), 0),
    "a fingerprint of 65 bits": (("state", "fingerprint"), 2**64),
    "rows that are not kept": ((*STATE, "n"), 5),
    "room for nothing": ((*STATE, "coordinates", "capacity"), 0),
    "room for more than there is": ((*STATE, "coordinates", "capacity"), 10**9),
    "rows that wait outside": ((*STATE, "sums", "waiting"), 10**6),
    "rows that wait before the first": ((*STATE, "sums", "waiting"), -1),
    "stretches outside": ((*STATE, "mixing", "filled"), 32),
    "stretches without a length": ((*STATE, "mixing", "length"), 0),
    "no rows at all": (("state", "pending"), {"tuple": []}),
    "something carried": (("state", "carry"), {"dict": {"trace": 1}}),
}


@pytest.mark.parametrize(("names", "value"), FORGED.values(), ids=FORGED)
def test_states_that_no_evaluator_leaves(path: Path, names: tuple[str, ...], value: Any) -> None:
    saved(path)
    assert Evaluator.load(path).n == 300

    def change(content: Any, arrays: dict[str, Any]) -> None:
        assert names[-1] in at(content, *names[:-1])["fields"]
        at(content, *names[:-1])["fields"][names[-1]] = value

    forge(path, change)
    with pytest.raises(CheckpointError, match=r"run\.npz"):
        Evaluator.load(path)


def test_arrays_by_columns_are_refused(path: Path) -> None:
    """Compiled code reads arrays row by row."""
    saved(path)

    def change(content: Any, arrays: dict[str, Any]) -> None:
        name = at(content, *STATE, "sums", "matrix")["array"]
        arrays[name] = np.asfortranarray(arrays[name])

    forge(path, change)
    with pytest.raises(CheckpointCorruptError, match="matrix is not stored row by row"):
        Evaluator.load(path)


def test_first_rows_of_other_features_are_refused(path: Path) -> None:
    phi = np.random.default_rng(0).normal(size=(101, 3))
    Evaluator(TD(3)).update(Transitions(phi[:-1], np.ones(100), phi[1:], 0.9)).save(path)

    def change(content: Any, arrays: dict[str, Any]) -> None:
        name = at(content, "state", "constant", "rows")["array"]
        arrays[name] = np.ones((len(arrays[name]), 4))

    forge(path, change)
    with pytest.raises(CheckpointCorruptError, match="another length"):
        Evaluator.load(path)


def test_threads_are_given_anew(path: Path) -> None:
    """They belong to the machine, not to the run."""
    evaluator = saved(path)
    assert Evaluator.load(path)._schedule.threads == 1
    again = Evaluator.load(path, threads=3)
    assert again._schedule.threads == 3
    assert str(again.interval([1.0, 0, 0])) == str(evaluator.interval([1.0, 0, 0]))
