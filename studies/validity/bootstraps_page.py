"""The numbers and the tables of docs/validity.md on bootstraps without numbers, SAVE, and average rewards."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np

from inferl.variance.first_epoch import MOST_KEPT
from studies.markdown import Columns, count, listed, percent, share, table_of
from studies.provenance import origin

Cell = dict[str, Any]

LONG = 50  # relaxation times; below, no interval can be trusted
LOW, HIGH = 0.93, 0.97  # the coverage that a cell's 99.9 % binomial interval must meet
NOMINAL = 0.95
DEFAULT = "automatic, solved"


def facts(starts: dict[str, Any], automatic: dict[str, Any]) -> dict[str, Any]:
    """Where rows start, and automatic step sizes."""
    cells: list[Cell] = automatic["cells"]
    methods = list(dict.fromkeys(cell["method"] for cell in cells))
    places = list(dict.fromkeys((cell["problem"], cell["length"]) for cell in cells))

    def at(place: tuple[str, int], method: str) -> list[Cell]:
        return [c for c in cells if (c["problem"], c["length"]) == place and c["method"] == method]

    def covered(method: str, place: tuple[str, int]) -> str:
        return spread([c["coverage"] for c in at(place, method)])

    columns: Columns = {
        "problem": lambda place: place[0],
        "steps": lambda place: count(place[1]),
        "relaxation times": lambda place: f"{at(place, methods[0])[0]['relaxation_times']:.0f}",
        **{name: partial(covered, name) for name in methods},
        "width": lambda place: " / ".join(f"{np.median([c['width'] for c in at(place, m)]):.2f}" for m in methods),
    }
    long = [cell for cell in cells if cell["relaxation_times"] >= LONG]
    summary: Columns = {
        "method": lambda name: name,
        "cells": lambda name: str(sum(cell["method"] == name for cell in long)),
        "nominal": lambda name: str(sum(cell["method"] == name and nominal(cell) for cell in long)),
        "too low": lambda name: str(sum(c["method"] == name and too_low(c) for c in long)),
        "lowest": lambda name: percent(min(c["coverage"] for c in long if c["method"] == name)),
        "mean": lambda name: percent(float(np.mean([c["coverage"] for c in long if c["method"] == name]))),
        "width, median": lambda name: f"{np.nanmedian([c['width'] for c in long if c['method'] == name]):.2f}",
    }
    repeats = cells[0]["repeats"]
    return {
        "default_low": listed(places_too_low([c for c in long if c["method"] == DEFAULT])),
        "zero_low": share_too_low(c for c in long if not c["method"].endswith("solved")),
        "solved_low": share_too_low(c for c in long if c["method"].endswith("solved")),
        "thumb_low": share_too_low(c for c in long if not c["method"].startswith("automatic")),
        "automatic_low": share_too_low(c for c in long if c["method"].startswith("automatic")),
        "most_solved": count(MOST_KEPT),
        "starts_table": starts_table(starts["cells"]),
        "n_starts": len({c["problem"] for c in starts["cells"]}),
        "after_pilot": count(after_pilot(starts["cells"])),
        "pilot": count(starts["pilot"]),
        "starts_repeats": count(starts["cells"][0]["repeats"]),
        "starts_noise": noise(starts["cells"][0]["repeats"]),
        "starts_origin": origin(starts["provenance"]),
        "summary_table": table_of(methods, summary),
        "problems_table": table_of(places, columns),
        "repeats": count(repeats),
        "noise": noise(repeats),
        "long": LONG,
        "left_out": ", ".join(automatic["left_out"]),
        "origin": origin(automatic["provenance"]),
    }


def starts_table(cells: list[Cell]) -> str:
    """The lowest and the highest coverage of all problems, a line for each variant."""
    variants = list(dict.fromkeys((c["start"], c["counted"], c["factor"]) for c in cells))
    lengths = sorted({c["length"] for c in cells})
    names = {"zero": "0", "shared": "one solution for all", "own": "each its own solution"}

    def own(variant: tuple[str, str, float]) -> list[Cell]:
        return [c for c in cells if (c["start"], c["counted"], c["factor"]) == variant]

    def here(length: int, variant: tuple[str, str, float]) -> str:
        return spread([c["coverage"] for c in own(variant) if c["length"] == length])

    def width(variant: tuple[str, str, float]) -> str:
        found = [c["width_over_oracle"] for c in own(variant) if c["length"] == after_pilot(cells)]
        return f"{np.median(found):.2f}"

    columns: Columns = {
        "start": lambda v: names[v[0]],
        "steps counted": lambda v: {"all": "all", "after": "after the pilot"}[v[1]],
        "step size": lambda v: "rule of thumb" if v[2] == 1 else "a tenth",
        **{f"at {count(n)}": partial(here, n) for n in lengths},
        "nominal": lambda v: f"{sum(map(nominal, own(v)))} of {len(own(v))}",
        "width": width,
    }
    return table_of(sorted(variants, key=lambda v: -v[2]), columns)


def after_pilot(cells: list[Cell]) -> int:
    """The first length of the study of starts at which every variant has an average."""
    return sorted({int(c["length"]) for c in cells})[1]


def replicas(content: dict[str, Any]) -> dict[str, Any]:
    """The number of replicas, and the law."""
    numbers: Columns = {
        "problem": lambda c: c["problem"],
        "interval": lambda c: c["kind"],
        "B": lambda c: count(c["replicas"]),
        "covered": lambda c: f"{percent(c['coverage'])} ± {percent(c['standard_error'])}",
        "Monte-Carlo error": lambda c: percent(c["monte_carlo_error"]),
    }
    laws: Columns = {
        "problem": lambda c: c["problem"],
        "interval": lambda c: c["kind"],
        "law": lambda c: c["law"],
        "covered": held,
        "width": lambda c: f"{c['width']:.3f}",
    }
    by_interval: dict[tuple[str, str], list[Cell]] = {}
    for cell in sorted(content["numbers"], key=lambda c: int(c["replicas"])):
        by_interval.setdefault((cell["problem"], cell["kind"]), []).append(cell)
    fewest, most = (f(cell["replicas"] for cell in content["numbers"]) for f in (min, max))
    falls = [own[0]["monte_carlo_error"] / own[-1]["monte_carlo_error"] for own in by_interval.values()]
    apart = [np.ptp([cell["coverage"] for cell in own]) for own in by_interval.values()]
    return {
        "fewest": count(fewest),
        "most": count(most),
        "falls": f"{min(falls):.1f} to {max(falls):.1f}",
        "root": f"{(most / fewest) ** 0.5:.1f}",
        "apart": percent(max(apart)),
        "numbers_table": table_of(content["numbers"], numbers),
        "laws_table": table_of(content["laws"], laws),
        "steps": count(content["steps"]),
        "of_each_law": count(content["of_each_law"]),
        "repeats": count(content["laws"][0]["repeats"]),
        "origin": origin(content["provenance"]),
    }


def save(content: dict[str, Any]) -> dict[str, Any]:
    """SAVE with two sets of features."""
    cells: list[Cell] = content["cells"]
    columns: Columns = {
        "features": lambda c: c["features"],
        "steps": lambda c: count(c["length"]),
        "of the value": held,
        "of its own fixed point": lambda c: held(
            next(o for o in cells if o["of"] == "own" and all(o[k] == c[k] for k in ("features", "length")))
        ),
        "infinite": lambda c: str(c["infinite"]),
        "width": relative_width,
    }
    lengths = sorted({c["length"] for c in cells})
    apart, tabular = dict.fromkeys(c["features"] for c in cells)

    def at(features: str, length: int, of: str = "value") -> Cell:
        return next(c for c in cells if (c["features"], c["length"], c["of"]) == (features, length, of))

    return {
        "first": count(lengths[0]),
        "last": count(lengths[-1]),
        "own": percent(at(apart, lengths[-1], "own")["coverage"]),
        "value": percent(at(apart, lengths[-1])["coverage"]),
        "value_first": percent(at(apart, lengths[0])["coverage"]),
        "tabular": percent(at(tabular, lengths[-1])["coverage"]),
        "width": relative_width(at(apart, lengths[-1])),
        "tabular_width": relative_width(at(tabular, lengths[-1])),
        "cells_table": table_of([c for c in cells if c["of"] == "value"], columns),
        "repeats": count(cells[0]["repeats"]),
        "origin": origin(content["provenance"]),
    }


def relative_width(cell: Cell) -> str:
    """The median width; none: most intervals are infinite."""
    return "-" if cell["median_width"] is None else f"{cell['median_width']:.2f}"


def average(content: dict[str, Any]) -> dict[str, Any]:
    """Gain and bias."""
    cells: list[Cell] = content["cells"]
    columns: Columns = {
        "problem": lambda c: c["chain"],
        "target": lambda c: c["target"],
        "method": lambda c: c["method"],
        "steps": lambda c: count(c["length"]),
        "relaxation times": lambda c: f"{c['relaxation_times']:.0f}",
        "covered": held,
        "infinite": lambda c: str(c["infinite"]),
        "width": lambda c: f"{c['width']:.2f}" if 0.01 < c["width"] < 100 else "-",
    }
    ordered = sorted(cells, key=lambda c: (c["chain"], c["target"], c["method"], c["length"]))
    return {
        "cells_table": table_of(ordered, columns),
        "repeats": count(cells[0]["repeats"]),
        "origin": origin(content["provenance"]),
    }


def held(cell: Cell) -> str:
    """Coverage with its 95 % binomial interval."""
    return share(cell["coverage"], cell["binomial_95"])


def nominal(cell: Cell) -> bool:
    """Whether the 99.9 % binomial interval of the coverage meets the wanted one."""
    low, high = cell["binomial_99.9"]
    return bool(low <= HIGH and high >= LOW)


def too_low(cell: Cell) -> bool:
    """Whether the 99.9 % binomial interval of the coverage lies below the wanted one."""
    return bool(cell["binomial_99.9"][1] < LOW)


def share_too_low(cells: Iterable[Cell]) -> str:
    low = [too_low(cell) for cell in cells]
    return f"{sum(low)} of {len(low)}"


def places_too_low(cells: list[Cell]) -> list[str]:
    """The problems and lengths with targets that are too low, and how low these are."""
    low: dict[tuple[str, int], list[float]] = {}
    for cell in filter(too_low, cells):
        low.setdefault((cell["problem"], cell["length"]), []).append(cell["coverage"])
    return [f"{name} at {count(n)} steps ({len(own)} of its targets, {spread(own)})" for (name, n), own in low.items()]


def noise(repeats: int) -> str:
    """Standard error of a nominal coverage."""
    return percent(float(np.sqrt(NOMINAL * (1 - NOMINAL) / repeats)))


def spread(shares: Sequence[float]) -> str:
    """The lowest and the highest share; one of them, if they are the same."""
    low, high = (percent(x) for x in (min(shares), max(shares)))
    return low if low == high else f"{low.removesuffix(' %')} to {high}"
