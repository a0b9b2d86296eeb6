"""A bar that shows how far a job is, on a terminal and in a notebook."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from inferl.errors import SettingError

__all__ = ["progress_bar"]


@contextmanager
def progress_bar(name: str, progress: bool | None) -> Iterator[Callable[[str, float, float], None]]:
    """Yield a function that shows a text, how much is done, and of how much; elsewhere it does nothing.

    >>> with progress_bar("CartPole-v1", progress=False) as show:
    ...     show("CartPole-v1: 42.4 [39.9, 44.9]", 126, 200)
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    if not isinstance(progress, bool | None):
        raise SettingError(f"progress is {progress!r}; say True or False")
    console = Console(stderr=True, force_terminal=progress)
    if progress is False or (progress is None and not (console.is_terminal or console.is_jupyter)):
        yield lambda text, done, total: None
        return
    columns = TextColumn("{task.description}", markup=False), BarColumn(bar_width=24), TimeRemainingColumn()
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(name, total=None)
        yield lambda text, done, total: bar.update(task, description=text, completed=done, total=total)
