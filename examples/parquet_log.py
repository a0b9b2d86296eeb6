"""The value of a new policy from a log with propensities, in fixed memory.

Run it with: python parquet_log.py [LOG]     (needs inferl[data]; without LOG it simulates one)

The same from a shell:
    inferl evaluate log.parquet --features load --episode session --order step \
        --behaviour-probability p --target-probability q --discount 0.9 --checkpoint log.run
    inferl report log.run --open
"""

import sys

import numpy as np
import pyarrow
from pyarrow import parquet

import inferl


def make_log(path, n=4_000):
    """Simulate a log whose answer is known: sessions of up to six steps in a queue; the value is 2.282."""
    rng = np.random.default_rng(1)
    load, rows, alive = rng.integers(0, 4, n), [], np.ones(n, bool)
    for step in range(6):
        fast = rng.random(n) < 0.5  # the behaviour policy: a fast server in half of the cases
        wanted = np.where(load >= 2, 0.8, 0.3)  # probability of the fast server under the new policy
        over = alive & ((rng.random(n) < 0.1) | (step == 5))
        rows.append({
            "session": np.arange(n)[alive], "step": np.full(alive.sum(), step),
            "load": load[alive].astype(float), "reward": (1 - load / 4 - 0.1 * fast)[alive], "terminated": over[alive],
            "p": np.full(alive.sum(), 0.5), "q": np.where(fast, wanted, 1 - wanted)[alive],
        })  # fmt: skip
        load = np.clip(load + np.where(rng.random(n) < np.where(fast, 0.7, 0.4), -1, 1), 0, 3)
        alive &= ~over
    columns = {name: np.concatenate([row[name] for row in rows]) for name in rows[0]}
    order = np.lexsort((columns["step"], columns["session"]))
    parquet.write_table(pyarrow.table({name: column[order] for name, column in columns.items()}), path)


path = sys.argv[1] if len(sys.argv) > 1 else "log.parquet"
if len(sys.argv) == 1:
    make_log(path)

log = inferl.sources.table(
    path,
    features="load",
    episode="session",
    order="step",
    behaviour_probability="p",
    target_probability="q",
    discount=0.9,
)
evaluator = inferl.Evaluator(inferl.DoublyRobust(2)).update(log)
print(evaluator.report(log.start()))
