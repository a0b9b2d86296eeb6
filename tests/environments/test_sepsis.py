"""The sepsis simulator against the check values of its specification, and against its law written as plain code."""

from __future__ import annotations

from functools import cache

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from numpy.typing import NDArray
from scipy.special import chdtrc
from typer.testing import CliRunner

from inferl.cli import app
from inferl.environments import FiniteMDP, sepsis
from inferl.environments.sepsis import law
from inferl.environments.sepsis.sampler import successors
from inferl.errors import DataError, SettingError, ShapeError

STATES = np.arange(1440)
FALSE_ALARM = 1e-6  # of each chi-square test


@cache
def model(variant: str = "corrected") -> FiniteMDP:
    return sepsis.mdp(variant)


def row(mdp: FiniteMDP, state: int, action: int) -> dict[int, float]:
    states, actions, successors, chances, _ = mdp.outcomes
    rows = (states == state) & (actions == action)
    return dict(zip(successors[rows].tolist(), chances[rows].tolist(), strict=True))


# States and actions.


def test_states_are_counted_as_specified() -> None:
    assert np.bincount(sepsis.abnormal(STATES)).tolist() == [16, 144, 448, 576, 256]
    assert sepsis.is_death(STATES).sum() == 832
    assert np.flatnonzero(sepsis.is_discharge(STATES)).tolist() == [376, 1096]
    assert (sepsis.encode(sepsis.decode(STATES)) == STATES).all()
    assert (sepsis.decode(STATES) @ [720, 240, 80, 40, 8, 4, 2, 1] == STATES).all()


def test_hidden_factors() -> None:
    factors = sepsis.decode(STATES)
    assert (sepsis.observed(STATES) == factors[:, 1:] @ [240, 80, 40, 8, 4, 2, 1]).all()
    assert (sepsis.projected(STATES) == factors[:, [1, 2, 3, 5, 6, 7]] @ [48, 16, 8, 4, 2, 1]).all()


def test_bad_states_are_named() -> None:
    with pytest.raises(DataError, match="1440"):
        sepsis.decode([3, 1440])
    with pytest.raises(DataError, match="glucose is 5"):
        sepsis.encode([0, 1, 1, 1, 5, 0, 0, 0])
    with pytest.raises(ShapeError):
        sepsis.encode([0, 1, 1])


# The first state.


def test_the_initial_law() -> None:
    start = sepsis.initial_law()
    assert np.count_nonzero(start) == 74
    assert start[720:].sum() == pytest.approx(0.133 / 0.701, rel=1e-12)
    expected = {136: 0.06847361, 368: 0.03423680, 1104: 0.03423680, 256: 0.01711840, 1072: 0.00271041, 696: 0.03423680}
    assert start[list(expected)] == pytest.approx(list(expected.values()), abs=6e-9)
    assert start @ (STATES + 1) == pytest.approx(509.191726106, abs=1e-8)


def test_the_initial_law_given_diabetes() -> None:
    start = sepsis.initial_law()
    for has, half in enumerate((slice(0, 720), slice(720, None))):
        given = sepsis.initial_law(float(has))
        assert given[half] == pytest.approx(start[half] / start[half].sum(), rel=1e-12)
        assert given.sum() == pytest.approx(1)


# The tensor.

# state, action, number of successors, three largest, P(death), P(discharge)
VECTORS = [
    (368, 0, 54, {368: 0.4608, 128: 0.0576, 288: 0.0576}, 0.0652, 0.0576),
    (1104, 0, 54, {1104: 0.2304, 1096: 0.1728, 1112: 0.1728}, 0.0516, 0.1728),
    (696, 7, 4, {463: 0.425, 703: 0.425, 383: 0.075}, 0, 0),
    (383, 0, 36, {376: 0.53136, 368: 0.06642, 384: 0.06642}, 0.00992, 0.53136),
    (56, 1, 8, {138: 0.567, 58: 0.243, 98: 0.063}, 0.027, 0),
    (1182, 4, 18, {1100: 0.18, 1180: 0.171, 1092: 0.135}, 0.03, 0),
    (336, 3, 12, {459: 0.392, 379: 0.168, 419: 0.168}, 0.042, 0),
]
CHANGED = [
    (368, 0, 36, {368: 0.5184, 128: 0.0648, 288: 0.0648}, 0.072, 0),
    (383, 0, 24, {376: 0.53136, 368: 0.13284, 336: 0.05904}, 0.00992, 0.53136),
]
ORIGINAL = [vector for vector in VECTORS if vector[0] not in (368, 383)] + CHANGED


