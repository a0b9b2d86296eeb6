"""Torch modules, run from NumPy. Torch itself is imported where it is used."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np

from inferl.arrays import short
from inferl.errors import MissingExtraError, SettingError, ShapeError
from inferl.rows import Floats

__all__ = ["import_torch", "is_module", "outputs"]


def import_torch() -> ModuleType:
    """Import torch, or say how to install it."""
    try:
        import torch
    except ImportError:
        raise MissingExtraError("torch", "torch") from None
    module: ModuleType = torch
    return module


def is_module(thing: object) -> bool:
    """Say whether something is a torch module, without importing torch: whoever made one has done so.

    >>> is_module(print)
    False
    """
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(thing, torch.nn.Module)


def outputs(module: Any, batch: Any) -> Floats:
    """Run a module on a batch of observations, in evaluation mode and without gradients.

    Floats become the module's own kind of floats, on its device; integers stay integers (for an embedding). A dict or
    tuple of arrays becomes a dict or tuple of tensors.

    >>> import torch
    >>> outputs(torch.nn.Flatten(), np.ones((1, 2, 2)))
    array([[1., 1., 1., 1.]])
    """
    torch = import_torch()
    parameter = next(module.parameters(), None)
    name = type(module).__name__
    with _evaluating(module), torch.no_grad():
        try:
            result = module(_tensors(torch, batch, parameter))
        except (RuntimeError, TypeError, ValueError, IndexError) as error:
            raise ShapeError(f"{name} cannot take these observations: {error}") from None
    if not isinstance(result, torch.Tensor):
        raise SettingError(
            f"{name} returned {short(result)}, not a tensor; give the part whose output is meant, such as the "
            "value_net of an mlp_extractor"
        )
    return np.asarray(result.detach().cpu().numpy(), dtype=np.float64)


def _tensors(torch: ModuleType, batch: Any, like: Any) -> Any:
    if isinstance(batch, dict):
        return {name: _tensors(torch, part, like) for name, part in batch.items()}
    if isinstance(batch, tuple):
        return tuple(_tensors(torch, part, like) for part in batch)
    tensor = torch.as_tensor(np.asarray(batch))
    if like is None:
        return tensor
    return tensor.to(device=like.device, dtype=like.dtype if tensor.is_floating_point() else tensor.dtype)


@contextmanager
def _evaluating(module: Any) -> Iterator[None]:
    """Switch dropout and the like off; afterwards each part is in the mode it was in."""
    training = [part for part in module.modules() if part.training]
    module.eval()
    try:
        yield
    finally:
        for part in training:
            part.training = True
