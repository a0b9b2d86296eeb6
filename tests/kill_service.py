"""Kill the service at random under clients that send, and start it again: every confirmed row counts once.

At the end, the run file has the bits of a replay of the journal, and the journal holds what each client has sent, in
its order. A few kills run in the tests; a campaign: `python tests/kill_service.py --kills 200`.
"""

from __future__ import annotations

import argparse
import json
import logging
import random
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
from serving import Server, same_as_replay

from inferl.service import client as sending
from inferl.service.client import Client
from inferl.sources.logs.inputs.journal import ROWS, ends_of, segments

__all__ = ["Outcome", "campaign"]

CLIENTS = 4
SIZES = "[limits]\nsegment = 30000\n"  # several segments


@dataclass(frozen=True)
class Outcome:
    """What a campaign did."""

    kills: int
    while_starting: int  # kills before the server listened
    rows: int  # that were confirmed
    batches: int
    segments: int
    recorded_once: bool  # each confirmed row is in the journal once, in the order of its client
    unconfirmed: int  # rows in the journal whose sender was never told
    same_bits: bool


@dataclass
class _Sender:
    """A sender of numbered rows, which sometimes dies and begins again after the last batch that the server has."""

    url: str
    name: str
    seed: int
    stop: threading.Event
    confirmed: int = 0  # rows
    batches: list[int] = field(default_factory=list)  # rows of each, as drawn
    error: BaseException | None = None

    def run(self) -> None:
        try:
            self._send()
        except BaseException as error:
            self.error = error

    def _send(self) -> None:
        rng, walk = random.Random(self.seed), np.random.default_rng(self.seed)
        rows: list[list[dict[str, float]]] = []
        while not self.stop.is_set():
            with Client(self.url, "walk", name=self.name, rows=50, seconds=60.0) as client:
                for _ in range(rng.randint(5, 60)):
                    client_has = client.sequence if client.sequence else len(self.batches)
                    assert client_has == len(self.batches), "the server lost or made up a batch"
                    size = rng.randint(1, 50)
                    first = sum(self.batches)
                    rows.append(
                        [
                            {"s": int(walk.integers(3)), "reward": float(walk.normal()), "number": first + k}
                            for k in range(size)
                        ]
                    )
                    client.send_rows(rows[-1])
                    client.flush()
                    self.batches.append(size)
                    self.confirmed += size
                    time.sleep(rng.uniform(0.0, 0.02))
                    if self.stop.is_set():
                        break


def campaign(folder: Path, kills: int, seed: int) -> Outcome:
    """Kill a server so many times while clients send, and compare what it counted with what they sent."""
    sending.AGAIN = 0.01, 0.05  # so that batches are on their way whenever the server dies
    rng = random.Random(seed)
    server = Server(folder, plain="", experiments=SIZES + _settings())
    stop = threading.Event()
    senders = [_Sender(server.url, f"client-{k}", 1000 * seed + k, stop) for k in range(CLIENTS)]
    threads = [threading.Thread(target=sender.run) for sender in senders]
    for thread in threads:
        thread.start()
    early = 0
    try:
        for _ in range(kills):
            if rng.random() < 0.1:
                server.spawn()
                time.sleep(rng.uniform(0.0, 2.0))
            else:
                server.start()
                time.sleep(rng.uniform(0.0, 1.0))
            early += not _listens(server)
            server.kill()
        server.start()
        _end(stop, threads)
        server.wait_for(sum(sender.confirmed for sender in senders))  # a server that stops leaves the rest for later
    finally:
        _end(stop, threads)
        code = server.stop()
    assert code == 0, (folder / "log.txt").read_text()
    for sender in senders:
        if sender.error is not None:
            raise sender.error
    found = _recorded(folder / "live" / "walk" / "journal")
    confirmed = sum(sender.confirmed for sender in senders)
    once = all(found[sender.name] == list(range(sender.confirmed)) for sender in senders)
    return Outcome(
        kills,
        early,
        confirmed,
        sum(len(sender.batches) for sender in senders),
        len(segments(folder / "live" / "walk" / "journal")),
        once,
        sum(map(len, found.values())) - confirmed,
        same_as_replay(server, folder),
    )


def _end(stop: threading.Event, threads: Sequence[threading.Thread]) -> None:
    stop.set()
    for thread in threads:
        thread.join(120)


def _settings() -> str:
    from serving import SETTINGS

    return SETTINGS


def _listens(server: Server) -> bool:
    try:
        return server.ask("GET", "/health")[0] == 200
    except OSError:
        return False


def _recorded(journal: Path) -> dict[str, list[int]]:
    """Return the numbers of the rows of each client, as the journal has them."""
    found: dict[str, list[int]] = defaultdict(list)
    for segment in segments(journal):
        for record in ends_of(segment):
            if record.kind == ROWS:
                found[record.client] += pa.ipc.open_stream(record.payload).read_all()["number"].to_pylist()
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a campaign, and print what it did."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args(arguments)
    logging.getLogger("inferl").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory() as folder:
        found = campaign(Path(folder), asked.kills, asked.seed)
    print(json.dumps({name.replace("_", " "): value for name, value in vars(found).items()}))
    if not (found.recorded_once and found.same_bits and found.unconfirmed == 0):
        raise SystemExit("rows were lost, or counted twice")


if __name__ == "__main__":
    main()
