"""A policy that changes: windows, versions and the drift check in a real server, its answers and its metrics."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from serving import Server, in_this_process, same_as_replay, served

from inferl.cli.serve import question
from inferl.errors import SettingError
from inferl.service.settings import Settings

OPTIONS = ["--state", "s", "--n-states", "3", "--discount", "0.5", "--target", "0", "--window", "5", "--pane", "1000"]
EXPERIMENTS = """\
[experiments.latest]
state = "s"
n-states = 3
discount = 0.5
target = "0"
window = 5
pane = 1000
version = "policy"
thresholds = [1.5]
every = "0.2s"

[experiments.one]
state = "s"
n-states = 3
discount = 0.5
target = "0"
version = "policy"
every = "0.2s"
"""
BEFORE, AFTER = 1.0, 0.5  # the mean reward; the value is twice as much
JUMP = 8000  # rows


def rows_of(n: int, mean: float, seed: int, version: str = "v1") -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    states, rewards = rng.integers(3, size=n).tolist(), rng.normal(mean, 0.5, n).tolist()
    return [{"s": s, "reward": reward, "policy": version} for s, reward in zip(states, rewards, strict=True)]


def send(server: Server, rows: list[dict[str, Any]], sequence: int, name: str = "latest") -> tuple[int, Any]:
    headers = {"Inferl-Client": "one", "Inferl-Sequence": str(sequence), "Content-Type": "application/x-ndjson"}
    body = "\n".join(map(json.dumps, rows)).encode()
    return server.ask("POST", f"/v1/experiments/{name}/transitions", body, headers)


def drift(snapshot: Any) -> Any:
    (found,) = (check for check in snapshot["checks"] if check["name"] == "drift")
    return found


def test_a_window_follows_a_jump_and_says_when_it_was_and_how_large(tmp_path: Path) -> None:
    with in_this_process(tmp_path, EXPERIMENTS) as (_, server):
        for k in range(8):
            assert send(server, rows_of(1000, BEFORE, k), k + 1)[0] == 200
        now = server.wait_for(JUMP, "latest")["snapshot"]
        assert (now["change"], drift(now)["status"]) == (None, "passed")
        assert now["window"]["text"] == "5 panes of 1,000 transitions, and the open one"
        assert 5000 <= now["window"]["n"] <= 6000
        (target,) = now["targets"]
        assert target["lower"] < 2 * BEFORE < target["upper"]
        assert (target["anytime_lower"], target["anytime_upper"], target["text"]["anytime"]) == (None, None, None)
        assert now["decided_by"] == "pointwise"
        assert target["decisions"] == [{"threshold": 1.5, "is": "above"}]

        for k in range(8, 11):
            assert send(server, rows_of(1000, AFTER, k), k + 1)[0] == 200
        now = server.wait_for(JUMP + 3000, "latest")["snapshot"]
        assert drift(now)["status"] == "failed"
        assert now["change"]["within"]
        assert abs(now["change"]["n"] - JUMP) < 1000  # one pane
        assert abs(now["change"]["shift"] - 2 * (AFTER - BEFORE)) < 0.15
        assert now["change"]["text"] in drift(now)["message"]
        assert now["targets"][0]["decisions"] == [{"threshold": 1.5, "is": "open"}]  # a check has failed

        for k in range(11, 16):
            assert send(server, rows_of(1000, AFTER, k), k + 1)[0] == 200
        now = server.wait_for(JUMP + 8000, "latest")["snapshot"]
        assert drift(now)["status"] == "passed"
        assert not now["change"]["within"]
        (target,) = now["targets"]
        assert target["lower"] < 2 * AFTER < target["upper"]
        assert target["decisions"] == [{"threshold": 1.5, "is": "below"}]
        metrics = server.ask("GET", "/metrics")[1]
        assert 'inferl_lower{experiment="latest",target="value",kind="pointwise"' in metrics
        assert 'kind="anytime"' not in metrics
        assert 'inferl_threshold{experiment="latest",target="value",number="1.5"} 1.5' in metrics


@pytest.mark.integrations
def test_a_second_version_is_refused_or_begins_anew(tmp_path: Path) -> None:
    with served(tmp_path, experiments=EXPERIMENTS) as server:
        for name in ("one", "latest"):
            assert send(server, rows_of(2000, BEFORE, 1), 1, name)[0] == 200
        mixed = rows_of(10, BEFORE, 2) + rows_of(10, AFTER, 2, "v2")
        status, content = send(server, mixed, 2, "one")
        assert (status, content["row"]) == (400, 11)
        assert content["error"].startswith("row 11: policy is 'v2', and 'v1' in the rows before")
        assert "an experiment of its own" in content["remedy"]
        server.stop()
        server.start()
        assert send(server, mixed, 2, "one") == (400, content)  # the version is known after a restart, too
        assert send(server, rows_of(10, BEFORE, 2), 2, "one")[0] == 200
        state = server.wait_for(2010, "one")
        assert (state["failure"], state["snapshot"]["n"]) == (None, 2008)  # two rows wait for those after them

        assert send(server, rows_of(4900, AFTER, 3, "v2"), 2)[0] == 200
        now = server.wait_for(6900, "latest")["snapshot"]
        assert 4800 < now["window"]["n"] < 4900
        (target,) = now["targets"]
        assert target["lower"] < 2 * AFTER < target["upper"]
        assert (now["change"], drift(now)["status"]) == (None, "passed")
        server.stop()
        assert same_as_replay(server, tmp_path, [*OPTIONS, "--version", "policy"], "latest")


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ("window = 5", "a window needs both"),
        ('window = 5\npane = "1h"', "name its column: time"),
        ('window = 5\npane = 100\nkind = "anytime"', "a window has no anytime interval"),
        ('window = 5\npane = 100\nmethod = "bootstrap"\nstep-size = 0.1', "has no window"),
    ],
)
def test_a_window_that_cannot_be_is_refused_at_the_start(options: str, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "service.toml"
    path.write_text(f"[experiments.hours]\n{options}\n")
    with pytest.raises(SettingError, match=f"experiment hours: .*{problem}"):
        Settings.read(path, question)
