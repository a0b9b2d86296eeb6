"""Rollouts (T, N, ...): the transitions that they stand for, and what is refused."""

from typing import Any

import numpy as np
import pytest

from inferl import TD, DoublyRobust, Evaluator
from inferl.errors import CheckpointError, DataError, SettingError, ShapeError
from inferl.sources import Source, tensor

T, N, D = 40, 3, 2


def rollout(seed: int = 0, truncated: bool = True) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    ends = rng.random((T, N)) < 0.2
    late = (rng.random((T, N)) < 0.1) & ~ends & truncated
    return {
        "observations": rng.normal(size=(T + 1, N, D)),
        "rewards": rng.normal(size=(T, N)),
        "terminated": ends,
        "truncated": late,
    }


def test_every_environment_is_a_stream_in_its_own_order() -> None:
    played = rollout()
    (chunk,) = tensor(played, discount=0.9)
    for n in range(N):
        own = chunk[np.flatnonzero(chunk.stream == n)]
        np.testing.assert_array_equal(own.features, played["observations"][:-1, n])
        np.testing.assert_array_equal(own.next_features, played["observations"][1:, n])
        np.testing.assert_array_equal(own.rewards, played["rewards"][:, n])
        over = played["terminated"][:, n] | played["truncated"][:, n]
        np.testing.assert_array_equal(own.discounts, np.where(over, 0.0, 0.9))
        np.testing.assert_array_equal(own.last, over)
        np.testing.assert_array_equal(own.truncated, played["truncated"][:, n])
        assert own.first is not None
        np.testing.assert_array_equal(own.first, np.append(True, over[:-1]))


def test_rollouts_that_follow_each_other_are_one_long_one() -> None:
    played = rollout()
    halves = [{name: x[:21] if name == "observations" else x[:20] for name, x in played.items()}]
    halves.append({name: x[20:] for name, x in played.items()})
    whole, source = tensor(played, discount=0.9), tensor(iter(halves), discount=0.9)
    one, other = (Evaluator(DoublyRobust(D)).update(each) for each in (whole, source))
    np.testing.assert_allclose(one.interval().upper, other.interval().upper)
    np.testing.assert_allclose(np.asarray(whole.start()), np.asarray(source.start()))
    assert source.dimension == D
    assert isinstance(source, Source)
    assert source.describe()["rollouts"] == "40 steps of 3 environments"


def test_the_mean_return_is_that_of_the_episodes() -> None:
    rng = np.random.default_rng(0)
    ends = np.zeros((T, N), bool)
    ends[9::10] = True
    rewards = rng.normal(size=(T, N))
    played = {"observations": np.ones((T + 1, N, 1)), "rewards": rewards, "terminated": ends}
    interval = Evaluator(DoublyRobust(1)).update(tensor(played, discount=1.0)).interval()
    assert float(interval.estimate) == pytest.approx(rewards.sum() / (N * T / 10))


def test_a_limit_may_cut_the_episode_off() -> None:
    played = rollout()
    with pytest.raises(DataError, match="next_observations"):
        list(tensor(played, discount=0.9, time_limit="cut"))
    after = played["observations"][1:] + 1.0
    played |= {"observations": played["observations"][:-1], "next_observations": after}
    (chunk,) = tensor(played, discount=0.9, time_limit="cut")
    np.testing.assert_array_equal(chunk.discounts == 0, played["terminated"].T.reshape(-1))
    np.testing.assert_array_equal(chunk.next_features[:T], after[:, 0])


def test_features_and_ratios() -> None:
    played = rollout() | {"ratios": np.full((T, N), 0.5)}
    (chunk,) = tensor(played, lambda x: np.column_stack([np.ones(len(x)), x]), discount=0.9)
    assert chunk.features.shape == (T * N, D + 1)
    assert (chunk.ratios == 0.5).all()
    Evaluator(TD(D + 1)).update(chunk)


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"observations": np.zeros((T, N, D))}, ShapeError, "one observation more"),
        ({"rewards": np.zeros(T)}, ShapeError, "steps, environments"),
        ({"terminated": np.zeros((T, N + 1))}, ShapeError, "terminated"),
        ({"terminated": np.full((T, N), 2)}, DataError, "true and false"),
        ({"dones": np.zeros((T, N))}, ShapeError, "unknown 'dones'"),
        ({"ratios": np.ones(T)}, ShapeError, "ratios"),
        ({"rewards": np.full((T, N), np.nan)}, DataError, "row 0: reward is nan"),
    ],
)
def test_what_is_refused(change: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        list(tensor(rollout() | change, discount=0.9))


def test_settings_that_are_refused() -> None:
    for options in ({"discount": 2}, {"discount": 0.9, "time_limit": "never"}, {"discount": 0.9, "features": 3}):
        with pytest.raises(SettingError):
            tensor(rollout(), **options)
    with pytest.raises(ShapeError, match="no 'rewards'"):
        list(tensor([{"observations": 1, "terminated": 2}], discount=0.9))
    with pytest.raises(ShapeError, match="environments, and earlier"):
        list(tensor([rollout(), {name: x[:, :2] for name, x in rollout().items()}], discount=0.9))
    with pytest.raises(CheckpointError):
        tensor(rollout(), discount=0.9).resume(None)


@pytest.mark.torch
def test_tensors_and_modules() -> None:
    torch = pytest.importorskip("torch")
    played = {name: torch.from_numpy(x) for name, x in rollout().items()}
    module = torch.nn.Linear(D, 4, dtype=torch.float64)
    (chunk,) = tensor(played, module, discount=0.9)
    (same,) = tensor(rollout(), lambda x: module(torch.from_numpy(x)).detach().numpy(), discount=0.9)
    np.testing.assert_allclose(chunk.features, same.features)
