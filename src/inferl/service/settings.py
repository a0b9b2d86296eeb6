"""Settings of the service: what `inferl serve` reads from its TOML file."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from inferl.errors import SettingError
from inferl.runs import Run
from inferl.sources import Table

__all__ = ["Limits", "Question", "Settings"]

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


@dataclass(frozen=True)
class Limits:
    """What the server takes at most; above, it answers 413 (too large) or 429 (later).

    Attributes
    ----------
    request
        Bytes of a request.
    rows
        Rows of a request.
    queue
        Bytes of all requests that are being read, or wait for the disk.
    behind
        Bytes of the journal of an experiment that the evaluator has not yet read.
    clients
        Clients of an experiment.
    rate
        Requests a second from one address.
    connections
        Connections that are open at once.
    segment
        Bytes of the journal in one file.
    """

    request: int = 8 << 20
    rows: int = 10_000
    queue: int = 64 << 20
    behind: int = 1 << 30
    clients: int = 10_000
    rate: int = 10_000
    connections: int = 1000
    segment: int = 64 << 20


@dataclass(frozen=True)
class Question:
    """What an experiment asks, in the words of ``inferl evaluate``.

    Attributes
    ----------
    about
        The options as plain data; a run that was begun with others is not continued.
    source
        From a journal, the table that reads it.
    check_dimension
        Raises if the method cannot have so many features, or states, for so many target policies.
    run
        From that table, of which the first rows are read, and the number of target policies, the run.
    one_version
        Whether rows of a second version of the policy are refused: without a window, an interval is about one.
    every
        Seconds between two checkpoints.
    thresholds
        Numbers that a decision waits for.
    worded
        Puts a message of the library into the words of the file.
    """

    about: Mapping[str, Any]
    source: Callable[[Any], Table]
    check_dimension: Callable[[int, int], None]
    run: Callable[[Table, int], Run]
    one_version: bool = True
    every: float = 10.0
    thresholds: tuple[float, ...] = ()
    worded: Callable[[str], str] = str


@dataclass(frozen=True)
class Settings:
    """What the server does.

    Attributes
    ----------
    experiments
        By name.
    folder
        Where the journals and the run files are, a folder for each experiment; beside the file, if it is relative.
    host, port
        Where it listens; port 0 is any that is free.
    tokens
        A file of tokens (see `inferl.service.tokens`).
    keep_journal
        Whether segments of the journals are kept after they are evaluated, for a replay.
    webhooks
        Tables of the file, as they are.
    """

    experiments: Mapping[str, Question]
    folder: Path = Path("live")
    host: str = "127.0.0.1"
    port: int = 8000
    tokens: Path | None = None
    keep_journal: bool = True
    limits: Limits = field(default_factory=Limits)
    webhooks: tuple[Mapping[str, Any], ...] = ()

    @classmethod
    def read(cls, path: Path, question: Callable[[str, dict[str, Any]], Question]) -> Settings:
        """Read a file; `question` turns the table of an experiment, which has this name, into what is asked."""
        try:
            said = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise SettingError(f"cannot read {path}: {error.strerror}") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise SettingError(f"{path} is no TOML: {error}") from None
        tables = said.pop("experiments", None)
        if not isinstance(tables, dict) or not tables or not all(isinstance(one, dict) for one in tables.values()):
            raise SettingError(f"{path} has no experiments; begin the table of one with [experiments.NAME]")
        for name in tables:
            if not NAME.fullmatch(name):
                raise SettingError(f"{path}: {name!r} is no name of an experiment; use letters, digits, - and _")
        limits = said.pop("limits", {})
        hooks = said.pop("webhooks", [])
        if not isinstance(limits, dict) or not isinstance(hooks, list):
            raise SettingError(f"{path}: limits is a table, [limits]; webhooks are tables, [[webhooks]]")
        known = {"folder": str, "host": str, "port": int, "tokens": str, "keep-journal": bool}
        plain = _checked(said, known, str(path))
        sizes = _checked(limits, dict.fromkeys((f.name for f in fields(Limits)), int), f"{path}, [limits]")
        for name, value in sizes.items():
            if value < 1:
                raise SettingError(f"{path}, [limits]: {name} is {value}; it must be positive")
        if not 0 <= plain.get("port", 0) < 65536:
            raise SettingError(f"{path}: port is {plain['port']}; it must be between 0 and 65535")
        for name in ("folder", "tokens"):
            if name in plain:
                plain[name] = path.absolute().parent / plain[name]
        plain.setdefault("folder", path.absolute().parent / cls.folder)
        questions = {name: question(name, table) for name, table in tables.items()}
        return cls(questions, limits=Limits(**sizes), webhooks=tuple(hooks), **plain)


def _checked(said: Mapping[str, Any], known: Mapping[str, type], where: str) -> dict[str, Any]:
    """Return settings by the names that they have here; unknown names and other types are errors."""
    for name, value in said.items():
        if name not in known:
            near = get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
            raise SettingError(f"{where}: there is no setting {name!r}; {hint}")
        if type(value) is not known[name]:
            kind = {str: "text", int: "a whole number", bool: "true or false"}[known[name]]
            raise SettingError(f"{where}: {name} is {value!r:.60}; it must be {kind}")
    return {name.replace("-", "_"): value for name, value in said.items()}
