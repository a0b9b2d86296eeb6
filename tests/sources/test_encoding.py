"""What a state may be: categories, several columns, flags, times, lists and nested fields, in every format."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import polars
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from logs import FORMATS, joined, same

import inferl
from inferl.errors import CheckpointError, CheckpointMismatchError, DataError, SettingError, TargetError
from inferl.sources import table

N = 12
COLUMNS: dict[str, list[Any]] = {
    "device": ["phone", "tablet", "phone", "desktop"] * 3,
    "page": [10, 9, 9, 10] * 3,
    "new": [True, False, False] * 4,
    "hr": [60.0 + i for i in range(N)],
    "at": [f"2024-01-01 {6 * (i % 4):02}:00:00" for i in range(N)],
    "reward": [float(i % 3) for i in range(N)],
}
LOG = pa.table(COLUMNS)


@pytest.mark.parametrize(("form", "batch"), [*((form, 5) for form in FORMATS), ("csv", 1), ("parquet", 100)])
def test_a_formula_gives_the_same_features_in_every_format(form: str, batch: int, tmp_path: Path) -> None:
    log = FORMATS[form](LOG, tmp_path / "log")
    source = table(log, features="hr + device + C(page) + new + hour(at)", batch=batch)
    features = joined(source).features
    names = "1 hr device[phone] device[tablet] page[10] new hour(at)[sin] hour(at)[cos]"
    assert source.feature_names == tuple(names.split())
    angle = np.pi * (np.arange(N) % 4) / 2
    device = np.array(COLUMNS["device"])
    expected = [
        *(np.ones(N), COLUMNS["hr"], device == "phone", device == "tablet", np.array(COLUMNS["page"]) == 10),
        *(COLUMNS["new"], np.sin(angle), np.cos(angle)),
    ]
    assert np.allclose(features, np.stack(expected, axis=1)[:-1], atol=1e-15)


@pytest.mark.parametrize(("form", "batch"), [*((form, 5) for form in FORMATS), ("csv", 1), ("parquet", 100)])
def test_several_columns_are_one_state_in_every_format(form: str, batch: int, tmp_path: Path) -> None:
    source = table(FORMATS[form](LOG, tmp_path / "log"), state=["device", "page", "new"], batch=batch)
    chunk = joined(source)
    rows = list(zip(COLUMNS["device"], COLUMNS["page"], COLUMNS["new"], strict=True))
    states = sorted(set(rows))
    assert chunk.tabular
    assert chunk.features.tolist() == [states.index(row) for row in rows[:-1]]
    assert chunk.next_features.tolist() == [states.index(row) for row in rows[1:]]
    assert source.dimension == len(states)
    assert source.feature_names[0] == "device=desktop, page=10, new=false"
    assert source.at(device="tablet", page=9, new=False) == states.index(("tablet", 9, False))


@pytest.mark.parametrize("form", [form for form in FORMATS if "csv" not in form])
def test_nested_fields_and_lists(form: str, tmp_path: Path) -> None:
    rows = [{"obs": {"sev": i, "at": {"lab": i / 2}}, "v": [1.0, float(i)], "reward": 1.0} for i in range(5)]
    log = FORMATS[form](pa.Table.from_pylist(rows), tmp_path / "log")
    source = table(log, features="obs.sev + obs.at.lab + v")
    assert joined(source).features.tolist() == [[1.0, i, i / 2, 1.0, i] for i in range(4)]
    assert source.feature_names == ("1", "obs.sev", "obs.at.lab", "v[0]", "v[1]")
    assert joined(table(log, state="obs.sev")).features.tolist() == [0, 1, 2, 3]
    with pytest.raises(DataError, match=r"row 1, column 'obs.pulse': null is not a finite number"):
        list(table(log, features="obs.pulse"))
    with pytest.raises(SettingError, match=r"there is no field 'v.x' in the column 'v' of .*list"):
        list(table(log, features="v.x"))
    with pytest.raises(SettingError, match=r"column 'obs' of struct.* name its fields, such as obs\.at|obs\.sev"):
        list(table(log, features="obs"))


@pytest.mark.parametrize("batch", [1, 2, 100])
def test_a_field_that_some_rows_lack(batch: int, tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text(
        "".join(json.dumps({"obs": obs, "reward": 0}) + "\n" for obs in ({"x": 1}, {"y": 2}, None, {"x": 3}))
    )
    with pytest.raises(DataError, match=r"row 2, column 'obs.x': null is not a finite number"):
        list(table(path, features="obs.x", batch=batch))
    source = table(path, features="obs.x", batch=batch, skip_bad=2)
    assert (list(source), source.skipped) == ([], 2)


def test_the_digest_of_nested_columns_does_not_depend_on_batches(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"obs": {"sev": i, "who": "ab"[i % 2] if i % 3 else None} if i % 4 else None, "reward": 1.0} for i in range(9)
    ]
    digests = set()
    for batch in (1, 4, 9):
        source = table(pa.Table.from_pylist(rows), features="obs.sev", skip_bad=9, batch=batch)
        list(source)
        digests.add(source.position["digest"])
    assert len(digests) == 1
    rows[5]["obs"]["who"] = "c"
    source = table(pa.Table.from_pylist(rows), features="obs.sev", skip_bad=9)
    list(source)
    assert source.position["digest"] not in digests


def test_a_column_of_lists_alone_is_taken_as_it_stands() -> None:
    log = pa.table({"obs": [[1.0, 2.0]] * 3, "reward": [0.0] * 3})
    assert joined(table(log, features="obs")).features.tolist() == [[1.0, 2.0]] * 2
    assert joined(table(log, features=["obs"])).features.tolist() == [[1.0, 2.0]] * 2
    assert joined(table(log, features="1 + obs")).features.tolist() == [[1.0, 1.0, 2.0]] * 2


def test_the_name_of_a_column_is_this_column() -> None:
    log = pa.table({"x - 1": [1.0, 2.0], "next.obs": [[5.0], [6.0]], "reward": [0.0, 0.0]})
    assert joined(table(log, features="x - 1")).features.tolist() == [[1.0, 1.0]]
    assert joined(table(log, features=["x - 1", "next.obs"])).features.tolist() == [[1.0, 1.0, 5.0]]


# Ages.


@settings(max_examples=50)
@given(
    owners=st.lists(st.integers(0, 3), min_size=2, max_size=24),
    batch=st.integers(1, 30),
    stop=st.integers(0, 5),
    bad=st.sets(st.integers(0, 23), max_size=3),
)
def test_ages_count_from_the_first_row_of_an_episode(owners: list[int], batch: int, stop: int, bad: set[int]) -> None:
    """Whatever the order of the rows, the batches, where a run is resumed, and which rows are skipped."""
    n = len(owners)
    frame = pandas.DataFrame({"e": owners, "x": np.arange(n) * 1.0, "t": np.cumsum(np.arange(n) % 3 + 1)})
    frame["age"] = frame.t - frame.groupby("e").t.transform("first")
    frame["at"] = pandas.Timestamp("2024-05-01 22:00") + pandas.to_timedelta(frame.t, "min")
    frame["reward"] = [np.nan if i in bad else 0.0 for i in range(n)]
    roles: dict[str, Any] = {"features": "x + age(t) + x:age(at) + age - 1", "episode": "e", "skip_bad": 3}
    source = table(frame, **roles, batch=batch)
    chunks = list(islice(source, stop))
    if len(chunks) == stop and stop:
        chunks += list(table(frame, **roles).resume(source.position))
    else:
        chunks = list(table(frame, **roles, batch=batch))
    for chunk in chunks:
        for x, age, expected, product in (*chunk.features, *chunk.next_features):
            assert age == expected
            assert product == pytest.approx(x * expected / 60, abs=1e-8)


def test_ages_in_every_format(tmp_path: Path) -> None:
    columns = {"e": [1, 1, 1, 2, 2], "at": [f"2024-05-01 0{i}:30:00" for i in range(5)], "reward": [0.0] * 5}
    for form, write in FORMATS.items():
        source = table(write(pa.table(columns), tmp_path / form.replace(" ", "-")), features="age(at)", episode="e")
        assert joined(source).features.tolist() == [[1, 0], [1, 1], [1, 0]]
        assert np.asarray(source.start()).tolist() == [1, 0]
    source = table(pa.table(columns), features="hour(at):age(at) + age(at)", episode="e")
    list(source)
    at = source.at(**{"at": "2024-05-01 06:00:00", "age(at)": 2})
    assert np.allclose(at, [1, 2, 2, 0])
    refused: list[tuple[dict[str, Any], str]] = [
        ({"next_features": "at"}, "leave next_features out"),
        ({"policy": lambda x, a: a, "behaviour_probability": "p", "action": "e"}, "columns of its own"),
        (
            {"fit_behaviour": "age(at)", "target_probability": "p", "action": "e"},
            r"fit_behaviour: age\(\) is not known",
        ),
    ]
    for options, words in refused:
        with pytest.raises(SettingError, match=words):
            list(table(pa.table(columns | {"p": [0.5] * 5}), features="age(at)", episode="e", **options))


# Unseen levels.


def test_an_unseen_category_is_a_bad_row_with_a_remedy(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("ward,reward\ner,1\nicu,0\ner,1\n")
    options: dict[str, Any] = {"features": "ward", "batch": 1}
    source = table(path, **options)
    list(source)
    path.write_text(path.read_text() + "morgue,1\ner,2\n")
    position = source.open_end
    with pytest.raises(
        DataError,
        match=r"row 4, column 'ward': 'morgue' is none of the levels known from the start: er, icu; begin anew",
    ):
        list(table(path, **options).resume(position))
    again = table(path, **options, skip_bad=1).resume(position)
    list(again)
    assert (again.skipped, again.feature_names) == (1, ("1", "ward[icu]"))
    assert joined(table(path, features="C(ward, levels=['morgue', 'er', 'icu'])")).features[0].tolist() == [1, 1, 0]


@pytest.mark.parametrize("kind", [polars.String, polars.Categorical, polars.Enum(["desktop", "phone", "tablet"])])
def test_the_texts_and_categories_of_polars(kind: Any) -> None:
    """Its frames hold views, of which Arrow can neither decode a dictionary nor take rows."""
    frame = polars.DataFrame(LOG).with_columns(polars.col("device").cast(kind), who=polars.col("device").cast(kind))
    frame = frame.sort(polars.col("who").cast(polars.String), maintain_order=True).with_columns(p=1.0, action=0)
    law = pandas.DataFrame({"device": ["phone", "desktop", "tablet"], "0": 1.0})
    ratios = {"policy": law, "behaviour_probability": "p"}
    chunk = joined(table(frame, state="device", episode="who", episodes_end=True, **ratios))
    assert chunk.features.tolist() == [0] * 3 + [1] * 6 + [2] * 3
    assert np.flatnonzero(chunk.last).tolist() == [2, 8, 11]


@pytest.mark.parametrize("options", [{"state": "x"}, {"features": "C(x)"}, {"features": "C(x, levels=[1.0, 2, '3'])"}])
def test_whole_numbers_with_decimals_are_the_same_categories(options: dict[str, Any], tmp_path: Path) -> None:
    """A column of whole numbers with a missing value becomes 1.0, 2.0, ... in pandas, and so in its CSV."""
    (tmp_path / "may.csv").write_text("x,reward,e\n1,0,1\n2,0,1\n3,0,1\n1,0,1\n")
    (tmp_path / "june.csv").write_text("x,reward,e\n1.0,0,2.0\n2.0,0,2\n3.0,0,2.0\n1.0,0,2\n")
    source = table([tmp_path / "may.csv", tmp_path / "june.csv"], episode="e", episodes_end=False, **options)
    features = np.asarray(joined(source).features)
    assert len(features) == 6
    assert source.dimension == 3
    np.testing.assert_array_equal(features[:3], features[3:])
    np.testing.assert_array_equal(source.at(x=2), source.at(x="2.0"))


def test_a_missing_category_is_a_bad_row() -> None:
    log = pa.table({"ward": ["er", None, "icu"], "reward": [0.0] * 3})
    for source in (table(log, features="ward"), table(log, state="ward")):
        with pytest.raises(DataError, match="row 2, column 'ward': null is no category"):
            list(source)


def test_a_pipe_needs_the_levels(tmp_path: Path) -> None:
    frames = [pa.table({"ward": ["er", "icu"], "x": [1.0, 2.0], "reward": [0.0, 0.0]})]

    def stream() -> Any:
        return pa.RecordBatchReader.from_batches(frames[0].schema, frames[0].to_batches())

    with pytest.raises(SettingError, match=r"can be read only once; name them: C\(ward, levels=\['...', '...'\]\)"):
        list(table(stream(), features="ward"))
    with pytest.raises(SettingError, match=r"only once; if they are 0, 1, ... give their number \(n_states\); else"):
        list(table(stream(), state="ward"))
    assert joined(table(stream(), features="C(ward, levels=[er, icu]) - 1")).features.tolist() == [[1.0, 0.0]]


def test_next_states_have_levels_too() -> None:
    log = pa.table({"s": ["a", "b"], "t": ["b", "end"], "reward": [0.0, 1.0]})
    chunk = joined(table(log, state="s", next_features="t"))
    assert (chunk.features.tolist(), chunk.next_features.tolist()) == ([0, 1], [1, 2])
    chunk = joined(table(log, features="s - 1", next_features="t"))
    assert chunk.next_features.tolist() == [[0, 1, 0], [0, 0, 1]]


# Values that fit no function.


@pytest.mark.parametrize(
    ("formula", "values", "words"),
    [
        ("log(x)", [1.0, 0.0], "column 'x': 0.0 has no logarithm"),
        ("poly(x, 3)", [1.0, 1e200], r"column 'x': 1e\+200 is too large for the power 3; divide the column"),
        ("x:y", [1.0, 1e200], r"column 'x': 1e\+200 makes x:y too large; divide the column"),
        ("hour(x)", [1.0, 2.0], "row 1, column 'x': 1.0 is no time"),
        ("x", ["2024-01-01", "2024-01-02"], r"column 'x' holds times; write hour\(x\)"),
        ("x", [None, None], "row 1, column 'x': null is not a finite number"),
        ("C(x)", pa.array([None, None], pa.string()), "column 'x' has no value in any row"),
        ("x", [1.0, "icu"], "row 2, column 'x': 'icu' is not a finite number"),
        ("C(x)", [[1.0], [2.0]], "column 'x': a column of list.* cannot be a category"),
    ],
)
def test_values_that_fit_no_function(formula: str, values: Any, words: str, tmp_path: Path) -> None:
    log: Any = tmp_path / "log.jsonl"
    if isinstance(values, list):
        rows = ({"x": x, "y": 1e200, "reward": 0.0} for x in values)
        log.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        log = pa.table({"x": values, "reward": [0.0, 0.0]})
    with pytest.raises((DataError, SettingError), match=words):
        list(table(log, features=formula))


# Targets.


def test_targets_in_the_words_of_the_columns() -> None:
    source = table(LOG, features="hr + device + poly(page, 2) + hour(at)")
    list(source)
    at = source.at(hr="70", device="phone", page=3, at="2024-01-01 12:00:00")
    assert np.allclose(at, [1, 70, 1, 0, 3, 9, 0, -1], atol=1e-12)
    for values, words in (
        ({"hr": 1}, "a state has a value of each of hr, device, page, at; given is hr"),
        ({"hr": 1, "device": "watch", "page": 1, "at": "2024-01-01"}, "device = 'watch' is none of the levels"),
        ({"hr": "x", "device": "phone", "page": 1, "at": "2024-01-01"}, "hr = 'x' is not a finite number"),
        ({"hr": [1, 2], "device": "phone", "page": 1, "at": "2024-01-01"}, "hr"),
    ):
        with pytest.raises((TargetError, SettingError), match=words):
            source.at(**values)


# Maps.


def test_feature_maps_of_columns() -> None:
    fourier = inferl.features.Fourier([60, 9], [75, 10], 2)
    states = np.stack([COLUMNS["hr"], COLUMNS["page"]], axis=1).astype(float)
    source = table(LOG, features=fourier, state=["hr", "page"])
    assert np.array_equal(joined(source).features, fourier(states[:-1]))
    assert np.array_equal(source.at(hr=61, page=9), fourier([61, 9]))
    lists = pa.table({"obs": states.tolist(), "reward": COLUMNS["reward"]})
    assert same(joined(table(lists, features=fourier, state="obs")), joined(source))
    holes = LOG.set_column(3, "hr", pa.array([None, *COLUMNS["hr"][1:]]))
    with pytest.raises(DataError, match="row 1, column 'hr': null is not a finite number"):
        list(table(holes, features=fourier, state=["hr", "page"]))
    assert len(joined(table(holes, features=fourier, state=["hr", "page"], skip_bad=1))) == N - 2


def test_a_fitted_pipeline_of_scikit_learn() -> None:
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import PolynomialFeatures, StandardScaler

    states = np.stack([COLUMNS["hr"], COLUMNS["page"]], axis=1).astype(float)
    pipeline = make_pipeline(StandardScaler(), PolynomialFeatures(2)).fit(states)
    source = table(LOG, features=inferl.features.Transform(pipeline), state=["hr", "page"])
    assert np.allclose(joined(source).features, pipeline.transform(states[:-1]))
    assert np.allclose(source.at(hr=70, page=9), pipeline.transform([[70.0, 9.0]])[0])


@pytest.mark.torch
def test_a_torch_module() -> None:
    import torch

    module = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Tanh())
    source = table(LOG, features=inferl.features.Network(module), state=["hr", "page"])
    assert joined(source).features.shape == (N - 1, 3)


def test_a_policy_sees_the_state_and_not_the_intercept() -> None:
    log = LOG.append_column("action", pa.array([0] * N)).append_column("p", pa.array([0.5] * N))
    seen: list[Any] = []

    def policy(states: Any, actions: Any) -> Any:
        seen.append(states)
        return np.full(len(actions), 0.5)

    options: dict[str, Any] = {"policy": policy, "behaviour_probability": "p"}
    list(table(log, features="hr + page", **options))
    list(table(log, features=inferl.features.RBF([[60.0]], 1.0), state="hr", **options))
    assert seen[0].tolist() == np.stack([COLUMNS["hr"], COLUMNS["page"]], axis=1).tolist()
    assert seen[1][:, 0].tolist() == COLUMNS["hr"]


# Positions.


@pytest.mark.parametrize("options", [{"features": "hr + device:page + C(page)"}, {"state": ["device", "page"]}])
def test_a_position_holds_what_was_learned(options: dict[str, Any]) -> None:
    whole = joined(table(LOG, **options))
    source = table(LOG, **options, batch=4)
    first = next(iter(source))
    again = table(LOG, **options).resume(source.position)
    assert same(inferl.Transitions.join([first, *again]), whole)
    assert source.position["learned"]["levels"]
    with pytest.raises(CheckpointMismatchError):
        list(table(LOG, features="hr").resume(source.position))


def test_a_forged_length_of_lists_takes_no_memory() -> None:
    log = pa.table({"v": [[1.0, 2.0]] * 6, "reward": [0.0] * 6, "e": [1, 1, 1, 2, 2, 2]})
    source = table(log, features="v:v + v", episode="e", batch=2)
    next(iter(source))
    position = source.position
    position["learned"]["sizes"]["v"] = 2**50
    with pytest.raises(CheckpointMismatchError, match="a log with other features"):
        list(table(log, features="v:v + v", episode="e").resume(position))


def test_forged_positions_are_refused() -> None:
    source = table(LOG, state=["device", "page"], batch=4)
    next(iter(source))
    changes: list[dict[str, Any]] = [
        {"levels": {}},
        {"levels": {"device": ("a", "a"), "page": ("1",)}},
        {"levels": {"device": (1, 2), "page": ("1",)}},
        {"states": np.zeros((3, 2), np.int64)},
        {"states": np.array([[0, 9]])},
        {"states": np.zeros(3, np.int64)},
        {"sizes": {"device": 3}},
    ]
    for change in changes:
        position = source.position
        position["learned"] = position["learned"] | change
        with pytest.raises(CheckpointError):
            list(table(LOG, state=["device", "page"]).resume(position))
