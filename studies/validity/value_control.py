"""Control problems of the value study: CartPole and Acrobot, many episodes at once, and LunarLander, one by one.

Dynamics and constants are Gymnasium's. There is no formula for the value: truths are means of fresh episodes that are
not cut, or of all that count towards the limit where it ends them. ``python -m studies.validity.value_control`` finds
them again, in about half an hour.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from typing import Any, cast

import gymnasium as gym
import numpy as np

import inferl
from inferl.data.arrays import Bools, Floats, Integers
from inferl.features import Features
from studies.validity.value_paths import Begin, Path, Seed, Simulator, Step, ValueProblem, abreast, family, returns

DISCOUNT = 0.99
LIMIT = 500  # steps, Gymnasium's for CartPole and Acrobot
LONG = 2_500  # steps after which nothing counts: .99^2500 is 1e-11
ANGLE = 12 * 2 * np.pi / 360

# Push right where weights . (x, x', angle, angle') + noise is above 0: weights, standard deviation of the noise.
POLICIES: dict[str, tuple[tuple[float, ...], float]] = {
    "lean": ((0.0, 0.0, 1.0, 0.0), 0.0),  # against the fall, about 42 steps
    "clumsy": ((0.02, 0.05, 1.0, 0.3), 0.285),  # about 214 steps
    "good": ((0.05, 0.10, 1.0, 0.5), 0.2),  # about 480 steps; nine in ten reach the limit
}

# Means of fresh episodes with their standard errors.
TRUTHS: dict[str, tuple[float, float]] = {
    "CartPole lean": (34.2592, 0.0058),
    "CartPole lean, limit": (42.1248, 0.0088),
    "CartPole clumsy": (76.9406, 0.022),
    "CartPole clumsy, limit": (214.149, 0.14),
    "CartPole good": (99.1086, 0.0040),
    "CartPole good, limit": (479.869, 0.069),
    "Acrobot": (-62.1115, 0.0092),
    "LunarLander": (69.8751, 0.071),
}


def cartpole_begin(generator: np.random.Generator, n: int) -> Floats:
    return generator.uniform(-0.05, 0.05, (4, n))


def cartpole_move(state: Floats, right: Bools) -> tuple[Floats, Floats, Bools]:
    """The dynamics: 1 is paid at every step, also at that of the fall."""
    _, speed, angle, turn = state
    sine, cosine = np.sin(angle), np.cos(angle)
    push = (np.where(right, 10.0, -10.0) + 0.05 * turn * turn * sine) / 1.1
    bend = (9.8 * sine - cosine * push) / (0.5 * (4 / 3 - 0.1 * cosine * cosine / 1.1))
    following = np.stack([speed, push - 0.05 * bend * cosine / 1.1, turn, bend])
    following *= 0.02
    following += state
    ended = (np.abs(following[0]) > 2.4) | (np.abs(following[2]) > ANGLE)
    return following, np.ones(ended.size), ended


def cartpole_step(weights: tuple[float, ...], noise: float) -> Step:
    def step(state: Floats, generator: np.random.Generator) -> tuple[Floats, Floats, Bools]:
        wish = np.array(weights) @ state
        if noise:
            wish += noise * generator.standard_normal(wish.size)
        return cartpole_move(state, wish > 0)

    return step


def acrobot_begin(generator: np.random.Generator, n: int) -> Floats:
    return generator.uniform(-0.1, 0.1, (4, n)).astype(np.float32).astype(np.float64)


def acrobot_slope(state: Floats, torque: Floats) -> Floats:
    """Time derivatives of both angles and both velocities, as in Sutton and Barto's book."""
    one, two, turn, bend = state
    sine, cosine = np.sin(two), np.cos(two)
    d1 = 3.5 + cosine  # all masses, lengths and moments are 1, centres of mass at .5
    d2 = 1.25 + 0.5 * cosine
    weight = 4.9 * np.sin(one + two)
    pull = -0.5 * bend * sine * (bend + 2 * turn) + 14.7 * np.sin(one) + weight
    faster = (torque + d2 / d1 * pull - 0.5 * turn * turn * sine - weight) / (1.25 - d2 * d2 / d1)
    return np.stack([turn, bend, -(d2 * faster + pull) / d1, faster])


def acrobot_move(state: Floats, torque: Floats) -> tuple[Floats, Floats, Bools]:
    """One Runge-Kutta step of .2 seconds: -1 is paid until the tip is high enough."""
    k1 = acrobot_slope(state, torque)
    k2 = acrobot_slope(state + 0.1 * k1, torque)
    k3 = acrobot_slope(state + 0.1 * k2, torque)
    k4 = acrobot_slope(state + 0.2 * k3, torque)
    following = state + 0.2 / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    following[:2] = (following[:2] + np.pi) % (2 * np.pi) - np.pi
    np.clip(following[2], -4 * np.pi, 4 * np.pi, out=following[2])
    np.clip(following[3], -9 * np.pi, 9 * np.pi, out=following[3])
    ended = -np.cos(following[0]) - np.cos(following[0] + following[1]) > 1
    return following, np.where(ended, 0.0, -1.0), ended


def acrobot_step(state: Floats, generator: np.random.Generator) -> tuple[Floats, Floats, Bools]:
    """Torque with the second joint's turning, and at random at one step in ten."""
    torque = np.where(state[3] > 0, 1.0, -1.0)
    random = generator.integers(-1, 2, torque.size).astype(np.float64)
    return acrobot_move(state, np.where(generator.random(torque.size) < 0.1, random, torque))


