"""Is the new model better than the old one? Two Stable-Baselines3 models, with an interval for the difference.

Run it with: python sb3_against_its_predecessor.py     (needs inferl[gym,torch] and stable-baselines3)
"""

import gymnasium
import numpy as np
from stable_baselines3 import PPO

import inferl

model = PPO("MlpPolicy", "CartPole-v1", n_steps=512, batch_size=128, seed=0, device="cpu")

box = np.array([2.4, 3.0, 0.21, 3.0])
features = inferl.features.Fourier(-box, box, order=1)  # they need not be good: the value of the starts holds for any


def evaluated(seed):
    """Let the model as it is now play 200 episodes; each model needs a seed of its own to be independent."""
    envs = gymnasium.make_vec("CartPole-v1", num_envs=16)
    policy = inferl.policies.Predictor(model, deterministic=False)
    source = inferl.sources.rollout(envs, policy, features, discount=0.99, seed=seed)
    return inferl.Evaluator(inferl.DoublyRobust(features.dimension)).update(source.take(episodes=200))


old = evaluated(seed=1)
model.learn(4096)
new = evaluated(seed=100)  # the 16 environments take the seeds 100 to 115

print(f"old: {old.interval()}")
print(f"new: {new.interval()}")
print(f"new - old: {inferl.difference(new, old)}")
