"""The live page: its files, the events that it listens to, and the metrics."""

from __future__ import annotations

import asyncio
import hashlib
import mimetypes
import time
from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import version
from importlib.resources import files
from typing import Any

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from inferl.display import as_json
from inferl.errors import SettingError
from inferl.service.metrics import metrics
from inferl.service.snapshots import difference

__all__ = ["FILES", "REPORT_HEADERS", "routes"]

PERIOD = 0.5  # seconds between two looks for new snapshots
HEARTBEAT = 10.0  # seconds after which a silent stream says that it is alive
MOST_STREAMS = 200
RATES = ("lag_rows", "lag_seconds", "rows_per_second", "bad_rows", "failure")
HEADERS = {
    # The page asks this server and no other, runs no code but its own files, and is shown in no other page.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
REPORT_HEADERS = HEADERS | {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
}
FILES = {  # by path: package, folder, name
    "/": ("inferl.service", "static", "index.html"),
    "/static/style.css": ("inferl.report", "templates", "style.css"),  # both pages have one look
} | {
    f"/static/{name}": ("inferl.service", "static", name)
    for name in ("live.js", "stream.js", "charts.js", "live.css", "icon.svg")
}


def routes(hub: Any) -> list[Route]:
    """Return the routes of the page and its files, which hold no data, of `/v1/events` and of `/metrics`."""
    events = Events(hub)

    async def show_metrics(request: Request) -> Response:
        return PlainTextResponse(metrics(hub, events.open), media_type="text/plain; version=0.0.4")

    async def show_events(request: Request) -> Response:
        return events.answer(request.query_params.get("reference"))

    return [
        *(Route(path, _File(*where).show) for path, where in FILES.items()),
        Route("/metrics", show_metrics),
        Route("/v1/events", show_events),
    ]


class _File:
    """A file of the page, which does not change while the server runs."""

    def __init__(self, package: str, folder: str, name: str) -> None:
        self.content = files(package).joinpath(folder, name).read_bytes()
        self.type = mimetypes.types_map[name[name.rindex(".") :]]
        self.headers = HEADERS | {"ETag": f'"{hashlib.sha256(self.content).hexdigest()[:16]}"'}

    async def show(self, request: Request) -> Response:
        if request.headers.get("if-none-match") == self.headers["ETag"]:
            return Response(status_code=304, headers=self.headers)
        return Response(self.content, media_type=self.type, headers=self.headers)


class Events:
    """What changes, as server-sent events for any number of clients.

    A client is sent the latest state whenever it has read the one before; so a slow one misses snapshots, and nothing
    is stored for it. From one that does not read at all, the system takes the connection away.
    """

    def __init__(self, hub: Any) -> None:
        self.hub = hub
        self.open = 0  # streams
        self._snapshots: dict[str, tuple[int, str]] = {}  # by experiment: version, JSON
        self._differences: dict[str, tuple[Any, str]] = {}  # by reference: versions, event

    def answer(self, reference: str | None) -> Response:
        """Return a stream of all events from now on."""
        if self.open >= MOST_STREAMS:
            return PlainTextResponse("too many pages are open; try again later\n", 503, {"Retry-After": "10"})
        return _Stream(self, reference)

    def news(self, seen: dict[str, Any], reference: str | None) -> Iterator[str]:
        """Yield what a client has not seen yet, and note it."""
        names = list(self.hub.experiments)
        if seen.get("names") != names:
            seen["names"] = names
            columns = {name: experiment.columns for name, experiment in self.hub.experiments.items()}
            yield _event(
                "hello",
                as_json(
                    {"names": names, "columns": columns, "version": version("inferl"), "started": self.hub.started}
                ),
            )
        changed = False
        for name, experiment in self.hub.experiments.items():
            number, now = experiment.version, experiment.run_snapshot
            before, era, end = seen.get(f"of {name}", (None, None, 0))
            if now is None or number == before:
                continue
            found = experiment.history.since(end)
            if found.era != era:
                found = experiment.history.since()
            seen[f"of {name}"] = number, found.era, found.end
            rows = as_json({"begin": found.era != era, "rows": found.rows})
            yield _event("experiment", f'{{"snapshot":{self._snapshot(name, number, now)},"history":{rows}}}')
            changed = True
        if changed and len(names) > 1:
            yield self._apart(reference if reference is not None and reference in names else names[0])
        rates = {name: {one: getattr(each, one) for one in RATES} for name, each in self.hub.experiments.items()}
        if seen.get("rates") != rates:
            seen["rates"] = rates
            yield _event("rates", as_json(rates))

    def _snapshot(self, name: str, number: int, now: dict[str, Any]) -> str:
        if self._snapshots.get(name, (None, ""))[0] != number:
            self._snapshots[name] = number, as_json(now)
        return self._snapshots[name][1]

    def _apart(self, reference: str) -> str:
        """Return the differences of all experiments from one of them."""
        versions = [experiment.version for experiment in self.hub.experiments.values()]
        if self._differences.get(reference, (None, ""))[0] != versions:
            first = self.hub.experiments[reference].run_snapshot
            found = []
            for name, experiment in self.hub.experiments.items():
                if name == reference or first is None or experiment.run_snapshot is None:
                    continue
                try:
                    found.append(difference(experiment.run_snapshot, first))
                except SettingError as error:
                    found.append({"of": name, "minus": reference, "error": str(error)})
            content = as_json({"reference": reference, "of": found})
            self._differences[reference] = versions, _event("differences", content)
        return self._differences[reference][1]


def _event(name: str, content: str) -> str:
    return f"event: {name}\ndata: {content}\n\n"


class _Stream(Response):
    """The events for one client."""

    def __init__(self, events: Events, reference: str | None) -> None:
        super().__init__(headers=HEADERS | {"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        self.headers["Content-Type"] = "text/event-stream"
        del self.headers["Content-Length"]
        self.events, self.reference = events, reference

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        gone = asyncio.ensure_future(_disconnected(receive))
        self.events.open += 1
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            await self._tell(gone, send)
        finally:
            self.events.open -= 1
            gone.cancel()
            with suppress(asyncio.CancelledError):
                await gone

    async def _tell(self, gone: asyncio.Future[None], send: Send) -> None:
        seen: dict[str, Any] = {}
        said = time.monotonic()

        async def say(text: str, more: bool = True) -> None:
            nonlocal said
            said = time.monotonic()
            await send({"type": "http.response.body", "body": text.encode(), "more_body": more})

        while not gone.done() and not self.events.hub.stopping.is_set():
            for text in self.events.news(seen, self.reference):
                await say(text)
            if time.monotonic() > said + HEARTBEAT:
                await say(": alive\n\n")
            await asyncio.wait({gone}, timeout=PERIOD)
        await say("", more=False)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
