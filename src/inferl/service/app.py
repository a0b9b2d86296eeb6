"""The server: what arrives over HTTP goes through the door into a journal, and is answered when it cannot be lost."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import os
import re
import signal
import socket
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from inferl.display import as_json
from inferl.errors import MissingExtraError, SettingError
from inferl.service.client import NAME
from inferl.service.door import Refused
from inferl.service.experiment import Experiment, Hub
from inferl.service.journal import Closed, Gap, JournalError, TooManyClients
from inferl.service.settings import Settings
from inferl.service.tokens import Tokens
from inferl.service.webhooks import Webhooks

try:
    import uvicorn
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.exceptions import HTTPException
    from starlette.requests import ClientDisconnect, Request
    from starlette.responses import HTMLResponse, Response
    from starlette.routing import Route
    from starlette.types import ASGIApp, Receive, Scope, Send
except ImportError as missing:
    raise MissingExtraError(str(missing.name).partition(".")[0], "serve") from None

from inferl.service import live
from inferl.service.connections import Connection, quiet

__all__ = ["application", "check", "serve"]

SMALL = 1 << 16  # bytes of a body that is decoded at once; larger ones in a thread
PATIENCE = 30.0  # seconds for the body of a request
UNREAD = 60_000  # milliseconds in which what was sent must be taken
GRACE = 10  # seconds for requests that are being answered when the server stops
ADDRESSES = 10_000  # whose rates are remembered
OPEN = ("/health", "/ready", *live.FILES)  # paths without a token
PATHS = "/v1/experiments, and below it /NAME, /NAME/transitions, /NAME/clients/CLIENT and /NAME/report"


def application(hub: Hub, tokens: Tokens) -> ASGIApp:
    """Return the application for some experiments; they are started and stopped with it."""
    service = _Service(hub)

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        hub.start()
        yield
        await run_in_threadpool(hub.stop)

    named = "/v1/experiments/{name}"
    routes = [
        Route("/health", service.health),
        Route("/ready", service.ready),
        Route("/v1/experiments", service.experiments),
        Route(named, service.experiment),
        Route(f"{named}/report", service.report),
        Route(f"{named}/clients/{{client:path}}", service.client),
        Route(f"{named}/transitions", service.transitions, methods=["POST"]),
        *live.routes(hub),
    ]
    handlers: Any = {HTTPException: _http_error, Refused: _refused, Exception: _error}
    app = Starlette(routes=routes, lifespan=lifespan, exception_handlers=handlers)
    app.router.redirect_slashes = False  # a redirection would repeat the host that a client names
    return _Guard(app, hub.settings, tokens)


class _Service:
    """What is answered."""

    def __init__(self, hub: Hub) -> None:
        self.hub, self.limits = hub, hub.settings.limits
        self.reading = 0  # bytes of requests that are being read or decoded

    async def health(self, request: Request) -> Response:
        """Say that the server is there."""
        return _answer({"status": "ok"})

    async def ready(self, request: Request) -> Response:
        """Say whether all experiments record and evaluate, and to those who may read, which do not and why."""
        wrong = {
            name: one.failure or one.journal.failure
            for name, one in self.hub.experiments.items()
            if one.failure or one.journal.failure
        }
        content: dict[str, Any] = {"status": "failed" if wrong else "ok"}
        if request.scope["may_read"]:
            content["failures"] = wrong
        return _answer(content, 503 if wrong else 200)

    async def experiments(self, request: Request) -> Response:
        """List the experiments."""
        states = [one.state() for one in self.hub.experiments.values()]
        return _answer({"experiments": [{k: v for k, v in state.items() if k != "snapshot"} for state in states]})

    async def experiment(self, request: Request) -> Response:
        """Return the state of an experiment."""
        return _answer(self._named(request).state())

    async def report(self, request: Request) -> Response:
        """Return the report page."""
        html = await run_in_threadpool(self._named(request).html)
        if html is None:
            raise Refused("there is no report yet", "send transitions first", status=404)
        return HTMLResponse(html, headers=live.REPORT_HEADERS)

    async def client(self, request: Request) -> Response:
        """Return the number of the last batch of a client, and how many of its rows were left out."""
        name, one = request.path_params["client"], self._named(request)
        return _answer({"client": name, "sequence": one.journal.sequence(name), "bad_rows": one.bad_rows_of(name)})

    async def transitions(self, request: Request) -> Response:
        """Take a batch."""
        experiment = self._named(request)
        client, sequence = _numbered(request)
        journal = experiment.journal
        last = journal.sequence(client)
        if sequence > last + 1:
            raise _gap(Gap(client, sequence, last + 1))
        self._check_pressure(experiment)
        size = self._size(request)
        self.reading += size
        try:
            body = await self._body(request, size)
            # A repeat is not decoded again, but answered when the first one cannot be lost any more.
            payload, rows = (b"", 0) if sequence <= last else await self._admitted(experiment, body, request)
            done = journal.append(client, sequence, rows, payload)
        except Gap as gap:
            raise _gap(gap) from None
        except TooManyClients as error:
            remedy = "use the names of clients again, or raise the limit (limits.clients)"
            raise Refused(str(error), remedy, status=403) from None
        except Closed as error:
            raise Refused("the server is stopping", str(error), status=503) from None
        except JournalError as error:
            raise Refused(str(error), "the batch was not taken", status=507) from None
        finally:
            self.reading -= size
        try:
            await asyncio.wrap_future(done)
        except JournalError as error:
            raise Refused(str(error), "the batch was not taken", status=507) from None
        experiment.recorded()
        done_before, bad = sequence <= last, experiment.bad_rows_of(client)
        return _answer({"client": client, "sequence": sequence, "rows": rows, "repeat": done_before, "bad_rows": bad})

    async def _admitted(self, experiment: Experiment, body: bytes, request: Request) -> tuple[bytes, int]:
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if request.headers.get("content-encoding", "identity") != "identity":
            raise Refused("the body is compressed", "send it as it is", status=415)
        if len(body) <= SMALL:
            return experiment.door.admit(body, kind)
        return await run_in_threadpool(experiment.door.admit, body, kind)

    def _named(self, request: Request) -> Experiment:
        name = request.path_params["name"]
        if name not in self.hub.experiments:
            known = ", ".join(self.hub.experiments)
            raise Refused(f"there is no experiment {name!r:.100}", f"there are {known}", status=404)
        return self.hub.experiments[name]

    def _check_pressure(self, experiment: Experiment) -> None:
        if self.hub.stopping.is_set():
            raise Refused("the server is stopping", "send the batch again", status=503)
        if self.hub.waiting_bytes + self.reading > self.limits.queue:
            raise Refused("the disk is slower than what arrives", "send the batch again in a second", status=429)
        if experiment.lag_bytes > self.limits.behind:
            why, retry = f" ({experiment.failure})" if experiment.failure else "", 60 if experiment.failure else 5
            raise Refused(f"the evaluator is too far behind{why}", "send the batch again later", None, 429, retry)

    def _size(self, request: Request) -> int:
        """Return the size of a body; refuse one that is too large before it is read."""
        said = request.headers.get("content-length", "")
        size = int(said) if said.isdecimal() and len(said) < 20 else self.limits.request  # in chunks: the most
        if size > self.limits.request:
            raise self._too_large()
        return size

    async def _body(self, request: Request, size: int) -> bytes:
        parts, length = [], 0
        try:
            async with asyncio.timeout(PATIENCE):
                async for part in request.stream():
                    length += len(part)
                    if length > size:
                        raise self._too_large()
                    parts.append(part)
        except TimeoutError:
            raise Refused("the body did not arrive in time", "send the batch again", status=408) from None
        except ClientDisconnect:
            raise Refused("the client has gone", "send the batch again") from None
        return b"".join(parts)

    def _too_large(self) -> Refused:
        remedy = f"send at most {self.limits.request:,} bytes at a time (limits.request)"
        return Refused("the body is too large", remedy, status=413)


class _Guard:
    """Looks at every request before the application: host, token and rate."""

    def __init__(self, app: ASGIApp, settings: Settings, tokens: Tokens) -> None:
        self.app, self.tokens, self.rate = app, tokens, settings.limits.rate
        self.host = settings.host
        self.left: OrderedDict[str, tuple[float, float]] = OrderedDict()  # for each address, requests left, and when

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        scope["may_read"] = self.tokens.allow(headers.get("authorization"), "read")
        refused = self._refusal(scope, headers)
        if refused is not None:
            return await refused(scope, receive, send)
        await self.app(scope, receive, send)

    def _refusal(self, scope: Scope, headers: dict[str, str]) -> Response | None:
        address = (scope.get("client") or ("", 0))[0]
        if not self._within_rate(address):
            return _refused_with("there are too many requests from this address", "send fewer and larger ones", 429)
        if not self.tokens.known and not self._is_ours(headers.get("host", "")):  # a web page of somebody else
            return _refused_with(
                f"the host {headers.get('host', '')!r:.100} is not this server",
                "use its own name, or give it tokens",
                421,
            )
        if scope["path"] in OPEN:
            return None
        needed = "read" if scope["method"] in ("GET", "HEAD") and "/clients/" not in scope["path"] else "write"
        if scope["may_read"] if needed == "read" else self.tokens.allow(headers.get("authorization"), "write"):
            return None
        remedy = f"send the header Authorization: Bearer TOKEN, with a token to {needed}"
        answer = _refused_with(f"this needs a token to {needed}", remedy, 401)
        answer.headers["WWW-Authenticate"] = "Bearer"
        return answer

    def _is_ours(self, host: str) -> bool:
        name = host.rpartition(":")[0] if re.search(r":\d+$", host) else host
        return name.strip("[]") == self.host or is_loopback(name.strip("[]"))

    def _within_rate(self, address: str) -> bool:
        now = time.monotonic()
        left, when = self.left.pop(address, (float(self.rate), now))
        left = min(left + (now - when) * self.rate, float(self.rate)) - 1
        self.left[address] = (max(left, 0.0), now)
        if len(self.left) > ADDRESSES:
            self.left.popitem(last=False)
        return left >= 0


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach a host.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _numbered(request: Request) -> tuple[str, int]:
    client, number = (request.headers.get(f"inferl-{name}", "") for name in ("client", "sequence"))
    if not NAME.fullmatch(client):
        remedy = "send the header Inferl-Client: a name of the sender, at most 128 letters, digits and signs"
        raise Refused("the client has no name" if not client else "the client's name is not readable", remedy)
    if not (number.isascii() and number.isdecimal() and len(number) < 19 and int(number) > 0):
        remedy = "send the header Inferl-Sequence: the number of the batch, 1, 2, 3, ... for each client"
        raise Refused(f"{number!r:.50} is no number of a batch" if number else "the batch has no number", remedy)
    return client, int(number)


def _gap(gap: Gap) -> Refused:
    remedy = f"send batch {gap.expected} first"
    return Refused(str(gap), remedy, status=409, expected=gap.expected)


def _answer(content: dict[str, Any], status: int = 200, retry: int = 1) -> Response:
    headers = {"Retry-After": f"{retry}"} if status in (429, 503) else None
    return Response(as_json(content) + "\n", status, headers, "application/json")


def _refused_with(error: str, remedy: str, status: int) -> Response:
    return _answer({"error": error, "row": None, "remedy": remedy}, status)


async def _refused(request: Request, refused: Exception) -> Response:
    assert isinstance(refused, Refused)
    return _answer(refused.content, refused.status, refused.retry)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    headers = error.headers or {}
    remedy = f"there are {PATHS}" if error.status_code == 404 else f"use {headers.get('Allow', 'another method')}"
    answer = _refused_with(str(error.detail).lower(), remedy, error.status_code)
    answer.headers.update(headers)
    return answer


async def _error(request: Request, error: Exception) -> Response:
    return _refused_with("an error of inferl itself; the log of the server says more", "please report it", 500)


class _Server(uvicorn.Server):
    """A server that leaves signals to us."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def check(settings: Settings) -> Tokens:
    """Refuse settings with which the server would not start; return the tokens."""
    Webhooks.of(settings)
    tokens = Tokens.of(settings.tokens)
    if not tokens.known and not is_loopback(settings.host):
        raise SettingError(
            f"without tokens, everybody who reaches {settings.host} could send and read; make tokens (inferl serve "
            "--new-token write), or listen on 127.0.0.1"
        )
    return tokens


