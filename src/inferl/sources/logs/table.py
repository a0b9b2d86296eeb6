"""Logs as a source of transitions: Parquet, CSV, JSON lines, Arrow or a data frame, in batches and in fixed memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np

from inferl.data.arrays import as_count, is_number, short
from inferl.data.transitions import Transitions
from inferl.diagnostics import Check
from inferl.errors import CheckpointMismatchError, DataError, SettingError
from inferl.sources.base import as_plain, from_plain
from inferl.sources.logs.columns import Column, Columns, choice, resolve
from inferl.sources.logs.cutting import Cut, cut_log
from inferl.sources.logs.decoding import Decoder, LogRows
from inferl.sources.logs.episodes.admission import admit
from inferl.sources.logs.episodes.endings import Endings, check_termination
from inferl.sources.logs.episodes.labelling import Labelling
from inferl.sources.logs.episodes.mixing import is_mixed
from inferl.sources.logs.episodes.pairing import Pairing, idle_seconds
from inferl.sources.logs.episodes.scattering import LabelSample
from inferl.sources.logs.faults import Faults, Shown
from inferl.sources.logs.features.ages import aged
from inferl.sources.logs.features.encoding import Encoder, Encoding, encoded_state
from inferl.sources.logs.features.states import check_next, check_state, encoding_of, learn_source
from inferl.sources.logs.inputs.digests import Digest
from inferl.sources.logs.inputs.messages import OpenStream, Stream, by_partition
from inferl.sources.logs.inputs.opening import is_live, log_name, open_at, open_log, reopenable, rereadable
from inferl.sources.logs.inputs.parts import Log
from inferl.sources.logs.inputs.pieces import Piece
from inferl.sources.logs.inputs.readers import damage, import_pyarrow
from inferl.sources.logs.inputs.streams import allowed_bad, followed
from inferl.sources.logs.plan import Plan, make_plan
from inferl.sources.logs.policies.propensities import Propensities, behaviour_formula, fit_source
from inferl.sources.logs.policies.ratios import RatioReader
from inferl.sources.logs.policies.targets import TargetPolicy, as_targets, bound
from inferl.sources.logs.progress import Progress
from inferl.sources.logs.regrouping import regroup_log
from inferl.sources.starts import Starts
from inferl.sources.steps import check_discount, limit_ends

__all__ = ["Table", "table"]


@dataclass(frozen=True, eq=False, repr=False)
class Table:
    """A log as a `Source`; made by `table`. Each iteration reads it anew, from its beginning or from a position.

    Examples
    --------
    >>> import pandas, inferl
    >>> frame = pandas.DataFrame({"state": [0, 1, 0], "reward": [0.0, 1.0, 0.0], "terminated": [False, True, False]})
    >>> log = inferl.sources.table(frame, state="state", n_states=2)
    >>> evaluator = inferl.Evaluator(inferl.TD(2)).update(log)
    >>> evaluator.n, log.rows, log.dropped
    (2, 3, 1)
    """

    source: Any
    wanted: Mapping[str, object]
    policies: Mapping[str, TargetPolicy]
    fit_behaviour: str | Sequence[str] | None
    features: Any
    state: Any
    n_states: int | None
    discount: float
    clip: float | None
    episodes_end: bool | None
    idle_timeout: float  # seconds; infinite: none
    gaps: bool
    ends: bool
    skip_bad: int
    batch: int
    n_rows: int | None
    _begin: Progress | None = None  # where an iteration starts
    # Of the latest iteration: now and, once it has reached the end, before the end.
    _now: list[Progress] = field(default_factory=list)
    _fitted: list[Encoder] = field(default_factory=list)  # its encoder of features
    _opened: list[bool] = field(default_factory=list)  # has an entry once it has been opened, also after `resume`

    def __repr__(self) -> str:
        return f"Table({self.name}, {f'{self.rows} rows read' if self._now else 'not read yet'})"

    def __iter__(self) -> Iterator[Transitions]:
        if self._opened and not (self.rereadable or is_live(self.source)):
            raise SettingError(f"{self.name} can be read only once, and it was; read a file, or make it again")
        self._opened.append(True)
        progress = deepcopy(self._begin) or self._fresh()
        if not progress.complete:
            self._learn(progress)
        with open_at(self.source, progress.place, progress.rows) as log:
            encoding = self.encoding(log.columns)
            columns, targets = self.read_as(log.name, log.columns)
            formula = behaviour_formula(self.fit_behaviour, log.columns)
            progress.compute_with(targets, formula, log.name)
            pairing = progress.pairing
            pairing.labelling.named = columns.episode is not None and not self.sessions
            pairing.streams.named = columns.stream is not None
            if columns.episode is None or columns.stream is not None:
                pairing.mixed = False
            progress.endings = Endings.of(columns, self.episodes_end, log.columns)
            self._now[:] = [progress]
            if progress.complete:
                return
            digest = Digest(f"{columns}; {encoding.about}")
            ratios = RatioReader(targets, formula, progress.propensities)
            for piece, batch, rows, faults in self._decoded(log, encoding, ratios, columns, progress, digest):
                if progress.labels is not None and columns.episode is not None:
                    progress.labels.see(rows.marks, pairing.streams.named, self.sessions)
                allowed = self.skip_bad - progress.skipped
                admitted = admit(rows, faults, pairing, columns, Shown(batch, faults.first_row, log.where), allowed)
                paired = None
                if admitted.rows is not None:
                    paired = pairing.take(aged(admitted.rows, self._encoder_read.age_columns))
                read = piece if admitted.fatal is None else piece[: admitted.fatal.row - faults.first_row]
                read.add_to(digest)
                progress.rows += len(read)
                progress.digest, progress.place = str(digest), log.place(read)
                progress.skip(admitted.skipped, batch, faults.first_row, log.where)
                yield from progress.chunk(paired, self.clip, self.discount)
                if admitted.fatal is not None:
                    raise admitted.fatal.error(log.where, progress.skipped)
            ended = deepcopy(progress)
            paired = ended.pairing.finish()
            ended.complete = True
            self._now[:] = [ended, progress]
            yield from ended.chunk(paired, self.clip, self.discount)

    def _learn(self, progress: Progress) -> None:
        """Make the passes over the log that come before the first row, if they were not made before."""
        if progress.learned is None and self.rereadable:
            progress.learned = learn_source(self.source, self.encoding, self._resolved, self.batch)
        if self.fit_behaviour is not None and progress.rows == 0 and progress.propensities is None:
            progress.propensities = fit_source(self.source, self.fit_behaviour, self._resolved, self.batch)

    def _decoded(
        self,
        log: Log | OpenStream,
        encoding: Encoding,
        ratios: RatioReader,
        columns: Columns,
        progress: Progress,
        digest: Digest,
    ) -> Iterator[tuple[Piece, Any, LogRows, Faults]]:
        """Read on and decode; where it turns out that episodes are mixed, a piece is cut in two."""
        pairing = progress.pairing
        encoder: Encoder | None = None
        by_message = isinstance(self.source, Stream)

        def decoded(piece: Piece) -> tuple[Piece, Any, LogRows, Faults]:
            file, row = log.where(progress.rows + 1)
            with damage(f"{file}, after row {row - 1}"):
                batch, broken = piece.parsed()
            try:
                nonlocal encoder
                if encoder is None:  # how many rows of a stream arrive first is left to chance
                    first = piece[:1].parsed()[0] if is_live(self.source) else batch
                    encoder = self._encoder(encoding, columns, first, progress)
                    if progress.learned is not None and progress.learned.states.size:
                        ratios.check_states(encoder.names)
                decoder = Decoder(columns, ratios, encoder, self.gaps, self.ends, self.sessions, by_message)
                rows, faults = decoder.decode(batch, broken, progress.rows + 1, mixed=bool(pairing.mixed))
            except SettingError as error:
                raise SettingError(f"{file}: {error}") from None
            progress.check(rows, file)
            progress.dimension = encoder.dimension
            return piece, batch, rows, faults

        pieces = log.pieces(columns.to_read(log.columns), self.batch, self._same_columns(columns))
        for piece in progress.first_of(progress.rest_of(pieces, digest, log.name), self.n_rows):
            now = decoded(piece)
            change = pairing.first_change(now[2])
            if change is not None and self._is_mixed(columns):
                if change:
                    yield decoded(piece[:change])
                pairing.mix()
                now = decoded(piece[change:])
            elif change is not None:
                pairing.mixed = False
            yield now

    def _is_mixed(self, columns: Columns) -> bool:
        """Return whether rows of several episodes are mixed, where the first of them has no end."""
        if not reopenable(self.source):
            return self.sessions or columns.terminated is not None or columns.truncated is not None
        with suppress(DataError, SettingError), open_log(self.source) as log:
            return is_mixed(log, columns, self.batch, self.sessions)
        return False  # what is wrong is said when the rows are read

    def _same_columns(self, columns: Columns) -> Callable[[str, list[str]], None]:
        """Return a function that refuses a file which would be read otherwise than the files before it."""
        return lambda part, available: columns.refuse_other(part, self.read_as(part, available)[0])

    def read_as(self, log: str, available: list[str]) -> tuple[Columns, Any]:
        """Return what each column is for, and the target policies."""
        return bound(self.policies, self._resolved(log, available), available, log)

    def _encoder(self, encoding: Encoding, columns: Columns, first: Any, progress: Progress) -> Encoder:
        """Return the encoder of the features; of a log that is read only once, the first rows must be enough."""
        if progress.learned is None:
            progress.learned = encoding.learn([first], [columns.features], again=False)
        elif progress.learned.about != encoding.about:
            raise CheckpointMismatchError(
                f"{self.name}: the position to resume from is that of other features ({progress.learned.about}); "
                "evaluate this log from the beginning"
            )
        encoder = encoding.fitted(progress.learned)
        progress.check_dimension(encoder.dimension, self.name)
        self._fitted[:] = [encoder]
        return encoder

    def encoding(self, available: list[str]) -> Encoding:
        """Return how the features are made of the columns of the log."""
        return encoding_of(self.features, self.state, self.n_states, available)

    def _resolved(self, log: str, available: list[str]) -> Columns:
        encoding = self.encoding(available)
        formula = behaviour_formula(self.fit_behaviour, available)
        fitted = formula.variables if formula else None
        wanted = {**self.wanted, "features": encoding.variables, "fit_behaviour": fitted}
        columns = resolve(wanted, available, log, bool(self.policies), formula is not None)
        if isinstance(self.source, Stream):
            columns = by_partition(columns, self.sessions)
        check_next(encoding, columns, any(not policy.columns for policy in self.policies.values()))
        if self.episodes_end and (columns.episode is None or columns.next_features):
            raise SettingError("episodes_end needs the column of the episodes, and no column of next features (None)")
        unnamed = not encoding.variables and self.features in (..., None)
        if unnamed and not any((columns.episode, columns.terminated, columns.truncated)):
            raise SettingError(
                f"{log}: say which features to use, with features=, or which columns are the state, with state=; they "
                f"may be left out if a column shows the episodes; {choice(available)}"
            )
        if self.discount == 1 and not self.episodes_end:
            check_termination(columns, self.ends, log)
        if self.sessions and columns.order is None:
            raise SettingError(f"{log}: idle_timeout needs the column of the times (order)")
        return columns

    # The protocol of a source.

    def _fresh(self) -> Progress:
        return Progress(Pairing(Labelling(named=False), episodes_end=bool(self.episodes_end), idle=self.idle_timeout))

    @property
    def _progress(self) -> Progress:
        if self._now:
            return self._now[0]
        raise SettingError(f"{self.name} has not been read yet")

    @property
    def position(self) -> dict[str, Any]:
        """How far the latest iteration has come, as plain data for `resume`."""
        return dict(as_plain(self._now[0] if self._now else self._fresh()))

    def resume(self, position: Any) -> Table:
        """Return the same log; its iterations begin at a position, if the rows before it are those that were read.

        Standard input must be piped in again from its beginning.
        """
        progress: Progress = from_plain(Progress, position)
        progress.check_settings(self.clip, self.idle_timeout, self.name)
        waiting = progress.pairing.waiting
        if progress.starts.number == 0 and (waiting is None or waiting.features.ndim == 1):
            # No array confirms the number, and a wrong one could ask for any amount of memory.
            progress.dimension, progress.learned = 0, None
        return replace(self, _begin=progress, _now=[deepcopy(progress)], _fitted=[])

    @property
    def open_end(self) -> dict[str, Any] | None:
        """The position before the end of the log was taken for the end of its last episodes; None until it is reached.

        If rows are appended to the log, `resume` reads them from here. None for a log that cannot be read again.
        """
        if len(self._now) < 2 or not (self.rereadable or is_live(self.source)):
            return None
        plain: dict[str, Any] = as_plain(self._now[1].opened())
        return plain

    def start(self, conditional: bool = False) -> Starts:
        """Return the observed start distribution, as a target: the mean features of the episode starts read so far.

        It stands for the distribution that the starts were drawn from; with `conditional`, for these starts themselves.
        """
        return (self._now[0].starts if self._now else Starts()).of(self.start, conditional)

    def at(self, **values: Any) -> Any:
        """Return a state, given by the values of its columns, as a target: its features, or its number.

        >>> import pyarrow, inferl
        >>> log = pyarrow.table({"ward": ["er", "icu"] * 9, "hr": [80, 90, 85] * 6, "reward": [1.0, 0.0, 0.0] * 6})
        >>> source = inferl.sources.table(log, features="hr + ward", discount=0.5)
        >>> evaluator = inferl.Evaluator(inferl.TD(3)).update(source)
        >>> source.at(ward="icu", hr=85), source.feature_names
        (array([ 1., 85.,  1.]), ('1', 'hr', 'ward[icu]'))
        >>> print(f"{evaluator.interval(source.at(ward='icu', hr=85)).estimate:.2f}")
        0.69
        """
        return encoded_state(self._encoder_read, values)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """A name for each feature, or for each state of a table; known once rows have been read."""
        return self._encoder_read.names

    @property
    def _encoder_read(self) -> Encoder:
        if self._fitted:
            return self._fitted[0]
        raise SettingError(f"{self.name} has not been read yet")

    def describe(self) -> dict[str, str]:
        """Return what a report should say about the log."""
        if not self._now:
            return {"log": f"{self.name}, not read yet"}
        facts = {"log": f"{self.name}, {self.rows:,} rows"}
        learned = self._progress.learned
        if learned is not None and learned.about == "1" and self.features in (..., None):
            facts["features"] = "a constant, since none were named; good features make the interval narrower"
        if self._progress.pairing.mixed:
            most = self._progress.pairing.labelling.most_open
            facts["episodes"] = f"mixed in order of time, at most {most:,} open at once"
        if self.dropped:
            dropped = f"{self.dropped}: the last of an episode, without a next state"
            remedy = "; if it ends there, name a column that says so (terminated), or say episodes_end"
            facts["rows dropped"] = dropped if self.episodes_end is not None else dropped + remedy
        if self._progress.endings.fact:
            facts["ends"] = self._progress.endings.fact
        if self.propensities is not None:
            facts["behaviour policy"] = self.propensities.describe()
        if self.clipped:
            facts["ratios clipped"] = f"{self.clipped} at {self.clip:g}, which biases the estimate"
        if self.skipped:
            facts["bad rows skipped"] = f"{self.skipped}, the first: {self._progress.faults[0]}"
        return facts

    def checks(self) -> tuple[Check, ...]:
        """Return the checks of rows that were dropped at the ends of episodes, and of a fitted behaviour policy."""
        return self._progress.checks(getattr(self.source, "unattended", False)) if self._now else ()

    def plan(self) -> Plan:
        """Return what would be read: files, rows, columns, episodes across files. Only a little of the log is read."""
        read_as = lambda *part: self.read_as(*part)[0]  # noqa: E731
        return make_plan(self.source, self.wanted, read_as, self._same_columns, self.sessions)

    def cut(self, rows: int) -> tuple[Cut, list[Table]]:
        """Cut the log into parts of about so many rows, and return them as tables of the episodes that begin there."""
        cut = cut_log(self.source, rows, lambda *part: self.read_as(*part)[0], self._same_columns, self.sessions)
        begin = self._fresh()
        self._learn(begin)
        if begin.propensities is not None and begin.propensities.by_row and len(cut.parts) > 1:
            raise SettingError(f"{self.name}: fit_behaviour in several parts needs the labels of episodes (episode)")
        begin.labels = LabelSample()
        begun = [replace(self, source=list(part), _begin=begin, _now=[begin]) for part in cut.parts]
        return cut, [replace(part, _fitted=[], _opened=[]) for part in begun]

    def regrouped(self, folder: str | os.PathLike[str]) -> Table:
        """Return the log with the rows of each episode together, in files in a new folder."""
        regroup_log(self.source, Path(folder), lambda *part: self.read_as(*part)[0], self.batch)
        return replace(self, source=os.fspath(folder), _now=[], _fitted=[], _opened=[])

    def joined(self, positions: Sequence[Any]) -> Table:
        """Return the log as if it had read all its parts, which are at these positions."""
        whole = Progress.joined([from_plain(Progress, position) for position in positions], self.name)
        whole.check_skipped(self.skip_bad, self.name)
        return replace(self, _begin=whole, _now=[whole], _fitted=[], _opened=[])

    @property
    def name(self) -> str:
        """The path, or the kind of the data frame."""
        return log_name(self.source)

    @property
    def rereadable(self) -> bool:
        """Whether the log can be read more than once, which a pipe, an iterator or a stream of batches cannot."""
        return rereadable(self.source)

    @property
    def sessions(self) -> bool:
        """Whether an episode is over after a pause, and its label may come back."""
        return bool(np.isfinite(self.idle_timeout))

    @property
    def dimension(self) -> int:
        """Length of the features, or number of states of the table; 0 until rows have been read."""
        return self.n_states or (self._now[0].dimension if self._now else 0)

    @property
    def rows(self) -> int:
        """Number of rows read."""
        return self._progress.rows

    @property
    def propensities(self) -> Propensities | None:
        """The behaviour policy, if it was fitted to the log."""
        return self._progress.propensities

    @property
    def clipped(self) -> int:
        """Number of ratios that were clipped."""
        return self._progress.clipped

    @property
    def skipped(self) -> int:
        """Number of bad rows that were skipped."""
        return self._progress.skipped

    @property
    def dropped(self) -> int:
        """Number of rows without a next state, the last of each episode that did not terminate."""
        return self._progress.pairing.dropped.rows

    @property
    def endless(self) -> bool:
        """Whether it is followed, and reading never ends."""
        return getattr(self.source, "follow", False) and self.n_rows is None

    @property
    def episodic(self) -> bool:
        """Whether a column of the log shows where episodes begin or end."""
        return self._progress.endings.episodic


def table(
    source: str | os.PathLike[str] | Any,
    *,
    features: Any = ...,
    state: str | Sequence[str] | None = None,
    action: Column = ...,
    reward: Column = ...,
    episode: Column = ...,
    order: Column = ...,
    next_features: str | Sequence[str] | Column = ...,
    terminated: Column = ...,
    truncated: Column = ...,
    stream: str | None = None,
    time: str | None = None,
    version: str | None = None,
    n_states: int | None = None,
    discount: float = 0.99,
    behaviour_probability: Column = ...,
    target_probability: str | Sequence[str] | None = None,
    behaviour_log_probability: Column = ...,
    target_log_probability: str | Sequence[str] | None = None,
    policy: Any = None,
    fit_behaviour: str | Sequence[str] | None = None,
    ratio: str | Sequence[str] | None = None,
    clip: float | None = None,
    episodes_end: bool | None = None,
    idle_timeout: float | timedelta | None = None,
    gaps: bool = False,
    time_limit: str | None = None,
    skip_bad: int | None = None,
    batch: int = 65536,
    n_rows: int | None = None,
    follow: bool = False,
) -> Table:
    """Read transitions from a log, in record batches, so that memory stays flat.

    A column is given by name, or recognised (``...``) by the names of RLlib, D4RL and LeRobot, or as reward, episode,
    terminated (terminal, is_terminal) or truncated (timeouts). A column done, dones, next.done or is_last marks last
    rows: they terminate, unless another column says which do. None means that there is no such column. A bad row raises
    `inferl.errors.DataError`, which names log, row (counted from 1), column, value and remedy; the rows before it have
    been yielded by then.

    Parameters
    ----------
    source
        A path: of a Parquet, CSV, JSON lines or Arrow file (compressed or not), of a folder of such files (its folders
        ``key=value`` become columns), a glob, or a URI (``s3://...``). ``"-"`` for standard input, or an open file. A
        data frame of pandas, polars or pyarrow; a polars LazyFrame, a DuckDB relation, a pyarrow Dataset, Scanner or
        RecordBatchReader. Or a list or an iterator of these: they are one log, read in this order. The files of a
        folder or a glob are sorted by path, and part-2 comes before part-10.
    features
        A formula, ``"hr + C(ward) + poly(age, 2)"``, or names of columns, whose features are added. There is an
        intercept unless the formula says ``- 1``; a column of lists alone is taken as it stands. Or a feature map of
        `inferl.features`, which is applied to the columns of `state`. Left out, and not recognised, it is a constant:
        the value of the start distribution does not depend on the features.
    reward, action
        The action is read only if a `policy` needs it.
    episode, order
        Label of the episode (whole numbers or text), and position in it: rows that are out of order, duplicated or
        missing are refused. Without labels, episodes end where a flag says so. Episodes come one after the other, or
        mixed, in order of time; `describe` says which.
    terminated, truncated
        Flags of the row that ends an episode. The value after a termination is 0; a truncation cuts the episode off.
    stream
        Label of parallel sequences, such as the environments of a vector environment.
    time
        When each row was written: a time, or a number of seconds. A `Window` whose panes are hours goes by it.
    version
        Label of the version of the policy. With more than one, there must be a `Window`, which begins anew with each.
    state, n_states
        Instead of features: one or several columns, of any type, whose values are the states of a table. If the states
        are the numbers 0, 1, ... of one column, say how many there are: then the log need not be read twice.
    next_features
        The columns of the next state, one for each column of the features or of the state. Without them, the next
        state is that of the following row of the episode, and a last row that does not terminate is dropped.
    discount
        gamma, in (0, 1].
    behaviour_probability, behaviour_log_probability
        Probability of the logged action under the behaviour policy.
    fit_behaviour
        If the log has no such column: a formula, ``"C(ward) + severity"``, of the columns given which the probabilities
        are estimated, by multinomial logistic regression in a first pass, cross-fitted by episode. Actions are whole
        numbers or text.
    target_probability, target_log_probability
        The same under the target policy; several columns for several policies.
    policy
        Instead of such columns, the target policy itself, or a dict of several by name:

        - one of `inferl.policies`, such as ``Logits(module)``, or a classifier with ``predict_proba``;
        - a function from features and actions, one row for each step, to the probabilities of these actions;
        - an array (states, actions) of probabilities;
        - a data frame or a file: rows state, action, probability, or one row a state and a column for each action. The
          probabilities depend on the columns that are named as in the log.

        Rows of probabilities must add up to 1.
    ratio
        Instead of probabilities: target / behaviour; several columns for several policies.
    clip
        Largest ratio; larger ones are clipped, and counted in `clipped`.
    episodes_end
        For logs without flags. True: the last row of every episode terminates it, unless it is marked as truncated;
        mixed episodes then all stay open until the log ends, which takes memory, or until `idle_timeout`. False: the
        data stop there, and the last row is dropped. None: the log does not say, a failed check if it has episodes.
    idle_timeout
        Pause after which an episode is over, in seconds or as a timedelta; a label that comes back later is a new
        episode, such as the next session of a user. The order column holds times, or numbers that count seconds.
    gaps
        The order column may have gaps: it sorts the rows and does not count them.
    time_limit
        What a truncation means. ``"ends"``: the limit is part of the task, and returns count up to it. ``"cut"``: the
        value extends beyond the cut. Default: ``"ends"`` if the discount is 1, else ``"cut"``.
    skip_bad
        Largest number of bad rows to skip; they are counted in `skipped`. Default: 0; in a journal of a service, all.
    batch
        Number of rows read at a time. The results do not depend on it.
    n_rows
        Read only the first rows, so many.
    follow
        When the end of the file is reached, wait for what another program adds to it; for streams, see `kafka`.

    Examples
    --------
    >>> import pyarrow, inferl
    >>> log = pyarrow.table({
    ...     "patient": [7, 7, 7, 8, 8], "hour": [1, 2, 3, 1, 2], "pulse": [0.9, 0.7, 0.2, 1.1, 0.8],
    ...     "reward": [0.0, 0.0, 1.0, 0.0, 0.0], "terminated": [0, 0, 1, 0, 0],
    ...     "p": [0.5, 0.5, 0.5, 0.5, 0.5], "q": [1.0, 0.5, 1.0, 0.0, 1.0],
    ... })  # fmt: skip
    >>> source = table(log, features="pulse", episode="patient", order="hour", discount=0.9,
    ...                behaviour_probability="p", target_probability="q")  # fmt: skip
    >>> for chunk in source:
    ...     print(chunk.features[:, 1], chunk.next_features[:, 1], chunk.discounts, chunk.ratios)
    [0.9 0.7 0.2] [0.7 0.2 0.2] [0.9 0.9 0. ] [2. 1. 2.]
    [1.1] [0.8] [0.9] [0.]
    >>> np.asarray(source.start()), source.dropped
    (array([1., 1.]), 1)
    """
    import_pyarrow()
    discount = check_discount(discount)
    check_state(features, state, n_states)
    if clip is not None and not (is_number(clip) and clip > 0):
        raise SettingError(f"clip is {short(clip)}; it must be positive")
    as_count("batch", batch, 1)
    if n_rows is not None:
        as_count("n_rows", n_rows, 1)
    source = followed(source, follow=follow)
    wanted: dict[str, object] = {
        "reward": reward,
        "next_features": next_features,
        "action": action,
        "episode": episode,
        "order": order,
        "terminated": terminated,
        "truncated": truncated,
        "stream": stream,
        "time": time,
        "version": version,
        "behaviour_probability": behaviour_probability,
        "behaviour_log_probability": behaviour_log_probability,
        "target_probability": target_probability,
        "target_log_probability": target_log_probability,
        "ratio": ratio,
    }
    flags = episodes_end, idle_seconds(idle_timeout), gaps, limit_ends(time_limit, discount)
    policies = as_targets(policy)
    sizes = allowed_bad(source, skip_bad), batch, n_rows
    return Table(source, wanted, policies, fit_behaviour, features, state, n_states, discount, clip, *flags, *sizes)
