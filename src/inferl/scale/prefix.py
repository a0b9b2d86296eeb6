"""The prefix: the merge of the first parts of a plan, in a tree whose shape depends on nothing else.

Parts are added in their order, and two subtrees of the same size are merged at once, as in a binary counter: there are
never more than log2 of the number of parts. The interval of a prefix may be looked at after each part; that of the
parts which happen to be done may not, because which these are may depend on the data.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import reduce

from inferl.runs import Reading, Run

__all__ = ["Prefix"]


@dataclass(eq=False)
class Prefix:
    """Merges runs in the order in which they are added."""

    merge: Callable[[Run, Run], Run]
    number: int = 0  # of runs that were added
    n: int = 0  # transitions
    readings: tuple[Reading, ...] = ()
    _trees: list[tuple[int, Run]] = field(default_factory=list)  # sizes, decreasing, and merged runs

    def add(self, run: Run) -> None:
        """Add the next run; take a reading where a run that reads all of it would."""
        if self.number == 0:
            self.readings = run.readings
        self.number, self.n = self.number + 1, self.n + run.evaluator.n
        self.push(run)
        if self.n and self.n >= replace(run, readings=self.readings).due:
            self.readings = self.whole().readings

    def push(self, run: Run) -> None:
        """Add the next run to the trees."""
        size = 1
        while self._trees and self._trees[-1][0] == size:
            run = self.merge(self._trees.pop()[1], run)
            size *= 2
        self._trees.append((size, run))

    def folded(self) -> Run:
        """Return the merge of the trees, the smallest first."""
        return reduce(lambda right, left: self.merge(left, right), [run for _, run in reversed(self._trees)])

    def whole(self) -> Run:
        """Return the merge of all runs, with an interval as its last reading."""
        merged = replace(self.folded(), readings=self.readings)
        merged.read()
        return merged
