"""The page on validity says what the committed results say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from studies.validity import page, trust_page

ROOT = Path(__file__).parents[2]


def test_the_page_is_what_the_results_give() -> None:
    written = (ROOT / "docs" / "validity.md").read_text()
    assert page.page() == written, "run make pages"


def test_the_page_does_without_a_study(tmp_path: Path) -> None:
    text = page.page(tmp_path)
    assert text.startswith("# Where an interval can be trusted")
    assert "|" not in text


def test_the_appendix_has_the_coverage_of_streams_by_their_length() -> None:
    cell = {"method": "least squares", "problem": "a chain"}
    told = {5: 0.25, 100: 0.5, 250: 0.75, 1000: 0.95}
    cells = [cell | {"relaxation_times": n, "coverage": {"share": share}} for n, share in told.items()]
    cells.append(cells[0] | {"problem": "Baird's star, off-policy", "relaxation_times": 1000})
    assert trust_page.by_length({"cells": cells}) == {
        "short": "25.0 to 25.0 %",
        "middle": "50.0 to 50.0 %",
        "long": "75.0 to 95.0 %",
    }


def test_the_readme_shows_what_was_counted() -> None:
    readme = (ROOT / "README.md").read_text()
    content = json.loads((page.RESULTS / "value.json").read_text())
    assert page.with_coverage(readme, content) == readme, "run make pages"
    values = [cell for cell in content["cells"] if cell["method"] == "value"]
    missing = [cell for cell in values if cell["verdict"] not in ("holds", "exact", "told")]
    assert f"all {len(values)} cells ({len(missing)} fail its criterion)" in readme
    with pytest.raises(ValueError, match="no place"):
        page.with_coverage("# inferl", content)
