"""The shell: answers that are the library's own, errors in one line, help at once."""

import subprocess
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

import inferl
from inferl.cli import app
from inferl.environments import FiniteMDP

runner = CliRunner(env={"COLUMNS": "80", "FORCE_COLOR": None})


NAMES = ("features alone", "the value", "mean return", "online bootstrap", "least squares")


def by_hand(episodes: int, seed: int, level: float) -> tuple[list[str], list[bool]]:
    """The demonstration's intervals in the words of the library, and whether they hold the exact value."""
    lake = FiniteMDP.from_toy_text(gymnasium.make("FrozenLake-v1", map_name="8x8"))
    policy = lake.optimal_policy(0.99)
    path = lake.sample(policy, 300 * episodes, seed=seed)
    whole = path.transitions(0.99)[: np.flatnonzero(path.terminated)[episodes - 1] + 1]
    quarter = np.arange(64) // 32 * 2 + np.arange(64) % 8 // 4
    tiles = inferl.Transitions(
        quarter[whole.features], whole.rewards, quarter[whole.next_features], whole.discounts, last=whole.last
    )
    coarse = inferl.Evaluator(inferl.DoublyRobust(4)).update(tiles)
    methods = (inferl.OnlineBootstrap(inferl.Polynomial(100, decay=0.65), seed=seed), inferl.LeastSquares())
    intervals = [coarse.interval(name, level) for name in ("fitted", "value")]
    intervals += [inferl.baselines.monte_carlo(whole, level=level)]
    intervals += [inferl.Evaluator(inferl.TD(64), method).update(whole).interval(0, level) for method in methods]
    truth = lake.values(policy, 0.99)[0]
    words = [f"{interval.estimate:.3f} [{interval.lower:.3f}, {interval.upper:.3f}]" for interval in intervals]
    return words, [truth in interval for interval in intervals]


def test_the_demo_prints_what_the_library_says(tmp_path: Path) -> None:
    picture = tmp_path / "lake.png"
    result = runner.invoke(
        app, ["demo", "--episodes", "40", "--seed", "3", "--level", "0.9", "--picture", str(picture)]
    )
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    words, held = by_hand(40, 3, 0.9)
    assert "90% interval" in result.output
    assert "0.4146" in result.output
    for name, answer, holds in zip(NAMES, words, held, strict=True):
        rows = [line.replace("*", "").split() for line in lines if line.strip().startswith(name)]
        estimate, _, bounds = answer.partition(" ")
        assert [*name.split(), estimate, *bounds.split(), "yes" if holds else "no"] in rows
    (milestone,) = [line for line in lines if line.split()[:1] == ["20"]]
    assert all(answer in milestone for answer in by_hand(20, 3, 0.9)[0][:2])
    assert str(picture) in result.output


def test_the_demo_says_what_is_wrong(tmp_path: Path) -> None:
    result = runner.invoke(app, ["demo", "--episodes", "100", "--picture", str(tmp_path / "lake.png")])
    assert "* online bootstrap, convergence:" in result.output
    assert "* features alone, features: the features bias the value" in result.output
    assert "* the value" not in result.output
    assert "* least squares" not in result.output


def test_nothing_is_wider_than_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = runner.invoke(app, ["demo", "--episodes", "20"])
    assert max(map(len, result.output.splitlines())) <= 80


def test_a_terminal_shows_a_bar_with_live_intervals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = runner.invoke(app, ["demo", "--episodes", "20"], env={"FORCE_COLOR": "1"})
    assert result.exit_code == 0, result.output
    assert "20/20" in result.output
    assert all(answer in result.output for answer in by_hand(20, 0, 0.95)[0])
    assert (tmp_path / "demo.png").exists()


@pytest.mark.parametrize(("name", "magic"), [("a.png", b"\x89PNG"), ("a.pdf", b"%PDF"), ("a.svg", b"<?xml")])
def test_the_picture_is_drawn(name: str, magic: bytes, tmp_path: Path) -> None:
    picture = tmp_path / name
    result = runner.invoke(app, ["demo", "--episodes", "20", "--picture", str(picture)])
    assert result.exit_code == 0, result.output
    assert picture.read_bytes().startswith(magic)
    assert 5_000 < picture.stat().st_size < 500_000
    if name.endswith("png"):
        with Image.open(picture) as image:
            assert image.size == (2100, 780)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--level", "95"], "did you mean 0.95?"),
        (["--picture", "demo.gif"], "its name must end in .png, .pdf, .svg"),
        (["--picture", "nowhere/demo.png"], "there is no folder nowhere"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(options: list[str], words: str) -> None:
    result = runner.invoke(app, ["demo", *options])
    assert result.exit_code == 2
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1
    assert words in result.stderr


def test_a_missing_library_is_one_line_and_exit_code_2(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    result = runner.invoke(app, ["rollout", "FrozenLake-v1"])
    assert result.exit_code == 2
    assert result.stderr == "inferl: gymnasium is not installed: pip install 'inferl[gym]'\n"


def test_the_demo_needs_no_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Gymnasium and Matplotlib the answers are the same, and there is no picture."""
    monkeypatch.chdir(tmp_path)
    for library in ("gymnasium", "matplotlib"):
        monkeypatch.setitem(sys.modules, library, None)
    result = runner.invoke(app, ["demo", "--episodes", "20"])
    assert result.exit_code == 0, result.output
    assert all(answer in result.output for answer in by_hand(20, 0, 0.95)[0][:2])
    assert result.output.endswith("No picture: matplotlib is not installed: pip install 'inferl[plot]'\n")
    assert not (tmp_path / "demo.png").exists()


def test_too_few_episodes_are_refused() -> None:
    assert runner.invoke(app, ["demo", "--episodes", "5"]).exit_code == 2


def test_version() -> None:
    result = runner.invoke(app, ["--version"])
    assert result.exit_code == 0
    assert result.output == f"inferl {inferl.__version__}\n"


def test_help_needs_no_large_library() -> None:
    """What makes ``inferl --help`` quick; the clock itself is no business of a test."""
    large = ["numpy", "scipy", "gymnasium", "matplotlib", "pyarrow", "minari"]
    script = f"""
import sys
from typer.testing import CliRunner
from inferl.cli import app
assert "demo" in CliRunner().invoke(app, ["--help"]).output
print([name for name in {large} if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
