"""Watching: a bar with the interval so far and the time left, on a terminal and in a notebook."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from inferl.errors import SettingError
from inferl.interval import Interval, brief

__all__ = ["Show", "progress_bar", "watched"]

MOST = 3  # intervals of one line

Show = Callable[[Interval, str, float, float | None], None]
"""Show an interval, what it rests on, how much is done, and of how much (None: not known)."""


@contextmanager
def progress_bar(name: str, progress: bool | None) -> Iterator[Callable[[str, float, float | None], None] | None]:
    """Yield a function that shows a text, how much is done, and of how much; None where nothing is shown.

    >>> with progress_bar("log.csv", progress=None) as show:
    ...     show is None  # the output of an example is not a terminal
    True
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    if not isinstance(progress, bool | None):
        raise SettingError(f"progress is {progress!r}; say True or False")
    console = Console(stderr=True, force_terminal=progress)
    if progress is False or (progress is None and not (console.is_terminal or console.is_jupyter)):
        yield None
        return
    columns = TextColumn("{task.description}", markup=False), BarColumn(bar_width=24), TimeRemainingColumn()
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(name, total=None)
        yield lambda text, done, total: bar.update(task, description=text, completed=done, total=total)


@contextmanager
def watched(name: str, progress: bool | None) -> Iterator[Show | None]:
    """Yield a function that shows how an interval narrows; None where nothing is shown."""
    with progress_bar(name, progress) as bar:
        if bar is None:
            yield None
            return

        def show(interval: Interval, scope: str, done: float, total: float | None) -> None:
            numbers = [brief(one.estimate, one.lower, one.upper) for one in interval]
            said = "; ".join(numbers[:MOST]) + ("; ..." if len(numbers) > MOST else "")
            bar(f"{name}: {said}, {scope}", done, total)

        yield show
