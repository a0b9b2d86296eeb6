"""The figures of the Pong study: the paper's four, and what the features cannot express."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from inferl import plots
from studies.paper import figures, ticks
from studies.paper.games import unpacked
from studies.paper.looks import LOOKS
from studies.paper.machinery import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["at_the_end", "draw"]

CROP = 1  # the console leaves a notch of its first line blank
TITLES = {"unit": "features divided by their norm", "raw": "features as they are"}
METHODS = {  # (method, kind) -> name
    ("bootstrap", "percentile"): "bootstrap, percentile",
    ("bootstrap", "normal"): "bootstrap, normal",
    ("least squares", "normal"): "least squares",
}
BLOCKS = {
    ("least squares, i.i.d.", "normal"): "least squares, i.i.d.",
    ("least squares", "normal"): "least squares",
    ("bootstrap", "percentile"): "bootstrap",
    ("bootstrap, blocks", "percentile"): "bootstrap, by block",
}


def draw(content: dict[str, Any], folder: Path) -> None:
    """Draw all figures of the study into a folder."""
    _game(content, folder)
    _widths(content, folder)
    _policies(content, folder)
    _blocks(content, folder)


def at_the_end(content: dict[str, Any], features: str, method: str, kind: str | None = None) -> list[Result]:
    """The last readings of a method, a row a policy; by default its own kind of interval, the first."""
    own = [row for row in content["values"] if (row["features"], row["method"]) == (features, method)]
    wanted = kind or (own[0]["kind"] if own else None)
    return [row for row in own if row["kind"] == wanted]


def _over_episodes(content: dict[str, Any], features: str, method: str, kind: str) -> list[Result]:
    """The readings of the first policy."""
    wanted = (features, method, kind)
    return [row for row in content["example"] if (row["features"], row["method"], row["kind"]) == wanted]


def _game(content: dict[str, Any], folder: Path) -> None:
    """A screen, and one run's intervals over episodes."""
    figure, (left, right) = figures.panels(2)
    views = {"screen": (0.0, "the game"), "input": (0.5, "the last of 4 frames\nthat the network sees")}
    with plots.style():
        left.axis("off")
        for name, (x, words) in views.items():
            inset = left.inset_axes((x, 0.16, 0.45, 0.82), anchor="N")
            picture = unpacked(content["views"][name])[CROP:]
            inset.imshow(picture, interpolation="nearest", aspect="equal")
            inset.set(xticks=[], yticks=[])
            inset.spines[:].set_visible(False)
            inset.set_xlabel(words, fontsize=7)
        rows: list[Result] = []
        for (method, kind), name in METHODS.items():
            own = _over_episodes(content, "unit", method, kind)
            rows += own
            n, estimate, lower, upper = _columns(own, "episodes", "estimate", "lower", "upper")
            if kind == "normal" and method == "bootstrap":
                style: dict[str, Any] = {"color": LOOKS[name].color, "linestyle": LOOKS[name].line, "linewidth": 0.8}
                right.plot(n, lower, **style)
                right.plot(n, upper, **style, label=name)
            else:
                figures.band(right, n, estimate, lower, upper, name, filled=method == "bootstrap")
        value = content["monte_carlo"][0]
        look = LOOKS["Monte Carlo"]
        style = {"color": look.color, "linestyle": look.line, "linewidth": 0.6}
        right.axhline(value["estimate"], **style, label="Monte Carlo")
        ticks.lengths(right, "episodes")
        shown = [row for row in rows if row["method"] == "bootstrap"]  # least squares may be wild where games are few
        right.set_ylim(*_reach([*shown, value]))
        right.set_ylabel("value of the start, greedy policy")
        right.legend(frameon=False, fontsize=6, loc="lower right", handlelength=2)
    figures.write(figure, rows, folder, "pong-example")


