"""Live streams in the shell: when a command stops, and how a run goes on."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kill_streams import INFERL
from runfiles import evaluator_bits
from streaming import File, Kafka, kafka_broker, rows
from typer.testing import CliRunner

from inferl.cli import app
from inferl.runs import Run

runner = CliRunner(env={"COLUMNS": "80", "FORCE_COLOR": None})
SMALL = ["--state", "s", "--n-states", "3", "--discount", "0.9"]


def call(*command: str | Path) -> Any:
    return runner.invoke(app, list(map(str, command)))


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.jsonl"
    File(path).send(rows(500, 1))
    return path


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_saves_the_run_and_prints_the_answer(
    log: Path, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    run_file = tmp_path / "live.run"
    command = [*INFERL, "evaluate", str(log), *SMALL, "--follow", "--checkpoint", str(run_file), "--every", "0.05s"]
    reader = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    while not run_file.exists():
        assert reader.poll() is None
        time.sleep(0.05)
    reader.send_signal(number)
    out, said = reader.communicate(timeout=30)
    assert reader.returncode == code
    assert b"95% pointwise" in out
    assert f"continue it with: inferl resume {run_file}".encode() in said
    assert not Run.load(run_file).complete


def test_until_enough_rows_or_a_narrow_interval(log: Path, tmp_path: Path) -> None:
    run_file, straight = tmp_path / "live.run", tmp_path / "straight.run"
    result = call("evaluate", log, *SMALL, "--follow", "--n-rows", "400", "--checkpoint", run_file)
    assert result.exit_code == 0, result.output
    assert call("evaluate", log, *SMALL, "--n-rows", "400", "--checkpoint", straight).stdout == result.stdout
    assert evaluator_bits(run_file) == evaluator_bits(straight)
    assert call("resume", run_file).stdout == result.stdout
    File(log).send(rows(2500, 2))
    result = call("evaluate", log, *SMALL, "--follow", "--n-rows", "3000", "--until-width", "5", "--json", "--quiet")
    assert result.exit_code == 0
    interval = json.loads(result.stdout)["interval"]
    assert interval["kind"] == "anytime"
    assert interval["n"] < 2000


def test_what_is_refused_for_streams(log: Path, tmp_path: Path) -> None:
    settings = tmp_path / "client.properties"
    settings.write_text("# who\nsecurity.protocol=SASL_SSL\nnonsense\n")
    refused: tuple[tuple[tuple[str | Path, ...], str], ...] = (
        (("evaluate", "kafka://a:1/b", "kafka://a:1/c", *SMALL), "a stream is read alone"),
        (("evaluate", "kafka://me:secret@a:1/b", *SMALL), "do not belong in a URI"),
        (("evaluate", "kafka://a:1/b", "--plan", *SMALL), "is a stream, which has no plan"),
        (("evaluate", log, "--follow", log, *SMALL), "one file of text"),
        (("evaluate", log, *SMALL, "--client-settings", settings), "line 3 is not name=value"),
        (("evaluate", log, *SMALL, "--client-settings", tmp_path / "none"), "cannot be read"),
    )
    for command, message in refused:
        result = call(*command)
        assert result.exit_code == 2, result.output
        assert message in result.stderr
        assert "secret" not in result.output
    settings.write_text("a=b\n")
    result = call("evaluate", log, *SMALL, "--client-settings", settings)
    assert "settings are those of the client of a stream" in result.stderr


@pytest.mark.parametrize(("library", "uri"), [("confluent_kafka", "kafka://a:1/b"), ("redis", "redis://a:1/b")])
def test_a_library_that_is_missing(library: str, uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    result = call("evaluate", uri, *SMALL)
    assert result.exit_code == 2
    assert f"pip install 'inferl[{uri.partition(':')[0]}]'" in result.stderr


@pytest.fixture(scope="module")
def broker() -> Iterator[str]:
    with kafka_broker() as address:
        yield address


@pytest.mark.integrations
def test_a_topic_now_and_then(broker: str, tmp_path: Path) -> None:
    """Read to its end, and later on; nothing new changes nothing."""
    topic, run_file = Kafka(broker, "hourly"), tmp_path / "hourly.run"
    sent = [(0, 1000, row) for _, _, row in rows(500, 2)]
    topic.send(sent[:300])
    first = call("evaluate", topic.name + "?partitions=0", *SMALL, "--checkpoint", run_file)
    assert first.exit_code == 0, first.output
    assert call("resume", run_file).stdout == first.stdout
    assert Run.load(run_file).evaluator.n == 299
    topic.send(sent[300:])
    later = call("resume", run_file)
    assert later.exit_code == 0, later.output
    assert Run.load(run_file).evaluator.n == 499
    straight = tmp_path / "straight.run"
    assert call("evaluate", topic.name, *SMALL, "--checkpoint", straight).exit_code == 0
    assert evaluator_bits(run_file) == evaluator_bits(straight)


@pytest.mark.integrations
def test_a_bad_message_keeps_the_run(broker: str, tmp_path: Path) -> None:
    topic, run_file = Kafka(broker, "bad"), tmp_path / "bad.run"
    settings = tmp_path / "client.properties"
    settings.write_text("client.id=auditor\n\n# the rest is as usual\n")
    sent = [(0, 1000, row) for _, _, row in rows(300, 3)]
    topic.send(sent[:200])
    topic.send_bytes(b'{"s": 1')
    topic.send(sent[200:])
    options: list[str | Path] = ["--client-settings", settings, "--checkpoint", run_file, "--json"]
    result = call("evaluate", topic.name, *SMALL, *options)
    assert result.exit_code == 2
    assert "partition 0, offset 200, row 201" in result.stderr
    assert f"inferl resume {run_file}" in result.stderr
    result = call("resume", run_file, "--skip-bad", "1", "--json", "--quiet")
    assert result.exit_code == 0, result.output
    answer = json.loads(result.stdout)
    assert answer["interval"]["n"] == 298  # the row before the bad one, and the last, have no next state
    assert answer["facts"]["bad rows skipped"].startswith("1, the first: kafka://")
    result = call("update", run_file, tmp_path / "more.csv")
    assert result.exit_code == 2
    assert "a stream is read alone" in result.stderr
