"""The offline bootstrap: resamples against the plain estimator, coverage against exact values."""

from collections.abc import Callable

import numpy as np
import pytest
from mdps import small_problem
from scipy.stats import binom

import inferl
from inferl.algorithms import Algorithm
from inferl.baselines import offline_bootstrap
from inferl.baselines.replay import Resample, Units, replay
from inferl.baselines.resampled_sums import solutions
from inferl.data.arrays import Floats, Integers
from inferl.data.increments import FieldIncrements, Increments
from inferl.data.streams import Streams
from inferl.data.transitions import Transitions
from inferl.environments import FiniteMDP
from inferl.errors import DataError, DivergenceError, KindError, LevelError, SettingError, ShapeError, TargetError
from inferl.interval import quantile

STEP = inferl.Polynomial(1.0)


def in_order() -> Callable[[int], Integers]:
    done = 0

    def draw(k: int) -> Integers:
        nonlocal done
        done += k
        return np.arange(done - k, done)

    return draw


def replayed(data: Transitions, algorithm: Algorithm, unit: str | int, average: str = "linear") -> Floats:
    """Average the recursion over every unit once, in order."""
    _, steps = Streams().place(data)
    increments, clock, _ = algorithm.increments(steps, {})
    units = Units.of(clock, unit)
    method = inferl.OnlineBootstrap(STEP, 2, average=average)
    resamples = [Resample(units, in_order()) for _ in range(3)]
    lengths = np.full(3, len(clock))
    return replay(increments, resamples, lengths, method, algorithm.n_parameters)


ALGORITHMS: dict[str, Callable[[int], Algorithm]] = {
    "TD": inferl.TD,
    "trace": lambda d: inferl.TD(d, trace=0.5),
    "n-step": lambda d: inferl.NStepTD(d, n=3),
    "emphatic": lambda d: inferl.EmphaticTD(d, trace=0.5),
    "GTD": inferl.GTD,
    "GTD2": lambda d: inferl.GTD2(d, auxiliary_step=2.0),
    "TDC": inferl.TDC,
}


@pytest.mark.parametrize("unit", ["episode", "transition", 7])
@pytest.mark.parametrize("tabular", [True, False])
@pytest.mark.parametrize("name", list(ALGORITHMS))
def test_every_unit_once_in_order_is_the_plain_estimator(name: str, tabular: bool, unit: str | int) -> None:
    algorithm = ALGORITHMS[name](4 if tabular else 2)
    data = small_problem().sample(300, seed=3, tabular=tabular)
    plain = inferl.Evaluator(algorithm, inferl.OnlineBootstrap(STEP, 2)).update(data)
    everything = np.eye(algorithm.n_parameters)
    for average in replayed(data, algorithm, unit):
        assert average == pytest.approx(plain.estimate(everything), rel=1e-11, abs=1e-13)


def test_a_nonlinear_field_and_increments_of_the_user_are_replayed_too() -> None:
    data = small_problem().sample(300, seed=3)
    median = inferl.Field(1, lambda theta, transition: np.sign(transition.reward - theta), n_features=2)
    method = inferl.OnlineBootstrap(STEP, 2, average="uniform")
    plain = inferl.Evaluator(median, method).update(data).estimate([1.0])
    assert replayed(data, median, "transition", "uniform")[:, 0] == pytest.approx(np.full(3, plain))

    rng = np.random.default_rng(0)
    steps = Increments.dense(np.eye(3) + 0.1 * rng.normal(size=(200, 3, 3)), rng.normal(size=(200, 3)))
    interval = offline_bootstrap(steps, inferl.Linear(3), STEP, np.eye(3), unit="transition", n_resamples=20)
    plain = inferl.Evaluator(inferl.Linear(3), inferl.OnlineBootstrap(STEP, 2)).update(steps).estimate(np.eye(3))
    assert interval.estimate == pytest.approx(plain)
    assert np.all(interval.width > 0)


