"""The page on the shell lists every option of every command."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from typer.main import get_command

from inferl.cli import app
from studies.shell import reference

PAGE = Path(__file__).parents[2] / "docs" / "shell.md"


def test_the_page_is_what_the_commands_give() -> None:
    """In a process of its own: other tests register methods, which then appear among the options."""
    code = "from studies.shell import PAGE, with_reference; print(with_reference(PAGE.read_text()), end='')"
    done = subprocess.run([sys.executable, "-c", code], cwd=PAGE.parents[1], capture_output=True, text=True, check=True)
    assert done.stdout == PAGE.read_text(), "run make pages"


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
