"""Endings: what a log says about the ends of its episodes, and the check of the rows that are dropped there.

A row without a next state is dropped, unless it terminates. If no column says how episodes end, that is the last row of
every episode, and a reward that is paid at the end is lost.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np

from inferl.data.arrays import Floats
from inferl.data.invariants import COUNT, bounds, demand
from inferl.diagnostics import BEYOND, Check
from inferl.errors import SettingError
from inferl.sources.logs.columns import ENDED, Columns

__all__ = ["NO_ROWS", "Endings", "RowCount", "check_termination"]

LIKELY = re.compile(r"done|end|final|finish|last|term|trunc|time_?out|absorb|dead|death|complete", re.IGNORECASE)
ALARM = 4.0  # standard errors
FEWEST = 5  # dropped rows with a reward: the rule of thumb for counts


@dataclass(frozen=True)
class RowCount:
    """A number of rows, and how many of them carry a reward."""

    rows: int = 0
    paid: int = 0

    def verify(self) -> None:
        """Check the bounds of counts that come from a file."""
        bounds(self, {"rows": COUNT, "paid": (0, self.rows)})

    def plus(self, rewards: Floats) -> RowCount:
        """Count further rows."""
        return RowCount(self.rows + len(rewards), self.paid + int(np.count_nonzero(rewards)))

    @classmethod
    def joined(cls, parts: Sequence[RowCount]) -> RowCount:
        """Add the counts of parts."""
        return cls(sum(part.rows for part in parts), sum(part.paid for part in parts))


NO_ROWS = RowCount()


def check_termination(columns: Columns, limits_end: bool, log: str) -> None:
    """Refuse a log without discounting in which no episode would terminate."""
    if columns.terminated is None and not (limits_end and columns.truncated is not None):
        raise SettingError(
            f"{log}: with discount 1 a value is finite only if episodes terminate, and no column says where; name it "
            "(terminated), say that the last row of each does (episodes_end), or choose a smaller discount"
        )


@dataclass(frozen=True)
class Endings:
    """How the ends of episodes are known."""

    labelled: bool = False  # episodes have labels
    flags: tuple[str, ...] = ()  # columns that mark ends
    said: bool | None = None  # whether the last row of an episode ends it, if the user said so
    likely: tuple[str, ...] = ()  # columns that might mark ends, if none is known
    ordered: bool = True  # a column gives the order of rows

    def verify(self) -> None:
        """Check the number of columns of a position that comes from a file."""
        demand(len(self.flags) <= 2, f"{len(self.flags)} columns mark ends")

    @classmethod
    def of(cls, columns: Columns, said: bool | None, available: Sequence[str]) -> Endings:
        """Describe a log with these columns."""
        flags = tuple(name for name in (columns.terminated, columns.truncated) if name is not None)
        unused = [name for name in available if name not in columns.to_read(available)]
        likely = tuple(name for name in unused if LIKELY.search(name)) if not flags else ()
        return cls(columns.episode is not None, flags, said, likely[:5], columns.order is not None)

    @property
    def episodic(self) -> bool:
        """Whether a column shows where episodes begin or end."""
        return self.labelled or bool(self.flags)

    @property
    def fact(self) -> str:
        """What a report should say about the flags; empty if they are clear."""
        if len(self.flags) == 1 and self.flags[0] in ENDED:
            return f"{self.flags[0]} marks terminations; if it marks time limits too, name the column that tells which"
        return ""

    def check_labels(self) -> tuple[Check, ...]:
        """Check, of mixed episodes, whether a label that was used again could have been noticed."""
        if self.ordered or self.flags:
            return ()
        message = (
            "rows of several episodes are mixed, and no column gives their order or their ends; if labels are used "
            "again, for example in files that each count from 0, different episodes were joined"
        )
        return (Check("labels", "failed", message, None, "name the column of the times or steps (order)"),)

    def checks(self, dropped: RowCount, kept: RowCount, episodes: int, gone: int) -> tuple[Check, ...]:
        """Check whether rewards were lost with the last rows of episodes; of `gone` episodes no row was left."""
        name = "dropped rewards"
        were = "rows have no next state and were" if dropped.rows != 1 else "row has no next state and was"
        lost = f"{dropped.rows:,} {were} dropped, {dropped.paid:,} of them with a reward"
        if self.labelled and not self.flags and self.said is None and episodes > 1:
            problem = f"no column says how the {episodes:,} episodes end, so each counts as cut off at its last row"
            guess = f" (perhaps {' or '.join(map(repr, self.likely))})" if self.likely else ""
            remedy = f"name the column that marks ends (terminated){guess}, or say that "
            if not dropped.rows:  # there are next features
                return (Check("ends", "failed", problem, None, remedy + "the data stop there (episodes_end=False)"),)
            remedy += "episodes end there (episodes_end), or that only the data do (episodes_end=False)"
            return (Check(name, "failed", f"{problem}: {lost}", float(dropped.paid), remedy),)
        if not dropped.rows:
            return ()
        if self.said is None and dropped.paid >= FEWEST and _distance(dropped, kept) > ALARM:
            share = f"{dropped.paid / dropped.rows:.0%}, against {kept.paid / kept.rows:.0%} of the other rows"
            remedy = (
                "mark these rows as terminated if episodes end there; a time limit that is part of the task is "
                'time_limit="ends"; if the data stop there, say so (episodes_end=False)'
            )
            return (Check(name, "failed", f"{lost} ({share})", float(dropped.paid), remedy),)
        if gone >= FEWEST and gone > BEYOND * episodes:
            problem = (
                f"{lost}; {gone:,} of {episodes:,} episodes have no other row and are left out, which favours episodes "
                "that terminate at once"
            )
            remedy = (
                "say that episodes end at their last row (episodes_end), if they do; name the columns of the next "
                "state (next_features), if the log has them; with idle_timeout, allow for longer pauses"
            )
            return (Check(name, "failed", problem, float(dropped.paid), remedy),)
        return (Check(name, "passed", lost, float(dropped.paid)),)


def _distance(dropped: RowCount, kept: RowCount) -> float:
    """Return by how many standard errors dropped rows carry a reward more often than the others."""
    rows = dropped.rows + kept.rows
    share = (dropped.paid + kept.paid) / rows
    if kept.rows == 0 or share == 1:
        return 0.0
    error = sqrt(share * (1 - share) * (1 / dropped.rows + 1 / kept.rows))
    return (dropped.paid / dropped.rows - kept.paid / kept.rows) / error
