"""The tables that docs/reproduction.md opens with: each figure of the paper with our numbers, and what made them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from studies.markdown import count, percent, table
from studies.paper.machinery import Result
from studies.paper.pong_figures import at_the_end
from studies.paper.pong_page import METHODS, arrived_at, lower_variance, over_runs
from studies.paper.summaries import select
from studies.paper.tables import meets, span
from studies.paper.verdicts import SETTLED, below, late_slope, possible_rates, slope_bounds, verdict
from studies.provenance import short

__all__ = ["commits_table", "overview_table"]

SAVE = "SAVE's features cannot express the value"
HEAD = ("figure", "the paper's claim", "what we measured", "verdict")
Row = tuple[str, str, str, str]


def overview_table(contents: dict[str, dict[str, Any]]) -> str:
    """A row for each panel of the paper's figures; a study that has not been run has none."""
    makers = {"frozenlake": _frozenlake, "pong": _pong, "random-mdp": _random_mdp, "sepsis": _sepsis}
    rows = [row for name, rows_of in makers.items() if name in contents for row in rows_of(contents[name])]
    rows.sort(key=lambda row: row[0])
    return table(HEAD, rows, text=HEAD)


def commits_table(contents: dict[str, dict[str, Any]]) -> str:
    """The commit, the seed and the length of each study's present results."""
    head = ("study", "commit", "seed", "repeats")
    rows = [
        (name, short(one["provenance"]["commit"]), str(one["provenance"]["seed"]), _length(one))
        for name, one in contents.items()
    ]
    return table(head, rows, text=head)


def _length(content: dict[str, Any]) -> str:
    if content["experiment"] == "pong":
        return f"{content['settings']['episodes']} games of {len(content['settings']['epsilons'])} policies"
    return count(max(content["repeats"].values()))


def _frozenlake(content: dict[str, Any]) -> list[Row]:
    cells, settings = content["coverage"], content["settings"]
    last, truth = settings["episodes"][-1], content["example"]["truth"]
    ends = {name: own[-1] for name, own in content["example"]["readings"].items()}
    printed = f"as printed, initial {settings['printed_initials'][-1]:g}"
    middle = min(settings["episodes"], key=lambda n: abs(n - 1_000))

    def at(method: str, n: int) -> Result:
        return next(cell for cell in select(cells, method) if cell["length"] == n)

    shown = {name: f"[{ends[name][2]:.4f}, {ends[name][3]:.4f}]" for name in ("bootstrap", "offline bootstrap")}
    inside = all(ends[name][2] <= truth <= ends[name][3] for name in shown)
    both = {name: at(name, middle) for name in ("bootstrap", "offline bootstrap") if at_all(cells, name, middle)}
    sensitivity = [
        select(content["sensitivity"], name)[-1]
        for name in dict.fromkeys(cell["method"] for cell in content["sensitivity"])
    ]
    widths = [cell["median_width"] for cell in sensitivity if cell["median_width"]]
    slopes = [row["slope"] for row in content["rates"]]
    literal = meets(at(printed, middle))
    return [
        ("1a", "intervals of both bootstraps reach the exact value",
         f"exact {truth:.4f}; after {count(last)} episodes online {shown['bootstrap']}, "
         f"offline {shown['offline bootstrap']}",
         verdict(inside, "with larger steps than printed")),
        ("1b", "both cover 95 % within about 1,000 episodes",
         f"after {count(middle)}: " + ", ".join(f"{name} {percent(cell['coverage'])}" for name, cell in both.items())
         + f"; as printed {percent(at(printed, middle)['coverage'])}",
         verdict(all(map(meets, both.values())), "as printed, too" if literal else "the text as printed does not")),
        ("2", "widths are robust to α₀ and η",
         f"median widths {span(widths, '{:.3g}'.format)} after {count(last)} episodes",
         verdict(max(widths) < 2 * min(widths), "and a width does not show a bias")),
        ("3", "coverage is robust to α₀ and η",
         f"{span([cell['coverage'] for cell in sensitivity], percent)}; nominal for "
         f"{sum(map(meets, sensitivity))} of {len(sensitivity)}",
         verdict(all(map(meets, sensitivity)))),
        ("8a", "errors fall faster than 1/√t, then as 1/t", *_rates(content["rates"])),
        ("8b", "slopes of -1 or less: second order", f"slopes {span(slopes, '{:.2f}'.format)}",
         verdict(max(slopes) <= -1, f"from {SETTLED} episodes on {possible_rates(content['rates'])}")),
    ]  # fmt: skip


def _rates(rows: Sequence[Result]) -> tuple[str, str]:
    """The coverage errors, and whether they fall as fast as the paper has it: at first, and in the end."""
    first, last = ([row["error"][i] for row in rows] for i in (0, -1))
    bounds = [[slope_bounds(row, late) for row in rows] for late in (False, True)]
    shown = ", ".join(
        f"{row['kind']} {late_slope(row):+.2f} [{low:+.2f}, {high:+.2f}]"
        for row, (low, high) in zip(rows, bounds[1], strict=True)
    )
    early, late = (below(own, limit) for own, limit in zip(bounds, (-0.5, -1), strict=True))
    agrees = False if False in (early, late) else (early and late)
    noise = rows[0]["standard_error"][-1]
    found = f"errors {span(first, '{:.2f}'.format)} at first, {span(last, '{:.3f}'.format)} ± {noise:.3f} at last"
    return f"{found}; slopes from {SETTLED} episodes on: {shown}", verdict(agrees)


