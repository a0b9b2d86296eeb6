"""``python -m studies.paper frozenlake --quick``: the paper's experiments, rebuilt, and its theory, checked."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import typer

from inferl.errors import InferlError, SettingError
from studies.paper.study import EXPERIMENTS, STUDIES, stem


def reproduce(
    name: Annotated[str, typer.Argument(metavar="NAME", help=f"One of {', '.join(STUDIES)}; or paper, or all.")],
    quick: Annotated[bool, typer.Option("--quick", help="Fewer repeats, shorter streams: minutes.")] = False,
    repeats: Annotated[int | None, typer.Option(min=2, help="Repeats of the coverage; others at most as many.")] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes; default: one a core.")] = None,
    output: Annotated[Path | None, typer.Option(help="Folder; default: reproduce-NAME.")] = None,
) -> None:
    """Rebuild the figures of the paper, with what its errata do to them, and check what its theory says.

    Writes pictures (.png, .svg), the numbers behind each (.csv) and one JSON
    with settings, seeds, versions and results. Every finished repeat is kept:
    stopped or killed and started again with the same folder, it goes on.
    `paper` runs the four experiments of the paper one after the other, `all`
    the checks of its theory too; each has a folder of its own.

    [bold]python -m studies.paper frozenlake --quick[/bold]

    [bold]python -m studies.paper random-mdp --repeats 200 --output results[/bold]

    [bold]python -m studies.paper paper --workers 32 --output full[/bold]

    [bold]python -m studies.paper pong --quick[/bold] (needs the extra atari, and no torch)
    """
    from inferl import plots

    with plots.style():  # a missing Matplotlib is said before the work is done, not after it
        pass
    names = {"paper": EXPERIMENTS, "all": STUDIES}.get(name, (name,))
    if unknown := set(names) - set(STUDIES):
        raise typer.BadParameter(f"there is no {unknown.pop()}; choose one of {', '.join(STUDIES)}, paper, all")
    if len(names) > 1 and repeats is not None:
        raise SettingError("--repeats is for one experiment; each has its own numbers")
    folder = output or Path(f"reproduce-{name}{'-quick' if quick else ''}")
    for one in names:
        own = folder / one if len(names) > 1 else folder
        begun = perf_counter()
        for line in run_one(one, own, quick, repeats, workers or os.cpu_count() or 1):
            typer.echo(line)
        typer.echo(f"{one}: {perf_counter() - begun:.0f} s; pictures, tables and results: {own}")


def run_one(name: str, folder: Path, quick: bool, repeats: int | None, workers: int) -> Iterator[str]:
    """Run a study and draw it; return what a terminal shows of it."""
    from studies.paper.drawing import draw
    from studies.paper.pong_page import lines

    words = ["python", "-m", "studies.paper", name, *(["--quick"] if quick else [])]
    words += [] if repeats is None else ["--repeats", str(repeats)]
    study = import_module(f"studies.paper.{stem(name)}")
    content = study.run(folder, quick=quick, repeats=repeats, processes=workers, command=" ".join(words))
    draw(content, folder)
    yield from lines(content) if name == "pong" else _coverages(content)


def _coverages(content: dict[str, Any]) -> Iterator[str]:
    """Coverage of each method, for a terminal."""
    cells = content.get("coverage", [])
    width = max((len(cell["method"]) for cell in cells), default=0) + 2
    if cells:
        yield f"{'method':<{width}}{'length':>8}  {'interval':<11}{'coverage':>8}  95% binomial"
    for cell in cells:
        low, high = cell["binomial_95"]
        name = f"{cell['method']:<{width}}{cell['length']:>8}  {cell['kind']:<11}"
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
