"""Policies: actions follow the stated probabilities, for one observation or many; error messages."""

from typing import Any

import gymnasium
import numpy as np
import pytest

from inferl.errors import DataError, SettingError, ShapeError
from inferl.policies import (
    Deterministic,
    Logits,
    Policy,
    Predictor,
    Probabilities,
    Ratio,
    Table,
    Uniform,
    as_policy,
    epsilon_greedy,
)

UNIFORMS = np.random.default_rng(0).random(20_000)
BELOW_ONE = np.nextafter(1.0, 0.0)


def law(observation: Any) -> list[float]:
    return [0.9, 0.1, 0.0] if observation % 2 else [0.2, 0.3, 0.5]


def laws(observations: Any) -> Any:
    return np.where(observations[:, None] % 2 == 1, [0.9, 0.1, 0.0], [0.2, 0.3, 0.5])


class Model:
    """The public interface of a Stable-Baselines3 model."""

    def __init__(self, state: Any = None) -> None:
        self.state = state

    def predict(self, observations: Any, deterministic: bool = False) -> Any:
        return np.asarray(observations) % 3, self.state


EVERY: dict[str, Policy] = {
    "table": Table([law(s) for s in range(8)]),
    "function": Deterministic(lambda s: s % 3),
    "function of batches": Deterministic(lambda s: np.asarray(s) % 3, batched=True),
    "probabilities": Probabilities(law),
    "probabilities of batches": Probabilities(laws, batched=True),
    "model": Predictor(Model()),
    "epsilon-greedy table": epsilon_greedy([law(s) for s in range(8)], 0.25, 3),
    "epsilon-greedy function": epsilon_greedy(lambda s: s % 3, 0.25, 3),
    "epsilon-greedy model": epsilon_greedy(Model(), 0.25, 3),
    "random": epsilon_greedy(lambda s: s % 3, 1.0, 3),
    "greedy": epsilon_greedy(lambda s: s % 3, 0.0, 3),
}


@pytest.mark.parametrize("name", EVERY)
def test_a_batch_acts_as_each_observation_alone(name: str) -> None:
    policy = EVERY[name]
    observations = np.arange(800) % 8
    batch = policy.batch(observations, UNIFORMS[:800])
    assert batch.shape == (800,)
    assert np.issubdtype(batch.dtype, np.integer)
    alone = [policy(observation, uniform) for observation, uniform in zip(observations, UNIFORMS[:800], strict=True)]
    assert batch.tolist() == alone


@pytest.mark.parametrize("name", [name for name in EVERY if name not in ("function", "function of batches", "model")])
def test_actions_have_the_probabilities_that_are_said(name: str) -> None:
    """Uniforms on a fine grid give each action exactly its share, up to the grid."""
    policy = EVERY[name]
    grid = (np.arange(10_000) + 0.5) / 10_000
    for observation in (0, 1):
        (said,) = policy.probabilities(np.array([observation]))
        assert said.sum() == pytest.approx(1)
        shares = np.bincount(policy.batch(np.full(10_000, observation), grid), minlength=3) / 10_000
        assert shares == pytest.approx(said, abs=3e-4)


def test_a_table_draws_its_probabilities() -> None:
    probabilities = np.array([0.1, 0.0, 0.6, 0.3])
    policy = as_policy(np.array([[1, 0, 0, 0], probabilities]))
    n = len(UNIFORMS)
    counts = np.bincount(policy.batch(np.ones(n, int), UNIFORMS), minlength=4)
    assert counts[1] == 0
    # Four standard deviations on three counts: a false alarm once in 5000 generators, and this one is fixed.
    assert (np.abs(counts - n * probabilities) <= 4 * np.sqrt(n * probabilities * (1 - probabilities))).all()
    assert set(policy.batch(np.zeros(100, int), UNIFORMS[:100])) == {0}


@pytest.mark.parametrize("epsilon", [0.0, 1e-9, 0.1, 0.3, 0.7])
def test_rounding_never_draws_an_action_of_probability_zero(epsilon: float) -> None:
    row = [0.1] * 10 + [0.0]  # in floating point these ten add up to less than 1
    table = as_policy([row])
    assert table(0, BELOW_ONE) == 9
    assert table.batch(np.zeros(1, int), np.array([BELOW_ONE])).tolist() == [9]
    greedy = epsilon_greedy(table, epsilon, 11)
    assert greedy(0, BELOW_ONE) == 9
    if epsilon:
        assert greedy(0, np.nextafter(epsilon, 0.0)) == 10  # a random action may be this one too


