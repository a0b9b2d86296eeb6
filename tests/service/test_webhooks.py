"""Webhooks, against a real receiver: told once, signed, tried again, kept over a restart, and never in the way."""

from __future__ import annotations

import hashlib
import hmac
import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inferl import TD, Evaluator, Transitions
from inferl.errors import SettingError
from inferl.runs import Run
from inferl.service import webhooks
from inferl.service.snapshots import snapshot
from inferl.service.webhooks import Hook, Sender


class Receiver:
    """A server that keeps what it is sent, and answers as it is told."""

    def __init__(self) -> None:
        self.got: list[tuple[dict[str, str], bytes]] = []
        self.answers: list[int] = []  # the next ones; then 200
        self.hold = threading.Event()  # answers wait for it
        self.hold.set()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.got.append((dict(self.headers), body))
                receiver.hold.wait(10)
                status = receiver.answers.pop(0) if receiver.answers else 200
                self.send_response(status)
                if 300 <= status < 400:
                    self.send_header("Location", f"{receiver.url}elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *about: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}/"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def messages(self) -> list[dict[str, Any]]:
        return [json.loads(body) for _, body in self.got]

    def wait(self, number: int) -> None:
        wait_for(lambda: len(self.got) >= number)


def wait_for(what: Callable[[], bool], seconds: float = 10.0) -> None:
    until = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until
        time.sleep(0.01)


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    monkeypatch.setattr(webhooks, "FIRST_WAIT", 0.02)
    found = Receiver()
    yield found
    found.hold.set()
    found.server.shutdown()
    found.server.server_close()


@pytest.fixture(scope="module")
def decided() -> list[dict[str, Any]]:
    """Snapshots of one run, which is decided to lie above 4 on the way: its exact value is 5."""
    rng, run, found = np.random.default_rng(1), Run(Evaluator(TD(1)), target=0), []
    for time_ in range(20):
        coin = rng.integers(2, size=100)
        run.take(Transitions(0 * coin, coin, 0 * coin, 0.9))
        found.append(snapshot(run, "coin", thresholds=[4.0], time=1.0e9 + time_))
    decisions = [one["targets"][0]["decisions"][0]["is"] for one in found]
    assert decisions[0] == "open"
    assert decisions[-1] == "above"
    return found


def sender_to(receiver: Receiver, folder: Path, **settings: Any) -> Sender:
    sender = Sender(Hook(receiver.url, experiments=("coin",), **settings), folder)
    sender.start()
    return sender


def test_a_decision_is_told_once_and_signed(receiver: Receiver, decided: list[dict[str, Any]], tmp_path: Path) -> None:
    sender = sender_to(receiver, tmp_path, secret="a secret", events=("decision",))
    for one in decided:
        sender.after("coin", one)
    sender.after("another", {**decided[-1], "name": "another"})
    receiver.wait(1)
    wait_for(lambda: sender.delivered == 1)
    sender.stop()
    ((headers, body),) = receiver.got
    message = json.loads(body)
    first = next(one for one in decided if one["targets"][0]["decisions"][0]["is"] == "above")
    assert (message["event"], message["experiment"]) == ("decision", "coin")
    assert (message["threshold"], message["decision"], message["n"]) == (4.0, "above", first["n"])
    assert message["anytime_lower"] == first["targets"][0]["anytime_lower"] > 4
    assert message["text"].startswith("coin: above 4: ")
    assert message["time"].startswith("2001-09-09T01:46:4")
    assert headers["Inferl-Signature"] == "sha256=" + hmac.new(b"a secret", body, hashlib.sha256).hexdigest()
    assert headers["Inferl-Delivery"] == message["id"]


def test_the_other_decision_is_told_too(receiver: Receiver, decided: list[dict[str, Any]], tmp_path: Path) -> None:
    sender = sender_to(receiver, tmp_path, events=("decision",))
    for decision in ("above", "open", "above", "below", "below", "above"):
        (target,) = decided[-1]["targets"]
        changed = {**target, "decisions": [{"threshold": 4.0, "is": decision}]}
        sender.after("coin", {**decided[-1], "targets": [changed]})
    receiver.wait(3)
    wait_for(lambda: sender.waiting == 0)
    sender.stop()
    assert [message["decision"] for message in receiver.messages] == ["above", "below", "above"]


def checked(base: dict[str, Any], status: str, seconds: float, name: str = "ratios") -> dict[str, Any]:
    check = {"name": name, "status": status, "message": "some weigh too much", "remedy": "clip nothing"}
    return {**base, "checks": [check], "targets": [], "time": seconds}


def test_a_check_that_flickers_is_told_once_a_day_at_most(
    receiver: Receiver, decided: list[dict[str, Any]], tmp_path: Path
) -> None:
    sender, day = sender_to(receiver, tmp_path), 86400.0
    for second in range(101):
        sender.after("coin", checked(decided[0], ("passed", "failed", "not available")[second % 3], second))
    sender.after("coin", checked(decided[0], "passed", 2 * day))
    sender.after("coin", checked(decided[0], "failed", 2.9 * day))
    sender.after("coin", checked(decided[0], "passed", 3 * day))
    sender.after("coin", checked(decided[0], "failed", 4.1 * day))
    sender.after("coin", checked(decided[0], "failed", 9 * day, "drift"))
    receiver.wait(3)
    wait_for(lambda: sender.waiting == 0)
    sender.stop()
    times = [message["time"][:10] for message in receiver.messages]
    assert times == ["1970-01-01", "1970-01-05", "1970-01-10"]
    assert [message["event"] for message in receiver.messages] == ["check", "check", "drift"]
    assert receiver.messages[0]["remedy"] == "clip nothing"


def test_a_check_that_has_never_passed_is_told_after_ten_minutes(
    receiver: Receiver, decided: list[dict[str, Any]], tmp_path: Path
) -> None:
    sender = sender_to(receiver, tmp_path)
    for second in range(0, 100, 10):  # of too few data
        sender.after("coin", checked(decided[0], "failed", second, "length"))
        sender.after("coin", checked(decided[0], "failed", second, "ratios"))
    assert sender.waiting == 0
    sender.after("coin", checked(decided[0], "passed", 100, "length"))
    sender.after("coin", checked(decided[0], "failed", 110, "length"))
    receiver.wait(1)
    for second in (599, 601, 700):
        sender.after("coin", checked(decided[0], "failed", second, "ratios"))
    receiver.wait(2)
    wait_for(lambda: sender.waiting == 0)
    sender.stop()
    assert [message["check"] for message in receiver.messages] == ["length", "ratios"]
    assert receiver.messages[1]["time"].startswith("1970-01-01T00:10:01")


def test_it_is_tried_again_with_the_same_id(receiver: Receiver, decided: list[dict[str, Any]], tmp_path: Path) -> None:
    receiver.answers = [503, 429, 302, 200]
    sender = sender_to(receiver, tmp_path, events=("decision",))
    sender.after("coin", decided[-1])
    wait_for(lambda: sender.delivered == 1)
    sender.stop()
    assert len({message["id"] for message in receiver.messages}) == 1
    assert len(receiver.got) == 4  # and the redirection was not followed


def test_what_the_receiver_refuses_is_given_up(
    receiver: Receiver, decided: list[dict[str, Any]], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    receiver.answers = [400, 200]
    sender = sender_to(receiver, tmp_path)
    sender.after("coin", decided[-1])
    sender.after("coin", checked(decided[-1], "failed", 5.0))
    wait_for(lambda: sender.delivered == 1)
    sender.stop()
    assert sender.given_up == 1
    assert "given up (status 400): coin: above 4" in caplog.text
    assert receiver.url not in caplog.text  # addresses may hold secrets


def test_what_was_not_sent_is_sent_by_the_next_process_and_not_told_again(
    receiver: Receiver, decided: list[dict[str, Any]], tmp_path: Path
) -> None:
    receiver.answers = [503] * 1000
    sender = sender_to(receiver, tmp_path, events=("decision",))
    sender.after("coin", decided[-1])
    receiver.wait(2)
    sender.stop()
    assert sender.delivered == 0
    receiver.answers, tried = [], len(receiver.got)
    sender = sender_to(receiver, tmp_path, events=("decision",))
    wait_for(lambda: sender.delivered == 1)
    sender.after("coin", decided[-1])
    sender.stop()
    sender = sender_to(receiver, tmp_path, events=("decision",))
    sender.after("coin", decided[-1])
    assert sender.waiting == 0
    sender.stop()
    assert len(receiver.got) == tried + 1
    assert len({message["id"] for message in receiver.messages}) == 1


def test_a_receiver_that_does_not_answer_is_in_nobodys_way(
    receiver: Receiver, decided: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhooks, "MOST", 3)
    receiver.hold.clear()
    sender = sender_to(receiver, tmp_path)
    sender.after("coin", decided[-1])
    receiver.wait(1)
    for i in range(50):
        sender.after("coin", checked(decided[-1], "passed", 0.0, f"check {i}"))
    begin = time.monotonic()
    for i in range(50):
        sender.after("coin", checked(decided[-1], "failed", 5.0, f"check {i}"))
    assert time.monotonic() - begin < 1
    assert sender.waiting == 3
    begin = time.monotonic()
    sender.stop(0.1)
    assert time.monotonic() - begin < 1
    receiver.hold.set()
    # What found no room is told later.
    again = sender_to(receiver, tmp_path)
    wait_for(lambda: again.waiting == 0)
    for i in range(50):
        again.after("coin", checked(decided[-1], "failed", 5.0, f"check {i}"))
        wait_for(lambda: again.waiting < 3)
    wait_for(lambda: again.waiting == 0)
    again.stop()
    told = [message["check"] for message in receiver.messages if message["event"] == "check"]
    assert set(told) == {f"check {i}" for i in range(50)}


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({}, "url must be an address"),
        ({"url": "ftp://host/file"}, "url must be an address"),
        ({"url": "http://host/", "secret": "x"}, "no setting 'secret'; there are url, secret-variable"),
        ({"url": "http://host/", "secret-variable": "NO_SUCH"}, "the environment has no variable 'NO_SUCH'"),
        ({"url": "http://host/", "experiments": ["other"]}, "experiments has 'other'; there are coin"),
        ({"url": "http://host/", "events": []}, r"events has \[\]; there are decision, check, drift"),
    ],
)
def test_settings_that_mean_nothing_are_refused(table: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        Hook.of(table, ["coin"], {})


def test_a_damaged_file_is_an_error(receiver: Receiver, tmp_path: Path) -> None:
    sender = Sender(Hook(receiver.url), tmp_path)
    sender.path.write_text("{")
    with pytest.raises(SettingError, match="is damaged"):
        Sender(Hook(receiver.url), tmp_path)


def test_two_hooks_of_one_address_remember_each_its_own(
    receiver: Receiver, decided: list[dict[str, Any]], tmp_path: Path
) -> None:
    decisions, checks = (sender_to(receiver, tmp_path, events=events) for events in (("decision",), ("drift", "check")))
    for one in decided:
        decisions.after("coin", one)
    receiver.wait(1)
    wait_for(lambda: decisions.delivered == 1)
    decisions.stop()
    checks.stop()
    again = sender_to(receiver, tmp_path, events=("decision",))
    again.after("coin", decided[-1])
    again.stop()
    assert len(receiver.got) == 1
