"""The picture of docs/estimand.md: three answers to one question, where the features cannot express the value.

``python -m studies.validity.estimand_picture`` draws docs/images/estimand.png; it takes a few seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import inferl
from inferl.baselines import monte_carlo, per_decision
from inferl.plots import PALETTE
from studies.validity import value_finite as finite
from studies.validity.value_paths import ValueProblem

PICTURE = Path(__file__).parents[2] / "docs" / "images" / "estimand.png"
COUNTS = (200, 400, 800, 1600, 3200, 6400)  # episodes
SEED = 0
WIDTH, DPI = 1400, 200  # pixels, dots an inch

LABELS = {
    "features": ("features alone (LSTD)", PALETTE["vermillion"], "s"),
    "value": ("the value (DoublyRobust)", PALETTE["blue"], "o"),
    "returns": ("returns alone (mean return; right: PDIS)", "0.5", "D"),
}

Baseline = Callable[[Iterable[inferl.Transitions]], inferl.Interval]


@dataclass(frozen=True)
class Panel:
    """One run: the problem, and what returns say without features."""

    title: str
    problem: ValueProblem
    baseline: Baseline


def panels() -> list[Panel]:
    lake = next(one for one in finite.frozen_lake() if one.name.endswith("tiles 4x4"))
    clinic = next(one for one in finite.clinic(10, 0.6) if one.name.endswith("3 bins"))
    return [
        Panel("on-policy: FrozenLake 8x8, 4 features", lake, monte_carlo),
        Panel("off-policy: a log of up to 10 visits, 3 features", clinic, per_decision),
    ]


def episodes(problem: ValueProblem, number: int) -> list[inferl.Transitions]:
    """The first episodes of a run, each by itself."""
    found: list[inferl.Transitions] = []
    part = 0
    while len(found) < number:
        data = problem.data([SEED, part])
        borders = np.r_[0, np.flatnonzero(data.last) + 1]
        found += [data[a:b] for a, b in zip(borders[:-1].tolist(), borders[1:].tolist(), strict=True)]
        part += 1
    return found[:number]


def readings(panel: Panel) -> dict[str, list[inferl.Interval]]:
    """What each estimator says after so many episodes."""
    problem, path = panel.problem, episodes(panel.problem, COUNTS[-1])
    evaluator = inferl.Evaluator(inferl.DoublyRobust(problem.dimension))
    read: dict[str, list[inferl.Interval]] = {"features": [], "value": [], "returns": []}
    done = 0
    for count in COUNTS:
        evaluator.update(path[done:count])
        done = count
        read["features"].append(evaluator.interval("fitted"))
        read["value"].append(evaluator.interval())
        read["returns"].append(panel.baseline(path[:count]))
    return read


def draw(axes: Any, panel: Panel) -> None:
    """Draw the intervals side by side, and the truth."""
    places = np.arange(len(COUNTS))
    axes.axhline(panel.problem.truth, color="black", linewidth=0.9, zorder=1, label="exact value")
    for (key, intervals), shift in zip(readings(panel).items(), (-0.24, 0.0, 0.24), strict=True):
        label, color, marker = LABELS[key]
        estimate, lower, upper = (np.array([getattr(i, x) for i in intervals]) for x in ("estimate", "lower", "upper"))
        errors = [estimate - lower, upper - estimate]
        style = {"color": color, "fmt": marker, "markersize": 3.2, "elinewidth": 1.5, "capsize": 0}
        axes.errorbar(places + shift, estimate, errors, label=label, zorder=2, **style)
        print(f"{panel.title}, {label}: {', '.join(str(i).partition(' 95%')[0] for i in intervals)}")
    axes.set_xticks(places, [f"{count:,}" for count in COUNTS])
    axes.set_xlabel("episodes")
    axes.set_title(panel.title, fontsize=8, loc="left")


def main(made: Sequence[Panel]) -> None:
    from inferl.plots import style

    with style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(WIDTH / DPI, 2.9), dpi=DPI, layout="constrained")
        for axes, panel in zip(figure.subplots(1, 2), made, strict=True):
            draw(axes, panel)
        handles, labels = figure.axes[0].get_legend_handles_labels()
        figure.legend(
            handles, labels, loc="outside upper center", ncols=4, frameon=False, fontsize=7, columnspacing=1.6
        )
        figure.axes[0].set_ylabel("value of the starts, 95% intervals")
        figure.savefig(PICTURE, dpi=DPI)


if __name__ == "__main__":
    main(panels())
