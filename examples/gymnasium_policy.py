"""The value of a policy in a Gymnasium environment, with an interval, in one pass over 500 episodes.

Run it with: python gymnasium_policy.py     (needs inferl[gym])
"""

import gymnasium
import numpy as np

import inferl


def policy(observation):
    """Push the cart to where the pole leans. Replace it by your own: a function, a table, or a model with predict()."""
    return int(observation[2] > 0)


env = gymnasium.make("CartPole-v1")
features = inferl.features.WithIntercept(
    inferl.features.Function(lambda observations: np.asarray(observations, float), 4)
)

source = inferl.sources.rollout(env, policy, features, discount=0.99, seed=0)
evaluator = inferl.Evaluator(inferl.DoublyRobust(features.dimension))  # the value of the starts, valid for any features
for _ in range(5):
    evaluator.update(source.take(episodes=100))
    print(evaluator.interval())

print()
print(evaluator.report())  # the same with all checks: read them before you trust the number
