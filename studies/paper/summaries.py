"""From readings to numbers: coverage with binomial intervals, widths, and rates of the coverage error."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from inferl import Evaluator, Interval
from inferl.data.arrays import Floats
from inferl.errors import DivergenceError
from studies.paper.machinery import Result

__all__ = [
    "LEVEL",
    "binomial",
    "cells",
    "feed",
    "given",
    "law_alone",
    "means",
    "rates",
    "reading",
    "readings",
    "select",
]

LEVEL = 0.95
LAW_DEVIATION = 1 / 3  # standard deviation of the multipliers that the paper prints, and takes to be 1


def reading(interval: Interval, truth: float, oracle: float | None = None) -> Result:
    """Keep of an interval what the summaries need; `oracle` is the width that theory gives."""
    return {
        "truth": truth,
        "estimate": _number(interval.estimate),
        "bounds": {interval.kind: [_number(interval.lower), _number(interval.upper)]},
        **({} if oracle is None else {"oracle": oracle}),
    }


def readings(evaluator: Evaluator, target: Any, truth: float, oracle: float | None = None) -> Result:
    """Read all kinds of interval that a method has."""
    kept = [reading(evaluator.interval(target, LEVEL, kind), truth, oracle) for kind in evaluator.method.kinds]
    return kept[0] | {"bounds": {kind: bounds for one in kept for kind, bounds in one["bounds"].items()}}


def feed(evaluator: Evaluator, data: Any) -> Evaluator | None:
    """Take in data; None if the recursion has diverged, which counts as a miss."""
    try:
        return evaluator.update(data)
    except DivergenceError:
        return None


def law_alone(kept: Result) -> Result:
    """What a bootstrap would have said that takes its multipliers' variance for 1, all else being right.

    Deviations would not have been divided by the multipliers' standard deviation, 1/3, so they shrink to a third.
    """
    centre = kept["estimate"]
    bounds = {
        kind: [None if x is None else centre + LAW_DEVIATION * (x - centre) for x in pair]
        for kind, pair in kept["bounds"].items()
    }
    return kept | {"bounds": bounds}


def diverged(truth: float, kinds: Sequence[str], oracle: float | None = None) -> Result:
    """Reading of a recursion that is lost."""
    bounds = {kind: [None, None] for kind in kinds}
    return {"truth": truth, "estimate": None, "bounds": bounds, **({} if oracle is None else {"oracle": oracle})}


def _number(x: Any) -> float | None:
    return float(x) if np.isfinite(x) else None


def covers(kept: Result, kind: str) -> bool:
    """Whether an interval holds the truth; one that is lost does not, an infinite one neither."""
    lower, upper = kept["bounds"][kind]
    return lower is not None and upper is not None and lower <= kept["truth"] <= upper


def cells(results: Sequence[Result]) -> list[Result]:
    """Summarise repeats whose readings have keys ``METHOD|LENGTH``: a cell for each method, length and kind."""
    made = []
    for key in results[0] if results else ():
        method, length = key.rsplit("|", 1)
        own = [result[key] for result in results]
        for kind in own[0]["bounds"]:
            covered = sum(covers(kept, kind) for kept in own)
            bounds = [kept["bounds"][kind] for kept in own]
            widths = np.array([hi - lo if None not in (lo, hi) else np.nan for lo, hi in bounds])
            errors = np.array(
                [np.nan if kept["estimate"] is None else kept["estimate"] - kept["truth"] for kept in own]
            )
            found = np.isfinite(widths)
            cell = {
                "method": method,
                "length": int(length),
                "kind": kind,
                "repeats": len(own),
                "covered": covered,
                "coverage": covered / len(own),
                "binomial_95": binomial(covered, len(own), 0.95),
                "binomial_99.9": binomial(covered, len(own), 0.999),
                "lost": int((~found).sum()),
                "median_width": _median(widths[found]),
                "bias": _short(np.nanmean(errors)) if np.isfinite(errors).any() else None,
                "spread": _short(np.nanstd(errors)) if np.isfinite(errors).any() else None,
            }
            if "oracle" in own[0]:
                oracle = np.array([kept["oracle"] for kept in own])
                cell["width_over_oracle"] = _median((widths / oracle)[found])
            made.append(cell)
    return made


def select(cells: Iterable[Result], method: str, kind: str | None = None) -> list[Result]:
    """The cells of a method, by length; by default its own kind of interval, the first.

    >>> select([{"method": "a", "kind": "normal", "length": 2}, {"method": "b", "kind": "normal", "length": 1}], "b")
    [{'method': 'b', 'kind': 'normal', 'length': 1}]
    """
    own = [cell for cell in cells if cell["method"] == method]
    wanted = kind or (own[0]["kind"] if own else None)
    return sorted((cell for cell in own if cell["kind"] == wanted), key=lambda cell: int(cell["length"]))


def given(cell: Result) -> Result:
    """The same cell, of the repeats that had an interval: one that is refused is no miss, and no hit.

    >>> given({"repeats": 10, "lost": 2, "covered": 8})["coverage"]
    1.0
    """
    n = cell["repeats"] - cell["lost"]
    shares = {f"binomial_{100 * level:g}": binomial(cell["covered"], n, level) for level in (0.95, 0.999)}
    return cell | {"repeats": n, "coverage": cell["covered"] / n if n else 0.0} | shares


def binomial(k: int, n: int, level: float) -> list[float]:
    """Exact binomial (Clopper-Pearson) interval for k successes of n.

    >>> [round(x, 3) for x in binomial(950, 1000, 0.999)]
    [0.923, 0.97]
    """
    from scipy.special import betaincinv

    tail = (1 - level) / 2
    lower = float(betaincinv(k, n - k + 1, tail)) if k > 0 else 0.0
    upper = float(betaincinv(k + 1, n - k, 1 - tail)) if k < n else 1.0
    return [round(lower, 5), round(upper, 5)]


def _median(x: Floats) -> float | None:
    return _short(np.median(x)) if x.size else None


def _short(x: Any) -> float:
    return float(f"{x:.6g}")


def slope(lengths: Floats, coverage: Floats, repeats: int) -> Floats:
    """Slope of log coverage error on log length, (...,) for coverages (..., lengths).

    The rule for zero errors: an error below half a repeat, 1 / (2 repeats), counts as that much.
    """
    error = np.maximum(np.abs(coverage - LEVEL), 0.5 / repeats)
    x = np.log(lengths) - np.log(lengths).mean()
    return np.asarray(np.log(error) @ x / (x @ x))


def rates(results: Sequence[Result], method: str, kind: str, lengths: Sequence[int], fewer: int = 200) -> Result:
    """Regress the coverage error on the length, with error bars that know what the repeats can show.

    `interval`: 95 % of the slopes when the repeats themselves are resampled. `fewer`: what each batch of 200 of the
    repeats would have said. `if_exact`: 95 % of the slopes that 200 repeats give if the coverage is 95 % at every
    length, so that there is no rate to be found.
    """
    covered = np.array([[covers(result[f"{method}|{length}"], kind) for length in lengths] for result in results])
    n, x = len(results), np.asarray(lengths, dtype=np.float64)
    generator = np.random.default_rng(0)
    resampled = [slope(x, covered[generator.integers(n, size=n)].mean(axis=0), n) for _ in range(2000)]
    exact = generator.binomial(fewer, LEVEL, size=(20_000, len(lengths))) / fewer
    batches = [covered[i : i + fewer].mean(axis=0) for i in range(0, n - fewer + 1, fewer)]
    return {
        "method": method,
        "kind": kind,
        "lengths": list(lengths),
        "repeats": n,
        "error": [_short(abs(c - LEVEL)) for c in covered.mean(axis=0)],
        "standard_error": [_short(np.sqrt(max(c * (1 - c), LEVEL * (1 - LEVEL)) / n)) for c in covered.mean(axis=0)],
        "slope": _short(slope(x, covered.mean(axis=0), n)),
        "interval": [_short(q) for q in np.quantile(resampled, (0.025, 0.975))],
        "fewer": [_short(slope(x, batch, fewer)) for batch in batches],
        "if_exact": [_short(q) for q in np.quantile(slope(x, exact, fewer), (0.025, 0.975))],
    }


def means(results: Sequence[Result]) -> Result:
    """Mean of each entry, with its standard error."""
    columns = {name: np.array([result[name] for result in results]) for name in results[0]}
    return {name: [float(x.mean()), float(x.std() / np.sqrt(len(x)))] for name, x in columns.items()}
