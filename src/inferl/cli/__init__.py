"""The shell commands, ``inferl demo``, ``inferl evaluate`` and so on, one module for each.

Slow imports are inside the commands, so that ``inferl --help`` answers at once.
"""

from __future__ import annotations

import errno
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import inferl
from inferl.cli.compare import compare
from inferl.cli.demo import demo
from inferl.cli.evaluate import evaluate
from inferl.cli.mean import mean
from inferl.cli.merge import merge
from inferl.cli.report import report
from inferl.cli.resume import resume
from inferl.cli.rollout import rollout
from inferl.cli.serve import serve
from inferl.cli.update import update
from inferl.cli.wording import in_shell
from inferl.errors import InferlError

__all__ = ["app", "main"]


class _Commands(TyperGroup):
    """Commands that print an expected error as one line, without a traceback."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except InferlError as error:
            typer.echo(f"inferl: {in_shell(' '.join(str(error).split()))}", err=True)
            raise typer.Exit(2) from None
        except OSError as error:
            if error.errno == errno.EPIPE:  # the reader of our output has exited
                raise
            named = f"{error.filename}: " if error.filename else ""
            typer.echo(f"inferl: {named}{error.strerror or error}", err=True)
            raise typer.Exit(2) from None
        except MemoryError:
            typer.echo("inferl: there is not enough memory; use fewer features, states or replicas", err=True)
            raise typer.Exit(2) from None
        except KeyboardInterrupt:
            typer.echo("inferl: interrupted", err=True)
            raise typer.Exit(130) from None


app = typer.Typer(cls=_Commands, no_args_is_help=True, rich_markup_mode="rich", pretty_exceptions_enable=False)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"inferl {inferl.__version__}")
        raise typer.Exit


@app.callback()
def _inferl(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Error bars on a policy's value, updated with every transition.

    Start with:  [bold]inferl demo[/bold]

    Exit codes: 0 success, 1 a gate (--require-..., --margin) was not met, 2 bad input, 3 not decided (--margin), 130
    interrupted, 143 stopped by SIGTERM.
    """


for _command in (demo, evaluate, mean, rollout, resume, update, merge, compare, report, serve):
    app.command()(_command)


def main() -> None:
    """Run the shell command ``inferl``."""
    app(prog_name="inferl")
