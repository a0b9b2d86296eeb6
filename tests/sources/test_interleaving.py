"""Logs in pieces: batches, interleavings and interruptions change nothing, and episodes are kept apart."""

from __future__ import annotations

import subprocess
import sys
from collections import defaultdict
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from logs import FORMATS, LOG, joined, same
from pyarrow import parquet

import inferl
from inferl.data.transitions import Transitions
from inferl.sources import Table, table

Row = dict[str, Any]


@st.composite
def logs(draw: st.DrawFn) -> list[Row]:
    """Draw a log: episodes of 1 to 6 rows, some without a flag at their end, mixed in any way."""
    lengths = draw(st.lists(st.integers(1, 6), min_size=1, max_size=6))
    kinds = draw(st.lists(st.sampled_from(["terminated", "truncated", "open"]), min_size=len(lengths), max_size=6))
    kinds = (kinds + ["open"] * len(lengths))[: len(lengths)]
    owners = draw(st.permutations([episode for episode, length in enumerate(lengths) for _ in range(length)]))
    seen: dict[int, int] = defaultdict(int)
    rows = []
    for number, episode in enumerate(owners):
        step = seen[episode]
        seen[episode] += 1
        ends = step == lengths[episode] - 1
        rows.append(
            {
                "x": float(number),
                "x2": number + 0.5,
                "reward": float(number % 3),
                "who": f"episode {episode}",
                "step": step,
                "terminated": ends and kinds[episode] == "terminated",
                "truncated": ends and kinds[episode] == "truncated",
            }
        )
    return rows


def is_mixed(rows: list[Row]) -> bool:
    """Whether an episode goes on after rows of another."""
    before: set[str] = set()
    for previous, row in pairwise(rows):
        if row["who"] != previous["who"]:
            before.add(previous["who"])
            if row["who"] in before:
                return True
    return False


def by_loops(rows: list[Row], next_column: bool) -> dict[str, list[tuple[float, float, float, bool]]]:
    """The transitions of each episode, as plainly as can be: (x, next x, discount, last)."""
    episodes: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        episodes[row["who"]].append(row)
    found, mixed = {}, is_mixed(rows)
    for who, steps in episodes.items():
        over = steps[-1]["terminated"] or steps[-1]["truncated"] or not (mixed or who == rows[-1]["who"])
        path = []
        for i, row in enumerate(steps):
            final = i == len(steps) - 1
            if row["terminated"]:
                path.append((row["x"], row["x"], 0.0, True))
            elif next_column:
                path.append((row["x"], row["x2"], 0.9, final and over))
            elif not final:
                lost_next = i == len(steps) - 2 and not steps[-1]["terminated"]  # the last row has no next state
                path.append((row["x"], steps[i + 1]["x"], 0.9, lost_next and over))
        found[who] = path
    return found


def paths(chunk: Transitions | None) -> list[list[tuple[float, float, float, bool]]]:
    """The transitions of each label of an episode, in order of the labels."""
    if chunk is None:
        return []
    assert chunk.episode is not None
    found: dict[int, list[tuple[float, float, float, bool]]] = defaultdict(list)
    columns = (chunk.features[:, 0], chunk.next_features[:, 0], chunk.discounts, chunk.last, chunk.episode)
    for x, x2, discount, last, label in zip(*(column.tolist() for column in columns), strict=True):
        found[label].append((x, x2, discount, last))
    return [found[label] for label in sorted(found)]


def log_of(rows: list[Row], next_column: bool, batch: int = 65536) -> Table:
    frame = pa.Table.from_pylist(rows)
    following = "x2" if next_column else None
    roles: dict[str, Any] = {"features": "x - 1", "next_features": following, "episode": "who", "order": "step"}
    return table(frame, **roles, discount=0.9, batch=batch)


def all_of(source: Table) -> Transitions | None:
    chunks = list(source)
    return Transitions.join(chunks) if chunks else None


@given(rows=logs(), next_column=st.booleans(), batch=st.integers(1, 40))
def test_any_interleaving_and_any_batch(rows: list[Row], next_column: bool, batch: int) -> None:
    whole, cut = all_of(log_of(rows, next_column)), all_of(log_of(rows, next_column, batch))
    expected = [path for path in by_loops(rows, next_column).values() if path]
    assert sorted(paths(whole)) == sorted(expected)
    if whole is None or cut is None:
        assert whole is cut
        return
    assert same(whole, cut)


