"""Work: parts that are evaluated by any executor, kept in a folder, and merged in their order."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from inferl.methods.base import Method
from inferl.runs import Run, SavedRun
from inferl.scale.executors import as_executor, completed
from inferl.scale.folder import Folder
from inferl.scale.prefix import Prefix
from inferl.sources.base import Source

__all__ = ["PLACE", "Work", "finished", "merged"]

PLACE = ("part", "from", "to")  # what the run of a part says about itself


@dataclass(frozen=True, eq=False)
class Work:
    """Parts of a job.

    Attributes
    ----------
    blank
        A run without data, which asks a question.
    function
        Evaluates a part, anywhere: from a blank run and the arguments of the part to its saved run.
    parts
        The arguments of each part.
    places
        What the run of each part says about where its data are.
    keys
        A digest for each part, of all that its result depends on.
    source
        Speaks for the data of several parts, by its method ``joined``.
    """

    blank: Run
    function: Callable[..., SavedRun]
    parts: Sequence[tuple[Any, ...]]
    places: Sequence[dict[str, str]]
    keys: Sequence[str]
    source: Any

    def follow(self, executor: Any, checkpoint: str | os.PathLike[str] | None) -> Iterator[Prefix]:
        """Evaluate the parts, and yield the growing prefix after each of them.

        If a part cannot be evaluated, those before it are still added, and kept in the folder.
        """
        folder = None if checkpoint is None else Folder.at(checkpoint)
        number, held = len(self.parts), dict[int, Any]()
        prefix = Prefix(lambda runs: merged(self.source, runs))

        def ready() -> Iterator[Prefix]:
            """Add the parts that come next, as far as they are finished."""
            while prefix.number < number:
                i = prefix.number
                found = None if folder is None else folder.load(i + 1, self.keys[i])
                if i in held:
                    found = Run.restored(held.pop(i).result(), f"part {i + 1}")
                if found is None:
                    return
                prefix.add(found)
                yield prefix

        yield from ready()
        while prefix.number < number:
            todo = [i for i in range(number) if folder is None or not folder.has(i + 1, self.keys[i])]
            todo = sorted({prefix.number, *todo})  # the file of a finished part may be damaged
            for i, future in self.compute(todo, executor, folder, lambda: len(held)):
                if folder is None or future.exception() is not None or i == prefix.number:
                    held[i] = future
                yield from ready()

    def compute(
        self, todo: Sequence[int], executor: Any, folder: Folder | None, held: Callable[[], int] = lambda: 0
    ) -> Iterator[tuple[int, Any]]:
        """Evaluate some parts; yield the index and the future of each when it is done, and kept in the folder."""
        if type(self.blank.evaluator.method).merge is Method.merge:
            self.blank.evaluator.method.merge([])  # says what can be merged
        team, close = as_executor(executor)
        try:
            tasks = [(self.saved(i), *self.parts[i]) for i in todo]
            for task, future in completed(team, self.function, tasks, held):
                i = todo[task]
                if folder is not None and future.exception() is None:
                    folder.keep(i + 1, self.keys[i], future.result())
                yield i, future
        finally:
            close()

    def saved(self, i: int) -> SavedRun:
        """Return the run of a part before it is evaluated, which says which part it is."""
        about = {"part": f"{i + 1} of {len(self.parts)}"} | self.places[i]
        return replace(self.blank, provenance=self.blank.provenance | about).saved()

    def finished(self, prefix: Prefix) -> Run:
        """Return the run of a prefix."""
        return finished(self.source, prefix, len(self.parts))


def merged(source: Any, runs: Sequence[Run]) -> Run:
    """Merge the runs of parts that follow each other."""
    joined: Source = source.joined([run.position for run in runs])
    return Run.merge(runs, joined)


def finished(source: Any, prefix: Prefix, parts: int) -> Run:
    """Return the run of the first parts, of so many."""
    run = prefix.whole()
    run.follow(source.joined([run.position]))
    about = {name: text for name, text in run.provenance.items() if name not in PLACE}
    run.provenance = about | {"parts": f"{prefix.number} of {parts}"}
    return run
