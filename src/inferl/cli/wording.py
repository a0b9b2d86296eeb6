"""Messages of the library in the words of the shell: ``--skip-bad`` instead of ``skip_bad``."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

__all__ = ["in_file", "in_shell"]

# What an option, or no option, does in the shell; the longer first.
PHRASES = {
    'use multipliers with BlockClock() as their clock, or LeastSquares("dyadic")': "let an episode be what does not "
    "depend on the others, such as all visits of one user",
    "use multipliers with BlockClock() as their clock": "use --clock block",
    "use GTD2, TDC or LeastSquares on TD": "use --algorithm gtd2 or tdc, or --method least-squares",
    "DoublyRobust can check it, if the data have episodes or visits to a start state": "it can be, where --target is "
    "left out and there are episodes, or visits to a state that counts as a start (--start)",
}
LISTED = "the log has the columns"  # what follows are names of the user, which may be those of arguments


def in_shell(content: Any) -> Any:
    """Replace the names of arguments by those of options, in a text or in all texts of lists and dicts.

    >>> in_shell('count returns up to the limit (time_limit="ends"), name the column (terminated), or give n_states')
    'count returns up to the limit (--time-limit ends), name the column (--terminated), or give --n-states'
    >>> in_shell(["there is no column 'n_states'", "say it with state=", "TD(3, trace=0.0)", 3])
    ["there is no column 'n_states'", 'say it with --state', 'TD(3, trace=0.0)', 3]
    >>> in_shell("give target_probability; the log has the columns p, target_probability")
    'give --target-probability; the log has the columns p, target_probability'
    """
    if isinstance(content, dict):
        return {name: in_shell(value) for name, value in content.items()}
    if isinstance(content, list):
        return [in_shell(value) for value in content]
    if not isinstance(content, str):
        return content
    message, columns, named = content.partition(LISTED)
    for phrase, other in PHRASES.items():
        message = message.replace(phrase, other)
    return _pattern().sub(_replaced, message) + columns + named


def in_file(content: Any) -> Any:
    """Replace the names of arguments by those that they have in a file of settings.

    >>> in_file("give n_states"), in_file(["use multipliers with BlockClock() as their clock"])
    ('give n-states', ['use clock = "block"'])
    """
    if isinstance(content, list):
        return [in_file(value) for value in content]
    text = in_shell(content).replace("--clock block", 'clock = "block"')
    return re.sub(r"--(?=[a-z])", "", text)


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
    """Match (name), name= and name="value"; a bare name only where it cannot be an English word, quoted or a path."""
    every = "|".join(sorted(_options(), key=len, reverse=True))
    plain = "|".join(sorted((name for name in _options() if "_" in name), key=len, reverse=True))
    begin, end = r"(?<![\w'\"./=-])", r"(?![\w'\"./=-])"
    return re.compile(
        rf"\((?P<enclosed>{every})\)|{begin}(?:(?P<asked>{every})=(?=[\s;,.)]|$)|"
        rf"(?P<given>{plain})=[\"'](?P<value>\w+)[\"']|(?P<bare>{plain}){end})"
    )


def _replaced(found: re.Match[str]) -> str:
    name = next(found[kind] for kind in ("enclosed", "asked", "given", "bare") if found[kind])
    option = _options()[name]
    if found["enclosed"]:
        return f"({option})"
    return f"{option} {found['value']}" if found["given"] else option
