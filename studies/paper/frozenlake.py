"""FrozenLake 8x8, on-policy: the paper's section 5.1 and its supplement.

Slippery, episodes not cut, discount .99; a near-optimal policy by Q-learning; the value of the start by linear TD. The
truth is exact. Every repeat is a fresh path of 2000 episodes, and all methods see the same one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

import inferl
from inferl.baselines import offline_bootstrap
from inferl.data.arrays import Floats
from inferl.environments import FiniteMDP, Trajectory
from studies.paper.cost import Contest, cost
from studies.paper.learners import Learned, q_learning
from studies.paper.machinery import Part, Result
from studies.paper.study import Study
from studies.paper.summaries import cells, diverged, feed, law_alone, means, rates, reading, readings

__all__ = ["FrozenLake", "lake", "run"]

KINDS = inferl.OnlineBootstrap.kinds
STEPS_PER_EPISODE = 130  # 86 on average; room for a path that is longer than most


@dataclass(frozen=True)
class FrozenLake:
    """Settings of the study; seeds and step sizes were fixed before the reported run.

    >>> FrozenLake().episodes[-1]
    2000
    """

    seed: int = 61_000
    discount: float = 0.99
    episodes: tuple[int, ...] = (50, 100, 250, 500, 1000, 2000)
    n_replicas: int = 200
    initial: float = 100.0
    decay: float = 0.65
    cap: float = 0.5
    printed_initials: tuple[float, ...] = (1.0, 10.0)
    initials: tuple[float, ...] = (1.0, 10.0, 30.0, 100.0, 300.0)
    decays: tuple[float, ...] = (0.55, 0.65, 0.75, 0.9)
    n_features: int = 8
    features_seed: int = 2
    features_initial: float = 16.0  # a quarter of 1 over the smallest eigenvalue of A
    learning_steps: int = 1_000_000
    learning_seed: int = 0

    def bootstrap(self, number: int, **changes: Any) -> inferl.OnlineBootstrap:
        """The corrected bootstrap, with the multipliers of a repeat; no companion, which only serves the checks."""
        step_size = inferl.Polynomial(self.initial, self.decay, self.cap)
        method = inferl.OnlineBootstrap(step_size, self.n_replicas, seed=self.seed + number, companion=False)
        return replace(method, **changes)

    def printed(self, initial: float, number: int) -> inferl.OnlineBootstrap:
        """The paper's text to the letter."""
        method = inferl.OnlineBootstrap.as_printed(initial, self.n_replicas, self.seed + number)
        return replace(method, companion=False)


@cache
def lake(settings: FrozenLake) -> tuple[FiniteMDP, Learned]:
    """The exact model, and the policy that Q-learning finds."""
    try:
        import gymnasium
    except ImportError:
        from inferl.errors import MissingExtraError

        raise MissingExtraError("gymnasium", "gym") from None
    mdp = FiniteMDP.from_toy_text(gymnasium.make("FrozenLake-v1", map_name="8x8", is_slippery=True))
    return mdp, q_learning(mdp, settings.discount, settings.learning_steps, settings.learning_seed)


def truth(settings: FrozenLake) -> float:
    """Exact value of the start under the learned policy."""
    mdp, learned = lake(settings)
    return float(mdp.values(learned.policy, settings.discount)[0])


def random_features(settings: FrozenLake) -> tuple[Floats, float]:
    """A few random features of norm 1, and phi(s0)'theta*, which is what an interval should cover with them."""
    mdp, learned = lake(settings)
    features = np.random.default_rng(settings.features_seed).standard_normal((mdp.n_states, settings.n_features))
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    theta = mdp.fixed_point(features, learned.policy, None, settings.discount)
    return features, float(features[0] @ theta)


def path_of(settings: FrozenLake, number: int) -> tuple[Trajectory, list[int]]:
    """The path of a repeat, and after how many steps each number of episodes is complete."""
    mdp, learned = lake(settings)
    steps = STEPS_PER_EPISODE * max(settings.episodes) + 2000
    path = mdp.sample(learned.policy, steps, seed=[settings.seed, number])
    return path, (np.flatnonzero(path.terminated) + 1).tolist()


