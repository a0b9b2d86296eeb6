"""Sessions: an episode is over after a pause, and its label may come back; against plain loops."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from logs import joined, same

from inferl.data.transitions import Transitions
from inferl.errors import CheckpointMismatchError, DataError
from inferl.sources import Table, table

IDLE = 10.0


class Row(NamedTuple):
    user: int
    time: float
    terminated: bool


@st.composite
def logs(draw: st.DrawFn) -> list[Row]:
    """Rows of a few users in order of time, but for a jitter that is smaller than the timeout; or sorted by user."""
    n = draw(st.integers(1, 25))
    users = draw(st.lists(st.integers(0, 3), min_size=n, max_size=n))
    pauses = draw(st.lists(st.sampled_from([1.0, 3.0, 9.0, 10.0, 11.0, 30.0]), min_size=n, max_size=n))
    jitter = draw(st.lists(st.sampled_from([0.0, 0.0, 0.5, 8.0]), min_size=n, max_size=n))
    ends = draw(st.lists(st.sampled_from([False, False, False, True]), min_size=n, max_size=n))
    times = (np.cumsum(pauses) - jitter).tolist()
    rows = [Row(*row) for row in zip(users, times, ends, strict=True)]
    kept: list[Row] = []
    latest: dict[int, float] = {}
    for row in sorted(rows, key=lambda row: row[:2]) if draw(st.booleans()) else rows:
        if row.time > latest.get(row.user, -np.inf):  # else it would be out of order
            kept.append(row)
            latest[row.user] = row.time
    return kept


def is_mixed(rows: list[Row]) -> bool:
    seen: set[int] = set()
    for previous, row in pairwise(rows):
        seen |= {previous.user} if row.user != previous.user else set()
        if row.user != previous.user and row.user in seen:
            return True
    return False


Path = list[tuple[float, float, float, bool]]


def by_loops(rows: list[Row], episodes_end: bool) -> tuple[list[Path], int]:
    """The transitions (number, next number, discount, last) of each session, and the number of rows dropped."""
    mixed, clock = is_mixed(rows), -np.inf
    sessions: list[list[int]] = []
    over: set[int] = set()  # sessions that are known to be over
    open_now: dict[int, int] = {}
    for number, row in enumerate(rows):
        clock = max(clock, row.time) if mixed else row.time
        for user, session in list(open_now.items()):
            late = clock > rows[sessions[session][-1]].time + IDLE and (mixed or user == row.user)
            if late or (not mixed and user != row.user):
                over.add(open_now.pop(user))
        if row.user not in open_now:
            open_now[row.user] = len(sessions)
            sessions.append([])
        sessions[open_now[row.user]].append(number)
        if row.terminated:
            over.add(open_now.pop(row.user))
    paths, dropped = list[Path](), 0
    for session, numbers in enumerate(sessions):
        path: Path = [(a, b, 0.9, False) for a, b in pairwise(numbers)]
        if rows[numbers[-1]].terminated or episodes_end:
            path.append((numbers[-1], numbers[-1], 0.0, True))
        else:
            dropped += 1
            if path and session in over:
                path[-1] = (*path[-1][:3], True)
        paths += [path] if path else []
    return paths, dropped


def source_of(rows: list[Row], batch: int = 65536, **options: Any) -> Table:
    columns = dict(zip(Row._fields, zip(*rows, strict=True), strict=True))
    frame = pa.table({**columns, "x": np.arange(len(rows)) * 1.0, "reward": [0.0] * len(rows)})
    roles: dict[str, Any] = {"features": "x - 1", "episode": "user", "order": "time", "discount": 0.9}
    return table(frame, **roles, **({"idle_timeout": IDLE} | options), batch=batch)


def paths_of(chunks: list[Transitions]) -> list[Path]:
    found: dict[int, Path] = {}
    for chunk in chunks:
        assert chunk.episode is not None
        columns = (chunk.features[:, 0], chunk.next_features[:, 0], chunk.discounts, chunk.last, chunk.episode)
        for x, x2, discount, last, label in zip(*(column.tolist() for column in columns), strict=True):
            found.setdefault(label, []).append((x, x2, discount, last))
    return list(found.values())


@given(rows=logs(), batch=st.integers(1, 12), episodes_end=st.booleans(), stop=st.integers(0, 6))
def test_sessions_are_those_of_plain_loops(rows: list[Row], batch: int, episodes_end: bool, stop: int) -> None:
    source = source_of(rows, episodes_end=episodes_end)
    whole = list(source)
    expected, dropped = by_loops(rows, episodes_end)
    assert sorted(paths_of(whole)) == sorted(expected)
    assert source.dropped == dropped
    cut = source_of(rows, batch, episodes_end=episodes_end)
    chunks = list(islice(cut, stop))
    chunks += list(source_of(rows, 3, episodes_end=episodes_end).resume(cut.position) if stop else cut)
    assert bool(chunks) == bool(whole)
    assert not chunks or same(Transitions.join(chunks), Transitions.join(whole))


def test_times_of_every_kind() -> None:
    """Seconds as numbers and as text, and times of a calendar, with a timeout in seconds or as a timedelta."""
    users, times = [1, 2, 1, 2, 1, 2], [0, 5, 9, 20, 22, 29]
    calendar = [datetime(2024, 1, 1, tzinfo=UTC) + timedelta(seconds=time) for time in times]
    found = []
    for order in (times, list(map(str, times)), calendar, [time.isoformat() for time in calendar]):
        frame = pa.table({"x": np.arange(6) * 1.0, "reward": [0.0] * 6, "user": users, "time": order})
        for idle in (IDLE, timedelta(seconds=10)):
            source = table(frame, features="x - 1", episode="user", order="time", idle_timeout=idle)
            found.append(joined(source))
            assert source.describe()["episodes"] == "mixed in order of time, at most 2 open at once"
    assert all(same(found[0], other) for other in found)
    assert found[0].features[:, 0].tolist() == [0.0, 3.0]  # 0-2 of user 1, 3-5 of user 2
    words = frame.set_column(3, "time", pa.array(["soon", "later"] * 3))
    with pytest.raises(DataError, match="row 1, column 'time': 'soon' is no time"):
        list(table(words, features="x - 1", episode="user", order="time", idle_timeout=10.0))


def test_rows_that_are_not_in_order_of_time() -> None:
    rows = [Row(1, 0.0, False), Row(2, 50.0, False), Row(1, 60.0, False), Row(2, 45.0, False), Row(1, 61.0, False)]
    for batch in (1, 100):
        with pytest.raises(
            DataError, match=r"row 4, column 'time': 45\.0 is before times of earlier rows, by more than"
        ):
            list(source_of(rows, batch))
        source = source_of(rows, batch, skip_bad=1)
        assert (sum(map(len, source)), source.skipped, source.start().number) == (1, 1, 3)


def test_another_timeout_is_refused() -> None:
    source = source_of([Row(1, 0.0, False), Row(1, 1.0, False), Row(1, 2.0, True)], batch=2)
    list(source)
    with pytest.raises(CheckpointMismatchError, match="another idle_timeout"):
        source_of([Row(1, 0.0, False)], idle_timeout=5.0).resume(source.position)


def test_memory_is_that_of_the_sessions_that_are_open() -> None:
    n, open_at_once = 20_000, 50
    frame = pa.table({
        "user": np.arange(n) % open_at_once + np.arange(n) // 1000 * open_at_once, "time": np.arange(n),
        "x": np.ones(n), "reward": np.zeros(n),
    })  # fmt: skip
    source = table(frame, features="x", episode="user", order="time", idle_timeout=60, batch=500)
    most = 0
    for _ in source:
        waiting = source.position["pairing"]["waiting"]
        most = max(most, 0 if waiting is None else len(waiting["rewards"]))
    assert most <= 2 * 61
    # When others come, the first of the old ones has been idle for 60 seconds after 11 of them.
    assert source.describe()["episodes"] == "mixed in order of time, at most 61 open at once"
