"""Install each wheel into an empty environment without a compiler, and use it: `python -m release.try_wheels dist`.

It runs `inferl demo`, the first example of README.md that needs no extra, and a stream through every method and every
instruction set of the machine. The bits of that are printed: builds by one compiler have the same; those of another one
may differ in the last digits, because compilers contract products and sums differently.
"""

from __future__ import annotations

import argparse
import doctest
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from release.wheels import ROOT, environment, newer_python, on_linux

__all__ = ["BITS", "LIMIT", "Bits", "attempt", "example", "interpreter", "missing", "pace", "read"]

LIMIT = 60.0  # seconds that installation and demonstration may take together, on a machine with nothing else to do

# What a wheel computes, for each instruction set: digests of all numbers, and the numbers themselves.
BITS = """
import hashlib, json, os, subprocess, sys
import numpy as np
import inferl
from inferl import engine

if "INFERL_ISA" not in os.environ and engine.active().name != "reference":
    from inferl.engine import _native
    for name in _native.instruction_sets():
        subprocess.run([sys.executable, __file__], env=os.environ | {"INFERL_ISA": name}, check=True)
    sys.exit()
problem = inferl.environments.random_mdp(seed=0, n_states=30, n_features=16)
path = problem.mdp.sample(problem.target, 20_000, seed=0)
data = path.transitions(problem.discount, problem.features)
rng, found = np.random.default_rng(0), []
for algorithm, method in [
    (inferl.TD(16), inferl.LeastSquares()),
    (inferl.NStepTD(16, n=3), inferl.OnlineBootstrap(inferl.Polynomial(1.0, decay=0.65))),
    (inferl.GTD2(16), inferl.OnlineBootstrap(inferl.Polynomial(1.0, decay=0.65))),
]:
    interval = inferl.Evaluator(algorithm, method).update(data).interval(problem.features)
    found += [np.asarray(x) for x in (interval.estimate, interval.lower, interval.upper)]
numbers = np.concatenate(found)
digest = hashlib.sha256(numbers.tobytes()).hexdigest()[:16]
print(json.dumps({"kernel": engine.active().name, "digest": digest, "numbers": numbers.tolist()}))
"""


def interpreter(wheel: Path, newer: str | None) -> str | None:
    """Return a Python that a wheel is for; None: there is none here."""
    return newer if "-cp312-" in wheel.name and sys.version_info < (3, 12) else sys.executable


def missing(wheels: Sequence[Path], newer: str | None) -> str | None:
    """Return why the wheel for 3.12 and later is not tried; None: it is.

    >>> missing([Path("inferl-1-cp311-cp311-linux_x86_64.whl")], "python3.13")
    'the wheel for 3.12 and later (abi3) is missing: run make wheels'
    """
    if not any("-abi3-" in wheel.name for wheel in wheels):
        return "the wheel for 3.12 and later (abi3) is missing: run make wheels"
    if newer is None and sys.version_info < (3, 12):
        return "there is no Python of 3.12 or later to try the abi3 wheel with: name one with --newer"
    return None


def pace(installed: float, demo: float, limit: float = LIMIT) -> str:
    """Return how long installation and demonstration took, and whether that is within the limit.

    >>> pace(12.34, 2.0)
    'installed in 12.3 s, demo in 2.0 s: 14.3 s together, within 60 s'
    >>> pace(70, 2.0)
    'installed in 70.0 s, demo in 2.0 s: 72.0 s together, MORE THAN 60 s'
    """
    both = installed + demo
    verdict = "within" if both <= limit else "MORE THAN"
    return f"installed in {installed:.1f} s, demo in {demo:.1f} s: {both:.1f} s together, {verdict} {limit:g} s"


def example() -> str:
    """Return the first example of README.md that needs nothing but inferl and NumPy: that of the statistician."""
    _, _, rest = (ROOT / "README.md").read_text().partition("**If you are a statistician**")
    return rest.partition("```python\n")[2].partition("```")[0]


