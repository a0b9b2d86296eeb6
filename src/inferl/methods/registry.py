"""The registry of methods: the names that the shell offers, and the classes that a file may contain.

Classes are imported on first use, so that ``inferl --help`` does not import NumPy.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, TypeVar

from inferl.errors import SettingError

if TYPE_CHECKING:
    from inferl.methods.base import Method

__all__ = ["method_named", "names", "register", "registered"]

_REGISTERED: dict[str, str | type[Method]] = {
    "least-squares": "inferl.methods.least_squares:LeastSquares",
    "bootstrap": "inferl.methods.bootstrap:OnlineBootstrap",
}
_GROUP = "inferl.methods"  # entry points of other packages

M = TypeVar("M", bound="type[Method]")


def register(name: str) -> Callable[[M], M]:
    """Register a method under a name, for the shell and for reading files that contain its state.

    A package may instead list the class in its entry points, group ``inferl.methods``. A class of the same module and
    name, as when a notebook cell runs again, replaces the earlier one.

    >>> from inferl import LeastSquares
    >>> register("bootstrap")(LeastSquares)
    Traceback (most recent call last):
    ...
    inferl.errors.SettingError: there is a method 'bootstrap' already
    """

    def registering(cls: M) -> M:
        before = _REGISTERED.get(name, cls)
        if isinstance(before, str) or (before.__module__, before.__qualname__) != (cls.__module__, cls.__qualname__):
            raise SettingError(f"there is a method {name!r} already")
        _REGISTERED[name] = cls
        return cls

    return registering


def names() -> list[str]:
    """Return the names of all methods, those of installed packages included.

    >>> names()[:2]
    ['least-squares', 'bootstrap']
    """
    return list(dict.fromkeys([*_REGISTERED, *(point.name for point in entry_points(group=_GROUP))]))


def method_named(name: str) -> type[Method]:
    """Return the class of this name."""
    if name not in _REGISTERED:
        found = [point.load() for point in entry_points(group=_GROUP) if point.name == name]
        if not found:
            raise SettingError(f"there is no method {name!r}; choose one of {', '.join(names())}")
        _REGISTERED[name] = found[0]
    home = _REGISTERED[name]
    if isinstance(home, str):
        module, _, cls = home.partition(":")
        home = _REGISTERED[name] = getattr(import_module(module), cls)
    assert isinstance(home, type)
    return home


def registered() -> list[type[Method]]:
    """Return the classes of all methods; one of another package that cannot be imported is left out, with a warning."""
    found = []
    for name in names():
        try:
            found.append(method_named(name))
        except Exception as error:
            warnings.warn(f"the method {name!r} cannot be imported ({error})", RuntimeWarning, stacklevel=2)
    return found
