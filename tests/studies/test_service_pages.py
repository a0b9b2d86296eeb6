"""What the pages say about the service is what its campaigns and its benchmark have counted."""

from __future__ import annotations

import time
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from studies import security
from studies.benchmarks import service
from studies.reliability.campaigns import result


def test_the_page_about_security_is_what_the_campaigns_counted() -> None:
    page = security.PAGE.read_text()
    assert security.with_counts(page) == page, "run make pages"


def test_the_campaigns_found_nothing() -> None:
    fuzzed, killed = result("fuzz_service"), result("kill_service")
    for one in (fuzzed, killed):
        assert one["passed"]
        assert one["full"]
        assert "+changes" not in one["provenance"]["commit"]
    counts = fuzzed["counts"]
    assert counts["requests"] == sum(sum(group.values()) for group in counts["groups"].values()) >= 100_000
    assert [counts[name] for name in ("500", "hung", "told too much", "wrong")] == [0, 0, 0, 0]
    assert counts["megabytes"]["most"] < 2000
    assert killed["counts"]["kills"] >= 200


def test_what_a_campaign_finds_is_said() -> None:
    fuzzed, killed = result("fuzz_service"), result("kill_service")
    fuzzed["counts"]["500"], killed["counts"]["same bits"] = 7, False
    text = security.tried(fuzzed, killed)
    assert "7 were answered with an error of the server" in text
    assert "bit for bit, to a replay of the journal: **no**" in text


def case(offered: float | None, memory: list[float], p99: float) -> dict[str, Any]:
    quantiles = {"median": 5.0, "p90": 9.0, "p99": p99, "p99.9": 90.0, "most": 99.0}
    samples = [{"seconds": k, "megabytes": m, "lag rows": 0, "lag seconds": 0.1} for k, m in enumerate(memory)]
    return {
        "offered": offered,
        "seconds": 600.0,
        "transitions": 30_000_000,
        "transitions per second": 50_000.0,
        "refused": 0,
        "milliseconds": quantiles,
        "cores of the server": 0.8,
        "cores of the senders": 0.2,
        "samples": samples,
        "evaluated": 30_000_000,
        "fdatasync": {key: {"median": 0.5, "p99": 4.0, "most": 9.0} for key in ("before", "after")},
    }


def test_goals_are_judged_by_what_was_measured() -> None:
    made_by = result("kill_service")["provenance"] | {"processor": "some"}
    good = {"provenance": made_by, "cases": [case(50_000, [150.0] * 60, 20.0), case(None, [160.0] * 60, 300.0)]}
    text = service.facts(good)
    assert "| 50,000 | 50,000 | 5 | 20 | 90 | 150 (+0.0%) | 0.1 | 0.80 | 0.20 |" in text
    assert "not met" not in text
    bad = deepcopy(good)
    bad["cases"][0] = case(50_000, [150.0 + k for k in range(60)], 201.0)
    bad["cases"][0]["transitions per second"] = 49_000.0
    assert service.facts(bad).count("**not met**") == 3


@pytest.mark.integrations
def test_the_load_is_sent_and_counted(tmp_path: Path) -> None:
    begin = time.monotonic()
    found = service.measure(2.0, 2000.0, str(tmp_path))
    assert found["transitions"] == 4000
    assert found["refused"] == 0
    assert found["milliseconds"]["median"] <= found["milliseconds"]["p99"] <= 1000 * (time.monotonic() - begin)
    assert found["evaluated"] > 3900
