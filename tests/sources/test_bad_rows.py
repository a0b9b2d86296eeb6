"""Bad rows of a log: each is named with log, row, column, value and remedy; what came before it is kept."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import csv as arrow_csv

import inferl
from inferl.data.transitions import Transitions
from inferl.errors import DataError, InferlError
from inferl.sources import Table, table
from inferl.sources.logs.episodes.arrangement import arranged

N = 8
BAD = 5  # the row that is spoiled, counted from 1


def log(**spoiled: Any) -> pa.Table:
    """Eight rows, two episodes of four; a keyword puts its value into row 5, the first of the second episode."""
    columns: dict[str, list[Any]] = {
        "x": [float(i) for i in range(N)],
        "y": [0.5] * N,
        "v": [[1.0, 2.0]] * N,
        "s": [i % 3 for i in range(N)],
        "reward": [1.0] * N,
        "who": [7] * 4 + [8] * 4,
        "t": [0, 1, 2, 3] * 2,
        "terminated": [False, False, False, True] * 2,
        "p": [0.5] * N,
        "q": [0.25] * N,
        "lp": [-1.0] * N,
        "w": [1.0] * N,
        "zero": [0.0] * N,
    }
    for name, value in spoiled.items():
        columns[name][BAD - 1] = value
    return pa.table(columns)


ROLES: dict[str, Any] = {"features": ["x"], "episode": "who", "order": "t"}


def read(source: Table) -> tuple[list[Transitions], str]:
    """Read as far as it goes; return the chunks, and what was said of the bad row."""
    chunks: list[Transitions] = []
    with pytest.raises(DataError) as caught:
        chunks.extend(source)  # those before the bad row are in the list by then
    return chunks, str(caught.value)


def written(frame: pa.Table, path: Path) -> Path:
    if path.suffix == ".csv":
        arrow_csv.write_csv(frame, path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in frame.to_pylist()))
    return path


VALUES = [
    ({"reward": float("nan")}, {}, "column 'reward': nan is not a finite number; repair or drop the row"),
    ({"reward": None}, {}, "column 'reward': null is not a finite number"),
    ({"x": float("inf")}, {}, "column 'x': inf is not a finite number"),
    ({"y": float("nan")}, {"next_features": ["y"]}, "column 'y': nan is not a finite number"),
    ({"v": [1.0]}, {"features": "v"}, r"column 'v': \[1.0\] is no vector of 2 numbers, as the first row has"),
    ({"v": None}, {"features": "v"}, "column 'v': null is no vector of 2 numbers"),
    ({"v": [1.0, float("inf")]}, {"features": "v"}, r"column 'v': \[1.0, inf\] has entries that are not finite"),
    (
        {"s": 3},
        {"features": None, "state": "s", "n_states": 3},
        "column 's': 3 is no state of the table of 3; states are 0 to 2; enlarge",
    ),
    ({"s": -1}, {"features": None, "state": "s", "n_states": 3}, "column 's': -1 is no state"),
    ({"s": None}, {"features": None, "state": "s", "n_states": 3}, "column 's': null is no state"),
    ({"x": 0.5}, {"features": None, "state": "x", "n_states": 9}, "column 'x': 0.5 is no state"),
    ({"terminated": None}, {}, "column 'terminated': null is neither true nor false; write 0 or 1"),
    ({"zero": 2.0}, {"truncated": "zero"}, "column 'zero': 2.0 is neither true nor false"),
    ({"t": None}, {}, "column 't': null is not a finite number"),
    ({"who": None}, {}, "column 'who': null is no label"),
    (
        {"p": -0.7},
        {"behaviour_probability": "p", "target_probability": "q"},
        "column 'p': -0.7 is negative, as a log-probability is and a probability is not; "
        "name the column behaviour_log_probability",
    ),
    (
        {"p": 1.5},
        {"behaviour_probability": "p", "target_probability": "q"},
        "column 'p': 1.5 is above 1, so it is no probability; for densities give logarithms",
    ),
    (
        {"q": -2.5},
        {"behaviour_probability": "p", "target_probability": "q"},
        "column 'q': -2.5 is negative, as a log-probability is .* name the column target_log_probability",
    ),
    (
        {"p": 0.0},
        {"behaviour_probability": "p", "target_probability": "q"},
        "column 'p': 0.0 says that the action was impossible; an action that was taken had a chance",
    ),
    (
        {"lp": float("-inf")},
        {"behaviour_log_probability": "lp", "target_probability": "q"},
        "column 'lp': -inf says that the action was impossible",
    ),
    (
        {"lp": float("nan")},
        {"behaviour_log_probability": "lp", "target_probability": "q"},
        "column 'lp': nan is no log-probability",
    ),
    (
        {"lp": -1e4},
        {"behaviour_log_probability": "lp", "target_probability": "q"},
        "column 'q': inf is the ratio to the behaviour's probability; check both columns",
    ),
    ({"p": None}, {"behaviour_probability": "p", "target_probability": "q"}, "column 'p': null is not a number"),
    ({"w": -1.0}, {"ratio": "w"}, "column 'w': -1.0 is negative; a ratio .* was a log-ratio passed?"),
    ({"w": float("inf")}, {"ratio": "w"}, "column 'w': inf is not a finite number"),
]


@pytest.mark.parametrize(("spoiled", "roles", "words"), VALUES)
def test_a_bad_value_is_named_and_what_came_before_is_kept(
    spoiled: dict[str, Any], roles: dict[str, Any], words: str
) -> None:
    source = table(log(**spoiled), **(ROLES | roles))
    chunks, message = read(source)
    assert re.search(rf"the pyarrow Table, row 5, {words}", message), message
    assert sum(map(len, chunks)) == source.rows == 4


@pytest.mark.parametrize(("spoiled", "roles", "words"), VALUES)
def test_a_bad_row_is_skipped_and_counted(spoiled: dict[str, Any], roles: dict[str, Any], words: str) -> None:
    """Row 5 begins the second episode: its three other rows remain."""
    source = table(log(**spoiled), **(ROLES | roles), skip_bad=1)
    assert sum(len(chunk) for chunk in source) == 7
    assert (source.skipped, source.rows, source.dropped) == (1, 8, 0)
    assert source.start().number == (
        2 if "who" in spoiled else 1
    )  # where an episode's first row is bad, no start is seen
    assert re.search(words, source.describe()["bad rows skipped"])


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_text_where_a_number_should_be(suffix: str, tmp_path: Path) -> None:
    path = written(log().drop_columns(["v"]), tmp_path / f"log{suffix}")
    lines = path.read_text().splitlines()
    bad = BAD if suffix == ".csv" else BAD - 1
    lines[bad] = lines[bad].replace("0.25", '"much"' if suffix == ".jsonl" else "much")
    path.write_text("\n".join(lines))
    options = {**ROLES, "behaviour_probability": "p", "target_probability": "q"}
    _, message = read(table(path, **options))
    assert message == (
        f"{path}, row 5, column 'q': 'much' is not a number; repair or drop the row, or go on over it with skip_bad"
    )
    source = table(path, **options, skip_bad=1)
    assert sum(len(chunk) for chunk in source) == 7


@pytest.mark.parametrize(
    ("suffix", "line", "words"),
    [
        (".csv", "4.0,0.5", "row 5: '4.0,0.5' is not a row: it has 2 fields, the header 5; repair or drop the row"),
        (".csv", '4.0,"8,0,1.0', "row 5: .* is not a row"),
        (".jsonl", '{"x": 4.0, "who', "row 5: .* is not a row"),
        (".jsonl", "[4.0]", r"row 5: '\[4.0\]' is not a row \(a line holds an object"),
    ],
)
def test_a_line_that_is_no_row(suffix: str, line: str, words: str, tmp_path: Path) -> None:
    frame = log().drop_columns(["v", "y", "s", "p", "q", "lp", "w", "terminated"])
    path = written(frame, tmp_path / f"log{suffix}")
    lines = path.read_text().splitlines()
    lines[BAD if suffix == ".csv" else BAD - 1] = line
    path.write_text("\n".join(lines) + "\n\n")  # an empty line is nothing
    for batch in (3, 100):
        chunks, message = read(table(path, **ROLES, batch=batch))
        assert re.search(words, message), message
        assert sum(map(len, chunks)) == 2  # the fourth row waits for the one that follows
        source = table(path, **ROLES, batch=batch, skip_bad=1)
        assert sum(len(chunk) for chunk in source) == 3 + 2
        assert (source.skipped, source.dropped) == (1, 2)
    header = len(lines) - N
    mixed = [lines[header + i] for i in (0, 5, 1, 6, 4, 2, 7, 3)]
    path.write_text("\n".join(lines[:header] + mixed) + "\n")
    with pytest.raises(DataError, match="row 5"):  # it could belong to any episode
        list(table(path, **ROLES, skip_bad=1))


ORDER = [
    ([0, 1, 1, 2], "row 3, column 't': 1 is there twice, after 1 in row 2 of episode 1; drop the copy", 1),
    ([0, 2, 1, 3], "row 2, column 't': 2 leaves rows out, after 0 in row 1 of episode 1; restore the missing rows", 2),
    ([1, 2, 0, 3], "row 3, column 't': 0 is out of order, after 2 in row 2 of episode 1; sort the log", 1),
    ([0, 1, 5, 6], "row 3, column 't': 5 leaves rows out, after 1 in row 2 of episode 1", 1),
]


@pytest.mark.parametrize("batch", [1, 2, 100])
@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize(("order", "words", "faults"), ORDER)
def test_rows_that_are_out_of_order_or_there_twice_or_missing(
    order: list[int], words: str, faults: int, mixed: bool, batch: int
) -> None:
    episodes = [1] * 4
    if mixed:  # with rows of another episode before and after
        episodes, order = [2, *episodes, 2], [0, *order, 1]
        words = re.sub(r"row (\d+)", lambda row: f"row {int(row[1]) + 1}", words)
    frame = pa.table({"x": np.arange(len(order)) * 1.0, "reward": [0.0] * len(order), "e": episodes, "t": order})
    options: dict[str, Any] = {"features": "x", "episode": "e", "order": "t", "batch": batch}
    _, message = read(table(frame, **options))
    assert re.search(f"the pyarrow Table, {words}", message), message
    source = table(frame, **options, skip_bad=faults)
    list(source)
    assert source.skipped == faults
    assert ("episodes" in source.describe()) == mixed
    with pytest.raises(DataError, match=f"^{faults - 1} bad rows were skipped" if faults > 1 else "row"):
        list(table(frame, **options, skip_bad=faults - 1))


def test_what_is_left_when_rows_out_of_order_are_skipped() -> None:
    def left(order: list[Any], **options: Any) -> list[tuple[float, float]]:
        frame = pa.table({"x": [float(i) for i in range(len(order))], "reward": [0.0] * len(order), "t": order})
        chunks = list(table(frame, features="x - 1", order="t", **options))
        return [(x, y) for c in chunks for x, y in zip(c.features[:, 0], c.next_features[:, 0], strict=True)]

    assert left([0, 1, 1, 2], skip_bad=1) == [(0, 1), (1, 3)]  # the copy is as if it were not there
    assert left([1, 2, 0, 3], skip_bad=1) == [(0, 1), (1, 3)]
    assert left([0, 1, 5, 6], skip_bad=1) == [(0, 1), (2, 3)]  # no transition leads across the gap
    assert left([0, 1, 5, 6], gaps=True) == [(0, 1), (1, 2), (2, 3)]
    assert left([0.0, 0.1, 0.5, 0.6]) == [(0, 1), (1, 2), (2, 3)]  # fractions are times, and do not count steps
    times = ["2024-01-01 00:00", "2024-01-01 00:05", "2024-01-01 07:00"]
    assert left(times) == [(0, 1), (1, 2)]
    with pytest.raises(DataError, match="row 3, column 't': '2024-01-01 00:05' is there twice, after row 2; drop"):
        left([*times[:2], times[1]])


def test_misplaced_rows_are_found_in_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many there are, a batch is arranged once to look for them, and once without them."""
    n, calls = 3000, []

    def counted(waiting: Any, new: Any, *others: Any) -> Any:
        calls.append(len(new))
        return arranged(waiting, new, *others)

    monkeypatch.setattr("inferl.sources.logs.episodes.pairing.arranged", counted)
    order = np.arange(n) - 3 * (np.arange(n) % 3 == 2)  # every third row is out of order
    frame = pa.table({"x": np.arange(n) * 1.0, "reward": [0.0] * n, "t": order})
    source = table(frame, features="x", order="t", gaps=True, skip_bad=n)
    assert sum(len(chunk) for chunk in source) == 2 * n // 3 - 1
    assert source.skipped == n // 3
    assert calls == [n, 2 * n // 3]


def test_an_episode_that_comes_back() -> None:
    """Its rows are mixed with those of others, unless the log is read once and says nothing about ends."""
    frame = pa.table({"x": [0.0] * 5, "reward": [0.0] * 5, "e": ["a", "a", "b", "a", "b"]})
    source = table(frame, features=["x"], episode="e")
    assert sum(len(chunk) for chunk in source) == 3
    assert source.describe()["episodes"] == "mixed in order of time, at most 2 open at once"
    _, message = read(table(frame.to_reader(), features=["x"], episode="e"))
    assert message == (
        "the pyarrow RecordBatchReader, row 4, column 'e': 'a' comes back after other episodes; give each episode its "
        "own label or, if rows are mixed, evaluate the log from its beginning, as a file and not as a pipe, or say "
        "where episodes end: terminated, truncated or idle_timeout"
    )
    flagged = frame.append_column("truncated", pa.array([0, 0, 0, 1, 0]))
    assert sum(len(chunk) for chunk in table(flagged.to_reader(), features=["x"], episode="e")) == 3


@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("batch", [1, 2, 100])
def test_an_episode_that_goes_on_after_its_end(batch: int, mixed: bool) -> None:
    episodes = [2, 1, 1, 1, 2] if mixed else [1, 1, 1, 2]
    ends = [0, 0, 1, 0, 0] if mixed else [0, 1, 0, 0]
    n = len(ends)
    frame = pa.table({"x": [0.0] * n, "reward": [0.0] * n, "e": episodes, "terminated": ends})
    options: dict[str, Any] = {"features": ["x"], "episode": "e", "batch": batch}
    chunks, message = read(table(frame, **options))
    assert re.search(f"row {n - 1}, column 'e': 1 comes back after it ended, or after others; check", message), message
    assert sum(map(len, chunks)) == 2
    source = table(frame, **options, skip_bad=1)
    assert (sum(len(chunk) for chunk in source), source.skipped, source.dropped) == (2 + mixed, 1, 1)


@pytest.mark.parametrize("batch", [1, 2, 100])
def test_a_label_comes_back_that_ended_before_rows_were_mixed(batch: int) -> None:
    """As where files that count from 1 follow each other, and the last episode of the first has no end."""
    episodes, ends = [1, 1, 2, 3, 1, 1, 2, 3], [0, 1, 1, 0, 0, 1, 1, 1]
    frame = pa.table({"x": [0.0] * 8, "reward": [0.0] * 8, "e": episodes, "terminated": ends})
    _, message = read(table(frame, features=["x"], episode="e", batch=batch))
    assert "row 5, column 'e': 1 comes back after it ended, or after others" in message


def test_labels_are_remembered_for_a_while_only() -> None:
    """A label may be used again after 4096 other episodes: no log is remembered as a whole."""
    n = 2 * 4097
    frame = pa.table({"x": [0.0] * n, "reward": [0.0] * n, "e": np.arange(n) % 4097, "terminated": [1] * n})
    for batch in (100, 65536):
        assert sum(len(chunk) for chunk in table(frame, features="x", episode="e", batch=batch)) == n
    frame = pa.table({"x": [0.0] * n, "reward": [0.0] * n, "e": np.arange(n) % 4096, "terminated": [1] * n})
    for batch in (100, 65536):
        _, message = read(table(frame, features="x", episode="e", batch=batch))
        assert "row 4097, column 'e': 0 comes back" in message


def test_any_number_of_episodes_may_be_open_at_once() -> None:
    """A log in order of time: every user is seen once, then once more."""
    n = 20_000
    frame = pa.table({"x": [0.0] * 2 * n, "reward": [0.0] * 2 * n, "e": np.arange(2 * n) % n})
    chunks = list(table(frame, features="x", episode="e"))
    assert sum(len(chunk) for chunk in chunks) == n
    assert len(np.unique(np.concatenate([chunk.stream for chunk in chunks]))) == n


@pytest.mark.parametrize("batch", [1000, 65536])
def test_a_label_comes_back_long_after_its_episode_began(batch: int) -> None:
    """It is remembered from the end of the episode on, however many have begun since its beginning."""
    n = 6000
    episodes = np.concatenate([np.arange(n), np.arange(n), [0]])
    ends = np.concatenate([np.zeros(n), np.arange(n) < 4000, [0]]).astype(bool)
    frame = pa.table({"x": np.zeros(2 * n + 1), "reward": np.zeros(2 * n + 1), "e": episodes, "terminated": ends})
    _, message = read(table(frame, features=["x"], episode="e", batch=batch))
    assert "row 12001, column 'e': 0 comes back after it ended" in message


def test_a_label_that_cannot_be_read_is_never_skipped_among_several_episodes() -> None:
    mixed = log().take([0, 4, 1, 5, 2, 6, 3, 7])
    who = mixed["who"].to_pylist()
    spoiled = mixed.set_column(mixed.column_names.index("who"), "who", pa.array([*who[:5], None, *who[6:]]))
    for frame, options in ((spoiled, {}), (log(w=None), {"stream": "w"})):
        for batch in (2, 100):
            with pytest.raises(DataError, match="it cannot be skipped"):
                list(table(frame, **(ROLES | options), skip_bad=5, batch=batch))


def test_a_target_policy_that_gives_no_probability() -> None:
    frame = pa.table({"s": [0, 1], "reward": [0.0, 0.0], "action": [0, 5], "p": [0.5, 0.5]})
    options: dict[str, Any] = {"state": "s", "n_states": 2, "behaviour_probability": "p"}
    with pytest.raises(DataError, match="row 2, column 'action': 5 is no action of the target policy, which has 2"):
        list(table(frame, **options, policy=[[0.5, 0.5]] * 2))
    with pytest.raises(DataError, match=r"row 1, column 'action': 2.0 is no probability, and the target policy"):
        list(table(frame, **options, policy=lambda s, a: 2.0 + 0.0 * a))


# The evaluator, the position, and many bad rows.


def test_an_evaluator_keeps_what_came_before_and_goes_on_after_the_repair() -> None:
    options: dict[str, Any] = {"state": "s", "n_states": 3, "episode": "who", "order": "t", "batch": 3}
    evaluator = inferl.Evaluator(inferl.TD(3))
    source = table(log(reward=None), **options)
    with pytest.raises(DataError):
        evaluator.update(source)
    assert evaluator.n == 4
    evaluator.update(table(log(), **options).resume(source.position))
    whole = inferl.Evaluator(inferl.TD(3)).update(table(log(), **options))
    assert evaluator.n == whole.n == 8
    assert evaluator.estimate(0) == whole.estimate(0)


@st.composite
def spoiled_logs(draw: st.DrawFn) -> tuple[list[dict[str, Any]], bool]:
    rows: list[dict[str, Any]] = []
    for episode, length in enumerate(draw(st.lists(st.integers(1, 5), min_size=1, max_size=5))):
        for step in range(length):
            reward = draw(st.sampled_from([1.0, 1.0, 1.0, None]))
            ends = step == length - 1
            rows.append({"x": float(len(rows)), "e": episode, "t": step, "reward": reward, "terminated": ends})
            if draw(st.booleans()) and draw(st.booleans()):
                rows.append(rows[-1] | {"x": -1.0})  # a copy
    return rows, draw(st.booleans())


@given(drawn=spoiled_logs(), batch=st.integers(1, 20), allowed=st.integers(0, 4))
def test_skipping_does_not_depend_on_batches(
    drawn: tuple[list[dict[str, Any]], bool], batch: int, allowed: int
) -> None:
    rows, ordered = drawn
    names = {"x": "f8", "e": "i8", "t": "i8", "reward": "f8", "terminated": "bool"}
    frame = pa.Table.from_pylist(rows, pa.schema(names))
    options: dict[str, Any] = {"features": "x - 1", "episode": "e", "skip_bad": allowed}
    options["order"] = "t" if ordered else None
    answers = []
    for size in (batch, 1000):
        source = table(frame, **options, batch=size)
        found: list[tuple[float, ...]] = []
        message = ""
        try:
            for c in source:
                columns = (c.features[:, 0], c.next_features[:, 0], c.discounts, c.last, c.episode)
                found += zip(*(np.asarray(column).tolist() for column in columns), strict=True)
        except DataError as error:
            message = str(error)
        answers.append((found, message, source.skipped, source.dropped, source.rows, source.start().number))
    assert answers[0] == answers[1]
    for x, y, discount, *_ in answers[1][0] if ordered else ():
        assert rows[int(x)]["reward"] is not None
        assert discount == 0 or (rows[int(y)]["e"], rows[int(y)]["t"]) == (rows[int(x)]["e"], rows[int(x)]["t"] + 1)


def test_names_that_are_no_text_make_a_bad_row(tmp_path: Path) -> None:
    """Found by the fuzzer of readers: Arrow parses the line, and cannot say the name of its field."""
    path = tmp_path / "log.jsonl"
    sound, odd = b'{"x": 1, "e": 0, "reward": 2}\n', b'{"x": 1, "e": 0, "\xf2y": 3, "reward": 2}\n'
    path.write_bytes(sound + odd + sound)
    with pytest.raises(DataError, match="row 2"):
        list(table(path, features="x", episode="e", reward="reward", episodes_end=True))


@pytest.mark.parametrize("column", ['"x": 1, "\\ud800": 3', '"x": "\\udc00"', '"x": 1, "who": "\\ud83d"'])
def test_half_a_pair_of_surrogates_makes_a_bad_row(column: str, tmp_path: Path) -> None:
    """Found by the fuzzer of the service: it is JSON, and no text in any encoding."""
    path = tmp_path / "log.jsonl"
    sound = '{"x": 1, "e": 0, "reward": 2, "who": "\\ud83d\\ude00"}\n'
    path.write_text(sound + f'{{{column}, "e": 0, "reward": 2}}\n' + sound)
    with pytest.raises(DataError, match="row 2"):
        list(table(path, features="x", episode="e", reward="reward", episodes_end=True))


def test_months_are_no_labels() -> None:
    """Found by the fuzzer of readers: Arrow writes no text for a calendar interval."""
    months = pa.array([pa.MonthDayNano([1, 0, 0]), pa.MonthDayNano([2, 0, 0])])
    frame = pa.table({"x": [1.0, 2.0], "reward": [1.0, 2.0], "who": months})
    with pytest.raises(InferlError, match="who"):
        list(table(frame, features="x", reward="reward", episode="who", episodes_end=True))
