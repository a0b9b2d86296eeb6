"""The numbers and tables of the Pong section of docs/reproduction.md."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from math import inf, nan
from typing import Any

from studies.markdown import Columns, count, listed, table, table_of
from studies.paper.machinery import Result
from studies.paper.pong_figures import at_the_end
from studies.paper.tables import criteria_table, line, made_by, span
from studies.paper.verdicts import below, said, variance_ratios

__all__ = ["METHODS", "arrived_at", "criteria", "facts", "lines", "lower_variance", "over_runs"]

SCALINGS = {"unit": "divided by their norm", "raw": "as they are"}
METHODS = ("least squares", "bootstrap", "as printed")
APART_FROM = 0.25  # the first policy whose interval must lie apart from the next one's


def criteria(content: dict[str, Any]) -> list[Result]:
    """The acceptance criteria, and whether they are met."""
    found = []
    for features, words in SCALINGS.items():
        rows = at_the_end(content, features, "least squares")
        estimates = [row["estimate"] for row in rows]
        falls = all(one > other for one, other in pairwise(estimates))
        shown = ", ".join(f"{estimate:.4f}" for estimate in estimates)
        found.append(line(f"least squares, features {words}: values", "fall with ε", shown, falls))
        pairs = [(one, other) for one, other in pairwise(rows) if one["epsilon"] >= APART_FROM]
        rooms = [_room(one, other) for one, other in pairs]
        shown = ", ".join(
            f"{one['epsilon']:g} and {other['epsilon']:g}: {room:+.4f}"
            for (one, other), room in zip(pairs, rooms, strict=True)
        )
        what = f"the same: distance between neighbouring intervals from ε = {APART_FROM:g} on"
        found.append(line(what, "above 0", shown, min(rooms, default=0) > 0))
    score = content["network"]["greedy_score"]
    found.append(
        line("greedy score of the shipped network", "at least 19", f"{score['mean']:.1f}", score["mean"] >= 19)
    )
    return found


def _room(one: Result, other: Result) -> float:
    """How far an interval lies above another; an infinite one lies above none."""
    return -inf if one["lower"] is None or other["upper"] is None else float(one["lower"] - other["upper"])


def lines(content: dict[str, Any]) -> Iterable[str]:
    """The values of all policies, for a terminal."""
    yield f"{'epsilon':<9}{'features':<10}{'method':<24}{'value':>8}  95% interval"
    for row in content["monte_carlo"]:
        yield f"{row['epsilon']:<9g}{'':<10}{'Monte Carlo':<24}{row['estimate']:>8.4f}  {_interval(row)}"
    for features in SCALINGS:
        for method in dict.fromkeys(row["method"] for row in content["values"]):
            for row in at_the_end(content, features, method):
                value = "lost" if row["estimate"] is None else f"{row['estimate']:.4f}"
                yield f"{row['epsilon']:<9g}{features:<10}{method:<24}{value:>8}  {_interval(row)}"
    yield "The estimand of all but Monte Carlo is the projected value: the value only if the features can express it."


def facts(content: dict[str, Any]) -> dict[str, str]:
    """The numbers and tables of the section."""
    settings = content["settings"]
    steps = sum(row["steps"] for row in content["games"])
    largest = max(row["standard_error"] for row in content["monte_carlo"])
    ratios = [
        (solved["upper"] - solved["lower"]) / (single["upper"] - single["lower"])
        for features in SCALINGS
        for solved, single in zip(
            *(at_the_end(content, features, method) for method in ("least squares", "least squares, i.i.d.")),
            strict=True,
        )
    ]
    arrived = [row for row in content["checks"] if (row["method"], row["name"]) == ("bootstrap", "convergence")]
    return {
        "criteria": criteria_table(criteria(content)),
        "games_table": _games(content),
        "policies_table": _policies(content),
        "widths_table": _widths(content),
        "checks_table": _checks(content),
        "score": f"{content['network']['greedy_score']['mean']:.1f}",
        "greedy_gap": _gap(content),
        "ranks": span([row["effective_rank"] for row in content["features"]], "{:.1f}".format),
        "distinct": str(content["monte_carlo"][0]["distinct"]),
        "greedy_away": _away(content, "unit"),
        "greedy_away_raw": _away(content, "raw"),
        "narrowest": f"{min(ratios):.2f}",
        "widest": f"{max(ratios):.2f}",
        "largest_error": f"{largest:.4f}",
        "smallest_seen": f"{2 * largest:.3f}",
        "starts": str(settings["starts"]),
        **_growth(content),
        **_claims(content),
        **_variances(content),
        **_objections(content),
        "failed": str(sum(check["status"] == "failed" for check in arrived)),
        **{
            f"failed_{features}": str(
                sum(check["status"] == "failed" for check in arrived if check["features"] == features)
            )
            for features in SCALINGS
        },
        "cases": str(len(arrived)),
        "episodes": str(settings["episodes"]),
        "steps": count(steps),
        "horizon": str(settings["horizon"]),
        "return_games": str(content["monte_carlo"][0]["games"]),
        "unit_initial": f"{settings['initials'][0]:g}",
        "raw_initial": f"{settings['initials'][1]:g}",
        "decay": f"{settings['decay']:g}",
        "printed_initial": f"{settings['printed_initial']:g}",
        "made_by": made_by(content),
    }


def _growth(content: dict[str, Any]) -> dict[str, str]:
    """Where the i.i.d. interval of one run is widest beside an earlier one, and the default interval there."""
    widths = {
        method: {
            row["episodes"]: row["upper"] - row["lower"]
            for row in content["example"]
            if (row["features"], row["method"]) == ("unit", method) and None not in (row["lower"], row["upper"])
        }
        for method in ("least squares, i.i.d.", "least squares")
    }
    single, blocks = widths.values()
    games = sorted(single.keys() & blocks.keys())
    pairs = [(one, other) for i, other in enumerate(games) for one in games[:i]]
    before, after = max(pairs, key=lambda pair: single[pair[1]] / single[pair[0]])
    return {
        "games_before": count(before),
        "games_after": count(after),
        "iid_grows": "yes" if single[after] / single[before] > max(1.0, blocks[after] / blocks[before]) else "",
        "iid_before": f"{single[before]:.3f}",
        "iid_after": f"{single[after]:.3f}",
        "blocks_before": f"{blocks[before]:.3f}",
        "blocks_after": f"{blocks[after]:.3f}",
    }


def _claims(content: dict[str, Any]) -> dict[str, str]:
    """What the paper claims of Figures 4b and 5b, beside what is found."""
    rows = {(method, scaling): at_the_end(content, scaling, method) for method in METHODS for scaling in SCALINGS}
    series = [[row["estimate"] for row in own] for own in (*rows.values(), content["monte_carlo"])]
    falling = [None not in own and all(one > other for one, other in pairwise(own)) for own in series]
    rooms = [_room(one, other) for scaling in SCALINGS for one, other in pairwise(rows["least squares", scaling])]
    ends = {method: (rows[method, "unit"][0], rows[method, "unit"][-1]) for method in METHODS}
    over = {method: _wide(last) / _wide(first) for method, (first, last) in ends.items()}
    errors = [row["standard_error"] for row in content["monte_carlo"]]
    printed = [row["estimate"] for row in rows["as printed", "unit"] if row["estimate"] is not None]
    pairs = zip(rows["as printed", "unit"], rows["least squares", "unit"], strict=True)
    kinds = [_wide(at_the_end(content, "unit", "bootstrap", kind)[0]) for kind in ("percentile", "normal")]
    return {
        "kinds_said": said(abs(kinds[0] / kinds[1] - 1) < 0.25),
        "percentile_width": f"{kinds[0]:.4f}",
        "normal_width": f"{kinds[1]:.4f}",
        "greedy_check": "passes" if arrived_at(content, content["settings"]["epsilons"][0], "unit") else "fails",
        "falls_said": said(all(falling)),
        "falling": str(sum(falling)),
        "series": str(len(series)),
        "apart": str(sum(room > 0 for room in rooms)),
        "neighbours": str(len(rooms)),
        "random_over_greedy": f"{over['least squares']:.1f}",
        "random_over_greedy_bootstrap": f"{over['bootstrap']:.1f}",
        "random_over_greedy_printed": f"{over['as printed']:.1f}",
        "random_over_greedy_returns": f"{errors[-1] / errors[0]:.1f}",
        "printed_ends": span(printed, "{:.4f}".format),
        "printed_widths": span([_wide(one) / _wide(other) for one, other in pairs], "{:.2f}".format),
    }


def _wide(row: Result) -> float:
    return inf if None in (row["lower"], row["upper"]) else float(row["upper"] - row["lower"])


def over_runs(content: dict[str, Any], features: str, method: str) -> list[Result]:
    """The estimates of a method over the runs, a row a policy."""
    return [row for row in content["variances"] if (row["features"], row["method"]) == (features, method)]


def deviation(row: Result) -> str:
    """Standard deviation of the estimates over runs, with the 95 % interval of a normal law's."""
    if not row["variance"]:
        return "-"
    low, high = (bound**0.5 for bound in row["variance_95"])
    return f"{row['variance'] ** 0.5:.4f} [{low:.4f}, {high:.4f}]"


