"""Plans: a log in parts gives the answer of a single reader, whoever computes the parts."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv as arrow_csv
from pyarrow import parquet
from scale.logs import ROLES, frame, write

import inferl
from inferl.errors import DataError, SettingError, WorkerError
from inferl.runs import Run
from inferl.scale import Plan, Processes, plan
from inferl.scale.prefix import ENOUGH, Prefix
from inferl.storage.checkpoint import digest_of


class Inline:
    """An executor of this process that counts; with `late`, one in a thread that computes the latest task first."""

    def __init__(self, late: bool = False) -> None:
        self.held, self.computed = list[Any](), 0
        self.thread = ThreadPoolExecutor(1) if late else None

    def submit(self, function: Callable[..., Any], /, *args: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.held.append((future, function, args))
        if self.thread is None:
            self.compute()
        else:
            self.thread.submit(self.compute)
        return future

    def compute(self) -> None:
        future, function, args = self.held.pop()
        if not future.set_running_or_notify_cancel():
            return
        self.computed += 1
        try:
            future.set_result(function(*args))
        except Exception as error:
            future.set_exception(error)


def digest(run: Run) -> str:
    """Of all that a run file holds, apart from when and where it was made."""
    return digest_of(replace(run, provenance={"none": ""}).saved())


@pytest.fixture(scope="module", autouse=True)
def soon() -> Iterator[None]:
    """Merge in a tree from few transitions on, as with parts of millions."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("inferl.scale.prefix.ENOUGH", 2500)
        yield


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("log"), frame(), files=5)


@pytest.fixture(scope="module")
def planned(log: Path) -> Plan:
    return plan(log, rows=1000, **ROLES)


@pytest.fixture(scope="module")
def merged(planned: Plan) -> Run:
    return planned.evaluate(executor=Inline())


def single(log: Any, **options: Any) -> Run:
    run = inferl.evaluate_log(log, **options).run
    assert run is not None
    return run


def as_of_one_reader(run: Run, one: Run) -> None:
    """Compare a merged run with that of a single reader."""
    assert run.facts == one.facts
    assert run.evaluator.n == one.evaluator.n
    assert run.evaluator.episodes == one.evaluator.episodes
    found, wanted = run.interval(), one.interval()
    assert np.allclose(found.estimate, wanted.estimate, rtol=1e-9, atol=1e-12)
    assert np.allclose(found.width, wanted.width, rtol=0.02)
    ours = {check.name: check.status for check in run.report().checks}
    assert ours == {check.name: check.status for check in one.report().checks}
    for name in ("dropped rewards", "ends", "ratios"):
        both = [[c.message for c in r.report().checks if c.name == name] for r in (run, one)]
        if name != "ratios":
            assert both[0] == both[1]
    if run.start is not None:
        assert run.start.text == one.start.text
        assert np.allclose(np.asarray(run.start), np.asarray(one.start), rtol=1e-12)


def test_a_merged_run_is_the_run_of_one_reader(log: Path, merged: Run, tmp_path: Path) -> None:
    as_of_one_reader(merged, single(log, **ROLES))
    merged.save(tmp_path / "all.inferl")
    again = Run.load(tmp_path / "all.inferl")
    assert digest(again) == digest(merged)
    again.to_html(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text("utf-8")
    assert "20,000 rows" in page
    numbers = [reading.n for reading in merged.readings]
    assert numbers == sorted(set(numbers))
    assert numbers[0] == 100
    assert numbers[-1] == merged.evaluator.n


def test_episodes_are_never_cut(log: Path, planned: Plan) -> None:
    assert planned.cut.crossing >= 10
    sizes, rows = [], 0
    for part in planned.parts:
        chunks = list(part)
        assert len(chunks[0].rewards)
        sizes.append(part.rows)
        rows += part.rows
    assert rows == 20_000
    whole = np.concatenate([c.rewards for c in inferl.sources.table(log, **ROLES)])
    assert np.array_equal(np.concatenate([c.rewards for part in planned.parts for c in part]), whole)


ALIKE: dict[str, dict[str, Any]] = {
    "ends without labels": {"episode": None, "order": None},
    "labels without ends": {"terminated": None, "truncated": None, "episodes_end": True},
    "categories": {"features": "x + ward"},
    "states": {"features": ..., "state": ["ward"]},
    "clipped": {"clip": 1.1},
    "fitted behaviour": {"behaviour_probability": ..., "fit_behaviour": "ward", "action": "ward"},
    "two policies": {"target_probability": ["p", "q"]},
    "on-policy": {"behaviour_probability": None, "target_probability": None},
    "cut": {"time_limit": "ends"},
}


@pytest.mark.parametrize("changed", ALIKE.values(), ids=ALIKE)
def test_other_questions(changed: dict[str, Any], log: Path) -> None:
    roles = {name: value for name, value in {**ROLES, **changed}.items() if value is not ...}
    run = plan(log, rows=1000, **roles).evaluate(executor=Inline())
    as_of_one_reader(run, single(log, **roles))


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".arrow", ".jsonl"])
def test_files_without_row_groups(suffix: str, tmp_path: Path) -> None:
    whole = frame(3000)
    for k in range(6):
        piece, path = whole.slice(500 * k, 500), tmp_path / f"{k}{suffix}"
        if suffix == ".arrow":
            with pa.ipc.new_file(path, piece.schema) as writer:
                writer.write_table(piece)
        elif suffix == ".jsonl":
            path.write_text(piece.to_pandas().to_json(orient="records", lines=True))
        else:
            with pa.CompressedOutputStream(str(path), "gzip") if suffix == ".csv.gz" else open(path, "wb") as file:
                arrow_csv.write_csv(piece, file)
    planned = plan(tmp_path, rows=400, **ROLES)
    assert len(planned.parts) == 6
    assert planned.cut.crossing >= 4
    as_of_one_reader(planned.evaluate(executor=Inline()), single(tmp_path, **ROLES))


