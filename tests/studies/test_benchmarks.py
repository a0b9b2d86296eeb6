"""The benchmarks: rivals compute what the engine does, a run writes what the page is made of. No speed is tested."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import inferl
from inferl.algorithms import Algorithm
from inferl.data.arrays import Floats
from inferl.errors import DataError, MissingExtraError
from inferl.methods.bootstrap import BootstrapState
from studies.benchmarks import engine, parts, rivals
from studies.benchmarks.page import SHORT, SHORT_END, in_short, read, rendered, update_page
from studies.benchmarks.problems import STEP_SIZE, Problem, dense_problem, one_hot_problem
from studies.benchmarks.shapes import Shape
from studies.benchmarks.timing import Case, interleaved

N, P, B = 70, 3, 5
TINY = engine.Effort(rounds=2, seconds=1e-4, memory=1, calls=64, starts=1, rows=2_000)
SHAPES = (
    Shape("one-hot, tiny", 4, 3, checked=1e-9, faster=1e-9, share=None, one_hot=True, river=True),
    Shape("GTD2, tiny", 4, 3, checked=None, faster=1e9, share=1e-9, gtd2=True),
)


def problems() -> list[Problem]:
    return [dense_problem(N, P), one_hot_problem(N, P, N)]


def multipliers() -> Floats:
    """Those that the engine draws: (N, B)."""
    steps = np.arange(1, N + 1)
    return inferl.Multipliers().draw(7, steps, 0 * steps, np.arange(B)).T


def averages(algorithm: Algorithm, problem: Problem, n_replicas: int = B) -> Floats:
    """What the engine makes of it: the estimate and its replicas, (B + 1, d)."""
    method = inferl.OnlineBootstrap(STEP_SIZE, n_replicas, seed=7)
    state = inferl.Evaluator(algorithm, method).update(problem.transitions).with_pending().method
    assert isinstance(state, BootstrapState)
    return (state.iterate - state.average_offset / float(method.weight_sum(np.array(N)))).T[:, :P]


def rows(values: Floats) -> Any:
    source = iter(values)
    return lambda: next(source)


@pytest.mark.parametrize("problem", problems(), ids=["dense", "one-hot"])
def test_rivals_compute_algorithm_1(problem: Problem) -> None:
    ours = averages(inferl.TD(P), problem)
    w = multipliers()
    assert rivals.naive(problem, B, rows(w.ravel())) == pytest.approx(ours[1:], rel=1e-9)
    for printed in (False, True):
        assert rivals.step(problem, B, rows(w), printed) == pytest.approx(ours[1:], rel=1e-9)
        alone = rivals.step(problem, 2, lambda: np.ones(2), printed)
        assert alone == pytest.approx(ours[[0, 0]], rel=1e-9)  # without multipliers all replicas are the estimate
    ours = averages(inferl.GTD2(P), problem)
    for printed in (False, True):
        assert rivals.step_gtd2(problem, B, rows(w), printed) == pytest.approx(ours[1:], rel=1e-9)


@pytest.mark.parametrize("problem", problems(), ids=["dense", "one-hot"])
def test_jax_computes_algorithm_1(problem: Problem) -> None:
    pytest.importorskip("jax")
    w = multipliers()
    for algorithm in (inferl.TD(P), inferl.GTD2(P)):
        scan = rivals.JaxScan(B, gtd2=isinstance(algorithm, inferl.GTD2))
        ours = averages(algorithm, problem)
        columns = scan.prepare(problem)
        assert scan(columns, w) == pytest.approx(ours[1:], rel=1e-9)
        assert scan(columns, np.ones((N, B))) == pytest.approx(ours[[0] * B], rel=1e-9)
        own = scan(columns)  # its own multipliers: replicas differ
        assert np.all(np.isfinite(own))
        assert np.all(own.std(axis=0) > 0)


def test_multipliers_have_the_papers_law() -> None:
    draws = rivals.uniform(100_000)()
    assert draws.mean() == pytest.approx(1.0, abs=5 / 3 / np.sqrt(1e5))  # one false alarm in 10^6 seeds
    assert draws.std() == pytest.approx(1 / 3, abs=0.01)
    assert isinstance(rivals.uniform(None)(), float)


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jax", None)
    monkeypatch.setitem(sys.modules, "river.ensemble", None)
    with pytest.raises(MissingExtraError, match=r"jax is not installed: pip install 'inferl\[bench\]'"):
        rivals.JaxScan(2)
    with pytest.raises(MissingExtraError, match="river is not installed"):
        rivals.river_bagging(dense_problem(2, 2), 2)


def test_cases_take_turns() -> None:
    order: list[str] = []
    cases = [Case(name, lambda name=name: order.append(name), 2.0) for name in "ab"]  # type: ignore[misc]
    times = interleaved(cases, rounds=3)
    assert order == ["a", "b"] * 4  # once to warm up
    assert {name: len(own.seconds) for name, own in times.items()} == {"a": 3, "b": 3}


@pytest.fixture(scope="module")
def results() -> dict[str, Any]:
    with pytest.MonkeyPatch.context() as patch:  # as where the extra is not installed
        patch.setitem(sys.modules, "jax", None)
        patch.setitem(sys.modules, "river.ensemble", None)
        said: list[str] = []
        found = engine.run(TINY, "a test", said.append, SHAPES)
    assert any("jax is left out: jax is not installed" in line for line in said)
    assert any("river is left out" in line for line in said)
    return found


def test_a_run_writes_json(results: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "new" / "engine.json"
    engine.write(results, path)
    again = read(path)
    assert again == results
    assert json.loads(path.read_text())["machine"]["command"] == "a test"
    assert [shape["name"] for shape in again["shapes"]] == ["one-hot, tiny", "GTD2, tiny"]
    for shape in again["shapes"]:
        assert all(rate > 0 for rate in shape["transitions per second"].values())
        assert set(shape["over"]) >= {"step", "step as printed"}
    verdicts = {row["name"]: row["met"] for row in again["judged"]}
    assert verdicts["one-hot, tiny, with its checks: times the step"]
    assert not verdicts["GTD2, tiny, without checks: times the step"]
    assert verdicts["GTD2, tiny, without checks: share of the peak"]
    assert all(row["reach"] and row["shown"] for row in again["judged"])


def test_the_page_keeps_what_is_around_the_results(results: dict[str, Any], tmp_path: Path) -> None:
    page = tmp_path / "performance.md"
    update_page(page, results)
    fresh = page.read_text()
    assert rendered(results) in fresh
    assert "**not met**" in fresh
    (out_of_reach,) = (line for line in fresh.splitlines() if "could not be" in line)
    assert "GTD2, tiny (x" in out_of_reach
    assert "one-hot" not in out_of_reach
    assert results["machine"]["processor"] in fresh
    page.write_text(fresh + "\nWritten by hand.\n")
    update_page(page, results)
    assert page.read_text() == fresh + "\nWritten by hand.\n"
    page.write_text("# Another page\n")
    with pytest.raises(DataError, match="no place for the results"):
        update_page(page, results)


@pytest.mark.parametrize(("name", "written"), [("docs/performance.md", rendered), ("README.md", in_short)])
def test_the_pages_show_what_was_measured(name: str, written: Callable[[dict[str, Any]], str]) -> None:
    root = Path(__file__).parents[2]
    results = root / "studies" / "benchmarks" / "results" / "engine.json"
    assert written(read(results)) in (root / name).read_text(), "run make pages"


def test_the_page_of_plans_shows_what_was_measured() -> None:
    content = json.loads(parts.RESULTS.read_text())
    assert parts.facts(content) in parts.PAGE.read_text()
    assert content["rows"] >= 20_000_000
    one, many = content["one"]["interval"], content["many"]["interval"]
    assert many["estimate"] == pytest.approx(one["estimate"], rel=1e-9)
    assert many["upper"] - many["lower"] == pytest.approx(one["upper"] - one["lower"], rel=0.02)


def test_the_log_of_the_benchmark_of_plans_cuts_episodes(tmp_path: Path) -> None:
    parts.write_files(tmp_path, 1010, files=10)
    roles: dict[str, Any] = {"state": "state", "n_states": 50, "episode": "patient", "order": "hour"}
    assert inferl.scale.plan(tmp_path, rows=100, **roles).cut.crossing == 9


def test_a_page_with_marks_for_less_gets_less(results: dict[str, Any], tmp_path: Path) -> None:
    page = tmp_path / "README.md"
    page.write_text(f"# inferl\n\n{SHORT}\n{SHORT_END}\n\nMore.\n")
    update_page(page, results)
    assert page.read_text() == f"# inferl\n\n{SHORT}\n\n{in_short(results)}\n\n{SHORT_END}\n\nMore.\n"


def test_results_of_another_format_are_refused(results: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "old.json"
    engine.write(results | {"format": 0}, path)
    with pytest.raises(DataError, match="measure again"):
        read(path)
