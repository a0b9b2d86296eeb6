"""The door: the body of a request becomes a batch of the journal, if every row of it is sound.

Each batch is decoded by itself, by what will decode it again in the evaluator. What only the order of rows shows is
left to the evaluator.
"""

from __future__ import annotations

import threading
import time as clock
from collections.abc import Iterator
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import Any

from inferl.errors import InferlError, SettingError
from inferl.service.settings import Limits, Question
from inferl.sources import Table
from inferl.sources.logs.decoding import Decoder, LogRows
from inferl.sources.logs.faults import DROP, Fault, Faults, shown
from inferl.sources.logs.inputs.lines import JSONPart, LinePiece, as_object
from inferl.sources.logs.inputs.messages import PARTITION
from inferl.sources.logs.inputs.readers import import_pyarrow
from inferl.sources.logs.policies.ratios import RatioReader
from inferl.storage.checkpoint import replacing

__all__ = ["ARROW", "JSON", "Door", "Refused"]

ARROW, JSON = "application/vnd.apache.arrow.stream", "application/x-ndjson"
AGAIN = "correct it, and send the batch again with the same number"
AHEAD = 86_400.0  # seconds by which the time of a row may be ahead of the server's clock
WIDE = 2000  # columns
CELLS = 1_000_000  # rows times columns of any batch; of a larger one of JSON, as many as it has bytes


class Refused(InferlError):
    """A request that cannot be taken, and why."""

    def __init__(
        self, error: str, remedy: str, row: int | None = None, status: int = 400, retry: int = 1, **more: Any
    ) -> None:
        super().__init__(error)
        self.retry = retry  # seconds after which to try again, if the status says so
        self.status, self.content = status, {"error": error, "row": row, "remedy": remedy, **more}


