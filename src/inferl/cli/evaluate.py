"""``inferl evaluate``: evaluate a policy from a log."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from inferl.cli.config import Config, write_config
from inferl.cli.options import MOMENTARY, LogWorkers, PolicyReply, Settings, SkipBad, expanded

__all__ = ["evaluate"]

_PANEL = "Columns (none: there is no such column; left out: recognised by its name)"
_LIVE = "Streams, and logs that grow"
_RATIOS = "Ratios of target to behaviour policy, for off-policy evaluation"


def _column(help: str, panel: str = _PANEL) -> Any:
    return typer.Option(help=help, rich_help_panel=panel, metavar="COLUMN")


Name = str | None


@expanded
def evaluate(
    ctx: typer.Context,
    file: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE...",
            help="Parquet, CSV, JSON lines or Arrow: files, folders, globs, URIs; - for standard input. Or a stream: "
            "kafka://HOST:PORT/TOPIC, redis://HOST:PORT/STREAM.",
        ),
    ],
    *,
    features: Annotated[
        Name,
        typer.Option(
            help="A formula, 'hr + C(ward) + poly(age, 2)', or columns, hr,bp; with an intercept unless it says - 1. "
            "Left out: a constant, which is enough for the value of the starts of episodes. Beside --state: a feature "
            "map of these columns, module:name.",
            rich_help_panel=_PANEL,
            metavar="FORMULA",
        ),
    ] = None,
    state: Annotated[Name, _column("Instead of features: one column, or several, whose values are the states.")] = None,
    n_states: Annotated[
        int | None, typer.Option(min=1, help="Number of states, if they are 0, 1, ...", rich_help_panel=_PANEL)
    ] = None,
    reward: Annotated[Name, _column("Reward.")] = None,
    episode: Annotated[Name, _column("Label of the episode.")] = None,
    order: Annotated[Name, _column("Place in the episode; rows out of order are refused.")] = None,
    next_features: Annotated[
        Name, _column("The same columns of the next state; default: those of the next row.")
    ] = None,
    terminated: Annotated[Name, _column("Flag: the episode terminates.")] = None,
    truncated: Annotated[Name, _column("Flag: the episode is truncated.")] = None,
    stream: Annotated[Name, _column("Label of parallel sequences, such as environments.")] = None,
    time: Annotated[Name, _column("When the row was written, for a window of hours (--pane 1h).")] = None,
    version: Annotated[
        Name, _column("Version of the policy. There must be one, or a --window, which begins anew with each.")
    ] = None,
    action: Annotated[Name, _column("Action; needed by --policy and --fit-behaviour.", _RATIOS)] = None,
    behaviour_probability: Annotated[
        Name, _column("Probability of the action under the behaviour policy.", _RATIOS)
    ] = None,
    behaviour_log_probability: Annotated[Name, _column("The same as a logarithm.", _RATIOS)] = None,
    fit_behaviour: Annotated[
        Name,
        typer.Option(
            help="Estimate these probabilities, in a first pass over the log, from columns: a formula such as "
            "C(ward)+severity.",
            rich_help_panel=_RATIOS,
            metavar="FORMULA",
        ),
    ] = None,
    target_probability: Annotated[
        Name, _column("Probability of the action under the target policy; several: a,b.", _RATIOS)
    ] = None,
    target_log_probability: Annotated[Name, _column("The same as a logarithm.", _RATIOS)] = None,
    policy: Annotated[
        Name,
        typer.Option(
            help="The target policy itself: module:name, or a file of probabilities (columns state, action, "
            "probability; or one row a state); several: a,b.",
            rich_help_panel=_RATIOS,
            metavar="POLICY",
        ),
    ] = None,
    ratio: Annotated[Name, _column("Target / behaviour; several: a,b.", _RATIOS)] = None,
    clip: Annotated[float | None, typer.Option(help="Clip ratios at this value.", rich_help_panel=_RATIOS)] = None,
    episodes_end: Annotated[
        bool | None,
        typer.Option(
            "--episodes-end/--no-episodes-end",
            help="The last row of an episode terminates it, or only the data end there; for logs without flags.",
            rich_help_panel=_PANEL,
        ),
    ] = None,
    idle_timeout: Annotated[
        Name,
        typer.Option(
            help="A pause after which an episode is over, such as 30m; its label may come back. The order is a time.",
            rich_help_panel=_PANEL,
            metavar="TIME",
        ),
    ] = None,
    gaps: Annotated[
        bool, typer.Option("--gaps", help="The order column may have gaps.", rich_help_panel=_PANEL)
    ] = False,
    plan: Annotated[
        bool,
        typer.Option("--plan", help="Show files, rows and columns, and stop: little is read.", rich_help_panel=_PANEL),
    ] = False,
    settings: Settings,
    follow: Annotated[
        bool,
        typer.Option(
            "--follow",
            help="At the end of a stream, or of one file of text, wait for more; until --until-width, --n-rows, Ctrl-C "
            "or SIGTERM.",
            rich_help_panel=_LIVE,
        ),
    ] = False,
    n_rows: Annotated[int | None, typer.Option(min=1, help="Stop after this many rows.", rich_help_panel=_LIVE)] = None,
    client_settings: Annotated[
        str | None,
        typer.Option(
            help="Settings of the client of a stream, such as user and password: a file of lines name=value.",
            rich_help_panel=_LIVE,
            metavar="FILE",
        ),
    ] = None,
    skip_bad: SkipBad = None,
    team: LogWorkers,
    config: Config,
    reply: PolicyReply,
) -> None:
    """Evaluate a policy from a log, with error bars.

    The column names of RLlib, D4RL and LeRobot are recognised, and so are
    reward, episode, terminated (or terminal), truncated (or timeouts) and done.

    [bold]inferl evaluate log.parquet --features hr,bp,o2 --episode patient --order hour[/bold]

    [bold]inferl evaluate 'logs/*.csv.gz' --features hr,bp --episode patient --plan[/bold]

    [bold]inferl evaluate log.csv --state state --n-states 50 --ratio w --require-lower 0.4[/bold]

    [bold]inferl evaluate log.csv --features hr,bp --ratio w --estimator wpdis[/bold]

    [bold]inferl evaluate log.csv --state s --n-states 50 --behaviour-probability p --policy new.csv[/bold]

    [bold]inferl evaluate 'logs/*.parquet' --features hr,bp --workers all --checkpoint run/[/bold]

    [bold]inferl evaluate --config night.toml --discount 0.9[/bold]

    [bold]inferl evaluate kafka://localhost:9092/steps --features hr,bp --follow --checkpoint live.run[/bold]

    [bold]inferl evaluate kafka://localhost:9092/steps --features hr --follow --window 24 --pane 1h --time at[/bold]

    [bold]cat log.jsonl | inferl evaluate - --features obs --checkpoint night.run --json[/bold]
    """
    if config.write_config is not None:
        return write_config(ctx, config.write_config)

    from inferl.cli.building import absolute, make_table, stored, with_paths
    from inferl.cli.following import evaluate_source
    from inferl.cli.parts import evaluate_in_parts
    from inferl.display import as_json

    options = stored(ctx.params, MOMENTARY)
    options["file"] = tuple(map(absolute, file))
    if client_settings is not None:
        options["client_settings"] = absolute(client_settings)
    if policy is not None:
        options["policy"] = with_paths(policy)
    if team.regroup is not None:
        make_table(options).regrouped(team.regroup)
        options["file"] = (absolute(str(team.regroup)),)
    if plan:
        found = make_table(options).plan()
        typer.echo(as_json(found.to_dict()) if reply.json_lines else str(found))
        return
    if team.several:
        return evaluate_in_parts(options, settings, team, reply)
    evaluate_source("evaluate", options, settings, reply)
