"""Transitions from a Minari dataset, episode by episode."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from inferl.data.arrays import as_count
from inferl.data.batches import rows
from inferl.data.transitions import Transitions
from inferl.errors import InputError, MissingExtraError, SettingError
from inferl.features import Features
from inferl.features.one_hot import as_features
from inferl.policies import Ratio
from inferl.sources.starts import Starts
from inferl.sources.steps import check_discount, limit_ends

__all__ = ["MinariDataset", "minari"]

EpisodeRatio = Callable[[Any], ArrayLike]  # from an episode of Minari to the ratios (T,) of its steps


@dataclass(frozen=True, eq=False)
class MinariDataset:
    """A dataset of Minari, to be iterated over; made by `minari`. Each iteration reads it anew.

    Attributes
    ----------
    dataset
        The dataset of Minari itself.

    Examples
    --------
    >>> import gymnasium, inferl
    >>> from minari import EpisodeData
    >>> class Dataset:  # what minari.load_dataset("lake/one-v0") returns
    ...     id, episode_indices, observation_space = "lake/one-v0", np.arange(1), gymnasium.spaces.Discrete(16)
    ...
    ...     def iterate_episodes(self, indices):
    ...         for i in indices:
    ...             ends = np.array([False, True])
    ...             yield EpisodeData(i, np.array([0, 4, 5]), np.ones(2), np.zeros(2), ends, ~ends & ends, {})
    >>> [chunk.features.tolist() for chunk in inferl.sources.minari(Dataset(), discount=0.9)]
    [[0, 4]]
    """

    dataset: Any
    features: Features
    discount: float
    ratio: Ratio | EpisodeRatio | None
    batch: int
    ends: bool  # whether a time limit ends an episode, or cuts it off
    _begin: tuple[int, Starts] = field(default=(0, Starts()), repr=False)  # episodes read before, and their starts
    _now: list[tuple[int, Starts]] = field(default_factory=list, repr=False)  # the same now; the only thing to change

    def __iter__(self) -> Iterator[Transitions]:
        number, starts = self._begin
        chunks: list[Transitions] = []
        for episode in self.dataset.iterate_episodes(self.dataset.episode_indices[number:]):
            chunks.append(self._transitions(episode))
            first = chunks[-1].features[:1]
            starts = starts.updated(first, self.features.dimension if first.ndim == 1 else None)
            number += 1
            self._now[:] = [(number, starts)]
            if sum(map(len, chunks)) >= self.batch:
                yield Transitions.join(chunks)
                chunks = []
        if chunks:
            yield Transitions.join(chunks)

    def _transitions(self, episode: Any) -> Transitions:
        """Make a chunk of one episode: it ends where its data end, and its value only where it terminates."""
        n = len(episode)
        last = np.arange(n) == n - 1
        try:
            phi = self.features(episode.observations)
            return Transitions(
                phi[:n],
                episode.rewards,
                phi[1 : n + 1],
                np.where(self._ended(episode), 0.0, self.discount),
                self._ratios(episode),
                last=last,
                episode=int(episode.id),
                truncated=last & ~np.asarray(episode.terminations, np.bool_),
            )
        except InputError as error:
            raise type(error)(f"{self.dataset.id}, episode {episode.id}: {error}") from None

    def _ended(self, episode: Any) -> Any:
        """Say where nothing comes after a step."""
        terminated = np.asarray(episode.terminations, np.bool_)
        return terminated | np.asarray(episode.truncations, np.bool_) if self.ends else terminated

    def _ratios(self, episode: Any) -> ArrayLike:
        if self.ratio is None:
            return 1.0
        if isinstance(self.ratio, Ratio):
            return self.ratio.batch(rows(episode.observations, np.arange(len(episode))), episode.actions)
        return self.ratio(episode)

    @property
    def progress(self) -> tuple[int, Starts]:
        """How far the latest iteration has come: episodes read, and their starts; `resume` goes on from there."""
        return self._now[0] if self._now else self._begin

    def start(self) -> Starts:
        """Return the mean features of the episode starts read so far: a target, for the observed starts."""
        return self.progress[1].of(self.start)

    def resume(self, progress: tuple[int, Starts]) -> MinariDataset:
        """Return the same dataset, to be read from a position on."""
        return replace(self, _begin=progress, _now=[])


def minari(
    dataset: Any,
    features: Any = None,
    discount: float = 0.99,
    ratio: Ratio | EpisodeRatio | None = None,
    batch: int = 4096,
    time_limit: str | None = None,
) -> MinariDataset:
    """Read transitions from a Minari dataset.

    Parameters
    ----------
    dataset
        The id of a dataset on this machine, or a dataset that `minari.load_dataset` returned.
    features
        Turns observations into features; without it, the observations must be numbers of states.
    discount
        gamma, in (0, 1].
    ratio
        Target / behaviour: a `inferl.policies.Ratio`, or a function from an episode of Minari to its steps' ratios.
    batch
        Steps in a chunk, at least; episodes are not cut.
    time_limit
        Of truncated episodes: ``"ends"`` or ``"cut"``, as in `inferl.sources.rollout`.

    Examples
    --------
    >>> import gymnasium, inferl
    >>> from minari import EpisodeData
    >>> class Dataset:  # what minari.load_dataset("lake/down-v0") returns
    ...     id, episode_indices, observation_space = "lake/down-v0", np.arange(3), gymnasium.spaces.Discrete(16)
    ...
    ...     def iterate_episodes(self, indices):
    ...         for i in indices:
    ...             ends = np.array([False, True])
    ...             yield EpisodeData(i, np.array([0, 4, 5]), np.ones(2), np.zeros(2), ends, ~ends & ends, {})
    >>> source = minari(Dataset(), discount=0.9)
    >>> evaluator = inferl.Evaluator(inferl.TD(16)).update(source)
    >>> evaluator.episodes, source.start().text
    (3, 'the 3 observed starts')
    """
    as_count("batch", batch, 1)
    if isinstance(dataset, str):
        try:
            from minari import load_dataset
        except ImportError:
            raise MissingExtraError("minari", "data") from None
        try:
            dataset = load_dataset(dataset)
        except FileNotFoundError:
            raise SettingError(
                f"there is no dataset {dataset!r} on this machine; get it with: minari download {dataset}"
            ) from None
    usual = dataset.observation_space if features is None else features
    ends = limit_ends(time_limit, check_discount(discount))
    return MinariDataset(dataset, as_features(usual), float(discount), ratio, batch, ends)
