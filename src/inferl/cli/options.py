"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

__all__ = [
    "AlgorithmName",
    "Checkpoint",
    "Clock",
    "Discount",
    "Estimator",
    "Every",
    "JSONLines",
    "Kind",
    "Level",
    "MethodName",
    "Replicas",
    "RequireLower",
    "RequireWidth",
    "Seed",
    "SkipBad",
    "Start",
    "StepSize",
    "Steps",
    "Target",
    "TimeLimit",
    "Trace",
    "UntilLower",
    "UntilWidth",
]

_METHOD, _ANSWER, _RUN = "Method", "Answer", "Running"

Discount = Annotated[float, typer.Option(help="gamma, in (0, 1].", rich_help_panel=_METHOD)]
TimeLimit = Annotated[
    Literal["ends", "cut"] | None,
    typer.Option(
        help="A time limit ends an episode, so that returns count up to it, or cuts it off, so that the value goes on. "
        "Default: ends if the discount is 1, else cut.",
        rich_help_panel=_METHOD,
    ),
]
AlgorithmName = Annotated[
    Literal["td", "nstep", "gtd", "gtd2", "tdc", "emphatic", "q"],
    typer.Option("--algorithm", help="What is solved for.", rich_help_panel=_METHOD),
]
Trace = Annotated[float, typer.Option(help="lambda of td and emphatic.", rich_help_panel=_METHOD)]
Steps = Annotated[int, typer.Option(help="Rewards before the bootstrap, for nstep.", rich_help_panel=_METHOD)]
MethodName = Annotated[
    Literal["least-squares", "bootstrap"],
    typer.Option("--method", help="How the interval is made.", rich_help_panel=_METHOD),
]
StepSize = Annotated[
    float | None, typer.Option(help="First step size of the bootstrap; no value suits all.", rich_help_panel=_METHOD)
]
Replicas = Annotated[int, typer.Option(min=2, help="Replicas of the bootstrap.", rich_help_panel=_METHOD)]
Clock = Annotated[
    Literal["step", "block", "episode"],
    typer.Option(help="How long a multiplier of the bootstrap stays.", rich_help_panel=_METHOD),
]
Seed = Annotated[int, typer.Option(min=0, help="The same seed gives the same run.", rich_help_panel=_METHOD)]

Target = Annotated[
    str,
    typer.Option(
        help="Whose value: start (where episodes begin), the number of a state, or features 0.1,2,...",
        rich_help_panel=_ANSWER,
    ),
]
Estimator = Annotated[
    Literal["value", "fitted", "average", "pdis", "wpdis", "monte-carlo"],
    typer.Option(
        help="Of the starts: their value, whatever the features are; what the features alone say (fitted); or, to "
        "compare with, (weighted) per-decision importance sampling, or the mean return. Of all steps: the average "
        "reward.",
        rich_help_panel=_ANSWER,
    ),
]
Start = Annotated[
    str | None,
    typer.Option(
        help="In a stream without episodes: the number of a state, or its features 0.1,2,...; every visit is a start.",
        rich_help_panel=_ANSWER,
    ),
]
Level = Annotated[float, typer.Option(help="Confidence level, between 0 and 1.", rich_help_panel=_ANSWER)]
Kind = Annotated[
    Literal["normal", "percentile", "basic", "anytime"] | None,
    typer.Option(help="Of the interval; anytime if you look again and again.", rich_help_panel=_ANSWER),
]
UntilWidth = Annotated[
    float | None,
    typer.Option(help="Stop when the anytime interval is at most this wide.", rich_help_panel=_ANSWER),
]
UntilLower = Annotated[
    float | None,
    typer.Option(help="Stop when the lower bound of the anytime interval is above this.", rich_help_panel=_ANSWER),
]
JSONLines = Annotated[bool, typer.Option("--json", help="Print JSON, a line a reading.", rich_help_panel=_ANSWER)]
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
    Path | None, typer.Option(help="Keep the run in this file; `inferl resume` goes on.", rich_help_panel=_RUN)
]
Every = Annotated[
    int, typer.Option(min=1, help="Transitions between two writings of the run file.", rich_help_panel=_RUN)
]
SkipBad = Annotated[int, typer.Option(min=0, help="Go on over at most so many bad rows.", rich_help_panel=_RUN)]
