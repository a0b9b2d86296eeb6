"""The metadata of a model card: plain data of the shape that the Hub reads."""

from __future__ import annotations

import json

import numpy as np
import pytest

import inferl
from inferl import Interval
from inferl.errors import SettingError, ShapeError
from inferl.integrations.hub import model_index

INTERVAL = Interval(437.2, 408.1, 466.3, 0.95, "anytime", 14.8, 52_464, estimand="the mean return")


def test_the_metadata_have_the_interval_in_text_and_in_numbers() -> None:
    metadata = model_index(INTERVAL, "PPO", "CartPole-v1", episodes=1200)
    assert json.loads(json.dumps(metadata)) == metadata
    (model,) = metadata["model-index"]
    (result,) = model["results"]
    (metric,) = result["metrics"]
    assert metric["value"] == "437 [408, 466], 95 %, 1,200 episodes"
    assert metric["args"]["lower"] == 408.1
    assert metric["args"]["episodes"] == 1200
    assert metadata["tags"] == ["reinforcement-learning", "CartPole-v1"]


def test_one_target_in_an_array_is_one_result() -> None:
    one = Interval(np.array([437.2]), np.array([408.1]), np.array([466.3]), 0.9, "normal", np.array([14.8]), 100)
    metadata = model_index(one, "PPO", "CartPole-v1", episodes=120)
    assert metadata["model-index"][0]["results"][0]["metrics"][0]["value"] == "437 [408, 466], 90 %, 120 episodes"


def test_several_targets_and_no_episodes_are_refused() -> None:
    two = Interval(np.zeros(2), np.zeros(2), np.ones(2), 0.95, "normal", np.ones(2), 100)
    with pytest.raises(ShapeError, match="2 targets"):
        model_index(two, "PPO", "CartPole-v1", episodes=120)
    with pytest.raises(SettingError, match="episodes is 0"):
        model_index(INTERVAL, "PPO", "CartPole-v1", episodes=0)


def test_a_result_knows_its_environment_and_episodes() -> None:
    result = inferl.evaluate_policy("Blackjack-v1", lambda hand: int(hand[0] < 17), episodes=50)
    metadata = model_index(result, "stand at 17")
    assert metadata == model_index(result.interval, "stand at 17", "Blackjack-v1", episodes=50)
    with pytest.raises(SettingError, match="name of the environment"):
        model_index(result.interval, "stand at 17", episodes=50)
