"""Writes docs/reproduction.md and its pictures from the results of the full runs, so that the page cannot drift.

python -m studies.paper.page
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from studies.markdown import count, listed, percent, table
from studies.pages import render
from studies.paper import pong_page, sepsis_page, theory_page
from studies.paper.drawing import draw
from studies.paper.machinery import Result
from studies.paper.overview import at_all, commits_table, overview_table
from studies.paper.statements import statements_table
from studies.paper.study import STUDIES, THEORY, stem
from studies.paper.summaries import select
from studies.paper.tables import (
    by_length,
    coverage,
    criteria_table,
    line,
    made_by,
    meets,
    picture,
    span,
    table_by,
    wide,
)
from studies.paper.verdicts import SETTLED, late_slope, possible_rates, said

__all__ = ["criteria", "page"]

DOCS = Path("docs")
RESULTS = DOCS / "results"
IMAGES = DOCS / "images" / "reproduction"
SMALL, LARGE = 30.0, 300.0  # step sizes on FrozenLake that fail, one for each reason


def page(results: Path = RESULTS) -> str:
    """The whole page; a study that has not been run is left out."""
    found = {name: results / f"{stem(name)}.json" for name in STUDIES}
    contents = {name: json.loads(path.read_text()) for name, path in found.items() if path.exists()}
    parts = [render("reproduction", overview=overview_table(contents), commits=commits_table(contents))]
    facts: dict[str, Callable[[dict[str, Any]], dict[str, str]]] = {
        "frozenlake": _frozenlake,
        "pong": pong_page.facts,
        "random-mdp": _random_mdp,
        "sepsis": sepsis_page.facts,
        **theory_page.FACTS,
    }
    sections: dict[str, str] = {}
    for name, content in contents.items():
        if name in THEORY and not sections.keys() & set(THEORY):
            parts.append(render("theory"))
        parts.append(render(stem(name), picture=picture, **facts[name](content)))
        sections[name] = parts[-1].partition("\n")[0].lstrip("# ")
    parts.append(render("statements", statements=statements_table(sections)))
    return "\n".join(parts)


def criteria(content: dict[str, Any]) -> list[Result]:
    """The acceptance criteria, and whether they are met."""
    if content["experiment"] == "sepsis":
        return sepsis_page.criteria(content)
    if content["experiment"] == "pong":
        return pong_page.criteria(content)
    if content["experiment"] == "frozenlake":
        nominal = [("bootstrap", 250), ("least squares", 50)]
        cost = content["cost"]
    else:
        nominal = [("GTD2", 10_000), ("TDC", 10_000), ("least squares", 1_000)]
        cost = content["cost"]["GTD2"]
    lines = [
        line(f"coverage of {method} at {count(cell['length'])}", "meets 93 to 97 %", wide(cell), meets(cell))
        for method, first in nominal
        for cell in select(content["coverage"], method)
        if cell["length"] >= first
    ]
    once, hundred = cost["offline_over_online_once"], cost["offline_over_online_100"]
    online, offline = cost["memory"]["online"], cost["memory"]["offline"]
    lines.append(line("offline / online time, one report", "at least 2", f"{once:g}", once >= 2))
    lines.append(line("offline / online time, 100 reports", "at least 100", f"{hundred:g}", hundred >= 100))
    grown = f"online x {online[-1] / online[0]:.2f}, offline + {(offline[-1] - offline[0]) / 1e6:.0f} MB"
    flat = online[-1] < 1.2 * online[0] and offline[-1] > 1.2 * offline[0]
    lines.append(line("memory over a stream 10 times as long", "online flat, offline grows", grown, flat))
    if "policy" in content:
        share = content["policy"]["share"]
        lines.append(
            line("value of the learned policy over the best", "at least 98 %", percent(share, 2), share >= 0.98)
        )
    return lines


def _frozenlake(content: dict[str, Any]) -> dict[str, str]:
    cells, settings = content["coverage"], content["settings"]
    printed = f"as printed, initial {settings['printed_initials'][-1]:g}"
    policy, cost = content["policy"], content["cost"]
    first = content["rates"][0]
    lengths = settings["episodes"]
    middle = min(lengths, key=lambda n: abs(n - 1_000))
    both = {
        name: next(cell for cell in select(cells, name) if cell["length"] == middle)
        for name in ("bootstrap", "offline bootstrap")
        if at_all(cells, name, middle)
    }
    kinds = [select(cells, "bootstrap", kind)[-1]["coverage"] for kind in ("percentile", "basic", "normal")]
    facts = {
        "value": f"{policy['value']:.5f}",
        "best": f"{policy['optimal_value']:.5f}",
        "share": percent(policy["share"], 2),
        "fixed_point": f"{content['features']['truth']:.4f}",
        "repeats": str(content["repeats"]["coverage"]),
        "offline_repeats": str(content["repeats"]["offline"]),
        "sensitivity_repeats": str(content["repeats"]["sensitivity"]),
        "features_repeats": str(content["repeats"]["features"]),
        "slopes": ", ".join(
            f"{row['kind']} {row['slope']:.2f} [{_range(row['interval'])}]" for row in content["rates"]
        ),
        "settled": str(SETTLED),
        "middle": count(middle),
        "coverage_said": said(all(map(meets, both.values()))),
        "coverage_middle": listed([f"the {name} covers {percent(cell['coverage'])}" for name, cell in both.items()]),
        "nominal_offline": _nominal_from(cells, "offline bootstrap"),
        "n_replicas": str(settings["n_replicas"]),
        "printed_span": span([cell["coverage"] for cell in select(cells, printed)], percent),
        "printed_end": percent(select(cells, printed)[-1]["coverage"]),
        "kinds_end": span(kinds, percent),
        **_example_facts(content),
        **_rates_facts(content["rates"]),
        **_features_facts(content["random_features"]),
        "n_features": str(settings["n_features"]),
        "batches": _range((min(first["fewer"] or [0]), max(first["fewer"] or [0]))),
        "exact": _range(first["if_exact"]),
        "nominal_bootstrap": _nominal_from(cells, "bootstrap"),
        "nominal_least_squares": _nominal_from(cells, "least squares"),
        "law_alone": percent(select(cells, "law alone")[-1]["coverage"]),
        **_step_sizes(content["sensitivity"]),
        "last": count(lengths[-1]),
        "noise": f"{1.96 * (0.95 * 0.05 / 200) ** 0.5:.3f}",
        "initial": f"{settings['initial']:g}",
        "decay": f"{settings['decay']:g}",
        **_cost_facts(cost),
        **_bias_facts(content),
    }
    tables = {
        "criteria": criteria_table(criteria(content)),
        "coverage_table": by_length(
            cells, [printed, "law alone", "bootstrap", "least squares", "offline bootstrap"], lengths
        ),
        "kinds_table": _kinds(cells, ["bootstrap", "law alone"], lengths),
        "sensitivity_table": by_length(
            content["sensitivity"], list(dict.fromkeys(cell["method"] for cell in content["sensitivity"])), lengths
        ),
        "features_table": by_length(
            content["random_features"],
            list(dict.fromkeys(cell["method"] for cell in content["random_features"])),
            lengths,
        ),
        "memory_table": _memory(cost["memory"]),
        "made_by": made_by(content),
    }
    return facts | tables


def _random_mdp(content: dict[str, Any]) -> dict[str, str]:
    cells, steps = content["coverage"], content["settings"]["steps"]
    names = list(dict.fromkeys(cell["method"] for cell in cells))
    cost = content["cost"]
    return {
        "repeats": str(content["repeats"]["coverage"]),
        "offline_repeats": str(content["repeats"]["offline"]),
        **_cost_facts(cost["GTD2"]),
        **_comparison(cells),
        "faster_said": said(cost["GTD2"]["offline_over_online_once"] > 2),
        "first": count(steps[0]),
        "last": count(steps[-1]),
        "criteria": criteria_table(criteria(content)),
        "coverage_table": by_length(
            cells, [name for name in names if "printed" not in name and "alone" not in name], steps
        ),
        "errata_table": by_length(cells, [name for name in names if "printed" in name or "alone" in name], steps),
        "kinds_table": _kinds(cells, ["GTD2", "TDC", "GTD"], steps),
        "widths_table": _widths(cells, [name for name in names if "alone" not in name and "own" not in name], steps),
        "cost_table": _cost_table(cost),
        "made_by": made_by(content),
    }


def _comparison(cells: Sequence[Result]) -> dict[str, str]:
    """How the methods of the comparison stand to each other, at the first length and at the last."""

    def end(name: str, i: int = -1) -> Result:
        return select(cells, name)[i]

    def width(name: str, i: int = -1) -> str:
        return f"{end(name, i)['width_over_oracle']:.2f}"

    def covered(name: str, i: int = -1) -> str:
        return percent(end(name, i)["coverage"])

    pairs = [(name, f"{name}, offline") for name in ("GTD2", "TDC", "GTD") if select(cells, f"{name}, offline")]
    longest = [end(offline)["length"] for _, offline in pairs]
    ratios = [
        next(cell for cell in select(cells, online) if cell["length"] == n)["width_over_oracle"]
        / end(offline)["width_over_oracle"]
        for (online, offline), n in zip(pairs, longest, strict=True)
    ]
    return {
        "pair_said": said(all(abs(ratio - 1) < 0.1 for ratio in ratios)),
        "pair_widths": "; ".join(
            f"{online} {ratio:.2f} at {count(n)}" for (online, _), ratio, n in zip(pairs, ratios, longest, strict=True)
        ),
        "online_widths": listed([f"{name} {width(name)}" for name, _ in pairs]),
        "early_width": width("GTD2", 0),
        "early_coverage": covered("GTD2", 0),
        "save_own": covered("SAVE, of its own fixed point"),
        "save_first": covered("SAVE", 0),
        "save_last": covered("SAVE"),
        "save_width": width("SAVE"),
        "solved_width": width("least squares"),
        "printed_ends": listed(
            [
                f"{name} {covered(f'{name}, as printed')} (with its law alone {covered(f'{name}, law alone')})"
                for name, _ in pairs
            ]
        ),
    }


def _cost_facts(cost: Result) -> dict[str, str]:
    seconds = cost["seconds"]
    return {
        "once": f"{cost['offline_over_online_once']:.0f}",
        "hundred": f"{cost['offline_over_online_100']:.0f}",
        "online_seconds": f"{seconds['online_once']:.3f}",
        "offline_seconds": f"{seconds['offline_once']:.1f}",
        "online_100_seconds": f"{seconds['online_100']:.2f}",
        "offline_100_seconds": f"{seconds['offline_100']:.0f}",
        "cost_steps": count(cost["steps"]),
    }


def _memory(memory: Result) -> str:
    """Peaks of memory over the length of the stream."""
    rows = [[name, *(f"{peak / 1e6:.2f} MB" for peak in memory[name])] for name in ("online", "offline")]
    return table(["method", *(f"{count(n)} steps" for n in memory["steps"])], rows)


def _nominal_from(cells: Sequence[Result], method: str) -> str:
    """The length from which on a method's coverage is nominal, as far as its repeats can tell."""
    own = select(cells, method)
    last_miss = max((i for i, cell in enumerate(own) if not meets(cell)), default=-1)
    return f"from {count(own[last_miss + 1]['length'])} episodes on" if last_miss + 1 < len(own) else "at no length"


