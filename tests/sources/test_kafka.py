"""Kafka against the broker that librdkafka has for tests, in a process of its own: the same bits at any time."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kill_streams import INFERL, campaign
from streaming import File, Kafka, kafka_broker, rows

import inferl
from inferl.errors import CheckpointError, CheckpointMismatchError, DataError, SettingError
from inferl.runs import Run
from inferl.sources import Table
from inferl.testing import check_source

pytestmark = pytest.mark.integrations

SMALL: dict[str, Any] = {"state": "s", "n_states": 3, "discount": 0.9}
NUMBER = count()


@pytest.fixture(scope="module")
def broker() -> Iterator[str]:
    pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
    with kafka_broker() as address:
        yield address


@pytest.fixture
def topic(broker: str) -> Kafka:
    return Kafka(broker, f"steps-{next(NUMBER)}")


def opened(topic: Kafka, **options: Any) -> Table:
    return inferl.sources.kafka(topic.servers, topic.topic, **(SMALL | options))


def bits(source: Table) -> tuple[int, bytes, bytes]:
    evaluator = inferl.Evaluator(inferl.TD(3)).update(source)
    interval = evaluator.interval(source.start())
    return evaluator.n, np.float64(interval.estimate).tobytes(), np.float64(interval.standard_error).tobytes()


@pytest.mark.parametrize("episodes", [False, True])
def test_the_contract_of_a_source(topic: Kafka, episodes: bool) -> None:
    topic.send(rows(300, 1, episodes))
    check_source(lambda: opened(topic, batch=37), chunks=20)


@pytest.mark.parametrize("episodes", [False, True])
def test_any_batch_and_any_timing_of_arrival(broker: str, episodes: bool) -> None:
    sent = rows(400, 2, episodes)
    whole, slow = Kafka(broker, f"steps-{next(NUMBER)}"), Kafka(broker, f"steps-{next(NUMBER)}")
    whole.send(sent)
    expected = bits(opened(whole, n_rows=300))
    assert expected[0] > 200
    for batch in (1, 7, 65536):
        assert bits(opened(whole, n_rows=300, batch=batch)) == expected

    def send() -> None:  # one partition after the other, with pauses
        for part in (2, 0, 3, 1):
            mine = [one for one in sent if one[0] == part]
            slow.send(mine[:30])
            time.sleep(0.05)
            slow.send(mine[30:])

    thread = threading.Thread(target=send)
    thread.start()
    source = opened(slow, n_rows=300, follow=True)
    assert bits(source) == expected
    thread.join()


def test_the_order_of_the_rows(topic: Kafka) -> None:
    """By time; rows of a partition are paired with each other, and partitions are streams."""
    sent = rows(200, 3)
    topic.send(sent)
    expected: list[tuple[float, int, int]] = []
    before: dict[int, Any] = {}
    for part, _, row in sent:
        if part in before:
            expected.append((before[part]["reward"], before[part]["s"], row["s"]))
        before[part] = row
    found: list[tuple[float, int, int]] = []
    streams = set[int]()
    for chunk in opened(topic):
        found += zip(chunk.rewards.tolist(), chunk.features.tolist(), chunk.next_features.tolist(), strict=True)
        streams |= set(np.asarray(chunk.stream).tolist())
    assert sorted(found) == sorted(expected)
    assert len(streams) == 4


def test_several_rows_a_message_and_messages_without_rows(broker: str) -> None:
    one, other = Kafka(broker, f"steps-{next(NUMBER)}"), Kafka(broker, f"steps-{next(NUMBER)}")
    sent = [(0, 1000, row) for _, _, row in rows(50, 4)]
    for topic in (one, other):
        topic.send_bytes(None)
    one.send(sent, 1)
    other.send(sent, 7)
    other.send_bytes(b"\n \n")
    assert bits(opened(one)) == bits(opened(other))
    assert inferl.evaluate_log(other.name, **SMALL).interval.n == 49
    check_source(lambda: opened(other, batch=5), chunks=20)  # positions inside a message


def test_a_partition_far_ahead_of_the_others(topic: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inferl.sources.logs.inputs.kafka.MOST", 20)
    sent = [(0, 1000 + i, {"s": i % 3, "reward": float(i)}) for i in range(2000)]
    topic.send([*sent, (1, 500, sent[0][2]), (1, 4000, sent[0][2])])
    source = opened(topic, partitions=(0, 1))
    assert sum(len(chunk) for chunk in source) == 2000
    assert source.rows == 2002


def test_a_partition_that_is_silent(
    topic: Kafka, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inferl.sources.logs.inputs.kafka.QUIET", 0.5)
    sent = [(0, 1000 + i, {"s": i % 3, "reward": float(i)}) for i in range(50)]
    topic.send(sent)
    source = opened(topic, partitions=(0, 3), follow=True, n_rows=50)
    found: list[float] = []
    thread = threading.Thread(target=lambda: found.extend(r for chunk in source for r in chunk.rewards.tolist()))
    thread.start()
    for _ in range(300):
        if "messages wait for partition 3, which is silent" in caplog.text:
            break
        time.sleep(0.1)
    assert "messages wait for partition 3, which is silent" in caplog.text
    for one in sent[:5]:
        topic.send([one])
        time.sleep(0.3)
    assert not found
    assert caplog.text.count("messages wait") == 1
    assert "arrive again" not in caplog.text
    topic.send([(3, 2000, sent[0][2])])
    thread.join(30)
    assert found == [float(i) for i in range(49)]
    assert caplog.text.count("messages arrive again") == 1


def test_new_messages_are_read_by_a_source_that_is_resumed(topic: Kafka) -> None:
    sent = [(0, 1000, row) for _, _, row in rows(60, 5)]
    topic.send(sent[:40])
    first = opened(topic)
    read = list(first)
    assert first.open_end is not None
    topic.send(sent[40:])
    rest = list(opened(topic).resume(first.open_end))
    found = np.concatenate([chunk.rewards for chunk in read[:-1] + rest])  # the last was handed out at the end
    assert found.tolist() == [row["reward"] for _, _, row in sent[:-1]]
    assert not list(opened(topic).resume(first.position))  # that is after its end


def test_bad_messages(topic: Kafka) -> None:
    row = {"s": 1, "reward": 0.5}
    for value in (row, row, "no JSON", row, row | {"reward": None}, row, row):
        topic.send_bytes(value.encode() if isinstance(value, str) else json.dumps(value).encode())
    with pytest.raises(DataError, match=r"kafka://.*, partition 0, offset 2, row 3: 'no JSON' is not a row"):
        list(opened(topic))
    with pytest.raises(DataError, match=r"1 bad rows were skipped.*offset 4, row 5, column 'reward': null"):
        list(opened(topic, skip_bad=1))
    source = opened(topic, skip_bad=2)
    assert sum(map(len, source)) == 2
    assert source.skipped == 2
    with pytest.raises(SettingError, match="there is no column 'speed'"):
        list(opened(topic, reward="speed"))


def test_bad_messages_first_and_among_mixed_episodes(topic: Kafka) -> None:
    sent = rows(200, 6, episodes=True)
    topic.send_bytes(b"not a row", 0, 1)
    topic.send(sent[:100])
    topic.send_bytes(b"neither", 1, sent[99][1])
    topic.send(sent[100:])
    source = opened(topic, skip_bad=2)
    n = sum(map(len, source))
    assert source.skipped == 2
    assert n + source.dropped == len(sent)


def test_what_cannot_be_read(topic: Kafka, broker: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingError, match="has no partition 9; there are 0, 1, 2, 3"):
        list(opened(topic, partitions=(9,)))
    with pytest.raises(SettingError, match="is empty"):
        list(opened(topic))
    with pytest.raises(SettingError, match="refuses the settings"):
        list(opened(topic, settings={"no.such.setting": 1}))
    with pytest.raises(SettingError, match="this source never ends"):
        inferl.evaluate_log(opened(topic, follow=True))
    monkeypatch.setattr("inferl.sources.logs.inputs.kafka.FIRST_ANSWER", 0.5)
    monkeypatch.setattr("inferl.sources.logs.inputs.kafka.ANSWER", 0.3)
    with pytest.raises(SettingError, match=r"no broker answers .* is the address right"):
        list(inferl.sources.kafka("127.0.0.1:9", "steps", **SMALL))
    monkeypatch.setattr("inferl.sources.logs.inputs.kafka.ANSWER", 10.0)
    with pytest.raises(SettingError, match="nowhere"):
        list(inferl.sources.kafka(broker, "nowhere", **SMALL))


def test_positions_that_do_not_fit(topic: Kafka, tmp_path: Path) -> None:
    topic.send(rows(100, 7))
    source = opened(topic, batch=30)
    next(iter(source))
    place = source.position["place"]

    def moved(**changes: Any) -> Table:
        return opened(topic).resume(source.position | {"place": place | changes})

    with pytest.raises(CheckpointMismatchError, match="it is another topic of that name"):
        list(moved(at=place["at"] | {"0": "99"}))
    with pytest.raises(CheckpointMismatchError, match="the run has read the partitions 0, 1, 2, 3, and now"):
        list(opened(topic, partitions=(0, 1)).resume(source.position))
    with pytest.raises(CheckpointMismatchError, match="other columns, or other features"):
        list(opened(topic, n_states=4).resume(source.position))
    with pytest.raises(CheckpointError, match="is no offset"):
        list(moved(at=place["at"] | {"0": "-1"}))
    with pytest.raises(CheckpointError, match="does not name its parts"):
        moved(at={})
    path = tmp_path / "log.jsonl"
    File(path).send(rows(50, 7))
    log = inferl.sources.table(path, **SMALL)
    list(log)
    for one, position in ((opened(topic), log.position), (log, source.position)):
        with pytest.raises(CheckpointMismatchError, match="is that of a log of another kind"):
            list(one.resume(position))


def test_messages_that_were_discarded(topic: Kafka) -> None:
    """The broker keeps 5 MB of a partition."""
    large = json.dumps({"s": 1, "reward": 0.5, "padding": "x" * 600_000}).encode()
    for _ in range(6):
        topic.send_bytes(large)
    little = {"queued.min.messages": 1, "queued.max.messages.kbytes": 1, "fetch.message.max.bytes": 1000}
    source = opened(topic, follow=True, batch=1, partitions=(0,), settings=little)
    stream = iter(source)
    next(stream)
    position = source.position
    for _ in range(12):
        topic.send_bytes(large)
    message = "partition 0 have not been read, and the broker has discarded them"
    with pytest.raises(DataError, match=message):
        list(stream)
    with pytest.raises(CheckpointMismatchError, match=message):
        list(opened(topic, partitions=(0,)).resume(position))


def test_a_broker_that_goes_away(tmp_path: Path) -> None:
    """The reader keeps trying; SIGTERM saves the run, and prints the answer."""
    run_file = tmp_path / "live.run"
    options = ["--state", "s", "--n-states", "3", "--follow", "--checkpoint", str(run_file), "--every", "10"]
    with kafka_broker() as address:
        topic = Kafka(address, "steps")
        topic.send(rows(200, 9))
        command = [*INFERL, "evaluate", topic.name, *options]
        reader = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        while not run_file.exists():
            assert reader.poll() is None
            time.sleep(0.1)
    assert reader.stderr is not None
    assert b"no broker answers; trying again" in reader.stderr.readline()
    reader.terminate()
    out, said = reader.communicate(timeout=30)
    assert reader.returncode == 143
    assert b"95% pointwise" in out
    assert b"continue it with: inferl resume" in said
    run = Run.load(run_file)
    assert not run.complete
    assert run.evaluator.n > 100


@pytest.mark.parametrize("episodes", [False, True])
def test_killed_and_resumed(broker: str, tmp_path: Path, episodes: bool) -> None:
    found = campaign(Kafka(broker, f"steps-{next(NUMBER)}"), tmp_path, kills=4, seed=3, episodes=episodes)
    assert found.same
    assert len(found.resumed_at) >= 1, "no kill came after a checkpoint"
    assert Run.load(tmp_path / "killed.run").evaluator.n > 0
