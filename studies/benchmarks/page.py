"""The pages of results: tables for people, made from the JSON file."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from inferl.errors import DataError
from studies.benchmarks.engine import FORMAT
from studies.markdown import listed, table
from studies.provenance import software

__all__ = ["in_short", "read", "rendered", "update_page"]

BEGIN, END = "<!-- measured: written by studies.benchmarks -->", "<!-- end of measured -->"
SHORT, SHORT_END = "<!-- speed: written by studies.benchmarks -->", "<!-- end of speed -->"

AROUND = f"""# Performance

How many transitions the engine processes per second, compared with the code one would otherwise write or use.
Everything runs in one process on one thread. Competitors are timed in turns; times are CPU times of the process, and
the table shows medians.

{BEGIN}
{END}

## How to run

    make bench                    # a few minutes; writes studies/benchmarks/results/engine.json and this page
    make bench ARGUMENTS=--quick  # less than a minute

JAX and river are measured if they are installed: `pip install 'inferl[bench]'`, which `make bench` does.

## Sanitizers

    make sanitize

builds the native backend with the compiler's address and undefined-behaviour sanitizers in a separate environment, and
runs the tests that use it. A finding stops the run. The last such run was clean.
"""

RIVALS = """The competitors:

- **naive**: Algorithm 1 as printed in the paper, in NumPy: a loop over transitions with a loop over replicas inside.
- **step**: NumPy vectorised over replicas, one transition at a time, multipliers from PCG64, expressions combined by
  hand; **as printed**: the same, written line by line as in the algorithm, with one more product and one more large
  temporary. With one-hot features both work on the dense vectors.
- **JAX**: the step as the body of a compiled `lax.scan`, in float64 on the CPU.
- **river**: `BaggingRegressor` of linear regressions. This is another problem: it regresses the reward on the features
  (no bootstrapped target, so the answer is not a value), repeats steps Poisson(1) times, and does not average.
- **offline**: `inferl.baselines.offline_bootstrap`, which stores the data, resamples them and runs the recursion along
  every resample. That loop is compiled like the engine, with the same instruction sets.

The peak is the speed of a float64 matrix product in the same process. Useful operations per transition are 6 B p for TD
(dot product, update, average), 10 B d for GTD2 and 4 p² for least squares. "At peak" is the speedup over the step that
an engine at 100 % of the peak would have. "From arrays" includes checking and copying the user's arrays."""


