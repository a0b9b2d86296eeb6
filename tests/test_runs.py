"""Runs: what is put away comes back with the same bits; two independent runs are compared as statistics says."""

from __future__ import annotations

from itertools import count, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from runfiles import evaluator_bits

import inferl
from inferl.comparison import verdict
from inferl.data.transitions import Transitions
from inferl.errors import (
    CheckpointCorruptError,
    CheckpointMismatchError,
    SettingError,
    TargetError,
)
from inferl.evaluator import Evaluator
from inferl.interval import Interval
from inferl.methods.least_squares import LeastSquaresState
from inferl.runs import Run
from inferl.sources import table
from inferl.storage.checkpoint import write_checkpoint
from inferl.variance.long_run import long_run

LOGS = count()  # every run reads a log of its own


def walk(n: int, seed: int, bonus: float = 0.0) -> pa.Table:
    """A walk on five states, in episodes of random length, in the words of a log."""
    rng = np.random.default_rng(seed)
    ends = rng.random(n) < 0.1
    return pa.table(
        {
            "s": rng.integers(5, size=n),
            "reward": rng.normal(size=n) + bonus,
            "terminated": ends,
            "w": rng.choice([0.5, 1.5], size=n),
            "v": rng.choice([0.0, 2.0], size=n),
        }
    )


def followed(frame: pa.Table, method: Any = None, target: Any = "start", **options: Any) -> Run:
    log = table(frame, state="s", n_states=5, batch=100, **options)
    algorithm: Any = inferl.TD(5)
    if not isinstance(options.get("ratio", ""), str):
        algorithm = inferl.Stack(algorithm, algorithm)
    run = Run(Evaluator(algorithm, method), "evaluate", {"file": (f"walk {next(LOGS)}",), "ratio": ("a", "b")}, target)
    for chunk in log:
        run.take(chunk, log)
    return run


BOOTSTRAP = inferl.OnlineBootstrap(inferl.Polynomial(5.0), n_replicas=20, seed=3)


@pytest.mark.parametrize("method", [inferl.LeastSquares(), BOOTSTRAP])
def test_a_run_comes_back(method: Any, tmp_path: Path) -> None:
    run = followed(walk(1000, 0), method)
    run.save(tmp_path / "walk.run")
    again = Run.load(tmp_path / "walk.run")
    again.save(tmp_path / "again.run")
    assert evaluator_bits(tmp_path / "walk.run") == evaluator_bits(tmp_path / "again.run")
    assert (again.command, again.options, again.target, again.level) == (run.command, run.options, "start", 0.95)
    assert again.start.text == run.start.text
    assert np.array_equal(again.start, run.start)
    assert again.facts == run.facts
    assert again.facts["log"] == "the pyarrow Table, 1,000 rows"
    assert again.provenance == run.provenance
    assert str(again.report()) == str(run.report())
    assert len(again.readings) == len(run.readings) > 5
    for one, other in zip(again.readings, run.readings, strict=True):
        assert (one.n, one.estimate, one.lower, one.upper) == (other.n, other.estimate, other.lower, other.upper)
    assert again.position["rows"] == run.position["rows"] == 1000
    assert again.position["complete"]


def test_a_run_goes_on_as_if_it_had_not_stopped(tmp_path: Path) -> None:
    frame = walk(1000, 0)
    whole = followed(frame)
    log = table(frame, state="s", n_states=5, batch=100)
    run = Run(Evaluator(inferl.TD(5)))
    for chunk in log:
        run.take(chunk, log)
        run.save(tmp_path / "walk.run")
        if run.evaluator.n > 400:
            break
    again = Run.load(tmp_path / "walk.run")
    rest = table(frame, state="s", n_states=5, batch=100).resume(again.position)
    for chunk in rest:
        again.take(chunk, rest)
    again.save(tmp_path / "again.run")
    whole.save(tmp_path / "whole.run")
    assert evaluator_bits(tmp_path / "again.run") == evaluator_bits(tmp_path / "whole.run")
    assert [reading.n for reading in again.readings] == [reading.n for reading in whole.readings]


def test_the_report_says_what_it_speaks_of() -> None:
    run = followed(walk(1000, 0))
    assert f"for                 the {run.start.number} observed starts\n" in str(run.report())
    run.target = 3
    assert "for                 target 3\n" in str(run.report())
    assert run.interval().estimate == run.evaluator.estimate(3)


