"""Monte Carlo: the mean return of whole episodes, against exact values and plain loops."""

import re

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import SyncVectorEnv
from hypothesis import given
from hypothesis import strategies as st
from mdps import small_problem
from strategies import chunkings, cut, transitions

import inferl
from inferl.baselines import monte_carlo, per_decision
from inferl.errors import DataError, LevelError, SettingError, ShapeError
from inferl.interval import quantile


def test_it_is_the_mean_of_the_returns_with_a_t_interval() -> None:
    chunk = inferl.Transitions([0, 1, 0, 0, 2], [1.0, 2.0, 4.0, 0.0, 8.0], [1, 3, 3, 2, 3], [0.5, 0, 0, 0.25, 0])
    returns = np.array([1 + 0.5 * 2, 4.0, 0.25 * 8])
    interval = monte_carlo(chunk, level=0.9)
    error = returns.std(ddof=1) / np.sqrt(3)
    assert interval.estimate == pytest.approx(returns.mean())
    assert interval.standard_error == pytest.approx(error)
    assert interval.width == pytest.approx(2 * error * quantile(0.9, 2))
    assert (interval.kind, interval.n, interval.level, interval.notes) == ("normal", 5, 0.9, ())


@pytest.mark.parametrize("discount", [1.0, 0.9, 0.5])
def test_it_holds_the_exact_value(discount: float) -> None:
    problem = small_problem()
    path = problem.mdp.sample(problem.target, 20_000, seed=1)
    exact = problem.mdp.values(problem.target, discount)
    data = path.transitions(discount)
    # Each of four intervals misses for one seed in 10,000; the three discounts see the same path.
    assert float(problem.mdp.initial @ exact) in monte_carlo(data, level=0.9999)
    for state in range(3):
        assert exact[state] in monte_carlo(data, start=state, level=0.9999)


def test_off_policy_data_are_refused() -> None:
    with pytest.raises(DataError, match="per_decision"):
        monte_carlo(small_problem().sample(100, seed=2))
    rounded = inferl.Transitions([0, 0], [2.0, 4.0], [1, 1], [0, 0], ratios=0.1 * 3 / 0.3)
    assert monte_carlo(rounded).estimate == pytest.approx(3)


def test_starts_may_be_vectors() -> None:
    problem = small_problem()
    path = problem.mdp.sample(problem.target, 2000, seed=1)
    by_number = monte_carlo(path.transitions(0.9), start=1)
    by_vector = monte_carlo(path.transitions(0.9, problem.features), start=problem.features[1])
    assert by_number.to_dict() == by_vector.to_dict()
    with pytest.raises(ShapeError, match="start has shape"):
        monte_carlo(path.transitions(0.9), start=problem.features[1])


@given(st.data(), st.sampled_from(["ends", "cut", None]))
def test_it_is_per_decision_with_ratios_of_1_and_chunks_make_no_difference(
    data: st.DataObject, time_limit: str | None
) -> None:
    chunk = data.draw(transitions(off_policy=False, tabular=True))
    start = data.draw(st.sampled_from([None, 0]))
    try:
        interval = per_decision(chunk, start, time_limit=time_limit)
    except DataError as error:
        with pytest.raises(DataError, match=re.escape(str(error))):
            monte_carlo(chunk, start, time_limit=time_limit)
        return
    assert monte_carlo(chunk, start, time_limit=time_limit).to_dict() == interval.to_dict()
    parts = cut(chunk, data.draw(chunkings(len(chunk))))
    assert monte_carlo(iter(parts), start, time_limit=time_limit).to_dict() == interval.to_dict()


def test_many_lengths_at_once() -> None:
    """Long and short episodes in interleaved streams, in chunks of any size."""
    rng = np.random.default_rng(0)
    n = 3000
    discounts = np.where(rng.random(n) < 10.0 ** -rng.integers(1, 4, size=n), 0, 0.999)
    zero = np.zeros(n, np.int64)
    chunk = inferl.Transitions(zero, rng.normal(size=n), zero, discounts, stream=rng.integers(3, size=n))
    whole = monte_carlo(chunk)
    returns = []
    for stream in range(3):
        own = chunk[chunk.stream == stream]
        ends = np.flatnonzero(own.discounts == 0) + 1
        returns += [
            float(rewards @ 0.999 ** np.arange(len(rewards))) for rewards in np.split(own.rewards, ends)[: len(ends)]
        ]
    assert whole.estimate == pytest.approx(np.mean(returns))
    assert whole.standard_error == pytest.approx(np.std(returns, ddof=1) / np.sqrt(len(returns)))
    for size in (1, 7, 64, 1000):
        assert monte_carlo(chunk[i : i + size] for i in range(0, n, size)).to_dict() == whole.to_dict()


def test_streams_are_kept_apart() -> None:
    chunk = inferl.Transitions([0, 0, 1, 1], [1.0, 10.0, 2.0, 20.0], [1, 1, 2, 2], [1, 1, 0, 0], stream=[0, 1, 0, 1])
    assert monte_carlo(chunk).estimate == (3 + 30) / 2


def with_all_ends(discount: float) -> inferl.Transitions:
    return inferl.Transitions(
        [0, 0, 1, 0, 0, 0],
        [1.0, 5.0, 5.0, 3.0, 7.0, 9.0],
        [2, 1, 2, 2, 1, 1],
        [0, discount, discount, 0, discount, discount],
        last=[True, False, True, True, False, False],  # row 2 is truncated, row 4 has no end, row 5 is still open
        episode=[0, 1, 1, 2, 3, 4],
    )


