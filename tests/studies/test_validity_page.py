"""The page on validity says what the committed results say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from studies.validity import page

ROOT = Path(__file__).parents[2]


def test_the_page_is_what_the_results_give() -> None:
    written = (ROOT / "docs" / "validity.md").read_text()
    assert page.page() == written, "run make pages"


def test_the_page_does_without_a_study(tmp_path: Path) -> None:
    text = page.page(tmp_path)
    assert text.startswith("# Where an interval can be trusted")
    assert "|" not in text


def test_the_readme_shows_what_was_counted() -> None:
    readme = (ROOT / "README.md").read_text()
    content = json.loads((page.RESULTS / "value.json").read_text())
    assert page.with_coverage(readme, content) == readme, "run make pages"
    values = [cell for cell in content["cells"] if cell["method"] == "value"]
    missing = [cell for cell in values if cell["verdict"] not in ("holds", "exact", "told")]
    assert f"all {len(values)} cells ({len(missing)} fail its criterion)" in readme
    with pytest.raises(ValueError, match="no place"):
        page.with_coverage("# inferl", content)
