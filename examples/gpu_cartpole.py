"""A simulator, a policy and features on one GPU: CartPole in torch, 16,384 environments, and an interval on the way.

Run it with: python gpu_cartpole.py     (needs inferl[torch]; without a GPU it runs on the CPU, with fewer environments)
"""

import math
import time

import torch

import inferl

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
ENVIRONMENTS, STEPS, ROLLOUTS = (16_384, 100, 20) if DEVICE == "cuda" else (256, 100, 3)
LIMIT = 500


class CartPole:
    """CartPole-v1 of Gymnasium, for many environments at once; one that ends is reset in the same step."""

    def __init__(self, n, device, seed=0):
        self.random = torch.Generator(device).manual_seed(seed)
        self.state = self.reset(n, device)
        self.age = torch.zeros(n, device=device)

    def reset(self, n, device):
        """Return n states near the middle."""
        return 0.1 * torch.rand((n, 4), generator=self.random, device=device) - 0.05

    def step(self, right):
        """Push right or left; return which poles have fallen, and which episodes have reached their limit."""
        _, x_dot, angle, angle_dot = self.state.unbind(1)
        force = torch.where(right, 10.0, -10.0)
        cos, sin = angle.cos(), angle.sin()
        pushed = (force + 0.05 * angle_dot**2 * sin) / 1.1
        angle_acc = (9.8 * sin - cos * pushed) / (0.5 * (4 / 3 - 0.1 * cos**2 / 1.1))
        x_acc = pushed - 0.05 * angle_acc * cos / 1.1
        derivative = torch.stack([x_dot, x_acc, angle_dot, angle_acc], dim=1)
        state, self.age = self.state + 0.02 * derivative, self.age + 1
        fallen = (state[:, 0].abs() > 2.4) | (state[:, 2].abs() > 12 * math.pi / 180)
        late = (self.age >= LIMIT) & ~fallen
        over = fallen | late
        self.state = torch.where(over[:, None], self.reset(len(state), state.device), state)
        self.age = torch.where(over, 0.0, self.age)
        return fallen, late


def policy(state, random):
    """Push to where the pole leans; now and then, push anywhere."""
    anywhere = torch.rand(len(state), generator=random, device=state.device)
    return torch.where(anywhere < 0.2, anywhere < 0.1, state[:, 2] > 0)


class Features(torch.nn.Module):
    """An intercept, and 63 random Fourier features of the observation: any module that returns (rows, d) will do."""

    def __init__(self):
        super().__init__()
        random = torch.Generator().manual_seed(0)
        scale = torch.tensor([[1.0], [1.0], [0.1], [1.0]])  # of the four numbers that are observed
        self.register_buffer("frequency", torch.randn((4, 63), generator=random) / scale)
        self.register_buffer("phase", 2 * math.pi * torch.rand(63, generator=random))

    def forward(self, observations):
        """Return the features of observations (rows, 4): (rows, 64)."""
        waves = torch.cos(observations @ self.frequency + self.phase)
        return torch.cat([torch.ones_like(waves[:, :1]), waves], dim=1)


def rollouts(number):
    """Play, and hand over what was seen: arrays (steps, environments, ...) that never leave the device."""
    simulator, random = CartPole(ENVIRONMENTS, DEVICE), torch.Generator(DEVICE).manual_seed(1)
    for _ in range(number):
        observations, terminated, truncated = [simulator.state], [], []
        for _ in range(STEPS):
            fallen, late = simulator.step(policy(simulator.state, random))
            observations.append(simulator.state)
            terminated.append(fallen)
            truncated.append(late)
        ends = torch.stack(terminated)
        yield {
            "observations": torch.stack(observations),
            "rewards": torch.ones(ends.shape),
            "terminated": ends,
            "truncated": torch.stack(truncated),
        }


def main():
    """Play, and print the interval after each rollout."""
    source = inferl.sources.tensor(rollouts(ROLLOUTS), Features().to(DEVICE), discount=0.99)
    evaluator = inferl.Evaluator(inferl.DoublyRobust(64), backend="torch", device=DEVICE)
    begin, before = time.perf_counter(), 0
    for chunk in source:
        evaluator.update(chunk)
        seconds = time.perf_counter() - begin
        print(f"{evaluator.interval()}  {(evaluator.n - before) / seconds:,.0f} transitions/s")
        begin, before = time.perf_counter(), evaluator.n
    print()
    print(evaluator.report())


if __name__ == "__main__":
    main()
