"""What would another policy have earned? From a log with propensities, in fixed memory.

Run it with: python parquet_log.py [LOG]     (needs inferl[data]; without a log it makes one)

The same from a shell:
    inferl evaluate log.parquet --features x,y,z --episode episode --order step \
        --behaviour-probability p --target-probability q --discount 0.9 --checkpoint log.run
    inferl report log.run --open
"""

import sys

import numpy as np
import pyarrow
from pyarrow import parquet

import inferl


def make_log(path, n=50_000):
    """Write a log whose answer is known: 500 episodes of a small random world."""
    world = inferl.environments.random_mdp(seed=0, n_states=8, n_features=3)
    walk = world.mdp.sample(world.behaviour, n, seed=1)
    seen = walk.transitions(world.discount, world.features).features
    columns = dict(zip("xyz", seen.T, strict=True)) | {"reward": walk.rewards}
    columns |= {"episode": np.arange(n) // 100, "step": np.arange(n) % 100}
    # The probability of each action under the policy that took it, and under the one to be evaluated.
    p, q = (policy[walk.states, walk.actions] for policy in (world.behaviour, world.target))
    parquet.write_table(pyarrow.table(columns | {"p": p, "q": q}), path)


path = sys.argv[1] if len(sys.argv) > 1 else "log.parquet"
if len(sys.argv) == 1:
    make_log(path)

log = inferl.sources.table(
    path,
    features=["x", "y", "z"],
    episode="episode",
    order="step",
    behaviour_probability="p",
    target_probability="q",
    discount=0.9,
)
evaluator = inferl.Evaluator(inferl.TD(3)).update(log)
print(evaluator.report(log.start()))
