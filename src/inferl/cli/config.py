"""``--config`` and ``--write-config``: the options of a command in a TOML file."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any

import typer

from inferl.errors import SettingError

__all__ = ["Config", "given", "write_config"]

USAGE: Any = typer.BadParameter.__base__  # of a wrong option: typer may have a click of its own


def _read(ctx: typer.Context, path: Path | None) -> Path | None:
    """Make the options in a file the defaults of this call; what the command line says wins."""
    if path is not None and not ctx.resilient_parsing:
        ctx.default_map = _options(ctx, path)
    return path


@dataclass(frozen=True)
class Config:
    """Where options come from, and where they go."""

    config: Annotated[
        Path | None,
        typer.Option(
            help="Take options from this TOML file; those of the command line win.",
            callback=_read,
            is_eager=True,
            rich_help_panel="Running",
        ),
    ] = None
    write_config: Annotated[
        Path | None,
        typer.Option(help="Write the options given to this TOML file, and exit.", rich_help_panel="Running"),
    ] = None


def _options(ctx: typer.Context, path: Path) -> dict[str, Any]:
    """Read a file; unknown names are errors."""
    try:
        said = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingError(f"cannot read {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingError(f"{path} is no TOML: {error}") from None
    return _checked(f"{path}: ", f"inferl {ctx.command.name}", said, _known(ctx.command))


def given(command: str, said: dict[str, Any], where: str, without: Sequence[str], file: str) -> dict[str, Any]:
    """Return the parameters of a command, as if it were called with the options of a table, and a file.

    Parameters
    ----------
    command
        Its name.
    said
        The table: options by the names that they have in a file.
    where
        What the table is, for messages.
    without
        Parameters that the table cannot have.
    file
        The argument of the command.
    """
    from typer.main import get_command

    from inferl.cli import app

    commands: Any = get_command(app)
    one = commands.commands[command]
    known = {name: parameter for name, parameter in _known(one).items() if parameter.name not in without}
    options = _checked("", where, said, known)
    try:
        params: dict[str, Any] = one.make_context(command, [file], default_map=options).params
    except USAGE as error:
        raise SettingError(error.format_message()) from None
    return params


def _checked(where: str, who: str, said: dict[str, Any], known: dict[str, Any]) -> dict[str, Any]:
    """Return options by the names of their parameters; unknown names are errors."""
    wrong = [name for name in said if name not in known]
    if wrong:
        close = get_close_matches(wrong[0], known, 1)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise SettingError(f"{where}{who} has no option {', '.join(map(repr, wrong))}{hint}")
    return {known[name].name: _value(where, name, value, known[name]) for name, value in said.items()}


def _known(command: Any) -> dict[str, Any]:
    """Return the parameters of a command by the names that they have in a file: n-states for --n-states."""
    named = {parameter.opts[0].lstrip("-"): parameter for parameter in command.params}
    return {name: parameter for name, parameter in named.items() if name not in ("config", "write-config", "help")}


def _value(where: str, name: str, value: Any, parameter: Any) -> Any:
    """Return a value as the shell would give it: a list for an option that may be repeated, else a,b,c."""
    values = value if isinstance(value, list) else [value]
    if any(isinstance(one, bool) != bool(getattr(parameter, "is_flag", False)) for one in values) or not all(
        isinstance(one, str | int | float) for one in values
    ):
        expected = "true or false" if getattr(parameter, "is_flag", False) else "text, a number, or a list of these"
        raise SettingError(f"{where}{name} is {value!r:.60}; it must be {expected}")
    if getattr(parameter, "multiple", False) or parameter.nargs == -1:
        return [str(one) for one in values]
    return ",".join(map(str, values)) if isinstance(value, list) else value


def write_config(ctx: typer.Context, path: Path) -> None:
    """Write the options that were given, on the command line or by a file.

    >>> _toml(["start", "3"]), _toml(True), _toml(0.5)
    ('["start", "3"]', 'true', '0.5')
    """
    from inferl.cli.building import check_writable

    check_writable(path)
    given = {
        name: ctx.params[parameter.name]
        for name, parameter in _known(ctx.command).items()
        if getattr(ctx.get_parameter_source(parameter.name), "name", "DEFAULT") != "DEFAULT"
    }
    lines = [f"# inferl {ctx.command.name} --config {path}", *(f"{name} = {_toml(given[name])}" for name in given)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    typer.echo(f"Options: {path}; run them with: inferl {ctx.command.name} --config {path}")


def _toml(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, bool | int | float):
        return repr(value).lower()
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
