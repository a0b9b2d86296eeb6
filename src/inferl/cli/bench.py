"""inferl bench: how fast the engine is on this machine, against what one would pick instead."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["bench"]


def bench(
    quick: Annotated[bool, typer.Option("--quick", help="Less than a minute, with less certain numbers.")] = False,
    output: Annotated[Path | None, typer.Option(help="Write the results to this JSON file.")] = None,
) -> None:
    """Measure the engine against its rivals, in one process and on one thread.

    JAX and river are measured where they are installed (the extra bench).

    inferl bench --quick

    inferl bench --output engine.json
    """
    from inferl.benchmarks import launch

    raise typer.Exit(launch(quick=quick, output=output))
