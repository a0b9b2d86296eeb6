"""What a log may be: each kind of input gives the same transitions, and files are read as one log."""

from __future__ import annotations

import bz2
import gzip
import io
import shutil
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pyarrow as pa
import pytest
from logs import FORMATS, joined, same, small_log
from pyarrow import csv as arrow_csv
from pyarrow import dataset as arrow_dataset
from pyarrow import parquet

from inferl.errors import CheckpointMismatchError, DataError, SettingError
from inferl.sources import Table, table

ROLES: dict[str, Any] = {"state": "s", "n_states": 3, "episode": "e", "ratio": ["a", "b"]}
CUTS = (0, 150, 151, 400, 600)  # rows at which files begin and end, in the middle of episodes


def log() -> pa.Table:
    frame = small_log(600)
    ends = np.r_[0, np.cumsum(frame["terminated"].to_numpy())[:-1]]
    return frame.append_column("e", pa.array([f"p{i}" for i in ends]))


FRAME = log()
WHOLE = joined(table(FRAME, **ROLES))


def pieces() -> list[pa.Table]:
    return [FRAME.slice(start, stop - start) for start, stop in pairwise(CUTS)]


def in_files(folder: Path, suffix: str = ".parquet") -> list[Path]:
    """Cut the log into files, the names of which sort as text in another order than as numbers."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"part-{n}{suffix}" for n in (2, 9, 10, 100)]
    for path, piece in zip(paths, pieces(), strict=True):
        write(piece, path)
    return paths


def write(frame: pa.Table, path: Path) -> Path:
    if path.suffix == ".csv":
        arrow_csv.write_csv(frame, path)
    elif path.suffix == ".parquet":
        parquet.write_table(frame, path, row_group_size=100)
    else:
        FORMATS[{".jsonl": "jsonl", ".arrow": "arrow file"}[path.suffix]](frame, path)
    return path


def one_csv(folder: Path) -> bytes:
    return write(FRAME, folder / "whole.csv").read_bytes()


def in_memory(folder: Path) -> str:
    fsspec = pytest.importorskip("fsspec")
    system = fsspec.filesystem("memory")
    for path in in_files(folder, ".csv"):
        system.pipe(f"/logs/{path.name}", path.read_bytes())
    return "memory://logs/part-*.csv"


def relation(folder: Path) -> Any:
    duckdb = pytest.importorskip("duckdb")
    return duckdb.connect().sql(f"select *, 1 as unused from '{write(FRAME, folder / 'whole.parquet')}'")


def partitioned(folder: Path) -> Path:
    for path, piece in zip(in_files(folder / "flat"), pieces(), strict=True):
        to = folder / "log" / f"shift={path.stem[5:]}" / "data.parquet"
        to.parent.mkdir(parents=True)
        write(piece, to)
    (folder / "log" / "_SUCCESS").touch()
    return folder / "log"


def empty(path: Path) -> Path:
    path.write_bytes(b"")
    return path


def generator(folder: Path) -> Iterator[pa.Table]:
    yield from pieces()


INPUTS: dict[str, Callable[[Path], Any]] = {
    "paths": lambda folder: in_files(folder),
    "texts": lambda folder: tuple(map(str, in_files(folder, ".csv"))),
    "a folder": lambda folder: in_files(folder / "log", ".jsonl")[0].parent,
    "a glob": lambda folder: str(in_files(folder, ".arrow")[0].parent / "part-*.arrow"),
    "a deep glob": lambda folder: [in_files(folder / "log" / "day", ".csv"), f"{folder}/**/*.csv"][1],
    "a glob of folders": lambda folder: str(partitioned(folder) / "shift=*"),
    "partitions": partitioned,
    "a file URI": lambda folder: (in_files(folder / "log")[0].parent).as_uri(),
    "a file URI with a glob": lambda folder: in_files(folder / "log")[0].parent.as_uri() + "/*.parquet",
    "an fsspec URI": in_memory,
    "files of several formats": lambda folder: [
        write(piece, folder / f"log{suffix}")
        for piece, suffix in zip(pieces(), (".parquet", ".csv", ".jsonl", ".arrow"), strict=True)
    ],
    "a dataset": lambda folder: arrow_dataset.dataset(list(map(str, in_files(folder)))),
    "a scanner": lambda folder: arrow_dataset.dataset(FRAME).scanner(batch_size=70),
    "a record batch": lambda folder: FRAME.combine_chunks().to_batches()[0],
    "a record batch reader": lambda folder: FRAME.to_reader(max_chunksize=70),
    "a lazy frame": lambda folder: polars.scan_parquet(write(FRAME, folder / "whole.parquet")),
    "a DuckDB relation": relation,
    "a list of frames": lambda folder: pieces(),
    "a generator of frames": generator,
    "an iterator of pandas frames": lambda folder: (piece.to_pandas() for piece in pieces()),
    "an iterator of paths": lambda folder: iter(in_files(folder)),
    "an open file": lambda folder: write(FRAME, folder / "whole.csv").open("rb"),
    "an open file of text": lambda folder: write(FRAME, folder / "whole.csv").open(),
    "an open file, Parquet": lambda folder: write(FRAME, folder / "whole.parquet").open("rb"),
    "bytes in memory": lambda folder: io.BytesIO(one_csv(folder)),
    "empty files among them": lambda folder: [
        *in_files(folder, ".csv")[:2],
        write(FRAME.slice(0, 0), folder / "no rows.csv"),
        empty(folder / "nothing.csv"),
        *in_files(folder, ".csv")[2:],
    ],
}
ONCE = (
    "a scanner",
    "a record batch reader",
    "a generator of frames",
    "an iterator of pandas frames",
    "an iterator of paths",
)


@pytest.mark.parametrize("batch", [64, 65536])
@pytest.mark.parametrize("kind", INPUTS)
def test_every_input_gives_the_transitions_of_the_one_file(kind: str, batch: int, tmp_path: Path) -> None:
    source = table(INPUTS[kind](tmp_path), **ROLES, batch=batch)
    assert same(joined(source), WHOLE)
    assert source.rows == len(FRAME)
    assert source.rereadable == (kind not in ONCE)
    if source.rereadable:
        assert same(joined(source), WHOLE)
    else:
        for again in (source, source.resume(source.position)):
            with pytest.raises(SettingError, match="can be read only once"):
                list(again)
    if hasattr(source.source, "close"):
        source.source.close()


@pytest.mark.parametrize("name", ["log.csv", "log.csv.gz", "log.bz2", "log.parquet"])
@pytest.mark.parametrize("codec", ["gzip", "bz2", "zstd", "lz4"])
def test_compression_is_told_by_the_bytes_and_not_by_the_name(
    codec: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, codec) as file:
        file.write(one_csv(tmp_path))
    packed = sink.getvalue().to_pybytes()
    (tmp_path / name).write_bytes(packed)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(packed)))
    for source in (tmp_path / name, "-", io.BytesIO(packed)):
        assert same(joined(table(source, **ROLES)), WHOLE)


def test_what_is_not_compressed_may_be_called_so(tmp_path: Path) -> None:
    (tmp_path / "log.csv.gz").write_bytes(one_csv(tmp_path))
    assert same(joined(table(tmp_path / "log.csv.gz", **ROLES)), WHOLE)


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress])
def test_several_compressed_parts_in_one_file(pack: Callable[[bytes], bytes], tmp_path: Path) -> None:
    head, _, rest = one_csv(tmp_path).partition(b"\n")
    (tmp_path / "log.csv").write_bytes(pack(head + b"\n") + pack(rest))
    assert same(joined(table(tmp_path / "log.csv", **ROLES)), WHOLE)


def test_compressed_as_a_whole_or_packed(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet.gz"
    path.write_bytes(gzip.compress(write(FRAME, tmp_path / "log.parquet").read_bytes()))
    with pytest.raises(SettingError, match=r"compressed as a whole cannot be read.*decompress it"):
        list(table(path, **ROLES))
    path.write_bytes(gzip.compress(one_csv(tmp_path))[:-100])
    with pytest.raises(DataError, match=r"log.parquet.gz: .*damaged or cut off"):
        list(table(path, **ROLES))
    archive = shutil.make_archive(str(tmp_path / "logs"), "zip", tmp_path, "whole.csv")
    with pytest.raises(SettingError, match="zip archive"):
        list(table(archive, **ROLES))


def test_columns_of_partitions(tmp_path: Path) -> None:
    shifts = ("2", "9", "10", "100")
    roles: dict[str, Any] = {"features": ["s", "shift"], "episode": "e", "ratio": ["a", "b"]}
    column = [shift for shift, piece in zip(shifts, pieces(), strict=True) for _ in range(len(piece))]
    expected = joined(table(FRAME.append_column("shift", pa.array(column)), **roles))
    assert same(joined(table(partitioned(tmp_path), **roles)), expected)
    for folder in list((tmp_path / "log").glob("shift=*")):
        (table_,) = folder.glob("*")
        arrow_csv.write_csv(parquet.read_table(table_, partitioning=None), folder / "data.csv")
        table_.unlink()
    source = table(tmp_path / "log", **roles)
    assert same(joined(source), expected)
    moved = tmp_path / "log" / "shift=11"
    (tmp_path / "log" / "shift=10").rename(moved)  # the rows are the same
    with pytest.raises(CheckpointMismatchError, match="are not the rows that were read before"):
        list(source.resume(source.position | {"complete": False}))
    assert same(joined(table(tmp_path / "log", **ROLES)), WHOLE)


@pytest.mark.parametrize("kind", [kind for kind in INPUTS if kind not in ONCE])
def test_a_log_can_be_looked_at_while_it_is_read(kind: str, tmp_path: Path) -> None:
    """Whether its episodes are mixed is found by reading on; no row may be lost by that."""
    roles = ROLES | {"terminated": None}
    source = table(INPUTS[kind](tmp_path), **roles, batch=64)
    assert same(joined(source), joined(table(FRAME, **roles)))
    if hasattr(source.source, "close"):
        source.source.close()


def test_a_frame_is_handed_on_before_the_next_is_asked_for() -> None:
    asked: list[int] = []

    def frames() -> Iterator[pa.Table]:
        for number, piece in enumerate(pieces()):
            asked.append(number)
            yield piece

    source = table(frames(), **ROLES)
    reading = iter(source)
    first = next(reading)
    assert asked == [0]
    assert len(first) >= CUTS[1] - 2  # the last two wait for what follows
    again = table(generator(Path()), **ROLES).resume(source.position)  # the same frames, made again
    assert same(joined(again), joined(reading))


# What is wrong with one of the files is said of this one.


def spoiled(folder: Path, suffix: str, change: Callable[[pa.Table], pa.Table]) -> Table:
    """Change the third file."""
    paths = in_files(folder, suffix)
    write(change(pieces()[2]), paths[2])
    return table(folder, **ROLES)


def without(*names: str) -> Callable[[pa.Table], pa.Table]:
    return lambda frame: frame.drop_columns(list(names))


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".jsonl"])
def test_a_file_without_a_column_is_named(suffix: str, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"part-10\.\w+: there is no column 'a' \(ratio\)"):
        list(spoiled(tmp_path, suffix, without("a")))
    with pytest.raises(SettingError, match=r"part-10\.\w+ would be read as .*name the columns that all files have"):
        list(spoiled(tmp_path, suffix, without("terminated")))


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_a_file_without_a_column_is_named_by_a_first_pass(suffix: str, tmp_path: Path) -> None:
    """The levels of a category are found in a first pass, which reads this column alone."""
    spoiled(tmp_path, suffix, without("e"))
    with pytest.raises(SettingError, match=r"part-10\.\w+: there is no column 'e'"):
        list(table(tmp_path, features="e"))


def test_columns_may_stand_in_another_order(tmp_path: Path) -> None:
    for suffix in (".parquet", ".csv", ".jsonl"):
        source = spoiled(tmp_path / suffix, suffix, lambda frame: frame.select(frame.column_names[::-1]))
        assert same(joined(source), WHOLE)


def cast(name: str, kind: pa.DataType) -> Callable[[pa.Table], pa.Table]:
    return lambda frame: frame.set_column(frame.column_names.index(name), name, frame[name].cast(kind))


def test_a_file_with_another_type_is_named(tmp_path: Path) -> None:
    words = "part-10.parquet: column 's' holds text, and in .*part-2.parquet it holds number"
    with pytest.raises(SettingError, match=words):
        list(spoiled(tmp_path / "text", ".parquet", cast("s", pa.string())))
    for name, kind in (("s", pa.int8()), ("s", pa.float64()), ("e", pa.dictionary(pa.int32(), pa.string()))):
        assert same(joined(spoiled(tmp_path / "alike", ".parquet", cast(name, kind))), WHOLE)


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".jsonl"])
def test_a_bad_row_is_named_by_its_file_and_its_place_there(suffix: str, tmp_path: Path) -> None:
    rewards = [*[1.0] * 100, None, *[1.0] * 148]
    source = spoiled(tmp_path, suffix, lambda frame: frame.set_column(1, "reward", pa.array(rewards)))
    with pytest.raises(DataError, match=r"part-10\.\w+, row 101, column 'reward': null is not a finite number"):
        list(source)
    assert source.rows == 251


def test_a_row_that_does_not_follow_is_named_with_the_row_before_it(tmp_path: Path) -> None:
    frame = pa.table({"x": [0.5] * 6, "reward": [1.0] * 6, "e": [0] * 6, "t": [0, 1, 2, 2, 3, 5]})
    paths = [write(frame.slice(0, 3), tmp_path / "0.parquet"), write(frame.slice(3), tmp_path / "1.parquet")]
    source = table(paths, features=["x"], episode="e", order="t", skip_bad=1)
    with pytest.raises(
        DataError, match=r"1\.parquet, row 3, column 't': 5 leaves rows out, after 3 in row 2 of episode"
    ):
        list(source)
    assert (
        "1.parquet, row 1, column 't': 2 is there twice, after 2 in row 3 of" in source.describe()["bad rows skipped"]
    )
    assert "0.parquet of episode" in source.describe()["bad rows skipped"]


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    paths = in_files(tmp_path)
    paths[2].write_bytes(paths[2].read_bytes()[:-200])
    with pytest.raises(DataError, match=r"part-10.parquet: .*damaged or cut off"):
        list(table(tmp_path, **ROLES))


def test_what_is_not_there(tmp_path: Path) -> None:
    in_files(tmp_path / "log")
    for source, words in (
        (tmp_path / "log" / "*.csv", "no file matches .*csv"),
        ([tmp_path / "log", tmp_path / "other"], "there is no file .*other"),
        ([], "the list is empty"),
        ([tmp_path / "log" / "part-9.parquet", tmp_path / "log"], "part-9.parquet is there twice"),
        ("nothing://here/log.csv", "nothing://here/log.csv cannot be opened"),
        ([{"x": 1}], "the dict is no log"),
        (io.StringIO("x,reward\n"), "open as text; open it as bytes"),
        ("file:///nowhere/log.csv", "there is no file file:///nowhere/log.csv"),
    ):
        with pytest.raises(SettingError, match=words):
            list(table(source, **ROLES))


def test_a_filesystem_that_fails_is_an_error_in_our_words() -> None:
    fsspec = pytest.importorskip("fsspec")

    class Failure(Exception):
        pass

    def info(self: Any, path: str, **options: Any) -> Any:
        raise Failure("no credentials")

    broken = type("Broken", (fsspec.AbstractFileSystem,), {"info": info})
    fsspec.register_implementation("broken", broken, clobber=True)
    with pytest.raises(SettingError, match="broken://bucket/log cannot be opened: no credentials"):
        list(table("broken://bucket/log", **ROLES))


def test_a_delta_table_is_not_read_as_a_folder(tmp_path: Path) -> None:
    """Its folder has files of earlier versions, too."""
    in_files(tmp_path / "log")
    (tmp_path / "log" / "_delta_log").mkdir()
    (tmp_path / "log" / "_delta_log" / "0.json").write_text("{}")
    with pytest.raises(SettingError, match="is a Delta table"):
        list(table(tmp_path / "log", **ROLES))


# Resumed: files that were read must be as they were; rows and files may follow.


def stopped(folder: Path, suffix: str, files: int = 3) -> tuple[list[Path], Any]:
    """Read the first files, and return the position before their end was taken for that of the log."""
    paths = in_files(folder, suffix)
    for path in paths[files:]:
        path.unlink()
    source = table(folder, **ROLES)
    list(source)
    return paths, source.open_end


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".jsonl", ".arrow"])
def test_rows_and_files_that_follow_are_read_on(suffix: str, tmp_path: Path) -> None:
    paths, position = stopped(tmp_path, suffix)
    first = joined(table(paths[:3], **ROLES))
    write(pieces()[3], paths[3])
    rest = joined(table(tmp_path, **ROLES).resume(position))
    assert same(rest, WHOLE[len(WHOLE) - len(rest) :])
    assert len(first) - len(rest) < len(WHOLE) - len(rest) <= len(first)
    write(FRAME.slice(151, 300), paths[2])  # the last that was read has grown
    write(FRAME.slice(451), paths[3])
    assert same(joined(table(tmp_path, **ROLES).resume(position)), rest)


def swapped(one: Path, other: Path) -> None:
    content = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(content)


CHANGES: dict[str, Callable[[list[Path]], Any]] = {
    "changed": lambda paths: write(pieces()[0].slice(0, 149), paths[0]),
    "another": lambda paths: write(FRAME.slice(100, 150), paths[0]),
    "removed": lambda paths: paths[1].unlink(),
    "emptied": lambda paths: empty(paths[1]),
    "reordered": lambda paths: swapped(paths[0], paths[2]),
    "renamed": lambda paths: paths[0].rename(paths[0].with_stem("part-20")),
    "inserted": lambda paths: write(pieces()[3], paths[0].with_stem("part-5")),
    "put before": lambda paths: write(pieces()[3], paths[0].with_stem("part-1")),
    "grown before the last": lambda paths: write(FRAME.slice(0, 160), paths[0]),
    "cut": lambda paths: write(pieces()[2].slice(0, 248), paths[2]),
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_files_changed_among_those_that_were_read_are_refused(change: str, suffix: str, tmp_path: Path) -> None:
    paths, position = stopped(tmp_path, suffix)
    CHANGES[change](paths)
    with pytest.raises(CheckpointMismatchError, match="rows 1 to 400 "):
        list(table(tmp_path, **ROLES).resume(position))


def test_files_of_two_formats_that_changed_places_are_refused(tmp_path: Path) -> None:
    """Their rows are hashed in two ways, so their order is noted, too."""
    paths = [write(pieces()[0], tmp_path / "a.csv"), write(pieces()[2], tmp_path / "b.parquet")]
    source = table(paths, **ROLES)
    list(source)
    position = source.open_end
    with pytest.raises(CheckpointMismatchError):
        list(table(paths[::-1], **ROLES).resume(position))


def test_files_put_together_are_the_same_log(tmp_path: Path) -> None:
    """Only rows count, not the files in which they are."""
    _, position = stopped(tmp_path / "small", ".parquet")
    whole = table(write(FRAME, tmp_path / "whole.parquet"), **ROLES)
    rest = joined(whole.resume(position))
    assert same(rest, WHOLE[len(WHOLE) - len(rest) :])
