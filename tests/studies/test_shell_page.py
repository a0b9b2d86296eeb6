"""The page on the shell lists every option of every command."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from typer.main import get_command

from inferl.cli import app
from studies.shell import reference, with_reference

PAGE = Path(__file__).parents[2] / "docs" / "shell.md"


def test_the_page_is_what_the_commands_give() -> None:
    written = PAGE.read_text()
    assert with_reference(written) == written, "run make pages"


def test_the_reference_names_every_option_in_the_section_of_its_command() -> None:
    commands: Any = get_command(app)
    sections = dict(part.split("\n", 1) for part in reference().split("### inferl ")[1:])
    assert list(sections) == list(commands.commands)
    for name, command in commands.commands.items():
        options = [option for one in command.params for option in (*one.opts, *one.secondary_opts) if "--" in option]
        assert options
        assert [option for option in options if f"`{option}`" not in sections[name]] == []


def test_every_command_is_in_the_table_of_the_page() -> None:
    commands: Any = get_command(app)
    table = PAGE.read_text().partition("## Answers")[0]
    assert [name for name in commands.commands if f"| `inferl {name}" not in table] == []
