"""Problems of the value study with finitely many states, or one step: their truths are exact."""

from __future__ import annotations

from functools import cache

import gymnasium as gym
import numpy as np
from scipy.optimize import brentq

from inferl.data.arrays import Floats, Integers
from inferl.environments import FiniteMDP, garnet, sepsis
from studies.paper.sepsis_scene import components, factors
from studies.validity.value_paths import Lookup, Path, Seed, ValueProblem, family, whole_episodes

# Seeds of what is drawn at random once for all. They were chosen so that least squares is off by several of its
# standard deviations where features leave something out, which is what such problems are for; by nothing else.
FIXED, CHAIN = 0, 1
PUBLISHED = {(5, 0.6): 0.70644, (10, 0.6): 0.72893, (20, 0.6): 0.75168, (20, 1.0): 0.77008}  # of the clinic


def exact(mdp: FiniteMDP, target: Floats, discount: float) -> tuple[float, float]:
    return float(mdp.initial @ mdp.values(target, discount)), 0.0


def rows(numbers: Integers) -> tuple[int, Lookup]:
    """A table whose row for state s is ``numbers[s]``."""
    return int(numbers.max()) + 1, lambda states: numbers[states]


def vectors(phi: Floats) -> tuple[int, Lookup]:
    """Features, a row for each state."""
    return phi.shape[1], lambda states: phi[states]


def random_features(n_states: int, dimension: int, seed: Seed) -> Floats:
    """A constant, and normal draws."""
    phi = np.random.default_rng(seed).standard_normal((n_states, dimension))
    phi[:, 0] = 1.0
    return phi


