"""The scripts that people copy: each runs as it is, and says what the library says."""

from __future__ import annotations

import re
import runpy
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import inferl

Script = Callable[..., str]

EXAMPLES = Path(__file__).parents[1] / "examples"

pytestmark = pytest.mark.skipif(not EXAMPLES.exists(), reason="the examples are not part of an installed package")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Script:
    """Run a script in a folder of its own; return what it prints."""

    def run(name: str, *arguments: str) -> str:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", [name, *arguments])
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        return capsys.readouterr().out

    return run


def intervals(text: str) -> list[tuple[float, float, float]]:
    """Estimate, lower and upper bound of each interval printed."""
    number = r"(-?[\d.]+)"
    found = re.findall(rf"{number} \[{number}, {number}\] 95% pointwise", text)
    return [(float(a), float(b), float(c)) for a, b, c in found]


def test_every_script_is_tested() -> None:
    tested = set(re.findall(r'run\("(\w+\.py)"', Path(__file__).read_text()))
    assert {path.name for path in EXAMPLES.glob("*.py")} == tested


def test_a_policy(run: Script) -> None:
    printed = run("gymnasium_policy.py")
    *growing, final = intervals(printed)
    assert len(growing) == 5
    assert final == growing[-1]
    assert growing[-1][2] - growing[-1][1] < growing[0][2] - growing[0][1]
    assert printed.count("  ok ") == 11
    assert abs(final[0] - 34.26) < 3 * (final[2] - final[1])  # a million episodes


@pytest.mark.integrations
def test_a_policy_on_a_screen(run: Script) -> None:
    printed = run("live_cartpole.py", "2")
    assert "the live page: http://127.0.0.1:" in printed
    ((estimate, lower, upper),) = intervals(printed.replace("anytime", "pointwise"))
    assert abs(estimate - 34.26) < 3 * (upper - lower)  # the value of the same policy by a million episodes
    assert printed.rstrip().endswith(("above", "open"))


@pytest.mark.torch
def test_a_simulator_in_torch(run: Script) -> None:
    """Gymnasium's CartPole with the same policy has the same value; a false alarm in one of 16,000 runs."""
    printed = run("gpu_cartpole.py")
    *_, (estimate, lower, upper) = intervals(printed)
    policy = inferl.policies.epsilon_greedy(lambda pole: int(pole[2] > 0), 0.2, 2)
    same = inferl.evaluate_policy("CartPole-v1", policy, episodes=1000, discount=0.99, seed=0, progress=False).interval
    error = np.hypot((upper - lower) / 3.92, float(same.width) / 3.92)
    assert abs(estimate - float(same.estimate)) < 4 * error
    assert "the value of the start distribution" in printed


def queue_value() -> float:
    """The exact value of the example's log, by going backwards."""
    load, value = np.arange(4), np.zeros(4)
    wanted = np.where(load >= 2, 0.8, 0.3)
    for step in reversed(range(6)):
        goes_on = 0.0 if step == 5 else 0.9
        after = [
            down * value[np.maximum(load - 1, 0)] + (1 - down) * value[np.minimum(load + 1, 3)] for down in (0.4, 0.7)
        ]
        slow, fast = (1 - load / 4 - 0.1 * i + 0.9 * goes_on * after[i] for i in range(2))
        value = (1 - wanted) * slow + wanted * fast
    return float(value.mean())


def test_a_log(run: Script, tmp_path: Path) -> None:
    """The estimate lies within three widths, twelve standard errors, of the exact value: no false alarms."""
    printed = run("parquet_log.py")
    ((estimate, lower, upper),) = intervals(printed)
    assert abs(estimate - queue_value()) < 3 * (upper - lower)
    assert f"{queue_value():.3f}" in (EXAMPLES / "parquet_log.py").read_text()
    assert "the value of the start distribution" in printed
    assert run("parquet_log.py", str(tmp_path / "log.parquet")) == printed


def test_a_recursion_of_ones_own(run: Script) -> None:
    printed = run("nonlinear_field.py")
    assert "exact: 1.282" in printed
    assert len(intervals(printed)) == 3
    for estimate, lower, upper in intervals(printed):
        assert abs(estimate - 1.2816) < 3 * (upper - lower)


@pytest.mark.torch
def test_a_model_against_its_predecessor(run: Script) -> None:
    printed = run("sb3_against_its_predecessor.py")
    (old, *_), (new, *_), (difference, lower, _) = intervals(printed)
    assert new > old
    assert difference > lower > 0
