"""A behaviour policy that changes during the log: the paper's section 6.1, which leaves the question open.

A random MDP as in section 5.3, but with fewer and sharper transitions, so that policies visit different states. At
every step the ratio is that of the target to the policy that acted then. Where the features can express the value, the
scores at theta* have mean 0 whatever policy acts, so theta* does not depend on how the behaviour changes. Where they
cannot, every behaviour has a fixed point of its own, and a log of several has the one of their sums.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import inferl
from inferl.data.arrays import Floats
from inferl.environments import FiniteMDP, RandomProblem
from studies.paper.machinery import Part, Result
from studies.paper.random_mdp import RandomMDP
from studies.paper.study import Study
from studies.paper.summaries import cells, diverged, feed, readings

__all__ = ["BEHAVIOURS", "ChangingBehaviour", "policies_of", "run"]

STATE = 0  # whose value is asked for
BEHAVIOURS = ("constant", "switches", "learns")
FEATURES = ("all features", "half of the features")


@dataclass(frozen=True)
class ChangingBehaviour:
    """Settings of the study; step sizes are those of the random MDP's study."""

    seed: int = 68_000
    steps: tuple[int, ...] = (1_000, 10_000, 50_000)
    n_states: int = 20
    n_actions: int = 4
    n_features: int = 6
    discount: float = 0.9
    phases: int = 5  # equal parts of the log, each with a policy of its own
    closest: float = 0.9  # weight of the target policy in the last phase of a behaviour that learns
    methods: RandomMDP = RandomMDP()  # noqa: RUF009  (frozen)


def draw(settings: ChangingBehaviour, number: int) -> RandomProblem:
    """A problem whose target has a value linear in the features; all policies take each action now and then."""
    random = np.random.default_rng([settings.seed, number, 0])
    n, k, d = settings.n_states, settings.n_actions, settings.n_features
    kernels = 0.95 * random.dirichlet(np.full(n, 0.1), size=(k, n)) + 0.05 / n
    features = random.standard_normal((n, d))
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    theta = random.standard_normal(d)
    behaviour = any_policy(random, n, k)
    target = 0.8 * np.eye(k)[behaviour.argmax(axis=1)] + 0.2 / k
    values = features @ theta
    reward = values - settings.discount * np.einsum("sa,ast->st", target, kernels) @ values
    mdp = FiniteMDP(kernels, np.broadcast_to(reward[None, :, None], kernels.shape), np.full(n, 1 / n))
    return RandomProblem(mdp, features, target, behaviour, theta, settings.discount)


def any_policy(random: np.random.Generator, n_states: int, n_actions: int) -> Floats:
    """A policy drawn at random, half uniform."""
    return np.asarray(0.5 / n_actions + 0.5 * random.dirichlet(np.full(n_actions, 0.3), size=n_states))


def policies_of(settings: ChangingBehaviour, problem: RandomProblem, name: str, number: int) -> list[Floats]:
    """The policy of each phase."""
    random = np.random.default_rng([settings.seed, number, 2])
    found = []
    for phase in range(settings.phases):
        drawn = any_policy(random, problem.mdp.n_states, problem.mdp.n_actions)
        weight = settings.closest * phase / (settings.phases - 1)
        found.append(
            {
                "constant": problem.behaviour,
                "switches": drawn if phase else problem.behaviour,
                "learns": (1 - weight) * problem.behaviour + weight * problem.target,
            }[name]
        )
    return found


def sample(
    problem: RandomProblem, policies: list[Floats], n: int, seed: list[int], features: Floats, follow: bool
) -> inferl.Transitions:
    """A log of n steps; `follow`: ratios are those of the policy that acted, not of the first one."""
    columns: dict[str, list[Any]] = {"rewards": [], "ratios": [], "features": [], "next_features": []}
    state: int | None = None
    for phase, policy in enumerate(policies):
        path = problem.mdp.sample(policy, n // len(policies), seed=[*seed, phase], start=state)
        state = int(path.next_states[-1])
        columns["rewards"].append(path.rewards)
        columns["ratios"].append(path.ratios(problem.target, policy if follow else policies[0]))
        columns["features"].append(features[path.states])
        columns["next_features"].append(features[path.next_states])
    joined = {name: np.concatenate(parts) for name, parts in columns.items()}
    return inferl.Transitions(discounts=problem.discount, **joined)


def fixed_points(problem: RandomProblem, policies: list[Floats], features: Floats) -> tuple[list[float], float]:
    """What the projected Bellman equation says of the state under each phase's policy, and under all together."""
    found = [problem.mdp.score_covariance(features, problem.target, policy, problem.discount) for policy in policies]
    matrix = sum((one.matrix for one in found), np.zeros_like(found[0].matrix))
    vector = sum((one.matrix @ one.fixed_point for one in found), np.zeros(len(matrix)))
    c = features[STATE]
    return [float(c @ one.fixed_point) for one in found], float(c @ np.linalg.solve(matrix, vector))


def coverage_repeat(settings: ChangingBehaviour, number: int) -> Result:
    """Least squares, GTD2 and TDC on logs of each behaviour; least squares with ratios of the first policy, too."""
    problem = draw(settings, number)
    found: Result = {"coverage": {}, "apart": {}}
    for kind, features in zip(FEATURES, (problem.features, problem.features[:, ::2]), strict=True):
        d, c = features.shape[1], features[STATE]
        for name in BEHAVIOURS:
            policies = policies_of(settings, problem, name, number)
            each, truth = fixed_points(problem, policies, features)
            found["apart"][f"{name}, {kind}"] = float(np.ptp(each))
            bootstraps = {
                algorithm: inferl.OnlineBootstrap(
                    settings.methods.step_size(algorithm), seed=settings.seed + number, companion=False
                )
                for algorithm in ("GTD2", "TDC")
            }
            cases: dict[str, tuple[Any, Any, bool]] = {"least squares": (inferl.TD(d), inferl.LeastSquares(), True)}
            cases |= {key: (settings.methods.algorithm(key, d), method, True) for key, method in bootstraps.items()}
            if name != "constant":
                cases["least squares, ratios of the first policy"] = (inferl.TD(d), inferl.LeastSquares(), False)
            for n in settings.steps:
                logs = {
                    follow: sample(problem, policies, n, [settings.seed, number, 1, n], features, follow)
                    for follow in {follow for *_, follow in cases.values()}
                }
                for key, (algorithm, method, follow) in cases.items():
                    evaluator = feed(inferl.Evaluator(algorithm, method), logs[follow])
                    found["coverage"][f"{kind}: {name}: {key}|{n}"] = (
                        diverged(truth, method.kinds) if evaluator is None else readings(evaluator, c, truth)
                    )
    return found


def summary(settings: ChangingBehaviour, found: dict[str, list[Result]]) -> Result:
    """Coverage of the fixed point of the whole log, and how far the fixed points of its phases are apart."""
    repeats = found["coverage"]
    return {
        "coverage": cells([one["coverage"] for one in repeats]),
        "apart": {key: float(np.median([one["apart"][key] for one in repeats])) for key in repeats[0]["apart"]},
    }


PARTS = (Part("coverage", coverage_repeat, 100, 5),)
STUDY = Study("changing-behaviour", PARTS, ChangingBehaviour(), ChangingBehaviour(steps=(500, 1_000, 5_000)), summary)
run = STUDY.run