@given(rows=logs(), batch=st.integers(1, 40), mixed=st.booleans())
def test_whole_episodes_need_no_flag_at_their_end(rows: list[Row], batch: int, mixed: bool) -> None:
    """Told that last rows end episodes, a log without flags is the log with a flag there; truncations stay."""
    rows = rows if mixed else sorted(rows, key=lambda row: str(row["who"]))
    ends = {row["who"]: row for row in rows}
    marked = [row | {"terminated": row is ends[row["who"]] and not row["truncated"]} for row in rows]
    roles: dict[str, Any] = {"features": "x - 1", "episode": "who", "order": "step"}
    roles |= {"discount": 0.9, "batch": batch}
    bare = [{key: value for key, value in row.items() if key != "terminated"} for row in rows]
    told = table(pa.Table.from_pylist(bare), **roles, episodes_end=True)
    flagged = all_of(table(pa.Table.from_pylist(marked), **roles))
    found = all_of(told)
    assert told.dropped <= sum(row["truncated"] for row in rows)
    assert (found is None) == (flagged is None)
    if found is None or flagged is None:
        return
    assert sorted(paths(found)) == sorted(paths(flagged))
    if not is_mixed(rows):  # else an end is known later without a flag, and other streams are free
        assert same(found, flagged)


@given(rows=logs(), next_column=st.booleans(), batch=st.integers(1, 40))
def test_order_of_time_and_order_of_episodes_are_the_same_log(rows: list[Row], next_column: bool, batch: int) -> None:
    """The same transitions, starts and dropped rows; a sorted log has one stream, and needs no flags at the ends."""
    in_time, by_episode = (
        log_of(rows, next_column, batch),
        log_of(sorted(rows, key=lambda row: row["who"]), next_column),
    )
    mixed, apart = all_of(in_time), all_of(by_episode)
    assert ("episodes" in in_time.describe()) == is_mixed(rows)
    assert "episodes" not in by_episode.describe()
    assert in_time.dropped == by_episode.dropped
    assert in_time.start().number == by_episode.start().number
    assert np.asarray(in_time.start()).tolist() == np.asarray(by_episode.start()).tolist()  # whole numbers: exact
    assert sorted(map(unended, paths(mixed))) == sorted(map(unended, paths(apart)))
    assert apart is None or (apart.stream == 0).all()


def unended(path: list[tuple[float, float, float, bool]]) -> list[tuple[float, float, float]]:
    return [(x, x2, discount) for x, x2, discount, _ in path]


@given(rows=logs())
def test_the_most_that_were_open_at_once(rows: list[Row]) -> None:
    ends, most = {row["who"]: number for number, row in enumerate(rows)}, 0
    begun: set[str] = set()
    for number, row in enumerate(rows):
        begun.add(row["who"])
        over = {
            who
            for who in begun
            if ends[who] < number and (rows[ends[who]]["terminated"] or rows[ends[who]]["truncated"])
        }
        most = max(most, len(begun - over))
    source = log_of(rows, False, 3)
    list(source)
    if is_mixed(rows):
        assert source.describe()["episodes"] == f"mixed in order of time, at most {most} open at once"


def test_days_that_are_sorted_by_user() -> None:
    """The second day begins long after the first episode would have been taken for over."""
    n = 9000
    frame = pandas.DataFrame(
        {"day": np.repeat([0, 1], 2 * n), "user": np.tile(np.repeat(np.arange(n), 2), 2), "reward": 0.0}
    )
    frame["x"] = np.arange(len(frame)) * 1.0
    source = table(frame, features=["x"], episode="user", batch=1000)
    assert sum(len(chunk) for chunk in source) == 3 * n
    assert (source.dropped, source.start().number) == (n, n)
    assert source.describe()["episodes"] == "mixed in order of time, at most 9,000 open at once"


def test_a_log_that_is_read_once() -> None:
    """Nothing can be looked up: without a column of ends, an episode is over when another begins."""
    frame = pa.table({"x": np.arange(6) * 1.0, "reward": [0.0] * 6, "who": [1, 1, 1, 2, 2, 2]})
    once, again = (table(log, features=["x"], episode="who") for log in (frame.to_reader(), frame))
    assert same(joined(once), joined(again))
    mixed = frame.take([0, 3, 1, 4, 2, 5]).append_column("terminated", pa.array([0, 0, 0, 0, 1, 0]))
    once, again = (table(log, features=["x"], episode="who") for log in (mixed.to_reader(), mixed))
    assert same(joined(once), joined(again))


