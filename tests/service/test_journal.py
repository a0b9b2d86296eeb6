"""The journal: nothing confirmed is lost, nothing counts twice, whatever the end of its last file looks like."""

from __future__ import annotations

import errno
import os
import shutil
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import inferl
from inferl.errors import CheckpointMismatchError, DataError, SettingError
from inferl.service.journal import Closed, Gap, Journal, JournalError, TooManyClients
from inferl.sources import Table
from inferl.sources.logs.inputs.journal import ROWS, ends_of, segments
from inferl.testing import check_source


def packed(**columns: Any) -> bytes:
    table = pa.table(columns)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def fill(folder: Path, batches: int, clients: int = 2, segment: int = 1 << 20, seed: int = 0) -> list[int]:
    """Write batches of a walk on three states; return the rows of each."""
    rng = np.random.default_rng(seed)
    journal, sizes = Journal(folder, segment), []
    for number in range(batches):
        size = int(rng.integers(1, 9))
        states, rewards = rng.integers(3, size=size), rng.normal(size=size)
        # One in four batches has rewards of another type, as when all of them are whole.
        payload = packed(s=states, reward=rewards if number % 4 else np.round(rewards).astype(int))
        journal.append(f"client-{number % clients}", number // clients + 1, size, payload).result()
        sizes.append(size)
    journal.close()
    return sizes


def recorded(folder: Path) -> list[tuple[str, int]]:
    found = [record for segment in segments(folder) for record in ends_of(segment)]
    return [(record.client, record.sequence) for record in found if record.kind == ROWS]


def table(folder: Path, **options: Any) -> Table:
    return inferl.sources.table(f"journal://{folder}", state="s", n_states=3, discount=0.9, **options)


def test_a_repeat_has_no_effect_and_a_gap_names_what_is_expected(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for sequence in (1, 2, 2, 1):
        journal.append("one", sequence, 1, b"x").result()
    with pytest.raises(Gap) as gap:
        journal.append("one", 4, 1, b"x")
    assert gap.value.expected == 3
    assert journal.sequence("one") == 2
    journal.append("two", 1, 1, b"x").result()
    journal.close()
    assert recorded(tmp_path) == [("one", 1), ("one", 2), ("two", 1)]
    with pytest.raises(Closed):
        journal.append("one", 3, 1, b"x")


def test_a_torn_tail_is_cut_off_at_every_byte(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    journal = Journal(whole)
    for sequence in (1, 2, 3):
        journal.append("client-0", sequence, 1, b"a row").result()
    journal.close()
    (segment,) = segments(whole)
    content = segment.path.read_bytes()
    ends = [record.after for record in ends_of(segment)]
    torn = tmp_path / "torn"
    for size in range(len(content)):
        shutil.rmtree(torn, ignore_errors=True)
        torn.mkdir()
        (torn / segment.path.name).write_bytes(content[:size])
        journal = Journal(torn)
        complete = sum(end <= size for end in ends[1:])
        assert journal.sequence("client-0") == complete
        again = range(complete + 1, 6 if size % 20 == 0 else complete + 1)  # each needs the disk, which takes long
        for sequence in again:
            journal.append("client-0", sequence, 1, b"a row").result()
        journal.close()
        assert recorded(torn) == [("client-0", k + 1) for k in range(complete + len(again))]
        aside = b"".join(path.read_bytes() for path in torn.glob("*.torn"))
        assert aside == content[max((end for end in ends if end <= size), default=0) : size]


def test_a_damaged_record_ends_what_is_read_and_is_set_aside(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    fill(whole, 3, clients=1)
    (segment,) = segments(whole)
    content = segment.path.read_bytes()
    ends = [record.after for record in ends_of(segment)]
    for place in range(ends[1], ends[2], 7):
        damaged = tmp_path / f"damaged-{place}"
        damaged.mkdir()
        (damaged / segment.path.name).write_bytes(
            content[:place] + bytes([content[place] ^ 0x40]) + content[place + 1 :]
        )
        journal = Journal(damaged)
        assert journal.sequence("client-0") == 1
        journal.close()
        (aside,) = damaged.glob("*.torn")
        assert len(aside.read_bytes()) == len(content) - ends[1]


@pytest.mark.parametrize("left", [0, 5, 40])
def test_a_crash_at_the_first_record_of_a_new_segment(tmp_path: Path, left: int) -> None:
    fill(tmp_path, 20, segment=1000)
    last = segments(tmp_path)[-1]
    end = last.begin + last.path.stat().st_size
    (tmp_path / f"{end:020d}.segment").write_bytes(last.path.read_bytes()[:left])
    journal = Journal(tmp_path)
    assert [journal.sequence(f"client-{k}") for k in (0, 1)] == [10, 10]
    assert journal.rows == sum(batch.rows for segment in segments(tmp_path) for batch in ends_of(segment))
    journal.append("client-0", 11, 1, packed(s=[0], reward=[0.0])).result()
    journal.close()
    assert recorded(tmp_path)[-1] == ("client-0", 11)


def test_numbers_of_clients_survive_the_deletion_of_segments(tmp_path: Path) -> None:
    sizes = fill(tmp_path, 60, clients=3, segment=1500)
    before = segments(tmp_path)
    assert len(before) > 5
    journal = Journal(tmp_path, 1500)
    journal.forget(before[4].begin + 1)
    assert segments(tmp_path) == before[4:]
    journal.close()
    journal = Journal(tmp_path, 1500)
    assert [journal.sequence(f"client-{k}") for k in range(3)] == [20, 20, 20]
    assert journal.rows == sum(sizes)
    journal.append("client-1", 20, 1, b"a repeat").result()
    journal.forget(journal.durable)
    assert segments(tmp_path) == before[-1:]  # the one that is written stays
    journal.close()


def test_what_arrives_together_is_written_together_and_each_once(tmp_path: Path, monkeypatch: Any) -> None:
    syncs = []
    fdatasync = os.fdatasync

    def counted(file: int) -> None:
        syncs.append(file)
        fdatasync(file)

    monkeypatch.setattr(os, "fdatasync", counted)
    journal = Journal(tmp_path, segment=5000)

    def send(name: str) -> None:
        for sequence in range(1, 101):
            first, again = (journal.append(name, sequence, 1, b"row") for _ in range(2))
            first.result()
            again.result()

    threads = [threading.Thread(target=send, args=(f"client-{k}",)) for k in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    journal.close()
    found = recorded(tmp_path)
    assert len(found) == len(set(found)) == 1600
    for k in range(16):
        assert [sequence for name, sequence in found if name == f"client-{k}"] == list(range(1, 101))
    assert len(syncs) < 1600


def test_a_full_disk_loses_nothing(tmp_path: Path, monkeypatch: Any) -> None:
    journal = Journal(tmp_path)
    journal.append("one", 1, 1, b"first").result()
    write = os.write
    monkeypatch.setattr(os, "write", lambda file, data: write(file, data[:3]) and _full())
    with pytest.raises(JournalError, match="No space left"):
        journal.append("one", 2, 1, b"second").result()
    monkeypatch.undo()
    assert journal.sequence("one") == 1
    journal.append("one", 2, 1, b"second").result()
    journal.close()
    assert recorded(tmp_path) == [("one", 1), ("one", 2)]


def _full() -> int:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_after_the_disk_failed_nothing_more_is_confirmed(tmp_path: Path, monkeypatch: Any) -> None:
    journal = Journal(tmp_path)

    def fail(file: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fdatasync", fail)
    with pytest.raises(JournalError, match="the disk failed"):
        journal.append("one", 1, 1, b"x").result()
    monkeypatch.undo()
    with pytest.raises(JournalError, match="restart the server"):
        journal.append("one", 1, 1, b"x")
    journal.close()


def test_one_writer_and_so_many_clients(tmp_path: Path) -> None:
    journal = Journal(tmp_path, most_clients=2)
    with pytest.raises(SettingError, match="belongs to a server that is running"):
        Journal(tmp_path)
    for name in ("one", "two", "one"):
        journal.append(name, 1, 1, b"x").result()
    with pytest.raises(TooManyClients):
        journal.append("three", 1, 1, b"x")
    journal.close()


# As a log.


@pytest.mark.parametrize("segment", [700, 1 << 20])
def test_the_contract_of_a_source(tmp_path: Path, segment: int) -> None:
    fill(tmp_path, 60, segment=segment)
    check_source(lambda: table(tmp_path, batch=11), chunks=15)


def test_each_client_is_a_stream_and_batches_do_not_matter(tmp_path: Path) -> None:
    fill(tmp_path, 80, clients=4)
    found = []
    for batch in (1, 7, 65536):
        evaluator = inferl.Evaluator(inferl.TD(3)).update(table(tmp_path, batch=batch))
        assert evaluator.report(1).facts["streams"] == 4
        found.append((evaluator.n, float(evaluator.interval(1).estimate)))
    assert len(set(found)) == 1


def test_a_resumed_run_reads_what_has_been_added(tmp_path: Path) -> None:
    sizes = fill(tmp_path, 30)
    source = table(tmp_path)
    evaluator = inferl.Evaluator(inferl.TD(3)).update(source)
    assert source.rows == sum(sizes)
    journal = Journal(tmp_path)
    journal.append("client-0", 16, 2, packed(s=[0, 1], reward=[1.0, 2.0])).result()
    journal.close()
    again = table(tmp_path).resume(source.open_end)
    evaluator.update(again)
    assert again.rows == sum(sizes) + 2


def test_a_place_that_is_not_there_is_refused(tmp_path: Path) -> None:
    whole, short = tmp_path / "whole", tmp_path / "short"
    fill(whole, 40, segment=1000)
    source = table(whole)
    assert sum(map(len, source)) > 0
    fill(short, 3)
    with pytest.raises(CheckpointMismatchError, match="the journal ends before it"):
        list(table(short).resume(source.open_end))
    source = table(whole, n_rows=20)
    assert sum(map(len, source)) > 0
    for segment in segments(whole)[:-1]:
        segment.path.unlink()
    with pytest.raises(CheckpointMismatchError, match="was deleted"):
        list(table(whole).resume(source.open_end))
    with pytest.raises(DataError, match="bytes were deleted"):
        list(table(whole))


def test_damage_between_records_is_an_error_of_a_replay(tmp_path: Path) -> None:
    fill(tmp_path, 40, segment=1000)
    path = segments(tmp_path)[1].path
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))
    with pytest.raises(DataError, match="is damaged at byte"):
        list(table(tmp_path))


def test_there_is_no_such_journal(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="no such folder"):
        list(table(tmp_path / "nothing"))
    Journal(tmp_path).close()
    with pytest.raises(SettingError, match="is empty"):
        list(table(tmp_path))


def test_a_crash_before_the_first_record_of_a_segment_leaves_no_empty_one(tmp_path: Path) -> None:
    """With another limit the segment before it may go on beyond its place."""
    fill(tmp_path, 6, segment=600)
    last = segments(tmp_path)[-1]
    end = last.begin + last.path.stat().st_size
    last.path.with_name(last.path.name.replace(f"{last.begin}", f"{end}".zfill(len(f"{last.begin}")))).touch()
    assert segments(tmp_path)[-1].begin == end
    for sequence in (4, 5):
        journal = Journal(tmp_path, segment=1 << 20)
        journal.append("client-0", sequence, 1, b"x" * 100).result()
        journal.close()
    assert recorded(tmp_path)[-2:] == [("client-0", 4), ("client-0", 5)]
