"""Stages that a stream passes, each in a thread of its own.

NumPy and the compiled backend release Python's global lock while they work, so ordinary threads suffice. Each item is
computed as it would be by one thread: results do not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeVar

__all__ = ["ahead"]

T = TypeVar("T")


def ahead(items: Iterator[T]) -> Generator[T, None, None]:
    """Compute the next item in a thread of its own while the present one is used.

    An error is raised where its item would have been. If the items are not used up, the one that is being computed is
    waited for.

    >>> list(ahead(iter([1, 2, 3])))
    [1, 2, 3]
    """
    end = object()
    with ThreadPoolExecutor(1, thread_name_prefix="inferl-ahead") as pool:
        context = copy_context()

        def following() -> object:
            return context.run(next, items, end)

        coming = pool.submit(following)
        while (item := coming.result()) is not end:
            coming = pool.submit(following)
            yield item  # type: ignore[misc]
