"""Per-decision importance sampling, ordinary and weighted: hand-computed cases, plain loops, exact values, notes."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mdps import small_problem
from strategies import chunkings, cut, transitions

import inferl
from inferl.baselines import per_decision
from inferl.baselines.importance_sampling import weight_notes
from inferl.data.arrays import Floats
from inferl.errors import DataError, LevelError, SettingError, ShapeError
from inferl.interval import quantile


@dataclass
class Episode:
    state: int  # where it began
    weights: list[float] = field(default_factory=list)  # w_t
    rewards: list[float] = field(default_factory=list)  # d_t r_t
    discounts: list[float] = field(default_factory=lambda: [1.0])  # d_t, one more
    end: str = ""


def plain_episodes(chunk: inferl.Transitions) -> list[Episode]:
    """Episodes by a loop over rows, in the order in which they end."""
    under_way: dict[int, Episode] = {}
    before: dict[int, int] = {}  # stream -> its latest row
    closed = []
    for i, stream in enumerate(chunk.stream.tolist()):
        changed = (
            stream in before
            and chunk.first is None
            and chunk.episode is not None
            and chunk.episode[i] != chunk.episode[before[stream]]
        )
        if stream not in under_way or changed or (chunk.first is not None and chunk.first[i]):
            under_way[stream] = Episode(int(chunk.features[i]))
        episode = under_way[stream]
        episode.weights.append((episode.weights or [1.0])[-1] * chunk.ratios[i])
        episode.rewards.append(episode.discounts[-1] * chunk.rewards[i])
        episode.discounts.append(episode.discounts[-1] * chunk.discounts[i])
        before[stream] = i
        if chunk.last[i]:
            episode.end = "terminated" if chunk.discounts[i] == 0 else "truncated"
            closed.append(under_way.pop(stream))
    return closed


def ordinary(episodes: list[Episode]) -> tuple[float, float]:
    returns = [float(np.dot(e.weights, e.rewards)) for e in episodes]
    return float(np.mean(returns)), float(np.std(returns, ddof=1) / np.sqrt(len(returns)))


def weighted_estimate(episodes: list[Episode], times: Floats) -> float:
    """WPDIS where episode i is there times[i] times."""
    horizon = max(len(e.weights) for e in episodes)
    weights = np.array([e.weights + [e.weights[-1]] * (horizon - len(e.weights)) for e in episodes])
    rewards = np.array([e.rewards + [0.0] * (horizon - len(e.rewards)) for e in episodes])
    return float(((times @ (weights * rewards)) / (times @ weights)).sum())


def weighted(episodes: list[Episode]) -> tuple[float, float]:
    """The estimate, and its error by the numerical derivative in each episode's multiplicity."""
    n, step = len(episodes), 1e-6
    slopes = [
        (weighted_estimate(episodes, one + step * unit) - weighted_estimate(episodes, one - step * unit)) / (2 * step)
        for one, unit in ((np.ones(n), row) for row in np.eye(n))
    ]
    return weighted_estimate(episodes, np.ones(n)), float(np.sqrt(n / (n - 1) * np.sum(np.square(slopes))))


# Two episodes, of 2 steps and 1: weights (2, 1) and (0.5), rewards (1, 4) and (3), discount 1/2.
TWO = inferl.Transitions([0, 1, 0], [1.0, 4.0, 3.0], [1, 2, 2], [0.5, 0.0, 0.0], ratios=[2.0, 0.5, 0.5])


def test_ordinary_by_hand() -> None:
    interval = per_decision(TWO, level=0.9)
    returns = np.array([2 * 1 + 0.5 * 1 * 4, 0.5 * 3])
    error = returns.std(ddof=1) / np.sqrt(2)
    assert interval.estimate == pytest.approx(returns.mean())
    assert interval.standard_error == pytest.approx(error)
    assert interval.width == pytest.approx(2 * error * quantile(0.9, 1))
    assert (interval.kind, interval.n, interval.level) == ("normal", 3, 0.9)
    assert interval.estimand == "the value of the start distribution"


def test_weighted_by_hand() -> None:
    interval = per_decision(TWO, weighted=True)
    first, second = (2 * 1 + 0.5 * 3) / 2.5, 0.5 * 1 * 4 / 1.5  # the second episode keeps its weight of 0.5
    assert interval.estimate == pytest.approx(first + second)
    one = 2 * (1 - first) / 2.5 + 1 * (2 - second) / 1.5
    other = 0.5 * (3 - first) / 2.5 + 0.5 * (0 - second) / 1.5
    assert one + other == pytest.approx(0)
    assert interval.standard_error == pytest.approx(np.sqrt(2 * (one**2 + other**2)))


