"""Mutation testing of the core: `python -m studies.reliability.mutants --sample 100`; a sample of 0 takes all mutants.

A mutant is a module with one change: another comparison, operator, number or truth value, or a condition that is
negated. The tests of the module must notice it. Mutants that no test notices, the survivors, are listed: each is a line
without a test, or one whose change makes no difference. No file is changed: a process of its own imports the changed
module in place of the sound one, and runs the tests.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import importlib.abc
import importlib.machinery
import importlib.util
import json
import multiprocessing
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from studies.provenance import ROOT

__all__ = ["OUTCOMES", "TESTS", "Mutant", "mutants_of", "outcome"]

OUTCOMES = ("killed", "survived", "too long", "no test")
PATIENCE = 120.0  # seconds that the tests of one mutant may take
# The modules, by their paths, and what tests them.
TESTS: dict[str, tuple[str, ...]] = {
    "src/inferl/interval.py": ("tests/test_interval.py", "tests/test_comparison.py"),
    "src/inferl/evaluator.py": ("tests/test_evaluator.py",),
    "src/inferl/methods/bootstrap.py": ("tests/methods/test_bootstrap.py",),
    "src/inferl/methods/linear_system.py": ("tests/methods/test_least_squares.py", "tests/test_merging.py"),
    **{
        f"src/inferl/variance/{name}.py": (*tests, "tests/methods/test_least_squares.py")
        for name, tests in {
            "batch_means": ("tests/variance/test_long_run.py",),
            "episode_sums": ("tests/variance/test_episode_sums.py", "tests/variance/test_episodes.py"),
            "first_epoch": ("tests/variance/test_first_epoch.py",),
            "kurtosis": ("tests/variance/test_kurtosis.py",),
            "long_run": ("tests/variance/test_long_run.py",),
            "mixing": ("tests/variance/test_mixing.py",),
            "segments": ("tests/variance/test_segments.py",),
        }.items()
    },
}
COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Div, ast.Mod: ast.Mult,
    ast.Pow: ast.Mult, ast.MatMult: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """One change of a module."""

    path: str
    line: int
    before: str
    after: str
    place: int  # of the node among those of the module
    number: int  # among the changes of that node

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.before} -> {self.after}"

    def tree(self) -> ast.Module:
        """Return the module with this change. It is made when it is asked for: trees of all mutants fill a memory."""
        tree = ast.parse((ROOT / self.path).read_text())
        _change(list(ast.walk(tree))[self.place], self.number)
        return tree


def mutants_of(path: str, text: str) -> list[Mutant]:
    r"""Return all mutants of a module.

    >>> [str(one) for one in mutants_of("m.py", "def f(x):\n    return x < 2")]
    ['m.py:2: x < 2 -> x <= 2', 'm.py:2: 2 -> 3']
    """
    nodes = list(ast.walk(ast.parse(text)))
    quiet = {id(inner) for node in nodes for inner in _said(node)}
    found = []
    for place, node in enumerate(nodes):
        for number in range(0 if id(node) in quiet else len(list(_changes(node)))):
            changed = copy.deepcopy(node)
            _change(changed, number)
            before, after = ast.unparse(node)[:80], ast.unparse(changed)[:80]
            found.append(Mutant(path, getattr(node, "lineno", 0), before, after, place, number))
    return found


def _change(node: ast.AST, number: int) -> None:
    """Make the change with this number, in place."""
    list(_changes(node))[number]()


def _said(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what only says something: annotations, and the messages of errors."""
    parts: list[ast.AST | None] = []
    if isinstance(node, ast.FunctionDef):
        arguments = node.args
        parts += [node.returns, *(one.annotation for one in (*arguments.args, *arguments.kwonlyargs))]
    if isinstance(node, ast.AnnAssign):
        parts.append(node.annotation)
    if isinstance(node, ast.Raise | ast.JoinedStr):
        parts.append(node)
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        parts.append(node)
    for part in parts:
        yield from ast.walk(part) if part is not None else ()


