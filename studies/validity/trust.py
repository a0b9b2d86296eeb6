"""Where may an interval be trusted? Coverage against exact truth: problems x methods x lengths.

    python -m studies.validity.trust [--quick] [--processes 2] [--seed 81000]

All intervals are at 95 %. Coverage at fixed lengths, with what the checks said; anytime intervals under 100 looks;
differences of two policies; bands over all states. Writes validity/results/trust.json (trust-quick.json); stopped and
started again, it goes on. The full run takes about 80 minutes on two cores, --quick a few minutes.
"""

from __future__ import annotations

from collections.abc import Iterator
from time import process_time
from typing import Any

import numpy as np
from scipy.special import ndtri

from studies.provenance import commit, provenance
from studies.repeats import Result, repeat
from studies.validity.parts import (
    ANYTIME,
    BANDS,
    DIFFERENCE_LENGTHS,
    LEVEL,
    banded,
    banded_states,
    bootstrap,
    bootstrapped,
    differing,
    iterated,
    looked_at,
    resampled,
    solved,
    stored,
    two_policies,
)
from studies.validity.problems import PROBLEMS, problem
from studies.validity.study import clopper_pearson, options, partial_file, write_results

SEED = 81_000
TRUSTED, DOUBTFUL = 250, 50  # relaxation times
PARTS = {
    # longest first, so that processes end together: function, repeats, repeats in one job, longest stream
    "anytime": (looked_at, 800, 20, 10**7),
    "bootstraps": (bootstrapped, 400, 20, 30_000),
    "bands": (banded, 400, 20, 10**7),
    "least squares": (solved, 2000, 50, 10**7),  # half as many of streams over 10,000 steps, a quarter over 100,000
    "differences": (differing, 400, 20, 10**7),
    "offline": (resampled, 200, 50, 10_000),
    "iterates": (iterated, 400, 200, 30_000),
    "stored": (stored, 200, 50, 30_000),
}
QUICK = 10  # a quick run has this many times fewer repeats, and no stream longer than 20,000


def names_of(part: str) -> list[str]:
    """The problems of a part."""
    if part in ("anytime", "bands"):
        return list(ANYTIME if part == "anytime" else BANDS)
    if part == "differences":
        return ["random MDP, off-policy"]
    if part in ("iterates", "stored"):  # TD(0), on which these rest
        return [name for name in PROBLEMS if "5-step" not in name and name != "Baird's star, off-policy"]
    return list(PROBLEMS)


def jobs(quick: bool, seed: int) -> Iterator[list[Any]]:
    for part, (_, repeats, at_once, longest) in PARTS.items():
        repeats = repeats // QUICK if quick else repeats
        longest = min(longest, 20_000) if quick else longest
        for name in names_of(part):
            enough, end = repeats, problem(name).lengths[-1]
            if part == "least squares":
                enough //= 4 if end > 100_000 else 2 if end > 10_000 else 1
            if longest >= 2 * (ANYTIME[name] if part == "anytime" else BANDS[name][0] if part == "bands" else 0):
                for first in range(0, enough, at_once):
                    yield [part, name, first, min(first + at_once, enough), seed, longest]


def one_job(job: list[Any]) -> Result:
    part, name, first, last, seed, longest = job
    begin = process_time()
    columns = PARTS[part][0](name, range(first, last), seed, longest)
    return {"columns": columns, "seconds": process_time() - begin, "commit": commit()}


def joined(todo: list[list[Any]], results: list[Result]) -> dict[tuple[str, str], Result]:
    """Columns of all repeats of a part and a problem."""
    whole: dict[tuple[str, str], Result] = {}
    for (part, name, *_), result in zip(todo, results, strict=True):
        here = whole.setdefault((part, name), {})
        for key, column in result["columns"].items():
            there = here.setdefault(key, {entry: [] for entry in column})
            for entry, values in column.items():
                there[entry] += values
    return whole


def share(hits: Any, of: int | None = None) -> dict[str, Any]:
    """A share with its exact binomial interval."""
    k, n = (int(np.sum(hits)), len(hits)) if of is None else (int(hits), of)
    return {
        "count": k,
        "of": n,
        "share": k / n if n else None,
        "binomial_95": clopper_pearson(k, n, 0.95) if n else None,
    }


