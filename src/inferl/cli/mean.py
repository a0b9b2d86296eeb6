"""``inferl mean``: the mean of a column, with an interval that allows for dependence."""

from __future__ import annotations

import inspect
from dataclasses import fields
from typing import Annotated, Any, Literal

import typer

from inferl.cli.config import Config, write_config
from inferl.cli.evaluate import evaluate
from inferl.cli.options import MOMENTARY, Checkpoint, Every, Level, Reply, Settings, SkipBad, expanded
from inferl.errors import SettingError

__all__ = ["mean"]


@expanded
def mean(
    ctx: typer.Context,
    file: Annotated[
        list[str], typer.Argument(metavar="FILE...", help="The log: files, as for inferl evaluate; - for a pipe.")
    ],
    column: Annotated[str, typer.Argument(metavar="COLUMN", help="A column of numbers.")],
    *,
    by: Annotated[
        str | None,
        typer.Option(
            help="Column of labels, such as episode: the mean of the totals of all rows with one label.",
            metavar="COLUMN",
        ),
    ] = None,
    order: Annotated[
        str | None,
        typer.Option(
            help="With --by: column of times, if the rows of several labels are mixed; it shows labels used again.",
            metavar="COLUMN",
        ),
    ] = None,
    level: Level = 0.95,
    kind: Annotated[
        Literal["normal", "anytime"] | None,
        typer.Option(help="anytime: holds at all times, for repeated looks.", rich_help_panel="Question"),
    ] = None,
    checkpoint: Checkpoint = None,
    every: Every = "10s",
    skip_bad: SkipBad = None,
    config: Config,
    reply: Reply,
) -> None:
    """Estimate the mean of a column, with error bars.

    Rows are in order of time, and may depend on those before them: the
    interval allows for it. With --by, the rows of a label are added up, as
    rewards are to returns, and labels are taken to be independent.

    [bold]inferl mean log.csv latency[/bold]

    [bold]inferl mean monday.csv tuesday.csv clicks --by session --require-lower 0.2[/bold]

    [bold]tail -f log.csv | inferl mean - latency --kind anytime --json[/bold]
    """
    if config.write_config is not None:
        return write_config(ctx, config.write_config)
    if order is not None and by is None:
        raise SettingError("--order goes with --by; without it, rows are taken as they come")

    from inferl.cli.building import absolute, stored
    from inferl.cli.following import evaluate_source

    # The average reward of a log whose every row stands alone; or the undiscounted return of its episodes.
    plain = inspect.signature(evaluate).parameters
    columns = ("order", "terminated", "truncated", "stream", "episode", "behaviour_probability")
    said: dict[str, Any] = dict.fromkeys((*columns, "behaviour_log_probability"), "none")
    said |= {"file": list(map(absolute, file)), "reward": column, "features": column, "skip_bad": skip_bad}
    if by is None:
        said |= {"next_features": column, "estimator": "average"}
    else:
        said |= {"episode": by, "episodes_end": True, "discount": 1.0, "order": order or "none", "gaps": True}
    settings = {f.name: said.get(f.name, plain[f.name].default) for f in fields(Settings)}
    settings |= {"level": level, "kind": kind, "checkpoint": checkpoint, "every": every}
    options = {name: of.default for name, of in plain.items() if name not in ("ctx", "file")} | settings | said
    evaluate_source("evaluate", stored(options, MOMENTARY), Settings(**settings), reply)
