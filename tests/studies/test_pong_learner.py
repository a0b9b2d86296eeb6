"""The Pong network: the shipped weights, their NumPy evaluator, and that training runs."""

from __future__ import annotations

import hashlib
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

from studies.paper.learners.network import PongNetwork, card


def random_frames(n: int) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    return np.random.default_rng(0).integers(256, size=(n, 4, 84, 84), dtype=np.uint8)


def test_the_card_describes_the_weights() -> None:
    weights = files("studies.paper.learners").joinpath("weights", "pong.npz").read_bytes()
    assert hashlib.sha256(weights).hexdigest() == card()["sha256"]
    assert len(weights) < 4_000_000
    assert card()["greedy_score"]["mean"] >= 19


def test_states_do_not_depend_on_their_batch() -> None:
    network, frames = PongNetwork.shipped(), random_frames(5)
    alone = np.concatenate([network.action_values(frames[i : i + 1]) for i in range(5)])
    np.testing.assert_allclose(network.action_values(frames), alone, rtol=1e-5, atol=1e-5)


@pytest.mark.torch
def test_numpy_agrees_with_torch() -> None:
    import torch

    from studies.paper.learners.dqn import Network

    ours, theirs, frames = PongNetwork.shipped(), Network(), random_frames(8)
    theirs.load_state_dict({name: torch.as_tensor(value) for name, value in ours.weights.items()})
    with torch.no_grad():
        features = theirs.features(torch.as_tensor(frames)).numpy()
        values = theirs(torch.as_tensor(frames)).numpy()
    np.testing.assert_allclose(ours.features(frames), features, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(ours.action_values(frames), values, rtol=1e-5, atol=1e-5)


@pytest.mark.torch
@pytest.mark.atari
def test_training_runs_and_resumes(tmp_path: Path) -> None:
    import torch

    from studies.paper.learners.dqn import Settings, Trainer

    settings = Settings(environments=4, vector_steps=40, replay=400, warm_up=60, batch=8, updates=1)
    trainer = Trainer(settings, device="cpu")
    before = trainer.network.head.weight.detach().clone()
    lines: list[dict[str, object]] = []
    trainer.train(lines.append, tmp_path / "checkpoint.pt")
    assert trainer.step == 40
    assert not torch.equal(before, trainer.network.head.weight)
    again = Trainer.resume(tmp_path / "checkpoint.pt", device="cpu")
    assert again.step == 40
    assert torch.equal(again.network.head.weight, trainer.network.head.weight)
    again.settings = Settings(environments=4, vector_steps=60, replay=400, warm_up=60, batch=8, updates=1)
    again.train(lines.append)
    assert again.step == 60


@pytest.mark.torch
@pytest.mark.atari
def test_returns_of_several_steps_stop_at_the_end_of_a_game() -> None:
    import torch

    from studies.paper.learners.dqn import Replay, Settings

    settings = Settings(environments=1, replay=8, returns=3, discount=0.5)
    replay = Replay(settings, torch.device("cpu"))
    for t in range(6):
        frames = torch.full((1, 4, 84, 84), t, dtype=torch.uint8)
        replay.add(frames, torch.tensor([0]), np.array([1.0]), np.array([t == 3]), np.array([True]))
    torch.manual_seed(0)
    frames, _, total, factor, after, _ = replay.sample(64)
    start = frames[:, 0, 0, 0].tolist()
    assert set(start) == {0, 1, 2}
    for t, sum_, weight, then in zip(start, total.tolist(), factor.tolist(), after[:, 0, 0, 0].tolist(), strict=True):
        expected = {0: (1.75, 0.125), 1: (1.75, 0.0), 2: (1.5, 0.0)}[t]  # the game ends with step 3
        assert (sum_, weight) == pytest.approx(expected)
        assert then == t + 3


@pytest.mark.atari
def test_the_shipped_policy_wins() -> None:
    from studies.paper.learners.play import play

    network = PongNetwork.shipped()
    scores = play(lambda frames: network.action_values(frames).argmax(axis=1), 2, seed=3)
    assert min(scores) >= 15


@pytest.mark.atari
def test_the_score_is_measured_again_from_the_shell() -> None:
    from typer.testing import CliRunner

    from studies.paper.learners.__main__ import app

    result = CliRunner().invoke(app, ["--evaluate", "--games", "1", "--seed", "5"])
    assert result.exit_code == 0
    assert "greedy score 21.00 over 1 games" in result.stdout
