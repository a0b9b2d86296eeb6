"""Positions of rows in time: Streams.place against a row-by-row simulation with a dictionary of streams."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from strategies import chunkings, cut, transitions

from inferl.data import streams as streams_module
from inferl.data.increments import Increments
from inferl.data.streams import MOST_QUIET, Steps, Streams
from inferl.data.transitions import Transitions
from inferl.errors import ContradictionError

Row = tuple[int, int, int, int, int, bool, bool]  # step, stream, slot, count, episode, last, first


@dataclass
class Memory:
    """The state of one stream in the simulation: the fields of Streams, for one slot."""

    label: int
    count: int = 0
    episodes: int = 0
    completed: int = 0
    ended: bool = False
    episode: int = -1
    latest: int = 0


def simulate(chunk: Transitions, most_quiet: int = MOST_QUIET) -> tuple[list[Row], list[Memory]]:
    """Number rows one by one, as documented."""
    rows: list[Row] = []
    slots: list[Memory] = []
    for i in range(len(chunk)):
        label = int(chunk.stream[i])
        begins = label not in [memory.label for memory in slots]
        if begins:
            quiet = [memory for memory in slots if memory.ended]
            if quiet and len(slots) >= most_quiet:
                min(quiet, key=lambda memory: memory.latest).label = label
            else:
                slots.append(Memory(label))
        slot = [memory.label for memory in slots].index(label)
        memory = slots[slot]
        episode = -1 if chunk.episode is None else int(chunk.episode[i])
        if chunk.first is not None:
            first = begins or bool(chunk.first[i])
        else:
            first = begins or memory.ended or (episode >= 0 and episode != memory.episode)
        memory.count += 1
        memory.episodes += first
        memory.ended = bool(chunk.last[i])
        memory.completed += memory.ended
        memory.episode = episode
        memory.latest = i + 1
        rows.append((i + 1, label, slot, memory.count, memory.episodes, memory.ended, first))
    return rows, slots


def table(steps: Steps) -> list[Row]:
    clock = steps.clock
    columns = (clock.step, clock.stream, clock.slot, clock.count, clock.episode, clock.last, steps.first)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def memories(streams: Streams) -> list[Memory]:
    columns = [getattr(streams, field.name).tolist() for field in fields(Memory)]
    return [Memory(*values) for values in zip(*columns, strict=True)]


def snapshot(streams: Streams) -> tuple[Any, ...]:
    return tuple(np.array(getattr(streams, field.name)).tolist() for field in fields(Streams))


def steps_of(*rows: tuple[float, Any], **columns: Any) -> Transitions:
    """Rows (discount, last) of a table with one state."""
    states = np.zeros(len(rows), np.int64)
    discounts, last = zip(*rows, strict=True)
    return Transitions(states, 0.0, states, discounts, last=None if None in last else last, **columns)


@given(chunk=transitions(), most_quiet=st.sampled_from([0, 2, MOST_QUIET]), data=st.data())
def test_place_agrees_with_the_simulation_however_the_chunk_is_cut(
    chunk: Transitions, most_quiet: int, data: st.DataObject
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(streams_module, "MOST_QUIET", most_quiet)
        _agrees(chunk, simulate(chunk, most_quiet), data)


def _agrees(chunk: Transitions, simulated: tuple[list[Row], list[Memory]], data: st.DataObject) -> None:
    rows, expected = simulated
    for cuts in ((0, len(chunk)), data.draw(chunkings(len(chunk))), tuple(range(len(chunk) + 1))):
        streams, placed = Streams(), list[Row]()
        for part in cut(chunk, cuts):
            before = snapshot(streams)
            after, steps = streams.place(part)
            assert snapshot(streams) == before
            assert isinstance(steps.data, Transitions)
            assert np.array_equal(steps.data.rewards, part.rewards)
            streams, placed = after, placed + table(steps)
        assert placed == rows
        assert memories(streams) == expected
        assert (streams.n, len(streams)) == (len(chunk), len(expected))


@given(chunk=transitions(), data=st.data())
def test_a_first_that_denies_a_border_is_refused_and_changes_nothing(chunk: Transitions, data: st.DataObject) -> None:
    rows, _ = simulate(chunk)
    first = np.array([row[-1] for row in rows])
    ended: dict[int, tuple[bool, int]] = {}
    borders = []  # rows after `last`, or with a new label, in their stream
    for i, label in enumerate(chunk.stream.tolist()):
        episode = -1 if chunk.episode is None else int(chunk.episode[i])
        if label in ended and (ended[label][0] or episode != ended[label][1]):
            borders.append(i)
        ended[label] = (bool(chunk.last[i]), episode)
    assume(borders)
    row = data.draw(st.sampled_from(borders))
    first[row] = False
    denied = Transitions(**{f.name: getattr(chunk, f.name) for f in fields(Transitions)} | {"first": first})
    start = data.draw(st.integers(0, row))  # where the chunk with the bad row begins
    streams = Streams().place(denied[:start])[0] if start else Streams()
    before = snapshot(streams)
    with pytest.raises(ContradictionError, match=rf"^row {row - start}: first is False, but .*set first"):
        streams.place(denied[start:])
    assert snapshot(streams) == before


OPENS: dict[str, tuple[Transitions, list[bool]]] = {
    "where a stream begins": (steps_of((0.9, None), (0.9, None)), [True, False]),
    "after last": (steps_of((0.9, True), (0.9, False), (0.9, False)), [True, True, False]),
    "after a discount of 0": (steps_of((0.0, None), (0.9, None), (0.9, None)), [True, True, False]),
    "where the label changes": (steps_of(*[(0.9, None)] * 4, episode=[3, 3, 1, 1]), [True, False, True, False]),
    "in each stream by itself": (
        steps_of((0.0, None), (0.9, None), (0.9, None), (0.9, None), stream=[5, 2, 2, 5]),
        [True, True, False, True],
    ),
    "where it is said": (steps_of(*[(0.9, None)] * 3, first=[False, False, True]), [True, False, True]),
}


@pytest.mark.parametrize(("chunk", "first"), OPENS.values(), ids=OPENS)
def test_an_episode_opens(chunk: Transitions, first: list[bool]) -> None:
    _, steps = Streams().place(chunk)
    assert steps.first.tolist() == first


def test_borders_are_remembered_across_chunks() -> None:
    streams, _ = Streams().place(steps_of((0.9, None), (0.0, None), stream=[1, 2], episode=[7, 7]))
    _, steps = streams.place(steps_of(*[(0.9, None)] * 3, stream=[3, 2, 1], episode=[7, 7, 8]))
    assert steps.first.tolist() == [True, True, True]
    assert steps.clock.slot.tolist() == [2, 1, 0]
    assert steps.clock.count.tolist() == [1, 2, 2]
    assert steps.clock.episode.tolist() == [1, 2, 2]


def test_a_chunk_without_labels_continues_the_episode() -> None:
    streams, _ = Streams().place(steps_of((0.9, None), episode=7))
    _, steps = streams.place(steps_of((0.9, None)))
    assert (steps.first.tolist(), steps.clock.episode.tolist()) == ([False], [1])


@pytest.mark.parametrize(
    ("chunk", "message"),
    [
        (steps_of((0.0, None), (0.9, None), first=[True, False]), "row 1: first is False.*ended the episode"),
        (steps_of((0.9, True), (0.9, False), first=[True, False]), "row 1: first is False.*ended the episode"),
        (steps_of(*[(0.9, None)] * 2, first=[True, False], episode=[0, 1]), "row 1: first is False.*label differs"),
        (steps_of(*[(0.9, None)] * 2, first=False, stream=[1, 0], episode=[0, 4]), "row 1: first is False.*label"),
    ],
    ids=["after a discount of 0", "after last", "new label", "new label since the last chunk"],
)
def test_contradictions(chunk: Transitions, message: str) -> None:
    streams, _ = Streams().place(steps_of((0.9, None), episode=3))
    before = snapshot(streams)
    with pytest.raises(ContradictionError, match=message):
        streams.place(chunk)
    assert snapshot(streams) == before


def test_increments_are_one_endless_episode() -> None:
    streams, steps = Streams(), None
    for n in (2, 3):
        streams, steps = streams.place(Increments.dense(np.zeros((n, 1, 1)), np.zeros((n, 1))))
    assert steps is not None
    assert isinstance(steps.data, Increments)
    assert table(steps) == [(n, 0, 0, n, 1, False, False) for n in (3, 4, 5)]
    assert memories(streams) == [Memory(0, count=5, episodes=1, latest=5)]


def many(labels: list[int]) -> Transitions:
    states = np.zeros(len(labels), np.int64)
    return Transitions(states, 0.0, states, 0.9, stream=labels)


def test_any_number_of_streams_may_be_open() -> None:
    full, steps = Streams().place(many(list(range(10_000))))
    assert (len(full), steps.clock.slot.tolist()) == (10_000, list(range(10_000)))
    after, steps = full.place(many([9_999, 0]))
    assert (len(after), steps.clock.slot.tolist(), steps.clock.count.tolist()) == (10_000, [9_999, 0], [2, 2])


def test_memory_is_that_of_the_streams_that_are_open() -> None:
    """A hundred thousand users, each seen for three steps, twenty at once; the most recent ones keep their slots."""
    users = np.arange(100_000).reshape(-1, 20)
    labels = np.repeat(users[:, None], 3, axis=1).reshape(-1)
    states = np.zeros(len(labels), np.int64)
    last = np.tile(np.repeat([False, False, True], 20), len(users))
    data, streams = Transitions(states, 0.0, states, 0.9, stream=labels, last=last), Streams()
    for start in range(0, len(data), 8192):
        streams, _ = streams.place(data[start : start + 8192])
    assert (len(streams), int(streams.completed.sum())) == (MOST_QUIET, 100_000)
    assert sorted(streams.label.tolist()) == list(range(100_000 - MOST_QUIET, 100_000))


@pytest.mark.parametrize("order", [[0, 1], [1, 0]])
@pytest.mark.parametrize("column", ["first", "episode"])
def test_placed_rows_join_whether_or_not_borders_were_given(column: str, order: list[int]) -> None:
    chunks = [steps_of((0.9, None), **{column: [1]}), steps_of((0.9, None))]
    streams, first = Streams().place(chunks[order[0]])
    _, second = streams.place(chunks[order[1]])
    joined = Steps.join([first, second])  # an evaluator's open tile is joined like this
    assert table(joined) == table(first) + table(second)
    assert isinstance(joined.data, Transitions)
    assert joined.data.rewards.tolist() == [0.0, 0.0]


def test_no_rows_change_nothing() -> None:
    streams, _ = Streams().place(steps_of((0.9, None)))
    after, steps = streams.place(steps_of((0.9, None))[1:])
    assert (len(steps), snapshot(after)) == (0, snapshot(streams))