def at_all(cells: Sequence[Result], method: str, n: int) -> bool:
    """Whether a method was read at a length."""
    return any(cell["length"] == n for cell in select(cells, method))


def _pong(content: dict[str, Any]) -> list[Row]:
    epsilons = content["settings"]["epsilons"]

    def widths(method: str, kind: str | None = None) -> list[float]:
        return [
            float("inf") if None in (row["lower"], row["upper"]) else row["upper"] - row["lower"]
            for row in at_the_end(content, "unit", method, kind)
        ]

    quantile, normal = (widths("bootstrap", kind)[0] for kind in ("percentile", "normal"))
    own = [
        row["upper"] - row["lower"]
        for row in content["example"]
        if (row["features"], row["method"], row["kind"]) == ("unit", "bootstrap", "percentile")
        and None not in (row["lower"], row["upper"])
    ]
    estimates = [row["estimate"] for row in at_the_end(content, "unit", "least squares")]
    arrived = arrived_at(content, epsilons[0], "unit")
    return [
        ("4a", "a game (no claim)", f"greedy score {content['network']['greedy_score']['mean']:.1f}", "shown"),
        ("4b", "quantile and SE intervals of one run", f"widths {quantile:.4f} and {normal:.4f} at the end",
         verdict(abs(quantile / normal - 1) < 0.25, "" if arrived else "the bootstrap has not converged")),
        ("5a", "widths shrink over the episodes", f"from {own[0]:.3f} to {own[-1]:.4f}", verdict(own[-1] < own[0])),
        ("5b", "the value falls with ε", f"least squares: {', '.join(f'{x:.3f}' for x in estimates)}",
         verdict(all(one > other for one, other in pairwise(estimates)))),
        ("5b, text", "ε > 0 has a lower variance", *_variance(content)),
    ]  # fmt: skip


def _variance(content: dict[str, Any]) -> tuple[str, str]:
    """Standard deviations of the estimates over runs, by policy, and what they say, method by method."""
    settings = content["settings"]
    rows = {method: over_runs(content, "unit", method) for method in METHODS}
    spread = {method: [(row["variance"] or 0.0) ** 0.5 for row in own] for method, own in rows.items()}
    shown = "; ".join(f"{method} {', '.join(f'{x:.4f}' for x in own)}" for method, own in spread.items())
    found = {method: verdict(lower_variance(own)) for method, own in rows.items()}
    first, *others = found
    return (
        f"sd over {settings['runs']} runs of {settings['episodes'] // settings['runs']} games each, by ε: {shown}",
        "; ".join([found[first], *(f"{method}: {found[method]}" for method in others)]),
    )


def _random_mdp(content: dict[str, Any]) -> list[Row]:
    cells, last = content["coverage"], content["settings"]["steps"][-1]

    def end(method: str) -> Result:
        return next(cell for cell in select(cells, method) if cell["length"] == last)

    names = [name for name in ("GTD2", "TDC", "GTD", "GTD2, offline", "SAVE") if at_all(cells, name, last)]
    widths = ", ".join(f"{name} {end(name)['width_over_oracle']:.2f}" for name in names)
    covered = ", ".join(f"{name} {percent(end(name)['coverage'])}" for name in names)
    save = [end(name) for name in names if name == "SAVE"]
    cost = content["cost"]["GTD2"]
    ratios = [end(name)["width_over_oracle"] for name in names]
    return [
        ("6a", "widths of online, offline and SAVE are on par", f"over the oracle's at {count(last)} steps: {widths}",
         verdict(max(ratios) < 1.5 * min(ratios))),
        ("6b", "so is their coverage; SAVE is the first", f"at {count(last)} steps: {covered}",
         verdict(all(meets(end(name)) for name in names), "" if all(map(meets, save)) else SAVE)),
        ("6, text", "online is much faster than offline, and stores no data",
         f"{cost['offline_over_online_once']:.0f} times for one report, {cost['offline_over_online_100']:.0f} for 100",
         verdict(cost["offline_over_online_once"] > 2)),
    ]  # fmt: skip


def _sepsis(content: dict[str, Any]) -> list[Row]:
    own = content["curves"]["median"]["GTD2, components"]
    ends = {name: (own[name][0], own[name][-1]) for name in ("exact", "percentile", "normal")}
    covered = select(content["coverage"], "GTD2, components, start")[-1]
    return [
        ("7a", "the MSPBE falls over 20,000 episodes", "from {:.2g} to {:.2g}".format(*ends["exact"]),
         verdict(ends["exact"][1] < ends["exact"][0])),
        ("7b", "widths of both kinds fall",
         "from {:.2f} and {:.2f} to {:.3f} and {:.3f}".format(
             *(ends[kind][i] for i in (0, 1) for kind in ("percentile", "normal"))),
         verdict(all(ends[kind][1] < ends[kind][0] for kind in ("percentile", "normal")),
                  f"coverage of θ* is {percent(covered['coverage'])} at the end")),
    ]  # fmt: skip
