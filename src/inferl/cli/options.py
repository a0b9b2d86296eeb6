"""Options that several commands share, and one class for those of every evaluation."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field, fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import typer

from inferl.methods.registry import names

__all__ = [
    *("MOMENTARY", "Checkpoint", "Every", "Form", "Level", "PolicyReply", "Reply", "Settings", "SkipBad"),
    *("LogWorkers", "Workers"),
    "expanded",
]

_METHOD, _QUESTION, _ANSWER, _GATES, _RUN, _WORKERS = (
    "Method",
    "Question",
    "Answer",
    "Gates: exit with 1 unless this holds, and no check failed",
    "Running",
    "Several processes or machines",
)

Discount = Annotated[float, typer.Option(help="gamma, in (0, 1].", rich_help_panel=_QUESTION)]
TimeLimit = Annotated[
    Literal["ends", "cut"] | None,
    typer.Option(
        help="What a truncation means. ends: the limit is part of the task, and returns count up to it. cut: the value "
        "extends beyond it. Default: ends if the discount is 1, else cut.",
        rich_help_panel=_QUESTION,
    ),
]
AlgorithmName = Annotated[
    Literal["td", "nstep", "gtd", "gtd2", "tdc", "emphatic", "q"],
    typer.Option("--algorithm", help="The equations to solve.", rich_help_panel=_METHOD),
]
Trace = Annotated[float, typer.Option(help="lambda of td and emphatic.", rich_help_panel=_METHOD)]
WindowPanes = Annotated[
    int | None,
    typer.Option(
        "--window",
        min=1,
        help="Look at the latest data only: so many panes, and the open one.",
        rich_help_panel=_QUESTION,
    ),
]
Pane = Annotated[
    str | None,
    typer.Option(
        help="Length of a pane of the window: a number of transitions, or a time, such as 1h, by the column --time.",
        metavar="TIME|N",
        rich_help_panel=_QUESTION,
    ),
]
Steps = Annotated[
    int, typer.Option(min=1, help="Rewards before the bootstrapped value, for nstep.", rich_help_panel=_METHOD)
]
MethodName = Annotated[
    str,
    typer.Option("--method", help=f"How the interval is made: {', '.join(names())}.", rich_help_panel=_METHOD),
]
StepSize = Annotated[
    float | None,
    typer.Option(
        help="First step size of the bootstrap; by default it is chosen, and there is no transient.",
        rich_help_panel=_METHOD,
    ),
]
Replicas = Annotated[int, typer.Option(min=2, help="Number of bootstrap replicas.", rich_help_panel=_METHOD)]
Clock = Annotated[
    Literal["step", "block", "episode"],
    typer.Option(help="Unit that shares one bootstrap multiplier.", rich_help_panel=_METHOD),
]
Seed = Annotated[int, typer.Option(min=0, help="The same seed gives the same run.", rich_help_panel=_METHOD)]

Target = Annotated[
    list[str],
    typer.Option(
        help="The value of what: start (the start distribution), the number of a state, features 0.1,2,..., or, in a "
        "log, values of its columns, ward=icu,hr=80. May be repeated.",
        metavar="TARGET",
        rich_help_panel=_QUESTION,
    ),
]
Estimator = Annotated[
    Literal["value", "fitted", "average", "pdis", "wpdis", "monte-carlo"],
    typer.Option(
        help="Of the start distribution: its value, which does not depend on the features; its value by the features "
        "alone (fitted); or a baseline: (weighted) per-decision importance sampling, or the mean return. Of all steps: "
        "the average reward.",
        rich_help_panel=_QUESTION,
    ),
]
Start = Annotated[
    str | None,
    typer.Option(
        help="In a stream without episodes, every visit to this state is a start; it is given as a target is.",
        rich_help_panel=_QUESTION,
    ),
]
Level = Annotated[float, typer.Option(help="Confidence level, between 0 and 1.", rich_help_panel=_QUESTION)]
Kind = Annotated[
    Literal["normal", "percentile", "basic", "anytime", "simultaneous"] | None,
    typer.Option(
        help="Kind of interval. anytime: holds at all times, for repeated looks. simultaneous: holds for all policies "
        "and targets at once.",
        rich_help_panel=_QUESTION,
    ),
]
UntilWidth = Annotated[
    float | None,
    typer.Option(help="Stop when the anytime interval is at most this wide.", rich_help_panel=_QUESTION),
]
UntilLower = Annotated[
    float | None,
    typer.Option(help="Stop when the lower bound of the anytime interval is above this.", rich_help_panel=_QUESTION),
]
JSONLines = Annotated[
    bool, typer.Option("--json", help="Print JSON, one line for each reading.", rich_help_panel=_ANSWER)
]
Quiet = Annotated[
    bool,
    typer.Option("--quiet", help="Print the interval only; with --json, the last line only.", rich_help_panel=_ANSWER),
]
Output = Annotated[
    Path | None, typer.Option(help="Write the report to this file: .json or .html.", rich_help_panel=_ANSWER)
]
RequireLower = Annotated[float | None, typer.Option(help="The lower bound is at least this.", rich_help_panel=_GATES)]
RequireUpper = Annotated[float | None, typer.Option(help="The upper bound is at most this.", rich_help_panel=_GATES)]
RequireWidth = Annotated[float | None, typer.Option(help="The interval is at most this wide.", rich_help_panel=_GATES)]
RequireDifference = Annotated[
    float | None,
    typer.Option(
        help="The lower bound of each policy minus the first is at least this (several policies on one log).",
        rich_help_panel=_GATES,
    ),
]

Checkpoint = Annotated[
    Path | None, typer.Option(help="Save the run to this file, for `inferl resume`.", rich_help_panel=_RUN)
]
Every = Annotated[
    str,
    typer.Option(
        help="How often to print a reading (--json) and to save the run (--checkpoint): a time, such as 10s, 5m or 1h, "
        "or a number of transitions.",
        metavar="TIME|N",
        rich_help_panel=_RUN,
    ),
]
SkipBad = Annotated[
    int | None,
    typer.Option(
        min=0,
        help="Skip at most this many bad rows; default: 0, and all in a journal.",
        show_default=False,
        rich_help_panel=_RUN,
    ),
]


@dataclass(frozen=True)
class Form:
    """How a command gives its answer."""

    json_lines: JSONLines = False
    quiet: Quiet = False
    output: Output = None


@dataclass(frozen=True)
class Reply(Form):
    """How a command gives its answer, and the gates that it must pass."""

    require_lower: RequireLower = None
    require_upper: RequireUpper = None
    require_width: RequireWidth = None

    @property
    def least_difference(self) -> float | None:
        """Gate for the differences between policies, where a command may have several."""
        return None


@dataclass(frozen=True)
class PolicyReply(Reply):
    """The same where there may be several target policies."""

    require_difference: RequireDifference = None

    @property
    def least_difference(self) -> float | None:
        """The option."""
        return self.require_difference


@dataclass(frozen=True)
class Settings:
    """The options of every command that evaluates a policy."""

    discount: Discount = 0.99
    time_limit: TimeLimit = None
    estimator: Estimator = "value"
    target: Target = field(default_factory=lambda: ["start"])
    start: Start = None
    level: Level = 0.95
    kind: Kind = None
    until_width: UntilWidth = None
    until_lower: UntilLower = None
    window: WindowPanes = None
    pane: Pane = None
    algorithm: AlgorithmName = "td"
    trace: Trace = 0.0
    steps: Steps = 1
    method: MethodName = "least-squares"
    step_size: StepSize = None
    replicas: Replicas = 200
    clock: Clock = "step"
    seed: Seed = 0
    checkpoint: Checkpoint = None
    every: Every = "10s"


@dataclass(frozen=True)
class Workers:
    """Who does the work, where one process is not enough."""

    workers: Annotated[
        str | None,
        typer.Option(
            help="Cut the work into parts, for so many processes, or all: one for each core. Their number does not "
            "change the answer. --checkpoint is then a folder.",
            metavar="N|all",
            rich_help_panel=_WORKERS,
        ),
    ] = None
    on: Annotated[
        str | None,
        typer.Option(
            help="Where: ray (the cluster of RAY_ADDRESS, or a new one on this machine) or ray://HOST:10001.",
            metavar="WHERE",
            rich_help_panel=_WORKERS,
        ),
    ] = None

    @property
    def several(self) -> bool:
        """Whether the work is to be cut into parts."""
        return self.workers is not None or self.on is not None


@dataclass(frozen=True)
class LogWorkers(Workers):
    """The same for a log."""

    part: Annotated[
        str | None,
        typer.Option(
            help="Evaluate one share of the parts, such as 17/64, into the folder --checkpoint: for batch jobs, whose "
            "files inferl merge joins.",
            metavar="I/N",
            rich_help_panel=_WORKERS,
        ),
    ] = None

    regroup: Annotated[
        Path | None,
        typer.Option(
            help="If the rows of an episode are scattered over the log: bring them together first, in files in this "
            "new folder, which takes its place.",
            metavar="FOLDER",
            rich_help_panel=_WORKERS,
        ),
    ] = None

    @property
    def several(self) -> bool:
        """Whether the work is to be cut into parts."""
        return self.part is not None or self.workers is not None or self.on is not None


# Options of one call, or stored in fields of the run: not stored among its options.
MOMENTARY = (
    *(f.name for f in (*fields(PolicyReply), *fields(LogWorkers))),
    *("checkpoint", "target", "level", "kind", "plan", "config", "write_config"),
)


def expanded(command: Callable[..., None]) -> Callable[..., None]:
    """Replace each parameter of a command that is a dataclass by one parameter for each of its fields.

    >>> @expanded
    ... def command(file: str, *, settings: Settings, skip_bad: int = 0, reply: Reply) -> None:
    ...     print(file, settings.discount, settings.every, skip_bad, reply.quiet)
    >>> list(inspect.signature(command).parameters)[:3], list(inspect.signature(command).parameters)[-1:]
    (['file', 'discount', 'time_limit'], ['require_width'])
    >>> command(file="log.csv", discount=0.9, quiet=True)
    log.csv 0.9 10s 0 True
    """
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: kind for name, kind in hints.items() if is_dataclass(kind)}

    @wraps(command)
    def wrapped(**values: Any) -> None:
        given = {
            name: group(**{f.name: values.pop(f.name) for f in fields(group) if f.name in values})
            for name, group in groups.items()
        }
        command(**values, **given)

    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        # By keyword only, so that options with defaults may stand before those without.
        keyword = parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hints[name])
        parameters += [keyword] if name not in groups else _parameters(groups[name])
    wrapped.__signature__ = inspect.Signature(parameters, return_annotation=None)  # type: ignore[attr-defined]
    wrapped.__annotations__ = {p.name: p.annotation for p in parameters}
    return wrapped


def _parameters(group: Any) -> list[inspect.Parameter]:
    """Return a keyword parameter for each field of a dataclass."""
    hints, plain = get_type_hints(group, include_extras=True), group()
    return [
        inspect.Parameter(
            f.name, inspect.Parameter.KEYWORD_ONLY, default=getattr(plain, f.name), annotation=hints[f.name]
        )
        for f in fields(group)
    ]
