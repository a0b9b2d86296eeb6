"""Fitted propensities: how often an interval covers the value when the behaviour policy's probabilities are estimated.

    python -m studies.validity.propensities --repeats 400 --processes 1

The logs are of finite MDPs and of a bandit with finitely many contexts, so truths are exact. Each log is evaluated with
the true probabilities of the behaviour policy, with those that `fit_behaviour` fits, and with the frequencies of the
actions. Finished blocks are kept, so a run that was stopped goes on where it was. Writes results/propensities.json.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

import inferl
from inferl.baselines import per_decision
from inferl.data.arrays import Floats, Integers
from inferl.environments import FiniteMDP
from studies.provenance import PACKAGES, provenance
from studies.repeats import Result, repeat
from studies.validity.study import coverage_cell, options, partial_file, write_results

LENGTHS = (250, 1000, 4000)  # episodes; the shorter logs are the beginning of the longest
BLOCK = 10  # repeats a job
DISCOUNT = 0.9
METHODS = ("value", "PDIS", "WPDIS")
WARDS, SEVERITIES = 2, 6  # severity 0: discharged, 5: dead


@dataclass(frozen=True, eq=False)
class LogProblem:
    """A log, the formulas that are fitted to it, and the value of a policy other than the one that made it."""

    name: str
    truth: float
    log: Callable[[int, np.random.Generator], pa.Table]  # of so many episodes
    features: str
    formulas: dict[str, str]  # what a formula is, and the formula


def softmax(scores: Floats) -> Floats:
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


def clinic(name: str, treating: Callable[[Integers, Integers], Floats], formulas: dict[str, str]) -> LogProblem:
    """Patients of two wards stay for about a week; each day they are treated or not, with log-odds `treating`."""
    worse, better = np.array([0.40, 0.25]), np.array([0.35, 0.50])  # untreated, treated
    transition = np.zeros((2, WARDS * SEVERITIES, WARDS * SEVERITIES))
    for ward in range(WARDS):
        for severity in range(1, SEVERITIES - 1):
            state = ward * SEVERITIES + severity
            down, up = better * (1 - 0.3 * ward), worse
            transition[:, state, state - 1 : state + 2] = np.stack([down, 1 - down - up, up], axis=1)
    ends = [ward * SEVERITIES + end for ward in range(WARDS) for end in (0, SEVERITIES - 1)]
    discharged = np.isin(np.arange(WARDS * SEVERITIES), ends[::2])
    initial = np.tile([0.0, 0.1, 0.3, 0.4, 0.2, 0.0], WARDS) / WARDS
    mdp = FiniteMDP(transition, discharged.astype(float), initial, ends)
    wards, severities = np.divmod(np.arange(WARDS * SEVERITIES), SEVERITIES)
    odds = treating(wards, severities)
    behaviour = softmax(np.stack([0 * odds, odds], axis=1))
    target = softmax(np.stack([0 * odds, 0.4 * severities - 0.4], axis=1))

    def log(episodes: int, rng: np.random.Generator) -> pa.Table:
        state = rng.choice(len(initial), size=episodes, p=initial)
        patient, day, parts = np.arange(episodes), 0, []
        after = np.cumsum(transition, axis=2)
        while len(patient):
            action = (rng.random(len(patient)) < behaviour[state, 1]).astype(np.int64)
            following = (rng.random(len(patient))[:, None] > after[action, state]).sum(axis=1)
            over = np.isin(following, ends)
            parts.append((patient, np.full(len(patient), day), state, action, discharged[following] * 1.0, over))
            patient, state, day = patient[~over], following[~over], day + 1
        columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
        order = np.lexsort((columns[1], columns[0]))
        patient, days, state, action, reward, over = (column[order] for column in columns)
        return pa.table(
            {
                "episode": patient,
                "day": days,
                "ward": np.array(["east", "west"])[state // SEVERITIES],
                "severity": state % SEVERITIES,
                "action": action,
                "reward": reward,
                "terminated": over,
                "p": behaviour[state, action],
                "q": target[state, action],
            }
        )

    truth = float(mdp.initial @ mdp.values(target, DISCOUNT))
    return LogProblem(name, truth, log, "severity", formulas)


def bandit() -> LogProblem:
    """One of nine contexts is seen, one of four actions is taken, a reward is paid."""
    fixed = np.random.default_rng(20)
    grid = np.stack([axis.ravel() for axis in np.meshgrid([-1.0, 0.0, 1.0], [-1.0, 0.0, 1.0])], axis=1)
    acting, wanted, slopes = fixed.standard_normal((3, 2, 4)) * 0.7
    behaviour, target = softmax(grid @ acting), softmax(grid @ wanted)
    mean = np.sin(grid @ slopes) + 0.5 * grid[:, :1] * grid[:, 1:] * np.array([0.0, 1.0, -1.0, 0.5])

    def log(episodes: int, rng: np.random.Generator) -> pa.Table:
        context = rng.integers(len(grid), size=episodes)
        action = (rng.random((episodes, 1)) > behaviour[context].cumsum(axis=1)[:, :-1]).sum(axis=1)
        return pa.table(
            {
                "episode": np.arange(episodes),
                "day": np.zeros(episodes, np.int64),
                "x1": grid[context, 0],
                "x2": grid[context, 1],
                "action": action,
                "reward": mean[context, action] + 0.5 * rng.standard_normal(episodes),
                "terminated": np.ones(episodes, np.bool_),
                "p": behaviour[context, action],
                "q": target[context, action],
            }
        )

    return LogProblem("bandit", float((target * mean).sum(axis=1).mean()), log, "x1 + x2", {"right": "x1 + x2"})


@cache
def problems() -> dict[str, LogProblem]:
    """The problems by name."""
    found = (
        clinic("clinic", lambda w, s: 0.5 * s - 1.5 + 0.6 * w, {"right": "C(ward) + severity"}),
        clinic(
            "clinic, extremes treated",
            lambda w, s: np.where((s == 1) | (s == 4), 0.6, -0.6) + 0.4 * w,
            {"right": "C(ward) * C(severity)", "wrong": "C(ward) + severity"},
        ),
        bandit(),
    )
    return {problem.name: problem for problem in found}


def run(job: list[Any]) -> Result:
    """Evaluate some repeats of one problem."""
    name, first, number, seed = job
    problem, found = problems()[name], Result()
    began = time.process_time()
    place = list(problems()).index(name)
    for repeat_number in range(first, first + number):
        whole = problem.log(max(LENGTHS), np.random.default_rng([seed, place, repeat_number]))
        episodes = whole.column("episode").to_numpy()
        for length in LENGTHS:
            log = whole.slice(0, int(np.searchsorted(episodes, length)))
            for fit, bounds in one(problem, log).items():
                for method, numbers in bounds.items():
                    found.setdefault(f"{length}|{fit}|{method}", []).append(numbers)
    return found | {"seconds": time.process_time() - began}


def one(problem: LogProblem, log: pa.Table) -> dict[str, dict[str, list[float]]]:
    """Evaluate one log with each kind of probabilities: estimate, bounds, and which checks of these failed."""
    behaviours: dict[str, dict[str, Any]] = {"true": {"behaviour_probability": "p"}}
    behaviours |= {name: {"fit_behaviour": formula} for name, formula in problem.formulas.items()}
    behaviours["frequencies"] = {"fit_behaviour": "1"}
    found = {}
    for name, behaviour in behaviours.items():
        source = inferl.sources.table(
            log, features=problem.features, order="day", discount=DISCOUNT, target_probability="q", **behaviour
        )
        steps = inferl.Transitions.join(list(source))
        report = inferl.Evaluator(inferl.DoublyRobust(source.dimension)).update(steps).report()
        failed = {check.name for check in report.checks if check.failed}
        failed |= {check.name for check in source.checks() if check.failed}
        told = [bool(failed & {"ratios", "mean ratio"}), "propensities" in failed]
        intervals = {"value": report.interval, "PDIS": per_decision(steps), "WPDIS": per_decision(steps, weighted=True)}
        found[name] = {
            method: [float(f"{x:.10g}") for x in (i.estimate, i.lower, i.upper, *told)]
            for method, i in intervals.items()
        }
    return found


def summary(name: str, key: str, numbers: list[list[float]]) -> dict[str, Any]:
    """Count one cell."""
    length, fit, method = key.split("|")
    estimate, lower, upper, *told = np.array(numbers).T
    truth = problems()[name].truth
    covered = (lower <= truth) & (truth <= upper)
    ratios, fit_check = (column.astype(bool) for column in told)
    labels = {"problem": name, "episodes": int(length), "propensities": fit, "method": method}
    return coverage_cell(covered.tolist(), (upper - lower).tolist(), **labels) | {
        "bias": float(estimate.mean() - truth),
        "sd": float(estimate.std(ddof=1)),
        "ratios_alarm": int(ratios.sum()),
        "propensities_alarm": int(fit_check.sum()),
        "misses_told": int(((ratios | fit_check) & ~covered).sum()),
    }


def main() -> None:
    asked = options(__doc__, 20_000, 400)
    made_by = provenance(asked.seed, packages=(*PACKAGES, "scikit-learn"))
    jobs = [
        [name, first, min(BLOCK, asked.repeats - first), asked.seed]
        for first in range(0, asked.repeats, BLOCK)
        for name in problems()
    ]
    columns: dict[tuple[str, str], list[list[float]]] = {}
    seconds = 0.0
    for job, result in zip(
        jobs, repeat(run, jobs, partial_file("propensities"), processes=asked.processes), strict=True
    ):
        seconds += result.pop("seconds")
        for key, numbers in result.items():
            columns.setdefault((job[0], key), []).extend(numbers)
    cells = [summary(name, key, numbers) for (name, key), numbers in columns.items()]
    truths = [{"problem": p.name, "truth": p.truth, "formulas": p.formulas} for p in problems().values()]
    content = {"provenance": made_by, "core_minutes": round(seconds / 60, 1), "problems": truths, "cells": cells}
    print(write_results("propensities", content).name)
    for cell in cells:
        print(
            f"{cell['problem']:25s} {cell['episodes']:5d} {cell['propensities']:12s} {cell['method']:6s} "
            f"{cell['coverage']:.3f} width {cell['median_width']:.4f} bias/sd {cell['bias'] / cell['sd']:+.2f} "
            f"ratios {cell['ratios_alarm']} propensities {cell['propensities_alarm']}"
        )


if __name__ == "__main__":
    main()
