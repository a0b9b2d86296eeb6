"""How many random Fourier features "auto" should have: the width of the value, and the bias of the features alone.

    python -m studies.validity.auto_features

Prints the table of docs/guides/features.md: median and largest width over 8 runs of each problem, seeds 0 to 7, with
discount 0.99 and time limits that cut, and the median bias; about 5 minutes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import inferl
from inferl.features import Function, RandomFourier
from inferl.features.named import FITTED_ON
from inferl.policies import epsilon_greedy
from studies.markdown import table
from studies.validity.returns import lander_pilot, upright, with_the_motion, with_the_swing

SEEDS, NUMBERS = range(8), (0, 32, 64, 128, 256)


def swing_up(pendulum: Any) -> Any:
    """Torque with the motion while the pendulum hangs, against the angle and the motion near the top."""
    cosine, sine, speed = pendulum
    return np.clip([-10 * sine - 2 * speed if cosine >= 0.8 else 2 * np.sign(speed)], -2, 2)


@dataclass(frozen=True)
class Problem:
    """An environment whose observations are k numbers, a policy that acts, and one to evaluate if it is another."""

    env: str
    k: int
    episodes: int
    policy: Callable[[], Any]  # made when it is wanted: Box2D may be missing
    target: Any = None


PROBLEMS = {
    "CartPole": Problem("CartPole-v1", 4, 200, lambda: lambda pole: int(pole[2] > 0)),
    "CartPole, off-policy": Problem(
        "CartPole-v1", 4, 200, lambda: epsilon_greedy(upright, 0.5, 2), epsilon_greedy(upright, 0.4, 2)
    ),
    "MountainCar, off-policy": Problem(
        "MountainCar-v0",
        2,
        200,
        lambda: epsilon_greedy(with_the_motion, 0.2, 3),
        epsilon_greedy(with_the_motion, 0.15, 3),
    ),
    "Pendulum": Problem("Pendulum-v1", 3, 100, lambda: swing_up),
    "Acrobot": Problem("Acrobot-v1", 6, 100, lambda: epsilon_greedy(with_the_swing, 0.1, 3)),
    "LunarLander": Problem("LunarLander-v3", 8, 100, lander_pilot),
}


def played(problem: Problem, seed: int) -> inferl.Transitions:
    """Transitions whose features are the observations themselves."""
    seen = Function(lambda observations: np.asarray(observations, np.float64), problem.k)
    source = inferl.sources.rollout(
        problem.env, problem.policy(), seen, 0.99, seed=seed, target_policy=problem.target, time_limit="cut"
    )
    found = inferl.Transitions.join(list(source.take(episodes=problem.episodes)))
    source.close()
    return found


def one_run(data: inferl.Transitions, n: int) -> tuple[float, float]:
    """Return the width of the interval, and how far the features alone are from the value."""
    features = RandomFourier.from_data(data.features[:FITTED_ON], n)
    mapped = inferl.Transitions(
        features(data.features),
        data.rewards,
        features(data.next_features),
        data.discounts,
        data.ratios,
        last=data.last,
        episode=data.episode,
        truncated=data.truncated,
    )
    evaluator = inferl.Evaluator(inferl.DoublyRobust(features.dimension)).update(mapped)
    value, fitted = evaluator.interval(), evaluator.interval("fitted")
    return float(value.width), float(fitted.estimate - value.estimate)


def main() -> None:
    rows = []
    for name, problem in PROBLEMS.items():
        data = [played(problem, seed) for seed in SEEDS]
        found = [np.array([one_run(one, n) for one in data]).T for n in NUMBERS]  # widths and biases
        cells = [f"{np.median(w):.3g} ({w.max():.3g}), {np.median(bias):+.2g}" for w, bias in found]
        rows.append([name, str(problem.k), *cells])
        print(rows[-1], flush=True)
    print(table(["problem", "numbers", *map(str, NUMBERS)], rows))


if __name__ == "__main__":
    main()
