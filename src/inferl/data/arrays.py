"""Conversion of user input to arrays; records of arrays with a common first axis; records updated in place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from inferl.data.invariants import demand
from inferl.errors import DataError, InferlError, SettingError, ShapeError

__all__ = [
    "GATHER",
    "Bools",
    "Floats",
    "InPlace",
    "Integers",
    "Rows",
    "Words",
    "alike",
    "as_array",
    "as_count",
    "as_floats",
    "is_integer",
    "is_number",
    "lengthened",
    "place",
    "read",
    "shared",
    "short",
    "squared",
]

GATHER = 128  # rows summed by one matrix product; more would be faster, but would make every copy of a state larger

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Bools = NDArray[np.bool_]
Words = NDArray[np.uint64]

shared: dict[str, Any] = {"shared": True}  # metadata of a field that all rows share


_FIELD_NAMES: dict[type, tuple[tuple[str, ...], tuple[str, ...]]] = {}  # a cache: `dataclasses.fields` is slow


def _names(cls: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of a dataclass's columns, and of all its fields."""
    if cls not in _FIELD_NAMES:
        columns = tuple(f.name for f in fields(cls) if not f.metadata.get("shared"))
        _FIELD_NAMES[cls] = columns, tuple(f.name for f in fields(cls))
    return _FIELD_NAMES[cls]


class Rows:
    """Base of frozen dataclasses whose fields are arrays (or Rows) with one entry per row.

    Slicing and joining skip validation, because the rows have been validated before.
    """

    def __len__(self) -> int:
        for name in _names(type(self))[0]:
            value = getattr(self, name)
            if value is not None:
                return len(value)
        raise TypeError(f"{type(self).__name__} has no rows")

    def __getitem__(self, rows: slice | Integers) -> Self:
        columns = {name: getattr(self, name) for name in _names(type(self))[0]}
        return self._rebuilt({name: x if x is None else taken(x, rows) for name, x in columns.items()})

    @classmethod
    def join(cls, parts: Sequence[Self]) -> Self:
        """Concatenate the rows of several records."""
        if len(parts) == 1:
            return parts[0]
        joined: dict[str, Any] = {}
        for name in _names(type(parts[0]))[0]:
            value = getattr(parts[0], name)
            if value is None:
                joined[name] = None
            elif isinstance(value, Rows):
                joined[name] = type(value).join([getattr(part, name) for part in parts])
            else:
                joined[name] = np.concatenate([getattr(part, name) for part in parts])
        return parts[0]._rebuilt(joined)

    def copied(self) -> Self:
        """Return a copy of the rows; a view would keep the larger array behind it alive."""
        columns = {name: getattr(self, name) for name in _names(type(self))[0]}
        return self._rebuilt({name: _copied(x) for name, x in columns.items()})

    def verify(self) -> None:
        """Raise if columns have different lengths."""
        columns = [getattr(self, name) for name in _names(type(self))[0]]
        same = len({len(column) for column in columns if column is not None}) == 1
        demand(same, f"the columns of {type(self).__name__} have different lengths")

    def _rebuilt(self, columns: dict[str, Any]) -> Self:
        new = object.__new__(type(self))
        for name in _names(type(self))[1]:
            object.__setattr__(new, name, columns[name] if name in columns else getattr(self, name))
        return new


def taken(x: Any, rows: slice | Integers) -> Any:
    """Return some rows of an array; `take` is several times as fast as an index for those of a matrix."""
    return x.take(rows, axis=0) if isinstance(rows, np.ndarray) and getattr(x, "ndim", 1) > 1 else x[rows]


def _copied(x: Any) -> Any:
    if x is None or isinstance(x, Rows):
        return x and x.copied()
    return np.array(x, order="C") if isinstance(x, np.ndarray) else x.copy()


def lengthened(x: Floats, length: int) -> Floats:
    """Pad the last axis with zeros (`np.pad` is too slow for an interval that is read often)."""
    if x.shape[-1] == length:
        return x
    longer = np.zeros((*x.shape[:-1], length), like=x)
    longer[..., : x.shape[-1]] = x
    return longer