def test_an_episode_longer_than_parts(tmp_path: Path) -> None:
    whole = frame(4000)
    lengths = [900, 2500, 600]
    episode = np.repeat([5, 6, 7], lengths)
    step = np.concatenate([np.arange(n) for n in lengths])
    whole = whole.set_column(0, "e", pa.array(episode)).set_column(1, "t", pa.array(step))
    ends = np.zeros(4000, bool)
    ends[np.cumsum(lengths) - 1] = True
    for name, column in (("terminated", ends), ("truncated", ~ends & False)):
        whole = whole.set_column(whole.column_names.index(name), name, pa.array(column))
    write(tmp_path, whole, files=4, row_group_size=300)
    for roles in (ROLES, {**ROLES, "episode": None, "order": None}):
        planned = plan(tmp_path, rows=300, **roles)
        assert 1 < len(planned.parts) <= 3
        assert planned.evaluate(executor=Inline()).evaluator.n == single(tmp_path, **roles).evaluator.n == 4000


def test_any_executor_writes_the_same_bits(planned: Plan, merged: Run) -> None:
    wanted = digest(merged)
    with ThreadPoolExecutor(3) as threads:
        assert digest(planned.evaluate(executor=threads)) == wanted
    assert digest(planned.evaluate(executor=1)) == wanted
    assert digest(planned.evaluate(executor=2)) == wanted


def test_killed_workers(planned: Plan, merged: Run) -> None:
    killed: list[int] = []
    with Processes(2) as pool:

        def kill() -> None:
            while len(killed) < 3:
                for pid in pool.pids:
                    time.sleep(0.3)
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                        killed.append(pid)
                time.sleep(0.01)

        thread = threading.Thread(target=kill, daemon=True)
        thread.start()
        run = planned.evaluate(executor=pool)
        while len(killed) < 3:  # the parts may be done before
            run = planned.evaluate(executor=pool)
        thread.join()
    assert digest(run) == digest(merged)


def suicide() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_task_that_kills_its_process(planned: Plan) -> None:
    with Processes(2) as pool:
        doomed, other = pool.submit(suicide), pool.submit(pow, 2, 3)
        assert other.result() == 8
        with pytest.raises(WorkerError, match=r"killed 3 times.*SIGKILL.*memory"):
            doomed.result()
        with pytest.raises(ZeroDivisionError):
            pool.submit(divmod, 1, 0).result()
        with pytest.raises(SettingError, match="cannot be sent"):
            pool.submit(lambda: 1).result()
        assert pool.submit(pow, 2, 4).result() == 16
    with pytest.raises(SettingError, match="closed"):
        pool.submit(pow, 2, 3)


def test_finished_parts_are_not_computed_again(planned: Plan, merged: Run, tmp_path: Path) -> None:
    folder, parts = tmp_path / "run", len(planned.parts)
    planned.evaluate(executor=Inline(late=True), checkpoint=folder)
    files = sorted(folder.glob("part-*.inferl"))
    assert len(files) == parts
    for file in (files[0], files[3], *files[10:]):
        file.unlink()
    files[5].write_bytes(files[5].read_bytes()[:-100])  # damaged
    second = Inline(late=True)  # out of order
    assert digest(planned.evaluate(executor=second, checkpoint=folder)) == digest(merged)
    assert second.computed == parts - 10 + 3
    third = Inline()
    assert digest(planned.evaluate(executor=third, checkpoint=folder)) == digest(merged)
    assert third.computed == 0
    other = Inline()
    planned.evaluate(inferl.TD(2, trace=0.5), executor=other, checkpoint=folder)
    assert other.computed == parts


