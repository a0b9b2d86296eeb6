"""Requests that no honest client sends: `drawn(rng)` returns one, with what may be answered."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from fuzz_readers import SORTS

__all__ = ["ARROW", "JSON", "Request", "as_arrow", "drawn", "good"]

ARROW, JSON = "application/vnd.apache.arrow.stream", "application/x-ndjson"
EXPERIMENTS = {  # a sound row of each
    "walk": b'{"s": 1, "reward": 0.5}',
    "trips": b'{"trip": 1, "t": 1, "x": 0.5, "reward": 1.0, "over": false}',
    "hours": b'{"s": 1, "reward": 0.5, "at": 1.7e9}',
    "cells": b'{"s": 1999, "reward": 0.5}',
}
REFUSED = frozenset({400, 413, 415})

Generator = np.random.Generator


@dataclass
class Request:
    """A request, and what may be answered.

    Attributes
    ----------
    raw
        Bytes that are sent as they are, on a connection of their own, instead of the rest.
    numbered
        Whether the header names the sender and the next number of its batches.
    allowed
        Statuses; 0 stands for a connection that is closed without an answer.
    guarded
        Whether it goes to the server that asks for tokens.
    leaves
        Whether the client goes away without waiting for the answer.
    """

    group: str
    sort: str
    allowed: frozenset[int]
    method: str = "POST"
    path: str = "/v1/experiments/walk/transitions"
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    raw: bytes | None = None
    numbered: bool = False
    guarded: bool = False
    leaves: bool = False


def as_arrow(table: pa.Table, **options: Any) -> bytes:
    """Write a table as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def good(rng: Generator, number: int, size: int, arrow: bool) -> tuple[bytes, str]:
    """Return rows that are sound, the first of which has this number, and their type."""
    states, rewards = rng.integers(3, size=size).tolist(), rng.normal(size=size).tolist()
    rows = [{"s": s, "reward": r, "number": number + k} for k, (s, r) in enumerate(zip(states, rewards, strict=True))]
    if arrow:
        return as_arrow(pa.Table.from_pylist(rows)), ARROW
    return "\n".join(map(json.dumps, rows)).encode(), JSON


def _one(rng: Generator, things: Sequence[Any]) -> Any:
    return things[int(rng.integers(len(things)))]


def _bytes(rng: Generator, most: int) -> bytes:
    return rng.bytes(int(rng.integers(1, most)))


# Lines and bodies that are no HTTP, or lie about their length.

