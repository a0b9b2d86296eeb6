"""Hostile requests to a real server: no error of it, and no row is lost; `fuzz_service.py` is the long form."""

from __future__ import annotations

from collections import Counter

from fuzz_service import BAD, campaign, facts

SHORT = range(300)


def test_no_request_is_an_error_of_the_server_and_no_row_is_lost() -> None:
    counts: Counter[str] = Counter()
    for number, group, sort, outcome, message in campaign(SHORT, seed=3):
        assert outcome not in BAD, f"input {number}, {group}, {sort}: {outcome} {message}"
        counts[outcome] += 1
    assert counts["200"] > 0.1 * len(SHORT)
    assert counts["400"] > 0.2 * len(SHORT)
    assert counts["401"] > 0
    assert facts()["numbered rows"] > 500
