"""No row that is answered with 200 stops an experiment, and no setting lets one do so."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from serving import Server, in_this_process, same_as_replay, served

from inferl.cli.serve import question
from inferl.errors import SettingError
from inferl.service.settings import Settings

HOURS = """\
[experiments.hours]
state = "s"
n-states = 3
discount = 0.5
target = "0"
window = 5
pane = "1h"
time = "at"
every = "0.2s"
"""
OPTIONS = [
    *("--state", "s", "--n-states", "3", "--discount", "0.5", "--target", "0"),
    *("--window", "5", "--pane", "1h", "--time", "at", "--skip-bad", "10"),
]
NOW = 1.7e9


def row(at: Any, **more: Any) -> dict[str, Any]:
    return {"s": 1, "reward": 1.0, "at": at} | more


def send(server: Server, rows: list[dict[str, Any]], sequence: int, name: str = "hours") -> tuple[int, Any]:
    headers = {"Inferl-Client": "one", "Inferl-Sequence": str(sequence), "Content-Type": "application/x-ndjson"}
    body = "\n".join(map(json.dumps, rows)).encode()
    return server.ask("POST", f"/v1/experiments/{name}/transitions", body, headers)


@pytest.mark.parametrize("far", [1000 * NOW, -1e12, 1e300, "9000-01-01T00:00:00Z"])
def test_a_time_that_is_not_in_seconds_is_refused_at_the_door(tmp_path: Path, far: Any) -> None:
    first, bad = (NOW, far) if not isinstance(far, str) else ("2024-01-01T00:00:00Z", far)
    with in_this_process(tmp_path, HOURS) as (hub, server):
        assert send(server, [row(first)], 1)[0] == 200
        status, content = send(server, [row(first), row(bad)], 2)
        assert (status, content["row"]) == (400, 2)
        assert "column 'at'" in content["error"]
        assert "is no time in seconds since 1970" in content["error"]
        assert content["remedy"] == "divide milliseconds by 1000"
        assert send(server, [row(first)] * 3, 2)[0] == 200
        assert server.wait_for(4, "hours")["failure"] is None
        assert hub.experiments["hours"].bad_rows == 0


def test_a_time_in_the_future_is_refused_too(tmp_path: Path) -> None:
    now = time.time()
    with in_this_process(tmp_path, HOURS) as (_, server):
        status, content = send(server, [row(now), row(now + 7200), row(now + 2 * 86_400)], 1)
        assert (status, content["row"], content["remedy"]) == (400, 3, "repair the clock")
        assert "is more than a day ahead of the server's clock" in content["error"]
        assert send(server, [row(now), row(now + 7200)], 1)[0] == 200


@pytest.mark.integrations
def test_such_a_time_that_is_in_a_journal_already_is_left_out(tmp_path: Path) -> None:
    with in_this_process(tmp_path, HOURS) as (hub, server):
        one = hub.experiments["hours"]
        assert send(server, [row(NOW)] * 2, 1)[0] == 200
        far = "\n".join(map(json.dumps, [row(1000 * NOW), row(NOW + 1)])).encode()
        batch = one.door._read_json(far)
        one.journal.append("one", 2, 2, one.door._packed(batch)).result(10)  # as a door of before would have
        assert send(server, [row(NOW + 2)] * 3, 3)[0] == 200
        state = server.wait_for(7, "hours")
        assert (state["failure"], state["bad_rows"]) == (None, 1)
    with served(tmp_path, experiments=HOURS) as server:
        assert send(server, [row(NOW + 3)] * 3, 4)[0] == 200
        assert server.wait_for(10, "hours")["failure"] is None
        assert server.ask("GET", "/ready")[0] == 200
        server.stop()
        assert same_as_replay(server, tmp_path, OPTIONS, "hours")


@pytest.mark.parametrize(
    ("options", "refused"),
    [
        ('state = "s"\nn-states = 5000\ntarget = "0"', True),
        ('state = "s"\nn-states = 2000\ntarget = "0"', False),
        ('state = "s"\nn-states = 5000\ntarget = "0"\nmethod = "bootstrap"\nstep-size = 1.0', False),
    ],
)
def test_a_table_that_would_become_too_large_is_refused_at_the_start(
    options: str, refused: bool, tmp_path: Path
) -> None:
    path = tmp_path / "service.toml"
    path.write_text(f"[experiments.cells]\n{options}\n")
    if not refused:
        assert list(Settings.read(path, question).experiments) == ["cells"]
        return
    with pytest.raises(SettingError, match=r"experiment cells: LeastSquares takes at most 2,000 .*not 5,000"):
        Settings.read(path, question)


def test_so_is_one_for_too_many_policies_with_the_first_rows(tmp_path: Path) -> None:
    cells = '[experiments.cells]\nstate = "s"\nn-states = 1500\ntarget = "0"\nratio = "a,b"\n'
    with in_this_process(tmp_path, cells) as (_, server):
        status, content = send(server, [row(NOW, a=1.0, b=0.5)], 1, "cells")
        assert (status, content["row"]) == (400, None)
        assert "at most 2,000" in content["error"]
        assert server.state("cells")["rows"] == 0
