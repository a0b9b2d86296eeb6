"""Senders: what the service says of a running policy is what an evaluator on the spot says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from numpy.testing import assert_allclose
from serving import Server, served

import inferl
from inferl.errors import SendingError, SettingError
from inferl.policies import Ratio
from inferl.service.client import Client
from inferl.sources import ClientWrapper, EvaluatorWrapper, VectorClientWrapper
from inferl.sources.steps import Step, transitions, with_starts
from inferl.sources.wrapper import VectorListener

EXPERIMENTS = """\
[experiments.pole]
features = "1 + obs"
next-features = "new_obs"
discount = 0.99
every = "0.2s"

[experiments.lake]
state = "obs"
next-features = "new_obs"
n-states = 16
discount = 0.9
ratio = "ratio"
every = "0.2s"

[experiments.limited]
features = "obs"
next-features = "new_obs"
discount = 1.0
time-limit = "ends"
every = "0.2s"
"""
SELDOM = 10**9  # steps between two readings of a local evaluator
SIDE_BY_SIDE = """\
[experiments.{}]
features = "1 + obs"
next-features = "new_obs"
stream = "stream"
discount = 0.99
every = "0.2s"
"""


class Numbers:
    """The numbers of CartPole, and a constant."""

    dimension = 5

    def __call__(self, observations: Any) -> Any:
        return np.concatenate([np.ones((len(observations), 1)), observations], axis=1, dtype=np.float64)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    experiments = [EXPERIMENTS, *(SIDE_BY_SIDE.format(mode.name) for mode in AutoresetMode)]
    with served(tmp_path_factory.mktemp("senders"), experiments="\n".join(experiments)) as server:
        yield server


def evaluator(features: int) -> inferl.Evaluator:
    return inferl.Evaluator(inferl.DoublyRobust(features))


def bounds(state: Any) -> list[float]:
    (target,) = state["snapshot"]["targets"]
    return [target["estimate"], target["lower"], target["upper"]]


def numbers(interval: inferl.Interval) -> list[float]:
    return [float(interval.estimate), float(interval.lower), float(interval.upper)]


def play(env: Any, episodes: int, seed: int) -> int:
    """Push to where the pole leans, with some noise; return the number of steps."""
    rng, steps = np.random.default_rng(seed), 0
    for episode in range(episodes):
        observation, _ = env.reset(seed=seed + episode)
        ended = False
        while not ended:
            observation, _, terminated, truncated, _ = env.step(int(observation[2] + 0.05 * rng.normal() > 0))
            steps, ended = steps + 1, terminated or truncated
    return steps


def test_the_service_shows_the_interval_of_an_evaluator_on_the_spot_also_after_a_restart(server: Server) -> None:
    local = evaluator(5)
    with Client(server.url, "pole", name="robot/1") as client:
        watched = EvaluatorWrapper(
            gymnasium.make("CartPole-v1", max_episode_steps=50), local, Numbers(), 0.99, every=SELDOM
        )
        env = ClientWrapper(watched, client)
        steps = play(env, 20, seed=0)
        server.kill()
        steps += play(env, 60, seed=100)  # nobody takes what is sent
        server.start()
        client.flush(60)
    with Client(server.url, "pole", name="robot/1") as client:  # the sender is started again, too
        steps += play(ClientWrapper(watched, client), 20, seed=200)
    state = server.wait_for(steps, "pole")
    assert state["n"] == local.n == steps
    assert bounds(state) == numbers(watched.interval())
    facts = state["snapshot"]["facts"]
    assert facts["episodes completed"] == 100
    assert "truncated" in str(state["snapshot"]["checks"])


class Recorder(VectorListener):
    """Keeps all steps."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.rounds: list[list[Step]] = []

    def heard(self, steps: list[Step], result: Any) -> None:
        self.rounds.append(steps)


@pytest.mark.parametrize("mode", list(AutoresetMode), ids=lambda mode: mode.name)
def test_each_of_several_environments_is_a_stream(server: Server, mode: AutoresetMode) -> None:
    made = [lambda: gymnasium.make("CartPole-v1", max_episode_steps=30)] * 3
    recorder = Recorder(SyncVectorEnv(made, autoreset_mode=mode))
    rng = np.random.default_rng(0)
    with Client(server.url, mode.name, name="three") as client:
        env = VectorClientWrapper(recorder, client)
        observations, _ = env.reset(seed=0)
        ended = np.zeros(3, np.bool_)
        for _ in range(700):
            if mode == AutoresetMode.DISABLED and ended.any():
                observations, _ = env.reset(options={"reset_mask": ended})
            pushed = (observations[:, 2] + 0.05 * rng.normal(size=3) > 0).astype(int)
            observations, _, terminated, truncated, _ = env.step(pushed)
            ended = terminated | truncated
    *rounds, latest = recorder.rounds
    steps = [step for some in rounds for step in some] + [step for step in latest if step.last]  # the others wait
    local, features = evaluator(5), Numbers()
    chunk = transitions(steps, features, 0.99, labelled=False)
    local.update(chunk)
    starts = with_starts(inferl.sources.Starts(), steps, chunk, features)
    state = server.wait_for(sum(map(len, recorder.rounds)), mode.name)
    assert state["n"] == local.n
    assert_allclose(bounds(state), numbers(local.interval(starts)), rtol=1e-12)
    assert state["snapshot"]["facts"]["streams"] == 3


