from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from studies.paper import frozenlake, page, random_mdp
from studies.paper.__main__ import app
from studies.paper.drawing import draw

LAKE = replace(frozenlake.FrozenLake(), episodes=(10, 20, 60), n_replicas=10, learning_steps=200_000)
MDP = random_mdp.RandomMDP(steps=(200, 400, 800), n_replicas=10)
LAKE_FIGURES = [
    "frozenlake-coverage",
    "frozenlake-example",
    "frozenlake-features",
    "frozenlake-kinds",
    "frozenlake-rates",
    "frozenlake-sensitivity-coverage",
    "frozenlake-sensitivity-width",
]
MDP_FIGURES = ["coverage", "errata", "save"]


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.is_file())


def without_cost(content: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in content.items() if key != "cost"}


@pytest.mark.parametrize(
    ("study", "settings", "figures", "result"),
    [
        (frozenlake, LAKE, LAKE_FIGURES, "frozenlake.json"),
        (random_mdp, MDP, [f"random-mdp-{name}" for name in MDP_FIGURES], "random_mdp.json"),
    ],
)
def test_a_tiny_run_writes_all_files(
    study: Any, settings: Any, figures: list[str], result: str, tmp_path: Path
) -> None:
    content = study.run(tmp_path, repeats=3, settings=settings)
    draw(content, tmp_path)
    assert files(tmp_path) == sorted([result, *(f"{name}.{end}" for name in figures for end in ("png", "svg", "csv"))])
    stored = json.loads((tmp_path / result).read_text())
    assert stored == json.loads(json.dumps(content))
    assert {"settings", "provenance", "repeats", "coverage", "cost"} <= set(stored)
    assert stored["provenance"]["seed"] == settings.seed
    # Without cost, which is time: the same seeds give the same numbers, and a second start runs nothing again.
    again = study.run(tmp_path, repeats=3, settings=settings)
    assert again == content
    if study is random_mdp:
        other = study.run(tmp_path / "other", repeats=3, settings=settings, only=["coverage", "cost"])
        assert other["coverage"] == [cell for cell in content["coverage"] if "offline" not in cell["method"]]
    assert page.criteria(content)
    assert "images/reproduction" in page.page(tmp_path)
    assert "<" not in page.page(tmp_path).replace("<!--", "")


def test_the_page_says_what_the_results_say() -> None:
    root = Path(__file__).parents[2]
    assert page.page(root / "docs" / "results") == (root / "docs" / "reproduction.md").read_text()


def test_pictures_of_the_page_are_there_and_small() -> None:
    docs = Path(__file__).parents[2] / "docs"
    named = [
        line.split("(")[1].rstrip(")")
        for line in (docs / "reproduction.md").read_text().splitlines()
        if line.startswith("![")
    ]
    assert named
    for name in named:
        assert (docs / name).stat().st_size < 80_000
        assert (docs / name).with_suffix(".svg").stat().st_size < 150_000


def test_the_command_refuses_what_it_does_not_know() -> None:
    assert "random-mdp" in CliRunner().invoke(app, ["--help"]).output
    assert CliRunner().invoke(app, ["cartpole"]).exit_code == 2
    assert CliRunner().invoke(app, ["frozenlake", "--repeats", "1"]).exit_code == 2
