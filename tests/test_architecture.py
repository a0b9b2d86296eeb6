"""The house keeps to its plan: protocols instead of unions, few modules at the top, no file too long."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from statistics import median

import pytest

SRC = Path(__file__).parents[1] / "src" / "inferl"
MODULES = sorted(SRC.rglob("*.py"))

# Classes behind the three protocols, and the files that may tell them apart: their own.
SOLVED = ("LeastSquares", "LeastSquaresState", "LeastSquaresReading")
WALKED = ("OnlineBootstrap", "BootstrapState", "BootstrapReading")
METHODS = dict.fromkeys((*SOLVED, *WALKED), "methods")
SOURCES = dict.fromkeys(("Table", "Rollout", "Play", "VectorPlay", "MinariDataset", "EvaluatorWrapper"), "sources")
BACKENDS = dict.fromkeys(("native", "reference"), "engine")


def asked_for(tree: ast.AST) -> list[str]:
    """Names of the classes that `isinstance`, `issubclass` and patterns of `match` ask for."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("isinstance", "issubclass"):
            inner = [one for one in ast.walk(node.args[1]) if isinstance(one, ast.Name | ast.Attribute)]
            found += [one.id if isinstance(one, ast.Name) else one.attr for one in inner]
        if isinstance(node, ast.MatchClass) and isinstance(node.cls, ast.Name):
            found.append(node.cls.id)
    return found


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SRC)))
def test_no_class_behind_a_protocol_is_asked_for(path: Path) -> None:
    package = path.relative_to(SRC).parts[0]
    homes = METHODS | SOURCES | BACKENDS
    assert [name for name in asked_for(ast.parse(path.read_text())) if homes.get(name, package) != package] == []


def test_the_search_finds_what_it_should() -> None:
    code = "isinstance(x, a.LeastSquares | int)\nmatch x:\n    case Table(): pass\nissubclass(y, (Rollout, str))"
    assert asked_for(ast.parse(code)) == ["LeastSquares", "int", "a", "Rollout", "str", "Table"]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SRC)))
def test_backends_are_known_to_the_engine_alone(path: Path) -> None:
    if path.relative_to(SRC).parts[0] != "engine":
        assert not re.search(r"inferl\.engine(\.| import .*\b)(native|reference)\b", path.read_text())


def test_few_modules_at_the_top_and_none_too_long() -> None:
    assert len(list(SRC.glob("*.py"))) <= 10
    lengths = {str(path.relative_to(SRC)): len(path.read_text().splitlines()) for path in MODULES}
    assert {name: length for name, length in lengths.items() if length > 600} == {}
    assert 80 <= median(lengths.values()) <= 250
