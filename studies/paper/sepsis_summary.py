"""From the repeats of the sepsis study to its JSON."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

from studies.paper.machinery import Result
from studies.paper.sepsis_scene import START, Problem, Sepsis, scene
from studies.paper.summaries import LEVEL, cells, covers, means

__all__ = ["summary"]

FARTHEST = 1.5  # standard errors from the least-squares solution, where the convergence check begins to object


def summary(settings: Sepsis, found: dict[str, list[Result]]) -> Result:
    """From the repeats to the study's JSON."""
    here = scene(settings)
    start = here.mdp.initial
    best = float(start @ here.mdp.values(here.mdp.optimal_policy(settings.discount), settings.discount))
    value = float(start @ here.values)
    return {
        "policy": {
            "value": value,
            "optimal_value": best,
            "share": value / best,
            "behaviour_value": float(start @ here.behaviour_values),
            "mean_length": here.mean_length,
        },
        "truths": {
            "table": dict(zip(here.names, (here.rows @ here.values).tolist(), strict=True)),
            **{
                label: dict(zip(here.names, problem.truths.tolist(), strict=True))
                for label, problem in here.problems.items()
            },
        },
        "slowest": {label: _slowest(problem, settings.auxiliary_steps[0]) for label, problem in here.problems.items()},
        "limit_error": {label: problem.error for label, problem in here.problems.items()},
        "coverage": cells(found["coverage"])
        + cells([result["readings"] for result in found["linear"]])
        + cells(found["difference"]),
        "above_zero": _above_zero(found["difference"]),
        "coordinates": _coordinates([result["coordinates"] for result in found["linear"]]),
        "arrived": _arrived([result["readings"] for result in found["linear"]]),
        "curves": _medians(found["curves"]),
        "order": means(found["order"]),
        "speed": found["speed"][0],
    }


def _slowest(problem: Problem, auxiliary_step: float) -> float:
    """Smallest real part of an eigenvalue of GTD2's mean matrix, over E|phi|^2: what a step can do at best."""
    a, moments, x = problem.objectives.matrix, problem.objectives.moments, auxiliary_step
    whole = np.block([[np.zeros_like(a), -a.T], [x * a, x * moments]])
    return float(np.linalg.eigvals(whole).real.min() / np.trace(moments))


def _above_zero(results: list[Result]) -> Result:
    """In how many repeats the target is shown to be better than the behaviour."""
    lowers = {key: [result[key]["bounds"]["normal"][0] for result in results] for key in (results or [{}])[0]}
    return {key: sum(lower is not None and lower > 0 for lower in own) for key, own in lowers.items()}


def _arrived(results: list[Result]) -> list[Result]:
    """How often the convergence check objects to a bootstrap's value of the start, and the coverage where it does not.

    The check compares the average with the least-squares solution of the same data, in standard errors.
    """
    made = []
    for key in results[0] if results else ():
        method, rest = key.split(", ", 1)
        if method not in ("GTD2", "TDC") or f", {START}|" not in rest:
            continue
        own = [(result[key], result[f"least squares, {rest}"]) for result in results]
        own = [(kept, solved) for kept, solved in own if kept["estimate"] is not None]
        errors = [np.diff(kept["bounds"]["normal"]).item() / (2 * ndtri((1 + LEVEL) / 2)) for kept, _ in own]
        gaps = [abs(kept["estimate"] - solved["estimate"]) / e for (kept, solved), e in zip(own, errors, strict=True)]
        passed = [covers(kept, "percentile") for (kept, _), gap in zip(own, gaps, strict=True) if gap <= FARTHEST]
        name, length = key.rsplit("|", 1)
        made.append(
            {
                "method": name,
                "length": int(length),
                "repeats": len(own),
                "alarms": len(own) - len(passed),
                "median_gap": float(np.median(gaps)),
                "passed": len(passed),
                "covered": int(sum(passed)),
            }
        )
    return made


def _coordinates(results: list[Result]) -> list[Result]:
    """Share of theta's coordinates that their intervals cover, over all repeats, with its standard error."""
    made = []
    for key in results[0] if results else ():
        method, length = key.rsplit("|", 1)
        shares = np.array([np.mean(result[key]) for result in results if key in result])
        worst = np.mean([result[key] for result in results if key in result], axis=0).min()
        error = float(shares.std() / np.sqrt(len(shares)))
        made.append(
            {
                "method": method,
                "length": int(length),
                "share": float(shares.mean()),
                "error": error,
                "worst": float(worst),
            }
        )
    return made


def _medians(results: list[Result]) -> Result:
    """Median over the repeats of every line, beside the first repeat's own."""
    if not results:
        return {}
    made: Result = {"episodes": results[0]["episodes"], "median": {}, "first": {}}
    for name, lines in results[0].items():
        if name == "episodes":
            continue
        every = {key: np.array([result[name][key] for result in results], dtype=np.float64) for key in lines}
        made["median"][name] = {
            key: [float(f"{x:.5g}") for x in np.median(rows, axis=0)] for key, rows in every.items()
        }
        made["first"][name] = {key: [float(f"{x:.5g}") for x in rows[0]] for key, rows in every.items()}
    return made
