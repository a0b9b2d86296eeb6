"""The scripts of docs/guides/training.md run as they are, wherever their library is installed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import inferl

pytestmark = pytest.mark.integrations

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "guides" / "training.md"
LIBRARIES = {
    "Stable-Baselines3": "stable_baselines3",
    "On a screen, while it trains": "stable_baselines3",
    "A loop of your own, as in CleanRL": "torch",
    "TorchRL": "torchrl",
    "Tianshou": "tianshou",
    "RLlib": "ray.rllib",
}


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A folder for what the scripts save, and one thread."""
    if not GUIDE.exists():
        pytest.skip("the documentation is not part of an installed package")
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    monkeypatch.chdir(tmp_path)
    yield
    torch.set_num_threads(before)


def scripts(page: Path) -> dict[str, str]:
    """The script of each section; examples with a prompt run elsewhere."""
    found = {}
    for section in page.read_text("utf-8").split("\n## ")[1:]:
        blocks = [block for block in re.findall(r"```python\n(.*?)```", section, re.DOTALL) if ">>>" not in block]
        if blocks:
            (found[section.partition("\n")[0]],) = blocks
    return found


def test_every_section_with_a_script_is_run() -> None:
    assert list(scripts(GUIDE)) == list(LIBRARIES)


@pytest.mark.filterwarnings("default")  # theirs
@pytest.mark.parametrize("section", LIBRARIES)
def test_the_script_runs_and_prints_an_interval(
    section: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip(LIBRARIES[section], exc_type=ImportError)
    names: dict[str, Any] = {}
    exec(scripts(GUIDE)[section], names)
    assert re.search(r"\d \[[\d.]+, [\d.]+\],? 95%", capsys.readouterr().out)
    if "best" in names:
        assert isinstance(names["best"], inferl.BestSoFar)
        assert names["best"].evaluations >= 2
        assert [path for path in tmp_path.iterdir() if path.name.startswith("best")]
    if section == "Stable-Baselines3":
        assert names["callback"].last_interval.lower > 60
        assert names["model"].num_timesteps < 4_000
        assert (tmp_path / "best" / "best_model.zip").exists()
        assert (tmp_path / "log" / "evaluations.npz").exists()


def test_the_first_example_of_the_readme(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As it is there, with a model that is trained here; what it prints has the form of the comment."""
    from stable_baselines3 import PPO

    block = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)[0]
    code, _, shown = block.partition("\n# ")
    assert "evaluate_policy" in code
    assert "PPO.load" in code
    PPO("MlpPolicy", "CartPole-v1", n_steps=256, seed=0, device="cpu").learn(256).save(tmp_path / "cartpole")
    exec(code, {})
    printed = capsys.readouterr().out.strip()
    forms = {re.sub(r"[\d,.]*\d", "N", line.partition(" anytime")[0]) for line in (printed, shown.strip())}
    assert forms == {"CartPole-vN: mean return N [N, N], N%"}
