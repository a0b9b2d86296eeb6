"""The client: what it has taken arrives once, whatever happens to the service, to its rows and to its connection."""

from __future__ import annotations

import http.server
import logging
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from serving import SETTINGS, Server, served

from inferl.errors import SendingError, SettingError
from inferl.service.client import Client
from inferl.sources.logs.inputs.journal import ROWS, ends_of, segments

SMALL = "[limits]\nrequest = 60000\nrows = 300\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with served(tmp_path_factory.mktemp("client"), experiments=SMALL + SETTINGS) as server:
        yield server


def recorded(server: Server, client: str) -> list[pa.Table]:
    found = [record for segment in segments(server.folder / "live/walk/journal") for record in ends_of(segment)]
    return [pa.ipc.open_stream(one.payload).read_all() for one in found if one.kind == ROWS and one.client == client]


def row(**more: Any) -> dict[str, Any]:
    return {"s": 0, "reward": 1.0, **more}


def test_rows_are_taken_as_they_are_when_they_are_sent(server: Server) -> None:
    buffer, entries = np.zeros((2, 2), np.float32), [1.0, 2.0]
    with Client(server.url, "walk", name="reuse") as client:
        for k in range(5):
            buffer[:], entries[0] = k, k
            client.send(**row(seen=buffer, entries=entries, one=np.array(k)))
    (table,) = recorded(server, "reuse")
    assert table["seen"].to_pylist() == [[k] * 4 for k in range(5)]
    assert table["entries"].to_pylist() == [[k, 2.0] for k in range(5)]
    assert table["one"].to_pylist() == list(range(5))


@pytest.mark.parametrize("name", ["web/1", "a?b#c%2f", "../../etc", "<script>alert(1)</script>", "x" * 128])
def test_a_name_may_have_any_sign(server: Server, name: str) -> None:
    for k in (1, 2):
        with Client(server.url, "walk", name=name) as client:
            client.send_rows([row()] * 3)
            client.flush(30)
            assert client.sequence == k
    assert sum(map(len, recorded(server, name))) == 6


@pytest.mark.parametrize("name", ["a b", "a\r\nX: y", "é", "x" * 129])
def test_a_name_that_no_header_can_hold_is_refused(name: str) -> None:
    with pytest.raises(SettingError, match="name is"):
        Client("http://127.0.0.1:1", "walk", name=name)
    with pytest.raises(SettingError, match="token has spaces"):
        Client("http://127.0.0.1:1", "walk", token=name.replace("x", "é"))


def test_a_batch_that_is_too_large_is_sent_in_parts(server: Server) -> None:
    with Client(server.url, "walk", name="large", rows=1000, seconds=60.0) as client:
        client.send_rows([row(number=k, text="x" * 500 * (k % 2)) for k in range(1000)])
    batches = recorded(server, "large")
    assert len(batches) > 3
    assert [number for table in batches for number in table["number"].to_pylist()] == list(range(1000))


def test_two_senders_of_one_name_are_noticed(server: Server) -> None:
    one = Client(server.url, "walk", name="twin")
    one.send(**row())
    one.flush(30)
    with Client(server.url, "walk", name="twin") as other:
        other.send(**row())
    one.send(**row())
    with pytest.raises(SendingError, match="that of another sender"):
        one.flush(30)
    with pytest.raises(SendingError):
        one.close()


def test_a_row_that_cannot_be_written_ends_the_client_and_not_its_thread_alone(server: Server) -> None:
    client = Client(server.url, "walk", name="odd")
    client.send(**row(thing=object()))
    with pytest.raises(SendingError, match="cannot be written"):
        client.flush(30)
    with pytest.raises(SendingError):
        client.close()


def send_and_flush(client: Client) -> None:
    """Send a row; either call raises, whichever comes after the answer."""
    client.send(**row())
    client.flush(30)


class Foreign(http.server.BaseHTTPRequestHandler):
    """A service of somebody else."""

    answer: tuple[int, dict[str, str], bytes] = (200, {}, b"[1, 2]")

    def do_GET(self) -> None:
        status, headers, body = self.answer
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *about: Any) -> None:
        pass


@contextmanager
def foreign(*answer: Any) -> Iterator[str]:
    handler = type("Handler", (Foreign,), {"answer": answer})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ((200, {}, b"[1, 2]"), "no service of inferl"),
        ((200, {}, b'{"sequence": "many"}'), "no service of inferl"),
        ((404, {}, b"<html>nothing here"), "nothing here"),
        ((302, {"Location": "/"}, b""), "Found"),
    ],
)
def test_what_is_no_service_is_an_error_and_nobody_waits_for_ever(answer: Any, problem: str) -> None:
    with foreign(*answer) as url:
        client = Client(url, "walk")
        with pytest.raises(SendingError, match=problem):
            send_and_flush(client)
        with pytest.raises(SendingError):
            client.close()


def test_a_service_that_is_away_is_said_once_and_waited_for(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    server = Server(tmp_path)
    with caplog.at_level(logging.WARNING, "inferl"):
        client = Client(server.url, "walk", name="early", most_waiting=100, when_full="raise")
        client.send_rows([row()] * 99)
        with pytest.raises(SendingError, match=r"2 more are too many .*none of them was taken"):
            client.send_rows([row()] * 2)
        client.send(**row())
        with pytest.raises(TimeoutError, match="100 rows were not confirmed"):
            client.flush(1.0)
        with served(tmp_path, port=server.port):
            client.flush(60)
            client.close()
    said = [record.getMessage() for record in caplog.records]
    assert [("trying until it works" in text, "answers again" in text) for text in said] == [
        (True, False),
        (False, True),
    ]


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_needs_a_client_of_its_own(server: Server) -> None:
    with Client(server.url, "walk") as client:
        client.send(**row())
        client.flush(30)
        child = os.fork()
        if child == 0:
            try:
                client.send(**row())
            except SendingError as error:
                os._exit(7 if "in each process" in str(error) else 1)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
