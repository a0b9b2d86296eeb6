"""Memory at full rate: `python -m studies.reliability.soak --seconds 3600`.

Three processes work as fast as they can, side by side: an evaluator with least squares, one with the online bootstrap,
and `inferl evaluate`, which reads lines of JSON from a pipe. Rows come from 64 streams with episodes, so that slots are
reused. Once each has worked through its first rows, its resident memory is noted all the time. It may grow until a
quarter of the time has passed, in which buffers fill; what it grows after that must be less than `LEAK`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

__all__ = ["LEAK", "SUBJECTS", "growth", "main", "resident"]

LEAK = 4.0  # MB; least squares adds a level of blocks at each doubling of the stream, two in the last three quarters
WARM = 20_000  # rows of each process before the time begins to count
SAMPLES = 600  # of memory, in a campaign
# What a process does: it counts rows in `n`, one chunk at a time, until it is killed, and prints the number.
EVALUATOR = """
import sys
import numpy as np
import inferl

rng, d = np.random.default_rng(int(sys.argv[1])), 16
evaluator = inferl.Evaluator({evaluator})
n, rows, streams = 0, 8192, np.repeat(np.arange(64), 128)
while True:
    ends = rng.random(rows) < 0.02
    features = rng.normal(size=(2, rows, d))
    evaluator = evaluator.update(inferl.Transitions(
        features[0], rng.normal(size=rows), features[1], np.where(ends, 0.0, 0.9), last=ends, stream=streams
    ))
    n += rows
    if n % (rows * 16) == 0:
        evaluator.interval({target})
    print(n, flush=True)
"""
SHELL = "from inferl.cli import main; main()"
OPTIONS = ["evaluate", "-", "--features", "x,y", "--episode", "e", "--reward", "r", "--discount",
           "0.9", "--quiet", "--every", "100000"]  # fmt: skip
SUBJECTS = {
    "least squares": EVALUATOR.format(evaluator="inferl.DoublyRobust(d)", target=""),
    "online bootstrap": EVALUATOR.format(
        evaluator="inferl.TD(d), inferl.OnlineBootstrap(inferl.Polynomial(1.0, decay=0.65))", target="np.ones(d)"
    ),
    "shell": SHELL,
}


def resident(process: int) -> float:
    """Return the resident memory of a process, in MB."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return 0.0  # it has ended


def growth(memory: Sequence[float]) -> float:
    """Return by how much the largest memory of the last quarter exceeds that of the second one, in MB.

    >>> growth([10, 50, 50, 51, 50, 51, 50, 50]), growth([10, 20, 30, 40, 50, 60, 70, 80])
    (-1, 40)
    """
    quarter = len(memory) // 4
    return max(memory[3 * quarter :]) - max(memory[quarter : 2 * quarter])


def lines(seed: int) -> bytes:
    """Return rows of many episodes as lines of JSON; the same lines come again and again, with new episodes."""
    rng = random.Random(seed)
    return "".join(
        json.dumps({"e": "E%d", "x": rng.gauss(0, 1), "y": rng.gauss(0, 1), "r": rng.random()}) + "\n"
        for _ in range(50)
    ).encode()


def _feed(pipe: IO[bytes], seed: int, ends: threading.Event, sent: dict[str, int], name: str) -> None:
    """Write rows to a pipe until an event: 40 episodes of 50 rows at once."""
    block, episode = lines(seed), 0
    with contextlib.suppress(BrokenPipeError), pipe:
        while not ends.is_set():
            for _ in range(40):
                pipe.write(block.replace(b"E%d", b"%d" % episode))
                episode += 1
            sent[name] = episode * 50


def measure(seconds: float, seed: int, subjects: dict[str, str] | None = None, warm: int = WARM) -> dict[str, Any]:
    """Run all subjects for so long, and return for each its rows and its memory.

    Parameters
    ----------
    seconds
        After each subject has worked through `warm` rows.
    seed
        Of the rows.
    subjects
        Names and what they run; None: all.
    warm
        Rows.
    """
    chosen = SUBJECTS if subjects is None else subjects
    processes, feeders, ends = {}, [], threading.Event()
    for name, code in chosen.items():
        words = OPTIONS if code == SHELL else [str(seed)]
        processes[name] = subprocess.Popen(
            [sys.executable, "-c", code, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
    counted = dict.fromkeys(chosen, 0)

    def follow(name: str) -> None:
        output = processes[name].stdout
        assert output is not None
        for line in output:
            if chosen[name] != SHELL:
                counted[name] = int(line)

    for name, process in processes.items():
        feeders.append(threading.Thread(target=follow, args=(name,)))
        if chosen[name] == SHELL:
            feeders.append(threading.Thread(target=_feed, args=(process.stdin, seed, ends, counted, name)))
    for thread in feeders:
        thread.start()
    memory: dict[str, list[float]] = {name: [] for name in chosen}
    died: list[str] = []
    while min(counted.values()) < warm and all(process.poll() is None for process in processes.values()):
        time.sleep(0.05)
    begin = time.monotonic()
    while time.monotonic() < begin + seconds and not died:
        time.sleep(max(seconds / SAMPLES, 0.02))
        died = [name for name, process in processes.items() if process.poll() is not None]
        for name, process in processes.items():
            memory[name].append(resident(process.pid))
    ends.set()
    for name, process in processes.items():
        if chosen[name] == SHELL and name not in died:
            process.wait(120)  # it reads what is in the pipe, and answers
        process.kill()
    for thread in feeders:
        thread.join()
    for process in processes.values():
        for end in (process.stdin, process.stdout):
            with contextlib.suppress(BrokenPipeError):
                end.close()  # type: ignore[union-attr]
        process.wait()
    assert not died, f"{died} ended"
    return {
        name: {
            "rows": counted[name],
            "memory after a quarter": round(memory[name][len(memory[name]) // 4], 1),
            "memory at the end": round(memory[name][-1], 1),
            "growth": round(growth(memory[name]), 2),
        }
        for name in chosen
    }


def main() -> None:
    """Measure, print what was counted, and exit with 1 if memory grew."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    found = measure(asked.seconds, asked.seed)
    print(json.dumps({"seconds": asked.seconds, "unit of memory": "MB", **found}))
    sys.exit(any(one["growth"] > LEAK for one in found.values()))


if __name__ == "__main__":
    main()
