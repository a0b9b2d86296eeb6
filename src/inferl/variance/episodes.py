"""Summary of the episodes so far: how they ended, their returns, and the distribution of their weights.

Reports and checks read from these sums: the share of truncated episodes, how much of the value lies beyond the
truncation, the effective number of episodes under the importance weights, and the range of possible values.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from inferl import engine
from inferl.data.arrays import Floats, InPlace
from inferl.data.invariants import COUNT, bounds, shapes
from inferl.data.streams import Steps
from inferl.data.transitions import Transitions

__all__ = ["EpisodeSummary"]

CAPACITY = 8192  # ended episodes that are added at once
EARNED, WEIGHT, DISCOUNT, MEAN_WEIGHT, OPEN = range(5)  # columns of `open`


@dataclass(eq=False)
class EpisodeSummary(InPlace):
    """Sums over ended episodes, and the state of open ones; updated in place."""

    open: Floats = field(default_factory=lambda: np.zeros((1, 0, 5)))  # (m, S, 5), see engine.backend.FollowEpisodes
    begun: int = 0
    terminated: int = 0  # ended in a terminal state
    limited: int = 0  # ended by a time limit that is part of the task
    cut: int = 0  # truncated: the rewards after it are unobserved
    beyond: Floats = field(default_factory=lambda: np.zeros(1))  # (m,) sum of the weights beyond truncated ends
    weights: Floats = field(default_factory=lambda: np.zeros((1, 2)))  # (m, 2) sums of mean weights and their squares
    earned: Floats = field(default_factory=lambda: np.array([np.inf, -np.inf]))  # extreme returns, if complete
    rewards: Floats = field(default_factory=lambda: np.array([np.inf, -np.inf]))  # smallest and largest reward
    discounts: Floats = field(default_factory=lambda: np.array([np.inf, -np.inf]))  # the same, of positive ones
    steps: int = 0

    def verify(self) -> None:
        """Raise for sums that no episodes can have."""
        shapes(
            self, {"open": "m S 5", "beyond": "m", "weights": "m 2", "earned": "2", "rewards": "2", "discounts": "2"}
        )
        bounds(self, dict.fromkeys(("begun", "terminated", "limited", "cut", "steps"), COUNT))

    def add(self, steps: Steps) -> None:
        """Add steps in their order."""
        data = steps.data
        if not isinstance(data, Transitions):
            return
        ratios = data.ratios if data.ratios.ndim == 2 else data.ratios[:, None]
        self._grow(ratios.shape[1], int(steps.clock.slot.max(initial=-1)) + 1)
        self.begun += int(np.count_nonzero(steps.first))
        self.steps += len(data)
        positive = data.discounts if data.discounts.min() > 0 else data.discounts[data.discounts > 0]
        self.rewards, self.discounts = _widened(self.rewards, data.rewards), _widened(self.discounts, positive)
        for policy, ratio in enumerate(ratios.T):
            self._follow(policy, np.ascontiguousarray(ratio), data, steps)

    def _grow(self, policies: int, streams: int) -> None:
        """Add capacity for more streams, and, once, for several policies."""
        if policies > len(self.open):
            self.open = np.zeros((policies, 0, 5))
            self.beyond, self.weights = np.zeros(policies), np.zeros((policies, 2))
        if streams > self.open.shape[1]:
            new = np.zeros((len(self.open), streams - self.open.shape[1], 5))
            self.open = np.concatenate([self.open, new], axis=1)

    def _follow(self, policy: int, ratio: Floats, data: Transitions, steps: Steps) -> None:
        """Accumulate returns and weights under the ratios of one policy; how they end is the same for all."""
        closed, row = np.empty((min(CAPACITY, len(data) + 2), 5)), 0
        columns = data.rewards, data.discounts, ratio, steps.clock.slot, steps.first, steps.clock.last
        while row < len(data):
            row, number = engine.active().follow_episodes(*columns, self.open[policy], closed, engine.LARGEST, row)
            if number:
                self._close(policy, closed[:number], data)

    def _close(self, policy: int, closed: Floats, data: Transitions) -> None:
        at = closed[:, OPEN].astype(np.int64)  # the row that ended the episode, or -1 where none is marked as its end
        ended = (at >= 0) & (data.discounts[at] == 0)
        if policy == 0:
            limited = ended & data.truncated[at]
            self.terminated += int(np.count_nonzero(ended & ~limited))
            self.limited += int(np.count_nonzero(limited))
            self.cut += int(np.count_nonzero(~ended))
            self.earned = _widened(self.earned, closed[ended, EARNED])
        # One after the other: sums must not depend on chunk borders.
        beyond = _beyond(closed)
        self.beyond[policy] = np.cumsum(np.r_[self.beyond[policy], beyond[~ended]])[-1]
        weight = closed[:, MEAN_WEIGHT] + beyond
        both = np.stack([weight, weight**2], axis=1)
        self.weights[policy] = np.cumsum(np.concatenate([self.weights[policy, None], both]), axis=0)[-1]

    def handed_over(self) -> tuple[EpisodeSummary, EpisodeSummary]:
        """Return a summary that begins here, with the open episodes, and this one without them."""
        m, rest = len(self.open), self.copy()
        rest.open = np.zeros_like(self.open)
        return EpisodeSummary(open=self.open.copy(), beyond=np.zeros(m), weights=np.zeros((m, 2))), rest

    @property
    def closed(self) -> int:
        """Number of episodes that have ended, truncated ones included."""
        return self.terminated + self.limited + self.cut

    @property
    def share_beyond(self) -> float:
        """Share of an episode's weight that lies beyond the data, after truncation and in open episodes.

        This and the next two properties return the worst of several policies.
        """
        return float((self.beyond + self._still_open()).max()) / self.begun if self.begun else 0.0

    @property
    def share_of_visits(self) -> float:
        """An approximation of `share_beyond` if every visit is a start (truncation costs 1 / (1 - discount) steps)."""
        ends = self.cut + int(np.count_nonzero(self.open[0, :, OPEN] > 0))
        lost = self.steps * (1 - max(self.discounts[1], 0.0))
        return min(ends / lost, 1.0) if lost > 0 else 1.0

    @property
    def effective(self) -> float:
        """Effective number of episodes, (sum w)^2 / sum w^2 of their mean weights."""
        total, squares = self.weights.T
        return float(np.min(np.divide(total**2, squares, out=np.zeros_like(total), where=squares > 0)))

    @property
    def mean_weight(self) -> tuple[float, float]:
        """Mean weight of an episode, which is 1 in expectation, and how many standard errors it is from 1."""
        if self.closed < 2:
            return 1.0, 0.0
        mean, square = (self.weights / self.closed).T
        error = np.sqrt(np.maximum(square - mean**2, 0.0) / (self.closed - 1))
        distance = np.divide(np.abs(mean - 1), error, out=np.zeros_like(mean), where=error > 0)
        worst = int(np.argmax(distance))
        return float(mean[worst]), float(distance[worst])

    def _still_open(self) -> Floats:
        """Weight beyond the latest step of the open episodes, (m,)."""
        return np.asarray((_beyond(self.open) * (self.open[..., OPEN] > 0)).sum(axis=1))

    def possible(self) -> tuple[float, float]:
        """Smallest and largest value that the rewards and the discount allow; if undiscounted, the observed returns.

        Infinite where there is no bound, as when undiscounted episodes were truncated.
        """
        if self.steps > 0 and self.discounts[1] == 1 and self.cut == 0 and self.terminated + self.limited > 0:
            return self.earned[0], self.earned[1]
        if self.steps == 0 or not self.discounts[1] < 1:
            return -np.inf, np.inf
        low, high = self.rewards / (1 - max(self.discounts[1], 0.0))
        return min(low, self.rewards[0]), max(high, self.rewards[1])  # an episode may have a single step

    def plus(self, other: EpisodeSummary) -> EpisodeSummary:
        """Add the episodes of two separate streams; the open ones of `self` continue."""
        both = self.copy()
        for name in ("begun", "terminated", "limited", "cut", "steps"):
            setattr(both, name, getattr(self, name) + getattr(other, name))
        both.beyond, both.weights = self.beyond + other.beyond + other._still_open(), self.weights + other.weights
        for name in ("earned", "rewards", "discounts"):
            setattr(both, name, _widened(getattr(self, name), getattr(other, name)))
        return both


def _beyond(episodes: Floats) -> Floats:
    """Weight of the value after the latest step: importance weight times discount."""
    return np.asarray(episodes[..., WEIGHT] * episodes[..., DISCOUNT])


def _widened(bounds: Floats, values: Floats) -> Floats:
    """Update the smallest and largest value."""
    if len(values) == 0:
        return bounds
    return np.array([min(bounds[0], values.min()), max(bounds[1], values.max())])