@pytest.mark.parametrize("tabular", [True, False])
def test_a_resample_is_what_the_evaluator_makes_of_its_rows(tabular: bool) -> None:
    data = small_problem().sample(200, seed=4, tabular=tabular)
    algorithm = inferl.TD(4 if tabular else 2)
    _, steps = Streams().place(data)
    increments, clock, _ = algorithm.increments(steps, {})
    units = Units.of(clock, "episode")
    drawn = np.random.default_rng(5).integers(len(units), size=(3, len(units)))
    lengths = np.array([units.length[own].sum() for own in drawn])
    assert len(set(lengths.tolist())) == 3  # they do not end together
    method = inferl.OnlineBootstrap(STEP, 2)

    def draw(own: Integers) -> Callable[[int], Integers]:
        place = in_order()
        return lambda k: own[place(k)]

    averages = replay(
        increments, [Resample(units, draw(own)) for own in drawn], lengths, method, algorithm.n_parameters
    )
    counts = [np.bincount(own, minlength=len(units)) for own in drawn]
    everything = np.eye(algorithm.dimension)
    solved = [values for values, _ in solutions(algorithm.value_form(increments), units, counts, everything)]
    for own, average, solution in zip(drawn, averages, solved, strict=True):
        resampled = data[units.rows(own)].without_borders()
        plain = inferl.Evaluator(algorithm, method).update(resampled)
        assert average == pytest.approx(plain.estimate(everything), rel=1e-11)
        assert solution == pytest.approx(inferl.Evaluator(algorithm).update(resampled).estimate(everything), rel=1e-9)


@pytest.mark.parametrize("unit", ["episode", "transition", 25])  # sums stored by unit, and weighted rows
@pytest.mark.parametrize("algorithm", [inferl.TD(2), inferl.TDC(2), inferl.TD(2, trace=0.7)])
def test_least_squares_without_resampling_is_least_squares(algorithm: Algorithm, unit: str | int) -> None:
    data = small_problem().sample(500, seed=6)
    interval = offline_bootstrap(data, algorithm, inferl.LeastSquares(), [1.0, 2.0], unit=unit, n_resamples=10)
    assert interval.estimate == pytest.approx(inferl.Evaluator(algorithm).update(data).estimate([1.0, 2.0]), rel=1e-9)


def test_intervals_cover_as_often_as_they_say() -> None:
    problem = small_problem()
    exact = float(problem.mdp.values(problem.target, problem.discount)[0])
    repeats, held = 200, 0
    for repeat in range(repeats):
        path = problem.mdp.sample(problem.target, 400, seed=repeat)
        interval = offline_bootstrap(
            path.transitions(problem.discount), inferl.TD(4), inferl.LeastSquares(), 0, n_resamples=100, level=0.9
        )
        held += exact in interval
    # Coverage of 100 resamples of 400 steps: 0.87 (1500 repeats); each bound is crossed by one set of seeds in 20000.
    assert binom.ppf(5e-5, repeats, 0.87) <= held <= binom.isf(5e-5, repeats, 0.87)


