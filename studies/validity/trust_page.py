"""The numbers and tables of the main part of docs/validity.md, from the study of trust, and its picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from studies.markdown import Columns, count, percent, table, table_of, yes
from studies.markdown import share as interval_of
from studies.provenance import origin, short, software

Cell = dict[str, Any]

BANDS = (("fewer than 50", 0, 50), ("50 to 250", 50, 250), ("250 and more", 250, np.inf))
SHORT_NAMES = {
    "least squares": "least squares\n(default)",
    "least squares, lag 0": "least squares,\nlag 0",
    "least squares, episodes": "least squares,\nepisodes",
    "bootstrap, as printed": "bootstrap,\nas printed",
    "bootstrap": "bootstrap",
    "bootstrap, blocks": "bootstrap,\nblocks",
    "offline bootstrap": "offline\nbootstrap",
    "HAC on LSTD": "HAC\non LSTD",
    "random scaling": "random\nscaling",
    "batch means": "batch\nmeans",
}


def facts(
    content: dict[str, Any],
    closer: dict[str, Any],
    rules: dict[str, Any],
    rare: dict[str, Any],
    series: dict[str, Any],
) -> dict[str, Any]:
    """The numbers and the tables of the sections."""
    return {
        "criteria_table": criteria_table(content["criteria"]),
        "missed": [line for line in content["criteria"] if not line["met"]],
        "why": explanations(content, rare),
        "looked": closer["study"] == content["provenance"],  # else it is about another one
        "verdicts": verdicts(closer),
        "closer_table": closer_table(closer),
        "closer_origin": origin(closer["provenance"]),
        "default_table": default_table(content),
        "star_table": star_table(rare),
        "rewards_table": rewards_table(rare),
        "rare_origin": origin(rare["provenance"]),
        "series_table": series_table(series),
        "series_origin": origin(series["provenance"]),
        "rules": {"cells": rules["rules"][0]["trusted"], "repeats": rules["repeats"]},
        "rules_table": rules_table(rules),
        "rules_origin": origin(rules["provenance"]),
        "anytime_table": anytime_table(content),
        "differences_table": differences_table(content),
        "bands_table": bands_table(content),
        "origin": origin(content["provenance"]),
        "software": software(content["provenance"]),
        "minutes": f"{content['cpu_seconds'] / 60:.0f}",
        "settings": content["settings"],
        "parts": parts_by_commit(content),
    }


def by_length(content: dict[str, Any]) -> dict[str, str]:
    """The lowest and the highest coverage of least squares, by the length of the stream in relaxation times."""
    cells = [c for c in content["cells"] if c["method"] == "least squares" and "Baird" not in c["problem"]]
    found = {}
    for name, (_, least, most) in zip(("short", "middle", "long"), BANDS, strict=True):
        shares = [cell["coverage"]["share"] for cell in cells if least <= cell["relaxation_times"] < most]
        found[name] = f"{100 * min(shares):.1f} to {percent(max(shares))}"
    return found


def default_table(content: dict[str, Any]) -> str:
    """Least squares, a line a cell."""
    columns: Columns = {
        "problem": lambda c: c["problem"],
        "target": lambda c: c["target"],
        "steps": lambda c: count(c["length"]),
        "relaxation times": lambda c: f"{c['relaxation_times']:.0f}",
        "covered": lambda c: share(c["coverage"]),
        "true variance": lambda c: "-" if np.isnan(c["width"]) else percent(c["oracle"]["share"]),
        "width": lambda c: "-" if np.isnan(c["width"]) else f"{c['width']:.2f}",
        "a check failed when it missed": lambda c: counted(c["fired_when_missed"]),
        "when it covered": lambda c: counted(c["fired_when_held"]),
    }
    return table_of([cell for cell in content["cells"] if cell["method"] == "least squares"], columns)


def anytime_table(content: dict[str, Any]) -> str:
    """How often anytime intervals miss at some time, and pointwise ones."""
    columns: Columns = {
        "problem": lambda c: c["problem"],
        "method": lambda c: c["method"],
        "target": lambda c: c["target"],
        "t0": lambda c: count(c["from"]),
        "anytime misses": lambda c: share(c["missed"]),
        "pointwise misses": lambda c: share(beside(content["anytime"], c, "problem", "method", "target")["missed"]),
    }
    return table_of([cell for cell in content["anytime"] if cell["kind"] == "anytime"], columns)


def differences_table(content: dict[str, Any]) -> str:
    """Differences of two policies, a line a way and length."""
    columns: Columns = {
        "data and method": lambda c: c["way"],
        "steps": lambda c: count(c["length"]),
        "covered": lambda c: share(c["coverage"]),
        "median width": lambda c: f"{c['median_width']:.3g}",
    }
    return table_of(content["differences"], columns)


def bands_table(content: dict[str, Any]) -> str:
    """How often bands miss some target, and pointwise intervals."""
    columns: Columns = {
        "problem": lambda c: c["problem"],
        "method": lambda c: c["method"],
        "targets": lambda c: str(c["targets"]),
        "steps": lambda c: count(c["length"]),
        "band misses": lambda c: share(c["missed"]),
        "pointwise misses": lambda c: share(beside(content["bands"], c, "problem", "method", "length")["missed"]),
    }
    return table_of([cell for cell in content["bands"] if cell["kind"] == "simultaneous"], columns)


def parts_by_commit(content: dict[str, Any]) -> str:
    """Which parts were made by which commits, if not all by the same."""
    parts: dict[str, list[str]] = {}
    for part, own in content["commits"].items():
        for commit in own:
            parts.setdefault(short(commit), []).append(part)
    listed = "; ".join(f"{commit}: {', '.join(names)}" for commit, names in sorted(parts.items()))
    kept = content["provenance"].get("kept")  # parts of a run before
    seed = f" ({', '.join(kept['parts'])} with seed {kept['seed']})" if kept else ""
    return f"{listed}{seed}" if len(parts) > 1 else ""


def explanations(content: dict[str, Any], rare: dict[str, Any]) -> dict[str, Any]:
    """The numbers in the explanations."""
    trusted = [
        cell
        for cell in content["cells"]
        if cell["method"] == "least squares" and cell["relaxation_times"] >= 250 and "Baird" not in cell["problem"]
    ]
    held = [100 * cell["coverage"]["share"] for cell in trusted]
    off = [100 * (cell["coverage"]["share"] - cell["oracle"]["share"]) for cell in trusted]
    blocks = [
        100 * cell["coverage"]["share"]
        for cell in content["cells"]
        if (cell["method"], cell["problem"]) == ("bootstrap, blocks", "ring 20/4, lazy") and cell["length"] >= 10_000
    ]
    short = [cell for cell in rare["cells"] if cell["length"] == 1000]
    none, some = short[0], short[1:]
    longer = [cell for cell in rare["cells"] if cell["length"] == 3000]
    runs_longer = sum(cell["runs"] for cell in longer)
    runs = sum(cell["runs"] for cell in short)
    return {
        "cells": len(trusted),
        "lowest": min(held),
        "highest": max(held),
        "middle": float(np.mean(held)),
        "below": -min(off),
        "above": max(off),
        "mean": float(np.mean(off)),
        "high": " and ".join(
            f"{cell['problem']}, {cell['target']} at {count(cell['length'])} steps"
            for cell, distance in zip(trusted, off, strict=True)
            if distance > 2 + 1e-7
        ),
        "blocks": f"{min(blocks):.1f} to {max(blocks):.1f} %",
        "runs": runs,
        "none": none["runs"],
        "none_held": none["held"],
        "reachable": 100 * (1 - none["runs"] / runs),
        "held_longer": 100 * sum(cell["held"] for cell in longer) / runs_longer,
        "fired_longer": 100 * sum(cell["fired"] for cell in longer) / runs_longer,
        "events": longer[0]["mean events of all runs"],
        "others": 100 * sum(cell["held"] for cell in some) / sum(cell["runs"] for cell in some),
        "fired": 100 * sum(cell["fired"] for cell in short) / runs,
        "fired_none": 100 * none["fired"] / none["runs"],
    }


def criteria_table(lines: list[Cell]) -> str:
    """One row a limit."""
    rows = [[line["what"], str(line["cells"]), yes(line["met"])] for line in lines]
    return table(["limit", "cells", "met"], rows, text=("limit", "met"))


def verdicts(content: dict[str, Any]) -> dict[str, Any]:
    """What many more runs say of the limit of 2 points."""
    limit = 0.02
    missed = [cell for cell in content["cells"] if abs(cell["before"]) > limit + 1e-9]
    met = [cell for cell in content["cells"] if abs(cell["before"]) <= limit + 1e-9]
    beyond = [cell["off"] for cell in met if abs(cell["off"]["mean"]) > limit]
    return {
        "missed": len(missed),
        "now_within": sum(abs(cell["off"]["mean"]) <= limit for cell in missed),
        "now_beyond": len(beyond),
        "errors": max(((abs(off["mean"]) - limit) / off["error"] for off in beyond), default=0.0),
    }


def closer_table(content: dict[str, Any]) -> str:
    """A line a cell, the highest first."""

    def points(x: dict[str, float]) -> str:
        return f"{100 * x['mean']:+.1f} ± {100 * x['error']:.1f}"

    columns: Columns = {
        "problem": lambda c: c["problem"],
        "target": lambda c: c["target"],
        "steps": lambda c: count(c["length"]),
        "off, in the study": lambda c: f"{100 * c['before']:+.1f}",
        "runs": lambda c: count(c["runs"]),
        "covered": lambda c: percent(c["held"]),
        "off": lambda c: points(c["off"]),
        "at this length": lambda c: points(c["at this length"]),
    }
    rows = sorted(content["cells"], key=lambda c: -c["off"]["mean"])
    return table_of(rows, columns)


def series_table(content: dict[str, Any]) -> str:
    """A line a series and length."""
    columns: Columns = {
        "series": lambda c: c["series"],
        "steps": lambda c: count(c["length"]),
        "covered": lambda c: share({"share": c["held"] / c["runs"], **c}),
        "width": lambda c: f"{c['width']:.2f}",
        "a check failed": lambda c: f"{c['fired_when_missed'] + c['fired_when_held']} of {c['runs']}",
    }
    return table_of(content["cells"], columns)


def rules_table(content: dict[str, Any]) -> str:
    """A line a rule."""

    def points(x: float) -> str:
        return f"{100 * x:+.1f}"

    columns: Columns = {
        "rule": lambda c: f"**{c['rule']}**" if c["chosen"] else c["rule"],
        "off, lowest and highest": lambda c: f"{points(c['lowest'])}, {points(c['highest'])}",
        "in the mean": lambda c: points(c["mean"]),
        "coverage at 50 to 250, lowest and mean": lambda c: f"{percent(c['doubtful'])}, {percent(c['mean doubtful'])}",
        "width over the true one": lambda c: f"{c['width']:.3f}",
        "one in forty": lambda c: f"{c['widest']:.2f}",
        "Baird's star at 1,000, 3,000, 10,000": lambda c: ", ".join(f"{100 * x:.1f}" for x in c["star"]) + " %",
    }
    return table_of(content["rules"], columns)


def star_table(content: dict[str, Any]) -> str:
    """A line a length and number of events, where there are runs."""
    columns: Columns = {
        "steps": lambda c: count(c["length"]),
        "events": lambda c: f"{c['events']}{' or more' if c['or more'] else ''}",
        "runs": lambda c: str(c["runs"]),
        "covered": lambda c: percent(c["held"] / c["runs"]),
        "a check failed": lambda c: percent(c["fired"] / c["runs"]),
    }
    return table_of([cell for cell in content["cells"] if cell["runs"]], columns)


def rewards_table(content: dict[str, Any]) -> str:
    """A line a law of sizes and range of `variance_ess`, where there are runs."""
    columns: Columns = {
        "sizes": lambda c: c["sizes"],
        "variance_ess": lambda c: (
            f"{c['at least']} to {c['below']}" if c["below"] is not None else f"{c['at least']} and more"
        ),
        "runs": lambda c: str(c["runs"]),
        "covered": lambda c: percent(c["held"] / c["runs"]),
    }
    return table_of([cell for cell in content["rewards"] if cell["runs"]], columns)


def beside(cells: list[Cell], cell: Cell, *keys: str) -> Cell:
    """The same cell with pointwise intervals."""
    return next(c for c in cells if c["kind"] == "normal" and all(c[key] == cell[key] for key in keys))


def share(cell: Cell) -> str:
    return interval_of(cell["share"], cell["binomial_95"])


def counted(cell: Cell) -> str:
    return f"{cell['count']} of {cell['of']}"


def draw(content: dict[str, Any], path: Path) -> None:
    """The heat map."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.colors import TwoSlopeNorm

    problems = list(dict.fromkeys(cell["problem"] for cell in content["cells"]))
    methods = [name for name in SHORT_NAMES if any(cell["method"] == name for cell in content["cells"])]
    figure, axes = plt.subplots(1, 3, figsize=(19, 9.5), sharey=True, layout="constrained")
    for axis, (words, least, most) in zip(axes, BANDS, strict=True):
        worst = np.full((len(problems), len(methods)), np.nan)
        for cell in content["cells"]:
            if cell["method"] in methods and least <= cell["relaxation_times"] < most:
                at = problems.index(cell["problem"]), methods.index(cell["method"])
                worst[at] = np.fmin(worst[at], cell["coverage"]["share"])
        axis.set_facecolor("0.88")  # not measured
        image = axis.imshow(100 * worst, cmap="RdBu", norm=TwoSlopeNorm(95, 40, 100), aspect="auto")
        for (row, column), value in np.ndenumerate(worst):
            if not np.isnan(value):
                colour = "white" if value < 0.6 or value > 0.985 else "black"
                axis.text(column, row, f"{100 * value:.0f}", ha="center", va="center", fontsize=8, color=colour)
        axis.set_xticks(range(len(methods)), [SHORT_NAMES[name] for name in methods], rotation=90, fontsize=8)
        axis.set_yticks(range(len(problems)), problems, fontsize=9)
        axis.set_title(f"{words} relaxation times", fontsize=11)
        axis.tick_params(length=0)
    bar = figure.colorbar(image, ax=axes, shrink=0.5, ticks=[40, 60, 80, 90, 95, 100])
    bar.set_label("coverage of 95 % intervals, %")
    figure.savefig(path, dpi=110)
    plt.close(figure)