@pytest.mark.parametrize("self_normalised", [False, True])
@given(data=st.data(), time_limit=st.sampled_from(["ends", "cut", None]))
def test_it_is_the_plain_loop_and_chunks_make_no_difference(
    self_normalised: bool, data: st.DataObject, time_limit: str | None
) -> None:
    chunk = data.draw(transitions(tabular=True))
    start = data.draw(st.sampled_from([None, 0]))
    undiscounted = set(chunk.discounts.tolist()) <= {0.0, 1.0}
    ends = time_limit == "ends" or (time_limit is None and undiscounted)
    episodes = [e for e in plain_episodes(chunk) if start is None or e.state == start]
    episodes = [e for e in episodes if e.end == "terminated" or ends]
    nothing = sum(e.weights[-1] for e in episodes) == 0 if self_normalised else not episodes
    if nothing:
        with pytest.raises(DataError, match=r"no episode has a return|all weights are 0"):
            per_decision(chunk, start, weighted=self_normalised, time_limit=time_limit)
        return
    interval = per_decision(chunk, start, weighted=self_normalised, time_limit=time_limit)
    if len(episodes) > 1:
        estimate, error = weighted(episodes) if self_normalised else ordinary(episodes)
        assert interval.estimate == pytest.approx(estimate, abs=1e-12)
        assert interval.standard_error == pytest.approx(error, rel=1e-5, abs=1e-7 if self_normalised else 1e-12)
    parts = cut(chunk, data.draw(chunkings(len(chunk))))
    again = per_decision(iter(parts), start, weighted=self_normalised, time_limit=time_limit)
    assert again.to_dict() == interval.to_dict()


@pytest.mark.parametrize("self_normalised", [False, True])
def test_it_holds_the_value_of_the_target(self_normalised: bool) -> None:
    problem = small_problem()
    interval = per_decision(problem.sample(50_000, seed=2, tabular=True), level=0.9999, weighted=self_normalised)
    exact, other = (
        float(problem.mdp.initial @ problem.mdp.values(policy, problem.discount))
        for policy in (problem.target, problem.behaviour)
    )
    assert exact in interval  # one false alarm in 10,000 seeds
    assert other not in interval
    assert interval.notes == ("left out: 1 of 13812 episodes have no end in the data",)


@pytest.mark.parametrize("self_normalised", [False, True])
def test_the_error_is_that_of_many_repetitions(self_normalised: bool) -> None:
    problem = small_problem()
    chunks = [problem.sample(600, seed, tabular=True) for seed in range(400)]
    intervals = [per_decision(chunk, weighted=self_normalised) for chunk in chunks]
    spread = np.std([interval.estimate for interval in intervals], ddof=1)
    # The spread of 400 estimates has a relative standard error of some 4 %.
    assert np.mean([interval.standard_error for interval in intervals]) == pytest.approx(spread, rel=0.16)


def test_starts_may_be_chosen() -> None:
    problem = small_problem()
    data = problem.sample(50_000, seed=2, tabular=True)
    exact = problem.mdp.values(problem.target, problem.discount)
    for state in range(3):
        for self_normalised in (False, True):
            # Each of six intervals misses for one seed in 10,000.
            assert exact[state] in per_decision(data, state, level=0.9999, weighted=self_normalised)
    with pytest.raises(ShapeError, match="start has shape"):
        per_decision(data, [0.0, 1.0])


def test_truncated_episodes_follow_the_time_limit() -> None:
    chunk = inferl.Transitions(
        [0, 0], [1.0, 5.0], [1, 1], [0.9, 0.0], ratios=[2.0, 0.5], last=[True, True], stream=[0, 1]
    )
    assert per_decision(chunk, time_limit="ends").estimate == (2 * 1 + 0.5 * 5) / 2
    assert per_decision(chunk, time_limit="ends", weighted=True).estimate == pytest.approx(4.5 / 2.5)
    for self_normalised, estimate in ((False, 2.5), (True, 5.0)):
        interval = per_decision(chunk, weighted=self_normalised)
        assert interval.estimate == pytest.approx(estimate)
        assert interval.notes[0].startswith("truncation: 1 of 2 episodes")


def kinds(notes: tuple[str, ...]) -> list[str]:
    return [note.split(":")[0] for note in notes]


def lognormal(sigma: float, n: int, seed: int) -> Floats:
    """Weights with expectation 1."""
    return np.exp(np.random.default_rng(seed).normal(-(sigma**2) / 2, sigma, size=n))


