"""Streams: which server and which of its messages a URI or a user means, and files that are being written."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qs, urlsplit

from inferl.data.arrays import as_count
from inferl.data.invariants import COUNT
from inferl.errors import SettingError
from inferl.sources.logs.inputs.growing import GrowingFile
from inferl.sources.logs.inputs.journal import JournalStream, folder_of
from inferl.sources.logs.inputs.kafka import KafkaTopic
from inferl.sources.logs.inputs.messages import Stream
from inferl.sources.logs.inputs.redis import RedisStream

__all__ = ["allowed_bad", "followed", "is_stream", "read_settings", "stream_of"]

SCHEMES = ("kafka", "redis", "rediss", "journal")


def is_stream(source: Any) -> bool:
    """Return whether a source is a stream of messages, or the URI of one.

    >>> is_stream("kafka://localhost:9092/steps"), is_stream(["redis://localhost/steps"]), is_stream("s3://bucket/log")
    (True, True, False)
    """
    if isinstance(source, list | tuple):
        return any(map(is_stream, source))
    return isinstance(source, Stream) or (isinstance(source, str) and source.partition("://")[0] in SCHEMES)


def stream_of(uri: str, settings: Mapping[str, Any] | None = None) -> Stream:
    """Return the stream that a URI names; the settings are those of the client library.

    >>> stream_of("kafka://one:9092,two:9092/steps?partitions=0,3")
    KafkaTopic(servers='one:9092,two:9092', topic='steps', partitions=(0, 3), follow=False)
    """
    if uri.startswith("journal://"):
        if settings:
            raise SettingError(f"{uri}: a journal is a folder, and has no settings of a client")
        return JournalStream(folder_of(uri))
    parts = urlsplit(uri)
    if "@" in parts.netloc:
        raise SettingError(f"{parts.scheme}://: name and password do not belong in a URI, which is stored and printed")
    known = {"partitions"} if parts.scheme == "kafka" else set[str]()
    query, place = parse_qs(parts.query), parts.path.strip("/")
    if not parts.netloc or not place or "/" in place or not query.keys() <= known:
        example = "redis://localhost:6379/STREAM" if "redis" in parts.scheme else "kafka://localhost:9092/TOPIC"
        raise SettingError(f"{uri} is not the URI of a stream, such as {example}")
    if parts.scheme == "kafka":
        return KafkaTopic(parts.netloc, place, _numbers(query.get("partitions"), uri), dict(settings or {}))
    return RedisStream(f"{parts.scheme}://{parts.netloc}", place, dict(settings or {}))


def followed(source: Any, settings: Mapping[str, Any] | None = None, follow: bool = False) -> Any:
    """Return a source that is read as a stream where it is one; other sources as they are."""
    one = source[0] if isinstance(source, list | tuple) and len(source) == 1 else source
    if isinstance(one, list | tuple) and is_stream(one):
        raise SettingError("a stream is read alone: name one topic, or files")
    if is_stream(one):
        stream = stream_of(one, settings) if isinstance(one, str) else one
        return replace(stream, follow=stream.follow or follow)  # type: ignore[type-var]  # they are dataclasses
    if settings:
        raise SettingError("settings are those of the client of a stream, such as kafka://localhost:9092/TOPIC")
    if not follow:
        return source
    if not isinstance(one, str | os.PathLike) or one == "-":
        raise SettingError("only a stream, or one file of text (CSV, JSON lines), can be followed; name one")
    return GrowingFile(os.fspath(one))


def allowed_bad(source: Any, said: int | None) -> int:
    """Return how many bad rows may be skipped: if nobody has said it, all of a journal, as the service has done.

    >>> allowed_bad("log.csv", None), allowed_bad(JournalStream("journal"), None) > 10**9
    (0, True)
    """
    if said is None:
        return COUNT[1] if getattr(source, "unattended", False) else 0
    return as_count("skip_bad", said, 0)


def read_settings(path: str) -> dict[str, str]:
    """Read the settings of a client from a file, a line each: ``name=value``; # begins a comment."""
    try:
        with open(path, encoding="utf-8") as file:
            lines = [line.strip() for line in file]
    except (OSError, UnicodeDecodeError) as error:
        raise SettingError(f"the settings {path} cannot be read: {error}") from None
    found = {}
    for number, line in enumerate(lines, 1):
        name, equals, value = line.partition("=")
        if line and not line.startswith("#"):
            if not equals:
                raise SettingError(f"{path}, line {number} is not name=value")
            found[name.strip()] = value.strip()
    return found


def _numbers(given: list[str] | None, uri: str) -> tuple[int, ...] | None:
    texts = given[0].split(",") if given else []
    if not all(text.isdecimal() for text in texts):
        raise SettingError(f"{uri}: partitions are numbers, such as partitions=0,2")
    return tuple(map(int, texts)) if texts else None
