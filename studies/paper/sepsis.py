"""Sepsis treatment, off-policy: the paper's section 5.4, with the truth that it did without.

The simulator's transition tensor is known exactly, episodes are not cut, the discount is .99. A policy learned by
Q-learning is evaluated from episodes of its epsilon-greedy version. Every repeat is a fresh path.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

import inferl
from inferl.data.arrays import Floats
from inferl.environments import sepsis
from studies.paper.machinery import Part, Result
from studies.paper.sepsis_scene import START, Problem, Sepsis, learned, path_of, scene
from studies.paper.sepsis_summary import summary
from studies.paper.study import Study
from studies.paper.summaries import LEVEL, diverged, feed, reading

__all__ = ["Sepsis", "run"]

OBSERVED = "observed starts"
LINEAR_PATHS, CURVE_PATHS = 200_000, 100_000  # first numbers, so that no two parts see the same paths


def methods_of(settings: Sepsis, problem: Problem, number: int) -> dict[str, tuple[Any, Any]]:
    """Algorithms with their methods, by name."""
    d = problem.features.shape[1]
    scale = float(np.trace(problem.objectives.moments))  # E|phi|^2

    def bootstrap(initial: float, cap: float) -> inferl.OnlineBootstrap:
        step_size = inferl.Polynomial(initial / scale, settings.decay, cap)
        return inferl.OnlineBootstrap(step_size, settings.n_replicas, seed=settings.seed + number, companion=False)

    slow, fast = settings.auxiliary_steps
    return {
        "GTD2": (inferl.GTD2(d, auxiliary_step=slow), bootstrap(settings.initial, settings.caps[0])),
        "TDC": (inferl.TDC(d, auxiliary_step=fast), bootstrap(settings.initial, settings.caps[1])),
        "GTD2, rule of thumb": (
            inferl.GTD2(d, auxiliary_step=slow),
            bootstrap(settings.rule_of_thumb, settings.caps[0]),
        ),
        "least squares": (inferl.TD(d), inferl.LeastSquares()),
    }


def follow(
    data: inferl.Transitions, ends: list[int], marks: tuple[int, ...], algorithm: Any, method: Any
) -> Iterator[tuple[int, inferl.Evaluator | None]]:
    """Let a method watch a path, and stop at every mark; None where a recursion has diverged."""
    evaluator: inferl.Evaluator | None = inferl.Evaluator(algorithm, method)
    start = 0
    for episodes in marks:
        end = ends[episodes - 1]
        evaluator = evaluator and feed(evaluator, data[start:end])
        start = end
        yield episodes, evaluator


def _read(
    evaluator: inferl.Evaluator | None, names: tuple[str, ...], targets: Floats, truths: Floats, kinds: tuple[str, ...]
) -> dict[str, Result]:
    """Read all targets at once, in all kinds."""
    if evaluator is None:
        return {name: diverged(float(truth), kinds) for name, truth in zip(names, truths, strict=True)}
    found: dict[str, Result] = {}
    for kind in kinds:
        for name, one, truth in zip(names, evaluator.interval(targets, LEVEL, kind), truths, strict=True):
            kept = reading(one, float(truth))
            found.setdefault(name, kept)["bounds"] |= kept["bounds"]
    return found


def table_repeat(settings: Sepsis, number: int) -> Result:
    """The value, by least squares on a table with a row for each state."""
    here = scene(settings)
    path, ends = path_of(settings, number, settings.table_episodes[-1])
    data = path.transitions(settings.discount, None, path.ratios(here.target, here.behaviour))
    table, method = inferl.TD(here.mdp.n_states), inferl.LeastSquares()
    starts = path.states[np.r_[0, ends[:-1]]]
    found: Result = {}
    for episodes, evaluator in follow(data, ends, settings.table_episodes, table, method):
        # Few episodes miss some of the 74 first states; of those who came the data do say something.
        came = np.bincount(starts[:episodes], minlength=here.mdp.n_states) / episodes
        rows = np.vstack([here.rows, came])
        kept = _read(evaluator, (*here.names, OBSERVED), rows, rows @ here.values, method.kinds)
        found |= {f"least squares, table, {name}|{episodes}": one for name, one in kept.items()}
    return found


def linear_repeat(settings: Sepsis, number: int) -> Result:
    """The fixed point theta* of linear features: values of the start and of states, and its coordinates."""
    here = scene(settings)
    path, ends = path_of(settings, LINEAR_PATHS + number, settings.episodes[-1])
    ratios = path.ratios(here.target, here.behaviour)
    readings: Result = {}
    coordinates: Result = {}
    for label, problem in here.problems.items():
        data = path.transitions(settings.discount, problem.features, ratios)
        every = np.eye(problem.features.shape[1])
        for name in ("GTD2", "TDC", "least squares"):
            algorithm, method = methods_of(settings, problem, number)[name]
            for episodes, evaluator in follow(data, ends, settings.episodes, algorithm, method):
                kept = _read(evaluator, here.names, problem.targets, problem.truths, method.kinds)
                readings |= {f"{name}, {label}, {target}|{episodes}": one for target, one in kept.items()}
                if evaluator is not None:
                    covers = evaluator.interval(every, LEVEL).contains(problem.theta)
                    coordinates[f"{name}, {label}|{episodes}"] = np.asarray(covers).tolist()
    return {"readings": readings, "coordinates": coordinates}


def difference_repeat(settings: Sepsis, number: int) -> Result:
    """How much better the target is than the behaviour, from the behaviour's data alone: two ratios for each step."""
    here = scene(settings)
    path, ends = path_of(settings, number, settings.table_episodes[-1])
    ratios = np.stack([path.ratios(here.target, here.behaviour), np.ones(len(path))], axis=1)
    factors = here.problems["factors"]
    start = here.mdp.initial
    cases = {
        "table": (here.mdp.n_states, None, start, float(start @ (here.values - here.behaviour_values))),
        "factors": (
            factors.features.shape[1],
            factors.features,
            factors.targets[0],
            float(factors.targets[0] @ (factors.theta - factors.behaviour_theta)),
        ),
    }
    found = {}
    for label, (dimension, features, target, truth) in cases.items():
        data = path.transitions(settings.discount, features, ratios)
        both = inferl.Stack(inferl.TD(dimension), inferl.TD(dimension))
        contrast = np.r_[target, -target][None, :]
        for episodes, evaluator in follow(data, ends, settings.table_episodes[1:], both, inferl.LeastSquares()):
            kept = _read(evaluator, (START,), contrast, np.array([truth]), inferl.LeastSquares.kinds)
            found[f"difference, {label}|{episodes}"] = kept[START]
    return found