HEAD = (
    b"POST /v1/experiments/walk/transitions HTTP/1.1\r\nHost: localhost\r\nInferl-Client: raw\r\nInferl-Sequence: 1\r\n"
)
ROW = b'{"s": 0, "reward": 1.0}'
CHUNK = b"c350\r\n" + b" " * 50_000 + b"\r\n"
HEALTH = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
LINES: dict[str, bytes] = {
    "no version": b"GET /health\r\n\r\n",
    "HTTP/0.9": b"GET /health HTTP/0.9\r\n\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "HTTP/9.9": b"GET /health HTTP/9.9\r\nHost: localhost\r\n\r\n",
    "TLS": bytes.fromhex("16030100c8010000c40303") + bytes(200),
    "a method of signs": b"G@T /health HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a long method": b"A" * 5000 + b" /health HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a method with a line": b"GET\n/health HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "no host": b"GET /health HTTP/1.1\r\n\r\n",
    "two hosts": b"GET /health HTTP/1.1\r\nHost: localhost\r\nHost: evil\r\n\r\n",
    "folded": b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: a\r\n b\r\n\r\n",
    "no colon": b"GET /health HTTP/1.1\r\nHost: localhost\r\nnonsense\r\n\r\n",
    "a space before the colon": b"GET /health HTTP/1.1\r\nHost : localhost\r\n\r\n",
    "a name of nothing": b"GET /health HTTP/1.1\r\nHost: localhost\r\n: x\r\n\r\n",
    "NUL": b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: a\x00b\r\n\r\n",
    "bytes above 127": b"GET /health HTTP/1.1\r\nHost: \xff\xfe\r\nX: \xe9\r\n\r\n",
    "a path above 127": b"GET /\xff\xfe HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "line feeds": b"GET /health HTTP/1.1\nHost: localhost\n\n",
    "carriage returns": b"GET /health HTTP/1.1\rHost: localhost\r\r",
    "an endless header": b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 100_000,
    "a thousand headers": b"GET /health HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * 1000 + b"\r\n",
    "a long path": b"GET /" + b"x" * 60_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "websocket": b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n",
    "h2c": b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n\r\n",
    "negative length": HEAD + b"Content-Length: -1\r\n\r\n" + ROW,
    "length with a sign": HEAD + b"Content-Length: +23\r\n\r\n" + ROW,
    "length in sixteens": HEAD + b"Content-Length: 0x17\r\n\r\n" + ROW,
    "huge length": HEAD + b"Content-Length: 99999999999999999999999\r\n\r\n" + ROW,
    "large length": HEAD + b"Content-Length: 8000000000\r\n\r\n" + ROW,
    "two lengths": HEAD + b"Content-Length: 23\r\nContent-Length: 5\r\n\r\n" + ROW,
    "length and chunks": HEAD + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "another coding": HEAD + b"Transfer-Encoding: gzip\r\n\r\n" + ROW,
    "two codings": HEAD + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    "a chunk of zz": HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\nab\r\n0\r\n\r\n",
    "a negative chunk": HEAD + b"Transfer-Encoding: chunked\r\n\r\n-1\r\nab\r\n0\r\n\r\n",
    "a huge chunk": HEAD + b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffffffff\r\nab",
    "a long extension": HEAD + b"Transfer-Encoding: chunked\r\n\r\n1;" + b"x" * 100_000 + b"\r\na\r\n0\r\n\r\n",
    "a chunk without its end": HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\nabcd\r\n0\r\n\r\n",
    "trailers": HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\nInferl-Sequence: 7\r\n\r\n",
    "chunks beyond the limit": HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + CHUNK * 5,
    "one request in another": HEAD + b"Content-Length: 0\r\n\r\n" + HEALTH * 3,
    "more than its length": HEAD + b"Content-Length: 2\r\n\r\n" + ROW,
    "expects something else": HEAD + b"Expect: 200-ok\r\nContent-Length: 23\r\n\r\n" + ROW,
    "expects and is too large": HEAD + b"Expect: 100-continue\r\nContent-Length: 500000000\r\n\r\n",
    "nothing": b"\r\n\r\n\r\n",
}  # fmt: skip


def _raw(rng: Generator) -> Request:
    """A head or a body that breaks the rules, perhaps cut off or with some bytes changed."""
    sort = _one(rng, [*LINES, "noise"])
    data = _bytes(rng, 2000) if sort == "noise" else LINES[sort]
    how = rng.random()
    if how < 0.2:
        data, sort = data[: int(rng.integers(1, len(data) + 1))], f"{sort}, cut"
    elif how < 0.5:
        data, sort = _flipped(rng, data), f"{sort}, flipped"
    # Whatever is understood of it: any answer but an error of the server, or none.
    answers = frozenset({0, 200, 304, 400, 403, 404, 405, 408, 409, 413, 415, 417, 421, 501})
    return Request("lines", sort, answers, raw=data)


def _flipped(rng: Generator, data: bytes, most: int = 8) -> bytes:
    changed = bytearray(data)
    for _ in range(int(rng.integers(1, most))):
        place = int(rng.integers(len(changed)))
        changed[place] = int(rng.integers(256)) if rng.random() < 0.5 else changed[place] ^ (1 << int(rng.integers(8)))
    return bytes(changed)


def _short(rng: Generator) -> Request:
    """A body that ends before its length, or whose sender goes away."""
    body = (ROW + b"\n") * int(rng.integers(1, 50))
    missing = int(rng.integers(1, 10_000))
    raw = HEAD + b"Content-Type: application/x-ndjson\r\nContent-Length: %d\r\n\r\n" % (len(body) + missing) + body
    return Request("lines", "a short body", frozenset({0, 400}), raw=raw, leaves=True)


# Paths, headers and tokens.