@pytest.mark.parametrize(
    ("variant", "vector"), [("corrected", v) for v in VECTORS] + [("original", v) for v in ORIGINAL], ids=str
)
def test_transition_vectors(variant: str, vector: tuple[int, int, int, dict[int, float], float, float]) -> None:
    state, action, count, largest, death, discharge = vector
    found = row(model(variant), state, action)
    assert len(found) == count
    top = sorted(found, key=lambda s: (-round(found[s], 12), s))[:3]
    assert {s: found[s] for s in top} == pytest.approx(largest, abs=1e-12)
    assert list(largest) == top
    assert sum(p for s, p in found.items() if sepsis.is_death(s)) == pytest.approx(death, abs=1e-12)
    assert sum(p for s, p in found.items() if sepsis.is_discharge(s)) == pytest.approx(discharge, abs=1e-12)


PRESSURE = """
off, off         | .9 .1 0 / .1 .8 .1 / 0 .1 .9 | .9 .1 0 / .1 .8 .1 / 0 .1 .9
on, off          | 1 0 0 / 0 1 0 / 0 .5 .5 | 1 0 0 / 0 1 0 / 0 .5 .5
withdrawn, off   | 1 0 0 / 0 .9 .1 / 0 0 1 | 1 0 0 / 0 .9 .1 / 0 0 1
off, on          | .3 .7 0 / 0 .3 .7 / 0 0 1 | .1 .5 .4 / 0 .1 .9 / 0 0 1
on, on           | .3 .7 0 / 0 .3 .7 / 0 .15 .85 | .1 .5 .4 / 0 .1 .9 / 0 .05 .95
withdrawn, on    | .3 .7 0 / 0 .27 .73 / 0 0 1 | .1 .5 .4 / 0 .09 .91 / 0 0 1
off, withdrawn   | 1 0 0 / .1 .9 0 / 0 .1 .9 | 1 0 0 / .05 .95 0 / 0 .05 .95
on, withdrawn    | 1 0 0 / .1 .9 0 / .05 .5 .45 | 1 0 0 / .05 .95 0 / .025 .5 .475
withdrawn, withdrawn | 1 0 0 / .09 .82 .09 / 0 .1 .9 | 1 0 0 / .045 .86 .095 / 0 .05 .95
"""


def test_the_law_of_blood_pressure() -> None:
    rows = law.vital_rows().pressure
    for line in PRESSURE.strip().splitlines():
        courses, *matrices = line.split("|")
        antibiotics, vasopressors = (word.strip() for word in courses.split(","))
        action = 4 * (antibiotics == "on") + (vasopressors == "on")
        for has, matrix in enumerate(matrices):
            for level, chances in enumerate(matrix.split("/")):
                before = [int(antibiotics == "withdrawn"), int(vasopressors == "withdrawn")]
                state = int(sepsis.encode([has, 1, level, 1, 2, *before, 0]))
                assert rows[state, action] == pytest.approx([float(x) for x in chances.split()], abs=1e-12), line


def test_the_variants_differ_as_specified() -> None:
    pairs = zip(*map(sepsis.transition, sepsis.VARIANTS), strict=True)
    entries = np.stack([abs(one - other).max(axis=1).toarray().ravel() for one, other in pairs], axis=1)
    differs = entries > 1e-12
    assert differs.sum() == 2304
    assert not differs[720:].any()
    assert differs[law.REWARDS == 0].sum() == 1020
    assert entries.max() == pytest.approx(0.1)


@pytest.mark.parametrize(("variant", "states", "loss"), [("corrected", 55, 0.231), ("original", 53, 0.130)])
def test_a_policy_solved_without_ends_is_another_one(variant: str, states: int, loss: float) -> None:
    endless = FiniteMDP(sepsis.transition(variant), law.REWARDS, sepsis.initial_law())
    live = law.REWARDS == 0
    best = model(variant).optimal_policy(0.99)
    gains = model(variant).action_values(best, 0.99)
    # Ties, to 1e-9, go to the lowest action, in both.
    wrong = endless.action_values(endless.optimal_policy(0.99), 0.99)
    chosen, right = (np.argmax(x >= x.max(axis=1, keepdims=True) - 1e-9, axis=1) for x in (wrong, gains))
    assert (chosen != right)[live].sum() == states
    lost = gains.max(axis=1) - gains[np.arange(1440), chosen]
    assert lost[live].max() == pytest.approx(loss, abs=6e-4)


