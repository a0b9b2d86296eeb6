"""What has not happened yet: Baird's star by the number of events that decide, and whether the interval held.

    python validity/rare.py [--repeats 1000] [--processes 2] [--seed 57000]

An event is a step in the last state with the action that the target takes, from which the chain slips away. Writes
validity/results/rare.json; about 3 minutes of one core.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

import numpy as np
from problems import problem
from study import Result, provenance, repeat, write_results

import inferl

SEED = 57_000
NAME = "Baird's star, off-policy"
AT_ONCE = 50  # repeats of a job
MOST = 6  # events; more are counted together


def one_job(job: list[Any]) -> Result:
    """Events, whether V(s0) was held, and whether a check fired, in a few runs of each length."""
    first, last, seed = job
    asked = problem(NAME)
    truth = float(asked.solution()[0][0])
    home = asked.mdp.n_states - 1
    towards_home = int(np.argmax(asked.target[home]))
    columns: Result = {}
    for number in range(first, last):
        for n in asked.lengths:
            path = asked.path(n, [seed, number])
            slips = (path.states == home) & (path.actions == towards_home) & (path.next_states != home)
            data = path.transitions(asked.discount, asked.features, asked.ratios(path))
            report = inferl.Evaluator(asked.algorithm).update(data).report(asked.rows[0], level=0.95)
            fired = any(check.failed for check in report.checks)
            columns.setdefault(str(n), []).append([int(slips.sum()), truth in report.interval, fired])
    return columns


def cells(results: list[Result]) -> Iterator[dict[str, Any]]:
    """Runs, runs that held and runs with a check that fired, for each length and number of events."""
    for n in results[0]:
        events, held, fired = np.array([run for result in results for run in result[n]]).T
        for count in range(MOST + 1):
            those = np.minimum(events, MOST) == count
            yield {
                "length": int(n),
                "events": count,
                "or more": count == MOST,
                "runs": int(those.sum()),
                "held": int(held[those].sum()),
                "fired": int(fired[those].sum()),
                "mean events of all runs": float(events.mean()),
            }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=1000)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seed", type=int, default=SEED)
    options = parser.parse_args()
    made_by = provenance(options.seed)
    todo = [[i, min(i + AT_ONCE, options.repeats), options.seed] for i in range(0, options.repeats, AT_ONCE)]
    found = list(cells(repeat(one_job, todo, "rare", options.processes)))
    for cell in found:
        print(cell)
    print(write_results("rare", {"provenance": made_by, "cells": found}).name)


if __name__ == "__main__":
    main()
