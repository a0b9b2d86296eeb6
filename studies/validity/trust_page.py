"""The main part of docs/validity.md: what the study of trust found, in words, tables and one picture."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from textwrap import fill as fill_text
from typing import Any

import numpy as np

from studies.markdown import Columns, count, percent, table, table_of, yes
from studies.markdown import share as interval_of
from studies.provenance import origin, short, software

Cell = dict[str, Any]

BANDS = (("fewer than 50", 0, 50), ("50 to 250", 50, 250), ("250 and more", 250, np.inf))
SHORT_NAMES = {
    "least squares": "least squares\n(default)",
    "least squares, lag 0": "least squares,\nlag 0",
    "least squares, episodes": "least squares,\nepisodes",
    "bootstrap, as printed": "bootstrap,\nas printed",
    "bootstrap": "bootstrap",
    "bootstrap, blocks": "bootstrap,\nblocks",
    "offline bootstrap": "offline\nbootstrap",
    "HAC on LSTD": "HAC\non LSTD",
    "random scaling": "random\nscaling",
    "batch means": "batch\nmeans",
}

PICTURE = """\
![Coverage of 95 % intervals by problem and method, for streams of fewer than 50, of 50 to 250 and of more than 250
relaxation times](images/validity.png)

How often 95 % intervals held the truth, in per cent; each square is the lowest over lengths and targets. White is
right, red too narrow (or not arrived yet), blue too wide, grey not measured. The relaxation time of a problem is
how long its chain remembers where it was.
"""

CRITERIA = """\
## What had to come out, and what did

The limits were set before the runs, which are on seeds of their own; the problems are those that the method was worked
out on. A cell is a problem, a length and a target.
"""

WHY = """\
What is behind these lines:

- **Within 2 points.** Without Baird's star {cells} trusted cells are left. There least squares holds the truth in
  {lowest:.1f} to {highest:.1f} % of the runs, in the mean {middle:.1f} %, which is {below:.1f} points below to
  {above:.1f} above the interval with the true variance, in the mean {mean:+.1f}. What is too high: {high}. Among so
  many cells some miss a limit by chance, and others meet it so{look}.
- **What changed** since the study before (seed 58000, commit 64939ba, in the history of `validity/results/trust.json`).
  Its mean was +0.3. Since then all epochs count, about one common mean, and a rate that falls with the length of blocks
  is told from noise as one that grows is.
- **Baird's star at 1,000 steps.** Of {runs} further runs {none} had not seen the event that decides (see below), and of
  these {none_held} held the truth; of the others {others:.1f} %. What is not in the data cannot widen an interval that
  is taken from them: such a run looks like one of a star that never slips, where the same interval would be right. So
  91 % are out of reach, unless every run gets an interval that is of no use. Checks fire in {fired:.0f} % of all runs,
  and in {fired_none:.0f} % of those that have seen no event.
- **Checks on Baird's star at 3,000 steps.** The interval holds, and the rarity check objects in half of the runs: the
  width rests on six events in the mean. With so few it holds if they are alike, as they are here, and less often if
  they are not (see below), which such a check cannot tell. It rather warns.
- **Block bootstrap.** Its bounds are quantiles at (B + 1) p now, and wider than in the study before. On the lazy ring
  from 10,000 steps on they hold {blocks}.
"""

CLOSER = """\
## A closer look

The trusted cells that were more than one point off, Baird's star apart, in many more runs with a seed of their own;
those less than a point off were not looked at again. *Off* is the distance to the coverage with the true variance, in
points, with its standard error. Of the {missed} cells that missed the limit of 2, {now_within} are within it here; of
those that met it, {now_beyond} are beyond it, by up to {errors:.1f} standard errors.

The true variance is that of the limit. *At this length* is the distance to the coverage with the scatter that the
estimate has at this length, which in short streams can be more. (For 5-step TD the true variance is not known, and the
scatter stands for it in both columns.) On the two-state chains the estimate is a count: coverage jumps where an
interval takes in one count more, so that distances mean less there.
"""

SERIES = """\
## What noise hides, and cycles

The mean of plain series. A slow part (relaxation time 100 steps) under noise, of which nothing but the rewards is seen:
as long as blocks in which it would show are few, it looks like noise, and the interval is far too narrow. At 50
relaxation times (5,000 steps) it is a few points short, as it is in the table above. Where sums take back what came
before, the variance falls with the length of blocks; that is followed as far as it is beyond noise. Until then the
interval is too wide, and a little so afterwards. *Width* is the median over that of the interval with the scatter of
the runs.
"""

RULE = """\
## How block lengths are weighed, and why so

