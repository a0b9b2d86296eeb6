"""Hostile requests to real servers, mixed with sound batches: `python fuzz_service.py --inputs 100000`.

An input is a pure function of its seed and number. Threads send them over connections that are kept, or over one of
their own. No answer may be an error of the server or tell of the machine. In the end, the journals hold exactly what
was confirmed, and the runs are the same, bit for bit, as a replay of the journals.
"""

from __future__ import annotations

import json
import os
import queue
import re
import socket
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from fuzzing import Judgement, command
from hostile import Request, drawn, good
from serving import OPTIONS, SETTINGS, Server, same_as_replay, served

from inferl.service.tokens import new_token
from inferl.sources.logs.inputs.journal import ROWS, ends_of, segments

__all__ = ["BAD", "OUTCOMES", "campaign", "facts"]

BAD = ("500", "hung", "told too much", "wrong")
OUTCOMES = ("200", "400", "401", "404", "405", "409", "413", "415", "421", "other", "closed", "left", *BAD)
THREADS = 4
SOUND = 0.1  # share of sound batches
PATIENCE = 30.0  # seconds for an answer
LIMITS = "[limits]\nrequest = 200000\nrows = 500\nsegment = 20000000\nqueue = 400000000\n"
TRIPS = """\
[experiments.trips]
features = "x"
episode = "trip"
order = "t"
terminated = "over"
discount = 1.0
every = "0.5s"
"""
TRIP_OPTIONS = [
    "--features",
    "x",
    "--episode",
    "trip",
    "--order",
    "t",
    "--terminated",
    "over",
    "--discount",
    "1",
    "--skip-bad",
    "1000000",
]
TABLES = """\
[experiments.hours]
state = "s"
n-states = 3
discount = 0.9
target = "0"
window = 3
pane = "20m"
time = "at"
every = "0.5s"

[experiments.cells]
state = "s"
n-states = 2000
discount = 0.9
target = "1"
every = "0.5s"
"""
HOURS = [*OPTIONS[:-2], "--window", "3", "--pane", "20m", "--time", "at"]
CELLS = ["--state", "s", "--n-states", "2000", "--discount", "0.9", "--target", "1"]
REPLAYS = {"walk": OPTIONS, "trips": TRIP_OPTIONS, "hours": HOURS, "cells": CELLS}
TELLING = re.compile(rb'Traceback|File "|\.py\b|site-packages|/tmp/|/home/|/root/|0x[0-9a-f]{8,}')
HEADERS = {
    *("content-length", "content-type", "connection", "transfer-encoding", "retry-after", "www-authenticate", "allow"),
    *("x-content-type-options", "content-security-policy", "referrer-policy", "cache-control", "etag"),
    "x-accel-buffering",
}


class Answer(NamedTuple):
    """What came back; status 0: the connection was closed, -1: nothing came."""

    status: int
    headers: dict[bytes, bytes]
    body: bytes


