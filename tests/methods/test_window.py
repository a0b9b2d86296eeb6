"""A window reads the latest panes of a stream, whatever its chunks, and keeps what every evaluator keeps."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mdps import small_problem
from strategies import transitions

import inferl
from inferl import Evaluator, Increments, Transitions, Window
from inferl.algorithms import TD, Carry, DoublyRobust, EmphaticTD, Linear, NStepTD, Stack
from inferl.data.arrays import Floats
from inferl.data.streams import Clock, Steps
from inferl.errors import DataError, KindError, SettingError, ShapeError
from inferl.methods.least_squares import LeastSquares, LeastSquaresReading
from inferl.methods.window import WindowState
from inferl.runs import Run
from inferl.testing import arrays_of, assert_same_bits

PROBLEM = small_problem()


def rewards_of(evaluator: Evaluator) -> float:
    return float(evaluator.estimate([1.0]))


def fed(rewards: Any, window: Window, cuts: tuple[int, ...] = ()) -> Evaluator:
    """An evaluator of the mean of these numbers."""
    evaluator = Evaluator(Linear(1), window=window)
    for part in np.split(np.asarray(rewards, float), cuts):
        evaluator.update(Increments.dense(np.ones((len(part), 1, 1)), part[:, None]))
    return evaluator


def episodes(rewards: Floats, length: int, **columns: Any) -> Transitions:
    """Episodes of one state, of so many steps each, whose returns are the sums of these rewards."""
    here = np.zeros(len(rewards), np.int64)
    return Transitions(here, rewards, here, np.where((here + np.arange(len(here)) + 1) % length, 1.0, 0.0), **columns)


def returns_in(evaluator: Evaluator) -> float:
    return float(evaluator.estimate())


def state_of(evaluator: Evaluator) -> WindowState:
    state = evaluator.copy()._state
    assert isinstance(state, WindowState)
    return state


@pytest.mark.parametrize("n", [1, 99, 100, 101, 350, 1024])
def test_what_is_read_are_the_latest_panes_and_the_open_one(n: int) -> None:
    rewards = np.random.default_rng(0).normal(size=n)
    evaluator = fed(rewards, Window(3, every=100))
    first = max((n - 1) // 100 - 3, 0) * 100
    assert rewards_of(evaluator) == pytest.approx(rewards[first:].mean(), abs=1e-12)
    assert evaluator.interval([1.0]).n == n - first
    assert evaluator.n == n


def test_an_episode_belongs_to_the_pane_in_which_it_began() -> None:
    """Panes of 10 steps and episodes of 4: they begin with steps 1, 5, 9 | 13, 17 | 21, 25, 29 | 33, 37."""
    rewards = np.arange(40.0)
    for n, first in ((32, 12), (33, 20), (40, 20)):
        evaluator = Evaluator(DoublyRobust(TD(1)), window=Window(1, every=10)).update(episodes(rewards, 4)[:n])
        complete = rewards[first : n // 4 * 4].reshape(-1, 4).sum(axis=1)
        if n % 4 == 0:
            assert returns_in(evaluator) == pytest.approx(complete.mean())
        assert evaluator.interval().n == n - first


def test_late_rows_of_an_episode_go_to_its_pane_or_leave_with_it() -> None:
    """Two streams: an episode of the second begins in the first pane and ends in the third."""
    stream = np.array([0, 1, 0, 0, 0, 0, 1, 0])
    last = np.array([1, 0, 1, 1, 1, 1, 1, 1], bool)
    rewards = np.array([1.0, 10, 2, 3, 4, 5, 20, 6])
    data = Transitions([0] * 8, rewards, [0] * 8, np.where(last, 0.0, 1.0), stream=stream)
    for panes, returns in ((4, [1, 30, 2, 3, 4, 5, 6]), (3, [1, 30, 2, 3, 4, 5, 6]), (1, [4, 5, 6])):
        evaluator = Evaluator(DoublyRobust(TD(1)), window=Window(panes, every=2)).update(data)
        assert returns_in(evaluator) == pytest.approx(np.mean(returns)), panes


def test_the_interval_is_that_of_the_merged_panes() -> None:
    """The same as evaluators of each pane by itself, merged by hand; the past and the drift check take nothing away."""
    data = PROBLEM.sample(2000, seed=3)
    evaluator = Evaluator(TD(2), window=Window(3, every=400)).update(data)
    parts = [Evaluator(TD(2)).update(data[start:stop]) for start, stop in pairwise(range(400, 2001, 400))]
    for target in np.eye(2):
        interval, own = evaluator.interval(target), inferl.merge(*parts).interval(target)
        assert interval.estimate == pytest.approx(own.estimate, rel=1e-12)
        assert interval.standard_error == pytest.approx(own.standard_error, rel=1e-12)
        assert interval.df == pytest.approx(own.df, rel=1e-12)
    assert evaluator.interval(target).estimand.endswith("in the window")


def windows() -> st.SearchStrategy[Window]:
    return st.builds(Window, st.integers(1, 3), st.integers(1, 9) | st.sampled_from(["1s", "5s", "1m"]))


ALGORITHMS: list[Callable[[int], Any]] = [
    lambda d: (TD(d), LeastSquares()),
    lambda d: (TD(d, trace=0.5), LeastSquares()),
    lambda d: (NStepTD(d, n=3), LeastSquares()),
    lambda d: (TD(d), LeastSquares("episode")),
    lambda d: (DoublyRobust(d), LeastSquares("episode")),
]


@settings(max_examples=25)
@given(data=st.data(), window=windows(), made=st.sampled_from(ALGORITHMS), off_policy=st.booleans())
def test_any_cutting_and_any_resume_give_the_same_bits(
    data: st.DataObject, window: Window, made: Any, off_policy: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    rows = data.draw(transitions(dimension=3, max_steps=60, off_policy=off_policy))
    n = len(rows)
    columns: dict[str, Any] = {}
    if window.seconds is not None:
        steps = data.draw(st.lists(st.sampled_from([0.0, 0.3, 1.0, 7.0, -3.0, 500.0]), min_size=n, max_size=n))
        columns["time"] = np.cumsum(steps)
    if data.draw(st.booleans()):
        columns["version"] = np.cumsum(data.draw(st.lists(st.sampled_from([0, 0, 0, 1]), min_size=n, max_size=n)))
    rows = Transitions(**{name: getattr(rows, name) for name in rows.__dataclass_fields__} | columns)
    algorithm, method = made(3)
    whole = Evaluator(algorithm, method, window=window).update(rows)
    evaluator = Evaluator(algorithm, method, window=window)
    path = tmp_path_factory.getbasetemp() / "window"
    cuts = data.draw(st.sets(st.integers(0, n)))
    for start, stop in pairwise(sorted({0, n, *cuts})):
        if data.draw(st.booleans()):
            evaluator.save(path)
            evaluator = Evaluator.load(path)
        before = evaluator.copy()
        str(evaluator.report(np.eye(evaluator.algorithm.n_values)[0]))
        assert_same_bits(before, evaluator)  # a reading changes nothing
        evaluator.update(rows[start:stop])
    assert_same_bits(whole, evaluator)
    assert evaluator.fingerprint == Evaluator(algorithm, method).update(replaced(rows, version=None)).fingerprint


def replaced(rows: Transitions, **columns: Any) -> Transitions:
    return Transitions(**{name: getattr(rows, name) for name in rows.__dataclass_fields__} | columns)


@pytest.mark.parametrize("n", [99, 100, 101, 163, 164, 250])
def test_several_policies_are_saved_also_where_a_pane_has_just_begun(n: int, tmp_path: Path) -> None:
    data = PROBLEM.sample(300, seed=2)
    rows = replaced(data, ratios=np.random.default_rng(0).choice([0.5, 1.5], size=(300, 2)))
    whole, cut = (Evaluator(Stack(TD(2), TD(2)), window=Window(3, every=100)) for _ in range(2))
    cut.update(rows[:n]).save(tmp_path / "run")
    assert_same_bits(Evaluator.load(tmp_path / "run").update(rows[n:]), whole.update(rows))


def test_steps_that_are_observed_one_by_one() -> None:
    data = PROBLEM.sample(300, seed=1)
    whole, observed = (Evaluator(TD(2), window=Window(2, every="10s")) for _ in range(2))
    whole.update(replaced(data, time=np.arange(300.0), version=np.arange(300) // 130))
    for t in range(300):
        row = (data.features[t], data.rewards[t], data.next_features[t], data.discounts[t], data.ratios[t])
        observed.observe(*row, last=bool(data.last[t]), time=float(t), version=t // 130)
    assert_same_bits(whole, observed)


@pytest.mark.parametrize("error", [ValueError, MemoryError, KeyboardInterrupt])
@pytest.mark.parametrize("start", [100, 128, 192])
@pytest.mark.parametrize("rows", [20, 500])
def test_a_chunk_that_raises_changes_nothing(error: type[BaseException], start: int, rows: int) -> None:
    """Also where a pane ends with a tile of 64 rows, so that no row of it is pending."""
    lit = False

    class Mine(TD):
        def increments(self, steps: Steps, carry: Carry) -> tuple[Increments, Clock, Carry]:
            if lit and steps.clock.slot[0] == 0 and (steps.data.rewards > 100).any():  # type: ignore[union-attr]
                raise error("as arranged")
            return super().increments(steps, carry)

    data = PROBLEM.sample(900, seed=2)
    rewards = data.rewards.copy()
    rewards[start + rows - 1] = 1000.0
    data = replaced(data, rewards=rewards)
    window = Window(3, every=64)
    evaluator = Evaluator(Mine(2, trace=0.5), window=window).update(data[:start])
    before, lit = evaluator.copy(), True
    try:
        evaluator.update(data[start : start + rows])
        evaluator.interval([1.0, 0.0])  # the row is still pending
    except error:
        pass
    else:
        pytest.fail("nothing was raised")
    lit = False
    if evaluator.n == start:
        assert_same_bits(before, evaluator)
        evaluator.update(data[start : start + rows])
    whole = Evaluator(Mine(2, trace=0.5), window=window).update(data)
    assert_same_bits(whole, evaluator.update(data[start + rows :]))


@pytest.mark.parametrize("rows", [100, 5000])
def test_an_interrupt_comes_before_a_chunk_or_after_it(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    data = PROBLEM.sample(6000, seed=2)
    whole, evaluator = (Evaluator(TD(2), window=Window(3, every=10_000)).update(data[:100]) for _ in range(2))
    fold: Callable[..., Any] = LeastSquares.fold

    def interrupted(*arguments: Any) -> Any:
        os.kill(os.getpid(), signal.SIGINT)
        return fold(*arguments)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    monkeypatch.setattr(LeastSquares, "fold", interrupted)
    try:
        with pytest.raises(KeyboardInterrupt):
            evaluator.update(data[100 : 100 + rows])
    finally:
        signal.signal(signal.SIGINT, before)
    monkeypatch.undo()
    assert evaluator.n in (100, 100 + rows)
    assert_same_bits(whole.update(data[100:]), evaluator.update(data[evaluator.n :]))


def test_memory_is_flat(monkeypatch: pytest.MonkeyPatch) -> None:
    """Panes of a few rows come and go; of what is before the window, sums and some blocks of time are kept."""
    monkeypatch.setattr("inferl.variance.history.MOST", 64)
    monkeypatch.setattr("inferl.variance.history.FINE", 8)
    sizes = []
    evaluator = Evaluator(DoublyRobust(TD(4)), window=Window(4, every=7))
    for seed in range(6):
        data = PROBLEM.sample(420, seed=seed, tabular=True)
        evaluator.update(data)
        state = state_of(evaluator)
        assert len(state.panes) <= 5
        sizes.append(sum(array.nbytes for array in arrays_of(state)))
    assert sizes[-1] < 1.1 * max(sizes[3:5])


def timed(times: Any, rewards: Any, **columns: Any) -> Transitions:
    """Episodes of a single step."""
    here = np.zeros(len(times), np.int64)
    return Transitions(here, rewards, here, 0.0, time=np.asarray(times, float), **columns)


def test_panes_by_time_may_be_empty_and_old_ones_leave_after_a_gap() -> None:
    evaluator = Evaluator(DoublyRobust(TD(1)), window=Window(2, every="1h"))
    hour = 3600.0
    evaluator.update(timed([0.1 * hour, 0.9 * hour, 2.5 * hour], [1.0, 3.0, 8.0]))
    assert returns_in(evaluator) == pytest.approx(4.0)  # hour 1 is empty, hour 0 still in the window
    evaluator.update(timed([3.5 * hour], [12.0]))
    assert returns_in(evaluator) == pytest.approx(10.0)
    evaluator.update(timed([100 * hour], [5.0]))
    assert returns_in(evaluator) == pytest.approx(5.0)
    assert len(state_of(evaluator).panes) == 1
    evaluator.update(timed([-50 * hour], [7.0]))  # late, for whatever reason: it belongs to the open pane
    assert returns_in(evaluator) == pytest.approx(6.0)
    assert len(state_of(evaluator).panes) == 1


def test_times_that_go_backwards_open_no_pane() -> None:
    times = np.array([10.0, 5.0, 19.0, 20.0, 3.0, 21.0])
    evaluator = Evaluator(DoublyRobust(TD(1)), window=Window(5, every="10s")).update(timed(times, np.zeros(6)))
    state = state_of(evaluator)
    assert [pane.streams.n for pane in state.panes] == [3, 3]
    assert evaluator.borders(timed([1.0, 29.0, 30.0, 31.0, 90.0], np.zeros(5))) == [2, 4]


def check_of(evaluator: Evaluator) -> Any:
    (found,) = (check for check in evaluator.report().checks if check.name == "time")
    return found


def test_a_window_that_one_row_of_the_future_keeps_open_fails_a_check() -> None:
    hour, rng = 3600.0, np.random.default_rng(0)
    times = np.arange(0, 10 * hour, 10.0)
    data = timed(times, rng.normal(size=len(times)))
    sound = Evaluator(DoublyRobust(TD(1)), window=Window(5, every="1h")).update(data)
    assert (check_of(sound).status, check_of(sound).value) == ("passed", 0.0)
    ahead = np.insert(times, 1000, times[1000] + 365 * 24 * hour)
    broken = Evaluator(DoublyRobust(TD(1)), window=Window(5, every="1h"))
    broken.update(timed(ahead[:1001], np.zeros(1001)))
    assert check_of(broken).status == "passed"  # it is the one row itself
    broken.update(timed(ahead[1001:], rng.normal(size=len(ahead) - 1001)))
    assert check_of(broken).status == "failed"
    assert "100% of the rows of the window are more than a pane older" in check_of(broken).message
    assert "(1971-01-01 02:00 UTC)" in check_of(broken).message
    assert any(note.startswith("time: ") for note in broken.interval().notes)
    # It passes again once time has gone on.
    later = 365 * 24 * hour + times
    assert check_of(broken.update(timed(later, rng.normal(size=len(later))))).status == "passed"


def test_a_few_rows_that_come_late_are_no_reason_to_fail() -> None:
    hour, rng = 3600.0, np.random.default_rng(0)
    times = np.sort(rng.uniform(0, 10 * hour, 5000))
    delayed = times - np.where(rng.random(5000) < 0.05, 4 * hour, 0.0)
    evaluator = Evaluator(DoublyRobust(TD(1)), window=Window(3, every="1h")).update(timed(delayed, np.zeros(5000)))
    assert check_of(evaluator).status == "passed"
    assert 0.02 < check_of(evaluator).value < 0.08
    reset = np.concatenate([times, 4 * hour + times[:2000] / 10])  # a clock that was set back
    evaluator = Evaluator(DoublyRobust(TD(1)), window=Window(3, every="1h")).update(timed(reset, np.zeros(7000)))
    assert check_of(evaluator).status == "failed"


def test_late_rows_are_counted_alike_in_any_chunks(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    times = rng.uniform(0, 100, 600)
    columns = {"stream": rng.integers(3, size=600), "time": times}
    data = Transitions(
        np.zeros(600, int), rng.normal(size=600), np.zeros(600, int), rng.integers(2, size=600), **columns
    )
    whole = Evaluator(DoublyRobust(TD(1)), window=Window(3, every="10s")).update(data)
    assert state_of(whole).late.sum() > 0
    parts = Evaluator(DoublyRobust(TD(1)), window=Window(3, every="10s"))
    for start in range(0, 600, 7):
        parts.update(data[start : start + 7])
        if start == 210:
            parts.save(tmp_path / "half.npz")
            parts = Evaluator.load(tmp_path / "half.npz")
    assert_same_bits(whole, parts)


@pytest.mark.parametrize(
    ("times", "message"),
    [(None, "need the time of each row"), ([1.0, 1.7e12], "row 1: the time 1.7e.12 is not in sec")],
)
def test_times_that_are_of_no_use_are_refused(times: Any, message: str) -> None:
    evaluator = Evaluator(DoublyRobust(TD(1)), window=Window(2, every="1h"))
    with pytest.raises((ShapeError, DataError), match=message):
        evaluator.update(replaced(timed([1.0, 2.0], [1.0, 2.0]), time=times))
    assert evaluator.n == 0


def test_a_new_version_begins_anew() -> None:
    data = timed(np.arange(6.0), [1.0, 2.0, 3.0, 10.0, 20.0, 30.0])
    evaluator = Evaluator(DoublyRobust(TD(1)), window=Window(9, every=2))
    evaluator.update(replaced(data, version=[1, 1, 1, 2, 2, 2]))
    assert returns_in(evaluator) == pytest.approx(20.0)
    assert state_of(evaluator).past is None
    evaluator.update(timed([9.0], [7.0], version=[1]))  # and so does the old one, if it comes back
    assert returns_in(evaluator) == pytest.approx(7.0)
    with pytest.raises(SettingError, match="more than one version"):
        Evaluator(DoublyRobust(TD(1))).update(replaced(data, version=[1, 1, 1, 2, 2, 2]))


def test_an_episode_belongs_to_the_version_with_which_it_began() -> None:
    """Episodes of two steps in two streams; the second is halfway when the version changes."""
    stream, rewards = [0, 0, 1, 0, 1, 0], [1.0, 1.0, 100.0, 5.0, 100.0, 5.0]
    discounts = [1.0, 0.0, 1.0, 1.0, 0.0, 0.0]
    columns: Any = {"discounts": discounts, "stream": stream, "version": [1, 1, 1, 2, 2, 2]}
    evaluator = Evaluator(DoublyRobust(TD(1)), window=Window(9, every=100))
    evaluator.update(Transitions([0] * 6, rewards, [0] * 6, **columns))
    assert returns_in(evaluator) == pytest.approx(10.0)  # the rest of the other episode left with its pane
    # A version that changes within an episode does not open a pane: its end was not played by one policy.
    within = Evaluator(DoublyRobust(TD(1)), window=Window(9, every=100))
    within.update(Transitions([0] * 4, [1.0, 1.0, 1.0, 7.0], [0] * 4, [1.0, 1.0, 0.0, 0.0], version=[1, 1, 2, 2]))
    assert returns_in(within) == pytest.approx(7.0)


@pytest.mark.parametrize("algorithm", [TD(2), TD(2, trace=0.8), NStepTD(2, n=30), EmphaticTD(2, trace=0.5)])
def test_no_trace_and_no_open_steps_go_over_to_a_new_version(algorithm: Any) -> None:
    rng, before = np.random.default_rng(4), (np.arange(700) < 300).astype(int)
    features = rng.normal(size=(700, 2))
    rewards = rng.normal(size=700) + 100.0 * before
    rows = Transitions(features, rewards, np.roll(features, -1, axis=0), 0.8, version=1 - before)
    window = Evaluator(algorithm, window=Window(3, every=1000)).update(rows)
    alone = Evaluator(algorithm).update(rows[300:])
    for target in np.eye(2):
        one, other = window.interval(target), alone.interval(target)
        assert one.n == other.n
        assert one.estimate == pytest.approx(other.estimate, rel=1e-12)
        assert one.standard_error == pytest.approx(other.standard_error, rel=1e-9)


def test_settings_are_checked() -> None:
    for panes, every in ((0, 1), (True, 1), (10**6, 1), (2, 0), (2, "1w"), (2, "0h"), (2, 1.5)):
        with pytest.raises(SettingError):
            Window(panes, every)  # type: ignore[arg-type]
    with pytest.raises(SettingError, match="such as Window"):
        Evaluator(TD(2), window=24)  # type: ignore[arg-type]
    bootstrap = inferl.OnlineBootstrap(inferl.Polynomial(0.5), n_replicas=4)
    with pytest.raises(SettingError, match="OnlineBootstrap cannot be merged, so it has no window; use LeastSquares"):
        Evaluator(TD(2), bootstrap, window=Window(2, 100))


def test_what_a_window_cannot_answer_is_refused() -> None:
    one, other = (Evaluator(TD(2), window=Window(2, 100)).update(PROBLEM.sample(300, seed=k)) for k in range(2))
    with pytest.raises(KindError, match="a window has no 'anytime' interval"):
        one.interval([1.0, 0.0], kind="anytime")
    with pytest.raises(SettingError, match="nothing to merge it with"):
        inferl.merge(one, other)


def test_more_states_than_can_be_solved_for_are_refused_over_all_panes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first chunk may hold too many, or each pane few and all together too many."""
    for module in ("linear_system", "least_squares"):
        monkeypatch.setattr(f"inferl.methods.{module}.MOST_SOLVED", 40)

    def visits(first: int, stop: int) -> Transitions:
        states = np.arange(first, stop)
        return Transitions(states, np.zeros(len(states)), states, 0.9)

    window = Window(2, every=10)
    with pytest.raises(SettingError, match="40 states seen, not 50"):
        Evaluator(TD(100), window=window).update(visits(0, 50))
    evaluator = Evaluator(TD(100), window=window)
    for first in range(0, 40, 10):
        evaluator.update(visits(first, first + 10))
    evaluator.update(visits(0, 40))  # nothing new
    before = evaluator.copy()
    with pytest.raises(SettingError, match="40 states seen, not 41"):
        evaluator.update(visits(40, 41))
    assert_same_bits(before, evaluator)


