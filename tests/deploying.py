"""The deployment files, and what a server with an experiment like theirs is sent, for their tests."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from serving import Server

__all__ = ["DEPLOY", "ROOT", "Query", "feed", "needs_files", "queries", "tables", "visits"]

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"

needs_files = pytest.mark.skipif(not DEPLOY.is_dir(), reason="an installed package has no deployment files")

HOURS = """\
[experiments.hours]
terminated = "left"
discount = 1
window = 3
pane = 1000
thresholds = [0.5]
"""
PAGES = ("home", "list", "item", "cart")


def tables() -> str:
    """The experiments of the example, and one with a window."""
    text = (DEPLOY / "service.toml").read_text()
    return f"{text[text.index('[experiments') :]}\nevery = '0.2s'\n{HOURS}"


def visits(n: int, seed: int) -> list[dict[str, Any]]:
    """Rows of n visits to a shop, of which one in three ends with an order."""
    rng, rows = np.random.default_rng(seed), []
    for visit in range(n):
        pages = PAGES[: rng.integers(1, 5)]
        for page in pages:
            last = page == pages[-1]
            reward = float(rng.gamma(4, 1)) if last and len(pages) == 4 else 0.0
            rows.append({"visit": visit, "page": page, "reward": reward, "left": last})
    return rows


def feed(server: Server, n: int = 400) -> None:
    """Send n visits to both experiments of a server."""
    rows = visits(n, seed=0)
    body = "\n".join(map(json.dumps, rows)).encode()
    for name in ("shop", "hours"):
        path = f"/v1/experiments/{name}/transitions"
        headers = {"Inferl-Client": "web", "Inferl-Sequence": "1", "Content-Type": "application/x-ndjson"}
        assert server.ask("POST", path, body, headers)[0] == 200
        server.wait_for(len(rows), name)


class Query:
    """A query of Prometheus, as far as the names in it go.

    Attributes
    ----------
    selectors
        Metrics, each with the labels that it is selected by: (label, operator, value).
    others
        Labels by which series are joined or grouped.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.selectors = [
            (name, re.findall(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"', labels or ""))
            for name, labels in re.findall(r"\b((?:inferl_|up\b)\w*)(?:\{([^}]*)\})?", text)
        ]
        grouped = re.findall(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)", text)
        self.others = {label for group in grouped for label in re.findall(r"\w+", group)}


def queries() -> list[Query]:
    """All queries of the dashboard and of the alerts."""
    import yaml

    board = json.loads((DEPLOY / "grafana/dashboards/inferl.json").read_text())
    found = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    found += [note["expr"] for note in board["annotations"]["list"]]
    for variable in board["templating"]["list"]:
        if variable["type"] == "query":
            found.append(variable["query"]["query"])
    rules = yaml.safe_load((DEPLOY / "prometheus/rules.yml").read_text())
    found += [rule["expr"] for group in rules["groups"] for rule in group["rules"]]
    return [Query(text) for text in found]
