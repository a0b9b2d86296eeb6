"""A random MDP, off-policy: the paper's section 5.3.

50 states, 5 actions, 10 features, discount .9; the value of one state under the target policy, from steps of another.
The value is linear in the features, so the truth is exact. Every repeat is a fresh MDP and a fresh path, and all
methods see the same ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import inferl
from inferl.algorithms import Algorithm
from inferl.baselines import offline_bootstrap, save
from inferl.data.arrays import Floats
from inferl.environments import RandomProblem, Trajectory, random_mdp
from studies.paper.cost import Contest, cost, cost_of_one
from studies.paper.machinery import Part, Result
from studies.paper.study import Study
from studies.paper.summaries import LEVEL, cells, diverged, feed, law_alone, reading, readings

__all__ = ["RandomMDP", "run"]

KINDS = inferl.OnlineBootstrap.kinds
STATE = 0  # whose value is asked for
ALGORITHMS = ("GTD2", "TDC", "GTD")


@dataclass(frozen=True)
class RandomMDP:
    """Settings of the study; seeds and step sizes were fixed before the reported run.

    >>> RandomMDP().step_size("GTD2")
    Polynomial(initial=5.0, decay=0.65, cap=0.25)
    """

    seed: int = 62_000
    steps: tuple[int, ...] = (1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000)
    long_from: int = 20_000  # steps, from which the offline bootstrap is a part of its own
    n_replicas: int = 200
    decay: float = 0.65
    initials: tuple[float, ...] = (5.0, 5.0, 0.3)  # of GTD2, TDC, GTD
    caps: tuple[float, ...] = (0.25, 0.5, 0.05)
    auxiliary_steps: tuple[float, ...] = (4.0, 1.0, 1.0)
    printed_initial: float = 1.0

    def algorithm(self, name: str, dimension: int) -> Algorithm:
        """GTD2, TDC or GTD."""
        made = {"GTD2": inferl.GTD2, "TDC": inferl.TDC, "GTD": inferl.GTD}[name]
        return made(dimension, auxiliary_step=self.auxiliary_steps[ALGORITHMS.index(name)])

    def step_size(self, name: str) -> inferl.Polynomial:
        """The step size that an algorithm works with."""
        i = ALGORITHMS.index(name)
        return inferl.Polynomial(self.initials[i], self.decay, self.caps[i])


@dataclass(frozen=True, eq=False)
class Scene:
    """A repeat's problem and path."""

    problem: RandomProblem
    path: Trajectory
    truth: float
    error: float  # standard error of least squares from one step, in the limit

    @classmethod
    def of(cls, settings: RandomMDP, number: int) -> Scene:
        """Draw them."""
        problem = random_mdp([settings.seed, number, 0])
        path = problem.mdp.sample(problem.behaviour, max(settings.steps), seed=[settings.seed, number, 1])
        covariance = problem.mdp.score_covariance(problem.features, problem.target, problem.behaviour, problem.discount)
        h = np.linalg.solve(covariance.matrix.T, problem.features[STATE])
        truth = float(problem.features[STATE] @ problem.theta)
        return cls(problem, path, truth, float(np.sqrt(h @ covariance.long_run @ h)))

    def oracle(self, n: int) -> float:
        """Width of the interval that knows the limit law of least squares."""
        from scipy.special import ndtri

        return float(2 * ndtri((1 + LEVEL) / 2) * self.error / np.sqrt(n))

    def features(self, name: str) -> Floats:
        """Features of norm 1; for GTD longer ones, E|phi|^2 = d, or its slowest direction never arrives."""
        phi = self.problem.features
        return phi * np.sqrt(phi.shape[1]) if name == "GTD" else phi

    def data(self, features: Floats, n: int | None = None) -> inferl.Transitions:
        """The path with ratios."""
        ratios = self.path.ratios(self.problem.target, self.problem.behaviour)
        data = self.path.transitions(self.problem.discount, features, ratios)
        return data if n is None else data[:n]


def coverage_repeat(settings: RandomMDP, number: int) -> Result:
    """All online methods, least squares with ratios, and SAVE."""
    scene = Scene.of(settings, number)
    found: Result = {}
    for name in ALGORITHMS:
        corrected = inferl.OnlineBootstrap(
            settings.step_size(name), settings.n_replicas, seed=settings.seed + number, companion=False
        )
        printed = inferl.OnlineBootstrap.as_printed(
            settings.printed_initial, settings.n_replicas, settings.seed + number
        )
        features = scene.features(name)
        algorithm = settings.algorithm(name, features.shape[1])
        for key, kept in _follow(settings, scene, algorithm, corrected, features):
            found[f"{name}|{key}"] = kept
            found[f"{name}, law alone|{key}"] = law_alone(kept)
        plain = type(algorithm)(features.shape[1])
        for key, kept in _follow(settings, scene, plain, replace(printed, companion=False), scene.problem.features):
            found[f"{name}, as printed|{key}"] = kept
    features = scene.problem.features
    for key, kept in _follow(settings, scene, inferl.TD(features.shape[1]), inferl.LeastSquares(), features):
        found[f"least squares|{key}"] = kept
    return found | _save(settings, scene)


def _follow(
    settings: RandomMDP, scene: Scene, algorithm: Algorithm, method: Any, features: Floats
) -> Iterator[tuple[int, Result]]:
    """Let a method watch the path, and read it at every checkpoint."""
    evaluator: inferl.Evaluator | None = inferl.Evaluator(algorithm, method)
    data, start = scene.data(features), 0
    for n in settings.steps:
        evaluator = evaluator and feed(evaluator, data[start:n])
        start = n
        if evaluator is None:
            yield n, diverged(scene.truth, method.kinds, scene.oracle(n))
        else:
            yield n, readings(evaluator, features[STATE], scene.truth, scene.oracle(n))


