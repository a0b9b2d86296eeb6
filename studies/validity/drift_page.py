"""The numbers and the tables of docs/validity.md on windows and on the drift check."""

from __future__ import annotations

from typing import Any

from studies.markdown import Columns, count, percent, share, table_of, yes
from studies.provenance import origin
from studies.validity.study import clopper_pearson

Cell = dict[str, Any]

ALARMS, FOUND, COVERED = 0.01, 0.9, 0.95  # what is wanted
DATA = {"all": "all data", "window": "a window"}


def facts(content: dict[str, Any]) -> dict[str, Any]:
    """The numbers of the section, and a table with a line for each stream of each part."""
    columns: Columns = {
        "problem": lambda c: c["stream"],
        "what": lambda c: c["when"],
        "runs": lambda c: count(c["runs"]),
        "covered": share_of,
        "drift fails": lambda c: count(c["drift_failed"]),
        "met": lambda c: yes(nominal(c)),
    }
    coverage = table_of(content["coverage"], columns)
    columns = {
        "series": lambda c: c["stream"],
        "what": lambda c: DATA[c["data"]],
        "runs": lambda c: count(c["runs"]),
        "with an alarm": lambda c: count(c["number"]),
        "share": share_of,
        "met": lambda c: yes(quiet(c)),
    }
    alarms = table_of(content["alarms"], columns)
    columns = {
        "series": lambda c: c["stream"],
        "shift": lambda c: f"{c['shift']:g}",
        "windows before": lambda c: count(c["windows_before"]),
        "runs": lambda c: count(c["runs"]),
        "found": share_of,
        "fails": lambda c: percent(c["failed"] / c["runs"]),
        "windows until then": lambda c: f"{c['median_delay']:.2f}",
        "error of its time": lambda c: f"{c['median_miss_of_time']:.2f}, {c['late_miss_of_time']:.2f}",
        "shift known": lambda c: percent(c["shift_within_two_errors"]),
        "met": lambda c: yes(seen(c)),
    }
    power = table_of(content["power"], columns)
    every = [
        *(f"coverage, {c['stream']}, {c['when']}" for c in content["coverage"] if not nominal(c)),
        *(f"false alarms, {c['stream']}, {DATA[c['data']]}" for c in content["alarms"] if not quiet(c)),
        *(
            f"shift {c['shift']:g} after {c['windows_before']} windows, {c['stream']}"
            for c in content["power"]
            if not seen(c)
        ),
    ]
    own = {cell["what"]: cell for cell in content["evaluators"]}
    groups: dict[tuple[float, int], list[Cell]] = {}
    for cell in content["power"]:
        groups.setdefault((cell["shift"], cell["windows_before"]), []).append(cell)
    return {
        "limit": content["limit"][0],
        "limit_runs": count(content["limit"][0]["runs"]),
        "coverage_table": coverage,
        "alarms_table": alarms,
        "pooled": {data: pooled([c for c in content["alarms"] if c["data"] == data]) for data in DATA},
        "found": [f"shift {size:g}, {n} windows: {pooled(cells)}" for (size, n), cells in groups.items()],
        "power_table": power,
        "ideal": ", ".join(
            f"{share_of(c)} (shift {c['shift']:g}, {c['windows_before']} windows before)" for c in content["ideal"]
        ),
        "ideal_runs": count(content["ideal"][0]["runs"]),
        "own": {what: share_of(cell) for what, cell in own.items()},
        "own_runs": count(next(iter(own.values()))["runs"]),
        "wide": content["features"][0],
        "failing": "; ".join(every),
        "origins": origins(content["provenance"]),
    }


def origins(made: dict[str, Any]) -> list[str]:
    """Where the parts come from, those of one run together."""
    parts: dict[str, list[str]] = {}
    for part, one in made.items():
        parts.setdefault(origin(one), []).append(part)
    return [f"{', '.join(those)}: {where}" for where, those in parts.items()]


def share_of(cell: Cell) -> str:
    """The share of runs, with its 95 % binomial interval."""
    return share(cell["share"], cell["binomial_95"])


def nominal(cell: Cell) -> bool:
    """Whether the 99.9 % binomial interval of the coverage holds 95 %."""
    low, high = clopper_pearson(cell["number"], cell["runs"], 0.999)
    return low <= COVERED <= high


def quiet(cell: Cell) -> bool:
    """Whether the 95 % binomial interval of the alarms holds 1 %, or is below."""
    return bool(cell["binomial_95"][0] <= ALARMS)


def seen(cell: Cell) -> bool:
    """Whether the shift was found in 90 % of the runs."""
    return bool(cell["share"] >= FOUND)


def pooled(cells: list[Cell]) -> str:
    """Alarms, or shifts found, over all streams."""
    number, runs = (sum(cell[key] for cell in cells) for key in ("number", "runs"))
    return f"{count(number)} of {count(runs)}, {share(number / runs, clopper_pearson(number, runs, 0.95))}"
