"""The contract of a source, for every class in inferl.sources, and what the contract finds."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pyarrow as pa
import pytest
from logs import FORMATS, LOG, small_log
from minari import EpisodeData

import inferl
from inferl.data.transitions import Transitions
from inferl.errors import CheckpointCorruptError, CheckpointError, CheckpointMismatchError, InferlError, SettingError
from inferl.sources import Source, minari, rollout, table
from inferl.testing import check_source

UNIFORM = np.full((16, 4), 0.25)
LINE = inferl.features.Function(lambda states: np.stack([np.ones(np.shape(states)), states / 16], axis=-1), 2)
POLE = inferl.features.Function(lambda pole: np.asarray(pole, np.float64), 4)


# Every source of the package.


def lake(**options: Any) -> Source:
    env = gymnasium.make("FrozenLake-v1")
    return rollout(env, UNIFORM, env.observation_space, discount=0.9, chunk=30, **options)


def lakes(mode: str) -> Source:
    options = {"autoreset_mode": gymnasium.vector.AutoresetMode[mode]}
    envs = gymnasium.make_vec("FrozenLake-v1", num_envs=3, vectorization_mode="sync", vector_kwargs=options)
    return rollout(envs, UNIFORM, envs.single_observation_space, discount=0.9, chunk=31)


def off_policy() -> Source:
    env = gymnasium.make("FrozenLake-v1")
    target = np.tile([0.1, 0.2, 0.3, 0.4], (16, 1))
    return rollout(env, UNIFORM, env.observation_space, 0.9, chunk=30, target_policy=target)


def pole() -> Source:
    env = gymnasium.make("CartPole-v1")
    return rollout(env, lambda observation: int(observation[2] > 0), POLE, discount=0.9, chunk=50, episodes=2)


class Dataset:
    """Episodes of 1, 2, 3, ... steps, as Minari has them."""

    id, episode_indices, observation_space = "lake/steps-v0", np.arange(7), gymnasium.spaces.Discrete(16)

    def iterate_episodes(self, indices: Any) -> Iterator[EpisodeData]:
        for i in indices:
            n = int(i) + 1
            ends = np.arange(n) == n - 1
            states = np.random.default_rng(n).integers(16, size=n + 1)
            yield EpisodeData(i, states, np.ones(n), np.arange(n) / 2, ends, ~ends & ends, {})


def interleaved(**options: Any) -> Source:
    rng = np.random.default_rng(0)
    log = pa.table({
        "x": rng.normal(size=60), "y": rng.normal(size=60), "reward": rng.normal(size=60),
        "who": (np.arange(60) // 20 * 3 + np.arange(60) % 3).tolist(), "w": rng.random(60), "v": rng.random(60),
    })  # fmt: skip
    return table(log, features=["x", "y"], episode="who", ratio=["w", "v"], clip=0.5, **options)


SOURCES: dict[str, Callable[[], Source]] = {
    "environment": lake,
    "environment, 20 episodes": lambda: lake(episodes=20),
    "environment, vectors": pole,
    "environment, off-policy": off_policy,
    **{f"vector environment, {mode}": partial(lakes, mode) for mode in ("NEXT_STEP", "SAME_STEP", "DISABLED")},
    "dataset": lambda: minari(Dataset(), batch=6),
    "dataset, vectors": lambda: minari(Dataset(), LINE, batch=1),
    "log, states": lambda: table(small_log(200), state="s", n_states=3, batch=70),
    "log, whole": lambda: table(small_log(200), state="s", n_states=3),
    "log, bad rows": lambda: table(
        small_log(200, reward=(30, None), s=(150, 9)), state="s", n_states=3, skip_bad=2, batch=70
    ),
    "log, without episodes": lambda: table(small_log(200), state="s", n_states=3, terminated=None, batch=70),
    "log, formula": lambda: table(
        pa.table(LOG), features="pulse*state + C(hour) + age(hour)", episode="patient", episodes_end=True, batch=2
    ),
    "log, states of several columns": lambda: table(pa.table(LOG), state=["patient", "state"], batch=2),
    "log, interleaved": lambda: interleaved(batch=13),
    "log, interleaved episodes that end": lambda: interleaved(batch=13, episodes_end=True),
}


@pytest.mark.parametrize("name", SOURCES)
def test_every_source_keeps_the_contract(name: str) -> None:
    check_source(SOURCES[name])


@pytest.mark.parametrize("form", FORMATS)
def test_logs_of_every_format_keep_it(form: str, tmp_path: Path) -> None:
    log = FORMATS[form](pa.table(LOG), tmp_path / "log")
    check_source(lambda: table(log, features=["pulse"], episode="patient", order="hour", batch=2))


def test_standard_input_keeps_it_if_it_is_piped_in_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = FORMATS["csv"](pa.table(LOG), tmp_path / "log.csv").read_bytes()

    def piped() -> Source:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text)))
        return table("-", features=["pulse"], episode="patient", batch=2)

    check_source(piped)
    source = piped()
    list(source)
    assert getattr(source, "open_end", None) is None  # nothing can be appended


# Positions that do not fit.


def wrong_positions(sound: dict[str, Any]) -> Iterator[Any]:
    yield from (None, 3, "x", (), {}, {**sound, "more": 1})
    for name in sound:
        yield {key: value for key, value in sound.items() if key != name}
        others: tuple[Any, ...] = (None, -1, 2.5, "x", np.array([-1.0]), {}, 2**63, (1,))
        yield from ({**sound, name: other} for other in others)


@pytest.mark.parametrize("name", ["environment", "dataset", "log, bad rows", "log, interleaved"])
def test_a_position_is_checked_before_it_is_used(name: str) -> None:
    """Refused by name, or usable; nothing else is raised."""
    source = SOURCES[name]()
    next(iter(source))
    position, refused = source.position, 0
    for wrong in wrong_positions(position):
        try:
            resumed = SOURCES[name]().resume(wrong)
            for _ in zip(resumed, range(3), strict=False):
                pass
        except InferlError:
            refused += 1
    assert refused > 5 * len(position)
    with pytest.raises(CheckpointCorruptError, match="does not hold the fields"):
        SOURCES[name]().resume(None)


def test_another_source_is_refused() -> None:
    class Another(Dataset):
        id = "lake/other-v0"

    class Short(Dataset):
        episode_indices = np.arange(2)

    source = minari(Dataset(), batch=6)
    next(iter(source))
    for other in (Another(), Short()):
        with pytest.raises(CheckpointMismatchError, match="3 episodes of lake/steps-v0 were read before"):
            minari(other).resume(source.position)
    log = table(small_log(200), state="s", n_states=3, batch=70)
    next(iter(log))
    with pytest.raises(CheckpointError):
        list(table(small_log(200), features=["s"], batch=70).resume(log.position))


def test_rows_of_another_form_are_refused() -> None:
    """A position whose rows do not have the form of the log is refused before they are joined."""
    source = interleaved(batch=13)
    next(iter(source))
    position = source.position
    waiting = position["pairing"]["waiting"]
    for name, column in (
        ("features", waiting["features"][:, 0]),
        ("features", waiting["features"].astype(np.int64)),
        ("ratios", waiting["ratios"][:, 0]),
        ("next_features", waiting["features"]),
    ):
        forged = {**position, "pairing": {**position["pairing"], "waiting": {**waiting, name: column}}}
        with pytest.raises(CheckpointError):
            list(interleaved(batch=13).resume(forged))


def test_streams_and_groups_of_a_position_are_checked() -> None:
    source = interleaved(batch=13)
    next(iter(source))
    sound = source.position["pairing"]
    waiting, marks = sound["waiting"], sound["waiting"]["marks"]
    assert sound["mixed"] is True
    assert len(marks["row"]) > 2

    def remarked(name: str, column: Any) -> dict[str, Any]:
        return {**sound, "waiting": {**waiting, "marks": {**marks, name: column}}}

    for forged in (
        remarked("stream", marks["stream"] + 1),
        remarked("stream", marks["stream"] * 0),
        remarked("group", marks["group"][::-1]),
        remarked("group", marks["group"] * 0),
        remarked("row", marks["row"][:-1]),
        {**sound, "streams": {**sound["streams"], "given": 2**50}},
        {**sound, "streams": {**sound["streams"], "free": np.array([5, 3])}},
        {**sound, "streams": {**sound["streams"], "groups": np.array([5, 5])}},
        {**sound, "idle": -1.0},
        {**sound, "clock": float("nan")},
        {**sound, "mixed": 1},
    ):
        with pytest.raises(CheckpointCorruptError):
            interleaved(batch=13).resume({**source.position, "pairing": forged})


def test_a_rollout_is_resumed_once() -> None:
    source = rollout(gymnasium.make("FrozenLake-v1"), UNIFORM, gymnasium.spaces.Discrete(16), discount=0.9)
    position = source.position
    list(source.take(steps=3))
    with pytest.raises(SettingError, match="has been played already; make a new one"):
        source.resume(position)


def test_a_rollout_with_episodes_ends() -> None:
    source = lake(episodes=20)
    evaluator = inferl.Evaluator(inferl.TD(16)).update(source)
    assert evaluator.episodes == 20
    assert list(source) == []
    assert source.describe() == {"environment": f"FrozenLake-v1, 20 episodes, {evaluator.n} steps, seed 0"}
    with pytest.raises(SettingError, match="episodes is 0"):
        lake(episodes=0)


# What the contract finds.


class Memory:
    """A source that keeps the contract; each subclass breaks one promise."""

    dimension = 3

    def __init__(self, position: Any = 0) -> None:
        self._position = position

    @property
    def position(self) -> Any:
        return self._position

    def __iter__(self) -> Iterator[Any]:
        while self._position < 4:
            self._position += 1
            yield self.rows(self._position)

    def rows(self, number: int) -> Any:
        states = np.random.default_rng(number).integers(3, size=6)
        return Transitions(states[:-1], 1.0 * states[1:], states[1:], 0.9)

    def resume(self, position: Any) -> Any:
        return type(self)(position)

    def start(self) -> Any:
        return np.array([1.0, 0.0, 0.0])

    def describe(self) -> Any:
        return {"memory": "4 chunks"}


class NoStart(Memory):
    start = None  # type: ignore[assignment]


class OtherRows(Memory):
    calls = 0

    def rows(self, number: int) -> Any:
        type(self).calls += 1
        return super().rows(self.calls)


class ForgetsPosition(Memory):
    def resume(self, position: Any) -> Any:
        return type(self)()


class SkipsRows(Memory):
    def __iter__(self) -> Iterator[Any]:
        self._skip = bool(self._position)
        for number, chunk in enumerate(super().__iter__()):
            yield chunk[1:] if self._skip and number == 0 else chunk


class Shared(Memory):
    def __init__(self, position: Any = None) -> None:
        self._counts = {"chunks": 0} if position is None else position

    @property
    def position(self) -> Any:
        return self._counts

    def __iter__(self) -> Iterator[Any]:
        while self._counts["chunks"] < 4:
            self._counts["chunks"] += 1
            yield self.rows(self._counts["chunks"])


class Broken:
    """What breaks, by the message of the contract."""

    cases: tuple[tuple[str, Any], ...] = (
        ("lacks a member", object),
        ("yields nothing", type("Empty", (Memory,), {"__iter__": lambda self: iter(())})),
        ("yields a int", type("Numbers", (Memory,), {"rows": lambda self, number: number})),
        ("without rows", type("NoRows", (Memory,), {"rows": lambda self, number: Memory.rows(self, number)[:0]})),
        ("does not accept", type("NoTarget", (Memory,), {"start": lambda self: np.ones(5)})),
        ("does not accept", type("Narrow", (Memory,), {"dimension": 2})),
        ("dict of strings", type("NoText", (Memory,), {"describe": lambda self: {"rows": 3}})),
        ("tuple of Check", type("NoChecks", (Memory,), {"checks": lambda self: ["a word"]})),
        ("same rows", OtherRows),
        ("not the one that was given", ForgetsPosition),
        ("does not continue with the same rows", SkipsRows),
        ("changed after it was returned", Shared),
        ("not plain data", type("NotPlain", (Memory,), {"position": property(lambda self: {1, self._position})})),
        ("use plain data", type("AList", (Memory,), {"position": property(lambda self: np.float64(self._position))})),
        ("and later it is not", type("Late", (Memory,), {"position": property(lambda self: self._position or None)})),
    )


def test_a_source_of_one_s_own() -> None:
    check_source(Memory)
    check_source(type("CannotResume", (Memory,), {"position": None}))
    check_source(type("Live", (OtherRows,), {"position": None}))  # claims nothing about a second reading


@pytest.mark.parametrize(("message", "make"), Broken.cases, ids=[case[0] for case in Broken.cases])
def test_a_broken_promise_is_found(message: str, make: Any) -> None:
    with pytest.raises(AssertionError, match=message):
        check_source(make)
