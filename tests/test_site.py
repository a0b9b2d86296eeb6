"""The web site: it builds without warnings, has every page and name, and fits the screens that people have."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from chromium import BROWSER, Page, browsing
from test_documentation import DOCS, PAGES, public

pytestmark = [
    pytest.mark.docs,
    pytest.mark.skipif(not PAGES, reason="the documentation is not part of an installed package"),
]
WIDTHS = (390, 1024, 1366, 1440)  # a phone, a tablet, two laptops


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the site, built anew; warnings are errors."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-E", "-d", str(folder / "cache")]
    done = subprocess.run([*command, "-b", "html", str(DOCS), str(folder / "html")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder / "html"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    if BROWSER is None:
        pytest.skip("there is no Chromium (on Debian: apt-get install chromium)")
    with browsing(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


def test_every_page_and_name_is_there(site: Path) -> None:
    written = {path.relative_to(site).with_suffix("") for path in site.rglob("*.html")}
    assert {page.relative_to(DOCS).with_suffix("") for page in PAGES} <= written
    names = {name for name, thing in public() if not isinstance(thing, ModuleType)}
    groups = {path: path.read_text() for path in (site / "api").glob("*.html")}
    assert [name for name in names if sum(f'id="inferl.{name}"' in page for page in groups.values()) != 1] == []
    table = (site / "api.html").read_text()
    linked = set(re.findall(r'href="(api/\w+\.html)#inferl\.([\w.]+)"', table))
    assert names <= {name for page, name in linked if f'id="inferl.{name}"' in groups[site / page]}


def test_pages_of_the_root_are_on_the_site_and_their_links_lead_to_its_pages(site: Path) -> None:
    found = (site / "contributing.html").read_text()
    assert "How the code is organised" in found
    for page in ("changelog.html", "conduct.html", "security-policy.html", "adding-an-algorithm.html", "api.html"):
        assert re.search(rf'<a class="reference internal" href="{page}', found), page
    changes = (site / "changelog.html").read_text()
    assert 'href="guides/service.html"' in changes
    for text in (found, changes, (site / "security-policy.html").read_text()):
        assert "reference download" not in text


def test_no_property_of_the_reference_has_a_type_that_is_a_sentence(site: Path) -> None:
    """Types are in the text. What napoleon calls one is what a first line says before a colon."""
    pages = [path.name for path in site.rglob("*.html") if re.search(r"Type:</span>|Type<span", path.read_text())]
    assert pages == []


def test_no_paragraph_of_the_reference_became_a_parameter(site: Path) -> None:
    """As one does that follows the parameters of a docstring without a heading of its own."""
    parameter = re.compile(r"<p><strong>([^<]+)</strong> (?:\(|–)")
    found = {path.name: parameter.findall(path.read_text()) for path in (site / "api").glob("*.html")}
    assert sum(map(len, found.values())) > 300
    name = r"\**[A-Za-z_]\w*"
    odd = {page: [one for one in names if not re.fullmatch(f"{name}(, {name})*", one)] for page, names in found.items()}
    assert {page: names for page, names in odd.items() if names} == {}


def test_no_page_fetches_something_from_elsewhere(site: Path) -> None:
    outside = re.compile(r"""<(?:script|img|link)[^>]*(?:src|href)=["']https?://""")
    for path in site.rglob("*.html"):
        assert not outside.search(path.read_text()), path.name


def test_every_page_has_the_icon(site: Path) -> None:
    assert 'href="_static/favicon.svg"' in (site / "index.html").read_text()
    assert (site / "_static" / "favicon.svg").exists()


@pytest.mark.browser
@pytest.mark.parametrize("width", WIDTHS)
def test_no_page_scrolls_sideways(site: Path, page: Page, width: int) -> None:
    page.look(width, 900)
    wide = {}
    for path in sorted(site.rglob("*.html")):
        page.open(path.as_uri())
        needed = page.run("document.documentElement.scrollWidth")
        if needed > width:
            wide[str(path.relative_to(site))] = needed
    assert wide == {}
