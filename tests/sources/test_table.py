"""Logs: every format gives the same transitions, columns are recognised, settings are checked."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from logs import FORMATS, LOG, joined, same, write_parquet
from pyarrow import csv

from inferl import DoublyRobust, Evaluator, Transitions
from inferl.errors import CheckpointMismatchError, DataError, MissingExtraError, SettingError, TargetError
from inferl.features import OneHot
from inferl.sources import Table, table
from inferl.sources.logs.values import times


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("batch", [2, 100])
def test_every_format_gives_the_same_transitions(form: str, batch: int, tmp_path: Path) -> None:
    source = table(
        FORMATS[form](pa.table(LOG), tmp_path / "log"),
        features=["pulse", "pressure"],
        episode="patient",
        order="hour",
        behaviour_probability="p",
        target_probability="q",
        discount=0.9,
        batch=batch,
    )
    chunk = joined(source)
    assert (chunk.features[:, 0] == 1).all()  # the intercept
    assert (chunk.next_features[:, 0] == 1).all()
    assert chunk.features[:, 1:].tolist() == [[0.5, 1.0], [0.25, 2.0], [0.125, 3.0], [1.5, 4.0], [3.0, 6.0]]
    assert chunk.next_features[:, 1:].tolist() == [[0.25, 2.0], [0.125, 3.0], [0.125, 3.0], [1.25, 5.0], [3.0, 6.0]]
    assert chunk.rewards.tolist() == [0.0, 0.5, 1.0, -1.0, 0.75]
    assert chunk.discounts.tolist() == [0.9, 0.9, 0.0, 0.9, 0.0]
    assert chunk.ratios.tolist() == [2.0, 0.5, 2.0, 0.0, 2.0]
    assert chunk.last.tolist() == [False, False, True, True, True]
    assert chunk.episode is not None
    assert chunk.episode.tolist() == [0, 0, 0, 1, 2]
    assert chunk.stream.tolist() == [0] * 5
    assert (source.rows, source.dropped, source.skipped, source.clipped) == (6, 1, 0, 0)
    assert np.asarray(source.start()).tolist() == [1.0, 5.0 / 3.0, 11.0 / 3.0]
    assert source.start().text == "the 3 observed starts"


@pytest.mark.parametrize("form", FORMATS)
def test_states_of_a_table(form: str, tmp_path: Path) -> None:
    source = table(FORMATS[form](pa.table(LOG), tmp_path / "log"), state="state", n_states=4, episode="patient")
    chunk = joined(source)
    assert chunk.tabular
    assert chunk.features.tolist() == [0, 1, 2, 3, 1]
    assert chunk.next_features.tolist() == [1, 2, 2, 0, 1]
    assert np.asarray(source.start()).tolist() == [1 / 3, 1 / 3, 0, 1 / 3]
    assert source.dimension == 4


@pytest.mark.parametrize("form", [form for form in FORMATS if "csv" not in form])
def test_vectors_in_one_column(form: str, tmp_path: Path) -> None:
    vectors = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
    frame = pa.table({"x": vectors, "reward": [0.0, 1.0, 2.0]})
    chunk = joined(table(FORMATS[form](frame, tmp_path / "log"), features="x"))
    assert chunk.features.tolist() == vectors[:2]
    assert chunk.next_features.tolist() == vectors[1:]


def test_vectors_as_text_in_csv(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text('x,reward\n"[1, 2]",0\n"[3, 4]",1\n')
    assert joined(table(path, features="x")).features.tolist() == [[1.0, 2.0]]


@pytest.mark.parametrize("kind", [pa.list_(pa.float32(), 2), pa.large_list(pa.int8()), pa.list_(pa.float64())])
def test_kinds_of_lists(kind: pa.DataType) -> None:
    frame = pa.table({"x": pa.array([[1, 2], [3, 4], [5, 6]], kind), "reward": [0.0, 1.0, 2.0]})
    assert joined(table(frame.slice(1), features="x")).features.tolist() == [[3.0, 4.0]]


def test_kinds_of_columns() -> None:
    frame = pa.table(
        {
            "x": pa.array([1, 2, 3], pa.decimal128(5, 2)),
            "r": pa.array([1, 2, 3], pa.uint8()),
            "who": pa.array(["a", "a", "b"]).dictionary_encode(),
            "when": pa.array([1, 2, 9], pa.timestamp("s")),
            "end": pa.array([0.0, 1.0, 1.0], pa.float32()),
        }
    )
    source = table(frame, features="x", reward="r", episode="who", order="when", terminated="end")
    assert joined(source).discounts.tolist() == [0.99, 0.0, 0.0]


@pytest.mark.parametrize("form", ["csv", "jsonl", "arrow stream"])
def test_standard_input(form: str, tmp_path: Path) -> None:
    path = FORMATS[form](pa.table(LOG), tmp_path / "log")
    script = (
        "import inferl; log = inferl.sources.table('-', features=['pulse'], episode='patient', batch=2);"
        "print(sum(len(chunk) for chunk in log), log.rows, log.name)"
    )
    with path.open("rb") as file:
        cat = subprocess.Popen(["cat"], stdin=file, stdout=subprocess.PIPE)  # a pipe, which cannot seek
        done = subprocess.run([sys.executable, "-c", script], stdin=cat.stdout, capture_output=True, text=True)
        cat.communicate()
    assert done.stdout == "5 6 standard input\n", done.stderr


def test_what_can_be_read_twice(tmp_path: Path) -> None:
    frame = pa.table(LOG)
    assert table(frame, features="state").rereadable
    assert table(write_parquet(frame, tmp_path / "log"), features="state").rereadable
    for once in ("-", frame.to_reader(), iter([frame])):
        assert not table(once, features="state").rereadable


# Names.


def test_names_of_rllib_are_recognised() -> None:
    frame = pa.table(
        {
            "eps_id": [5, 5, 6],
            "t": [0, 1, 0],
            "obs": [[1.0], [2.0], [3.0]],
            "new_obs": [[2.0], [9.0], [4.0]],
            "actions": [0, 1, 0],
            "rewards": [1.0, 2.0, 3.0],
            "terminateds": [False, True, False],
            "truncateds": [False, False, True],
            "action_prob": [0.5, 0.5, 0.5],
            "action_logp": np.log([0.5, 0.5, 0.5]),
            "q": [0.25, 0.5, 1.0],
        }
    )
    chunk = joined(table(frame, target_probability="q"))
    assert chunk.features.tolist() == [[1.0], [2.0], [3.0]]
    assert chunk.next_features.tolist() == [[2.0], [2.0], [4.0]]
    assert chunk.discounts.tolist() == [0.99, 0.0, 0.99]
    assert chunk.last.tolist() == [False, True, True]
    assert np.allclose(chunk.ratios, [0.5, 1.0, 2.0])
    assert (joined(table(frame)).ratios == 1).all()  # on-policy: nobody asks for the behaviour's probabilities


def test_names_of_d4rl_are_recognised() -> None:
    frame = pa.table(
        {
            "observations": [[1.0], [2.0], [3.0]],
            "next_observations": [[2.0], [9.0], [4.0]],
            "rewards": [1.0, 2.0, 3.0],
            "terminals": [0, 1, 0],
            "timeouts": [0, 0, 0],
            "infos/action_log_probs": [-1.0, -2.0, 0.5],
            "target": [-1.0, -1.0, 0.5],
        }
    )
    chunk = joined(table(frame, target_log_probability="target"))
    assert chunk.last.tolist() == [False, True, False]
    assert np.allclose(chunk.ratios, [1.0, np.e, 1.0])


def test_names_of_lerobot_are_recognised() -> None:
    frame = pa.table({"episode_index": [1, 1, 2], "frame_index": [0, 1, 0], "x": [0.0, 1.0, 2.0], "reward": [0, 0, 0]})
    chunk = joined(table(frame, features="x"))
    assert len(chunk) == 1


def test_a_column_can_be_said_not_to_be_there() -> None:
    frame = pa.table({"x": [0.0, 1.0, 2.0], "reward": [0.0, 0.0, 0.0], "episode": [3, 2, 1]})
    assert len(joined(table(frame, features="x", episode=None))) == 2
    assert list(table(frame, features="x")) == []


def test_next_features_in_several_columns() -> None:
    frame = pa.table(
        {"x": [0.0, 1.0], "y": [2.0, 3.0], "x2": [4.0, None], "y2": [6.0, 7.0], "r": [0, 1], "end": [0, 1]}
    )
    chunk = joined(table(frame, features=["x", "y"], next_features=["x2", "y2"], reward="r", terminated="end"))
    assert chunk.next_features[:, 1:].tolist() == [[4.0, 6.0], [1.0, 3.0]]  # after a termination nothing need be there
    assert chunk.last.tolist() == [False, True]


# Ratios.


def ratios(**columns: Any) -> Table:
    data = {name: values for name, values in columns.items() if isinstance(values, list)}
    roles = {"p": "behaviour_probability", "lp": "behaviour_log_probability", "q": "target_probability"}
    roles |= {"lq": "target_log_probability", "w": "ratio"}
    named: dict[str, Any] = {roles[name]: name for name in data}
    n = len(next(iter(data.values())))
    options = {name: value for name, value in columns.items() if name not in data}
    frame = pa.table({"x": [0.0] * n, "y": [0.0] * n, "reward": [0.0] * n, **data})
    return table(frame, features="x", next_features="y", **(named | options))


def test_probabilities_and_their_logarithms_can_be_mixed() -> None:
    p, q = [0.5, 0.25], [0.25, 0.0]
    with np.errstate(divide="ignore"):
        lp, lq = np.log(p).tolist(), np.log(q).tolist()
    for columns in ({"p": p, "q": q}, {"lp": lp, "q": q}, {"p": p, "lq": lq}, {"lp": lp, "lq": lq}, {"w": [0.5, 0.0]}):
        assert np.allclose(joined(ratios(**columns)).ratios, [0.5, 0.0])


def test_clipped_ratios_are_counted() -> None:
    source = ratios(w=[0.5, 3.0, 2.0, 7.0], clip=2.0)
    assert joined(source).ratios.tolist() == [0.5, 2.0, 2.0, 2.0]
    assert source.clipped == 2
    assert source.describe()["ratios clipped"] == "2 at 2, which biases the estimate"
    with pytest.raises(CheckpointMismatchError, match="has 2 clipped ratios, and this log clips none"):
        ratios(w=[0.5, 3.0, 2.0, 7.0]).resume(source.position)


def test_several_target_policies() -> None:
    frame = pa.table({"x": [0.0, 1.0, 2.0], "reward": [1.0, 1.0, 1.0], "p": [0.5] * 3, "a": [0.5] * 3, "b": [1.0] * 3})
    chunk = joined(table(frame, features="x", behaviour_probability="p", target_probability=["a", "b"]))
    assert chunk.ratios.tolist() == [[1.0, 2.0], [1.0, 2.0]]
    chunk = joined(table(frame, features="x", ratio=["b", "a"]))
    assert chunk.ratios.tolist() == [[1.0, 0.5], [1.0, 0.5]]


def test_a_target_policy_is_asked_about_the_actions() -> None:
    data = {"state": [0, 1, 0], "action": [1, 0, 1], "reward": [0.0] * 3, "p": [0.5] * 3}
    policy = [[0.25, 0.75], [0.5, 0.5]]
    options: dict[str, Any] = {"state": "state", "n_states": 2, "behaviour_probability": "p"}
    chunk = joined(table(pa.table(data), policy=policy, **options))
    assert chunk.ratios.tolist() == [1.5, 1.0]

    def function(states: Any, actions: Any) -> Any:
        return np.asarray(policy)[states, actions]

    assert same(chunk, joined(table(pa.table(data), policy=function, **options)))


def test_without_features_the_value_of_the_starts_is_the_mean_return() -> None:
    """It does not depend on the features, so a constant is enough; the report says so."""
    rng = np.random.default_rng(2)
    episode = np.repeat(np.arange(50), 4)
    data = pa.table({
        "episode": episode, "reward": rng.normal(size=200), "terminated": np.arange(200) % 4 == 3
    })  # fmt: skip
    log = table(data, discount=1)
    interval = Evaluator(DoublyRobust(1)).update(log).interval()
    returns = np.asarray(data["reward"]).reshape(50, 4).sum(axis=1)
    assert interval.estimate == pytest.approx(returns.mean())
    assert interval.standard_error == pytest.approx(returns.std(ddof=1) / np.sqrt(50), rel=0.2)
    assert log.feature_names == ("1",)
    assert log.describe()["features"].startswith("a constant")


# Settings.


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"features": None, "episode": None, "terminated": None, "order": None},
            "say which features to use, with features=, or which columns .*the log has the columns patient, hour",
        ),
        ({"reward": None}, "say which column holds the reward"),
        ({"reward": "pay"}, r"there is no column 'pay' \(reward\); the log has the columns patient"),
        ({"reward": 3}, "reward is 3; expected the name of a column"),
        ({"features": ["state"], "n_states": 4}, "n_states goes with state, the one column that holds"),
        ({"features": "log(patient)"}, "row 1, column 'patient': 'a' is not a finite number"),
        ({"features": "pulse + C(ward"}, r"features 'pulse \+ C\(ward': '\)' should stand at the end"),
        ({"features": "ward"}, r"there is no column 'ward' \(features\); the log has the columns patient"),
        ({"features": 3}, "features is 3; expected a formula such as 'x \\+ C\\(y\\)', or names of columns"),
        ({"features": "0"}, "the formula '0' gives no feature"),
        ({"state": "state"}, "features and state are both given"),
        ({"state": 3, "features": None}, "state is 3; expected the name of a column, or several"),
        ({"features": OneHot(3)}, "features is a map; say of which columns, with state="),
        ({"next_features": ["pulse", "p"]}, "next_features names 2 columns; give one for each of pulse"),
        ({"n_states": 0}, "n_states is 0"),
        ({"discount": 0.0}, r"discount is 0.0; it must lie in \(0, 1\]"),
        ({"discount": 1.0, "terminated": None}, "finite only if episodes terminate, and no column says where"),
        ({"episodes_end": True, "episode": None}, "episodes_end needs the column of the episodes"),
        ({"episodes_end": True, "next_features": "pulse"}, "and no column of next features"),
        ({"clip": 0.0}, "clip is 0.0; it must be positive"),
        ({"skip_bad": -1}, "skip_bad is -1"),
        ({"batch": 0}, "batch is 0"),
        ({"idle_timeout": 60.0, "order": None}, "idle_timeout needs the column of the times"),
        ({"idle_timeout": 0}, "idle_timeout is 0; it must be a positive number of seconds, or a timedelta"),
        ({"idle_timeout": "30m"}, "idle_timeout is '30m'; it must be"),
        ({"behaviour_probability": "p"}, "no target_probability or policy; without both, leave both out"),
        ({"target_probability": "q"}, "target_probability is given, but no behaviour_probability"),
        ({"ratio": "p", "target_probability": "q"}, "ratio is given and so is target_probability"),
        ({"behaviour_probability": "p", "behaviour_log_probability": "q"}, "one is enough"),
        ({"policy": lambda x, a: a, "behaviour_probability": "p"}, "needs the actions"),
        ({"policy": [0.5], "behaviour_probability": "p"}, "expected probabilities"),
    ],
)
def test_settings_that_make_no_sense_are_refused(options: dict[str, Any], words: str) -> None:
    usual = {"features": ["pulse"], "episode": "patient"}
    with pytest.raises((SettingError, ValueError), match=words):
        list(table(pa.table(LOG), **(usual | options)))


def test_a_table_of_a_policy_needs_states() -> None:
    frame = pa.table({"x": [0.5], "reward": [0.0], "action": [0], "p": [0.5]})
    with pytest.raises(SettingError, match="needs features that are states"):
        list(table(frame, features="x", behaviour_probability="p", policy=[[1.0]]))


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("nowhere.csv", None, "there is no file .*nowhere.csv"),
        ("empty.csv", b"", "empty.csv is empty"),
        ("folder", "folder", "there are no files in .*folder"),
        ("log.parquet", b"PAR1 and so on", "log.parquet: .*; it is damaged or cut off: write it again"),
        ("log.arrow", b"ARROW1 and so on", "log.arrow: .*; it is damaged or cut off: write it again"),
        ("numbers.npz", b"\x93NUMPY \xff\xfe", "neither Parquet nor Arrow, and no text"),
        ("log.jsonl", b"{not json}\n", "the first line is no JSON object"),
        ("log.csv", b"x,x,reward\n1,2,3\n", "more than one column 'x'"),
    ],
)
def test_files_that_are_no_logs(name: str, content: bytes | str | None, words: str, tmp_path: Path) -> None:
    path = tmp_path / name
    if content == "folder":
        path.mkdir()
    elif isinstance(content, bytes):
        path.write_bytes(content)
    with pytest.raises((SettingError, DataError), match=words):
        list(table(path, features="x"))


def test_a_file_that_is_cut_off(tmp_path: Path) -> None:
    frame = pa.table({"x": np.random.default_rng(0).random(5000), "reward": np.zeros(5000)})
    path = FORMATS["arrow stream"](frame, tmp_path / "cut.arrow")
    path.write_bytes(path.read_bytes()[:-1500])
    source = table(path, features="x")
    with pytest.raises(DataError, match=r"cut.arrow, after row 49\d\d: .*; it is damaged or cut off"):
        list(source)
    assert source.rows > 4900
    path = FORMATS["csv.gz"](frame, tmp_path / "cut")
    path.write_bytes(path.read_bytes()[:-1500])
    with pytest.raises(DataError, match=r"cut.csv.gz: .*; it is damaged or cut off"):
        list(table(path, features="x"))


@pytest.mark.parametrize("batch", [1, 65536])
@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("log.csv", "x,reward\n1.5,0\n1_000,0\n", r"row 2, column 'x': '1_000' is not a finite number"),
        ("log.csv", "x,reward\n1.5,0\n\u0661,0\n", r"row 2, column 'x': .* is not a finite number"),
        ("log.csv", 'x,reward,c\n1.5,0,a\n2.5,0,"\n3.5,0,"\n', "row 2: .* is not a row"),
        ("log.csv", "x\rreward\r1\r2\r", "its first line is no row of names"),
        ("log.jsonl", '{"x": 1.5, "reward": 0}\nnull\n', "row 2: 'null' is not a row"),
        ("log.jsonl", '{"x": 1.5, "reward": 0}\n' + '{"x":' * 100_000, r"row 2: .* is not a row \(maximum recursion"),
        ("log.jsonl", "[" * 100_000, r"the log has the columns \[{1000} \.\.\.$"),
        ("log.jsonl", '{"x": 1.5, "reward": 0}\n{"x": 1' + "0" * 400 + ', "reward": 0}', "row 2, column 'x': .*not a"),
        ("log.jsonl", '{"x": [1, 2], "reward": 0}\n{"x": 3, "reward": 0}\n', "row 2, column 'x': .* is no vector of 2"),
    ],
)  # fmt: skip
def test_text_that_once_ended_in_foreign_words(name: str, content: str, words: str, batch: int, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises((DataError, SettingError), match=words):
        list(table(path, features="x", batch=batch))


@pytest.mark.parametrize("batch", [1, 2, 65536])
def test_times_in_json_are_text_wherever_a_batch_ends(batch: int, tmp_path: Path) -> None:
    """Arrow takes some texts for times, and others in the same column not."""
    stamps = ["2024-01-01 00:00:00", "2024-01-01 00:00:01.5", "2024-01-01T00:00:02Z", "2024-01-01 00:00:03"]
    rows = [{"x": float(i), "reward": 0.0, "day": "2024-01-01", "at": at} for i, at in enumerate(stamps)]
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    chunk = joined(table(path, features="x - 1", episode="day", order="at", batch=batch))
    assert chunk.features[:, 0].tolist() == [0.0, 1.0, 2.0]
    assert np.unique(np.asarray(chunk.episode)).size == 1


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_times_of_any_unit_have_one_order(unit: str) -> None:
    stamps = pa.array(np.array([10, 11, 12]).astype("datetime64[s]").astype(f"datetime64[{unit}]"))
    text = pa.array(["1970-01-01 00:00:10", "1970-01-01 00:00:11", "1970-01-01 00:00:12Z"])
    assert np.array_equal(np.asarray(times(stamps)), np.asarray(times(text)))
    assert np.asarray(times(text)).tolist() == [10e6, 11e6, 12e6]


@pytest.mark.parametrize("batch", [1, 65536])
def test_a_missing_value_in_csv_is_missing_also_beside_a_broken_row(batch: int, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text('x,reward,e\n1.5,0,a\n2.5,0,NA\n3.5,0,"\n')
    with pytest.raises(DataError, match="row 2, column 'e': null is no label"):
        list(table(path, features="x", episode="e", batch=batch))


@pytest.mark.parametrize("batch", [1, 65536])
def test_json_that_is_not_utf_8(batch: int, tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(b'{"x": 1.5, "reward": 0, "e": "a"}\n{"x": 1.5, "reward": 0, "e": "\xff"}\n')
    with pytest.raises(DataError, match=r"row 2: .* is not a row \('utf-8' codec"):
        list(table(path, features="x", episode="e", batch=batch))


def test_decimals_are_rounded_once() -> None:
    """Arrow divides by a power of ten, which rounds a second time."""
    texts = [f"{x:.6f}" for x in np.random.default_rng(0).normal(size=2000)]
    frame = pa.table({"x": pa.array(texts).cast(pa.decimal128(20, 6)), "reward": [0.0] * 2000})
    assert joined(table(frame, features="x")).features[:, 1].tolist() == [float(text) for text in texts[:-1]]


def test_offsets_that_point_outside_are_refused(tmp_path: Path) -> None:
    """Arrow would follow them, and take the process with it."""
    frame = pa.table({"x": [[1.0, 2.0]] * 5, "reward": [0.0] * 5})
    path = FORMATS["arrow stream"](frame, tmp_path / "log.arrow")
    offsets = np.arange(0, 12, 2, dtype=np.int32)
    broken = path.read_bytes().replace(offsets.tobytes(), (offsets * 100_000).tobytes())
    assert broken != path.read_bytes()
    path.write_bytes(broken)
    with pytest.raises(DataError, match=r"after row 0: .*; it is damaged or cut off: write it again"):
        list(table(path, features="x"))


def test_a_name_that_two_columns_have_is_refused_where_it_is_used(tmp_path: Path) -> None:
    frame = pa.Table.from_arrays([pa.array([1.5, 2.5])] * 4, ["x", "y", "y", "reward"])
    for form in ("csv", "pyarrow", "arrow stream", "parquet"):
        log = FORMATS[form](frame, tmp_path / f"log {form}")
        assert len(joined(table(log, features="x"))) == 1
        with pytest.raises(SettingError, match=r"has more than one column 'y' \(features\); rename one"):
            list(table(log, features="y"))


def test_parquet_on_standard_input_is_refused_with_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_parquet(pa.table(LOG), tmp_path / "log.parquet")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(path.read_bytes())))
    with pytest.raises(SettingError, match="cannot be read from a pipe"):
        list(table("-", features="x"))


def test_what_is_no_log_is_refused() -> None:
    with pytest.raises(SettingError, match="the dict is no log: give a path"):
        list(table({"x": [1]}, features="x"))


def test_a_log_read_twice_at_once_is_two_logs() -> None:
    """Each iteration counts for itself; what the log says of its position is said of the one begun last."""
    source = table(pa.table(LOG), features=["pulse"], episode="patient", batch=2)
    alone = list(source)
    once = source.start().number, source.rows, source.dropped
    for one, other in zip(source, source, strict=True):
        assert same(one, other)
    assert (source.start().number, source.rows, source.dropped) == once
    first, second = iter(source), iter(source)
    chunks = [next(first)]
    assert len(list(second)) == len(alone)
    chunks += first
    assert all(same(one, other) for one, other in zip(chunks, alone, strict=True))


@pytest.mark.parametrize("form", ["csv", "parquet", "arrow stream"])
def test_another_log_cannot_be_resumed(form: str, tmp_path: Path) -> None:
    log = FORMATS[form](pa.table(LOG), tmp_path / "log")
    short = FORMATS[form](pa.table(LOG).slice(0, 2), tmp_path / "short")
    source = table(log, features=["pulse"], episode="patient", batch=4)
    next(iter(source))
    with pytest.raises(CheckpointMismatchError, match="rows 1 to 4 were read before, and now there are 2; the log was"):
        list(table(short, features=["pulse"], episode="patient").resume(source.position))


def test_nothing_is_known_before_a_log_is_read() -> None:
    source = table(pa.table(LOG).slice(0, 0), features=["pulse"])
    with pytest.raises(SettingError, match="has not been read yet"):
        _ = source.rows
    with pytest.raises(TargetError, match="no episode has begun"):
        np.asarray(source.start())
    assert list(source) == []
    with pytest.raises(TargetError, match="no episode has begun"):
        np.asarray(source.start())


def test_without_pyarrow_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"pyarrow is not installed: pip install 'inferl\[data\]'"):
        table("log.csv", features="x")


def test_a_time_limit_ends_or_cuts() -> None:
    """A row marked as truncated is the end of undiscounted returns; of a discounted value it lacks the next state."""
    log = pa.table({
        "s": [0, 1, 0, 1],
        "reward": [1.0, 2.0, 3.0, 4.0],
        "terminated": [False, False, False, True],
        "truncated": [False, True, False, False],
    })  # fmt: skip
    cut = Transitions.join(list(table(log, state="s", n_states=2, discount=0.9)))
    assert cut.rewards.tolist() == [1.0, 3.0, 4.0]
    assert cut.truncated.tolist() == [True, False, False]
    for options in ({"discount": 1.0}, {"discount": 0.9, "time_limit": "ends"}):
        ends = Transitions.join(list(table(log, state="s", n_states=2, **options)))
        assert ends.rewards.tolist() == [1.0, 2.0, 3.0, 4.0]
        assert ends.discounts.tolist() == [options["discount"], 0.0, options["discount"], 0.0]
        assert ends.truncated.tolist() == [False, True, False, False]


@pytest.mark.parametrize("form", FORMATS)
def test_rewards_may_be_flags_in_every_format(form: str, tmp_path: Path) -> None:
    frame = pa.table({"x": [0.0] * 4, "reward": [True, False, True, False], "terminated": [False, False, False, True]})
    for batch in (1, 4):
        chunk = joined(table(FORMATS[form](frame, tmp_path / "log"), features="x", batch=batch))
        assert chunk.rewards.tolist() == [1.0, 0.0, 1.0, 0.0]


@pytest.mark.parametrize("first", [-(2**63), 2**53, 2**60, 2**63 - 1, 2**64 - 3])
@pytest.mark.parametrize("form", ["pyarrow", "csv"])
def test_labels_may_be_any_whole_numbers_of_64_bits(first: int, form: str, tmp_path: Path) -> None:
    """As the hashes that are taken for users, and the numbers that databases give."""
    kind = pa.int64() if first < 2**60 else pa.uint64()
    frame = pa.table({"x": [0.0] * 4, "reward": [0.0] * 4, "e": pa.array([first, first, first + 1, first + 1], kind)})
    options: dict[str, Any] = {"features": "x", "episode": "e", "episodes_end": True, "batch": 3}
    chunk = joined(table(FORMATS[form](frame, tmp_path / "log"), **options))
    assert chunk.last.tolist() == [False, True, False, True]
    with_gap = frame.set_column(2, "e", pa.array([first, None, first, first + 1], kind))
    with pytest.raises(DataError, match=r"row 2, column 'e': (null|'') is no label"):
        list(table(FORMATS[form](with_gap, tmp_path / "log"), **options))


def test_labels_may_be_dates(tmp_path: Path) -> None:
    days = np.array(["2024-01-01", "2024-01-01", "2024-01-02", "2024-01-02"], "datetime64[s]")
    frame = pa.table({"day": days, "x": [1.0, 2.0, 3.0, 4.0], "reward": [1.0] * 4})
    csv.write_csv(frame, tmp_path / "log.csv")
    for source in (frame, tmp_path / "log.csv"):
        assert len(joined(table(source, features="x", episode="day", episodes_end=False))) == 2