@pytest.mark.parametrize("groups", [2, 12])
def test_resampled_transitions_miss_the_dependence_within_episodes(groups: int) -> None:
    """By the factor that the exact covariances of the scores give; with a feature a state there is none to miss."""
    states, stop, discount = 12, 0.02, 0.5
    one = np.eye(states)
    walk = 0.2 * one + 0.4 * (np.roll(one, 1, axis=0) + np.roll(one, -1, axis=0))
    transition = np.block([[(1 - stop) * walk, np.full((states, 1), stop)], [np.zeros((1, states)), np.ones((1, 1))]])
    reward = np.r_[np.cos(2 * np.pi * np.arange(states) / states), 0.0]
    mdp = FiniteMDP(transition[None], reward, np.r_[np.full(states, 1 / states), 0.0], [states])
    features = np.vstack([np.eye(groups)[np.arange(states) * groups // states], np.zeros((1, groups))])
    known, policy = features[0], np.ones((states + 1, 1))
    scores = mdp.score_covariance(features, policy, None, discount)
    h = np.linalg.solve(scores.matrix.T, known)
    factor = np.sqrt((h @ scores.long_run @ h) / (h @ scores.lag_zero @ h))
    assert factor == pytest.approx(1.0) if groups == states else factor > 3

    data = mdp.sample(policy, 20_000, seed=1).transitions(discount, features)
    by_episode, by_transition = (
        offline_bootstrap(
            data, inferl.TD(groups), inferl.LeastSquares(), known, unit=unit, n_resamples=200, kind="normal"
        ).standard_error
        for unit in ("episode", "transition")
    )
    # 400 episodes and twice 200 resamples: the logarithm has a standard deviation of 0.08; this is 4 of them.
    assert np.log(by_episode / by_transition) == pytest.approx(np.log(factor), abs=0.32)


@pytest.mark.parametrize("tabular", [True, False])
def test_the_recursion_holds_the_exact_value(tabular: bool) -> None:
    problem = small_problem()
    path = problem.mdp.sample(problem.target, 5000, seed=8)
    features = np.eye(4) if not tabular else None
    target = np.eye(4)[1] if not tabular else 1
    interval = offline_bootstrap(
        path.transitions(problem.discount, features), inferl.TD(4), STEP, target, kind="normal", level=0.9999
    )
    exact = float(problem.mdp.values(problem.target, problem.discount)[1])
    assert exact in interval  # one false alarm in 10,000 seeds
    online = inferl.Evaluator(inferl.TD(4), inferl.OnlineBootstrap(STEP)).update(path.transitions(problem.discount))
    # Two standard errors from 200 replicas each: their logarithms differ by 0.07 x 3.9 for one pair of seeds in 10,000.
    assert np.log(interval.standard_error / online.interval(1).standard_error) == pytest.approx(0.0, abs=0.28)


def test_kinds() -> None:
    data = small_problem().sample(400, seed=9)

    def interval(kind: str) -> inferl.Interval:
        return offline_bootstrap(data, inferl.TD(2), STEP, [1.0, 0.0], n_resamples=50, kind=kind)

    percentile, basic, normal = (interval(kind) for kind in ("percentile", "basic", "normal"))
    assert basic.lower == pytest.approx(2 * percentile.estimate - percentile.upper)
    assert basic.upper == pytest.approx(2 * percentile.estimate - percentile.lower)
    assert normal.width == pytest.approx(2 * quantile(0.95) * normal.standard_error)
    assert [one.kind for one in (percentile, basic, normal)] == ["percentile", "basic", "normal"]
    assert len({one.standard_error for one in (percentile, basic, normal)}) == 1
    assert (percentile.n, percentile.level) == (400, 0.95)


def test_a_seed_gives_the_same_resamples_however_many_there_are() -> None:
    data = small_problem().sample(300, seed=10)

    def spread(n_resamples: int, seed: int) -> float:
        one = offline_bootstrap(data, inferl.TD(2), STEP, [1.0, 1.0], n_resamples=n_resamples, seed=seed, kind="normal")
        return float(one.standard_error)

    assert spread(30, seed=1) == spread(30, seed=1) != spread(30, seed=2)
    few = offline_bootstrap(data, inferl.TD(2), STEP, [1.0, 1.0], n_resamples=2, seed=1, level=0.5)
    many = offline_bootstrap(data, inferl.TD(2), STEP, [1.0, 1.0], n_resamples=200, seed=1, level=0.9999)
    assert many.lower < few.lower < few.upper < many.upper


def test_sources_and_streams() -> None:
    problem = small_problem()
    one, other = problem.sample(200, seed=11), problem.sample(200, seed=12)
    whole = Transitions.join([one, other])
    settings = {"n_resamples": 20, "unit": "transition"}
    together = offline_bootstrap(whole, inferl.TD(2), STEP, np.eye(2), **settings)  # type: ignore[arg-type]
    in_chunks = offline_bootstrap(iter([one, other]), inferl.TD(2), STEP, np.eye(2), **settings)  # type: ignore[arg-type]
    assert np.array_equal(together.lower, in_chunks.lower)

    rows = np.arange(400).reshape(2, 200).T.ravel()  # two streams, step by step
    mixed = Transitions(
        whole.features[rows],
        whole.rewards[rows],
        whole.next_features[rows],
        whole.discounts[rows],
        whole.ratios[rows],
        stream=rows // 200,
    )
    _, steps = Streams().place(mixed)
    units = Units.of(steps.clock, 50)
    assert units.length.tolist() == [50] * 8
    assert np.array_equal(units.rows(np.array([4])), 1 + 2 * np.arange(50))  # the second stream's first block


def test_resamples_that_say_nothing_of_a_target_are_noted() -> None:
    state = np.r_[np.zeros(50, np.int64), 1]
    data = Transitions(state, np.ones(51), state, 0.5, last=np.r_[np.zeros(50, bool), True])
    interval = offline_bootstrap(data, inferl.TD(2), inferl.LeastSquares(), 1, unit="transition")
    assert "resamples do not identify a target" in interval.notes[0]


def test_bad_input() -> None:
    data = small_problem().sample(100, seed=13)
    td, solve = inferl.TD(2), inferl.LeastSquares()
    with pytest.raises(KindError, match="kind is 'anytime', which the offline bootstrap does not have"):
        offline_bootstrap(data, td, STEP, [1, 0], kind="anytime")
    with pytest.raises(LevelError):
        offline_bootstrap(data, td, STEP, [1, 0], level=95)
    with pytest.raises(SettingError, match="at least 2"):
        offline_bootstrap(data, td, STEP, [1, 0], n_resamples=1)
    for unit in ("patient", 0, -3, True, 2.5):
        with pytest.raises(SettingError, match=r"unit is .*; choose 'episode', 'transition' or the length of a block"):
            offline_bootstrap(data, td, STEP, [1, 0], unit=unit)  # type: ignore[arg-type]
    with pytest.raises(SettingError, match="no average"):
        offline_bootstrap(data, td, STEP, [1, 0], average="median")
    with pytest.raises(TargetError):
        offline_bootstrap(data, td, STEP, [1, 0, 0])
    with pytest.raises(TargetError):
        offline_bootstrap(data, inferl.GTD2(2), solve, [1, 0, 0, 0])  # least squares has no auxiliary parameters
    with pytest.raises(ShapeError, match="no data"):
        offline_bootstrap([], td, STEP, [1, 0])
    with pytest.raises(ShapeError):
        offline_bootstrap(data, inferl.TD(3), STEP, [1, 0, 0])
    with pytest.raises(ShapeError, match="numbers in some chunks"):
        offline_bootstrap([data, Transitions([0], [1.0], [1], 0.5)], td, STEP, [1, 0])
    with pytest.raises(DataError, match="only one unit"):
        offline_bootstrap(data, td, STEP, [1, 0], unit=1000)
    with pytest.raises(SettingError, match="not linear"):
        offline_bootstrap(data, inferl.Field(2, lambda theta, _: -theta), solve, [1, 0])


@pytest.mark.parametrize("field", [True, False])
def test_divergence_is_an_error(field: bool) -> None:
    rng = np.random.default_rng(14)
    rows = np.r_[
        np.zeros(100), np.full(10, 60.0)
    ]  # few rows make it diverge: the recursion on the data in order is stable
    phi = rows[:, None] * rng.normal(size=(110, 2))
    data = Transitions(phi, rng.normal(size=110), 0 * phi, 0.0)
    step = inferl.Constant(1e3, cap=None)

    def explode(theta: Floats, transition: inferl.data.increments.Transition) -> Floats:
        return np.where(transition.features[0] != 0, 1e200 * (1 + theta**2), theta)

    algorithm = inferl.Field(2, explode) if field else inferl.TD(2)
    _, steps = Streams().place(data)
    increments, clock, _ = algorithm.increments(steps, {})
    assert field == isinstance(increments, FieldIncrements)
    units = Units.of(clock, "transition")
    method = inferl.OnlineBootstrap(step, 2)
    resamples = [Resample(units, lambda k: np.zeros(k, np.int64)), Resample(units, lambda k: np.full(k, 105))]
    with pytest.raises(DivergenceError, match="resample 1 diverged") as caught:
        replay(increments, resamples, np.array([110, 110]), method, 2)
    assert (caught.value.step, caught.value.replica) == (110, 1)
