"""Numerical checks of the paper's limit theory: Propositions 4.1 to 4.3, Lemma 4.1 and Theorem 4.2.

Two problems for TD(0) whose truth, A and limit covariance are exact. In a random MDP with a value that is linear in the
features the scores are martingale differences; in a walk around a ring with groups of states as features they depend on
each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple, cast

import numpy as np
from scipy.special import ndtr

import inferl
from inferl.data.arrays import Floats
from inferl.environments import FiniteMDP, random_mdp, ring
from inferl.methods.bootstrap import BootstrapReading
from studies.paper.machinery import Part, Result
from studies.paper.study import Study

__all__ = ["PROBLEMS", "Limits", "kolmogorov", "main_terms", "run"]

PROBLEMS = ("linear value", "groups")
KEPT = 4  # significant digits of a stored deviation


@dataclass(frozen=True)
class Limits:
    """Settings of the study; fixed before the reported run.

    >>> Limits().step_size("groups")
    Polynomial(initial=2.0, decay=0.75, cap=0.5)
    """

    seed: int = 69_000
    n_states: int = 12
    n_features: int = 3  # of the random MDP
    n_groups: int = 2  # of the ring
    laziness: float = 0.2
    discount: float = 0.5
    decay: float = 0.75  # the paper's
    initials: tuple[float, float] = (4.0, 2.0)  # for each problem
    cap: float = 0.5
    lengths: tuple[int, ...] = (300, 1_000, 3_000, 10_000, 30_000)
    n_replicas: int = 2000  # of Theorem 4.2, whose distance should not be that of few replicas
    law: str = "two-point"  # variance 1, as Theorem 4.2 wants it
    decays: tuple[float, ...] = (0.55, 0.65, 0.75, 0.9)
    long_lengths: tuple[int, ...] = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000)
    few_replicas: int = 20

    def step_size(self, problem: str, decay: float | None = None) -> inferl.Polynomial:
        """The step size that a problem needs."""
        return inferl.Polynomial(self.initials[PROBLEMS.index(problem)], decay or self.decay, self.cap)


class Known(NamedTuple):
    """A problem, and what is known of it."""

    mdp: FiniteMDP
    features: Floats  # (S, d)
    policy: Floats
    theta: Floats
    matrix: Floats  # A
    long_run: Floats  # long-run covariance of the scores
    lag_zero: Floats  # their covariance at lag 0

    def error(self, covariance: Floats) -> float:
        """Standard deviation of sqrt(t) times the error of the first state's value, for a covariance of the scores."""
        h = np.linalg.solve(self.matrix.T, self.features[0])
        return float(np.sqrt(h @ covariance @ h))


@cache
def known(settings: Limits, problem: str) -> Known:
    """One of the problems."""
    if problem == "groups":
        mdp, phi = ring(settings.n_states, settings.n_groups, settings.laziness)
        policy = np.ones((settings.n_states, 1))
    else:
        mdp, phi, policy, *_ = random_mdp(settings.seed, settings.n_states, 2, settings.n_features, settings.discount)
    found = mdp.score_covariance(phi, policy, None, settings.discount)
    return Known(mdp, phi, policy, found.fixed_point, found.matrix, found.long_run, found.lag_zero)


def bootstrap(settings: Limits, problem: str, number: int, **changes: Any) -> inferl.OnlineBootstrap:
    """Algorithm 1 with the paper's average, which the theory is about."""
    options: dict[str, Any] = {
        "n_replicas": settings.few_replicas,
        "multipliers": inferl.Multipliers(settings.law),
        "seed": settings.seed + number,
    } | changes
    decay = options.pop("decay", settings.decay)
    return inferl.OnlineBootstrap(settings.step_size(problem, decay), average="uniform", companion=False, **options)


def follow(
    settings: Limits, problem: str, number: int, method: inferl.OnlineBootstrap, lengths: tuple[int, ...]
) -> Iterator[tuple[int, inferl.Evaluator]]:
    """Let a bootstrap watch a repeat's path, and stop at every length."""
    here = known(settings, problem)
    path = here.mdp.sample(here.policy, max(lengths), seed=[settings.seed, number])
    data = path.transitions(settings.discount, here.features)
    evaluator, start = inferl.Evaluator(inferl.TD(here.features.shape[1]), method), 0
    for n in lengths:
        evaluator, start = evaluator.update(data[start:n]), n
        yield n, evaluator


# Propositions 4.1 and 4.3: how fast the iterates arrive.


