"""``inferl evaluate``: the value of a policy from a log."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

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
    SkipBad,
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
    from inferl.data.transitions import Transitions
    from inferl.runs import Run
    from inferl.sources import Table

__all__ = ["evaluate", "read_on"]

_PANEL = "Columns (none: there is no such column; left out: recognised by its name)"
_RATIOS = "Ratios of target to behaviour, for a policy that did not act itself"
# Of the moment, not of the run: not stored with it.
MOMENTARY = ("json_lines", "require_lower", "require_width", "checkpoint", "target", "level", "kind")


def _column(help: str, panel: str = _PANEL) -> Any:
    return typer.Option(help=help, rich_help_panel=panel, metavar="COLUMN")


Name = str | None


def evaluate(
    ctx: typer.Context,
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="Parquet, CSV, JSON lines or Arrow; - for standard input.")
    ],
    features: Annotated[Name, _column("One column of lists or of states (--n-states); or several, a,b,c.")] = None,
    n_states: Annotated[int | None, typer.Option(min=1, help="Number of states.", rich_help_panel=_PANEL)] = None,
    reward: Annotated[Name, _column("Reward.")] = None,
    episode: Annotated[Name, _column("Label of the episode.")] = None,
    order: Annotated[Name, _column("Place in the episode; disorder is refused.")] = None,
    next_features: Annotated[Name, _column("Features of the next state; else those of the next row.")] = None,
    terminated: Annotated[Name, _column("Flag: the episode ends, nothing is worth anything after it.")] = None,
    truncated: Annotated[Name, _column("Flag: the episode is cut off.")] = None,
    stream: Annotated[Name, _column("Label of sequences that run side by side.")] = None,
    behaviour_probability: Annotated[Name, _column("Of the action, under the policy that took it.", _RATIOS)] = None,
    behaviour_log_probability: Annotated[Name, _column("The same as a logarithm.", _RATIOS)] = None,
    target_probability: Annotated[Name, _column("Under the policy to evaluate; several: a,b.", _RATIOS)] = None,
    target_log_probability: Annotated[Name, _column("The same as a logarithm.", _RATIOS)] = None,
    ratio: Annotated[Name, _column("Target / behaviour; several: a,b.", _RATIOS)] = None,
    clip: Annotated[float | None, typer.Option(help="Largest ratio.", rich_help_panel=_RATIOS)] = None,
    episodes_end: Annotated[
        bool, typer.Option("--episodes-end", help="The last row of an episode ends it.", rich_help_panel=_PANEL)
    ] = False,
    interleaved: Annotated[
        bool, typer.Option("--interleaved", help="Rows of several episodes are mixed.", rich_help_panel=_PANEL)
    ] = False,
    gaps: Annotated[
        bool, typer.Option("--gaps", help="The order need not count 1, 2, 3, ...", rich_help_panel=_PANEL)
    ] = False,
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
    every: Every = 1_000_000,
    skip_bad: SkipBad = 0,
) -> None:
    """Evaluate a policy from a log, with error bars.

    The names of RLlib, D4RL and LeRobot are recognised, and so are the words
    reward, episode, terminated and truncated.

    [bold]inferl evaluate log.parquet --features hr,bp,o2 --episode patient --order hour[/bold]

    [bold]inferl evaluate log.csv --features state --n-states 50 --ratio w --require-lower 0.4[/bold]

    [bold]inferl evaluate log.csv --features hr,bp --ratio w --estimator wpdis[/bold]

    [bold]cat log.jsonl | inferl evaluate - --features obs --checkpoint night.run --json[/bold]
    """
    from inferl.cli.building import (
        aimed_at,
        asked_kind,
        check_checkpoint,
        make_evaluator,
        make_table,
        parsed_target,
        stored,
    )
    from inferl.cli.following import BASELINES, answer, answer_by_baseline
    from inferl.errors import SettingError
    from inferl.interval import check_level
    from inferl.runs import Run

    check_level(level)
    check_checkpoint(checkpoint)
    others = {
        "checkpoint": checkpoint,
        "until_width": until_width,
        "until_lower": until_lower,
        "kind": kind,
        "start": start,
    }
    aim = aimed_at(estimator, parsed_target(target), **others)
    options = stored(ctx.params, MOMENTARY)
    if file != "-":
        options["file"] = str(Path(file).absolute())
    log = make_table(options)
    if estimator in BASELINES:
        return answer_by_baseline(estimator, time_limit, level, log, json_lines, require_lower, require_width)
    chunks = iter(log)
    first = next(chunks, None)
    if first is None:
        raise SettingError(f"{log.name} holds no transition: {log.rows} rows, {log.dropped} without a next state")
    n_policies = 1 if first.ratios.ndim == 1 else first.ratios.shape[1]
    run = Run(
        make_evaluator(
            options, log.dimension, n_policies, by_starts=isinstance(aim, str) and (log.episodic or start is not None)
        ),
        "evaluate",
        options,
        aim,
        level,
        asked_kind(kind, until_width, until_lower),
    )
    read_on(run, log, chunks, first, checkpoint, json_lines)
    answer(run, log.facts(), json_lines, require_lower, require_width)


def read_on(run: Run, log: Table, chunks: Any, first: Any, checkpoint: Path | None, json_lines: bool) -> None:
    """Read the rest of a log into a run; `first` is a chunk that has been read already, or None."""
    from inferl.cli.following import follow

    def keep() -> None:
        """Keep the run as it is before the log's end is taken for its end: rows may be appended."""
        if checkpoint is not None and log.source != "-" and log.open_end is not None and run.before is None:
            run.keep(log.open_end, log.open_end.starts)

    def everything() -> Iterator[Transitions]:
        for chunk in chunks if first is None else chain([first], chunks):
            keep()
            yield chunk
        keep()

    follow(run, everything(), lambda: (log.progress, log.start()), checkpoint, json_lines)
