"""Digests: recognise a log when a run is resumed.

A digest depends only on the rows that were read: not on the batches, nor, for columns, on how the file stores them. So
rows may be appended to a log, and any other change of the rows that were read changes the digest.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any

import numpy as np

from inferl.sources.logs.values import column_of, kind_of, plain

if TYPE_CHECKING:
    import pyarrow

__all__ = ["Digest"]


class Digest:
    """A running hash of rows, as lines or as columns; `about` describes how they are read.

    >>> import pyarrow as pa
    >>> rows = pa.table({"x": [1.0, 2.0, None], "who": ["a", None, "bc"]})
    >>> one, other = Digest("features=x"), Digest("features=x")
    >>> one.add_columns(rows)
    >>> for piece in (rows[:1], rows[1:]):
    ...     other.add_columns(piece)
    >>> str(one) == str(other)
    True
    """

    def __init__(self, about: str) -> None:
        # One hash for each part of a column: in a single hash, the order of the parts would depend on the batches.
        self._hashes: dict[str, Any] = {"": sha256(about.encode())}
        self._rows, self._form = 0, ""

    def __str__(self) -> str:
        parts = sorted(self._hashes.items())
        return sha256("".join(f"{name!r} {part.hexdigest()}\n" for name, part in parts).encode()).hexdigest()

    def enter(self, form: str) -> None:
        """Note how the following rows are stored, if not as those before: as columns, or as lines below a header.

        Where one file ends and the next begins does not matter, unless this changes.
        """
        if form != self._form:
            self._form = form
            self._add("", f"\n{self._rows} {form}\n".encode())

    def add_lines(self, lines: list[bytes]) -> None:
        """Add lines, without their line breaks."""
        self._rows += len(lines)
        if lines:
            self._add("", b"\n".join([*lines, b""]))

    def add_columns(self, batch: pyarrow.RecordBatch | pyarrow.Table) -> None:
        """Add rows, as Arrow columns."""
        self._rows += len(batch)
        for name in batch.schema.names if len(batch) else ():
            self._add_column(name, column_of(batch, name))

    def _add(self, part: str, content: Any) -> None:
        self._hashes.setdefault(part, sha256()).update(content)

    def _add_column(self, name: str, values: Any) -> None:
        """Add which values are valid, their lengths if these differ, and the values."""
        import pyarrow as pa
        from pyarrow import compute

        kind, width = kind_of(values), _width(values.type)
        self._add(f"{name}: there", np.ascontiguousarray(values.is_valid().to_numpy(zero_copy_only=False)))
        if kind == "list":
            self._add(f"{name}: lengths", _array(compute.list_value_length(values).cast(pa.int64())))
            self._add_column(f"{name}: entries", values.flatten())
        elif kind == "text":
            text = values.cast(pa.large_binary()).fill_null(b"")
            ends = np.frombuffer(text.buffers()[1], np.int64)[text.offset :][: len(text) + 1]
            self._add(f"{name}: lengths", np.diff(ends))
            self._add(name, memoryview(text.buffers()[2] or b"")[ends[0] : ends[-1]])
        elif kind in ("flag", "integer", "float", "time") and width <= 64 and not pa.types.is_decimal(values.type):
            self._add(name, _array(values.view(f"int{width}") if kind == "time" else values))
        elif pa.types.is_struct(values.type):
            for field, own in zip(values.type, values.flatten(), strict=True):
                self._add_column(f"{name}: field {field.name}", plain(own))
        elif kind != "null":
            self._add(name, "".join(f"{value!r}\n" for value in values.to_pylist()).encode(errors="replace"))


def _width(kind: Any) -> int:
    """Return the bits of a value; 8 for a flag, which NumPy stores in a byte."""
    try:
        return max(int(kind.bit_width), 8)
    except ValueError:  # values of any length
        return 0


def _array(values: Any) -> Any:
    """Return the values as a NumPy array, 0 where one is missing."""
    if values.null_count:
        values = values.fill_null(False if kind_of(values) == "flag" else 0)
    return np.ascontiguousarray(values.to_numpy(zero_copy_only=False))
