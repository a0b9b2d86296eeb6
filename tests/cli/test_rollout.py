"""``inferl rollout``: a policy in an environment, resumed by playing again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from runfiles import evaluator_bits
from typer.testing import CliRunner

import inferl
from inferl.cli import app
from inferl.cli.building import make_rollout
from inferl.evaluator import Evaluator
from inferl.runs import Run

runner = CliRunner(env={"COLUMNS": "80", "FORCE_COLOR": None})

LAKE = ["FrozenLake-v1", "--episodes", "40", "--discount", "0.9"]


def rollout(*options: str, code: int = 0) -> Any:
    result = runner.invoke(app, ["rollout", *options])
    assert result.exit_code == code, result.output
    return result


def interval(result: Any) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(result.stdout.splitlines()[-1])["interval"]
    return content


def test_a_random_policy_by_hand() -> None:
    env = gymnasium.make("FrozenLake-v1")
    policy = np.full((16, 4), 0.25)
    source = inferl.sources.rollout(env, policy, env.observation_space, discount=0.9, seed=7)
    expected = Evaluator(inferl.DoublyRobust(16)).update(source.take(episodes=400)).interval()
    options = ["--episodes", "400", "--discount", "0.9", "--features", "observation", "--seed", "7"]
    found = interval(rollout("FrozenLake-v1", *options, "--json"))
    assert expected.estimate > 0
    assert (found["estimate"], found["lower"], found["n"]) == (expected.estimate, expected.lower, expected.n)


def test_a_policy_and_features_of_one_s_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_world.py").write_text(
        "import numpy as np, inferl\n"
        "def act(pole):\n    return int(pole[2] > 0)\n"
        "shape = inferl.features.Function(lambda pole: np.asarray(pole, float)[..., 2:], 2)\n"
    )
    text = rollout("CartPole-v1", "--policy", "my_world:act", "--features", "my_world:shape", "--episodes", "5").stdout
    assert "TD(dimension=2, trace=0.0)" in text
    assert "for                 the 5 observed starts" in text
    for place, words in (("nowhere", "write module:name"), ("nowhere:act", "cannot import"), ("my_world:x", "cannot")):
        assert words in rollout("CartPole-v1", "--policy", place, code=2).stderr


def test_vectors_are_their_own_features_with_a_constant() -> None:
    named = ["--features", "observation"]
    assert "TD(dimension=5, trace=0.0)" in rollout("CartPole-v1", "--episodes", "3", *named).stdout
    assert "TD(dimension=4, trace=0.0)" in rollout("Pendulum-v1", "--episodes", "1", *named).stdout


def test_without_options_it_is_the_mean_return(tmp_path: Path) -> None:
    """Up to the time limit, for any number of copies; a run that stops by looking has an anytime interval."""
    expected = inferl.evaluate_policy("Blackjack-v1", inferl.policies.Uniform(gymnasium.spaces.Discrete(2)))
    for copies in ("1", "5"):
        found = interval(rollout("Blackjack-v1", "--num-envs", copies, "--json"))
        assert (found["estimate"], found["lower"]) == (expected.interval.estimate, expected.interval.lower)
    stopped = interval(rollout("Blackjack-v1", "--until-width", "0.5", "--json"))
    assert stopped["kind"] == "anytime"
    assert stopped["upper"] - stopped["lower"] <= 0.5
    assert stopped["n"] < 2000


@pytest.mark.parametrize("env", ["FrozenLake-v1", "Pendulum-v1"])
def test_a_run_is_resumed_with_the_same_bits(env: str, tmp_path: Path) -> None:
    straight, run_file = tmp_path / "straight.run", tmp_path / "lake.run"
    rollout(env, "--episodes", "8", "--seed", "3", "--checkpoint", str(straight))
    whole = Run.load(straight)
    # As if it had been killed after a few hundred steps, in mid-episode.
    source = make_rollout(whole.options)
    run = Run(Evaluator(whole.evaluator.algorithm), "rollout", whole.options)
    for chunk in source.take(steps=50):
        run.take(chunk, source)
    run.save(run_file)
    result = runner.invoke(app, ["resume", str(run_file)])
    assert result.exit_code == 0, result.output
    assert evaluator_bits(run_file) == evaluator_bits(straight)
    assert Run.load(run_file).complete
    assert runner.invoke(app, ["resume", str(run_file)]).stdout == result.stdout


def test_fitted_features_are_kept_in_the_run_file(tmp_path: Path) -> None:
    """Killed after fewer steps than the features are fitted to, and resumed with another number of copies."""
    straight, run_file = tmp_path / "straight.run", tmp_path / "pole.run"
    options = ["--features", "random-fourier:8", "--discount", "0.99", "--seed", "3", "--episodes", "60"]
    rollout("CartPole-v1", *options, "--checkpoint", str(straight))
    whole = Run.load(straight)
    source = make_rollout(whole.options)
    run = Run(Evaluator(whole.evaluator.algorithm), "rollout", whole.options | {"num_envs": 2})
    for chunk in source.take(steps=700):
        run.take(chunk, source)
    run.save(run_file)
    result = runner.invoke(app, ["resume", str(run_file)])  # no code is named, so nothing is asked
    assert result.exit_code == 0, result.output
    assert evaluator_bits(run_file) == evaluator_bits(straight)
    assert "8 random Fourier features; fitted to the first 1,000 steps" in result.stdout
    again = make_rollout(whole.options).resume(whole.position)
    assert again.features(np.zeros(4)).tolist() == source.features(np.zeros(4)).tolist()


@pytest.mark.parametrize("options", [["--time-limit", "cut", "--discount", "0.99"], ["--estimator", "fitted"]])
def test_features_are_chosen_where_returns_are_not_enough(options: list[str]) -> None:
    text = rollout("CartPole-v1", "--episodes", "40", *options).stdout
    assert "TD(dimension=69, trace=0.0)" in text
    assert "64 random Fourier features" in text


def test_returns_need_no_features() -> None:
    assert "TD(dimension=1, trace=0.0)" in rollout("CartPole-v1", "--episodes", "5", "--discount", "0.99").stdout


def test_options_of_the_environment() -> None:
    options = ["--env-option", "map_name=8x8", "--env-option", "is_slippery=false", "--features", "observation"]
    text = rollout(*LAKE, *options).stdout
    assert "TD(dimension=64, trace=0.0)" in text


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["NoSuchLake-v1"], "Gymnasium cannot make 'NoSuchLake-v1'"),
        (["FrozenLake-v1", "--env-option", "slippery"], "write name=value"),
        (["FrozenLake-v1", "--env-option", "ice=3"], "Gymnasium cannot make"),
        (["CartPole-v1", "--features", "tiles:8"], "write, for example, tiles:8x4"),
        (["CartPole-v1", "--features", "tiles:8x10"], "at most 2,000 parameters, not 80,000"),
        (["FrozenLake-v1", "--features", "fourier:2"], "16 states; say auto"),
        (["FrozenLake-v1", "--level", "2"], "level is 2"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(options: list[str], words: str) -> None:
    result = rollout(*options, code=2)
    assert words in result.stderr
    assert len(result.stderr.splitlines()) == 1
