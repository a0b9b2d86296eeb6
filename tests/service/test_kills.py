"""A server that is killed under senders that die, too: the short form of `kill_service.py`."""

from __future__ import annotations

from pathlib import Path

import pytest
from kill_service import campaign


@pytest.mark.integrations
def test_what_was_confirmed_counts_once_through_kills(tmp_path: Path) -> None:
    found = campaign(tmp_path, kills=4, seed=1)
    assert (found.kills, found.recorded_once, found.unconfirmed, found.same_bits) == (4, True, 0, True)
    assert found.rows > 100