def acrobot_seen(states: Floats) -> Floats:
    """Observations as Gymnasium gives them, (T, 6)."""
    one, two, turn, bend = states.T
    return np.stack([np.cos(one), np.sin(one), np.cos(two), np.sin(two), turn, bend], axis=1)


@cache
def lander() -> gym.Env[Any, Any]:
    return gym.make("LunarLander-v3", disable_env_checker=True)


def lander_steps(numbers: Integers) -> Iterator[tuple[Any, Any, float, bool, bool]]:
    """The steps of Gymnasium's own pilot, an episode for each number."""
    from gymnasium.envs.box2d.lunar_lander import heuristic  # here: Box2D is wanted by this problem only

    env, pilot = lander(), cast(Callable[[Any, Any], int], heuristic)
    for number in numbers:
        seen, _ = env.reset(seed=int(number))
        over = False
        while not over:
            following, reward, terminated, truncated, _ = env.step(pilot(env.unwrapped, seen))
            over = terminated or truncated
            yield seen, following, float(reward), bool(terminated), over
            seen = following


def lander_path(episodes: int, seed: Seed) -> Path:
    numbers = np.random.default_rng(seed).integers(2**31, size=episodes)
    seen, following, rewards, terminated, last = (np.array(c) for c in zip(*lander_steps(numbers), strict=True))
    return Path(seen.astype(np.float64), following.astype(np.float64), rewards, terminated, last)


def lander_returns(episodes: int, discount: float, seed: Seed) -> Floats:
    numbers = np.random.default_rng(seed).integers(2**31, size=episodes)
    found, total, factor = [], 0.0, 1.0
    for _, _, reward, _, over in lander_steps(numbers):
        total += factor * reward
        factor *= discount
        if over:
            found.append(total)
            total, factor = 0.0, 1.0
    return np.array(found)


def fresh(name: str, episodes: int, seed: Seed) -> Floats:
    """Returns of fresh episodes of a family, as its truth means them: none is cut while it still counts."""
    if name == "LunarLander":
        return lander_returns(episodes, DISCOUNT, seed)  # the limit is at 1000 steps, where .99^1000 is 4e-5
    begin, step, limited = dynamics(name)
    return returns(begin, step, episodes, LIMIT if limited else LONG, 1.0 if limited else DISCOUNT, seed)


def dynamics(name: str) -> tuple[Begin, Step, bool]:
    """How a family begins and moves, and whether the time limit ends its episodes."""
    if name == "Acrobot":
        return acrobot_begin, acrobot_step, False
    policy, _, limit = name.removeprefix("CartPole ").partition(", ")
    return cartpole_begin, cartpole_step(*POLICIES[policy]), limit == "limit"


def simulator(name: str, episodes: int) -> Simulator:
    begin, step, limited = dynamics(name)

    def simulate(seed: Seed) -> Path:
        path = abreast(begin, step, episodes, LIMIT, seed)
        return replace(path, terminated=path.last) if limited else path

    return simulate


def cartpole(name: str) -> list[ValueProblem]:
    high = np.array([2.4, 3.0, ANGLE, 3.0])  # velocities beyond 3 are rare
    sets: dict[str, Features] = {
        "linear": inferl.features.WithIntercept(inferl.features.Scaled(-high, high)),
        "Fourier 1": inferl.features.Fourier(-high, high, 1),
        "Fourier 2": inferl.features.Fourier(-high, high, 2),
        "tiles": inferl.features.TileCoding(-high, high, tilings=2, tiles=3),
    }
    _, _, limited = dynamics(name)
    wanted = ("linear", "Fourier 1") if limited else tuple(sets)
    episodes = 100 if "good" in name else 200
    features: dict[str, Any] = {label: (sets[label].dimension, sets[label]) for label in wanted}
    discount = 1.0 if limited else DISCOUNT
    return family(name, simulator(name, episodes), discount, episodes, TRUTHS[name], features)


def acrobot() -> list[ValueProblem]:
    high = np.array([1.0, 1.0, 1.0, 1.0, 4 * np.pi, 9 * np.pi])
    linear, fourier = (
        inferl.features.WithIntercept(inferl.features.Scaled(-high, high)),
        inferl.features.Fourier(-high, high, 1),
    )
    features: dict[str, Any] = {
        "linear": (7, lambda states: linear(acrobot_seen(states))),
        "Fourier 1": (64, lambda states: fourier(acrobot_seen(states))),
    }
    return family("Acrobot", simulator("Acrobot", 100), DISCOUNT, 100, TRUTHS["Acrobot"], features)


def lunar_lander() -> list[ValueProblem]:
    features = {"linear": (9, lambda seen: np.column_stack([np.ones(len(seen)), seen]))}
    return family("LunarLander", partial(lander_path, 50), DISCOUNT, 50, TRUTHS["LunarLander"], features)


def truth(name: str, episodes: int) -> tuple[float, float]:
    """The mean of fresh episodes, and its standard error; 10,000 at a time, so that they stay in the cache."""
    batch = min(10_000, episodes)
    parts = [fresh(name, batch, [99, number]) for number in range(episodes // batch)]
    found = np.concatenate(parts)
    return float(found.mean()), float(found.std(ddof=1) / np.sqrt(found.size))


def main() -> None:
    parser = argparse.ArgumentParser(description="Find the truths again.")
    parser.add_argument("names", nargs="*", default=list(TRUTHS))
    parser.add_argument("--episodes", type=int, default=None, help="a million; 100,000 of LunarLander")
    options = parser.parse_args()
    for name in options.names:
        mean, error = truth(name, options.episodes or (100_000 if name == "LunarLander" else 1_000_000))
        print(f'    "{name}": ({mean:.6g}, {error:.2g}),', flush=True)


if __name__ == "__main__":
    main()
