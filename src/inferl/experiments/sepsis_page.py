"""The page of the sepsis study: its words, and the facts that are filled in from the results."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from inferl.experiments.machinery import Result
from inferl.experiments.summaries import given, select
from inferl.experiments.tables import (
    Columns,
    by_length,
    count,
    coverage,
    criteria_table,
    filled,
    line,
    made_by,
    meets,
    percent,
    table,
    wide,
)

__all__ = ["criteria", "section"]

FEATURES = ("components", "factors")
TABLE = "least squares, table"
T_QUANTILE = 1.96  # of the widths behind a median: thousands of blocks

WORDS = """\
## Sepsis treatment, off-policy

WORDS
"""


def criteria(content: dict[str, Any]) -> list[Result]:
    """What had to come out, and whether it did."""
    share = content["policy"]["share"]
    found = [line("value of the learned policy over the best", "at least 98 %", percent(share), share >= 0.98)]
    curves = content["curves"]["median"]
    for label in FEATURES:
        own = curves[f"GTD2, {label}"]
        for what, key in (("MSPBE", "exact"), ("width, percentile", "percentile"), ("width, normal", "normal")):
            first, last = own[key][0], own[key][-1]
            found.append(line(f"{what} of GTD2, {label}", "falls", f"{first:.2g} to {last:.2g}", last < first / 2))
    for cell in map(given, select(content["coverage"], f"{TABLE}, start")):
        if cell["lost"] > cell["repeats"] / 9:  # a tenth of all
            continue
        what = f"coverage of V at the start distribution, table, {count(cell['length'])} episodes"
        found.append(line(what, "meets 93 to 97 %", wide(cell), meets(cell)))
    return found


def section(content: dict[str, Any]) -> Iterable[str]:
    """The study's part of the page."""
    cells, settings, policy = content["coverage"], content["settings"], content["policy"]
    names = ["start", "observed starts", "slow heart", "two abnormal", "diabetes"]
    linear = [f"{method}, {label}" for label in FEATURES for method in ("GTD2", "TDC", "least squares")]
    truths = content["truths"]
    facts = {
        "value": f"{policy['value']:.4f}",
        "best": f"{policy['optimal_value']:.4f}",
        "share": percent(policy["share"]),
        "behaviour_value": f"{policy['behaviour_value']:.4f}",
        "gain": f"{policy['value'] - policy['behaviour_value']:.4f}",
        "mean_length": f"{policy['mean_length']:.1f}",
        "initial": f"{settings['initial']:g}",
        "thumb": f"{settings['rule_of_thumb']:g}",
        "last": count(settings["episodes"][-1]),
        "repeats": str(content["repeats"]["coverage"]),
        "linear_repeats": str(content["repeats"]["linear"]),
        "difference_repeats": str(content["repeats"]["difference"]),
        "curves_repeats": str(content["repeats"]["curves"]),
        "start_components": f"{truths['components']['start']:.4f}",
        "start_factors": f"{truths['factors']['start']:.4f}",
        "criteria": criteria_table(criteria(content)),
        "ends_table": _ends(content),
        "table_table": _refused(cells, names, settings["table_episodes"]),
        "errors_table": _errors(cells, [f"{TABLE}, {name}" for name in names]),
        "linear_table": by_length(cells, [f"{name}, start" for name in linear], settings["episodes"]),
        "linear_errors_table": _errors(cells, [f"{name}, start" for name in linear]),
        "coordinates_table": _coordinates(content["coordinates"], linear, settings["episodes"]),
        "states_table": _states(content),
        "difference_table": by_length(
            cells, ["difference, table", "difference, factors"], settings["table_episodes"][1:]
        ),
        "difference_errors_table": _errors(cells, ["difference, table", "difference, factors"]),
        "made_by": made_by(content),
    }
    yield filled(WORDS, facts)


def _refused(cells: Sequence[Result], names: Sequence[str], lengths: Sequence[int]) -> str:
    """Coverages by table of the repeats that had an interval, with the number of those that had none."""
    rows = [{"method": name} | {cell["length"]: cell for cell in select(cells, f"{TABLE}, {name}")} for name in names]

    def show(cell: Result) -> str:
        if cell["lost"] > cell["repeats"] / 2:
            return f"none in {cell['lost']} of {cell['repeats']}"
        return coverage(given(cell)) + (f", none in {cell['lost']}" if cell["lost"] else "")

    columns: Columns = {"method": lambda row: row["method"]}
    for n in lengths:
        columns[count(n)] = lambda row, n=n: show(row[n])  # type: ignore[misc]
    return table(rows, columns)


def _errors(cells: Sequence[Result], methods: Sequence[str]) -> str:
    """Bias, spread and standard error of the estimates at the longest stream."""
    rows = [select(cells, method, "normal")[-1] for method in methods]
    columns: Columns = {
        "method": lambda row: row["method"],
        "episodes": lambda row: count(row["length"]),
        "mean error": lambda row: f"{row['bias']:+.4f} ± {row['spread'] / row['repeats'] ** 0.5:.4f}",
        "spread": lambda row: f"{row['spread']:.4f}",
        "median standard error": lambda row: f"{_error(row):.4f}",
        "standard error / spread": lambda row: f"{_error(row) / row['spread']:.2f}",
    }
    return table([row for row in rows if row["median_width"]], columns)


def _error(cell: Result) -> float:
    return float(cell["median_width"]) / (2 * T_QUANTILE)


def _ends(content: dict[str, Any]) -> str:
    """MSPBE and widths at the first and the last mark."""
    curves = content["curves"]
    first, last = curves["episodes"][0], curves["episodes"][-1]
    rows = []
    for label in FEATURES:
        for method in ("GTD2", "TDC", "GTD2, rule of thumb", "least squares"):
            own = curves["median"][f"{method}, {label}"]
            rows.append({"method": f"{method}, {label}"} | own)
    columns: Columns = {"method": lambda row: row["method"]}
    for name, key in (
        ("MSPBE", "exact"),
        ("estimated", "estimated"),
        ("percentile width", "percentile"),
        ("normal width", "normal"),
    ):
        columns[f"{name}, {count(first)} → {count(last)}"] = lambda row, key=key: (  # type: ignore[misc]
            f"{row[key][0]:.2g} → {row[key][-1]:.2g}" if key in row else "-"
        )
    return table(rows, columns)


def _coordinates(found: Sequence[Result], methods: Sequence[str], lengths: Sequence[int]) -> str:
    """Share of theta's coordinates covered, and that of the coordinate which is covered least."""
    rows = [
        {"method": method} | {cell["length"]: cell for cell in found if cell["method"] == method} for method in methods
    ]
    columns: Columns = {"method": lambda row: row["method"]}
    for n in lengths:
        columns[count(n)] = lambda row, n=n: (  # type: ignore[misc]
            f"{100 * row[n]['share']:.1f} ± {100 * row[n]['error']:.1f} (least {100 * row[n]['worst']:.0f})"
            if n in row
            else "-"
        )
    return table(rows, columns)


def _states(content: dict[str, Any]) -> str:
    """What each kind of features says of the same states."""
    truths = content["truths"]
    rows = [{"method": f"φ'θ*, {label}" if label != "table" else "V, exactly"} | own for label, own in truths.items()]
    columns: Columns = {"method": lambda row: row["method"]}
    for name in truths["table"]:
        columns[name] = lambda row, name=name: f"{row[name]:.4f}"  # type: ignore[misc]
    return table(rows, columns)
