"""Writes the options of every command into docs/shell.md, from the commands themselves.

python -m studies.shell
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from typer.main import get_command

from inferl.cli import app
from studies.markdown import table
from studies.pages import replaced

__all__ = ["reference", "with_reference"]

PAGE = Path(__file__).parents[1] / "docs" / "shell.md"
BEGIN, END = "<!-- options: written by studies.shell -->", "<!-- end of options -->"
HEAD = ["option", "default", "what it does"]


def reference() -> str:
    """Return a section for each command: its usage, its first sentence, its arguments, and its options by panel."""
    parsed: Any = get_command(app)
    written = {info.callback.__name__: info.callback for info in app.registered_commands if info.callback is not None}
    return "\n\n".join(_section(name, parsed.commands[name], get_type_hints(written[name])) for name in parsed.commands)


def with_reference(page: str) -> str:
    """Put the reference between the two marks of the page."""
    return replaced(page, BEGIN, END, reference())


def _section(name: str, command: Any, kinds: dict[str, Any]) -> str:
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    options = [one for one in command.params if one.param_type_name == "option"]
    usage = " ".join(["inferl", name, *(one.metavar for one in arguments), *(["[OPTIONS]"] if options else [])])
    parts = [f"### inferl {name}", f"`{usage}`", f"{_plain(command.help).partition('. ')[0].rstrip('.')}."]
    parts += [f"- `{one.metavar}`: {_plain(one.help)}" for one in arguments]
    panels: dict[str, list[list[str]]] = {}
    for one in options:
        panels.setdefault(one.rich_help_panel or "Options", []).append(_row(one, kinds[one.name]))
    for panel, rows in panels.items():
        parts += [f"*{panel}*", table(HEAD, rows, text=HEAD)]
    return "\n\n".join(parts)


def _row(one: Any, kind: Any) -> list[str]:
    """Return an option as a row: how it is written, its default, and its help."""
    names = " / ".join(f"`{name}`" for name in (*one.opts, *one.secondary_opts))
    if not one.is_flag:
        names = f"`{one.opts[0]}` `{one.metavar or _value(kind)}`"
    default = "" if one.default is None or one.default is False else f"`{' '.join(map(str, _listed(one.default)))}`"
    return [cell.replace("|", "\\|") for cell in (names, default, _plain(one.help))]


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


def _value(kind: Any) -> str:
    """Return what stands for a value of an annotated type.

    >>> _value(int | None), _value(Literal["ends", "cut"] | None), _value(list[str])
    ('N', 'ends|cut', 'TEXT')
    """
    if get_origin(kind) is Literal:
        return "|".join(map(str, get_args(kind)))
    inner = [one for one in get_args(kind) if one is not type(None)]
    return _value(inner[0]) if inner else {int: "N", float: "X", Path: "FILE"}.get(kind, "TEXT")


def _plain(text: str | None) -> str:
    r"""Return a help text as one line of Markdown: no marks of the terminal, and options as code.

    >>> _plain("Watch [bold]intervals[/bold]\n    close in; see --until-width.")
    'Watch intervals close in; see `--until-width`.'
    """
    words = " ".join(re.sub(r"\[/?bold\]", "", text or "").split())
    return re.sub(r"(?<![\w`-])(--\w[\w-]*)", r"`\1`", words)


if __name__ == "__main__":
    PAGE.write_text(with_reference(PAGE.read_text()))
    print(PAGE.name)
