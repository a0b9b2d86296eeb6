"""A short part of the campaign of `fuzz_doors.py`: nothing rotten is taken, nothing foreign raised, nothing lost."""

from __future__ import annotations

from collections import Counter

from fuzz_doors import BAD, DOORS, campaign

INPUTS = 2500


def test_every_door_takes_what_is_sound_and_refuses_what_is_rotten_by_name() -> None:
    found = list(campaign(range(INPUTS), seed=1))
    assert [one for one in found if one.outcome in BAD] == []
    seen = Counter((one.group, one.outcome) for one in found)
    for door in DOORS:
        assert seen[door, "taken"] > 0
        assert seen[door, "refused"] > 10
