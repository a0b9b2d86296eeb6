"""A log that was changed between a stop and ``inferl resume``: the answer is that of one log, or there is none."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from logs import small_log, write_jsonl
from pyarrow import csv as arrow_csv
from pyarrow import parquet
from runfiles import evaluator_bits
from typer.testing import CliRunner

from inferl.cli import app
from inferl.runs import Run

runner = CliRunner(env={"COLUMNS": "80", "FORCE_COLOR": None})

N = 800
READ = 499  # row 500 is bad: the run stops before it
OPTIONS = ["--state", "s", "--n-states", "3", "--ratio", "a,b", "--episode", "e"]


def log(seed: int = 0, n: int = N, **spoiled: Any) -> pa.Table:
    frame = small_log(n, seed, **spoiled)
    labels = n * seed + np.r_[0, np.cumsum(frame["terminated"].to_numpy())[:-1]]
    return frame.append_column("e", pa.array(labels))


def write(frame: pa.Table, path: Path, **options: Any) -> None:
    if path.suffix == ".csv":
        arrow_csv.write_csv(frame, path)
    elif path.suffix == ".jsonl":
        write_jsonl(frame, path)
    else:
        parquet.write_table(frame, path, **({"row_group_size": 100} | options))


def call(*command: str | Path) -> Any:
    return runner.invoke(app, list(map(str, command)))


@pytest.fixture(scope="module", params=[".csv", ".parquet", ".jsonl"])
def stopped(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a log and a run that stopped at its bad row."""
    folder = tmp_path_factory.mktemp("stopped")
    path = folder / f"log{request.param}"
    write(log(reward=(READ + 1, None)), path)
    assert call("evaluate", path, *OPTIONS, "--checkpoint", folder / "night.run").exit_code == 2
    assert Run.load(folder / "night.run").position["rows"] == READ
    return folder


def edited(row: int, column: str, value: Any) -> Callable[[pa.Table], pa.Table]:
    def edit(frame: pa.Table) -> pa.Table:
        values = frame[column].to_pylist()
        values[row - 1] = value(values[row - 1])
        return frame.set_column(frame.column_names.index(column), column, pa.array(values, frame[column].type))

    return edit


def rows(order: Callable[[int], Any]) -> Callable[[pa.Table], pa.Table]:
    return lambda frame: frame.take(pa.array(np.asarray(order(len(frame)), np.int64)))


def swapped(one: int, other: int) -> Callable[[int], Any]:
    def order(n: int) -> Any:
        places = np.arange(n)
        places[[one - 1, other - 1]] = places[[other - 1, one - 1]]
        return places

    return order


def renamed(**names: str) -> Callable[[pa.Table], pa.Table]:
    return lambda frame: frame.rename_columns([names.get(name, name) for name in frame.column_names])


def with_column(name: str, value: Any) -> Callable[[pa.Table], pa.Table]:
    return lambda frame: frame.append_column(name, pa.array([value] * len(frame)))


def cast(column: str, kind: pa.DataType) -> Callable[[pa.Table], pa.Table]:
    return lambda frame: frame.set_column(frame.column_names.index(column), column, frame[column].cast(kind))


