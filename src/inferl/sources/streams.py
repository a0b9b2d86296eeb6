"""Streams of messages as a source: a topic of Kafka, or a stream of Redis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from inferl.errors import SettingError
from inferl.sources.logs.inputs.kafka import KafkaTopic
from inferl.sources.logs.inputs.redis import RedisStream
from inferl.sources.logs.table import Table, table

__all__ = ["kafka", "redis"]


def kafka(
    servers: str,
    topic: str,
    *,
    partitions: Sequence[int] | None = None,
    settings: Mapping[str, Any] | None = None,
    follow: bool = False,
    **options: Any,
) -> Table:
    """Read transitions from a topic of Kafka, from the first message that the broker keeps.

    A message holds one row or several, as JSON objects, one a line. The messages of several partitions are read in the
    order of their timestamps, so the answer does not depend on when they arrive; a message waits until every other
    partition has one, too. Rows of different partitions belong to different streams, unless episodes have labels, and
    a column (or `idle_timeout`) says where they end.

    There is no consumer group, and no offset is committed: offsets are part of the position of the source, so a run
    that was saved goes on with the message after the last that it has counted. Messages that the broker has discarded
    before they were read are an error.

    Parameters
    ----------
    servers
        Addresses of brokers: ``"one:9092,two:9092"``.
    topic
        Its name.
    partitions
        Which to read; default: all.
    settings
        Of the client, librdkafka, such as ``{"security.protocol": "SASL_SSL", ...}``. They are not stored.
    follow
        Wait for more messages. Else the source ends with the messages that are there when it begins.
    **options
        As for `table`: columns, policies, `discount`, ...

    Examples
    --------
    >>> import inferl
    >>> source = inferl.sources.kafka("localhost:9092", "steps", state="room", n_states=5, discount=0.95)
    >>> source
    Table(kafka://localhost:9092/steps, not read yet)
    """
    wanted = None if partitions is None else tuple(sorted(set(partitions)))
    if wanted == ():
        raise SettingError("partitions is empty; name some, or leave it out")
    return table(KafkaTopic(servers, topic, wanted, dict(settings or {}), follow), **options)


def redis(
    server: str, stream: str, *, settings: Mapping[str, Any] | None = None, follow: bool = False, **options: Any
) -> Table:
    """Read transitions from a stream of Redis, from its first entry.

    The fields of an entry are the columns of a row; or it has one field, which holds rows as JSON objects, one a line.
    There is no consumer group: the id of the last entry is part of the position of the source. Entries that were
    trimmed before they were read are an error. This needs Redis 7.0 or newer.

    Parameters
    ----------
    server
        ``"redis://host:port"``, or ``"rediss://..."`` for TLS.
    stream
        Its key.
    settings
        Of the client, as for ``redis.Redis``, such as ``{"password": ...}``. They are not stored.
    follow
        Wait for more entries. Else the source ends with the entries that are there when it begins.
    **options
        As for `table`: columns, policies, `discount`, ...

    Examples
    --------
    >>> import inferl
    >>> inferl.sources.redis("redis://localhost:6379", "steps", state="room", n_states=5)
    Table(redis://localhost:6379/steps, not read yet)
    """
    return table(RedisStream(server.rstrip("/"), stream, dict(settings or {}), follow), **options)
