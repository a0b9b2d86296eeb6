"""DeviceArray: a torch tensor that answers to NumPy, so that code written for arrays also runs on a GPU.

NumPy hands its functions to objects that implement `__array_ufunc__` and `__array_function__` (NEPs 13, 18 and 35).
Algorithms and methods are written with these functions, and do not ask where their vectors are. Where a host array
meets a DeviceArray, it is copied to the device; the other direction is never silent: `on_host` copies back.

Only vectors and what is summed of them are on the device. The few numbers of a step (reward, discount, ratio) and its
place in time stay on the host.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from functools import cache, partial
from math import prod
from typing import Any, TypeVar

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from inferl.data.batches import import_torch
from inferl.errors import DataError, DeviceError, ShapeError

__all__ = [
    "DeviceArray",
    "as_device",
    "as_vectors",
    "beside",
    "device_of",
    "fetched",
    "is_elsewhere",
    "kernel",
    "on_device",
    "on_host",
    "sent",
]

T = TypeVar("T")

UNASKED = 48 * 1024  # bytes of shared memory that a kernel gets without asking
LOCKED = 2**24  # bytes that are copied through page-locked memory; for more, locking it costs more than waiting

_TORCH_NAMES = {"absolute": "abs", "equal": "eq", "not_equal": "ne"}  # where torch uses another name than NumPy
_IMPLEMENTED: dict[Any, Callable[..., Any]] = {}


class DeviceArray(NDArrayOperatorsMixin):
    """An array of float64 or booleans on a device; views share memory, as those of NumPy do."""

    __slots__ = ("tensor",)

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the axes."""
        return tuple(self.tensor.shape)

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return int(self.tensor.ndim)

    @property
    def size(self) -> int:
        """Number of entries."""
        return prod(self.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """As NumPy calls it."""
        return np.dtype(str(self.tensor.dtype).removeprefix("torch."))

    @property
    def device(self) -> str:
        """Where the entries are."""
        return str(self.tensor.device)

    @property
    def T(self) -> DeviceArray:
        """The transposed matrix, as a view."""
        return DeviceArray(self.tensor.T)

    def __len__(self) -> int:
        return len(self.tensor)

    def __repr__(self) -> str:
        return f"DeviceArray({'x'.join(map(str, self.shape))}, {self.device})"

    def __float__(self) -> float:
        return float(self.tensor)

    def __bool__(self) -> bool:
        return bool(self.tensor)

    def __getitem__(self, key: Any) -> DeviceArray:
        return DeviceArray(self.tensor[self._key(key)])

    def __setitem__(self, key: Any, value: Any) -> None:
        self.tensor[self._key(key)] = self._operand(value)

    def __deepcopy__(self, memo: dict[int, Any]) -> DeviceArray:
        return self.copy()

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError("an array on a device is not copied to the host silently; use on_host")

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = None, **options: Any) -> Any:
        torch = import_torch()
        if method == "at" and ufunc is np.add:  # in the order of the rows: sorted by index, not by atomics
            target, index, values = inputs
            added = target._operand(values).to(target.tensor.dtype)
            target.tensor.index_put_(target._keys(index), added, accumulate=True)
            return None
        if method != "__call__" or options:
            return NotImplemented
        mine = next(x for x in (*inputs, *(out or ())) if isinstance(x, DeviceArray))
        function = getattr(torch, _TORCH_NAMES.get(ufunc.__name__, ufunc.__name__))
        operands = [mine._operand(x) for x in inputs]
        if ufunc in (np.maximum, np.minimum):  # torch takes no numbers here
            operands = [torch.as_tensor(x, dtype=mine.tensor.dtype, device=mine.tensor.device) for x in operands]
        if out is None:
            return DeviceArray(function(*operands))
        if not isinstance(out[0], DeviceArray):
            return NotImplemented
        function(*operands, out=out[0].tensor)
        return out[0]

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if function not in _IMPLEMENTED:
            return NotImplemented
        return _IMPLEMENTED[function](*args, like=self, **kwargs)

    def copy(self) -> DeviceArray:
        """Return an independent copy."""
        return DeviceArray(self.tensor.clone())

    def reshape(self, *shape: Any) -> DeviceArray:
        """Return the entries in another shape, as a view where possible."""
        return DeviceArray(self.tensor.reshape(*shape))

    def take(self, rows: Any, axis: int) -> DeviceArray:
        """Return some rows."""
        return DeviceArray(self.tensor.index_select(axis, self._operand(rows)))

    def astype(self, dtype: Any, copy: bool = True) -> DeviceArray:
        """Return the entries in another type; the same object if nothing changes and no copy is asked for."""
        if self.dtype == np.dtype(dtype):
            return self.copy() if copy else self
        return DeviceArray(self.tensor.to(getattr(import_torch(), np.dtype(dtype).name)))

    def sum(self, axis: Any = None) -> DeviceArray:
        """Sum along an axis."""
        return DeviceArray(self.tensor.sum() if axis is None else self.tensor.sum(dim=axis))

    def max(self, axis: Any = None, initial: float | None = None) -> DeviceArray:
        """Largest entries along axes; `initial` where there are none."""
        if initial is not None and self.size == 0:
            return np.full(self._without(axis), initial, like=self)  # type: ignore[return-value]
        return DeviceArray(self.tensor.amax() if axis is None else self.tensor.amax(dim=axis))

    def min(self, axis: Any = None) -> DeviceArray:
        """Smallest entries along axes."""
        return DeviceArray(self.tensor.amin() if axis is None else self.tensor.amin(dim=axis))

    def all(self, axis: int | None = None) -> DeviceArray:
        """Whether all entries along an axis are true."""
        return DeviceArray(self.tensor.all() if axis is None else self.tensor.all(dim=axis))

    def host(self) -> Any:
        """Copy to the host."""
        return self.tensor.cpu().numpy()

    def _without(self, axis: int | None) -> tuple[int, ...]:
        return () if axis is None else tuple(n for i, n in enumerate(self.shape) if i != axis % self.ndim)

    def _operand(self, x: Any) -> Any:
        """Return a tensor on this device, or a number."""
        if isinstance(x, DeviceArray):
            return x.tensor
        if isinstance(x, np.ndarray) and x.ndim:
            return as_device(x, self.tensor.device).tensor
        return x.item() if isinstance(x, np.ndarray | np.generic) else x

    def _key(self, key: Any) -> Any:
        """Translate an index: arrays become tensors on this device."""
        if isinstance(key, tuple):
            return tuple(self._key(part) for part in key)
        return self._operand(key) if isinstance(key, np.ndarray | np.generic | DeviceArray) else key

    def _keys(self, index: Any) -> tuple[Any, ...]:
        return tuple(self._key(part) for part in index) if isinstance(index, tuple) else (self._key(index),)


