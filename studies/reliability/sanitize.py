"""The tests of the compiled kernel under sanitizers: `python -m studies.reliability.sanitize`, or `make sanitize`.

The package is built twice, into environments of their own: with the address and undefined-behaviour sanitizers, and
with the thread sanitizer. A report of a sanitizer fails the test in which it appears, or ends the run.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from studies.provenance import ROOT, provenance
from studies.reliability import page
from studies.reliability.campaigns import LIMITS, SANITIZERS, keep

__all__ = ["BUILDS", "main", "tests_in"]

MARKED = "torch or atari or browser or docs or integrations or wheels"
KERNEL = (
    *("tests/engine", "tests/algorithms", "tests/methods", "tests/variance"),
    *("tests/test_merging.py", "tests/test_evaluator.py"),
)
# Of each build: its sanitizers, their libraries, how they are to behave, and the tests.
BUILDS: dict[str, dict[str, Any]] = {
    "address": {
        "flags": "address,undefined",
        "tries": SANITIZERS["address"],
        "libraries": ("libasan.so", "libstdc++.so.6"),
        "options": {
            "ASAN_OPTIONS": "detect_leaks=0",
            "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
            "PYTHONMALLOC": "malloc",
        },
        "tests": KERNEL,
    },
    "thread": {
        "flags": "thread",
        "tries": SANITIZERS["thread"],
        "libraries": ("libtsan.so", "libstdc++.so.6"),
        # Not at the first report: all of them are wanted. The run then ends with the exit code 66.
        "options": {
            "TSAN_OPTIONS": "halt_on_error=0:exitcode=66:report_signal_unsafe=0:die_after_fork=0"
            f":suppressions={Path(__file__).with_name('thread.supp')}"
        },
        "tests": ("tests/engine", "tests/methods/test_schedule.py", "tests/methods/test_stages.py"),
    },
}


def tests_in(report: Path) -> dict[str, int]:
    """Return how many tests a JUnit report has, by outcome."""
    suites = list(ElementTree.parse(report).getroot().iter("testsuite"))
    whole = {
        name: sum(int(suite.get(name, 0)) for suite in suites) for name in ("tests", "failures", "errors", "skipped")
    }
    bad = whole["failures"] + whole["errors"]
    return {"tests passed": whole["tests"] - bad - whole["skipped"], "failed": bad, "skipped": whole["skipped"]}


def build(name: str) -> Path:
    """Install the package into an environment of its own, built with a sanitizer; return its Python."""
    folder = ROOT / f".venv-{name}"
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    words = [str(python), "-m", "pip", "install", "-qq", "--disable-pip-version-check", "-c", "constraints.txt"]
    define = f"cmake.define.INFERL_SANITIZE={BUILDS[name]['flags']}"
    subprocess.run([*words, "-C", define, "-e", ".[test]"], cwd=ROOT, check=True)
    return python


def _bounded(words: Sequence[str], variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a command, and exit if it does not end in time."""
    limit = LIMITS["sanitize"]
    try:
        return subprocess.run(words, cwd=ROOT, env=variables, stderr=subprocess.PIPE, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        sys.exit(f"stopped at its limit of {limit:g} s: {' '.join(words)}")


def run(name: str, python: Path, tests: Sequence[str]) -> dict[str, Any]:
    """Run tests under a sanitizer, and return the result."""
    about = BUILDS[name]
    some = "" if tuple(tests) == tuple(about["tests"]) else f" --tests {' '.join(tests)}"
    command = f"python -m studies.reliability.sanitize --only {name}{some}"
    made = provenance(None, command, packages=("inferl", "numpy"))
    found = [
        subprocess.run(
            ["gcc", f"-print-file-name={library}"], capture_output=True, text=True, check=True
        ).stdout.strip()
        for library in about["libraries"]
    ]
    report = python.parents[1] / "tests.xml"
    report.unlink(missing_ok=True)
    # The thread sanitizer maps memory at fixed places, which must not be taken at random.
    fixed = ["setarch", "-R"] if shutil.which("setarch") else []
    # What the sanitizers print must not be captured with the output of a test.
    words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "--capture=sys", "-m", f"not ({MARKED})"]
    words += [f"--junitxml={report}", *tests]
    begin = time.monotonic()
    done = _bounded(
        [*fixed, "env", f"LD_PRELOAD={' '.join(found)}", str(python), *words],
        os.environ | about["options"] | {"INFERL_REQUIRE_NATIVE": "1"},
    )
    print(done.stderr[-20_000:], file=sys.stderr)
    reports = done.stderr.count("WARNING: ThreadSanitizer") + done.stderr.count("ERROR: AddressSanitizer")
    reports += done.stderr.count("runtime error:")
    counts = (tests_in(report) if report.exists() else {}) | {"reports of the sanitizer": reports}
    return {
        "provenance": made,
        "campaign": f"sanitize_{name}",
        "group": "sanitize",
        "tries": about["tries"],
        "full": tuple(tests) == tuple(about["tests"]),
        "seconds": round(time.monotonic() - begin, 1),
        "passed": done.returncode == 0 and reports == 0 and counts.get("tests passed", 0) > 0,
        "counts": counts,
    }


def main() -> None:
    """Build, test, keep the results; exit with 1 if something was found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", choices=list(BUILDS))
    parser.add_argument("--tests", nargs="+", help="paths of tests; default: those of the kernel")
    asked = parser.parse_args()
    passed = True
    for name in [asked.only] if asked.only else list(BUILDS):
        result = run(name, build(name), asked.tests or BUILDS[name]["tests"])
        print(f"-- {keep(result)}: {result['counts']}")
        passed = passed and result["passed"]
    page.main()
    sys.exit(not passed)


if __name__ == "__main__":
    main()
