"""Algorithm 1 as plain loops: the truth that every kernel is compared with. Imports nothing from the package.

Written from the paper (with the signs and the averaging of docs/method.md), one replica, one step, one coordinate at a
time. Slow on purpose.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

Vector = list[float]
Field = Callable[[Vector], Vector]  # theta -> H_t(theta)


@dataclass(frozen=True)
class Step:
    """One transition, with its features written out."""

    phi: Vector
    reward: float
    phi_next: Vector
    discount: float
    ratio: float = 1.0
    first: bool = False


def dot(x: Sequence[float], y: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(x, y, strict=True))


def philox_words(counter: Sequence[int], key: Sequence[int]) -> list[int]:
    """Philox 4x32-10 in plain integers."""
    x0, x1, x2, x3 = counter
    k0, k1 = key
    for _ in range(10):
        p0, p1 = 0xD2511F53 * x0, 0xCD9E8D57 * x2
        x0, x1, x2, x3 = (p1 >> 32) ^ x1 ^ k0, p1 % 2**32, (p0 >> 32) ^ x3 ^ k1, p0 % 2**32
        k0, k1 = (k0 + 0x9E3779B9) % 2**32, (k1 + 0xBB67AE85) % 2**32
    return [x0, x1, x2, x3]


def uniform_multiplier(seed: int, replica: int, tick: int, stream: int = 0) -> float:
    """U(1 - 1/sqrt 3, 1 + 1/sqrt 3); four ticks share a call."""
    call = tick // 4
    words = philox_words((call % 2**32, call >> 32, replica, stream), (seed % 2**32, seed >> 32))
    unit = (words[tick % 4] + 0.5) / 2**32
    return 1 + (2 * unit - 1) / 3**0.5


def td_fields(steps: Sequence[Step], trace: float = 0.0) -> list[Field]:
    """TD(lambda): H(theta) = z (r + g phi' theta - phi theta)."""
    fields: list[Field] = []
    z = [0.0] * len(steps[0].phi)
    g_into = 0.0
    for step in steps:
        if step.first:
            z = [0.0] * len(z)
        z = [step.ratio * (trace * g_into * old + now) for old, now in zip(z, step.phi, strict=True)]
        g_into = step.discount

        def field(theta: Vector, z: Vector = z, step: Step = step) -> Vector:
            error = step.reward + step.discount * dot(step.phi_next, theta) - dot(step.phi, theta)
            return [z_i * error for z_i in z]

        fields.append(field)
    return fields


def gtd2_fields(steps: Sequence[Step], auxiliary_step: float = 1.0) -> list[Field]:
    """GTD2 on (theta, y): y follows phi (rho delta - phi y), theta follows rho (phi - g phi') (phi y)."""
    fields: list[Field] = []
    for step in steps:

        def field(both: Vector, step: Step = step) -> Vector:
            d = len(step.phi)
            theta, y = both[:d], both[d:]
            delta = step.reward + step.discount * dot(step.phi_next, theta) - dot(step.phi, theta)
            along = dot(step.phi, y)
            change_theta = [
                step.ratio * (now - step.discount * after) * along
                for now, after in zip(step.phi, step.phi_next, strict=True)
            ]
            change_y = [auxiliary_step * now * (step.ratio * delta - along) for now in step.phi]
            return change_theta + change_y

        fields.append(field)
    return fields


def online_bootstrap(
    fields: Sequence[Field],
    step_sizes: Sequence[float],
    multipliers: Callable[[int, int], float],
    n_parameters: int,
    n_replicas: int,
    average: Callable[[int], float],
) -> list[Vector]:
    """Algorithm 1: averages of row 0 (multiplier 1) and of B perturbed rows.

    `multipliers(replica, t)` is W; `average(t)` is the weight of step t in the average, t = 1, 2, ...
    """
    averages = []
    for row in range(n_replicas + 1):
        theta = [0.0] * n_parameters
        total, weight_sum = [0.0] * n_parameters, 0.0
        for t, (field, step_size) in enumerate(zip(fields, step_sizes, strict=True), start=1):
            w = 1.0 if row == 0 else multipliers(row - 1, t)
            h = field(theta)
            theta = [x + step_size * w * change for x, change in zip(theta, h, strict=True)]
            weight = average(t)
            weight_sum += weight
            total = [s + weight * x for s, x in zip(total, theta, strict=True)]
        averages.append([s / weight_sum for s in total])
    return averages
