"""The first epoch of least squares: its rows are stored, and scored at the current estimate."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from inferl.algorithms import TD, Algorithm, DoublyRobust, Linear, NStepTD
from inferl.data.increments import Increments, unexplained
from inferl.data.transitions import Transitions
from inferl.environments import ring, two_state_chain
from inferl.errors import SettingError
from inferl.evaluator import Evaluator
from inferl.methods.bootstrap import OnlineBootstrap
from inferl.methods.least_squares import LeastSquares, LeastSquaresState
from inferl.methods.step_sizes import Polynomial
from inferl.testing import arrays_of, assert_same_bits


def state_after(evaluator: Evaluator) -> LeastSquaresState:
    state = evaluator.with_pending().method
    assert isinstance(state, LeastSquaresState)
    return state


def test_the_standard_error_of_a_mean() -> None:
    """No pilot, no epochs: the textbook formula for all rows at once, up to a relative error of 1 / n."""
    x = np.random.default_rng(0).normal(size=(5000, 3)) + np.array([1.0, 2.0, 3.0])
    evaluator = Evaluator(Linear(3), LeastSquares("none")).update(Increments.dense(np.tile(np.eye(3), (5000, 1, 1)), x))
    interval = evaluator.interval(np.eye(3))
    np.testing.assert_allclose(interval.standard_error, x.std(axis=0, ddof=1) / np.sqrt(5000), rtol=2e-4)


def test_scores_are_those_of_the_present_solution() -> None:
    mdp, _ = ring(20, 4)
    policy = np.full((mdp.n_states, mdp.n_actions), 1 / mdp.n_actions)
    data = mdp.sample(policy, 3000, seed=4).transitions(0.95)
    evaluator = Evaluator(TD(mdp.n_states)).update(data[:700]).update(data[700:])
    method = LeastSquares("none")
    target = np.eye(mdp.n_states)[:1]
    reading = method.look(state_after(evaluator), target)
    phi, after = np.eye(mdp.n_states)[data.features], np.eye(mdp.n_states)[data.next_features]
    dphi = phi - data.discounts[:, None] * after
    seen = phi.any(axis=0)
    a = (phi.T @ dphi)[np.ix_(seen, seen)]
    theta = np.linalg.solve(a, phi[:, seen].T @ data.rewards)
    h = np.linalg.solve(a.T, target[0, seen])
    leverage = np.einsum("tp,pq,tq->t", dphi[:, seen], np.linalg.inv(a), phi[:, seen])
    scores = (phi[:, seen] @ h) * (data.rewards - dphi[:, seen] @ theta) / np.sqrt(1 - leverage)
    error = np.sqrt(3000 * scores.var(ddof=1))
    assert reading.standard_error[0] == pytest.approx(error, rel=1e-6)


@pytest.mark.parametrize(
    ("p", "rows", "length"),
    [
        ("table", 10_000, 8192),
        (8, 10_000, 8192),
        (100, 10_000, 1344),  # 2^18 numbers, in whole tiles
        (400, 3000, 1600),  # four rows per parameter
    ],
)
def test_it_is_as_long_as_its_rows_may_be_kept(p: int | str, rows: int, length: int) -> None:
    rng = np.random.default_rng(1)
    table = p == "table"
    evaluator = Evaluator(TD(5 if table else int(p)))
    x = np.asarray(rng.integers(5, size=rows) if table else rng.normal(size=(rows, int(p))))
    data = Transitions(x, rng.normal(size=rows), np.roll(x, 1, axis=0), 0.5)
    evaluator.update(data[: length - 64])
    assert sum(len(piece) for piece in state_after(evaluator).first_epoch or ()) == length - 64
    evaluator.update(data[length - 64 : length])
    state = state_after(evaluator)
    assert state.first_epoch is None
    assert (state.n, state.epoch_end) == (length, 2 * length)


def test_its_end_changes_nothing_at_once() -> None:
    """The interval just before and just after the stored rows are dropped: one row more."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=(8192, 4))
    data = Transitions(x, rng.normal(size=8192), np.roll(x, 1, axis=0), 0.5)
    evaluator = Evaluator(TD(4), LeastSquares("none")).update(data[:-1])
    before = evaluator.interval(np.eye(4))
    after = evaluator.update(data[-1:]).interval(np.eye(4))
    np.testing.assert_allclose(after.standard_error, before.standard_error, rtol=2e-3)  # a row has a weight of 1 / 8192
    np.testing.assert_allclose(after.width, before.width, rtol=2e-3)


