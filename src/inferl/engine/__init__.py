"""The engine: the arithmetic of Algorithm 1 and of block sums, behind the protocol `Backend`.

Three backends ship: ``native``, compiled when the package is installed; ``reference``, a slow one in NumPy; and
``torch``, for GPUs. An evaluator owns its backend, `Evaluator(..., backend="auto")`, and activates it while it works;
code that needs the arithmetic calls `active()`. A new backend is one file and one call of `register`.

Environment variables choose what ``"auto"`` means: ``INFERL_KERNEL=reference`` selects the reference,
``INFERL_ISA=avx512|avx2|generic`` forces an instruction set, ``INFERL_REQUIRE_NATIVE=1`` makes a missing native backend
an error.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import cache

from inferl.engine.backend import Backend, Draws, Foldable
from inferl.engine.blas import one_blas_thread
from inferl.errors import DeviceError, SettingError

__all__ = ["LARGEST", "Backend", "Draws", "Foldable", "active", "backend_named", "cores", "names", "register", "using"]

LARGEST = 1e100  # bound of products of ratios, because 0 times infinity is NaN

_active: ContextVar[Backend | None] = ContextVar("backend", default=None)


def _make_reference() -> Backend:
    from inferl.engine import reference

    return Backend.of("reference", reference)


def _make_native() -> Backend:
    try:
        from inferl.engine import native
    except ImportError as error:
        raise SettingError(
            f"the compiled backend is missing ({error}); install inferl again on a machine with a C++ compiler"
        ) from error
    return Backend.of(f"native {native.instruction_set()}", native)


def _make_torch(device: str | None = None) -> Backend:
    from inferl.engine import torch

    return torch.backend(device)


_REGISTERED: dict[str, Callable[..., Backend]] = {
    "native": _make_native,
    "reference": _make_reference,
    "torch": _make_torch,
}


def register(name: str, make: Callable[..., Backend]) -> None:
    """Register a backend under a name; `make` is called on first use, with the device if the user names one."""
    if name in ("auto", *_REGISTERED):
        raise SettingError(f"there is a backend {name!r} already")
    _REGISTERED[name] = make


def names() -> list[str]:
    """Return the names of all backends."""
    return list(_REGISTERED)


@cache
def backend_named(name: str, device: str | None = None) -> Backend:
    """Return the backend of this name; ``"auto"`` is the fastest that is installed, for vectors on the host.

    >>> backend_named("reference").name
    'reference'
    """
    if device is not None and name in ("auto", "native", "reference"):
        raise SettingError(f"the backend {name!r} works on the host only; for {device}, choose backend='torch'")
    if name == "auto":
        return _automatic()
    if name not in _REGISTERED:
        raise SettingError(f"there is no backend {name!r}; choose 'auto' or one of {', '.join(map(repr, names()))}")
    return _REGISTERED[name]() if device is None else _REGISTERED[name](device)


def _automatic() -> Backend:
    wanted = os.environ.get("INFERL_KERNEL", "native")
    if wanted not in _REGISTERED:
        raise SettingError(f"INFERL_KERNEL is {wanted!r}; choose one of {', '.join(names())}")
    try:
        return backend_named(wanted)
    except SettingError as error:
        if os.environ.get("INFERL_REQUIRE_NATIVE", "0") not in ("", "0"):
            raise
        warnings.warn(f"{error}. Until then, inferl uses the slow reference backend", RuntimeWarning, stacklevel=2)
        return backend_named("reference")


def active() -> Backend:
    """Return the backend of the evaluator that is working; outside of evaluators, the automatic choice."""
    return _active.get() or backend_named("auto")


def cores() -> int:
    """Return the number of cores that this process may use, or OMP_NUM_THREADS if that is set to a smaller number.

    >>> cores() >= 1
    True
    """
    there = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    wanted = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    return min(there, int(wanted)) if wanted.isdigit() and int(wanted) else there


@contextmanager
def using(backend: Backend, threads: int = 1) -> Iterator[None]:
    """Activate a backend within a `with` block, for the current thread only; BLAS has one thread meanwhile."""
    token = _active.set(backend if backend.threads == threads else replace(backend, threads=threads))
    try:
        with one_blas_thread():
            yield
    except Exception as error:
        if type(error).__name__ == "OutOfMemoryError":  # of torch, which need not be installed
            raise DeviceError(f"the memory of {backend.device} is full; pass shorter chunks") from None
        raise
    finally:
        _active.reset(token)