def _step_sizes(cells: Sequence[Result]) -> dict[str, str]:
    """Which step sizes have nominal coverage at the end."""
    ends = [select(cells, method)[-1] for method in dict.fromkeys(cell["method"] for cell in cells)]
    working = [f"α₀ = {a} with η = {d}" for a, d in (cell["method"].split(", ") for cell in ends if meets(cell))]
    verb = "have" if len(working) > 1 else "has"
    found = f"{len(working)} {verb} nominal coverage ({listed(working)})" if working else "none has nominal coverage"
    return {"tried": str(len(ends)), "working": found, "sensitivity_said": said(len(working) == len(ends))}


def _example_facts(content: dict[str, Any]) -> dict[str, str]:
    """Where one run's intervals hold the exact value."""
    truth, readings = content["example"]["truth"], content["example"]["readings"]
    missed = {
        name: [n for n, _, lower, upper in readings[name] if not lower <= truth <= upper]
        for name in ("bootstrap", "offline bootstrap")
    }
    right = {"bootstrap": "the online interval", "offline bootstrap": "the offline interval"}
    holders = [right[name] for name, own in missed.items() if readings[name][-1][0] not in own]
    online, offline = (f"up to {count(max(own))} episodes" if own else "nowhere" for own in missed.values())
    return {
        "example_said": said(len(holders) == len(missed)),
        "example_holders": listed(holders) if holders else "neither interval",
        "example_missed": online,
        "example_offline_missed": offline,
    }