@pytest.mark.parametrize("method", [inferl.LeastSquares(), BOOTSTRAP])
def test_the_blocks_of_a_run_can_be_seen(method: Any) -> None:
    """With either method the same: a bootstrap keeps least-squares sums beside it."""
    run = followed(walk(2000, 0), method)
    levels = run.levels()
    assert levels is not None
    solved = inferl.LeastSquares()
    sums = followed(walk(2000, 0), solved).evaluator.with_pending().method
    assert isinstance(sums, LeastSquaresState)
    expected = solved.look(sums, np.asarray(run.start)[None]).levels
    assert expected is not None
    assert np.array_equal(levels.rate, expected.rate)
    assert levels.blocks[:2].tolist() == expected.blocks[:2].tolist()
    used, _, share = long_run(levels.rate, levels.df)
    assert np.array_equal(levels.share, share)
    if isinstance(method, inferl.LeastSquares):
        assert run.interval().standard_error == pytest.approx(np.sqrt(used[0] / run.evaluator.n))


def test_without_dyadic_blocks_there_are_no_levels() -> None:
    by_episodes = followed(walk(500, 0), inferl.LeastSquares("episode")).levels()
    assert by_episodes is not None
    assert by_episodes.blocks[0] < 500
    bare = inferl.OnlineBootstrap(inferl.Polynomial(5.0), n_replicas=20, companion=False)
    assert followed(walk(500, 0), bare).levels() is None


def test_readings_grow_apart() -> None:
    """A reading for every quarter that the data have grown: few, however long the run."""
    ns = [reading.n for reading in followed(walk(3000, 0)).readings]
    assert all(later >= 1.25 * earlier for earlier, later in pairwise(ns))
    assert ns[0] < 110


def test_several_policies_and_their_differences() -> None:
    both = followed(walk(4000, 1), ratio=["w", "v"])
    alone = [followed(walk(4000, 1), ratio=name) for name in ("w", "v")]
    for one, other in zip(both.interval(), alone, strict=True):
        assert one.estimate == pytest.approx(other.interval().estimate)
    apart = both.differences()
    assert apart is not None
    assert apart.estimate[0] == pytest.approx(alone[1].interval().estimate - alone[0].interval().estimate)
    assert both.readings[-1].estimate.shape == (2,)
    both.target = 2
    assert len(both.interval()) == 2
    assert alone[0].differences() is None
    with pytest.raises(SettingError, match="one is a run of several policies or targets"):
        difference(both, followed(walk(400, 2), ratio="w"))
    with pytest.raises(SettingError, match="saw the same data"):  # by its outcomes: the names differ
        difference(alone[0], alone[1])


def test_without_data_there_is_no_start() -> None:
    with pytest.raises(TargetError, match="no episode has begun"):
        Run(Evaluator(inferl.TD(2))).interval()


# Files that are no runs.


def test_other_files_are_refused_by_name(tmp_path: Path) -> None:
    run, path = followed(walk(200, 0)), tmp_path / "file"
    run.evaluator.save(path)
    with pytest.raises(CheckpointMismatchError, match=r"is a checkpoint of an evaluator, which Evaluator\.load reads"):
        Run.load(path)
    run.save(path)
    with pytest.raises(CheckpointMismatchError, match=r"is a checkpoint of a run, which runs\.Run\.load reads"):
        Evaluator.load(path)
    write_checkpoint(path, {"run": 99})
    with pytest.raises(CheckpointCorruptError, match="does not belong there"):
        Run.load(path)
    path.write_bytes(b"something else")
    with pytest.raises(CheckpointCorruptError):
        Run.load(path)


def test_threads_are_given_anew(tmp_path: Path) -> None:
    followed(walk(200, 0), BOOTSTRAP).save(tmp_path / "walk.run")
    assert Run.load(tmp_path / "walk.run", threads=2).evaluator._schedule.threads == 2


def test_a_crash_while_writing_leaves_the_old_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, path = followed(walk(200, 0)), tmp_path / "walk.run"
    run.save(path)
    before = path.read_bytes()
    run.options["unstorable"] = lambda: None
    with pytest.raises(inferl.errors.CheckpointError):
        run.save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_return_that_is_not_a_number_is_refused(tmp_path: Path) -> None:
    run = inferl.evaluate_policy("Blackjack-v1", lambda _: 0, episodes=20).run
    assert run.returns is not None
    run.returns.of_ended[3] = np.nan
    run.save(tmp_path / "cards.run")
    with pytest.raises(CheckpointCorruptError, match="a return is not finite"):
        Run.load(tmp_path / "cards.run")