Blocks of 1, 2, 4, ... steps each show a variance rate; it grows until they are longer than the dependence, and the
longer they are the fewer there are. Candidates, compared on the same runs with seeds of their own: *one level* is taken
where no longer blocks differ by so many standard errors, or an *average*, in which a level is the less believed the
further longer ones differ, between two numbers of standard errors. A rate that *falls* counts as one that grows does,
in plain or *in logarithms*, or not at all. The rate is taken where growth has ended or *one level higher*, and a share
of *the last growth* is added: half of it is what the next level would add; all of it, at the level itself, is the
*lugsail* 2 v_j - v_(j-1). *Rare scores* cost degrees of freedom. *Off* is the distance of the coverage to that with the
true variance, in points, over the trusted cells without Baird's star, which has a column of its own. *One in forty* is
the width that one run in forty exceeds, over that of the run in the middle: how far the width jumps about. Streams have
up to 100,000 steps here, and runs are few: the lowest and the highest of {cells} distances owe much to chance.
"""

LESSONS = """\
One level that is chosen jumps with the noise of long blocks. An average is calmer; by itself it trusts short blocks too
much where there is dependence, and the half of the last growth makes up for that. Falls hardly occur in these problems;
that they are followed is for cycles (above) and for the queue (below). They had thresholds of their own once, of 3 and
4 standard errors, and scores of alternating signs a rule of their own; with 1 and 2 for both, neither is needed. A
larger second number would be calmer still, and later to see a slow part that noise hides. The lugsail is as good on
long streams and holds less on short ones.

The numbers were fixed before, on runs of these problems with other seeds and on plain series (not kept), among many
that did about as well; so fresh seeds show what is chance, but not what is fitted to the problems. A curve fitted to
the rates (white noise and an autoregression, averaged over its parameters) was tried there too, and lost: in long
streams the memory of a chain is no single exponential.

The alarm that went with the first rule, fewer than 16 blocks at the chosen level, was of little use: it fired in 9 to
32 % of the trusted runs, and below 50 relaxation times in only a third to two thirds of the misses (the two-state
chains apart). What a stream is worth in independent steps tells them apart, if scores *and* features are asked: scores
hide a slow ring, and a constant feature hides a slow chain. By features in 32 stretches, nine of ten of 30 runs gave
194 steps or more from 245 relaxation times on, and 129 or fewer below 50. The alarm was at 150 therefore; the busy
queue (below) showed that a stream in which no rush has come looks faster than it is, and it is at 200 now. With 32 to
64 stretches it missed a quarter of the bad runs on the lazy ring of 100 states: each stretch was too short to show the
whole memory. (An exponential fitted to the growth of the scores' variance had been tried before; there it missed four
fifths.)

On how many steps a width rests was looked at before the alarm was set, on 300 runs with other seeds: from 250
relaxation times on nineteen of twenty runs of every other problem had 9 or more, and those of Baird's star in the
middle 2 at 1,000 steps, 4 at 3,000 and 9 at 10,000. The alarm is at 5, the rule of thumb for counts. An alarm at 2
would be quiet on Baird's star from 3,000 steps on, where events are all alike and the interval holds. But what is rare
is not always alike (above), and then an interval that rests on 2 to 5 steps is too narrow.
"""

DEFAULT = """\
## The default, least squares with dyadic blocks

*True variance*: the coverage of estimate -+ 1.96 true standard errors in the same runs, the best that any variance
estimate could do; it too falls short where the estimate is not normal yet. (It is exact for one-step methods; for
5-step TD the scatter of the runs stands for it.) *Width* is the median width over that of
this interval. The last columns say how often some check objected, in the runs that missed and in those that held.

Where scores alternate in sign (the two-state chain with correlation -.5) the variance falls with the length of blocks.
That is followed; before it was, these intervals were 22 % too wide at any length. Now they are with few steps only,
where blocks that are long enough are few.
"""

REWARDS = """\
A reward that comes about six times in 4,000 steps, by its sizes and by the number of steps that the width rests on, as
the rarity check estimates it:
"""

RARE = """\
## What is rare, and what has not happened yet

In Baird's star the target always heads for a state where the behaviour is seldom, and there takes an action that the
behaviour seldom takes: one step in 54, with ratios of 7, and the value builds on itself through them. What makes it
uncertain is that one in ten of these slips away. Runs by the number of such events, and how often V(s0) was held:
"""

ANYTIME = """\
## Looking again and again

