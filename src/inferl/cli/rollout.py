"""``inferl rollout``: evaluate a policy as it acts in an environment."""

from __future__ import annotations

from typing import Annotated

import typer

from inferl.cli.config import Config, write_config
from inferl.cli.options import MOMENTARY, Reply, Settings, expanded

__all__ = ["rollout"]

_PANEL = "Environment"


@expanded
def rollout(
    ctx: typer.Context,
    env: Annotated[str, typer.Argument(metavar="ENV", help="Id of a Gymnasium environment.")],
    *,
    policy: Annotated[
        str, typer.Option(help="module:name of a policy (function, table or model), or random.", rich_help_panel=_PANEL)
    ] = "random",
    episodes: Annotated[int, typer.Option(min=1, help="Number of episodes.", rich_help_panel=_PANEL)] = 100,
    features: Annotated[
        str | None,
        typer.Option(
            help="module:name of a feature map; default: the state, or the observation.", rich_help_panel=_PANEL
        ),
    ] = None,
    env_option: Annotated[
        list[str] | None,
        typer.Option(help="name=value for the environment; may be repeated.", rich_help_panel=_PANEL),
    ] = None,
    settings: Settings,
    config: Config,
    reply: Reply,
) -> None:
    """Let a policy act in a Gymnasium environment, and evaluate it.

    [bold]inferl rollout FrozenLake-v1 --episodes 1000[/bold]

    [bold]inferl rollout FrozenLake-v1 --env-option map_name=8x8 --policy my_policy:act --json[/bold]

    [bold]inferl rollout CartPole-v1 --policy my_model:model --episodes 5000 --until-width 2[/bold]
    """
    if config.write_config is not None:
        return write_config(ctx, config.write_config)

    from inferl.cli.building import stored
    from inferl.cli.following import evaluate_source

    evaluate_source("rollout", stored(ctx.params, MOMENTARY), settings, reply)
