r"""DQN: the network whose 512 features the Pong experiment uses, trained from scratch.

Double DQN with n-step returns, many environments at once and a replay that lives where the network does. On one GPU it
takes minutes; on a CPU the same code runs, slowly. Needs ``inferl[torch,atari]``.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from inferl.data.arrays import Floats
from studies.paper.learners.play import pong

__all__ = ["Network", "Settings", "Trainer", "weights"]


@dataclass(frozen=True)
class Settings:
    """Everything that a training run depends on."""

    seed: int = 0
    environments: int = 128
    vector_steps: int = 36_000  # each is one step of every environment
    replay: int = 1_000_000  # states kept
    warm_up: int = 40_000  # states before the first update
    batch: int = 512
    updates: int = 4  # per vector step
    returns: int = 3  # rewards before the bootstrap
    discount: float = 0.99
    learning_rate: float = 2e-4
    last_learning_rate: float = 2e-5  # reached by a straight line over the last 40 %
    target_rate: float = 0.005  # of the soft copy of the network
    exploration_steps: int = 400_000  # over which exploration falls to its final values


class Network(nn.Module):
    """Three convolutions and a layer of 512 units, which are the features; then an action value each."""

    def __init__(self, actions: int = 6) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(4, 32, 8, 4),
            nn.ReLU(),
            nn.Conv2d(32, 64, 4, 2),
            nn.ReLU(),
            nn.Conv2d(64, 64, 3, 1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(64 * 7 * 7, 512),
            nn.ReLU(),
        )
        self.head = nn.Linear(512, actions)

    def features(self, frames: torch.Tensor) -> torch.Tensor:
        """Features (N, 512) of frames (N, 4, 84, 84) in 0 .. 255."""
        return self.body(frames.to(self.head.weight.dtype) / 255)

    def forward(self, frames: torch.Tensor) -> torch.Tensor:
        """Action values (N, actions)."""
        return self.head(self.features(frames))


class Replay:
    """The last states of all environments, time by environment, on the network's device."""

    def __init__(self, settings: Settings, device: torch.device) -> None:
        n = settings.environments
        self.length = max(settings.replay // n, settings.returns + 2)
        self.frames = torch.zeros((self.length, n, 4, 84, 84), dtype=torch.uint8, device=device)
        self.action = torch.zeros((self.length, n), dtype=torch.long, device=device)
        self.reward = torch.zeros((self.length, n), device=device)
        self.ended = torch.zeros((self.length, n), dtype=torch.bool, device=device)
        self.real = torch.zeros((self.length, n), dtype=torch.bool, device=device)  # not a step that only resets
        self.head = torch.zeros((), dtype=torch.long, device=device)
        self.filled = torch.zeros((), dtype=torch.long, device=device)
        self.returns, self.discount = settings.returns, settings.discount

    def add(self, frames: torch.Tensor, action: torch.Tensor, reward: Any, ended: Any, real: Any) -> None:
        """Remember one step of every environment."""
        at = int(self.head) % self.length
        self.frames[at] = frames
        self.action[at] = action
        self.reward[at] = torch.as_tensor(reward, dtype=torch.float32)
        self.ended[at] = torch.as_tensor(ended)
        self.real[at] = torch.as_tensor(real)
        self.head += 1
        self.filled.clamp_(max=self.length - 1).add_(1)

    def sample(self, batch: int) -> tuple[torch.Tensor, ...]:
        """Draw states with their n-step returns, the state behind them, and what its value counts."""
        device = self.reward.device
        usable = (self.filled - self.returns).float()
        back = (torch.rand(batch, device=device) * usable).long() + self.returns + 1
        time_index = (self.head - back) % self.length
        env = torch.randint(self.reward.shape[1], (batch,), device=device)
        total = torch.zeros(batch, device=device)
        factor = torch.ones(batch, device=device)
        for k in range(self.returns):
            at = (time_index + k) % self.length
            total = total + factor * self.reward[at, env]
            factor = factor * self.discount * (~self.ended[at, env]).float()
        after = (time_index + self.returns) % self.length
        weight = self.real[time_index, env].float()
        return (
            self.frames[time_index, env],
            self.action[time_index, env],
            total,
            factor,
            self.frames[after, env],
            weight,
        )


class Trainer:
    """Trains a network; the state between vector steps is what a checkpoint needs, less the replay."""

    def __init__(self, settings: Settings, device: str | None = None) -> None:
        torch.manual_seed(settings.seed)
        self.settings = settings
        self.device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        self.network = Network().to(self.device)
        self.target = Network().to(self.device)
        self.target.load_state_dict(self.network.state_dict())
        rate = torch.tensor(settings.learning_rate, device=self.device)
        on_gpu = self.device.type == "cuda"
        self.optimizer = torch.optim.Adam(
            self.network.parameters(), lr=rate, eps=1e-5, capturable=on_gpu, foreach=on_gpu
        )
        self.replay = Replay(settings, self.device)
        self.step = 0
        self.scores: list[float] = []  # of finished games of the least exploring environments
        self._graph: Any = None

    def exploration(self) -> Floats:
        """Exploration of each environment: from 1 to a ladder that ends near 0; a few stay wild."""
        n, s = self.settings.environments, self.settings
        final = 0.4 ** (1 + 7 * np.arange(n) / max(n - 1, 1))
        final[: n // 64] = 1.0
        final[n // 64 : n // 32] = 0.5
        progress = min(self.step * n / s.exploration_steps, 1.0)
        return np.asarray(1 + progress * (final - 1))

    def train(
        self, report: Callable[[dict[str, Any]], None], checkpoint: Path | None = None, seconds: float = 1e9
    ) -> None:
        """Run until the settings' number of steps, or for so many seconds; write a checkpoint every minute."""
        s = self.settings
        env = pong(s.environments, s.seed + self.step)
        frames, _ = env.reset(seed=s.seed + self.step)
        rng = np.random.default_rng([s.seed, self.step])
        score = np.zeros(s.environments)
        reset_only = np.zeros(s.environments, bool)
        begin = last_saved = time.monotonic()
        while self.step < s.vector_steps and time.monotonic() - begin < seconds:
            seen = torch.as_tensor(frames).to(self.device, non_blocking=True)
            with torch.no_grad(), torch.autocast(self.device.type, torch.bfloat16):
                greedy = self.network(seen).argmax(dim=1)
            random = rng.random(s.environments) < self.exploration()
            action = np.where(random, rng.integers(6, size=s.environments), greedy.cpu().numpy())
            frames, reward, terminated, truncated, _ = env.step(action)
            ended = terminated | truncated
            self.replay.add(seen, torch.as_tensor(action).to(self.device), reward, ended, ~reset_only)
            score += reward
            for i in np.flatnonzero(ended):
                if i >= s.environments // 2:
                    self.scores.append(float(score[i]))
                score[i] = 0.0
            reset_only = ended  # the next step of these only resets
            if int(self.replay.filled) * s.environments >= min(s.warm_up, s.replay):
                self._learn()
            self.step += 1
            if self.step % 250 == 0:
                recent = self.scores[-100:]
                mean = float(np.mean(recent)) if recent else float("nan")
                steps = self.step * s.environments
                report({"step": steps, "seconds": round(time.monotonic() - begin, 1), "score": round(mean, 2)})
            if checkpoint is not None and time.monotonic() - last_saved > 60:
                self.save(checkpoint)
                last_saved = time.monotonic()
        if checkpoint is not None:
            self.save(checkpoint)

    def _learn(self) -> None:
        s = self.settings
        late = max(self.step / s.vector_steps - 0.6, 0.0) / 0.4
        rate = s.learning_rate + late * (s.last_learning_rate - s.learning_rate)
        self.optimizer.param_groups[0]["lr"].fill_(rate)
        for _ in range(s.updates):
            if self.device.type != "cuda":
                self._update()
            elif self._graph is None:
                self._capture()
            else:
                self._graph.replay()

    def _capture(self) -> None:
        """Record one update on the GPU, to be replayed without Python in between."""
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self._update()
        torch.cuda.current_stream().wait_stream(side)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self._update()

    def _update(self) -> None:
        frames, action, total, factor, after, weight = self.replay.sample(self.settings.batch)
        with torch.autocast(self.device.type, torch.bfloat16):
            with torch.no_grad():
                best = self.network(after).argmax(dim=1, keepdim=True)
                value = self.target(after).gather(1, best)[:, 0].float()
            chosen = self.network(frames).gather(1, action[:, None])[:, 0].float()
        loss = nn.functional.smooth_l1_loss(chosen, total + factor * value, reduction="none")
        self.optimizer.zero_grad(set_to_none=False)
        (loss * weight).mean().backward()
        self.optimizer.step()
        with torch.no_grad():
            new, old = list(self.network.parameters()), list(self.target.parameters())
            torch._foreach_lerp_(old, new, self.settings.target_rate)

    def save(self, path: Path) -> None:
        """Write network, optimizer and progress; the replay is filled anew after a resume."""
        content = {
            "settings": asdict(self.settings),
            "step": self.step,
            "network": self.network.state_dict(),
            "target": self.target.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scores": self.scores[-100:],
        }
        temporary = path.with_suffix(".part")
        torch.save(content, temporary)
        temporary.replace(path)

    @classmethod
    def resume(cls, path: Path, device: str | None = None) -> Trainer:
        """Go on from a checkpoint."""
        content = torch.load(path, map_location="cpu", weights_only=True)
        trainer = cls(Settings(**content["settings"]), device)
        trainer.network.load_state_dict(content["network"])
        trainer.target.load_state_dict(content["target"])
        trainer.optimizer.load_state_dict(content["optimizer"])
        trainer.step, trainer.scores = content["step"], content["scores"]
        return trainer


def weights(network: Network) -> dict[str, Any]:
    """Weights as float16 arrays, ready to be shipped."""
    return {name: value.detach().cpu().numpy().astype(np.float16) for name, value in network.state_dict().items()}
