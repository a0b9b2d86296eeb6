"""Monte Carlo: the mean return of whole episodes, against exact values and plain loops."""

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import SyncVectorEnv
from mdps import small_problem

import inferl
from inferl.baselines import monte_carlo
from inferl.environments import random_walk
from inferl.errors import DataError, LevelError, ShapeError
from inferl.interval import quantile

ONE = np.ones((5, 1))


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
    # Each of four intervals misses for one seed in 10 000; the three discounts see the same path.
    assert float(problem.mdp.initial @ exact) in monte_carlo(data, level=0.9999)
    for state in range(3):
        assert exact[state] in monte_carlo(data, start=state, level=0.9999)


def test_off_policy_it_holds_the_value_of_the_target() -> None:
    problem = small_problem()
    interval = monte_carlo(problem.sample(50_000, seed=2, tabular=True), level=0.9999)
    exact, other = (
        float(problem.mdp.initial @ problem.mdp.values(policy, problem.discount))
        for policy in (problem.target, problem.behaviour)
    )
    assert exact in interval  # one false alarm in 10 000 seeds
    assert other not in interval


def test_starts_may_be_vectors() -> None:
    problem = small_problem()
    path = problem.mdp.sample(problem.target, 2000, seed=1)
    by_number = monte_carlo(path.transitions(0.9), start=1)
    by_vector = monte_carlo(path.transitions(0.9, problem.features), start=problem.features[1])
    assert by_number.to_dict() == by_vector.to_dict()
    with pytest.raises(ShapeError, match="start has shape"):
        monte_carlo(path.transitions(0.9), start=problem.features[1])


def test_chunks_make_no_difference() -> None:
    mdp, _ = random_walk(3)
    data = mdp.sample(ONE, n=999, seed=0).transitions(0.9)
    parts = [data[i : i + 10] for i in range(0, 999, 10)]
    assert monte_carlo(data).to_dict() == monte_carlo(parts).to_dict() == monte_carlo(iter(parts)).to_dict()


def test_streams_are_kept_apart() -> None:
    chunk = inferl.Transitions([0, 0, 1, 1], [1.0, 10.0, 2.0, 20.0], [1, 1, 2, 2], [1, 1, 0, 0], stream=[0, 1, 0, 1])
    assert monte_carlo(chunk).estimate == (3 + 30) / 2


def test_episodes_without_an_end_are_left_out_and_counted() -> None:
    chunk = inferl.Transitions(
        [0, 0, 1, 0, 0, 0],
        [1.0, 5.0, 5.0, 3.0, 7.0, 9.0],
        [2, 1, 2, 2, 1, 1],
        [0, 0.9, 0.9, 0, 0.9, 0.9],
        last=[True, False, True, True, False, False],  # row 2 is a cut, row 4 is left, row 5 is still open
        episode=[0, 1, 1, 2, 3, 4],
    )
    interval = monte_carlo(chunk)
    assert interval.estimate == 2.0
    assert interval.notes == ("left out: 3 of 5 episodes have no end, and so no return",)
    only = monte_carlo(chunk, start=0)
    assert only.notes == interval.notes


def test_without_any_end_there_is_nothing_to_say() -> None:
    pendulum = gymnasium.make("Pendulum-v1", max_episode_steps=20)
    source = inferl.sources.rollout(pendulum, lambda _: np.zeros(1), inferl.Scaled([-1, -1, -8], [1, 1, 8]), 0.9)
    with pytest.raises(DataError, match=r"5 were cut off .* Evaluator"):
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
    interval = monte_carlo(chunks, level=0.9999)  # one false alarm in 10 000 seeds
    assert exact in interval
    assert interval.notes == ("left out: 2 of 3002 episodes have no end, and so no return",)
    assert inferl.Evaluator(inferl.TD(16)).update(chunks).interval(0).standard_error < interval.standard_error


def test_bad_input_is_named() -> None:
    chunk = inferl.Transitions([0], [2.0], [1], [0], ratios=[[1.0, 2.0]])
    with pytest.raises(ShapeError, match="2 columns of ratios"):
        monte_carlo(chunk)
    with pytest.raises(LevelError):
        monte_carlo(chunk, level=95)