class Bits(NamedTuple):
    """What one kernel computed."""

    digest: str
    numbers: list[float]


def read(printed: str) -> dict[str, Bits]:
    """Return what `BITS` printed, by kernel."""
    found = map(json.loads, printed.splitlines())
    return {one["kernel"]: Bits(one["digest"], one["numbers"]) for one in found}


def attempt(wheel: Path, python: str) -> dict[str, Any]:
    """Install a wheel and use it.

    Returns
    -------
    Seconds of installation and demonstration, size of the environment in MB, and what `BITS` found.
    """
    with tempfile.TemporaryDirectory() as folder:
        begin = time.monotonic()
        commands = environment(python, Path(folder) / "empty", str(wheel))
        installed = time.monotonic()
        # No compiler, no shell, nothing but the commands of this environment.
        bare = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "INFERL_"))}
        bare |= {"PATH": str(commands), "PYTHONWARNINGS": "ignore::RuntimeWarning"}

        def said(*words: str) -> str:
            words = (str(commands / words[0]), *words[1:])
            done = subprocess.run(words, cwd=folder, env=bare, capture_output=True, text=True)
            assert done.returncode == 0, f"{wheel.name}: {words}\n{done.stdout}{done.stderr}"
            return done.stdout

        demo = said("inferl", "demo")
        assert "holds the exact" in demo, demo
        assert "No picture: matplotlib is not installed" in demo, demo
        ended = time.monotonic()
        page = Path(folder) / "example.txt"
        page.write_text(example())
        assert len(doctest.DocTestParser().get_examples(page.read_text())) >= 5
        options = "doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS"
        names = "{'inferl': inferl, 'np': numpy}"  # what the page has imported by then
        run = f"doctest.testfile('{page}', False, globs={names}, optionflags={options})"
        test = f"import doctest, inferl, numpy; r = {run}; print(r); assert not r[0]"
        assert "failed=0" in said("python", "-c", test)
        script = Path(folder) / "bits.py"
        script.write_text(BITS)
        size = sum(file.stat().st_size for file in (Path(folder) / "empty").rglob("*") if not file.is_symlink())
        return {
            "python": said("python", "-c", "import platform; print(platform.python_version())").strip(),
            "installed": installed - begin,
            "demo": ended - installed,
            "size": size / 1e6,
            "bits": read(said("python", str(script))),
        }


def main() -> None:
    """Try all wheels of a folder."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?", default=ROOT / "dist")
    parser.add_argument("--newer", help="a Python of 3.12 or later; default: one that is found")
    parser.add_argument("--without-newer", action="store_true", help="do not ask for the wheel for 3.12 and later")
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds for installation and demo of one wheel")
    asked = parser.parse_args()
    wheels = sorted(asked.folder.glob("*.whl"))
    if not wheels:
        sys.exit(f"there is no wheel in {asked.folder}")
    newer = asked.newer or newer_python(headers=False)
    if on_linux() and not asked.without_newer and (why := missing(wheels, newer)):
        sys.exit(f"{why} (or leave it out: --without-newer)")
    slow = []
    for wheel in wheels:
        python = interpreter(wheel, newer)
        if python is None:
            print(f"{wheel.name}: not tried, there is no Python of 3.12 or later here")
            continue
        found = attempt(wheel.resolve(), python)
        said = pace(found["installed"], found["demo"], asked.limit)
        print(f"{wheel.name}: Python {found['python']}, {found['size']:.0f} MB with all it needs, {said}", flush=True)
        slow += [wheel.name] if found["installed"] + found["demo"] > asked.limit else []
        for kernel, bits in found["bits"].items():
            print(f"  {kernel}: {bits.digest}")
    if slow:
        sys.exit(f"installation and demo took more than {asked.limit:g} s: {', '.join(slow)}")


if __name__ == "__main__":
    main()