def test_a_run_is_read_whenever_a_pane_is_over(tmp_path: Path) -> None:
    run = Run(Evaluator(TD(2), window=Window(2, every=100)), target=np.array([1.0, 0.0]))
    run.take(PROBLEM.sample(1000, seed=0)[:450])
    run.save(tmp_path / "run")
    run = Run.load(tmp_path / "run")
    run.take(PROBLEM.sample(1000, seed=0)[450:])
    assert {reading.n for reading in run.readings} >= {100, 200, 300, 400, 500, 600, 700, 800, 900}
    assert "2 panes of 100 transitions, and the open one; 300 of 1,000 transitions" in str(run.report())


def side_by_side(streams: int, steps: int, window: Window | None) -> Any:
    """The drift check of streams of an AR(.98) that do not change, step by step of each."""
    rng = np.random.default_rng(0)
    rewards = np.zeros((steps, streams))
    rewards[0] = rng.normal(size=streams) / np.sqrt(1 - 0.98**2)
    for t in range(1, steps):
        rewards[t] = 0.98 * rewards[t - 1] + rng.normal(size=streams)
    here = np.zeros(rewards.size, np.int64)
    data = Transitions(here, rewards.ravel(), here, 0.0, stream=np.tile(np.arange(streams), steps))
    report = Evaluator(TD(1), window=window).update(data).report(0)
    return next(check for check in report.checks if check.name == "drift")


