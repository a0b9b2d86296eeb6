"""Work shared out to threads: the rows of large NumPy operations, and the stages that a stream passes.

NumPy and the compiled backend release Python's global lock while they work, so ordinary threads suffice. Each row, and
each item of a stage, is computed by one thread as it would be alone: results do not depend on the number of threads.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from functools import cache
from typing import TypeVar

__all__ = ["ahead", "by_rows", "sharing"]

T = TypeVar("T")

WORTH = 65_536  # numbers; with fewer, waking a thread costs more than it saves

_threads: ContextVar[int] = ContextVar("threads", default=1)


@contextmanager
def sharing(threads: int) -> Iterator[None]:
    """Let `by_rows` use so many threads within a `with` block."""
    token = _threads.set(threads)
    try:
        yield
    finally:
        _threads.reset(token)


def by_rows(work: Callable[[slice], None], rows: int, numbers: int) -> None:
    """Call `work` with slices that cover all rows, which hold so many numbers; several at once if that is worth it.

    >>> import numpy as np
    >>> x, y = np.arange(6.0), np.empty(6)
    >>> by_rows(lambda some: np.multiply(x[some], 2.0, out=y[some]), rows=6, numbers=6)
    >>> y
    array([ 0.,  2.,  4.,  6.,  8., 10.])
    """
    parts = max(min(_threads.get(), numbers // WORTH, rows), 1)
    slices = [slice(rows * i // parts, rows * (i + 1) // parts) for i in range(parts)]
    if parts == 1:
        work(slices[0])
        return
    waiting = [_pool().submit(work, some) for some in slices[1:]]
    work(slices[0])
    for one in waiting:
        one.result()


def ahead(items: Iterator[T]) -> Generator[T, None, None]:
    """Compute the next item in a thread of its own while the present one is used.

    An error is raised where its item would have been. If the items are not used up, the one that is being computed is
    waited for.

    >>> list(ahead(iter([1, 2, 3])))
    [1, 2, 3]
    """
    end = object()
    # Not `_pool`, whose threads are needed by the stages that would wait in it for each other.
    with ThreadPoolExecutor(1, thread_name_prefix="inferl-ahead") as pool:
        context = copy_context()

        def following() -> object:
            return context.run(next, items, end)

        coming = pool.submit(following)
        while (item := coming.result()) is not end:
            coming = pool.submit(following)
            yield item  # type: ignore[misc]


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="inferl")


if hasattr(os, "register_at_fork"):  # a forked process has none of the threads
    os.register_at_fork(after_in_child=_pool.cache_clear)
