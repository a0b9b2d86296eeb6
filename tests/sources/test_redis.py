"""Streams of Redis against a redis-server: the same bits at any time, after kills, and after the server was away."""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kill_streams import campaign
from streaming import Redis, redis_server, rows

import inferl
from inferl.errors import CheckpointError, CheckpointMismatchError, DataError, SettingError
from inferl.sources import Table
from inferl.testing import check_source

pytestmark = [
    pytest.mark.integrations,
    pytest.mark.skipif(shutil.which("redis-server") is None, reason="there is no redis-server (package redis-server)"),
]

SMALL: dict[str, Any] = {"state": "s", "n_states": 3, "discount": 0.9}
NUMBER = count()


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    pytest.importorskip("redis", reason="redis is not installed")
    with redis_server(tmp_path_factory.mktemp("redis")) as port:
        yield port


@pytest.fixture
def stream(port: int) -> Iterator[Redis]:
    one = Redis(port, f"steps-{next(NUMBER)}")
    yield one
    one.client.close()


def opened(stream: Redis, **options: Any) -> Table:
    return inferl.sources.redis(f"redis://127.0.0.1:{stream.port}", stream.key, **(SMALL | options))


def bits(source: Table) -> tuple[int, bytes, bytes]:
    evaluator = inferl.Evaluator(inferl.TD(3)).update(source)
    interval = evaluator.interval(source.start())
    return evaluator.n, np.float64(interval.estimate).tobytes(), np.float64(interval.standard_error).tobytes()


@pytest.mark.parametrize("size", [1, 7])
def test_the_contract_of_a_source(stream: Redis, size: int) -> None:
    stream.send(rows(300, 1, episodes=True), size)
    check_source(lambda: opened(stream, batch=37), chunks=20)


def test_any_batch_any_form_and_any_timing(port: int) -> None:
    sent = rows(400, 2, episodes=True)
    by_field, by_message, slow = (Redis(port, f"steps-{next(NUMBER)}") for _ in range(3))
    by_field.send(sent)
    by_message.send(sent, 7)
    expected = bits(opened(by_field, n_rows=300))
    assert expected[0] > 200
    for batch in (1, 7, 65536):
        assert bits(opened(by_field, n_rows=300, batch=batch)) == expected
        assert bits(opened(by_message, n_rows=300, batch=batch)) == expected

    def send() -> None:
        for start in range(0, 400, 50):
            slow.send(sent[start : start + 50])
            time.sleep(0.03)

    thread = threading.Thread(target=send)
    thread.start()
    assert bits(opened(slow, n_rows=300, follow=True)) == expected
    thread.join()
    for one in (by_field, by_message, slow):
        one.client.close()


def test_entries_that_were_trimmed(stream: Redis) -> None:
    stream.send(rows(100, 3))
    stream.client.xtrim(stream.key, maxlen=90, approximate=False)
    source = opened(stream, batch=20)  # what was trimmed before a run began does not matter
    list(zip(range(2), source, strict=False))
    position = source.position
    stream.client.xtrim(stream.key, maxlen=60, approximate=False)
    assert list(opened(stream).resume(position))  # those were read
    stream.client.xtrim(stream.key, maxlen=10, approximate=False)
    with pytest.raises(CheckpointMismatchError, match="were removed before they were read; keep more of them"):
        list(opened(stream).resume(position))
    follower = iter(opened(stream, batch=3, follow=True))
    next(follower)
    stream.send(rows(50, 4))
    stream.client.xtrim(stream.key, maxlen=5, approximate=False)
    with pytest.raises(DataError, match="were removed before they were read"):
        list(follower)


def test_a_bad_entry_may_be_deleted(stream: Redis) -> None:
    sent = rows(20, 5)
    stream.send(sent[:10])
    bad = stream.client.xadd(stream.key, {"s": "nowhere", "reward": "1"})
    stream.send(sent[10:])
    with pytest.raises(DataError, match=r"entry \d+-\d+, row 11, column 's': 'nowhere' is no state"):
        list(opened(stream))
    skipping = opened(stream, skip_bad=1)
    list(skipping)
    assert skipping.skipped == 1
    stream.client.xdel(stream.key, bad)
    assert sum(map(len, opened(stream))) == 19


def test_positions_and_streams_that_do_not_fit(stream: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    stream.send(rows(50, 6))
    source = opened(stream)
    list(source)
    place = source.position["place"]
    with pytest.raises(CheckpointError, match="is no place in a stream of Redis"):
        list(opened(stream).resume(source.position | {"place": place | {"at": {stream.key: "5"}}}))
    stream.client.delete(stream.key)
    stream.send(rows(5, 7))
    with pytest.raises(CheckpointMismatchError, match="it is another stream of that name"):
        list(opened(stream).resume(source.open_end))
    stream.client.delete(stream.key)
    with pytest.raises(SettingError, match="there is no such stream"):
        list(opened(stream))
    stream.client.set(stream.key, "text")
    with pytest.raises(SettingError, match="WRONGTYPE"):
        list(opened(stream))
    monkeypatch.setattr("inferl.sources.logs.inputs.redis.FIRST_ANSWER", 0.5)
    with pytest.raises(SettingError, match=r"the server does not answer .* is the address right"):
        list(inferl.sources.redis("redis://127.0.0.1:9", "steps", **SMALL))
    with pytest.raises(SettingError, match="name and password do not belong in a URI"):
        inferl.sources.table("redis://:secret@127.0.0.1/steps", **SMALL)


def test_a_server_that_is_away_for_a_while(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    sent = rows(200, 8)
    with redis_server(tmp_path) as port:
        stream = Redis(port, "steps")
        stream.send(sent[:100])
        source = opened(stream, follow=True, n_rows=200)
        chunks = iter(source)
        found = [next(chunks).rewards]
    thread = threading.Thread(target=lambda: found.extend(chunk.rewards for chunk in chunks))
    thread.start()
    for _ in range(200):
        if "the server does not answer; trying again" in caplog.text:
            break
        time.sleep(0.05)
    with redis_server(tmp_path, port):
        stream.send(sent[100:])
        thread.join(30)
        assert not thread.is_alive()
        stream.client.close()
    assert "the server does not answer; trying again" in caplog.text
    assert "messages arrive again" in caplog.text
    assert np.concatenate(found).tolist() == [row["reward"] for _, _, row in sent[:-1]]


def test_killed_and_resumed(stream: Redis, tmp_path: Path) -> None:
    found = campaign(stream, tmp_path, kills=4, seed=3, episodes=True)
    assert found.same
    assert len(found.resumed_at) >= 1, "no kill came after a checkpoint"


def test_one_field_of_json_is_a_row(stream: Redis) -> None:
    for state in (0, 1, 2):
        stream.client.xadd(stream.key, {"row": json.dumps({"s": state, "reward": 1.0})})
    (chunk, last) = opened(stream)
    assert chunk.features.tolist() + last.features.tolist() == [0, 1]