def test_ratios_and_states_of_a_table(server: Server) -> None:
    """A table of states, off-policy, in a task whose time limit cuts episodes off."""
    right, uniform = 0.9 * np.eye(4)[[2] * 16] + 0.025, np.full((16, 4), 0.25)
    ratio, local = Ratio(right, uniform), evaluator(16)
    watched = EvaluatorWrapper(
        gymnasium.make("FrozenLake-v1", max_episode_steps=20),
        local,
        inferl.features.OneHot(16),
        0.9,
        ratio=ratio,
        every=SELDOM,
    )
    rng, steps, ended = np.random.default_rng(0), 0, False
    with Client(server.url, "lake", name="walker") as client:
        env = ClientWrapper(watched, client, columns=lambda state, action: {"ratio": ratio(state, action), "day": "mo"})
        env.reset(seed=0)
        while steps < 2000 or not ended:
            if ended:
                env.reset()
            _, _, terminated, truncated, _ = env.step(int(rng.integers(4)))
            steps, ended = steps + 1, terminated or truncated
    state = server.wait_for(steps, "lake")
    assert state["n"] == steps
    assert bounds(state) == numbers(watched.interval())
    assert state["snapshot"]["ratios"]


def test_features_of_the_sender_and_a_time_limit_that_ends_the_task(server: Server) -> None:
    box = np.array([2.4, 3.0, 0.21, 3.0])
    features = inferl.features.Fourier(-box, box, order=1)
    local = evaluator(features.dimension)
    watched = EvaluatorWrapper(gymnasium.make("CartPole-v1", max_episode_steps=25), local, features, 1.0, every=SELDOM)
    with Client(server.url, "limited") as client:
        steps = play(ClientWrapper(watched, client, features), 60, seed=0)
    state = server.wait_for(steps, "limited")
    assert bounds(state) == numbers(watched.interval())


class Kept:
    """Takes rows, and keeps them."""

    name = "kept"

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def send_rows(self, rows: list[dict[str, Any]]) -> None:
        self.rows += rows


def test_episodes_have_numbers_that_no_other_sender_has_used() -> None:
    kept = Kept()
    for _ in range(2):
        env = ClientWrapper(gymnasium.make("CartPole-v1"), kept)
        for _ in range(3):  # left before their ends
            env.reset(seed=1)
            for _ in range(4):
                env.step(0)
    assert len({row["eps_id"] for row in kept.rows}) == 6
    assert [row["t"] for row in kept.rows] == [0, 1, 2, 3] * 6
    assert max(row["eps_id"] for row in kept.rows) < 2**53  # whole in any JSON


def test_what_cannot_be_sent_is_said_at_once() -> None:
    nested = gymnasium.wrappers.TransformObservation(
        gymnasium.make("CartPole-v1"),
        lambda observation: {"pole": observation},
        gymnasium.spaces.Dict({"pole": gymnasium.spaces.Box(-9.0, 9.0, (4,))}),
    )
    with pytest.raises(SettingError, match="are no vectors; give features"):
        ClientWrapper(nested, Kept())
    env = ClientWrapper(gymnasium.make("CartPole-v1"), Kept(), columns=lambda observation, action: {"t": 5})
    env.reset(seed=0)
    with pytest.raises(SettingError, match="'t' is that of the steps"):
        env.step(0)


def test_a_row_that_the_service_refuses_is_an_error_of_a_later_step(server: Server) -> None:
    client = Client(server.url, "lake", name="broken")
    env = ClientWrapper(gymnasium.make("FrozenLake-v1"), client, columns=lambda state, action: {"ratio": float("nan")})
    env.reset(seed=0)
    env.step(0)
    with pytest.raises(SendingError, match="not a finite number"):
        client.flush(30)
    with pytest.raises(SendingError, match="not a finite number"):
        env.step(0)
    with pytest.raises(SendingError):
        client.close()