CHANGED: dict[str, Callable[[pa.Table], pa.Table]] = {
    "a reward edited in the first row": edited(1, "reward", lambda x: x + 1),
    "a reward edited in the middle": edited(250, "reward", lambda x: -x),
    "a reward edited in the last row read": edited(READ, "reward", lambda x: 0.0),
    "a reward edited in the last digit": edited(100, "reward", lambda x: float(np.nextafter(x, 9))),
    "a state edited": edited(200, "s", lambda x: (x + 1) % 3),
    "a ratio edited": edited(200, "b", lambda x: 2 - x),
    "a label edited": edited(200, "e", lambda x: x + 1000),
    "an end edited": edited(200, "terminated", lambda x: not x),
    "a value taken away": edited(200, "reward", lambda x: None),
    "the first row dropped": rows(lambda n: np.arange(1, n)),
    "a row dropped": rows(lambda n: np.delete(np.arange(n), 300)),
    "a row dropped, and one appended": rows(lambda n: np.r_[np.delete(np.arange(n), 300), n - 1]),
    "a row put in": rows(lambda n: np.insert(np.arange(n), 300, 5)),
    "a row there twice": rows(lambda n: np.insert(np.arange(n), 300, 300)),
    "two rows swapped": rows(swapped(100, 101)),
    "a row read swapped with one that was not": rows(swapped(READ, READ + 2)),
    "reversed": rows(lambda n: np.arange(n)[::-1]),
    "sorted otherwise": lambda frame: frame.sort_by("reward"),
    "shuffled": rows(lambda n: np.random.default_rng(0).permutation(n)),
    "begun later": rows(lambda n: np.r_[np.arange(400, n), np.arange(400)]),
    "cut before the row where it stopped": rows(lambda n: np.arange(READ - 1)),
    "cut to nothing": rows(lambda n: np.arange(0)),
    "another log of the same length": lambda frame: log(seed=1),
    "a longer log": lambda frame: log(seed=1, n=2 * N),
    "columns that changed places by name": renamed(a="b", b="a"),
    "a column recognised that was not there": with_column("truncated", False),
    "a column that is gone": lambda frame: frame.drop_columns(["b"]),
}
KEPT: dict[str, Callable[[pa.Table], pa.Table]] = {
    "nothing but the bad row": lambda frame: frame,
    "rows appended": lambda frame: pa.concat_tables([frame, log(seed=1)]),
    "a later row edited": edited(READ + 1, "reward", lambda x: x + 1),
    "later rows dropped": rows(lambda n: np.arange(READ + 50)),
    "later rows of another log": lambda frame: pa.concat_tables([frame.slice(0, READ), log(seed=1).slice(READ)]),
}


def resumed(stopped: Path, folder: Path, change: Callable[[Path], None]) -> tuple[Any, Path, Path]:
    """Change a copy of the log, and resume a copy of the run; the run file holds the path of the log."""
    (original,) = stopped.glob("log.*")
    path, run_file = original, folder / "night.run"
    backup = original.read_bytes()
    shutil.copy(stopped / "night.run", run_file)
    try:
        change(path)
        result = call("resume", run_file)
        if result.exit_code == 0:
            assert call("evaluate", path, *OPTIONS, "--checkpoint", folder / "straight.run").exit_code == 0
    finally:
        original.write_bytes(backup)
    return result, run_file, folder / "straight.run"


def refused(result: Any, stopped: Path, run_file: Path) -> bool:
    """Whether it was refused in words, and nothing was changed."""
    assert result.exit_code == 2, result.output
    assert not isinstance(result.exception, Exception), result.exception
    assert result.stderr.startswith("inferl: ")
    return run_file.read_bytes() == (stopped / "night.run").read_bytes()


@pytest.mark.parametrize("way", CHANGED)
def test_a_log_changed_where_it_was_read_is_refused(way: str, stopped: Path, tmp_path: Path) -> None:
    result, run_file, _ = resumed(stopped, tmp_path, lambda path: write(CHANGED[way](log()), path))
    assert refused(result, stopped, run_file)
    other_words = ("there is no column", "there is no transition", "is empty")
    assert f"rows 1 to {READ} " in result.stderr or any(words in result.stderr for words in other_words)


@pytest.mark.parametrize("way", KEPT)
def test_a_log_changed_elsewhere_goes_on_exactly(way: str, stopped: Path, tmp_path: Path) -> None:
    result, run_file, straight = resumed(stopped, tmp_path, lambda path: write(KEPT[way](log()), path))
    assert result.exit_code == 0, result.output
    assert evaluator_bits(run_file) == evaluator_bits(straight)


