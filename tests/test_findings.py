"""Former errors that no check reported: each interval is correct now, or a check fails."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pandas
import pytest
from typer.testing import CliRunner

import inferl
from inferl import TD, DoublyRobust, Evaluator, Transitions
from inferl.baselines import monte_carlo, per_decision
from inferl.cli import app
from inferl.data.arrays import Floats
from inferl.diagnostics import Report, possible_range
from inferl.environments import FiniteMDP
from inferl.errors import DataError, SettingError
from inferl.features import Function, WithIntercept
from inferl.interval import Interval
from inferl.sources import Starts, rollout

SURE = 0.9999  # level of a seeded interval that must cover: one false alarm in 10,000 changes of the code


def failed(report: Report) -> set[str]:
    return {check.name for check in report.checks if check.failed}


def clinic(n: int, seed: int) -> tuple[Floats, Transitions, float]:
    """Patients for up to 4 visits, severity 0 to 3; who leaves well gets 1. Returns features, log and exact value."""
    rng = np.random.default_rng(seed)
    up, down = np.array([0.5, 0.3]), np.array([0.2, 0.4])  # by action: worse, better
    behaviour = np.array([[0.6, 0.4]] * 4)
    target = np.array([[0.8, 0.2], [0.5, 0.5], [0.4, 0.6], [0.3, 0.7]])
    well = np.array([1.0, 0.8, 0.3, 0.0])
    value = well.copy()  # after the last visit
    higher, lower = np.minimum(np.arange(4) + 1, 3), np.maximum(np.arange(4) - 1, 0)
    for _ in range(4):
        after = [up[a] * value[higher] + down[a] * value[lower] + (1 - up[a] - down[a]) * value for a in range(2)]
        value = (target * np.stack(after, axis=1)).sum(axis=1)
    start = np.array([0.1, 0.4, 0.3, 0.2])
    severity = np.empty((n, 5), int)
    severity[:, 0] = rng.choice(4, size=n, p=start)
    ratios = np.empty((n, 4))
    for t in range(4):
        now = severity[:, t]
        action = (rng.random(n) < behaviour[now, 1]).astype(int)
        ratios[:, t] = target[now, action] / behaviour[now, action]
        draw = rng.random(n)
        move = np.where(draw < up[action], 1, np.where(draw < up[action] + down[action], -1, 0))
        severity[:, t + 1] = np.clip(now + move, 0, 3)
    rewards = np.zeros((n, 4))
    rewards[:, 3] = rng.random(n) < well[severity[:, 4]]
    features = severity - 1.5  # no constant among them
    data = Transitions(
        features[:, :-1].reshape(-1, 1),
        rewards.ravel(),
        features[:, 1:].reshape(-1, 1),
        np.tile([1.0, 1.0, 1.0, 0.0], n),
        ratios.ravel(),
    )
    return features, data, float(start @ value)


def test_features_without_an_intercept() -> None:
    """A4: the error was 49 standard errors, and every check passed."""
    _, data, exact = clinic(2000, 1)
    evaluator = Evaluator(DoublyRobust(1)).update(data)
    assert exact in evaluator.interval(level=SURE)
    fitted = evaluator.report("fitted", SURE)
    assert exact not in fitted.interval
    assert "features" in failed(fitted)


def test_plain_td_without_an_intercept() -> None:
    """A4 where no returns are averaged: a combination of the features that is constant is missing."""
    columns, exact = paid_at_the_end(2000, 1)
    frame = pandas.DataFrame(columns).assign(severity=columns["severity"] - 1.5)
    for formula, size, missing in (("severity - 1", 1, True), ("severity", 2, False), ("C(severity) - 1", 4, False)):
        log = inferl.sources.table(frame, features=formula, episode="patient", ratio="ratio", discount=1.0)
        report = Evaluator(TD(size)).update(log).report(log.start(), SURE)
        assert ("intercept" in failed(report)) == missing
        assert (exact in report.interval) == (not missing)


def test_features_that_cannot_express_the_value() -> None:
    """A5: with an intercept, .82 instead of .95 at 4,000 patients."""
    _, data, exact = clinic(4000, 2)
    with_constant = Transitions(
        np.column_stack([np.ones(len(data)), data.features]),
        data.rewards,
        np.column_stack([np.ones(len(data)), data.next_features]),
        data.discounts,
        data.ratios,
    )
    evaluator = Evaluator(DoublyRobust(2)).update(with_constant)
    assert exact in evaluator.interval(level=SURE)
    assert "features" in failed(evaluator.report("fitted"))


def paid_at_the_end(n: int, seed: int) -> tuple[dict[str, Floats], float]:
    """A clinical log, one row a visit; the outcome is the reward of the last one. Returns its exact value, too."""
    _, data, exact = clinic(n, seed)
    assert isinstance(data.features, np.ndarray)
    columns = {
        "patient": np.repeat(np.arange(n), 4),
        "severity": data.features[:, 0] + 1.5,
        "reward": data.rewards,
        "terminated": data.discounts == 0,
        "ratio": data.ratios,
    }
    return columns, exact


@pytest.mark.parametrize("estimator", ["value", "fitted"])
def test_last_rows_that_are_dropped(estimator: str, tmp_path: Path) -> None:
    """A6: rewards are paid in the last rows, and no column says how episodes end. 1.6 instead of .4, gate passed."""
    columns, exact = paid_at_the_end(1000, 3)
    columns["reward"] = columns["reward"] + 1e-3 * np.random.default_rng(0).normal(size=4000)  # something is left
    path = tmp_path / "log.csv"
    pandas.DataFrame(columns).drop(columns="terminated").to_csv(path, index=False)
    command = ["evaluate", str(path), "--features", "severity", "--ratio", "ratio", "--episode", "patient"]
    command += ["--estimator", estimator, "--discount", "0.999", "--require-width", "1e9"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 1
    assert "gate not met: " in result.stderr
    assert "dropped rewards: no column says how the 1,000 episodes end" in result.stderr
    result = CliRunner().invoke(app, [*command, "--episodes-end", "--json"])
    assert result.exit_code == (estimator == "fitted")  # its features do not suffice
    interval = json.loads(result.stdout.splitlines()[-1])["interval"]
    if estimator == "value":
        assert abs(interval["estimate"] - exact) < 4 * interval["standard_error"]


@pytest.mark.parametrize("name", ["done", "dones", "terminal", "is_terminal", "terminals", "next.done", "terminateds"])
def test_columns_that_mark_ends(name: str) -> None:
    """A17: 20.5 instead of 14.3."""
    columns, exact = paid_at_the_end(1000, 4)
    columns[name] = columns.pop("terminated")
    log = inferl.sources.table(
        pandas.DataFrame(columns), features="severity", ratio="ratio", episode="patient", discount=1.0
    )
    report = Evaluator(DoublyRobust(2)).update(log).report(log.start(), SURE)
    assert exact in report.interval
    assert failed(report) == set()


def test_wrong_propensities() -> None:
    """A8: propensities replaced by 1/4; the mean ratio was 124 standard errors from 1, and nothing said so."""
    columns, exact = paid_at_the_end(1000, 5)
    columns["half"] = 0.5 * columns["ratio"]
    log = inferl.sources.table(
        pandas.DataFrame(columns),
        features="severity",
        ratio=["ratio", "half"],
        episode="patient",
        discount=1.0,
    )
    stack = inferl.Stack(DoublyRobust(2), DoublyRobust(2))
    report = Evaluator(stack).update(log).report(level=SURE)
    assert exact in next(iter(report.interval))
    assert {"mean ratio"} <= failed(report)
    assert "mean ratio: the mean ratio of policy 2 is 0.500, 138.6 standard errors from 1" in " ".join(
        report.interval.notes
    )
    with pytest.raises(DataError, match="sum"):
        inferl.policies.Table([[0.5, 0.3], [0.5, 0.5]])


def test_the_default_target_of_a_log_is_the_population() -> None:
    """A7: a one-step log; half of the width comes from the sampling of people."""
    held = {"population": 0, "these people": 0}
    for seed in range(200):
        rng = np.random.default_rng([7, seed])
        x = rng.normal(size=500)
        phi, rewards = np.column_stack([np.ones(500), x]), 1 + 2 * x + rng.normal(size=500)
        evaluator, starts = (
            Evaluator(DoublyRobust(2)).update(Transitions(phi, rewards, phi, 0.0)),
            Starts().updated(phi),
        )
        asked = [starts, starts.of(lambda conditional: Starts(), conditional=True)]
        population, observed = map(evaluator.interval, asked)
        held["population"] += 1.0 in population
        held["these people"] += 1 + 2 * x.mean() in observed
        assert observed.width < 0.55 * population.width
    assert all(180 <= number <= 199 for number in held.values())  # 200 draws of 95 %: outside once in 5,000 times
    assert str(evaluator.interval()) == str(population)
    assert population.estimand == "the value of the start distribution"
    assert observed.estimand == "the value of the observed starts"
    frame = pandas.DataFrame({"x": x, "reward": rewards, "terminated": True})
    log = inferl.sources.table(frame, features="x", discount=0.9)
    evaluator = Evaluator(DoublyRobust(2)).update(log)
    assert str(evaluator.interval(log.start())) == str(population)
    assert str(evaluator.interval(log.start(conditional=True))) == str(observed)


def test_files_that_cut_an_episode(tmp_path: Path) -> None:
    """A11: read one by one, 50 files lost 49 transitions and had 49 starts too many."""
    frame = pandas.DataFrame({"x": np.arange(500) / 500, "reward": 1.0, "e": 0})
    for n in range(50):
        frame[10 * n : 10 * (n + 1)].to_csv(tmp_path / f"{n}.csv", index=False)
    log = inferl.sources.table(tmp_path, features="x", episode="e")
    assert sum(map(len, log)) == 499
    assert (log.dropped, log.start().text) == (1, "the 1 observed starts")


def test_a_difference_on_one_log_is_refused_or_paired(tmp_path: Path) -> None:
    """A12: two policies on one log were treated as two logs; the standard error was three times too large."""
    columns, _ = paid_at_the_end(1000, 6)
    frame = pandas.DataFrame(columns | {"other": np.where(columns["ratio"] > 1, 1.05, 0.95) * columns["ratio"]})
    settings: dict[str, Any] = {"features": "severity", "episode": "patient", "discount": 1.0}
    logs = [inferl.sources.table(frame, ratio=ratio, **settings) for ratio in ("ratio", "other")]
    apart = [Evaluator(DoublyRobust(2)).update(log) for log in logs]
    with pytest.raises(SettingError, match=r"both saw one stream.* evaluate both policies at once with Stack"):
        inferl.difference(apart[0], apart[1])
    stack = inferl.Stack(DoublyRobust(2), DoublyRobust(2))
    both = Evaluator(stack).update(inferl.sources.table(frame, ratio=["ratio", "other"], **settings))
    first, second = stack.named_targets()["value"]
    paired = both.interval(first - second)
    assert paired.estimate == pytest.approx(apart[0].estimate() - apart[1].estimate())
    assert paired.standard_error < 0.3 * apart[0].interval().standard_error
    runs = []
    for name in ("ratio", "other"):  # the same log under two names
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
        command = ["evaluate", str(tmp_path / f"{name}.csv"), "--features", "severity", "--ratio", name]
        runs.append(str(tmp_path / f"{name}.run"))
        result = CliRunner().invoke(app, [*command, "--episode", "patient", "--checkpoint", runs[-1]])
        assert result.exit_code == 0, result.output
    result = CliRunner().invoke(app, ["compare", *runs])
    assert result.exit_code == 2
    assert "saw the same data" in result.stderr


def test_the_policies_of_the_package_are_target_policies() -> None:
    """B8: they were refused, and so were a classifier and a data frame of probabilities."""
    rng = np.random.default_rng(8)
    states, actions = rng.integers(3, size=200), rng.integers(2, size=200)
    frame = pandas.DataFrame({"s": states, "action": actions, "reward": 1.0 * actions, "terminated": True, "p": 0.5})
    law = np.array([[0.2, 0.8], [0.5, 0.5], [0.9, 0.1]])
    classifier = SimpleNamespace(predict_proba=lambda x: law[np.asarray(x, int)[:, 0]], classes_=np.array([0, 1]))
    policies: list[Any] = [
        inferl.policies.Table(law),
        inferl.policies.Probabilities(lambda state: law[state]),
        inferl.policies.epsilon_greedy(lambda state: int(state == 0), epsilon=0.4, n_actions=2),
        pandas.DataFrame(law),
        classifier,
    ]
    for policy in policies:
        log = inferl.sources.table(frame, state="s", n_states=3, policy=policy, behaviour_probability="p")
        (chunk,) = log
        known = law if policy is not policies[2] else np.array([[0.2, 0.8], [0.8, 0.2], [0.8, 0.2]])
        assert chunk.ratios == pytest.approx(known[states, actions] / 0.5)


def test_a_web_log_in_order_of_time() -> None:
    """B9: more than 4,096 open episodes were refused, here 20,000 users at once."""
    rng = np.random.default_rng(9)
    frame = pandas.DataFrame(
        {
            "user": np.tile(np.arange(20_000), 2),
            "step": np.repeat([0, 1], 20_000),
            "x": rng.normal(size=40_000),
            "reward": rng.normal(size=40_000),
            "terminated": np.repeat([False, True], 20_000),
        }
    )
    found = []
    for log in (frame, frame.sort_values(["user", "step"])):
        source = inferl.sources.table(log, features="x", episode="user", order="step", discount=0.9)
        evaluator = Evaluator(DoublyRobust(2)).update(source)
        assert (evaluator.n, source.start().number) == (40_000, 20_000)
        found.append(evaluator.interval())
    assert found[0].estimate == pytest.approx(found[1].estimate)
    assert found[0].standard_error == pytest.approx(found[1].standard_error)


def test_rows_that_were_appended_are_read(tmp_path: Path) -> None:
    """B10: `inferl resume` ignored them. Pipes are in tests/sources/test_pipes.py."""
    columns, _ = paid_at_the_end(200, 10)
    frame, log, run = pandas.DataFrame(columns), tmp_path / "log.csv", str(tmp_path / "a.run")
    frame[:500].to_csv(log, index=False)
    command = ["evaluate", str(log), "--features", "severity", "--ratio", "ratio", "--episode", "patient"]
    assert CliRunner().invoke(app, [*command, "--checkpoint", run]).exit_code == 0
    frame.to_csv(log, index=False)
    resumed, straight = CliRunner().invoke(app, ["resume", run]), CliRunner().invoke(app, command)
    assert resumed.stdout == straight.stdout
    assert "800 transitions" in resumed.stdout


def test_baselines_say_when_few_episodes_carry_the_weight() -> None:
    """A13: products of ratios with heavy tails."""
    rng = np.random.default_rng(0)
    n, steps = 200, 20
    ratios = rng.choice([0.3, 1.7], size=n * steps)
    zero = np.zeros(n * steps, int)
    data = Transitions(zero, rng.normal(1, 1, n * steps), zero, np.tile([1.0] * (steps - 1) + [0.0], n), ratios)
    for weighted in (False, True):
        notes = " ".join(per_decision(data, weighted=weighted).notes)
        assert "ratio tails" in notes or "mean ratio" in notes
    with pytest.raises(DataError, match="per_decision"):
        monte_carlo(data)


def taxi() -> tuple[FiniteMDP, Floats, float]:
    lake = FiniteMDP.from_toy_text(gymnasium.make("Taxi-v4"))
    policy = lake.optimal_policy(0.99)
    return lake, policy, float(lake.initial @ lake.values(policy, 0.99))


def test_starts_that_are_drawn_vary() -> None:
    """A14: Taxi under its optimal policy; only the start varies. The coverage was 0 of 40 runs."""
    lake, policy, exact = taxi()
    held = different = 0
    for seed in range(40):
        evaluators = []
        for own in (seed, 1000 + seed):
            data = lake.sample(policy, n=1300, seed=own).transitions(discount=0.99)
            ends = int(np.flatnonzero(data.last)[-1]) + 1
            evaluators.append(Evaluator(DoublyRobust(lake.n_states)).update(data[:ends]))
        held += exact in evaluators[0].interval()
        assert "features" not in failed(evaluators[0].report("fitted"))  # a table can express any value
        apart = inferl.difference(evaluators[0], evaluators[1])
        different += not apart.lower <= 0 <= apart.upper
    assert held >= 33  # of 40 at 95 %: fewer once in 2,000 times
    assert different <= 7  # likewise


def test_cartpole_with_linear_features() -> None:
    """A15: 0 of 9 intervals covered. A leaning policy; 34.26 is the mean of a million episodes."""
    env = gymnasium.make("CartPole-v1")
    features = WithIntercept(Function(lambda observations: np.asarray(observations, float), 4))
    source = rollout(env, lambda observation: int(observation[2] > 0), features, discount=0.99, seed=3)
    evaluator = Evaluator(DoublyRobust(5)).update(source.take(episodes=150))
    report = evaluator.report(source.start(), SURE)
    assert 34.26 in report.interval
    assert report.interval.estimand == "the value of the start distribution"
    assert failed(report) == set()
    alone = evaluator.report("fitted", SURE)
    assert 34.26 not in alone.interval
    assert "features" in failed(alone)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ((241, 15, 468), "and the estimate is 241"),
        ((60, 15, 105), "and the interval from 15 to 105 goes beyond"),
        ((60, -1, 90), "and the interval from -1 to 90 goes beyond"),
        ((60, 15, 90), None),
        ((60, -np.inf, np.inf), None),
    ],
)
def test_values_that_cannot_be(answer: tuple[float, float, float], message: str | None) -> None:
    """A15: 241 [15, 468] with rewards up to 1 and a discount of .99."""
    coin = np.random.default_rng(0).integers(2, size=300)
    episodes = Evaluator(TD(1)).update(Transitions(0 * coin, coin, 0 * coin, 0.99)).with_pending().episodes
    estimate, lower, upper = map(float, answer)
    check = possible_range(Interval(estimate, lower, upper, 0.95, "normal", 1.0, 300), episodes, "state")
    assert check is not None
    assert check.failed == (message is not None)
    assert "allow values from 0 to 100" in check.message
    assert (message or "") in check.message


def test_returns_up_to_the_time_limit() -> None:
    """A16: returns are counted up to the limit; the evaluator gave 529 where the maximum is 500."""
    env = gymnasium.make("CartPole-v1", max_episode_steps=60)
    features = WithIntercept(Function(lambda observations: np.asarray(observations, float), 4))

    def lean(observation: Floats) -> int:
        return int(observation[2] + 0.2 * observation[3] > 0)

    source = rollout(env, lean, features, discount=1.0, seed=0)
    data = Transitions.join(list(source.take(episodes=100)))
    returns = np.diff(np.r_[0, np.flatnonzero(data.last) + 1])
    report = Evaluator(DoublyRobust(5)).update(data).report()
    assert report.interval.estimate == pytest.approx(returns.mean())
    assert report.interval.estimand == "the mean return up to the time limit"
    assert "ended at the time limit" in str(report)
    assert monte_carlo(data).estimate == pytest.approx(returns.mean())
    cut = rollout(env, lean, features, discount=1.0, seed=0, time_limit="cut")
    beyond = Evaluator(DoublyRobust(5)).update(cut.take(episodes=100)).report()
    assert "ends" in failed(beyond)


def test_nonsense_is_refused() -> None:
    """A18: equal streams with different discounts, booleans as discounts, and an infinite sum of rewards."""
    rng = np.random.default_rng(0)
    zero, rewards, ends = np.zeros(400, int), rng.normal(size=400), np.arange(400) % 10 == 9

    def played(discount: float) -> Evaluator:
        return Evaluator(DoublyRobust(1)).update(Transitions(zero, rewards, zero, np.where(ends, 0.0, discount)))

    with pytest.raises(SettingError, match="Stack"):
        inferl.difference(played(0.9), played(0.9))
    with pytest.raises(SettingError, match="discounts differ"):
        inferl.difference(played(0.9), played(0.8))
    with pytest.raises(DataError, match="are booleans; they must be numbers"):
        Transitions(zero, rewards, zero, np.ones(400, bool))
    endless = Evaluator(TD(1)).update(Transitions(zero, rewards, zero, 1.0)).report(0)
    assert "ends" in failed(endless)
    assert "discount below 1" in str(endless)


def test_features_of_a_log_have_an_intercept() -> None:
    """A4: without one, the fitted value is wrong, and its interval is narrow."""
    rng, n = np.random.default_rng(0), 1500
    frames, severity = [], rng.uniform(0, 4, n)
    for day in range(4):
        alive = 0.9 - 0.15 * severity  # the value is linear in severity, and not through 0
        reward = (rng.random(n) < alive) * (day == 3)
        columns = {"patient": np.arange(n), "day": day, "severity": severity, "pressure": rng.normal(120, 10, n)}
        frames.append(pandas.DataFrame(columns | {"reward": reward * 1.0, "terminated": day == 3}))
    frame = pandas.concat(frames).sort_values(["patient", "day"])
    truth = 0.9 - 0.15 * severity.mean()
    features = ["severity", "pressure", "day"]
    answers = {}
    for name, given in (("with", features), ("without", [*features, "-1"])):
        log = inferl.sources.table(frame, features=given, episode="patient", order="day", discount=1.0)
        fitted = inferl.Evaluator(DoublyRobust(4 if name == "with" else 3)).update(log).interval("fitted")
        answers[name] = (fitted.lower <= truth <= fitted.upper, any("features" in note for note in fitted.notes))
    assert answers == {"with": (True, False), "without": (False, True)}
