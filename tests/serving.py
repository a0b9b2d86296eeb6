"""A service in a process of its own, or in a thread, for tests."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvicorn
from runfiles import evaluator_bits

from inferl.cli.serve import question
from inferl.runs import Run
from inferl.service import app
from inferl.service.experiment import Hub
from inferl.service.settings import Settings
from inferl.service.tokens import Tokens

__all__ = ["INFERL", "OPTIONS", "SETTINGS", "Server", "free_port", "in_this_process", "same_as_replay", "served"]

INFERL = [sys.executable, "-c", "from inferl.cli import main; main()"]
SETTINGS = """\
[experiments.walk]
state = "s"
n-states = 3
discount = 0.9
target = ["0", "2"]
every = "0.2s"
"""
OPTIONS = ["--state", "s", "--n-states", "3", "--discount", "0.9", "--target", "0", "--target", "2"]
START = 60.0  # seconds


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@dataclass
class Server:
    """A server that may be killed and started again, at the same place."""

    folder: Path
    experiments: str = SETTINGS
    plain: str = ""  # lines before the tables
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[str] | None = None
    said: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def file(self) -> Path:
        path = self.folder / "service.toml"
        path.write_text(f'folder = "live"\nport = {self.port}\n{self.plain}\n{self.experiments}')
        return path

    def spawn(self) -> subprocess.Popen[str]:
        """Start it, and do not wait for it."""
        alone = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        with (self.folder / "log.txt").open("a") as log:
            self.process = subprocess.Popen(
                [*INFERL, "serve", str(self.file)],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=os.environ | alone,
            )
        return self.process

    def start(self) -> None:
        """Start it, and wait until it listens."""
        process = self.spawn()
        until = time.monotonic() + START
        while time.monotonic() < until:
            assert process.poll() is None, (self.folder / "log.txt").read_text()
            try:
                if self.ask("GET", "/health")[0] == 200:
                    return
            except OSError:
                time.sleep(0.02)
        raise AssertionError("the server does not start")

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.communicate()

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Stop it gracefully, and return its exit code."""
        assert self.process is not None
        self.process.send_signal(number)
        self.process.communicate(timeout=60)
        return int(self.process.returncode)

    def ask(
        self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> tuple[int, Any]:
        """Return status and content of an answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            data = answer.read().decode()
        finally:
            connection.close()
        return answer.status, json.loads(data) if answer.headers["Content-Type"] == "application/json" else data

    def post(self, rows: Any, sequence: Any, client: str = "one", **headers: str) -> tuple[int, Any]:
        """Send rows as JSON lines."""
        body = rows if isinstance(rows, bytes) else "\n".join(map(json.dumps, rows)).encode()
        said = {"Inferl-Client": client, "Inferl-Sequence": str(sequence), "Content-Type": "application/x-ndjson"}
        return self.ask("POST", "/v1/experiments/walk/transitions", body, said | headers)

    def state(self, name: str = "walk") -> Any:
        return self.ask("GET", f"/v1/experiments/{name}")[1]

    def wait_for(self, rows: int, name: str = "walk") -> Any:
        """Wait until so many rows are evaluated, and seen in a snapshot."""
        until = time.monotonic() + START
        while time.monotonic() < until:
            state = self.state(name)
            seen = (state["snapshot"] or {"n": -1})["n"]
            if state["rows"] >= rows and not state["lag_rows"] and seen == state["n"]:
                return state
            time.sleep(0.05)
        raise AssertionError(state)


@contextmanager
def served(folder: Path, **options: Any) -> Iterator[Server]:
    """Run a server."""
    server = Server(folder, **options)
    server.start()
    try:
        yield server
    finally:
        if server.process is not None and server.process.poll() is None:
            server.kill()


@contextmanager
def in_this_process(folder: Path, experiments: str) -> Iterator[tuple[Hub, Server]]:
    """Run a server in a thread, where settings can be changed, and which starts at once."""
    server = Server(folder, experiments, port=0)
    hub = Hub.of(Settings.read(server.file, question))
    config = uvicorn.Config(app.application(hub, Tokens()), log_config=None, timeout_graceful_shutdown=2)
    running = uvicorn.Server(config)
    listener = app._listener("127.0.0.1", 0)
    server.port = listener.getsockname()[1]
    thread = threading.Thread(target=lambda: asyncio.run(running.serve(sockets=[listener])))
    thread.start()
    while not running.started:
        time.sleep(0.01)
    try:
        yield hub, server
    finally:
        hub.stopping.set()
        running.should_exit = True
        thread.join(20)
        listener.close()


def same_as_replay(server: Server, folder: Path, options: list[str] = OPTIONS, name: str = "walk") -> bool:
    """Evaluate the journal anew, and return whether the bits are those of the run file of the server."""
    live = folder / "live" / name
    straight, before = folder / "straight.run", folder / "before.run"
    replay = ["evaluate", f"journal://{live / 'journal'}", *options, "--quiet", "--checkpoint", str(straight)]
    subprocess.run([*INFERL, *replay], check=True, stdout=subprocess.DEVNULL, timeout=300)
    whole = Run.load(straight)
    assert whole.before is not None
    Run.restored(whole.before, straight).save(before)  # before the end of the journal was taken for that of the data
    runs = Run.load(live / "run.inferl"), Run.load(before)
    readings = [[(r.n, r.estimate.tobytes(), r.lower.tobytes()) for r in run.readings] for run in runs]
    places = [(run.position["rows"], run.position["place"]["at"], run.position["place"]["lines"]) for run in runs]
    bits = evaluator_bits(live / "run.inferl") == evaluator_bits(before)
    return bits and readings[0] == readings[1] and places[0] == places[1]
