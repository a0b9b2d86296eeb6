"""``inferl demo``: intervals that close in on a value that is known exactly, or on another one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import inferl
from inferl.errors import MissingExtraError, SettingError

if TYPE_CHECKING:
    from rich.console import Console

    from inferl.environments import FiniteMDP
    from inferl.interval import Interval

__all__ = ["demo"]

DISCOUNT = 0.99
FIRST_READING = 10  # episodes; earlier readings are mostly noise
FEWEST = 20  # episodes that are enough for a picture
STAR = "*: a check failed"
PICTURES = (".png", ".pdf", ".svg")
FEATURES, VALUE = "features alone", "the value"
COARSE, TABULAR = (FEATURES, VALUE, "mean return"), ("online bootstrap", "least squares")

Intervals = dict[str, "Interval"]
Readings = dict[str, list[tuple[int, "Interval"]]]
Show = Callable[[int, Callable[[], Intervals]], None]


def demo(
    episodes: Annotated[int, typer.Option(min=FEWEST, help="Number of episodes.")] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same run.")] = 0,
    picture: Annotated[Path, typer.Option(help="Path of the picture: a .png, .pdf or .svg file.")] = Path("demo.png"),
    level: Annotated[float, typer.Option(help="Confidence level, between 0 and 1.")] = 0.95,
) -> None:
    """Watch intervals close in on a value that is known exactly.

    The optimal policy walks over the slippery FrozenLake of Gymnasium. What
    is its value at the start? First with features that cannot express it,
    four tiles of 16 states each: the value by the features alone, the value,
    and the mean return. Then with one feature for each state: the online
    bootstrap, and streaming least squares. The picture needs Matplotlib.

    [bold]inferl demo[/bold]

    [bold]inferl demo --episodes 2000 --seed 7 --picture lake.pdf[/bold]
    """
    from rich.console import Console

    from inferl import plots
    from inferl.interval import check_level

    check_level(level)
    _check_picture(picture)
    try:
        axes = plots.side_by_side(2)
    except MissingExtraError as error:
        axes, missing = None, str(error)
    console = Console(highlight=False)
    console.print("FrozenLake 8x8, slippery: what is the value of the best policy at the start?")
    readings, truth = _watch(console, episodes, seed, level)
    _answer(console, readings, truth)
    if axes is None:
        console.print(f"No picture: {missing}", soft_wrap=True, markup=False)
        return
    left, right = axes
    plots.closing_bands({name: readings[name] for name in (FEATURES, VALUE)}, truth, left)
    plots.closing_bands({name: readings[name] for name in TABULAR}, truth, right)
    left.set_title("four tiles as features: they cannot express the value", fontsize=8)
    right.set_title("one feature for each state", fontsize=8)
    plots.save(left, picture)
    console.print(f"Picture: {picture}", soft_wrap=True, markup=False)


def _watch(console: Console, episodes: int, seed: int, level: float) -> tuple[Readings, float]:
    """Feed all evaluators the same transitions, read them at the milestones, and compute the exact value."""
    from inferl.baselines import monte_carlo
    from inferl.environments import frozen_lake

    lake = frozen_lake()
    policy = lake.optimal_policy(DISCOUNT)
    truth = float(lake.values(policy, DISCOUNT)[0])
    steps = _play(lake, policy, episodes, seed)
    ends = (steps.discounts == 0).nonzero()[0]
    bootstrap = inferl.OnlineBootstrap(inferl.Polynomial(100, decay=0.65), seed=seed)
    tabular = [inferl.Evaluator(inferl.TD(lake.n_states), method) for method in (bootstrap, inferl.LeastSquares())]
    coarse, seen = inferl.Evaluator(inferl.DoublyRobust(4)), list[inferl.Transitions]()

    def read() -> Intervals:
        at_start = [evaluator.interval(0, level) for evaluator in tabular]
        of_starts = [coarse.interval("fitted", level), coarse.interval("value", level), monte_carlo(seen, level=level)]
        return dict(zip((*COARSE, *TABULAR), (*of_starts, *at_start), strict=True))

    readings: Readings = {name: [] for name in (*COARSE, *TABULAR)}
    begin = 0
    with (_bar if console.is_terminal else _lines)(console, episodes, truth) as show:
        for milestone in _milestones(episodes):
            end = int(ends[milestone - 1]) + 1
            chunk, begin = steps[begin:end], end
            for evaluator in tabular:
                evaluator.update(chunk)
            seen.append(chunk)
            coarse.update(_in_tiles(chunk))
            show(milestone, read)
            for name, interval in read().items():
                readings[name].append((milestone, interval))
    return readings, truth


def _play(lake: FiniteMDP, policy: Any, episodes: int, seed: int) -> inferl.Transitions:
    """Return the steps of so many episodes; a longer sample with the same seed begins as a shorter one."""
    n = 100 * episodes
    while (path := lake.sample(policy, n, seed)).terminated.sum() < episodes:
        n *= 2
    return path.transitions(DISCOUNT)


def _in_tiles(chunk: inferl.Transitions) -> inferl.Transitions:
    """Replace each state by the quarter of the lake in which it lies."""
    from dataclasses import replace

    def quarter(state: Any) -> Any:
        return state // 32 * 2 + state % 8 // 4

    return replace(chunk, features=quarter(chunk.features), next_features=quarter(chunk.next_features))


def _milestones(episodes: int) -> list[int]:
    """Return the numbers of episodes at which to read: evenly spaced on a logarithmic axis, and round numbers."""
    import numpy as np

    spaced = np.geomspace(FIRST_READING, episodes, 50).round().astype(int).tolist()
    return sorted({*spaced, *_round_numbers(episodes)})


def _round_numbers(episodes: int) -> set[int]:
    """Return 10, 20, 50, 100, ... below the number of episodes, and that number itself."""
    powers = range(1, len(str(episodes)))
    return {n for power in powers for n in (10**power, 2 * 10**power, 5 * 10**power) if n < episodes} | {episodes}


@contextmanager
def _bar(console: Console, episodes: int, truth: float) -> Iterator[Show]:
    """Show a progress bar on a terminal, and the present intervals."""
    from rich.console import Group
    from rich.live import Live
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn
    from rich.text import Text

    progress = Progress("episodes", BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    task = progress.add_task("episodes", total=episodes)
    with Live(progress, console=console, transient=True) as live:

        def show(done: int, read: Callable[[], Intervals]) -> None:
            progress.update(task, completed=done)
            lines = [f"{name:<18}{_short(interval)}" for name, interval in read().items()]
            live.update(Group(progress, *map(Text, lines), f"{'exact':<18}{truth:.3f}        {STAR}"))

        yield show


@contextmanager
def _lines(console: Console, episodes: int, truth: float) -> Iterator[Show]:
    """Print a line at round numbers of episodes, if the output goes to a file."""
    awaited = _round_numbers(episodes)
    console.print(f"{'episodes':>8}  {FEATURES:<24}  {VALUE:<24}  {STAR}")

    def show(done: int, read: Callable[[], Intervals]) -> None:
        if done in awaited:
            awaited.remove(done)
            now = read()
            console.print(f"{done:>8}  {_short(now[FEATURES]):<24}  {_short(now[VALUE])}", markup=False)

    yield show


def _short(interval: Interval) -> str:
    return f"{interval.estimate:.3f} [{interval.lower:.3f}, {interval.upper:.3f}]{_star(interval)}"


def _star(interval: Interval) -> str:
    return " *" if interval.notes else ""


def _answer(console: Console, readings: Readings, truth: float) -> None:
    """Print the estimates, their intervals, and whether these hold the exact value."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    final = {name: read[-1][1] for name, read in readings.items()}
    episodes, one = readings[VALUE][-1]
    seen = f"{episodes:,} episodes ({one.n:,} transitions)"
    console.print(f"\nAfter {seen}, the value at the start:")
    table = Table("", "estimate", f"{one.level * 100:g}% interval", f"holds the exact {truth:.4f}?", box=SIMPLE_HEAD)
    for heading, names in (("four tiles of 16 states", COARSE), ("one feature a state", TABULAR)):
        table.add_row(Text(heading, "italic"))
        for name in names:
            interval = final[name]
            bounds = Text(f"[{interval.lower:.3f}, {interval.upper:.3f}]")
            holds = "yes" if truth in interval else "no"
            table.add_row(name + _star(interval), f"{interval.estimate:.3f}", bounds, holds)
    console.print(table)
    for name, interval in final.items():
        for note in interval.notes:
            console.print(f"* {name}, {note}.\n", markup=False)
    if any(truth not in interval and not interval.notes for interval in final.values()):
        console.print(f"Of intervals at this level, about {100 - one.level * 100:g} in 100 miss.\n")


def _check_picture(picture: Path) -> None:
    """Refuse a path that cannot be written to, before the work is done and not after it."""
    if picture.suffix not in PICTURES:
        raise SettingError(f"cannot draw {picture}: its name must end in {', '.join(PICTURES)}")
    if not os.access(picture.parent, os.W_OK):
        raise SettingError(f"cannot draw {picture}: there is no folder {picture.parent}, or it cannot be written to")
