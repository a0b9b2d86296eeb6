"""What docs/validity.md says of bootstraps without a number to choose follows from the results, whatever they are."""

from __future__ import annotations

import json
from typing import Any

from studies.pages import render
from studies.validity import bootstraps_page, page


def result(name: str) -> dict[str, Any]:
    return dict(json.loads((page.RESULTS / f"{name}.json").read_text()))


def said(automatic: dict[str, Any], starts: dict[str, Any] | None = None) -> str:
    return " ".join(render("bootstraps", **bootstraps_page.facts(starts or result("starts"), automatic)).split())


def with_bounds(*, low: tuple[str, ...]) -> dict[str, Any]:
    """Results in which these methods are too low in every cell, and the others in none."""
    content = result("automatic")
    for cell in content["cells"]:
        cell["binomial_99.9"] = [0.8, 0.9] if cell["method"] in low else [0.9, 0.98]
    return content


def test_cells_that_are_too_low_are_counted_and_those_of_the_default_named() -> None:
    content = with_bounds(low=("automatic", "automatic, solved"))
    long = [cell for cell in content["cells"] if cell["relaxation_times"] >= bootstraps_page.LONG]
    each = len(long) // 4
    text = said(content)
    assert (
        f"start at 0 are too low in {each} of {2 * each}, the two with a solved start in {each} of {2 * each}" in text
    )
    assert f"rule of thumb 0 of {2 * each} are too low, with the automatic one {2 * each} of {2 * each}" in text
    places = {(cell["problem"], cell["length"]) for cell in long}
    assert text.count(" of its targets, ") == len(places)
    assert "ring 20/4, lazy at 10,000 steps (4 of its targets, " in text
    assert "none of these cells" in said(with_bounds(low=("automatic",)))


def test_variants_of_the_start_are_counted() -> None:
    starts = result("starts")
    for cell in starts["cells"]:
        cell["binomial_99.9"] = [0.9, 0.98] if cell["start"] == "zero" else [0.8, 0.9]
    rows = bootstraps_page.starts_table(starts["cells"]).splitlines()[2:]
    assert {row.split("|")[-3].strip() for row in rows if row.startswith("| 0 ")} == {"30 of 30"}
    assert {row.split("|")[-3].strip() for row in rows if not row.startswith("| 0 ")} == {"0 of 30"}


def test_a_solved_start_covers_with_a_step_size_that_is_ten_times_too_small_as_method_md_says() -> None:
    wanted = ("own", "all", 0.1)
    cells = [c for c in result("starts")["cells"] if (c["start"], c["counted"], c["factor"]) == wanted]
    assert cells
    assert all(map(bootstraps_page.nominal, cells))


def test_the_number_of_replicas_matters_as_choosing_md_says() -> None:
    content = result("replicas")
    error = {(c["problem"], c["kind"], c["replicas"]): c["monte_carlo_error"] for c in content["numbers"]}
    for problem in {c["problem"] for c in content["numbers"]}:
        assert 0.08 < error[problem, "percentile", 200] < 0.12
        assert 0.04 < error[problem, "normal", 200] < 0.06
    for cell in content["numbers"]:
        (most,) = (
            c
            for c in content["numbers"]
            if (c["problem"], c["kind"], c["replicas"]) == (cell["problem"], cell["kind"], 2_000)
        )
        assert abs(cell["coverage"] - most["coverage"]) < 0.01
    for law in content["laws"]:
        assert bootstraps_page.nominal(law)


def test_what_is_said_of_replicas_and_of_save_is_that_of_the_results() -> None:
    replicas = result("replicas")
    for cell in replicas["numbers"]:
        cell |= {"coverage": 0.9 + (cell["replicas"] == 200) / 20, "monte_carlo_error": 10 / cell["replicas"]}
    text = " ".join(render("replicas", **bootstraps_page.replicas(replicas)).split())
    assert "it falls by a factor of 40.0 to 40.0; the root of their ratio is 6.3" in text
    assert "at most 5.0 % apart" in text
    save = result("save")
    for cell in save["cells"]:
        cell |= {"coverage": 0.25, "median_width": None}
    text = " ".join(render("save", **bootstraps_page.save(save)).split())
    assert "the value in 25.0 % (in 25.0 % at 1,000)" in text
    assert "a width of - instead of -" in text
