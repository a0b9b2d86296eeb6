"""Source: the protocol of everything that transitions come from, and positions as plain data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Protocol, get_args, get_type_hints, runtime_checkable

from inferl.data.invariants import demand
from inferl.data.transitions import Transitions
from inferl.errors import CheckpointCorruptError
from inferl.storage.checkpoint import fits

__all__ = ["Source", "as_plain", "from_plain"]


@runtime_checkable
class Source(Protocol):
    """Where transitions come from: an environment, a log, a dataset, or a class of your own.

    Evaluators, run files, reports and the shell know these six members and no class behind them. Test your own source
    with `inferl.testing.check_source`.

    A source may have six more. ``endless = True`` says that iterating never ends. ``episodic = False`` says that the
    data do not show where episodes begin and end. ``matchable = True`` says that episodes come whole, one after the
    other, and that another policy with the same seed meets the same ones; a run keeps their returns.
    ``tabular = False`` says that features are vectors: too many are then refused before the first chunk. ``checks()``
    returns what only the source can check about the data read so far, as a tuple of `inferl.Check`; those that fail
    become notes of every interval. `open_end`, for data that may grow, is the position before the end of the data was
    taken for the end of the last episode, or None if the end has not been reached.

    Examples
    --------
    Transitions that are in memory, in chunks of 100:

    >>> import numpy as np
    >>> from inferl import TD, Evaluator, Transitions
    >>> class Memory:
    ...     def __init__(self, data, n_states, position=0):
    ...         self.data, self.dimension, self.position = data, n_states, position
    ...
    ...     def __iter__(self):
    ...         while self.position < len(self.data):
    ...             chunk = self.data[self.position : self.position + 100]
    ...             self.position += len(chunk)
    ...             yield chunk
    ...
    ...     def resume(self, position):
    ...         return Memory(self.data, self.dimension, position)
    ...
    ...     def start(self):
    ...         return 0  # the state in which episodes begin
    ...
    ...     def describe(self):
    ...         return {"memory": f"{self.position} of {len(self.data)} transitions"}
    >>> coin = np.random.default_rng(1).integers(2, size=250)
    >>> source = Memory(Transitions(0 * coin, coin, 0 * coin, 0.9), n_states=1)
    >>> isinstance(source, Source)
    True
    >>> print(Evaluator(TD(source.dimension)).update(source).interval(source.start()))
    5.1 [4.5, 5.7] 95% pointwise, 250 transitions
    """

    def __iter__(self) -> Iterator[Transitions]:
        """Yield the transitions in chunks, each with one row at least."""
        ...

    @property
    def dimension(self) -> int:
        """Length of the features, or number of states of a table; 0 until a chunk has been read, if unknown before."""
        ...

    @property
    def position(self) -> Any:
        """Where the latest iteration stands, after the chunk that it yielded last; None if the source cannot resume.

        Plain data, so that a run file can store it: numbers, strings, None, NumPy arrays of numbers, and tuples and
        dicts of these. Reading on does not change a position that was asked for earlier.
        """
        ...

    def resume(self, position: Any) -> Source:
        """Return the source at a position of an equal one; iterating it yields the rows that come next.

        A position may come from a file, so it is checked: one that does not fit raises
        `inferl.errors.CheckpointError`, and so do data that are not those that were read.
        """
        ...

    def start(self) -> Any:
        """Return the start distribution observed so far, as a target: `Starts`, mean features, or a state's number."""
        ...

    def describe(self) -> dict[str, str]:
        """Return what a report should say about the source and about what was read, by headings."""
        ...


def as_plain(value: Any) -> Any:
    """Turn dataclasses into dicts, all the way down; `from_plain` is the inverse.

    >>> from inferl.sources.starts import Starts
    >>> as_plain(Starts())
    {'number': 0, 'total': array([], dtype=float64)}
    """
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: as_plain(getattr(value, f.name)) for f in fields(value)}
    return value


def from_plain(cls: Any, plain: Any) -> Any:
    """Build a dataclass from plain data that may come from a file.

    Names and types of the fields are checked, then `verify` of the class runs, as for every object in a checkpoint.

    >>> import numpy as np
    >>> from inferl.sources.starts import Starts
    >>> from_plain(Starts, {"number": -1, "total": np.zeros(2)})
    Traceback (most recent call last):
        ...
    inferl.errors.CheckpointCorruptError: Starts.number is -1, which is not between 0 and 9007199254740992
    """
    kinds: dict[str, Any] = _kinds(cls)
    fitting = isinstance(plain, dict) and plain.keys() == kinds.keys()
    demand(fitting, f"a {type(plain).__name__} does not hold the fields {', '.join(kinds)} of a position")
    members = {}
    for name, kind in kinds.items():
        value, inner = plain[name], _dataclass_of(kind)
        members[name] = from_plain(inner, value) if inner is not None and value is not None else value
        if not fits(members[name], kind):  # the text of an array takes time
            raise CheckpointCorruptError(f"{cls.__name__}.{name} cannot be {type(value).__name__} {value!r:.60}")
    built = cls(**members)
    if hasattr(built, "verify"):
        built.verify()
    return built


@cache
def _kinds(cls: Any) -> dict[str, Any]:
    hints = get_type_hints(cls)
    return {f.name: hints[f.name] for f in fields(cls)}


def _dataclass_of(kind: Any) -> Any:
    """Return the dataclass that an annotation names, alone or beside None."""
    return next((one for one in (kind, *get_args(kind)) if isinstance(one, type) and is_dataclass(one)), None)