def serve(settings: Settings, listening: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT; then answer what was accepted, save all runs, and return."""
    os.umask(0o077)  # what is recorded is for nobody else on this machine
    tokens = check(settings)
    listener = _listener(settings.host, settings.port)
    hub = Hub.of(settings)
    config = uvicorn.Config(
        application(hub, tokens),
        http=Connection,
        ws="none",
        lifespan="on",
        access_log=False,
        log_config=None,
        server_header=False,
        date_header=False,
        headers=[("X-Content-Type-Options", "nosniff")],
        timeout_graceful_shutdown=GRACE,
        limit_concurrency=settings.limits.connections,
        h11_max_incomplete_event_size=1 << 16,
    )
    server = _Server(config)

    async def main() -> None:
        def stop() -> None:
            hub.stopping.set()
            server.should_exit = True

        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop)
        host, port = listener.getsockname()[:2]
        listening(f"http://{f'[{host}]' if ':' in host else host}:{port}")
        await server.serve(sockets=[listener])

    quiet()
    asyncio.run(main())


def _listener(host: str, port: int) -> socket.socket:
    """Open the socket, before anything else is done."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):  # the system closes connections to those who have stopped reading
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNREAD)
        listener.bind(address)
        listener.listen(1024)
        listener.setblocking(False)
    except OSError as error:
        raise SettingError(f"cannot listen on {host}:{port}: {error.strerror or error}") from None
    return listener