def test_a_row_alone_gets_the_usual_noise() -> None:
    """A state seen once has leverage 1; its interval uses the noise of the other states, and the check warns."""
    rng = np.random.default_rng(5)
    state = rng.integers(1, 6, size=2000)
    state[1000] = 0
    data = Transitions(state, rng.normal(size=2000), state, 0.0)
    report = Evaluator(TD(6), LeastSquares("none")).update(data).report(0)
    assert report.interval.standard_error == pytest.approx(1.0, rel=0.1)
    # One observation, plus or minus two standard deviations, is beyond all rewards that were seen.
    assert [check.name for check in report.checks if check.failed] == ["rarity", "range"]


def test_terms_have_their_own_usual_noise() -> None:
    """Two terms per row: in one all rows have leverage 1, in the other only the first."""
    rest = np.array([[0.0, 0.0], [0.0, 3.0], [0.0, -4.0]])
    leverage = np.array([[1.0, 1.0], [1.0, 0.0], [1.0, 0.75]])
    found = unexplained(rest, leverage)
    np.testing.assert_allclose(found, [[0.0, np.sqrt((9 + 64) / 2)], [0.0, 3.0], [0.0, -8.0]])


def test_a_state_seen_a_few_times_has_the_error_of_a_mean() -> None:
    """White's correction (HC2): with k visits and discount 0 it is s / sqrt(k), s^2 over k - 1."""
    rng = np.random.default_rng(6)
    state = rng.integers(1, 6, size=2000)
    state[[100, 900, 1500]] = 0
    rewards = rng.normal(size=2000)
    interval = Evaluator(TD(6), LeastSquares("none")).update(Transitions(state, rewards, state, 0.0)).interval(0)
    own = rewards[state == 0]
    assert interval.standard_error == pytest.approx(own.std(ddof=1) / np.sqrt(3), rel=1e-3)


