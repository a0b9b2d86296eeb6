"""A short part of the campaign of `kill_drivers.py`: a driver is killed, and started again."""

from __future__ import annotations

from pathlib import Path

from kill_drivers import campaign


def test_a_killed_driver_goes_on_with_the_same_bits(tmp_path: Path) -> None:
    seen = list(campaign(kills=2, seed=1, folder=tmp_path, rows=60_000))
    assert sum(not ended for _, ended in seen) == 2
    assert any(ended for _, ended in seen)
