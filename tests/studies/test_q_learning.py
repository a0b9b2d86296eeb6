from __future__ import annotations

import gymnasium
import numpy as np
import pytest

from inferl.environments import FiniteMDP
from inferl.errors import SettingError
from studies.paper.frozenlake import FrozenLake, lake, truth
from studies.paper.learners import q_learning


def test_the_learned_policy_is_within_2_percent_of_the_best() -> None:
    settings = FrozenLake()
    mdp, learned = lake(settings)
    best = mdp.values(mdp.optimal_policy(settings.discount), settings.discount)[0]
    assert 0.98 * best <= truth(settings) <= best * (1 + 1e-12)
    assert learned.policy.shape == (64, 4)
    assert (learned.policy.sum(axis=1) == 1).all()


def test_the_same_seed_learns_the_same() -> None:
    mdp = FiniteMDP.from_toy_text(gymnasium.make("FrozenLake-v1", map_name="4x4"))
    one, two, other = (q_learning(mdp, 0.9, 20_000, seed).action_values for seed in (0, 0, 1))
    assert np.array_equal(one, two)
    assert not np.array_equal(one, other)


def test_values_converge_where_nothing_is_random() -> None:
    mdp = FiniteMDP(transition=[[[1, 0], [0, 1]], [[0, 1], [1, 0]]], reward=[0, 1], initial=0)
    learned = q_learning(mdp, 0.5, 50_000, optimism=2.0, memory=2.0)
    assert learned.action_values == pytest.approx(mdp.action_values(learned.policy, 0.5), abs=1e-3)


@pytest.mark.parametrize(
    "wrong", [{"discount": 1.0}, {"discount": 0.9, "n_steps": 0}, {"discount": 0.9, "exploration": 1.5}]
)
def test_bad_settings_are_refused(wrong: dict[str, float]) -> None:
    mdp = FiniteMDP(transition=[[[1, 0], [0, 1]]], reward=[0, 1], initial=0)
    with pytest.raises(SettingError):
        q_learning(mdp, **wrong)  # type: ignore[arg-type]