def curves_repeat(settings: Sepsis, number: int) -> Result:
    """MSPBE and widths over episodes: the paper's figure."""
    here = scene(settings)
    last = settings.episodes[-1]
    marks = tuple(np.unique(np.geomspace(min(100, last), last, 25).round().astype(int)).tolist())
    path, ends = path_of(settings, CURVE_PATHS + number, last)
    ratios = path.ratios(here.target, here.behaviour)
    found: Result = {"episodes": list(marks)}
    for label, problem in here.problems.items():
        data = path.transitions(settings.discount, problem.features, ratios)
        shown = sampled(data, [ends[n - 1] for n in marks])
        found[f"fixed point, {label}"] = {"estimated": [float(one.mspbe(problem.theta)) for one in shown]}
        for name, (algorithm, method) in methods_of(settings, problem, number).items():
            lines: dict[str, list[float | None]] = {key: [] for key in ("exact", "estimated", "error", *method.kinds)}
            for (_, evaluator), estimate in zip(follow(data, ends, marks, algorithm, method), shown, strict=True):
                if evaluator is None:
                    for line in lines.values():
                        line.append(None)
                    continue
                theta = evaluator.estimate(np.eye(problem.features.shape[1]))
                lines["exact"].append(float(problem.objectives.mspbe(theta)))
                lines["estimated"].append(float(estimate.mspbe(theta)))
                lines["error"].append(float(problem.targets[0] @ theta - problem.truths[0]))
                for kind in method.kinds:
                    lines[kind].append(evaluator.interval(problem.targets[0], LEVEL, kind).width)
            found[f"{name}, {label}"] = lines
    return found


def order_repeat(settings: Sepsis, number: int) -> Result:
    """Errors of the start's value at the end, from the path and from the same transitions in random order.

    In random order transitions do not depend on those before them, so what is left is the way still to go.
    """
    here = scene(settings)
    last = settings.episodes[-1]
    path, ends = path_of(settings, CURVE_PATHS + number, last)
    ratios = path.ratios(here.target, here.behaviour)
    shuffled = np.random.default_rng([settings.seed, number, 1]).permutation(ends[last - 1])
    found = {}
    for label, problem in here.problems.items():
        data = path.transitions(settings.discount, problem.features, ratios)[: ends[last - 1]]
        for name in ("GTD2", "TDC"):
            algorithm, method = methods_of(settings, problem, number)[name]
            few = replace(method, n_replicas=2)  # only the estimate is read
            for order, rows in (("path", data), ("random", data[shuffled])):
                estimate = inferl.Evaluator(algorithm, few).update(rows).estimate(problem.targets[0])
                found[f"{name}, {label}, {order}"] = float(estimate - problem.truths[0])
    return found


def sampled(data: inferl.Transitions, ends: Sequence[int]) -> list[inferl.Objectives]:
    """The objectives as the first steps show them, for each number of steps."""
    found = [inferl.Objectives.of(data[: ends[0]])]
    for start, end in pairwise(ends):
        found.append(found[-1].plus(inferl.Objectives.of(data[start:end])))
    return found


def speed_repeat(settings: Sepsis, number: int) -> Result:
    """Steps that the sampler makes in a second, and the time that the tensor takes; processor time."""
    behaviour = scene(settings).behaviour
    sampled, built = [], []
    for _ in range(5):
        begin = process_time()
        path = sepsis.sample(behaviour, 50_000, [settings.seed, number])
        sampled.append(len(path) / (process_time() - begin))
        begin = process_time()
        sepsis.mdp()
        built.append(process_time() - begin)
    return {"sampled_per_second": float(np.median(sampled)), "tensor_seconds": float(np.median(built))}


PARTS = (
    Part("coverage", table_repeat, 400, 8),
    Part("linear", linear_repeat, 100, 8),
    Part("difference", difference_repeat, 60, 3),
    Part("curves", curves_repeat, 10, 2),
    Part("order", order_repeat, 10, 2),
    Part("speed", speed_repeat, 1, 1),
)


STUDY = Study("sepsis", PARTS, Sepsis(), Sepsis(episodes=(500, 2_000), table_episodes=(500, 2_000)), summary)


def run(output: Path, *, quick: bool = False, settings: Sepsis | None = None, **options: Any) -> dict[str, Any]:
    """Learn the policy, then run the study as `Study.run` does; the settings in the JSON hold what was learned."""
    chosen = settings or (STUDY.quick if quick else STUDY.settings)
    return STUDY.run(output, quick=quick, settings=learned(chosen), **options)