def test_a_log_that_turns_out_to_be_mixed_is_damaged_further_on(tmp_path: Path) -> None:
    """The rows before the damage are read all the same."""
    path = tmp_path / "log.csv"
    rows = "".join(f"{i},0.0,{'ab'[i // 2 % 2]}\n" for i in range(3000))
    path.write_bytes(b"x,reward,who\n" + rows.encode() + b"\xff\xfe,0.0,a\n")
    source = table(path, features=["x"], episode="who", batch=500)
    with pytest.raises(inferl.errors.DataError, match="row 3001"):
        list(source)
    assert source.rows == 3000


@given(rows=logs(), next_column=st.booleans())
def test_a_stream_holds_one_episode_at_a_time(rows: list[Row], next_column: bool) -> None:
    chunk = all_of(log_of(rows, next_column))
    if chunk is None:
        return
    assert chunk.episode is not None
    holder: dict[int, int] = {}
    for label, stream, last in zip(chunk.episode.tolist(), chunk.stream.tolist(), chunk.last.tolist(), strict=True):
        assert holder.setdefault(stream, label) == label
        if last:
            del holder[stream]


@given(rows=logs(), next_column=st.booleans(), batch=st.integers(1, 40))
def test_contiguous_episodes_need_no_flags(rows: list[Row], next_column: bool, batch: int) -> None:
    """Sorted by episode, without flags of truncation: an episode ends where its label changes."""
    rows = sorted(rows, key=lambda row: row["who"])
    frame = pa.Table.from_pylist([{k: v for k, v in row.items() if k != "truncated"} for row in rows])
    roles: dict[str, Any] = {"features": "x - 1", "episode": "who", "order": "step", "discount": 0.9}
    following = "x2" if next_column else None
    source = table(frame, **roles, next_features=following, batch=batch)
    final = rows[-1]["who"]
    for row in rows:
        if row["who"] != final:  # all but the last episode, which may go on, are over
            row["truncated"] = not row["terminated"]
        else:
            row["truncated"] = False
    ends = {row["who"]: row for row in rows}
    for row in rows:
        row["truncated"] = row["truncated"] and row is ends[row["who"]]
    expected = [path for path in by_loops(rows, next_column).values() if path]
    chunk = all_of(source)
    assert paths(chunk) == expected
    assert chunk is None or (chunk.stream == 0).all()
    assert source.start().number == len(ends)
    assert np.asarray(source.start()).tolist() == [
        sum(row["x"] for row in rows if row["step"] == 0) / len(ends)  # whole numbers: exact
    ]


@given(rows=logs(), next_column=st.booleans(), batch=st.integers(1, 12), stop=st.integers(0, 8))
def test_resumed_at_any_chunk(rows: list[Row], next_column: bool, batch: int, stop: int) -> None:
    whole = all_of(log_of(rows, next_column))
    source = log_of(rows, next_column, batch)
    chunks = list(islice(source, stop))
    if stop and len(chunks) == stop:
        again = log_of(rows, next_column, batch=3).resume(source.position)
        chunks += list(again)
        assert whole is not None
        assert same(Transitions.join(chunks), whole)
        assert again.start().number == len({row["who"] for row in rows})


@pytest.mark.parametrize("form", [form for form in FORMATS if form != "pyarrow"])
def test_a_log_of_any_format_is_resumed(form: str, tmp_path: Path) -> None:
    log = FORMATS[form](pa.table(LOG), tmp_path / "log")
    options: dict[str, Any] = {"features": ["pulse"], "episode": "patient", "batch": 2}
    whole = joined(table(log, **options))
    source = table(log, **options)
    chunks = [next(iter(source))]
    chunks += list(table(log, **options).resume(source.position))
    assert same(Transitions.join(chunks), whole)


def test_streams_that_run_side_by_side() -> None:
    """Two environments, stepped in turn: each is a stream, whatever its episodes are called."""
    frame = pa.table(
        {
            "env": ["left", "right"] * 4,
            "x": [0.0, 10.0, 1.0, 11.0, 2.0, 12.0, 3.0, 13.0],
            "reward": [0.0] * 8,
            "terminated": [0, 0, 1, 0, 0, 1, 0, 0],
        }
    )
    for batch in (1, 3, 100):
        chunk = joined(table(frame, features="x - 1", stream="env", batch=batch))
        order = np.lexsort((chunk.features[:, 0], chunk.stream))
        assert chunk.stream[order].tolist() == [0, 0, 0, 1, 1, 1]
        assert chunk.features[order, 0].tolist() == [0.0, 1.0, 2.0, 10.0, 11.0, 12.0]
        assert chunk.next_features[order, 0].tolist() == [1.0, 1.0, 3.0, 11.0, 12.0, 12.0]
        assert same(chunk, joined(table(frame, features="x - 1", stream="env")))