def _rates_facts(rows: Sequence[Result]) -> dict[str, str]:
    """Coverage errors, and their slopes once the average has converged."""
    first = rows[0]
    settled = min(i for i, n in enumerate(first["lengths"]) if n >= SETTLED or n == first["lengths"][-1])
    late = [late_slope(row) for row in rows]
    later = [error for row in rows for error in row["error"][settled:]]
    return {
        "first": count(first["lengths"][0]),
        "first_errors": span([row["error"][0] for row in rows], "{:.2f}".format),
        "settled_errors": span([row["error"][settled] for row in rows], "{:.3f}".format),
        "late_errors": span(later, "{:.3f}".format),
        "late_noise": f"{first['standard_error'][-1]:.3f}",
        "late_slopes": f"{min(late):+.2f} to {max(late):+.2f}",
        "possible_rates": possible_rates(rows),
    }


def _features_facts(cells: Sequence[Result]) -> dict[str, str]:
    """What a multiplier a step and one an episode do with scores that depend on each other."""
    facts: dict[str, str] = {}
    for name in ("step", "episode"):
        cell = select(cells, f"bootstrap, a multiplier {'an' if name == 'episode' else 'a'} {name}")[-1]
        facts[f"{name}_ratio"] = percent(cell["median_width"] / (2 * 1.96 * cell["spread"]), 0)
        facts[f"{name}_end"] = percent(cell["coverage"])
    return facts | {"features_least_squares": percent(select(cells, "least squares")[-1]["coverage"])}


