"""The server as a process of its own: what it answers, and what of it is in the journal."""

from __future__ import annotations

import json
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from serving import SETTINGS, Server, same_as_replay, served

ARROW = "application/vnd.apache.arrow.stream"
PATH = "/v1/experiments/walk/transitions"
EPISODES = """\
[experiments.trips]
features = "x"
episode = "trip"
order = "t"
terminated = "over"
discount = 1.0
thresholds = [0.5]

[experiments.wild]
features = "x"
target = "1"  # is no target of features, which is seen when there are some
"""
SMALL = "[limits]\nrequest = 200000\nrows = 500\nqueue = 150000\n"


def walk(n: int, seed: int = 0) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    return [{"s": int(rng.integers(3)), "reward": float(rng.normal())} for _ in range(n)]


def arrow(table: Any, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with served(tmp_path_factory.mktemp("service"), experiments=SMALL + SETTINGS + EPISODES) as server:
        assert server.post(walk(50), 1, client="first")[0] == 200
        yield server


def number_of(server: Server, client: str) -> int:
    return int(server.ask("GET", f"/v1/experiments/walk/clients/{client}")[1]["sequence"])


def test_a_batch_a_repeat_and_a_gap(server: Server) -> None:
    rows = server.state()["rows"]
    assert server.post(walk(7), 1) == (200, {"client": "one", "sequence": 1, "rows": 7, "repeat": False, "bad_rows": 0})
    assert server.post(walk(7), 1) == (200, {"client": "one", "sequence": 1, "rows": 0, "repeat": True, "bad_rows": 0})
    status, content = server.post(walk(7), 5)
    assert (status, content["expected"]) == (409, 2)
    assert content["remedy"] == "send batch 2 first"
    assert server.state()["rows"] == rows + 7
    assert number_of(server, "one") == 1


def test_arrow_and_json_are_the_same_rows(server: Server) -> None:
    rows = server.state()["rows"]
    body = arrow(pa.Table.from_pylist(walk(20)))
    assert server.post(body, 1, "arrow", **{"Content-Type": ARROW})[0] == 200
    assert server.post(walk(20), 2, "arrow")[0] == 200
    state = server.wait_for(rows + 40)
    assert state["bad_rows"] == 0
    assert state["snapshot"]["n"] > 0


BAD: dict[str, tuple[Any, str, int | None]] = {
    "not finite": ([{"s": 0, "reward": 1.0}, {"s": 0, "reward": None}], "null is not a finite number", 2),
    "no such state": ([{"s": 3, "reward": 1.0}], "3 is no state of the table of 3", 1),
    "a fraction of a state": ([{"s": 0.5, "reward": 1.0}], "0.5 is no state", 1),
    "no reward": ([{"s": 0}], "which column holds the reward", None),
    "no state": ([{"reward": 0.5}], "'s'", None),
    "text": ([{"s": 0, "reward": "much"}], "'much' is not a finite number", 1),
    "a flag that no row before had": ([{"s": 0, "reward": 0.0, "terminated": True}], "would be read as", None),
    "no JSON": (b'{"s": 0, "reward": 0.5}\n{"s": 0, "rew', "row 2 is no JSON", 2),
    "a list": (b"[1, 2]", "row 1 is no JSON object", 1),
    "nested": (b'{"s": {"a": 1}, "reward": 0.5}', "has the type struct", None),
    "nothing": (b"\n\n", "has no rows", None),
    "another's column": ([{"s": 0, "reward": 0.5, "_partition": "x"}], "_partition", None),
}


@pytest.mark.parametrize("sort", list(BAD))
def test_a_bad_batch_is_refused_as_a_whole_with_row_and_remedy(server: Server, sort: str) -> None:
    rows, problem, row = BAD[sort]
    before = server.state()["rows"]
    status, content = server.post(rows, 1, client="bad")
    assert status == 400
    assert problem in content["error"]
    assert content["row"] == row
    assert content["remedy"]
    assert server.state()["rows"] == before
    assert number_of(server, "bad") == 0


def test_arrow_that_is_none_or_larger_than_it_looks(server: Server) -> None:
    table = pa.table({"s": [0, 1], "reward": [0.5, 1.0]})
    bodies = {
        "no Arrow stream": b"nonsense",
        "cut": arrow(table)[:-40],
        "compressed": arrow(pa.table({"s": np.zeros(400, int), "reward": np.zeros(400)}), compression="zstd"),
        "a dictionary": arrow(pa.table({"s": [0], "reward": [1.0], "who": pa.array(["a"]).dictionary_encode()})),
        "list<item: list": arrow(pa.table({"s": [0], "reward": [1.0], "x": [[[1.0]]]})),
        "two of one name": arrow(pa.Table.from_arrays([pa.array([0])] * 2, ["s", "s"])),
    }
    for problem, body in bodies.items():
        status, content = server.post(body, 1, "arrows", **{"Content-Type": ARROW})
        assert status == 400, problem
        assert problem in content["error"] or problem == "cut"
    many = pa.table({"s": pa.nulls(10**6), "reward": pa.nulls(10**6)})  # a few bytes
    status, content = server.post(arrow(many), 1, "arrows", **{"Content-Type": ARROW})
    assert (status, content["error"]) == (413, "the batch has too many rows")


def test_what_is_too_large(server: Server) -> None:
    assert server.post(walk(501), 1, "large")[0] == 413
    assert server.post(b" " * 200_001, 1, "large")[0] == 413
    with socket.create_connection(("127.0.0.1", server.port)) as raw:  # without saying how much there will be
        head = f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\nInferl-Client: large\r\nInferl-Sequence: 1\r\n"
        raw.sendall(f"{head}Content-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
        for _ in range(5):
            raw.sendall(b"c350\r\n" + b" " * 50_000 + b"\r\n")
        assert b" 413 " in raw.recv(1000)


def test_while_much_is_on_the_way_more_is_to_come_later(server: Server) -> None:
    with socket.create_connection(("127.0.0.1", server.port)) as slow:
        head = f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\nInferl-Client: slow\r\nInferl-Sequence: 1\r\n"
        slow.sendall(f"{head}Content-Type: text/plain\r\nContent-Length: 160000\r\n\r\n".encode())
        for _ in range(100):
            status, content = server.post(walk(3), number_of(server, "quick") + 1, client="quick")
            if status == 429:
                break
        assert status == 429
        assert "slower" in content["error"]
    for _ in range(100):
        status, _ = server.post(walk(3), number_of(server, "quick") + 1, client="quick")
        if status == 200:
            break
    assert status == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Inferl-Client": ""}, 400),
        ({"Inferl-Client": "a b"}, 400),
        ({"Inferl-Client": "x" * 129}, 400),
        ({"Inferl-Sequence": "0"}, 400),
        ({"Inferl-Sequence": "-1"}, 400),
        ({"Inferl-Sequence": "1.5"}, 400),
        ({"Inferl-Sequence": "9" * 30}, 400),
        ({"Content-Type": "image/png"}, 415),
        ({"Content-Encoding": "gzip"}, 415),
        ({"Host": "evil.example"}, 421),
    ],
)
def test_headers(server: Server, headers: dict[str, str], status: int) -> None:
    answer = server.post(walk(3), 1, client="headers", **headers)
    assert answer[0] == status
    assert answer[1]["error"]
    assert answer[1]["remedy"]