def follow(
    settings: FrozenLake, methods: Mapping[str, Any], number: int, features: Floats | None = None
) -> Iterator[tuple[str, int, inferl.Evaluator | None]]:
    """Let methods watch a repeat's path, and stop at every checkpoint; None where a recursion has diverged."""
    path, ends = path_of(settings, number)
    data = path.transitions(settings.discount, features)
    dimension = lake(settings)[0].n_states if features is None else features.shape[1]
    for name, method in methods.items():
        evaluator: inferl.Evaluator | None = inferl.Evaluator(inferl.TD(dimension), method)
        start = 0
        for episodes in settings.episodes:
            end = ends[episodes - 1]
            evaluator = evaluator and feed(evaluator, data[start:end])
            start = end
            yield name, episodes, evaluator


def _read_all(settings: FrozenLake, methods: Mapping[str, Any], number: int) -> Result:
    exact = truth(settings)
    return {
        f"{name}|{episodes}": diverged(exact, KINDS) if evaluator is None else readings(evaluator, 0, exact)
        for name, episodes, evaluator in follow(settings, methods, number)
    }


def coverage_repeat(settings: FrozenLake, number: int) -> Result:
    """As printed, the law alone, the corrected bootstrap, and least squares."""
    methods: dict[str, Any] = {
        f"as printed, initial {initial:g}": settings.printed(initial, number) for initial in settings.printed_initials
    }
    methods |= {"bootstrap": settings.bootstrap(number), "least squares": inferl.LeastSquares()}
    found = _read_all(settings, methods, number)
    alone = {
        key.replace("bootstrap", "law alone"): law_alone(kept)
        for key, kept in found.items()
        if key.startswith("bootstrap|")
    }
    return found | alone


def sensitivity_repeat(settings: FrozenLake, number: int) -> Result:
    """The corrected bootstrap with other step sizes."""
    pairs = [(initial, settings.decay) for initial in settings.initials]
    pairs += [(settings.initial, decay) for decay in settings.decays if (settings.initial, decay) not in pairs]
    methods = {
        f"{initial:g}, {decay:g}": settings.bootstrap(number, step_size=inferl.Polynomial(initial, decay, settings.cap))
        for initial, decay in pairs
    }
    return _read_all(settings, methods, number)


def features_repeat(settings: FrozenLake, number: int) -> Result:
    """A few random features: scores depend on each other within an episode, and the truth is the fixed point."""
    features, exact = random_features(settings)
    step_size = inferl.Polynomial(settings.features_initial, settings.decay, settings.cap)
    by_episode = inferl.Multipliers(clock="episode")
    methods = {
        "bootstrap, a multiplier a step": settings.bootstrap(number, step_size=step_size),
        "bootstrap, a multiplier an episode": settings.bootstrap(number, step_size=step_size, multipliers=by_episode),
        "least squares": inferl.LeastSquares(),
    }
    return {
        f"{name}|{episodes}": diverged(exact, KINDS) if evaluator is None else readings(evaluator, features[0], exact)
        for name, episodes, evaluator in follow(settings, methods, number, features)
    }


def order_repeat(settings: FrozenLake, number: int) -> Result:
    """Errors of the estimate at the end, from the path and from the same transitions in random order.

    In random order transitions do not depend on those before them; what differs is the bias that dependence makes.
    """
    path, ends = path_of(settings, number)
    end = ends[max(settings.episodes) - 1]
    shuffled = np.random.default_rng([settings.seed, number, 1]).permutation(end)
    features, fixed_point = random_features(settings)
    cases: list[tuple[Floats | None, Any, float, float]] = [
        (None, 0, truth(settings), initial) for initial in settings.initials if initial >= settings.initial
    ]
    cases.append((features, features[0], fixed_point, settings.features_initial))
    found = {}
    for phi, target, exact, initial in cases:
        data = path.transitions(settings.discount, phi)[:end]
        dimension = lake(settings)[0].n_states if phi is None else phi.shape[1]
        method = settings.bootstrap(number, step_size=inferl.Polynomial(initial, settings.decay, settings.cap))
        method = replace(method, n_replicas=2)  # only the estimate is read
        for order, rows in (("path", data), ("random", data[shuffled])):
            estimate = inferl.Evaluator(inferl.TD(dimension), method).update(rows).estimate(target)
            kind = "tabular" if phi is None else "features"
            found[f"{kind}, initial {initial:g}, {order}"] = float(estimate) - exact
    return found


def offline_repeat(settings: FrozenLake, number: int) -> Result:
    """The offline bootstrap of the same recursion, episodes resampled; all but the two longest streams."""
    return _offline_at(settings, number, settings.episodes[:-2])


