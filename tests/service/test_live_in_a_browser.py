"""The live page in a real browser, while transitions arrive and the server comes and goes."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chromium import BROWSER, Page, browsing
from PIL import Image
from serving import Server, served

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(BROWSER is None, reason="there is no Chromium (on Debian: apt-get install chromium)"),
]

EXPERIMENTS = """\
[experiments.new-ranking]
state = "s"
n-states = 3
discount = 0.9
target = "0"
thresholds = [4.0]
ratio = "w"
every = "0.2s"

[experiments.old-ranking]
state = "s"
n-states = 3
discount = 0.9
target = "0"
every = "0.2s"

[experiments.logged-wrongly]
state = "s"
n-states = 3
discount = 0.9
target = "0"
ratio = "w"
every = "0.2s"
"""
WINDOW = """\
[experiments.latest]
state = "s"
n-states = 3
discount = 0.5
target = "0"
window = 5
pane = 1000
thresholds = [0.5]
every = "0.2s"
"""
PATH = "/v1/experiments/latest/transitions"
STATE = "document.getElementById('connection').dataset.state"
ESTIMATES = "[...document.querySelectorAll('.estimate')].map((one) => one.textContent)"
CHARTS = "document.querySelectorAll('.over-time svg').length"
MEASURED = """(() => {
  const seen = (element) => getComputedStyle(element);
  const shown = (selector) => [...document.querySelectorAll(selector)].filter((one) => one.getClientRects().length);
  return {
    wide: document.documentElement.scrollWidth,
    paper: seen(document.body).backgroundColor, ink: seen(document.body).color,
    words: shown(".verdict, .muted, .bounds, .question, .decisions li, .legend li, svg text, dt, summary, a").map(
      (one) => one instanceof SVGElement ? seen(one).fill : seen(one).color),
    curves: shown("svg .line").map((one) => seen(one).stroke),
    heights: shown("svg text").map((one) => one.getBoundingClientRect().height),
    overlapping: shown(".over-time svg").map((chart) => {
      const boxes = [...chart.querySelectorAll("text")].map((one) => one.getBoundingClientRect());
      const meet = (one, other) => one.left < other.right && other.left < one.right
        && one.top < other.bottom - 3 && other.top < one.bottom - 3;
      return boxes.some((one, i) => boxes.some((other, k) => i < k && meet(one, other)));
    }),
  };
})()"""


class Fed:
    """A server that is fed with a policy of three states."""

    def __init__(self, server: Server) -> None:
        self.server, self.rng, self.sequence = server, np.random.default_rng(0), 0

    def feed(self, n: int) -> None:
        """Send rows to every experiment."""
        self.sequence += 1
        for name, mean, wrong in (("new-ranking", 0.6, 1.0), ("old-ranking", 0.5, 1.0), ("logged-wrongly", 0.5, 1.1)):
            columns = (
                self.rng.integers(3, size=n),
                self.rng.normal(mean, 0.5, n),
                wrong * self.rng.choice([0.5, 1.5], n),
            )
            rows = [
                {"s": s, "reward": r, "w": w} for s, r, w in zip(*(column.tolist() for column in columns), strict=True)
            ]
            headers = {
                "Inferl-Client": "one",
                "Inferl-Sequence": str(self.sequence),
                "Content-Type": "application/x-ndjson",
            }
            body = "\n".join(map(json.dumps, rows)).encode()
            assert self.server.ask("POST", f"/v1/experiments/{name}/transitions", body, headers)[0] == 200


@pytest.fixture(scope="module")
def fed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fed]:
    with served(tmp_path_factory.mktemp("live"), experiments=EXPERIMENTS) as server:
        found = Fed(server)
        for _ in range(4):
            found.feed(1500)
            server.wait_for(1500 * found.sequence, "logged-wrongly")
        yield found


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Page]:
    with browsing(tmp_path / "profile") as found:
        found.look(1280, 900)
        yield found


def contrast(one: str, other: str) -> float:
    """Contrast ratio of two colours, from 1 to 21 (WCAG 2)."""
    light = []
    for colour in (one, other):
        rgb = np.array([float(x) for x in re.findall(r"[\d.]+", colour)[:3]]) / 255
        linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
        light.append(float(linear @ [0.2126, 0.7152, 0.0722]))
    return (max(light) + 0.05) / (min(light) + 0.05)


def texts(snapshots: list[Any]) -> list[str]:
    return [one["targets"][0]["text"]["anytime"].partition(" ")[0] for one in snapshots]


def test_the_numbers_follow_what_arrives(fed: Fed, page: Page) -> None:
    page.open(fed.server.url)
    page.wait(CHARTS, lambda n: n == 3)
    before = page.run(ESTIMATES)
    drawn = page.run("document.querySelector('.over-time .line').getAttribute('d')")
    fed.feed(3000)
    page.wait(ESTIMATES, lambda now: now != before)
    names = ("new-ranking", "old-ranking", "logged-wrongly")
    fed.server.wait_for(sum((1500, 1500, 1500, 1500, 3000)), "logged-wrongly")
    page.wait(ESTIMATES, lambda now: now == texts([fed.server.state(name)["snapshot"] for name in names]))
    page.wait("document.querySelector('.over-time .line').getAttribute('d')", lambda now: now != drawn)
    text = page.run("document.getElementById('experiment-new-ranking').innerText")
    snapshot = fed.server.state("new-ranking")["snapshot"]
    bounds = snapshot["targets"][0]["text"]["anytime"].partition(" ")[2]
    assert bounds in text
    assert f"{snapshot['n']:,}" in text
    assert "above 4" in text
    assert f"lies between {bounds[1:-1].replace(', ', ' and ')}, with 95% confidence, however often you look." in text
    wrong = page.run("document.getElementById('experiment-logged-wrongly').innerText")
    assert "Do not rely on this interval as it stands" in wrong
    assert "Are these the importance ratios of the data?" in wrong
    assert "What to do:" in wrong
    differences = page.run("document.getElementById('differences').innerText")
    assert "old-ranking is smaller" in differences
    page.run("document.getElementById('reference').value = 'old-ranking'")
    page.run("document.getElementById('reference').dispatchEvent(new Event('change'))")
    page.wait("document.getElementById('differences').innerText", lambda now: "new-ranking is larger" in now)
    assert page.problems == []
    assert {address.split("/")[2] for address in page.requested} == {f"127.0.0.1:{fed.server.port}"}


def test_it_says_that_it_is_not_connected_and_connects_again(tmp_path: Path, page: Page) -> None:
    with served(tmp_path, experiments=EXPERIMENTS) as server:
        fed = Fed(server)
        fed.feed(500)
        page.open(server.url)
        page.wait(CHARTS, lambda n: n == 3)
        assert page.run(STATE) == "live"
        before = page.run(ESTIMATES)
        server.kill()
        page.wait(STATE, lambda state: state == "lost")
        assert (
            page.run("document.getElementById('connection').innerText").strip() == "not connected: the numbers are old"
        )
        assert page.run(ESTIMATES) == before
        server.start()
        page.wait(STATE, lambda state: state == "live")
        fed.feed(2000)
        page.wait(ESTIMATES, lambda now: len(now) == 3 and now != before)
        # The browser notes that the server was away; nothing else is wrong.
        assert all("net::ERR_" in problem for problem in page.problems), page.problems


def test_a_token_is_asked_for_and_kept_in_the_tab_only(
    tmp_path: Path, page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INFERL_READ_TOKEN", "a token to read with")
    with served(tmp_path, experiments=EXPERIMENTS) as server:
        page.open(server.url)
        page.wait("!document.getElementById('login').hidden")
        enter = "document.getElementById('token').value = {!r}; document.querySelector('#login button').click()"
        page.run(enter.format("a wrong token, long enough"))
        page.wait("document.querySelector('.wrong').textContent", lambda text: "does not know this token" in text)
        assert page.run("document.querySelector('main').hidden")
        page.run(enter.format("a token to read with"))
        page.wait("document.querySelectorAll('article').length", lambda n: n == 3)
        assert page.run("sessionStorage.length") == 1
        assert page.run("document.cookie + localStorage.length") == "0"
        assert not any("token" in address for address in page.requested)  # addresses are kept in logs
        page.run("window.before = true; location.reload()")
        page.wait("window.before ? 0 : document.querySelectorAll('article').length", lambda n: n == 3)
        page.run("window.before = true; document.getElementById('forget').click()")
        page.wait("!window.before && document.getElementById('login')?.hidden === false")
        assert page.run("sessionStorage.length") == 0


def test_a_chart_can_be_read_with_the_keyboard(fed: Fed, page: Page) -> None:
    page.open(fed.server.url)
    page.wait(CHARTS, lambda n: n == 3)
    focused = "document.activeElement.className || document.activeElement.tagName"
    seen = []
    for _ in range(12):
        page.key("Tab")
        seen.append(page.run(focused))
        if "over-time" in seen[-1]:
            break
    assert "plot over-time" in seen, seen
    page.key("ArrowLeft")
    latest = page.run("document.querySelector('.readout').textContent")
    assert "transitions: " in latest
    page.key("ArrowLeft")
    assert page.run("document.querySelector('.readout').textContent") != latest
    page.key("Escape")
    assert page.run("document.querySelector('.readout').textContent") == ""
    unnamed = """[...document.querySelectorAll("input, select, button, [tabindex], [role=img]")].filter(
      (one) => !one.labels?.length && !one.textContent.trim() && !one.getAttribute("aria-label")
    ).map((one) => one.outerHTML)"""
    page.run("document.querySelector('.ratios').open = true")
    page.wait("document.querySelector('.ratios svg') !== null")
    assert page.run(unnamed) == ['<div class="plot" role="img"></div>'] * 2  # of closed parts
    label = page.run("document.querySelector('.over-time').getAttribute('aria-label')")
    assert label.startswith("new-ranking: the estimate with its 95% intervals over time; now ")


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("dark", [False, True])
def test_it_fits_and_can_be_read(width: int, dark: bool, fed: Fed, page: Page, tmp_path: Path) -> None:
    page.look(width, 900, dark)
    page.open(fed.server.url)
    page.wait(CHARTS, lambda n: n == 3)
    page.run("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    page.wait("document.querySelectorAll('.ratios .bar').length > 0")
    found = page.run(MEASURED)
    assert found["wide"] <= width
    assert (contrast(found["paper"], "rgb(0, 0, 0)") < 3) == dark
    assert contrast(found["ink"], found["paper"]) > 10
    assert min(contrast(colour, found["paper"]) for colour in found["words"]) > 4.5
    assert min(contrast(colour, found["paper"]) for colour in found["curves"]) > 3
    assert min(found["heights"]) > 11
    assert not any(found["overlapping"])
    page.shoot(tmp_path / "shot.png")
    with Image.open(tmp_path / "shot.png") as image:
        pixels = np.asarray(image.convert("RGB"), np.int64)
    blue = (86, 180, 233) if dark else (0, 114, 178)
    assert (np.abs(pixels - blue).sum(axis=2) < 10).sum() > 500
    assert pixels[0, 0].mean() < 60 if dark else pixels[0, 0].mean() > 240


def test_it_says_how_to_begin_and_when_the_value_changed(tmp_path: Path, page: Page) -> None:
    with served(tmp_path, experiments=WINDOW) as server:
        page.open(server.url)
        words = "document.querySelector('.words')?.textContent"
        page.wait(words, lambda text: text == "No answer yet. Send rows, one a line:")
        command = page.run("document.querySelector('.begin').textContent")
        assert command.startswith(f"curl {server.url}{PATH} ")
        assert '{"s": ..., "reward": ...}' in command
        filled = command.replace('"s": ...', '"s": 0').replace('"reward": ...', '"reward": 0.5')
        done = subprocess.run(["sh", "-c", filled], capture_output=True, text=True, timeout=60)
        assert json.loads(done.stdout)["rows"] == 1
        rng, rows = np.random.default_rng(0), 0
        for sequence, mean in enumerate([1.0] * 8 + [0.5] * 3, 1):
            states, rewards = rng.integers(3, size=1000).tolist(), rng.normal(mean, 0.5, 1000).tolist()
            body = "\n".join(json.dumps({"s": s, "reward": r}) for s, r in zip(states, rewards, strict=True)).encode()
            said = {"Inferl-Client": "one", "Inferl-Sequence": str(sequence), "Content-Type": "application/x-ndjson"}
            assert server.ask("POST", PATH, body, said)[0] == 200
            rows += 1000
            server.wait_for(rows, "latest")
        change = server.state("latest")["snapshot"]["change"]
        begin = f"The value changed by {change['text']}, about "
        page.wait("document.querySelector('.changed').textContent", lambda text: text.startswith(begin))
        assert page.run("document.querySelectorAll('.over-time .change').length") == 1
        text = page.run("document.querySelector('article').innerText")
        assert "for one look: a window has no anytime interval" in text
        assert "Has the value changed?" in text
        assert "at all times" not in text
        assert page.problems == []


def test_the_overview_compares_like_with_like_and_each_with_its_own_thresholds(tmp_path: Path, page: Page) -> None:
    others = "".join(
        f'[experiments.{name}]\nstate = "s"\nn-states = 3\ndiscount = {discount}\ntarget = "0"\n{more}every = "0.2s"\n'
        for name, discount, more in (("one", 0.5, "thresholds = [1.9]\n"), ("long", 0.99, ""), ("young", 0.5, ""))
    )
    with served(tmp_path, experiments=WINDOW.replace("[0.5]", "[1.8]") + others) as server:
        rng = np.random.default_rng(0)
        states, rewards = rng.integers(3, size=6000).tolist(), rng.normal(1.0, 0.5, 6000).tolist()
        rows = [json.dumps({"s": s, "reward": r}) for s, r in zip(states, rewards, strict=True)]
        for name, n in (("latest", 6000), ("one", 6000), ("long", 6000), ("young", 40)):
            said = {"Inferl-Client": "one", "Inferl-Sequence": "1", "Content-Type": "application/x-ndjson"}
            body = "\n".join(rows[:n]).encode()
            assert server.ask("POST", f"/v1/experiments/{name}/transitions", body, said)[0] == 200
            server.wait_for(n, name)
        page.open(server.url)
        every = "[...document.querySelectorAll('#side-by-side > div')].map((group) => group.innerText)"
        groups = page.wait(every, lambda found: len(found) == 3)
        window, one, long = groups
        assert window.startswith("The value at given features: the projected fixed point, in the window, discount 0.5")
        assert one.startswith("The value at given features: the projected fixed point, discount 0.5")
        assert long.startswith("The value at given features: the projected fixed point, discount 0.99")
        assert "for one look, above 1.8" in window
        assert "for one look" not in one + long
        assert "above 1.9" in one
        assert "gathering data" in one
        rows_of = "[...document.querySelectorAll('#side-by-side li:not(.axis)')]"
        marks, thin = (f"{rows_of}.map((row) => row.querySelectorAll('{line}').length)" for line in (".mark", ".thin"))
        assert page.run(marks) == [0, 1, 0, 0]  # 1.8 is far away from the window's
        assert page.run(thin) == [0, 1, 1, 1]
        young = page.run("document.getElementById('experiment-young').innerText")
        assert f"Gathering data: {server.state('young')['n']} of 250 transitions." in young
        assert page.problems == []
