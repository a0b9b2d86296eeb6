"""Kill readers of a stream at random and resume them: the same bits as of one that is never killed.

Rows arrive in bursts while the readers run. A few kills run in the tests; a campaign:

    python tests/kill_streams.py kafka --kills 100
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runfiles import evaluator_bits
from streaming import File, Kafka, Redis, kafka_broker, redis_server, rows

from inferl.runs import Run

__all__ = ["INFERL", "Outcome", "campaign"]

INFERL = [sys.executable, "-c", "from inferl.cli import main; main()"]
OPTIONS = ["--state", "s", "--n-states", "3", "--discount", "0.9", "--follow", "--json", "--quiet"]
MOST = 20.0  # seconds that a reader may live without a checkpoint
TAIL = 400  # rows at the end for which nobody waits, so that each partition has one after the last that counts


@dataclass(frozen=True)
class Outcome:
    """What a campaign did."""

    kills: int
    before_a_checkpoint: int  # kills after which the run began anew
    resumed_at: tuple[int, ...]  # transitions in the run file after each other kill
    rows: int
    same: bool


def campaign(stream: Any, folder: Path, kills: int, seed: int, share: int = 300, episodes: bool = False) -> Outcome:
    """Kill a reader so many times while rows arrive, let the last one finish, and compare it with one never killed."""
    rng = random.Random(seed)
    sent = rows(share * (kills + 1) + TAIL, seed, episodes)
    n_rows = len(sent) - TAIL
    run_file, early, resumed_at = folder / "killed.run", 0, list[int]()
    evaluate = ["evaluate", stream.name, *OPTIONS, "--n-rows", str(n_rows), "--checkpoint"]
    size = rng.choice((1, 3))
    for life in range(kills + 1):
        anew = not run_file.exists()
        command = [*evaluate, str(run_file)] if anew else ["resume", str(run_file), "--json", "--quiet"]
        process = subprocess.Popen(
            [*INFERL, *command, "--every", rng.choice(("20", "50", "0.05s"))],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        share_now = sent[life * share : (life + 1) * share if life < kills else None]
        death = None if rng.random() < 0.8 else time.monotonic() + rng.uniform(0.1, 2.0)
        saved, begin = _changed(run_file), time.monotonic()
        while share_now or (life < kills and process.poll() is None):
            burst = rng.randint(1, 40)
            if share_now:
                stream.send(share_now[:burst], size)
            share_now = share_now[burst:]
            time.sleep(rng.uniform(0.0, 0.1))
            now = time.monotonic()
            if death is None and (_changed(run_file) != saved or now > begin + MOST):
                death = now + rng.uniform(0.0, 0.7)  # most die some time after their first checkpoint
            if life < kills and death is not None and now > death and process.poll() is None:
                process.kill()
        _, said = process.communicate(timeout=120)
        if life == kills or process.returncode != -9:
            assert process.returncode == 0, said.decode()
        if life < kills:
            early += not run_file.exists()
            resumed_at += [Run.load(run_file).evaluator.n] if run_file.exists() else []
    straight = folder / "straight.run"
    subprocess.run([*INFERL, *evaluate, str(straight)], stdout=subprocess.DEVNULL, check=True, timeout=120)
    return Outcome(kills, early, tuple(resumed_at), n_rows, _same(run_file, straight))


def _changed(path: Path) -> int:
    return path.stat().st_mtime_ns if path.exists() else 0


def _same(one: Path, other: Path) -> bool:
    """Return whether two runs have the same bits: of evaluators, readings and places in the stream."""
    runs = Run.load(one), Run.load(other)
    assert all(run.complete for run in runs)
    readings = [[(r.n, r.estimate.tobytes(), r.lower.tobytes()) for r in run.readings] for run in runs]
    places = [run.position["place"] and run.position["place"]["at"] for run in runs]
    return evaluator_bits(one) == evaluator_bits(other) and readings[0] == readings[1] and places[0] == places[1]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a campaign, and print what it did."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stream", choices=("kafka", "redis", "file"))
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--episodes", action="store_true", help="several mixed episodes in each partition")
    asked = parser.parse_args(arguments)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if asked.stream == "kafka":
            stream: Any = Kafka(stack.enter_context(kafka_broker()), "steps")
        elif asked.stream == "redis":
            stream = Redis(stack.enter_context(redis_server(folder)), "steps")
        else:
            stream = File(folder / "log.jsonl")
        found = campaign(stream, folder, asked.kills, asked.seed, episodes=asked.episodes)
    at = found.resumed_at
    print(
        json.dumps(
            {
                "kills": found.kills,
                "before a checkpoint": found.before_a_checkpoint,
                "rows": found.rows,
                "resumed at different rows": len(set(at)),
                "the same bits": found.same,
            }
        )
    )
    if not found.same:
        raise SystemExit("the bits differ")


if __name__ == "__main__":
    main()