# Differences.


def difference(one: Run, other: Run, level: float = 0.95) -> Interval:
    return inferl.compare({"one": one, "other": other}, level=level).difference("one", "other")


def two(n: int, method: Any = None) -> tuple[Run, Run]:
    return followed(walk(n, 0), method, target=0), followed(walk(n, 1), method, target=0)


@pytest.mark.parametrize("method", [inferl.LeastSquares(), inferl.LeastSquares(blocks="episode")])
def test_the_difference_by_hand(method: Any) -> None:
    one, other = followed(walk(900, 0), method, target=0), followed(walk(300, 1, bonus=2.0), method, target=0)
    found = difference(one, other, level=0.9)
    readings = [method.look(run.evaluator.with_pending().method, np.eye(5)[:1]) for run in (one, other)]
    v = [float(reading.standard_error[0]) ** 2 for reading in readings]
    f = [float(reading.df[0]) for reading in readings]
    welch = (v[0] + v[1]) ** 2 / (v[0] ** 2 / f[0] + v[1] ** 2 / f[1])
    assert found.df == pytest.approx(welch, rel=1e-6)
    assert found.standard_error == pytest.approx(np.sqrt(v[0] + v[1]))
    assert found.estimate == pytest.approx(one.interval().estimate - other.interval().estimate)
    assert found.n == one.evaluator.n + other.evaluator.n
    from scipy.stats import t

    reach = t.ppf(0.95, welch) * np.sqrt(v[0] + v[1])
    assert found.upper - found.estimate == pytest.approx(reach)
    assert verdict(found) == "the first is smaller"


def test_a_bootstrap_has_its_degrees_of_freedom_too() -> None:
    found = difference(*two(2000, BOOTSTRAP))
    assert found.df == np.inf  # every step has its own multiplier
    assert verdict(found) == "the data do not tell which is larger"
    blocks = inferl.OnlineBootstrap(inferl.Polynomial(5.0), 50, inferl.Multipliers(clock=inferl.BlockClock()))
    assert 10 < difference(*two(2000, blocks)).df < 4000


def test_the_difference_of_equal_policies_holds_zero() -> None:
    """At 99.99%: a false alarm with probability 1e-4."""
    one, other = two(5000)
    assert 0 in difference(one, other, level=0.9999)


def test_runs_that_know_nothing_have_an_endless_difference() -> None:
    few = Run(Evaluator(inferl.TD(1)), target=0)
    few.take(Transitions([0, 0], [1.0, 0.0], [0, 0], 0.99))
    found = difference(few, followed(walk(500, 0), target=0))
    assert found.standard_error == np.inf
    assert (found.lower, found.upper) == (-np.inf, np.inf)


@pytest.mark.parametrize("command", ["evaluate", "rollout", "own"])
def test_runs_without_options_are_taken_to_be_independent(command: str) -> None:
    runs = [Run(Evaluator(inferl.TD(1)), command, target=0) for _ in range(2)]
    for run, reward in zip(runs, (0.0, 1.0), strict=True):
        zero = np.zeros(300, np.int64)
        run.take(Transitions(zero, reward + np.random.default_rng(1).normal(size=300), zero, 0.5))
    assert verdict(difference(runs[0], runs[1])) == "the first is smaller"


def test_a_run_without_a_target_is_refused(tmp_path: Path) -> None:
    run = followed(walk(200, 0))
    run.target = ()
    run.save(tmp_path / "walk.run")
    with pytest.raises(CheckpointCorruptError, match="the run has no target"):
        Run.load(tmp_path / "walk.run")


def test_a_chunk_that_raises_in_the_middle_leaves_no_position(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was taken of it is not all that its source has read."""
    monkeypatch.setattr("inferl.methods.linear_system.MOST_SOLVED", 40)
    n = 3100
    log = pa.table({"s": np.r_[np.arange(3000) % 3, np.arange(100) + 5], "reward": np.ones(n)})
    source = table(log, state="s", n_states=1000, discount=0.5)
    run = Run(Evaluator(inferl.TD(1000)), target=0)
    chunk = next(iter(source))
    with pytest.raises(SettingError, match="states seen"):
        run.take(chunk, source)
    assert 0 < run.evaluator.n < len(chunk)
    assert run.position is None
