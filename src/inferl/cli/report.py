"""``inferl report``: runs as a page to be read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from inferl.runs import Run

__all__ = ["report"]


def report(
    run_files: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run files, written by --checkpoint.")],
    output: Annotated[
        Path | None, typer.Option(help="The page; default: RUN.html beside the run, report.html for several.")
    ] = None,
    show: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
) -> None:
    """Write a page about a run, or about several side by side.

    One HTML file that needs nothing else, for screens, phones and paper: the
    estimate over time with its interval, the checks and what to do, the
    ratios, the dependence, the settings.

    [bold]inferl report night.run --open[/bold]

    [bold]inferl report new.run old.run --output both.html[/bold]
    """
    from inferl.cli.building import check_checkpoint
    from inferl.report import page
    from inferl.runs import Run

    path = output or (run_files[0].with_suffix(".html") if len(run_files) == 1 else Path("report.html"))
    check_checkpoint(path)
    names = _names(run_files)
    runs = {name: Run.load(file) for name, file in zip(names, run_files, strict=True)}
    facts = {name: _facts(run, file) for (name, run), file in zip(runs.items(), run_files, strict=True)}
    html = page(runs, facts)
    path.write_text(html, encoding="utf-8")
    for name, run in runs.items():
        for line in str(run.interval()).splitlines():
            typer.echo(f"{name}: {line}")
    typer.echo(f"Page: {path}")
    if show:
        import webbrowser

        webbrowser.open(path.absolute().as_uri())


def _names(files: list[Path]) -> list[str]:
    """Call runs by the names of their files, or by their paths if those are the same."""
    from inferl.errors import SettingError

    if len({file.resolve() for file in files}) < len(files):
        raise SettingError("a run is named twice; name each once")
    short = [file.stem for file in files]
    return short if len(set(short)) == len(short) else [str(file) for file in files]


def _facts(run: Run, run_file: Path) -> dict[str, Any]:
    """Return what the source has to say."""
    from inferl.cli.building import make_table
    from inferl.cli.resume import check_options

    if run.command != "evaluate" or run.position is None:
        return {}
    check_options(run, run_file)
    return dict(make_table(run.options).resume(run.position).facts())
