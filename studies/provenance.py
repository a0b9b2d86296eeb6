"""What made a result: command, seed, commit, machine and versions."""

from __future__ import annotations

import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

__all__ = ["command_line", "commit", "machine", "origin", "processor", "provenance", "short", "software"]

ROOT = Path(__file__).parents[1]
PACKAGES = ("inferl", "numpy", "scipy")
# A study that has rewritten its results does not change the source of the next one.
SOURCE = ("src", "studies", ":(exclude)studies/*/results/*")


def provenance(seed: int | None, command: str | None = None, packages: Sequence[str] = PACKAGES) -> dict[str, Any]:
    """Say what makes a result. To be asked before the work: a commit made while it runs did not make it.

    Parameters
    ----------
    seed
        Of the study; None where nothing is drawn that matters.
    command
        What one types to make the result again; None: what was typed.
    packages
        Whose versions matter.

    Examples
    --------
    >>> sorted(provenance(1))
    ['command', 'commit', 'cores', 'kernel', 'processor', 'python', 'seed', 'system', 'versions']
    """
    from inferl import engine

    return {
        "command": command_line() if command is None else command,
        "seed": seed,
        "commit": commit(),
        "kernel": engine.active().name,
        "python": platform.python_version(),
        "processor": processor(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "versions": {package: _version(package) for package in packages},
    }


def origin(made: dict[str, Any]) -> str:
    """Command, seed, commit and machine of a result, for a page.

    >>> origin({"command": "python -m studies.validity.trust", "seed": 1, "commit": "0123456789abcdef", "cores": 2})
    '`python -m studies.validity.trust`, seed 1, commit 0123456789ab, 2 cores'
    """
    seed = "" if made["seed"] is None else f", seed {made['seed']}"
    return ", ".join(filter(None, [f"`{made['command']}`{seed}, commit {short(made['commit'])}", machine(made)]))


def machine(made: dict[str, Any]) -> str:
    """Processor, system and cores, as far as a result names them: the first ones do not name all.

    >>> machine({"processor": "A (family 6, model 85)", "system": "Linux x86_64", "cores": 2})
    'A (family 6, model 85), Linux x86_64, 2 cores'
    >>> machine({"system": "Linux x86_64", "cores": 1}), machine({})
    ('Linux x86_64, 1 core', '')
    """
    cores = made.get("cores")
    named = [made.get("processor"), made.get("system"), cores and f"{cores} core{'s' if cores > 1 else ''}"]
    return ", ".join(filter(None, named))


def software(made: dict[str, Any]) -> str:
    """Versions that a result names, for a page; the first studies of validity have them among the other fields.

    >>> software({"python": "3.11.7", "versions": {"inferl": "0.1.0", "jax": None}})
    'Python 3.11.7, inferl 0.1.0'
    >>> software({"python": "3.11.7", "inferl": "0.1.0", "numpy": "2.4.6", "scipy": "1.17.1"})
    'Python 3.11.7, inferl 0.1.0, numpy 2.4.6, scipy 1.17.1'
    """
    versions = made["versions"] if "versions" in made else {name: made[name] for name in PACKAGES}
    return ", ".join(f"{name} {number}" for name, number in {"Python": made["python"], **versions}.items() if number)


def short(commit: str) -> str:
    """Twelve digits of a commit, and whether the source had been changed since.

    >>> short("0123456789abcdef"), short("0123456789abcdef+changes")
    ('0123456789ab', '0123456789ab+changes')
    """
    head, plus, mark = commit.partition("+")
    return head[:12] + plus + mark


def processor() -> str:
    """Name of the processor, with the numbers that tell models of one name apart."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or "unknown"
    facts = dict(line.split(":", 1) for line in lines if ":" in line)
    known = {key.strip(): value.strip() for key, value in facts.items()}
    name = known.get("model name", "unknown")
    return f"{name} (family {known['cpu family']}, model {known['model']})" if "cpu family" in known else name


def command_line() -> str:
    """What was typed to start this process: a module and its arguments."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    program = ["python", sys.argv[0]] if spec is None else ["python", "-m", spec.name.removesuffix(".__main__")]
    return shlex.join([*program, *sys.argv[1:]])


def commit() -> str:
    """Commit of the source that runs, marked if it has been changed since."""
    try:
        head, changed = _git("rev-parse", "--short=12", "HEAD"), _git("status", "--porcelain", "--", *SOURCE)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return f"{head}+changes" if changed else head


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