def long_offline_repeat(settings: FrozenLake, number: int) -> Result:
    """The two longest streams: seconds for each report."""
    return _offline_at(settings, number, settings.episodes[-2:])


def _offline_at(settings: FrozenLake, number: int, checkpoints: tuple[int, ...]) -> Result:
    path, ends = path_of(settings, number)
    data, exact = path.transitions(settings.discount), truth(settings)
    return {
        f"offline bootstrap|{episodes}": reading(_offline(settings, data[: ends[episodes - 1]], number), exact)
        for episodes in checkpoints
    }


def _offline(settings: FrozenLake, data: inferl.Transitions, number: int) -> inferl.Interval:
    mdp, _ = lake(settings)
    step_size = inferl.Polynomial(settings.initial, settings.decay, settings.cap)
    seed = settings.seed + number
    return offline_bootstrap(data, inferl.TD(mdp.n_states), step_size, 0, n_resamples=settings.n_replicas, seed=seed)


def example_repeat(settings: FrozenLake, number: int) -> Result:
    """One run's intervals over episodes."""
    last = max(settings.episodes)
    spaced = np.unique(np.geomspace(min(10, last), last, 40).round().astype(int)).tolist()
    dense = replace(settings, episodes=tuple(spaced))
    methods = {"bootstrap": settings.bootstrap(number), "least squares": inferl.LeastSquares()}
    found = {name: [] for name in [*methods, "offline bootstrap"]}  # type: dict[str, list[list[Any]]]
    for name, episodes, evaluator in follow(dense, methods, number):
        if evaluator is not None:
            interval = evaluator.interval(0)
            found[name].append([episodes, *_plain(interval)])
    path, ends = path_of(settings, number)
    data = path.transitions(settings.discount)
    for episodes in spaced[::3] if spaced[-1] in spaced[::3] else [*spaced[::3], spaced[-1]]:
        found["offline bootstrap"].append([episodes, *_plain(_offline(settings, data[: ends[episodes - 1]], number))])
    return {"truth": truth(settings), "readings": found}


def _plain(interval: inferl.Interval) -> list[float | None]:
    kept = reading(interval, 0.0)
    return [kept["estimate"], *kept["bounds"][interval.kind]]


def cost_repeat(settings: FrozenLake, number: int) -> Result:
    """Time and memory of the online and the offline bootstrap."""
    mdp, learned = lake(settings)
    step_size = inferl.Polynomial(settings.initial, settings.decay, settings.cap)

    def stream(n: int) -> Iterator[inferl.Transitions]:
        state: int | None = None
        for i in range(0, n, 1000):
            path = mdp.sample(learned.policy, min(1000, n - i), seed=[settings.seed, number, i], start=state)
            state = None if path.terminated[-1] else int(path.next_states[-1])
            yield path.transitions(settings.discount)

    contest = Contest(stream, inferl.TD(mdp.n_states), step_size, 0, "episode", settings.n_replicas)
    _, ends = path_of(settings, number)
    return cost(contest, ends[max(settings.episodes) - 1])


PARTS = (
    Part("coverage", coverage_repeat, 1000, 40),
    Part("features", features_repeat, 200, 20),
    Part("sensitivity", sensitivity_repeat, 200, 10),
    Part("order", order_repeat, 100, 4),
    Part("offline", offline_repeat, 200, 6),
    Part("long offline", long_offline_repeat, 200, 2),
    Part("example", example_repeat, 1, 1),
    Part("cost", cost_repeat, 1, 1),
)


def summary(settings: FrozenLake, found: dict[str, list[Result]]) -> Result:
    """From the repeats to the study's JSON."""
    mdp, _ = lake(settings)
    best = float(mdp.values(mdp.optimal_policy(settings.discount), settings.discount)[0])
    value = truth(settings)
    return {
        "policy": {"value": value, "optimal_value": best, "share": value / best},
        "features": {"truth": random_features(settings)[1], "value": value},
        "coverage": cells(found["coverage"]) + cells(found["offline"]) + cells(found["long offline"]),
        "sensitivity": cells(found["sensitivity"]),
        "random_features": cells(found["features"]),
        "rates": [rates(found["coverage"], "bootstrap", kind, settings.episodes) for kind in KINDS],
        "order": means(found["order"]),
        "example": found["example"][0],
        "cost": found["cost"][0],
    }


STUDY = Study("frozenlake", PARTS, FrozenLake(), FrozenLake(episodes=FrozenLake.episodes[:-2]), summary)
run = STUDY.run
