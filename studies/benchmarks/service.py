"""The service under load: how many transitions a second it takes, how fast it confirms them, how its memory grows.

    python -m studies.benchmarks.service [--seconds 600] [--rate 50000] [--scratch FOLDER]

A real server, and two processes that send batches of 100 rows over 16 connections each, all on the same machine. First
at the rate that is offered, then as fast as it goes. Writes results/service.json and docs/performance.md; with
``--from-results`` only the page.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import pickle
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from studies.benchmarks.machine import describe
from studies.markdown import table
from studies.pages import replaced
from studies.provenance import command_line, origin, software

__all__ = ["facts", "main", "measure"]

RESULTS = Path(__file__).parent / "results" / "service.json"
PAGE = Path(__file__).parents[2] / "docs" / "performance.md"
BEGIN, END = "<!-- service: written by studies.benchmarks.service -->", "<!-- end of service -->"
BATCH = 100  # rows
STATES = 50
SENDERS, CONNECTIONS = 2, 16
BODIES = 50
LATE = 0.2  # seconds that the 99th percentile of the answers should stay below
FLAT = 0.02  # of the memory, by which it may grow from the second quarter of a run to the last
SETTINGS = f"""\
port = 0
folder = "live"
keep-journal = false

[experiments.load]
state = "state"
n-states = {STATES}
discount = 0.9
target = "0"
"""
SERVE = [sys.executable, "-c", "from inferl.cli import main; main()", "serve"]


@contextmanager
def server(folder: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Run a server; yield it and its port."""
    (folder / "service.toml").write_text(SETTINGS)
    alone = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [*SERVE, str(folder / "service.toml")], stdout=subprocess.PIPE, text=True, env=os.environ | alone
    )
    try:
        assert process.stdout is not None
        said = process.stdout.readline()
        port = int(said.partition("http://127.0.0.1:")[2].partition(";")[0])
        until = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                assert time.monotonic() < until and process.poll() is None, "the server does not start"
                time.sleep(0.05)
        yield process, port
    finally:
        process.terminate()
        process.communicate(timeout=120)


def bodies() -> list[bytes]:
    """Return batches of a walk, as Arrow streams."""
    import pyarrow as pa

    rng, found = np.random.default_rng(0), []
    for _ in range(BODIES):
        rows = pa.table({"state": rng.integers(STATES, size=BATCH), "reward": rng.normal(size=BATCH)})
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema) as writer:
            writer.write_table(rows)
        found.append(bytes(sink.getvalue()))
    return found


def disk(folder: Path, times: int = 300) -> dict[str, float]:
    """Measure what a group commit cannot be faster than: milliseconds of an append with fdatasync."""
    taken = []
    with open(folder / "disk", "ab", buffering=0) as file:
        for _ in range(times):
            begin = time.perf_counter()
            file.write(bytes(8192))
            os.fdatasync(file.fileno())
            taken.append(1000 * (time.perf_counter() - begin))
    return {"median": float(np.median(taken)), "p99": float(np.quantile(taken, 0.99)), "most": max(taken)}


def measure(seconds: float, rate: float | None, scratch: str | None = None) -> dict[str, Any]:
    """Send to a fresh server for so long; `rate` is in transitions a second, None: as fast as it goes."""
    with tempfile.TemporaryDirectory(dir=scratch) as name:
        folder = Path(name)
        before = disk(folder)
        with server(folder) as (process, port):
            made = bodies()
            (folder / "bodies").write_bytes(pickle.dumps(made))
            _ask(port, "POST", made[0])  # the first batch is read with more care
            begin = time.time() + 3.0
            senders = []
            for k in range(SENDERS):
                settings = {
                    "port": port,
                    "path": "/v1/experiments/load/transitions",
                    "name": f"sender-{k}",
                    "bodies": str(folder / "bodies"),
                    "connections": CONNECTIONS,
                    "rate": None if rate is None else rate / BATCH / SENDERS,
                    "begin": begin + (0.0 if rate is None else k * BATCH / rate),
                    "seconds": seconds,
                }
                (folder / f"sender-{k}.json").write_text(json.dumps(settings))
                files = [str(folder / f"sender-{k}.{kind}") for kind in ("json", "npz")]
                senders.append(subprocess.Popen([sys.executable, "-m", "studies.benchmarks.load", *files]))
            time.sleep(max(begin - time.time(), 0.0))
            cpu = _cpu(process.pid)
            samples = _watch(process.pid, port, senders, seconds)
            cpu = _cpu(process.pid) - cpu
            if any(sender.wait() for sender in senders):
                raise SystemExit("a sender has failed")
            state = _drained(port)
        loads = [dict(np.load(folder / f"sender-{k}.npz")) for k in range(SENDERS)]
        after = disk(folder)
    latencies = 1000 * np.concatenate([load["latencies"] for load in loads])
    sent, refused = (int(sum(load[what] for load in loads)) for what in ("sent", "refused"))
    took = float(max(load["seconds"] for load in loads))
    assert state["rows"] == BATCH * (sent - refused + 1), "rows were lost"
    return {
        "offered": rate,
        "seconds": took,
        "transitions": BATCH * (sent - refused),
        "transitions per second": BATCH * (sent - refused) / took,
        "refused": refused,
        "milliseconds": {name: float(np.quantile(latencies, q)) for name, q in _QUANTILES.items()},
        "cores of the server": cpu / took,
        "cores of the senders": float(sum(load["cpu"] for load in loads)) / took,
        "samples": samples,
        "evaluated": state["n"],
        "fdatasync": {"before": before, "after": after},
    }


_QUANTILES = {"median": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999, "most": 1.0}


