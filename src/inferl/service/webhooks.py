"""Webhooks: a program elsewhere is told when something is decided, when a check fails and when a policy drifts.

A message is written to disk before it is sent, together with what has been told so far. So each is sent once, also
after a restart; only a crash between the answer of the receiver and the next write sends one again, with the same `id`.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import os
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from inferl.display import as_json
from inferl.errors import SettingError
from inferl.service.settings import Settings
from inferl.service.snapshots import worst
from inferl.storage.checkpoint import replacing

__all__ = ["EVENTS", "Hook", "Webhooks"]

EVENTS = ("decision", "check", "drift")
MOST = 1000  # messages that wait for a receiver; what happens meanwhile is told later
TIMEOUT = 10.0  # seconds for an answer
FIRST_WAIT, LONGEST_WAIT = 1.0, 600.0  # seconds between two tries
GIVEN_UP = 7 * 86400.0  # seconds after which a message is not tried again
YOUNG = 600.0  # seconds that a check must have failed before it is told, if it has never passed
AGAIN = 86400.0  # seconds that a check must have passed before a new failure is told


@dataclass(frozen=True)
class Hook:
    """Whom to tell what: a table ``[[webhooks]]`` of the settings.

    Attributes
    ----------
    url
        Where messages are posted.
    secret
        Of the signature; empty: messages are not signed.
    experiments
        Names; empty: all.
    events
        Some of `EVENTS`.

    Examples
    --------
    >>> Hook.of({"url": "https://chat.example/T0/hook", "events": ["decision"]}, ["checkout"]).name
    'chat.example'
    """

    url: str
    secret: str = ""
    experiments: tuple[str, ...] = ()
    events: tuple[str, ...] = EVENTS

    @classmethod
    def of(
        cls, table: Mapping[str, Any], experiments: Sequence[str], environment: Mapping[str, str] = os.environ
    ) -> Hook:
        """Read a table; the secret is in the environment, under the name that ``secret-variable`` says."""
        unknown = sorted(table.keys() - {"url", "secret-variable", "experiments", "events"})
        if unknown:
            hint = "there are url, secret-variable, experiments and events"
            raise SettingError(f"[[webhooks]]: there is no setting {unknown[0]!r}; {hint}")
        url = table.get("url")
        if not isinstance(url, str) or urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
            raise SettingError("[[webhooks]]: url must be an address that begins with https:// or http://")
        variable = table.get("secret-variable")
        if variable is not None and not (isinstance(variable, str) and environment.get(variable)):
            raise SettingError(f"[[webhooks]]: the environment has no variable {variable!r} (secret-variable)")
        chosen = {"experiments": tuple(experiments), "events": EVENTS}
        for name, known in chosen.items():
            said = table.get(name, list(known))
            wrong = [one for one in said if one not in known] if isinstance(said, list) and said else [said]
            if wrong:
                raise SettingError(f"[[webhooks]]: {name} has {wrong[0]!r}; there are {', '.join(known)}")
            chosen[name] = tuple(said)
        return cls(url, environment.get(variable, "") if variable else "", **chosen)

    @property
    def name(self) -> str:
        """The host: the rest of an address is often a secret."""
        return urlsplit(self.url).hostname or ""


class Webhooks:
    """All hooks of a server; the evaluators call `after`, which never waits for a receiver."""

    def __init__(self, senders: Sequence[Sender]) -> None:
        self.senders = senders

    @classmethod
    def of(cls, settings: Settings) -> Webhooks:
        """Read the settings."""
        hooks = dict.fromkeys(Hook.of(table, list(settings.experiments)) for table in settings.webhooks)
        return cls([Sender(hook, settings.folder / "webhooks") for hook in hooks])

    def start(self) -> None:
        """Begin to send, first what an earlier process has left."""
        for sender in self.senders:
            sender.start()

    def after(self, experiment: Any, snapshot: Mapping[str, Any]) -> None:
        """Look at a new snapshot of an experiment."""
        for sender in self.senders:
            sender.after(experiment.name, snapshot)

    def stop(self) -> None:
        """Keep what has not been sent for the next process."""
        for sender in self.senders:
            sender.stop()


class Happened(NamedTuple):
    """Something that may be told."""

    event: str
    key: str  # what it is about
    state: str  # "above", "below", "failed" or "passed"
    text: str
    about: dict[str, Any]


def happened(snapshot: Mapping[str, Any]) -> Iterator[Happened]:
    """Yield what a snapshot says about checks, and about thresholds if its interval holds at all times."""
    name, n = snapshot["name"], snapshot["n"]
    for target in snapshot["targets"]:
        who = f"{name}, {target['name']}" if target["name"] else name
        scope = f"{100 * snapshot['level']:g}% anytime, {n:,} transitions"
        for decision in target["decisions"]:
            if decision["is"] == "open" or snapshot["decided_by"] != "anytime":
                continue
            text = f"{who}: {decision['is']} {decision['threshold']:g}: {target['text']['anytime']} {scope}"
            about = {"target": target["name"], "threshold": decision["threshold"], "decision": decision["is"]}
            about |= {side: target[side] for side in ("estimate", "anytime_lower", "anytime_upper", "standard_error")}
            yield Happened("decision", f"{target['name']}, {decision['threshold']!r}", decision["is"], text, about)
    for check in worst(snapshot["checks"]):
        if check["status"] != "not available":
            event = "drift" if check["name"] == "drift" else "check"
            remedy = f"; {check['remedy']}" if check["remedy"] else ""
            text = f"{name}: the check {check['name']!r} failed: {check['message']}{remedy}"
            about = {"check": check["name"], "message": check["message"], "remedy": check["remedy"]}
            yield Happened(event, check["name"], check["status"], text, about)


class Sender:
    """Sends the messages of one hook, one after the other, from a thread of its own.

    Attributes
    ----------
    delivered, given_up
        Numbers of messages so far, in this process.
    """

    def __init__(self, hook: Hook, folder: Path) -> None:
        self.hook = hook
        about = json.dumps([hook.url, sorted(hook.experiments), sorted(hook.events)])  # one address may have several
        self.path = folder / f"{hashlib.sha256(about.encode()).hexdigest()[:16]}.json"
        self.delivered = self.given_up = 0
        self._told: dict[str, Any] = {}  # experiment -> event and key -> [state, passed since]
        self._waiting: list[dict[str, Any]] = []
        self._changed = threading.Condition()
        self._dirty = self._stopping = False
        self._log = logging.getLogger("inferl")
        self._thread = threading.Thread(target=self._work, name=f"inferl webhook {hook.name}", daemon=True)
        if self.path.exists():
            try:
                kept = json.loads(self.path.read_text("utf-8"))
                self._told, self._waiting = dict(kept["told"]), list(kept["waiting"])
            except (ValueError, KeyError, TypeError):
                raise SettingError(f"{self.path} is damaged; restore it, or delete it to be told again") from None

    @property
    def waiting(self) -> int:
        """Number of messages that are not yet delivered."""
        return len(self._waiting)

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    def after(self, experiment: str, snapshot: Mapping[str, Any]) -> None:
        """Note what is new in a snapshot; returns at once."""
        if experiment not in self.hook.experiments:
            return
        with self._changed:
            told = self._told.setdefault(experiment, {})
            for one in happened(snapshot):
                if one.event in self.hook.events:
                    self._note(told, one, snapshot)
            self._changed.notify_all()

    def _note(self, told: dict[str, Any], one: Happened, snapshot: Mapping[str, Any]) -> None:
        key, now = f"{one.event}, {one.key}", snapshot["time"]
        before, since = told.get(key, ("", None))
        if one.state == "passed":
            if (before == "failed" and since is None) or before in ("", "young"):
                told[key], self._dirty = [before, now] if before == "failed" else ["passed", None], True
            return
        if one.event == "check" and before in ("", "young"):  # it has never passed: perhaps there are too few data yet
            told[key], self._dirty = ["young", now if since is None else since], True
            if now - told[key][1] < YOUNG:
                return
        if one.state == before and (since is None or now - since < AGAIN):  # told; a check that flickers is told once
            if since is not None:
                told[key], self._dirty = [before, None], True
            return
        if len(self._waiting) >= MOST:
            return  # it is not noted as told, so a later snapshot brings it again
        content = {"event": one.event, "experiment": snapshot["name"], "text": one.text, **one.about}
        content |= {"n": snapshot["n"], "level": snapshot["level"], "estimand": snapshot["estimand"]}
        content["time"] = datetime.fromtimestamp(now, UTC).isoformat(timespec="seconds")
        content["id"] = hashlib.sha256(as_json(content).encode()).hexdigest()[:32]
        self._waiting.append({"tried": 0, "first": None, "content": content})
        told[key], self._dirty = [one.state, None], True

    def stop(self, seconds: float = 2.0) -> None:
        """Write what is left, and stop."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join(seconds)  # it may wait for an answer, which is not waited for
        self._save()

    # The thread that sends.

    def _work(self) -> None:
        at = 0.0  # when the next try is due
        while True:
            with self._changed:
                rest = max(at - time.monotonic(), 0.0) if self._waiting else None
                self._changed.wait_for(lambda: self._stopping or self._dirty, rest)
                if self._stopping:
                    return
                message = self._waiting[0] if self._waiting else None
            self._save()
            if message is not None and time.monotonic() >= at:
                at = time.monotonic() + self._deliver(message)

    def _deliver(self, message: dict[str, Any]) -> float:
        """Try to send a message; return how long to wait before the next try, 0 if it is done with."""
        message["first"] = message["first"] or time.time()
        problem, lasting = self._post(message["content"])
        if problem and not lasting and time.time() - message["first"] < GIVEN_UP:
            message["tried"] += 1
            wait = min(FIRST_WAIT * 2.0 ** int(message["tried"] - 1), LONGEST_WAIT)
            self._log.warning("webhook %s: %s; the next try is in %g seconds", self.hook.name, problem, wait)
            with self._changed:
                self._dirty = True
            return wait
        if problem:
            self.given_up += 1
            self._log.error("webhook %s: given up (%s): %s", self.hook.name, problem, message["content"]["text"])
        else:
            self.delivered += 1
        with self._changed:
            self._waiting.remove(message)
            self._dirty = True
        return 0.0

    def _post(self, content: dict[str, Any]) -> tuple[str, bool]:
        """Send; return what went wrong, and whether trying again is of no use."""
        body = as_json(content).encode()
        headers = {"Content-Type": "application/json", "User-Agent": f"inferl/{version('inferl')}"}
        headers |= {"Inferl-Event": content["event"], "Inferl-Delivery": content["id"]}
        if self.hook.secret:
            signature = hmac.new(self.hook.secret.encode(), body, hashlib.sha256).hexdigest()
            headers["Inferl-Signature"] = f"sha256={signature}"
        request = urllib.request.Request(self.hook.url, body, headers, method="POST")
        try:
            with _OPENER.open(request, timeout=TIMEOUT) as answer:
                return ("", False) if 200 <= answer.status < 300 else (f"status {answer.status}", False)
        except urllib.error.HTTPError as error:
            error.close()
            return f"status {error.code}", 400 <= error.code < 500 and error.code not in (408, 425, 429)
        except (OSError, ValueError) as error:
            return str(getattr(error, "reason", error)) or type(error).__name__, False

    def _save(self) -> None:
        with self._changed:
            if not self._dirty:
                return
            self._dirty = False
            content = as_json({"hook": self.hook.name, "told": self._told, "waiting": self._waiting})
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(self.path) as file:
                file.write(content.encode())
        except OSError as error:
            self._log.error("webhook %s: %s cannot be written: %s", self.hook.name, self.path, error.strerror)


class _Stay(urllib.request.HTTPRedirectHandler):
    """Follows no redirection: the message is for this address, and for no other."""

    def redirect_request(self, *about: Any) -> None:
        return None


_OPENER = urllib.request.build_opener(_Stay)
