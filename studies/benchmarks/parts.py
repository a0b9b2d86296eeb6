"""Plans: what it costs to evaluate a log in parts, by several processes, beside one process that reads all of it.

    python -m studies.benchmarks.parts [--rows 100000000] [--files 100] [--page docs/scale.md]

Makes the log file by file, evaluates it by `inferl evaluate` with and without ``--workers all``, and a tenth of it in
parts of several sizes. Writes results/parts.json; with ``--from-results`` only the page.
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
from time import perf_counter
from typing import Any

import numpy as np

from studies.benchmarks.logs import LENGTH, STATES
from studies.markdown import table_of
from studies.pages import replaced
from studies.provenance import origin, provenance

__all__ = ["facts", "main", "measure", "write_files"]

RESULTS = Path(__file__).parent / "results" / "parts.json"
PAGE = Path(__file__).parents[2] / "docs" / "scale.md"
BEGIN, END = "<!-- parts: written by studies.benchmarks.parts -->", "<!-- end of parts -->"
ROLES = ["--state", "state", "--n-states", str(STATES), "--episode", "patient", "--order", "hour"]
RATIOS = ["--behaviour-probability", "p", "--target-probability", "q", "--json", "--quiet"]
SIZES = (50_000, 200_000, 1_000_000)  # rows of a part
IN_PARTS = """
import sys
from inferl.cli import main
from inferl.scale import plans
if __name__ == "__main__":
    plans.ROWS = int(sys.argv.pop(1))
    main()
"""


def write_files(folder: Path, rows: int, files: int) -> None:
    """Write an off-policy log of a table of states in files that cut episodes."""
    import pyarrow as pa
    from pyarrow import parquet

    size = -(-rows // files)
    for number in range(files):
        rng = np.random.default_rng(number)
        row = np.arange(size * number, min(size * (number + 1), rows))
        hour = row % LENGTH
        columns = {
            "patient": row // LENGTH,
            "hour": hour,
            "state": rng.integers(STATES, size=len(row)),
            "reward": rng.normal(size=len(row)),
            "p": np.full(len(row), 0.5),
            "q": rng.choice([0.4, 0.6], size=len(row)),
            "terminated": hour == LENGTH - 1,
        }
        parquet.write_table(pa.table(columns), folder / f"part-{number}.parquet", row_group_size=50_000)


def timed(command: list[str]) -> dict[str, Any]:
    """Run a command: its time by the clock and by all its processors, and its interval."""
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"seconds": perf_counter() - begin, "cpu": cpu, "interval": json.loads(done.stdout)["interval"]}


def measure(rows: int, files: int, scratch: str | None = None) -> dict[str, Any]:
    """Evaluate a log by one process and by several, and a tenth of it in parts of several sizes."""
    inferl = [sys.executable, "-c", "from inferl.cli import main; main()", "evaluate"]
    with tempfile.TemporaryDirectory(dir=scratch) as name:
        folder = Path(name) / "log"
        folder.mkdir()
        write_files(folder, rows, files)
        one = timed([*inferl, str(folder), *ROLES, *RATIOS])
        many = timed([*inferl, str(folder), *ROLES, *RATIOS, "--workers", "all"])
        script = Path(name) / "inferl_in_parts.py"
        script.write_text(IN_PARTS)
        share = [str(folder / f"part-{k}.parquet") for k in range(max(files // 10, 1))]
        sizes: list[dict[str, Any]] = [timed([*inferl, *share, *ROLES, *RATIOS])]
        for size in sorted(SIZES, reverse=True):
            command = [sys.executable, str(script), str(size), "evaluate", *share, *ROLES, *RATIOS, "--workers", "1"]
            sizes.append({"rows": size, **timed(command)})
    return {
        "rows": rows,
        "files": files,
        "cores": os.cpu_count(),
        "one": one,
        "many": many,
        "sizes": sizes,
        "share": rows // 10,
    }


def facts(content: dict[str, Any]) -> str:
    """Write what was measured, in Markdown."""
    one, many = content["one"], content["many"]
    ratio, faster = many["cpu"] / one["cpu"], one["seconds"] / many["seconds"]
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
            "CPU seconds": lambda c: f"{c['cpu']:.1f}",
            "times one pass": lambda c: f"{c['cpu'] / rows[0]['cpu']:.2f}",
        },
    )
    return "\n".join(
        [
            f"{content['rows']:,} rows in {content['files']} files, a table of {STATES} states, off-policy: one pass "
            f"took {one['cpu']:.0f} CPU seconds, parts of a million rows {many['cpu']:.0f}, {ratio:.2f} times as many. "
            f"On {content['cores']} cores, {many['seconds']:.0f} seconds instead of {one['seconds']:.0f} by the clock, "
            f"{faster:.2f} times as fast. The interval is {width:.4f} times as wide.",
            "",
            f"{content['share']:,} of these rows in parts of several sizes, by one worker:",
            "",
            table,
            "",
            f"{origin(content['provenance'])}.",
        ]
    )


def main() -> None:
    """Measure, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000_000)
    parser.add_argument("--files", type=int, default=100)
    parser.add_argument("--scratch", help="a folder with room for the log, about 30 bytes a row")
    parser.add_argument("--output", type=Path, default=RESULTS)
    parser.add_argument("--page", type=Path, default=PAGE)
    parser.add_argument("--from-results", action="store_true", help="run nothing: write the page of these results")
    options = parser.parse_args()
    if not options.from_results:
        made_by = provenance(None)
        content = {"provenance": made_by, **measure(options.rows, options.files, options.scratch)}
        options.output.write_text(json.dumps(content, indent=1) + "\n")
    content = json.loads(options.output.read_text())
    options.page.write_text(replaced(options.page.read_text(), BEGIN, END, facts(content)))
    print(facts(content))


if __name__ == "__main__":
    main()
