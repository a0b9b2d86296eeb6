"""``inferl rollout``: the value of a policy as it acts in an environment."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from inferl.cli.evaluate import MOMENTARY
from inferl.cli.options import (
    AlgorithmName,
    Checkpoint,
    Clock,
    Discount,
    Estimator,
    Every,
    JSONLines,
    Kind,
    Level,
    MethodName,
    Replicas,
    RequireLower,
    RequireWidth,
    Seed,
    Start,
    Steps,
    StepSize,
    Target,
    TimeLimit,
    Trace,
    UntilLower,
    UntilWidth,
)

if TYPE_CHECKING:
    from inferl.runs import Run

__all__ = ["play_on", "rollout"]

_PANEL = "World"


def rollout(
    ctx: typer.Context,
    env: Annotated[str, typer.Argument(metavar="ENV", help="Id of a Gymnasium environment.")],
    policy: Annotated[
        str, typer.Option(help="module:name of a policy (function, table or model), or random.", rich_help_panel=_PANEL)
    ] = "random",
    episodes: Annotated[int, typer.Option(min=1, help="Episodes to play.", rich_help_panel=_PANEL)] = 100,
    features: Annotated[
        str | None,
        typer.Option(help="module:name of a feature map; else states, or the numbers seen.", rich_help_panel=_PANEL),
    ] = None,
    env_option: Annotated[
        list[str] | None,
        typer.Option(help="name=value for the environment; may be repeated.", rich_help_panel=_PANEL),
    ] = None,
    discount: Discount = 0.99,
    time_limit: TimeLimit = None,
    algorithm: AlgorithmName = "td",
    trace: Trace = 0.0,
    steps: Steps = 1,
    method: MethodName = "least-squares",
    step_size: StepSize = None,
    replicas: Replicas = 200,
    clock: Clock = "step",
    seed: Seed = 0,
    estimator: Estimator = "value",
    target: Target = "start",
    start: Start = None,
    level: Level = 0.95,
    kind: Kind = None,
    until_width: UntilWidth = None,
    until_lower: UntilLower = None,
    json_lines: JSONLines = False,
    require_lower: RequireLower = None,
    require_width: RequireWidth = None,
    checkpoint: Checkpoint = None,
    every: Every = 10_000,
) -> None:
    """Let a policy act in a Gymnasium environment, and evaluate it.

    [bold]inferl rollout FrozenLake-v1 --episodes 1000[/bold]

    [bold]inferl rollout FrozenLake-v1 --env-option map_name=8x8 --policy my_policy:act --json[/bold]

    [bold]inferl rollout CartPole-v1 --policy my_model:model --episodes 5000 --until-width 2[/bold]
    """
    from inferl.cli.building import (
        aimed_at,
        asked_kind,
        check_checkpoint,
        make_evaluator,
        make_rollout,
        parsed_target,
        stored,
    )
    from inferl.cli.following import BASELINES, answer, answer_by_baseline
    from inferl.interval import check_level
    from inferl.runs import Run

    check_level(level)
    check_checkpoint(checkpoint)
    options = stored(ctx.params, MOMENTARY)
    others = {
        "checkpoint": checkpoint,
        "until_width": until_width,
        "until_lower": until_lower,
        "kind": kind,
        "start": start,
    }
    aim = aimed_at(estimator, parsed_target(target), **others)
    source = make_rollout(options)
    if estimator in BASELINES:
        chunks = source.take(episodes=episodes)
        return answer_by_baseline(estimator, time_limit, level, chunks, json_lines, require_lower, require_width)
    run = Run(
        make_evaluator(options, source.features.dimension, by_starts=isinstance(aim, str)),
        "rollout",
        options,
        aim,
        level,
        asked_kind(kind, until_width, until_lower),
    )
    play_on(run, checkpoint, json_lines)
    answer(run, {}, json_lines, require_lower, require_width)


def play_on(run: Run, checkpoint: Path | None, json_lines: bool) -> None:
    """Play the episodes that are missing; those played before are played again first, and not counted twice."""
    from inferl.cli.building import make_rollout
    from inferl.cli.following import follow

    source = make_rollout(run.options)
    for _ in source.take(steps=run.evaluator.n):
        pass
    missing = run.options["episodes"] - run.evaluator.episodes
    follow(run, source.take(episodes=missing), lambda: (None, source.start()), checkpoint, json_lines)
