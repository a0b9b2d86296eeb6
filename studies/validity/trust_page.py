"""The main part of docs/validity.md: the results of the study of trust as text, tables and one picture."""

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

Coverage of 95 % intervals in per cent; each square is the lowest over lengths and targets. White is nominal, red too
low (too narrow, or not converged), blue too high, grey not measured. The relaxation time of a problem is the time after
which its chain has forgotten where it was.
"""

CRITERIA = """\
## Acceptance criteria and results

The limits were set before the runs, which have new seeds; the problems are those on which the method was developed. A
cell is a combination of problem, length and target. *Trusted* cells have 250 relaxation times or more.
"""

WHY = """\
Explanations:

- **Within 2 points.** Without Baird's star, {cells} trusted cells remain. There the coverage of least squares is
  {lowest:.1f} to {highest:.1f} %, on average {middle:.1f} %, which is {below:.1f} points below to {above:.1f} above the
  interval with the true variance, on average {mean:+.1f}. Too high: {high}. With so many cells, some miss a limit by
  chance, and others meet it by chance{look}.
- **What changed** since the previous study (seed 58000, commit 64939ba, in the history of
  `validity/results/trust.json`). Its average was +0.3. Since then all epochs count, about one common mean, and a
  variance that falls with the block length is distinguished from noise in the same way as one that grows.
- **Baird's star at 1,000 steps.** Of {runs} further runs {none} had not seen the decisive event (see below), and of
  these {none_held} covered the truth; of the others {others:.1f} %. An event that is not in the data cannot widen an
  interval computed from them: such a run looks like one of a star that never slips, where the same interval would be
  right. So 91 % cannot be reached, unless every run gets a uselessly wide interval. Checks fail in {fired:.0f} % of all
  runs, and in {fired_none:.0f} % of those that have seen no event.
- **Checks on Baird's star at 3,000 steps.** The interval covers, and the rarity check fails in half of the runs: the
  width is determined by six events on average. With so few events the interval covers if they are alike, as they are
  here, and less often if they are not (see below). The check cannot distinguish these cases, so it warns in both.
- **Block bootstrap.** Its bounds are now quantiles at (B + 1) p, and wider than in the previous study. On the lazy ring
  from 10,000 steps on their coverage is {blocks}.
"""

CLOSER = """\
## A closer look

The trusted cells that were more than one point off, except Baird's star, were repeated with many more runs and new
seeds; cells less than a point off were not repeated. *Off* is the difference from the coverage with the true variance,
in points, with its standard error. Of the {missed} cells that missed the limit of 2, {now_within} are within it here;
of those that met it, {now_beyond} are beyond it, by up to {errors:.1f} standard errors.

The true variance is the asymptotic one. *At this length* is the difference from the coverage with the actual standard
deviation of the estimate at this length, which can be larger in short streams. (For 5-step TD the true variance is not
known, and the standard deviation over the runs is used in both columns.) On the two-state chains the estimate is a
count: coverage jumps where an interval includes one more count, so differences mean less there.
"""

SERIES = """\
## Slow components hidden by noise, and cycles

The mean of plain time series. A slow component (relaxation time 100 steps) plus noise, where only the rewards are
observed: as long as there are few blocks of a length that would show it, it looks like noise, and the interval is far
too narrow. At 50 relaxation times (5,000 steps) coverage is a few points too low, as in the table above. With negative
autocorrelation (cycles), the variance falls with the block length; the estimate follows a fall that is beyond noise.
Until then the interval is too wide, and slightly so afterwards. *Width* is the median width relative to the interval
with the standard deviation of the estimates over the runs.
"""

RULE = """\
## How block lengths are weighted, and why

Blocks of 1, 2, 4, ... steps each give an estimate of the variance per step. It grows until blocks are longer than the
dependence, and longer blocks are fewer. The candidate rules are compared on the same runs, with new seeds. *One level*
chooses the level from which no longer level differs by so many standard errors. An *average* gives a level less weight
the further longer levels differ, between two numbers of standard errors. A variance that *falls* counts like one that
grows, on the plain scale or *in logarithms*, or is ignored. The variance is taken where growth has ended or *one level
higher*, and a share of *the last growth* is added: half of it is what the next level would add; all of it, at the level
itself, is the *lugsail* 2 v_j - v_(j-1). *Rare scores* reduce the degrees of freedom. *Off* is the difference from the
coverage with the true variance, in points, over the trusted cells without Baird's star, which has its own column. *One
in forty* is the width that one run in forty exceeds, relative to the median width: it shows how much the width varies.
Streams have up to 100,000 steps here, and runs are few: the lowest and the highest of {cells} differences are largely
chance.
"""

LESSONS = """\
The choice of a single level jumps with the noise of long blocks. An average is more stable; by itself it gives short
blocks too much weight under dependence, and adding half of the last growth compensates for that. Falls hardly occur in
these problems; they are followed because of cycles (above) and the queue (below). They once had separate thresholds, of
3 and 4 standard errors, and scores of alternating sign had a separate rule; with 1 and 2 for both, neither is needed. A
larger second number would be more stable still, and later to detect a slow component hidden by noise. The lugsail is as
good on long streams and covers less on short ones.

