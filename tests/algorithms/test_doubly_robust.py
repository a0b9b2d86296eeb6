"""The value of the start distribution, for any features: identities up to rounding, and the contract."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import inferl
from inferl import TD, DoublyRobust, Evaluator, LeastSquares, Stack, Transitions
from inferl.baselines import monte_carlo
from inferl.data.arrays import Floats
from inferl.data.streams import Streams
from inferl.errors import SettingError, ShapeError, TargetError
from inferl.sources.starts import Starts
from inferl.testing import assert_same_bits, check_chunks, check_flat_memory, check_resume, evaluated

D = 4
EPISODES = LeastSquares("episode")


def walk(
    n: int, seed: int, *, tabular: bool = False, ratios: bool = False, discount: float = 0.9, cut: float = 0.0
) -> Transitions:
    """A walk over 12 states, in episodes of about 10 steps; features distinguish groups of three, or nothing."""
    rng = np.random.default_rng(seed)
    table = np.random.default_rng(99).normal(size=(12, D))
    ends, cuts = rng.random(n) < 0.1, rng.random(n) < cut
    ends[-1] = True
    state, after = np.zeros(n, np.int64), np.zeros(n, np.int64)
    now = int(rng.integers(12))
    for t in range(n):
        state[t], after[t] = now, (now + rng.integers(-1, 2)) % 12
        now = int(rng.integers(12)) if ends[t] or cuts[t] else int(after[t])
    rewards = np.sin(state) + rng.normal(size=n)
    weight = rng.choice([0.4, 0.8, 1.2, 1.6], size=n) if ratios else np.ones(n)
    phi, phi_next = (state // 3, after // 3) if tabular else (table[state], table[after])
    return Transitions(phi, rewards, phi_next, np.where(ends, 0.0, discount), weight, last=ends | cuts)


def plain(data: Transitions, theta: Floats) -> dict[str, float]:
    """The four numbers, by loops over episodes."""
    _, steps = Streams().place(data)
    phi, after = (x if x.ndim == 2 else np.eye(D)[x] for x in (data.features, data.next_features))
    delta = data.rewards + data.discounts * (after @ theta) - phi @ theta
    sums = dict.fromkeys(("fitted", "gap", "cut", "early"), 0.0)
    open_: dict[int, list[float]] = {}
    for t in range(len(data)):
        slot = int(steps.clock.slot[t])
        if steps.first[t]:
            open_[slot] = [1.0, 1.0]
            sums["fitted"] += float(phi[t] @ theta)
        y, x = open_[slot]
        sums["gap"] += data.ratios[t] * y * delta[t]
        sums["cut"] += data.ratios[t] * min(y, 1) * delta[t]
        sums["early"] += data.ratios[t] * min(x, 1) * delta[t]
        decay = data.discounts[t] * data.ratios[t]
        open_[slot] = [decay * y, decay * x / 2]
    return {name: float(total / steps.first.sum()) for name, total in sums.items()}


@pytest.mark.parametrize("tabular", [False, True])
@pytest.mark.parametrize("ratios", [False, True])
@pytest.mark.parametrize("trace", [0.0, 0.5])
def test_it_is_the_plain_formulas(tabular: bool, ratios: bool, trace: float) -> None:
    data = walk(900, 0, tabular=tabular, ratios=ratios, cut=0.02)
    evaluator = Evaluator(DoublyRobust(TD(D, trace))).update(data)
    theta = Evaluator(TD(D, trace)).update(data).interval(np.eye(D)).estimate
    np.testing.assert_allclose(evaluator.interval(np.eye(D)).estimate, theta, rtol=1e-10)
    found = plain(data, theta)
    assert evaluator.estimate("fitted") == pytest.approx(found["fitted"], rel=1e-9)
    assert evaluator.estimate("gap") == pytest.approx(found["gap"], rel=1e-9)
    assert evaluator.estimate() == pytest.approx(found["fitted"] + found["gap"], rel=1e-9)
    (rows,) = evaluator.algorithm.checked_targets()
    np.testing.assert_allclose(evaluator.interval(rows[3:]).estimate, [found["cut"], found["early"]], rtol=1e-8)


@pytest.mark.parametrize("tabular", [False, True])
def test_on_policy_it_is_the_mean_return(tabular: bool) -> None:
    """Z = G for every theta, if all episodes terminate: the same estimate, and the same standard error."""
    data = walk(3000, 1, tabular=tabular)
    one, other = Evaluator(DoublyRobust(D)).update(data).interval(), monte_carlo(data)
    assert one.estimate == pytest.approx(other.estimate, rel=1e-10)
    assert one.standard_error == pytest.approx(other.standard_error, rel=1e-8)


def test_undiscounted_with_a_constant_the_fitted_value_is_the_mean_return() -> None:
    data = walk(3000, 2, tabular=True, discount=1.0)
    evaluator = Evaluator(DoublyRobust(D)).update(data)
    assert evaluator.estimate("fitted") == pytest.approx(monte_carlo(data).estimate, rel=1e-10)
    assert evaluator.estimate("gap") == pytest.approx(0.0, abs=1e-9)


def test_theta_has_the_bits_of_td() -> None:
    for tabular in (False, True):
        data = walk(5000, 3, tabular=tabular, ratios=True)
        one, other = Evaluator(DoublyRobust(D), EPISODES).update(data), Evaluator(TD(D), EPISODES).update(data)
        assert one.interval(np.eye(D)).estimate.tobytes() == other.interval(np.eye(D)).estimate.tobytes()


@pytest.mark.parametrize("tabular", [False, True])
@pytest.mark.parametrize("trace", [0.0, 0.3])
def test_the_short_form_is_the_terms_written_out(tabular: bool, trace: float) -> None:
    data = walk(200, 4, tabular=tabular, ratios=True, cut=0.05)
    algorithm = DoublyRobust(TD(D, trace))
    _, steps = Streams().place(data)
    short, _, _ = algorithm.increments(steps, {})
    long = short.expanded()
    method, theta = LeastSquares(), np.random.default_rng(0).normal(size=D + 4)
    states = [method.init(algorithm) for _ in range(2)]
    found = []
    for state, rows in zip(states, (short, long), strict=True):
        method._make_room(state, rows)  # type: ignore[arg-type]
        state.sums.add(state.coordinates.relabelled(rows))  # type: ignore[arg-type]
        place = state.coordinates.index
        matrix, vector = state.sums.total()
        found.append((matrix[np.ix_(place, place)], vector[place]))
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-10, atol=1e-10)
    inverse = np.zeros((D + 4, D + 4))
    inverse[:D, :D] = np.linalg.inv(found[0][0][:D, :D])
    from inferl.data.vectors import dense

    for given_inverse in (None, inverse):
        np.testing.assert_allclose(
            dense(short.scores(theta, given_inverse)), dense(long.scores(theta, given_inverse)), rtol=1e-9, atol=1e-9
        )


def test_means_of_enumerated_transitions_are_the_closed_form() -> None:
    """Off-policy on a small MDP with episodes: the expected increment is 0 at theta, V(nu) - phi.theta, and so on."""
    rng = np.random.default_rng(5)
    n_states, n_actions, discount = 5, 2, 0.8
    law = rng.dirichlet(np.ones(n_states + 1), size=(n_states, n_actions))  # the last is the end
    reward = rng.normal(size=(n_states, n_actions))
    behaviour, target = (rng.dirichlet(np.ones(n_actions) * 3, size=n_states) for _ in range(2))
    start, phi = rng.dirichlet(np.ones(n_states)), rng.normal(size=(n_states, 2))
    step = np.einsum("sa,san->sn", target, law[:, :, :-1])
    value = np.linalg.solve(np.eye(n_states) - discount * step, (target * reward).sum(axis=1))
    # Propagate the state distribution of the behaviour, and the mean weight of the start, until both vanish.
    weighted, visits = start.copy(), start.copy()
    of_weight = np.zeros(n_states)
    of_visits = np.zeros(n_states)
    for _ in range(2000):
        of_weight, of_visits = of_weight + weighted, of_visits + visits
        weighted = discount * weighted @ step
        visits = visits @ np.einsum("sa,san->sn", behaviour, law[:, :, :-1])
    r = (target * reward).sum(axis=1)
    a = phi.T @ (of_visits[:, None] * (phi - discount * step @ phi))
    theta = np.linalg.solve(a, phi.T @ (of_visits * r))
    gap = of_weight @ (r + discount * step @ phi @ theta - phi @ theta)
    assert start @ phi @ theta + gap == pytest.approx(start @ value, rel=1e-10)
    # And a long simulation agrees with these numbers.
    n = 60_000
    states, actions, afters = np.empty(n, int), np.empty(n, int), np.empty(n, int)
    now = int(rng.choice(n_states, p=start))
    for t in range(n):
        action = int(rng.random() < behaviour[now, 1])
        after = int(np.searchsorted(np.cumsum(law[now, action]), rng.random()))
        states[t], actions[t], afters[t] = now, action, min(after, n_states)
        now = int(rng.choice(n_states, p=start)) if after >= n_states else after
    ended = afters == n_states
    data = Transitions(
        phi[states],
        reward[states, actions],
        phi[np.where(ended, 0, afters)],
        np.where(ended, 0.0, discount),
        target[states, actions] / behaviour[states, actions],
    )
    evaluator = Evaluator(DoublyRobust(2)).update(data)
    for name, exact in (("value", float(start @ value)), ("fitted", float(start @ phi @ theta)), ("gap", float(gap))):
        assert exact in evaluator.interval(name, level=0.9999), name


@pytest.mark.parametrize("method", [EPISODES, LeastSquares()])
@pytest.mark.parametrize("tabular", [False, True])
@pytest.mark.usefixtures("both_epochs")
def test_it_keeps_the_promises(method: LeastSquares, tabular: bool) -> None:
    data = walk(700, 6, tabular=tabular, ratios=True, cut=0.02)
    data = replace(
        data, stream=np.random.default_rng(0).integers(3, size=700), truncated=data.last & (data.discounts > 0)
    )
    algorithm = DoublyRobust(TD(D))
    check_chunks(algorithm, method, data, cuts=(1, 2, 63, 64, 65, 130, 200))
    check_chunks(algorithm, method, data, cuts=range(1, len(data)))
    check_resume(algorithm, method, data, stop=97)
    check_resume(algorithm, method, data, stop=299)
    check_flat_memory(algorithm, method, data)


def test_steps_observed_one_by_one_are_a_chunk() -> None:
    data = walk(300, 7, tabular=True, ratios=True)
    one, other = Evaluator(DoublyRobust(D)), evaluated(DoublyRobust(D), EPISODES, data)
    columns = (data.features, data.rewards, data.next_features, data.discounts, data.ratios)
    for phi, r, after, g, rho in zip(*(column.tolist() for column in columns), strict=True):
        one.observe(phi, r, after, g, rho)
    assert_same_bits(one, other)


def test_merged_halves_agree_with_the_whole() -> None:
    data = walk(20_000, 8)
    cut = int(np.flatnonzero(data.last)[700]) + 1
    halves = [Evaluator(DoublyRobust(D)).update(part) for part in (data[:cut], data[cut:])]
    merged, whole = inferl.merge(*halves), Evaluator(DoublyRobust(D)).update(data)
    for name in ("value", "fitted", "gap"):
        one, other = merged.interval(name), whole.interval(name)
        assert one.estimate == pytest.approx(other.estimate, rel=1e-9)
        assert one.standard_error == pytest.approx(other.standard_error, rel=0.05)
    assert merged.with_pending().episodes.closed == whole.with_pending().episodes.closed


def test_two_policies_on_one_log() -> None:
    data = walk(4000, 9)
    other = np.random.default_rng(1).choice([0.5, 1.5], size=4000)
    both = Evaluator(Stack(DoublyRobust(D), DoublyRobust(D))).update(
        data.with_ratios(np.column_stack([data.ratios, other]))
    )
    alone = [Evaluator(DoublyRobust(D)).update(data.with_ratios(r)).estimate() for r in (data.ratios, other)]
    found = both.interval("value")
    np.testing.assert_allclose(found.estimate, alone, rtol=1e-8)
    rows = both.algorithm.named_targets()["value"]
    difference = both.interval(rows[1] - rows[0])
    assert difference.estimate == pytest.approx(alone[1] - alone[0], rel=1e-6)
    assert difference.standard_error < np.hypot(*found.standard_error)


def test_a_difference_of_two_values_does_not_depend_on_the_features() -> None:
    """So their misfit, which fails the check of the fitted values, does not fail that of the difference."""
    data = walk(4000, 6, ratios=True)
    ends = data.discounts == 0  # rewards at the ends alone, with an intercept missing: the features do not fit
    data = replace(data, rewards=np.where(ends, 5.0, 0.0))
    evaluator = Evaluator(Stack(DoublyRobust(D), DoublyRobust(D)))
    evaluator.update(data.with_ratios(np.stack([data.ratios, np.ones(len(data))], axis=1)))
    values = evaluator.algorithm.named_targets()["value"]
    difference = evaluator.report(values[0] - values[1])
    assert not [check.name for check in difference.checks if check.failed]
    assert difference.interval.estimand.startswith("a combination of several policies' values")
    fitted = evaluator.report(evaluator.algorithm.named_targets()["fitted"][0])
    assert [check.name for check in fitted.checks if check.failed] == ["features"]


@pytest.mark.parametrize("tabular", [False, True])
def test_visits_to_a_state_are_starts(tabular: bool) -> None:
    """A ring of six states without episodes, with features that cannot express the value of state 0."""
    rng, n, discount = np.random.default_rng(10), 40_000, 0.8
    state = np.cumsum(np.r_[0, np.where(rng.random(n) < 0.7, 1, -1)]) % 6
    pay = np.array([0.0, 1.0, 0.0, -2.0, 0.0, 3.0])
    law = np.array([[0.7 * (j == (i + 1) % 6) + 0.3 * (j == (i - 1) % 6) for j in range(6)] for i in range(6)])
    exact = np.linalg.solve(np.eye(6) - discount * law, pay)[0]
    table = np.column_stack([np.ones(6), [0.0, 1, 1, 2, 2, 2]])
    group = np.array([0, 1, 1, 1, 1, 1])
    features: Any = group[state] if tabular else table[state]
    data = Transitions(features[:-1], pay[state[:-1]], features[1:], discount)
    start: Any = 0 if tabular else table[0]
    evaluator = Evaluator(DoublyRobust(2, start=start)).update(data)
    assert evaluator.method == LeastSquares("dyadic")
    assert exact in evaluator.interval(level=0.9999)
    assert exact not in evaluator.interval(start, level=0.9999)
    assert evaluator.interval().estimand == "the value at the given start state"


def test_a_stream_without_episodes_has_no_interval_and_says_what_to_do() -> None:
    data = walk(2000, 11)
    data = replace(data, discounts=np.full(2000, 0.9), last=np.zeros(2000, bool), truncated=np.zeros(2000, bool))
    report = Evaluator(DoublyRobust(D)).update(data).report()
    assert report.interval.width == np.inf
    assert "name a start state whose visits count as starts" in " ".join(report.interval.notes)


def test_a_known_start_needs_no_starts_drawn() -> None:
    data = walk(4000, 12)
    c = np.random.default_rng(99).normal(size=(12, D)).mean(axis=0)  # starts are uniform over the states
    evaluator = Evaluator(DoublyRobust(D)).update(data)
    found = evaluator.interval(("value", c))
    assert found.estimate == pytest.approx(evaluator.estimate(c) + evaluator.estimate("gap"), rel=1e-9)
    assert found.estimand == "the value of the start distribution, whose mean features are known"


def test_what_may_be_asked_for() -> None:
    evaluator = Evaluator(DoublyRobust(D)).update(walk(500, 13))
    assert evaluator.interval().estimate == evaluator.interval("value").estimate
    with pytest.raises(TargetError, match="'value', 'fitted', 'gap'"):
        evaluator.interval("worth")
    with pytest.raises(TargetError, match="DoublyRobust"):
        Evaluator(TD(D)).update(walk(500, 13)).interval()


def test_what_is_refused() -> None:
    with pytest.raises(SettingError, match="LeastSquares"):
        Evaluator(DoublyRobust(D), inferl.OnlineBootstrap(inferl.Polynomial(1.0)))
    with pytest.raises(SettingError, match="takes TD"):
        DoublyRobust(inferl.GTD2(D))  # type: ignore[arg-type]
    with pytest.raises(SettingError, match="start is"):
        DoublyRobust(D, start=[1.0, 2.0])
    with pytest.raises(SettingError, match="start is"):
        DoublyRobust(D, start=D)
    with pytest.raises(ShapeError, match="in the same form"):
        Evaluator(DoublyRobust(D, start=0)).update(walk(100, 14))


@settings(max_examples=10, deadline=None)
@given(exponents=st.tuples(*[st.floats(-8, 8)] * D), power=st.floats(-8, 8), ratios=st.booleans())
def test_it_does_not_depend_on_units(exponents: tuple[float, ...], power: float, ratios: bool) -> None:
    data, factors, reward = walk(1500, 15, ratios=ratios), 10.0 ** np.array(exponents), 10.0**power
    scaled = replace(
        data,
        features=data.features * factors,
        next_features=data.next_features * factors,
        rewards=data.rewards * reward,
    )
    one, other = (Evaluator(DoublyRobust(D)).update(rows) for rows in (data, scaled))
    for target in ("value", "fitted"):
        left, right = one.interval(target), other.interval(target)
        for name in ("estimate", "lower", "upper"):
            assert abs(getattr(left, name) - getattr(right, name) / reward) < 1e-6 * left.width


def test_it_survives_a_file(tmp_path: Path) -> None:
    for algorithm in (DoublyRobust(D), DoublyRobust(TD(D, 0.5)), DoublyRobust(D, start=np.arange(4.0))):
        evaluator = Evaluator(algorithm).update(walk(300, 16))
        evaluator.save(tmp_path / "run")
        loaded = Evaluator.load(tmp_path / "run", algorithm)
        assert loaded.algorithm == algorithm
        assert str(loaded.interval()) == str(evaluator.interval())


@pytest.mark.usefixtures("both_epochs")
def test_a_table_that_grows_keeps_the_promises() -> None:
    """States appear one by one, so their indices come after those of the four appended parameters."""
    rng, n = np.random.default_rng(20), 900
    state = np.minimum(np.arange(n + 1) // 20, 39) - rng.integers(0, 3, n + 1)
    state = np.maximum(state, 0)
    ends = rng.random(n) < 0.1
    data = Transitions(state[:-1], rng.normal(size=n), state[1:], np.where(ends, 0.0, 0.9), rng.choice([0.5, 1.5], n))
    for method in (EPISODES, LeastSquares()):
        check_chunks(DoublyRobust(40), method, data, cuts=range(1, n, 7))
        check_resume(DoublyRobust(40), method, data, stop=333)
    grown = Evaluator(DoublyRobust(40)).update(data)
    vectors = replace(data, features=np.eye(40)[data.features], next_features=np.eye(40)[data.next_features])
    dense_one = Evaluator(DoublyRobust(40)).update(vectors)
    assert grown.estimate() == pytest.approx(dense_one.estimate(), rel=1e-6)


def test_a_known_start_may_be_the_observed_one() -> None:
    """The mean of the observed starts, as an array or as a source gives it, is the value itself."""
    data = walk(1000, 21)
    evaluator = Evaluator(DoublyRobust(D)).update(data)
    _, steps = Streams().place(data)
    starts = Starts().updated(data.features[steps.first])
    assert evaluator.estimate(("value", starts)) == pytest.approx(evaluator.estimate(), rel=1e-9)
    assert evaluator.estimate(("value", np.asarray(starts))) == pytest.approx(evaluator.estimate(), rel=1e-9)
    assert evaluator.interval(("value", np.eye(D))).estimate.shape == (D,)
    for wrong in (("value", None), ("worth", np.ones(D))):
        with pytest.raises(TargetError, match="mean features"):
            evaluator.interval(wrong)


def test_visits_before_cuts_rest_on_the_features() -> None:
    """Truncated after five steps, with a growing reward: most of the value of a visit lies beyond."""
    state = np.tile(np.arange(5), 400)
    cut = state == 4
    data = Transitions((state > 0).astype(int), state.astype(float), np.ones(2000, int), 0.99, last=cut)
    report = Evaluator(DoublyRobust(2, start=0)).update(data).report()
    assert {check.name for check in report.checks if check.failed} >= {"ends"}
    assert "does not depend on them" not in str(report)


def test_steps_that_a_limit_ends_are_the_last() -> None:
    """`truncated` alone ends an episode, in a chunk and step by step."""
    evaluator = Evaluator(DoublyRobust(1))
    for t in range(100):
        evaluator.observe(0, 1.0, 0, 0.9, truncated=t % 10 == 9)
    zero = np.zeros(100, int)
    chunk = Transitions(zero, np.ones(100), zero, 0.9, truncated=np.arange(100) % 10 == 9)
    assert evaluator.episodes == Evaluator(DoublyRobust(1)).update(chunk).episodes == 10
    assert evaluator.with_pending().episodes.cut == 10


def test_what_the_offline_bootstrap_and_merge_refuse() -> None:
    with pytest.raises(SettingError, match="monte_carlo"):
        inferl.baselines.offline_bootstrap(walk(100, 22), DoublyRobust(D), LeastSquares(), np.ones(D))
    both = Stack(DoublyRobust(D), DoublyRobust(D))
    one, other = Evaluator(both).update(walk(100, 23)), Evaluator(both)
    other.update(walk(100, 24).with_ratios(np.ones((100, 2))))
    with pytest.raises(SettingError, match="several"):
        inferl.merge(one, other)


def test_before_an_episode_has_ended_the_answer_rests_on_the_features() -> None:
    """As in a log in order of time, read from a pipe: what has not ended yet is continued by the features."""
    rng = np.random.default_rng(3)
    steps, users = 3, 400
    rewards = rng.random((steps, users)) < 0.1
    one, stream = np.ones((steps * users, 1)), np.tile(np.arange(users), steps)
    data = Transitions(one, rewards.ravel().astype(float), one, 0.9, stream=stream, episode=stream)
    report = Evaluator(DoublyRobust(1)).update(data).report()
    (ends,) = [check for check in report.checks if check.name == "ends"]
    assert ends.failed
    assert ends.message.startswith("none of 400 episodes has ended; 72.9% of the discounted weight")


@pytest.mark.parametrize("length", [300, 10_000])
def test_the_standard_error_of_long_episodes_is_that_of_their_returns(length: int) -> None:
    """No episode ends within the first epoch of rows, so that nothing identifies a first pilot."""
    rng, episodes = np.random.default_rng(0), 20
    state, ends = np.zeros(length * episodes, np.int64), np.arange(1, length * episodes + 1) % length == 0
    rewards = 1 + rng.normal(size=length * episodes)
    data = Transitions(state, rewards, state, np.where(ends, 0.0, 1.0))
    returns = rewards.reshape(episodes, length).sum(axis=1)
    found = Evaluator(DoublyRobust(1)).update(data).interval()
    assert found.estimate == pytest.approx(returns.mean())
    assert found.standard_error == pytest.approx(returns.std(ddof=1) / episodes**0.5, rel=1e-6)
