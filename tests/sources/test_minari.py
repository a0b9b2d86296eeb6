"""Minari datasets, made here by its own collector: the same transitions as the environment gave."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest

import inferl
from inferl.data.transitions import Transitions
from inferl.errors import DataError, MissingExtraError, SettingError
from inferl.policies import Ratio
from inferl.sources import minari

WHO = {"algorithm_name": "dice", "author": "a", "author_email": "b", "code_permalink": "c", "description": "d"}


def collect(env: Any, name: str, episodes: int) -> tuple[Any, list[tuple[Any, float, Any, bool, bool]]]:
    """Play at random under Minari's collector; return the dataset, and the steps as they were seen."""
    import minari as library

    collector = library.DataCollector(env)
    rng = np.random.default_rng(0)
    steps = []
    for episode in range(episodes):
        observation, _ = collector.reset(seed=episode)
        over = False
        while not over:
            before = np.array(observation)
            observation, reward, terminated, truncated, _ = collector.step(int(rng.integers(env.action_space.n)))
            steps.append((before, float(reward), np.array(observation), bool(terminated), bool(truncated)))
            over = terminated or truncated
    dataset = collector.create_dataset(name, eval_env=env.spec, **WHO)
    collector.close()
    return dataset, steps


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A place for datasets; nothing is ever fetched."""
    from minari.data_collector import data_collector

    class Folder:
        """A temporary folder without a finalizer: Minari leaves it to be called, with a warning, at any time later."""

        def __init__(self, dir: str) -> None:
            self.name = tempfile.mkdtemp(dir=dir)

    monkeypatch.setattr(data_collector, "tempfile", SimpleNamespace(TemporaryDirectory=Folder))
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    return tmp_path


def joined(source: Any) -> Transitions:
    return Transitions.join(list(source))


def check(chunk: Transitions, steps: list[Any], discount: float) -> None:
    before, rewards, after, terminated, truncated = (np.array(column) for column in zip(*steps, strict=True))
    assert np.array_equal(chunk.features, before)
    assert np.array_equal(chunk.next_features, after)
    assert np.array_equal(chunk.rewards, rewards)
    assert np.array_equal(chunk.discounts, np.where(terminated, 0.0, discount))
    assert np.array_equal(chunk.last, terminated | truncated)


@pytest.mark.parametrize("batch", [1, 100, 4096])
def test_a_table_of_states(shelf: Path, batch: int) -> None:
    _, steps = collect(gymnasium.make("FrozenLake-v1", max_episode_steps=6), "lake/dice-v0", 30)
    assert any(truncated for *_, truncated in steps)
    source = minari("lake/dice-v0", discount=0.9, batch=batch)
    check(joined(source), steps, 0.9)
    assert np.asarray(source.start()).tolist() == [1.0] + [0.0] * 15
    evaluator = inferl.Evaluator(inferl.TD(16)).update(source)
    assert evaluator.episodes == 30
    assert evaluator.report(source.start()).interval.n == len(steps)


def test_vectors_and_a_function_of_them(shelf: Path) -> None:
    dataset, steps = collect(gymnasium.make("CartPole-v1"), "pole/dice-v0", 5)
    features = inferl.features.Function(lambda x: np.asarray(x, np.float64)[..., :2], 2)
    chunk = joined(minari(dataset, features, discount=0.9))
    check(chunk, [(b[:2], r, a[:2], te, tr) for b, r, a, te, tr in steps], 0.9)
    with pytest.raises(SettingError, match="features is a Box"):
        minari(dataset)


def test_ratios(shelf: Path) -> None:
    dataset, steps = collect(gymnasium.make("FrozenLake-v1", max_episode_steps=6), "lake/dice-v0", 3)
    target = np.full((16, 4), 0.0)
    target[:, 2] = 1.0
    by_policy = joined(minari(dataset, ratio=Ratio(target, np.full((16, 4), 0.25))))
    by_function = joined(minari(dataset, ratio=lambda episode: np.where(episode.actions == 2, 4.0, 0.0)))
    assert by_policy.ratios.tolist() == by_function.ratios.tolist()
    assert set(by_policy.ratios.tolist()) == {0.0, 4.0}
    assert len(by_policy) == len(steps)


def test_read_on_from_any_chunk(shelf: Path) -> None:
    dataset, steps = collect(gymnasium.make("FrozenLake-v1"), "lake/dice-v0", 12)
    source = minari(dataset, batch=1)
    chunks = iter(source)
    some = [next(chunks) for _ in range(5)]
    again = minari(dataset).resume(source.position)
    check(Transitions.join([*some, *again]), steps, 0.99)
    assert again.start().number == 12
    assert len(list(again)) == 1  # each iteration begins at that position
    assert again.start().number == 12


def test_bad_data_are_named_with_dataset_and_episode(shelf: Path) -> None:
    dataset, _ = collect(gymnasium.make("FrozenLake-v1"), "lake/dice-v0", 3)
    with pytest.raises(DataError, match=r"lake/dice-v0, episode 0: row 0: ratio is -1.0; .* was a log-ratio passed"):
        joined(minari(dataset, ratio=lambda episode: -np.ones(len(episode))))
    with pytest.raises(DataError, match=r"lake/dice-v0, episode .: observation .* is outside the table"):
        joined(minari(dataset, inferl.features.OneHot(1)))


@pytest.mark.parametrize(("settings", "words"), [({"discount": 2.0}, "discount"), ({"batch": 0}, "batch is 0")])
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any], words: str, shelf: Path) -> None:
    dataset, _ = collect(gymnasium.make("FrozenLake-v1"), "lake/dice-v0", 1)
    with pytest.raises(SettingError, match=words):
        minari(dataset, **settings)


def test_a_dataset_that_is_not_here(shelf: Path) -> None:
    with pytest.raises(SettingError, match=r"there is no dataset 'lake/none-v0' .* minari download lake/none-v0"):
        minari("lake/none-v0")


def test_without_minari_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "minari", None)
    with pytest.raises(MissingExtraError, match=r"minari is not installed: pip install 'inferl\[data\]'"):
        minari("lake/dice-v0")
