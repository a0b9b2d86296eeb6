"""The numbers and tables of the sections that check the paper's theory, in docs/reproduction.md."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from studies.markdown import count, listed, percent, table
from studies.paper.changing_behaviour import BEHAVIOURS, FEATURES
from studies.paper.limits import PROBLEMS
from studies.paper.machinery import Result
from studies.paper.markov_noise import CASES
from studies.paper.summaries import select
from studies.paper.tables import by_length, coverage, made_by, span, table_by
from studies.paper.two_readings import READINGS
from studies.paper.verdicts import said

__all__ = ["FACTS"]

EQUATIONS = ("(4.5)", "(4.6)", "(4.7)")
WRONG = "least squares, ratios of the first policy"


def _limits(content: dict[str, Any]) -> dict[str, str]:
    settings, errors = content["settings"], content["standard_errors"]["groups"]
    rests = {
        f"{problem}, {number}": [
            rest / main
            for rest, main in zip(
                *(_of(content["remainders"], f"{problem}, {number}", of)["size"] for of in ("remainder", "main term")),
                strict=True,
            )
        ]
        for problem in PROBLEMS
        for number in EQUATIONS
    }
    slopes = [(row["slope"], 0.5 - float(row["case"].split(", ")[1])) for row in content["iterates"]]
    missed = sum(slope > bound for slope, bound in slopes)
    normal = {name: [row["distance"] for row in content["normal_limit"] if row["problem"] == name] for name in PROBLEMS}
    laws = ["linear value, step", "linear value, as printed", "groups, step", "groups, block"]
    medians = {law: [row["quartiles"][1] for row in content["distances"] if row["law"] == law] for law in laws}
    return {
        "n_states": str(settings["n_states"]),
        "n_features": str(settings["n_features"]),
        "n_groups": str(settings["n_groups"]),
        "discount": f"{settings['discount']:g}",
        "decay": f"{settings['decay']:g}",
        "inflation": f"{errors['long_run'] / errors['lag_zero']:.1f}",
        "iterates_table": _iterates(content),
        "iterates_said": said(not missed),
        "iterates_below": f"all {len(slopes)}" if not missed else f"{len(slopes) - missed} of {len(slopes)}",
        "remainders_table": _by(content["remainders"][0]["lengths"], rests, lambda x: f"{x:.2f}"),
        "remainders_said": said(all(own[-1] < own[0] for own in rests.values())),
        "remainder_at_start": span([own[0] for own in rests.values()], percent),
        "remainder_at_end": span([own[-1] for own in rests.values()], percent),
        "errors_repeats": count(content["repeats"]["errors"]),
        "normal_floor": f"{0.87 / content['repeats']['errors'] ** 0.5:.3f}",
        "normal_said": said(all(own[-1] < own[0] for own in normal.values())),
        "normal_first": span([own[0] for own in normal.values()], "{:.3f}".format),
        "normal_last": span([own[-1] for own in normal.values()], "{:.3f}".format),
        "normal_spread": span(
            [row["spread over limit"] for row in content["normal_limit"] if row["length"] == settings["lengths"][-1]],
            "{:.2f}".format,
        ),
        "normal_table": _by(
            settings["lengths"],
            normal,
            lambda x: f"{x:.3f}",
        ),
        "bootstrap_repeats": str(content["repeats"]["bootstrap"]),
        "n_replicas": count(settings["n_replicas"]),
        "distances_table": _by(settings["lengths"], medians, lambda x: f"{x:.3f}"),
        "floor": f"{content['equal_laws'][1]:.3f}",
        "limit_printed": f"{content['limit']['as printed, linear value']:.3f}",
        "limit_step": f"{content['limit']['step, groups']:.3f}",
        "martingale_said": said(all(one > other for one, other in pairwise(medians[laws[0]]))),
        "martingale_start": f"{medians[laws[0]][0]:.3f}",
        "martingale_end": f"{medians[laws[0]][-1]:.3f}",
        "printed_end": f"{medians[laws[1]][-1]:.3f}",
        "step_end": f"{medians[laws[2]][-1]:.3f}",
        "block_start": f"{medians['groups, block'][0]:.3f}",
        "block_end": f"{medians['groups, block'][-1]:.3f}",
        "made_by": made_by(content),
    }


def _iterates(content: dict[str, Any]) -> str:
    decays = content["settings"]["decays"]
    rows = [
        [
            f"{problem}, {of}",
            *(f"{_of(content['iterates'], f'{problem}, {decay:g}', of)['slope']:.2f}" for decay in decays),
        ]
        for problem in PROBLEMS
        for of in ("iterate", "perturbed")
    ]
    rows.append(["bound, -(η - 1/2)", *(f"{0.5 - decay:.2f}" for decay in decays)])
    rows.append(["theory, -η/2", *(f"{-decay / 2:.2f}" for decay in decays)])
    return table(["method", *(f"η = {decay:g}" for decay in decays)], rows)


def _of(rows: Sequence[Result], case: str, of: str) -> Result:
    return next(row for row in rows if (row["case"], row["of"]) == (case, of))


def _by(lengths: Sequence[int], rows: Mapping[str, Sequence[float]], show: Callable[[float], str]) -> str:
    return table(["method", *map(count, lengths)], [[name, *map(show, own)] for name, own in rows.items()])


def _markov_noise(content: dict[str, Any]) -> dict[str, str]:
    settings, cells = content["settings"], content["coverage"]
    rows: list[dict[Any, Any]] = []
    for case in CASES:
        for method in dict.fromkeys(cell["method"] for cell in cells if cell["method"].startswith(f"{case}: ")):
            own = select(cells, method)
            ratio = own[-1]["width_over_oracle"]
            rows.append(
                {"data and method": method, "coverage": own[-1]["coverage"]}
                | {cell["length"]: coverage(cell) for cell in own}
                | {"width": "-" if ratio is None else f"{ratio:.2f}"}
            )
    lengths = settings["lengths"]
    head = ["data and method", *map(count, lengths), "width over oracle's"]
    shown = [[row["data and method"], *(row[n] for n in lengths), row["width"]] for row in rows]
    ends = {row["data and method"]: percent(row["coverage"]) for row in rows}
    return {
        "n_covariates": str(settings["n_covariates"]),
        "correlation": f"{settings['correlation']:g}",
        "episode": str(settings["episode"]),
        "repeats": str(content["repeats"]["coverage"]),
        "coverage_table": table(head, shown),
        "long_run": listed([f"{content['long_run'][case] ** 0.5:.1f}" for case in (CASES[0], *CASES[2:])]),
        "block_mean": ends[f"{CASES[0]}: bootstrap, by block"],
        "small_mean": ends[f"{CASES[0]}: bootstrap, by block, small steps"],
        "block_slope": ends[f"{CASES[1]}: bootstrap, by block"],
        "small_slope": ends[f"{CASES[1]}: bootstrap, by block, small steps"],
        "step_slope": ends[f"{CASES[1]}: bootstrap, by step"],
        "step_others": span(
            [select(cells, f"{case}: bootstrap, by step")[-1]["coverage"] for case in (CASES[0], *CASES[2:])], percent
        ),
        "by_episode": ends[f"{CASES[3]}: bootstrap, by episode"],
        "least_squares": span([select(cells, f"{case}: least squares")[-1]["coverage"] for case in CASES], percent),
        "made_by": made_by(content),
    }


def _two_readings(content: dict[str, Any]) -> dict[str, str]:
    settings, cells = content["settings"], content["coverage"]
    distances = {(row["reading"], row["steps"]): row["quartiles"] for row in content["distance"]}
    last = settings["steps"][-1]
    rows: list[dict[Any, Any]] = [
        {n: distances[name, n] for n in settings["steps"]} | {"method": name}
        for name in READINGS
        if name != "linear target"
    ]
    facts = {name: f"{distances[name, last][1]:.1f}" for name in ("greedy", "mixture")} | {
        f"{name}_covered": percent(select(cells, f"{name}, value")[-1]["coverage"]) for name in ("greedy", "mixture")
    }
    return facts | {
        "fixed_point": span(
            [cell["coverage"] for name in READINGS for cell in select(cells, f"{name}, fixed point")], percent
        ),
        "epsilon": f"{settings['epsilon']:g}",
        "repeats": str(content["repeats"]["coverage"]),
        "last": count(last),
        "coverage_table": by_length(
            cells, [f"{name}, {of}" for name in READINGS for of in ("value", "fixed point")], settings["steps"]
        ),
        "distance_table": table_by(
            rows, ["method"], settings["steps"], lambda q: f"{q[1]:.2f} [{q[0]:.2f}, {q[2]:.2f}]"
        ),
        "made_by": made_by(content),
    }


def _changing_behaviour(content: dict[str, Any]) -> dict[str, str]:
    settings, cells = content["settings"], content["coverage"]
    every, half = FEATURES
    right = ("least squares", "GTD2", "TDC")

    def ends(features: str, methods: Iterable[str], behaviours: Iterable[str] = BEHAVIOURS) -> str:
        names = [f"{features}: {name}: {method}" for name in behaviours for method in methods]
        return span([select(cells, name)[-1]["coverage"] for name in names], percent)

    return {
        "phases": str(settings["phases"]),
        "n_states": str(settings["n_states"]),
        "n_features": str(settings["n_features"]),
        "repeats": str(content["repeats"]["coverage"]),
        "last": count(settings["steps"][-1]),
        "coverage_table": by_length(cells, list(dict.fromkeys(cell["method"] for cell in cells)), settings["steps"]),
        "all_at_end": ends(every, right),
        "half_least_squares": ends(half, right[:1]),
        "half_bootstraps": ends(half, right[1:], BEHAVIOURS[1:]),
        "wrong": ends(every, [WRONG], BEHAVIOURS[1:]),
        "apart_switches": f"{content['apart'][f'switches, {half}']:.3f}",
        "apart_learns": f"{content['apart'][f'learns, {half}']:.3f}",
        "made_by": made_by(content),
    }


def _enumerations(content: dict[str, Any]) -> dict[str, str]:
    stability, mixing = content["stability"], content["mixing"]
    rows = [[name, count(one["stable"]), count(one["cases"])] for name, one in stability.items()]
    bounds = [
        [name, f"{one['largest']:.2f}", count(one["above"]), count(one["cases"])]
        for name, one in content["approximation"].items()
    ]
    below = stability["TDC below"]
    low, _, high = mixing["rate_minus_eigenvalue"]
    above = {name: f"{count(one['above'])} of {count(one['cases'])}" for name, one in content["approximation"].items()}
    return {
        "most_states": str(content["settings"]["most_states"]),
        "stability_table": table(["method", "stable", "cases"], rows),
        "tdc_below": f"{below['stable']} of {below['cases']}",
        **{f"emphasis_{name.replace(' ', '_')}": count(n) for name, n in content["emphasis"].items()},
        "approximation_table": table(["method", "largest share", "above 1", "cases"], bounds),
        "above_on": above["on-policy"],
        "above_off": above["off-policy"],
        "mixing_cases": str(mixing["cases"]),
        "rate_low": f"{low:+.3f}",
        "rate_high": f"{high:+.3f}",
        "share": percent(mixing["largest_share_of_bound"], 0),
        "made_by": made_by(content),
    }


FACTS: dict[str, Callable[[dict[str, Any]], dict[str, str]]] = {
    "limits": _limits,
    "markov-noise": _markov_noise,
    "two-readings": _two_readings,
    "changing-behaviour": _changing_behaviour,
    "enumerations": _enumerations,
}
