"""OnlineBootstrap against the plain loops of Algorithm 1, and what its settings mean."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import reference
from mdps import small_problem

from inferl.algorithms import GTD2, TD, Algorithm, Field, NStepTD
from inferl.data.arrays import Floats
from inferl.data.increments import Transition
from inferl.data.transitions import Transitions
from inferl.engine.multipliers import BlockClock, Multipliers
from inferl.errors import DivergenceError, KindError, SettingError
from inferl.evaluator import Evaluator
from inferl.methods.bootstrap import BootstrapState, BurnIn, OnlineBootstrap
from inferl.methods.step_sizes import Constant, Polynomial

PROBLEM = small_problem()
SEED = 0x1234_5678_9ABC  # uses both words of the key


def averages(evaluator: Evaluator) -> Floats:
    """Averages of all rows, (B + 1, p)."""
    state = evaluator.with_pending().method
    assert isinstance(state, BootstrapState)
    assert isinstance(evaluator.method, OnlineBootstrap)
    return np.asarray((state.iterate - state.average_offset / evaluator.method.weight_sum(np.array(state.n))).T)


def plain_steps(data: Transitions, d: int) -> list[reference.Step]:
    phi = np.eye(d)[data.features] if data.tabular else data.features
    phi_next = np.eye(d)[data.next_features] if data.tabular else data.next_features
    ended = np.r_[True, data.last[:-1]]
    return [
        reference.Step(
            phi[t].tolist(),
            float(data.rewards[t]),
            phi_next[t].tolist(),
            float(data.discounts[t]),
            float(data.ratios[t]),
            bool(ended[t]),
        )
        for t in range(len(data))
    ]


def expected(algorithm: Algorithm, data: Transitions, method: OnlineBootstrap) -> Floats:
    steps = plain_steps(data, algorithm.dimension)
    if isinstance(algorithm, TD):
        fields = reference.td_fields(steps, algorithm.trace)
    else:
        assert isinstance(algorithm, GTD2)
        fields = reference.gtd2_fields(steps, algorithm.auxiliary_step)
    assert isinstance(method.step_size, Polynomial)
    step_sizes = []
    for t, step in enumerate(steps, start=1):
        alpha = method.step_size.initial / t**method.step_size.decay
        if method.step_size.cap is not None:
            alpha = min(alpha, method.step_size.cap / reference.dot(step.phi, step.phi))
        step_sizes.append(alpha)
    weights = {"linear": float, "uniform": lambda t: 1.0}
    burn_in = method.average.n if isinstance(method.average, BurnIn) else 0
    weight = weights.get(str(method.average), lambda t: float(t > burn_in))
    rows = reference.online_bootstrap(
        fields,
        step_sizes,
        lambda replica, t: reference.uniform_multiplier(method.seed, replica, t),
        algorithm.n_parameters,
        method.n_replicas,
        weight,
    )
    return np.array(rows)


@pytest.mark.parametrize("tabular", [False, True])
@pytest.mark.parametrize("algorithm", ["TD", "TD with a trace", "GTD2"])
@pytest.mark.parametrize("average", ["linear", "uniform", BurnIn(40)])
@pytest.mark.parametrize("cap", [None, 0.3])
def test_rows_are_those_of_the_plain_loop(
    tabular: bool, algorithm: str, average: str | BurnIn, cap: float | None
) -> None:
    d = 4 if tabular else 2
    made: Algorithm = {"TD": TD(d), "TD with a trace": TD(d, trace=0.7), "GTD2": GTD2(d, auxiliary_step=1.7)}[algorithm]
    data = PROBLEM.sample(150, seed=4, tabular=tabular)
    method = OnlineBootstrap(Polynomial(0.9, 0.6, cap), n_replicas=3, average=average, seed=SEED)
    rows = averages(Evaluator(made, method).update(data))
    truth = expected(made, data, method)
    np.testing.assert_allclose(rows, truth, rtol=1e-12, atol=1e-12 * np.abs(truth).max())


def test_the_interval_divides_by_the_deviation_of_the_law() -> None:
    """The printed law has a third of the spread it claims: same rows, intervals three times as narrow."""
    data = PROBLEM.sample(500, seed=1)
    corrected = OnlineBootstrap(Polynomial(0.5), seed=SEED)
    printed = replace(corrected, multipliers=Multipliers("as-printed"))
    c = PROBLEM.features[0]
    for kind in ("percentile", "basic", "normal"):
        wide = Evaluator(TD(2), corrected).update(data).interval(c, kind=kind)
        narrow = Evaluator(TD(2), printed).update(data).interval(c, kind=kind)
        assert wide.estimate == narrow.estimate
        assert wide.width == pytest.approx(3 * narrow.width)


def test_intervals_are_read_off_the_rows() -> None:
    evaluator = Evaluator(TD(2), OnlineBootstrap(Polynomial(0.5), n_replicas=50)).update(PROBLEM.sample(300, seed=1))
    c = PROBLEM.features[1]
    along = averages(evaluator) @ c
    deviations = 3.0 * (along[1:] - along[0])
    low, high = np.quantile(deviations, [0.05, 0.95], method="weibull")
    percentile, basic, normal = (evaluator.interval(c, 0.9, kind) for kind in ("percentile", "basic", "normal"))
    assert (percentile.lower, percentile.upper) == pytest.approx((along[0] + low, along[0] + high))
    assert (basic.lower, basic.upper) == pytest.approx((along[0] - high, along[0] - low))
    spread = np.std(deviations, ddof=1)
    assert normal.standard_error == pytest.approx(spread)
    assert normal.width == pytest.approx(2 * 1.6448536 * spread)
    assert evaluator.interval(c, 0.9).kind == "percentile"
    with pytest.raises(KindError, match="percentile, basic, normal"):
        evaluator.interval(c, kind="exact")


def test_as_printed_is_the_paper_to_the_letter() -> None:
    method = OnlineBootstrap.as_printed(0.8)
    assert method.step_size == Polynomial(0.8, 0.75, None)
    assert method.average == "uniform"
    assert method.multipliers.deviation == 1.0
    data = PROBLEM.sample(100, seed=3)
    small = replace(method, n_replicas=3, seed=SEED)
    np.testing.assert_allclose(
        averages(Evaluator(TD(2), small).update(data)), expected(TD(2), data, small), rtol=1e-12, atol=1e-13
    )


@pytest.mark.parametrize(("average", "share"), [("uniform", 0.75), ("linear", 0.31)])
def test_effective_share_of_growing_blocks(average: str, share: float) -> None:
    """With blocks of 4 sqrt(t) the effective number is about .75 K, or .31 K with the linear average."""
    method = OnlineBootstrap(Constant(0.1), 2, Multipliers("two-point", BlockClock(4, 0.5)), average)
    zero = np.zeros(40_000, np.int64)
    state = Evaluator(TD(1), method).update(Transitions(zero, zero, zero, 0.5)).with_pending().method
    assert isinstance(state, BootstrapState)
    assert state.blocks is not None
    assert state.blocks.number / 100 == pytest.approx(share, abs=0.02)


def test_few_blocks_widen_the_interval() -> None:
    data = PROBLEM.sample(640, seed=1)
    blocks = OnlineBootstrap(Polynomial(0.5), 200, Multipliers("two-point", BlockClock(4, 0.5)), seed=1)
    evaluator = Evaluator(TD(2), blocks).update(data)
    along = averages(evaluator) @ np.array([1.0, 0.0])
    state = evaluator.with_pending().method
    assert isinstance(state, BootstrapState)
    assert state.blocks is not None
    k = state.blocks.number
    interval = evaluator.interval([1.0, 0.0], kind="normal")
    from scipy import stats

    spread = np.std(along[1:] - along[0], ddof=1) * np.sqrt(k / (k - 1))
    assert interval.standard_error == pytest.approx(spread)
    assert interval.width == pytest.approx(2 * spread * stats.t.ppf(0.975, k - 1))
    low, high = np.quantile(along[1:] - along[0], [0.025, 0.975], method="weibull") * np.sqrt(k / (k - 1))
    factor = stats.t.ppf(0.975, k - 1) / stats.norm.ppf(0.975)
    percentile = evaluator.interval([1.0, 0.0])
    assert percentile.width == pytest.approx(factor * (high - low))


def test_a_single_episode_gives_no_interval_yet() -> None:
    method = OnlineBootstrap(Polynomial(0.5), 20, Multipliers(clock="episode"))
    zero = np.zeros(100, np.int64)
    evaluator = Evaluator(TD(1), method).update(Transitions(zero, zero + 1, zero, 0.5))
    assert evaluator.interval(0).width == np.inf


def test_divergence_is_named_rolled_back_and_final() -> None:
    rng = np.random.default_rng(0)
    features = rng.normal(size=(640, 3)) * 10
    data = Transitions(features, rng.normal(size=640), np.roll(features, -1, axis=0), 0.9)
    method = OnlineBootstrap(Constant(0.5, cap=None), n_replicas=10)
    evaluator = Evaluator(TD(3), method)
    with pytest.raises(DivergenceError, match=r"diverged at step \d+.*smaller step size") as caught:
        evaluator.update(data)
    error = caught.value
    assert error.step >= 1
    # The state is that of the last tile's edge: the same as if only the tiles before had come.
    before = Evaluator(TD(3), method)
    sound = (error.step - 1) // 64 * 64
    if sound:
        before.update(data[:sound])
    assert np.isfinite(evaluator.estimate([1.0, 0.0, 0.0]))
    assert evaluator.estimate([1.0, 0.0, 0.0]) == before.estimate([1.0, 0.0, 0.0])
    assert any("divergence" in note for note in evaluator.interval([1.0, 0.0, 0.0]).notes)
    with pytest.raises(DivergenceError) as again:
        evaluator.update(data)
    assert (again.value.step, again.value.replica) == (error.step, error.replica)
    with pytest.raises(DivergenceError):
        evaluator.observe([1.0, 0.0, 0.0], 0.0, [1.0, 0.0, 0.0], 0.9)


def test_divergence_is_found_at_its_step_and_replica() -> None:
    """A field that throws one row far away at one step, in the middle of the second tile."""

    def field(theta: Floats, transition: Transition) -> Floats:
        change = transition.reward - theta
        if transition.features[0] == 100:
            change[3] += 1e12
        return change

    features = np.arange(1, 129)[:, None]
    data = Transitions(features, np.ones(128), features, 0.9)
    method = OnlineBootstrap(Constant(0.1, cap=None), n_replicas=4, first_replica=20)
    evaluator = Evaluator(Field(1, field), method)
    with pytest.raises(DivergenceError, match="replica 22 diverged at step 100") as caught:
        evaluator.update(data)
    assert (caught.value.step, caught.value.replica) == (100, 22)
    assert evaluator.interval([1.0]).n == evaluator.n == 64


def test_after_a_divergence_all_parts_stand_at_the_same_tile() -> None:
    """However many tiles were worked on at once, the companion, the ratios and the rows agree."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(640, 3))
    features[300:] *= 1e6
    data = Transitions(features, rng.normal(size=640), np.roll(features, -1, axis=0), 0.9)
    method = OnlineBootstrap(Constant(0.1, cap=None), n_replicas=10)
    at_once, in_pieces = Evaluator(TD(3), method), Evaluator(TD(3), method)
    with pytest.raises(DivergenceError):
        at_once.update(data)
    with pytest.raises(DivergenceError):
        in_pieces.update(data[start : start + 50] for start in range(0, 640, 50))
    one, other = at_once.interval([1.0, 0.0, 0.0]), in_pieces.interval([1.0, 0.0, 0.0])
    assert one.to_dict() == other.to_dict()
    assert at_once.n == in_pieces.n == one.n
    assert at_once.n % 64 == 0
    assert at_once._state.method.companion is not None
    assert at_once._state.method.companion.n == at_once._state.ratios.n == at_once.n


