"""One thread for BLAS while an evaluator works.

Our products are small: 128 rows at a time. The threads of BLAS gain little from them, and they wait for each other by
spinning: beside other work on the same cores, least squares took 4 to 45 times as long as with one thread. And the
order in which BLAS adds depends on the number of its threads, so that results depended on the number of cores.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any

__all__ = ["one_blas_thread"]

_lock = Lock()
_blocks = 0  # open, in all threads of the process
_before: list[int] = []  # threads of each library outside of all blocks


@cache
def _libraries() -> list[Any]:
    import scipy.linalg  # noqa: F401  brings a BLAS of its own, which is found only once it is loaded
    from threadpoolctl import ThreadpoolController

    return list(ThreadpoolController().select(user_api="blas").lib_controllers)


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread within a `with` block.

    Most libraries have one number for the process, so the last block that closes restores it; where each thread has
    its own number (OpenMP), each block does. Asking and setting the libraries takes a few microseconds, where
    `threadpoolctl.threadpool_limits`, which searches for them each time, takes milliseconds.
    """
    from threadpoolctl import OpenBLASController

    global _blocks
    libraries = _libraries()
    with _lock:
        own = [library.get_num_threads() for library in libraries]
        if _blocks == 0:
            _before[:] = own
        for library in libraries:
            library.set_num_threads(1)
        _blocks += 1
    try:
        yield
    finally:
        with _lock:
            _blocks -= 1
            for library, mine, shared in zip(libraries, own, _before, strict=True):
                if getattr(library, "threading_layer", "") == "openmp":
                    library.set_num_threads(mine)
                elif _blocks == 0:
                    library.set_num_threads(shared)
            OpenBLASController.clear_controlling_thread()  # until then, other threads cannot set the number