def test_a_changed_file_is_computed_again(tmp_path: Path) -> None:
    log = write(tmp_path / "log", frame(5000), files=5)
    wanted = plan(log, rows=1000, **ROLES).evaluate(executor=Inline(), checkpoint=tmp_path / "run")
    os.utime(log / "part-2.parquet")
    again = Inline()
    run = plan(log, rows=1000, **ROLES).evaluate(executor=again, checkpoint=tmp_path / "run")
    assert digest(run) == digest(wanted)
    assert 1 <= again.computed <= 3  # also the parts that read on into it


def test_watching_a_prefix(planned: Plan, merged: Run) -> None:
    seen = list(planned.watch(executor=Inline(late=True)))
    assert [run.provenance["parts"] for run in seen] == [f"{k + 1} of {len(seen)}" for k in range(len(planned.parts))]
    assert seen[-1].interval("normal").width == merged.interval().width
    assert {run.interval().kind for run in seen} == {"anytime"}
    for run in seen:
        n, chunks = 0, []
        for part in planned.parts[: int(run.provenance["parts"].split()[0])]:
            chunks += list(part)
        n = sum(map(len, chunks))
        assert run.evaluator.n == n


def test_a_bad_row_is_named_with_its_file(tmp_path: Path) -> None:
    whole = frame(5000)
    rewards = whole["reward"].to_numpy().copy()
    rewards[[3210, 3300]] = np.nan
    log = write(tmp_path / "log", whole.set_column(whole.column_names.index("reward"), "reward", pa.array(rewards)), 5)
    with pytest.raises(DataError, match=r"part-3\.parquet, row 211, column 'reward': nan is not a finite number"):
        plan(log, rows=1000, **ROLES).evaluate(executor=Inline(late=True), checkpoint=tmp_path / "run")
    assert len(list((tmp_path / "run").glob("part-*"))) >= 3
    with pytest.raises(DataError, match=r"part-3\.parquet, row 211"):
        plan(log, rows=1000, **ROLES).evaluate(executor=2)
    run = plan(log, rows=1000, skip_bad=2, **ROLES).evaluate(executor=Inline())
    assert run.facts == single(log, skip_bad=2, **ROLES).facts
    assert "2, the first" in run.facts["bad rows skipped"]


def test_bad_rows_are_counted_over_all_parts(tmp_path: Path) -> None:
    whole = frame(5000)
    rewards = whole["reward"].to_numpy().copy()
    rewards[[700, 1700, 2700, 3700]] = np.nan
    log = write(tmp_path, whole.set_column(whole.column_names.index("reward"), "reward", pa.array(rewards)), 5)
    assert plan(log, rows=1000, skip_bad=4, **ROLES).evaluate(executor=Inline()).evaluator.n > 4000
    with pytest.raises(DataError, match=r"4 rows are bad, and 3 are allowed in all parts.*part-3\.parquet, row 701"):
        plan(log, rows=1000, skip_bad=3, **ROLES).evaluate(executor=Inline())