def test_paths_and_methods(server: Server) -> None:
    assert server.ask("GET", "/v1/nothing")[0] == 404
    assert "there are walk, trips, wild" in server.ask("GET", "/v1/experiments/none")[1]["remedy"]
    assert server.ask("DELETE", "/v1/experiments/walk")[0] == 405
    assert server.ask("GET", PATH)[0] == 405
    assert server.ask("GET", "/health") == (200, {"status": "ok"})
    names = [one["name"] for one in server.ask("GET", "/v1/experiments")[1]["experiments"]]
    assert names == ["walk", "trips", "wild"]
    assert server.ask("GET", "/v1/experiments/trips/report")[0] == 404


def test_the_report_page(server: Server) -> None:
    server.wait_for(50)
    status, page = server.ask("GET", "/v1/experiments/walk/report")
    assert status == 200
    assert "<html" in page
    assert "journal://" in page


def test_rows_out_of_order_are_left_out_and_said(server: Server) -> None:
    rows = [{"trip": k, "t": t, "x": 0.5 * t, "reward": 1.0, "over": t == 3} for k in range(40) for t in (1, 2, 3)]
    rows[10], rows[11] = rows[11], rows[10]
    body = "\n".join(map(json.dumps, rows)).encode()
    said = {"Inferl-Client": "bus", "Inferl-Sequence": "1", "Content-Type": "application/x-ndjson"}
    status, content = server.ask("POST", "/v1/experiments/trips/transitions", body, said)
    assert (status, content["rows"]) == (200, 120)
    state = server.wait_for(120, "trips")
    assert state["bad_rows"] == 2
    (check,) = (one for one in state["snapshot"]["checks"] if one["name"] == "bad rows")
    assert check["status"] == "failed"
    assert "batch 1 of 'bus'" in check["message"]
    assert state["failure"] is None