class Door:
    """Reads bodies, checks their rows, and packs them; `path` keeps the first row, which says how rows are read."""

    def __init__(self, table: Table, limits: Limits, path: Path, question: Question) -> None:
        self._pa = import_pyarrow()
        self._table, self._limits, self._path, self._question = table, limits, path, question
        self._first = threading.Lock()  # two first batches at once would be read in two ways
        self._decoder: Decoder | None = None
        self._version: tuple[int, Any] | None = None  # of the policy, in the first row: code and label
        self._columns: list[str] = []  # of the latest batch
        if path.exists():
            self._learn(self._read_arrow(path.read_bytes()))

    def admit(self, body: bytes, kind: str) -> tuple[bytes, int]:
        """Return the payload of a record, and its rows; raise `Refused` if a row is bad."""
        if kind == ARROW:
            batch = self._read_arrow(body)
        elif kind in (JSON, "application/json", "application/jsonl", "application/x-jsonlines", "text/plain"):
            batch = self._read_json(body)
        else:
            remedy = f"send an Arrow stream ({ARROW}) or JSON lines ({JSON}), and say which"
            raise Refused(f"the content type is {kind or 'not given'!r:.100}", remedy, status=415)
        if self._decoder is None:
            with self._first:
                self._check(batch)
        else:
            self._check(batch)
        return self._packed(batch), len(batch)

    def _read_arrow(self, body: bytes) -> Any:
        pa = self._pa
        rows, batches = 0, []
        try:
            for message in _messages(pa, body):
                if message.type == "dictionary" or _compressed(message):
                    what = "a dictionary" if message.type == "dictionary" else "compressed parts"
                    raise Refused(f"the batch has {what}", "send plain columns, without categories and compression")
            with pa.ipc.open_stream(body) as reader:
                schema = reader.schema
                self._check_types(schema)
                for batch in reader:
                    rows += len(batch)
                    self._check_rows(rows)
                    batches.append(batch)
            table = pa.Table.from_batches(batches, schema)
            table.validate(full=True)
        except (pa.ArrowException, OSError, EOFError, ValueError, LookupError, TypeError, OverflowError) as error:
            if isinstance(error, InferlError):
                raise
            why = " ".join(str(error).split())[:300] or type(error).__name__
            raise Refused(f"the body is no Arrow stream: {why}", "write it again") from None
        self._check_rows(rows, fewest=1)
        return table

    def _read_json(self, body: bytes) -> Any:
        lines = list(filter(bytes.strip, body.split(b"\n")))
        self._check_rows(len(lines), fewest=1)
        names: dict[str, None] = {}
        for place, line in enumerate(lines, 1):
            try:
                row = as_object(line)
            except (ValueError, RecursionError) as error:
                why = " ".join(str(error).split())[:300]
                remedy = "write each row as {...}, one a line"
                raise Refused(f"row {place} is no JSON object ({why})", remedy, place) from None
            names |= dict.fromkeys(row)
            if len(names) > WIDE:
                raise Refused(f"the rows have more than {WIDE:,} columns", "send fewer")
        if len(names) * len(lines) > max(CELLS, len(body)):  # a value takes a byte at least
            why = f"the {len(lines):,} rows have {len(names):,} columns, and each of them only a few"
            raise Refused(why, "send rows that have the same columns")
        reader = JSONPart("the batch", "JSON", BytesIO(lines[0]))
        batch, broken = LinePiece(reader, list(names), lines).parsed()
        for place, (_, problem) in broken.items():
            raise Refused(f"row {place + 1} {problem}", AGAIN, place + 1)
        self._check_types(batch.schema)
        return batch

    def _check_rows(self, rows: int, fewest: int = 0) -> None:
        if rows < fewest:
            raise Refused("the batch has no rows", "send one at least")
        if rows > self._limits.rows:
            remedy = f"send at most {self._limits.rows:,} at a time (limits.rows)"
            raise Refused("the batch has too many rows", remedy, status=413)

    def _check_types(self, schema: Any) -> None:
        """Take only types that have no more content than bytes."""
        if len(schema.names) > WIDE or len(set(schema.names)) < len(schema.names) or PARTITION in schema.names:
            raise Refused(
                f"the batch has more than {WIDE:,} columns, two of one name, or one named {PARTITION}", "rename it"
            )
        for field in schema:
            if not _is_plain(field.type):
                remedy = "send flags, numbers, text, times, or lists of numbers"
                raise Refused(f"column {field.name!r:.100} has the type {field.type!s:.100}", remedy)

    def _check(self, batch: Any) -> None:
        """Decode a batch as the evaluator will, and refuse its first bad row."""
        pa, decoder = self._pa, self._decoder
        try:
            if decoder is None:
                decoder = self._learned(batch)
            elif batch.column_names != self._columns:
                now = self._table.read_as("the batch", [*batch.column_names, PARTITION])[0]
                if now != decoder.columns:
                    raise SettingError(f"the batch would be read as {now}, those before it as {decoder.columns}")
            rows, faults = self._decoded(decoder, batch)
        except SettingError as error:
            text = self._question.worded(str(error).replace(f", {PARTITION}", ""))
            error_, _, remedy = text.replace("the log has", "the batch has").partition("; ")
            usual = (
                "repair the settings of the experiment" if decoder is None else "send the same columns in every batch"
            )
            raise Refused(error_, remedy or usual) from None
        except pa.ArrowException as error:
            raise Refused(
                " ".join(str(error).split())[:300], "send flags, numbers, text, or lists of numbers"
            ) from None
        for _, fault in sorted(faults.found.items()):
            raise _refused(fault)
        self._refuse_ahead(batch, decoder.columns.time, rows.time)
        version = self._one_version(batch, decoder.columns.version, rows.version)
        if self._decoder is None:
            try:
                with replacing(self._path) as file:
                    file.write(self._packed(batch.slice(0, 1)))
            except OSError as error:
                why = f"the first row cannot be kept ({error.strerror})"
                raise Refused(why, "the batch was not taken; free some space", status=507) from None
            self._decoder, self._version = decoder, version
        self._columns = batch.column_names

    def _decoded(self, decoder: Decoder, batch: Any) -> tuple[LogRows, Faults]:
        pa = self._pa
        who = pa.DictionaryArray.from_arrays(pa.nulls(len(batch), pa.int32()).fill_null(0), pa.array(["client"]))
        return decoder.decode(batch.append_column(PARTITION, who), {}, 1)

    def _refuse_ahead(self, batch: Any, column: str | None, time: Any) -> None:
        """Refuse a time in the future: a window would wait for it, and take all that comes meanwhile for the latest."""
        if column is None:
            return
        for place in (time > clock.time() + AHEAD).nonzero()[0][:1].tolist():
            what = f"row {place + 1}, column {column!r}: {shown(batch.column(column)[place])}"
            raise Refused(f"{what} is more than a day ahead of the server's clock", "repair the clock", place + 1)

    def _one_version(self, batch: Any, column: str | None, versions: Any) -> tuple[int, Any] | None:
        """Return the version of the policy, if the batch has one and there may be only one; refuse another."""
        if column is None or not self._question.one_version:
            return None
        label = batch.column(column)
        code, first = self._version or (int(versions[0]), label[0].as_py())
        for place in (versions != code).nonzero()[0][:1].tolist():
            other = f"{column} is {label[place].as_py()!r:.60}, and {first!r:.60} in the rows before"
            remedy = "send each version to an experiment of its own, or give this one a window, which begins anew"
            raise Refused(f"row {place + 1}: {other}: an interval would be about a mixture", remedy, place + 1)
        return code, first

    def _learn(self, first: Any) -> None:
        self._decoder = self._learned(first)
        self._columns = first.column_names
        rows, _ = self._decoded(self._decoder, first)
        self._version = self._one_version(first, self._decoder.columns.version, rows.version)

    def _learned(self, batch: Any) -> Decoder:
        """Return what reads rows like the first of these."""
        table, available = self._table, [*batch.column_names, PARTITION]
        columns, targets = table.read_as("the batch", available)
        encoding = table.encoding(available)
        encoder = encoding.fitted(encoding.learn([batch.slice(0, 1)], [columns.features], again=False))
        ratios = RatioReader(targets)
        decoder = Decoder(columns, ratios, encoder, table.gaps, table.ends, table.sessions, kept=True)
        found = self._decoded(decoder, batch.slice(0, 1))[0].ratios
        self._question.check_dimension(encoder.dimension, 1 if found.ndim == 1 else found.shape[1])
        return decoder

    def _packed(self, batch: Any) -> bytes:
        sink = self._pa.BufferOutputStream()
        with self._pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_table(batch.combine_chunks())
        return bytes(sink.getvalue())


