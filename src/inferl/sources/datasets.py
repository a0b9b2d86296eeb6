"""Minari datasets as a source of transitions, episode by episode."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from inferl.data.arrays import as_count
from inferl.data.batches import rows
from inferl.data.invariants import COUNT, bounds, demand
from inferl.data.transitions import Transitions
from inferl.errors import CheckpointMismatchError, InputError, MissingExtraError, SettingError
from inferl.features import Features
from inferl.features.one_hot import as_features
from inferl.policies import Ratio
from inferl.sources.base import as_plain, from_plain
from inferl.sources.starts import Starts
from inferl.sources.steps import check_discount, limit_ends

__all__ = ["MinariDataset", "minari"]

EpisodeRatio = Callable[[Any], ArrayLike]  # from a Minari episode to the ratios (T,) of its steps


@dataclass(frozen=True, eq=False)
class _Progress:
    """How far a dataset has been read."""

    dataset: str  # id
    episodes: int = 0  # read
    starts: Starts = field(default_factory=Starts)

    def verify(self) -> None:
        """Check the bounds of a position that comes from a file."""
        bounds(self, {"episodes": COUNT})
        demand(self.starts.number == self.episodes, f"{self.episodes} episodes have {self.starts.number} starts")


@dataclass(frozen=True, eq=False)
class MinariDataset:
    """A Minari dataset as a `Source`; made by `minari`. Each iteration reads it from its beginning.

    Attributes
    ----------
    dataset
        The dataset, an object of Minari.

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
    _begin: _Progress | None = field(default=None, repr=False)  # where an iteration starts
    _now: list[_Progress] = field(default_factory=list, repr=False)  # of the latest iteration; the only mutable field

    def __iter__(self) -> Iterator[Transitions]:
        progress = self._begin or _Progress(str(self.dataset.id))
        self._now[:] = [progress]
        chunks: list[Transitions] = []
        for episode in self.dataset.iterate_episodes(self.dataset.episode_indices[progress.episodes :]):
            chunks.append(self._transitions(episode))
            if sum(map(len, chunks)) >= self.batch:
                progress = self._moved(progress, chunks)
                yield Transitions.join(chunks)
                chunks = []
        if chunks:
            self._moved(progress, chunks)
            yield Transitions.join(chunks)

    def _moved(self, progress: _Progress, episodes: list[Transitions]) -> _Progress:
        """Move the position behind some episodes, which are about to be handed out."""
        starts = progress.starts
        for episode in episodes:
            starts = starts.updated(episode.features[:1], self.dimension if episode.tabular else None)
        now = replace(progress, episodes=progress.episodes + len(episodes), starts=starts)
        self._now[:] = [now]
        return now

    def _transitions(self, episode: Any) -> Transitions:
        """Turn one episode into a chunk: the last row closes it, and the discount is 0 only where it terminates."""
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
        """Return the steps after which the discount is 0."""
        terminated = np.asarray(episode.terminations, np.bool_)
        return terminated | np.asarray(episode.truncations, np.bool_) if self.ends else terminated

    def _ratios(self, episode: Any) -> ArrayLike:
        if self.ratio is None:
            return 1.0
        if isinstance(self.ratio, Ratio):
            return self.ratio.batch(rows(episode.observations, np.arange(len(episode))), episode.actions)
        return self.ratio(episode)

    @property
    def _progress(self) -> _Progress:
        return self._now[0] if self._now else self._begin or _Progress(str(self.dataset.id))

    @property
    def dimension(self) -> int:
        """Length of the features, or number of states of the table."""
        return self.features.dimension

    @property
    def position(self) -> dict[str, Any]:
        """How far the latest iteration has come, as plain data for `resume`."""
        plain: dict[str, Any] = as_plain(self._progress)
        return plain

    def resume(self, position: Any) -> MinariDataset:
        """Return the same dataset; its iterations begin at a position."""
        progress: _Progress = from_plain(_Progress, position)
        if progress.dataset != self.dataset.id or progress.episodes > len(self.dataset.episode_indices):
            raise CheckpointMismatchError(
                f"{progress.episodes} episodes of {progress.dataset} were read before; {self.dataset.id} has "
                f"{len(self.dataset.episode_indices)}, so it is another dataset: evaluate it from the beginning"
            )
        fits = progress.episodes == 0 or len(progress.starts.total) == self.dimension
        demand(fits, f"the observed starts do not have {self.dimension} features")
        return replace(self, _begin=progress, _now=[])

    def start(self, conditional: bool = False) -> Starts:
        """Return the observed start distribution, as a target: the mean features of the episode starts read so far.

        It stands for the distribution that the starts were drawn from; with `conditional`, for these starts themselves.
        """
        return self._progress.starts.of(self.start, conditional)

    def describe(self) -> dict[str, str]:
        """Return what a report should say about the dataset."""
        return {"dataset": f"{self.dataset.id}, {self._progress.episodes:,} episodes"}


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
        The id of a dataset on this machine, or what `minari.load_dataset` returned.
    features
        Turns observations into features. Default: the observations are states of a ``Discrete`` space.
    discount
        gamma, in (0, 1].
    ratio
        Target / behaviour: an `inferl.policies.Ratio`, or a function from a Minari episode to the ratios of its steps.
    batch
        Smallest number of steps in a chunk; chunks hold whole episodes.
    time_limit
        What a truncation means: ``"ends"`` or ``"cut"``, as in `inferl.sources.rollout`.

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
