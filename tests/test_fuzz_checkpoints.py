"""Damaged and forged files: refused by name, or usable; never a crash, a hang, or more memory than the file has bytes.

A short part of the campaign of `make fuzz`, always the same.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from fuzz_checkpoints import BAD, SORTS, Input, campaign, judged, samples

INPUTS = 250


def test_damaged_and_forged_files_do_no_harm() -> None:
    found: Counter[tuple[str, str]] = Counter()
    bad = []
    for number, sort, kind, outcome, message in campaign(range(INPUTS)):
        found[outcome, sort] += 1
        if outcome in BAD:
            bad.append(f"{number} {sort}, {kind}: {outcome}: {message}")
    assert not bad, "\n".join(bad)
    # Not everything is refused, or nothing would be tried.
    assert all(found["refused", sort] > INPUTS / 10 for sort in SORTS), found
    assert sum(found["used", sort] for sort in SORTS) > INPUTS / 20, found


@pytest.mark.filterwarnings("ignore")
def test_the_files_are_sound_before_they_are_changed(tmp_path: Path) -> None:
    for kind, sample in samples().items():
        assert judged(Input(kind, "damage", sample.content, sample), tmp_path) == ("used", ""), kind