class Line:
    """A connection to a server, opened anew when it is needed."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.socket: socket.socket | None = None
        self.unread = b""

    def ask(self, data: bytes, method: str = "POST", twice: bool = True) -> Answer:
        """Send bytes and wait for an answer; a kept connection that was closed meanwhile is opened again."""
        used = self.socket is not None
        try:
            with suppress(BrokenPipeError, ConnectionResetError):  # it may have answered before it has read all
                self.open().sendall(data)
            answer = self._answer(method)
        except TimeoutError:
            self.close()
            return Answer(-1, {}, b"")
        except OSError:
            answer = Answer(0, {}, b"")
        if answer.status == 0 or answer.headers.get(b"connection") == b"close":
            self.close()
            if answer.status == 0 and used and twice:
                return self.ask(data, method, twice=False)
        return answer

    def open(self) -> socket.socket:
        """Return the connection, open."""
        if self.socket is None:
            self.socket, self.unread = socket.create_connection(("127.0.0.1", self.server.port), PATIENCE), b""
        return self.socket

    def _answer(self, method: str) -> Answer:
        while True:
            head, found, rest = self.unread.partition(b"\r\n\r\n")
            if not found:
                if not self._more():
                    return Answer(0, {}, self.unread)
                continue
            self.unread = rest
            status = int(head.split(b" ", 2)[1])
            if status != 100:
                break
        lines = [line.partition(b":") for line in head.split(b"\r\n")[1:]]
        headers = {name.lower(): value.strip() for name, _, value in lines}
        length = 0 if method == "HEAD" or status in (204, 304) else int(headers.get(b"content-length", 0))
        while len(self.unread) < length and self._more():
            pass
        body, self.unread = self.unread[:length], self.unread[length:]
        if headers.get(b"content-type") == b"text/event-stream":
            headers[b"connection"] = b"close"  # it has no end
        return Answer(status, headers, body)

    def _more(self) -> bool:
        got = self.open().recv(1 << 16)
        self.unread += got
        return bool(got)

    def close(self) -> None:
        """Close it."""
        if self.socket is not None:
            self.socket.close()
        self.socket, self.unread = None, b""


@dataclass
class Campaign:
    """Two servers, one of which asks for tokens, and what they have confirmed."""

    folder: Path
    seed: int
    servers: dict[bool, Server] = field(default_factory=dict)  # by whether they ask for tokens
    tokens: dict[str, str] = field(default_factory=dict)
    confirmed: dict[tuple[str, str], list[int]] = field(default_factory=lambda: defaultdict(list))  # rows of each batch
    sent: Counter[str] = field(default_factory=Counter)  # numbered rows of each honest client
    memory: list[int] = field(default_factory=list)  # megabytes of both servers, over time

    def start(self, open_until: ExitStack) -> None:
        """Start the servers, and give each experiment its first batch."""
        lines = {scope: new_token(scope) for scope in ("read", "write")}
        self.tokens = {scope: token for scope, (token, _) in lines.items()}
        for guarded in (False, True):
            folder = self.folder / ("guarded" if guarded else "open")
            folder.mkdir()
            (folder / "tokens.txt").write_text("\n".join(line for _, line in lines.values()))
            plain = 'tokens = "tokens.txt"' if guarded else ""
            server = open_until.enter_context(
                served(folder, experiments=LIMITS + SETTINGS + TRIPS + TABLES, plain=plain)
            )
            self.servers[guarded] = server
        line = Line(self.servers[False])
        first = {
            "walk": b'{"s": 1, "reward": 0.5, "number": 0}',
            "trips": b'{"trip": 1, "t": 1, "x": 0.5, "reward": 1.0, "over": true}',
            "hours": b'{"s": 1, "reward": 0.5, "at": 1.7e9}',
            "cells": b'{"s": 1, "reward": 0.5}',
        }
        for name, row in first.items():
            request = Request("good", "first", frozenset({200}), path=f"/v1/experiments/{name}/transitions", body=row)
            assert self._numbered(line, request, "first", "application/x-ndjson").status == 200
        line.close()
        self.sent["first"] = 1

    def run(self, numbers: range) -> Iterator[Judgement]:
        """Judge inputs, in threads."""
        judged: queue.SimpleQueue[Judgement | BaseException | None] = queue.SimpleQueue()
        threads = [threading.Thread(target=self._work, args=(k, numbers, judged)) for k in range(THREADS)]
        for thread in threads:
            thread.start()
        left = len(threads)
        while left:
            one = judged.get()
            if isinstance(one, BaseException):
                raise one
            if one is None:
                left -= 1
            else:
                yield one
                if one.number % 500 == 0:
                    self.memory.append(sum(map(_megabytes, self.servers.values())))
        for thread in threads:
            thread.join()

    def _work(self, k: int, numbers: range, judged: queue.SimpleQueue[Any]) -> None:
        try:
            lines = {guarded: Line(server) for guarded, server in self.servers.items()}
            for number in numbers[k::THREADS]:
                judged.put(self.judge(number, lines, f"{k}"))
            for line in lines.values():
                line.close()
            judged.put(None)
        except BaseException as error:
            judged.put(error)

    def judge(self, number: int, lines: dict[bool, Line], who: str) -> Judgement:
        """Send an input, and judge the answer."""
        rng = np.random.default_rng((self.seed, number))
        if rng.random() < SOUND:
            client = f"honest-{who}"
            size = int(rng.integers(1, 60))
            body, kind = good(rng, self.sent[client], size, arrow=rng.random() < 0.5)
            self.sent[client] += size
            request, method = Request("good", kind[-6:], frozenset({200}), body=body), "POST"
            answer = self._numbered(lines[False], request, client, kind)
        else:
            request = drawn(rng, self.tokens)
            line, method = lines[request.guarded], request.method
            if request.numbered:
                answer = self._numbered(line, request, f"hostile-{who}", request.headers["Content-Type"])
            elif request.raw is not None:
                answer = self._alone(request)
            else:
                answer = line.ask(_written(request), method)
        outcome, message = _judged(request, answer)
        return Judgement(number, request.group, request.sort, outcome, message)

    def _numbered(self, line: Line, request: Request, client: str, kind: str) -> Answer:
        """Send a batch with the next number of its sender, and note what is confirmed."""
        name = request.path.split("/")[3]
        found = self.confirmed[name, client]
        request.headers |= {"Inferl-Client": client, "Inferl-Sequence": str(len(found) + 1), "Content-Type": kind}
        answer = line.ask(_written(request))
        if answer.status == 200:
            content = json.loads(answer.body)
            found.append(-1 if content["repeat"] else content["rows"])  # -1: the first answer was lost
        return answer

    def _alone(self, request: Request) -> Answer:
        """Send bytes on a connection of their own, and perhaps go away."""
        assert request.raw is not None
        line = Line(self.servers[False])
        try:
            if request.leaves:
                with suppress(OSError), socket.create_connection(("127.0.0.1", line.server.port), PATIENCE) as one:
                    one.sendall(request.raw)
                return Answer(0, {}, b"")
            with suppress(OSError):
                line.open().sendall(request.raw)
                line.open().shutdown(socket.SHUT_WR)  # there is no more, so the server need not wait
            return line.ask(b"", "HEAD" if request.raw.startswith(b"HEAD") else "GET", twice=False)
        finally:
            line.close()

    def finish(self) -> list[str]:
        """Stop the servers, and return what is wrong with what they have kept."""
        wrong = []
        server = self.servers[False]
        for name in REPLAYS:
            state = server.wait_for(0, name)
            if state["failure"] is not None:
                wrong.append(f"{name} failed: {state['failure']}")
        for guarded, one in self.servers.items():
            if one.process is None or one.process.poll() is not None:
                wrong.append(f"the server died (guarded: {guarded})")
            elif one.stop() != 0:
                wrong.append("the server did not stop as it should")
            said = (one.folder / "log.txt").read_text()
            if "Traceback" in said or "rror" in said:
                wrong.append(f"the log of the server has errors: {said[:2000]}")
        wrong += self._lost(server)
        for name, options in REPLAYS.items():
            if not same_as_replay(server, server.folder, options, name):
                wrong.append(f"{name} is not what a replay of its journal gives")
        if Path("forged.txt").exists():
            wrong.append("code of a batch was run")
        if segments(self.servers[True].folder / "live/walk/journal")[-1].path.stat().st_size > 100:
            wrong.append("rows were taken without a token")
        return wrong

    def _lost(self, server: Server) -> Iterator[str]:
        """Compare the journals with what was confirmed."""
        for name in REPLAYS:
            found: dict[str, list[int]] = defaultdict(list)
            numbers: dict[str, list[int]] = defaultdict(list)
            for segment in segments(server.folder / f"live/{name}/journal"):
                for record in ends_of(segment):
                    if record.kind == ROWS:
                        assert record.sequence == len(found[record.client]) + 1
                        found[record.client].append(record.rows)
                        if record.client in self.sent and name == "walk":
                            table = pa.ipc.open_stream(record.payload).read_all()
                            numbers[record.client] += table["number"].to_pylist()
            said = {client: rows for (experiment, client), rows in self.confirmed.items() if experiment == name}
            for client in found.keys() | said.keys():
                here, told = found[client], said.get(client, [])
                if len(here) != len(told) or any(one not in (-1, other) for one, other in zip(told, here, strict=True)):
                    yield f"{name}: {client} was told {len(told)} batches, and {len(here)} are there, or of other sizes"
            for client, rows in numbers.items():
                if rows != list(range(self.sent[client])):
                    yield f"{name}: rows of {client} were lost, or are there twice"


def _written(request: Request) -> bytes:
    """Write a request as bytes."""
    headers = {"Host": "localhost", "Content-Length": str(len(request.body))} | request.headers
    lines = [f"{request.method} {request.path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode("utf-8", "surrogateescape") + request.body


def _judged(request: Request, answer: Answer) -> tuple[str, str]:
    """Return the outcome, and what is to be said about it."""
    shown = f"{answer.status} {answer.body[:300]!r} to {request.method} {request.path[:80]} {request.headers!r:.300}"
    if answer.status == -1:
        return "hung", shown
    if answer.status == 500:
        return "500", shown
    if TELLING.search(answer.body) or any(TELLING.search(value) for value in answer.headers.values()):
        return "told too much", shown
    if request.leaves:
        return "left", ""
    if answer.status not in request.allowed or {name.decode() for name in answer.headers} - HEADERS:
        return "wrong", shown
    if answer.status >= 400 and answer.headers.get(b"content-type") == b"application/json" and request.method != "HEAD":
        content = json.loads(answer.body)
        if not (content["error"] and content["remedy"]):
            return "wrong", shown
    outcome = "closed" if answer.status == 0 else str(answer.status)
    return outcome if outcome in OUTCOMES else "other", shown


def _megabytes(server: Server) -> int:
    """Return the memory that a server has now."""
    assert server.process is not None
    pages = int(Path(f"/proc/{server.process.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") >> 20


FACTS: dict[str, Any] = {}


def campaign(numbers: range, seed: int = 0) -> Iterator[Judgement]:
    """Judge inputs, and in the end what the servers have kept."""
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as open_until:
        one = Campaign(Path(folder), seed)
        one.start(open_until)
        yield from one.run(numbers)
        seconds = time.monotonic() - begin
        for problem in one.finish():
            yield Judgement(-1, "the end", "journal", "wrong", problem)
        rows = sum(max(size, 0) for sizes in one.confirmed.values() for size in sizes)
        FACTS.clear()
        FACTS.update(
            {
                "requests": len(numbers),
                "seconds": round(seconds),
                "confirmed batches": sum(map(len, one.confirmed.values())),
                "confirmed rows": rows,
                "numbered rows": sum(one.sent.values()),
                "megabytes": {"at first": one.memory[0], "most": max(one.memory), "at last": one.memory[-1]},
            }
        )


def facts() -> dict[str, Any]:
    """Return what is to be said about the latest campaign, beside its counts."""
    return dict(FACTS)


def show(number: int, seed: int) -> None:
    """Judge one input, and print what there is to see."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as open_until:
        one = Campaign(Path(folder), seed)
        one.start(open_until)
        print(*one.judge(number, {guarded: Line(server) for guarded, server in one.servers.items()}, "0"), sep="\n")
        one.servers[False].stop()
        print((one.servers[False].folder / "log.txt").read_text())


if __name__ == "__main__":
    command(__doc__, OUTCOMES, BAD, campaign, show, inputs=10_000, facts=facts)