def _refused(fault: Fault) -> Refused:
    column = f", column {fault.column!r}" if fault.column else ""
    remedy = AGAIN if fault.remedy == DROP else fault.remedy.replace(f"; {DROP}", "").partition(", or go on")[0]
    return Refused(f"row {fault.row}{column}: {fault.value} {fault.problem}", remedy, fault.row)


def _is_plain(kind: Any) -> bool:
    """Return whether values of a type take as much memory as they take bytes in a message."""
    from pyarrow import types

    plain = (types.is_boolean, types.is_integer, types.is_floating, types.is_string, types.is_large_string)
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        inner = kind.value_type
        return bool(types.is_integer(inner) or types.is_floating(inner))
    return types.is_null(kind) or types.is_temporal(kind) or any(is_one(kind) for is_one in plain)


def _messages(pa: Any, body: bytes) -> Iterator[Any]:
    """Yield the messages of an Arrow stream; none is decoded."""
    reader = pa.ipc.MessageReader.open_stream(body)
    with suppress(StopIteration):
        while True:
            yield reader.read_next_message()


def _compressed(message: Any) -> bool:
    """Return whether the buffers of a record batch are compressed, by the FlatBuffer that describes it.

    Only then can they be larger in memory than in the body.
    """
    if message.type != "record batch":
        return False
    data = memoryview(message.metadata)

    def number(at: int, size: int, signed: bool = False) -> int:
        if not 0 <= at <= len(data) - size:
            raise ValueError("a header is damaged")
        return int.from_bytes(data[at : at + size], "little", signed=signed)

    def entry(table: int, index: int) -> int:
        """Return where the field of a table is; 0: absent."""
        fields = table - number(table, 4, signed=True)
        if 4 + 2 * index >= number(fields, 2):
            return 0
        offset = number(fields + 4 + 2 * index, 2)
        return table + offset if offset else 0

    root = number(0, 4)
    header = entry(root, 2)  # Message: version, header_type, header, bodyLength
    batch = header + number(header, 4)
    return entry(batch, 3) != 0  # RecordBatch: length, nodes, buffers, compression
