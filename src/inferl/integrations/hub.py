"""Results in the model cards of the Hugging Face Hub, with a real interval instead of a standard deviation."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from inferl.data.arrays import as_count
from inferl.errors import MissingExtraError, SettingError, ShapeError
from inferl.evaluation import Result
from inferl.interval import Interval, brief

__all__ = ["model_index", "save"]

TAGS = ["reinforcement-learning"]


def model_index(
    result: Result | Interval,
    model: str,
    environment: str | None = None,
    episodes: int | None = None,
    metric: str = "mean_reward",
) -> dict[str, Any]:
    """Return the metadata of a model card with one result: the field ``model-index``, and tags.

    The value is what a reader of the card sees; its numbers stand in ``args``, for programs. The metadata are plain
    data: write them to a card with `save`, pass them to ``huggingface_hub.metadata_update``, or as arguments to
    ``huggingface_hub.ModelCardData``.

    Parameters
    ----------
    result
        From `evaluate_policy`; or an interval of one number.
    model
        Name of the model, such as ``"PPO"``.
    environment
        Name of the environment, such as ``"CartPole-v1"``; a `Result` knows it.
    episodes
        Number of episodes behind the interval; a `Result` knows it.
    metric
        Name of what was estimated.

    Examples
    --------
    >>> import inferl
    >>> result = inferl.evaluate_policy("CartPole-v1", lambda observation: int(observation[2] > 0), until_width=5)
    >>> metadata = model_index(result, model="lean")
    >>> metadata["model-index"][0]["results"][0]["metrics"][0]["value"]
    '42.4 [39.9, 44.9], 95 %, 126 episodes'

    An interval from elsewhere comes with what is known about it:

    >>> interval = Interval(437.2, 408.1, 466.3, 0.95, "anytime", 14.8, 52_464)
    >>> metadata = model_index(interval, "PPO", "CartPole-v1", episodes=120)
    """
    if isinstance(result, Result):
        interval, environment, episodes = result.interval, environment or result.name, episodes or result.episodes
    else:
        interval = result
    if np.size(interval.estimate) != 1:
        raise ShapeError(f"the interval has {np.size(interval.estimate)} targets; a result of a card has one")
    if not environment:
        raise SettingError("give the name of the environment, such as 'CartPole-v1'; an interval does not know it")
    if episodes is None:
        raise SettingError("give the number of episodes; an interval does not know it")
    episodes = as_count("episodes", episodes, 1)
    one = interval.only()
    plain = one.to_dict()
    numbers = {key: plain[key] for key in ("estimate", "lower", "upper", "level", "kind", "estimand", "notes")}
    text = f"{brief(one.estimate, one.lower, one.upper)}, {one.level * 100:g} %, {episodes:,} episodes"
    entry = {
        "task": {"type": TAGS[0], "name": TAGS[0]},
        "dataset": {"type": environment, "name": environment},
        "metrics": [{"type": metric, "name": metric, "value": text, "args": numbers | {"episodes": episodes}}],
    }
    return {"tags": [*TAGS, environment], "model-index": [{"name": model, "results": [entry]}]}


def save(path: str | os.PathLike[str], metadata: dict[str, Any]) -> None:
    """Write metadata into a model card; its text, its other metadata and other results stay as they are.

    A result of the same model, environment and metric is replaced.

    Parameters
    ----------
    path
        The card, usually README.md; a new one if there is none.
    metadata
        From `model_index`.

    Examples
    --------
    >>> save("README.md", model_index(result, model="PPO"))  # doctest: +SKIP
    """
    try:
        from huggingface_hub import metadata_load, metadata_save
    except ImportError:
        raise MissingExtraError("huggingface_hub", "hub") from None
    card = (metadata_load(path) if Path(path).exists() else None) or {}
    tags = list(dict.fromkeys([*(card.get("tags") or []), *metadata["tags"]]))
    models = {entry["name"]: dict(entry) for entry in card.get("model-index") or []}
    for new in metadata["model-index"]:
        entry = models.setdefault(new["name"], {"name": new["name"], "results": []})
        replaced = {_key(result) for result in new["results"]}
        entry["results"] = [one for one in entry["results"] if _key(one) not in replaced] + new["results"]
    metadata_save(path, {**card, "tags": tags, "model-index": list(models.values())})


def _key(result: dict[str, Any]) -> tuple[Any, ...]:
    """Return what a result is about: task, environment and metrics."""
    metrics = tuple(metric["type"] for metric in result["metrics"])
    return result["task"]["type"], result["dataset"]["type"], metrics