def test_notes_of_weights_by_hand() -> None:
    assert weight_notes(np.ones(1)) == weight_notes(np.ones(50)) == ()
    # One weight of 50 among 100, mean 1: its deviation makes the variance.
    (note,) = weight_notes(np.r_[np.full(99, 50 / 99), 50.0])
    variance = 99 * (50 / 99 - 1) ** 2 + 49**2
    fourth = 99 * (50 / 99 - 1) ** 4 + 49**4
    variance_ess = variance**2 / (fourth - 3 * variance**2 / 100)
    effective = 100**2 / (99 * (50 / 99) ** 2 + 50**2)
    assert note.startswith(
        f"ratio tails: the variance of the weights rests on about {variance_ess:.1f} of 100 episodes "
        f"(effective sample size {effective:.0f})"
    )
    assert "DoublyRobust" in note
    (low,) = weight_notes(np.array([0.4, 0.6] * 50))
    assert low.startswith("mean ratio: the weights average 0.5 with a standard error of 0.01, and should average 1")
    assert "missing so far" in low
    (high,) = weight_notes(np.array([1.4, 1.6] * 50))
    assert "missing so far" not in high
    assert kinds(weight_notes(np.zeros(10))) == ["mean ratio"]
    assert kinds(weight_notes(np.r_[np.zeros(99), 1e300])) == ["ratio tails"]  # no overflow


def test_light_weights_make_no_notes_and_heavy_ones_do() -> None:
    light = [weight_notes(lognormal(0.5, 500, seed)) for seed in range(200)]
    heavy = [weight_notes(lognormal(2.5, 500, seed)) for seed in range(200)]
    assert sum(map(bool, light)) <= 12  # about 1 in 100
    assert sum(map(bool, heavy)) >= 160


def test_a_rare_action_of_a_known_share_makes_no_note() -> None:
    """A deterministic target: few episodes follow it, all with the same weight, so the mean is precise."""
    ratios = np.where(np.arange(1000) % 20 == 0, 20.0, 0.0)
    zero = np.zeros(1000, np.int64)
    assert per_decision(inferl.Transitions(zero, ratios, zero, 0.0, ratios)).notes == ()


def test_wrong_ratios_are_noted() -> None:
    problem = small_problem()
    data = problem.sample(5000, seed=0)
    assert per_decision(data).notes == ()
    for self_normalised in (False, True):
        wrong = per_decision(data.with_ratios(1.1 * data.ratios), weighted=self_normalised)
        assert kinds(wrong.notes) == ["mean ratio"]


def test_weights_that_the_discount_outlives_do_not_matter() -> None:
    """Episodes of 200 steps: their last weights are all close to 0, but no reward depends on them."""
    rng = np.random.default_rng(0)
    n = 200 * 300
    discounts = np.where(np.arange(n) % 200 == 199, 0.0, 0.5)
    zero = np.zeros(n, np.int64)
    data = inferl.Transitions(zero, 0 * zero + 1.0, zero, discounts, ratios=rng.choice([0.5, 1.5], size=n))
    assert per_decision(data).notes == ()
    assert sum(1 / 2**t for t in range(200)) in per_decision(data, level=0.9999)  # one false alarm in 10,000 seeds


def test_on_policy_data_have_no_weights_to_note() -> None:
    zero = np.zeros(100, np.int64)
    rare = np.where(np.arange(100) == 7, 1000.0, 0.0)
    for self_normalised in (False, True):
        interval = per_decision(inferl.Transitions(zero, rare, zero, 0.0), weighted=self_normalised)
        assert interval.notes == ()
        assert interval.estimate == pytest.approx(10)


def test_a_target_that_nobody_follows() -> None:
    chunk = inferl.Transitions([0, 1, 0], [1.0, 4.0, 3.0], [1, 2, 2], [0.5, 0.0, 0.0], ratios=[2.0, 0.0, 0.0])
    with pytest.raises(DataError, match="all weights are 0 from step 1 "):
        per_decision(chunk, weighted=True)
    assert per_decision(chunk).estimate == 1.0


def test_bad_input_is_named() -> None:
    chunk = inferl.Transitions([0], [2.0], [1], [0], ratios=[[1.0, 2.0]])
    with pytest.raises(ShapeError, match="2 columns of ratios"):
        per_decision(chunk)
    with pytest.raises(LevelError):
        per_decision(TWO, level=95)
    with pytest.raises(SettingError, match="time_limit is 'stop'"):
        per_decision(TWO, time_limit="stop")
    huge = inferl.Transitions([0] * 20, [1.0] * 20, [0] * 20, [1.0] * 19 + [0], ratios=1e30)
    with pytest.raises(DataError, match="overflows in the episode that begins at transition 1;"):
        per_decision(huge)