def read(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read results back."""
    results: dict[str, Any] = json.loads(Path(path).read_text())
    if results.get("format") != FORMAT:
        raise DataError(f"{path} has format {results.get('format')!r}, this version reads {FORMAT}; measure again")
    return results


def update_page(path: str | os.PathLike[str], results: dict[str, Any]) -> None:
    """Write the results into a page, between its two marks, all of them or in short; what is around them stays."""
    path = Path(path)
    text = path.read_text() if path.exists() else AROUND
    first, last, written = (SHORT, SHORT_END, in_short) if SHORT in text else (BEGIN, END, rendered)
    before, begin, rest = text.partition(first)
    _, end, after = rest.partition(last)
    if not begin or not end:
        raise DataError(f"{path} has no place for the results: lines {first!r} and {last!r}")
    path.write_text(f"{before}{first}\n\n{written(results)}\n\n{last}{after}")


def rendered(results: dict[str, Any]) -> str:
    """Write results as Markdown."""
    parts = [_machine(results), _speeds(results), RIVALS, _verdicts(results)]
    return "\n\n".join(parts)


def in_short(results: dict[str, Any]) -> str:
    """Write the few numbers that a README has room for."""
    rates = [_count(value["transitions per second"]["inferl"], 2) for value in results["value"]]
    features = [str(value["features"]) for value in results["value"]]
    rows = []
    for shape in results["shapes"]:
        if shape["replicas"] == 200 and not shape["name"].startswith("GTD2"):
            states = f"a table of {shape['features']} states"
            name = states if shape["name"].startswith("one-hot") else str(shape["features"])
            over = [_times(shape["over"].get(rival), 2) for rival in ("step", "jax", "naive")]
            rows.append([name, _count(shape["transitions per second"]["inferl"], 2), *over])
    head = ["features", "transitions/s", "over NumPy", "over JAX", "over the loop"]
    return f"""The default, the value of the starts by least squares with all its checks, processes
{listed(rates)} transitions per second with
{listed(features)} features, on one thread of a machine with {results["machine"]["cores"]} cores.

The table is for the online bootstrap with 200 replicas, without the least-squares sums that its checks need (they cost
as much again, or several times as much). It is compared with the same algorithm in NumPy (vectorised over replicas), in
JAX (a compiled scan) and as printed in the paper (a loop over replicas):

{table(head, rows)}"""


def _machine(results: dict[str, Any]) -> str:
    machine = results["machine"]
    return (
        f"Measured {machine['date']} on {machine['processor']}, {machine['cores']} cores, {machine['system']}, "
        f"kernel {machine['kernel']}; {software(machine)}, BLAS {machine['blas']}; "
        f"commit {machine['commit']}, command `{machine['command']}`."
    )


def _speeds(results: dict[str, Any]) -> str:
    head = ["shape", "transitions/s", "from arrays", "of peak", "over step", "at peak"]
    others = {"step as printed": "as printed", "jax": "over JAX", "naive": "over naive", "river": "over river"}
    rows = []
    for shape in results["shapes"]:
        rate, over = shape["transitions per second"], shape["over"]
        row = [shape["name"], _count(rate["inferl"]), _count(rate["inferl from arrays"])]
        row += [_share(shape["share of peak"]), _times(over["step"]), _times(shape["most over step at peak"])]
        rows.append(row + [_times(over.get(name)) for name in others])
    solved = results["least squares"]
    rate = _count(solved["transitions per second"]["inferl"])
    rows.append([solved["name"], rate, "", _share(solved["share of peak"]), *[""] * 6])
    for value in results["value"]:
        rate = _count(value["transitions per second"]["inferl"])
        rows.append([f"{value['name']} (with its checks)", rate, *[""] * 8])
    head += others.values()
    return table(head, rows, text=head)


def _verdicts(results: dict[str, Any]) -> str:
    rows = [
        [row["name"], row["shown"], row["reach"], "met" if row["met"] else "**not met**"] for row in results["judged"]
    ]
    missed = sum(not row["met"] for row in results["judged"])
    some = f"{missed} of {len(rows)} goals are not met.{_out_of_reach(results)}"
    count = some if missed else "All goals are met."
    memory = results["memory"]
    grown = ", ".join(f"{name} {megabytes:.2f} MB" for name, megabytes in memory["growth in megabytes"].items())
    growth = f"Memory growth from {_count(memory['transitions'])} transitions to 64 times as many: {grown}."
    head = ["", "measured", "goal", ""]
    return f"## Goals and results\n\n{count}\n\n{table(head, rows, text=head)}\n\n{growth}"


def _out_of_reach(results: dict[str, Any]) -> str:
    """Name the ratios that an engine at 100 % of the peak would miss too."""
    found = [
        f"{shape['name']} (x{shape['most over step at peak']:.3g} at the peak, goal x{shape['reach']['step']:g})"
        for shape in results["shapes"]
        if (shape["most over step at peak"] or float("inf")) < shape["reach"]["step"]
    ]
    words = "These speedups over the step could not be reached on this machine, even at 100 % of the peak"
    return f" {words}: {'; '.join(found)}." if found else ""


def _count(number: float, digits: int = 3) -> str:
    return f"{float(f'{number:.{digits}g}'):,.0f}"


def _times(ratio: float | None, digits: int = 3) -> str:
    return "" if ratio is None else f"x{float(f'{ratio:.{digits}g}'):,g}"


def _share(share: float | None) -> str:
    return "" if share is None else f"{share:.0%}"
