"""Scattering: whether parts of a log, read apart from each other, have rows of the same episode.

One reader would notice a label that comes back. Readers of parts cannot, and no machine has memory for all labels. So
each part keeps a sample of its labels, those with the smallest hashes, which are the same labels in every part: one
that is in two parts is found if it is in the sample. Of a log in which a share f of the episodes is scattered, a sample
of m labels shows one with probability 1 - (1 - f)^m.

A label may be used again after its episode was marked as ended, as one reader allows; it is scattered only if it was
left open.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from inferl.data.arrays import Bools, Integers
from inferl.data.invariants import demand, shapes
from inferl.errors import SettingError
from inferl.sources.logs.decoding import Marks
from inferl.sources.logs.episodes.labelling import codes

__all__ = ["LabelSample"]

MOST = 4096  # labels
_MIX = np.uint64(0x9E3779B97F4A7C15)


def _none() -> Integers:
    return np.zeros(0, np.int64)


@dataclass(eq=False)
class LabelSample:
    """The labels with the smallest hashes, and whether their rows were left without an end; updated in place.

    >>> one, other = LabelSample(), LabelSample()
    >>> one.add(np.array([1, 1, 2]), np.array([False, False, True]))
    >>> other.add(np.array([2, 3]), np.array([False, False]))
    >>> LabelSample.joined([one, other], "log").label.tolist()  # 2 was used again after its end
    [1, 2, 3]
    >>> LabelSample.joined([other, other], "log")
    Traceback (most recent call last):
        ...
    inferl.errors.SettingError: log: rows of one episode ...
    """

    label: Integers = field(default_factory=_none)  # (m,) codes, increasing
    open: Bools = field(default_factory=lambda: np.zeros(0, np.bool_))  # (m,)
    limit: int = 2**64 - 1  # largest hash that is kept

    def verify(self) -> None:
        """Check a sample that comes from a file."""
        shapes(self, {"label": "m", "open": "m"})
        demand(len(self.label) <= MOST and 0 <= self.limit < 2**64, "LabelSample is too large")
        demand(bool((np.diff(self.label) > 0).all()), "LabelSample.label does not increase")

    def see(self, marks: Marks, streams: bool, sessions: bool) -> None:
        """Add rows of a log, labelled within streams, or by the user in `sessions`, of whom no end is the last."""
        known = marks.labelled
        label = codes(marks) if streams else marks.episode
        self.add(label[known], marks.ended[known] & (not sessions))

    def add(self, label: Integers, ended: Bools) -> None:
        """Add rows in their order, by their codes."""
        final = np.append(label[1:] != label[:-1], True) if len(label) else np.zeros(0, np.bool_)
        label, open_ = label[final], ~ended[final]
        kept = _hashes(label) <= np.uint64(self.limit)
        if kept.any():
            self._keep(np.append(self.label, label[kept]), np.append(self.open, open_[kept]))

    def _keep(self, label: Integers, open_: Bools) -> None:
        """Keep the latest row of each label, and the labels with the smallest hashes."""
        label, latest = np.unique(label[::-1], return_index=True)
        open_ = open_[::-1][latest]
        if len(label) > MOST:
            hashes = _hashes(label)
            self.limit = int(np.partition(hashes, MOST - 1)[MOST - 1])
            kept = hashes <= np.uint64(self.limit)
            label, open_ = label[kept], open_[kept]
        self.label, self.open = label, open_

    @classmethod
    def joined(cls, parts: Sequence[LabelSample], log: str) -> LabelSample:
        """Return the sample of all parts, in this order; raise if an episode was open, and came back."""
        whole = cls(limit=min(part.limit for part in parts))
        for part in parts:
            kept = _hashes(part.label) <= np.uint64(whole.limit)
            label, open_ = part.label[kept], part.open[kept]
            again = np.isin(whole.label[whole.open], label)
            if again.any():
                raise SettingError(
                    f"{log}: rows of one episode are in different parts, or labels are used again ("
                    f"{int(again.sum()):,} of {len(label):,} labels that were looked at); bring the rows of each "
                    "episode together first (regroup), or give each episode its own label"
                )
            whole._keep(np.append(whole.label, label), np.append(whole.open, open_))
        return whole


def _hashes(label: Integers) -> Integers:
    mixed = label.astype(np.uint64) * _MIX
    return np.asarray((mixed ^ mixed >> np.uint64(32)) * _MIX)