def test_a_function_is_a_policy() -> None:
    assert as_policy(lambda observation: -observation)(3, 0.5) == -3


def test_functions_may_return_what_the_environment_takes() -> None:
    continuous = as_policy(lambda observation: observation[:1])
    assert continuous.batch(np.ones((3, 2)), np.zeros(3)).shape == (3, 1)
    named = as_policy(lambda observation: {"gas": observation, "gear": (1, 2)})
    actions = named.batch(np.array([0.5, 0.7]), np.zeros(2))
    assert actions["gas"].tolist() == [0.5, 0.7]
    assert actions["gear"][1].tolist() == [2, 2]


def test_a_policy_stays_itself() -> None:
    policy = as_policy([[1.0]])
    assert as_policy(policy) is policy


def test_a_model_takes_its_best_action_unless_told_otherwise() -> None:
    class Asked:
        def predict(self, observations: Any, deterministic: bool) -> Any:
            return np.full(len(observations), int(deterministic)), None

    assert as_policy(Asked())(0, 0.5) == 1
    assert Predictor(Asked(), deterministic=False)(0, 0.5) == 0


def test_a_model_that_predicts_something_else_is_refused() -> None:
    class Classifier:
        def predict(self, observations: Any) -> Any:
            return observations

    with pytest.raises(SettingError, match=r"Classifier.predict has no argument .* Deterministic"):
        as_policy(Classifier())


def test_recurrent_models_are_refused() -> None:
    with pytest.raises(SettingError, match="recurrent"):
        Predictor(Model(state=np.zeros(3)))(0, 0.5)


def test_policies_print() -> None:
    assert repr(EVERY["table"]) == "Table(8 states, 3 actions)"
    assert repr(EVERY["epsilon-greedy model"]) == (
        "EpsilonGreedy(policy=Predictor(Model, deterministic=True), epsilon=0.25, n_actions=3)"
    )


def test_ratios_are_those_of_the_actions_taken() -> None:
    target, behaviour = Probabilities(law), epsilon_greedy(lambda s: s % 3, 0.3, 3)
    observations, actions = np.array([0, 1, 2, 1]), np.array([0, 1, 2, 2])
    expected = [0.2 / 0.8, 0.1 / 0.8, 0.5 / 0.8, 0.0]
    ratio = Ratio(target, behaviour)
    assert ratio.batch(observations, actions) == pytest.approx(expected)
    assert [ratio(s, a) for s, a in zip(observations, actions, strict=True)] == pytest.approx(expected)


def test_ratios_average_to_one() -> None:
    """Under the behaviour, for each observation: exactly the sum of the target's probabilities."""
    target, behaviour = EVERY["table"], EVERY["epsilon-greedy function"]
    for observation in range(8):
        below = behaviour.probabilities(np.array([observation]))[0]
        ratios = Ratio(target, behaviour).batch(np.full(3, observation), np.arange(3))
        assert below @ ratios == pytest.approx(1)


def test_an_action_that_the_behaviour_never_takes_is_named() -> None:
    with pytest.raises(DataError, match="action 1 was taken, but has probability 0"):
        Ratio([[0.5, 0.5]], [[1.0, 0.0]])(0, 1)


def test_ratios_need_probabilities_of_as_many_actions() -> None:
    with pytest.raises(SettingError, match=r"epsilon_greedy\(policy, 0.0, n_actions\)"):
        Ratio(lambda s: 0, [[1.0, 0.0]])(0, 0)
    with pytest.raises(SettingError, match="2 actions and behaviour 3"):
        Ratio([[0.5, 0.5]], [[0.2, 0.3, 0.5]])(0, 0)
    with pytest.raises(SettingError, match="has no probabilities"):
        Predictor(Model()).probabilities(np.array([0]))


