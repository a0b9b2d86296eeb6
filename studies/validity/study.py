"""What the coverage studies share: options, binomial intervals, files."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import betaincinv

RESULTS = Path(__file__).parent / "results"


def options(
    description: str | None,
    seed: int | None = None,
    repeats: int | None = None,
    quick: str | None = None,
    longest: int | None = None,
    problems: list[str] | None = None,
    parts: list[str] | None = None,
) -> argparse.Namespace:
    """Read the options of a study: processes; the others where it has them."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    if quick is not None:
        parser.add_argument("--quick", action="store_true", help=quick)
    if repeats is not None:
        parser.add_argument("--repeats", type=int, default=repeats)
    if longest is not None:
        parser.add_argument("--longest", type=int, default=longest, help="steps of the longest streams")
    if problems is not None:
        parser.add_argument("--problems", nargs="+", choices=problems, metavar="PROBLEM", help="these alone")
    if parts is not None:
        help = "these alone; the others stay as they are in the results"
        parser.add_argument("--parts", nargs="+", choices=parts, default=parts, metavar="PART", help=help)
    parser.add_argument("--processes", type=int, default=2)
    if seed is not None:
        parser.add_argument("--seed", type=int, default=seed)
    return parser.parse_args()


def partial_file(name: str) -> Path:
    """File of the finished jobs of a study that has not ended."""
    return RESULTS / f"{name}.partial.jsonl"


def coverage_cell(covered: list[bool], widths: list[float], **labels: Any) -> dict[str, Any]:
    """Summarise one cell: coverage with its exact binomial intervals, and the width."""
    n, k = len(covered), int(sum(covered))
    finite = np.array([w for w in widths if np.isfinite(w)])
    return labels | {
        "repeats": n,
        "covered": k,
        "coverage": k / n,
        "binomial_95": clopper_pearson(k, n, 0.95),
        "binomial_99.9": clopper_pearson(k, n, 0.999),
        "median_width": float(np.median(finite)) if finite.size else None,
        "infinite": n - finite.size,
    }


def clopper_pearson(k: int, n: int, level: float) -> tuple[float, float]:
    """Exact binomial interval for k successes of n."""
    tail = (1 - level) / 2
    lower = float(betaincinv(k, n - k + 1, tail)) if k > 0 else 0.0
    upper = float(betaincinv(k + 1, n - k, 1 - tail)) if k < n else 1.0
    return lower, upper


def write_results(name: str, content: dict[str, Any]) -> Path:
    """Write the study's JSON, a line an entry, and remove the file of its finished jobs."""
    path = RESULTS / f"{name}.json"
    path.write_text(_as_lines(content))
    partial_file(name).unlink(missing_ok=True)
    return path


def _as_lines(content: dict[str, Any]) -> str:
    entries = []
    for key, value in content.items():
        rows = [json.dumps(entry) for entry in value] if isinstance(value, list) else []
        body = "[\n  " + ",\n  ".join(rows) + "\n ]" if rows else json.dumps(value)
        entries.append(f"{json.dumps(key)}: {body}")
    return "{\n " + ",\n ".join(entries) + "\n}\n"
