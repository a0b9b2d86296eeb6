"""The exceptions of inferl.

::

    InferlError
    ├── InputError (ValueError)             invalid input; nothing was changed
    │   ├── ShapeError                      wrong dimension, wrong length, empty
    │   ├── DataError                       NaN, infinite, negative ratio, discount or index out of range
    │   ├── ContradictionError              first, last, episode and discount do not agree
    │   ├── TargetError                     a target the algorithm does not have
    │   ├── LevelError                      a confidence level outside (0, 1)
    │   ├── KindError                       a kind of interval the method does not have
    │   └── PairingError                    two evaluators that cannot be paired step by step
    ├── SettingError (ValueError)           an algorithm, method or environment that cannot be built
    ├── DivergenceError (ArithmeticError)   a row of the bootstrap diverged; the step size is too large
    ├── BrokenError (RuntimeError)          an evaluator whose last update was interrupted, as when memory ran out
    ├── DeviceError (RuntimeError)          a device that is not there, or whose memory is full
    ├── WorkerError (RuntimeError)          a process or machine that was lost while it computed a part
    ├── SendingError (RuntimeError)         rows that a service refused, or could not be sent
    ├── CheckpointError
    │   ├── CheckpointVersionError          written by another version of the format
    │   ├── CheckpointCorruptError          truncated, damaged, or not a checkpoint
    │   └── CheckpointMismatchError         a valid checkpoint of something else
    └── MissingExtraError (ImportError)     an optional library is not installed

A message says what is wrong (with row and value), and what to do about it.

>>> from inferl import Transitions
>>> try:
...     Transitions(features=[0, 1], rewards=[0.0, float("nan")], next_features=[1, 1], discounts=0.9)
... except InputError as error:
...     print(type(error).__name__, "-", error)
DataError - row 1: reward is nan; drop the row or repair it
"""

from __future__ import annotations

from typing import Any

__all__ = [
    "BrokenError",
    "CheckpointCorruptError",
    "CheckpointError",
    "CheckpointMismatchError",
    "CheckpointVersionError",
    "ContradictionError",
    "DataError",
    "DeviceError",
    "DivergenceError",
    "InferlError",
    "InputError",
    "KindError",
    "LevelError",
    "MissingExtraError",
    "PairingError",
    "SendingError",
    "SettingError",
    "ShapeError",
    "TargetError",
    "WorkerError",
]


class InferlError(Exception):
    """The base class: ``except InferlError`` catches every error that this package raises deliberately."""


class InputError(InferlError, ValueError):
    """Invalid input; the object that received it is unchanged."""


class ShapeError(InputError):
    """An array of the wrong dimension or length, or an empty one."""


class DataError(InputError):
    """A value that no transition can have."""


class ContradictionError(InputError):
    """Episode borders that contradict each other."""


class TargetError(InputError):
    """A target that does not fit the algorithm."""


class LevelError(InputError):
    """A confidence level outside (0, 1)."""


class KindError(InputError):
    """A kind of interval that the method does not have."""


class PairingError(InputError):
    """Two evaluators that have not seen the same stream in the same way."""


class SettingError(InferlError, ValueError):
    """Parameters from which an algorithm, a method or an environment cannot be built."""


class DivergenceError(InferlError, ArithmeticError):
    """A row of the bootstrap diverged.

    Attributes
    ----------
    step
        Number of the transition (from 1) at which it was detected.
    replica
        Number of the replica, or None for the point estimate.
    first_unsound
        Number of the first transition that cannot be processed without it: `step`, or where what diverges begins.
    """

    def __init__(self, message: str, step: int, replica: int | None) -> None:
        super().__init__(message)
        self.step = step
        self.replica = replica
        self.first_unsound = step

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.step, self.replica), self.__dict__


class BrokenError(InferlError, RuntimeError):
    """An evaluator that cannot be used any more: an update was interrupted, as when memory ran out."""


class DeviceError(InferlError, RuntimeError):
    """A GPU that is not there, cannot be used, or has no memory left; nothing was changed."""


class WorkerError(InferlError, RuntimeError):
    """A worker was lost again and again while it computed a part."""


class SendingError(InferlError, RuntimeError):
    """Rows that a service refused, or that could not be sent.

    Attributes
    ----------
    status
        Of the service's answer, as in HTTP; None: there was none.
    row
        The bad row of the batch, from 1, if it is one.
    """

    def __init__(self, message: str, status: int | None = None, row: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.row = row

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.status, self.row), self.__dict__


class CheckpointError(InferlError):
    """A checkpoint that cannot be used."""


class CheckpointVersionError(CheckpointError):
    """A checkpoint of another version of the file format."""


class CheckpointCorruptError(CheckpointError):
    """A file that is truncated, damaged, or not a checkpoint."""


class CheckpointMismatchError(CheckpointError):
    """A valid checkpoint, but of another algorithm."""


class MissingExtraError(InferlError, ImportError):
    """An optional library is needed and not installed."""

    def __init__(self, library: str, extra: str) -> None:
        super().__init__(f"{library} is not installed: pip install 'inferl[{extra}]'")
        self.library = library
        self.extra = extra

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.library, self.extra), self.__dict__