@pytest.mark.parametrize("size", [1, 50, 100])
def test_a_divergence_in_the_first_tile_is_named_and_can_be_loaded(size: int, tmp_path: Path) -> None:
    here = np.zeros(100, np.int64)
    data = Transitions(here, here + 1.0, here, np.where(np.arange(100) % 5 == 4, 0.0, 0.9), version=7)
    evaluator = Evaluator(TD(1), OnlineBootstrap(Constant(1e9, cap=None), n_replicas=4))
    with pytest.raises(DivergenceError) as caught:
        evaluator.update(data[start : start + size] for start in range(0, 100, size))
    assert caught.value.step <= 64
    evaluator.save(tmp_path / "run")
    loaded = Evaluator.load(tmp_path / "run")
    for one in (evaluator, loaded):
        assert one.n == one.episodes == one.interval(0).n == 0
        assert any("divergence" in note for note in one.interval(0).notes)
        with pytest.raises(DivergenceError):
            one.update(data)


def test_delayed_increments_that_diverge_leave_the_tiles_before() -> None:
    """Those of the tile that diverges may belong to rows of the tile before it."""
    rng = np.random.default_rng(1)
    features, rewards = rng.normal(size=(640, 2)), rng.normal(size=640)
    features[330:] *= 1e200
    data = Transitions(features, rewards, np.roll(features, -1, axis=0), 0.9)
    method = OnlineBootstrap(Constant(0.1, cap=None), n_replicas=4)
    at_once, in_pieces, before = (Evaluator(NStepTD(2, n=20), method) for _ in range(3))
    with pytest.raises(DivergenceError):
        at_once.update(data)
    with pytest.raises(DivergenceError):
        in_pieces.update(data[start : start + 50] for start in range(0, 640, 50))
    before.update(data[:320])
    for evaluator in (at_once, in_pieces):
        assert evaluator.n == 320
        assert evaluator.estimate([1.0, 0.0]) == before.estimate([1.0, 0.0])


