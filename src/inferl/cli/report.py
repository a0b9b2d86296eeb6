"""``inferl report``: write a page about one run or several."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["report"]


def report(
    run_files: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run files, written by --checkpoint.")],
    output: Annotated[
        Path | None, typer.Option(help="Path of the page; default: RUN.html, or report.html for several runs.")
    ] = None,
    show: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
) -> None:
    """Write a page about a run, or about several side by side.

    The page is a single HTML file, for screens, phones and paper: the estimate
    over time with its interval, the checks and what to do about them, the
    ratios, the dependence, the settings.

    [bold]inferl report night.run --open[/bold]

    [bold]inferl report new.run old.run --output both.html[/bold]
    """
    from inferl.cli.building import check_writable
    from inferl.report import page
    from inferl.runs import Run

    path = output or (run_files[0].with_suffix(".html") if len(run_files) == 1 else Path("report.html"))
    check_writable(path)
    names = _names(run_files)
    runs = {name: Run.load(file) for name, file in zip(names, run_files, strict=True)}
    path.write_text(page(runs), encoding="utf-8")
    for name, run in runs.items():
        labels = [f"{name}, {policy}" for policy in run.names]
        for number, line in enumerate(str(run.interval()).splitlines()):
            typer.echo(f"{labels[number] if number < len(labels) else name}: {line}")
    typer.echo(f"Page: {path}")
    if show:
        import webbrowser

        webbrowser.open(path.absolute().as_uri())


def _names(files: list[Path]) -> list[str]:
    """Return the names of the files, or their paths if names occur twice."""
    from inferl.errors import SettingError

    if len({file.resolve() for file in files}) < len(files):
        raise SettingError("a run file is given twice; give each once")
    short = [file.stem for file in files]
    return short if len(set(short)) == len(short) else [str(file) for file in files]
