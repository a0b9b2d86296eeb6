"""Servers of streams for tests: the broker of Kafka that librdkafka has for tests, and a redis-server."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["File", "Kafka", "Redis", "Sent", "kafka_broker", "redis_server", "rows"]

PARTITIONS = 4  # of a topic that the broker makes

Row = dict[str, Any]
Sent = tuple[int, int, Row]  # partition, time in milliseconds, row

# A broker in a process of its own: it outlives the readers that are killed. It ends with its standard input.
BROKER = """
import sys
from confluent_kafka import Producer
broker = Producer({"test.mock.num.brokers": 1, "log_level": 0})
(one,) = broker.list_topics("first", timeout=10).brokers.values()
print(f"{one.host}:{one.port}", flush=True)
sys.stdin.read()
"""


def rows(n: int, seed: int = 0, episodes: bool = False) -> list[Sent]:
    """A walk on three states in each of four partitions; with `episodes`, each has several that are mixed."""
    rng = np.random.default_rng(seed)
    out: list[Sent] = []
    clock, number = 1000, PARTITIONS * 3
    open_ = [[p + PARTITIONS * k for k in range(3)] for p in range(PARTITIONS)]
    for _ in range(n):
        clock += int(rng.integers(3))  # some messages have the same time
        part, which = int(rng.integers(PARTITIONS)), int(rng.integers(3))
        row: Row = {"s": int(rng.integers(3)), "reward": float(rng.normal())}
        if episodes:
            ends = bool(rng.random() < 0.1)
            row |= {"episode": open_[part][which], "terminated": ends}
            if ends:
                open_[part][which] = number * PARTITIONS + part
                number += 1
        out.append((part, clock, row))
    return out


@contextmanager
def kafka_broker() -> Iterator[str]:
    """Run a broker, and yield its address."""
    process = subprocess.Popen(
        [sys.executable, "-c", BROKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert process.stdin is not None
    assert process.stdout is not None
    with process:
        try:
            yield process.stdout.readline().decode().strip()
        finally:
            process.stdin.close()
            process.wait(10)


@contextmanager
def redis_server(folder: Path, port: int = 0) -> Iterator[int]:
    """Run a server with its data in a folder, and yield its port."""
    server = shutil.which("redis-server")
    assert server is not None
    if not port:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
    said = ["--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder), "--appendonly", "yes", "--save", ""]
    process = subprocess.Popen([server, *said], stdout=subprocess.DEVNULL)
    try:
        for _ in range(100):
            with socket.socket() as client:
                if client.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        yield port
    finally:
        process.terminate()
        process.wait(10)


@dataclass
class Kafka:
    """A topic."""

    servers: str
    topic: str
    producer: Any = field(init=False)

    def __post_init__(self) -> None:
        from confluent_kafka import Producer

        self.producer = Producer({"bootstrap.servers": self.servers, "log_level": 0, "linger.ms": 1})
        self.producer.list_topics(self.topic, timeout=10)  # makes the topic

    @property
    def name(self) -> str:
        return f"kafka://{self.servers}/{self.topic}"

    def send(self, sent: Sequence[Sent], size: int = 1) -> None:
        """Send rows, so many a message at most: those that follow each other in a partition at the same time."""
        parts: dict[tuple[int, int], list[bytes]] = {}
        for part, clock, row in sent:
            parts.setdefault((part, clock), []).append(json.dumps(row).encode())
        for (part, clock), lines in parts.items():
            for start in range(0, len(lines), size):
                self.send_bytes(b"\n".join(lines[start : start + size]), part, clock, flush=False)
        assert self.producer.flush(30) == 0

    def send_bytes(self, value: bytes | None, part: int = 0, clock: int = 1000, flush: bool = True) -> None:
        while True:
            try:
                self.producer.produce(self.topic, value, partition=part, timestamp=clock)
                break
            except BufferError:
                self.producer.poll(0.1)
        if flush:
            assert self.producer.flush(30) == 0


@dataclass
class Redis:
    """A stream of Redis."""

    port: int
    key: str
    client: Any = field(init=False)

    def __post_init__(self) -> None:
        import redis

        self.client = redis.Redis(port=self.port)
        self.client.xgroup_create(self.key, "nobody", mkstream=True)  # makes an empty stream

    @property
    def name(self) -> str:
        return f"redis://127.0.0.1:{self.port}/{self.key}"

    def send(self, sent: Sequence[Sent], size: int = 1) -> None:
        with self.client.pipeline(transaction=False) as pipeline:
            for start in range(0, len(sent), size):
                some = [row for _, _, row in sent[start : start + size]]
                fields = some[0] if size == 1 else {"rows": "\n".join(map(json.dumps, some))}
                pipeline.xadd(self.key, {name: str(value) for name, value in fields.items()})
            pipeline.execute()


@dataclass
class File:
    """A file of JSON lines that grows; a row may be cut anywhere for a while."""

    path: Path

    def __post_init__(self) -> None:
        self.path.touch()

    @property
    def name(self) -> str:
        return str(self.path)

    def send(self, sent: Sequence[Sent], size: int = 1) -> None:
        text = "".join(json.dumps(row) + "\n" for _, _, row in sent).encode()
        for part in (text[: len(text) // 2], text[len(text) // 2 :]):
            with open(self.path, "ab") as file:
                file.write(part)
            time.sleep(0.01)
