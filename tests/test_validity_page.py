"""The page on validity says what the committed results say."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "validity" / "page.py"


@pytest.fixture(autouse=True)
def beside_the_script(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(SCRIPT.parent))


@pytest.mark.skipif(not SCRIPT.exists(), reason="the studies are not part of an installed package")
def test_the_page_is_what_the_results_give() -> None:
    page = runpy.run_path(str(SCRIPT))["page"]
    written = (ROOT / "docs" / "validity.md").read_text()
    assert page() == written, "run python validity/page.py"


@pytest.mark.skipif(not SCRIPT.exists(), reason="the studies are not part of an installed package")
def test_the_page_does_without_a_study(tmp_path: Path) -> None:
    text = runpy.run_path(str(SCRIPT))["page"](tmp_path)
    assert text.startswith("# Where an interval can be trusted")
    assert "|" not in text


@pytest.mark.skipif(not SCRIPT.exists(), reason="the studies are not part of an installed package")
def test_the_readme_shows_what_was_counted() -> None:
    script, readme = runpy.run_path(str(SCRIPT)), (ROOT / "README.md").read_text()
    content = json.loads((SCRIPT.parent / "results" / "value.json").read_text())
    assert script["with_coverage"](readme, content) == readme, "run python validity/page.py"
    values = [cell for cell in content["cells"] if cell["method"] == "value"]
    missing = [cell for cell in values if cell["verdict"] not in ("holds", "exact", "told")]
    assert f"all {len(values)} cells ({len(missing)} fail its criterion)" in readme
    with pytest.raises(ValueError, match="no place"):
        script["with_coverage"]("# inferl", content)