def reachable(mdp: FiniteMDP) -> NDArray[np.bool_]:
    kernel = mdp.outcomes.kernel(mdp.outcomes.probabilities, 1440)
    found = mdp.initial > 0
    for _ in range(60):
        found = found | (kernel.T @ found.astype(float) > 0)
    return found


def test_reachable_states() -> None:
    found = reachable(model())
    assert [
        int(x.sum()) for x in (found & (law.REWARDS == 0), found & (law.REWARDS < 0), found & (law.REWARDS > 0))
    ] == [
        606,
        650,
        2,
    ]


def test_exact_values() -> None:
    mdp = model()
    best = mdp.optimal_policy(0.99)
    soft, uniform = 0.95 * best + 0.05 / 8, np.full((1440, 8), 1 / 8)
    values = [float(mdp.initial @ mdp.values(policy, 0.99)) for policy in (best, soft, uniform)]
    assert values == pytest.approx([0.743701, 0.610145, -0.766771], abs=6e-7)
    for policy, expected in ((soft, 24.159096), (uniform, 10.567576)):
        # The chain restarts as often as episodes end: one step in so many.
        weights = mdp.outcomes.weights(policy)
        ends = np.bincount(mdp.outcomes.states, weights * mdp.terminal[mdp.outcomes.next_states], 1440)
        assert 1 / (mdp.stationary(policy) @ ends) == pytest.approx(expected, abs=1e-6)
    gains = np.sort(mdp.action_values(best, 0.99)[law.REWARDS == 0], axis=1)
    assert (gains[:, -1] - gains[:, -2]).min() == pytest.approx(1.16e-5, abs=1e-7)


def test_ties_of_the_original() -> None:
    mdp = model("original")
    best = mdp.optimal_policy(0.99)
    gains = np.sort(mdp.action_values(best, 0.99)[law.REWARDS == 0], axis=1)
    assert (gains[:, -1] - gains[:, -2] < 1e-9).sum() == 56


# The sampler.


def plain_step(factors: list[int], action: int, variant: str, draw: np.random.Generator) -> list[int]:
    """Section 4 of the specification, one patient, in the order of the text."""
    diabetes, heart, pressure, oxygen, glucose, had_antibiotics, had_vasopressors, had_ventilation = factors
    antibiotics, ventilation, vasopressors = action >> 2 & 1, action >> 1 & 1, action & 1
    if antibiotics:
        if heart == 2 and draw.random() < 0.5:
            heart = 1
        if pressure == 2 and draw.random() < 0.5:
            pressure = 1
    elif had_antibiotics:
        if heart == 1 and draw.random() < 0.1:
            heart = 2
        if pressure == 1 and draw.random() < 0.1:
            pressure = 2
    if ventilation:
        if oxygen == 0 and draw.random() < 0.7:
            oxygen = 1
    elif had_ventilation and oxygen == 1 and draw.random() < 0.1:
        oxygen = 0
    if vasopressors and not diabetes:
        if pressure < 2 and draw.random() < 0.7:
            pressure += 1
    elif vasopressors:
        luck = draw.random()
        if pressure == 0:
            pressure = 1 if luck < 0.5 else 2 if luck < 0.9 else 0
        elif pressure == 1 and luck < 0.9:
            pressure = 2
        if draw.random() < 0.5:
            glucose = min(glucose + 1, 4)
    elif had_vasopressors and pressure > 0 and draw.random() < (0.05 if diabetes else 0.1):
        pressure -= 1

    def fluctuate(level: int, chance: float, most: int) -> int:
        luck = draw.random()
        if luck < chance:
            return max(level - 1, 0)
        return min(level + 1, most) if luck < 2 * chance else level

    if not antibiotics and not had_antibiotics:
        heart = fluctuate(heart, 0.1, 2)
        if not vasopressors and not had_vasopressors:
            pressure = fluctuate(pressure, 0.1, 2)
    if not ventilation and not had_ventilation:
        oxygen = fluctuate(oxygen, 0.1, 1)
    if not vasopressors:
        most = 1 if variant == "original" and not diabetes else 4
        glucose = fluctuate(glucose, 0.3 if diabetes else 0.1, most)
    return [diabetes, heart, pressure, oxygen, glucose, antibiotics, vasopressors, ventilation]


