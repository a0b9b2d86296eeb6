"""docs/reproduction.md: every number comes from the results, and every place that it names exists."""

from __future__ import annotations

import ast
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from studies.markdown import percent
from studies.paper import page
from studies.paper.overview import overview_table
from studies.paper.statements import STATEMENTS, slug
from studies.paper.study import EXPERIMENTS, STUDIES, THEORY, stem
from studies.paper.summaries import select
from studies.paper.verdicts import late_slope

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reproduction.md").read_text()

FIGURES = {"1a", "1b", "2", "3", "4a", "4b", "5a", "5b", "6a", "6b", "7a", "7b", "8a", "8b"}


@cache
def names_of(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


@cache
def headings_of(text: str) -> set[str]:
    return {slug(line.lstrip("# ")) for line in text.splitlines() if line.startswith("#")}


@pytest.mark.parametrize("place", sorted({place for one in STATEMENTS for place in one.where}))
def test_places_of_statements_exist(place: str) -> None:
    if "::" in place:
        file, _, name = place.partition("::")
        assert name in names_of(ROOT / "tests" / file)
        return
    if "#" not in place:
        assert place in STUDIES
        assert (ROOT / "docs" / "results" / f"{stem(place)}.json").exists()
        return
    name, _, heading = place.partition("#")
    assert slug(heading) in headings_of((ROOT / "docs" / name).read_text() if name else PAGE)


def test_every_statement_is_shown_or_says_why_not() -> None:
    assert all(one.where or one.note for one in STATEMENTS)
    figures = {one.number for one in STATEMENTS if one.number.startswith("Figure")}
    assert figures == {f"Figure {name}" for name in FIGURES}
    numbers = " ".join(one.number for one in STATEMENTS)
    wanted = ["Algorithm 1", "Proposition 4.1", "Proposition 4.2", "Proposition 4.3", "Lemma 4.1", "Theorem 4.2"]
    wanted += [
        "Lemma S1.1",
        "Lemma S2.1",
        "Lemma S2.2",
        "Lemma S2.3",
        "(A1)",
        "(A2)(i)",
        "(A2)(ii)",
        "(A2)(iii)",
        "(A3)",
    ]
    wanted += ["(2.1)", "(2.2)", "(2.3)", "(3.1)", *(f"(4.{i})" for i in range(1, 9)), "(6.1)", "(S1.1)", "(S2.1)"]
    wanted += ["(S2.2)", "(S2.3)", "(S2.4)-(S2.8)", "(S2.9)", "(B1)-(B4)", "(C1)-(C4)"]
    assert not [one for one in wanted if one not in numbers]


def test_links_within_the_page_lead_somewhere() -> None:
    linked = set(re.findall(r"\]\(#([^)]+)\)", PAGE))
    assert linked
    assert linked <= headings_of(PAGE)


def test_the_page_opens_with_all_figures() -> None:
    contents = {name: json.loads((page.RESULTS / f"{stem(name)}.json").read_text()) for name in EXPERIMENTS}
    rows = overview_table(contents).splitlines()[2:]
    shown = [row.split("|")[1].strip() for row in rows]
    assert set(shown) >= FIGURES
    assert PAGE.index(rows[0]) < PAGE.index("\n## ")
    # A verdict follows the numbers: if SAVE covered, the comparison would agree.
    cells = contents["random-mdp"]["coverage"]
    for cell in cells:
        cell |= {"coverage": 0.95, "binomial_99.9": [0.9, 0.99]}
    assert "| **does not agree**; SAVE" in "\n".join(rows)
    assert "SAVE's features" not in overview_table(contents)
    assert "so is their coverage" not in overview_table(
        {name: contents[name] for name in contents if name != "random-mdp"}
    )


def test_every_result_is_on_the_page() -> None:
    assert sorted(path.stem for path in page.RESULTS.glob("*.json")) == sorted(map(stem, STUDIES))
    for name in (*EXPERIMENTS, *THEORY):
        made = json.loads((page.RESULTS / f"{stem(name)}.json").read_text())["provenance"]
        assert "+" not in made["commit"]
        assert f"Made by `{made['command']}`: seed {made['seed']}, commit {made['commit']}" in PAGE


def stored(name: str) -> dict[str, Any]:
    return dict(json.loads((page.RESULTS / f"{stem(name)}.json").read_text()))


def test_numbers_of_the_method_page_are_those_of_the_results() -> None:
    exact, laws, lake = stored("enumerations"), stored("limits"), stored("frozenlake")
    below, infinite = exact["stability"]["TDC below"], exact["emphasis"]
    on, off = (exact["approximation"][name] for name in ("on-policy", "off-policy"))
    away = {row["reading"]: row["quartiles"][1] for row in stored("two-readings")["distance"]}  # at the end
    kinds = [percent(select(lake["coverage"], "bootstrap", kind)[-1]["coverage"]) for kind in ("percentile", "basic")]
    late = [late_slope(row) for row in lake["rates"]]
    step, block, small = (
        percent(
            select(stored("markov-noise")["coverage"], f"mean, dependent errors: bootstrap, by {name}")[-1]["coverage"]
        )
        for name in ("step", "block", "block, small steps")
    )
    sentences = [
        f"below, it may or may not be ({below['stable']} of {below['cases']} random problems are)",
        f"in {infinite['infinite']:,} of {infinite['cases']:,} random problems; the ratios check looks at the mean of "
        f"rho^2 g^2 only, and misses {infinite['missed']} of them",
        f"(among {on['cases']:,} random problems at most {100 * on['largest']:.0f} % of that); off-policy there is no "
        f"such bound ({off['above']} of {off['cases']:,} are beyond it, by a factor of up to {off['largest']:.0f})",
        f"For a mean with errors of correlation .8, 95 % intervals cover {step} by step. By block they cover {block} "
        f"with the step size of the rule of thumb, and {small} with a tenth of it",
        f"the distance between the two laws then tends to {laws['limit']['step, groups']:.2f}, not to 0",
        f"both are valid, and on FrozenLake they cover {kinds[0]} and {kinds[1]} at the end",
        f"as read, the value is {away['greedy']:.1f} or {away['mixture']:.1f} standard errors from the fixed point at "
        "100,000 steps",
        f"from 250 episodes on the slopes are {min(late):+.2f} to {max(late):+.2f}",
    ]
    text = " ".join((ROOT / "docs" / "method.md").read_text().split())
    assert not [sentence for sentence in sentences if sentence not in text]