AS_TEXT: dict[str, tuple[bool, Callable[[str], str]]] = {
    "other line ends": (False, lambda csv: csv.replace("\n", "\r\n")),
    "semicolons": (False, lambda csv: csv.replace(",", ";")),
    "without quotes": (False, lambda csv: csv.replace('"', "")),
    "numbers written otherwise": (False, lambda csv: csv.replace(",0.5,", ",0.50,")),
    "a digit cut off": (False, lambda csv: csv[:-4].replace("-0.1", "-0.", 1)),
    "without a header": (False, lambda csv: csv.split("\n", 1)[1]),
    "the header twice": (False, lambda csv: csv.split("\n", 1)[0] + "\n" + csv),
    "zeros": (False, lambda csv: "\0" * len(csv)),
    "blank lines": (True, lambda csv: csv.replace("\n", "\n\n", 40)),
    "without the last line break": (True, lambda csv: csv.rstrip("\n")),
}


AS_JSON: dict[str, tuple[bool, Callable[[str], str]]] = {
    "spaces": (False, lambda lines: lines.replace(", ", ",  ")),
    "numbers written otherwise": (False, lambda lines: lines.replace('"a": 0.5,', '"a": 0.50,')),
    "keys in another order": (False, lambda lines: "".join(_turned(line) for line in lines.splitlines())),
    "a field that nobody reads": (False, lambda lines: lines.replace("{", '{"comment": "x", ')),
    "a line cut off": (False, lambda lines: lines.replace("}", "", 1)),
    "other line ends": (False, lambda lines: lines.replace("\n", "\r\n")),
    "blank lines": (True, lambda lines: lines.replace("\n", "\n\n", 40)),
    "without the last line break": (True, lambda lines: lines.rstrip("\n")),
}


def _turned(line: str) -> str:
    return json.dumps(dict(reversed(json.loads(line).items()))) + "\n"


@pytest.mark.parametrize(("suffix", "way"), [(".csv", way) for way in AS_TEXT] + [(".jsonl", way) for way in AS_JSON])
def test_text_changed_where_it_was_read(suffix: str, way: str, stopped: Path, tmp_path: Path) -> None:
    if not list(stopped.glob(f"*{suffix}")):
        pytest.skip("another format")
    exact, edit = (AS_TEXT if suffix == ".csv" else AS_JSON)[way]

    def change(path: Path) -> None:
        write(log(), path)
        path.write_bytes(edit(path.read_text()).encode())

    result, run_file, straight = resumed(stopped, tmp_path, change)
    if exact:
        assert result.exit_code == 0, result.output
        assert evaluator_bits(run_file) == evaluator_bits(straight)
    else:
        assert refused(result, stopped, run_file)


AS_FILE: dict[str, tuple[bool, Callable[[pa.Table, Path], Any]]] = {
    "other row groups": (True, lambda frame, path: write(frame, path, row_group_size=37)),
    "other compression": (True, lambda frame, path: write(frame, path, compression="zstd", use_dictionary=False)),
    "a column that nobody reads": (True, lambda frame, path: write(with_column("comment", "x")(frame), path)),
    "columns in another order": (True, lambda frame, path: write(frame.select(frame.column_names[::-1]), path)),
    "numbers of another kind": (False, lambda frame, path: write(cast("s", pa.float64())(frame), path)),
    "text": (False, lambda frame, path: arrow_csv.write_csv(frame, path)),
    "cut off": (False, lambda frame, path: path.write_bytes(path.read_bytes()[:-500])),
    "nothing": (False, lambda frame, path: path.write_bytes(b"")),
    "bytes turned round": (False, lambda frame, path: path.write_bytes(path.read_bytes()[::-1])),
}  # fmt: skip


