"""The live page's files, events and metrics, from a real server: what is sent, to whom, and what is left behind."""

from __future__ import annotations

import http.client
import json
import re
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families
from serving import Server, in_this_process, served

from inferl.service import app, live

EXPERIMENTS = """\
[experiments.new]
state = "s"
n-states = 3
discount = 0.9
target = ["0", "2"]
thresholds = [4.0]
every = "0.2s"

[experiments.old]
state = "s"
n-states = 3
discount = 0.9
target = ["0", "2"]
every = "0.2s"
"""


def rows_of(n: int, seed: int, mean: float = 0.5) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    states, rewards = rng.integers(3, size=n).tolist(), rng.normal(mean, 0.5, n).tolist()
    return [{"s": s, "reward": reward} for s, reward in zip(states, rewards, strict=True)]


def send(server: Server, name: str, rows: list[dict[str, Any]], sequence: int, token: str | None = None) -> None:
    headers = {"Inferl-Client": "one", "Inferl-Sequence": str(sequence), "Content-Type": "application/x-ndjson"}
    headers |= {"Authorization": f"Bearer {token}"} if token else {}
    body = "\n".join(map(json.dumps, rows)).encode()
    status, said = server.ask("POST", f"/v1/experiments/{name}/transitions", body, headers)
    assert status == 200, said


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with served(tmp_path_factory.mktemp("live"), experiments=EXPERIMENTS) as found:
        for name, mean in (("new", 0.6), ("old", 0.5)):
            send(found, name, rows_of(2000, seed=len(name), mean=mean), 1)
            found.wait_for(2000, name)
        yield found


class Listener:
    """A client of `/v1/events`."""

    def __init__(self, port: int, query: str = "", headers: dict[str, str] | None = None) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        self.connection.request("GET", f"/v1/events{query}", headers=headers or {})
        self.answer = self.connection.getresponse()

    def next(self, *names: str) -> tuple[str, Any]:
        """Return the next event with one of these names."""
        while True:
            lines = []
            while line := self.answer.readline().decode().rstrip("\n"):
                lines.append(line)
            assert lines, "the stream has ended"
            if lines[0].startswith("event: "):
                name, data = lines[0][len("event: ") :], lines[1][len("data: ") :]
                if name in names:
                    return name, json.loads(data)

    def close(self) -> None:
        self.answer.close()
        self.connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *about: object) -> None:
        self.close()


def test_the_page_may_ask_this_server_only_and_holds_no_data(server: Server) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    for path in live.FILES:
        connection.request("GET", path)
        answer = connection.getresponse()
        content = answer.read()
        assert answer.status == 200
        rules = dict(rule.strip().split(" ", 1) for rule in str(answer.headers["Content-Security-Policy"]).split(";"))
        assert rules["default-src"] == "'none'"
        assert set(rules.values()) == {"'none'", "'self'"}
        # Nothing within a file that the rules would forbid, and no address of elsewhere.
        assert not re.search(rb"<script>|<style|\sstyle=|\son\w+=\"|innerHTML|eval\(", content), path
        others = set(re.findall(rb"https?://[\w./]+", content)) - {b"http://www.w3.org/2000/svg"}
        assert not others, path
        connection.request("GET", path, headers={"If-None-Match": str(answer.headers["ETag"])})
        again = connection.getresponse()
        assert (again.status, again.read()) == (304, b"")
    connection.close()


def test_events_begin_with_everything_and_go_on_with_what_changes(server: Server) -> None:
    with Listener(server.port) as listener:
        assert listener.answer.headers["Content-Type"] == "text/event-stream"
        _, hello = listener.next("hello")
        assert hello["names"] == ["new", "old"]
        for name in hello["names"]:
            _, said = listener.next("experiment")
            assert said["snapshot"] == server.state(name)["snapshot"]
            assert said["history"]["begin"]
            assert said["history"]["rows"][-1][1] == said["snapshot"]["n"]
        _, apart = listener.next("differences")
        assert apart["reference"] == "new"
        (found,) = apart["of"]
        assert (found["of"], found["minus"]) == ("old", "new")
        assert found["verdict"] == ["old is smaller", "old is smaller"]
        _, rates = listener.next("rates")
        assert set(rates["old"]) == set(live.RATES)

        sequence = server.ask("GET", "/v1/experiments/old/clients/one")[1]["sequence"]
        send(server, "old", rows_of(500, seed=9), sequence + 1)
        seen: list[Any] = []
        while not seen or seen[-1]["snapshot"]["n"] < said["snapshot"]["n"] + 500:
            seen.append(listener.next("experiment")[1])
    assert {one["snapshot"]["name"] for one in seen} == {"old"}
    assert not any(one["history"]["begin"] for one in seen)
    assert [row[1] for one in seen for row in one["history"]["rows"]][-1] == seen[-1]["snapshot"]["n"]


def test_the_reference_can_be_chosen(server: Server) -> None:
    for reference, expected in (("old", "old"), ("nobody", "new")):
        with Listener(server.port, f"?reference={reference}") as listener:
            assert listener.next("differences")[1]["reference"] == expected


def streams(server: Server) -> float:
    return float(re.search(r"^inferl_event_streams (.*)$", server.ask("GET", "/metrics")[1], re.MULTILINE)[1])  # type: ignore[index]


