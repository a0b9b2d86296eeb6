"""What a notebook shows: every number and note, escaped, in well-formed HTML without colours of a theme."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import inferl
from inferl import TD, Evaluator, Interval, Transitions, difference
from inferl.diagnostics import Check, Report
from inferl.display import block, intervals
from inferl.runs import Run

COIN = np.random.default_rng(1).integers(2, size=2000)
HOSTILE = "<script>alert('1') & more</script>"


class Reader(HTMLParser):
    """Collects text and tags; tags must be closed in the order in which they were opened."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.text = ""
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def played() -> Evaluator:
    return Evaluator(TD(1)).update(Transitions(0 * COIN, COIN, 0 * COIN, 0.9))


def interval(**other: object) -> Interval:
    return Interval(0.412, 0.398, 0.426, 0.95, "normal", 0.007, 43210, **other)  # type: ignore[arg-type]


def test_an_interval_shows_what_it_prints() -> None:
    shown = played().interval(0)
    text = Reader(shown._repr_html_()).text
    assert str(shown) in text
    assert shown.estimand in text


def test_several_targets_are_rows_with_bars() -> None:
    states = np.random.default_rng(0).integers(3, size=900)
    shown = Evaluator(TD(3)).update(Transitions(states, states + 0.0, np.roll(states, -1), 0.5)).interval(np.eye(3))
    read = Reader(shown._repr_html_())
    assert (read.tags.count("tr"), read.tags.count("svg")) == (3, 3)
    for line in str(shown).splitlines():
        estimate, bounds = line.split(" ", 1)
        assert estimate in read.text
        assert bounds.split("]")[0] in read.text


@pytest.mark.parametrize(
    "shown",
    [
        interval(notes=(HOSTILE,), estimand=HOSTILE),
        Report(interval(), (Check(HOSTILE, "failed", HOSTILE, remedy=HOSTILE),), {HOSTILE: HOSTILE}),
    ],
    ids=["interval", "report"],
)
def test_text_is_escaped(shown: Interval | Report) -> None:
    read = Reader(shown._repr_html_())
    assert "script" not in read.tags
    assert read.text.count(HOSTILE) >= 2


def test_names_are_escaped() -> None:
    assert "script" not in Reader(intervals({HOSTILE: interval()})).tags


def test_a_report_shows_every_check_and_fact() -> None:
    report = played().report(0)
    read = Reader(report._repr_html_())
    for check in report.checks:
        assert check.message in read.text
    for name, value in report.facts.items():
        assert f"{name}{value}" in read.text
    assert read.text.count("✓") == sum(check.status == "passed" for check in report.checks)
    assert "style" not in read.tags  # colours of text and paper are those of the notebook


def test_a_run_shows_its_report(tmp_path: Path) -> None:
    run = Run(Evaluator(TD(1)), target=0)
    run.take(Transitions(0 * COIN, COIN, 0 * COIN, 0.9))
    assert run._repr_html_() == run.report()._repr_html_()
    run.to_html(tmp_path / "coin.html")
    page = (tmp_path / "coin.html").read_text("utf-8")
    assert page.startswith("<!DOCTYPE html>")
    assert "coin" in page


def test_bounds_that_are_not_finite_are_drawn() -> None:
    unknown = Interval(0.4, -np.inf, np.inf, 0.95, "normal", np.inf, 1)
    nothing = Interval(np.nan, np.nan, np.nan, 0.95, "normal", np.nan, 0)
    for named in ({"a": interval(), "b": unknown, "c": nothing}, {"c": nothing}):
        html = block(intervals(named, reference=0.0))
        assert Reader(html).tags.count("svg") == len(named)
        assert 'x1="nan"' not in html
        assert 'cx="nan"' not in html


def test_a_difference_is_an_interval_like_others() -> None:
    apart = difference(played(), 4.0, target=0)
    assert str(apart) in Reader(apart._repr_html_()).text


def test_a_result_shows_what_it_prints(tmp_path: Path) -> None:
    result = inferl.evaluate_policy("Blackjack-v1", lambda hand: int(hand[0] < 17), episodes=50)
    read = Reader(result._repr_html_())
    about, numbers = str(result).splitlines()[0].split(" mean return ")
    assert f"{about} mean return" in read.text
    assert numbers.replace("], ", "] ") in read.text
    assert all(check.message in read.text for check in result.checks)
    assert [label.get_text() for label in result.plot().get_yticklabels()] == ["Blackjack-v1"]
    result.to_html(tmp_path / "page.html")
    assert "<svg" in (tmp_path / "page.html").read_text("utf-8")
