"""``python -m studies.paper frozenlake --quick``: the paper's experiments, rebuilt."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from inferl.errors import InferlError

MODULES = {"frozenlake": "frozenlake", "random-mdp": "random_mdp", "sepsis": "sepsis", "pong": "pong"}


def reproduce(
    experiment: Annotated[Literal["frozenlake", "random-mdp", "sepsis", "pong"], typer.Argument(help="Which one.")],
    quick: Annotated[bool, typer.Option("--quick", help="Fewer repeats, shorter streams: minutes.")] = False,
    repeats: Annotated[int | None, typer.Option(min=2, help="Repeats of the coverage; others at most as many.")] = None,
    processes: Annotated[int | None, typer.Option(min=1, help="Worker processes; default: one a core.")] = None,
    output: Annotated[Path | None, typer.Option(help="Folder; default: reproduce-EXPERIMENT.")] = None,
) -> None:
    """Rebuild the figures of the paper, with what its errata do to them.

    Writes pictures (.png, .svg), the numbers behind each (.csv) and one JSON
    with settings, seeds, versions and results. Stopped and started again
    with the same folder, it goes on.

    [bold]python -m studies.paper frozenlake --quick[/bold]

    [bold]python -m studies.paper random-mdp --repeats 200 --output results[/bold]

    [bold]python -m studies.paper sepsis --processes 2[/bold]

    [bold]python -m studies.paper pong --quick[/bold] (needs the extra atari, and no torch)
    """
    from inferl import plots
    from studies.paper.drawing import draw
    from studies.paper.pong_page import lines

    with plots.style():  # a missing Matplotlib is said before the work is done, not after it
        pass
    folder = output or Path(f"reproduce-{experiment}{'-quick' if quick else ''}")
    words = ["python", "-m", "studies.paper", experiment, *(["--quick"] if quick else [])]
    words += [] if repeats is None else ["--repeats", str(repeats)]
    study = import_module(f"studies.paper.{MODULES[experiment]}")
    content = study.run(
        folder, quick=quick, repeats=repeats, processes=processes or os.cpu_count() or 1, command=" ".join(words)
    )
    draw(content, folder)
    for line in lines(content) if experiment == "pong" else _coverages(content):
        typer.echo(line)
    typer.echo(f"Pictures, tables and results: {folder}")


def _coverages(content: dict[str, Any]) -> Iterator[str]:
    """Coverage of each method, for a terminal."""
    yield f"{'method':<42}{'length':>8}  {'interval':<11}{'coverage':>8}  95% binomial"
    for cell in content["coverage"]:
        low, high = cell["binomial_95"]
        name = f"{cell['method']:<42}{cell['length']:>8}  {cell['kind']:<11}"
        yield f"{name}{cell['coverage']:>8.3f}  [{low:.3f}, {high:.3f}]"


app = typer.Typer(rich_markup_mode="rich", pretty_exceptions_enable=False)
app.command()(reproduce)


def main() -> None:
    """Run the command; an expected error is one line."""
    try:
        app(prog_name="python -m studies.paper")
    except InferlError as error:
        typer.echo(f"studies.paper: {error}", err=True)
        sys.exit(2)


if __name__ == "__main__":
    main()