def _widths(content: dict[str, Any], folder: Path) -> None:
    """Widths over episodes, of the greedy policy."""
    figure, axes = figures.panels(2)
    rows = []
    for panel, features in zip(axes, TITLES, strict=True):
        curves = {}
        for (method, kind), name in (METHODS | {("least squares, i.i.d.", "normal"): "least squares, i.i.d."}).items():
            own = _over_episodes(content, features, method, kind)
            rows += own
            curves[name] = [
                {"length": row["episodes"], "median_width": row["upper"] - row["lower"]}
                for row in own
                if None not in (row["lower"], row["upper"])
            ]
        figures.widths(panel, curves, "episodes")
        panel.set_ylabel("width of the interval")
        figures.title(panel, TITLES[features])
    figures.write(figure, rows, folder, "pong-widths")


def _policies(content: dict[str, Any], folder: Path) -> None:
    """Error bars of all policies, with Monte Carlo beside them."""
    figure, axes = figures.panels(2)
    rows = []
    for panel, features in zip(axes, TITLES, strict=True):
        groups = {name: at_the_end(content, features, method, kind) for (method, kind), name in METHODS.items()}
        groups["Monte Carlo"] = content["monte_carlo"]
        rows += [{"features": features, "method": name} | _bounds(row) for name, own in groups.items() for row in own]
        _bars(panel, groups)
        figures.title(panel, TITLES[features])
        panel.set_ylabel("value of the start")
    figures.key(figure, axes[0])
    figures.write(figure, rows, folder, "pong-policies")


def _blocks(content: dict[str, Any], folder: Path) -> None:
    """Intervals that take scores for independent beside those that do not, all around the least-squares estimate."""
    figure, axes = figures.panels(2)
    rows = []
    for panel, features in zip(axes, TITLES, strict=True):
        centre = {row["epsilon"]: row["estimate"] for row in at_the_end(content, features, "least squares")}
        groups = {name: at_the_end(content, features, method, kind) for (method, kind), name in BLOCKS.items()}
        groups["Monte Carlo"] = content["monte_carlo"]
        rows += [{"features": features, "method": name} | _bounds(row) for name, own in groups.items() for row in own]
        _bars(panel, groups, centre)
        panel.axhline(0, color="black", linewidth=0.5, zorder=0)
        figures.title(panel, TITLES[features])
        panel.set_ylabel("difference to least squares")
    figures.key(figure, axes[0])
    figures.write(figure, rows, folder, "pong-blocks")


def _bars(axes: Axes, groups: Mapping[str, Sequence[Result]], centre: Mapping[float, float] | None = None) -> None:
    """Intervals side by side for each policy."""
    epsilons = [row["epsilon"] for row in next(iter(groups.values()))]
    gap = 0.7 / len(groups)
    with plots.style():
        for i, (name, own) in enumerate(groups.items()):
            look = LOOKS[name]
            at = np.arange(len(own)) + gap * (i - (len(groups) - 1) / 2)
            estimate, lower, upper = _columns(own, "estimate", "lower", "upper")
            zero = np.array([centre[row["epsilon"]] for row in own]) if centre else np.zeros(len(own))
            axes.errorbar(
                at,
                estimate - zero,
                np.maximum([estimate - lower, upper - estimate], 0),
                fmt=look.marker,
                color=look.color,
                markerfacecolor=look.style["markerfacecolor"],
                markersize=3,
                capsize=1.5,
                elinewidth=0.9,
                label=name,
            )
        axes.set_xticks(range(len(epsilons)), [f"{epsilon:g}" for epsilon in epsilons])
        axes.set_xlabel("probability of a random action, $\\varepsilon$")


def _reach(rows: Sequence[Result]) -> tuple[float, float]:
    """What an axis should show: all these intervals, with room for a legend below."""
    lower, upper = _columns(rows, "lower", "upper")
    low, high = float(np.nanmin(lower)), float(np.nanmax(upper))
    return low - 0.6 * (high - low), high + 0.3 * (high - low)


def _columns(rows: Sequence[Result], *names: str) -> list[Any]:
    return [np.array([np.nan if row[name] is None else row[name] for row in rows]) for name in names]


def _bounds(row: Result) -> Result:
    return {name: row[name] for name in ("epsilon", "estimate", "lower", "upper")}
