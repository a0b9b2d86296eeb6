"""Pairing: join each row of a log with its next state, from the row itself or from the next row of its episode.

Rows of a *group* follow each other in time. The whole log is one group, or each value of a stream column is, or, where
episodes are interleaved, each episode. A row waits for the next row of its group. Without next features it also waits
for the one after that, which shows whether it was the last row with a next state. So at most two rows of each group
are carried from batch to batch, and batches may be cut anywhere.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from inferl.data.arrays import Bools, Floats, Integers
from inferl.sources.logs.decoding import LogRows
from inferl.sources.logs.labelling import Labelling, arrangement, follows, linked_to_previous

__all__ = ["Paired", "Pairing"]


class Paired(NamedTuple):
    """Rows with their next states, in the order in which they were joined."""

    rows: LogRows
    next_features: Floats | Integers
    last: Bools  # (T,) no row of the unbroken part of an episode comes after this one
    starts: Floats | Integers  # (k, d) or (k,): features of the rows that began an episode


@dataclass(eq=False)
class Pairing:
    """Rows that wait for their next state, and the number dropped; updated in place."""

    labelling: Labelling
    episodes_end: bool = False  # the last row of every episode ends it
    waiting: LogRows | None = None
    dropped: int = 0  # rows without a next state: the last of an episode that does not terminate

    def take(self, rows: LogRows | None, final: bool = False) -> Paired | None:
        """Add rows that have been admitted, and return those that are complete; `final`: no rows will follow."""
        held = [part for part in (self.waiting, rows) if part is not None and len(part)]
        if not held:
            return None
        n_new = 0 if rows is None else len(rows)
        joined = LogRows.join(held)
        order = arrangement(joined)
        if order is not None:
            joined = joined[order]
        new = np.arange(len(joined)) if order is None else order
        joined, starts = self.labelling.label(joined, new >= len(joined) - n_new, follows(joined))
        return self._resolved(joined, starts, order is not None, final)

    def _resolved(self, rows: LogRows, starts: Floats | Integers, several: bool, final: bool) -> Paired | None:
        """Return the rows about which everything is known; the others keep waiting."""
        n, following = len(rows), follows(rows)
        linked = np.r_[linked_to_previous(rows, following)[1:], False]  # to the next row of its group
        has_next = np.r_[rows.group[1:] == rows.group[:-1], False]
        known = rows.ended | has_next  # whether it is linked
        after = np.minimum(np.arange(n) + 1, n - 1)
        if self.episodes_end:  # where another episode follows, or nothing does
            closing = (has_next & ~np.r_[following[1:], False]) | (final & ~has_next)
            rows = replace(rows, terminated=rows.terminated | (closing & ~rows.ended))
        if rows.next_features is not None:
            ready = (known | final) & ~rows.bad
            last = known & ~linked
            settled_by = np.where(rows.ended, rows.row, rows.row[after])
            done = known
        else:
            alone = rows.terminated & ~rows.bad
            ready = alone | (linked & (known[after] | final))
            gives_up = ~linked & ~rows.terminated & ~rows.bad  # of the rows that are known: no next state
            last = alone | (linked & known[after] & gives_up[after])
            self.dropped += int(np.sum((known | final) & gives_up))
            second = np.minimum(after + 1, n - 1)
            with_next = np.where(rows.ended[after], rows.row[after], rows.row[second])
            settled_by = np.where(linked, with_next, np.where(rows.ended, rows.row, rows.row[after]))
            done = known & (~linked | known[after])
        wait = np.flatnonzero(~done)
        self.waiting = rows[wait] if wait.size and not final else None
        which = np.flatnonzero(ready)
        if which.size == 0:
            return None if len(starts) == 0 else Paired(rows[:0], rows.features[:0], last[:0], starts)
        if several:  # in the order of completion, so that the batches do not matter
            which = which[np.lexsort((rows.row[which], rows.row[which] if final else settled_by[which]))]
        out = (
            rows[int(which[0]) : int(which[-1]) + 1]
            if which[-1] - which[0] + 1 == len(which) and not several
            else rows[which]
        )
        if out.next_features is not None:
            return Paired(out, out.next_features, last[which], starts)
        goes_on = np.where(out.terminated, which, after[which])
        return Paired(out, rows.features[goes_on], last[which], starts)
