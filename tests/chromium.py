"""A headless Chromium that a test steers: by its own protocol over two pipes, which needs no further library."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from typing import Any

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
OPTIONS = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run", "--disable-extensions")
START = (
    "import os, sys; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4); os.execv(sys.argv[3], sys.argv[3:])"
)
PATIENCE = 30.0  # seconds


class Page:
    """A page of the browser.

    Attributes
    ----------
    problems
        Errors and warnings of the console, exceptions, and files that could not be loaded.
    requested
        Addresses that were asked for.
    """

    def __init__(self, send: int, receive: int) -> None:
        self._send, self._receive = send, receive
        self._answers: Queue[dict[str, Any]] = Queue()
        self._number = 0
        self._session: str | None = None
        self.problems: list[str] = []
        self.requested: list[str] = []
        threading.Thread(target=self._read, daemon=True).start()
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command, and wait for its result."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._send, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._answers.get(timeout=PATIENCE)
            if answer["id"] == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return dict(answer["result"])

    def open(self, url: str) -> None:
        """Go to an address, and wait for the page and its files."""
        self.ask("Page.navigate", url=url)
        self.wait("location.href !== 'about:blank' && document.readyState === 'complete'")

    def look(self, width: int, height: int, dark: bool = False) -> None:
        """Set the size of the screen and the colour scheme."""
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[scheme])

    def run(self, expression: str) -> Any:
        """Return the value of an expression of JavaScript."""
        found = self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in found:
            raise RuntimeError(str(found["exceptionDetails"]))
        return found["result"].get("value")

    def wait(self, expression: str, until: Callable[[Any], bool] = bool, seconds: float = PATIENCE) -> Any:
        """Return the value of an expression as soon as it is as wanted."""
        end = time.monotonic() + seconds
        while not until(value := self.run(expression)):
            assert time.monotonic() < end, f"{expression} is {value!r}; problems: {self.problems}"
            time.sleep(0.05)
        return value

    def key(self, name: str) -> None:
        """Press a key."""
        codes = {"Tab": 9, "ArrowLeft": 37, "ArrowRight": 39, "Home": 36, "End": 35, "Escape": 27, "Enter": 13, " ": 32}
        text = {"Enter": "\r", " ": " "}.get(name)
        about: dict[str, Any] = {"key": name, "code": name, "windowsVirtualKeyCode": codes[name]}
        self.ask("Input.dispatchKeyEvent", type="keyDown", **about, **({"text": text} if text else {}))
        self.ask("Input.dispatchKeyEvent", type="keyUp", **about)

    def shoot(self, path: Path, whole: bool = True) -> None:
        """Save a picture of the page, or of what the screen shows of it."""
        found = self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(found["data"]))

    def _read(self) -> None:
        rest = b""
        while data := os.read(self._receive, 1 << 16):
            *messages, rest = (rest + data).split(b"\0")
            for message in map(json.loads, messages):
                if "id" in message:
                    self._answers.put(message)
                else:
                    self._note(message["method"], message["params"])

    def _note(self, method: str, about: dict[str, Any]) -> None:
        if method == "Runtime.exceptionThrown":
            self.problems.append(json.dumps(about["exceptionDetails"])[:500])
        elif method == "Runtime.consoleAPICalled" and about["type"] in ("error", "warning", "assert"):
            self.problems.append(json.dumps(about["args"])[:500])
        elif method == "Log.entryAdded" and about["entry"]["level"] in ("error", "warning"):
            self.problems.append(f"{about['entry']['text']} {about['entry'].get('url', '')}")
        elif method == "Network.requestWillBeSent":
            self.requested.append(about["request"]["url"])


@contextmanager
def browsing(profile: Path) -> Iterator[Page]:
    """Start a browser with an empty profile in a folder, and end it."""
    assert BROWSER is not None
    receive, theirs_out = os.pipe()
    theirs_in, send = os.pipe()
    # The browser reads from descriptor 3 and writes to 4, which may be taken here.
    high = [fcntl.fcntl(descriptor, fcntl.F_DUPFD, 10) for descriptor in (theirs_in, theirs_out)]
    command = [sys.executable, "-c", START, *map(str, high), BROWSER, *OPTIONS]
    process = subprocess.Popen(
        [*command, "--remote-debugging-pipe", f"--user-data-dir={profile}", "about:blank"],
        pass_fds=high,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    for descriptor in (theirs_in, theirs_out, *high):
        os.close(descriptor)
    try:
        yield Page(send, receive)
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for descriptor in (send, receive):
            os.close(descriptor)
