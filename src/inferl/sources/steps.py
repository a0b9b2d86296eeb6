"""Steps of an environment, turned into transitions."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from inferl.data.arrays import Bools, is_number, short
from inferl.data.batches import stacked
from inferl.data.transitions import Transitions
from inferl.errors import DataError, MissingExtraError, SettingError
from inferl.features import Features
from inferl.policies import Table
from inferl.sources.starts import Starts

__all__ = [
    "Step",
    "answer",
    "as_reward",
    "check_action",
    "check_discount",
    "check_space",
    "check_table",
    "import_gymnasium",
    "limit_ends",
    "transitions",
    "with_starts",
]


class Step(NamedTuple):
    """One step of one (sub-)environment; it never leads across a reset."""

    observation: Any
    action: Any
    reward: float
    next_observation: Any  # the true one, also where the episode ends
    terminated: bool
    last: bool  # terminated or truncated
    first: bool  # the observation is that of a reset
    episode: int
    stream: int
    path: int = -1  # hash of all observations and rewards of the episode so far, if it is known


def transitions(
    steps: Sequence[Step],
    features: Features,
    discount: float,
    ratios: Any = 1.0,
    labelled: bool = True,
    ends: bool = False,
) -> Transitions:
    """Turn steps into a chunk: the discount is 0 where an episode terminates, and kept where it is truncated.

    With `ends`, a time limit is part of the task, and the discount is 0 there too. With `labelled`, labels mark the
    episodes: an evaluator that missed some chunks still sees where a new episode begins. Without, `first` marks them,
    for an evaluator that misses nothing and may have seen these labels before.
    """
    n = len(steps)
    before, _, rewards, after, terminated, last, first, episode, stream, _ = zip(*steps, strict=True)
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
    """Add the episode starts among some steps, given the chunk made of them."""
    first: Bools = np.array([step.first for step in steps])
    return starts.updated(chunk.features[first], features.dimension if chunk.tabular else None)


def check_discount(discount: float) -> float:
    """Refuse a discount outside (0, 1]."""
    if not (is_number(discount) and 0 < discount <= 1):
        raise SettingError(
            f"discount is {short(discount)}; it must lie in (0, 1], because 0 marks the end of an episode"
        )
    return float(discount)


def limit_ends(time_limit: str | None, discount: float) -> bool:
    """Return whether a time limit ends an episode (``"ends"``) or cuts it off (``"cut"``).

    None: it ends undiscounted episodes, whose returns are usually quoted up to the limit, and cuts discounted ones.
    """
    if time_limit not in (None, "ends", "cut"):
        raise SettingError(f"time_limit is {time_limit!r}; choose 'ends' (it is part of the task) or 'cut'")
    return discount == 1 if time_limit is None else time_limit == "ends"


def answer(method: str, result: Any, number: int) -> tuple[Any, ...]:
    """Refuse what an environment of another interface than Gymnasium's returns, such as Gym's old one.

    >>> answer("step", (0, 1.0, False, {}), 5)
    Traceback (most recent call last):
        ...
    inferl.errors.DataError: `step` of the environment returned 4 values, not 5; return (observation, reward,
    terminated, truncated, info), as Gymnasium's environments do
    """
    found = len(result) if isinstance(result, tuple) else 1
    if found != number:
        values = {2: "(observation, info)", 5: "(observation, reward, terminated, truncated, info)"}[number]
        raise DataError(
            f"`{method}` of the environment returned {found} values, not {number}; return {values}, as Gymnasium's "
            "environments do"
        )
    return tuple(result)


def as_reward(reward: Any) -> float:
    """Return a reward as a float; refuse what is no number.

    >>> as_reward(np.array([1.0]))
    Traceback (most recent call last):
        ...
    inferl.errors.DataError: the reward is a ndarray; an environment must return a single number, as float(reward)
    """
    try:
        return float(reward)
    except (TypeError, ValueError):
        raise DataError(
            f"the reward is {short(reward)}; an environment must return a single number, as float(reward)"
        ) from None


def check_action(action: Any, space: Any) -> None:
    """Refuse a choice that is no action of the environment, which may not check it, or not with a clear message.

    >>> import gymnasium
    >>> check_action((1, None), gymnasium.spaces.Discrete(2))
    Traceback (most recent call last):
        ...
    inferl.errors.DataError: the policy returned a tuple, which is no action of Discrete(2); `predict` of a
    Stable-Baselines3 model returns an action and a state: give the model itself, as the policy
    """
    spaces = import_gymnasium().spaces
    if isinstance(space, spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary):
        sound = not _is_tensor(action) and _within(space, action)
    elif isinstance(space, spaces.Box):  # one outside the bounds is often clipped
        sound = isinstance(action, np.ndarray | np.number | float | int | list) and np.shape(action) == space.shape
    else:
        return
    if not sound:
        raise DataError(f"the policy returned {_described(action)}, which is no action of {space}; {_remedy(action)}")


def _within(space: Any, action: Any) -> bool:
    try:
        return bool(space.contains(action))
    except (TypeError, ValueError):
        return False


def _described(action: Any) -> str:
    array = np.shape(action) if isinstance(action, np.ndarray | list) else ()
    return f"numbers of shape {array}" if array else short(action)


def _remedy(action: Any) -> str:
    if _is_tensor(action):
        return "convert it, as int(tensor); or give the module itself, as Logits(module)"
    if isinstance(action, tuple):
        return (
            "`predict` of a Stable-Baselines3 model returns an action and a state: give the model itself, as the policy"
        )
    if isinstance(action, np.ndarray | list):
        return "wrap a function that returns probabilities in Probabilities(function), a torch module in Logits(module)"
    return "is it a policy of another environment?"


def _is_tensor(thing: object) -> bool:
    torch = sys.modules.get("torch")  # imported by whatever made a tensor
    return torch is not None and isinstance(thing, torch.Tensor)


def check_table(policy: Any, observations: Any, actions: Any) -> None:
    """Refuse a table, whose rows and columns are numbered from 0, where states or actions have other numbers.

    >>> import gymnasium
    >>> from inferl.policies import Table
    >>> check_table(Table([[0.0, 1.0]]), gymnasium.spaces.Discrete(1), gymnasium.spaces.Discrete(2, start=1))
    Traceback (most recent call last):
        ...
    inferl.errors.SettingError: the actions are the numbers 1 to 2, and the columns of the policy 0 to 1; give a
    policy in which the column of action 1 has this number, or a function
    """
    if not isinstance(policy, Table):
        return
    discrete = import_gymnasium().spaces.Discrete
    sizes = (("observation", "row", observations), ("action", "column", actions))
    for (what, line, space), size in zip(sizes, policy.table.shape, strict=True):
        if isinstance(space, discrete) and (space.start < 0 or 0 < space.start > size - space.n):
            raise SettingError(
                f"the {what}s are the numbers {space.start} to {space.start + space.n - 1}, and the {line}s of the "
                f"policy 0 to {size - 1}; give a policy in which the {line} of {what} {space.start} has this number, "
                "or a function"
            )


def check_space(space: Any) -> None:
    """Refuse observations that cannot be stored in arrays."""
    if not space.is_np_flattenable:
        raise SettingError(
            f"observations of {space} have no fixed shape, so they cannot be stored in arrays; turn them into arrays "
            "with gymnasium.wrappers.TransformObservation"
        )


def import_gymnasium() -> ModuleType:
    """Import Gymnasium, or say how to install it."""
    try:
        import gymnasium
    except ImportError:
        raise MissingExtraError("gymnasium", "gym") from None
    return gymnasium
