"""Benchmarks: what the engine does in a second, against what a user would write or pick instead.

``make bench``, ``inferl bench`` or ``python -m inferl.benchmarks`` runs them all in one process and on one thread. JAX
and river are measured if they are installed (the extra ``bench``), and left out with a line that says so if not.
"""

from __future__ import annotations

import os
import subprocess
import sys

__all__ = ["ENVIRONMENT", "launch"]

# Before anything imports NumPy or JAX: both read these once.
ENVIRONMENT = {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "JAX_PLATFORMS": "cpu",
    "INFERL_REQUIRE_NATIVE": "1",
}


def launch(
    quick: bool = False, output: str | os.PathLike[str] | None = None, page: str | os.PathLike[str] | None = None
) -> int:
    """Run the benchmarks in a process of their own, set up for them, and return its exit code.

    Parameters
    ----------
    quick
        Less than a minute, with less certain numbers.
    output
        JSON file for the results.
    page
        Markdown page whose table of results is written anew.
    """
    command = [sys.executable, "-m", "inferl.benchmarks"]
    command += ["--quick"] if quick else []
    command += ["--output", os.fspath(output)] if output is not None else []
    command += ["--page", os.fspath(page)] if page is not None else []
    return subprocess.call(command, env=os.environ | ENVIRONMENT)