def iterates_repeat(settings: Limits, number: int) -> Result:
    """Squared distances from theta* of the iterate and, on average, of the perturbed ones."""
    found = {}
    for problem in PROBLEMS:
        theta = known(settings, problem).theta
        for decay in settings.decays:
            method = bootstrap(settings, problem, number, decay=decay)
            for n, evaluator in follow(settings, problem, number, method, settings.long_lengths):
                rows = evaluator.with_pending().method.iterate
                squares = ((rows - theta[:, None]) ** 2).sum(axis=0)
                found[f"{problem}, {decay:g}|{n}"] = [float(squares[0]), float(squares[1:].mean())]
    return found


# Lemma 4.1: the average is a sum over the data, but for something small.


def main_terms(settings: Limits, problem: str, number: int, n: int) -> Floats:
    """A^-1 (1/n) sum of W_t f_t at theta* for row 0, where W is 1, and for all replicas: (d, B + 1)."""
    here, method = known(settings, problem), bootstrap(settings, problem, number)
    path = here.mdp.sample(here.policy, n, seed=[settings.seed, number])
    phi, following = here.features[path.states], here.features[path.next_states]
    errors = path.rewards + (settings.discount * following - phi) @ here.theta
    scores = errors[:, None] * phi
    ticks, slots = np.arange(1, n + 1), np.zeros(n, np.int64)
    drawn = method.multipliers.draw(method.seed, ticks, slots, np.arange(method.n_replicas))
    weights = np.vstack([np.ones(n), drawn])
    return np.asarray(np.linalg.solve(here.matrix, (weights @ scores).T / n))


def remainder_repeat(settings: Limits, number: int) -> Result:
    """Squares, times t, of the main terms of (4.5) to (4.7) and of what they leave: replicas, row 0, differences."""
    found = {}
    for problem in PROBLEMS:
        here = known(settings, problem)
        every = np.eye(here.features.shape[1])
        method = bootstrap(settings, problem, number)
        for n, evaluator in follow(settings, problem, number, method, settings.long_lengths):
            reading = cast(BootstrapReading, evaluator.read(every))
            estimate = reading.estimate[:, None]
            averages = np.hstack([estimate, estimate + method.multipliers.deviation * reading.deviations.T])
            terms = main_terms(settings, problem, number, n)
            rests = averages - here.theta[:, None] - terms
            pairs = {
                "(4.6)": (terms[:, :1], rests[:, :1]),
                "(4.5)": (terms[:, 1:], rests[:, 1:]),
                "(4.7)": (terms[:, 1:] - terms[:, :1], rests[:, 1:] - rests[:, :1]),
            }
            for name, both in pairs.items():
                found[f"{problem}, {name}|{n}"] = [float(n * (x**2).sum(axis=0).mean()) for x in both]
    return found


# Theorem 4.2: the law of the bootstrap, given the data, against the law of the error.


def errors_repeat(settings: Limits, number: int) -> Result:
    """Errors of the first state's value: draws from the true law."""
    found = {}
    for problem in PROBLEMS:
        here = known(settings, problem)
        c = here.features[0]
        method = bootstrap(settings, problem, number, n_replicas=2)  # only the estimate is read
        for n, evaluator in follow(settings, problem, number, method, settings.lengths):
            error = np.sqrt(n) * (float(evaluator.estimate(c)) - c @ here.theta)
            found[f"{problem}|{n}"] = float(f"{error:.{KEPT}g}")
    return found


def laws_of(settings: Limits) -> dict[str, inferl.Multipliers]:
    """Laws and clocks to compare; deviations are not divided by anything, so a law must have variance 1."""
    return {
        "step": inferl.Multipliers(settings.law),
        "block": inferl.Multipliers(settings.law, clock=inferl.BlockClock()),
        "as printed": inferl.Multipliers("as-printed"),
    }


def bootstrap_repeat(settings: Limits, number: int) -> Result:
    """Deviations of the replicas from one path: draws from the law of the bootstrap, given the data."""
    found = {}
    for problem in PROBLEMS:
        c = known(settings, problem).features[0]
        for name, multipliers in laws_of(settings).items():
            method = bootstrap(settings, problem, number, n_replicas=settings.n_replicas, multipliers=multipliers)
            for n, evaluator in follow(settings, problem, number, method, settings.lengths):
                reading = cast(BootstrapReading, evaluator.read(c))
                deviations = np.sqrt(n) * np.sort(reading.deviations[:, 0])
                found[f"{problem}, {name}|{n}"] = [float(f"{x:.{KEPT}g}") for x in deviations]
    return found


def kolmogorov(one: Floats, other: Floats) -> float:
    """Largest distance between the distribution functions of two samples.

    >>> kolmogorov(np.array([1.0, 2.0]), np.array([1.5, 1.6]))
    0.5
    """
    points = np.concatenate([one, other])
    below = [np.searchsorted(np.sort(x), points, side="right") / len(x) for x in (one, other)]
    return float(np.abs(below[0] - below[1]).max())