@pytest.mark.parametrize("window", [None, Window(10, every=4000)])
def test_streams_side_by_side_are_compared_over_as_many_steps_of_each(window: Window | None) -> None:
    """Blocks of arrivals are 4 steps of each here, and neighbours are as good as equal."""
    assert side_by_side(500, 100, window).status == "not available"


def test_the_check_counts_steps_back_from_the_latest() -> None:
    rewards = np.random.default_rng(0).normal(size=40_100) + 2.0 * (np.arange(40_100) >= 30_000)
    for window, status in ((None, "failed"), (Window(24, every=1000), "failed"), (Window(5, every=1000), "passed")):
        evaluator = Evaluator(Linear(1), window=window)
        evaluator.update(Increments.dense(np.ones((40_100, 1, 1)), rewards[:, None]))
        check = next(check for check in evaluator.report([1.0]).checks if check.name == "drift")
        ago = int(check.message.split("about ")[1].split(" ")[0].replace(",", ""))
        assert check.status == status, check
        assert abs(ago - 10_100) <= 2048
        assert check.value == pytest.approx(2.0, abs=0.3)
        assert check.message.endswith("before the window") == (status == "passed")


def test_dependence_before_the_window_is_known_in_it() -> None:
    """Variance rates of a window's check come from the past, too: they are those of all data."""
    rewards = np.random.default_rng(0).normal(size=64_001)
    windowed, whole = fed(rewards, Window(4, every=2048)), Evaluator(Linear(1))
    whole.update(Increments.dense(np.ones((64_001, 1, 1)), rewards[:, None]))
    readings = [evaluator.read([1.0]) for evaluator in (windowed, whole)]
    course, other = (reading.course for reading in readings if isinstance(reading, LeastSquaresReading))
    assert course is not None
    assert other is not None
    assert course.length.sum() == 31 * 2048
    np.testing.assert_allclose(course.rate[:9, 0], other.rate[:9, 0], rtol=0.02)
    np.testing.assert_allclose(course.blocks[:9], other.blocks[:9], rtol=0.02)


