"""``inferl report``: a page that needs nothing else, and shows the numbers that the commands print."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from logs import small_log
from pages import Node, tree
from pyarrow import parquet
from typer.testing import CliRunner

import inferl
from inferl.cli import app
from inferl.comparison import verdict
from inferl.runs import Run

runner = CliRunner(env={"COLUMNS": "80", "FORCE_COLOR": None})


def invoke(*words: str, code: int = 0) -> str:
    result = runner.invoke(app, list(words))
    assert result.exit_code == code, result.output
    return result.output


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of three kinds: on-policy; off-policy with two policies on one log; a bootstrap whose checks fail."""
    folder = tmp_path_factory.mktemp("runs")
    rng = np.random.default_rng(0)
    n = 3000
    noise = rng.normal(size=n)
    slow = [0.0]
    for shock in noise[1:]:
        slow.append(0.9 * slow[-1] + shock)
    columns = {"s": rng.integers(3, size=n), "one": np.ones(n), "reward": noise, "slow": slow}
    columns |= {"w": rng.choice([0.5, 1.5], size=n), "v": rng.choice([0.0, 2.0], size=n), "wild": rng.pareto(1.1, n)}
    parquet.write_table(pa.table(columns), folder / "log.parquet")
    log = str(folder / "log.parquet")
    table = ("--state", "s", "--n-states", "3", "--discount", "0.9")
    invoke("evaluate", log, *table, "--checkpoint", str(folder / "plain.run"))
    invoke("evaluate", log, *table, "--ratio", "w,v", "--checkpoint", str(folder / "two.run"))
    options = ("--features", "one,", "--reward", "slow", "--ratio", "wild", "--discount", "0.5")
    method = ("--method", "bootstrap", "--step-size", "0.001", "--checkpoint", str(folder / "bad.run"))
    invoke("evaluate", log, *options, *method)
    return folder


def reported(folder: Path, *names: str) -> tuple[list[str], Node, str]:
    """Run the command; return the lines that it printed, and the page."""
    page = folder / "page.html"
    lines = invoke("report", *(str(folder / f"{name}.run") for name in names), "--output", str(page)).splitlines()
    assert lines[-1] == f"Page: {page}"
    html = page.read_text()
    return [line for line in lines[:-1] if "note: " not in line], tree(html), html


def answers(page: Node) -> list[str]:
    """The intervals that a page shows, in the words of the shell."""
    return [
        f"{box.all(cls='estimate')[0].text} {box.all(cls='bounds')[0].text} {box.all(cls='muted')[0].text}"
        for box in page.all(cls="answer")
    ]


@pytest.mark.parametrize("names", [("plain",), ("two",), ("bad",), ("plain", "bad"), ("two", "plain", "bad")])
def test_the_page_shows_the_numbers_that_were_printed(names: tuple[str, ...], folder: Path) -> None:
    printed, page, _ = reported(folder, *names)
    assert [line.split(": ", 1)[1] for line in printed] == answers(page)
    expected = [str(one).splitlines()[0] for name in names for one in Run.load(folder / f"{name}.run").interval()]
    assert answers(page) == expected
    last = [table.all("tr")[-1].all("td") for table in page.all(cls="readings")]
    shown = [cell.text for row in last for cell in row[1:]]
    assert shown == [re.match(r".*?\]", line)[0] for line in expected]  # type: ignore[index]


@pytest.mark.parametrize("names", [("plain",), ("two", "bad")])
def test_the_page_needs_nothing_else(names: tuple[str, ...], folder: Path) -> None:
    _, page, html = reported(folder, *names)
    assert not re.search(r"https?:|//|@import|javascript", html)
    assert all(link.startswith("#") for link in re.findall(r"url\((.*?)\)", html))
    assert not [node for tag in ("script", "link", "img", "iframe", "object") for node in page.all(tag)]
    marks = [node.attributes["id"] for node in page.all() if "id" in node.attributes]
    assert len(marks) == len(set(marks)) > 1
    assert len(html) < 100_000


def test_checks_have_lights_and_remedies(folder: Path) -> None:
    _, page, _ = reported(folder, "bad")
    report = Run.load(folder / "bad.run").report()
    items = page.all(cls="checks")[0].all("li")
    assert len(items) == len(report.checks) == 13
    colours = {"passed": "green", "failed": "red", "not available": "amber"}
    for item, check in zip(items, report.checks, strict=True):
        assert check.message in item.text
        assert check.name in item.text
        assert item.attributes["class"] == colours[check.status]
        assert check.failed == ("What to do:" in item.text)
        assert check.remedy in item.text
    failed = [check.name for check in report.checks if check.failed]
    assert {"convergence", "ratios"} <= set(failed)
    (verdict,) = page.all(cls="verdict")
    assert verdict.text.startswith("Do not rely on this interval as it stands")
    assert f"{len(failed)} checks failed ({', '.join(failed)})" in verdict.text
    # A log without episodes has an answer of the features alone, and nothing to tell whether they are right.
    words = "No check failed, but 2 could not be made: drift, features."
    assert reported(folder, "plain")[1].all(cls="verdict")[0].text == words