PATHS = (
    *("/v1/experiments/../../../etc/passwd", "/v1/experiments/%2e%2e%2f%2e%2e%2fetc%2fpasswd", "/static/../app.py"),
    *("/static/..%2f..%2fsettings.py", "/static/%2e%2e/journal", "//etc/passwd", "/v1/experiments/walk/journal"),
    *("/v1/experiments/walk%00", "/v1/experiments/%ff%fe", "/v1/experiments/%0d%0aX-Injected:%201", "/live/walk/lock"),
    *("/v1/experiments/walk/", "/v1/experiments//walk", "/v1/experiments/WALK", "/v1/experiments/walk/run.inferl"),
    *("/v1/experiments/nobody/report", "/v1/experiments/<script>", "/v1/experiments/%F0%9F%98%80", "/%", "/%zz", "*"),
    *("/v1/experiments/walk?x=" + "y" * 5000, "/metrics/", "/metrics?name[]=x", "http://evil.example/v1/experiments"),
    *("/v1/experiments/walk/clients/", "/v1/experiments/walk/clients/..", "/v1/experiments/walk/clients/%0a%00%ff"),
    *("/v1/experiments/" + "x" * 10_000, "/favicon.ico", "/.env", "/docs", "/openapi.json", "/admin", "/v2"),
)  # fmt: skip
METHODS = ("GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD", "TRACE", "CONNECT", "get", "BREW", "X" * 200)
CLIENTS = ("", " ", "a b", "x" * 129, "é", "\x7f", "a\tb", "../../etc/passwd", "<script>alert(1)</script>", "'; DROP--")
NUMBERS = (
    "",
    "0",
    "-1",
    "1.5",
    "1e3",
    "0x1",
    "٣",
    "１",
    "9" * 18,
    "9" * 19,
    "9" * 5000,
    "NaN",
    "1,2",
    "+1",
    "²",
)
TYPES = (
    "",
    "image/png",
    "application/json; charset=utf-16",
    "text/html",
    "multipart/form-data",
    ARROW.upper(),
    "x" * 9000,
)
CODINGS = ("gzip", "deflate", "br", "zstd", "gzip, gzip", "identity, gzip", "", "IDENTITY", "x" * 500)
HOSTS = (
    "evil.example",
    "127.0.0.1.evil.example",
    "localhost:99999",
    "[::1",
    "127.0.0.1@evil",
    "",
    "LOCALHOST",
    "0",
    "::",
)
OTHERS = {
    "X-Forwarded-For": "1.2.3.4, 'x', \x01",
    "Forwarded": "for=evil",
    "Origin": "https://evil.example",
    "Range": "bytes=0-99999999999999999999",
    "If-None-Match": '"' + "x" * 5000,
    "Cookie": "a=b; " * 3000,
    "Accept": "*/*;q=" + "9" * 400,
    "Last-Event-ID": "-1",
    "Access-Control-Request-Method": "POST",
    "Expect": "nonsense",
    "Connection": "close, keep-alive, nonsense",
}


def _path(rng: Generator) -> Request:
    method, path = _one(rng, METHODS), _one(rng, PATHS)
    if rng.random() < 0.3:
        path = "/" + "".join(chr(int(c)) for c in rng.integers(33, 127, rng.integers(0, 60)))
    return Request("paths", method[:10], frozenset({200, 400, 404, 405, 421}), method, path)


def _headers(rng: Generator) -> Request:
    """One header is wrong, and the rest is a good batch."""
    sort = _one(rng, ("client", "number", "type", "coding", "host", "other"))
    headers = {"Inferl-Client": "headers", "Inferl-Sequence": "1000000", "Content-Type": JSON}
    body, allowed = ROW, frozenset({400, 409})
    if sort == "client":
        headers["Inferl-Client"] = _one(rng, CLIENTS)
    elif sort == "number":
        headers["Inferl-Sequence"] = _one(rng, NUMBERS)
    elif sort == "type":
        headers["Content-Type"], allowed = _one(rng, TYPES), frozenset({400, 409, 415})
    elif sort == "coding":
        headers["Content-Encoding"], allowed = _one(rng, CODINGS), frozenset({400, 409, 415})
    elif sort == "host":
        headers["Host"], allowed = _one(rng, HOSTS), frozenset({400, 409, 421})
    else:
        name = _one(rng, list(OTHERS))
        headers[name], allowed = OTHERS[name], frozenset({0, 400, 409, 417})
    return Request("headers", sort, allowed, headers=headers, body=body)


