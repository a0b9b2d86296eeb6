"""Rows that were answered with 200 and do not fit those before them: who sent them, and for how long that matters."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from serving import INFERL, Server, in_this_process, same_as_replay

from inferl.service.client import Client
from inferl.sources.logs.episodes.labelling import Labelling
from inferl.sources.logs.episodes.pairing import Pairing
from inferl.sources.logs.progress import Progress

TRIPS = """\
[experiments.trips]
features = "x"
episode = "trip"
order = "t"
terminated = "over"
discount = 1.0
every = "0.2s"
"""
OPTIONS = ["--features", "x", "--episode", "trip", "--order", "t", "--terminated", "over", "--discount", "1"]


def trips(first: int, n: int) -> list[dict[str, Any]]:
    return [
        {"trip": trip, "t": t, "x": 0.1 * (trip % 7), "reward": float(t % 3), "over": t == 3}
        for trip in range(first, first + n)
        for t in (1, 2, 3)
    ]


def send(server: Server, client: str, sequence: int, rows: list[dict[str, Any]]) -> Any:
    headers = {"Inferl-Client": client, "Inferl-Sequence": str(sequence), "Content-Type": "application/x-ndjson"}
    body = "\n".join(map(json.dumps, rows)).encode()
    status, content = server.ask("POST", "/v1/experiments/trips/transitions", body, headers)
    assert status == 200
    return content


def check_of(state: Any) -> Any:
    (found,) = (check for check in state["snapshot"]["checks"] if check["name"] == "bad rows")
    return found


@pytest.mark.integrations
def test_a_sender_that_uses_labels_again_is_named_and_the_check_passes_in_time(tmp_path: Path) -> None:
    with in_this_process(tmp_path, TRIPS) as (_, server):
        assert send(server, "good", 1, trips(1000, 100))["bad_rows"] == 0
        send(server, "again", 1, trips(0, 4))
        send(server, "again", 2, trips(1, 2))  # started again, with the labels of before
        state = server.wait_for(318, "trips")
        assert (state["bad_rows"], check_of(state)["status"]) == (6, "failed")
        assert "it passes after 5,682 sound rows" in check_of(state)["remedy"]
        asked = [server.ask("GET", f"/v1/experiments/trips/clients/{name}")[1] for name in ("again", "good", "nobody")]
        assert [one["bad_rows"] for one in asked] == [6, 0, 0]
        assert send(server, "again", 3, trips(10, 1))["bad_rows"] == 6
        for sequence in (2, 3):
            send(server, "good", sequence, trips(1000 * sequence, 1000))
        state = server.wait_for(318 + 3 + 6000, "trips")
        assert (state["bad_rows"], check_of(state)["status"]) == (6, "passed")
        assert check_of(state)["message"].startswith("6 of 6,321 rows were left out, the first: batch 2 of 'again'")
    # As the guide says it: the journal again, with the options of the experiment and no other.
    assert same_as_replay(server, tmp_path, OPTIONS, "trips")
    journal = f"journal://{tmp_path / 'live/trips/journal'}"
    strict = [*INFERL, "evaluate", journal, *OPTIONS, "--skip-bad", "0", "--quiet"]
    done = subprocess.run(strict, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert "batch 2 of 'again'" in done.stderr


@pytest.mark.integrations
def test_the_client_says_so_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with in_this_process(tmp_path, TRIPS) as (_, server), Client(server.url, "trips", name="again") as client:
        client.send_rows(trips(0, 4))
        client.flush(30)
        client.send_rows(trips(1, 2))
        client.flush(30)
        server.wait_for(18, "trips")
        assert client.bad_rows == 0  # it is told with its next batch
        for trip in (10, 11):
            client.send_rows(trips(trip, 1))
            client.flush(30)
        assert client.bad_rows == 6
    assert [record.message for record in caplog.records if "were left out" in record.message] == [
        "/v1/experiments/trips: 6 rows of again did not fit those before them, and were left out"
    ]


@pytest.mark.parametrize(("rows", "status"), [(5999, "failed"), (6000, "passed")])
def test_one_row_in_a_thousand_may_be_bad(rows: int, status: str) -> None:
    progress = Progress(Pairing(Labelling(named=True)), rows=rows, skipped=6, faults=("row 1: x",))
    *_, check = progress.checks(unattended=True)
    assert (check.name, check.status) == ("bad rows", status)
    progress.verify()
    with pytest.raises(Exception, match="bad rows of the parts"):
        replace(progress, skipped_of={"a": 5}).verify()
