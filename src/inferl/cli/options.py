"""Options that several commands share, and one class for those of every evaluation."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import typer

from inferl.methods.registry import names

__all__ = ["MOMENTARY", "JSONLines", "Level", "RequireLower", "RequireWidth", "Settings", "SkipBad", "with_settings"]

_METHOD, _ANSWER, _RUN = "Method", "Answer", "Running"

Discount = Annotated[float, typer.Option(help="gamma, in (0, 1].", rich_help_panel=_METHOD)]
TimeLimit = Annotated[
    Literal["ends", "cut"] | None,
    typer.Option(
        help="What a truncation means. ends: the limit is part of the task, and returns count up to it. cut: the value "
        "extends beyond it. Default: ends if the discount is 1, else cut.",
        rich_help_panel=_METHOD,
    ),
]
AlgorithmName = Annotated[
    Literal["td", "nstep", "gtd", "gtd2", "tdc", "emphatic", "q"],
    typer.Option("--algorithm", help="The equations to solve.", rich_help_panel=_METHOD),
]
Trace = Annotated[float, typer.Option(help="lambda of td and emphatic.", rich_help_panel=_METHOD)]
Steps = Annotated[int, typer.Option(help="Rewards before the bootstrapped value, for nstep.", rich_help_panel=_METHOD)]
MethodName = Annotated[
    str,
    typer.Option("--method", help=f"How the interval is made: {', '.join(names())}.", rich_help_panel=_METHOD),
]
StepSize = Annotated[
    float | None,
    typer.Option(help="First step size of the bootstrap; depends on the problem.", rich_help_panel=_METHOD),
]
Replicas = Annotated[int, typer.Option(min=2, help="Number of bootstrap replicas.", rich_help_panel=_METHOD)]
Clock = Annotated[
    Literal["step", "block", "episode"],
    typer.Option(help="Unit that shares one bootstrap multiplier.", rich_help_panel=_METHOD),
]
Seed = Annotated[int, typer.Option(min=0, help="The same seed gives the same run.", rich_help_panel=_METHOD)]

Target = Annotated[
    str,
    typer.Option(
        help="The value of what: start (the start distribution), the number of a state, or features 0.1,2,...",
        rich_help_panel=_ANSWER,
    ),
]
Estimator = Annotated[
    Literal["value", "fitted", "average", "pdis", "wpdis", "monte-carlo"],
    typer.Option(
        help="Of the start distribution: its value, which does not depend on the features; its value by the features "
        "alone (fitted); or a baseline: (weighted) per-decision importance sampling, or the mean return. Of all steps: "
        "the average reward.",
        rich_help_panel=_ANSWER,
    ),
]
Start = Annotated[
    str | None,
    typer.Option(
        help="In a stream without episodes, every visit to this state is a start: its number, or features 0.1,2,...",
        rich_help_panel=_ANSWER,
    ),
]
Level = Annotated[float, typer.Option(help="Confidence level, between 0 and 1.", rich_help_panel=_ANSWER)]
Kind = Annotated[
    Literal["normal", "percentile", "basic", "anytime"] | None,
    typer.Option(help="Kind of interval; anytime allows repeated looks.", rich_help_panel=_ANSWER),
]
UntilWidth = Annotated[
    float | None,
    typer.Option(help="Stop when the anytime interval is at most this wide.", rich_help_panel=_ANSWER),
]
UntilLower = Annotated[
    float | None,
    typer.Option(help="Stop when the lower bound of the anytime interval is above this.", rich_help_panel=_ANSWER),
]
JSONLines = Annotated[
    bool, typer.Option("--json", help="Print JSON, one line for each reading.", rich_help_panel=_ANSWER)
]
RequireLower = Annotated[
    float | None,
    typer.Option(
        help="Gate: exit with 1 unless the lower bound is at least this and no check failed.", rich_help_panel=_ANSWER
    ),
]
RequireWidth = Annotated[
    float | None,
    typer.Option(
        help="Gate: exit with 1 unless the interval is at most this wide and no check failed.", rich_help_panel=_ANSWER
    ),
]

Checkpoint = Annotated[
    Path | None, typer.Option(help="Save the run to this file, for `inferl resume`.", rich_help_panel=_RUN)
]
Every = Annotated[
    int, typer.Option(min=1, help="Number of transitions between two saves of the run file.", rich_help_panel=_RUN)
]
SkipBad = Annotated[int, typer.Option(min=0, help="Skip at most this many bad rows.", rich_help_panel=_RUN)]


@dataclass(frozen=True)
class Settings:
    """The options of every command that evaluates a policy; `with_settings` puts them into its signature."""

    discount: Discount = 0.99
    time_limit: TimeLimit = None
    algorithm: AlgorithmName = "td"
    trace: Trace = 0.0
    steps: Steps = 1
    method: MethodName = "least-squares"
    step_size: StepSize = None
    replicas: Replicas = 200
    clock: Clock = "step"
    seed: Seed = 0
    estimator: Estimator = "value"
    target: Target = "start"
    start: Start = None
    level: Level = 0.95
    kind: Kind = None
    until_width: UntilWidth = None
    until_lower: UntilLower = None
    json_lines: JSONLines = False
    require_lower: RequireLower = None
    require_width: RequireWidth = None
    checkpoint: Checkpoint = None
    every: Every = 1_000_000


# Options of one call, or stored in fields of the run: not stored among its options.
MOMENTARY = ("json_lines", "require_lower", "require_width", "checkpoint", "target", "level", "kind")


def with_settings(**defaults: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Replace the parameter `settings` of a command by one parameter for each option; `defaults` differ for it.

    >>> @with_settings(every=10)
    ... def command(file: str, *, settings: Settings, skip_bad: int = 0) -> None:
    ...     print(file, settings.discount, settings.every, skip_bad)
    >>> list(inspect.signature(command).parameters)[:3], list(inspect.signature(command).parameters)[-2:]
    (['file', 'discount', 'time_limit'], ['every', 'skip_bad'])
    >>> command(file="log.csv", discount=0.9)
    log.csv 0.9 10 0
    """
    names = {f.name: defaults.get(f.name, f.default) for f in fields(Settings)}

    def expand(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def wrapped(**values: Any) -> None:
            given = {name: values.pop(name, default) for name, default in names.items()}
            command(**values, settings=Settings(**given))

        hints = get_type_hints(command, include_extras=True)
        kinds = get_type_hints(Settings, include_extras=True)
        parameters: list[inspect.Parameter] = []
        for name, parameter in inspect.signature(command).parameters.items():
            # By keyword only, so that options with defaults may stand before those without.
            keyword = parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hints[name])
            own = [keyword.replace(name=n, default=d, annotation=kinds[n]) for n, d in names.items()]
            parameters += own if name == "settings" else [keyword]
        wrapped.__signature__ = inspect.Signature(parameters, return_annotation=None)  # type: ignore[attr-defined]
        wrapped.__annotations__ = {p.name: p.annotation for p in parameters}
        return wrapped

    return expand
