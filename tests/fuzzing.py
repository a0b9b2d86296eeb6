"""What the fuzzers share: a process that judges inputs and may die, and the command that runs a campaign."""

from __future__ import annotations

import argparse
import json
import os
import resource
import select
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["Judgement", "Lost", "ask_worker", "command", "serve"]

START = 120.0  # seconds that a worker may take for its imports
PATIENCE = 20.0  # seconds for one input


class Judgement(NamedTuple):
    """What happened to an input."""

    number: int
    group: str  # inputs that are counted together
    sort: str
    outcome: str
    message: str


# The worker: numbers of inputs come in, a line each; a list in JSON goes out for each. Other lines name the stage.


def serve(judge: Callable[[int, Path], Sequence[str]], memory: int) -> None:
    """Judge inputs from standard input in a folder for their files, with so many bytes more than are mapped by now."""
    mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (mapped + memory, mapped + memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    print("ready", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for line in sys.stdin:
            print(json.dumps(judge(int(line), Path(folder))), flush=True)


@dataclass(frozen=True)
class Lost:
    """An input that its worker did not survive."""

    outcome: str  # "died" or "hung"
    stage: str  # the last that the worker named


class _Worker:
    """A process that runs `worker(seed)` of a fuzzer, and is started again when it died or hung."""

    def __init__(self, fuzzer: str, seed: int) -> None:
        self.command = [sys.executable, "-c", f"import {fuzzer}; {fuzzer}.worker({seed})"]
        self.process: subprocess.Popen[bytes] | None = None
        self.unread = b""

    def ask(self, number: int) -> list[str] | Lost:
        """Have one input judged."""
        if self.process is None:
            alone = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "ARROW_IO_THREADS": "1"}
            path = os.pathsep.join([str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])])
            pipe = subprocess.PIPE
            self.process = subprocess.Popen(
                self.command, stdin=pipe, stdout=pipe, env=os.environ | alone | {"PYTHONPATH": path}
            )
            started = self._line(self.process, START)
            assert started == "ready", f"{self.command} did not start: {started}"
        assert self.process.stdin is not None
        self.process.stdin.write(b"%d\n" % number)
        self.process.stdin.flush()
        stage = "start"
        while True:
            line = self._line(self.process, PATIENCE)
            if isinstance(line, str) and line.startswith("["):
                answer: list[str] = json.loads(line)
                return answer
            if line is None or line == "":
                self.close()
                return Lost("hung" if line is None else "died", stage)
            stage = line

    def _line(self, process: subprocess.Popen[bytes], patience: float) -> str | None:
        """The next line; empty if there is none because the process died, None if it hangs."""
        assert process.stdout is not None
        until = time.monotonic() + patience
        while b"\n" not in self.unread:
            if not select.select([process.stdout], [], [], max(until - time.monotonic(), 0))[0]:
                return None
            got = os.read(process.stdout.fileno(), 1 << 16)
            if not got:
                return ""
            self.unread += got
        line, _, self.unread = self.unread.partition(b"\n")
        return line.decode()

    def close(self) -> None:
        """End the process."""
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
            self.process, self.unread = None, b""


def ask_worker(fuzzer: str, numbers: Iterable[int], seed: int) -> Iterator[tuple[int, list[str] | Lost]]:
    """Have inputs judged by `worker(seed)` of the fuzzer of this name, one after the other."""
    worker = _Worker(Path(fuzzer).stem, seed)
    try:
        for number in numbers:
            yield number, worker.ask(number)
    finally:
        worker.close()


# The command.


def command(
    doc: str | None,
    outcomes: Sequence[str],
    bad: Sequence[str],
    campaign: Callable[[range, int], Iterator[Judgement]],
    show: Callable[[int, int], None],
    inputs: int = 10_000,
    facts: Callable[[], dict[str, Any]] = dict,
) -> None:
    """Run a campaign and print what was counted, at last as a line of JSON; exit with 1 if an outcome is bad.

    `show(number, seed)` judges one input in this process, and prints what there is to see; `facts` says what else there
    is to say after a campaign.
    """
    from rich.progress import track

    options = argparse.ArgumentParser(description=(doc or "").splitlines()[0])
    options.add_argument("--inputs", type=int, default=inputs)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--first", type=int, default=0, help="number of the first input")
    options.add_argument("--show", type=int, metavar="NUMBER", help="judge this input alone, and say what was found")
    options.add_argument(
        "--list", action="append", choices=outcomes, help="print inputs with this outcome; default: bad"
    )
    said = options.parse_args()
    if said.show is not None:
        return show(said.show, said.seed)
    counts: Counter[tuple[str, str]] = Counter()
    judgements = campaign(range(said.first, said.first + said.inputs), said.seed)
    for one in track(judgements, "inputs", said.inputs):
        counts[one.group, one.outcome] += 1
        if one.outcome in (said.list or bad):
            print(f"{one.number} {one.group}, {one.sort}: {one.outcome}: {one.message:.300}", flush=True)
    groups = sorted({group for group, _ in counts})
    print(f"{'':14}", *(f"{outcome:>20}" for outcome in outcomes))
    for group in groups:
        print(f"{group:14}", *(f"{counts[group, outcome]:20,}" for outcome in outcomes))
    whole = {outcome: sum(counts[group, outcome] for group in groups) for outcome in outcomes}
    print(f"{'all':14}", *(f"{n:20,}" for n in whole.values()))
    each = {group: {outcome: counts[group, outcome] for outcome in outcomes} for group in groups}
    print(json.dumps({"inputs": said.inputs, **whole, **facts(), "groups": each}))
    sys.exit(any(whole[outcome] for outcome in bad))
