"""Every algorithm: the contract, exact enumeration of its fixed point, and convergence to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from mdps import Problem, small_problem

from inferl.algorithms import (
    GTD,
    GTD2,
    TD,
    TDC,
    Algorithm,
    AverageReward,
    EmphaticTD,
    Field,
    Linear,
    NStepTD,
    QEvaluation,
    Stack,
)
from inferl.data.arrays import Floats
from inferl.data.increments import Increments
from inferl.data.streams import Clock, Steps, Streams
from inferl.data.transitions import Transitions
from inferl.environments import FiniteMDP
from inferl.errors import DataError, SettingError, ShapeError, TargetError
from inferl.evaluator import Evaluator
from inferl.methods.bootstrap import OnlineBootstrap
from inferl.methods.least_squares import LeastSquares
from inferl.methods.step_sizes import Polynomial
from inferl.testing import check_algorithm, check_method, written_out

PROBLEM = small_problem()
D = PROBLEM.features.shape[1]


def square(theta: Floats, transition: object) -> Floats:
    return np.asarray(transition.reward - theta**3)  # type: ignore[attr-defined]


AFFINE: dict[str, Algorithm] = {
    "TD(0)": TD(D),
    "TD(.6)": TD(D, trace=0.6),
    "one-step": NStepTD(D, n=1),
    "three-step": NStepTD(D, n=3),
    "GTD": GTD(D, auxiliary_step=0.7),
    "GTD2": GTD2(D, auxiliary_step=2.0),
    "TDC": TDC(D, auxiliary_step=1.5),
    "emphatic(0)": EmphaticTD(D),
    "emphatic(.5)": EmphaticTD(D, trace=0.5),
    "stack": Stack(TD(D), GTD2(D)),
    "stacked windows": Stack(NStepTD(D, n=2), NStepTD(D, n=2)),
}
# As tables: four states, one-hot.
TABULAR: dict[str, Algorithm] = {
    "TD(0)": TD(4),
    "TD(.6)": TD(4, trace=0.6),
    "three-step": NStepTD(4, n=3),
    "GTD": GTD(4),
    "GTD2": GTD2(4),
    "TDC": TDC(4),
    "emphatic": EmphaticTD(4, trace=0.3),
}


def mixed_streams(problem: Problem, n: int, tabular: bool) -> Transitions:
    """Three streams, interleaved at random, one of them with a truncation at every 17th step."""
    rng = np.random.default_rng(5)
    stream = rng.integers(3, size=n)
    columns = {}
    parts = [problem.sample(n, seed=s, tabular=tabular) for s in range(3)]
    for name in ("features", "rewards", "next_features", "discounts", "ratios", "last"):
        column = np.empty_like(getattr(parts[0], name))
        for s, part in enumerate(parts):
            rows = stream == s
            column[rows] = getattr(part, name)[: rows.sum()]
        columns[name] = column
    columns["last"] |= (np.arange(n) % 17 == 0) & (stream == 2)
    return Transitions(**columns, stream=stream)


@pytest.mark.parametrize("name", AFFINE)
def test_contract(name: str) -> None:
    check_algorithm(AFFINE[name], mixed_streams(PROBLEM, 320, tabular=False))


@pytest.mark.parametrize("name", ["TD(.6)", "emphatic(.5)", "three-step", "stacked windows"])
def test_contract_of_one_stream(name: str) -> None:
    """Of those that carry something from step to step; for the others a stream is no more than its rows."""
    check_algorithm(AFFINE[name], PROBLEM.sample(320, seed=1))


@pytest.mark.parametrize("name", TABULAR)
def test_contract_of_tables(name: str) -> None:
    # A fourth state that is never left makes the mean matrix singular: leave it in by starting there too.
    data = mixed_streams(PROBLEM, 320, tabular=True)
    extra = Transitions([3] * 10, np.ones(10), [0] * 10, 0.5, stream=7)
    check_algorithm(TABULAR[name], Transitions.join([extra, data]))


def test_contract_of_q_evaluation() -> None:
    data = PROBLEM.sample(320, seed=1)
    check_algorithm(QEvaluation(D), data.with_ratios(np.ones(320)))


def test_contract_of_linear() -> None:
    rng = np.random.default_rng(0)
    matrix = rng.normal(size=(320, 3, 3)) * 0.3 + np.eye(3)
    check_algorithm(Linear(3), Increments.dense(matrix, rng.normal(size=(320, 3))))


def test_contract_of_field() -> None:
    check_algorithm(Field(D, square), PROBLEM.sample(320, seed=1))


# Exact enumeration. For traces the expected carry, given the state it arrives in, is iterated to its fixed point:
# increments are linear in the carry, so its expectation is enough, and the algorithm's own code computes it.


@dataclass(frozen=True)
class Exact:
    """Matrices of the problem: P_g, r_pi, the stationary law of the behaviour chain, features of visited states."""

    p_g: Floats
    r_pi: Floats
    mu: Floats
    phi: Floats

    @classmethod
    def of(cls, problem: Problem) -> Exact:
        outcomes = problem.mdp.outcomes
        s, a, s_next = outcomes.states, outcomes.actions, outcomes.next_states
        weight = problem.target[s, a] * outcomes.probabilities
        p_g, r_pi = np.zeros((4, 4)), np.zeros(4)
        np.add.at(p_g, (s, s_next), weight * problem.discount * ~problem.mdp.terminal[s_next])
        np.add.at(r_pi, s, weight * outcomes.rewards)
        return cls(p_g, r_pi, problem.mdp.stationary(problem.behaviour), problem.features)

    def solved(self, left: Floats) -> tuple[Floats, Floats]:
        """A and b for the operator `left`: Phi' left (I - P_g) Phi and Phi' left r."""
        eye = np.eye(4)
        return self.phi.T @ left @ (eye - self.p_g) @ self.phi, self.phi.T @ left @ self.r_pi


def trace_operator(exact: Exact, trace: float) -> Floats:
    return np.asarray(np.diag(exact.mu) @ np.linalg.inv(np.eye(4) - trace * exact.p_g))


def emphatic_operator(exact: Exact, trace: float) -> Floats:
    eye = np.eye(4)
    m = trace * exact.mu + (1 - trace) * np.linalg.solve(eye - exact.p_g.T, exact.mu)
    return np.asarray(np.diag(m) @ np.linalg.inv(eye - trace * exact.p_g))


def n_step_operator(exact: Exact, n: int) -> Floats:
    powers = [np.linalg.matrix_power(exact.p_g, k) for k in range(n)]
    return np.asarray(np.diag(exact.mu) @ np.sum(powers, axis=0))


ENUMERATED: list[tuple[Algorithm, Callable[[Exact], Floats]]] = [
    (TD(D), lambda e: np.diag(e.mu)),
    (TD(D, trace=0.6), lambda e: trace_operator(e, 0.6)),
    (TD(D, trace=1.0), lambda e: trace_operator(e, 1.0)),
    (GTD(D, auxiliary_step=0.7), lambda e: np.diag(e.mu)),
    (GTD2(D, auxiliary_step=2.0), lambda e: np.diag(e.mu)),
    (TDC(D), lambda e: np.diag(e.mu)),
    (EmphaticTD(D), lambda e: emphatic_operator(e, 0.0)),
    (EmphaticTD(D, trace=0.5), lambda e: emphatic_operator(e, 0.5)),
]


def all_events(problem: Problem) -> tuple[Transitions, Floats, Any, Any]:
    """Every (s, first, a, s') with its stationary probability, the state it starts in and the one it leads to."""
    outcomes, b = problem.mdp.outcomes, problem.behaviour
    mu = problem.mdp.stationary(b)
    s, a, s_next = outcomes.states, outcomes.actions, outcomes.next_states
    ends = problem.mdp.terminal[s_next]
    rate = b[s, a] * outcomes.probabilities
    fresh = float(np.sum(mu[s] * rate * ends)) * problem.mdp.initial  # probability of s with first
    weight = np.concatenate([(mu - fresh)[s] * rate, fresh[s] * rate])
    columns: tuple[Any, ...] = (s, a, s_next, ends, outcomes.rewards)
    s, a, s_next, ends, rewards = (np.tile(column, 2) for column in columns)
    n = len(s)
    events = Transitions(
        problem.features[s],
        rewards,
        problem.features[s_next],
        np.where(ends, 0.0, problem.discount),
        (problem.target / b)[s, a],
        first=np.arange(n) >= n // 2,
        stream=np.arange(n),
    )
    return events, weight, s, np.where(ends, -1, s_next)


def expected_increment(algorithm: Algorithm, problem: Problem) -> tuple[Floats, Floats]:
    events, weight, s, s_next = all_events(problem)
    n = len(events)
    number = np.arange(n)
    clock = Clock(number + 1, number, number, number + 2, number * 0 + 1, events.last)
    steps = Steps(events, np.asarray(events.first), clock)
    carry: dict[str, Floats] = {}
    for _ in range(400):  # the factor is below .9: .9^400 is far below rounding
        increments, _, carry = algorithm.increments(steps, carry)
        increments = written_out(increments)
        if not carry:
            break
        mean = {}
        for name, value in carry.items():  # the mean carry in each state, averaged over its predecessors
            total = np.zeros((4, *value.shape[1:]))
            weight_sum = np.zeros(4)
            going = s_next >= 0
            np.add.at(total, s_next[going], value[going] * weight[going].reshape(-1, *[1] * (value.ndim - 1)))
            np.add.at(weight_sum, s_next[going], weight[going])
            weight_sum = np.maximum(weight_sum, 1e-300).reshape(-1, *[1] * (value.ndim - 1))
            mean[name] = (total / weight_sum)[s]
        carry = mean
    a = np.einsum("t,tpq->pq", weight, increments.matrix())
    b = np.einsum("t,tp->p", weight, increments.vector())
    return a, b


@pytest.mark.parametrize(
    ("algorithm", "operator"), ENUMERATED, ids=lambda x: str(x) if isinstance(x, Algorithm) else ""
)
def test_expected_increment_is_the_formula(algorithm: Algorithm, operator: Callable[[Exact], Floats]) -> None:
    exact = Exact.of(PROBLEM)
    matrix, vector = exact.solved(operator(exact))
    a, b = expected_increment(algorithm, PROBLEM)
    x = getattr(algorithm, "auxiliary_step", None)
    if x is None:
        np.testing.assert_allclose(a, matrix, rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(b, vector, rtol=1e-12, atol=1e-13)
        return
    # Two blocks: y follows x (b - A theta - M y), and the fixed point is (theta*, 0).
    second_moment = exact.phi.T @ np.diag(exact.mu) @ exact.phi
    m = np.eye(D) if isinstance(algorithm, GTD) else second_moment
    np.testing.assert_allclose(a[D:], x * np.hstack([matrix, m]), rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(b[D:], x * vector, rtol=1e-12, atol=1e-13)
    no_left = isinstance(algorithm, GTD | GTD2)
    left, right = (
        (0 * matrix, -matrix.T) if no_left else (matrix, second_moment - matrix.T)
    )  # TDC: g phi' phi' = C - A'
    np.testing.assert_allclose(a[:D], np.hstack([left, right]), rtol=1e-12, atol=1e-13)
    solution = np.linalg.solve(a, b)
    theta = PROBLEM.mdp.fixed_point(PROBLEM.features, PROBLEM.target, PROBLEM.behaviour, PROBLEM.discount)
    np.testing.assert_allclose(solution, np.r_[theta, np.zeros(D)], atol=1e-12)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_expected_n_step_increment_is_the_formula(n: int) -> None:
    """All paths of n steps from the stationary law, with their probabilities."""
    exact = Exact.of(PROBLEM)
    outcomes, b = PROBLEM.mdp.outcomes, PROBLEM.behaviour
    paths: list[tuple[list[int], int, float]] = [([], s, float(exact.mu[s])) for s in range(3)]
    for _ in range(n):
        longer: list[tuple[list[int], int, float]] = []
        for rows, s, weight in paths:
            if s == 3:  # ended before
                longer.append((rows, s, weight))
                continue
            for row in np.flatnonzero(outcomes.states == s):
                rate = b[s, outcomes.actions[row]] * outcomes.probabilities[row]
                longer.append(([*rows, int(row)], int(outcomes.next_states[row]), weight * rate))
        paths = longer
    matrix, vector = np.zeros((D, D)), np.zeros(D)
    for rows, _, weight in paths:
        now, taken, then = outcomes.states[rows], outcomes.actions[rows], outcomes.next_states[rows]
        path = Transitions(
            PROBLEM.features[now],
            outcomes.rewards[rows],
            PROBLEM.features[then],
            np.where(then == 3, 0.0, PROBLEM.discount),
            (PROBLEM.target / b)[now, taken],
        )
        number = np.arange(len(path))
        clock = Clock(number + 1, 0 * number, 0 * number, number + 1, 0 * number + 1, path.last)
        increments, _, _ = NStepTD(D, n=n).increments(Steps(path, number == 0, clock), {})
        matrix += weight * increments[:1].matrix()[0]
        vector += weight * increments[:1].vector()[0]
    expected = exact.solved(n_step_operator(exact, n))
    np.testing.assert_allclose(matrix, expected[0], rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(vector, expected[1], rtol=1e-12, atol=1e-13)


def test_expected_q_evaluation_is_the_formula() -> None:
    outcomes, b, target = PROBLEM.mdp.outcomes, PROBLEM.behaviour, PROBLEM.target
    rng = np.random.default_rng(3)
    psi = rng.normal(size=(4, 2, 3))
    psi[3] = 0.0
    s, a, s_next = outcomes.states, outcomes.actions, outcomes.next_states
    expected_next = np.einsum("sa,sad->sd", target, psi)
    mu = PROBLEM.mdp.stationary(b)
    weight = mu[s] * b[s, a] * outcomes.probabilities
    g = np.where(s_next == 3, 0.0, PROBLEM.discount)
    data = Transitions(psi[s, a], outcomes.rewards, expected_next[s_next], g, stream=np.arange(len(s)))
    number = np.arange(len(s))
    clock = Clock(number + 1, number, number, number + 1, number, data.last)
    increments, _, _ = QEvaluation(3).increments(Steps(data, number >= 0, clock), {})
    q = PROBLEM.mdp.action_values(target, PROBLEM.discount)
    # With features for every pair (s, a) the solution is Q itself.
    table = np.eye(8).reshape(4, 2, 8)
    table_next = np.einsum("sa,sad->sd", target, table)
    exact = Transitions(table[s, a], outcomes.rewards, table_next[s_next], g, stream=number)
    full, _, _ = QEvaluation(8).increments(Steps(exact, number >= 0, clock), {})
    mean = np.einsum("t,tpq->pq", weight, full.matrix()) + np.diag(np.r_[np.zeros(6), 1, 1])
    solution = np.linalg.solve(mean, np.einsum("t,tp->p", weight, full.vector()))
    np.testing.assert_allclose(solution.reshape(4, 2)[:3], q[:3], atol=1e-12)
    # And for fewer features, Psi' Xi (I - P_g^Q) Psi.
    pair = np.zeros((8, 8))
    np.add.at(pair, (s * 2 + a, s_next * 2), outcomes.probabilities * g * target[s_next, 0])
    np.add.at(pair, (s * 2 + a, s_next * 2 + 1), outcomes.probabilities * g * target[s_next, 1])
    flat, xi = psi.reshape(8, 3), np.diag((mu[:, None] * b).ravel())
    np.testing.assert_allclose(
        np.einsum("t,tpq->pq", weight, increments.matrix()), flat.T @ xi @ (np.eye(8) - pair) @ flat, atol=1e-13
    )


@pytest.mark.parametrize("name", AFFINE)
def test_least_squares_arrives_at_the_fixed_point(name: str) -> None:
    """False alarms: 5 standard errors on at most 4 coordinates, below 3e-6."""
    algorithm = AFFINE[name]
    data = PROBLEM.sample(20_000, seed=11)
    evaluator = Evaluator(algorithm).update(data)
    exact = Exact.of(PROBLEM)
    operators: dict[str, Floats] = {
        "TD(.6)": trace_operator(exact, 0.6),
        "three-step": n_step_operator(exact, 3),
        "stacked windows": n_step_operator(exact, 2),
        "emphatic(0)": emphatic_operator(exact, 0.0),
        "emphatic(.5)": emphatic_operator(exact, 0.5),
    }
    theta = np.linalg.solve(*exact.solved(operators.get(name, np.diag(exact.mu))))
    interval = evaluator.interval(np.eye(algorithm.dimension))
    error = (interval.estimate - np.tile(theta, algorithm.dimension // D)) / interval.standard_error
    assert np.abs(error).max() < 5
    assert interval.standard_error.max() < 0.2


@pytest.mark.parametrize("make", [lambda: TD(0), lambda: TD(2, trace=1.5), lambda: NStepTD(2, n=0), lambda: GTD2(2, 0)])
def test_bad_settings_are_refused(make: Callable[[], Algorithm]) -> None:
    with pytest.raises(SettingError):
        make()


def test_data_that_do_not_fit_are_refused() -> None:
    data = PROBLEM.sample(10, seed=0)
    with pytest.raises(ShapeError, match="length 2"):
        TD(3).check(data)
    with pytest.raises(ShapeError, match="Increments"):
        Linear(2).check(data)
    with pytest.raises(ShapeError, match="Linear"):
        TD(2).check(Increments.dense(np.eye(2), np.ones(2)))
    with pytest.raises(DataError, match=r"row 1.*index is 9"):
        TD(4).check(Transitions([0, 9], [0.0, 0.0], [0, 0], 0.5))
    with pytest.raises(ShapeError, match="2 columns"):
        TD(2).check(data.with_ratios(np.ones((10, 2))))
    with pytest.raises(DataError, match="QEvaluation"):
        QEvaluation(2).check(data)
    with pytest.raises(SettingError):
        Stack(TD(2), TD(3))
    with pytest.raises(SettingError):
        Stack(TD(2), NStepTD(2, n=2))
    with pytest.raises(TargetError, match="2 values"):
        Evaluator(Stack(TD(4), TD(4))).update(PROBLEM.sample(10, seed=0, tabular=True)).interval(0)


def test_stack_reads_a_column_of_ratios_each() -> None:
    data = PROBLEM.sample(400, seed=2)
    on_policy = data.with_ratios(np.ones(400))
    both = data.with_ratios(np.stack([data.ratios, np.ones(400)], axis=1))
    stacked = Evaluator(Stack(TD(D), TD(D))).update(both)
    c = PROBLEM.features[0]
    off, on = Evaluator(TD(D)).update(data), Evaluator(TD(D)).update(on_policy)
    difference = stacked.interval(np.r_[c, -c])
    assert difference.estimate == pytest.approx(off.estimate(c) - on.estimate(c), abs=1e-12)
    # The two are positively correlated on one log, so their difference has a smaller standard error.
    apart = np.hypot(off.interval(c).standard_error, on.interval(c).standard_error)
    assert difference.standard_error < apart


def test_a_window_that_a_new_episode_cuts_is_emitted() -> None:
    """An episode that ends without `last` closes its windows where the next one begins."""
    data = Transitions([0, 1, 0, 1], [1.0, 2.0, 4.0, 8.0], [1, 0, 1, 0], 0.5, episode=[0, 0, 1, 1])
    evaluator = Evaluator(NStepTD(2, n=3)).update(data)
    evaluator.estimate(0)
    from inferl.data.streams import Streams

    _, steps = Streams().place(data)
    increments, clock, carry = NStepTD(2, n=3).increments(steps, {})
    assert clock.step.tolist() == [1, 2]
    np.testing.assert_array_equal(increments.c[:, 0], [2.0, 2.0])
    assert len(carry["open"]) == 2


def test_the_average_reward_allows_for_dependence() -> None:
    """Rewards of an autoregression: the standard error is that of its long-run variance, 1 / (1 - .8)."""
    rng, n = np.random.default_rng(0), 20_000
    noise = rng.normal(size=n)
    for t in range(1, n):
        noise[t] += 0.8 * noise[t - 1]
    data = Transitions(np.zeros((n, 3)), 2 + noise, np.zeros((n, 3)), 0.9)
    found = Evaluator(AverageReward(3)).update(data).interval()
    assert found.estimate == pytest.approx(data.rewards.mean())
    assert found.standard_error == pytest.approx(5 / np.sqrt(n), rel=0.25)
    assert found.estimand == "the average reward per step"
    with pytest.raises(TargetError, match="all steps"):
        Evaluator(AverageReward(3)).interval(1)
    with pytest.raises(DataError, match="leave ratios out"):
        Evaluator(AverageReward(3)).update(data.with_ratios(np.full(n, 0.5)))


def going_on(tabular: bool, n: int) -> tuple[FiniteMDP, Floats, Transitions]:
    """A chain without ends, its policy, and a path; two features, or a table."""
    rng = np.random.default_rng(3)
    mdp = FiniteMDP(rng.dirichlet(np.ones(4), size=(2, 4)), rng.normal(size=(2, 4, 4)), np.full(4, 0.25))
    policy = rng.dirichlet(np.ones(2), size=4)
    phi = None if tabular else rng.normal(size=(4, 2))
    return mdp, policy, mdp.sample(policy, n, seed=1).transitions(0.9, phi)


@pytest.mark.parametrize("tabular", [False, True])
def test_gain_and_bias_by_enumeration(tabular: bool) -> None:
    """Every (s, a, s') with its stationary probability: the mean increments are 0 at gain and bias."""
    mdp, policy, _ = going_on(tabular, 1)
    states, actions, next_states, probabilities, rewards = mdp.outcomes
    weight = mdp.stationary(policy)[states] * policy[states, actions] * probabilities
    phi = np.eye(4) if tabular else np.random.default_rng(0).normal(size=(4, 2))
    columns = (states, next_states) if tabular else (phi[states], phi[next_states])
    algorithm = AverageReward(phi.shape[1], bias=True)
    events = Transitions(columns[0], rewards, columns[1], 0.9, stream=np.arange(len(states)))
    increments, _, _ = algorithm.increments(Streams().place(events)[1], {})
    matrix = np.einsum("t,tij->ij", weight, increments.matrix())
    vector = weight @ increments.vector()
    solved = np.linalg.lstsq(matrix, vector)[0]
    np.testing.assert_allclose(matrix @ solved, vector, atol=1e-12)
    exact = mdp.average_reward(policy)
    assert solved[-2] == pytest.approx(exact.gain, abs=1e-12)
    values = algorithm.of_features(phi) @ solved
    assert mdp.stationary(policy) @ values == pytest.approx(0, abs=1e-12)
    if tabular:
        np.testing.assert_allclose(values, exact.bias, atol=1e-12)
    else:
        chain, mu = np.zeros((4, 4)), mdp.stationary(policy)
        np.add.at(chain, (states, next_states), policy[states, actions] * probabilities)
        left = phi.T @ np.diag(mu) @ (np.eye(4) - chain) @ phi
        means = np.bincount(states, policy[states, actions] * probabilities * rewards)
        np.testing.assert_allclose(left @ solved[:2], phi.T @ (mu * (means - exact.gain)), atol=1e-12)


def test_the_bias_of_a_table_is_identified() -> None:
    """Its features contain a constant, so theta is known up to one; the bias is not affected. Eight standard errors."""
    mdp, policy, data = going_on(True, 50_000)
    evaluator = Evaluator(AverageReward(4, bias=True)).update(data)
    exact = mdp.average_reward(policy)
    found = [evaluator.interval(), *(evaluator.interval(state) for state in range(4))]
    for interval, truth in zip(found, [exact.gain, *exact.bias], strict=True):
        assert abs(interval.estimate - truth) < 8 * interval.standard_error < 1
    assert found[0].standard_error == pytest.approx(np.sqrt(exact.variance / 50_000), rel=0.1)
    assert evaluator.report(2).interval.estimand.startswith("the bias at given features")
    assert not np.isfinite(evaluator.interval([1.0, 0.0, 0.0, 0.0, 0.0, 0.0]).width)  # theta itself is not identified
    alone = Evaluator(AverageReward(4)).update(data).interval()
    assert alone.estimate == pytest.approx(float(found[0].estimate), abs=1e-12)


def test_what_has_no_bias_is_refused() -> None:
    data = small_problem().sample(100, seed=1, tabular=True)
    with pytest.raises(DataError, match="the discount is 0"):
        Evaluator(AverageReward(4, bias=True)).update(data.with_ratios(np.ones(100)))
    with pytest.raises(TargetError, match="outside the table"):
        Evaluator(AverageReward(4, bias=True)).interval(4)


@pytest.mark.parametrize("tabular", [False, True])
def test_gain_and_bias_satisfy_the_contract(tabular: bool) -> None:
    _, _, data = going_on(tabular, 400)
    algorithm = AverageReward(4 if tabular else 2, bias=True)
    if not tabular:  # whose matrix is not singular
        check_algorithm(algorithm, data)
    for method in (LeastSquares(), OnlineBootstrap(Polynomial(0.5, cap=0.1), n_replicas=5)):
        check_method(method, algorithm, data)


@pytest.mark.parametrize("tabular", [False, True])
def test_the_average_reward_satisfies_the_contract(tabular: bool) -> None:
    data = small_problem().sample(400, seed=1, tabular=tabular)
    check_algorithm(AverageReward(4 if tabular else 2), data.with_ratios(np.ones(400)))


def test_a_window_longer_than_every_episode_costs_nothing() -> None:
    """It is the return of the episode, however long the window is."""
    rng = np.random.default_rng(0)
    phi = rng.normal(size=(101, 2))
    data = Transitions(phi[:-1], rng.normal(size=100), phi[1:], np.tile([0.9, 0.9, 0.9, 0.0], 25))
    long, endless = (Evaluator(NStepTD(2, n=n)).update(data).interval([1.0, 0.0]) for n in (4, 2**40))
    assert str(long) == str(endless)
    assert long.estimate == endless.estimate
