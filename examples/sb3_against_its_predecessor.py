"""Is the new model better than the old one? An interval for the difference of two Stable-Baselines3 models.

Run it with: python sb3_against_its_predecessor.py     (needs inferl[gym,torch] and stable-baselines3)
"""

import gymnasium
import numpy as np
from stable_baselines3 import PPO

import inferl

model = PPO("MlpPolicy", "CartPole-v1", n_steps=512, batch_size=128, seed=0, device="cpu")

box = np.array([2.4, 3.0, 0.21, 3.0])
features = inferl.features.Fourier(-box, box, order=1)  # any features will do for the value of the starts


def evaluated(seed):
    """Evaluate the current model in 200 episodes; a separate seed for each model makes them independent."""
    envs = gymnasium.make_vec("CartPole-v1", num_envs=16)
    policy = inferl.policies.Predictor(model, deterministic=False)
    source = inferl.sources.rollout(envs, policy, features, discount=0.99, seed=seed)
    return inferl.Evaluator(inferl.DoublyRobust(features.dimension)).update(source.take(episodes=200))


old = evaluated(seed=1)
model.learn(4096)
new = evaluated(seed=100)  # the 16 environments use the seeds 100 to 115

print(f"old: {old.interval()}")
print(f"new: {new.interval()}")
print(f"new - old: {inferl.difference(new, old)}")