def _token(rng: Generator, tokens: dict[str, str]) -> Request:
    """A token that is none, or that allows something else."""
    read, write = tokens["read"], tokens["write"]
    wrong = [
        *("", "Bearer", "Bearer ", f"Basic {write}", write, f"Bearer {write}x", f"Bearer {write[:-1]}", "Bearer \x00"),
        *(f"Bearer {write.swapcase()}", "Bearer " + "x" * 20_000, f"Bearer {write}, Bearer {read}", "Bearer é"),
        *(f"Bearer {write} {write}", f"Digest {read}", "Bearer null", "Bearer undefined", "Bearer ' OR 1=1"),
    ]
    method, path, other = _one(
        rng,
        [
            ("POST", "/v1/experiments/walk/transitions", read),
            ("GET", "/v1/experiments/walk", write),
            ("GET", "/v1/experiments", write),
            ("GET", "/metrics", write),
            ("GET", "/v1/events", write),
            ("GET", "/v1/experiments/walk/report", write),
            ("GET", "/v1/experiments/walk/clients/raw", read),
            ("DELETE", "/v1/experiments/walk", read),
        ],
    )
    said = f"Bearer {other}" if rng.random() < 0.2 else _one(rng, wrong)
    headers = {"Authorization": said, "Inferl-Client": "thief", "Inferl-Sequence": "1", "Content-Type": JSON}
    allowed = frozenset({400 if "\x00" in said else 401})
    return Request("tokens", method, allowed, method, path, headers, ROW, guarded=True)


# Bodies.

VALUES: tuple[bytes, ...] = (
    *(b"NaN", b"Infinity", b"-Infinity", b"1e999", b"-1e999", b"1e-999", b"-0", b"01", b"+1", b".5", b"5.", b"0x1"),
    *(b"9" * 30, b"-" + b"9" * 30, b"9" * 5000, b"1" + b"0" * 400, b"9007199254740993", b"2147483648", b"1.0", b"1.5"),
    *(b"1999", b"2000", b"5000", b"1.7e9", b"1.8e9", b"99999999999", b"1700000000000", b"-1e11", b"1e300"),
    *(b"true", b"false", b"null", b'"1"', b'"x"', b'""', b'"NaN"', b'"2024-01-01T00:00:00Z"', b'"12:30"', b'"1e400"'),
    *(b"[]", b"[1]", b"[[1]]", b"[null]", b'["a"]', b"[1, 2.5]", b"{}", b'{"a": 1}', b'{"a": {"b": [1]}}', b"[{}]"),
    *(b'"\\ud800"', b'"\\u0000"', b'"\xff\xfe"', b'"\xed\xa0\x80"', b'"' + b"x" * 50_000 + b'"', b"'1'", b"undefined"),
    *(b"[" * 20_000, b"[" * 500 + b"1" + b"]" * 500, b'{"a":' * 300 + b"1" + b"}" * 300, b"1 2", b"1,", b"", b"//"),
)  # fmt: skip
KEYS = (
    b"s",
    b"reward",
    b"x",
    b"trip",
    b"t",
    b"over",
    b"at",
    b"_partition",
    b"",
    b"s.x",
    b"__proto__",
    b"\\u0000",
    b"\xff",
    b"k" * 30_000,
)