def chi_square(counts: NDArray[np.int64], chances: NDArray[np.float64]) -> float:
    """Probability of a worse fit; outcomes expected fewer than 5 times are pooled with the likeliest one."""
    assert counts[chances == 0].sum() == 0
    expected = counts.sum() * chances
    cell = np.where(expected < 5, chances.argmax(), np.arange(chances.size))
    found, expected = (np.bincount(cell, x, chances.size) for x in (counts, expected))
    used = expected > 0
    if used.sum() == 1:
        return 1.0
    return float(chdtrc(used.sum() - 1, ((found - expected)[used] ** 2 / expected[used]).sum()))


@pytest.mark.parametrize("variant", sepsis.VARIANTS)
def test_the_tensor_is_the_law_as_it_is_told(variant: str) -> None:
    # 60 pairs of state and action, 400 draws each; false alarm in the test: 60 x 1e-6.
    draw = np.random.default_rng(7)
    live = np.flatnonzero(law.REWARDS == 0)
    for state, action in zip(draw.choice(live, 60), draw.integers(8, size=60), strict=True):
        factors = sepsis.decode(state).tolist()
        drawn = sepsis.encode([plain_step(factors, int(action), variant, draw) for _ in range(400)])
        chances = np.zeros(1440)
        for successor, chance in row(model(variant), state, action).items():
            chances[successor] = chance
        assert chi_square(np.bincount(drawn, minlength=1440), chances) > FALSE_ALARM


@pytest.mark.parametrize("variant", sepsis.VARIANTS)
def test_the_sampler_follows_the_tensor(variant: str) -> None:
    # All 4848 live pairs at once, weighted by a random choice of pair; a single chi-square, false alarm 1e-6.
    draw = np.random.default_rng(8)
    n = 4_000_000
    states, actions = draw.choice(np.flatnonzero(law.REWARDS == 0), n), draw.integers(8, size=n)
    found = successors(states, actions, draw.random((4, n)), variant)
    outcomes = model(variant).outcomes
    key = (outcomes.states * 8 + outcomes.actions) * 1440 + outcomes.next_states
    drawn = (states * 8 + actions) * 1440 + found
    place = np.searchsorted(key, drawn)
    assert (key[np.minimum(place, key.size - 1)] == drawn).all()
    counts = np.bincount(place, minlength=key.size)
    pairs = np.bincount(states * 8 + actions, minlength=1440 * 8)
    expected = pairs[outcomes.states * 8 + outcomes.actions] * outcomes.probabilities
    # Outcomes expected fewer than 5 times are pooled with the likeliest one of their pair.
    pair = outcomes.states * 8 + outcomes.actions
    order = np.lexsort((outcomes.probabilities, pair))
    likeliest = np.zeros(1440 * 8, dtype=np.int64)
    likeliest[pair[order]] = order  # the last one stays
    cell = np.where(expected < 5, likeliest[pair], np.arange(key.size))
    counts, expected = (np.bincount(cell, x, key.size) for x in (counts, expected))
    used = expected > 0
    assert expected[used].min() >= 5
    statistic = ((counts - expected)[used] ** 2 / expected[used]).sum()
    # Each pair's number of draws is given, which takes one degree of freedom.
    assert FALSE_ALARM / 2 < chdtrc(used.sum() - 4848, statistic) < 1 - FALSE_ALARM / 2


def test_episodes_start_and_end_as_they_should() -> None:
    best = model().optimal_policy(0.99)
    path = sepsis.sample(0.95 * best + 0.05 / 8, 40_000, seed=3)
    assert path.truncated is not None
    ends = path.terminated | path.truncated
    first = np.append(True, ends[:-1])
    assert ends.sum() == 40_000
    assert ends[-1]
    assert (path.states[1:] == path.next_states[:-1])[~ends[:-1]].all()
    assert (path.terminated == (law.REWARDS[path.next_states] != 0)).all()
    assert (path.rewards == law.REWARDS[path.next_states]).all()
    lengths = np.diff(np.append(np.flatnonzero(first), len(path)))
    assert lengths.max() == 20
    assert (lengths[path.truncated[ends]] == 20).all()
    assert chi_square(np.bincount(path.states[first], minlength=1440), sepsis.initial_law()) > FALSE_ALARM


