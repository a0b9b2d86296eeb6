"""A policy of Stable-Baselines3, trained here, is evaluated in vector environments."""

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import inferl
from inferl.baselines import monte_carlo
from inferl.data.transitions import Transitions
from inferl.policies import Predictor
from inferl.sources import EvaluatorWrapper, rollout

pytestmark = pytest.mark.torch

N = 4


def pole() -> gymnasium.Env[Any, Any]:
    return gymnasium.make("CartPole-v1", max_episode_steps=25)


@pytest.fixture(scope="module")
def model() -> Any:
    """PPO, trained for a moment: better than chance, and it still falls."""
    from stable_baselines3 import PPO

    env = gymnasium.make("CartPole-v1")
    return PPO("MlpPolicy", env, n_steps=512, batch_size=128, seed=0, device="cpu").learn(2048)


@pytest.mark.parametrize("mode", list(AutoresetMode), ids=lambda mode: mode.name)
@pytest.mark.parametrize("deterministic", [True, False])
def test_a_trained_policy_is_evaluated(model: Any, mode: AutoresetMode, deterministic: bool) -> None:
    """The estimate is near the mean return of the same episodes, and each stream is the environment alone."""
    policy = Predictor(model, deterministic)
    box = [2.4, 3.0, 0.21, 3.0]
    features = inferl.features.Fourier(np.negative(box), box, order=2)
    envs = SyncVectorEnv([lambda: gymnasium.make("CartPole-v1")] * N, autoreset_mode=mode)
    source = rollout(envs, policy, features, discount=0.95, seed=3)
    path = Transitions.join(list(source.take(steps=8000)))
    interval = inferl.Evaluator(inferl.TD(features.dimension)).update(path).interval(source.start())
    direct = monte_carlo(path)
    assert interval.width < 2
    # Both speak of the same steps; features and the episodes still open make a difference, which is small.
    assert interval.estimate == pytest.approx(direct.estimate, abs=0.5)
    single = SyncVectorEnv([lambda: gymnasium.make("CartPole-v1")])
    alone = rollout(single, policy, features, discount=0.95, seed=4)
    stream = path[np.flatnonzero(path.stream == 1)[:200]]
    # Up to rounding: a network sums a batch in another order than a single observation.
    np.testing.assert_allclose(stream.features, Transitions.join(list(alone.take(steps=200))).features, atol=1e-5)


def test_the_model_itself_is_a_policy(model: Any) -> None:
    raw = inferl.features.Function(lambda observations: observations, 4)
    bare, said = (
        Transitions.join(list(rollout(SyncVectorEnv([pole] * N), policy, raw, 0.9).take(steps=200)))
        for policy in (model, Predictor(model))
    )
    np.testing.assert_array_equal(bare.features, said.features)


def test_its_mean_return_does_not_depend_on_the_number_of_copies(model: Any) -> None:
    one, eight = (inferl.evaluate_policy("CartPole-v1", model, episodes=20, num_envs=n) for n in (1, 8))
    # A network may round a batch otherwise, and then an action may differ.
    assert eight.interval.estimate == pytest.approx(one.interval.estimate, rel=0.05)
    assert eight.episodes == 20


def test_a_wrapper_below_the_environments_of_the_library(model: Any) -> None:
    """Its own vector environments reset by themselves, and keep the wrapper's entry of info."""
    from stable_baselines3.common.evaluation import evaluate_policy
    from stable_baselines3.common.monitor import Monitor
    from stable_baselines3.common.vec_env import DummyVecEnv

    evaluator = inferl.Evaluator(inferl.TD(5))
    features = inferl.features.WithIntercept(inferl.features.Scaled([-2.4, -3, -0.21, -3], [2.4, 3, 0.21, 3]))
    envs = DummyVecEnv(
        [lambda i=i: Monitor(EvaluatorWrapper(pole(), evaluator, features, 0.9, stream=i)) for i in range(3)]
    )
    seen = []
    evaluate_policy(model, envs, n_eval_episodes=12, callback=lambda local, _: seen.append(local["info"]))
    read = [info["inferl"] for info in seen if "inferl" in info]
    assert len(read) >= 12
    assert evaluator.episodes == len(read)
    assert evaluator.n == len(seen)
