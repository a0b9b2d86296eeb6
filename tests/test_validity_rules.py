"""The rule that the study of rules calls chosen is the one that intervals are made by."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pytest

from inferl import TD, Evaluator, LeastSquares
from inferl.environments import two_state_chain

SCRIPT = Path(__file__).parents[1] / "validity" / "rules.py"


@pytest.mark.skipif(not SCRIPT.exists(), reason="the studies are not part of an installed package")
@pytest.mark.parametrize("correlation", [-0.5, 0.0, 0.9])
@pytest.mark.parametrize("n", [20, 40, 300, 5000])
def test_the_chosen_rule_is_ours(correlation: float, n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    chosen = runpy.run_path(str(SCRIPT))["CHOSEN"]
    mdp, features = two_state_chain(correlation)
    data = mdp.sample(np.ones((2, 1)), n, seed=1).transitions(0.5, features)
    evaluator = Evaluator(TD(1)).update(data)
    reading = LeastSquares().read(evaluator.settled().method, np.ones((1, 1)))  # type: ignore[arg-type]
    reach = chosen.reach(reading.levels, reading.decisive, n)
    assert 2 * reach[0] == pytest.approx(evaluator.interval([1.0]).width, rel=1e-12)
