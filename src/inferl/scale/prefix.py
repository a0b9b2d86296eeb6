"""The prefix: the merge of the first parts of a plan, in a tree whose shape depends on nothing else.

Parts are added in their order, and two subtrees of the same size are merged at once, as in a binary counter: there are
never more than log2 of their number. The interval of a prefix may be looked at after each part; that of the parts which
happen to be done may not, because which these are may depend on the data.

Small parts are gathered first, and merged all at once. Merged blocks are scored at the common solution and later only
shifted, which loses what the parts of the equation differ by; of a few rows, the solution would be far from the final
one, and the interval too narrow (a quarter, with parts of 100 steps of a slow queue).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from inferl.runs import Reading, Run

__all__ = ["ENOUGH", "Prefix"]

ENOUGH = 50_000  # transitions whose solution is near the final one: then the runs that were gathered are merged


@dataclass(eq=False)
class Prefix:
    """Merges runs in the order in which they are added."""

    merge: Callable[[Sequence[Run]], Run]
    number: int = 0  # of runs that were added
    n: int = 0  # transitions
    readings: tuple[Reading, ...] = ()
    _gathered: list[Run] = field(default_factory=list)
    _waiting: int = 0  # transitions of those that were gathered
    _trees: list[tuple[int, Run]] = field(default_factory=list)  # sizes, decreasing, and merged runs

    def add(self, run: Run) -> None:
        """Add the next run; take a reading where a run that reads all of it would."""
        if self.number == 0:
            self.readings = run.readings
        self.number, self.n = self.number + 1, self.n + run.evaluator.n
        self._gathered.append(run)
        self._waiting += run.evaluator.n
        if self._waiting >= ENOUGH:
            self._push(self._merged(self._gathered))
            self._gathered, self._waiting = [], 0
        if self.n and self.n >= replace(run, readings=self.readings).due:
            self.readings = self.whole().readings

    def _push(self, run: Run) -> None:
        """Add a run to the trees."""
        size = 1
        while self._trees and self._trees[-1][0] == size:
            run = self.merge([self._trees.pop()[1], run])
            size *= 2
        self._trees.append((size, run))

    def _merged(self, runs: Sequence[Run]) -> Run:
        return runs[0] if len(runs) == 1 else self.merge(runs)

    def folded(self) -> Run:
        """Return the merge of all runs: those that were gathered, and then the trees, the smallest first."""
        left = [self._merged(self._gathered)] if self._gathered else []
        for run in [run for _, run in reversed(self._trees)]:
            left = [self._merged([run, *left])]
        return left[0]

    def whole(self) -> Run:
        """Return the merge of all runs, with an interval as its last reading."""
        merged = replace(self.folded(), readings=self.readings)
        merged.read()
        return merged
