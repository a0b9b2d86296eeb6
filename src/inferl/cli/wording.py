"""Messages of the library in the words of the shell: ``--skip-bad`` instead of ``skip_bad``."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

__all__ = ["in_shell"]


def in_shell(content: Any) -> Any:
    """Replace the names of arguments by those of options, in a text or in all texts of lists and dicts.

    >>> in_shell('count returns up to the limit (time_limit="ends"), name the column (terminated), or give n_states')
    'count returns up to the limit (--time-limit ends), name the column (--terminated), or give --n-states'
    >>> in_shell(["there is no column 'n_states'", 3])
    ["there is no column 'n_states'", 3]
    """
    if isinstance(content, dict):
        return {name: in_shell(value) for name, value in content.items()}
    if isinstance(content, list):
        return [in_shell(value) for value in content]
    return _pattern().sub(_replaced, content) if isinstance(content, str) else content


@cache
def _options() -> dict[str, str]:
    """Return the options of all commands by the names of the arguments behind them."""
    from typer.main import get_command

    from inferl.cli import app

    commands: Any = get_command(app)
    parameters = [parameter for command in commands.commands.values() for parameter in command.params]
    return {parameter.name: parameter.opts[0] for parameter in parameters if parameter.opts[0].startswith("--")}


@cache
def _pattern() -> re.Pattern[str]:
    """Match name=value and (name); a bare name only where it cannot be an English word. Not in quotes or in paths."""
    every = "|".join(sorted(_options(), key=len, reverse=True))
    plain = "|".join(sorted((name for name in _options() if "_" in name), key=len, reverse=True))
    outside = r"(?<![\w'\"./=-])"
    value = r"(?:\"(?P<quoted>[^\"]*)\"|(?P<value>[\w.]+)|(?=\W|$))"
    return re.compile(
        rf"{outside}(?P<given>{every})={value}|\((?P<enclosed>{every})\)|{outside}(?P<bare>{plain})(?![\w'\"./=-])"
    )


def _replaced(found: re.Match[str]) -> str:
    if found["enclosed"]:
        return f"({_options()[found['enclosed']]})"
    value = found["quoted"] or found["value"]
    if value in ("True", "None", None):
        return _options()[found["given"] or found["bare"]] + (" none" if value == "None" else "")
    return f"{_options()[found['given']]} {value}"
