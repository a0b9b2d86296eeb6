"""The random MDP of section 5.3 in two readings: of which policy is the value linear, and which one is evaluated.

The paper builds the reward for the policy that it generates, and evaluates an "epsilon-greedy version" of it. That can
be the greedy action with probability 1 - epsilon, or the generated policy itself with probability 1 - epsilon. In both
readings the value of the evaluated policy is not linear in the features, and differs from what every method estimates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

import inferl
from inferl.data.arrays import Floats
from inferl.environments import FiniteMDP, RandomProblem, random_mdp
from studies.paper.machinery import Part, Result
from studies.paper.study import Study
from studies.paper.summaries import cells, reading

__all__ = ["READINGS", "TwoReadings", "problem_as_read", "run"]

STATE = 0  # whose value is asked for
READINGS = ("greedy", "mixture", "linear target")  # the last one is how `random_mdp` is built


@dataclass(frozen=True)
class TwoReadings:
    """Settings of the study; fixed before the reported run."""

    seed: int = 67_000
    steps: tuple[int, ...] = (1_000, 10_000, 100_000)
    epsilon: float = 0.2


class AsRead(NamedTuple):
    """A problem as one reading has it."""

    mdp: FiniteMDP
    target: Floats
    value: float  # of the target policy in the state
    fixed_point: float  # what the projected Bellman equation says of it
    error: float  # standard error of least squares from one step, in the limit


def problem_as_read(settings: TwoReadings, problem: RandomProblem, name: str) -> AsRead:
    """Build reward and target policy as a reading says; transitions, features and behaviour are the problem's."""
    behaviour, n_actions = problem.behaviour, problem.mdp.n_actions
    kept = np.eye(n_actions)[behaviour.argmax(axis=1)] if name != "mixture" else behaviour
    target = (1 - settings.epsilon) * kept + settings.epsilon / n_actions
    linear = target if name == "linear target" else behaviour  # whose value is linear in the features
    kernels = transition_tensor(problem.mdp)
    wanted = problem.features @ problem.theta
    reward = wanted - problem.discount * np.einsum("sa,ast->st", linear, kernels) @ wanted
    mdp = FiniteMDP(kernels, np.broadcast_to(reward[None, :, None], kernels.shape), problem.mdp.initial)
    covariance = mdp.score_covariance(problem.features, target, behaviour, problem.discount)
    c = problem.features[STATE]
    h = np.linalg.solve(covariance.matrix.T, c)
    return AsRead(
        mdp,
        target,
        float(mdp.values(target, problem.discount)[STATE]),
        float(c @ covariance.fixed_point),
        float(np.sqrt(h @ covariance.long_run @ h)),
    )


def transition_tensor(mdp: FiniteMDP) -> Floats:
    """Probabilities (A, S, S) of an MDP."""
    states, actions, next_states, probabilities, _ = mdp.outcomes
    tensor = np.zeros((mdp.n_actions, mdp.n_states, mdp.n_states))
    np.add.at(tensor, (actions, states, next_states), probabilities)
    return tensor


def coverage_repeat(settings: TwoReadings, number: int) -> Result:
    """Least squares under each reading: of the value, and of the fixed point; and how far these are apart."""
    problem = random_mdp([settings.seed, number, 0])
    found: Result = {"coverage": {}, "distance": {}}
    for name in READINGS:
        here = problem_as_read(settings, problem, name)
        found["distance"][name] = abs(here.value - here.fixed_point) / here.error
        path = here.mdp.sample(problem.behaviour, max(settings.steps), seed=[settings.seed, number, 1])
        data = path.transitions(problem.discount, problem.features, path.ratios(here.target, problem.behaviour))
        evaluator, start = inferl.Evaluator(inferl.TD(problem.features.shape[1]), inferl.LeastSquares()), 0
        for n in settings.steps:
            evaluator, start = evaluator.update(data[start:n]), n
            kept = reading(evaluator.interval(problem.features[STATE]), here.value)
            found["coverage"][f"{name}, value|{n}"] = kept
            found["coverage"][f"{name}, fixed point|{n}"] = kept | {"truth": here.fixed_point}
    return found


def summary(settings: TwoReadings, found: dict[str, list[Result]]) -> Result:
    """Coverage, and quantiles of the distance between value and fixed point, in standard errors at each length."""
    repeats = found["coverage"]
    distances = {name: np.array([one["distance"][name] for one in repeats]) for name in READINGS}
    return {
        "coverage": cells([one["coverage"] for one in repeats]),
        "distance": [
            {"reading": name, "steps": n, "quartiles": (np.quantile(x, (0.25, 0.5, 0.75)) * np.sqrt(n)).tolist()}
            for name, x in distances.items()
            for n in settings.steps
        ],
    }


PARTS = (Part("coverage", coverage_repeat, 200, 10),)
STUDY = Study("two-readings", PARTS, TwoReadings(), TwoReadings(steps=(300, 1_000, 10_000)), summary)
run = STUDY.run
