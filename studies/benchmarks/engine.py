"""The engine's benchmarks, all of them: run, judge, print."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from studies.benchmarks.growth import measure_memory, measure_slopes
from studies.benchmarks.latency import measure_cold_start, measure_observe, measure_read
from studies.benchmarks.logs import measure_log, measure_log_in_time
from studies.benchmarks.machine import describe
from studies.benchmarks.offline import measure_offline
from studies.benchmarks.shapes import SHAPES, Shape, measure_least_squares, measure_shape, measure_value

__all__ = ["FORMAT", "Effort", "judged", "run", "write"]

FORMAT = 2  # of the JSON file


class Effort(NamedTuple):
    """How much time to spend."""

    rounds: int  # turns that everything takes
    seconds: float  # that each thing should take at each turn
    memory: int  # chunks of 1024 transitions, before 64 times as many
    calls: int  # of observe, and a hundredth of that many readings
    starts: int  # of a fresh process
    rows: int  # of a log


FULL = Effort(rounds=9, seconds=0.15, memory=8, calls=20_000, starts=7, rows=10_000_000)
QUICK = Effort(rounds=5, seconds=0.02, memory=2, calls=2_000, starts=3, rows=1_000_000)


def run(
    effort: Effort, command: str, say: Callable[[str], None] = print, shapes: Sequence[Shape] = SHAPES
) -> dict[str, Any]:
    """Run everything and return the results, ready for JSON."""
    results: dict[str, Any] = {"format": FORMAT, "machine": describe(command), "effort": effort._asdict()}
    say(f"{results['machine']['processor']}, kernel {results['machine']['kernel']}, one thread")
    results["shapes"] = []
    for shape in shapes:
        measured = measure_shape(shape, effort.rounds, effort.seconds)
        results["shapes"].append(measured)
        say(_line(measured))
        for line in measured["left out"]:
            say(f"    {line}")
    results["least squares"] = measure_least_squares(effort.rounds, 4 * effort.seconds)
    say(_line(results["least squares"]))
    results["value"] = measure_value(effort.rounds, 2 * effort.seconds)
    results["offline"] = measure_offline(effort.rounds, 2 * effort.seconds)
    results["slopes"] = measure_slopes(effort.rounds, effort.seconds)
    results["memory"] = measure_memory(effort.memory)
    results["cold start"] = measure_cold_start(effort.starts)
    results["observe"] = measure_observe(effort.rounds, effort.calls)
    results["read"] = measure_read(effort.rounds, max(effort.calls // 100, 1))
    results["log"] = measure_log(effort.rows)
    results["log in order of time"] = measure_log_in_time(effort.rows)
    if results["log"] is None:
        say("log: pyarrow is not installed, left out (pip install 'inferl[data]')")
    results["judged"] = list(judged(results))
    say("")
    for row in results["judged"]:
        say(f"{'met    ' if row['met'] else 'NOT MET'}  {row['name']}: {row['shown']} (reach {row['reach']})")
    return results


def write(results: dict[str, Any], path: str | os.PathLike[str]) -> None:
    """Write results as JSON, all at once."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".new")
    temporary.write_text(json.dumps(results, indent=1, allow_nan=False) + "\n")
    temporary.replace(path)


def judged(results: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Compare results with what they should reach."""
    for shape in results["shapes"]:
        name, reach = shape["name"], shape["reach"]
        if reach["checked"] is not None:
            yield _at_least(
                f"{name}, with its checks: times the step", shape["over"]["step"], reach["checked"], "x{:.3g}"
            )
        bare = shape["over, without checks"]
        yield _at_least(f"{name}, without checks: times the step", bare["step"], reach["step"], "x{:.3g}")
        if reach["share"] is not None:
            yield _at_least(
                f"{name}, without checks: share of the peak", shape["share of peak"], reach["share"], "{:.0%}"
            )
        if "jax" in shape["over"]:
            yield _at_least(f"{name}, with its checks: times JAX", shape["over"]["jax"], 1.0, "x{:.3g}")
    solved = results["least squares"]
    yield _at_least(f"{solved['name']}: share of the peak", solved["share of peak"], solved["reach"]["share"], "{:.0%}")
    for row in results["value"]:
        name = f"{row['name']}: cost over plain least squares"
        yield _at_most(name, row["cost over least squares"], row["reach"]["cost"], "x{:.2f}")
    for row in results["offline"]:
        yield _at_least(f"{row['name']}: times the offline bootstrap, one report", row["over"], 2.0, "x{:.3g}")
        m = row["reports"]
        name = f"{row['name']}: times the offline bootstrap, {m} reports"
        yield _at_least(name, row["over, with reports"], 2.0 * (m + 1) / 2, "x{:.3g}")
    growth = results["memory"]["growth in megabytes"]["online bootstrap"]
    yield _at_most("memory from T to 64 T, p = 64, B = 200: growth", growth, 1.0, "{:.2f} MB")
    for what, low, high in (("T", 0.95, 1.1), ("B", 0.95, 1.1), ("p", 0.85, 1.1)):
        yield _between(f"exponent of the time in {what}", results["slopes"][what]["slope"], low, high)
    for what in ("least squares", "online bootstrap"):
        yield _at_most(f"first interval from a cold start, {what}", results["cold start"][what], 1.0, "{:.2f} s")
    for kind, most in (("tabular", 3.0), ("dense", 5.0)):
        for part, cost in results["observe"][kind].items():
            yield _at_most(f"observe, {kind}, {part}", cost, most, "{:.2f} µs")
    for kind, cost in results["read"].items():
        yield _at_most(f"reading an interval in mid-stream, {kind}", cost, 1.0, "{:.2f} ms")
    log = results["log"]
    if log is not None:
        name = f"log of {log['rows'] / 1e6:g} million rows by inferl evaluate, off-policy"
        yield _at_least(f"{name}: rows a second", log["rows per second"], 500_000, "{:,.0f}")
        yield _at_most(f"{name}: memory", log["megabytes"], 300.0, "{:.0f} MB")
    log = results["log in order of time"]
    if log is not None:
        where = f"{log['files']} files, {log['open']:,} open episodes"
        name = f"log of {log['rows'] / 1e6:g} million rows in order of time, {where}"
        yield _at_least(f"{name}: rows a second", log["rows per second"], 500_000, "{:,.0f}")
        yield _at_most(f"{name}: memory", log["megabytes"], 1000.0, "{:.0f} MB")


def _at_least(name: str, value: float, reach: float, form: str) -> dict[str, Any]:
    return _row(name, value, form, f"≥ {form.format(reach)}", value >= reach)


def _at_most(name: str, value: float, reach: float, form: str) -> dict[str, Any]:
    return _row(name, value, form, f"< {form.format(reach)}", value < reach)


def _between(name: str, value: float, low: float, high: float) -> dict[str, Any]:
    return _row(name, value, "{:.2f}", f"{low} to {high}", low <= value <= high)


def _row(name: str, value: float, form: str, reach: str, met: bool) -> dict[str, Any]:
    return {"name": name, "value": value, "shown": form.format(value), "reach": reach, "met": met}


def _line(measured: dict[str, Any]) -> str:
    """Sum up one shape in a line."""
    rates = measured["transitions per second"]
    words = [f"{measured['name']:<26} {rates['inferl']:>12,.0f} transitions/s"]
    words += [] if measured["share of peak"] is None else [f"{measured['share of peak']:.0%} of peak"]
    words += [f"x{ratio:,.3g} {name}" for name, ratio in measured.get("over", {}).items()]
    return ", ".join(words)