def distance_of_scales(ratio: float) -> float:
    """Kolmogorov distance of two normal laws around 0 whose standard deviations have this ratio.

    >>> print(f"{distance_of_scales(1 / 3):.3f}")
    0.242
    """
    x = np.linspace(0.0, 5.0, 50_001)
    return float(np.abs(ndtr(x / ratio) - ndtr(x)).max())


def summary(settings: Limits, found: dict[str, list[Result]]) -> Result:
    """Root mean squares and their slopes; distances, and what equal laws would show."""
    problems = {name: known(settings, name) for name in PROBLEMS}
    errors = {name: (one.error(one.lag_zero), one.error(one.long_run)) for name, one in problems.items()}
    return {
        "standard_errors": {
            name: dict(zip(("lag_zero", "long_run"), pair, strict=True)) for name, pair in errors.items()
        },
        "iterates": _slopes(found["iterates"], ("iterate", "perturbed"), last=3),
        "remainders": _slopes(found["remainders"], ("main term", "remainder"), last=3),
        "normal_limit": _normal_limit(settings, found["errors"]),
        **_distances(settings, found["errors"], found["bootstrap"]),
        "limit": {
            "step, groups": distance_of_scales(errors["groups"][0] / errors["groups"][1]),
            "as printed, linear value": distance_of_scales(1 / 3),
        },
    }


def _normal_limit(settings: Limits, errors: list[Result]) -> list[Result]:
    """Proposition 4.2: the sample of errors against the normal law with the exact limit variance."""
    made = []
    for problem in PROBLEMS:
        here = known(settings, problem)
        spread = here.error(here.long_run)
        for n in settings.lengths:
            sample = np.sort([result[f"{problem}|{n}"] for result in errors])
            limit, m = ndtr(sample / spread), len(sample)
            distance = max((np.arange(1, m + 1) / m - limit).max(), (limit - np.arange(m) / m).max())
            made.append(
                {
                    "problem": problem,
                    "length": n,
                    "distance": _short([distance])[0],
                    "spread over limit": _short([sample.std() / spread])[0],
                }
            )
    return made


def _slopes(results: list[Result], names: tuple[str, ...], last: int) -> list[Result]:
    """Root mean squares over the repeats, and the slope of their logarithms over the last lengths."""
    made = []
    for key in dict.fromkeys(key.rsplit("|", 1)[0] for key in results[0]):
        lengths = [int(one.rsplit("|", 1)[1]) for one in results[0] if one.rsplit("|", 1)[0] == key]
        squares = np.array([[result[f"{key}|{n}"] for n in lengths] for result in results])  # (repeats, lengths, 2)
        for i, name in enumerate(names):
            size = np.sqrt(squares[:, :, i].mean(axis=0))
            slope = np.polyfit(np.log(lengths[-last:]), np.log(size[-last:]), 1)[0]
            made.append(
                {"case": key, "of": name, "lengths": lengths, "size": _short(size), "slope": round(float(slope), 4)}
            )
    return made


def _distances(settings: Limits, errors: list[Result], laws: list[Result]) -> Result:
    """Distances of each bootstrap law from the sample of errors, and of samples of one law of these sizes."""
    random = np.random.default_rng(settings.seed)
    sizes = (settings.n_replicas, len(errors))
    equal = [kolmogorov(*(random.standard_normal(size) for size in sizes)) for _ in range(400)]
    made = []
    for key in dict.fromkeys(key.rsplit("|", 1)[0] for key in laws[0]):
        problem = key.split(", ")[0]
        for n in settings.lengths:
            truth = np.array([result[f"{problem}|{n}"] for result in errors])
            found = [kolmogorov(np.array(result[f"{key}|{n}"]), truth) for result in laws]
            quartiles = _short(np.quantile(found, (0.25, 0.5, 0.75)))
            made.append({"law": key, "length": n, "quartiles": quartiles, "mean": _short([np.mean(found)])[0]})
    return {"distances": made, "equal_laws": _short(np.quantile(equal, (0.025, 0.5, 0.975)))}


def _short(values: Any) -> list[float]:
    return [float(f"{x:.5g}") for x in values]


PARTS = (
    Part("errors", errors_repeat, 2000, 50),
    Part("bootstrap", bootstrap_repeat, 50, 3),
    Part("iterates", iterates_repeat, 20, 2),
    Part("remainders", remainder_repeat, 40, 2),
)
QUICK = Limits(lengths=(300, 1_000, 3_000), n_replicas=200, long_lengths=(1_000, 3_000, 10_000))
STUDY = Study("limits", PARTS, Limits(), QUICK, summary)
run = STUDY.run