def in_time(rows: int, n_open: int) -> pa.Table:
    """Rows in order of time: so many episodes are open at once, in turns."""
    place = np.arange(rows) % n_open
    turn = np.arange(rows) // n_open
    return pa.table({"e": place + n_open * (turn // 10), "t": turn % 10, "x": np.ones(rows), "reward": np.ones(rows)})


@pytest.mark.parametrize("n_open", [20, 1500])
@pytest.mark.parametrize("files", [1, 4])
def test_scattered_episodes_are_refused(n_open: int, files: int, tmp_path: Path) -> None:
    log = write(tmp_path, in_time(6000, n_open), files=files)
    roles: dict[str, Any] = {"features": "x", "episode": "e", "order": "t", "discount": 0.9, "episodes_end": True}
    if files == 1 and n_open == 20:  # seen at the borders: whole files are parts
        assert len(plan(log, rows=1000, **roles).parts) == 1
        return
    with pytest.raises(SettingError, match=r"regroup"):
        plan(log, rows=1000, **roles).evaluate(executor=Inline())


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_regrouping(suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inferl.sources.logs.regrouping.BUCKET", 1000)
    roles: dict[str, Any] = {"features": "x", "episode": "e", "order": "t", "discount": 0.9, "episodes_end": True}
    whole = in_time(6000, 150)
    whole = whole.set_column(3, "reward", pa.array(np.random.default_rng(0).normal(size=6000)))
    (tmp_path / "log").mkdir()
    for k in range(4):
        path = tmp_path / "log" / f"{k}{suffix}"
        piece = whole.slice(1500 * k, 1500)
        (parquet.write_table if suffix == ".parquet" else arrow_csv.write_csv)(piece, path)
    planned = plan(tmp_path / "log", rows=1000, regroup=tmp_path / "together", **roles)
    assert len(planned.parts) >= 4
    assert planned.cut.crossing == 0
    together = parquet.read_table(tmp_path / "together").to_pandas().astype(float)
    wanted = whole.to_pandas()
    assert together.sort_values(["e", "t"]).to_numpy().tolist() == wanted.sort_values(["e", "t"]).to_numpy().tolist()
    for _, own in together.groupby((together.e != together.e.shift()).cumsum()):
        assert own.t.tolist() == list(range(10))
    run, one = planned.evaluate(executor=Inline()), single(tmp_path / "log", **roles)
    assert run.evaluator.n == one.evaluator.n == 6000
    assert np.isclose(run.interval().estimate, one.interval().estimate, rtol=1e-9)
    assert np.isclose(run.interval().width, one.interval().width, rtol=0.02)
    written = (tmp_path / "together" / "part-00000.parquet").stat().st_mtime_ns
    plan(tmp_path / "log", regroup=tmp_path / "together", **roles)
    assert (tmp_path / "together" / "part-00000.parquet").stat().st_mtime_ns == written
    os.utime(tmp_path / "log" / f"0{suffix}")
    with pytest.raises(SettingError, match="holds something else"):
        plan(tmp_path / "log", regroup=tmp_path / "together", **roles)


def test_mixed_episodes_in_files_of_their_own(tmp_path: Path) -> None:
    whole = in_time(1000, 20)
    for k in range(4):
        own = whole.set_column(0, "e", pa.array(whole["e"].to_numpy() + 10_000 * k))
        parquet.write_table(own, tmp_path / f"{k}.parquet", row_group_size=300)
    roles: dict[str, Any] = {"features": "x", "episode": "e", "order": "t", "discount": 0.9, "episodes_end": True}
    planned = plan(tmp_path, rows=500, **roles)
    assert planned.cut.whole_files
    assert len(planned.parts) == 4
    run, one = planned.evaluate(executor=Inline()), single(tmp_path, **roles)
    assert run.evaluator.n == one.evaluator.n == 4000
    assert run.facts["episodes"] == "mixed in order of time, at most 100 open at once"
    assert run.facts["log"] == one.facts["log"]


def test_what_cannot_be_cut_or_merged(planned: Plan, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="only files are cut"):
        plan(frame(100), **ROLES)
    with pytest.raises(SettingError, match="OnlineBootstrap cannot be merged"):
        planned.evaluate(inferl.TD(2), inferl.OnlineBootstrap(inferl.Polynomial(1.0)), executor=Inline())
    with pytest.raises(SettingError, match="executor is 'ray'"):
        planned.evaluate(executor="ray")
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingError, match="is a folder, with a file for each part"):
        planned.evaluate(executor=Inline(), checkpoint=tmp_path / "file")


def test_one_stream_is_one_part(tmp_path: Path) -> None:
    log = write(tmp_path, frame(3000).select(["x", "reward"]), files=3)
    planned = plan(log, rows=500, features="x", discount=0.9)
    assert len(planned.parts) == 1
    assert planned.evaluate(executor=Inline()).evaluator.n == 2999


class Leaf:
    def __init__(self, text: str, n: int) -> None:
        self.text, self.evaluator, self.readings = text, SimpleNamespace(n=n), ()


@pytest.mark.parametrize(
    ("sizes", "tree"),
    [
        ([ENOUGH], "0"),
        ([ENOUGH] * 3, "((0 1) 2)"),
        ([ENOUGH] * 7, "(((0 1) (2 3)) ((4 5) 6))"),
        ([ENOUGH // 3 + 1] * 8, "(((0 1 2) (3 4 5)) (6 7))"),
        ([10, ENOUGH, 10], "((0 1) 2)"),
    ],
)
def test_the_tree_depends_on_the_parts_alone(sizes: list[int], tree: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inferl.scale.prefix.ENOUGH", ENOUGH)
    monkeypatch.setattr("inferl.scale.prefix.replace", lambda run, readings: SimpleNamespace(due=np.inf))
    merge: Any = lambda runs: Leaf(f"({' '.join(run.text for run in runs)})", 0)  # noqa: E731
    prefix: Any = Prefix(merge)
    for k, n in enumerate(sizes):
        prefix.add(Leaf(str(k), n))
    assert prefix.folded().text == tree
    assert prefix.n == sum(sizes)
