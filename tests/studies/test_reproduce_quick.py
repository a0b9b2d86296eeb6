"""All four experiments of the paper at their smallest, from the command line: what `make reproduce-quick` runs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from studies.paper import page
from studies.paper.study import EXPERIMENTS, stem
from studies.paper.summaries import select

ROOT = Path(__file__).parents[2]


def reproduce(folder: Path) -> str:
    command = [sys.executable, "-m", "studies.paper", "paper", "--quick", "--workers", "2", "--output", str(folder)]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def read(folder: Path) -> dict[str, dict[str, Any]]:
    """The results, without what made them: the second start may be of another commit."""
    found = {name: json.loads((folder / name / f"{stem(name)}.json").read_text()) for name in EXPERIMENTS}
    assert all(one.pop("provenance")["command"].endswith(f"{name} --quick") for name, one in found.items())
    return found


def ends(content: dict[str, Any], method: str) -> dict[str, Any]:
    return select(content["coverage"], method)[-1]


@pytest.mark.atari
def test_all_four_experiments_small(tmp_path: Path) -> None:
    said = reproduce(tmp_path / "run")
    assert [line.split(":")[0] for line in said.splitlines() if "pictures, tables and results" in line] == list(
        EXPERIMENTS
    )
    found = read(tmp_path / "run")

    # Fixed seeds, so nothing here is by chance; each is a claim of the page that few repeats can show.
    lake = found["frozenlake"]
    assert lake["policy"]["share"] > 0.98
    assert ends(lake, "as printed, initial 10")["covered"] == 0
    assert ends(lake, "law alone")["binomial_99.9"][1] < 0.95
    for method in ("bootstrap", "least squares"):
        assert ends(lake, method)["binomial_99.9"][0] < 0.95 <= ends(lake, method)["binomial_99.9"][1]
    assert lake["cost"]["offline_over_online_once"] > 2

    mdp = found["random-mdp"]
    for method in ("GTD2", "TDC", "least squares", "SAVE, of its own fixed point"):
        assert ends(mdp, method)["binomial_99.9"][1] >= 0.95
    assert ends(mdp, "TDC, law alone")["coverage"] < ends(mdp, "TDC")["coverage"]
    assert 0.9 < ends(mdp, "least squares")["width_over_oracle"] < 1.2

    patients = found["sepsis"]
    for label in ("components", "factors"):
        own = patients["curves"]["median"][f"GTD2, {label}"]
        assert own["exact"][-1] < own["exact"][0] / 2
        assert own["percentile"][-1] < own["percentile"][0]
    assert patients["policy"]["value"] > patients["policy"]["behaviour_value"]

    games = found["pong"]
    values = [row["estimate"] for row in games["monte_carlo"]]
    assert values == sorted(values, reverse=True)
    assert games["games"][0]["score"] > 15 > -15 > games["games"][-1]["score"]

    # The pictures, each as PNG and SVG with its numbers, and a page from these results.
    results = tmp_path / "results"
    results.mkdir()
    for name in EXPERIMENTS:
        folder = tmp_path / "run" / name
        pictures = {path.stem for path in folder.glob("*.png")}
        assert pictures
        assert pictures == {path.stem for path in folder.glob("*.svg")} == {path.stem for path in folder.glob("*.csv")}
        shutil.copy(folder / f"{stem(name)}.json", results)
    text = page.page(results)
    named = {line.split("/")[-1].removesuffix(".png)") for line in text.splitlines() if line.startswith("![")}
    assert named == {path.stem for path in (tmp_path / "run").glob("*/*.png")}

    # What is there is not run again: the second start adds no repeat, and finds the same.
    kept = {path: path.read_bytes() for path in (tmp_path / "run").glob("*/repeats/*.jsonl")}
    assert kept
    reproduce(tmp_path / "run")
    assert {path: path.read_bytes() for path in kept} == kept
    assert read(tmp_path / "run") == found