@pytest.mark.parametrize("features", ["by column", "table"])
def test_any_cut_gives_the_same_bits_across_its_end(features: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    n = 9000
    x = rng.integers(7, size=n + 1) if features == "table" else np.asfortranarray(rng.normal(size=(n + 1, 7)))
    data = Transitions(x[:-1], rng.normal(size=n), x[1:], 0.5)
    whole = Evaluator(TD(7)).update(data)
    by_row = np.ascontiguousarray(x)
    assert_same_bits(whole, Evaluator(TD(7)).update(Transitions(by_row[:-1], data.rewards, by_row[1:], 0.5)))
    parts = Evaluator(TD(7))
    for start, stop in pairwise([0, 1, 64, 200, 1000, 1001, 5000, 8191, 8192, 8193, n]):
        parts.update(data[start:stop]).save(tmp_path / "run")
        parts = Evaluator.load(tmp_path / "run", TD(7))
    assert_same_bits(whole, parts)


@pytest.mark.parametrize("algorithm", [TD(3), NStepTD(3, 5)], ids=str)
def test_any_cut_keeps_the_same_pieces(algorithm: Algorithm) -> None:
    rng = np.random.default_rng(7)
    data = Transitions(rng.normal(size=(2200, 3)), rng.normal(size=2200), rng.normal(size=(2200, 3)), 0.5)
    whole, parts = Evaluator(algorithm).update(data), Evaluator(algorithm)
    for start, stop in pairwise([0, 1, 64, 200, 1000, 1001, 1700, 2200]):
        parts.update(data[start:stop])
    kept, others = (state_after(evaluator).first_epoch or () for evaluator in (whole, parts))
    lengths = [len(piece) for piece in kept]
    assert max(lengths) == 2048
    assert len(lengths) <= 4
    assert lengths == [len(piece) for piece in others]
    for one, other in zip(kept, others, strict=True):
        for mine, its in zip(arrays_of(one), arrays_of(other), strict=True):
            np.testing.assert_array_equal(mine, its)


def test_kept_rows_hold_nothing_larger(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    big = Transitions(rng.normal(size=(100_000, 4)), rng.normal(size=100_000), rng.normal(size=(100_000, 4)), 0.5)
    kept = state_after(Evaluator(TD(4)).update(big[5000:5192])).first_epoch
    assert kept is not None
    for piece in kept:
        assert all(array.base is None or array.base.size == array.size for array in arrays_of(piece))
    # A large table with few visited states: arrays that all rows share are stored once.
    state = rng.integers(50, size=8000)
    table = Evaluator(TD(100_000)).update(Transitions(state, rng.normal(size=8000), state, 0.5))
    table.save(tmp_path / "run")
    assert (tmp_path / "run").stat().st_size < 3_500_000  # 0.8 MB for each array of the table's length


def test_dependence_defeats_single_steps_and_not_blocks() -> None:
    """Two-state chain, correlation .8, 2000 steps, 60 repeats.

    Independent multipliers cover 48.6 %: at most 45 of 60 with probability 1 - 6e-6. The dyadic interval covers about
    95 %: at least 48 of 60 with probability 1 - 3e-5 (if its true coverage is 94 %).
    """
    chain, features = two_state_chain(0.8)
    policy = np.ones((2, 1))
    truth = float(chain.fixed_point(features, policy, None, 0.5)[0])
    covered = {"bootstrap": 0, "least squares": 0, "single steps": 0}
    for seed in range(60):
        data = chain.sample(policy, 2000, seed=seed).transitions(0.5, features)
        methods: dict[str, LeastSquares | OnlineBootstrap] = {
            "bootstrap": OnlineBootstrap(Polynomial(5, 0.65), n_replicas=100, seed=seed, companion=False),
            "least squares": LeastSquares(),
            "single steps": LeastSquares("none"),
        }
        for name, method in methods.items():
            covered[name] += truth in Evaluator(TD(1), method).update(data).interval([1.0])
    assert covered["bootstrap"] <= 45
    assert covered["single steps"] <= 45
    assert covered["least squares"] >= 48


def test_a_table_costs_the_square_of_the_states_seen() -> None:
    """A table of a million states of which thirty are visited; more states than the limit raise an error."""
    mdp, _ = ring(30, 5)
    data = mdp.sample(np.ones((30, 1)), 4000, seed=2).transitions(0.9)
    spread = Transitions(data.features * 33_000 + 7, data.rewards, data.next_features * 33_000 + 7, 0.9)
    small, large = Evaluator(TD(30)).update(data), Evaluator(TD(1_000_000)).update(spread)
    state = large.with_pending().method
    assert isinstance(state, LeastSquaresState)
    assert state.sums.matrix.shape == (32, 32)
    near, far = small.interval(5), large.interval(5 * 33_000 + 7)
    assert (far.estimate, far.standard_error) == pytest.approx((near.estimate, near.standard_error), rel=1e-9)
    assert large.interval(0).width == np.inf
    before = large.copy()
    many = np.arange(2100)
    with pytest.raises(SettingError, match=r"states seen.*OnlineBootstrap"):
        large.update(Transitions(many, 0.0 * many, many, 0.9))
    assert_same_bits(before, large)
    with pytest.raises(SettingError, match="OnlineBootstrap"):
        Evaluator(TD(3000)).update(Transitions(np.ones((5, 3000)), np.ones(5), np.ones((5, 3000)), 0.9))


def side_by_side(n: int, steps: int, seed: int) -> tuple[Transitions, Transitions]:
    """Off-policy episodes that all begin together: in order of time, and one after the other."""
    rng = np.random.default_rng(seed)
    ratios = rng.choice([0.4, 1.6], size=(steps, n))
    rewards = (rng.random((steps, n)) < 0.2 + 0.2 * (ratios > 1)).astype(float)
    label = np.broadcast_to(np.arange(n), (steps, n))
    last = np.broadcast_to(np.arange(steps)[:, None] == steps - 1, (steps, n))
    orders = (label.ravel(), *(x.ravel() for x in (rewards, ratios, last)))
    by_time, by_episode = orders, tuple(x.reshape(steps, n).T.ravel() for x in orders)
    one = np.ones((steps * n, 1))
    return tuple(  # type: ignore[return-value]
        Transitions(one, r, one, 1.0 - end, w, stream=stream, last=end) for stream, r, w, end in (by_time, by_episode)
    )


def test_a_log_in_order_of_time_has_the_error_of_one_in_order_of_episodes() -> None:
    """Of 8,192 rows, only 192 are ends; values from these would be ten times too large."""
    by_time, by_episode = side_by_side(2000, 5, seed=0)
    one, other = (Evaluator(DoublyRobust(1)).update(data).interval() for data in (by_time, by_episode))
    assert one.estimate == pytest.approx(other.estimate, rel=1e-9)
    assert one.standard_error == pytest.approx(float(np.asarray(other.standard_error)), rel=0.1)


def test_rows_are_kept_until_most_episodes_have_ended() -> None:
    by_time, by_episode = side_by_side(6000, 4, seed=1)
    whole = Evaluator(DoublyRobust(1)).update(by_time)
    assert state_after(whole).first_epoch
    assert state_after(Evaluator(DoublyRobust(1)).update(by_episode)).first_epoch is None
    cut = Evaluator(DoublyRobust(1))
    for start, stop in pairwise([0, 1, 8191, 8193, 16384, 20_000, len(by_time)]):
        cut = cut.update(by_time[start:stop])
    assert_same_bits(cut, whole)


def test_rows_that_wait_for_ends_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    by_time, _ = side_by_side(6000, 4, seed=2)
    monkeypatch.setattr("inferl.variance.first_epoch.MOST_WAITING", 2**16)
    assert state_after(Evaluator(DoublyRobust(1)).update(by_time[:18_000])).first_epoch is None