def _bias_facts(content: dict[str, Any]) -> dict[str, str]:
    """Mean errors of the estimates at the end, beside the widths."""
    settings = content["settings"]
    initials = {"right": settings["initial"], "small": SMALL, "large": LARGE}
    right, small, large = (f"{initial:g}, {settings['decay']:g}" for initial in initials.values())
    facts: dict[str, str] = {}
    for name, method in (("right", right), ("small", small), ("large", large)):
        cell = select(content["sensitivity"], method)[-1]
        facts |= {f"bias_{name}": f"{cell['bias']:+.4f}", f"width_{name}": f"{cell['median_width']:.4f}"}
    facts |= {name: f"{initials[name]:g}" for name in ("small", "large")}
    own = select(content["sensitivity"], large)
    middle = min(own, key=lambda cell: abs(cell["length"] - SETTLED))
    facts |= {"large_settled": percent(middle["coverage"]), "large_end": percent(own[-1]["coverage"])}
    cases = {name: f"tabular, initial {initials[name]:g}" for name in ("right", "large")}
    cases["features"] = f"features, initial {settings['features_initial']:g}"
    for name, case in cases.items():
        for order in ("path", "random"):
            mean, error = content["order"][f"{case}, {order}"]
            facts[f"order_{name}_{order}"] = f"{mean:+.4f} ± {error:.4f}"
    features = select(content["random_features"], "bootstrap, a multiplier an episode")[-1]
    return facts | {"bias_features": f"{features['bias']:+.4f}", "spread_features": f"{features['spread']:.4f}"}


def _kinds(cells: Sequence[Result], methods: Sequence[str], lengths: Sequence[int]) -> str:
    rows = [
        {cell["length"]: cell for cell in select(cells, method, kind)} | {"method": method, "interval": kind}
        for method in methods
        for kind in ("percentile", "basic", "normal")
    ]
    return table_by(rows, ["method", "interval"], lengths, coverage)


def _widths(cells: Sequence[Result], methods: Sequence[str], lengths: Sequence[int]) -> str:
    rows = [{cell["length"]: cell for cell in select(cells, method)} | {"method": method} for method in methods]
    return table_by(rows, ["method"], lengths, lambda cell: f"{cell['width_over_oracle']:.2f}")


def _cost_table(cost: Result) -> str:
    rows = []
    for name, found in cost.items():
        for key in ("online", "offline") if "online" in found["memory"] else ("peak",):
            seconds = found["seconds"]["once" if key == "peak" else f"{key}_once"]
            steps, peaks = found["memory"]["steps"], found["memory"][key]
            label = name if key == "peak" else f"{name} {key}"
            row = {"method": label, "steps": count(found["steps"]), "seconds for one report": f"{seconds:.3g}"}
            rows.append(
                row
                | {"peak memory, MB, at a tenth of them": f"{peaks[0] / 1e6:.1f}", "at all": f"{peaks[-1] / 1e6:.1f}"}
            )
            assert steps[-1] == found["steps"]
    return table(list(rows[0]), [row.values() for row in rows])


def _range(pair: Sequence[float]) -> str:
    return f"{pair[0]:.2f} to {pair[1]:.2f}"


def main() -> None:
    """Draw the pictures and write the page."""
    for path in sorted(RESULTS.glob("*.json")):
        draw(json.loads(path.read_text()), IMAGES)
    for numbers in IMAGES.glob("*.csv"):
        numbers.unlink()  # they are in the JSON, and in the folder of a run
    (DOCS / "reproduction.md").write_text(page())


if __name__ == "__main__":
    main()
