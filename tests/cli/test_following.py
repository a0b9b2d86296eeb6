"""Readings and saves by time, also while the source is silent; an interrupt loses nothing."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from logs import small_log
from pyarrow import parquet
from runfiles import evaluator_bits
from typer.testing import CliRunner

from inferl.cli import app, following
from inferl.cli.building import make_evaluator, make_source
from inferl.cli.options import Reply
from inferl.cli.pace import Pace, Task, Ticker
from inferl.data.transitions import Transitions
from inferl.errors import SettingError
from inferl.runs import Run
from inferl.sources import table

runner = CliRunner(env={"COLUMNS": "80", "FORCE_COLOR": None})
SMALL = ["--state", "s", "--n-states", "3"]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.parquet"
    parquet.write_table(small_log(), path, row_group_size=500)
    return path


def call(*command: str | Path) -> Any:
    return runner.invoke(app, list(map(str, command)))


@pytest.mark.parametrize("text", ["", "0", "0s", "-5", "10x", "s", "1e3", "inf", "nans"])
def test_a_pace_that_cannot_be_kept(text: str, log: Path) -> None:
    with pytest.raises(SettingError, match="give a time, such as 10s"):
        Pace.parsed(text)
    assert call("evaluate", log, *SMALL, f"--every={text}").exit_code == 2


def test_by_transitions() -> None:
    done: list[int] = []
    n = 0
    task = Task(lambda: done.append(n), Pace(transitions=100))
    for n in range(10, 350, 10):
        task.do_if_due(n)
    assert done == [100, 200, 300]


def test_by_time_and_only_what_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("inferl.cli.pace.time.monotonic", lambda: now)
    done: list[tuple[float, int]] = []
    n = 0
    task = Task(lambda: done.append((now, n)), Pace(seconds=10))
    task.rest(0)
    for now, n in ((5, 50), (10, 50), (20, 50), (29, 60), (31, 60), (45, 70)):  # noqa: B007 (read above)
        task.do_if_due(n)
    assert done == [(10, 50), (31, 60), (45, 70)]


def test_a_task_that_takes_long_is_done_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenth of the time at most, if the save of a large run takes longer than the pace allows for."""
    now = 0.0
    monkeypatch.setattr("inferl.cli.pace.time.monotonic", lambda: now)

    def act() -> None:
        nonlocal now
        now += 3.0

    task = Task(act, Pace(seconds=1))
    task.do(1)
    assert task.due == 33.0


def test_what_fails_while_the_source_is_silent_is_raised_where_it_is_read() -> None:
    failed = threading.Event()

    def fail() -> None:
        failed.set()
        raise OSError("the disk is full")

    with Ticker(lambda: 1, [Task(fail, Pace(seconds=0.01))]) as ticker:
        with ticker.waiting():
            assert failed.wait(30)
        with pytest.raises(OSError, match="the disk is full"):
            ticker.check()


def test_what_was_read_is_shown_and_saved_while_the_source_is_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The source waits until its first rows have been shown and saved; if they were not, it would wait for ever."""
    source = table(small_log(2000), state="s", n_states=3, batch=300)
    run = Run(make_evaluator(_options(), 3, by_starts=True), "evaluate", _options())
    lines: list[dict[str, Any]] = []
    shown, saved, run_file = threading.Event(), threading.Event(), tmp_path / "night.run"
    echo = typer.echo

    def listening(text: str, **options: Any) -> None:
        lines.append(json.loads(text))
        if lines[-1]["interval"]["n"] > 290:
            shown.set()
        echo(text, **options)

    save = Run.save

    def saving(self: Run, path: Any) -> None:
        save(self, path)
        saved.set()

    monkeypatch.setattr("inferl.cli.following.typer.echo", listening)
    monkeypatch.setattr(Run, "save", saving)

    def slow() -> Iterator[Transitions]:
        for i, chunk in enumerate(source):
            if i == 1:
                assert shown.wait(30)
                assert saved.wait(30)
                assert not Run.load(run_file).complete
            yield chunk

    following.complete(run, source, slow(), run_file, Reply(json_lines=True))
    ns = [line["interval"]["n"] for line in lines]
    assert [n for n in ns if 290 < n < 300]  # not where a stored reading is due
    straight = Run(make_evaluator(_options(), 3, by_starts=True), "evaluate", _options())
    following.complete(straight, source, source, tmp_path / "straight.run", Reply(json_lines=True, quiet=True))
    assert evaluator_bits(run_file) == evaluator_bits(tmp_path / "straight.run")
    again = Run.load(run_file)
    assert [(r.n, r.estimate, r.upper) for r in again.readings] == [
        (r.n, r.estimate, r.upper) for r in straight.readings
    ]


def _options() -> dict[str, Any]:
    return {
        "every": "0.05s",
        "algorithm": "td",
        "trace": 0.0,
        "steps": 1,
        "estimator": "value",
        "method": "least-squares",
    }


class Interrupted:
    """A source whose reader is interrupted after two chunks."""

    def __init__(self, source: Any) -> None:
        self.source = source

    def __getattr__(self, name: str) -> Any:
        return getattr(self.source, name)

    def __iter__(self) -> Iterator[Transitions]:
        for i, chunk in enumerate(self.source):
            if i == 2:
                raise KeyboardInterrupt
            yield chunk


def test_an_interrupt_answers_and_loses_nothing(log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_file, straight = tmp_path / "night.run", tmp_path / "straight.run"
    make = make_source
    with monkeypatch.context() as patch:
        patch.setattr(following, "make_source", lambda *options: Interrupted(make(*options)))
        result = call("evaluate", log, *SMALL, "--checkpoint", run_file)
        lines = call("evaluate", log, *SMALL, "--json").stdout.splitlines()
    assert result.exit_code == 130
    assert "95% pointwise, 99" in result.stdout
    assert f"continue it with: inferl resume {run_file}" in result.stderr
    assert not json.loads(lines[-1])["final"]
    resumed = call("resume", run_file)
    assert resumed.exit_code == 0, resumed.output
    assert resumed.stdout == call("evaluate", log, *SMALL, "--checkpoint", straight).stdout
    assert evaluator_bits(run_file) == evaluator_bits(straight)
    ns = [[reading.n for reading in Run.load(path).readings] for path in (run_file, straight)]
    assert ns[0] == ns[1]


def test_an_interrupt_before_the_first_row(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(following, "make_source", interrupt)
    result = call("evaluate", log, *SMALL)
    assert result.exit_code == 130
    assert result.stderr == "inferl: interrupted\n"
