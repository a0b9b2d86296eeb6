"""Benchmarks: what the engine does in a second, against what a user would write or pick instead.

``make bench`` or ``python -m studies.benchmarks`` runs them all in one process and on one thread. JAX
and river are measured if they are installed (the extra ``bench``), and left out with a line that says so if not.
"""

from __future__ import annotations

__all__ = ["ENVIRONMENT"]

# Before anything imports NumPy or JAX: both read these once.
ENVIRONMENT = {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "JAX_PLATFORMS": "cpu",
    "INFERL_REQUIRE_NATIVE": "1",
}