The numbers were fixed before, on runs of these problems with other seeds and on plain series (not kept), among many
that did about as well; so new seeds show what is chance, but not what is fitted to the problems. A parametric curve
(white noise and an autoregression, averaged over its parameters) was also tried there, and did worse: in long streams
the autocorrelation of a chain is not a single exponential.

The first rule came with an alarm, fewer than 16 blocks at the chosen level, which was of little use: it fired in 9 to
32 % of the trusted runs, and below 50 relaxation times in only a third to two thirds of the misses (except the
two-state chains). The effective sample size separates these cases, if it is computed from scores *and* features: scores
hide a slow ring, and a constant feature hides a slow chain. With features in 32 segments, nine of ten of 30 runs had an
effective sample size of 194 or more from 245 relaxation times on, and of 129 or less below 50. Therefore the limit was
150. The busy queue (below) showed that a stream in which no rush has come yet looks faster than it is, and the limit is
200 now. With 32 to 64 segments the check missed a quarter of the bad runs on the lazy ring of 100 states: each segment
was too short to show the whole dependence. (An exponential fitted to the growth of the scores' variance had been tried
before; it missed four fifths of them.)

The number of steps that determine a width (`variance_ess`) was measured before the limit was set, on 300 runs with
other seeds: from 250 relaxation times on, nineteen of twenty runs of every other problem had 9 or more, and on Baird's
star the median was 2 at 1,000 steps, 4 at 3,000 and 9 at 10,000. The limit is 5, the rule of thumb for counts. With a
limit of 2 the check would pass on Baird's star from 3,000 steps on, where events are all alike and the interval covers.
But rare events are not always alike (above), and then an interval that is determined by 2 to 5 steps is too narrow.
"""

DEFAULT = """\
## The default, least squares with dyadic blocks

*True variance*: the coverage of estimate -+ 1.96 true standard errors in the same runs, the best that any variance
estimate could achieve; it too is below nominal where the estimate is not normal yet. (It is exact for one-step methods;
for 5-step TD the standard deviation over the runs is used.) *Width* is the median width relative to this interval. The
last columns show how often some check failed, in the runs that missed and in those that covered.

Where scores alternate in sign (the two-state chain with correlation -.5) the variance falls with the block length. The
estimate follows this; before it did, these intervals were 22 % too wide at any length. Now they are too wide only with
few steps, where there are few blocks of sufficient length.
"""

REWARDS = """\
A reward that comes about six times in 4,000 steps, by its sizes and by the number of steps that determine the width
(`variance_ess`), as the rarity check estimates it:
"""

RARE = """\
## Rare events, and events that have not happened yet

In Baird's star the target policy always heads for a state that the behaviour seldom visits, and there takes an action
that the behaviour seldom takes: one step in 54, with ratios of 7, and the value compounds through these steps. The
uncertainty comes from one in ten of these steps, which slips to another state. The table shows the runs by the number
of such events, and the coverage of V(s0): """

ANYTIME = """\
## Repeated looks

100 looks between t0 and 100 t0, evenly spaced on a logarithmic scale; tuning time 10 t0. A run misses if the interval
misses at any look.
"""

DIFFERENCES = """\
## Which policy is better

Two similar target policies and one behaviour policy on the random MDP; the estimand is the difference of their values
in one state. *Stack* solves for both on one log; the coupled bootstraps (TDC) share their multipliers. Treating one log
as two independent ones ignores that the two estimates are correlated.
"""

JOINT = """\
## All states at once

How often the band covered *all* targets at the same time, compared with pointwise intervals read as if they were a
band. The states of a table are those with 50 visits or more on average at the shortest length.
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
            "a check failed when it missed": lambda c: counted(c["fired_when_missed"]),
            "when it covered": lambda c: counted(c["fired_when_held"]),
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
    """The numbers in the explanations."""
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
        "a check failed": lambda c: f"{c['fired_when_missed'] + c['fired_when_held']} of {c['runs']}",
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
        "covered": lambda c: percent(c["held"] / c["runs"]),
        "a check failed": lambda c: percent(c["fired"] / c["runs"]),
    }
    rewards: Columns = {
        "sizes": lambda c: c["sizes"],
        "variance_ess": lambda c: (
            f"{c['at least']} to {c['below']}" if c["below"] is not None else f"{c['at least']} and more"
        ),
        "runs": lambda c: str(c["runs"]),
        "covered": lambda c: percent(c["held"] / c["runs"]),
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