def coverage_cells(whole: dict[tuple[str, str], Result]) -> Iterator[dict[str, Any]]:
    """A cell for each problem, method, length and target of the parts that measure coverage."""
    for name in PROBLEMS:
        asked = problem(name)
        truth, rate = asked.solution()
        relaxation = asked.relaxation_time
        centre: dict[tuple[int, str], np.ndarray[Any, Any]] = {}
        for part in ("least squares", "bootstraps", "iterates", "stored", "offline"):
            for key, column in whole.get((part, name), {}).items():
                method, length, target = key.split("|")
                i, n = list(asked.asked).index(target), int(length)
                lower, upper = np.array(column["lower"]), np.array(column["upper"])
                with np.errstate(invalid="ignore"):  # an endless interval has no middle
                    middle = (lower + upper) / 2
                if method == "least squares":
                    centre[n, target] = middle
                sound = centre[n, target][np.isfinite(centre[n, target])]
                error = float(np.sqrt(rate[i] / n)) if rate is not None else float(np.std(sound, ddof=1))
                reach = float(ndtri((1 + LEVEL) / 2)) * error
                held = (lower <= truth[i]) & (truth[i] <= upper)
                cell = {
                    "problem": name,
                    "target": target,
                    "length": n,
                    "relaxation_times": n / relaxation,
                    "method": method,
                    "coverage": share(held),
                    "width": float(np.median(upper - lower)) / (2 * reach),
                    "infinite": int((~np.isfinite(upper - lower)).sum()),
                }
                if method == "least squares":
                    cell["oracle"] = share(np.abs(middle - truth[i]) <= reach)
                    spread = float(np.std(sound, ddof=1)) / error
                    cell["spread"] = spread
                    cell["at this length"] = share(np.abs(middle - truth[i]) <= reach * spread)
                if column["fired"]:
                    any_fired = np.array([bool(names) for names in column["fired"]])
                    cell["fired_when_missed"] = share(any_fired[~held])
                    cell["fired_when_held"] = share(any_fired[held])
                    names = sorted({check for names in column["fired"] for check in names})
                    cell["fired"] = {check: share([check in names for names in column["fired"]]) for check in names}
                yield cell


def other_cells(whole: dict[tuple[str, str], Result]) -> dict[str, list[dict[str, Any]]]:
    """Anytime intervals, bands, differences."""
    found: dict[str, list[dict[str, Any]]] = {"anytime": [], "bands": [], "differences": []}
    for (part, name), columns in whole.items():
        for key, column in columns.items():
            method, kind, what = key.split("|")
            if part == "anytime":
                labels = {"problem": name, "method": method, "kind": kind, "target": what, "from": ANYTIME[name]}
                found[part].append(labels | {"missed": share(column["missed"])})
            elif part == "bands":
                labels = {"problem": name, "method": method, "kind": kind, "length": int(what)}
                found[part].append(labels | {"targets": len(banded_states(name)), "missed": share(column["missed"])})
            elif part == "differences":
                lower, upper, truth = np.array(column["lower"]), np.array(column["upper"]), float(two_policies()[3])
                labels = {"way": method, "length": int(kind), "coverage": share((lower <= truth) & (truth <= upper))}
                found[part].append(labels | {"median_width": float(np.median(upper - lower))})
    return found


