"""Is the new model better than the old one? Two Stable-Baselines3 models, with an interval for the difference.

Run it with: python sb3_against_its_predecessor.py     (needs inferl[gym,torch] and stable-baselines3)
"""

import gymnasium
import numpy as np
from stable_baselines3 import PPO

import inferl
from inferl.runs import Run, difference

env = gymnasium.make("CartPole-v1")
model = PPO("MlpPolicy", env, n_steps=512, batch_size=128, seed=0, device="cpu")

box = np.array([2.4, 3.0, 0.21, 3.0])
features = inferl.Fourier(-box, box, order=2)


def evaluated(seed):
    """Let the model as it is now play 200 episodes; each model needs a seed of its own to be independent."""
    short = gymnasium.make("CartPole-v1", max_episode_steps=200)
    source = inferl.sources.rollout(short, model, features, discount=0.99, seed=seed)
    run = Run(inferl.Evaluator(inferl.TD(features.dimension)))
    for chunk in source.take(episodes=200):
        run.take(chunk, starts=source.start())
    return run


old = evaluated(seed=1)
model.learn(4096)
new = evaluated(seed=2)

print(f"old: {old.interval()}")
print(f"new: {new.interval()}")
print(difference(new, old))
