"""Regrouping: rows of episodes that are scattered over a log are brought together, in memory of fixed size.

The rows are dealt into buckets by their episode, so that all rows of an episode are in one bucket, which fits into
memory; then each bucket is sorted by episode and order, and becomes a Parquet file. So every row is read and written
twice. The order in time of rows of different episodes is lost, which no evaluation uses.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from inferl.data.arrays import Floats, Integers
from inferl.errors import DataError, SettingError
from inferl.sources.logs.columns import Columns
from inferl.sources.logs.inputs.files import File
from inferl.sources.logs.inputs.opening import files_of, log_name, open_log
from inferl.sources.logs.values import column_of, labels, numbers, times

__all__ = ["regroup_log", "written"]

BUCKET = 1_000_000  # rows, about: what is in memory at once
BUCKETS = 1000  # at most; each has an open file
SOURCE = "_source.txt"  # in the folder: what was regrouped
_MIX = np.uint64(0x9E3779B97F4A7C15)


def regroup_log(source: Any, folder: Path, resolved: Callable[[str, list[str]], Columns], batch: int) -> None:
    """Write the rows of a log into a new folder, with those of each episode together; keep one that is there already.

    Parameters
    ----------
    source
        The log, in files.
    folder
        Where the new files go. If the same log was regrouped into it before, nothing is done.
    resolved
        From the name of a log and its columns, what each is for.
    batch
        Number of rows read at a time.
    """
    about = _about(source)
    if folder.exists():
        if folder.is_dir() and (folder / SOURCE).is_file() and (folder / SOURCE).read_text("utf-8") == about:
            return
        raise SettingError(f"{folder} is there already, and holds something else; name a new folder")
    unfinished = folder.with_name(f".{folder.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    with open_log(source) as log:
        columns = resolved(log.name, log.columns)
        if columns.episode is None:
            raise SettingError(
                f"{log.name}: rows are brought together by the label of their episode; name it (episode)"
            )
        _deal(log, columns, unfinished, _buckets(source), batch)
    for number, bucket in enumerate(sorted(unfinished.glob("bucket-*.arrow"))):
        _sort(bucket, columns, unfinished / f"part-{number:05d}.parquet", log_name(source))
        bucket.unlink()
    (unfinished / SOURCE).write_text(about, "utf-8")
    unfinished.rename(folder)


def _about(source: Any) -> str:
    """Return a digest of the files of a log."""
    files = files_of(source)
    if files is None:
        raise SettingError(f"{log_name(source)} is in no files; sort the frame by episode and order instead")
    said = "\n".join(f"{file.name} {file.size} {written(file)}" for file in files)
    return sha256(said.encode()).hexdigest() + "\n"


def written(file: File) -> int:
    """Return when a file was written, in nanoseconds."""
    if file.system is None:
        return Path(file.path).stat().st_mtime_ns
    (info,) = file.system.get_file_info([file.path])
    return int(info.mtime_ns or 0)


def _buckets(source: Any) -> int:
    """Return the number of buckets that hold about so many rows each."""
    rows = 0
    with open_log(source) as log:
        for part in log.parts():
            rows += part.count()[0] or BUCKET
    return min(max(-(-rows // BUCKET), 1), BUCKETS)


def _deal(log: Any, columns: Columns, folder: Path, number: int, batch: int) -> None:
    """Deal the rows into buckets by their labels."""
    import pyarrow as pa

    files: dict[int, Any] = {}
    waiting: list[Any] = []
    schema = None

    def empty() -> None:
        if not waiting:
            return
        rows = pa.Table.from_batches(waiting) if isinstance(waiting[0], pa.RecordBatch) else pa.concat_tables(waiting)
        waiting.clear()
        bucket = _bucket(_labels(rows, columns, log.name), number)
        order = np.argsort(bucket, kind="stable")
        edges = np.searchsorted(bucket[order], np.arange(number + 1))
        for k in np.flatnonzero(np.diff(edges)).tolist():
            if k not in files:
                files[k] = pa.ipc.new_file(folder / f"bucket-{k:05d}.arrow", rows.schema)
            files[k].write_table(rows.take(order[edges[k] : edges[k + 1]]).combine_chunks())

    try:
        rows_waiting = 0
        for piece in log.pieces(log.columns, batch):
            rows, broken = piece.parsed()
            if broken:
                raise DataError(f"{log.name}: a row cannot be read ({next(iter(broken.values()))[1]}); repair it first")
            schema = schema or rows.schema
            if rows.schema != schema:
                rows = _cast(rows, schema, log.name)
            waiting.append(rows)
            rows_waiting += len(rows)
            if rows_waiting >= BUCKET:
                empty()
                rows_waiting = 0
        empty()
    finally:
        for file in files.values():
            file.close()


def _cast(rows: Any, schema: Any, log: str) -> Any:
    import pyarrow as pa

    try:
        return rows.cast(schema)
    except (pa.ArrowException, ValueError) as error:
        raise SettingError(f"{log}: files store their columns differently: {error}; write them alike") from None


def _labels(rows: Any, columns: Columns, log: str) -> Integers:
    """Return the code of the episode of each row; of a log with streams, of stream and episode."""
    assert columns.episode is not None
    label, known = labels(column_of(rows, columns.episode))
    if not known.all():
        raise DataError(f"{log}: {int((~known).sum())} rows have no label in column {columns.episode!r}; drop them")
    if columns.stream is not None:
        label = label + labels(column_of(rows, columns.stream))[0] * _MIX.astype(np.int64)
    return label


def _bucket(label: Integers, number: int) -> Integers:
    mixed = label.astype(np.uint64) * _MIX
    return np.asarray((mixed >> np.uint64(33)) % np.uint64(number)).astype(np.int64)


def _sort(bucket: Path, columns: Columns, path: Path, log: str) -> None:
    """Write the rows of a bucket by episode and order; rows that are alike in both stay in the order of the log."""
    import pyarrow as pa
    from pyarrow import parquet

    with pa.memory_map(str(bucket)) as file:
        rows = pa.ipc.open_file(file).read_all()
        label = _labels(rows, columns, log)
        keys: list[Floats | Integers] = [label]
        if columns.order is not None:
            keys = [_order(column_of(rows, columns.order)), label]
        parquet.write_table(rows.take(np.lexsort(keys)), path)


def _order(values: Any) -> Floats:
    found = times(values)
    return numbers(values) if found is None else found
