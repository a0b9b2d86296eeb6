"""Batches of observations or actions: arrays with one row per observation, or dicts and tuples of such arrays.

Gymnasium's vector environments return this form. A single observation may be anything that its space allows: a number,
an array, or a dict or tuple of them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np

from inferl.data.arrays import Bools, Floats, Integers, read, short
from inferl.errors import MissingExtraError, SettingError, ShapeError

__all__ = ["copied", "count", "import_torch", "is_module", "outputs", "placed", "rows", "stacked"]


def copied(batch: Any) -> Any:
    """Copy a batch, or a single observation, as arrays and numbers: an environment may reuse its buffer.

    >>> copied({"position": [0.5, 1.0], "floor": 3})
    {'position': array([0.5, 1. ]), 'floor': np.int64(3)}
    """
    if isinstance(batch, dict):
        return {name: copied(part) for name, part in batch.items()}
    if isinstance(batch, tuple):
        return tuple(copied(part) for part in batch)
    return np.array(batch)[()]


def count(batch: Any) -> int:
    """Count the rows of a batch; a value without a first axis has none.

    >>> count({"position": np.zeros((3, 2))}), count(7)
    (3, 0)
    """
    while isinstance(batch, dict | tuple):
        batch = next(iter(batch.values() if isinstance(batch, dict) else batch), 0)
    array = read("batches", batch)
    return len(array) if array.ndim else 0


def stacked(singles: Sequence[Any]) -> Any:
    """Stack single observations or actions into one batch.

    >>> stacked([(1, 0.5), (2, 0.25)])
    (array([1, 2]), array([0.5 , 0.25]))
    """
    try:
        if isinstance(singles[0], dict):
            return {name: stacked([single[name] for single in singles]) for name in singles[0]}
        if isinstance(singles[0], tuple):
            return tuple(stacked(parts) for parts in zip(*singles, strict=True))
        return np.stack(singles)
    except ShapeError:
        raise
    except (TypeError, ValueError, KeyError, RuntimeError) as error:
        kinds = ", ".join(sorted({type(single).__name__ for single in singles}))
        raise ShapeError(f"{len(singles)} observations or actions ({kinds}) do not fit into a batch: {error}") from None


def rows(batch: Any, which: Bools | Integers | int) -> Any:
    """Select some rows of a batch, or a single one by its index.

    >>> rows((np.array([1, 2]), np.array([0.5, 0.25])), 1)
    (np.int64(2), np.float64(0.25))
    """
    if isinstance(batch, dict):
        return {name: rows(part, which) for name, part in batch.items()}
    if isinstance(batch, tuple):
        return tuple(rows(part, which) for part in batch)
    return batch[which]


def placed(batch: Any, which: Bools, part: Any) -> Any:
    """Return a copy of a batch with the rows `which` replaced by those of `part`.

    >>> placed(np.array([1, 2, 3]), np.array([True, False, True]), np.array([7, 9]))
    array([7, 2, 9])
    """
    if isinstance(batch, dict):
        return {name: placed(batch[name], which, part[name]) for name in batch}
    if isinstance(batch, tuple):
        return tuple(placed(one, which, other) for one, other in zip(batch, part, strict=True))
    new = np.array(batch)
    new[which] = part
    return new


def import_torch() -> ModuleType:
    """Import torch, or say how to install it."""
    try:
        import torch
    except ImportError:
        raise MissingExtraError("torch", "torch") from None
    module: ModuleType = torch
    return module


def is_module(thing: object) -> bool:
    """Whether an object is a torch module; torch is not imported, because whoever built a module has imported it.

    >>> is_module(print)
    False
    """
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(thing, torch.nn.Module)


def outputs(module: Any, batch: Any, part: int | str | None = None) -> Floats:
    """Run a module on a batch of observations, in evaluation mode and without gradients.

    Floats are cast to the module's dtype and moved to its device; integers stay integers (for an embedding). A dict or
    tuple of arrays becomes a dict or tuple of tensors. `part` chooses one tensor of a module that returns several.

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
    if part is not None:
        result = _part(name, result, part)
    if not isinstance(result, torch.Tensor):
        several = _several(result)
        remedy = f"say which of them, output={next(iter(several))!r}" if several else "pass a module that returns one"
        found = f"several parts ({', '.join(map(repr, several))})" if several else short(result)
        raise SettingError(f"{name} returned {found}, not a tensor; {remedy}")
    return np.asarray(result.detach().cpu().numpy(), dtype=np.float64)


def _several(result: Any) -> dict[Any, Any]:
    """Return the parts of what a module returned, by their number or name; none for a single thing.

    >>> _several(("policy", "value")), _several(3)
    ({0: 'policy', 1: 'value'}, {})
    """
    if isinstance(result, dict):
        return dict(result)
    return dict(enumerate(result)) if isinstance(result, tuple | list) else {}


def _part(name: str, result: Any, part: int | str) -> Any:
    several = _several(result)
    if part not in several:
        has = f"has the parts {', '.join(map(repr, several))}" if several else "is not in parts"
        raise SettingError(f"there is no output {part!r}: what {name} returned {has}")
    return several[part]


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
    """Put a module into evaluation mode (no dropout), and restore the mode of each submodule afterwards."""
    training = [part for part in module.modules() if part.training]
    module.eval()
    try:
        yield
    finally:
        for part in training:
            part.training = True
