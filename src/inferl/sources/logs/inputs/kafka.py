"""Kafka: the messages of a topic, without a consumer group; offsets belong to the position of a run.

Messages of several partitions are put in the order of their timestamps, then of offset and partition. So the order
depends on the messages alone, and not on when they arrived or how the server sent them. For this, a message waits until
every other partition has one, too, or has been read to its end.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from heapq import heappop, heappush, heapreplace
from typing import Any

from inferl.data.invariants import demand
from inferl.errors import CheckpointMismatchError, DataError, MissingExtraError, SettingError
from inferl.sources.logs.inputs.messages import Message, MessageLog, Patience, Place

__all__ = ["KafkaTopic"]

POLL = 0.25  # seconds until a signal is noticed
ANSWER = 10.0  # seconds for the answer of a broker
FIRST_ANSWER = 30.0  # seconds after which a broker that has never answered is taken for a wrong name
MOST = 20_000  # messages of a partition that may wait for other partitions
QUIET = 10.0  # seconds after which a silent partition, for which others wait, is named


@dataclass(frozen=True)
class KafkaTopic:
    """A topic, or some of its partitions."""

    servers: str
    topic: str
    partitions: tuple[int, ...] | None = None
    settings: Mapping[str, Any] = field(default_factory=dict, repr=False)
    follow: bool = False

    @property
    def name(self) -> str:
        """As a URI."""
        return f"kafka://{self.servers}/{self.topic}"

    def open(self, place: Place | None, rows: int) -> MessageLog:
        """Return it as an open log."""
        return MessageLog(self, place, rows)

    @contextmanager
    def connect(self, place: Place | None) -> Iterator[_Consumer]:
        """Assign the partitions; no offset is committed."""
        consumer = _Consumer(self, place)
        try:
            consumer.begin(place)
            yield consumer
        finally:
            consumer.kafka.close()


def _library() -> Any:
    try:
        import confluent_kafka
    except ImportError:
        raise MissingExtraError("confluent-kafka", "kafka") from None
    return confluent_kafka


class _Consumer:
    """The messages of a topic, in order."""

    def __init__(self, topic: KafkaTopic, place: Place | None) -> None:
        self.library, self.topic = _library(), topic
        self.patience, self.silence = Patience(topic.name), Patience(topic.name)
        self.away = ""  # what the brokers' last trouble was
        ours = {
            "bootstrap.servers": topic.servers,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",  # anything else would pass over messages that the broker has discarded
            "enable.partition.eof": True,
            "error_cb": self._troubled,
        }
        usual = {"group.id": "inferl", "log_level": 0}  # the library wants a group, and none is joined
        try:
            self.kafka = self.library.Consumer({**usual, **topic.settings, **ours})
        except (self.library.KafkaException, ValueError, TypeError) as error:
            raise SettingError(f"{topic.name}: Kafka refuses the settings: {_words(error)}") from None

    def begin(self, place: Place | None) -> None:
        """Find the partitions, check that the messages at the place are there, and begin to read."""
        numbers = self._partitions()
        if place is not None and place.at.keys() != set(map(str, numbers)):
            raise CheckpointMismatchError(
                f"{self.topic.name}: the run has read the partitions {', '.join(place.at)}, and now there are "
                f"{', '.join(map(str, numbers))}; name those of the run, or evaluate the topic from the beginning"
            )
        marks = {n: self._asked(lambda n=n: self.kafka.get_watermark_offsets(self._part(n), ANSWER)) for n in numbers}
        at = {n: marks[n][0] if place is None else _offset(place.at[str(n)]) for n in numbers}
        for n, (low, high) in marks.items():
            if at[n] < low:
                raise CheckpointMismatchError(self._lost(n, at[n], low))
            if at[n] > high:
                raise CheckpointMismatchError(
                    f"{self.topic.name}: the run has read {at[n]} messages of partition {n}, and there are {high}; it "
                    "is another topic of that name: evaluate it from the beginning"
                )
        said = {} if place is None else place.ends
        ends = {n: _offset(said[str(n)]) if said else marks[n][1] for n in numbers}
        self.start = {str(n): str(at[n]) for n in numbers}
        self.ends = {} if self.topic.follow else {str(n): str(end) for n, end in ends.items()}
        self.end = {} if self.topic.follow else ends
        self.waiting: dict[int, deque[Any]] = {n: deque() for n in numbers}
        self.heads: list[Any] = []  # a heap: the first message of each partition that has one
        self.missing = {n for n in numbers if n not in self.end or at[n] < self.end[n]}
        self.reading = set(self.missing)  # partitions that have not been read to their ends
        self.paused = set[int]()
        self.since = dict.fromkeys(numbers, time.monotonic())  # when each missing partition was missed first
        self.kafka.assign([self._part(n, at[n]) for n in sorted(self.reading)])

    def take(self, most: int) -> list[Message]:
        """Return the next messages in order."""
        while True:
            ready = self._ready(most)
            if ready or not (self.reading or self.heads):
                return ready
            self._receive()

    def about(self, message: Message) -> str:
        """Name a message."""
        return f"partition {message.part}, offset {message.before}"

    def _ready(self, most: int) -> list[Message]:
        """Take messages from the partitions, the earliest first, while none is missing."""
        out: list[Message] = []
        while self.heads and not self.missing and len(out) < most:
            _, offset, n, value = self.heads[0]
            out.append(Message(str(n), offset, offset + 1, value))
            queue = self.waiting[n]
            if queue:
                heapreplace(self.heads, queue.popleft())
            else:
                heappop(self.heads)
                if n in self.reading:
                    self.missing.add(n)
                    self.since[n] = time.monotonic()
            if n in self.paused and len(queue) <= MOST // 2:
                self.paused.discard(n)
                self.kafka.resume([self._part(n)])
        if out:
            self.silence.over()
        return out

    def _receive(self) -> None:
        """Wait a little for messages, and put them into the queues of their partitions."""
        first = self.kafka.poll(POLL)
        got = [] if first is None else [first, *self.kafka.consume(MOST, 0)]
        for message in got:
            n, error = message.partition(), message.error()
            if error is not None:
                self._failed(n, message, error)
            elif n in self.reading:
                offset = message.offset()
                if n not in self.end or offset < self.end[n]:
                    self._add(n, (message.timestamp()[1], offset, n, message.value() or b""))
                if n in self.end and offset >= self.end[n] - 1:
                    self._ended(n)
        for n in self.reading - self.paused:
            if len(self.waiting[n]) > MOST:
                self.paused.add(n)
                self.kafka.pause([self._part(n)])
        if any(message.error() is None for message in got):
            self.patience.over()
        late = [n for n in self.missing if self.since[n] + QUIET < time.monotonic()]
        if self.heads and late:
            self.silence.warn(
                f"messages wait for partition {', '.join(map(str, sorted(late)))}, which is silent: they are read in "
                "the order of their times"
            )

    def _add(self, n: int, message: Any) -> None:
        if n in self.missing:
            self.missing.discard(n)
            heappush(self.heads, message)
        else:
            self.waiting[n].append(message)

    def _ended(self, n: int) -> None:
        self.reading.discard(n)
        self.missing.discard(n)
        self.paused.discard(n)
        self.kafka.pause([self._part(n)])

    def _failed(self, n: int, message: Any, error: Any) -> None:
        codes = self.library.KafkaError
        if error.code() == codes._PARTITION_EOF:
            if n in self.reading and n in self.end and message.offset() >= self.end[n]:
                self._ended(n)
        elif error.code() == codes._AUTO_OFFSET_RESET:
            low = self._asked(lambda: self.kafka.get_watermark_offsets(self._part(n), ANSWER))[0]
            (now,) = self.kafka.position([self._part(n)])
            raise DataError(self._lost(n, now.offset, low))
        elif error.retriable() or error.code() in (codes._TRANSPORT, codes._ALL_BROKERS_DOWN, codes._TIMED_OUT):
            self.patience.warn("the broker does not answer; trying again", error.str())
        else:
            raise DataError(f"{self.topic.name}: {error.str()}")

    def _partitions(self) -> list[int]:
        """Ask for the partitions of the topic."""
        found = self._asked(lambda: self.kafka.list_topics(self.topic.topic, ANSWER), first=True)
        about = found.topics[self.topic.topic]
        if about.error is not None or not about.partitions:
            why = "there is no such topic" if about.error is None else about.error.str()
            raise SettingError(f"{self.topic.name}: {why}")
        there = sorted(about.partitions)
        wanted = there if self.topic.partitions is None else sorted(set(self.topic.partitions))
        if missing := set(wanted) - set(there):
            raise SettingError(
                f"{self.topic.name} has no partition {min(missing)}; there are {', '.join(map(str, there))}"
            )
        return wanted

    def _asked(self, question: Any, first: bool = False) -> Any:
        """Ask the brokers until they answer; give up only if they never did."""
        begin = time.monotonic()
        while True:
            try:
                return question()
            except self.library.KafkaException as error:
                why = self.away or _words(error)
                if not error.args[0].retriable() and error.args[0].code() not in (
                    self.library.KafkaError._TRANSPORT,
                    self.library.KafkaError._TIMED_OUT,
                    self.library.KafkaError._ALL_BROKERS_DOWN,
                ):
                    raise SettingError(f"{self.topic.name}: {_words(error)}") from None
                if first and time.monotonic() > begin + FIRST_ANSWER:
                    raise SettingError(
                        f"{self.topic.name}: no broker answers ({why}); is it running, and is the address right?"
                    ) from None
                self.patience.warn("no broker answers; trying again", why)
                time.sleep(POLL)

    def _troubled(self, error: Any) -> None:
        """Note what the library says about its connections; it connects again by itself."""
        self.away = error.str()
        if error.code() == self.library.KafkaError._ALL_BROKERS_DOWN:
            self.patience.warn("no broker answers; trying again", self.away)

    def _lost(self, n: int, at: int, low: int) -> str:
        return (
            f"{self.topic.name}: messages {at} to {low - 1} of partition {n} have not been read, and the broker has "
            "discarded them; let it keep messages longer (retention.ms), and evaluate the topic from the beginning"
        )

    def _part(self, n: int, offset: int | None = None) -> Any:
        where = (self.topic.topic, n) if offset is None else (self.topic.topic, n, offset)
        return self.library.TopicPartition(*where)


def _offset(text: str) -> int:
    demand(text.isdecimal() and len(text) < 19, f"{text!r:.60} is no offset of a message")
    return int(text)


def _words(error: Exception) -> str:
    found = error.args[0] if error.args else error
    return str(found.str() if hasattr(found, "str") else found)
