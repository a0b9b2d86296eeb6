"""Values: Arrow columns as NumPy arrays. Unreadable values are marked, never guessed.

Text is parsed too, because all values of CSV are text.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from hashlib import blake2b
from typing import Any

import numpy as np

from inferl.data.arrays import Bools, Floats, Integers
from inferl.errors import SettingError

__all__ = [
    "as_category",
    "categories",
    "column_of",
    "flags",
    "integers",
    "kind_of",
    "kinds_of",
    "labels",
    "moments",
    "naming",
    "numbers",
    "plain",
    "times",
    "vectors",
]

_MICROSECONDS = {"day": 86_400e6, "s": 1e6, "ms": 1e3, "us": 1.0, "ns": 1e-3}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FLAGS = {"true": 1.0, "false": 0.0, "1": 1.0, "0": 0.0, "1.0": 1.0, "0.0": 0.0}


def column_of(batch: Any, name: str) -> Any:
    """Return a column, or the field ``a.b`` of a column ``a``, as one plain Arrow array.

    >>> import pyarrow as pa
    >>> column_of(pa.table({"x": [1, 2]}), "x").to_pylist(), column_of(pa.table({"a": [{"b": 3}]}), "a.b").to_pylist()
    ([1, 2], [3])
    """
    values = _field(batch, name)
    return plain(values.combine_chunks() if hasattr(values, "combine_chunks") else values)


def plain(values: Any) -> Any:
    """Return an array without the ways in which Arrow may store it: extensions, runs, dictionaries, views."""
    import pyarrow as pa
    from pyarrow import compute, types

    if isinstance(values, pa.ExtensionArray):
        values = values.storage
    if types.is_run_end_encoded(values.type):
        values = compute.run_end_decode(values)
    if types.is_dictionary(values.type):
        values = pa.DictionaryArray.from_arrays(values.indices, plain(values.dictionary)).dictionary_decode()
    # Arrow can neither take rows of views nor decode a dictionary of them, as polars has them.
    return values.cast(pa.large_string()) if types.is_string_view(values.type) else values


def _field(batch: Any, name: str) -> Any:
    """Return a column by its name, or by the names of a column and of fields in it."""
    import pyarrow as pa
    from pyarrow import compute

    root = name
    while root not in batch.schema.names and "." in root:
        root = root.rpartition(".")[0]
    values = batch.column(root)
    for field in name[len(root) + 1 :].split(".") if root != name else ():
        if pa.types.is_null(values.type) or (
            pa.types.is_struct(values.type) and values.type.get_field_index(field) < 0
        ):
            return pa.nulls(len(values))  # the rows of a batch may all lack a field that others have
        if not pa.types.is_struct(values.type):
            raise SettingError(f"there is no field {name!r} in the column {root!r} of {str(values.type)[:500]}")
        values = compute.struct_field(values, field)
    return values


@contextmanager
def naming(column: str) -> Iterator[None]:
    """Put the name of the column in front of an error."""
    try:
        yield
    except SettingError as error:
        raise SettingError(f"column {column!r}: {error}") from None


def kind_of(values: Any) -> str:
    """Name the kind of a column: flag, integer, float, text, list, time or null; else its Arrow type."""
    return _kind(values.type)


def kinds_of(schema: Any) -> dict[str, str]:
    """Name the kinds of the columns of an Arrow schema; a category has the kind of its values.

    >>> import pyarrow as pa
    >>> kinds_of(pa.schema({"x": pa.float32(), "who": pa.dictionary(pa.int8(), pa.string())}))
    {'x': 'float', 'who': 'text'}
    """
    return {field.name: _kind(_plain(field.type)) for field in schema}


def _plain(kind: Any) -> Any:
    """Return the type that `column_of` gives to a column."""
    from pyarrow import types

    kind = getattr(kind, "storage_type", kind)
    return kind.value_type if types.is_dictionary(kind) or types.is_run_end_encoded(kind) else kind


def _kind(kind: Any) -> str:
    from pyarrow import types

    for name, test in (
        ("flag", types.is_boolean),
        ("integer", types.is_integer),
        ("float", types.is_floating),
        ("float", types.is_decimal),
        ("text", lambda t: types.is_string(t) or types.is_large_string(t) or types.is_string_view(t)),
        ("list", lambda t: types.is_list(t) or types.is_large_list(t) or types.is_fixed_size_list(t)),
        ("time", lambda t: types.is_temporal(t) and not types.is_interval(t)),  # a month has no fixed length
        ("null", types.is_null),
    ):
        if test(kind):
            return name
    return str(kind)


def numbers(values: Any) -> Floats:
    """Read numbers; NaN where a value is not one.

    >>> import pyarrow as pa
    >>> numbers(pa.array(["1.5", None, "x"]))
    array([1.5, nan, nan])
    """
    import pyarrow as pa

    kind = kind_of(values)
    if pa.types.is_decimal(values.type):  # Arrow's own conversion to floats is off in the last digit of some
        kind, values = "text", values.cast(pa.string())
    if kind == "text":
        try:
            values = values.cast(pa.float64())
        except pa.ArrowException:
            return np.array([_float(text) for text in values.to_pylist()], np.float64)
    elif kind == "null":
        return np.full(len(values), np.nan)
    elif kind not in ("flag", "integer", "float"):
        raise SettingError(f"a column of {values.type} cannot be read as numbers")
    elif kind != "float" or values.type != pa.float64():
        values = values.cast(pa.float64(), safe=False)
    return np.asarray(values.to_numpy(zero_copy_only=False), np.float64)


def integers(values: Any) -> tuple[Integers, Bools]:
    """Read whole numbers, and where a value is one.

    >>> import pyarrow as pa
    >>> integers(pa.array([1.0, 2.5, None]))
    (array([1, 0, 0]), array([ True, False, False]))
    """
    import pyarrow as pa

    if kind_of(values) == "integer" and values.null_count == 0 and values.type != pa.uint64():
        return values.to_numpy(zero_copy_only=False).astype(np.int64, copy=False), np.ones(len(values), np.bool_)
    read = numbers(values)
    whole = (np.abs(read) < 2**53) & (read == np.floor(read))
    return np.where(whole, read, 0.0).astype(np.int64), whole


def flags(values: Any) -> tuple[Bools, Bools]:
    """Read flags (booleans, 0 and 1, or these as text), and where a value is one.

    >>> import pyarrow as pa
    >>> flags(pa.array(["True", "0", "maybe"]))
    (array([ True, False, False]), array([ True,  True, False]))
    """
    if kind_of(values) == "flag" and values.null_count == 0:
        return values.to_numpy(zero_copy_only=False), np.ones(len(values), np.bool_)
    if kind_of(values) == "text":
        read = np.array([_FLAGS.get((text or "").strip().lower(), np.nan) for text in values.to_pylist()])
    else:
        read = numbers(values)
    return read == 1, (read == 0) | (read == 1)


def labels(values: Any) -> tuple[Integers, Bools]:
    """Turn labels into codes, equal where the labels are: a whole number is its own code, text and times are hashed.

    >>> import pyarrow as pa
    >>> labels(pa.array([7, None]))
    (array([7, 0]), array([ True, False]))
    >>> codes, _ = labels(pa.array(["a", "b", "a", "7"]))
    >>> bool(codes[0] == codes[2] != codes[1]), int(codes[3])
    (True, 7)
    """
    import pyarrow as pa

    if kind_of(values) not in ("text", "time", "integer"):
        return integers(values)
    if kind_of(values) == "integer":
        try:
            codes = values.fill_null(0).cast(pa.int64()).to_numpy(zero_copy_only=False)
            return codes, values.is_valid().to_numpy(zero_copy_only=False)
        except pa.ArrowInvalid:  # some of them need 64 bits without a sign
            values = values.cast(pa.string())
    coded = (values.cast("string") if kind_of(values) == "time" else values).dictionary_encode()
    codes = np.array([_code(text) for text in coded.dictionary.to_pylist()], np.int64)
    known = values.is_valid().to_numpy(zero_copy_only=False)
    place = coded.indices.fill_null(0).to_numpy(zero_copy_only=False)
    return (codes[place] if len(codes) else np.zeros(len(values), np.int64)), known


def categories(values: Any) -> tuple[Integers, list[str]]:
    """Return the distinct values as text, and which one each row has, -1 where it has none.

    Numbers and flags are written as in CSV, so that a log has the same categories in every format.

    >>> import pyarrow as pa
    >>> categories(pa.array([True, None, False])), categories(pa.array(["a", "True", "a"]))
    ((array([ 0, -1,  1]), ['true', 'false']), (array([0, 1, 0]), ['a', 'true']))
    """
    if kind_of(values) not in ("flag", "integer", "float", "text", "time", "null"):
        raise SettingError(f"a column of {values.type} cannot be a category")
    coded = (values.cast("string") if kind_of(values) == "time" else values).dictionary_encode()
    texts = [as_category(value) for value in coded.dictionary.to_pylist()]
    distinct = list(dict.fromkeys(text for text in texts if text is not None))
    number = {text: place for place, text in enumerate(distinct)}
    place = np.array([*(-1 if text is None else number[text] for text in texts), -1], np.int64)
    return place[coded.indices.fill_null(len(texts)).to_numpy(zero_copy_only=False)], distinct


def vectors(values: Any, dimension: int) -> tuple[Floats, Bools]:
    """Read lists of numbers as rows (T, d), and where a value is one; if `dimension` is 0, the first sets d.

    >>> import pyarrow as pa
    >>> vectors(pa.array([[1.0, 2.0], [3.0], None, [4.0, 5.0]]), 0)[0]
    array([[ 1.,  2.],
           [nan, nan],
           [nan, nan],
           [ 4.,  5.]])
    """
    import pyarrow as pa
    from pyarrow import compute

    kind = kind_of(values)
    if kind == "text":
        values = pa.array([_list(text) for text in values.to_pylist()], pa.list_(pa.float64()))
    elif kind != "list":  # numbers or nulls, where earlier rows had vectors
        values = pa.nulls(len(values), pa.list_(pa.float64()))
    lengths = numbers(compute.list_value_length(values))
    there = lengths[lengths > 0]
    if not dimension and not there.size:
        raise SettingError(f"none of the first {len(values)} rows holds a vector of numbers; repair the first at least")
    d = dimension or int(there[0])
    fits = lengths == d
    kept = values if fits.all() else values.filter(pa.array(fits))
    flat = kept.flatten()
    if kind_of(flat) not in ("flag", "integer", "float", "null"):
        raise SettingError(f"features of type {values.type} are no vectors; flatten them to one list of numbers a row")
    if fits.all():
        return numbers(flat).reshape(-1, d), fits
    rows = np.full((len(values), d), np.nan)
    rows[fits] = numbers(flat).reshape(-1, d)
    return rows, fits


def times(values: Any) -> Floats | None:
    """Read times in microseconds, NaN where a value is not one; None if the column does not hold times.

    >>> import pyarrow as pa
    >>> times(pa.array(["2024-01-01 00:00:01", "2024-01-01 00:00:03"]))
    array([1.7040672e+15, 1.7040672e+15])
    """
    kind = kind_of(values)
    if kind == "time" and values.type.bit_width <= 64:
        return moments(values)
    if kind != "text" or values.null_count == len(values) or not np.isnan(numbers(values)).all():
        return None
    return moments(values)


def moments(values: Any) -> Floats:
    """Read each value as a time in microseconds, NaN where it is not one."""
    kind = kind_of(values)
    if kind == "time" and values.type.bit_width <= 64:
        unit = {"date32[day]": "day", "date64[ms]": "ms"}.get(str(values.type)) or values.type.unit
        return numbers(values.view(f"int{values.type.bit_width}")) * _MICROSECONDS[unit]
    if kind != "text":
        return np.full(len(values), np.nan)
    return np.array([_time(text) for text in values.to_pylist()], np.float64)


def as_category(value: Any) -> str | None:
    """Return a value as the name of a category, the same in every format; None if it is missing.

    >>> as_category(3.0), as_category("3.0"), as_category("True"), as_category("3.0.1")
    ('3', '3', 'true', '3.0.1')
    """
    if isinstance(value, float | Decimal):
        return None if value != value else str(int(value)) if value == value // 1 else str(value)
    text = None if value is None else _whole(str(value))
    return text.lower() if text is not None and text.lower() in ("true", "false") else text


def _whole(text: str) -> str:
    """Return a whole number without the decimals that CSV may give it: 3.0 is 3; other text as it is."""
    head, _, decimals = text.partition(".")
    return head if decimals and not decimals.strip("0") and head.removeprefix("-").isdecimal() else text


def _float(text: str | None) -> float:
    try:
        # Python also accepts 1_000 and the digits of other scripts; logs do not mean these as numbers.
        return np.nan if text is None or "_" in text or not text.isascii() else float(text)
    except ValueError:
        return np.nan


def _time(text: str | None) -> float:
    """Return the microseconds since 1970, in UTC unless the text says otherwise."""
    try:
        time = datetime.fromisoformat((text or "").strip())
    except ValueError:
        return np.nan
    return ((time if time.tzinfo else time.replace(tzinfo=UTC)) - _EPOCH) // timedelta(microseconds=1)


def _list(text: str | None) -> list[float] | None:
    try:
        value = json.loads(text or "null")
        plain = isinstance(value, list) and all(isinstance(x, int | float) for x in value)
        return [float(x) for x in value] if plain else None
    except (ValueError, OverflowError, RecursionError):
        return None


def _code(text: str | None) -> int:
    if text is None:
        return 0
    text = _whole(text)
    try:
        number = int(text)
        if str(number) == text and -(2**63) <= number < 2**63:
            return number
    except ValueError:
        pass
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little", signed=True)
