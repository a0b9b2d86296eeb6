"""The ClientCallback with Stable-Baselines3 itself: what it sends is what the environments did."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from serving import served

import inferl
from inferl.service.client import Client
from inferl.sources import EvaluatorWrapper
from inferl.sources.steps import Step
from inferl.sources.wrapper import Listener

pytestmark = pytest.mark.integrations
EXPERIMENT = """\
[experiments.training]
features = "1 + obs"
next-features = "new_obs"
stream = "stream"
discount = 0.99
every = "0.2s"
"""


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


class Numbers:
    """The numbers of CartPole, and a constant."""

    dimension = 5

    def __call__(self, observations: Any) -> Any:
        return np.concatenate([np.ones((len(observations), 1)), observations], axis=1, dtype=np.float64)


class Kept:
    """Takes rows, and keeps them."""

    name = "kept"

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def send_rows(self, rows: list[dict[str, Any]]) -> None:
        self.rows += rows

    def of(self, stream: int) -> list[dict[str, Any]]:
        return [row for row in self.rows if row["stream"] == f"kept/{stream}"]


class Recorder(Listener):
    """Keeps the steps of an environment."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.steps: list[Step] = []

    def heard(self, step: Step, info: dict[str, Any]) -> None:
        self.steps.append(step)


def recorded(n: int) -> tuple[list[Recorder], Any]:
    from stable_baselines3.common.vec_env import DummyVecEnv

    inner = [Recorder(gymnasium.make("CartPole-v1", max_episode_steps=10)) for _ in range(n)]
    return inner, DummyVecEnv([lambda env=env: env for env in inner])


def model_of(kind: str, env: Any) -> Any:
    import stable_baselines3

    settings = {"DQN": {"learning_starts": 10}, "A2C": {"n_steps": 8}, "PPO": {"n_steps": 32, "batch_size": 32}}[kind]
    return getattr(stable_baselines3, kind)("MlpPolicy", env, seed=0, device="cpu", **settings)


def assert_sent(rows: list[dict[str, Any]], steps: list[Step], exactly: bool = True) -> None:
    assert len(rows) == len(steps)
    for row, step in zip(rows, steps, strict=True):
        assert (row["obs"] == step.observation).all()
        if exactly or not step.last:
            assert (row["new_obs"] == step.next_observation).all()
        else:
            assert row["new_obs"] == pytest.approx(step.next_observation, rel=1e-5, abs=1e-6)
        assert (row["rewards"], row["actions"]) == (step.reward, int(step.action))
        assert (row["terminateds"], row["truncateds"]) == (step.terminated, step.last and not step.terminated)


@pytest.mark.parametrize("kind", ["A2C", "PPO", "DQN"])
def test_what_is_sent_is_what_the_environments_did_also_when_the_training_goes_on(kind: str) -> None:
    from inferl.integrations.sb3 import ClientCallback

    (inner, env), kept = recorded(2), Kept()
    model, callback = model_of(kind, env), ClientCallback(kept)
    model.learn(200, callback)
    model.learn(100, callback, reset_num_timesteps=False)
    for k, recorder in enumerate(inner):
        rows = kept.of(k)
        assert_sent(rows, recorder.steps)
        begins = [row["t"] == 0 for row in rows]
        assert begins == [step.first for step in recorder.steps]
        assert len({row["eps_id"] for row in rows}) == sum(begins)
    versions = [row["version"] for row in kept.rows]
    assert versions == sorted(versions)
    assert versions[-1] > versions[0] == 0
    assert any(row["truncateds"] for row in kept.rows)
    assert ("action_logp" in kept.rows[0]) == (kind != "DQN")
    if kind != "DQN":
        assert all(-5 < row["action_logp"] < 0 for row in kept.rows)


def test_another_callback_begins_with_the_next_episodes() -> None:
    from inferl.integrations.sb3 import ClientCallback

    (inner, env), kept = recorded(2), Kept()
    model = model_of("A2C", env)
    model.learn(13)
    before = [len(recorder.steps) for recorder in inner]
    model.learn(200, ClientCallback(kept), reset_num_timesteps=False)
    for k, recorder in enumerate(inner):
        first = next(i for i, step in enumerate(recorder.steps) if i >= before[k] and step.first)
        assert first > before[k]
        assert_sent(kept.of(k), recorder.steps[first:])


@pytest.mark.parametrize("kind", ["A2C", "DQN"])
def test_what_is_normalised_for_the_training_is_sent_as_it_was(kind: str) -> None:
    from stable_baselines3.common.vec_env import VecNormalize

    from inferl.integrations.sb3 import ClientCallback

    (inner, env), kept = recorded(1), Kept()
    model_of(kind, VecNormalize(env)).learn(150, ClientCallback(kept))
    assert_sent(kept.rows, inner[0].steps, exactly=False)


def test_the_service_shows_the_interval_of_an_evaluator_on_the_spot(tmp_path: Path) -> None:
    from stable_baselines3.common.callbacks import StopTrainingOnMaxEpisodes
    from stable_baselines3.common.vec_env import DummyVecEnv

    from inferl.integrations.sb3 import ClientCallback

    local = inferl.Evaluator(inferl.DoublyRobust(5))
    watched = EvaluatorWrapper(gymnasium.make("CartPole-v1", max_episode_steps=40), local, Numbers(), 0.99, every=10**9)
    model = model_of("A2C", DummyVecEnv([lambda: watched]))
    with served(tmp_path, experiments=EXPERIMENT) as server:
        with Client(server.url, "training") as client:
            model.learn(100_000, [ClientCallback(client), StopTrainingOnMaxEpisodes(60)])
        state = server.wait_for(local.n, "training")
        interval = watched.interval()
        (target,) = state["snapshot"]["targets"]
        assert state["n"] == local.n
        assert target["estimate"] == float(interval.estimate)
        assert (target["lower"], target["upper"]) == (float(interval.lower), float(interval.upper))