def until(what: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not what():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_clients_that_leave_leave_nothing_behind(server: Server) -> None:
    until(lambda: streams(server) == 0)
    listeners = [Listener(server.port) for _ in range(20)]
    for listener in listeners:
        listener.next("hello")
    assert streams(server) == 20
    for listener in listeners:
        listener.close()
    until(lambda: streams(server) == 0)


def test_metrics_are_those_of_the_snapshots(server: Server) -> None:
    text = server.ask("GET", "/metrics")[1]
    families = {family.name: family for family in text_string_to_metric_families(text)}
    samples = {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families.values()
        for sample in family.samples
    }
    assert len(samples) == sum(len(family.samples) for family in families.values())  # none is there twice

    def value(name: str, **labels: str) -> float:
        return float(samples[name, tuple(sorted(labels.items()))])

    for name in ("new", "old"):
        state = server.state(name)
        now = state["snapshot"]
        for target in now["targets"]:
            about = {"experiment": name, "target": target["name"] or "value"}
            assert value("inferl_estimate", **about) == target["estimate"]
            assert value("inferl_standard_error", **about) == target["standard_error"]
            for side in ("lower", "upper"):
                assert value(f"inferl_{side}", kind="pointwise", level="0.95", **about) == target[side]
                assert value(f"inferl_{side}", kind="anytime", level="0.95", **about) == target[f"anytime_{side}"]
        assert value("inferl_transitions", experiment=name) == now["n"]
        assert value("inferl_rows_total", experiment=name) == state["rows"]
        assert value("inferl_journal_sync_seconds_count", experiment=name) >= 1
        assert value("inferl_journal_bytes_total", experiment=name) > 10_000
        assert value("inferl_evaluation_failed", experiment=name) == 0
        for check in now["checks"]:
            states = [
                value("inferl_check", experiment=name, check=check["name"], state=state)
                for state in ("passed", "failed", "not available")
            ]
            assert sum(states) == 1
    assert value("inferl_threshold", experiment="new", target="target 0", number="4") == 4
    # The conventions: a prefix, base units, and _total for what only grows.
    for family in families.values():
        assert family.name.startswith("inferl_")
        assert family.documentation
        assert not re.search(r"milli|_ms\b|_kb\b|_mb\b", family.name)
    counters = {family.name for family in families.values() if family.type == "counter"}
    assert counters == {"inferl_rows", "inferl_bad_rows", "inferl_journal_bytes"}  # the parser takes _total away


def test_with_tokens_the_page_is_open_and_the_numbers_are_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INFERL_READ_TOKEN", "r" * 20)
    monkeypatch.setenv("INFERL_WRITE_TOKEN", "w" * 20)
    with served(tmp_path, experiments=EXPERIMENTS) as server:
        for path in live.FILES:
            assert server.ask("GET", path)[0] == 200
        for path in ("/v1/events", "/metrics"):
            assert server.ask("GET", path)[0] == 401
            assert server.ask("GET", path, headers={"Authorization": "Bearer " + "w" * 20})[0] == 401
        reading = {"Authorization": "Bearer " + "r" * 20}
        assert server.ask("GET", "/metrics", headers=reading)[0] == 200
        with Listener(server.port, headers=reading) as listener:
            assert listener.next("hello")[1]["names"] == ["new", "old"]
            begin = time.monotonic()
            assert server.stop() == 0  # open streams hold nobody up
            assert time.monotonic() - begin < 5
            assert listener.answer.read().endswith(b"\n\n")  # and end as they should


def test_the_history_survives_a_restart(tmp_path: Path) -> None:
    with served(tmp_path, experiments=EXPERIMENTS) as server:
        for sequence in range(1, 4):
            send(server, "new", rows_of(300, seed=sequence), sequence)
            until(lambda rows=300 * sequence: server.wait_for(rows, "new")["snapshot"]["n"] > rows - 5)  # type: ignore[misc]
        with Listener(server.port) as listener:
            before = listener.next("experiment")[1]["history"]["rows"]
        server.stop()
        server.start()
        server.wait_for(900, "new")
        with Listener(server.port) as listener:
            after = listener.next("experiment")[1]["history"]["rows"]
        assert len(before) == 3
        assert after[:3] == before
        server.kill()
        (tmp_path / "live" / "new" / "history.json").write_text("{")
        server.start()
        assert server.wait_for(900, "new")["snapshot"]["n"] == after[-1][1]
        assert "its history cannot be read" in (tmp_path / "log.txt").read_text()


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="the system drops no connections by itself")
def test_a_client_that_does_not_read_is_dropped_and_holds_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "UNREAD", 500)
    monkeypatch.setattr(live, "PERIOD", 0.01)
    with in_this_process(tmp_path, EXPERIMENTS) as (hub, server):
        port, experiment = server.port, hub.experiments["new"]
        # As much as fits into no buffer of the system, again and again.
        snapshot = {"name": "new", "n": 1, "time": 0.0, "checks": [], "targets": [], "thresholds": [], "episodes": 0}
        experiment.run_snapshot = snapshot | {"level": 0.95, "estimand": "x" * 3_000_000}
        sleeper = socket.create_connection(("127.0.0.1", port))
        sleeper.sendall(b"GET /v1/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        reader = Listener(port)
        text = ""
        for _ in range(400):
            experiment.version += 1
            assert reader.next("experiment")[1]["snapshot"]["n"] == 1  # others go on meanwhile
            with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=20)) as connection:
                connection.request("GET", "/metrics")
                text = connection.getresponse().read().decode()
            if "inferl_event_streams 1.0" in text:
                break
            time.sleep(0.02)
        assert "inferl_event_streams 1.0" in text
        reader.close()
        sleeper.close()


def test_there_is_a_limit_to_the_streams(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "MOST_STREAMS", 2)
    with in_this_process(tmp_path, EXPERIMENTS) as (_, server):
        listeners = [Listener(server.port) for _ in range(2)]
        for listener in listeners:
            listener.next("hello")
        refused = Listener(server.port)
        assert refused.answer.status == 503
        assert refused.answer.headers["Retry-After"] == "10"
        for listener in [*listeners, refused]:
            listener.close()
