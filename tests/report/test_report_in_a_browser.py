"""The report page in a real browser: its numbers, its width on a phone, its colours, its printed form."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pages import Node, tree
from PIL import Image
from pyarrow import parquet
from typer.testing import CliRunner

from inferl.cli import app

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(BROWSER is None, reason="there is no Chromium (on Debian: apt-get install chromium)"),
]

# Added to a copy of the page: measurements that only a browser can make.
MEASURE = """<script>
const seen = element => getComputedStyle(element);
parent.postMessage(JSON.stringify({
  window: innerWidth, page: document.documentElement.scrollWidth,
  requests: performance.getEntriesByType("resource").length,
  paper: seen(document.body).backgroundColor, ink: seen(document.body).color,
  colours: [...document.querySelectorAll(".verdict, .muted, svg text")].map(
    element => element instanceof SVGElement ? seen(element).fill : seen(element).color),
  curves: [...document.querySelectorAll("svg .line")].map(element => seen(element).stroke),
  words: Math.min(...[...document.querySelectorAll("svg text")].map(element => element.getBoundingClientRect().height)),
  charts: [...document.querySelectorAll("svg")].map(element => element.getBoundingClientRect().width),
}), "*");
</script>"""
# A window is at least 500 wide, even without a screen; a frame in it may be as narrow as a phone.
FRAME = """<html><body><script>onmessage = event => document.documentElement.dataset.seen = event.data;</script>
<iframe src="measured.html" style="border: 0; width: WIDTHpx; height: 900px"></iframe></body></html>"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """Two runs, one of them off-policy, on one page; and the output of the command."""
    folder = tmp_path_factory.mktemp("page")
    rng = np.random.default_rng(0)
    columns = {"s": rng.integers(3, size=5000), "reward": rng.normal(size=5000), "w": rng.choice([0.5, 1.5], size=5000)}
    parquet.write_table(pa.table(columns), folder / "log.parquet")
    options = ["--state", "s", "--n-states", "3", "--discount", "0.9"]
    runs = {"a long name for a run without ratios": [], "off-policy": ["--ratio", "w"]}
    for name, more in runs.items():
        command = ["evaluate", str(folder / "log.parquet"), *options, *more]
        assert CliRunner().invoke(app, [*command, "--checkpoint", str(folder / f"{name}.run")]).exit_code == 0
    page = folder / "page.html"
    said = CliRunner().invoke(app, ["report", *(str(folder / f"{name}.run") for name in runs), "--output", str(page)])
    assert said.exit_code == 0
    return page, said.stdout.splitlines()[:-1]


def browse(page: Path, *options: str) -> str:
    """Open a page in a headless browser, and return its output."""
    assert BROWSER is not None
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run"]
    profile = f"--user-data-dir={page.parent / 'profile'}"
    done = subprocess.run(
        [*command, profile, *options, page.as_uri()], capture_output=True, text=True, timeout=120, check=True
    )
    return done.stdout


def measured(page: Path, width: int, dark: bool = False) -> dict[str, Any]:
    page.with_name("measured.html").write_text(page.read_text().replace("</body>", f"{MEASURE}</body>"))
    frame = page.with_name("frame.html")
    frame.write_text(FRAME.replace("WIDTH", str(width)))
    scheme = f"--blink-settings=preferredColorScheme={0 if dark else 1}"
    found: Node = tree(
        browse(frame, "--window-size=1400,1000", scheme, "--virtual-time-budget=5000", "--dump-dom")
    ).all("html")[0]
    return dict(json.loads(found.attributes["data-seen"]))


def contrast(one: str, other: str) -> float:
    """Contrast ratio of two colours, from 1 to 21 (WCAG 2)."""
    light = []
    for colour in (one, other):
        rgb = np.array([float(x) for x in re.findall(r"[\d.]+", colour)[:3]]) / 255
        linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
        light.append(float(linear @ [0.2126, 0.7152, 0.0722]))
    return (max(light) + 0.05) / (min(light) + 0.05)


def test_the_browser_shows_what_the_command_printed(made: tuple[Path, list[str]]) -> None:
    page, printed = made
    seen = tree(browse(page, "--dump-dom"))
    boxes = [
        " ".join(box.all(cls=cls)[0].text for cls in ("estimate", "bounds", "muted")) for box in seen.all(cls="answer")
    ]
    assert [line.split(": ", 1)[1] for line in printed] == boxes
    assert len(boxes) == 2


@pytest.mark.parametrize("width", [390, 1200])
@pytest.mark.parametrize("dark", [False, True])
def test_it_fits_and_can_be_read(width: int, dark: bool, made: tuple[Path, list[str]]) -> None:
    seen = measured(made[0], width, dark)
    assert seen["window"] == width
    assert seen["page"] <= width  # nothing overflows
    assert seen["requests"] == 0
    assert (contrast(seen["paper"], "rgb(0, 0, 0)") < 3) == dark
    assert contrast(seen["ink"], seen["paper"]) > 10
    assert min(contrast(colour, seen["paper"]) for colour in seen["colours"]) > 4.5
    assert len(seen["curves"]) == 4  # two over time, one of dependence for each
    assert min(contrast(colour, seen["paper"]) for colour in seen["curves"]) > 3
    assert seen["words"] > 11  # height of a curve in pixels
    assert min(seen["charts"]) > 300


@pytest.mark.parametrize("dark", [False, True])
def test_pictures_are_painted(dark: bool, made: tuple[Path, list[str]]) -> None:
    shot = made[0].with_name("shot.png")
    scheme = f"--blink-settings=preferredColorScheme={0 if dark else 1}"
    browse(made[0], "--window-size=1200,3000", scheme, f"--screenshot={shot}")
    with Image.open(shot) as image:
        pixels = np.asarray(image.convert("RGB"), np.int64)
    blue = (86, 180, 233) if dark else (0, 114, 178)
    assert (np.abs(pixels - blue).sum(axis=2) < 10).sum() > 1000
    assert pixels[0, 0].mean() < 60 if dark else pixels[0, 0].mean() > 240


def test_it_prints(made: tuple[Path, list[str]]) -> None:
    pdf = made[0].with_name("page.pdf")
    browse(made[0], "--no-pdf-header-footer", f"--print-to-pdf={pdf}")
    content = pdf.read_bytes()
    assert content.startswith(b"%PDF")
    assert 2 <= len(re.findall(rb"/Type\s*/Page\b", content)) <= 8