def lower_variance(rows: list[Result]) -> bool | None:
    """Whether every policy with some randomness has a lower variance than the greedy one; None: not decided."""
    return below(variance_ratios(rows), 1.0)


def _variances(content: dict[str, Any]) -> dict[str, str]:
    """The variance of the estimates over runs, and what the standard errors of the same runs say it is."""
    settings, rows = content["settings"], []
    found = {(features, method): over_runs(content, features, method) for features in SCALINGS for method in METHODS}
    shown: dict[str, Callable[[Result], str]] = {
        "sd over runs": deviation,
        "by their standard errors": _expected,
        "mean": lambda row: "-" if row["mean"] is None else f"{row['mean']:.4f}",
    }
    for (features, method), own in found.items():
        for what, show in shown.items():
            policies = {f"ε = {row['epsilon']:g}": show(row) for row in own}
            rows.append({"features": features, "method": method, "what": what} | policies)
    away = {
        method: [
            abs(one["mean"] - other["mean"])
            for features in SCALINGS
            for one, other in zip(found[features, method], found[features, "least squares"], strict=True)
            if None not in (one["mean"], other["mean"])
        ]
        for method in METHODS[1:]
    }
    solved = found["unit", "least squares"]
    ratios = {
        method: [
            row["ratio"] ** 0.5 for features in SCALINGS for row in found[features, method] if row["ratio"] is not None
        ]
        for method in METHODS
    }
    sizes = [f"{low:.2f} to {high:.1f}" for low, high in variance_ratios(solved)]
    return {
        "variances_table": _plain(rows),
        "runs": str(settings["runs"]),
        "run_games": str(settings["episodes"] // settings["runs"]),
        "variance_said": said(lower_variance(solved)),
        "variance_ratios": listed(sizes),
        "expected_ratios": listed(
            [f"{span(own, '{:.2f}'.format)} ({method})" for method, own in ratios.items() if own]
        ),
        "away_bootstrap": span(away["bootstrap"] or [nan], "{:.4f}".format),
        "away_printed": span(away["as printed"] or [nan], "{:.4f}".format),
        "diverged": str(sum(row["diverged"] for own in found.values() for row in own)),
    }


def _expected(row: Result) -> str:
    """The standard deviation that the standard errors of the runs speak of."""
    return f"{(row['ratio'] * row['variance']) ** 0.5:.4f}" if row["ratio"] else "-"


def _objections(content: dict[str, Any]) -> dict[str, str]:
    """How often the checks of dependence and of identification object, and how far the features are off."""
    checks = [(check["method"], check["name"], check["status"]) for check in content["checks"]]
    dependence = [status for *what, status in checks if what == ["least squares, i.i.d.", "dependence"]]
    identified = [status for *what, status in checks if what == ["least squares", "identification"]]
    errors = {
        features: [
            _in_errors(solved["estimate"] - truth["estimate"], solved, truth)
            for solved, truth in zip(
                at_the_end(content, features, "least squares"), content["monte_carlo"], strict=True
            )
        ]
        for features in SCALINGS
    }
    later = [abs(float(one)) for own in errors.values() for one in own[1:] if one != "-"]
    return {
        "objections": str(dependence.count("failed")),
        "iid_cases": str(len(dependence)),
        "unidentified": str(identified.count("failed")),
        "identified_cases": str(len(identified)),
        "greedy_errors": errors["unit"][0],
        "greedy_errors_raw": errors["raw"][0],
        "random_errors": f"{max(later, default=inf):.1f}",
    }


def _away(content: dict[str, Any], features: str) -> str:
    """How far least squares of the first policy is from Monte Carlo."""
    estimate, truth = at_the_end(content, features, "least squares")[0]["estimate"], content["monte_carlo"][0]
    return f"{estimate - truth['estimate']:+.4f}"


def arrived_at(content: dict[str, Any], epsilon: float, features: str) -> bool:
    """Whether the bootstrap has come to least squares, by its own check."""
    check = _check(content, epsilon, features, "bootstrap", "convergence")
    return check is not None and check["status"] == "passed"


def _gap(content: dict[str, Any]) -> str:
    """How far the bootstrap of the first policy is from least squares, in standard errors."""
    check = _check(content, content["settings"]["epsilons"][0], "unit", "bootstrap", "convergence")
    return "?" if check is None else f"{check['value']:.1f}"


def _games(content: dict[str, Any]) -> str:
    rows = [game | features for game, features in zip(content["games"], content["features"], strict=True)]
    columns: Columns = {
        "ε": lambda row: f"{row['epsilon']:g}",
        "score of a game": lambda row: f"{row['score']:.1f} ± {row['score_error']:.1f}",
        "steps": lambda row: count(row["steps"]),
        "norm of φ, rms": lambda row: f"{row['norm']:.2f}",
        "largest": lambda row: f"{row['largest_norm']:.1f}",
        "units active": lambda row: f"{100 * row['active']:.0f} %",
        "units never active": lambda row: str(row["dead"]),
        "effective rank": lambda row: f"{row['effective_rank']:.1f}",
    }
    return table_of(rows, columns)


def _policies(content: dict[str, Any]) -> str:
    """A row a policy: Monte Carlo, and each method with its interval."""
    rows: list[Result] = [{"ε": f"{row['epsilon']:g}", "Monte Carlo": _shown(row)} for row in content["monte_carlo"]]
    for features in SCALINGS:
        for method in METHODS:
            for row, found in zip(rows, at_the_end(content, features, method), strict=True):
                row[f"{method}, {features}"] = _shown(found)
    return _plain(rows)


def _widths(content: dict[str, Any]) -> str:
    rows = []
    for features in SCALINGS:
        for method, kind in (
            ("bootstrap", "percentile"),
            ("bootstrap", "normal"),
            ("bootstrap, blocks", "percentile"),
            ("least squares, i.i.d.", "normal"),
            ("least squares", "normal"),
        ):
            row = {"features": features, "method": method, "interval": kind}
            for found in at_the_end(content, features, method, kind):
                row[f"ε = {found['epsilon']:g}"] = _width(found)
            rows.append(row)
    return _plain(rows)


def _checks(content: dict[str, Any]) -> str:
    """What the checks say of i.i.d. intervals, and whether the fixed point is the value."""
    rows = []
    truth = {row["epsilon"]: row for row in content["monte_carlo"]}
    for features in SCALINGS:
        independent = at_the_end(content, features, "least squares, i.i.d.")
        for solved, narrow in zip(at_the_end(content, features, "least squares"), independent, strict=True):
            epsilon = solved["epsilon"]
            dependence = _check(content, epsilon, features, "least squares, i.i.d.", "dependence")
            arrived = _check(content, epsilon, features, "bootstrap", "convergence")
            away = solved["estimate"] - truth[epsilon]["estimate"]
            rows.append(
                {
                    "features": features,
                    "ε": f"{epsilon:g}",
                    "dependence check of the i.i.d. interval": _verdict(dependence, "×"),
                    "width, blocks / i.i.d.": _ratio(solved, narrow),
                    "bootstrap to least squares": _verdict(arrived, "s.e."),
                    "least squares - Monte Carlo": f"{away:+.4f}",
                    "in s.e. of both": _in_errors(away, solved, truth[epsilon]),
                }
            )
    return _plain(rows)


def _check(content: dict[str, Any], epsilon: float, features: str, method: str, name: str) -> Result | None:
    wanted = (epsilon, features, method, name)
    keys = ("epsilon", "features", "method", "name")
    return next((row for row in content["checks"] if tuple(row[key] for key in keys) == wanted), None)


def _verdict(check: Result | None, unit: str) -> str:
    return "-" if check is None else f"{check['value']:.2f} {unit}, {check['status']}"


def _in_errors(difference: float, solved: Result, truth: Result) -> str:
    """A difference of independent estimates in its standard errors; the interval is nearly that of a normal law."""
    if None in (solved["lower"], solved["upper"]):
        return "-"
    error = ((solved["upper"] - solved["lower"]) ** 2 / 3.92**2 + truth["standard_error"] ** 2) ** 0.5
    return f"{difference / error:+.1f}"


def _ratio(one: Result, other: Result) -> str:
    bounds = [row[end] for row in (one, other) for end in ("lower", "upper")]
    return "-" if None in bounds else f"{(bounds[1] - bounds[0]) / (bounds[3] - bounds[2]):.2f}"


def _plain(rows: list[Result]) -> str:
    return table(list(rows[0]), [row.values() for row in rows])


def _shown(row: Result) -> str:
    return "lost" if row["estimate"] is None else f"{row['estimate']:.4f} {_interval(row)}"


def _interval(row: Result) -> str:
    bounds = (row["lower"], row["upper"])
    return "[-∞, ∞]" if None in bounds else f"[{bounds[0]:.4f}, {bounds[1]:.4f}]"


def _width(row: Result) -> str:
    return "-" if None in (row["lower"], row["upper"]) else f"{row['upper'] - row['lower']:.4f}"
