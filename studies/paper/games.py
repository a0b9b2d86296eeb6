"""Games of Pong by epsilon-greedy versions of the shipped policy: their features and rewards, kept in files.

A batch of games is a pure function of its seeds, so a run that was killed plays only the batches that are missing.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zlib import compress, decompress

import numpy as np
from numpy.typing import NDArray

from inferl.data.arrays import Floats, Integers
from inferl.policies import Deterministic, epsilon_greedy
from studies.paper.learners.network import Frames, PongNetwork
from studies.paper.learners.play import pong

__all__ = ["Game", "discounted_returns", "load", "play", "save", "starts", "two_views", "unpacked"]

ACTIONS = 6
Halves = NDArray[np.float16]


@dataclass(frozen=True, eq=False)
class Game:
    """One game, from its start to its end."""

    features: Halves  # (T + 1, 512) of all states, the last one included; half precision, as the weights are
    rewards: Floats  # (T,) points won and lost
    terminated: bool  # False: cut off by the game's own limit of 27,000 steps


def play(epsilon: float, count: int, seed: list[int]) -> list[Game]:
    """Play whole games, `count` of them side by side."""
    network = PongNetwork.shipped()
    policy = epsilon_greedy(
        Deterministic(lambda units: network.values_of(units).argmax(axis=1), batched=True), epsilon, ACTIONS
    )
    chance = np.random.default_rng([*seed, 1])
    features: list[list[Halves]] = [[] for _ in range(count)]

    def act(which: Integers, frames: Frames) -> Any:
        units = network.features(frames)
        for i, row in zip(which, units.astype(np.float16), strict=True):
            features[i].append(row)
        return policy.batch(units, chance.random(count)[which])

    rewards, terminated, last = _side_by_side(act, count, seed)
    ends = network.features(last).astype(np.float16)
    return [Game(np.stack([*features[i], ends[i]]), np.array(rewards[i]), bool(terminated[i])) for i in range(count)]


def discounted_returns(epsilon: float, count: int, seed: list[int], discount: float, horizon: int) -> Floats:
    """Play the beginnings of games, and return the sums of their discounted rewards: what Monte Carlo averages."""
    network = PongNetwork.shipped()
    greedy = Deterministic(lambda frames: network.action_values(frames).argmax(axis=1), batched=True)
    policy = epsilon_greedy(greedy, epsilon, ACTIONS)  # looks only at the states in which it does not explore
    chance = np.random.default_rng([*seed, 1])
    rewards, _, _ = _side_by_side(
        lambda which, frames: policy.batch(frames, chance.random(count)[which]), count, seed, horizon
    )
    return np.array([np.array(own) @ discount ** np.arange(len(own)) for own in rewards])


def _side_by_side(
    act: Callable[[Integers, Frames], Any], count: int, seed: list[int], horizon: int | None = None
) -> tuple[list[list[float]], NDArray[np.bool_], Frames]:
    """Step games until all have ended; return rewards, whether each terminated, and the frames each ended with."""
    env, frames = _begun(count, seed)
    rewards: list[list[float]] = [[] for _ in range(count)]
    terminated, last, actions = np.zeros(count, np.bool_), frames.copy(), np.zeros(count, np.int64)
    playing, steps = np.arange(count), 0
    while playing.size and (horizon is None or steps < horizon):
        actions[playing] = act(playing, frames[playing])
        frames, reward, ended, cut, _ = env.step(actions)
        for i in playing:
            rewards[i].append(float(reward[i]))
        over = playing[(ended | cut)[playing]]
        terminated[over], last[over] = ended[over], frames[over]
        playing = np.setdiff1d(playing, over)  # who has ended is reset by the environment, and looked at no more
        steps += 1
    env.close()
    return rewards, terminated, last


def _begun(count: int, seed: list[int], **options: Any) -> tuple[Any, Frames]:
    """Make an environment of its own for some games, and start them."""
    number = int(np.random.SeedSequence(seed).generate_state(1)[0] >> 1)  # the environment wants 31 bits
    env = pong(count, number, threads=1, **options)
    return env, env.reset(seed=number)[0]


def starts(count: int, seed: list[int]) -> tuple[Halves, Integers]:
    """Start games, and return the features of what is seen, each distinct screen once, and how often it was seen.

    No-ops before the first serve leave most of the screens alike.
    """
    env, frames = _begun(1, seed)
    seen = [frames[0], *(env.reset()[0][0] for _ in range(count - 1))]  # its generator runs on
    env.close()
    distinct, number = np.unique(np.reshape(seen, (count, -1)), axis=0, return_counts=True)
    return PongNetwork.shipped().features(distinct.reshape(-1, *frames.shape[1:])).astype(np.float16), number


def save(games: list[Game], path: Path) -> None:
    """Write games to a file, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".part")
    with temporary.open("wb") as file:
        np.savez_compressed(
            file,
            features=np.concatenate([game.features for game in games]),
            rewards=np.concatenate([game.rewards for game in games]),
            steps=[len(game.rewards) for game in games],
            terminated=[game.terminated for game in games],
        )
    temporary.replace(path)


def load(path: Path) -> Iterator[Game]:
    """Read games from a file, in the order in which they were written."""
    with np.load(path) as archive:
        features, rewards = archive["features"], archive["rewards"]
        steps, terminated = archive["steps"].tolist(), archive["terminated"].tolist()
    step = state = 0
    for n, ended in zip(steps, terminated, strict=True):
        yield Game(features[state : state + n + 1], rewards[step : step + n], ended)
        step, state = step + n, state + n + 1


def two_views(seed: list[int], steps: int = 150) -> dict[str, Any]:
    """Play the greedy policy for a while; return the screen as a player sees it, and the network's last frame."""
    network = PongNetwork.shipped()
    env, frames = _begun(1, seed)
    screen, picture = _begun(1, seed, grayscale=False, img_height=210, img_width=160, stack_num=1, maxpool=False)
    for _ in range(steps):
        action = network.action_values(frames).argmax(axis=1)
        frames, picture = env.step(action)[0], screen.step(action)[0]
    env.close()
    screen.close()
    grey = frames[0, -1]
    return {"screen": _packed(picture.reshape(210, 160, 3)), "input": _packed(np.repeat(grey[..., None], 3, axis=2))}


def _packed(picture: Frames) -> dict[str, Any]:
    """A picture of few colours as text."""
    colours, pixels = np.unique(picture.reshape(-1, 3), axis=0, return_inverse=True)
    text = b64encode(compress(pixels.astype(np.uint8).tobytes(), 9)).decode()
    return {"shape": list(picture.shape[:2]), "colours": colours.tolist(), "pixels": text}


def unpacked(packed: dict[str, Any]) -> Frames:
    """A picture (height, width, 3) from its text."""
    pixels = np.frombuffer(decompress(b64decode(packed["pixels"])), np.uint8).reshape(packed["shape"])
    picture: Frames = np.array(packed["colours"], np.uint8)[pixels]
    return picture
