"""A nonlinear recursion of your own: an online interval for the 90% quantile of a stream.

Run it with: python nonlinear_field.py

A Field is any H(theta, step) whose mean is 0 at the answer. The bootstrap runs 200 perturbed copies of
theta <- theta + alpha H(theta, step) and reads the interval off their spread. Least squares does not apply here, so no
check can tell whether the recursion has converged: vary the step size and see whether the answer changes.
"""

import numpy as np

import inferl

LEVEL = 0.9


def towards_quantile(theta, step):
    """H is LEVEL above theta and LEVEL - 1 below it; theta is (replicas, 1)."""
    return LEVEL - (step.reward < theta)


data = np.random.default_rng(0).normal(size=20_000)
nothing = np.zeros(len(data), dtype=int)
stream = inferl.Transitions(nothing, rewards=data, next_features=nothing, discounts=0.5)

print(f"exact: {1.2816:.3f}")
for initial in (1.0, 4.0, 16.0):
    method = inferl.OnlineBootstrap(inferl.Polynomial(initial, decay=0.65, cap=None))
    evaluator = inferl.Evaluator(inferl.Field(1, towards_quantile), method).update(stream)
    print(f"initial step size {initial:4.0f}: {evaluator.interval([1.0])}")
