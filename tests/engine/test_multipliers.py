"""Multipliers: the map from words to multipliers is a file format, so checked bit by bit; then laws and clocks."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mdps import small_problem
from reference import philox_words
from scipy.special import gammaincinv, ndtri

from inferl.algorithms import TD
from inferl.data.arrays import Floats
from inferl.data.streams import Clock
from inferl.engine.multipliers import LAWS, LAYOUT, BlockClock, EffectiveBlocks, Law, Multipliers, register_law
from inferl.errors import InferlError, SettingError
from inferl.evaluator import Evaluator
from inferl.methods.bootstrap import OnlineBootstrap
from inferl.methods.step_sizes import Polynomial
from inferl.testing import assert_same_bits, check_law

SEEDS = st.integers(0, 2**64 - 1) | st.sampled_from([0, 2**32 - 1, 2**32, 2**64 - 1])
TICKS = st.integers(0, 2**63 - 1) | st.integers(0, 300) | st.sampled_from([2**34 - 1, 2**34, 2**39 - 1, 2**39])
WORDS = st.integers(0, 2**32 - 1)


def by_the_book(law: str, seed: int, tick: int, stream: int, replica: int) -> float:
    """Draw one multiplier as the layout is documented, in plain Python.

    Counter (call low, call high, replica, stream), key (seed low, seed high). Uniform and exponential laws take a word
    a tick, four a call; so does Poisson, whose quantile function is applied to it. The two-point law takes a bit a
    tick, lowest first, 128 a call.
    """
    lanes = 128 if law == "two-point" else 4
    call, lane = divmod(tick, lanes)
    words = philox_words((call % 2**32, call // 2**32, replica, stream), (seed % 2**32, seed // 2**32))
    if law == "two-point":
        return 2.0 * (words[lane // 32] >> lane % 32 & 1)
    unit = (words[lane] + 0.5) / 2**32
    if law == "poisson":
        return float(sum(unit >= math.fsum(math.exp(-1) / math.factorial(j) for j in range(k + 1)) for k in range(13)))
    return -math.log(unit) if law == "exponential" else 1 + (2 * unit - 1) / math.sqrt(3)


def draw(law: str, seed: int, ticks: Any, streams: Any = 0, replicas: Any = 0) -> Floats:
    tick = np.atleast_1d(np.asarray(ticks, np.int64))
    stream = np.broadcast_to(np.asarray(streams, np.int64), tick.shape)
    return Multipliers(law).draw(seed, tick, stream, np.atleast_1d(np.asarray(replicas, np.int64)))


# The layout.


def test_words_of_the_zero_counter_by_hand() -> None:
    """The published Philox answer for zeros, 6627e8d5 e169c58d bc57ac4c 9b00dbd8, turned into multipliers."""
    words = [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    bits = [int(bit) for word in words for bit in reversed(f"{word:032b}")]
    assert draw("two-point", 0, range(128)).tolist() == [[2.0 * bit for bit in bits]]
    # 1 + (2 (word + 1/2) / 2^32 - 1) / sqrt 3 and -log((word + 1/2) / 2^32), by decimal arithmetic
    uniform = [0.8834289054357112, 1.4393868773933035, 1.2721776791175448, 1.1217999534010154]
    exponential = [0.9186774008030555, 0.1272424121697132, 0.3069154749230744, 0.5017306853479923]
    np.testing.assert_allclose(draw("uniform", 0, range(4))[0], uniform, rtol=4e-16)
    np.testing.assert_allclose(draw("exponential", 0, range(4))[0], exponential, rtol=1e-15)


def test_layout_number_goes_with_these_answers() -> None:
    assert LAYOUT == 1


@pytest.mark.parametrize("law", LAWS)
@given(seed=SEEDS, ticks=st.lists(TICKS, min_size=1, max_size=6), data=st.data())
def test_draw_follows_the_layout(law: str, seed: int, ticks: list[int], data: st.DataObject) -> None:
    streams = data.draw(st.lists(WORDS, min_size=len(ticks), max_size=len(ticks)))
    replicas = data.draw(st.lists(WORDS, min_size=1, max_size=3))
    drawn = draw(law, seed, ticks, streams, replicas)
    rows = list(zip(ticks, streams, strict=True))
    expected = [[by_the_book(law, seed, tick, stream, replica) for tick, stream in rows] for replica in replicas]
    np.testing.assert_allclose(drawn, expected, rtol=4e-16, atol=0)


@pytest.mark.parametrize("law", LAWS)
@given(seed=SEEDS, start=st.integers(0, 2**40), cut=st.integers(1, 29))
def test_rows_do_not_depend_on_their_neighbours(law: str, seed: int, start: int, cut: int) -> None:
    ticks = start + np.arange(30) // 2  # ticks last for two rows
    streams = np.arange(30) % 3
    whole = draw(law, seed, ticks, streams, range(4))
    parts = [draw(law, seed, ticks[rows], streams[rows], range(4)) for rows in (slice(cut), slice(cut, 30))]
    assert np.array_equal(np.concatenate(parts, axis=1), whole)
    backwards = draw(law, seed, ticks[::-1], streams[::-1], [3, 1])
    assert np.array_equal(backwards, whole[[3, 1], ::-1])


# The laws. False-alarm probability of all comparisons below together, for a fresh seed: 1e-4.

SHIFTS: dict[str, dict[str, int]] = {
    "tick": {"ticks": 1},
    "call": {"ticks": 128},
    "replica": {"replicas": 1},
    "stream": {"streams": 1},
    "seed": {"seed": 1},
    "high half of the seed": {"seed": 2**32},
}
COMPARISONS = len(LAWS) * (2 + len(SHIFTS))
LIMIT = float(-ndtri(1e-4 / 2 / COMPARISONS))  # in standard errors, two-sided
N = 200_000
TRUE_DEVIATION = {"uniform": 1 / 3, "two-point": 1.0, "exponential": 1.0, "poisson": 1.0, "as-printed": 1 / 3}
FOURTH_MOMENT = {"uniform": 1 / 45, "two-point": 1.0, "exponential": 9.0, "poisson": 4.0, "as-printed": 1 / 45}


def sample(law: str, seed: int = 2024, ticks: int = 0, streams: int = 0, replicas: int = 0) -> Floats:
    return draw(law, seed, ticks + np.arange(N // 100), streams, replicas + 7 * np.arange(100)).ravel()


@pytest.mark.parametrize("law", LAWS)
def test_mean_1_and_the_deviation(law: str) -> None:
    w, deviation = sample(law), TRUE_DEVIATION[law]
    assert abs(w.mean() - 1) < LIMIT * deviation / math.sqrt(N)
    squares = (w - 1) ** 2
    error = math.sqrt((FOURTH_MOMENT[law] - deviation**4) / N)
    assert abs(squares.mean() - deviation**2) <= LIMIT * error


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("shift", SHIFTS)
def test_draws_are_uncorrelated(law: str, shift: str) -> None:
    moved = SHIFTS[shift]
    x = sample(law) - 1
    y = sample(law, **moved | {"seed": 2024 + moved.get("seed", 0)}) - 1
    assert abs((x * y).mean()) < LIMIT * TRUE_DEVIATION[law] ** 2 / math.sqrt(N)


@pytest.mark.parametrize(
    ("law", "deviation"),
    [("uniform", 1 / 3), ("two-point", 1.0), ("exponential", 1.0), ("poisson", 1.0), ("as-printed", 1.0)],
)
def test_declared_deviation(law: str, deviation: float) -> None:
    """That of the law; the paper's printed claim, 1 for a law whose deviation is 1/3, is kept under its own name."""
    assert Multipliers(law).deviation == pytest.approx(deviation, rel=1e-15)


