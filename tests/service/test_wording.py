"""What the service says is in the words of its settings, and names what the user has named."""

from __future__ import annotations

import http.client
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from serving import Server, in_this_process

from inferl.service.experiment import Experiment

EXPERIMENTS = """\
[experiments.cells]
state = "s"
n-states = 3
discount = 0.5
target = "0"
ratio = "a,b"
every = "0.2s"

[experiments.slow]
features = "x"
discount = 0.5
target = "1"
method = "bootstrap"
step-size = 0.1
replicas = 20
"""


def send(server: Server, name: str, rows: list[dict[str, Any]], sequence: int = 1) -> tuple[int, Any]:
    headers = {"Inferl-Client": "one", "Inferl-Sequence": str(sequence), "Content-Type": "application/x-ndjson"}
    body = "\n".join(map(json.dumps, rows)).encode()
    return server.ask("POST", f"/v1/experiments/{name}/transitions", body, headers)


def test_a_refusal_names_the_columns_of_the_batch_only(tmp_path: Path) -> None:
    with in_this_process(tmp_path, EXPERIMENTS) as (_, server):
        status, content = send(server, "cells", [{"state": 1, "reward": 1.0, "a": 1.0, "b": 1.0}])
        said = f"{content['error']}; {content['remedy']}"
        assert status == 400
        assert "the batch has the columns state, reward, a, b" in said
        assert "_partition" not in said
        assert "the log" not in said


def test_checks_name_policies_and_options_as_the_settings_do(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    with in_this_process(tmp_path, EXPERIMENTS) as (hub, server):
        rows = [
            {"s": int(s), "reward": 1.0, "a": float(rng.choice([0.5, 1.5])), "b": float(rng.choice([0.9, 2.1]))}
            for s in rng.integers(3, size=2000)
        ]
        assert send(server, "cells", rows)[0] == 200
        checks = server.wait_for(2000, "cells")["snapshot"]["checks"]
        (mean,) = {check["message"] for check in checks if check["name"] == "mean ratio"}
        assert mean.startswith("the mean ratio of b is 1.")
        worded = hub.experiments["slow"]._question.worded
        assert worded("use multipliers with BlockClock() as their clock") == 'use clock = "block"'
        assert worded("with (n_states), or n_states") == "with (n-states), or n-states"
        everything = json.dumps([server.state("cells"), server.state("slow")])
        assert "n_states" not in everything
        assert "DoublyRobust" not in everything


@pytest.mark.parametrize(("failure", "seconds"), [(None, "5"), ("it has stopped", "60")])
def test_a_sender_is_told_to_wait_longer_where_only_a_person_can_help(
    failure: str | None, seconds: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Experiment, "lag_bytes", property(lambda self: 1000))
    with in_this_process(tmp_path, f"[limits]\nbehind = 10\n{EXPERIMENTS}") as (hub, server):
        hub.experiments["cells"].failure = failure
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
        said = {"Inferl-Client": "a", "Inferl-Sequence": "1"}
        connection.request("POST", "/v1/experiments/cells/transitions", b"{}", said)
        answer = connection.getresponse()
        answer.read()
        connection.close()
        assert (answer.status, answer.headers["Retry-After"]) == (429, seconds)
