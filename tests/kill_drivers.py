"""Drivers that are killed at random moments, and started again: `python tests/kill_drivers.py --kills 50`.

`inferl evaluate --workers 2 --checkpoint FOLDER` is killed by SIGKILL and started again, until one comes to its end.
What that one writes must be what a driver writes that is left alone, bit for bit, and no part that is finished may be
computed again.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from scale.logs import ROLES, frame, write
from scale.test_plans import digest

from inferl.runs import Run

ROWS, FILES = 400_000, 20  # a part for each file
RUN = """
import sys
from inferl.cli import main
from inferl.scale import plans
plans.ROWS = {rows}
if __name__ == "__main__":
    main()
"""


def command(folder: Path, rows: int) -> list[str]:
    """Return the command that evaluates the log of a folder, in parts of so many rows."""
    roles = [text for name, value in ROLES.items() for text in (f"--{name.replace('_', '-')}", str(value))]
    script = folder / "inferl_in_small_parts.py"
    script.write_text(RUN.format(rows=rows))
    return [sys.executable, str(script), "evaluate", str(folder / "log"), *roles, "--workers", "2", "--quiet"]


def campaign(kills: int, seed: int, folder: Path, rows: int = ROWS) -> Iterator[tuple[int, bool]]:
    """Kill drivers; yield the number of parts that were finished after each, and whether one ended by itself."""
    write(folder / "log", frame(rows), files=FILES, row_group_size=rows // FILES)
    run = command(folder, rows // FILES)
    begin = time.monotonic()
    subprocess.run([*run, "--checkpoint", str(folder / "alone")], check=True, capture_output=True)
    whole, rng = time.monotonic() - begin, random.Random(seed)
    wanted = digest(Run.load(folder / "alone" / "all.inferl"))
    round_ = 0
    while kills > 0:
        checkpoint = folder / f"killed-{round_}"
        ended = False
        before: dict[str, int] = {}
        while not ended:
            driver = subprocess.Popen([*run, "--checkpoint", str(checkpoint)], stdout=subprocess.DEVNULL)
            if kills > 0 and len(before) < FILES:  # one that finds all parts finished is left alone
                # By what is finished, not by the clock: machines are fast and slow, and processes start slowly.
                parts = rng.randint(len(before), FILES)
                while driver.poll() is None and len(list(checkpoint.glob("part-*"))) < parts:
                    time.sleep(0.001)
                time.sleep(rng.uniform(0, whole / FILES))
                driver.kill()
            ended = driver.wait() == 0
            kills -= not ended
            now = {file.name: file.stat().st_mtime_ns for file in checkpoint.glob("part-*")}
            again = [name for name in before if now.get(name) != before[name]]
            if again:
                raise AssertionError(f"finished parts were computed again: {again}")
            before = now
            yield len(now), ended
        if digest(Run.load(checkpoint / "all.inferl")) != wanted:
            raise AssertionError("a driver that was killed and started again wrote other bits")
        round_ += 1


def main() -> None:
    """Run a campaign and say what was seen."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        seen = list(campaign(options.kills, options.seed, Path(folder)))
    finished = sorted(n for n, end in seen if not end)
    ended = len(seen) - len(finished)
    print(
        json.dumps(
            {"kills": len(finished), "parts finished at a kill": finished, "evaluations with the same bits": ended}
        )
    )


if __name__ == "__main__":
    main()
