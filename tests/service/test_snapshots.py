"""Snapshots say what the run says, for every method and kind; their difference is that of the library."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from mdps import small_problem

import inferl
from inferl import TD, DoublyRobust, Evaluator, OnlineBootstrap, Polynomial, Stack, Transitions, Window
from inferl.cli.answering import Answer
from inferl.comparison import welch
from inferl.display import finite
from inferl.errors import SettingError
from inferl.runs import Run
from inferl.service.snapshots import COLUMNS, History, _interval, difference, snapshot
from inferl.service.webhooks import happened


def run_of(method: str = "least squares", seed: int = 1, n: int = 3000, **settings: Any) -> Run:
    algorithm = DoublyRobust(2) if method == "least squares" else TD(2)
    evaluator = Evaluator(algorithm, OnlineBootstrap(Polynomial(0.3, 0.65)) if method == "bootstrap" else None)
    target = "value" if method == "least squares" else np.array([1.0, 0.5])
    run = Run(evaluator, target=target, **settings)
    run.take(small_problem().sample(n, seed=seed))
    return run


def numbers(found: dict[str, Any], *columns: str) -> list[list[float]]:
    return [[target[column] for column in columns] for target in found["targets"]]


@pytest.mark.parametrize("method", ["least squares", "bootstrap"])
@pytest.mark.parametrize("kind", [None, "normal", "anytime"])
def test_both_intervals_are_those_of_the_run(method: str, kind: str | None) -> None:
    run = run_of(method, kind=kind)
    found = snapshot(run, "one", time=5.0)
    pointwise, wide = run.interval("normal" if kind == "anytime" else None), run.interval("anytime")
    assert numbers(found, *COLUMNS) == [
        [pointwise.estimate, pointwise.lower, pointwise.upper, wide.lower, wide.upper, wide.standard_error]
    ]
    assert found["time"] == 5.0
    assert found["n"] == 3000
    assert found["episodes"] > 100


def test_checks_and_facts_are_those_of_the_command_and_all_of_it_is_json() -> None:
    run = run_of()
    found, printed = snapshot(run, "one"), finite(Answer.of(run).content(final=True))
    assert found["facts"] == printed["facts"]
    assert [{k: v for k, v in check.items() if k not in ("light", "question")} for check in found["checks"]] == printed[
        "checks"
    ]
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert sum(part for _, part in found["ratios"][0]["tails"]) == pytest.approx(1)


def test_several_policies_have_names_and_differences() -> None:
    problem = small_problem()
    path = problem.mdp.sample(problem.behaviour, 3000, seed=1)
    ratios = np.stack([path.ratios(problem.target, problem.behaviour), np.ones(3000)], axis=1)
    run = Run(Evaluator(Stack(DoublyRobust(2), DoublyRobust(2))), target="value", options={"ratio": "new,old"})
    run.take(path.transitions(problem.discount, problem.features, ratios))
    found, apart = snapshot(run, "both"), run.differences()
    assert apart is not None
    assert [target["name"] for target in found["targets"]] == ["new", "old"]
    assert [target["name"] for target in found["differences"]] == ["old - new"]
    assert found["differences"][0]["lower"] == np.ravel(apart.lower)[0]
    assert [ratio["policy"] for ratio in found["ratios"]] == ["new", "old"]


def test_before_the_first_episode_there_is_a_reason() -> None:
    found = snapshot(Run(Evaluator(TD(2))), "early", thresholds=[1.0])
    assert found["targets"] == []
    assert found["verdict"] == {
        "light": "grey",
        "text": "No answer yet: no episode has begun yet, so there is no observed start; read data first.",
    }
    json.dumps(found, allow_nan=False)


def test_an_empty_run_with_a_known_target_has_no_bounds() -> None:
    found = snapshot(Run(Evaluator(TD(2)), target=np.ones(2)), "early", thresholds=[1.0])
    assert numbers(found, "lower", "anytime_upper") == [[None, None]]
    assert found["targets"][0]["decisions"] == [{"threshold": 1.0, "is": "open"}]


def test_an_experiment_that_has_just_begun_is_not_called_broken() -> None:
    rng, run, lights = np.random.default_rng(0), Run(Evaluator(DoublyRobust(TD(1))), target="value"), []
    for k in range(1, 21):
        run.take(Transitions([0, 0], rng.normal(size=2), [0, 0], [1.0, 0.0]))
        found = snapshot(run, "young")
        lights.append(found["verdict"]["light"])
        if k == 2:
            assert found["verdict"]["text"] == "Gathering data: 2 of 16 episodes."
            assert [one["light"] for one in found["checks"] if one["name"] == "length"] == ["grey"]
    assert lights[:15] == ["grey"] * 15
    assert "grey" not in lights[15:]
    steps = Run(Evaluator(TD(1)), target=0)
    steps.take(Transitions(np.zeros(100, int), rng.normal(size=100), np.zeros(100, int), 0.9))
    assert snapshot(steps, "young")["verdict"]["text"] == "Gathering data: 100 of 250 transitions."
    steps.take(Transitions(np.zeros(900, int), np.ones(900), np.zeros(900, int), 0.9))
    assert snapshot(steps, "old")["verdict"]["light"] != "grey"
    still = Run(Evaluator(DoublyRobust(TD(1))), target="value")  # nothing varies, which is another matter
    still.take(Transitions([0] * 60, [1.0] * 60, [0] * 60, [1.0, 0.0] * 30))
    assert snapshot(still, "still")["verdict"]["light"] == "red"


def test_a_threshold_is_decided_by_the_anytime_interval_and_never_while_a_check_fails() -> None:
    run = run_of()
    wide = run.interval("anytime")
    thresholds = [wide.lower - 0.01, wide.lower + 0.01, wide.upper - 0.01, wide.upper + 0.01]
    found = snapshot(run, "one", thresholds)
    assert not any(check["status"] == "failed" for check in found["checks"])
    assert [one["is"] for one in found["targets"][0]["decisions"]] == ["above", "open", "open", "below"]

    wrong = Run(Evaluator(DoublyRobust(2)), target="value")
    path = small_problem().mdp.sample(small_problem().behaviour, 3000, seed=1)
    wrong.take(path.transitions(0.8, small_problem().features, np.full(3000, 1.5)))  # the mean ratio is not 1
    found = snapshot(wrong, "wrong", thresholds=[-1e9, 1e9])
    assert "mean ratio" in [check["name"] for check in found["checks"] if check["status"] == "failed"]
    assert [one["is"] for one in found["targets"][0]["decisions"]] == ["open", "open"]


@pytest.mark.parametrize("method", ["least squares", "td"])
def test_the_difference_is_that_of_the_library(method: str) -> None:
    one, other = run_of(method, seed=1), run_of(method, seed=2, n=5000)
    found = difference(snapshot(one, "a"), snapshot(other, "b"))
    for kind, columns in (("normal", ("lower", "upper")), ("anytime", ("anytime_lower", "anytime_upper"))):
        exact = inferl.difference(one.evaluator, other.evaluator, one.target, kind=kind)
        assert numbers(found, *columns) == [[exact.lower, exact.upper]]
    assert found["verdict"] == ["the data do not tell which is larger"]
    assert found["targets"][0]["estimate"] == exact.estimate


def test_no_difference_is_decided_while_a_check_fails() -> None:
    found = []
    for seed, mean in ((1, 0.0), (2, 9.0)):
        rng = np.random.default_rng(seed)
        run = Run(Evaluator(TD(1)), target=0)
        run.take(Transitions(np.zeros(2000, int), rng.normal(mean, 1, 2000), np.zeros(2000, int), 0.5))
        found.append(snapshot(run, f"mean {mean}"))
    assert difference(*found)["verdict"] == ["mean 0.0 is smaller"]
    found[1]["checks"] = [found[1]["checks"][0] | {"status": "failed"}]
    apart = difference(*found)
    assert apart["targets"][0]["upper"] < 0
    assert apart["verdict"] == ["not decided: a check failed"]


@pytest.mark.filterwarnings("error")
def test_huge_ratios_write_no_warning_into_the_log_of_the_server() -> None:
    rng, here = np.random.default_rng(0), np.zeros(2000, int)
    run = Run(Evaluator(TD(1)), target=0)
    run.take(Transitions(here, rng.normal(size=2000), here, 0.9, rng.choice([1e-9, 1e200], 2000)))
    (ratio,) = snapshot(run, "huge")["ratios"]
    assert ratio["largest"] == 1e200


def test_differences_that_mean_nothing_are_refused() -> None:
    one = snapshot(run_of(seed=1), "a")
    with pytest.raises(SettingError, match="a and b were fed the same stream"):
        difference(one, snapshot(run_of(seed=1), "b"))
    with pytest.raises(SettingError, match="b has no answer yet"):
        difference(one, snapshot(Run(Evaluator(TD(2))), "b"))
    with pytest.raises(SettingError, match="ask both the same question"):
        difference(one, snapshot(run_of("td", seed=2), "b"))
    with pytest.raises(SettingError, match=r"the level of a is 0.95, that of b 0.9"):
        difference(one, snapshot(run_of(seed=2, level=0.9), "b"))
    coin = np.random.default_rng(1).integers(2, size=2000)
    runs = [Run(Evaluator(TD(1)), target=0) for _ in range(2)]
    for run, discount in zip(runs, (0.9, 0.5), strict=True):
        run.take(Transitions(0 * coin, coin, 0 * coin, discount))
    with pytest.raises(SettingError, match=r"the discounts differ: 0.9 in a and 0.5 in b"):
        difference(snapshot(runs[0], "a"), {**snapshot(runs[1], "b"), "outcomes": ""})


def test_a_history_is_bounded_even_and_exact_at_its_end() -> None:
    history, most = History(most=100), 100
    seen: list[int] = []
    for n in range(1, 5001):
        history.add({"time": float(n), "n": n, "checks": [], "targets": []})
        seen = [row[1] for row in history.since().rows]
        assert len(seen) <= most + 1
        assert seen[0] == 1
        assert seen[-50:] == list(range(max(1, n - 49), n + 1))
    gaps = np.diff(seen[:-50])
    assert (gaps[:-1] == gaps[0]).all()  # evenly spaced up to the latest
    assert gaps[-1] <= gaps[0]
    assert len(gaps) >= 24


def test_rows_since_an_earlier_look_continue_what_was_seen() -> None:
    rng, history = np.random.default_rng(0), History(most=20)
    kept: list[int] = []
    era, end = -1, 0
    for n in range(1, 400):
        history.add({"time": float(n), "n": n, "checks": [], "targets": []})
        if rng.random() < 0.3:
            found = history.since(end)
            if found.era != era:
                found, kept = history.since(), []
            era, end = found.era, found.end
            kept += [row[1] for row in found.rows]
            assert kept == sorted(set(kept))
            assert kept[0] == 1
            assert kept[-1] == n
            assert len(kept) <= 31


def test_a_window_decides_by_the_interval_for_one_look_and_tells_nobody() -> None:
    found = []
    for seed, mean in ((1, 1.0), (2, 0.5)):
        rng = np.random.default_rng(seed)
        run = Run(Evaluator(TD(1), window=Window(panes=3, every=500)), target=0)
        for _ in range(8):
            run.take(Transitions(np.zeros(500, int), rng.normal(mean, 1, 500), np.zeros(500, int), 0.5))
        pointwise = run.interval()
        found.append(snapshot(run, f"mean {mean}", thresholds=[pointwise.lower - 0.01, pointwise.lower + 0.01]))
        (target,) = found[-1]["targets"]
        assert (target["lower"], target["anytime_lower"], target["text"]["anytime"]) == (pointwise.lower, None, None)
        assert [one["is"] for one in target["decisions"]] == ["above", "open"]
        assert found[-1]["window"] == {"text": "3 panes of 500 transitions, and the open one", "n": pointwise.n}
        assert [one.event for one in happened(found[-1])].count("decision") == 0
        assert json.loads(json.dumps(found[-1], allow_nan=False)) == found[-1]
    apart = difference(*found)
    assert apart["decided_by"] == "pointwise"
    assert apart["verdict"] == ["mean 1.0 is larger"]
    (target,) = apart["targets"]
    exact = welch(*(_interval(one) for one in found))
    assert (target["lower"], target["anytime_lower"]) == (float(exact.lower[0]), None)


def test_a_change_is_placed_by_episodes_also_if_they_have_another_length_from_then_on() -> None:
    rng, history = np.random.default_rng(0), History()
    run = Run(Evaluator(DoublyRobust(TD(1))), target="value")
    n = 0
    for k in range(60):
        length, mean = (8, 1.0) if k < 40 else (2, 4.0)  # fifty episodes at once; shorter ones are worth as much
        steps = 50 * length
        discounts = np.tile([1.0] * (length - 1) + [0.0], 50)
        rewards = rng.normal(mean + (k >= 40), 0.5, steps)
        run.take(Transitions(np.zeros(steps, int), rewards, np.zeros(steps, int), discounts))
        n += steps
        found = snapshot(run, "one", time=float(k))
        history.add(found)
    change = found["change"]
    assert (change["unit"], change["n"], change["time"]) == ("episodes", None, None)
    assert abs(change["ago"] - 1000) < 40
    placed = history.placed(change)
    assert abs(placed["n"] - 40 * 400) < 300
    assert abs(placed["time"] - 39) < 1
    assert abs(History.restored(history.saved(), n).placed(change)["n"] - placed["n"]) < 1


def test_a_change_before_the_history_has_no_time() -> None:
    history = History()
    history.add({"time": 5.0, "n": 100, "completed": 10, "checks": [], "targets": []})
    assert history.placed({"at": 9, "unit": "episodes"}) == {"at": 9, "unit": "episodes", "n": None, "time": None}
    assert history.placed({"at": 99, "unit": "steps"}) == {"at": 99, "unit": "steps", "n": 99, "time": None}