def test_a_step_without_a_time_is_refused_and_the_window_goes_on() -> None:
    here, times = np.zeros(10, int), np.arange(10.0)
    evaluator = Evaluator(TD(1), window=Window(2, "1h")).update(Transitions(here, here, here, 0.5, time=times))
    with pytest.raises(ShapeError, match="need the time of each row"):
        evaluator.observe(0, 1.0, 0, 0.5)
    evaluator.observe(0, 1.0, 0, 0.5, time=11.0)
    assert evaluator.interval(0).n == 11


def test_increments_keep_their_form_in_a_window_too() -> None:
    rows = np.ones((300, 1, 2))
    evaluator = Evaluator(Linear(2), window=Window(2, 1000)).update(
        Increments.dense(rows[:, 0, :, None] * rows, rows[:, 0])
    )
    two = Increments(*(np.ones((300, 3, 2)),) * 2, np.ones((300, 3)), np.zeros(2), np.ones(300))
    with pytest.raises(ShapeError, match="another number of terms"):
        evaluator.update(two)


@pytest.mark.parametrize("window", [None, Window(3, every=10_000)])
@pytest.mark.parametrize("n", [8192, 12_800, 25_001, 40_007])
def test_increments_of_which_none_is_pending_are_saved(window: Window | None, n: int, tmp_path: Path) -> None:
    y = np.random.default_rng(0).normal(size=(n, 1))
    evaluator = Evaluator(Linear(1), window=window).update(Increments.dense(np.ones((n, 1, 1)), y))
    evaluator.save(tmp_path / "run")
    assert_same_bits(Evaluator.load(tmp_path / "run"), evaluator)