def _changes(node: ast.AST) -> Iterator[Any]:
    """Yield functions that change a node in place, one for each of its mutants."""
    if isinstance(node, ast.Compare):
        for place, operator in enumerate(node.ops):
            yield lambda place=place, operator=operator: node.ops.__setitem__(place, COMPARISONS[type(operator)]())
    elif isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in OPERATORS:
        yield lambda: setattr(node, "op", OPERATORS[type(node.op)]())
    elif isinstance(node, ast.BoolOp):
        yield lambda: setattr(node, "op", ast.Or() if isinstance(node.op, ast.And) else ast.And())
    elif isinstance(node, ast.If | ast.While | ast.IfExp):
        yield lambda: setattr(node, "test", ast.fix_missing_locations(
            ast.copy_location(ast.UnaryOp(ast.Not(), node.test), node.test)))  # fmt: skip
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield lambda: setattr(node, "value", not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        yield lambda: setattr(node, "value", node.value + 1)


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports a mutant where its module is asked for."""

    def __init__(self, mutant: Mutant) -> None:
        self.mutant = mutant
        self.name = mutant.path.removeprefix("src/").removesuffix(".py").replace("/", ".")

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != self.name:
            return None
        return importlib.util.spec_from_file_location(name, ROOT / self.mutant.path, loader=self)

    def exec_module(self, module: ModuleType) -> None:
        exec(compile(self.mutant.tree(), str(ROOT / self.mutant.path), "exec"), module.__dict__)


def _test(mutant: Mutant | None, tests: Sequence[str], answer: Any) -> None:
    """Run the tests with a mutant, in a process that was forked for it; None: with the sound module."""
    import pytest

    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
        if mutant is not None:
            sys.meta_path.insert(0, _Finder(mutant))
        code = pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-m", "not torch", *tests])
    answer.send(int(code))


def outcome(mutant: Mutant | None, tests: Sequence[str], patience: float = PATIENCE) -> str:
    """Return what the tests make of a mutant: "killed", "survived", "too long" or "no test"."""
    context = multiprocessing.get_context("fork")
    receive, send = context.Pipe(duplex=False)
    process = context.Process(target=_test, args=(mutant, tests, send))
    process.start()
    send.close()
    code = None
    with contextlib.suppress(EOFError):
        code = receive.recv() if receive.poll(patience) else -1
    process.kill()
    process.join()
    return {0: "survived", -1: "too long", 5: "no test"}.get(code if code is not None else 1, "killed")


def main() -> None:
    """Try mutants, print what became of them, and exit with 1 if the tests fail without one."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sample", type=int, default=0, help="so many mutants, drawn at random; 0: all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--module", action="append", choices=list(TESTS), help="of this module; default: of all")
    asked = parser.parse_args()
    # What takes long to import, and is not tried itself: every process is forked from here.
    import numpy  # noqa: F401
    import pytest  # noqa: F401
    import scipy.linalg
    import scipy.stats  # noqa: F401

    assert "inferl" not in sys.modules, "a module that is imported already cannot be replaced"
    os.chdir(ROOT)
    modules = asked.module or list(TESTS)
    found = [mutant for path in modules for mutant in mutants_of(path, (ROOT / path).read_text())]
    drawn = random.Random(asked.seed).sample(found, asked.sample) if 0 < asked.sample < len(found) else found
    for path in modules:
        if outcome(None, TESTS[path]) != "survived":
            sys.exit(f"the tests of {path} fail, or take too long, without any mutant")
    counts: Counter[str] = Counter()
    survivors = []
    for number, mutant in enumerate(drawn, 1):
        begin = time.monotonic()
        what = outcome(mutant, TESTS[mutant.path])
        counts[what] += 1
        survivors += [str(mutant)] if what == "survived" else []
        print(f"{number}/{len(drawn)} {what} in {time.monotonic() - begin:.1f} s: {mutant}", flush=True)
    counted = {name: counts[name] for name in OUTCOMES}
    assert sum(counted.values()) == len(drawn)
    print(json.dumps({"mutants": len(found), "tried": len(drawn), **counted, "survivors": survivors}))


if __name__ == "__main__":
    main()
