"""What is not for everybody: files, answers, and connections that are held open."""

from __future__ import annotations

import asyncio
import http.client
import json
import shutil
import socket
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import uvicorn
from serving import SETTINGS, Server, served

from inferl.errors import SettingError
from inferl.service import connections
from inferl.service.app import _Guard
from inferl.service.door import Door, Refused
from inferl.service.settings import Limits, Settings
from inferl.service.tokens import Tokens, new_token

TRIPS = """\
[experiments.trips]
features = "x"
episode = "trip"
order = "t"
terminated = "over"
discount = 1.0
every = "0.2s"

[experiments.wild]
features = "x"
target = "1"
"""
PATH = "/v1/experiments/walk/transitions"


@pytest.fixture(scope="module")
def tokens() -> dict[str, tuple[str, str]]:
    return {scope: new_token(scope) for scope in ("read", "write")}


@pytest.fixture(scope="module")
def server(tokens: dict[str, tuple[str, str]], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("security")
    (folder / "tokens.txt").write_text("\n".join(line for _, line in tokens.values()))
    with served(folder, experiments=SETTINGS + TRIPS, plain='tokens = "tokens.txt"') as server:
        yield server


def headers(tokens: dict[str, tuple[str, str]], scope: str, client: str = "one", sequence: int = 1) -> dict[str, str]:
    said = {"Inferl-Client": client, "Inferl-Sequence": str(sequence), "Content-Type": "application/x-ndjson"}
    return said | {"Authorization": f"Bearer {tokens[scope][0]}"}


def send(server: Server, tokens: Any, name: str, rows: list[dict[str, Any]], **about: Any) -> int:
    body = "\n".join(map(json.dumps, rows)).encode()
    return server.ask("POST", f"/v1/experiments/{name}/transitions", body, headers(tokens, "write", **about))[0]


def read(server: Server, tokens: Any, path: str) -> Any:
    return server.ask("GET", path, None, headers(tokens, "read"))[1]


def test_why_something_failed_is_told_to_those_who_may_read(server: Server, tokens: Any) -> None:
    rows = [{"x": 0.5 * (k % 7), "reward": 1.0} for k in range(2000)]
    assert send(server, tokens, "wild", rows) == 200
    until = time.monotonic() + 60
    while server.ask("GET", "/ready")[0] == 200:
        assert time.monotonic() < until
        time.sleep(0.05)
    assert server.ask("GET", "/ready") == (503, {"status": "failed"})
    assert list(read(server, tokens, "/ready")["failures"]) == ["wild"]


def test_what_is_recorded_is_for_nobody_else_on_the_machine(server: Server, tokens: Any) -> None:
    assert send(server, tokens, "walk", [{"s": 0, "reward": 1.0}] * 20) == 200
    run = server.folder / "live/walk/run.inferl"
    until = time.monotonic() + 60
    while not run.exists():
        assert time.monotonic() < until
        time.sleep(0.05)
    made = [server.folder / "live", *(server.folder / "live").rglob("*")]
    assert {"lock", "first.arrow", "run.inferl", "history.json", "experiment.json"} < {path.name for path in made}
    assert [path for path in made if stat.S_IMODE(path.stat().st_mode) & 0o077] == []


def test_no_answer_names_a_folder_and_none_is_a_page_of_somebody_else(server: Server, tokens: Any) -> None:
    """The name of a sender, and what was sent, are shown as text."""
    client, rows = "<b>bus</b>", [{"trip": 1, "t": t, "x": 0.5, "reward": 1.0, "over": t == 9} for t in range(10)]
    again = [{"trip": 1, "t": 3, "x": 0.5, "reward": 1.0, "over": False}]
    assert send(server, tokens, "trips", rows, client=client) == 200
    assert send(server, tokens, "trips", again, client=client, sequence=2) == 200
    until = time.monotonic() + 60
    while True:
        state = read(server, tokens, "/v1/experiments/trips")
        said = [one["message"] for one in (state["snapshot"] or {"checks": []})["checks"] if one["name"] == "bad rows"]
        if said and client in said[0]:
            break
        assert time.monotonic() < until, state
        time.sleep(0.05)
    page = read(server, tokens, "/v1/experiments/trips/report")
    assert "&lt;b&gt;bus&lt;/b&gt;" in page
    assert "<b>bus" not in page
    for text in (page, json.dumps(state), read(server, tokens, "/metrics")):
        assert str(server.folder) not in text


def test_no_answer_lets_another_site_read_it(server: Server, tokens: Any) -> None:
    """A page of another site can send no batch without asking first, by OPTIONS, which is refused."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    for method, path, status in (("OPTIONS", PATH, 405), ("GET", "/v1/experiments", 200), ("GET", "/", 200)):
        asked = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
        connection.request(method, path, headers=headers(tokens, "write" if method == "OPTIONS" else "read") | asked)
        answer = connection.getresponse()
        answer.read()
        assert answer.status == status
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert [name for name in answer.headers if name.lower().startswith("access-control")] == []
    connection.close()


def test_a_large_body_is_refused_before_it_is_sent(server: Server, tokens: Any) -> None:
    said = headers(tokens, "write") | {"Host": "localhost", "Content-Length": "80000000000", "Expect": "100-continue"}
    with socket.create_connection(("127.0.0.1", server.port), 30) as raw:
        head = "".join(f"{name}: {value}\r\n" for name, value in said.items())
        raw.sendall(f"POST {PATH} HTTP/1.1\r\n{head}\r\n".encode())
        assert raw.recv(1000).startswith(b"HTTP/1.1 413")


def test_a_path_is_not_completed_by_a_redirection(server: Server, tokens: Any) -> None:
    """It would name the host that was asked for, which may be anybody's."""
    asked = headers(tokens, "read") | {"Host": "evil.example"}
    assert server.ask("GET", "/metrics/", None, asked)[0] == 404


def test_rates_are_those_of_each_address() -> None:
    answers: list[int] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        answers.append(200)

    async def told(message: Any) -> None:
        if message["type"] == "http.response.start":
            answers.append(message["status"])
            assert (b"retry-after", b"1") in message["headers"]

    guard = _Guard(app, Settings({}, limits=Limits(rate=3)), Tokens())

    def ask(address: str) -> None:
        scope = {"type": "http", "method": "GET", "path": "/", "client": (address, 1), "headers": [(b"host", b"[::1]")]}
        asyncio.run(guard(scope, lambda: None, told))  # type: ignore[arg-type, return-value]

    for _ in range(5):
        ask("10.0.0.1")
    ask("10.0.0.2")
    assert answers == [200, 200, 200, 429, 429, 200]
    time.sleep(0.5)
    ask("10.0.0.1")
    assert answers[-1] == 200


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A server with our connections, which wait half a second only; it reads no body."""
    monkeypatch.setattr(connections, "PATIENCE", 0.5)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.sleep(1.2 if scope["path"] == "/slow" else 0.0)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        config = uvicorn.Config(app, http=connections.Connection, ws="none", lifespan="off", log_config=None)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=lambda: asyncio.run(server.serve([listener])))
        thread.start()
        while not server.started:
            time.sleep(0.01)
        yield listener.getsockname()[1]
        server.should_exit = True
        thread.join()


@pytest.mark.parametrize(
    "head", [b"", b"GET / HTTP/1.1\r\nX: ", b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99\r\n\r\n"]
)
def test_a_connection_on_which_nobody_asks_is_closed(quick: int, head: bytes) -> None:
    """Nothing at all, a head byte by byte, and the body of what was answered already."""
    with socket.create_connection(("127.0.0.1", quick), 30) as one:
        one.sendall(head)
        until, closed = time.monotonic() + 20, False
        while not closed and time.monotonic() < until:
            try:
                one.sendall(b"x")
            except OSError:
                closed = True
            time.sleep(0.05)
        assert closed


def test_a_slow_answer_and_a_kept_connection_are_no_reason_to_close(quick: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", quick, timeout=30)
    for path in ("/slow", "/", "/slow"):
        connection.request("GET", path)
        assert connection.getresponse().read() == b"ok"
    connection.close()


def test_what_follows_on_an_answer_and_is_no_http_writes_no_traceback(
    quick: int, caplog: pytest.LogCaptureFixture
) -> None:
    chunked = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    for path in (b"/", b"/slow"):
        with socket.create_connection(("127.0.0.1", quick), 30) as one:
            one.sendall(chunked.replace(b"/", path, 1))
            time.sleep(0.1)
            one.sendall(b"zz\r\nno chunk")
            while one.recv(1000):
                pass
    time.sleep(1.5)
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


def door(folder: Path) -> Door:
    from inferl.cli.serve import question
    from inferl.sources.logs.inputs.journal import JournalStream

    file = folder / "settings.toml"
    file.write_text(SETTINGS)
    one = Settings.read(file, question).experiments["walk"]
    return Door(one.source(JournalStream("x", follow=True)), Limits(), folder / "first.arrow", one)


def test_rows_that_each_have_other_columns_are_refused(tmp_path: Path) -> None:
    """Of 100 KB they would make 100 MB."""
    body = b"\n".join(b'{"s": 0, "reward": 1.0, "c%d": 1}' % k for k in range(1500))
    with pytest.raises(Refused, match="each of them only a few"):
        door(tmp_path).admit(body, "application/x-ndjson")
    with pytest.raises(Refused, match="more than 2,000 columns"):
        door(tmp_path).admit(b"\n".join([body, body.replace(b"c", b"d")]), "application/x-ndjson")


@pytest.mark.parametrize(
    "line", [b'{"s": 0, "reward": "\\ud800"}', b'{"s": 0, "\\ud800": 1, "reward": 1}', b'{"s": "\xed\xa0\x80"}']
)
def test_text_that_is_no_unicode_is_no_row(tmp_path: Path, line: bytes) -> None:
    with pytest.raises(Refused, match="row 2 is no JSON object") as refused:
        door(tmp_path).admit(b'{"s": 0, "reward": 1.0}\n' + line, "application/x-ndjson")
    assert refused.value.content["row"] == 2


def test_a_first_row_that_cannot_be_kept_is_an_error_of_the_disk(tmp_path: Path) -> None:
    one = door(tmp_path)
    shutil.rmtree(tmp_path)
    with pytest.raises(Refused, match="first row cannot be kept") as refused:
        one.admit(b'{"s": 0, "reward": 1.0}', "application/x-ndjson")
    assert refused.value.status == 507


def test_a_forged_type_runs_no_code(tmp_path: Path) -> None:
    """As old releases of pyarrow did, which the package therefore does not accept."""
    about = {
        b"ARROW:extension:name": b"arrow.py_extension_type",
        b"ARROW:extension:metadata": f"cbuiltins\nopen\n(S'{tmp_path / 'forged'}'\nS'w'\ntR.".encode(),
    }
    schema = pa.schema([pa.field("s", pa.int64(), metadata=about), pa.field("reward", pa.float64())])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_table(pa.table({"s": [0], "reward": [1.0]}).cast(schema))
    with suppress(Refused):
        door(tmp_path).admit(bytes(sink.getvalue()), "application/vnd.apache.arrow.stream")
    assert not (tmp_path / "forged").exists()


def test_the_run_is_saved_again_once_it_can_be(server: Server, tokens: Any, tmp_path: Path) -> None:
    with served(tmp_path) as own:
        (tmp_path / "live/walk/run.inferl").mkdir()  # stands in the way, as a full disk would
        assert own.post([{"s": 0, "reward": 1.0}] * 20, 1)[0] == 200
        until = time.monotonic() + 60
        while own.state()["failure"] is None:
            assert time.monotonic() < until
            time.sleep(0.05)
        assert "the run cannot be saved" in own.state()["failure"]
        (tmp_path / "live/walk/run.inferl").rmdir()
        while own.state()["failure"] is not None:
            assert time.monotonic() < until
            time.sleep(0.05)
        assert own.stop() == 0
        assert (tmp_path / "live/walk/run.inferl").is_file()


def test_tokens_that_are_too_short_are_refused() -> None:
    with pytest.raises(SettingError, match="16 at least"):
        Tokens.of(None, {"INFERL_READ_TOKEN": "short"})