@pytest.mark.parametrize("way", AS_FILE)
def test_parquet_written_otherwise(way: str, stopped: Path, tmp_path: Path) -> None:
    if not list(stopped.glob("*.parquet")):
        pytest.skip("not Parquet")
    exact, rewrite = AS_FILE[way]
    result, run_file, straight = resumed(stopped, tmp_path, lambda path: rewrite(log(), path))
    if exact:
        assert result.exit_code == 0, result.output
        assert evaluator_bits(run_file) == evaluator_bits(straight)
    else:
        assert refused(result, stopped, run_file)


# Rows that come later.


@pytest.mark.parametrize(
    "options", ["", "--terminated none --episodes-end", "--terminated none --order t --idle-timeout 9s"]
)
def test_a_log_in_order_of_time_goes_on(options: str, tmp_path: Path) -> None:
    """Episodes that were open at the end of the log go on; so does the look at whether they are mixed."""
    path, run_file, straight = tmp_path / "log.csv", tmp_path / "a.run", tmp_path / "b.run"
    roles = ["--state", "s", "--n-states", "3", "--episode", "e", *options.split()]
    who = np.arange(N) % 7 + 7 * (np.arange(N) // 100)
    whole = log().drop_columns(["e"]).append_column("e", pa.array(who)).append_column("t", pa.array(np.arange(N)))
    whole = whole.set_column(whole.column_names.index("terminated"), "terminated", pa.array(np.arange(N) % 100 > 92))
    for n in (20, 137, N):
        write(whole.slice(0, n), path)
        begins = not run_file.exists()
        result = call("evaluate", path, *roles, "--checkpoint", run_file) if begins else call("resume", run_file)
        expected = call("evaluate", path, *roles, "--checkpoint", straight)
        assert result.exit_code == expected.exit_code == 0, result.output + expected.output
        assert evaluator_bits(run_file) == evaluator_bits(straight)
    assert "mixed in order of time" in result.output


def test_an_episode_that_was_taken_for_over_and_goes_on(tmp_path: Path) -> None:
    path, run_file = tmp_path / "log.csv", tmp_path / "a.run"
    header, rows = "s,reward,e\n", ["0,1,1\n", "1,1,1\n", "0,1,2\n", "1,1,2\n"]
    path.write_text(header + "".join(rows))
    options = ["--state", "s", "--n-states", "2", "--episode", "e"]
    assert call("evaluate", path, *options, "--checkpoint", run_file).exit_code == 0
    path.write_text(header + "".join(rows) + "0,1,1\n")
    refused = call("resume", run_file)
    assert refused.exit_code == 2
    assert "evaluate the log from its beginning" in " ".join(refused.output.split())
    assert call("evaluate", path, *options).exit_code == 0


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize("options", ["", "--episodes-end"])
@pytest.mark.parametrize("first", [2, 137])
def test_a_complete_run_goes_on_with_rows_that_were_appended(
    first: int, options: str, suffix: str, tmp_path: Path
) -> None:
    """The end of the log, wherever it lies in an episode, is no end once rows have been appended."""
    path, run_file, straight = tmp_path / f"log{suffix}", tmp_path / "a.run", tmp_path / "b.run"
    roles = ["--state", "s", "--n-states", "3", "--episode", "e", *options.split()]
    roles += ["--terminated", "none"] if options else []
    whole = log()
    for n in (first, first, N):
        write(whole.slice(0, n), path)
        begins = not run_file.exists()
        result = call("evaluate", path, *roles, "--checkpoint", run_file) if begins else call("resume", run_file)
        assert result.exit_code == 0, result.output
        expected = call("evaluate", path, *roles, "--checkpoint", straight)
        assert result.stdout == expected.stdout
        assert evaluator_bits(run_file) == evaluator_bits(straight)
    assert len(Run.load(run_file).readings) >= 1
    write(log(seed=1), path)
    before = run_file.read_bytes()
    assert call("resume", run_file).exit_code == 2
    assert run_file.read_bytes() == before
    path.unlink()  # nothing can have been appended
    assert call("resume", run_file).stdout == result.stdout