OPEN = "left out: 2 of 5 episodes have no end in the data"


def test_truncated_episodes_are_left_out_if_the_limit_cuts() -> None:
    for interval in (
        monte_carlo(with_all_ends(0.5)),
        monte_carlo(with_all_ends(0.5), start=0),
        monte_carlo(with_all_ends(1.0), time_limit="cut"),
    ):
        assert interval.estimate == 2.0
        truncation, unfinished = interval.notes
        assert truncation.startswith("truncation: 1 of 3 episodes (33.3%)")
        assert "biased towards episodes that end early" in truncation
        assert "time_limit='ends'" in truncation
        assert "Evaluator" in truncation
        assert unfinished == OPEN
        assert interval.estimand.endswith("start distribution")


def test_truncated_episodes_count_if_the_limit_ends_them() -> None:
    assert monte_carlo(with_all_ends(1.0)).estimate == pytest.approx((1 + 10 + 3) / 3)
    assert monte_carlo(with_all_ends(1.0)).notes == (OPEN,)
    assert monte_carlo(with_all_ends(1.0)).estimand == "the mean return up to the time limit"
    assert monte_carlo(with_all_ends(0.5), time_limit="ends").estimate == pytest.approx((1 + 7.5 + 3) / 3)


def test_the_discount_may_show_late() -> None:
    """Whether the data are discounted is known only at their end, and so is how truncated episodes count."""
    early = inferl.Transitions([0, 0], [1.0, 5.0], [0, 0], [1.0, 0.0], last=[True, True])
    late = inferl.Transitions([0, 0], [1.0, 1.0], [0, 0], [0.9, 0.0])
    assert monte_carlo([early]).estimate == 3.0
    assert monte_carlo([early, late]).estimate == pytest.approx((5 + 1.9) / 2)


@pytest.mark.parametrize(("cut_off", "begins"), [(1, "left out: 1 of 100 episodes (1.0%)"), (2, "truncation: 2 of")])
def test_few_truncations_make_a_smaller_note(cut_off: int, begins: str) -> None:
    zero = np.zeros(100, np.int64)
    discounts = np.where(np.arange(100) < cut_off, 0.9, 0.0)
    (note,) = monte_carlo(inferl.Transitions(zero, 1.0 * zero, zero, discounts, last=zero == 0)).notes
    assert note.startswith(begins)
    assert ("may be biased" in note) == (cut_off == 1)


def test_a_time_limit_makes_no_bias() -> None:
    """The coin of the docstring, stopped after 3 tosses: the expected number is 1 + 1/2 + 1/4."""
    tosses = np.random.default_rng(0).geometric(0.5, size=5000)
    last = np.cumsum(np.minimum(tosses, 3)) - 1
    zero = np.zeros(last[-1] + 1, np.int64)
    discounts, flags = np.ones(len(zero)), np.zeros(len(zero), np.bool_)
    discounts[last[tosses <= 3]], flags[last] = 0, True
    data = inferl.Transitions(zero, zero - 1.0, zero, discounts, last=flags)
    assert -1.75 in monte_carlo(data, level=0.9999)  # one false alarm in 10,000 seeds
    assert -1.75 not in monte_carlo(data, level=0.9999, time_limit="cut")


def test_without_any_end_there_is_nothing_to_say() -> None:
    pendulum = gymnasium.make("Pendulum-v1", max_episode_steps=20)
    source = inferl.sources.rollout(
        pendulum, lambda _: np.zeros(1), inferl.features.Scaled([-1, -1, -8], [1, 1, 8]), 0.9
    )
    with pytest.raises(DataError, match=r"5 were truncated, .*time_limit='ends'.* Evaluator"):
        monte_carlo(source.take(episodes=5))


def test_one_return_says_nothing_of_its_error() -> None:
    interval = monte_carlo(inferl.Transitions([0], [2.0], [1], [0]))
    assert (interval.estimate, interval.lower, interval.upper) == (2.0, -np.inf, np.inf)


def test_a_source_is_read_and_td_agrees() -> None:
    """Least squares with a table and Monte Carlo from the same episodes estimate the same value."""
    envs = SyncVectorEnv([lambda: gymnasium.make("FrozenLake-v1", max_episode_steps=100_000)] * 3)
    source = inferl.sources.rollout(envs, np.full((16, 4), 0.25), envs.single_observation_space, 0.95, seed=1)
    chunks = list(source.take(episodes=3000))
    exact = inferl.environments.FiniteMDP.from_toy_text(envs.envs[0]).values(np.full((16, 4), 0.25), 0.95)[0]
    interval = monte_carlo(chunks, level=0.9999)  # one false alarm in 10,000 seeds
    assert exact in interval
    assert interval.notes == ("left out: 2 of 3002 episodes have no end in the data",)
    assert inferl.Evaluator(inferl.TD(16)).update(chunks).interval(0).standard_error < interval.standard_error


def test_bad_input_is_named() -> None:
    chunk = inferl.Transitions([0], [2.0], [1], [0], ratios=[[1.0, 2.0]])
    with pytest.raises(ShapeError, match="2 columns of ratios"):
        monte_carlo(chunk)
    with pytest.raises(LevelError):
        monte_carlo(chunk, level=95)
    with pytest.raises(SettingError, match="time_limit is 'stop'"):
        monte_carlo(chunk, time_limit="stop")