def _json(rng: Generator) -> Request:
    """Rows among which one is odd, or lines that are no rows."""
    name, row = _one(rng, list(EXPERIMENTS.items()))
    rows = [row] * int(rng.integers(0, 20))
    sort = _one(rng, ("a value", "a key", "a line", "flipped", "cut", "separators", "columns", "rows"))
    if sort == "a value":
        names = [key.encode() for key in json.loads(row)]
        odd = (
            b"{"
            + b", ".join(b'"%s": %s' % (n, _one(rng, VALUES) if rng.random() < 0.6 else b"1") for n in names)
            + b"}"
        )
    elif sort == "a key":
        odd = row[:-1] + b', "%s": %s}' % (_one(rng, KEYS), _one(rng, VALUES))
    elif sort == "a line":
        odd = _one(
            rng, (b"[1]", b"null", b"3", b'"a"', b"{", b"}", b"{}", row + row, b"\xef\xbb\xbf" + row, _bytes(rng, 60))
        )
    elif sort == "flipped":
        odd = _flipped(rng, row)
    elif sort == "cut":
        odd = row[: int(rng.integers(1, len(row)))]
    elif sort == "separators":
        odd = _one(rng, (b"\r", b"\x85", b"\xe2\x80\xa8", b"\x00", b"\x0c", b",")).join([row] * 3)
    elif sort == "columns":
        many = int(rng.integers(1, 12_000))
        odd = b"{" + b",".join(b'"c%d":1' % k for k in range(many)) + b"}"
    else:
        rows = [b'{"s":0,"reward":1,"c%d":1}' % k for k in range(int(rng.integers(1, 600)))]
        odd = row
    rows.insert(int(rng.integers(len(rows) + 1)), odd)
    kind = _one(rng, (JSON, JSON, "application/json", "text/plain"))
    path = f"/v1/experiments/{name}/transitions"
    return Request(
        "JSON", sort, REFUSED | {200}, path=path, headers={"Content-Type": kind}, body=b"\n".join(rows), numbered=True
    )