@pytest.mark.parametrize("bad", [[[0.5, 0.4]], [[1.5, -0.5]], [[np.nan, 1.0]]])
def test_a_row_that_is_no_distribution_is_named(bad: list[list[float]]) -> None:
    with pytest.raises(DataError, match="row 1 "):
        as_policy([[0.5, 0.5], *bad])
    with pytest.raises(DataError, match=r"row 0 .* function"):
        Probabilities(lambda _: bad[0])(0, 0.5)


def test_probabilities_in_single_precision_are_taken() -> None:
    thirds = np.full((1, 3), 1 / 3, np.float32)
    assert Probabilities(lambda _: thirds, batched=True)(0, 0.5) == 1


@pytest.mark.parametrize("bad", [[0.5, 0.5], [[]], "greedy", None])
def test_what_is_no_table_is_refused(bad: Any) -> None:
    with pytest.raises(ShapeError):
        as_policy(bad)


@pytest.mark.parametrize("observation", [2, -1])
def test_an_observation_without_a_row_is_refused(observation: int) -> None:
    policy = as_policy(np.eye(2))
    with pytest.raises(DataError, match="rows are 0 to 1"):
        policy(observation, 0.5)
    with pytest.raises(DataError, match=f"observation {observation} .* rows are 0 to 1"):
        policy.batch(np.array([0, observation]), np.zeros(2))


@pytest.mark.parametrize("observation", [0.5, np.zeros(4), "left"])
def test_an_observation_that_is_no_state_is_refused(observation: Any) -> None:
    policy = as_policy(np.eye(2))
    with pytest.raises(DataError, match="is not a state number"):
        policy(observation, 0.5)
    with pytest.raises(DataError, match="is not a state number"):
        policy.batch(np.array([observation]), np.zeros(1))


def test_functions_that_return_too_much_or_too_little_are_refused() -> None:
    with pytest.raises(DataError, match="1 rows of probabilities for 2 observations"):
        Probabilities(lambda _: [[0.5, 0.5]], batched=True).batch(np.zeros(2), np.zeros(2))
    with pytest.raises(DataError, match="3 actions for 2 observations"):
        Deterministic(lambda _: [1, 2, 3], batched=True).batch(np.zeros(2), np.zeros(2))


@pytest.mark.parametrize(("epsilon", "n_actions"), [(-0.1, 2), (1.1, 2), (np.nan, 2), (0.5, 0)])
def test_settings_that_make_no_sense_are_refused(epsilon: float, n_actions: int) -> None:
    with pytest.raises(SettingError):
        epsilon_greedy([[1.0]], epsilon, n_actions)


@pytest.mark.parametrize("action", [2, -1, 0.5])
def test_an_action_outside_the_numbers_said_is_named(action: Any) -> None:
    with pytest.raises(DataError, match="action"):
        epsilon_greedy(lambda _: action, 0.1, 2)(0, 0.5)


# Torch, and Stable-Baselines3.


def network(*, double: bool = False) -> Any:
    import torch

    torch.manual_seed(0)
    layers = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Dropout(0.5), torch.nn.Linear(8, 3))
    return layers.double() if double else layers


@pytest.mark.torch
@pytest.mark.parametrize("double", [False, True])
def test_logits_are_read_as_softmax_or_largest(double: bool) -> None:
    import torch

    module, observations = network(double=double), np.random.default_rng(0).normal(size=(200, 4))
    with torch.no_grad():
        logits = module.eval()(torch.as_tensor(observations, dtype=torch.float64 if double else torch.float32))
    expected = torch.softmax(logits, dim=1).numpy()
    drawing, greedy = Logits(module), Logits(module, greedy=True)
    assert drawing.probabilities(observations) == pytest.approx(expected, rel=1e-5)
    assert greedy.probabilities(observations).argmax(axis=1).tolist() == expected.argmax(axis=1).tolist()
    for policy in (drawing, greedy, epsilon_greedy(greedy, 0.2, 3)):
        batch = policy.batch(observations, UNIFORMS[:200])
        assert batch.tolist() == [policy(o, u) for o, u in zip(observations, UNIFORMS[:200], strict=True)]
    shares = np.bincount(drawing.batch(np.repeat(observations[:1], 20_000, axis=0), UNIFORMS), minlength=3) / 20_000
    assert shares == pytest.approx(expected[0], abs=0.02)  # more than five standard deviations


