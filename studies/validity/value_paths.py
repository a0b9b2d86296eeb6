"""What a problem of the value study is, and the steps of whole episodes from which its data are made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

import inferl
from inferl.data.arrays import Bools, Floats, Integers
from inferl.environments import FiniteMDP

Seed = Sequence[int]  # of one repeat; its data depend on nothing else. Those that begin with 99 are kept for truths
Lookup = Callable[[Any], Any]  # from observations (T, ...) to features (T, d), or to rows of a table (T,)


@dataclass(frozen=True, eq=False)
class ValueProblem:
    """The value of a policy, averaged over where episodes start, and data to estimate it from."""

    name: str  # "family: features"; problems of one family have the same paths for the same seed
    dimension: int  # number of features, or of rows of the table
    tabular: bool
    discount: float
    episodes: int  # of one repeat; 0: one chain without episodes
    truth: float
    truth_error: float  # standard error of the truth; 0: exact
    data: Callable[[Seed], inferl.Transitions]  # the episodes of one repeat, one after the other on stream 0
    start: int | Floats | None = None  # visits of this row or vector are the starts; None: the starts of episodes
    deterministic: bool = False  # every episode is the same

    @property
    def family(self) -> str:
        return self.name.split(":")[0]


@dataclass(frozen=True, eq=False)
class Path:
    """Steps of episodes, one after the other, as they were seen: without features."""

    observations: Any  # (T,) states or (T, k)
    following: Any  # what was seen next, also where the episode ended
    rewards: Floats  # (T,)
    terminated: Bools  # (T,)
    last: Bools  # (T,) where an episode ended or was cut
    ratios: Floats | float = 1.0

    def transitions(self, discount: float, lookup: Lookup) -> inferl.Transitions:
        seen = lookup(self.observations)
        ahead = np.empty_like(seen)
        ahead[:-1] = seen[1:]  # within an episode: features are computed once
        ahead[self.last] = lookup(self.following[self.last])
        if not self.last[-1]:
            ahead[-1] = lookup(self.following[-1:])[0]
        discounts = np.where(self.terminated, 0.0, discount)
        return inferl.Transitions(seen, self.rewards, ahead, discounts, self.ratios, last=self.last | (discounts == 0))


Simulator = Callable[[Seed], Path]


def recent(simulate: Simulator) -> Simulator:
    """Keep the last path, which the other features of a family ask for next."""
    kept = lru_cache(maxsize=1)(lambda seed: simulate(seed))

    return lambda seed: kept(tuple(seed))


def family(
    name: str,
    simulate: Simulator,
    discount: float,
    episodes: int,
    truth: tuple[float, float],
    features: dict[str, tuple[int, Lookup]],
    tables: dict[str, tuple[int, Lookup]] | None = None,
    **others: Any,
) -> list[ValueProblem]:
    """The problems that differ in features only; each set is given with its dimension."""
    draw = recent(simulate)

    def made(label: str, dimension: int, lookup: Lookup, tabular: bool) -> ValueProblem:
        def data(seed: Seed) -> inferl.Transitions:
            return draw(seed).transitions(discount, lookup)

        return ValueProblem(f"{name}: {label}", dimension, tabular, discount, episodes, *truth, data, **others)

    found = [made(label, *given, True) for label, given in (tables or {}).items()]
    return found + [made(label, *given, False) for label, given in features.items()]


def whole_episodes(
    mdp: FiniteMDP,
    target: Floats,
    episodes: int,
    behaviour: Floats | None = None,
    noise: Callable[[Path, Integers, np.random.Generator], Floats] | None = None,
) -> Simulator:
    """Simulate complete episodes of a finite MDP.

    ``noise`` draws the rewards anew where they are random given the transition, from the path, its actions and a
    generator.
    """
    acting = target if behaviour is None else behaviour
    law = mdp.stationary(acting)
    leaving = mdp.outcomes.weights(acting) * mdp.terminal[mdp.outcomes.next_states]
    mean_length = 1 / float(law[mdp.outcomes.states] @ leaving)

    def simulate(seed: Seed) -> Path:
        n = int(1.3 * mean_length * episodes) + 100
        while True:
            # Longer samples go on where shorter ones stopped: asking again, for more, prefers no kind of episode.
            path = mdp.sample(acting, n, seed=[1, *seed])
            ends = np.flatnonzero(path.terminated)
            if ends.size >= episodes:
                break
            n *= 2
        steps = slice(0, int(ends[episodes - 1]) + 1)
        ratios = 1.0 if behaviour is None else path.ratios(target, behaviour)[steps]
        ended = path.terminated[steps]
        found = Path(path.states[steps], path.next_states[steps], path.rewards[steps], ended, ended, ratios)
        if noise is None:
            return found
        rewards = noise(found, path.actions[steps], np.random.default_rng([2, *seed]))
        return Path(found.observations, found.following, rewards, ended, ended, ratios)

    return simulate


Begin = Callable[[np.random.Generator, int], Floats]  # first states, (k, n)
Step = Callable[[Floats, np.random.Generator], tuple[Floats, Floats, Bools]]  # next states, rewards, whether ended


def abreast(begin: Begin, step: Step, episodes: int, limit: int, seed: Seed) -> Path:
    """Play episodes side by side, each until it ends or is cut at the limit, and put them one after the other."""
    generator = np.random.default_rng(seed)
    state, who = begin(generator, episodes), np.arange(episodes)
    steps = []
    for t in range(limit):
        following, rewards, ended = step(state, generator)
        last = ended if t + 1 < limit else np.ones_like(ended)
        steps.append((who, state, following, rewards, ended, last))
        going = ~last
        if not going.all():
            who, following = who[going], following[:, going]
            if who.size == 0:
                break
        state = following
    columns = [np.concatenate(column, axis=-1) for column in zip(*steps, strict=True)]
    order = np.argsort(columns[0], kind="stable")  # by episode; in each, steps keep their order
    seen, following, rewards, terminated, last = (column[..., order] for column in columns[1:])
    return Path(seen.T, following.T, rewards, terminated, last)


def returns(begin: Begin, step: Step, episodes: int, limit: int, discount: float, seed: Seed) -> Floats:
    """The returns of fresh episodes, without their steps."""
    generator = np.random.default_rng(seed)
    state, who = begin(generator, episodes), np.arange(episodes)
    found, factor = np.zeros(episodes), 1.0
    for _ in range(limit):
        state, rewards, ended = step(state, generator)
        found[who] += factor * rewards
        factor *= discount
        if ended.any():
            going = ~ended
            who, state = who[going], state[:, going]
            if who.size == 0:
                break
    return found
