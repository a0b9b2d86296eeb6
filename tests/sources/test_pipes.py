"""Pipes: rows are read as they come, and a pause is no reason to wait."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from logs import joined, same, small_log
from pyarrow import csv as arrow_csv

from inferl.data.transitions import Transitions
from inferl.sources import table

ROLES: dict[str, Any] = {"state": "s", "n_states": 3}
INFERL = [sys.executable, "-c", "from inferl.cli import main; main()"]


def in_csv(frame: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    arrow_csv.write_csv(frame, sink, arrow_csv.WriteOptions(include_header=False, quoting_style="none"))
    return bytes(sink.getvalue().to_pybytes())


def in_json(frame: pa.Table) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in frame.to_pylist())


def in_arrow(frame: pa.Table, *, first: bool) -> bytes:
    messages = [frame.schema] if first else []
    return b"".join(message.serialize().to_pybytes() for message in (*messages, *frame.combine_chunks().to_batches()))


def written(form: str, frame: pa.Table, *, first: bool) -> bytes:
    if form == "csv":
        return (",".join(frame.column_names).encode() + b"\n" if first else b"") + in_csv(frame)
    return in_json(frame) if form == "json" else in_arrow(frame, first=first)


@contextmanager
def piped(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.BufferedWriter]:
    """Make standard input a pipe; yield its other end."""
    read, write = os.pipe()
    with os.fdopen(read) as stdin, os.fdopen(write, "wb") as end:
        monkeypatch.setattr("sys.stdin", stdin)
        yield end


@pytest.mark.parametrize("form", ["csv", "json", "arrow"])
def test_rows_are_handed_out_before_the_pipe_is_closed(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """This would never end if a reader waited for more than is there."""
    frame = small_log(300)
    with piped(monkeypatch) as end:
        chunks: list[Transitions] = []
        source = table("-", **ROLES)
        reading = iter(source)
        for start in (0, 100, 200):
            end.write(written(form, frame.slice(start, 100), first=start == 0))
            end.flush()
            while sum(map(len, chunks)) < start + 98:  # the last two wait for what follows
                chunks.append(next(reading))
            assert source.rows == start + 100
        end.close()
        chunks.extend(reading)
    assert same(Transitions.join(chunks), joined(table(frame, **ROLES)))


def test_half_a_line_is_no_row_until_its_end_has_come(monkeypatch: pytest.MonkeyPatch) -> None:
    with piped(monkeypatch) as end:
        end.write(b"x,reward\n1.5,1.0\n2.5,1.0\n3.5,1.0\n4.")
        end.flush()
        source = table("-", features="x - 1")
        reading = iter(source)
        assert next(reading).features.tolist() == [[1.5]]
        assert source.rows == 3
        end.write(b"25,1.0\n")
        end.close()
        assert np.concatenate([chunk.features for chunk in reading]).tolist() == [[2.5], [3.5]]
        assert source.rows == 4


def test_a_named_pipe_is_read_like_a_file(tmp_path: Path) -> None:
    frame, fifo = small_log(500), tmp_path / "log.csv"
    arrow_csv.write_csv(frame, tmp_path / "plain.csv")
    os.mkfifo(fifo)
    with subprocess.Popen(["sh", "-c", f"cat '{tmp_path}/plain.csv' > '{fifo}'"]):
        chunk = joined(table(fifo, **ROLES))
    assert same(chunk, joined(table(frame, **ROLES)))


@pytest.mark.parametrize("form", ["csv", "json", "arrow"])
def test_the_shell_shows_readings_while_the_pipe_is_open(form: str) -> None:
    frame = small_log(6000)
    command = [*INFERL, "evaluate", "-", "--state", "s", "--n-states", "3", "--json"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        # In a thread: neither side may wait until the other has read what it wrote.
        def write(stdin: Any = process.stdin) -> None:
            stdin.write(written(form, frame, first=True))
            stdin.flush()

        writer = threading.Thread(target=write)
        writer.start()
        n = 0
        while n < 6000 / 1.25 - 2:  # readings are taken when the data have grown by a quarter
            n = json.loads(process.stdout.readline())["interval"]["n"]
        assert process.poll() is None
        writer.join()
        process.stdin.close()
        final = json.loads(process.stdout.readlines()[-1])
    assert final["interval"]["n"] >= 5999  # the last row has no next one, unless it ends an episode


@pytest.mark.skipif(sys.platform == "win32", reason="there is no tail")
def test_a_log_that_grows_is_followed_by_tail(tmp_path: Path) -> None:
    path, frame = tmp_path / "log.csv", small_log(4000)
    path.write_bytes(written("csv", frame.slice(0, 200), first=True))
    with subprocess.Popen(["tail", "-n", "+1", "-f", str(path)], stdout=subprocess.PIPE) as tail:
        command = [*INFERL, "evaluate", "-", "--state", "s", "--n-states", "3", "--json"]
        with subprocess.Popen(command, stdin=tail.stdout, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert json.loads(process.stdout.readline())["interval"]["n"] <= 200
            with path.open("ab") as file:
                file.write(written("csv", frame.slice(200), first=False))
            n = 0
            while n < 4000 / 1.25 - 2:
                n = json.loads(process.stdout.readline())["interval"]["n"]
            assert process.poll() is None
            tail.terminate()
            assert json.loads(process.stdout.readlines()[-1])["final"]
