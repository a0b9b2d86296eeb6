"""``inferl reproduce``: the paper's experiments, rebuilt."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

__all__ = ["reproduce"]

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

    [bold]inferl reproduce frozenlake --quick[/bold]

    [bold]inferl reproduce random-mdp --repeats 200 --output results[/bold]

    [bold]inferl reproduce sepsis --processes 2[/bold]

    [bold]inferl reproduce pong --quick[/bold] (needs the extra atari, and no torch)
    """
    from inferl import plots
    from inferl.experiments.drawing import draw
    from inferl.experiments.pong_page import lines

    with plots.style():  # a missing Matplotlib is said before the work is done, not after it
        pass
    folder = output or Path(f"reproduce-{experiment}{'-quick' if quick else ''}")
    words = ["inferl", "reproduce", experiment, *(["--quick"] if quick else [])]
    words += [] if repeats is None else ["--repeats", str(repeats)]
    study = import_module(f"inferl.experiments.{MODULES[experiment]}")
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
