"""Do the checks speak up where an interval is wrong, and only there; and do block multipliers and merging work?

    python -m studies.validity.method [--repeats 400] [--processes 2]

95 % intervals on four problems whose truth is exact: FrozenLake 8x8 (discount .99, tabular), the two-state chain with
correlation .8, the ring of 20 states in 4 groups (laziness .5, discount .9), and random MDPs whose value is linear in
the features, a new one for each repeat. Writes validity/results/method.json; stopped and started again, it goes on.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

import inferl
from inferl.algorithms import Algorithm
from inferl.environments import random_mdp, ring, two_state_chain
from inferl.environments.projection import ScoreCovariance
from studies.provenance import provenance
from studies.repeats import Result, repeat
from studies.validity.spine import DISCOUNT, frozen_lake
from studies.validity.study import clopper_pearson, coverage_cell, options, partial_file, write_results

SEED = 42_000
LEVEL = 0.95
STEPS = 10_000  # of the chain and the random MDPs
CHAIN_DISCOUNT = 0.5
RING_DISCOUNT = 0.9
RING_STEPS = (3_000, 10_000, 30_000, 100_000)
LAKE_EPISODES = (250, 500, 1000, 2000)
LAKE_SOLVED = (50, 100, 250, 500, 1000)  # where least squares is read
LAKE_STEPS = 260_000  # 2000 episodes of 86 steps on average, and room
LAKE_MERGED = 1000
RING_MERGED = (10_000, 100_000)

IN_BLOCKS = inferl.Multipliers("two-point", inferl.BlockClock(4, 0.5))
BOOTSTRAPS = {
    "bootstrap": inferl.OnlineBootstrap(inferl.Polynomial(5, decay=0.65)),
    "bootstrap, blocks": inferl.OnlineBootstrap(inferl.Polynomial(5, decay=0.65), multipliers=IN_BLOCKS),
    "bootstrap, initial 100": inferl.OnlineBootstrap(inferl.Polynomial(100, decay=0.65, cap=0.5)),
    "bootstrap, initial 10": inferl.OnlineBootstrap(inferl.Polynomial(10, decay=0.65)),
    "as printed, initial 10": inferl.OnlineBootstrap.as_printed(10.0),
}
# Cells whose intervals the package says can be believed: environment, method, shortest length.
TRUSTED = {
    ("FrozenLake", "least squares"): 50,
    ("FrozenLake", "bootstrap, initial 100"): 250,
    ("two-state chain", "least squares"): STEPS,
    ("ring", "least squares"): 10_000,
    ("ring", "bootstrap, blocks"): 10_000,
    ("random MDP, linear", "least squares"): STEPS,
    ("random MDP, linear", "bootstrap"): STEPS,
    ("random MDP, tabular", "least squares"): STEPS,
    ("random MDP, tabular", "bootstrap, initial 100"): STEPS,
    ("random MDP, off-policy", "least squares"): STEPS,
    ("random MDP, off-policy", "bootstrap"): STEPS,  # with TDC
}


def evaluator(algorithm: Algorithm, name: str, number: int) -> inferl.Evaluator:
    """An evaluator with the method of that name, and multipliers of this repeat's own."""
    if name == "least squares":
        return inferl.Evaluator(algorithm)
    settings = {**BOOTSTRAPS[name].__dict__, "seed": SEED + number}
    return inferl.Evaluator(algorithm, inferl.OnlineBootstrap(**settings))


def read(one: inferl.Evaluator, target: Any, truth: float) -> Result:
    report = one.report(target)
    bounds = {kind: one.interval(target, kind=kind) for kind in one.method.kinds}
    return {
        "truth": float(truth),
        "estimate": float(report.interval.estimate),
        "error": float(report.interval.standard_error),
        "bounds": {kind: (float(interval.lower), float(interval.upper)) for kind, interval in bounds.items()},
        "checks": {check.name: (check.status, check.value) for check in report.checks},
    }


def compare(whole: inferl.Evaluator, merged: inferl.Evaluator, target: Any, truth: float) -> Result:
    one, two = whole.interval(target), merged.interval(target)
    return {
        "difference": float(abs(two.estimate - one.estimate) / one.standard_error),
        "ratio": float(two.standard_error / one.standard_error),
        "covered": (truth in one, truth in two),
    }