def test_what_overflowed_before_the_window_does_not_hide_a_change() -> None:
    rewards, here = np.random.default_rng(0).normal(size=40_000), np.zeros(40_000, int)
    rewards[-3000:] += 5
    rewards[500] = 1e200
    whole = Evaluator(TD(1)).update(Transitions(here, rewards, here, 0.5))
    windowed = Evaluator(TD(1), window=Window(8, every=1000)).update(Transitions(here, rewards, here, 0.5))
    found = [next(c for c in one.report(0).checks if c.name == "drift").status for one in (whole, windowed)]
    assert found == ["not available", "failed"]


def checks_after(mean: float, rows: int) -> dict[str, Any]:
    """The checks of one stream whose mean reward was 1 until so many rows ago."""
    rng, n = np.random.default_rng(0), 10_000 + rows
    here, rewards = np.zeros(n, int), rng.normal(size=n) + np.where(np.arange(n) < 10_000, 1.0, mean)
    evaluator = Evaluator(TD(1), window=Window(4, every=2500)).update(Transitions(here, rewards, here, 0.5))
    return {check.name: check for check in evaluator.report(0).checks}


def test_panes_that_differ_are_not_called_streams() -> None:
    before = checks_after(mean=1.0, rows=700)
    assert before["dependence"].status == before["drift"].status == "passed"
    soon = checks_after(mean=2.0, rows=700)  # too few for the check drift
    assert (soon["dependence"].status, soon["drift"].status) == ("failed", "passed")
    assert soon["dependence"].message.startswith("the panes differ by more than the variation within them explains")
    assert "the value may have changed" in soon["dependence"].message
    assert "stream" not in soon["dependence"].remedy
    later = checks_after(mean=2.0, rows=5000)
    assert later["drift"].status == later["dependence"].status == "failed"
    assert later["dependence"].remedy == "a change of the value looks like dependence: see the check drift"