def test_the_sampler_keeps_to_the_policy() -> None:
    draw = np.random.default_rng(0)
    policy = draw.dirichlet(np.full(8, 0.5), size=1440)
    path = sepsis.sample(policy, 30_000, seed=1, horizon=3, variant="original", diabetes=0.5)
    counts = np.zeros((1440, 8))
    np.add.at(counts, (path.states, path.actions), 1)
    expected = counts.sum(axis=1, keepdims=True) * policy
    used = expected >= 5
    # One degree of freedom off for each state with all eight cells; fewer else, so this is lenient; false alarm 1e-6.
    statistic = ((counts - expected)[used] ** 2 / expected[used]).sum()
    assert chdtrc(used.sum() - used.any(axis=1).sum(), statistic) > FALSE_ALARM


def test_cut_episodes_are_data_with_a_discount() -> None:
    path = sepsis.sample(model().optimal_policy(0.99), 500, seed=0, horizon=5)
    data = path.transitions(0.99)
    assert (data.discounts == np.where(path.terminated, 0, 0.99)).all()
    assert path.truncated is not None
    assert (data.last == (path.terminated | path.truncated)).all()
    assert path.truncated.any()


@pytest.mark.parametrize(
    "wrong",
    [{"variant": "fixed"}, {"diabetes": 1.5}, {"horizon": 0}, {"n_episodes": 0}, {"policy": np.ones((1440, 8))}],
)
def test_bad_settings_are_refused(wrong: dict[str, object]) -> None:
    settings = {"policy": np.full((1440, 8), 1 / 8), "n_episodes": 10, "seed": 0} | wrong
    with pytest.raises(SettingError):
        sepsis.sample(**settings)  # type: ignore[arg-type]


# Gymnasium.


@pytest.mark.parametrize(
    "settings",
    [{}, {"variant": "original"}, {"hide_diabetes": True}, {"diabetes": 0.7, "render_mode": "ansi"}],
)
def test_gymnasium_accepts_the_environment(settings: dict[str, object]) -> None:
    env = gymnasium.make("inferl/Sepsis-v0", **settings)  # type: ignore[arg-type]
    check_env(env.unwrapped)
    assert env.spec is not None
    assert env.spec.max_episode_steps == 20
    assert env.observation_space.n == (720 if "hide_diabetes" in settings else 1440)  # type: ignore[attr-defined]


def test_the_environment_plays_by_the_tensor() -> None:
    # Uniform actions in the environment itself; each pair's successors by one chi-square, false alarm 1e-6.
    env = gymnasium.make("inferl/Sepsis-v0")
    draw = np.random.default_rng(5)
    chances = np.zeros(1440)
    for successor, chance in row(model(), 368, 0).items():
        chances[successor] = chance
    counts = np.zeros(1440, dtype=np.int64)
    env.reset(seed=4)
    for _ in range(3000):
        env.unwrapped.state = 368  # type: ignore[attr-defined]
        state, reward, terminated, _, _ = env.unwrapped.step(np.int64(0))
        assert reward == law.REWARDS[state]
        assert terminated == (reward != 0)
        counts[state] += 1
    assert chi_square(counts, chances) > FALSE_ALARM
    starts = [env.reset(options={"diabetes": has})[0] // 720 for has in draw.integers(2, size=200).tolist()]
    assert starts == np.random.default_rng(5).integers(2, size=200).tolist()


def test_the_horizon_and_hidden_diabetes() -> None:
    env = gymnasium.make("inferl/Sepsis-v0", max_episode_steps=2, hide_diabetes=True, diabetes=1.0)
    for seed in range(20):
        state, _ = env.reset(seed=seed)
        assert state < 720
        _, _, terminated, truncated, _ = env.step(7)
        if not terminated:
            _, _, terminated, truncated, _ = env.step(7)
            assert truncated
    with pytest.raises(SettingError, match="0 to 7"):
        env.unwrapped.step(8)


def test_the_shell_knows_the_environment() -> None:
    run = CliRunner().invoke(app, ["rollout", "inferl/Sepsis-v0", "--episodes", "30"])
    assert run.exit_code == 0, run.output
    assert "95%" in run.output