def lake_cells(number: int) -> Iterable[tuple[str, Result]]:
    mdp, policy, truth = frozen_lake()
    path = mdp.sample(policy, LAKE_STEPS, seed=[SEED, number, 0])
    ends = np.flatnonzero(path.terminated) + 1
    data = path.transitions(DISCOUNT)
    algorithm = inferl.TD(mdp.n_states)
    for name in ("least squares", "bootstrap, initial 100", "bootstrap, initial 10", "as printed, initial 10"):
        one, start = evaluator(algorithm, name, number), 0
        for episodes in LAKE_SOLVED if name == "least squares" else LAKE_EPISODES:
            one.update(data[start : ends[episodes - 1]])
            start = ends[episodes - 1]
            yield f"FrozenLake|{name}|{episodes}|V(s0)", read(one, 0, truth)
            if name == "least squares" and episodes == LAKE_MERGED:
                cut = ends[episodes // 2 - 1]
                halves = [inferl.Evaluator(algorithm).update(part) for part in (data[:cut], data[cut:start])]
                yield f"merged|FrozenLake|{episodes}|V(s0)", compare(one, inferl.merge(*halves), 0, truth)


@cache
def ring_truth() -> ScoreCovariance:
    mdp, features = ring(20, 4, laziness=0.5)
    return mdp.score_covariance(features, np.ones((20, 1)), None, RING_DISCOUNT)


def ring_cells(number: int) -> Iterable[tuple[str, Result]]:
    mdp, features = ring(20, 4, laziness=0.5)
    theta = ring_truth().fixed_point
    path = mdp.sample(np.ones((20, 1)), RING_STEPS[-1], seed=[SEED, number, 1])
    data = path.transitions(RING_DISCOUNT, features)
    targets = np.eye(4)
    for name in ("least squares", "bootstrap", "bootstrap, blocks"):
        one, start = evaluator(inferl.TD(4), name, number), 0
        for steps in RING_STEPS:
            one.update(data[start:steps])
            start = steps
            for group in range(4):
                yield f"ring|{name}|{steps}|V(group {group})", read(one, targets[group], theta[group])
            if name == "least squares" and steps in RING_MERGED:
                parts = (data[: steps // 2], data[steps // 2 : steps])
                merged = inferl.merge(*(inferl.Evaluator(inferl.TD(4)).update(part) for part in parts))
                for group in range(4):
                    key = f"merged|ring|{steps}|V(group {group})"
                    yield key, compare(one, merged, targets[group], theta[group])


def chain_cells(number: int) -> Iterable[tuple[str, Result]]:
    mdp, features = two_state_chain(0.8)
    data = mdp.sample(np.ones((2, 1)), STEPS, seed=[SEED, number, 2]).transitions(CHAIN_DISCOUNT, features)
    for name in ("least squares", "bootstrap", "bootstrap, blocks"):
        one = evaluator(inferl.TD(1), name, number).update(data)
        yield f"two-state chain|{name}|{STEPS}|V", read(one, [1.0], 0.0)


def random_cells(number: int) -> Iterable[tuple[str, Result]]:
    """State 0 of a random MDP: on-policy with linear and tabular features, off-policy with linear ones."""
    mdp, features, policy, behaviour, theta, discount = random_mdp(seed=[SEED, number, 3])
    truth = float(features[0] @ theta)
    path = mdp.sample(policy, STEPS, seed=[SEED, number, 4])
    for name in ("least squares", "bootstrap"):
        one = evaluator(inferl.TD(10), name, number).update(path.transitions(discount, features))
        yield f"random MDP, linear|{name}|{STEPS}|V(s0)", read(one, features[0], truth)
    for name in ("least squares", "bootstrap, initial 100"):
        one = evaluator(inferl.TD(50), name, number).update(path.transitions(discount))
        yield f"random MDP, tabular|{name}|{STEPS}|V(s0)", read(one, 0, truth)
    logged = mdp.sample(behaviour, STEPS, seed=[SEED, number, 5])
    ratios = logged.ratios(policy, behaviour)
    data = logged.transitions(discount, features, ratios)
    for name, algorithm in (("least squares", inferl.TD(10)), ("bootstrap", inferl.TDC(10))):
        one = evaluator(algorithm, name, number).update(data)
        yield f"random MDP, off-policy|{name}|{STEPS}|V(s0)", read(one, features[0], truth)


def one_repeat(number: int) -> Result:
    """One path through each environment, all methods on the same data."""
    return dict(entry for cells in (lake_cells, ring_cells, chain_cells, random_cells) for entry in cells(number))


def limit_variances(environment: str, target: str) -> tuple[float, float] | None:
    """Limits of n times the variance of least squares: the true one, and the one seen if steps were independent."""
    if environment == "two-state chain":
        return 9.0 / (1 - CHAIN_DISCOUNT) ** 2, 1.0 / (1 - CHAIN_DISCOUNT) ** 2
    if environment == "ring":
        influence = np.linalg.inv(ring_truth().matrix)[int(target[-2])]
        scores = (ring_truth().long_run, ring_truth().lag_zero)
        true, independent = (float(influence @ covariance @ influence) for covariance in scores)
        return true, independent
    return None


def theory(environment: str, method: str, length: int, target: str) -> dict[str, float | None]:
    """Standard error and coverage of the 95 % interval in the limit of a long stream, where theory gives them."""
    limits = limit_variances(environment, target)
    if method.endswith("initial 10"):
        return {"limit_standard_error": None, "limit_coverage": None}  # the limit is very far away
    if limits is None:
        return {"limit_standard_error": None, "limit_coverage": LEVEL}
    true, independent = limits
    shown = independent if method == "bootstrap" else true
    averaged = 1 if method == "least squares" else 4 / 3  # the price of the linear average
    return {
        "limit_standard_error": float(np.sqrt(averaged * true / length)),
        "limit_coverage": float(2 * ndtr(ndtri((1 + LEVEL) / 2) * np.sqrt(shown / true)) - 1),
    }


def summarise(key: str, readings: list[Result]) -> dict[str, Any]:
    environment, method, length, target = key.split("|")
    truth, estimate, error = (
        np.array([reading[name] for reading in readings]) for name in ("truth", "estimate", "error")
    )
    shortest = TRUSTED.get((environment, method))
    labels: dict[str, Any] = {
        "environment": environment,
        "method": method,
        "length": int(length),
        "target": target,
        "trusted": shortest is not None and int(length) >= shortest,
    }
    kinds, default = {}, next(iter(readings[0]["bounds"]))
    quiet = np.array([all(status != "failed" for status, _ in reading["checks"].values()) for reading in readings])
    covered_quietly = 0
    for kind in readings[0]["bounds"]:
        bounds = np.array([reading["bounds"][kind] for reading in readings])
        covered = (bounds[:, 0] <= truth) & (truth <= bounds[:, 1])
        kinds[kind] = coverage_cell(covered.tolist(), (bounds[:, 1] - bounds[:, 0]).tolist())
        covered_quietly = int(np.sum(covered & quiet)) if kind == default else covered_quietly
    checks = {}
    for name in readings[0]["checks"]:
        status = [reading["checks"][name][0] for reading in readings]
        values = [reading["checks"][name][1] for reading in readings]
        numbers = [value for value in values if value is not None and np.isfinite(value)]
        checks[name] = share(status.count("failed"), len(status)) | {
            "not_available": status.count("not available"),
            "values": np.quantile(numbers, [0, 0.25, 0.5, 0.75, 1]).tolist() if numbers else None,  # quartiles
        }
    known = environment in ("FrozenLake", "ring", "two-state chain")  # the same truth in every repeat
    spread = float(estimate.std(ddof=1)) if known else None
    finite = np.isfinite(error) & (error > 0)
    return (
        labels
        | {
            "intervals": kinds,
            "checks": checks,
            "quiet": {"runs": int(quiet.sum()), "covered": covered_quietly},  # no check failed
            "bias": float(np.mean(estimate - truth)) if known else None,
            "spread_of_estimates": spread,
            "median_standard_error": float(np.median(error[finite])) if finite.any() else None,
        }
        | theory(environment, method, int(length), target)
    )


def summarise_merge(key: str, readings: list[Result]) -> dict[str, Any]:
    _, environment, length, target = key.split("|")
    ratio = np.array([reading["ratio"] for reading in readings])
    return {
        "environment": environment,
        "length": int(length),
        "target": target,
        "largest_difference": max(reading["difference"] for reading in readings),
        "median_ratio": float(np.median(ratio)),
        "mean_ratio": float(np.mean(ratio)),
        "ratio_90": np.quantile(ratio, [0.05, 0.95]).tolist(),
        "within_5_percent": share(int(np.sum(np.abs(ratio - 1) <= 0.05)), len(ratio)),
        "covered_whole": share(sum(reading["covered"][0] for reading in readings), len(readings)),
        "covered_merged": share(sum(reading["covered"][1] for reading in readings), len(readings)),
    }


def share(k: int, n: int) -> dict[str, Any]:
    return {"count": k, "repeats": n, "share": k / n, "binomial_95": clopper_pearson(k, n, 0.95)}


def criteria(cells: list[dict[str, Any]], merges: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What had to come out, and what did."""

    def found(environment: str, method: str, shortest: int = 0, target: str = "") -> list[dict[str, Any]]:
        return [
            cell
            for cell in cells
            if (cell["environment"], cell["method"]) == (environment, method)
            and cell["length"] >= shortest
            and cell["target"].startswith(target)
        ]

    lines: list[dict[str, Any]] = []

    def judge(what: str, low: float, high: float, numbers: list[float], shares: bool = True) -> None:
        met = all(low <= one <= high for one in numbers)
        limits = {"at_least": low, "at_most": high, "found": numbers, "met": met}
        lines.append({"what": what, "shares": shares} | limits)

    def alarms(check: str, chosen: list[dict[str, Any]]) -> list[float]:
        return [cell["checks"][check]["share"] for cell in chosen]

    def coverage(chosen: list[dict[str, Any]]) -> list[float]:
        return [cell["intervals"]["percentile"]["coverage"] for cell in chosen]

    at = [cell for cell in found("ring", "bootstrap") if cell["length"] == STEPS]
    judge("dependence fires, two-state chain", 0.95, 1, alarms("dependence", found("two-state chain", "bootstrap")))
    judge("dependence fires, ring at 10,000 steps, each group", 0.95, 1, alarms("dependence", at))
    for kind, method in (("linear", "bootstrap"), ("tabular", "bootstrap, initial 100")):
        chosen = found(f"random MDP, {kind}", method)
        judge(f"dependence fires, realisable random MDP, {kind} features", 0, 0.05, alarms("dependence", chosen))
    for method, low, high in (
        ("bootstrap, initial 10", 1.0, 1.0),
        ("as printed, initial 10", 1.0, 1.0),
        ("bootstrap, initial 100", 0.0, 0.05),
    ):
        what = f"convergence fires, FrozenLake at {', '.join(map(str, LAKE_EPISODES))} episodes, {method}"
        judge(what, low, high, alarms("convergence", found("FrozenLake", method)))
    blocks = "bootstrap, blocks"
    judge("convergence fires, ring, block multipliers", 0, 0.05, alarms("convergence", found("ring", blocks)))
    for group in range(4):
        what = f"block multipliers cover, ring from 10,000 steps, group {group}"
        judge(what, 0.92, 0.98, coverage(found("ring", blocks, 10_000, f"V(group {group})")))
    differences, ratios = ([merge[name] for merge in merges] for name in ("largest_difference", "median_ratio"))
    judge("merged against one stream: largest difference in standard errors", 0, 0.05, differences, shares=False)
    judge("merged against one stream: median ratio of standard errors", 0.95, 1.05, ratios, shares=False)
    return lines


def main() -> None:
    asked = options(__doc__, repeats=400)
    made_by = provenance(SEED)
    results = repeat(one_repeat, range(asked.repeats), partial_file("method"), processes=asked.processes)
    keys = list(results[0])
    columns = {key: [result[key] for result in results] for key in keys}
    cells = [summarise(key, columns[key]) for key in keys if not key.startswith("merged|")]
    merges = [summarise_merge(key, columns[key]) for key in keys if key.startswith("merged|")]
    lines = criteria(cells, merges)
    for line in lines:
        shares = " ".join(f"{one:.4g}" for one in line["found"])
        print(f"{'met ' if line['met'] else 'MISS'} {line['what']}: {shares}")
    settings = {name: repr(method) for name, method in BOOTSTRAPS.items()} | {
        "least squares": repr(inferl.LeastSquares())
    }
    content = {"provenance": made_by, "settings": settings, "criteria": lines, "cells": cells, "merges": merges}
    print(write_results("method", content).name)


if __name__ == "__main__":
    main()