def _watch(pid: int, port: int, senders: list[subprocess.Popen[bytes]], seconds: float) -> list[dict[str, float]]:
    """Note memory and lag of the server now and then, until all has been sent."""
    begin, period = time.monotonic(), max(seconds / 60, 1.0)
    samples: list[dict[str, float]] = []
    while any(sender.poll() is None for sender in senders):
        state = _ask(port, "GET")
        samples.append(
            {
                "seconds": round(time.monotonic() - begin, 1),
                "megabytes": _megabytes(pid),
                "lag rows": state["lag_rows"],
                "lag seconds": state["lag_seconds"],
            }
        )
        time.sleep(period)
    return samples


def _drained(port: int) -> dict[str, Any]:
    """Wait until all that was recorded is evaluated, and return the state."""
    until = time.monotonic() + 120
    while (state := _ask(port, "GET"))["lag_rows"] > 2 * SENDERS * CONNECTIONS:
        assert time.monotonic() < until and state["failure"] is None, f"the evaluator is behind: {state}"
        time.sleep(0.2)
    return state


def _ask(port: int, method: str, body: bytes | None = None) -> dict[str, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    headers = {"Inferl-Client": "first", "Inferl-Sequence": "1", "Content-Type": "application/vnd.apache.arrow.stream"}
    connection.request(method, f"/v1/experiments/load{'/transitions' if body else ''}", body, headers if body else {})
    answer = connection.getresponse()
    content: dict[str, Any] = json.loads(answer.read())
    connection.close()
    assert answer.status == 200, content
    return content


def _megabytes(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return round(pages * os.sysconf("SC_PAGE_SIZE") / 2**20, 1)


def _cpu(pid: int) -> float:
    """Return the seconds of processor time that a process has used."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def growth(case: dict[str, Any]) -> float:
    """Return by what share memory grew from the second quarter of a run to the last."""
    memory = np.array([sample["megabytes"] for sample in case["samples"]])
    quarter = max(len(memory) // 4, 1)
    return float(memory[-quarter:].mean() / memory[quarter : 2 * quarter].mean() - 1)


def facts(content: dict[str, Any]) -> str:
    """Write what was measured, in Markdown."""
    rows = []
    for case in content["cases"]:
        took, memory = case["milliseconds"], [sample["megabytes"] for sample in case["samples"]]
        rows.append(
            [
                "as fast as it goes" if case["offered"] is None else f"{case['offered']:,.0f}",
                f"{case['transitions per second']:,.0f}",
                *(f"{took[name]:,.0f}" for name in ("median", "p99", "p99.9")),
                f"{max(memory):,.0f} ({growth(case):+.1%})",
                f"{max(sample['lag seconds'] for sample in case['samples']):.1f}",
                f"{case['cores of the server']:.2f}",
                f"{case['cores of the senders']:.2f}",
            ]
        )
    head = ["offered a second", "confirmed a second", "median, ms", "p99, ms", "p99.9, ms"]
    head += ["memory, MB", "lag, s", "cores: server", "cores: senders"]
    offered = content["cases"][0]
    met = {
        f"{offered['offered']:,.0f} transitions/s": offered["transitions per second"] >= 0.99 * offered["offered"],
        f"99 of 100 batches confirmed within {1000 * LATE:.0f} ms": offered["milliseconds"]["p99"] < 1000 * LATE,
        "flat memory": growth(offered) < FLAT,
    }
    disks = [case["fdatasync"][when] for case in content["cases"] for when in ("before", "after")]
    alone = [one["median"] for one in disks]
    machine = content["provenance"]
    return "\n".join(
        [
            f"Two processes send batches of {BATCH} rows over {CONNECTIONS} connections each to a server with one "
            f"experiment, a table of {STATES} states, for {offered['seconds']:,.0f} seconds; server and senders share "
            f"{machine['cores']} cores. A batch is confirmed when it is on the disk. Its time counts from when it was "
            "due, also if it had to wait to be sent.",
            "",
            table(head, rows, text=head[:1]),
            "",
            "Memory: the most, and by how much it grew from the second quarter of the run to the last. Lag: how long "
            f"the oldest row waited for the evaluator, at most. {offered['refused']:,} batches were refused. The disk "
            f"alone took {min(alone):.1f} to {max(alone):.1f} ms for an append of 8 KB with `fdatasync` (median; 99 of "
            f"100 within {max(one['p99'] for one in disks):.0f} ms).",
            "",
            "Goals: "
            + "; ".join(f"{name}: {'met' if is_met else '**not met**'}" for name, is_met in met.items())
            + ".",
            "",
            f"{origin(machine)}, {software(machine)}.",
        ]
    )


def main() -> None:
    """Measure, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600.0, help="of the run at a given rate")
    parser.add_argument("--at-most", type=float, default=60.0, help="seconds of the run as fast as it goes")
    parser.add_argument("--rate", type=float, default=50_000.0, help="transitions a second")
    parser.add_argument("--scratch", help="a folder on the disk to be measured")
    parser.add_argument("--output", type=Path, default=RESULTS)
    parser.add_argument("--page", type=Path, default=PAGE)
    parser.add_argument("--from-results", action="store_true", help="run nothing: write the page of these results")
    options = parser.parse_args()
    if not options.from_results:
        made_by = describe(command_line())
        runs = [(options.seconds, options.rate), (min(options.at_most, options.seconds), None)]
        cases = [measure(seconds, rate, options.scratch) for seconds, rate in runs]
        options.output.write_text(json.dumps({"provenance": made_by, "cases": cases}, indent=1) + "\n")
    content = json.loads(options.output.read_text())
    options.page.write_text(replaced(options.page.read_text(), BEGIN, END, facts(content)))
    print(facts(content))


if __name__ == "__main__":
    main()
