"""Steps of an environment, and how they become transitions."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from inferl.batches import stacked
from inferl.errors import MissingExtraError, SettingError
from inferl.features import Features
from inferl.rows import Bools
from inferl.sources.starts import Starts
from inferl.transitions import Transitions

__all__ = ["Step", "check_discount", "check_space", "import_gymnasium", "limit_ends", "transitions", "with_starts"]


class Step(NamedTuple):
    """One step of one (sub-)environment; never one that leads across a reset."""

    observation: Any
    action: Any
    reward: float
    next_observation: Any  # the true one, also where the episode ends
    terminated: bool
    last: bool  # terminated or truncated
    first: bool  # the observation is the one that a reset gave
    episode: int
    stream: int


def transitions(
    steps: Sequence[Step],
    features: Features,
    discount: float,
    ratios: Any = 1.0,
    labelled: bool = True,
    ends: bool = False,
) -> Transitions:
    """Turn steps into a chunk: the discount is 0 where an episode terminates, and kept where it is cut off.

    With `ends`, a time limit is part of the task: nothing comes after it, and the discount is 0 there too.
    With `labelled`, episode borders are said by labels: an evaluator that missed some chunks still sees where a new
    episode begins. Without, they are said outright, for one that misses nothing and may have seen these labels before.
    """
    n = len(steps)
    before, _, rewards, after, terminated, last, first, episode, stream = zip(*steps, strict=True)
    phi = features(stacked([*before, *after]))  # both sides in one call: a network is run once
    return Transitions(
        phi[:n],
        rewards,
        phi[n:],
        np.where(last if ends else terminated, 0.0, discount),
        ratios,
        first=None if labelled else first,
        last=last,
        episode=episode if labelled else None,
        stream=stream,
        truncated=np.greater(last, terminated),
    )


def with_starts(starts: Starts, steps: Sequence[Step], chunk: Transitions, features: Features) -> Starts:
    """Add the starts among some steps, which have become a chunk."""
    first: Bools = np.array([step.first for step in steps])
    return starts.taking(chunk.features[first], features.dimension if chunk.tabular else None)


def check_discount(discount: float) -> float:
    """Refuse a discount outside (0, 1]."""
    if not 0 < discount <= 1:
        raise SettingError(f"discount is {discount}; it lies in (0, 1], because 0 marks the end of an episode")
    return float(discount)


def limit_ends(time_limit: str | None, discount: float) -> bool:
    """Say whether a time limit ends an episode (``"ends"``) or cuts it off (``"cut"``).

    None: it ends episodes whose rewards are not discounted, as everybody quotes such returns up to the limit; a
    discounted value is meant to go on.
    """
    if time_limit not in (None, "ends", "cut"):
        raise SettingError(f"time_limit is {time_limit!r}; choose 'ends' (nothing comes after it) or 'cut'")
    return discount == 1 if time_limit is None else time_limit == "ends"


def check_space(space: Any) -> None:
    """Refuse observations that do not fit into arrays."""
    if not space.is_np_flattenable:
        raise SettingError(
            f"observations of {space} have no fixed shape, so they cannot be put into arrays; make arrays of them "
            "with gymnasium.wrappers.TransformObservation"
        )


def import_gymnasium() -> ModuleType:
    """Import Gymnasium, or say how to install it."""
    try:
        import gymnasium
    except ImportError:
        raise MissingExtraError("gymnasium", "gym") from None
    return gymnasium