def _implements(function: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(own: Callable[..., Any]) -> Callable[..., Any]:
        _IMPLEMENTED[function] = own
        return own

    return register


@_implements(np.zeros)
@_implements(np.empty)
def _zeros(shape: Any, *, like: DeviceArray) -> DeviceArray:
    return DeviceArray(import_torch().zeros(shape, dtype=like.tensor.dtype, device=like.tensor.device))


@_implements(np.full)
def _full(shape: Any, value: float, *, like: DeviceArray) -> DeviceArray:
    return DeviceArray(import_torch().full(shape, value, dtype=like.tensor.dtype, device=like.tensor.device))


@_implements(np.concatenate)
def _concatenate(parts: Sequence[Any], axis: int = 0, *, like: DeviceArray) -> DeviceArray:
    return DeviceArray(import_torch().cat([like._operand(part) for part in parts], dim=axis))


@_implements(np.where)
def _where(condition: Any, x: Any, y: Any, *, like: DeviceArray) -> DeviceArray:
    return DeviceArray(import_torch().where(*(like._operand(part) for part in (condition, x, y))))


@_implements(np.shape)
def _shape(x: DeviceArray, *, like: DeviceArray) -> tuple[int, ...]:
    return x.shape


@_implements(np.ndim)
def _ndim(x: DeviceArray, *, like: DeviceArray) -> int:
    return x.ndim


def as_device(array: Any, device: Any) -> Any:
    """Copy an array to a device, as a DeviceArray; what is there already is not copied.

    >>> import torch
    >>> as_device(np.zeros((2, 3)), "cpu")
    DeviceArray(2x3, cpu)
    """
    torch = import_torch()
    try:
        if isinstance(array, DeviceArray):
            return DeviceArray(array.tensor.to(device))
        return DeviceArray(sent(array, torch.device(device)))
    except torch.cuda.OutOfMemoryError:
        raise DeviceError(
            f"the memory of {device} is full: {prod(array.shape) * 8e-9:,.2g} GB more do not fit; pass shorter chunks"
        ) from None


def sent(array: Any, device: Any) -> Any:
    """Copy an array of the host to a torch device, as a tensor.

    A GPU reads a short one from page-locked memory when it has done what it was given before. From ordinary memory the
    host would have to wait for that.
    """
    tensor = import_torch().from_numpy(np.ascontiguousarray(array))
    if device.type == "cuda" and tensor.nbytes <= LOCKED:
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


@contextmanager
def _on_stream(stream: Any) -> Iterator[None]:
    with import_torch().cuda.stream(stream):
        yield
    stream.synchronize()


def beside(items: Iterator[T], device: str) -> Iterator[T]:
    """Compute items beside what else a GPU has to do, so that they do not wait for it; elsewhere, as they come.

    To be called in the thread that will use them. What it has given to the device by then is done first.
    """
    torch = import_torch()
    if torch.device(device).type != "cuda":
        return items
    stream, user = _stream(device), torch.cuda.current_stream(device)
    stream.wait_stream(user)

    def computed() -> Iterator[T]:
        while True:
            with _on_stream(stream):
                item = next(items, None)
            if item is None:
                return
            _mapped(item, partial(_keep_for, user))
            yield item

    return computed()


def _keep_for(stream: Any, x: Any) -> Any:
    """Let the memory of an array be used again only after all that a stream has to do with it."""
    if isinstance(x, DeviceArray):
        x.tensor.record_stream(stream)
    return x


@cache
def _stream(device: str) -> Any:
    return import_torch().cuda.Stream(device, priority=-1)


@cache
def kernel(source: str, name: str, shared: int = 0) -> Any:
    """Compile a CUDA kernel, which may use so many bytes of shared memory, with the driver's own compiler (NVRTC)."""
    torch = import_torch()
    if not hasattr(torch.cuda, "_compile_kernel"):
        raise DeviceError(f"torch {torch.__version__} cannot compile kernels on a GPU; install torch 2.9 or newer")
    compiled = torch.cuda._compile_kernel(source, name)
    if shared > UNASKED:
        compiled.set_shared_memory_config(shared)
    return compiled


def is_elsewhere(values: Any) -> bool:
    """Whether an array of any library is on a device other than the host."""
    if isinstance(values, DeviceArray):
        return True
    where = getattr(values, "__dlpack_device__", None)
    if where is None or isinstance(values, np.ndarray):
        return False
    return int(where()[0]) not in (1, 3)  # DLPack's numbers of the host: ordinary and page-locked memory


def taken_over(values: Any) -> DeviceArray:
    """Take an array of torch, JAX, CuPy, ... that is on a device, without a copy."""
    if isinstance(values, DeviceArray):
        return values
    torch = import_torch()
    return DeviceArray(values.detach() if isinstance(values, torch.Tensor) else torch.from_dlpack(values))


def fetched(values: Any) -> Any:
    """Copy an array that is on a device to the host; return one that is there already as it is."""
    return taken_over(values).host() if is_elsewhere(values) else values


def as_vectors(name: str, values: Any) -> DeviceArray:
    """Take vectors (T, d) on a device as float64, in a copy, because the caller may reuse the buffer.

    They are checked there: one number comes back.
    """
    torch, tensor = import_torch(), taken_over(values).tensor
    if tensor.ndim != 2 or tensor.shape[1] == 0:
        raise ShapeError(f"{name} have shape {tuple(tensor.shape)}; expected floats (steps, dimension)")
    if tensor.is_complex():
        raise ShapeError(f"{name} of type {tensor.dtype} cannot be read as floats: they are complex numbers")
    vectors = tensor.to(torch.float64, copy=True).contiguous()
    if not bool(torch.isfinite(vectors.sum())):  # a sum may overflow where no entry is infinite
        for row, column in (~torch.isfinite(vectors)).nonzero()[:1].tolist():
            value = float(vectors[row, column])
            raise DataError(f"row {row}, column {column}: {name} is {value}; drop the row or repair its features")
    return DeviceArray(vectors)


def device_of(thing: Any) -> str | None:
    """Return the device of the arrays in a record; None: the host.

    >>> import torch
    >>> device_of(np.zeros(3)) is None, device_of((np.zeros(3), as_device(np.zeros(3), "cpu")))
    (True, 'cpu')
    """
    if isinstance(thing, DeviceArray):
        return thing.device
    parts = thing if isinstance(thing, tuple) else vars(thing).values() if hasattr(thing, "__dict__") else ()
    return next((found for found in map(device_of, parts) if found is not None), None)


def on_host(thing: Any) -> Any:
    """Copy all arrays of a record that are on a device; a record without any is returned as it is."""
    return _mapped(thing, lambda x: x.host() if isinstance(x, DeviceArray) else x)


def on_device(thing: Any, device: str) -> Any:
    """Copy all floating-point arrays of a record to a device; a record without any is returned as it is."""

    def move(x: Any) -> Any:
        return as_device(x, device) if isinstance(x, np.ndarray) and x.dtype == np.float64 else x

    return _mapped(thing, move)


def _mapped(thing: Any, convert: Callable[[Any], Any]) -> Any:
    """Apply a function to all arrays of nested dataclasses, tuples and dicts."""
    if isinstance(thing, np.ndarray | DeviceArray):
        return convert(thing)
    if isinstance(thing, dict):
        return {key: _mapped(value, convert) for key, value in thing.items()}
    if type(thing) is tuple:
        return tuple(_mapped(part, convert) for part in thing)
    if not is_dataclass(thing) or isinstance(thing, type):
        return thing
    old = {f.name: getattr(thing, f.name) for f in fields(thing)}
    new = {name: _mapped(value, convert) for name, value in old.items()}
    if all(new[name] is old[name] for name in old):
        return thing
    made = object.__new__(type(thing))
    for name, value in new.items():
        object.__setattr__(made, name, value)
    return made