def test_rows_that_make_no_transition_yet_do_not_count_as_late(server: Server) -> None:
    server.wait_for(50)
    rows = server.state()["rows"]
    assert server.post(walk(1), 1, client="alone")[0] == 200  # waits for the next row of its sender
    state = server.wait_for(rows + 1)
    assert (state["lag_rows"], state["lag_seconds"]) == (0, 0.0)
    path, said = "/v1/experiments/trips/transitions", {"Inferl-Client": "late", "Content-Type": "application/x-ndjson"}
    over = [{"trip": 99, "t": t, "x": 0.5, "reward": 1.0, "over": t == 2} for t in (1, 2)]
    body = "\n".join(map(json.dumps, over)).encode()
    before = server.state("trips")
    assert server.ask("POST", path, body, {**said, "Inferl-Sequence": "1"})[0] == 200
    again = {"trip": 99, "t": 7, "x": 0.5, "reward": 1.0, "over": False}  # the trip is over, so the row is bad
    assert server.ask("POST", path, json.dumps(again).encode(), {**said, "Inferl-Sequence": "2"})[0] == 200
    state = server.wait_for(before["rows"] + 3, "trips")
    assert (state["lag_rows"], state["bad_rows"]) == (0, before["bad_rows"] + 1)


def test_an_experiment_that_fails_says_so_and_still_records(server: Server) -> None:
    said = {"Inferl-Client": "c", "Content-Type": "application/x-ndjson"}
    for sequence in range(1, 6):
        rows = [{"x": row["reward"], "reward": 1.0} for row in walk(400, sequence)]
        body = "\n".join(map(json.dumps, rows)).encode()
        path = "/v1/experiments/wild/transitions"
        assert server.ask("POST", path, body, {**said, "Inferl-Sequence": str(sequence)})[0] == 200
    for _ in range(200):
        state = server.state("wild")
        if state["failure"]:
            break
        time.sleep(0.05)
    assert "features are vectors" in state["failure"]
    assert state["rows"] == 2000
    status, content = server.ask("GET", "/ready")
    assert (status, list(content["failures"])) == (503, ["wild"])
    assert server.state()["failure"] is None


@pytest.mark.integrations
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_saves_everything_and_a_start_goes_on(tmp_path: Path, number: int) -> None:
    with served(tmp_path) as server:
        for sequence in range(1, 6):
            assert server.post(walk(30, sequence), sequence)[0] == 200
        assert server.stop(number) == 0
        server.start()
        assert server.wait_for(150)["snapshot"]["n"] == 148
        assert server.post(walk(30, 5), 5)[1]["repeat"] is True
        for sequence in range(6, 9):
            assert server.post(walk(30, sequence), sequence)[0] == 200
        assert server.stop(number) == 0
        assert same_as_replay(server, tmp_path)


@pytest.mark.integrations
def test_another_question_is_not_answered_with_old_data(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        assert server.post(walk(30), 1)[0] == 200
        assert server.stop() == 0
        server.experiments = SETTINGS.replace("0.9", "0.8")
        process = server.spawn()
        process.communicate(timeout=60)
        assert process.returncode == 2
        assert "was begun with discount = 0.9, and now it is 0.8" in (tmp_path / "log.txt").read_text()


@pytest.mark.integrations
def test_segments_are_deleted_once_they_are_counted(tmp_path: Path) -> None:
    plain = "keep-journal = false\n[limits]\nsegment = 2000\n"
    with served(tmp_path, plain=plain) as server:
        for sequence in range(1, 61):
            assert server.post(walk(20, sequence), sequence)[0] == 200
        state = server.wait_for(1200)
        assert server.stop() == 0
        assert len(list((tmp_path / "live/walk/journal").glob("*.segment"))) <= 2
        server.start()
        assert server.state()["rows"] == 1200
        assert server.post(walk(20), 60)[1]["repeat"] is True
        assert server.post(walk(20), 61)[1]["repeat"] is False
        assert server.wait_for(1220)["snapshot"]["n"] == state["snapshot"]["n"] + 20


@pytest.mark.integrations
def test_tokens_and_where_it_listens(tmp_path: Path) -> None:
    from inferl.service.tokens import new_token

    read, write = new_token("read"), new_token("write")
    (tmp_path / "tokens.txt").write_text(f"{read[1]}  # the page\n{write[1]}\n")
    open_server = Server(tmp_path, plain='host = "0.0.0.0"')
    process = open_server.spawn()
    process.communicate(timeout=60)
    assert process.returncode == 2
    assert "without tokens, everybody who reaches 0.0.0.0" in (tmp_path / "log.txt").read_text()
    with served(tmp_path, plain='host = "0.0.0.0"\ntokens = "tokens.txt"') as server:

        def may(scope: str | None, method: str, path: str) -> int:
            tokens = {"read": read[0], "write": write[0], "other": "x" * 43}
            said = {"Authorization": f"Bearer {tokens[scope]}"} if scope else {}
            return server.ask(method, path, b"{}" if method == "POST" else None, said)[0]

        for path in ("/v1/experiments", "/v1/experiments/walk", "/metrics"):
            assert [may(scope, "GET", path) for scope in (None, "other", "write", "read")] == [401, 401, 401, 200]
        assert [may(scope, "POST", PATH) for scope in (None, "other", "read", "write")] == [401, 401, 401, 400]
        assert may("write", "GET", "/v1/experiments/walk/clients/me") == 200
        assert may(None, "GET", "/health") == 200