def _save(settings: RandomMDP, scene: Scene) -> Result:
    """SAVE on features of state and action, phi(s) for each action apart: of the value, and of its own fixed point."""
    problem, path = scene.problem, scene.path
    psi, mean = state_action_features(problem)
    own = float(mean[STATE] @ projected_action_values(problem))
    taken = path.states * problem.mdp.n_actions + path.actions
    found = {}
    for n in settings.steps:
        data = inferl.Transitions(psi[taken[:n]], path.rewards[:n], mean[path.next_states[:n]], problem.discount)
        kept = reading(save(data, mean[STATE], LEVEL), scene.truth, scene.oracle(n))
        found[f"SAVE|{n}"] = kept
        found[f"SAVE, of its own fixed point|{n}"] = kept | {"truth": own}
    return found


def state_action_features(problem: RandomProblem) -> tuple[Floats, Floats]:
    """Psi, (S A, d A): phi(s) in the block of the action; and U, (S, d A), its mean under the target policy."""
    n_states, d = problem.features.shape
    n_actions = problem.mdp.n_actions
    blocks = np.einsum("sd,ab->sabd", problem.features, np.eye(n_actions))
    psi = blocks.reshape(n_states, n_actions, n_actions * d)
    return psi.reshape(n_states * n_actions, -1), np.einsum("sa,sad->sd", problem.target, psi)


def projected_action_values(problem: RandomProblem) -> Floats:
    """Solve Psi' Xi (Psi - discount P U) beta = Psi' Xi r: what LSTD-Q converges to.

    The action values are not linear in these features, so this is not the value.
    """
    psi, mean = state_action_features(problem)
    states, actions, next_states, probabilities, rewards = problem.mdp.outcomes
    law = problem.mdp.stationary(problem.behaviour)
    weight = law[states] * problem.behaviour[states, actions] * probabilities
    taken = psi[states * problem.mdp.n_actions + actions]
    matrix = (weight[:, None] * taken).T @ (taken - problem.discount * mean[next_states])
    return np.asarray(np.linalg.solve(matrix, taken.T @ (weight * rewards)))


def offline_repeat(settings: RandomMDP, number: int) -> Result:
    """The offline bootstrap of the same recursions, transitions resampled."""
    return _offline(settings, number, tuple(n for n in settings.steps if n < settings.long_from))


def long_offline_repeat(settings: RandomMDP, number: int) -> Result:
    """The long streams: seconds for each report."""
    return _offline(settings, number, tuple(n for n in settings.steps if n >= settings.long_from))


def _offline(settings: RandomMDP, number: int, steps: tuple[int, ...]) -> Result:
    scene = Scene.of(settings, number)
    found = {}
    for name in ALGORITHMS:
        features = scene.features(name)
        algorithm = settings.algorithm(name, features.shape[1])
        for n in steps:
            interval = offline_bootstrap(
                scene.data(features, n),
                algorithm,
                settings.step_size(name),
                features[STATE],
                unit="transition",
                n_resamples=settings.n_replicas,
                level=LEVEL,
                seed=settings.seed + number,
            )
            found[f"{name}, offline|{n}"] = reading(interval, scene.truth, scene.oracle(n))
    return found


def cost_repeat(settings: RandomMDP, number: int) -> Result:
    """Time and memory of each algorithm online and offline, of least squares and of SAVE."""
    problem = random_mdp([settings.seed, number, 0])
    psi, mean = state_action_features(problem)
    found: Result = {}

    def stream(features: Floats, actions: bool = False) -> Any:
        def chunks(n: int) -> Iterator[inferl.Transitions]:
            state: int | None = None
            for i in range(0, n, 1000):
                path = problem.mdp.sample(
                    problem.behaviour, min(1000, n - i), seed=[settings.seed, number, 2, i], start=state
                )
                state = int(path.next_states[-1])
                if actions:
                    pair = path.states * problem.mdp.n_actions + path.actions
                    yield inferl.Transitions(psi[pair], path.rewards, mean[path.next_states], problem.discount)
                else:
                    ratios = path.ratios(problem.target, problem.behaviour)
                    yield path.transitions(problem.discount, features, ratios)

        return chunks

    n = max(settings.steps)
    for name in ALGORITHMS:
        scale = np.sqrt(problem.features.shape[1]) if name == "GTD" else 1.0
        phi = scale * problem.features
        contest = Contest(
            stream(phi),
            settings.algorithm(name, phi.shape[1]),
            settings.step_size(name),
            phi[STATE],
            "transition",
            settings.n_replicas,
        )
        found[name] = cost(contest, n if name == ALGORITHMS[0] else n // 4)
    phi = problem.features
    found["least squares"] = cost_of_one(
        lambda chunks: inferl.Evaluator(inferl.TD(phi.shape[1])).update(chunks).interval(phi[STATE]), stream(phi), n
    )
    found["SAVE"] = cost_of_one(lambda chunks: save(chunks, mean[STATE]), stream(phi, actions=True), n, stored=True)
    return found


PARTS = (
    Part("coverage", coverage_repeat, 1000, 40),
    Part("offline", offline_repeat, 200, 4),
    Part("long offline", long_offline_repeat, 200, 2),
    Part("cost", cost_repeat, 1, 1),
)


def summary(settings: RandomMDP, found: dict[str, list[Result]]) -> Result:
    """From the repeats to the study's JSON."""
    return {
        "coverage": cells(found["coverage"]) + cells(found["offline"]) + cells(found["long offline"]),
        "cost": found["cost"][0],
    }


STUDY = Study("random-mdp", PARTS, RandomMDP(), RandomMDP(steps=(300, 1_000, 5_000)), summary)
run = STUDY.run
