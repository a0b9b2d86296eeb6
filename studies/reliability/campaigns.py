"""The campaigns: what each tries, the command, its full length, and the file of its result.

A campaign is a command whose last line is JSON, what it counted, and whose exit code says whether something was found.
"""

from __future__ import annotations

import ast
import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from studies.provenance import ROOT, provenance

__all__ = ["GROUPS", "LIMITS", "RESULTS", "SANITIZERS", "Campaign", "campaigns", "keep", "result", "results", "run"]

RESULTS = Path(__file__).parent / "results"
# Of each group: the option that says how much, and the length of a full campaign unless it is named below.
GROUPS = {
    "fuzz": ("--inputs", 100_000),
    "crash": ("--kills", 100),
    "soak": ("--seconds", 3600),
    "sanitize": ("", 1),
    "mutants": ("--sample", 0),
}
# Of each group: seconds after which a campaign is stopped, and counts as failed. A full one takes less on one core:
# that of checkpoints took 51 minutes beside other work.
LIMITS = {"fuzz": 12 * 3600.0, "crash": 2 * 3600.0, "soak": 2 * 3600.0, "sanitize": 4 * 3600.0, "mutants": 12 * 3600.0}
GRACE = 30.0  # seconds between being asked to end and being killed
SANITIZERS = {
    "address": "reads and writes outside of arrays, undefined behaviour",
    "thread": "data races between the threads of the kernel",
}
STREAMS = ("kafka", "redis", "file")
FULL = {"kill_service": 200}  # a kill of it is short


@dataclass(frozen=True)
class Campaign:
    """A command that tries to break something."""

    name: str
    group: str
    tries: str  # what it tries, for the page
    command: tuple[str, ...]  # words after "python"

    @property
    def option(self) -> str:
        """The option that says how much."""
        return GROUPS[self.group][0]

    @property
    def full(self) -> int:
        """The length of a full campaign; 0: all that there is."""
        return FULL.get(self.name, GROUPS[self.group][1])


def campaigns() -> list[Campaign]:
    """Return all campaigns; a script ``tests/fuzz_*.py`` or ``tests/kill_*.py`` is one without further ado.

    >>> [one.name for one in campaigns() if one.group == "sanitize"]
    ['sanitize_address', 'sanitize_thread']
    """
    found = []
    for script in sorted((ROOT / "tests").glob("fuzz_*.py")):
        found.append(Campaign(script.stem, "fuzz", _first_words(script), (f"tests/{script.name}",)))
    for script in sorted((ROOT / "tests").glob("kill_*.py")):
        each = STREAMS if script.stem == "kill_streams" else ("",)
        for stream in each:
            name, words = "_".join(filter(None, (script.stem, stream))), tuple(filter(None, (stream,)))
            tries = " ".join(filter(None, (_first_words(script), f"({stream})" if stream else "")))
            found.append(Campaign(name, "crash", tries, (f"tests/{script.name}", *words)))
    for name, tries in SANITIZERS.items():
        found.append(
            Campaign(f"sanitize_{name}", "sanitize", tries, ("-m", "studies.reliability.sanitize", "--only", name))
        )
    for group in ("soak", "mutants"):
        module = Path(__file__).parent / f"{group}.py"
        found.append(Campaign(group, group, _first_words(module), ("-m", f"studies.reliability.{group}")))
    return found


def _first_words(script: Path) -> str:
    """Return the first line of a script's docstring, without how it is called and what comes out."""
    line = (ast.get_docstring(ast.parse(script.read_text())) or "").splitlines()[0]
    return line.partition(": ")[0].rstrip(".")


def run(one: Campaign, arguments: Sequence[str], seed: int, limit: float | None = None) -> dict[str, Any]:
    """Run a campaign, show what it prints, and return its result.

    Parameters
    ----------
    one
        The campaign.
    arguments, seed
        What it is called with.
    limit
        Seconds after which it is stopped, with the processes that it started; default: that of its group.
    """
    words = [*one.command, *arguments, "--seed", str(seed)]
    if one.option not in words:
        words += [one.option, str(one.full)]
    made = provenance(seed, shlex.join(["python", *words]), packages=("inferl", "numpy"))
    limit = LIMITS[one.group] if limit is None else limit
    begin, last, late = time.monotonic(), "", threading.Event()
    # In a session of its own: the processes that it starts end with it.
    process = subprocess.Popen(
        [sys.executable, *words], cwd=ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True
    )

    def stop() -> None:
        late.set()
        _end(process)

    clock = threading.Timer(limit, stop)
    clock.start()
    with process:
        try:
            assert process.stdout is not None
            for line in process.stdout:
                print(line, end="", flush=True)
                last = line if line.strip() else last
            process.wait()
        finally:
            clock.cancel()
            if process.poll() is None:
                _end(process)
    try:
        counts = json.loads(last)
    except ValueError:
        counts = {}  # it ended before it had counted anything
    amount = int(words[words.index(one.option) + 1])
    return {
        "provenance": made,
        "campaign": one.name,
        "group": one.group,
        "tries": one.tries,
        "full": amount >= one.full if one.full else amount == 0,
        "seconds": round(time.monotonic() - begin, 1),
        "passed": process.returncode == 0 and bool(counts) and not late.is_set(),
        "stopped": late.is_set(),
        "counts": counts,
    }


def _end(process: subprocess.Popen[str]) -> None:
    """Ask a campaign and all that it started to end, and kill what has not."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(GRACE)
        os.killpg(process.pid, signal.SIGKILL)


def keep(result: dict[str, Any]) -> Path:
    """Write a result into its file."""
    path = RESULTS / f"{result['campaign']}.json"
    path.write_text(json.dumps(result, indent=1) + "\n")
    return path


def result(name: str) -> dict[str, Any]:
    """Return the last result of a campaign."""
    found: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text())
    return found


def results() -> list[dict[str, Any]]:
    """Return the last results, sorted by group and name."""
    found = [result(path.stem) for path in RESULTS.glob("*.json")]
    return sorted(found, key=lambda one: (list(GROUPS).index(one["group"]), one["campaign"]))