100 looks between t0 and 100 t0, even on a logarithmic scale; tuning time 10 t0. A run misses if the interval misses at
any look.
"""

DIFFERENCES = """\
## Which policy is better

Two similar target policies and one behaviour on the random MDP, the difference of their values in one state. *Stack*
solves for both on one log; the coupled bootstraps (TDC) share their multipliers. Treating one log as two independent
ones ignores that both policies see the same luck.
"""

JOINT = """\
## All states at once

How often the band held *all* targets at the same time; beside it, pointwise intervals read as if they were a band. The
states of a table are those that are visited 50 times or more in the mean at the shortest length.
"""


def sections(
    content: dict[str, Any],
    closer: dict[str, Any],
    rules: dict[str, Any],
    rare: dict[str, Any],
    series: dict[str, Any],
) -> Iterable[str]:
    """The sections, in their order."""
    yield PICTURE
    yield CRITERIA
    yield criteria_table(content["criteria"])
    looked = closer["study"] == content["provenance"]  # else it is about another one
    yield wrapped(WHY.format(**facts(content, rare), look=": see the closer look below" if looked else ""))
    if looked:
        yield CLOSER.format(**verdicts(closer))
        yield closer_table(closer)
    yield DEFAULT
    default = [cell for cell in content["cells"] if cell["method"] == "least squares"]
    yield table_of(
        default,
        {
            "problem": lambda c: c["problem"],
            "target": lambda c: c["target"],
            "steps": lambda c: count(c["length"]),
            "relaxation times": lambda c: f"{c['relaxation_times']:.0f}",
            "covered": lambda c: share(c["coverage"]),
            "true variance": lambda c: "-" if np.isnan(c["width"]) else percent(c["oracle"]["share"]),
            "width": lambda c: "-" if np.isnan(c["width"]) else f"{c['width']:.2f}",
            "a check fired, missed": lambda c: counted(c["fired_when_missed"]),
            "held": lambda c: counted(c["fired_when_held"]),
        },
    )
    yield RARE
    yield rare_table(rare)
    yield SERIES
    yield series_table(series)
    yield RULE.format(cells=rules["rules"][0]["trusted"])
    yield rules_table(rules)
    yield LESSONS
    yield ANYTIME
    yield table_of(
        [cell for cell in content["anytime"] if cell["kind"] == "anytime"],
        {
            "problem": lambda c: c["problem"],
            "method": lambda c: c["method"],
            "target": lambda c: c["target"],
            "t0": lambda c: count(c["from"]),
            "anytime misses": lambda c: share(c["missed"]),
            "pointwise misses": lambda c: share(beside(content["anytime"], c, "problem", "method", "target")["missed"]),
        },
    )
    yield DIFFERENCES
    yield table_of(
        content["differences"],
        {
            "data and method": lambda c: c["way"],
            "steps": lambda c: count(c["length"]),
            "covered": lambda c: share(c["coverage"]),
            "median width": lambda c: f"{c['median_width']:.3g}",
        },
    )
    yield JOINT
    yield table_of(
        [cell for cell in content["bands"] if cell["kind"] == "simultaneous"],
        {
            "problem": lambda c: c["problem"],
            "method": lambda c: c["method"],
            "targets": lambda c: str(c["targets"]),
            "steps": lambda c: count(c["length"]),
            "band misses": lambda c: share(c["missed"]),
            "pointwise misses": lambda c: share(beside(content["bands"], c, "problem", "method", "length")["missed"]),
        },
    )
    by, minutes = content["provenance"], content["cpu_seconds"] / 60
    yield (
        f"Made by {origin(by)}, {software(by)}; {minutes:.0f} minutes of one core. "
        f"Bootstraps: `{content['settings']['bootstrap']}`, with other initial step sizes for each problem; blocks: "
        f"`{content['settings']['bootstrap, blocks']}`.{other_commits(content)}\n"
    )


def other_commits(content: dict[str, Any]) -> str:
    """Which parts were made by which commits, if not all by the same."""
    parts: dict[str, list[str]] = {}
    for part, own in content["commits"].items():
        for commit in own:
            parts.setdefault(short(commit), []).append(part)
    listed = "; ".join(f"{commit}: {', '.join(names)}" for commit, names in sorted(parts.items()))
    kept = content["provenance"].get("kept")  # parts of a run before
    seed = f" ({', '.join(kept['parts'])} with seed {kept['seed']})" if kept else ""
    return f" Parts by commit: {listed}{seed}." if len(parts) > 1 else ""


def wrapped(text: str) -> str:
    """Break the lines of a list anew, as numbers have made them longer."""
    head, *points = text.split("\n- ")
    fill = partial(fill_text, width=120, initial_indent="- ", subsequent_indent="  ", break_on_hyphens=False)
    return "\n".join([head, *(fill(" ".join(point.split())) for point in points)]) + "\n"


def facts(content: dict[str, Any], rare: dict[str, Any]) -> dict[str, Any]:
    """The numbers of the words about what is behind the lines."""
    trusted = [
        cell
        for cell in content["cells"]
        if cell["method"] == "least squares" and cell["relaxation_times"] >= 250 and "Baird" not in cell["problem"]
    ]
    held = [100 * cell["coverage"]["share"] for cell in trusted]
    off = [100 * (cell["coverage"]["share"] - cell["oracle"]["share"]) for cell in trusted]
    blocks = [
        100 * cell["coverage"]["share"]
        for cell in content["cells"]
        if (cell["method"], cell["problem"]) == ("bootstrap, blocks", "ring 20/4, lazy") and cell["length"] >= 10_000
    ]
    short = [cell for cell in rare["cells"] if cell["length"] == 1000]
    none, some = short[0], short[1:]
    runs = sum(cell["runs"] for cell in short)
    return {
        "cells": len(trusted),
        "lowest": min(held),
        "highest": max(held),
        "middle": float(np.mean(held)),
        "below": -min(off),
        "above": max(off),
        "mean": float(np.mean(off)),
        "high": " and ".join(
            f"{cell['problem']}, {cell['target']} at {count(cell['length'])} steps"
            for cell, distance in zip(trusted, off, strict=True)
            if distance > 2 + 1e-7
        ),
        "blocks": f"{min(blocks):.1f} to {max(blocks):.1f} %",
        "runs": runs,
        "none": none["runs"],
        "none_held": none["held"],
        "others": 100 * sum(cell["held"] for cell in some) / sum(cell["runs"] for cell in some),
        "fired": 100 * sum(cell["fired"] for cell in short) / runs,
        "fired_none": 100 * none["fired"] / none["runs"],
    }


def criteria_table(lines: list[Cell]) -> str:
    """One row a limit, and under the table what does not meet it."""
    rows = [[line["what"], str(line["cells"]), yes(line["met"])] for line in lines]
    text = table(["limit", "cells", "met"], rows, text=("limit", "met")) + "\n"
    for line in lines:
        if not line["met"]:
            text += f"\nNot met, {line['what']}:\n\n" + "".join(f"- {cell}\n" for cell in line["failing"])
    return text


def made(content: dict[str, Any]) -> str:
    """Where a table comes from."""
    return f"{origin(content['provenance'])}."


def verdicts(content: dict[str, Any]) -> dict[str, Any]:
    """What many more runs say of the limit of 2 points."""
    limit = 0.02
    missed = [cell for cell in content["cells"] if abs(cell["before"]) > limit + 1e-9]
    met = [cell for cell in content["cells"] if abs(cell["before"]) <= limit + 1e-9]
    beyond = [cell["off"] for cell in met if abs(cell["off"]["mean"]) > limit]
    return {
        "missed": len(missed),
        "now_within": sum(abs(cell["off"]["mean"]) <= limit for cell in missed),
        "now_beyond": len(beyond),
        "errors": max(((abs(off["mean"]) - limit) / off["error"] for off in beyond), default=0.0),
    }


def closer_table(content: dict[str, Any]) -> str:
    """A line a cell, the highest first."""

    def points(x: dict[str, float]) -> str:
        return f"{100 * x['mean']:+.1f} ± {100 * x['error']:.1f}"

    columns: Columns = {
        "problem": lambda c: c["problem"],
        "target": lambda c: c["target"],
        "steps": lambda c: count(c["length"]),
        "off, in the study": lambda c: f"{100 * c['before']:+.1f}",
        "runs": lambda c: count(c["runs"]),
        "covered": lambda c: percent(c["held"]),
        "off": lambda c: points(c["off"]),
        "at this length": lambda c: points(c["at this length"]),
    }
    rows = sorted(content["cells"], key=lambda c: -c["off"]["mean"])
    return table_of(rows, columns) + "\n\n" + made(content) + "\n"


def series_table(content: dict[str, Any]) -> str:
    """A line a series and length."""
    columns: Columns = {
        "series": lambda c: c["series"],
        "steps": lambda c: count(c["length"]),
        "covered": lambda c: share({"share": c["held"] / c["runs"], **c}),
        "width": lambda c: f"{c['width']:.2f}",
        "a check fired": lambda c: f"{c['fired_when_missed'] + c['fired_when_held']} of {c['runs']}",
    }
    return table_of(content["cells"], columns) + "\n\n" + made(content) + "\n"


def rules_table(content: dict[str, Any]) -> str:
    """A line a rule."""

    def points(x: float) -> str:
        return f"{100 * x:+.1f}"

    columns: Columns = {
        "rule": lambda c: f"**{c['rule']}**" if c["chosen"] else c["rule"],
        "off, lowest and highest": lambda c: f"{points(c['lowest'])}, {points(c['highest'])}",
        "in the mean": lambda c: points(c["mean"]),
        "coverage at 50 to 250, lowest and mean": lambda c: f"{percent(c['doubtful'])}, {percent(c['mean doubtful'])}",
        "width over the true one": lambda c: f"{c['width']:.3f}",
        "one in forty": lambda c: f"{c['widest']:.2f}",
        "Baird's star at 1,000, 3,000, 10,000": lambda c: ", ".join(f"{100 * x:.1f}" for x in c["star"]) + " %",
    }
    return table_of(content["rules"], columns) + f"\n\n{content['repeats']} runs a problem; {made(content)}\n"


def rare_table(content: dict[str, Any]) -> str:
    """A line a length and number of events, where there are runs."""
    columns: Columns = {
        "steps": lambda c: count(c["length"]),
        "events": lambda c: f"{c['events']}{' or more' if c['or more'] else ''}",
        "runs": lambda c: str(c["runs"]),
        "held": lambda c: percent(c["held"] / c["runs"]),
        "a check fired": lambda c: percent(c["fired"] / c["runs"]),
    }
    rewards: Columns = {
        "sizes": lambda c: c["sizes"],
        "decisive steps": lambda c: (
            f"{c['at least']} to {c['below']}" if c["below"] is not None else f"{c['at least']} and more"
        ),
        "runs": lambda c: str(c["runs"]),
        "held": lambda c: percent(c["held"] / c["runs"]),
    }
    star = table_of([cell for cell in content["cells"] if cell["runs"]], columns)
    sizes = table_of([cell for cell in content["rewards"] if cell["runs"]], rewards)
    return "\n\n".join([star, REWARDS.rstrip(), sizes, f"Both by {made(content)}"])


def beside(cells: list[Cell], cell: Cell, *keys: str) -> Cell:
    """The same cell with pointwise intervals."""
    return next(c for c in cells if c["kind"] == "normal" and all(c[key] == cell[key] for key in keys))


def share(cell: Cell) -> str:
    return interval_of(cell["share"], cell["binomial_95"])


def counted(cell: Cell) -> str:
    return f"{cell['count']} of {cell['of']}"


def draw(content: dict[str, Any], path: Path) -> None:
    """The heat map."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.colors import TwoSlopeNorm

    problems = list(dict.fromkeys(cell["problem"] for cell in content["cells"]))
    methods = [name for name in SHORT_NAMES if any(cell["method"] == name for cell in content["cells"])]
    figure, axes = plt.subplots(1, 3, figsize=(19, 9.5), sharey=True, layout="constrained")
    for axis, (words, least, most) in zip(axes, BANDS, strict=True):
        worst = np.full((len(problems), len(methods)), np.nan)
        for cell in content["cells"]:
            if cell["method"] in methods and least <= cell["relaxation_times"] < most:
                at = problems.index(cell["problem"]), methods.index(cell["method"])
                worst[at] = np.fmin(worst[at], cell["coverage"]["share"])
        axis.set_facecolor("0.88")  # not measured
        image = axis.imshow(100 * worst, cmap="RdBu", norm=TwoSlopeNorm(95, 40, 100), aspect="auto")
        for (row, column), value in np.ndenumerate(worst):
            if not np.isnan(value):
                colour = "white" if value < 0.6 or value > 0.985 else "black"
                axis.text(column, row, f"{100 * value:.0f}", ha="center", va="center", fontsize=8, color=colour)
        axis.set_xticks(range(len(methods)), [SHORT_NAMES[name] for name in methods], rotation=90, fontsize=8)
        axis.set_yticks(range(len(problems)), problems, fontsize=9)
        axis.set_title(f"{words} relaxation times", fontsize=11)
        axis.tick_params(length=0)
    bar = figure.colorbar(image, ax=axes, shrink=0.5, ticks=[40, 60, 80, 90, 95, 100])
    bar.set_label("coverage of 95 % intervals, %")
    figure.savefig(path, dpi=110)
    plt.close(figure)
