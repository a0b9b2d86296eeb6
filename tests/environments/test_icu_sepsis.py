from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inferl.environments import icu_sepsis
from inferl.errors import DataError, SettingError

INSTALLED = find_spec("icu_sepsis") is not None


def small(path: Path, **changes: np.ndarray) -> Path:
    """A file like that of the package: two patients, two actions, death, survival, and the sink."""
    chances = np.zeros((5, 2, 5))
    chances[0] = [[0.5, 0, 0.1, 0.4, 0], [0, 0.8, 0.2, 0, 0]]
    chances[1] = [[0, 0, 0.5, 0.5, 0], [0.25, 0.25, 0.25, 0.25, 0]]
    chances[2:, :, 4] = 1
    expert = np.array([[0.9, 0.1], [0.3, 0.7], [0, 0], [0, 0], [0, 0]])
    arrays = {
        "tx_mat": chances,
        "d_0": np.array([0.5, 0.5, 0, 0, 0]),
        "expert_policy": expert,
        "sofa_scores": np.arange(5),
    }
    kept: dict[str, Any] = {name: x for name, x in (arrays | changes).items() if x.size}
    np.savez_compressed(path, **kept)
    return path


def test_a_file_becomes_a_finite_mdp(tmp_path: Path) -> None:
    model = icu_sepsis.load(small(tmp_path / "dynamics.npz"))
    assert str(model.mdp) == "FiniteMDP(5 states, 2 actions, 3 terminal)"
    first = np.eye(2)[[0] * 5]
    assert model.mdp.values(first, 1.0) == pytest.approx([0.8, 0.5, 0, 0, 0])
    assert model.expert.sum(axis=1) == pytest.approx(1)
    assert model.mdp.initial.tolist() == [0.5, 0.5, 0, 0, 0]


def test_what_is_wrong_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingError, match="no file"):
        icu_sepsis.load(tmp_path / "nothing.npz")
    with pytest.raises(DataError, match="tx_mat"):
        icu_sepsis.load(small(tmp_path / "a.npz", tx_mat=np.zeros(0)))
    with pytest.raises(DataError, match="do not fit"):
        icu_sepsis.load(small(tmp_path / "b.npz", expert_policy=np.ones((4, 2))))
    (tmp_path / "c.npz").write_text("no archive")
    with pytest.raises(DataError, match="archive"):
        icu_sepsis.load(tmp_path / "c.npz")
    monkeypatch.setattr("sys.path", [])
    if not INSTALLED:
        with pytest.raises(SettingError, match="pip install --no-deps icu-sepsis"):
            icu_sepsis.load()


@pytest.mark.skipif(not INSTALLED, reason="the package icu-sepsis is not installed")
def test_the_published_matrices() -> None:
    mdp, expert, severity = icu_sepsis.load()
    assert (mdp.n_states, mdp.n_actions) == (716, 25)
    best = mdp.optimal_policy(0.999999)
    soft, uniform = 0.95 * best + 0.05 / 25, np.full((716, 25), 1 / 25)
    values = [float(mdp.initial @ mdp.values(policy, 1.0)) for policy in (best, expert, uniform, soft)]
    assert values == pytest.approx([0.875142, 0.781845, 0.780071, 0.869284], abs=2e-6)
    best = mdp.optimal_policy(0.99)
    values = [float(mdp.initial @ mdp.values(p, 0.99)) for p in (best, expert, uniform, 0.95 * best + 0.05 / 25)]
    assert values == pytest.approx([0.801334, 0.722158, 0.719095, 0.797325], abs=2e-6)
    row = (mdp.outcomes.states == 0) & (mdp.outcomes.actions == 0)
    chances = dict(zip(mdp.outcomes.next_states[row].tolist(), mdp.outcomes.probabilities[row].tolist(), strict=True))
    assert [chances[s] for s in (0, 713, 714)] == pytest.approx([0.28717762, 0.02257243, 0.03439081], abs=1e-8)
    assert (int(mdp.initial.argmax()), mdp.initial.max()) == (301, pytest.approx(0.01845089, abs=1e-8))
    assert severity.max() == pytest.approx(18.02, abs=0.01)
