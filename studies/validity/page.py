"""Writes docs/validity.md from the results of the studies, so that the page says what was measured.

python -m studies.validity.page
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from studies.markdown import Columns, count, percent, table_of, yes
from studies.markdown import share as interval_of
from studies.pages import render, replaced
from studies.provenance import origin, software
from studies.validity import (
    best_of_page,
    bootstraps_page,
    drift_page,
    followers_page,
    manyparts_page,
    plans_page,
    propensities_page,
    returns_page,
    selfcompare_page,
    trust_page,
    value_page,
)

RESULTS = Path(__file__).parent / "results"
PAGE = Path(__file__).parents[2] / "docs" / "validity.md"
README = Path(__file__).parents[2] / "README.md"
BEGIN, END = "<!-- coverage: written by studies.validity.page -->", "<!-- end of coverage -->"

Cell = dict[str, Any]


def page(results: Path = RESULTS) -> str:
    """The whole page; a study that has not been run is left out."""
    parts = [render("validity")]
    for name, facts, studies in (
        ("summary", value_page.summary, ("value",)),
        ("appendix", trust_page.by_length, ("trust",)),
        ("value", value_page.facts, ("value",)),
        ("returns", returns_page.facts, ("returns", "returns_auto")),
        ("propensities", propensities_page.facts, ("propensities",)),
        ("trust", trust_page.facts, ("trust", "closer", "rules", "rare", "series")),
        ("manyparts", manyparts_page.facts, ("manyparts",)),
        ("plans", plans_page.facts, ("plans",)),
        ("sidebyside", manyparts_page.side_by_side, ("sidebyside",)),
        ("drift", drift_page.facts, ("drift",)),
        ("selfcompare", selfcompare_page.facts, ("selfcompare",)),
        ("best_of", best_of_page.facts, ("best_of",)),
        ("bootstraps", bootstraps_page.facts, ("starts", "automatic")),
        ("replicas", bootstraps_page.replicas, ("replicas",)),
        ("save", bootstraps_page.save, ("save",)),
        ("average", bootstraps_page.average, ("average",)),
        ("followers", followers_page.facts, ("followers",)),
        ("spine", spine_facts, ("spine",)),
        ("method", method_facts, ("method",)),
    ):
        paths = [results / f"{study}.json" for study in studies]
        if all(path.exists() for path in paths):
            parts.append(render(name, **facts(*(json.loads(path.read_text()) for path in paths))))
    return "\n".join(parts)


def spine_facts(content: dict[str, Any]) -> dict[str, Any]:
    tables = {}
    for environment in dict.fromkeys(cell["environment"] for cell in content["cells"]):
        columns: Columns = {
            "method": lambda cell: cell["method"],
            "interval": lambda cell: cell["kind"],
            "episodes" if environment == "FrozenLake" else "steps": length,
            "covered": coverage,
            "expected": spine_expected,
            "median width": lambda cell: short(cell["median_width"]),
        }
        cells = [cell for cell in content["cells"] if cell["environment"] == environment]
        tables[environment] = table_of(cells, columns)
    return {"tables": tables, **made_by(content)}


def spine_expected(cell: Cell) -> str:
    if cell["method"] == "as printed":
        return "near 0"
    return "48.6 %" if (cell["environment"], cell["method"]) == ("two-state chain", "bootstrap") else "95 %"


def method_facts(content: dict[str, Any]) -> dict[str, Any]:
    cells: list[Cell] = content["cells"]
    columns: Columns = {
        "what": lambda line: line["what"],
        "wanted": wanted,
        "found": found,
        "met": lambda line: yes(line["met"]),
    }
    criteria_table = table_of(content["criteria"], columns)

    columns = {
        "problem": lambda cell: cell["environment"],
        "target": lambda cell: cell["target"],
        "steps": length,
        "check fails": lambda cell: share(cell["checks"]["dependence"]),
        "covered": lambda cell: coverage(default(cell)),
        "limit in theory": lambda cell: percent(cell["limit_coverage"]),
        "quiet runs": quiet,
    }
    lake = [cell for cell in cells if cell["environment"] == "FrozenLake" and cell["method"] != "least squares"]
    by_step = ("bootstrap", "bootstrap, initial 100")
    others = [cell for cell in cells if cell["environment"] != "FrozenLake" and cell["method"] in by_step]
    dependence_table = table_of(others, columns)

    columns = {
        "method": lambda cell: cell["method"],
        "episodes": length,
        "check fails": lambda cell: share(cell["checks"]["convergence"]),
        "median gap, in standard errors": lambda cell: median_value(cell["checks"]["convergence"]),
        "covered": lambda cell: coverage(default(cell)),
    }
    convergence_table = table_of(lake, columns)

    columns = {
        "method": lambda cell: cell["method"],
        "target": lambda cell: cell["target"],
        "steps": length,
        "covered": lambda cell: coverage(default(cell)),
        "limit in theory": lambda cell: percent(cell["limit_coverage"]),
        "median width": lambda cell: short(default(cell)["median_width"]),
        "error shown": lambda cell: short(cell["median_standard_error"]),
        "true error": lambda cell: short(cell["spread_of_estimates"]),
        "limit": lambda cell: short(cell["limit_standard_error"]),
        "quiet runs": quiet,
    }
    blocks_table = table_of([cell for cell in cells if cell["environment"] == "ring"], columns)

    columns = {
        "problem": lambda merge: merge["environment"],
        "target": lambda merge: merge["target"],
        "length": length,
        "largest difference of estimates, in standard errors": lambda merge: f"{merge['largest_difference']:.0e}",
        "median ratio of standard errors": lambda merge: f"{merge['median_ratio']:.3f}",
        "90 % of the ratios": lambda merge: " to ".join(f"{ratio:.2f}" for ratio in merge["ratio_90"]),
        "ratio within 5 %": lambda merge: share(merge["within_5_percent"]),
        "one stream covers": lambda merge: share(merge["covered_whole"]),
        "merged covers": lambda merge: share(merge["covered_merged"]),
    }
    merged_table = table_of(content["merges"], columns)

    columns = {
        "problem": lambda cell: cell["environment"],
        "method": lambda cell: cell["method"],
        "target": lambda cell: cell["target"],
        "length": length,
        "covered": lambda cell: coverage(default(cell)),
    }
    columns |= {name: alarm(name) for name in cells[0]["checks"]}
    trusted_table = table_of([cell for cell in cells if cell["trusted"]], columns)
    return {
        "criteria_table": criteria_table,
        "missed": [line["what"] for line in content["criteria"] if not line["met"]],
        "dependence_table": dependence_table,
        "convergence_table": convergence_table,
        "blocks_table": blocks_table,
        "merged_table": merged_table,
        "trusted_table": trusted_table,
        **made_by(content),
    }


def made_by(content: dict[str, Any]) -> dict[str, Any]:
    made = content["provenance"]
    return {"origin": origin(made), "software": software(made), "settings": content["settings"]}


def length(cell: Cell) -> str:
    return count(cell["length"])


def coverage(cell: Cell) -> str:
    return interval_of(cell["coverage"], cell["binomial_95"])


def share(cell: Cell) -> str:
    return interval_of(cell["share"], cell["binomial_95"])


def default(cell: Cell) -> Cell:
    """The kind of interval that is given unless another is asked for."""
    kinds: dict[str, Cell] = cell["intervals"]
    return kinds["percentile"] if "percentile" in kinds else kinds["normal"]


def alarm(name: str) -> Callable[[Cell], str]:
    def show(cell: Cell) -> str:
        check = cell["checks"][name]
        return "n/a" if check["not_available"] == check["repeats"] else percent(check["share"])

    return show


def quiet(cell: Cell) -> str:
    runs, covered = cell["quiet"]["runs"], cell["quiet"]["covered"]
    return f"{runs}, {percent(covered / runs)} covered" if runs else "none"


def median_value(check: Cell) -> str:
    return f"{check['values'][2]:.2g}" if check["values"] else "-"


def short(x: float | None) -> str:
    return "-" if x is None else f"{x:.3g}"


def level(line: Cell, x: float) -> str:
    return percent(x) if line["shares"] else f"{x:.3g}"


def found(line: Cell) -> str:
    numbers = line["found"]
    if len(numbers) > 4:
        return f"{level(line, min(numbers))} to {level(line, max(numbers))}"
    return ", ".join(level(line, number) for number in numbers)


def wanted(line: Cell) -> str:
    low, high = level(line, line["at_least"]), level(line, line["at_most"])
    if line["at_least"] == line["at_most"]:
        return low
    if line["at_least"] == 0:
        return f"at most {high}"
    return f"at least {low}" if line["shares"] and line["at_most"] == 1 else f"{low} to {high}"


def with_coverage(readme: str, content: dict[str, Any]) -> str:
    """Put the counts between the two marks of the README."""
    return replaced(readme, BEGIN, END, value_page.for_readme(content))


if __name__ == "__main__":
    PAGE.write_text(page())
    if (RESULTS / "value.json").exists():
        counted = json.loads((RESULTS / "value.json").read_text())
        README.write_text(with_coverage(README.read_text(), counted))
    if (RESULTS / "trust.json").exists():
        trust_page.draw(json.loads((RESULTS / "trust.json").read_text()), PAGE.with_name("images") / "validity.png")
    print(PAGE.name)
