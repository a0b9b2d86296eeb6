"""Load: a process that sends batches over several connections at given times, and notes when they were confirmed.

    python -m studies.benchmarks.load SETTINGS OUTPUT

It takes little of the cores that it shares with the server: bodies are read from a file, and answers are not parsed
beyond their status. The times of sending are fixed beforehand (an open loop), and a batch that waits for a connection
waits from then on; so a server that falls behind cannot hide it.
"""

from __future__ import annotations

import json
import pickle
import selectors
import socket
import sys
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path

import numpy as np

__all__ = ["offer"]

OK = b"HTTP/1.1 200"


@dataclass
class _Client:
    """A connection, with at most one batch on its way."""

    socket: socket.socket
    name: str
    sequence: int = 0
    due: float = 0.0  # when the batch on its way was to be sent

    def send(self, path: str, body: bytes) -> None:
        self.sequence += 1
        head = (
            f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/vnd.apache.arrow.stream\r\n"
            f"Inferl-Client: {self.name}\r\nInferl-Sequence: {self.sequence}\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        self.socket.sendall(head.encode() + body)


def offer(
    port: int,
    path: str,
    name: str,
    bodies: list[bytes],
    connections: int,
    rate: float | None,
    begin: float,
    seconds: float,
) -> dict[str, object]:
    """Send batches from a time on.

    Parameters
    ----------
    port, path
        Where they are posted.
    name
        Of the clients, which have a number each.
    bodies
        What is sent, in turns.
    connections
        Number of clients.
    rate
        Batches a second; None: as many as are confirmed.
    begin
        As `time.time`.
    seconds
        How long; what is due then is still waited for.
    """
    clients = [_Client(socket.create_connection(("127.0.0.1", port), 60), f"{name}-{k}") for k in range(connections)]
    ready = selectors.DefaultSelector()
    for client in clients:
        client.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        ready.register(client.socket, selectors.EVENT_READ, client)
    free = deque(clients)
    latencies: list[float] = []
    refused = sent = 0
    time.sleep(max(begin - time.time(), 0.0))
    start = time.perf_counter()
    while True:
        now = time.perf_counter() - start
        over = now >= seconds
        while free and (sent < rate * min(now, seconds) if rate is not None else not over):
            client = free.popleft()
            client.due = now if rate is None else sent / rate
            client.send(path, bodies[sent % len(bodies)])
            sent += 1
        if over and len(free) == len(clients):
            break
        until = 0.05 if rate is None else max(sent / rate - now, 0.0)
        for key, _ in ready.select(min(until, 0.05) if free and not over else 0.05):
            client = key.data
            answer = client.socket.recv(65536)
            while answer and not answer.endswith(b"}\n"):
                answer += client.socket.recv(65536)
            if not answer.startswith(OK):
                refused += 1
                client.sequence -= 1  # it was not taken
                if not answer:
                    raise ConnectionError("the server has closed a connection")
            latencies.append(time.perf_counter() - start - client.due)
            free.append(client)
    for client in clients:
        client.socket.close()
    return {
        "sent": sent,
        "refused": refused,
        "seconds": time.perf_counter() - start,
        "cpu": time.process_time(),
        "latencies": np.array(latencies),
    }


def main() -> None:
    """Read settings, send, and write what happened."""
    settings = json.loads(Path(sys.argv[1]).read_text())
    bodies = pickle.loads(Path(settings.pop("bodies")).read_bytes())
    found = offer(bodies=bodies, **settings)
    np.savez(sys.argv[2], **found)  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
