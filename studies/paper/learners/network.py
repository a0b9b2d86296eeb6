"""The trained Pong network in NumPy: features and action values without torch."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Frames", "PongNetwork", "card"]

Singles = NDArray[np.float32]
Frames = NDArray[np.uint8]


def card() -> dict[str, Any]:
    """Return the model card of the shipped weights: how they were trained, and how well they play.

    >>> card()["greedy_score"]["mean"] >= 19
    True
    """
    text = files("studies.paper.learners").joinpath("weights", "pong.json").read_text()
    found: dict[str, Any] = json.loads(text)
    return found


@dataclass(frozen=True, eq=False)
class PongNetwork:
    """The shipped network: frames (N, 4, 84, 84) in 0 .. 255 to 512 features, and to 6 action values.

    Examples
    --------
    >>> network = PongNetwork.shipped()
    >>> frames = np.zeros((2, 4, 84, 84), np.uint8)
    >>> network.features(frames).shape, network.action_values(frames).shape
    ((2, 512), (2, 6))
    """

    weights: dict[str, Singles]

    @classmethod
    @cache
    def shipped(cls) -> PongNetwork:
        """Load the weights that come with the package."""
        with (
            files("studies.paper.learners").joinpath("weights", "pong.npz").open("rb") as file,
            np.load(file) as archive,
        ):
            return cls({name: archive[name].astype(np.float32) for name in archive.files})

    def features(self, frames: Frames) -> Singles:
        """The 512 units before the action values."""
        # Channels last: the rows of a patch are then long stretches of memory.
        x: Singles = np.multiply(frames.transpose(0, 2, 3, 1), np.float32(1 / 255), dtype=np.float32, order="C")
        for layer, stride in ((0, 4), (2, 2), (4, 1)):
            x = _convolved(x, self.weights[f"body.{layer}.weight"], self.weights[f"body.{layer}.bias"], stride)
        flat = x.transpose(0, 3, 1, 2).reshape(len(x), -1)
        units: Singles = np.maximum(flat @ self.weights["body.7.weight"].T + self.weights["body.7.bias"], 0)
        return units

    def action_values(self, frames: Frames) -> Singles:
        """The value of each of the 6 actions."""
        return self.values_of(self.features(frames))

    def values_of(self, features: Singles) -> Singles:
        """The action values of states whose features are known."""
        values: Singles = features @ self.weights["head.weight"].T + self.weights["head.bias"]
        return values


def _convolved(x: Singles, weight: Singles, bias: Singles, stride: int) -> Singles:
    """Convolve (N, H, W, C) and cut at 0, as one matrix product over all patches."""
    size = weight.shape[-1]
    patches = np.lib.stride_tricks.sliding_window_view(x, (size, size), axis=(1, 2))[:, ::stride, ::stride]
    n, height, width, channels = patches.shape[:4]
    rows = patches.transpose(0, 1, 2, 4, 5, 3).reshape(n * height * width, size * size * channels)
    y: Singles = rows @ weight.transpose(2, 3, 1, 0).reshape(size * size * channels, -1)
    y += bias
    return np.maximum(y, 0, out=y).reshape(n, height, width, -1)