def _sound(rng: Generator, name: str) -> pa.Table:
    n = int(rng.integers(1, 40))
    steps = np.arange(n)
    if name != "trips":
        states = np.minimum(rng.geometric(0.05, n), 1999) if name == "cells" else rng.integers(3, size=n)
        time = {"at": 1.7e9 + 3600 * rng.exponential() + steps} if name == "hours" else {}
        return pa.table({"s": states, "reward": rng.normal(size=n), **time})
    columns = {"trip": pa.array(rng.integers(2**40) + steps // 5), "t": steps % 5, "x": rng.normal(size=n)}
    return pa.table(columns | {"reward": rng.normal(size=n), "over": steps % 5 == 4})


def _arrow(rng: Generator) -> Request:
    """A stream that was damaged or forged, or has other columns than the batches before."""
    name = _one(rng, list(EXPERIMENTS))
    table = _sound(rng, name)
    sort = _one(rng, list(FORGERS))
    body = FORGERS[sort](rng, table)
    headers = {"Content-Type": ARROW}
    path = f"/v1/experiments/{name}/transitions"
    return Request("Arrow", sort, REFUSED | {200}, path=path, headers=headers, body=body, numbered=True)


def _with(table: pa.Table, name: str, column: Any) -> pa.Table:
    place = table.column_names.index(name) if name in table.column_names else -1
    return table.append_column(name, column) if place < 0 else table.set_column(place, name, column)


def _other_type(rng: Generator, table: pa.Table) -> bytes:
    """A column of any type."""
    name = _one(rng, [*table.column_names, "more"])
    return as_arrow(_with(table, name, SORTS[_one(rng, list(SORTS))](rng, len(table))))


def _other_columns(rng: Generator, table: pa.Table) -> bytes:
    """Columns in another order, fewer, more, renamed."""
    names = list(rng.permutation(table.column_names))[: int(rng.integers(0, len(table.column_names) + 1))]
    changed = table.select(names)
    for k in range(int(rng.integers(0, 3))):
        changed = changed.append_column(
            _one(rng, ("reward", "S", "", "_partition", f"c{k}", "\n", "x")), pa.array([1.0] * len(table))
        )
    return as_arrow(changed)


def _patched(rng: Generator, table: pa.Table) -> bytes:
    """Lengths and offsets of the headers are replaced by extreme numbers."""
    data = bytearray(as_arrow(table))
    for _ in range(int(rng.integers(1, 4))):
        size, form = _one(rng, ((8, "<q"), (4, "<i"), (2, "<h")))
        place = int(rng.integers(0, max(len(data) // size, 1))) * size
        number = _one(
            rng, (-1, 0, 1, 2 ** (8 * size - 1) - 1, -(2 ** (8 * size - 1)), 2 ** (8 * size - 2), len(data), 64)
        )
        data[place : place + size] = struct.pack(form, number)
    return bytes(data[: len(data)])


def _joined(rng: Generator, table: pa.Table) -> bytes:
    """Several streams, one after the other, perhaps without the mark of the end."""
    one, other = as_arrow(table), as_arrow(_sound(rng, _one(rng, list(EXPERIMENTS))))
    return one[: -8 * int(rng.integers(0, 2)) or None] + other


def _many(rng: Generator, table: pa.Table) -> bytes:
    """Rows that take no bytes."""
    n = int(_one(rng, (0, 1, 499, 500, 501, 10**6, 2**31 - 1)))
    return as_arrow(pa.table({name: pa.nulls(n) for name in table.column_names}))


def _wide(rng: Generator, table: pa.Table) -> bytes:
    """Many columns."""
    return as_arrow(pa.table({f"c{k}": pa.nulls(1) for k in range(int(rng.integers(100, 2000)))}))


def _dictionary(rng: Generator, table: pa.Table) -> bytes:
    """Categories: few bytes that could stand for many."""
    words = pa.array(["x" * int(rng.integers(1, 1000))])
    column = pa.DictionaryArray.from_arrays(pa.array([0] * len(table), pa.int8()), words)
    return as_arrow(_with(table, _one(rng, [*table.column_names, "more"]), column))


def _compressed(rng: Generator, table: pa.Table) -> bytes:
    """Buffers that would grow."""
    n = int(_one(rng, (len(table), 500, 100_000)))
    zeros = pa.table({name: pa.array(np.zeros(n)) for name in table.column_names})
    return as_arrow(zeros, compression=_one(rng, ("zstd", "lz4")))


def _extension(rng: Generator, table: pa.Table) -> bytes:
    """A type that names a class of Python, which old releases of pyarrow unpickled."""
    payload = b"cbuiltins\nopen\n(S'forged.txt'\nS'w'\ntR."
    about = {
        b"ARROW:extension:name": _one(rng, (b"arrow.py_extension_type", b"arrow.json", b"arrow.uuid", b"evil")),
        b"ARROW:extension:metadata": payload,
    }
    fields = [field.with_metadata(about) if rng.random() < 0.5 else field for field in table.schema]
    return as_arrow(table.cast(pa.schema(fields)))


FORGERS: dict[str, Callable[[Generator, pa.Table], bytes]] = {
    "cut": lambda rng, table: (data := as_arrow(table))[: int(rng.integers(1, len(data)))],
    "flipped": lambda rng, table: _flipped(rng, as_arrow(table)),
    "flipped often": lambda rng, table: _flipped(rng, as_arrow(table), 60),
    "patched": _patched,
    "noise": lambda rng, table: as_arrow(table)[: int(rng.integers(0, 60))] + _bytes(rng, 500),
    "a type": _other_type,
    "columns": _other_columns,
    "joined": _joined,
    "many rows": _many,
    "many columns": _wide,
    "a dictionary": _dictionary,
    "compressed": _compressed,
    "an extension": _extension,
    "sound": lambda rng, table: as_arrow(table),
}


def _reader(rng: Generator) -> Request:
    """Something large is asked for again and again, and not read."""
    what = _one(rng, (b"/v1/experiments/walk/report", b"/v1/events", b"/metrics", b"/static/charts.js"))
    raw = (b"GET " + what + b" HTTP/1.1\r\nHost: localhost\r\n\r\n") * int(rng.integers(1, 50))
    return Request("readers", what.decode(), frozenset({0}), raw=raw, leaves=True)


SHARES = {"lines": 14, "short": 1, "paths": 10, "headers": 12, "tokens": 10, "JSON": 25, "Arrow": 27, "readers": 1}


def drawn(rng: Generator, tokens: dict[str, str]) -> Request:
    """Draw a request."""
    makers: dict[str, Callable[[Generator], Request]] = {
        "lines": _raw,
        "short": _short,
        "paths": _path,
        "headers": _headers,
        "tokens": lambda rng: _token(rng, tokens),
        "JSON": _json,
        "Arrow": _arrow,
        "readers": _reader,
    }
    shares = np.array(list(SHARES.values())) / sum(SHARES.values())
    return makers[str(rng.choice(list(SHARES), p=shares))](rng)