def criteria(cells: list[dict[str, Any]], others: dict[str, list[dict[str, Any]]]) -> Iterator[dict[str, Any]]:
    """The lines that the project set itself, and whether they are met; what is not is listed."""

    def line(what: str, failing: list[str], of: int) -> dict[str, Any]:
        return {"what": what, "cells": of, "failing": failing, "met": not failing}

    def where(cell: dict[str, Any], value: float) -> str:
        times = f"{cell['relaxation_times']:.0f} relaxation times"
        return f"{cell['problem']}, {cell['target']}, {cell['length']} ({times}): {value:.3f}"

    default = [cell for cell in cells if cell["method"] == "least squares"]
    trusted = [cell for cell in default if cell["relaxation_times"] >= TRUSTED]
    doubtful = [cell for cell in default if DOUBTFUL <= cell["relaxation_times"] < TRUSTED]
    short = [cell for cell in default if cell["relaxation_times"] < DOUBTFUL]
    gap = [(cell, round(cell["coverage"]["share"] - cell["oracle"]["share"], 9)) for cell in trusted]  # 2 points are 2
    yield line(
        "trusted: coverage within 2 points of the interval with the true variance",
        [where(cell, difference) for cell, difference in gap if abs(difference) > 0.02],
        len(trusted),
    )
    low = [(cell, cell["coverage"]["share"]) for cell in trusted]
    yield line("trusted: coverage at least 91 %", [where(c, x) for c, x in low if x < 0.91], len(trusted))
    low = [(cell, cell["coverage"]["share"]) for cell in doubtful]
    yield line("50 to 250: coverage at least 87 %", [where(c, x) for c, x in low if x < 0.87], len(doubtful))
    alarms = [(cell, cell["fired_when_missed"]["share"]) for cell in short if cell["fired_when_missed"]["of"]]
    yield line("below 50: a check fires in 90 % of the misses", [where(c, x) for c, x in alarms if x < 0.9], len(short))
    false = [
        (cell, (cell["fired_when_missed"]["count"] + cell["fired_when_held"]["count"]) / cell["coverage"]["of"])
        for cell in trusted
    ]
    yield line("trusted: checks fire in at most 10 %", [where(c, x) for c, x in false if x > 0.1], len(trusted))
    blocks = [
        (cell, cell["coverage"]["share"])
        for cell in cells
        if cell["method"] == "bootstrap, blocks" and cell["problem"] == "ring 20/4, lazy" and cell["length"] >= 10_000
    ]
    yield line(
        "block bootstrap on the lazy ring 20/4 from 10,000 steps: 92 to 98 %",
        [where(cell, x) for cell, x in blocks if not 0.92 <= x <= 0.98],
        len(blocks),
    )
    looks = [cell for cell in others["anytime"] if cell["kind"] == "anytime"]
    ever = [
        f"{c['problem']}, {c['method']}, {c['target']}: {c['missed']['share']:.3f}"
        for c in looks
        if c["missed"]["share"] > 0.05
    ]
    yield line("anytime: a miss at any of 100 looks in at most 5 % of the runs", ever, len(looks))
    nominal = [cell for cell in others["differences"] if cell["way"] != "one log, treated as two"]
    off = [
        f"{c['way']}, {c['length']}: {c['coverage']['share']:.3f}"
        for c in nominal
        if not _meets(c["coverage"]["count"], c["coverage"]["of"])
    ]
    yield line("differences: the 99.9 % binomial interval of the coverage meets 93 to 97 %", off, len(nominal))
    wide = [
        f"{length}"
        for length in DIFFERENCE_LENGTHS
        if _width(others, "one log, Stack", length) >= _width(others, "one log, treated as two", length)
    ]
    yield line("differences: one log narrower than treating it as two", wide, len(DIFFERENCE_LENGTHS))
    bands = [cell for cell in others["bands"] if cell["kind"] == "simultaneous"]
    off = [
        f"{c['problem']}, {c['method']}, {c['length']}: {1 - c['missed']['share']:.3f}"
        for c in bands
        if not _meets(c["missed"]["of"] - c["missed"]["count"], c["missed"]["of"])
    ]
    yield line("bands: the 99.9 % binomial interval of the joint coverage meets 93 to 97 %", off, len(bands))


def _meets(count: int, of: int) -> bool:
    low, high = clopper_pearson(count, of, 0.999)
    return high >= 0.93 and low <= 0.97


def _width(others: dict[str, list[dict[str, Any]]], way: str, length: int) -> float:
    widths = [c["median_width"] for c in others["differences"] if (c["way"], c["length"]) == (way, length)]
    return float(widths[0]) if widths else np.nan


def main() -> None:
    asked = options(__doc__, SEED, quick="a tenth of the repeats, and no stream over 20,000 steps")
    made_by = provenance(asked.seed)
    name, todo = ("trust-quick" if asked.quick else "trust"), list(jobs(asked.quick, asked.seed))
    results = repeat(one_job, todo, partial_file(name), processes=asked.processes)
    whole = joined(todo, results)
    cells, others = list(coverage_cells(whole)), other_cells(whole)
    lines = list(criteria(cells, others))
    for line in lines:
        print(
            f"{'met    ' if line['met'] else 'NOT MET'} {line['what']} ({len(line['failing'])} of {line['cells']} fail)"
        )
        for failing in line["failing"]:
            print(f"          {failing}")
    settings = {
        "bootstrap": repr(bootstrap("bootstrap", problem("random MDP, linear"), 0)),
        "bootstrap, blocks": repr(bootstrap("bootstrap, blocks", problem("random MDP, linear"), 0)),
        "initial step sizes": {key: round(problem(key).initial, 4) for key in PROBLEMS},
        "relaxation times": {key: round(problem(key).relaxation_time, 2) for key in PROBLEMS},
    }
    seconds = float(sum(result["seconds"] for result in results))
    commits: dict[str, list[str]] = {}  # a run that is stopped and goes on may see more than one
    for (part, *_), result in zip(todo, results, strict=True):
        commits[part] = sorted({*commits.get(part, []), result["commit"]})
    content = {
        "provenance": made_by,
        "commits": commits,
        "settings": settings,
        "cpu_seconds": seconds,
        "criteria": lines,
        "cells": cells,
    }
    print(write_results(name, content | others).name, f"{seconds / 60:.0f} minutes of one core")


if __name__ == "__main__":
    main()
