"""Writes docs/validity.md from the results of the studies, so that the page says what was measured.

python -m studies.validity.page
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from studies.markdown import Columns, count, percent, table_of, yes
from studies.markdown import share as interval_of
from studies.provenance import origin, software
from studies.validity import manyparts_page, trust_page, value_page

RESULTS = Path(__file__).parent / "results"
PAGE = Path(__file__).parents[2] / "docs" / "validity.md"
README = Path(__file__).parents[2] / "README.md"
BEGIN, END = "<!-- coverage: written by studies.validity.page -->", "<!-- end of coverage -->"

Cell = dict[str, Any]

HEAD = """\
# Where an interval can be trusted

<!-- Written by `python -m studies.validity.page` from studies/validity/results/*.json: change those, not this page. -->

A 95 % interval should contain the truth in 95 of 100 runs. Where the truth is known exactly, this coverage can be
measured. This page shows the measurements: many runs with separate seeds, read at several lengths. Brackets contain the
exact binomial 95 % interval of a share. At 95 % it is 4 to 5 points wide for 400 runs and 3 points for 1000 runs, so
differences of a point or two mean little. Lines "Made by" name the command as it was at that commit;
`python validity/x.py` is now `python -m studies.validity.x`.

- **The value of the starts** (`DoublyRobust`, the default if there are episodes) is covered whatever the features are.
  The estimate from the features alone is often biased, and the **features** check detects it.
- **Least squares** needs no settings and allows for dependence. The stream must be long compared with the relaxation
  time of the process: with 250 relaxation times coverage is nominal, with 50 it is a few points too low, with fewer the
  interval is too narrow. The **length** check detects this: it estimates the effective sample size from how slowly
  features and scores change.
- **Rare events** (a reward in a thousand steps, a ratio that is seldom large) need longer streams. The **rarity** check
  estimates how many steps determine the width. It cannot count events that have never happened (Baird's star below).
- **A slow component hidden by noise** is detected only after 50 of its relaxation times or more. Before that, the
  interval is far too narrow, and no check fails.
- **The bootstrap with a multiplier for each step** has nominal coverage if scores are uncorrelated over time: tabular
  features, or a value that is linear in the features. Otherwise it is too narrow, and the **dependence** check fails
  once the stream is long enough to show it.
- **The bootstrap with a multiplier for each block** has nominal coverage under dependence too, once there are enough
  blocks.
- **Any bootstrap** is wrong until its average has converged, however narrow its interval. The **convergence** check
  compares it with the least-squares solution.
- **Repeated looks** make a pointwise interval miss sooner or later; the anytime interval remains valid. A joint
  statement about all states needs a simultaneous band.
"""

EARLIER = """\
## An earlier study of single questions

The following was measured with an earlier version of the variance estimate and the checks, at the commits named below:
one block length was chosen, looking three levels ahead; a check failed if the *number of blocks* was below 16; there
was no rarity check. Bootstraps are not affected by this.
"""

SPINE = """\
## The two methods

FrozenLake 8x8: slippery, optimal policy, discount .99, tabular TD, V(s0). *As printed* is the paper's text taken
literally: its multipliers have variance 1/9 and not 1, its average never forgets the start, and a step size of
10 / t^(3/4) is too small for the reward to propagate back from the goal. The two-state chain has one constant feature
and correlation .8: treating its steps as independent makes the standard error three times too small, and then the
coverage of a 95 % interval is 48.6 %.
"""

CRITERIA = """\
### Acceptance criteria and results

The limits were set before the runs; the results are listed by length or target, in order.

This is the second run of the study, with new seeds. The first (seed 41000, its results are in the history of
`validity/results/method.json`, now `studies/validity/results/method.json`) missed two limits:

- The dependence check failed in 87.0, 99.2, 90.5 and 99.5 % of the runs on the ring. At that time it used only the
  block length that least squares had chosen. For groups 0 and 2 scores of neighbouring steps are negatively correlated,
  later ones positively, so the standard error falls before it rises, and noise hides the rise from the selection rule.
  Two remedies were tried on further seeds: looking further ahead (95.8, 100, 96.0, 99.0 %), and comparing every length
  with at least 16 blocks, which was adopted. The selected length, and so the interval of least squares, did not change:
  it is too narrow in those runs.
- The convergence check failed in 5.5 % of the good runs at 250 episodes; the limit is 5 %. Nothing was changed for it.
  2000 further runs gave 4.9 %: the true rate is at the limit, and the rate below is on the favourable side of it.
"""

# Why a limit was missed: shown under the table if it was.
REASONS = {
    "convergence fires, FrozenLake at 250, 500, 1000, 2000 episodes, bootstrap, initial 100": """\
On FrozenLake at 250 episodes the average has not quite forgotten its start at 0: on average it lies about .8 standard
errors below the least-squares solution. The alarms are informative: in the runs in which the check fails the coverage
is far lower than in the others. """,
}

DEPENDENCE = """\
### Dependence

The bootstrap with a multiplier for each step. The two-state chain and the ring (a lazy walk over 20 states, seen
through 4 groups; discount .9) have correlated scores; the random MDPs (50 states, a new one for each run, discount .9)
have not. *Quiet* runs are those in which no check failed.
"""

CONVERGENCE = """\
### Convergence

FrozenLake, as described above. With an initial step size of 100 the reward propagates back from the goal in time. With
10 it does not; all replicas share the transient, so their spread is small, and only the check detects it.
"""

BLOCKS = """\
### Blocks on the ring

All methods on the same runs. *Error shown* is the median standard error, *true error* the standard deviation of the
estimates over the runs, *limit* the asymptotic value (the linear average of a bootstrap costs 15 %). *Quiet* runs are
those in which no check failed.
"""

MERGED = """\
### Two halves merged

A stream cut in the middle, with two evaluators merged, is compared with one evaluator that saw all of it. The estimates
are the same up to rounding. The standard errors are two estimates of one number, from different parts of the data (one
stream keeps the scores of its last epochs, the merged one those of the last epochs of each half), and often from
different block lengths. They differ from run to run, more so if there are few blocks.
"""

TRUSTED = """\
### All checks where intervals can be trusted

How often each check fails in these cells: false alarms. The number of blocks is a special case: with fewer than 16 the
width varies from run to run, but the interval allows for this and covers.
"""


def page(results: Path = RESULTS) -> str:
    """The whole page; a study that has not been run is left out."""
    parts = [HEAD]
    if (results / "value.json").exists():
        parts += value_page.sections(json.loads((results / "value.json").read_text()))
    trust = [results / f"{name}.json" for name in ("trust", "closer", "rules", "rare", "series")]
    if all(path.exists() for path in trust):
        parts += trust_page.sections(*(json.loads(path.read_text()) for path in trust))
    later = {"manyparts": manyparts_page.sections, "spine": spine_sections, "method": method_sections}
    for name, sections in later.items():
        path = results / f"{name}.json"
        if path.exists():
            parts += sections(json.loads(path.read_text()))
    return "\n".join(f"{part.rstrip()}\n" for part in parts)


def spine_sections(content: dict[str, Any]) -> Iterable[str]:
    yield SPINE
    for environment in dict.fromkeys(cell["environment"] for cell in content["cells"]):
        columns: Columns = {
            "method": lambda cell: cell["method"],
            "interval": lambda cell: cell["kind"],
            "episodes" if environment == "FrozenLake" else "steps": length,
            "covered": coverage,
            "expected": spine_expected,
            "median width": lambda cell: short(cell["median_width"]),
        }
        yield f"### {environment}\n"
        yield table_of([cell for cell in content["cells"] if cell["environment"] == environment], columns)
    yield made_by(content)


def spine_expected(cell: Cell) -> str:
    if cell["method"] == "as printed":
        return "near 0"
    return "48.6 %" if (cell["environment"], cell["method"]) == ("two-state chain", "bootstrap") else "95 %"


def method_sections(content: dict[str, Any]) -> Iterable[str]:
    cells: list[Cell] = content["cells"]
    yield EARLIER
    yield CRITERIA
    columns: Columns = {
        "what": lambda line: line["what"],
        "wanted": wanted,
        "found": found,
        "met": lambda line: yes(line["met"]),
    }
    yield table_of(content["criteria"], columns)
    yield from (REASONS[line["what"]] for line in content["criteria"] if not line["met"] and line["what"] in REASONS)

    yield DEPENDENCE
    columns = {
        "problem": lambda cell: cell["environment"],
        "target": lambda cell: cell["target"],
        "steps": length,
        "check fails": lambda cell: share(cell["checks"]["dependence"]),
        "covered": lambda cell: coverage(default(cell)),
        "limit in theory": lambda cell: percent(cell["limit_coverage"]),
        "quiet runs": quiet,
    }
    by_step = ("bootstrap", "bootstrap, initial 100")
    yield table_of([c for c in cells if c["environment"] != "FrozenLake" and c["method"] in by_step], columns)

    yield CONVERGENCE
    columns = {
        "method": lambda cell: cell["method"],
        "episodes": length,
        "check fails": lambda cell: share(cell["checks"]["convergence"]),
        "median gap, in standard errors": lambda cell: median_value(cell["checks"]["convergence"]),
        "covered": lambda cell: coverage(default(cell)),
    }
    yield table_of([c for c in cells if c["environment"] == "FrozenLake" and c["method"] != "least squares"], columns)

    yield BLOCKS
    columns = {
        "method": lambda cell: cell["method"],
        "target": lambda cell: cell["target"],
        "steps": length,
        "covered": lambda cell: coverage(default(cell)),
        "limit in theory": lambda cell: percent(cell["limit_coverage"]),
        "median width": lambda cell: short(default(cell)["median_width"]),
        "error shown": lambda cell: short(cell["median_standard_error"]),
        "true error": lambda cell: short(cell["spread_of_estimates"]),
        "limit": lambda cell: short(cell["limit_standard_error"]),
        "quiet runs": quiet,
    }
    yield table_of([cell for cell in cells if cell["environment"] == "ring"], columns)

    yield MERGED
    columns = {
        "problem": lambda merge: merge["environment"],
        "target": lambda merge: merge["target"],
        "length": length,
        "largest difference of estimates, in standard errors": lambda merge: f"{merge['largest_difference']:.0e}",
        "median ratio of standard errors": lambda merge: f"{merge['median_ratio']:.3f}",
        "90 % of the ratios": lambda merge: " to ".join(f"{ratio:.2f}" for ratio in merge["ratio_90"]),
        "ratio within 5 %": lambda merge: share(merge["within_5_percent"]),
        "one stream covers": lambda merge: share(merge["covered_whole"]),
        "merged covers": lambda merge: share(merge["covered_merged"]),
    }
    yield table_of(content["merges"], columns)

    yield TRUSTED
    columns = {
        "problem": lambda cell: cell["environment"],
        "method": lambda cell: cell["method"],
        "target": lambda cell: cell["target"],
        "length": length,
        "covered": lambda cell: coverage(default(cell)),
    }
    columns |= {name: alarm(name) for name in cells[0]["checks"]}
    yield table_of([cell for cell in cells if cell["trusted"]], columns)
    yield made_by(content)


def made_by(content: dict[str, Any]) -> str:
    made = content["provenance"]
    settings = "".join(f"- {name}: `{setting}`\n" for name, setting in content["settings"].items())
    return f"Made by {origin(made)}, {software(made)}. Settings:\n\n{settings}"


def length(cell: Cell) -> str:
    return count(cell["length"])


def coverage(cell: Cell) -> str:
    return interval_of(cell["coverage"], cell["binomial_95"])


def share(cell: Cell) -> str:
    return interval_of(cell["share"], cell["binomial_95"])


def default(cell: Cell) -> Cell:
    """The kind of interval that is given unless another is asked for."""
    kinds: dict[str, Cell] = cell["intervals"]
    return kinds["percentile"] if "percentile" in kinds else kinds["normal"]


def alarm(name: str) -> Callable[[Cell], str]:
    def show(cell: Cell) -> str:
        check = cell["checks"][name]
        return "n/a" if check["not_available"] == check["repeats"] else percent(check["share"])

    return show


def quiet(cell: Cell) -> str:
    runs, covered = cell["quiet"]["runs"], cell["quiet"]["covered"]
    return f"{runs}, {percent(covered / runs)} covered" if runs else "none"


def median_value(check: Cell) -> str:
    return f"{check['values'][2]:.2g}" if check["values"] else "-"


def short(x: float | None) -> str:
    return "-" if x is None else f"{x:.3g}"


def level(line: Cell, x: float) -> str:
    return percent(x) if line["shares"] else f"{x:.3g}"


def found(line: Cell) -> str:
    numbers = line["found"]
    if len(numbers) > 4:
        return f"{level(line, min(numbers))} to {level(line, max(numbers))}"
    return ", ".join(level(line, number) for number in numbers)


def wanted(line: Cell) -> str:
    low, high = level(line, line["at_least"]), level(line, line["at_most"])
    if line["at_least"] == line["at_most"]:
        return low
    if line["at_least"] == 0:
        return f"at most {high}"
    return f"at least {low}" if line["shares"] and line["at_most"] == 1 else f"{low} to {high}"


def with_coverage(readme: str, content: dict[str, Any]) -> str:
    """Put the counts between the two marks of the README."""
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"README.md has no place for the counts: lines {BEGIN!r} and {END!r}")
    return f"{before}{BEGIN}\n\n{value_page.for_readme(content)}\n\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page())
    if (RESULTS / "value.json").exists():
        counted = json.loads((RESULTS / "value.json").read_text())
        README.write_text(with_coverage(README.read_text(), counted))
    if (RESULTS / "trust.json").exists():
        trust_page.draw(json.loads((RESULTS / "trust.json").read_text()), PAGE.with_name("images") / "validity.png")
    print(PAGE.name)
