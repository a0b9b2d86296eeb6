"""``inferl evaluate FILE...``: several files are one log, and new files are read by ``inferl resume``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from logs import small_log
from pyarrow import csv as arrow_csv
from runfiles import evaluator_bits
from typer.testing import CliRunner

from inferl.cli import app

runner = CliRunner(env={"COLUMNS": "80", "FORCE_COLOR": None})
OPTIONS = ["--state", "s", "--n-states", "3", "--ratio", "a"]
FRAME = small_log(600)


def call(*command: str | Path, code: int = 0, stdin: bytes | None = None) -> Any:
    result = runner.invoke(app, list(map(str, command)), input=stdin)
    assert result.exit_code == code, result.output
    return result


def write(folder: Path, number: int, start: int, stop: int) -> Path:
    path = folder / f"{number}.csv"
    arrow_csv.write_csv(FRAME.slice(start, stop - start), path)
    return path


@pytest.mark.parametrize("given", ["*.csv", "", "files"])
def test_several_files_are_one_log(given: str, tmp_path: Path) -> None:
    folder = tmp_path / "log"
    folder.mkdir()
    paths = [write(folder, 9, 0, 250), write(folder, 10, 250, 400)]
    whole, run_file = write(tmp_path, 0, 0, 400), tmp_path / "night.run"
    files = paths if given == "files" else [folder / given]
    several = call("evaluate", *files, *OPTIONS, "--checkpoint", run_file).stdout
    call("evaluate", whole, *OPTIONS, "--checkpoint", tmp_path / "one.run")
    assert evaluator_bits(run_file) == evaluator_bits(tmp_path / "one.run")
    assert "400 rows" in several
    if given != "files":  # a list of files does not grow
        write(folder, 11, 400, 600)
        call("resume", run_file)
        call("evaluate", write(tmp_path, 0, 0, 600), *OPTIONS, "--checkpoint", tmp_path / "one.run")
        assert evaluator_bits(run_file) == evaluator_bits(tmp_path / "one.run")
    paths[0].unlink()
    assert "9.csv" in call("resume", run_file, code=2).stderr or given != "files"


def test_compressed_standard_input(tmp_path: Path) -> None:
    content = write(tmp_path, 0, 0, 600).read_bytes()
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as file:
        file.write(content)
    packed = sink.getvalue().to_pybytes()
    plain = call("evaluate", "-", *OPTIONS, stdin=content).stdout
    assert call("evaluate", "-", *OPTIONS, stdin=packed).stdout == plain


def test_a_plan_is_shown_and_nothing_evaluated(tmp_path: Path) -> None:
    paths = [write(tmp_path, 9, 0, 250), write(tmp_path, 10, 250, 400)]
    shown = call("evaluate", *paths, *OPTIONS, "--plan", "--checkpoint", tmp_path / "no.run").stdout
    assert "rows        400" in shown
    assert not (tmp_path / "no.run").exists()
    content = json.loads(call("evaluate", tmp_path, "--reward", "none", "--plan", "--json").stdout)
    assert content["rows"] == 400
    assert "say which column holds the reward" in content["problems"][0]
