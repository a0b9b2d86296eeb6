"""Frames: logs that are in memory, or the result of a query."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

from inferl.errors import DataError, InferlError
from inferl.sources.logs.inputs.readers import Batches, Part, import_pyarrow

__all__ = ["is_frame", "is_relation", "open_frame"]

Opened = tuple[Any, Callable[[list[str], int], Iterator[Any]]]
"""The schema, and the record batches for some columns, in batches of about so many rows."""


def is_frame(source: Any) -> bool:
    """Return whether something is a data frame, a stream of record batches, or a query of a library that is known."""
    return _opener(source) is not None


def is_relation(source: Any) -> bool:
    """Return whether something is a query of DuckDB."""
    return type(source).__module__.partition(".")[0] == "duckdb" and hasattr(source, "project")


@contextmanager
def open_frame(name: str, source: Any) -> Iterator[Part]:
    """Open a frame or a query."""
    opener = _opener(source)
    assert opener is not None
    with _in_our_words(name):
        schema, read = opener(source)

    def batches(columns: list[str], batch: int) -> Iterator[Any]:
        with _in_our_words(name):
            yield from read(columns, batch)

    yield Batches(
        name, type(source).__name__, schema, batches, rows=len(source) if hasattr(source, "__len__") else None
    )


@contextmanager
def _in_our_words(name: str) -> Iterator[None]:
    """Turn whatever a library raises into a `DataError`; each has exceptions of its own."""
    try:
        yield
    except (InferlError, GeneratorExit):
        raise
    except Exception as error:
        raise DataError(f"{name} cannot be read: {' '.join(str(error).split()) or type(error).__name__}") from error


def _opener(source: Any) -> Callable[[Any], Opened] | None:
    """Return the function that opens a frame; None if it is no frame."""
    library = type(source).__module__.partition(".")[0]
    for condition, opener in (
        (is_relation(source), _relation),
        (hasattr(source, "__arrow_c_stream__"), _stream),
        (library == "pyarrow" and hasattr(source, "scanner"), _dataset),
        (library == "pyarrow" and hasattr(source, "projected_schema"), _scanner),
        (library == "polars" and hasattr(source, "collect_batches"), _lazy_frame),
    ):
        if condition:
            return opener
    return None


def _stream(source: Any) -> Opened:
    """Open anything with the Arrow interface for streams: a frame of pandas, polars or pyarrow, a reader of batches."""
    reader = import_pyarrow().RecordBatchReader.from_stream(source)
    return reader.schema, lambda columns, batch: _all_of(reader)


def _all_of(reader: Any) -> Iterator[Any]:
    with closing(reader):  # a database waits until its result has been read or closed
        yield from reader


def _relation(source: Any) -> Opened:
    """Open a DuckDB relation; the query runs when it is read, for the columns that are needed."""
    stream = import_pyarrow().RecordBatchReader.from_stream

    def quoted(columns: list[str]) -> str:
        return ", ".join('"' + name.replace('"', '""') + '"' for name in columns)

    with closing(stream(source.limit(0))) as reader:
        schema = reader.schema
    return schema, lambda columns, batch: _all_of(stream(source.project(quoted(columns))))


def _dataset(source: Any) -> Opened:
    """Open a pyarrow dataset."""

    def read(columns: list[str], batch: int) -> Iterator[Any]:
        # One thread: several would read ahead, and hold more in memory.
        return _all_of(source.scanner(columns=columns, batch_size=batch, use_threads=False).to_reader())

    return source.schema, read


def _scanner(source: Any) -> Opened:
    """Open a pyarrow scanner."""
    return source.projected_schema, lambda columns, batch: _all_of(source.to_reader())


def _lazy_frame(source: Any) -> Opened:
    """Open a polars LazyFrame; it is collected in batches, for the columns that are needed."""

    def read(columns: list[str], batch: int) -> Iterator[Any]:
        for frame in source.select(columns).collect_batches(chunk_size=batch, maintain_order=True):
            yield from frame.to_arrow().to_batches()

    return source.clear().collect().to_arrow().schema, read