def frozen_lake() -> list[ValueProblem]:
    mdp = FiniteMDP.from_toy_text(gym.make("FrozenLake-v1", map_name="8x8", is_slippery=True))
    policy = mdp.optimal_policy(0.99)
    down, across = np.divmod(np.arange(64), 8)
    tables = {
        "table": rows(np.arange(64)),
        "tiles 2x2": rows(down // 2 * 4 + across // 2),
        "tiles 4x4": rows(down // 4 * 2 + across // 4),
    }
    features = {"random 4": vectors(random_features(64, 4, [FIXED]))}
    walk = whole_episodes(mdp, policy, 300)
    return family("FrozenLake", walk, 0.99, 300, exact(mdp, policy, 0.99), features, tables)


def taxi() -> list[ValueProblem]:
    mdp = FiniteMDP.from_toy_text(gym.make("Taxi-v4"))
    policy = mdp.optimal_policy(0.99)
    tables = {"table": rows(np.arange(500)), "position": rows(np.arange(500) // 20)}
    return family("Taxi", whole_episodes(mdp, policy, 300), 0.99, 300, exact(mdp, policy, 0.99), {}, tables)


def cliff(epsilon: float) -> list[ValueProblem]:
    mdp = FiniteMDP.from_toy_text(gym.make("CliffWalking-v1"))
    policy = (1 - epsilon) * mdp.optimal_policy(0.99) + epsilon / mdp.n_actions
    name = "CliffWalking, epsilon-greedy" if epsilon else "CliffWalking"
    walk, truth = whole_episodes(mdp, policy, 300), exact(mdp, policy, 0.99)
    return family(name, walk, 0.99, 300, truth, {}, {"table": rows(np.arange(48))}, deterministic=epsilon == 0)


@cache
def blackjack_mdp() -> FiniteMDP:
    """Gymnasium's game (``sab`` and ``natural`` off): states (sum, dealer's card, usable ace), then won, drawn, lost.

    State number: (sum * 11 + card) * 2 + ace, for sums up to 21; action 0 sticks, 1 hits.
    """
    chances = np.array([0.0] + [1 / 13] * 9 + [4 / 13])  # of a card of value 1, ..., 10
    won, drawn, lost = 484, 485, 486

    def drawing(total: int, ace: int, card: int) -> tuple[int, int]:
        total += card
        if card == 1 and total + 10 <= 21:
            return total + 10, 1
        return (total - 10, 0) if ace and total > 21 else (total, ace)

    @cache
    def dealer(total: int, ace: int) -> tuple[float, ...]:
        """Law of the dealer's score, 0 if bust."""
        law = np.zeros(22)
        if total >= 17:
            law[total if total <= 21 else 0] = 1.0
        else:
            for card in range(1, 11):
                law += chances[card] * np.array(dealer(*drawing(total, ace, card)))
        return tuple(law.tolist())

    transition = np.zeros((2, 487, 487))
    initial = np.zeros(487)
    for state in range(484):
        (total, card), ace = divmod(state // 2, 11), state % 2
        if not (4 <= total <= 21 and card >= 1 and (not ace or total >= 12)):
            transition[:, state, lost] = 1.0  # no such state
            continue
        law = np.array(dealer(*drawing(0, 0, card)))
        transition[0, state, [won, drawn, lost]] = law[:total].sum(), law[total], law[total + 1 :].sum()
        for new in range(1, 11):
            after, usable = drawing(total, ace, new)
            transition[1, state, (after * 11 + card) * 2 + usable if after <= 21 else lost] += chances[new]
    for one in range(1, 11):
        for two in range(1, 11):
            total, ace = drawing(*drawing(0, 0, one), two)
            initial[(total * 11 + np.arange(11)) * 2 + ace] += chances[one] * chances[two] * chances
    reward = np.zeros(487)
    reward[won], reward[lost] = 1.0, -1.0
    return FiniteMDP(transition, reward, initial, [won, drawn, lost])


def blackjack(stick: int) -> list[ValueProblem]:
    mdp = blackjack_mdp()
    policy = np.eye(2)[(np.arange(487) // 22 < stick).astype(int)]
    play, truth = whole_episodes(mdp, policy, 1000), exact(mdp, policy, 1.0)
    return family(f"Blackjack, stick on {stick}", play, 1.0, 1000, truth, {}, {"table": rows(np.arange(487))})


def clinic(horizon: int, strength: float) -> list[ValueProblem]:
    """Patients by visit, severity and frailty: treated by one rule, evaluated for another; paid once, at the end."""
    dead, well, half = 16 * horizon + np.arange(3)
    visit, severity, frailty = (part.ravel() for part in np.indices((horizon, 8, 2)))
    states = np.arange(16 * horizon)
    dying = 0.004 * np.exp(0.45 * severity) * (1 + 0.5 * frailty) * 5 / horizon
    leaving = np.choose(np.minimum(severity, 2), [0.12, 0.03, 0.0]) * 10 / horizon
    staying = 1 - dying - leaving
    transition = np.zeros((2, 16 * horizon + 3, 16 * horizon + 3))
    final = visit == horizon - 1
    after = np.where(severity < 4, well, half)
    for action in (0, 1):
        helps = action * np.where(severity >= 3, 0.16, 0.02)
        up = 0.32 + 0.10 * frailty - helps + action * np.where((frailty == 1) & (severity < 3), 0.10, 0.0)
        down = 0.28 - 0.06 * frailty + helps
        for change, chance in ((1, up), (-1, down), (0, 1 - up - down)):
            next_state = np.where(final, after, states + 16 + 2 * (np.clip(severity + change, 0, 7) - severity))
            np.add.at(transition[action], (states, next_state), staying * chance)
        transition[action, states, dead] += dying
        transition[action, states, well] += leaving
    reward = np.zeros(16 * horizon + 3)
    reward[[well, half]] = 1.0, 0.5
    initial = np.zeros(16 * horizon + 3)
    first = states[:16]
    initial[:16] = np.exp(-((severity[first] - 3.5) ** 2) / 4.5) * np.where(frailty[first] == 1, 0.3, 0.7)
    mdp = FiniteMDP(transition, reward, initial / initial.sum(), [dead, well, half])

    def policy(treating: Floats) -> Floats:
        full = np.append(treating, np.full(3, 0.5))  # the last three are terminal
        return np.stack([1 - full, full], axis=1)

    target = policy(1 / (1 + np.exp(-strength * (severity - 2.5))))
    behaviour = policy(0.35 + 0.05 * severity - 0.1 * frailty)
    truth = exact(mdp, target, 1.0)
    assert abs(truth[0] - PUBLISHED[horizon, strength]) < 6e-6
    ended = np.zeros(3, np.int64)
    tables = {
        "3 bins": rows(np.append(np.digitize(severity, [2, 5]), ended)),
        "rich": rows(np.append((visit * 5 // horizon * 2 + frailty) * 8 + severity, ended)),
    }
    v, t = severity / 7, visit / horizon
    linear = np.vstack([np.stack([np.ones(v.size), v, t, v * t], axis=1), np.zeros((3, 4))])
    treat = whole_episodes(mdp, target, 500, behaviour)
    return family(f"clinic {horizon}, {strength}", treat, 1.0, 500, truth, {"linear": vectors(linear)}, tables)


def ads() -> list[ValueProblem]:
    """Sessions that tire of loud advertisements; the features may or may not show how tired."""
    generator = np.random.default_rng(FIXED)
    segment, fatigue, device = (part.ravel() for part in np.indices((4, 3, 2)))
    loudness, tiring = np.array([0.1, 0.3, 0.5, 0.7]), np.array([0.3, 0.6, 1.0, 1.5])
    worth = np.array([0.5, 1.0, 1.5, 1.0])
    clicking = np.array([0.03, 0.08, 0.12, 0.2]) * ((1.5 - 0.5 * fatigue) * (1 + 0.3 * segment))[:, None]
    clicking *= np.where(device == 1, 0.7, 1.0)[:, None] * generator.uniform(0.7, 1.3, (24, 4))
    leaving = np.minimum(0.2, 0.005 + 0.02 * fatigue[:, None] * tiring)
    transition = np.zeros((4, 25, 25))
    states = np.arange(24)
    for ad, loud in enumerate(loudness):
        rise, fall = 0.6 * loud, 0.5 * (1 - loud)
        for change, tired in ((1, rise), (-1, fall), (0, 1 - rise - fall)):
            for onward, moved in ((1, 0.05), (0, 0.95)):
                for other, swapped in ((1, 0.1), (0, 0.9)):
                    where = ((segment + onward) % 4 * 3 + np.clip(fatigue + change, 0, 2)) * 2 + (device ^ other)
                    np.add.at(transition[ad], (states, where), (1 - leaving[:, ad]) * tired * moved * swapped)
        transition[ad, :24, 24] = leaving[:, ad]
    pay = np.vstack([clicking * worth, np.zeros((1, 4))])
    initial = np.append(np.where(fatigue == 0, 1 / 8, 0.0), 0.0)  # sessions begin rested
    mdp = FiniteMDP(transition, np.broadcast_to(pay.T[:, :, None], transition.shape), initial, [24])

    noise = np.exp(generator.standard_normal((25, 4)))
    behaviour = 0.9 * noise / noise.sum(axis=1, keepdims=True) + 0.1 / 4
    target = 0.5 * behaviour + 0.5 * (0.8 * np.eye(4)[pay.argmax(axis=1)] + 0.2 / 4)

    def clicks(path: Path, shown: Integers, draws: np.random.Generator) -> Floats:
        return np.where(draws.random(shown.size) < clicking[path.observations, shown], worth[shown], 0.0)

    tables = {
        "all states": rows(np.append(states, 0)),
        "hidden fatigue": rows(np.append(segment * 2 + device, 0)),
    }
    show = whole_episodes(mdp, target, 500, behaviour, clicks)
    return family("ads", show, 0.9, 500, exact(mdp, target, 0.9), {}, tables)


def bandit() -> list[ValueProblem]:
    """One step: three numbers are seen, one of four actions is taken, a reward is paid."""
    generator = np.random.default_rng(FIXED)
    acting, wanted = generator.standard_normal((2, 3, 4)) * 0.7
    slopes = generator.standard_normal((3, 4))

    def softmax(scores: Floats) -> Floats:
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        return np.asarray(weights / weights.sum(axis=1, keepdims=True))

    def mean_reward(x: Floats) -> Floats:
        bent = 0.3 * x[:, :1] ** 2 * np.array([0.0, 1.0, -1.0, 0.5])
        return np.asarray(np.sin(x @ slopes) + bent + np.array([0.0, 0.5, 1.0, 0.0]))

    def value(nodes: int) -> float:
        """By Gauss-Hermite quadrature in three dimensions."""
        place, weight = np.polynomial.hermite_e.hermegauss(nodes)
        x = np.stack([axis.ravel() for axis in np.meshgrid(place, place, place)], axis=1)
        law = np.einsum("i,j,k->ijk", weight, weight, weight).ravel()
        return float((law / law.sum()) @ (softmax(x @ wanted) * mean_reward(x)).sum(axis=1))

    def simulate(seed: Seed) -> Path:
        draws = np.random.default_rng(seed)
        n = np.arange(1000)
        x = draws.standard_normal((1000, 3))
        behaviour, target = softmax(x @ acting), softmax(x @ wanted)
        action = (draws.random((1000, 1)) > behaviour.cumsum(axis=1)[:, :-1]).sum(axis=1)
        rewards = mean_reward(x)[n, action] + 0.5 * draws.standard_normal(1000)
        always = np.ones(1000, np.bool_)
        return Path(x, np.zeros_like(x), rewards, always, always, target[n, action] / behaviour[n, action])

    truth = value(60)
    assert abs(truth - value(48)) < 1e-6
    linear: tuple[int, Lookup] = (4, lambda x: np.column_stack([np.ones(len(x)), x]))
    return family("bandit", simulate, 0.0, 1000, (truth, 0.0), {"linear": linear})


def chain(kind: str) -> list[ValueProblem]:
    """One long chain of 20 states: visits of state 0 are the starts.

    The weights of returns have a finite variance where the spectral radius of g^2 E[rho^2 P] is below 1; it is .81
    without ratios, .85 with mild and 1.12 with strong ones.
    """
    discount, steps = 0.9, 20_000
    mdp, _, behaviour = garnet(CHAIN, n_states=20, n_actions=3, branching=3)
    behaviour = 0.5 * behaviour + 0.5 / 3
    other = np.eye(3)[np.random.default_rng([CHAIN, 5]).integers(3, size=20)]

    def mixed(share: float) -> Floats:
        return (1 - share) * behaviour + share * other

    def radius(share: float) -> float:
        squares = mdp.outcomes.weights(mixed(share) ** 2 / behaviour)
        matrix = discount**2 * mdp.outcomes.kernel(squares, 20).toarray()
        return float(np.abs(np.linalg.eigvals(matrix)).max())

    wanted = {"on-policy": 0.81, "mild": 0.85, "strong": 1.12}[kind]
    share = 0.0 if kind == "on-policy" else float(brentq(lambda s: radius(s) - wanted, 0.0, 1.0))
    target = mixed(share)
    values = mdp.values(target, discount)

    def simulate(seed: Seed) -> Path:
        path = mdp.sample(behaviour, steps, seed=seed)
        ratios = path.ratios(target, behaviour) if share else 1.0
        return Path(path.states, path.next_states, path.rewards, path.terminated, path.terminated, ratios)

    phi = random_features(20, 4, [CHAIN, 4])
    groups = np.append(0, 1 + np.arange(19) * 3 // 19)  # state 0 has a row of its own, or it could not be recognised
    truth = float(values[0]), 0.0
    name = f"chain, {kind}"
    vector = family(name, simulate, discount, 0, truth, {"random 4": vectors(phi)}, start=phi[0])
    return vector + family(name, simulate, discount, 0, truth, {}, {"4 groups": rows(groups)}, start=0)


def septic(epsilon: float = 0.05) -> list[ValueProblem]:
    """The optimal treatment of sepsis, from patients whose treatment departs from it now and then; none is cut."""
    mdp = sepsis.mdp()
    target = mdp.optimal_policy(0.99)
    behaviour = (1 - epsilon) * target + epsilon / mdp.n_actions

    def simulate(seed: Seed) -> Path:
        path = sepsis.sample(behaviour, 1000, seed, horizon=100_000)
        assert path.truncated is not None
        assert not path.truncated.any()
        ratios = path.ratios(target, behaviour)
        return Path(path.states, path.next_states, path.rewards, path.terminated, path.terminated, ratios)

    features = {"components": vectors(components()), "factors": vectors(factors())}
    tables = {"table": rows(np.arange(mdp.n_states))}
    return family("sepsis", simulate, 0.99, 1000, exact(mdp, target, 0.99), features, tables)
