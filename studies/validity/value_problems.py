"""The problems of the value study: is a policy's value, averaged over where episodes start, covered by its interval?

Each problem gives the data of one repeat for a seed, and the true value. ``python -m studies.validity.value_problems``
checks that the two belong together: (weighted) returns in the data average to the truth. Names of families choose some.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import cache, partial
from time import perf_counter

import numpy as np

import inferl
from inferl.data.arrays import Bools, Floats
from studies.markdown import table
from studies.validity import value_control as control
from studies.validity import value_finite as finite
from studies.validity.value_paths import Seed, ValueProblem, returns

__all__ = ["FAMILIES", "NAMES", "Seed", "ValueProblem", "problem"]

CLINIC = ("3 bins", "rich", "linear")
CARTPOLE, LIMITED = ("linear", "Fourier 1", "Fourier 2", "tiles"), ("linear", "Fourier 1")
CHAIN = ("random 4", "4 groups")

# How each family is made, and its features.
FAMILIES: dict[str, tuple[Callable[[], list[ValueProblem]], tuple[str, ...]]] = {
    "FrozenLake": (finite.frozen_lake, ("table", "tiles 2x2", "tiles 4x4", "random 4")),
    "Taxi": (finite.taxi, ("table", "position")),
    "CliffWalking": (partial(finite.cliff, 0.0), ("table",)),
    "CliffWalking, epsilon-greedy": (partial(finite.cliff, 0.1), ("table",)),
    "Blackjack, stick on 20": (partial(finite.blackjack, 20), ("table",)),
    "Blackjack, stick on 18": (partial(finite.blackjack, 18), ("table",)),
    "clinic 5, 0.6": (partial(finite.clinic, 5, 0.6), CLINIC),
    "clinic 10, 0.6": (partial(finite.clinic, 10, 0.6), CLINIC),
    "clinic 20, 0.6": (partial(finite.clinic, 20, 0.6), CLINIC),
    "clinic 20, 1.0": (partial(finite.clinic, 20, 1.0), CLINIC),
    "ads": (finite.ads, ("all states", "hidden fatigue")),
    "bandit": (finite.bandit, ("linear",)),
    "chain, on-policy": (partial(finite.chain, "on-policy"), CHAIN),
    "chain, mild": (partial(finite.chain, "mild"), CHAIN),
    "chain, strong": (partial(finite.chain, "strong"), CHAIN),
    "sepsis": (finite.septic, ("table", "components", "factors")),
    "CartPole lean": (partial(control.cartpole, "CartPole lean"), CARTPOLE),
    "CartPole clumsy": (partial(control.cartpole, "CartPole clumsy"), CARTPOLE),
    "CartPole good": (partial(control.cartpole, "CartPole good"), CARTPOLE),
    "CartPole lean, limit": (partial(control.cartpole, "CartPole lean, limit"), LIMITED),
    "CartPole clumsy, limit": (partial(control.cartpole, "CartPole clumsy, limit"), LIMITED),
    "CartPole good, limit": (partial(control.cartpole, "CartPole good, limit"), LIMITED),
    "Acrobot": (control.acrobot, ("linear", "Fourier 1")),
    "LunarLander": (control.lunar_lander, ("linear",)),
}

NAMES: list[str] = [f"{family}: {label}" for family, (_, labels) in FAMILIES.items() for label in labels]


@cache
def problems(family: str) -> dict[str, ValueProblem]:
    """The problems of a family by name; made once in each process."""
    return {one.name: one for one in FAMILIES[family][0]()}


def problem(name: str) -> ValueProblem:
    """The problem of that name, "family: features"."""
    return problems(name.split(":")[0])[name]


def starts(one: ValueProblem, data: inferl.Transitions) -> Bools:
    """Where the starts of the value are."""
    if one.start is None:
        return np.append(True, data.last[:-1])
    return np.asarray((data.features == one.start).reshape(len(data), -1).all(axis=1))


def weighted_returns(one: ValueProblem, data: inferl.Transitions) -> tuple[float, int]:
    """The sum of the weighted returns of all starts, as far as the data go, and the number of starts."""
    begins = starts(one, data)
    columns = (data.rewards, data.ratios, data.discounts, data.last, begins)
    total = weight = 0.0  # the weight of a step: over the starts before it, discounts times ratios since then
    for reward, ratio, discount, last, begin in zip(*(column.tolist() for column in columns), strict=True):
        weight = (weight + begin) * ratio
        total += weight * reward
        weight = 0.0 if last else weight * discount
    return total, int(begins.sum())


def departure(sums: Floats, counts: Floats, truth: float, error: float) -> float:
    """How many standard errors the mean over repeats is away from the truth; the truth may have an error, too."""
    mean = sums.sum() / counts.sum()
    own = np.sqrt(((sums - mean * counts) ** 2).sum()) / counts.sum()
    gap = float(mean - truth)
    if abs(gap) < 1e-9:  # nothing is random
        return 0.0
    return gap / float(np.hypot(own, error))


def check(family: str, repeats: int, episodes: int) -> None:
    """Check a family, and print a line for each of its problems."""
    made = problems(family)
    assert list(made) == [f"{family}: {label}" for label in FAMILIES[family][1]]
    one = next(iter(made.values()))
    pairs = [weighted_returns(one, one.data([7, number])) for number in range(repeats)]
    sums, counts = np.array(pairs, dtype=np.float64).T
    truth, error = one.truth, one.truth_error
    if one.start is None:
        assert (counts == one.episodes).all()
    away = []
    if family in control.TRUTHS and one.discount < 1 and family != "LunarLander":
        # Returns in the data stop at the cut; the truth does not. Each is compared with fresh episodes of its own kind.
        begin, step, _ = control.dynamics(family)
        long = control.fresh(family, episodes, [7, 7])
        away.append(departure(long, np.ones(episodes), truth, error))
        short = returns(begin, step, episodes, control.LIMIT, one.discount, [7, 8])
        truth, error = float(short.mean()), float(short.std() / np.sqrt(episodes))
    away.append(departure(sums, counts, truth, error))
    assert max(map(abs, away)) < 4, (family, away)
    rows = []
    for each in made.values():
        data = each.data([8, 0])
        begin_clock = perf_counter()
        lengths = [len(each.data([8, number])) for number in range(1, 6)]
        seconds = (perf_counter() - begin_clock) / 5
        again = each.data([8, 0])
        assert data.tabular == each.tabular
        if each.tabular:
            assert max(data.features.max(), data.next_features.max()) < each.dimension
        else:
            assert data.features.shape[1] == each.dimension
        for column in ("features", "next_features", "rewards", "ratios"):
            assert np.array_equal(getattr(data, column), getattr(again, column))
        inside = np.flatnonzero(~data.last[:-1])
        assert np.array_equal(data.features[inside + 1], data.next_features[inside])
        known = "exact" if each.truth_error == 0 else f"{each.truth_error:.2g}"
        z = ", ".join(f"{a:+.1f}" for a in away)
        row = [each.name, str(each.dimension), f"{each.truth:.6g}", known, z, f"{seconds:.3f}"]
        rows.append([*row, f"{np.mean(lengths):,.0f}"])
    head = ["problem", "dimension", "truth", "its error", "away, in standard errors", "seconds a repeat", "transitions"]
    print(table(head, rows), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Check that data and truths belong together.")
    parser.add_argument("families", nargs="*", default=list(FAMILIES))
    parser.add_argument("--repeats", type=int, default=100)
    parser.add_argument("--episodes", type=int, default=200_000, help="fresh ones, where data are cut")
    options = parser.parse_args()
    for family in options.families:
        check(family, options.repeats, options.episodes)


if __name__ == "__main__":
    main()
