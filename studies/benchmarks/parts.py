"""Plans: what it costs to evaluate a log in parts, by several processes, beside one process that reads all of it.

    python -m studies.benchmarks.parts [--rows 100000000] [--files 100] [--turns 3] [--scratch FOLDER]

Makes the log file by file, evaluates it by `inferl evaluate` with and without ``--workers all``, and a tenth of it in
parts of several sizes, in turns. Then what the driver of a plan does, and regrouping. Writes results/parts.json and
docs/scale.md; with ``--from-results`` only the page.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

from studies.benchmarks.driver import facts as facts_of_driver
from studies.benchmarks.driver import measure_driver, measure_regrouping
from studies.benchmarks.logs import STATES, columns_of
from studies.markdown import table_of
from studies.pages import replaced
from studies.provenance import origin, provenance

__all__ = ["facts", "main", "measure", "write_files"]

RESULTS = Path(__file__).parent / "results" / "parts.json"
PAGE = Path(__file__).parents[2] / "docs" / "scale.md"
BEGIN, END = "<!-- parts: written by studies.benchmarks.parts -->", "<!-- end of parts -->"
ROLES = ["--state", "state", "--n-states", str(STATES), "--episode", "patient", "--order", "hour"]
RATIOS = ["--behaviour-probability", "p", "--target-probability", "q", "--json", "--quiet"]
SIZES = (1_000_000, 200_000, 50_000)  # rows of a part
SCATTERED = 5_000_000  # rows to regroup
IN_PARTS = """
import sys
from inferl.cli import main
from inferl.scale import plans
if __name__ == "__main__":
    plans.ROWS = int(sys.argv.pop(1))
    main()
"""
# Compiled modules are kept, as is usual; else each worker would compile them again.
USUAL = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def write_files(folder: Path, rows: int, files: int) -> None:
    """Write an off-policy log of a table of states in files that cut episodes."""
    import pyarrow as pa
    from pyarrow import parquet

    size = -(-rows // files)
    for number in range(files):
        row = np.arange(size * number, min(size * (number + 1), rows))
        log = pa.table(columns_of(row, np.random.default_rng(number)))
        parquet.write_table(log, folder / f"part-{number}.parquet", row_group_size=50_000)


def timed(command: list[str]) -> dict[str, Any]:
    """Run a command: its time by the clock and by all its processors, and its interval."""
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=USUAL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"seconds": perf_counter() - begin, "cpu": cpu, "interval": json.loads(done.stdout)["interval"]}


def in_turns(commands: list[list[str]], turns: int) -> list[dict[str, Any]]:
    """Run commands in turns: the interval of each, and its times, one for each turn."""
    runs = [[timed(command) for command in commands] for _ in range(turns)]
    return [
        {"interval": found[0]["interval"]} | {name: [run[name] for run in found] for name in ("seconds", "cpu")}
        for found in zip(*runs, strict=True)
    ]


def measure(rows: int, files: int, turns: int, scratch: str | None = None) -> dict[str, Any]:
    """Evaluate a log by one process and by several, and a tenth of it in parts of several sizes."""
    inferl = [sys.executable, "-c", "from inferl.cli import main; main()", "evaluate"]
    with tempfile.TemporaryDirectory(dir=scratch) as name:
        folder = Path(name) / "log"
        folder.mkdir()
        write_files(folder, rows, files)
        command = [*inferl, str(folder), *ROLES, *RATIOS]
        one, many = in_turns([command, [*command, "--workers", "all"]], turns)
        script = Path(name) / "inferl_in_parts.py"
        script.write_text(IN_PARTS)
        share = ["evaluate", *(str(folder / f"part-{k}.parquet") for k in range(max(files // 10, 1))), *ROLES, *RATIOS]
        commands = [[*inferl, *share[1:]]]
        commands += [[sys.executable, str(script), str(size), *share, "--workers", "1"] for size in SIZES]
        sizes = in_turns(commands, turns)
        for cell, size in zip(sizes[1:], SIZES, strict=True):
            cell["rows"] = size
        driver = measure_driver(Path(name))
        regrouping = measure_regrouping(Path(name), min(rows, SCATTERED))
    return {
        "rows": rows,
        "files": files,
        "cores": os.cpu_count(),
        "one": one,
        "many": many,
        "sizes": sizes,
        "share": rows // 10,
        "driver": driver,
        "regrouping": regrouping,
    }


def over(cell: dict[str, Any], other: dict[str, Any], name: str) -> float:
    """Return how many times as long one took, the median of the turns."""
    return float(median(mine / its for mine, its in zip(cell[name], other[name], strict=True)))


def facts(content: dict[str, Any]) -> str:
    """Write what was measured, in Markdown."""
    one, many = content["one"], content["many"]
    width = (many["interval"]["upper"] - many["interval"]["lower"]) / (
        one["interval"]["upper"] - one["interval"]["lower"]
    )
    rows = [
        {"parts": "one pass" if "rows" not in cell else f"{-(-content['share'] // cell['rows']):,}", **cell}
        for cell in content["sizes"]
    ]
    table = table_of(
        rows,
        {
            "parts": lambda c: c["parts"],
            "rows of a part": lambda c: f"{c['rows']:,}" if "rows" in c else f"{content['share']:,}",
            "CPU seconds": lambda c: f"{median(c['cpu']):.1f}",
            "times one pass": lambda c: f"{over(c, rows[0], 'cpu'):.2f}",
        },
    )
    return "\n".join(
        [
            f"{content['rows']:,} rows in {content['files']} files, a table of {STATES} states, off-policy: one pass "
            f"took {median(one['cpu']):.0f} CPU seconds, parts of a million rows {median(many['cpu']):.0f}, "
            f"{over(many, one, 'cpu'):.2f} times as many. On {content['cores']} cores, {median(many['seconds']):.0f} "
            f"seconds instead of {median(one['seconds']):.0f} by the clock, {1 / over(many, one, 'seconds'):.2f} times "
            f"as fast. The interval is {width:.4f} times as wide.",
            "",
            f"{content['share']:,} of these rows in parts of several sizes, by one worker, which takes about half a "
            "second to start:",
            "",
            table,
            "",
            facts_of_driver(content["driver"], content["regrouping"]),
            "",
            f"Medians of {len(one['cpu'])} turns. {origin(content['provenance'])}.",
        ]
    )


def main() -> None:
    """Measure, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000_000)
    parser.add_argument("--files", type=int, default=100)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--scratch", help="a folder with room for the log, about 35 bytes a row")
    parser.add_argument("--output", type=Path, default=RESULTS)
    parser.add_argument("--page", type=Path, default=PAGE)
    parser.add_argument("--from-results", action="store_true", help="run nothing: write the page of these results")
    options = parser.parse_args()
    if not options.from_results:
        made_by = provenance(None)
        content = {"provenance": made_by, **measure(options.rows, options.files, options.turns, options.scratch)}
        options.output.write_text(json.dumps(content, indent=1) + "\n")
    content = json.loads(options.output.read_text())
    options.page.write_text(replaced(options.page.read_text(), BEGIN, END, facts(content)))
    print(facts(content))


if __name__ == "__main__":
    main()