def test_traces_are_right_when_episodes_are_interleaved() -> None:
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 9, size=60)
    who = np.repeat(np.arange(60), lengths)
    n = len(who)
    step = np.concatenate([np.arange(length) for length in lengths])
    ends = step == lengths[who] - 1
    states, rewards = rng.integers(3, size=n), rng.normal(size=n)
    frame = pandas.DataFrame({"who": who, "t": step, "reward": rewards, "s": states, "terminated": ends})
    active = np.argsort(step + 0.9 * rng.random(60)[who] + who // 4 * 3, kind="stable")  # a few are open at a time
    mixed = frame.iloc[active]
    assert (np.diff(mixed["who"].to_numpy()) != 0).mean() > 0.5
    options: dict[str, Any] = {"state": "s", "n_states": 3, "episode": "who", "order": "t"}
    together = table(mixed, **options)
    apart = table(frame, **options)
    algorithm = inferl.TD(3, trace=0.8)
    one, other = inferl.Evaluator(algorithm).update(together), inferl.Evaluator(algorithm).update(apart)
    assert np.allclose(one.estimate(np.eye(3)), other.estimate(np.eye(3)), rtol=1e-10)
    assert one.episodes == other.episodes == 60
    assert np.asarray(together.start()).tolist() == np.asarray(apart.start()).tolist()


def test_each_iteration_reads_the_log_anew() -> None:
    source = table(pa.table(LOG), features=["pulse"], episode="patient")
    assert repr(source) == "Table(the pyarrow Table, not read yet)"
    assert same(joined(source), joined(source))
    assert repr(source) == "Table(the pyarrow Table, 6 rows read)"
    assert source.rows == 6
    assert source.start().number == 3


def test_a_complete_log_has_nothing_more() -> None:
    source = table(pa.table(LOG), features=["pulse"], episode="patient")
    list(source)
    again = source.resume(source.position)
    assert list(again) == []
    assert again.rows == 6


def test_large_logs_are_read_in_little_memory(tmp_path: Path) -> None:
    """Twenty times the rows, the same memory to within 40 MB; the longer log alone takes 240 MB once decoded."""
    script = """
import resource, sys, inferl
log = inferl.sources.table(sys.argv[1], state="s", n_states=9, episode="e", order="t", ratio="w")
print(sum(len(chunk) for chunk in log), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""
    memory = []
    for n in (250_000, 5_000_000):
        i = np.arange(250_000)
        block = {
            "s": i % 9,
            "e": i // 50,
            "t": i % 50,
            "reward": i % 3 * 1.0,
            "w": i % 5 * 0.5,
            "terminated": i % 50 == 49,
        }
        path = tmp_path / "log.parquet"
        with parquet.ParquetWriter(path, pa.table(block).schema) as writer:
            for start in range(0, n, len(i)):
                writer.write_table(pa.table(block | {"e": (start + i) // 50}))
        done = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True)
        rows, peak = map(int, done.stdout.split())
        assert rows == n
        memory.append(peak)
    assert memory[1] - memory[0] < 40


def test_labels_that_count_from_0_in_every_file_are_not_joined_silently(tmp_path: Path) -> None:
    """Without an order and without ends, they look like mixed episodes."""
    files = []
    for day in range(3):
        rows = {"episode": np.repeat(np.arange(5), 4), "step": np.tile(np.arange(4), 5), "reward": np.ones(20)}
        files.append(tmp_path / f"{day}.parquet")
        parquet.write_table(pa.table(rows), files[-1])
    log = table(files, episodes_end=True, discount=0.9)
    evaluator = inferl.Evaluator(inferl.DoublyRobust(1)).update(log)
    assert [check.name for check in log.checks() if check.failed] == ["labels"]
    assert any(note.startswith("labels: rows of several episodes are mixed") for note in evaluator.interval().notes)
    with pytest.raises(inferl.errors.DataError, match="out of order"):  # with an order, they are refused
        list(table(files, episodes_end=True, order="step"))