def test_ranges() -> None:
    assert set(sample("two-point").tolist()) == {0.0, 2.0}
    half = 1 / math.sqrt(3)
    assert 1 - half < sample("uniform").min() < 1 - 0.99 * half
    assert 1 + 0.99 * half < sample("uniform").max() < 1 + half
    assert sample("exponential").min() > 0
    assert set(sample("poisson").tolist()) >= {0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0}
    assert np.array_equal(sample("as-printed"), sample("uniform"))


# The clocks.


def test_blocks_of_four_times_the_root() -> None:
    """Block k of BlockClock(4, 0.5) is 4 k^2 <= n < 4 (k + 1)^2: its length 8 k + 4 is about 4 sqrt(n)."""
    n = np.arange(1, 4 * 60**2)
    assert BlockClock(4, 0.5).tick(n).tolist() == [math.isqrt(i) // 2 for i in n.tolist()]


@given(k=st.integers(1, 2**24))
def test_block_borders_far_out(k: int) -> None:
    border = np.array([4 * k * k - 1, 4 * k * k])
    assert BlockClock(4, 0.5).tick(border).tolist() == [k - 1, k]


@pytest.mark.parametrize("length", [1, 2, 10])
def test_blocks_without_growth_have_one_length(length: int) -> None:
    n = np.arange(1, 1000)
    assert np.array_equal(BlockClock(length, 0.0).tick(n), n // length)


@given(length=st.floats(0.5, 50), growth=st.floats(0, 0.9))
def test_block_ticks_never_go_back(length: float, growth: float) -> None:
    assert (np.diff(BlockClock(length, growth).tick(np.arange(1, 3000))) >= 0).all()


@pytest.mark.parametrize(
    ("clock", "ticks"), [("step", [11, 12, 13]), ("episode", [4, 4, 5]), (BlockClock(4, 0.5), [0, 1, 2])]
)
def test_ticks_of_the_clocks(clock: Any, ticks: list[int]) -> None:
    """Steps count over all streams; blocks within their stream; episodes are those of the stream."""
    rows = Clock(
        step=np.array([11, 12, 13]),
        stream=np.array([8, 8, 9]),
        slot=np.array([0, 0, 1]),
        count=np.array([3, 4, 16]),
        episode=np.array([4, 4, 5]),
        last=np.array([False, True, False]),
    )
    assert Multipliers(clock=clock).ticks(rows).tolist() == ticks


@pytest.mark.parametrize(
    ("length", "growth"), [(0, 0.5), (-1, 0.5), (math.nan, 0.5), (math.inf, 0.5), (4, 1), (4, -0.1), (4, math.nan)]
)
def test_bad_blocks(length: float, growth: float) -> None:
    with pytest.raises(SettingError, match="BlockClock"):
        BlockClock(length, growth)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"law": "gaussian"}, "no law 'gaussian'.*uniform.*two-point.*exponential"),
        ({"clock": "day"}, "no clock 'day'.*step.*episode.*BlockClock"),
        ({"clock": 4}, "no clock 4"),
    ],
)
def test_bad_multipliers(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        Multipliers(**settings)


def test_effective_blocks_against_their_definition() -> None:
    rng = np.random.default_rng(0)
    slot, weight = rng.integers(3, size=200), rng.random(200)
    tick = np.zeros(200, np.int64)
    for s in range(3):
        tick[slot == s] = np.sort(rng.integers(9, size=int((slot == s).sum())))
    blocks = EffectiveBlocks()
    for start in range(0, 200, 37):
        rows = slice(start, start + 37)
        blocks = blocks.updated(slot[rows], tick[rows], weight[rows])
    q: dict[tuple[int, int], float] = {}
    for s, t, w in zip(slot.tolist(), tick.tolist(), weight.tolist(), strict=True):
        q[s, t] = q.get((s, t), 0.0) + w**2
    assert blocks.number == pytest.approx(sum(q.values()) ** 2 / sum(x**2 for x in q.values()))


# Laws of the user.


def three_or_a_half(u: Floats) -> Floats:
    return np.where(u < 0.2, 3.0, 0.5)


GAMMA = Law.of_uniform(lambda u: gammaincinv(2.0, u) / 2, deviation=math.sqrt(0.5))


@pytest.mark.parametrize("law", [*(LAWS[name] for name in LAWS if name != "as-printed"), GAMMA])
def test_laws_keep_their_contract(law: Law) -> None:
    check_law(law)


@pytest.mark.parametrize(
    ("law", "message"),
    [
        (LAWS["as-printed"], "standard deviation is 0.333"),
        (Law.of_uniform(three_or_a_half, deviation=1.04), "standard deviation is"),
        (Law.of_uniform(lambda u: 2.04 * u, deviation=2.04 / math.sqrt(12)), "mean is 1.02"),
        (Law.of_uniform(lambda u: u[:1] + 0.5, deviation=math.sqrt(1 / 12)), "shape"),
        (Law.of_uniform(lambda u: u - u.mean() + 1, deviation=math.sqrt(1 / 12)), "elementwise"),
        (Law.of_uniform(lambda u: 1 / (u > 0.5), deviation=1.0), "not finite"),
    ],
)
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_the_contract_tells_laws_that_are_not_what_they_say(law: Law, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_law(law)


def test_a_law_that_remembers_is_told() -> None:
    memory = np.random.default_rng(0)
    law = Law.of_uniform(lambda u: memory.exponential(size=u.shape), deviation=1.0)
    with pytest.raises(AssertionError, match="twice"):
        check_law(law)


def test_a_registered_law_is_used_and_is_stored_by_name(tmp_path: Path) -> None:
    data, path = small_problem().sample(300, seed=1), tmp_path / "run"
    with mock.patch.dict(LAWS):
        register_law("three or a half, in a test", Law.of_uniform(three_or_a_half, deviation=1.0))
        method = OnlineBootstrap(Polynomial(0.5), n_replicas=5, multipliers=Multipliers("three or a half, in a test"))
        whole = Evaluator(TD(2), method).update(data)
        Evaluator(TD(2), method).update(data[:100]).save(path)
        assert_same_bits(Evaluator.load(path).update(data[100:]), whole)
        drawn = draw("three or a half, in a test", 3, range(1000), replicas=range(5))
        assert set(drawn.ravel().tolist()) == {3.0, 0.5}
        with pytest.raises(SettingError, match="already"):
            register_law("uniform", GAMMA)
        with pytest.raises(SettingError, match="positive deviation"):
            register_law("still", Law.of_uniform(three_or_a_half, deviation=0.0))
    with pytest.raises(InferlError, match="register_law"):
        Evaluator.load(path)
    with mock.patch.dict(LAWS, {"three or a half, in a test": GAMMA}), pytest.raises(InferlError, match="not the one"):
        Evaluator.load(path)
