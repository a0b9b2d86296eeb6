"""Pages from templates: both sides of every condition, and facts that are missing."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import jinja2
import pytest

from inferl.errors import DataError
from studies.pages import TEMPLATES, render, replaced
from studies.validity import (
    best_of_page,
    drift_page,
    manyparts_page,
    page,
    plans_page,
    propensities_page,
    returns_page,
    selfcompare_page,
    trust_page,
    value_page,
)


def result(name: str) -> dict[str, Any]:
    return dict(json.loads((page.RESULTS / f"{name}.json").read_text()))


def judged(name: str, lines: str, met: bool) -> dict[str, Any]:
    """Results of which all criteria are met, or none."""
    content = result(name)
    for line in content[lines]:
        line |= {"met": met, "failing": [] if met else ["a cell"]}
    return content


def value(met: bool) -> str:
    content = result("value")
    for cell in content["cells"]:
        if cell["method"] == "value":
            cell |= {"verdict": "holds" if met else "fails", "coverage": 0.95 if met else 0.5}
    return render("value", **value_page.facts(content))


def trust(met: bool) -> str:
    content, closer = judged("trust", "criteria", met), result("closer")
    closer["study"] = {} if met else content["provenance"]
    return render("trust", **trust_page.facts(content, closer, result("rules"), result("rare"), result("series")))


def best_of(met: bool) -> str:
    content = result("best_of")
    for cell in content["cells"]:
        cell["with_false_best"] = 0 if met else cell["trainings"]
        cell["said_above"] = 0
    return render("best_of", **best_of_page.facts(content))


def drift(met: bool) -> str:
    content = result("drift")
    for cell in content["coverage"]:
        cell |= {"number": int((0.95 if met else 0.8) * cell["runs"])}
    for cell in content["alarms"]:
        cell |= {"binomial_95": (0.0, 0.01) if met else (0.02, 0.1)}
    for cell in content["power"]:
        cell |= {"share": 0.95 if met else 0.5}
    return render("drift", **drift_page.facts(content))


def propensities(met: bool) -> str:
    content = result("propensities")
    for cell in content["cells"]:
        cell |= {"binomial_95": (0.93, 0.97) if met else (0.85, 0.91)}
    return render("propensities", **propensities_page.facts(content))


def selfcompare(met: bool) -> str:
    content = judged("selfcompare", "cells", met)
    for race in content["races"]:
        race |= {"met": met}
    return render("selfcompare", **selfcompare_page.facts(content))


def returns(met: bool) -> str:
    none, auto = result("returns"), result("returns_auto")
    for cell in (*none["cells"], *auto["cells"]):
        cell |= {"median_width": 1.0, "misses": [["rarity"]], "binomial_99.9": (0.9, 0.99) if met else (0.8, 0.9)}
    none["cells"][1] |= {"misses": [["rarity"] if met else []]}
    for cell in auto["cells"]:
        cell |= {"covered": 190, "covered without": 190 if met else 188}
    return render("returns", **returns_page.facts(none, auto))


@pytest.mark.parametrize(
    ("written", "words"),
    [
        (selfcompare, ["Not met: Taxi, optimal, 2 policies; ", "race, lead 0.5"]),
        (
            returns,
            ["**Not met: CartPole, deterministic, features none", "Met by the check alone: ", "190 of 200 with, 188"],
        ),
        (propensities, ["Monte-Carlo error in: clinic, 250 episodes, value", "(With the true probabilities: clinic,"]),
        (best_of, ["More often than it may: normal (new best)"]),
        (value, ["The others are: FrozenLake: table (50.0 %", "Coverage is below 92 % in: "]),
        (trust, ["Not met, trusted", " - a cell ", "## A closer look", ": see the closer look below"]),
        (lambda met: render("manyparts", **manyparts_page.facts(judged("manyparts", "cells", met))), ["Not met: AR("]),
        (drift, ["Not met: coverage, AR(.9)", "false alarms, AR(.9), the mean, all data", "shift 6 after 10 windows"]),
        (lambda met: render("plans", **plans_page.facts(judged("plans", "cells", met))), ["Not met: episodes, 64"]),
        (
            lambda met: render("sidebyside", **manyparts_page.side_by_side(judged("sidebyside", "cells", met))),
            ["Not met: 2 or 100 steps, 64 side by side"],
        ),
        (lambda met: render("method", **page.method_facts(judged("method", "criteria", met))), ["forgotten its start"]),
    ],
)
def test_what_is_said_of_missed_criteria_is_said_only_then(written: Callable[[bool], str], words: list[str]) -> None:
    met, missed = written(True), written(False)
    for text in (met, missed):
        assert "\n\n\n" not in text
        assert text.endswith((".\n", "`\n"))
    for part in words:
        assert part in " ".join(missed.split())
        assert part not in " ".join(met.split())


def test_a_fact_that_is_missing_is_an_error() -> None:
    with pytest.raises(jinja2.UndefinedError, match="'rates' is undefined"):
        render("speed", features="10")


def test_prose_is_wrapped_as_code_is() -> None:
    for path in TEMPLATES.glob("*.j2"):
        plain = [line for line in path.read_text().splitlines() if "{" not in line and not line.startswith("<!--")]
        assert max(map(len, plain), default=0) <= 120, path


def test_a_page_without_marks_is_refused() -> None:
    with pytest.raises(DataError, match="no place for the results"):
        replaced("# A page", "<!-- begin -->", "<!-- end -->", "a block")