def test_pictures_show_what_the_run_holds(folder: Path) -> None:
    _, page, _ = reported(folder, "two")
    run = Run.load(folder / "two.run")
    time, dependence, ratios = page.all("svg")
    titles = [title.text for title in time.all("title")]
    assert len(titles) == 2 * len(run.readings) > 20
    assert titles[0].startswith("100 transitions: ")
    levels = run.levels()
    assert levels is not None
    assert len(dependence.all(cls="ring")) == 2
    lengths = sorted({2 ** int(share.argmax()) for share in levels.share.T})
    assert f"most on blocks of {' and '.join(map(str, lengths))} (ringed)" in page.text
    assert f"{levels.blocks[0]} blocks of 1 steps: 1 times" in dependence.all("title")[0].text
    heights = [float(bar.attributes["height"]) for bar in ratios.all(cls="bar")]
    assert len(heights) == 2 * 9  # from 0 to 4 in powers of 2, for both policies
    cells = [[cell.text for cell in row.all("td")] for row in page.all(cls="numbers")[0].all("tr")]
    assert cells[2] == ["1.5", "2"]  # the largest ratios
    assert "Each policy minus w, from the same data" in page.text


def test_several_runs_are_compared_with_the_first(folder: Path) -> None:
    lake = ("rollout", "FrozenLake-v1", "--episodes", "60")
    for seed in (1, 2, 3):
        invoke(*lake, "--seed", str(min(seed, 2)), "--checkpoint", str(folder / f"lake{seed}.run"), "--json")
    _, page, _ = reported(folder, "lake1", "lake2", "plain")
    (section,) = page.all(cls="apart")
    (heading,) = section.all("h2")
    assert heading.text == "How far apart? Each run minus lake1"
    other, first = (Run.load(folder / f"{x}.run") for x in ("lake2", "lake1"))
    expected = inferl.compare({"lake2": other, "lake1": first}).difference("lake2", "lake1")
    doubt = ", but a check of one of them failed" if expected.notes else ""
    assert f"lake2: {str(expected).splitlines()[0]} ; {verdict(expected, 'lake2')}{doubt}." in section.text
    assert "plain: the discounts differ" in section.text
    same = reported(folder, "lake2", "lake3")[1].all(cls="apart")[0].text  # one seed: every episode was the same
    assert "lake3: 0.0000 [0.0000, 0.0000]" in same
    assert "a check of one of them failed" in same
    assert "this run is a run of several policies" in reported(folder, "plain", "two")[1].all(cls="apart")[0].text
    assert not reported(folder, "plain")[1].all(cls="apart")


def test_settings_and_provenance_are_told(folder: Path) -> None:
    _, page, _ = reported(folder, "bad")
    facts = {row.all("th")[0].text: row.all("td")[0].text for table in page.all(cls="facts") for row in table.all("tr")}
    assert facts["step-size"] == "0.001"
    assert facts["file"].endswith("log.parquet")
    assert facts["rows dropped"].startswith("1: ")
    assert facts["inferl"] == inferl.__version__
    assert facts["begun"].startswith("20")


def test_on_policy_there_are_no_ratios_to_show(folder: Path) -> None:
    _, page, _ = reported(folder, "plain")
    assert "All ratios are 1" in page.text
    assert len(page.all("svg")) == 2


def test_names_are_escaped(folder: Path, tmp_path: Path) -> None:
    odd = tmp_path / "<b>&.run"
    odd.write_bytes((folder / "plain.run").read_bytes())
    invoke("report", str(odd), "--output", str(tmp_path / "page.html"))
    page = tree((tmp_path / "page.html").read_text())
    assert page.all("h1")[0].text.startswith("<b>&")


def test_a_run_that_has_hardly_begun_has_a_page_too(tmp_path: Path) -> None:
    parquet.write_table(pa.table({"s": [0, 1, 0], "reward": [1.0, 0.0, 1.0]}), tmp_path / "log.parquet")
    run = str(tmp_path / "short.run")
    invoke("evaluate", str(tmp_path / "log.parquet"), "--state", "s", "--n-states", "2", "--checkpoint", run)
    invoke("report", run)
    page = tree((tmp_path / "short.html").read_text())  # beside the run
    assert answers(page)[0].endswith("[-inf, inf] 95% pointwise, 2 transitions")
    assert "there are too few of them yet" in page.text


def test_bad_input_is_one_line(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = str(folder / "plain.run")
    assert "given twice" in invoke("report", run, run, code=2)
    assert "there is no folder" in invoke("report", run, "--output", str(tmp_path / "nowhere" / "a.html"), code=2)
    assert "No such file" in invoke("report", str(tmp_path / "none.run"), code=2)
    monkeypatch.setitem(sys.modules, "jinja2", None)
    monkeypatch.chdir(tmp_path)
    assert invoke("report", run, code=2) == "inferl: jinja2 is not installed: pip install 'inferl[report]'\n"


def test_policies_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    parquet.write_table(small_log(), "log.parquet")
    options = ["--state", "s", "--n-states", "3", "--ratio", "a,b", "--checkpoint", "both.run"]
    assert runner.invoke(app, ["evaluate", "log.parquet", *options]).exit_code == 0
    printed = runner.invoke(app, ["report", "both.run"]).stdout.splitlines()
    assert [line.partition(": ")[0] for line in printed[:2]] == ["both, a", "both, b"]