@pytest.mark.parametrize("wrong", [-5, 0.5, np.nan, "100", None])
def test_settings_that_count_are_whole_numbers(wrong: Any) -> None:
    with pytest.raises(SettingError, match="number of steps"):
        BurnIn(wrong)
    with pytest.raises(SettingError, match="seed is"):
        OnlineBootstrap(seed=wrong)
    with pytest.raises(SettingError, match="first_replica is"):
        OnlineBootstrap(first_replica=wrong)


def test_same_seed_couples_and_other_seeds_do_not() -> None:
    data = PROBLEM.sample(300, seed=1)
    one = Evaluator(TD(2), OnlineBootstrap(Polynomial(0.5), seed=5)).update(data)
    same = Evaluator(TD(2), OnlineBootstrap(Polynomial(0.5), seed=5)).update(data)
    other = Evaluator(TD(2), OnlineBootstrap(Polynomial(0.5), seed=6)).update(data)
    np.testing.assert_array_equal(averages(one), averages(same))
    assert np.abs(averages(one)[1:] - averages(other)[1:]).min() > 0
    np.testing.assert_array_equal(averages(one)[0], averages(other)[0])


def test_the_estimate_alone_has_the_bits_of_the_interval() -> None:
    data = PROBLEM.sample(300, seed=1)
    rng = np.random.default_rng(0)
    evaluator = Evaluator(GTD2(2), OnlineBootstrap(Polynomial(0.5), n_replicas=20)).update(data)
    for target in rng.normal(size=(50, 2)):
        assert evaluator.estimate(target) == evaluator.interval(target).estimate


def test_nothing_is_said_of_convergence_before_any_data() -> None:
    report = Evaluator(TD(2), OnlineBootstrap(Polynomial(0.5))).report(np.ones(2))
    (check,) = (check for check in report.checks if check.name == "convergence")
    assert (check.status, check.message) == ("not available", "no transitions so far")


@pytest.mark.parametrize(
    "bad",
    [
        {"n_replicas": 1},
        {"n_replicas": 2.5},
        {"step_size": 0.5},
        {"average": "cubic"},
        {"seed": -1},
        {"seed": 2**64},
        {"first_replica": 2**32},
    ],
)
def test_bad_settings_are_refused(bad: dict[str, object]) -> None:
    with pytest.raises(SettingError):
        OnlineBootstrap(**({"step_size": Polynomial(1.0)} | bad))  # type: ignore[arg-type]
