"""The numbers and tables of the sepsis section of docs/reproduction.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from studies.markdown import Columns, count, listed, percent, table, table_of
from studies.paper.machinery import Result
from studies.paper.summaries import given, select
from studies.paper.tables import by_length, coverage, criteria_table, line, made_by, meets, span, table_by, wide
from studies.paper.verdicts import said

__all__ = ["criteria", "facts"]

FEATURES = ("components", "factors")
KINDS = ("percentile", "normal")
TABLE = "least squares, table"
T_QUANTILE = 1.96  # of the widths behind a median: thousands of blocks


def criteria(content: dict[str, Any]) -> list[Result]:
    """The acceptance criteria, and whether they are met."""
    share = content["policy"]["share"]
    found = [line("value of the learned policy over the best", "at least 98 %", percent(share, 2), share >= 0.98)]
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
    speed = content["speed"]
    rate, seconds = speed["sampled_per_second"] / 1e6, speed["tensor_seconds"]
    found.append(line("steps that the sampler makes in a second", "over 1 million", f"{rate:.1f} million", rate > 1))
    found.append(line("time to build the tensor", "under 1 s", f"{seconds:.2f} s", seconds < 1))
    return found


def facts(content: dict[str, Any]) -> dict[str, str]:
    """The numbers and tables of the section."""
    cells, settings, policy = content["coverage"], content["settings"], content["policy"]
    names = ["start", "observed starts", "slow heart", "two abnormal", "diabetes"]
    linear = [f"{method}, {label}" for label in FEATURES for method in ("GTD2", "TDC", "least squares")]
    return {
        "value": f"{policy['value']:.4f}",
        "best": f"{policy['optimal_value']:.4f}",
        "share": percent(policy["share"], 2),
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
        "above": str(content["above_zero"][f"difference, table|{settings['table_episodes'][1]}"]),
        "first_difference": count(settings["table_episodes"][1]),
        **{f"slowest_{label}": f"{rate:.0e}" for label, rate in content["slowest"].items()},
        **_comparisons(content),
        **_falls(content["curves"]),
        **_covered(content),
        "criteria": criteria_table(criteria(content)),
        "ends_table": _ends(content),
        "table_table": _refused(cells, {name: f"{TABLE}, {name}" for name in names}, settings["table_episodes"]),
        "errors_table": _errors(cells, [f"{TABLE}, {name}" for name in names]),
        "linear_table": by_length(cells, [f"{name}, start" for name in linear], settings["episodes"]),
        "linear_errors_table": _errors(cells, [f"{name}, start" for name in linear]),
        "arrived_table": _arrived(content["arrived"], settings["episodes"]),
        "order_table": _order(content["order"]),
        "coordinates_table": _coordinates(content["coordinates"], linear, settings["episodes"]),
        "states_table": _states(content),
        "difference_table": _refused(
            cells, {name: f"difference, {name}" for name in ("table", "factors")}, settings["table_episodes"][1:]
        ),
        "difference_errors_table": _errors(cells, ["difference, table", "difference, factors"]),
        "made_by": made_by(content),
    }


def _comparisons(content: dict[str, Any]) -> dict[str, str]:
    """How GTD2 compares with least squares at the end of the median curves."""
    curves = content["curves"]["median"]
    facts = {}
    for label in FEATURES:
        own, solved = (curves[f"{method}, {label}"] for method in ("GTD2", "least squares"))
        facts[f"excess_{label}"] = f"{own['exact'][-1] / solved['exact'][-1]:.0f}"
        facts[f"wider_{label}"] = f"{own['percentile'][-1] / solved['normal'][-1]:.1f}"
    return facts | {"off_thumb": f"{curves['GTD2, rule of thumb, components']['error'][-1]:+.2f}"}


def _falls(curves: Result) -> dict[str, str]:
    """How far errors and widths fall, from the first mark to the last."""
    own = {(name, label): curves["median"][f"{name}, {label}"] for label in FEATURES for name in ("GTD2", "TDC")}
    errors = [one["exact"][-1] / one["exact"][0] for one in own.values()]
    widths = [own["GTD2", label][kind][-1] / own["GTD2", label][kind][0] for label in FEATURES for kind in KINDS]
    estimated = [[one["estimated"][i] / one["exact"][i] for one in own.values()] for i in (0, -1)]
    apart = [abs(one["percentile"][-1] / one["normal"][-1] - 1) for one in (own["GTD2", label] for label in FEATURES)]
    return {
        "first_mark": count(curves["episodes"][0]),
        "error_said": said(max(errors) < 1),
        "error_falls": span(errors, percent),
        "estimated_first": span(estimated[0], "{:.2f}".format),
        "estimated_last": span(estimated[1], "{:.2f}".format),
        "widths_said": said(max(widths) < 1),
        "widths_fall": span(widths, percent),
        "kinds_apart": percent(max(apart)),
    }


def _covered(content: dict[str, Any]) -> dict[str, str]:
    """Coverage in words: with a table where there are intervals, and with linear features at the end."""
    cells, settings = content["coverage"], content["settings"]
    tables = [cell for cell in cells if cell["method"].startswith(TABLE) and cell["lost"] <= cell["repeats"] / 2]
    first = min(select(cells, f"{TABLE}, start"), key=lambda cell: int(cell["length"]))
    linear = {
        name: [select(cells, f"{name}, {label}, start") for label in FEATURES]
        for name in ("GTD2", "TDC", "least squares")
    }

    def ends(name: str, i: int = -1) -> str:
        return listed([percent(own[i]["coverage"]) for own in linear[name]])

    return {
        "table_nominal": f"{sum(meets(given(cell)) for cell in tables)} of the {len(tables)}",
        "first_table": count(first["length"]),
        "refused": str(first["lost"]),
        "first_linear": count(settings["episodes"][0]),
        "own_begin": ends("GTD2", 0),
        "own_ends": ends("GTD2"),
        "other_ends": ends("TDC"),
        "solved_ends": ends("least squares"),
        "biases": listed([f"{own[-1]['bias'] / own[-1]['spread']:+.1f}" for own in linear["GTD2"]]),
    }


def _refused(cells: Sequence[Result], names: Mapping[str, str], lengths: Sequence[int]) -> str:
    """Coverages of the repeats that had an interval, with the number of those that had none."""
    rows = [{"method": shown} | {cell["length"]: cell for cell in select(cells, name)} for shown, name in names.items()]

    def show(cell: Result) -> str:
        if cell["lost"] > cell["repeats"] / 2:
            return f"none in {cell['lost']} of {cell['repeats']}"
        return coverage(given(cell)) + (f", none in {cell['lost']}" if cell["lost"] else "")

    return table_by(rows, ["method"], lengths, show)


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
    return table_of([row for row in rows if row["median_width"]], columns)


def _error(cell: Result) -> float:
    return float(cell["median_width"]) / (2 * T_QUANTILE)


def _ends(content: dict[str, Any]) -> str:
    """MSPBE and widths at the first and the last mark."""
    curves = content["curves"]
    first, last = curves["episodes"][0], curves["episodes"][-1]
    shown = {"exact": "MSPBE", "estimated": "estimated", "percentile": "percentile width", "normal": "normal width"}
    rows = []
    for label in FEATURES:
        for method in ("GTD2", "TDC", "GTD2, rule of thumb", "least squares"):
            own = curves["median"][f"{method}, {label}"]
            ends = [f"{_brief(own[key][0])} → {_brief(own[key][-1])}" if key in own else "-" for key in shown]
            rows.append([f"{method}, {label}", *ends])
    return table(["method", *(f"{name}, {count(first)} → {count(last)}" for name in shown.values())], rows)


def _arrived(found: Sequence[Result], lengths: Sequence[int]) -> str:
    """How often the convergence check objects, and what is covered where it does not."""
    rows: dict[str, Result] = {}
    for cell in found:
        rows.setdefault(cell["method"], {"method": cell["method"]})[cell["length"]] = cell

    def show(cell: Result) -> str:
        return f"{cell['alarms']} of {cell['repeats']}; {cell['covered']} of {cell['passed']} covered"

    return table_by(list(rows.values()), ["method"], lengths, show)


def _order(found: Result) -> str:
    """Mean errors at the end, from the path and in random order."""
    rows = []
    for method in (f"{name}, {label}" for label in FEATURES for name in ("GTD2", "TDC")):
        errors = (found[f"{method}, {order}"] for order in ("path", "random"))
        rows.append([method, *(f"{mean:+.4f} ± {error:.4f}" for mean, error in errors)])
    return table(["method", "mean error, in order", "mean error, in random order"], rows)


def _brief(x: float) -> str:
    return f"{x:.2g}" if x > 1e-15 else "0"  # least squares solves the equation of the data


def _coordinates(found: Sequence[Result], methods: Sequence[str], lengths: Sequence[int]) -> str:
    """Share of theta's coordinates covered, and that of the coordinate which is covered least."""
    rows = [
        {"method": method} | {cell["length"]: cell for cell in found if cell["method"] == method} for method in methods
    ]

    def show(cell: Result) -> str:
        return f"{100 * cell['share']:.1f} ± {100 * cell['error']:.1f} (least {100 * cell['worst']:.0f})"

    return table_by(rows, ["method"], lengths, show)


def _states(content: dict[str, Any]) -> str:
    """What each kind of features says of the same states."""
    truths = content["truths"]
    names = {label: f"φ'θ*, {label}" for label in truths} | {"table": "V, exactly"}
    rows = [[names[label], *(f"{own[state]:.4f}" for state in truths["table"])] for label, own in truths.items()]
    return table(["method", *truths["table"]], rows)
