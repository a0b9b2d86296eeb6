"""``inferl rollout``: evaluate a policy as it acts in an environment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from inferl.cli.config import Config, write_config
from inferl.cli.options import MOMENTARY, Discount, Reply, Settings, Workers, expanded

__all__ = ["rollout"]

_PANEL = "Environment"


@dataclass(frozen=True)
class Played(Settings):
    """The options of an evaluation; returns are undiscounted unless said otherwise."""

    discount: Discount = 1.0


@expanded
def rollout(
    ctx: typer.Context,
    env: Annotated[str, typer.Argument(metavar="ENV", help="Id of a Gymnasium environment.")],
    *,
    policy: Annotated[
        str, typer.Option(help="module:name of a policy (function, table or model), or random.", rich_help_panel=_PANEL)
    ] = "random",
    episodes: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Number of episodes, or the most with --until-width or --until-lower. Default: 100, or 10000.",
            rich_help_panel=_PANEL,
        ),
    ] = None,
    features: Annotated[
        str | None,
        typer.Option(
            help="auto (a table of a finite space, else random Fourier features), observation, random-fourier:128, "
            "fourier:2, fourier:3x2 (order, interactions), rbf:50, tiles:8x4 (tilings, tiles), or module:name of a "
            "feature map. Default: none, for the mean return; auto where returns are not enough, as with "
            "--time-limit cut.",
            rich_help_panel=_PANEL,
        ),
    ] = None,
    env_option: Annotated[
        list[str] | None,
        typer.Option(help="name=value for the environment; may be repeated.", rich_help_panel=_PANEL),
    ] = None,
    num_envs: Annotated[
        int,
        typer.Option(min=1, help="Copies of the environment, played side by side.", rich_help_panel=_PANEL),
    ] = 8,
    settings: Played,
    team: Workers,
    config: Config,
    reply: Reply,
) -> None:
    """Let a policy act in a Gymnasium environment, and evaluate it.

    Without options it is the mean return of 100 episodes, up to the time limit.

    [bold]inferl rollout FrozenLake-v1 --episodes 1000[/bold]

    [bold]inferl rollout FrozenLake-v1 --env-option map_name=8x8 --policy my_policy:act --json[/bold]

    [bold]inferl rollout CartPole-v1 --policy my_model:model --until-width 5[/bold]

    [bold]inferl rollout CartPole-v1 --features auto --discount 0.99[/bold]

    [bold]inferl rollout CartPole-v1 --policy my_model:model --until-width 5 --workers 16[/bold]
    """
    if config.write_config is not None:
        return write_config(ctx, config.write_config)

    from inferl.cli.building import stored
    from inferl.cli.following import evaluate_source
    from inferl.cli.parts import rollout_in_parts

    options = stored(ctx.params, MOMENTARY)
    if team.several:
        return rollout_in_parts(options, settings, team, reply)
    evaluate_source("rollout", options, settings, reply)
