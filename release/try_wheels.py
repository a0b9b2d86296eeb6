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
from pathlib import Path
from typing import Any, NamedTuple

from release.wheels import NEWER, ROOT, environment, newer_python

__all__ = ["BITS", "Bits", "attempt", "example", "interpreter", "read"]

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
    parser.add_argument("--newer", default=newer_python(), help="a Python of 3.12 or later")
    asked = parser.parse_args()
    wheels = sorted(asked.folder.glob("*.whl"))
    if not wheels:
        sys.exit(f"there is no wheel in {asked.folder}")
    for wheel in wheels:
        python = interpreter(wheel, asked.newer)
        if python is None:
            print(f"{wheel.name}: not tried, there is none of {', '.join(NEWER)} here")
            continue
        found = attempt(wheel.resolve(), python)
        print(
            f"{wheel.name}: Python {found['python']}, installed in {found['installed']:.1f} s with all it needs "
            f"({found['size']:.0f} MB), demo in {found['demo']:.1f} s"
        )
        for kernel, bits in found["bits"].items():
            print(f"  {kernel}: {bits.digest}")


if __name__ == "__main__":
    main()
