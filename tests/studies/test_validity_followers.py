"""The study of what follows the paper: its recursion, its intervals, its large table, and what the page says of it."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.integrate import quad

import inferl
from studies.validity import followers, followers_page, iterates, page
from studies.validity.many_states import ManyStates

SIGNS = np.random.default_rng(0).choice([-1.0, 1.0], size=3_000)


CONTENT = json.loads((page.RESULTS / "followers.json").read_text())


def verdicts(method: str, problem: str) -> set[str]:
    """What the study found at the longest length, with any average and step size."""
    own = [c for c in CONTENT["cells"] if c["problem"] == problem and c["method"].startswith(method)]
    own = [c for c in own if c["length"] == followers_page.longest(own) and "from 0" not in c["method"]]
    assert own
    return {followers_page.verdict(c) for c in own}


@pytest.mark.parametrize("name", ["two-state chain .8", "random MDP, off-policy", "table of 2,500"])
def test_the_recursion_is_that_of_the_package(name: str) -> None:
    asked = followers.case(name)
    paths = [asked.sample(600, [1, k]) for k in range(2)]
    walked = followers.walk(asked, paths, asked.step_size)
    for path, along in zip(paths, walked.iterates, strict=True):
        for average in ("uniform", "linear"):
            method = inferl.OnlineBootstrap(
                asked.step_size, n_replicas=2, average=average, companion=False, initial=asked.start(path)
            )
            data = path.transitions(asked.discount, asked.features, asked.ratios(path))
            estimate = inferl.Evaluator(asked.walking, method).update(data).estimate(asked.target)
            assert iterates.averaged(along, average) == pytest.approx(float(estimate), rel=1e-9)


def test_the_quantile_of_random_scaling_is_that_of_the_literature() -> None:
    """The uniform average is independent of the bridge, whose integrated square has a known transform."""

    def exceeded(c: float) -> float:
        def term(angle: float) -> float:
            z = c / np.sin(angle)
            return float(np.sqrt(z / np.sinh(z))) if z < 700 else 0.0

        return 2 / np.pi * float(quad(term, 0.0, np.pi / 2)[0])

    assert exceeded(6.747) == pytest.approx(0.05, abs=2e-5)
    assert exceeded(iterates.critical_value("uniform")) == pytest.approx(0.05, abs=2e-5)


@pytest.mark.parametrize("average", ["uniform", "linear"])
def test_random_scaling_covers_a_mean(average: str) -> None:
    noise = np.random.default_rng(3).standard_normal((2_000, 400))
    missed = 0
    for path in noise:
        _, lower, upper = iterates.random_scaling(path, average)
        missed += not lower <= 0 <= upper
    assert 70 <= missed <= 132  # of 2,000 at 95 %: outside once in 600 times


def test_overlapping_batch_means_are_the_variance_of_all_windows() -> None:
    path, length = SIGNS[:200] + 0.1 * np.arange(200), 30
    windows = [path[t : t + length].mean() - path.mean() for t in range(len(path) - length + 1)]
    deviations = np.r_[0.0, np.cumsum(path - path.mean())]
    assert iterates.overlapping_batch_means(deviations, length) == pytest.approx(length * np.mean(np.square(windows)))


def test_online_batch_means_are_those_of_the_recursion() -> None:
    path, decay = SIGNS[:500], 0.65
    centred, total, lengths, batch, start = path - path.mean(), 0.0, 0, 1, 0
    for t in range(1, len(path) + 1):
        if t >= (batch + 1) ** (2 / (1 - decay)) // 1:
            batch, start = batch + 1, t - 1
        total += centred[start:t].sum() ** 2
        lengths += t - start
    deviations = np.r_[0.0, np.cumsum(centred)]
    assert iterates.online_batch_means(deviations, decay) == pytest.approx(total / lengths)


def test_long_run_variances_are_those_of_independent_values() -> None:
    """Without the loss of centring, which is large where batches are few."""
    sums = np.cumsum(np.random.default_rng(4).standard_normal((400, 5_000)), axis=1)
    deviations = [np.r_[0.0, path] for path in sums]
    found = [
        [iterates.batch_means(path, 0.65)[0] for path in deviations],
        [iterates.online_batch_means(path, 0.65) for path in deviations],
        [iterates.overlapping_batch_means(path, 600) for path in deviations],
    ]
    for variances in found:
        error = np.std(variances, ddof=1) / np.sqrt(len(variances))
        assert abs(np.mean(variances) - 1.0) < 4 * error < 0.25


def test_an_interval_allows_for_the_weights_of_the_average() -> None:
    assert iterates.around(0.0, 4.0, 100, "uniform")[2] == pytest.approx(1.959964 * 0.2)
    assert iterates.around(0.0, 4.0, 100, "linear")[2] == pytest.approx(1.959964 * 0.2 * np.sqrt(4 / 3))


@pytest.mark.parametrize("correlation", [0.0, 0.8])
def test_the_large_table_has_the_variance_that_it_says(correlation: float) -> None:
    many = ManyStates(40, correlation)
    path = many.path(200_000, [5])
    now, later = many.values[path.states], many.values[path.next_states]
    scores = (path.rewards + many.discount * later - now) / (1 - many.discount)
    assert abs(scores.mean()) < 4 * np.sqrt(many.rate / len(scores))
    sums = scores.reshape(-1, 200).sum(axis=1)
    assert float(np.var(sums) / 200) == pytest.approx(many.rate, rel=0.15)
    assert np.bincount(path.states, minlength=40) == pytest.approx(np.full(40, 5_000), rel=0.1)


def test_plug_in_solves_the_equation() -> None:
    """With one constant feature A is 1 - discount, and the scores are rewards about their mean."""
    asked = followers.case("two-state chain .8")
    path = asked.sample(4_000, [6])
    errors = path.rewards - path.rewards.mean()
    found = followers.plug_in(asked, path, errors, {"uniform": 0.0})
    reach = 1.959964 * errors.std() / (1 - asked.discount) / np.sqrt(4_000)
    assert found["plug-in, independent|uniform"] == pytest.approx((0.0, -reach, reach), rel=1e-6)
    assert found["plug-in, batches|uniform"][2] > 2 * reach


def test_a_diverged_interval_counts_as_lost() -> None:
    asked = followers.case("two-state chain .8")
    rows = [(0.0, -1.0, 1.0), (np.nan, np.nan, np.nan)]
    found = followers.cell(asked, rows, problem="", method="", length=100)
    assert (found["covered"], found["infinite"], found["repeats"]) == (1, 1, 2)


def test_what_is_recommended_for_many_parameters_is_nominal() -> None:
    for problem in ("table of 2,500", "table of 2,500, dependent"):
        assert verdicts("bootstrap by block", problem) == {"nominal"}
        for method in ("batch means", "online batch means", "subsample bootstrap"):
            assert verdicts(method, problem) == {"too low"}
    assert verdicts("bootstrap by step", "table of 2,500, dependent") == {"too low"}
    assert verdicts("bootstrap by step", "table of 2,500") == {"nominal"}
    (zero,) = (c for c in CONTENT["cells"] if "from 0" in c["method"] and c["length"] == 150_000)
    assert followers_page.verdict(zero) == "too low"
    assert zero["bias"] < -2


def test_independent_steps_are_too_narrow_where_they_depend_on_each_other() -> None:
    for problem in ("two-state chain .8", "ring 20/4, lazy"):
        assert verdicts("plug-in, independent", problem) == {"too low"}
        assert verdicts("bootstrap by step", problem) == {"too low"}
    for method in ("batch means", "online batch means", "subsample bootstrap"):
        assert verdicts(method, "ring 20/4, lazy") == {"too low"}
    chain = [c for c in CONTENT["cells"] if c["problem"] == "two-state chain .8" and c["method"] == "batch means"]
    for step, verdict in (("larger", "nominal"), ("automatic", "too low")):
        assert {followers_page.verdict(c) for c in chain if c["length"] == 32_000 and c["step"] == step} == {verdict}


def test_blocks_are_not_needed_where_steps_do_not_depend_on_each_other() -> None:
    for problem in ("FrozenLake", "random MDP, off-policy"):
        assert verdicts("bootstrap by step", problem) <= {"nominal", "too high"}


def test_every_result_of_the_study_is_there() -> None:
    places = {(c["problem"], c["length"]) for c in CONTENT["cells"]}
    assert len(places) == sum(len(followers.case(name).lengths) for name in followers.CASES)
    assert {c["repeats"] for c in CONTENT["cells"]} == {200, 150}
    assert CONTENT["critical_values"]["uniform"] == pytest.approx(6.747, abs=1e-3)