@pytest.mark.torch
def test_a_module_is_left_as_it_was() -> None:
    """Dropout is off during the call, and each layer keeps its training mode afterwards."""
    module = network().train()
    module[2].eval()
    policy = Logits(module)
    laws = [policy.probabilities(np.ones((1, 4))) for _ in range(3)]
    assert np.ptp(laws, axis=0).max() == 0
    assert [layer.training for layer in module] == [True, True, False, True]
    assert all(parameter.grad is None for parameter in module.parameters())


@pytest.mark.torch
def test_states_go_through_an_embedding() -> None:
    import torch

    module = torch.nn.Embedding(5, 2)
    module.weight.data = torch.arange(10.0).reshape(5, 2) * torch.tensor([1.0, -1.0])
    assert Logits(module, greedy=True).batch(np.array([0, 3]), np.zeros(2)).tolist() == [0, 0]
    assert Logits(module).probabilities(np.array([0])) == pytest.approx(np.array([[1, np.exp(-1)]]) / (1 + np.exp(-1)))


@pytest.mark.torch
def test_a_bare_module_is_refused() -> None:
    with pytest.raises(SettingError, match=r"Logits\(module, greedy=True\)"):
        as_policy(network())
    with pytest.raises(ShapeError, match="one number per action"):
        Logits(network())._logits(np.ones((2, 3, 4)))


@pytest.mark.torch
def test_probabilities_of_a_model_are_its_own() -> None:
    import torch
    from stable_baselines3 import PPO

    model = PPO("MlpPolicy", "CartPole-v1", seed=1, device="cpu")
    observations = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
    with torch.no_grad():
        law = model.policy.get_distribution(torch.as_tensor(observations))
        expected = np.exp(np.stack([law.log_prob(torch.full((50,), action)).numpy() for action in range(2)], axis=1))
    policy = Predictor(model, deterministic=False)
    assert policy.probabilities(observations) == pytest.approx(expected, rel=1e-5)
    best = Predictor(model)
    assert best.probabilities(observations).argmax(axis=1).tolist() == expected.argmax(axis=1).tolist()
    batch = policy.batch(observations, UNIFORMS[:50])
    assert batch.tolist() == [policy(o, u) for o, u in zip(observations, UNIFORMS[:50], strict=True)]
    assert batch.tolist() == Predictor(model.policy, deterministic=False).batch(observations, UNIFORMS[:50]).tolist()
    assert isinstance(as_policy(model.policy), Predictor)  # it is a torch module, too


@pytest.mark.torch
def test_models_without_probabilities_draw_themselves() -> None:
    from stable_baselines3 import DQN, PPO

    swinging = Predictor(PPO("MlpPolicy", "Pendulum-v1", device="cpu"), deterministic=False)
    assert swinging.batch(np.zeros((6, 3), np.float32), np.zeros(6)).shape == (6, 1)
    with pytest.raises(SettingError, match="has no probabilities"):
        swinging.probabilities(np.zeros((6, 3), np.float32))
    values = Predictor(DQN("MlpPolicy", "CartPole-v1", device="cpu", buffer_size=10))
    assert values.probabilities(np.zeros((6, 4), np.float32)).sum() == 6
    assert epsilon_greedy(values, 0.5, 2).probabilities(np.zeros((1, 4), np.float32)).max() == 0.75


@pytest.mark.parametrize(
    "space",
    [
        gymnasium.spaces.Discrete(3, start=2),
        gymnasium.spaces.Box(-1, 1, (2,)),
        gymnasium.spaces.MultiBinary(5),
        gymnasium.spaces.MultiDiscrete([2, 3]),
    ],
    ids=lambda space: type(space).__name__,
)
def test_random_actions_depend_on_the_uniform_number_alone(space: Any) -> None:
    uniforms = np.random.default_rng(0).random(50)
    policy = Uniform(space)
    actions = policy.batch(np.zeros(50), uniforms)
    assert all(space.contains(action) for action in actions)
    np.testing.assert_array_equal(actions[::-1], policy.batch(np.zeros(50), uniforms[::-1]))
    np.testing.assert_array_equal(actions[7], policy(0, uniforms[7]))
    assert len(np.unique(actions, axis=0)) >= 3
    if not isinstance(space, gymnasium.spaces.Discrete):
        with pytest.raises(SettingError, match="no probabilities"):
            policy.probabilities(np.zeros(1))
