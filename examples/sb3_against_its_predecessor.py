"""Is the new model better than the old one? Two Stable-Baselines3 models, with an interval for the difference.

Run it with: python sb3_against_its_predecessor.py     (needs inferl[gym,torch] and stable-baselines3)
"""

import gymnasium
import numpy as np
from stable_baselines3 import PPO

import inferl

model = PPO("MlpPolicy", "CartPole-v1", n_steps=512, batch_size=128, seed=0, device="cpu")

box = np.array([2.4, 3.0, 0.21, 3.0])
features = inferl.Fourier(-box, box, order=1)  # 16 features: a few hundred episodes determine them


def evaluated(seed):
    """Let the model as it is now play 200 episodes; each model needs a seed of its own to be independent."""
    envs = gymnasium.make_vec("CartPole-v1", num_envs=16)
    policy = inferl.policies.Predictor(model, deterministic=False)
    source = inferl.sources.rollout(envs, policy, features, discount=0.99, seed=seed)
    evaluator = inferl.Evaluator(inferl.TD(features.dimension)).update(source.take(episodes=200))
    return evaluator, source.start()


old, old_start = evaluated(seed=1)
model.learn(4096)
new, new_start = evaluated(seed=2)

print(f"old: {old.interval(old_start)}")
print(f"new: {new.interval(new_start)}")
print(f"new - old: {inferl.difference(new, old, new_start, other_target=old_start)}")
