"""Files that are followed: what another program adds is read, with the same bits as if it had been there."""

from __future__ import annotations

import gzip
import json
import threading
import time
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from kill_streams import campaign
from streaming import File, rows

import inferl
from inferl.errors import CheckpointMismatchError, DataError, SettingError
from inferl.sources import Table

SMALL: dict[str, Any] = {"state": "s", "n_states": 3, "discount": 0.9}


def bits(source: Table) -> tuple[int, bytes, bytes]:
    evaluator = inferl.Evaluator(inferl.TD(3)).update(source)
    interval = evaluator.interval(source.start())
    return evaluator.n, np.float64(interval.estimate).tobytes(), np.float64(interval.standard_error).tobytes()


@pytest.mark.parametrize("header", [True, False])
def test_a_file_that_grows_at_any_byte(tmp_path: Path, header: bool) -> None:
    whole, slow = tmp_path / "whole", tmp_path / "slow"
    sent = [row for _, _, row in rows(300, 1)]
    if header:
        text = "s,reward\n" + "".join(f"{row['s']},{row['reward']!r}\n" for row in sent)
    else:
        text = "".join(json.dumps(row) + "\n" for row in sent)
    whole.write_text(text)
    expected = bits(inferl.sources.table(whole, n_rows=250, **SMALL))
    rng = np.random.default_rng(2)
    cuts = [0, 1, 3, *sorted(rng.integers(3, len(text), size=20).tolist()), len(text)]
    slow.touch()

    def write() -> None:
        for start, stop in pairwise(cuts):
            time.sleep(0.01)
            with slow.open("a") as file:
                file.write(text[start:stop])

    thread = threading.Thread(target=write)
    thread.start()
    source = inferl.sources.table(slow, n_rows=250, follow=True, **SMALL)
    assert bits(source) == expected
    thread.join()


@pytest.mark.parametrize("batch", [1, 7, 65536])
def test_the_first_rows_alone(tmp_path: Path, batch: int) -> None:
    path = tmp_path / "log.jsonl"
    File(path).send(rows(100, 2))
    found = bits(inferl.sources.table(path, n_rows=60, batch=batch, **SMALL))
    short = tmp_path / "short.jsonl"
    File(short).send(rows(100, 2)[:60])
    assert found == bits(inferl.sources.table(short, **SMALL))


def test_resumed_after_it_grew(tmp_path: Path) -> None:
    sent, path = rows(90, 3), tmp_path / "log.jsonl"
    File(path).send(sent[:50])
    source = inferl.sources.table(path, follow=True, **SMALL)
    first = next(iter(source))
    File(path).send(sent[50:])
    again = inferl.sources.table(path, follow=True, n_rows=90, **SMALL).resume(source.position)
    found = np.concatenate([first.rewards, *(chunk.rewards for chunk in again)])
    assert found.tolist() == [row["reward"] for _, _, row in sent[:-1]]
    path.write_text(path.read_text().replace("0", "1", 1))
    with pytest.raises(CheckpointMismatchError, match="are not the rows that were read before"):
        list(inferl.sources.table(path, n_rows=90, **SMALL).resume(source.position))


@pytest.mark.parametrize("change", ["cut off", "replaced", "removed"])
def test_a_file_that_is_another_one(tmp_path: Path, change: str) -> None:
    path = tmp_path / "log.jsonl"
    File(path).send(rows(50, 4))
    source = iter(inferl.sources.table(path, follow=True, **SMALL))
    next(source)
    if change == "cut off":
        path.write_text("")
    else:
        path.rename(tmp_path / "old.jsonl")
    if change == "replaced":
        File(path).send(rows(80, 5))
    with pytest.raises(DataError, match="was removed while" if change == "removed" else "was cut off or replaced"):
        next(source)


def test_what_cannot_be_followed(tmp_path: Path) -> None:
    packed, folder = tmp_path / "log.csv.gz", tmp_path
    packed.write_bytes(gzip.compress(b"s,reward\n1,2\n1,3\n"))
    for source, message in (
        (packed, "only text that is not compressed"),
        (folder, "it is no file"),
        (tmp_path / "nothing", "it is no file"),
    ):
        with pytest.raises(SettingError, match=message):
            list(inferl.sources.table(source, follow=True, **SMALL))
    for several in (["a.csv", "b.csv"], "-", object()):
        with pytest.raises(SettingError, match="only a stream, or one file of text"):
            inferl.sources.table(several, follow=True, **SMALL)
    with pytest.raises(SettingError, match="a stream is read alone"):
        inferl.sources.table(["kafka://a/b", "log.csv"], **SMALL)
    for uri in ("kafka://broker", "kafka:///topic", "kafka://broker/a/b", "redis://host/key?partitions=1"):
        with pytest.raises(SettingError, match="is not the URI of a stream"):
            inferl.sources.table(uri, **SMALL)
    path = tmp_path / "log.jsonl"
    File(path).send(rows(10, 6))
    for options in ({"features": "C(s)"}, {"state": "s"}):
        with pytest.raises(SettingError, match="this log can be read only once"):
            list(inferl.sources.table(path, follow=True, **cast(Any, options)))


@pytest.mark.integrations  # it takes long
def test_killed_and_resumed(tmp_path: Path) -> None:
    found = campaign(File(tmp_path / "log.jsonl"), tmp_path, kills=2, seed=3)
    assert found.same
    assert len(found.resumed_at) >= 1, "no kill came after a checkpoint"
