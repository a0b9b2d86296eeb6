"""Progress: how far a log has been read, and what is carried over to its next row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

import numpy as np

from inferl.data.invariants import COUNT, bounds, demand
from inferl.data.transitions import Transitions
from inferl.diagnostics import Check
from inferl.errors import CheckpointMismatchError, DataError, SettingError
from inferl.sources.base import as_plain
from inferl.sources.logs.decoding import LogRows
from inferl.sources.logs.episodes.endings import NO_ROWS, Endings, RowCount
from inferl.sources.logs.episodes.pairing import Paired, Pairing
from inferl.sources.logs.episodes.scattering import LabelSample
from inferl.sources.logs.faults import Fault, Where
from inferl.sources.logs.features.encoding import Learned
from inferl.sources.logs.features.formula import Formula
from inferl.sources.logs.inputs.digests import Digest
from inferl.sources.logs.inputs.messages import PARTITION, Place
from inferl.sources.logs.inputs.pieces import Piece
from inferl.sources.logs.policies.propensities import Propensities
from inferl.sources.logs.policies.targets import TargetPolicy
from inferl.sources.logs.values import column_of
from inferl.sources.starts import Starts
from inferl.storage.checkpoint import digest_of

__all__ = ["KEPT", "Progress"]

MOST_BAD = 0.001  # share of the rows that a service may leave out without a failed check
KEPT = 10  # messages about skipped rows that are kept


@dataclass(eq=False)
class Progress:
    """How far a log has been read; `Table.position` is this as plain data."""

    pairing: Pairing
    rows: int = 0  # read
    digest: str = ""  # of the rows read
    dimension: int = 0  # of the features, once known
    learned: Learned | None = None  # what the features depend on
    starts: Starts = field(default_factory=Starts)
    clipped: int = 0
    skipped: int = 0
    endings: Endings = field(default_factory=Endings)  # how the ends of episodes are known
    kept: RowCount = NO_ROWS  # rows that became transitions
    faults: tuple[str, ...] = ()
    policies: str = ""  # digest of the target policies that are tables
    propensities: Propensities | None = None  # of a behaviour policy that was fitted
    labels: LabelSample | None = None  # of a part of a log: labels that no other part may have
    complete: bool = False
    place: Place | None = None  # in a stream, which is read on from there
    skipped_of: dict[str, int] = field(default_factory=dict)  # by the part of the stream, such as a sender

    def verify(self) -> None:
        """Check the shapes and bounds of a position that comes from a file."""
        bounds(self, dict.fromkeys(("rows", "dimension", "clipped", "skipped"), COUNT))
        told = all(n > 0 for n in self.skipped_of.values()) and sum(self.skipped_of.values()) in (0, self.skipped)
        demand(told, "the bad rows of the parts of a stream are not those of all")
        waiting = self.pairing.waiting
        fits = waiting is None or waiting.features.shape[1:] in ((), (self.dimension,))
        demand(fits, f"rows wait whose features do not have length {self.dimension}")
        fits = self.starts.number == 0 or len(self.starts.total) == self.dimension
        demand(fits, f"the observed starts do not have {self.dimension} features")
        said = min(self.skipped, 1) <= len(self.faults) <= min(self.skipped, KEPT)
        demand(said, f"{self.skipped} rows were skipped, and {len(self.faults)} messages say why")

    @classmethod
    def joined(cls, parts: Sequence[Progress], log: str) -> Progress:
        """Return the progress of one reader of all parts; refuse parts that share an episode."""
        first = parts[0]
        if len({digest_of((as_plain(part.learned), as_plain(part.propensities))) for part in parts}) > 1:
            raise SettingError(
                f"{log}: the features of these parts were learned from different data, such as the levels of a "
                "category; cut the log by a plan, or name the levels: C(ward, levels=[...])"
            )
        labels = [part.labels for part in parts if part.labels is not None]
        return cls(
            Pairing.joined([part.pairing for part in parts]),
            sum(part.rows for part in parts),
            sha256(" ".join(part.digest for part in parts).encode()).hexdigest(),
            max(part.dimension for part in parts),
            first.learned,
            Starts.joined([part.starts for part in parts]),
            sum(part.clipped for part in parts),
            sum(part.skipped for part in parts),
            first.endings,
            RowCount.joined([part.kept for part in parts]),
            tuple(fault for part in parts for fault in part.faults)[:KEPT],
            first.policies,
            first.propensities,
            LabelSample.joined(labels, log) if labels else None,
            all(part.complete for part in parts),
        )

    def compute_with(self, targets: Sequence[TargetPolicy], formula: Formula | None, log: str) -> None:
        """Note the policies; refuse others than those of the rows before, as far as they are data."""
        digest = " ".join(target.digest for target in targets)
        of_run = None if self.propensities is None else self.propensities.learned.about
        other = None
        if of_run != (None if formula is None else str(formula)):
            other = "formula of the behaviour policy is not that of the run"
        elif self.rows and digest != self.policies:
            other = "probabilities of the target policy are not those of the run"
        if other is not None:
            raise CheckpointMismatchError(f"{log}: the {other}; restore them, or evaluate the log from the beginning")
        self.policies = digest

    def check_settings(self, clip: float | None, idle: float, log: str) -> None:
        """Refuse other settings than those of the rows before, as far as they can be seen."""
        other = None
        if self.clipped and clip is None:
            other = f"has {self.clipped} clipped ratios, and this log clips none; give the same clip"
        elif self.pairing.idle != idle:
            other = "has another idle_timeout; give the same"
        if other is not None:
            raise CheckpointMismatchError(
                f"{log}: the position to resume from {other}, or evaluate the log from the beginning"
            )

    def checks(self, unattended: bool) -> tuple[Check, ...]:
        """Return the checks of rows that were lost; `unattended`: nobody was asked whether bad rows may be skipped."""
        fit = () if self.propensities is None else (self.propensities.check(),)
        labels = self.endings.check_labels() if self.pairing.mixed else ()
        ends = self.endings.checks(self.pairing.dropped, self.kept, self.starts.number, self.pairing.lost)
        return labels + ends + fit + ((self._check_bad_rows(),) if unattended else ())

    def _check_bad_rows(self) -> Check:
        if self.skipped == 0:
            return Check("bad rows", "passed", f"none of {self.rows:,}", 0.0)
        message = f"{self.skipped:,} of {self.rows:,} rows were left out, the first: {self.faults[0]}"
        missing = round(self.skipped / MOST_BAD) - self.rows
        if missing <= 0:
            return Check("bad rows", "passed", message, float(self.skipped))
        remedy = f"repair what sends them; it passes after {missing:,} sound rows, or begin a new experiment"
        return Check("bad rows", "failed", message, float(self.skipped), remedy)

    def skip(self, faults: Sequence[Fault], batch: Any, first_row: int, where: Where) -> None:
        """Count bad rows of a batch, by the part of the stream that they are from."""
        self.skipped += len(faults)
        self.faults += tuple(str(fault.error(where)) for fault in faults[: KEPT - len(self.faults)])
        if faults and PARTITION in batch.schema.names:
            parts = Counter(column_of(batch, PARTITION)[fault.row - first_row].as_py() for fault in faults)
            self.skipped_of = dict(Counter(self.skipped_of) + parts)  # in order of the rows

    def check_skipped(self, allowed: int, log: str) -> None:
        """Refuse a log of which the parts together have too many bad rows, although none of them has."""
        if self.skipped > allowed:
            fault = self.faults[min(allowed, KEPT - 1)]
            raise DataError(
                f"{log}: {self.skipped} rows are bad, and {allowed} are allowed in all parts together (skip_bad); one "
                f"of them: {fault}"
            )

    def chunk(self, paired: Paired | None, clip: float | None, discount: float) -> Iterator[Transitions]:
        """Count the rows that have their next states, and yield a chunk of them, if there are any."""
        if paired is None:
            return
        rows = paired.rows
        n_states = self.dimension if paired.starts.ndim == 1 else None
        self.starts = self.starts.updated(paired.starts, n_states)
        if len(rows) == 0:
            return
        self.kept = self.kept.plus(rows.rewards)
        ratios = rows.ratios
        if clip is not None:
            self.clipped += int(np.sum(ratios > clip))
            ratios = np.minimum(ratios, clip)
        yield Transitions(
            rows.features,
            rows.rewards,
            paired.next_features,
            np.where(rows.marks.terminated, 0.0, discount),
            ratios,
            last=paired.last,
            episode=rows.marks.segment,
            stream=rows.marks.stream,
            truncated=paired.last & (rows.limited | ~rows.marks.terminated),
            time=rows.time,
            version=rows.version,
        )

    def check_dimension(self, dimension: int, log: str) -> None:
        """Refuse features of another dimension than those before."""
        if self.dimension not in (0, dimension):
            raise _other_features(log)

    def check(self, rows: LogRows, log: str) -> None:
        """Refuse rows whose features, next features or ratios have another form than those before."""
        waiting = self.pairing.waiting
        if waiting is not None and _form(waiting) != _form(rows):
            raise _other_features(log)

    def rest_of(self, pieces: Iterator[Piece], digest: Digest, log: str) -> Iterator[Piece]:
        """Yield the rows after those that were read, which must be the same; they are added to the digest."""
        left = 0 if self.place is not None else self.rows  # to be passed over
        if self.place is not None and str(digest) != self.digest:
            raise CheckpointMismatchError(
                f"{log}: the run has read other columns, or other features; restore them, or evaluate the stream from "
                "the beginning"
            )
        for piece in pieces:
            rest = piece
            if left:
                passed, rest = piece[:left], piece[left:]
                passed.add_to(digest)
                left -= len(passed)
                if left == 0 and str(digest) != self.digest:
                    raise self._another_log(log, "are not the rows that were read before")
            if len(rest):
                yield rest
        if left:
            raise self._another_log(log, f"were read before, and now there are {self.rows - left}")

    def first_of(self, pieces: Iterator[Piece], most: int | None) -> Iterator[Piece]:
        """Yield pieces, up to so many rows of the log."""
        while (most is None or self.rows < most) and (piece := next(pieces, None)) is not None:
            yield piece if most is None else piece[: most - self.rows]

    def opened(self) -> Progress:
        """Return it without an end of the stream: by the time that it is read on, there may be more messages."""
        return self if self.place is None else replace(self, place=replace(self.place, ends={}))

    def _another_log(self, log: str, problem: str) -> CheckpointMismatchError:
        """Return the error that the rows of a log are not those that were read."""
        return CheckpointMismatchError(
            f"{log}: rows 1 to {self.rows} {problem}; the log was changed, or is another one: restore it (rows may be "
            "appended), or evaluate it from the beginning"
        )


def _form(rows: LogRows) -> list[Any]:
    """Return type and width of the columns that differ between logs."""
    columns = (rows.features, rows.next_features, rows.ratios, rows.clock, rows.time, rows.version)
    return [None if column is None else (column.dtype, column.shape[1:]) for column in columns]


def _other_features(log: str) -> CheckpointMismatchError:
    return CheckpointMismatchError(
        f"{log}: the position to resume from is that of a log with other features or ratios; evaluate this one from "
        "the beginning"
    )