def room_for(n: int) -> int:
    """Return for how many streams to make room if there are n: many at once, so that large arrays seldom grow.

    >>> [room_for(n) for n in (3, 1000, 5000, 100_000)]
    [3, 1000, 5120, 106496]
    """
    step = 2 ** (n.bit_length() - 4) if n > 1024 else 1
    return -(-n // step) * step


def squared(x: Floats, length: int) -> Floats:
    """Pad the last two axes with zeros."""
    larger = np.zeros((*x.shape[:-2], length, length), like=x)
    larger[..., : x.shape[-2], : x.shape[-1]] = x
    return larger


class InPlace:
    """Base of dataclasses that are updated in place; their fields are arrays or other InPlace records."""

    def copy(self) -> Self:
        """Return an independent copy; fields that are never updated in place are shared."""
        new = object.__new__(type(self))
        for name in _names(type(self))[1]:
            value = getattr(self, name)
            updated = isinstance(value, InPlace) or hasattr(value, "__array_function__")  # arrays, also on a device
            object.__setattr__(new, name, value.copy() if updated else value)
        return new


DEEPEST = 64  # largest number of axes of a NumPy array
NUMBERS = "biuf"  # kinds of NumPy dtypes: booleans, integers, unsigned integers, floats
KINDS = {"c": "complex numbers", "M": "dates", "m": "durations", "S": "bytes", "U": "text", "V": "records"}


def as_array(name: str, values: Any) -> NDArray[Any]:
    """Convert booleans, integers or floats of any shape to an array; raise for everything else.

    >>> as_array("rewards", [0, 1])
    array([0, 1])
    >>> as_array("rewards", np.ma.array([0.0, 1.0], mask=[False, True]))
    Traceback (most recent call last):
        ...
    inferl.errors.DataError: row 1: reward is masked; drop the row or repair it
    """
    array = read(name, values)
    if array.dtype.kind not in NUMBERS:
        raise _no_numbers(name, array)
    return array


def read(name: str, values: Any) -> NDArray[Any]:
    """Convert values to an array of any dtype; raise for masked entries and for values that are not an array."""
    _refuse_masked(name, values)
    try:
        return np.asarray(_fetched(values))
    except InferlError:
        raise
    except Exception as error:  # an object's `__array__` may raise anything
        if isinstance(error, ValueError) and isinstance(values, list | tuple):
            raise ShapeError(f"{name} have rows of different lengths") from None
        raise ShapeError(f"{name} cannot be read as an array: {error}") from None


def _fetched(values: Any) -> Any:
    """Copy an array of torch, JAX, CuPy, ... from a device; return anything else as it is."""
    if isinstance(values, np.ndarray) or not hasattr(values, "__dlpack_device__"):
        return values
    from inferl.data.device import fetched

    return fetched(values)


def as_floats(name: str, values: Any) -> Floats:
    """Convert numbers to a new array of floats; a copy, because the caller may reuse the buffer."""
    array = as_array(name, values)
    with np.errstate(over="ignore"):  # a number too large for a float becomes infinite, and is rejected later
        return np.array(array, dtype=np.float64, order="C")


def as_count(name: str, number: Any, least: int) -> int:
    """Validate a setting that must be a whole number.

    >>> as_count("order", np.int64(3), 0)
    3
    """
    if not is_integer(number) or number < least:
        raise SettingError(f"{name} is {short(number)}; it must be a whole number, at least {least}")
    return int(number)


def is_integer(value: Any) -> bool:
    """Whether a value is a Python or NumPy integer; booleans do not count."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def is_number(value: Any) -> bool:
    """Whether a value is a real number, possibly NaN; booleans do not count."""
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def place(where: tuple[int, ...]) -> str:
    """Describe the position of an array entry.

    >>> place((3,)), place((3, 1))
    ('row 3', 'row 3, column 1')
    """
    row, *columns = (str(int(i)) for i in where or (0,))
    return f"row {row}, column {', '.join(columns)}" if columns else f"row {row}"


def _refuse_masked(name: str, values: Any, where: tuple[int, ...] = ()) -> None:
    """Raise for masked entries in an array or a list of arrays; NumPy would drop the masks silently."""
    if isinstance(values, np.ma.MaskedArray):
        for inner in np.argwhere(np.ma.getmaskarray(values))[:1]:
            raise DataError(f"{place((*where, *inner))}: {_one(name)} is masked; drop the row or repair it")
    elif isinstance(values, list | tuple) and len(where) < DEEPEST and set(map(type, values)) - {float, int}:
        for row, part in enumerate(values):
            _refuse_masked(name, part, (*where, row))


def _no_numbers(name: str, array: NDArray[Any]) -> InferlError:
    """Return the error for an array that does not hold numbers."""
    if array.dtype.kind != "O":
        what = KINDS.get(array.dtype.kind, "not numbers")
        return ShapeError(f"{name} of type {array.dtype} cannot be read as floats: they are {what}")
    if array.ndim == 0:
        return ShapeError(f"{name} cannot be read as numbers: {short(array.item())}")
    for where, value in np.ndenumerate(array):
        if (
            isinstance(value, int) and value.bit_length() > 63
        ):  # NumPy keeps it as a Python object, because no integer dtype holds it
            return DataError(f"{place(where)}: {_one(name)} is {short(value)}; integers are below 2^63")
        if not isinstance(value, int | float):
            return DataError(f"{place(where)}: {_one(name)} is {short(value)}; drop the row or repair it")
    return ShapeError(f"{name} are Python objects, not an array of numbers; convert them with np.array(x, float)")


def short(value: Any) -> str:
    """Describe any value in a few characters.

    >>> short(0.25), short("a" * 1000), short(10**400), short({})
    ('0.25', "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", 'about 2^1329', 'a dict')
    """
    if isinstance(value, int) and value.bit_length() > 64:
        return f"about 2^{value.bit_length()}"
    if isinstance(value, int | float | np.number | np.bool_):
        return str(value)
    if value is None or isinstance(value, str | bytes | np.generic):
        return repr(value)[:40]
    return f"a {type(value).__name__}"


def _one(name: str) -> str:
    return name.removesuffix("s")


def alike(one: Any, other: Any) -> bool:
    """Whether two records can be joined: the same types, dtypes and shapes of a row, and equal shared fields."""
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray):
        return bool(one.dtype == other.dtype and one.shape[1:] == other.shape[1:])
    if not isinstance(one, Rows):
        return bool(one == other)
    return all(alike(getattr(one, f.name), getattr(other, f.name)) for f in fields(one))  # type: ignore[arg-type]
