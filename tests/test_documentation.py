"""The documentation: its commands run, it names every public name, and every public name has an example."""

from __future__ import annotations

import ast
import doctest
import inspect
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from processes import ended
from typer.testing import CliRunner

import inferl
from inferl.cli import app
from inferl.diagnostics import CONCERNS
from inferl.report.text import QUESTIONS

DOCS = Path(__file__).parents[1] / "docs"
PAGES = sorted(path for path in DOCS.rglob("*.md") if "_build" not in path.parts)
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE

pytestmark = pytest.mark.skipif(not PAGES, reason="the documentation is not part of an installed package")


def commands(page: Path) -> list[tuple[str, str]]:
    """The commands of a page's consoles, with what they are said to print."""
    blocks = re.findall(r"^```console\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    return [(line.partition("\n")[0], line.partition("\n")[2]) for b in blocks for line in b.split("$ ")[1:]]


@pytest.mark.parametrize(
    "page", [page for page in PAGES if commands(page)], ids=lambda page: str(page.relative_to(DOCS))
)
def test_commands_print_what_the_page_says(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In order, in one folder, after the page's Python examples: those write files that commands read."""
    monkeypatch.chdir(tmp_path)
    test = doctest.DocTestParser().get_doctest(page.read_text(), {}, page.name, str(page), 0)
    with ended():
        assert doctest.DocTestRunner(optionflags=FLAGS).run(test).failed == 0
    for command, expected in commands(page):
        program, *words = shlex.split(command)
        assert program == "inferl"
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 0, f"{command}\n{result.output}"
        assert doctest.OutputChecker().check_output(expected, result.stdout, FLAGS), f"{command}\n{result.stdout}"


# The reference.

# Subclasses of classes of theirs, so imported by name only.
NEEDS_A_LIBRARY = {"integrations.sb3.ClientCallback", "integrations.sb3.EvalCallback"}


def public() -> Iterator[tuple[str, Any]]:
    """All that may be imported from inferl and from its public modules, with their names."""
    for name in inferl.__all__:
        thing = getattr(inferl, name)
        if isinstance(thing, ModuleType):
            yield from ((f"{name}.{inner}", getattr(thing, inner)) for inner in thing.__all__)
        yield name, thing


def test_no_property_is_said_to_have_a_type_that_is_a_sentence() -> None:
    """The reference takes what comes before a colon, in the first line of a property, for its type."""
    split = set()
    for name, thing in public():
        for inner, member in inspect.getmembers(thing) if inspect.isclass(thing) else ():
            # A cached property has its function elsewhere.
            function = getattr(member, "fget", None) or getattr(member, "func", None)
            ours = (getattr(function, "__module__", None) or "").startswith("inferl")
            first = (inspect.getdoc(function) or "").partition("\n")[0]
            if ours and re.search(r":\s", re.sub(r"`[^`]*`", "", first)):
                split.add(f"{name}.{inner}: {first}")
    assert split == set()


def test_the_reference_names_every_public_name() -> None:
    """Once on the page of its group and, unless it is a module with a page of its own, in a table of the first page."""
    pages = "\n".join(path.read_text() for path in sorted((DOCS / "api").glob("*.md")))
    said = re.findall(r"^\.\. auto\w+:: inferl\.(\S+)$", pages, re.MULTILINE)
    assert sorted(said) == sorted({name for name, _ in public()} | NEEDS_A_LIBRARY)
    listed = re.findall(r"^   ~inferl\.(\S+)$", (DOCS / "api.md").read_text(), re.MULTILINE)
    groups = {name for name in inferl.__all__ if isinstance(getattr(inferl, name), ModuleType)}
    assert sorted(listed) == sorted({name for name, _ in public()} - groups | NEEDS_A_LIBRARY)


def test_every_public_name_has_an_example() -> None:
    """All that can be called; of the exceptions, their module shows one."""
    shown = [(name, thing) for name, thing in public() if callable(thing) or thing is inferl.errors]
    shown = [(name, thing) for name, thing in shown if not (isinstance(thing, type) and issubclass(thing, Exception))]
    assert len(shown) > 50
    assert [name for name, thing in shown if ">>> " not in (inspect.getdoc(thing) or "")] == []


def test_the_drawn_layers_are_those_of_the_linter() -> None:
    """docs/design.md shows what import-linter checks, layer by layer, and names every module in its layout."""
    project = tomllib.loads((DOCS.parent / "pyproject.toml").read_text())
    contract = next(c for c in project["tool"]["importlinter"]["contracts"] if c["id"] == "layers")
    checked = [layer.replace("(", "").replace(")", "") for layer in contract["layers"] if "__main__" not in layer]
    page = (DOCS / "design.md").read_text()
    drawn = page.partition("## Who imports whom")[2].partition("Two more contracts")[0]
    assert [line.strip() for line in drawn.splitlines() if line.startswith("    ")] == checked
    layout = page.partition("## Layout")[2].partition("## Who imports whom")[0]
    modules = [module for layer in checked for module in re.split(" [|:] ", layer)]
    assert [module for module in modules if not re.search(rf"\b{module}(\.py|/)", layout)] == []


# The checks.


def names_of_checks() -> dict[str, str]:
    """The names of all checks that the code makes, each with a function that makes it."""
    found: dict[str, str] = {}
    for path in (DOCS.parent / "src" / "inferl").rglob("*.py"):
        for function in ast.walk(ast.parse(path.read_text())):
            if isinstance(function, ast.FunctionDef):
                texts = dict(texts_in(function))
                for call in ast.walk(function):
                    if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "Check":
                        name = call.args[0]
                        text = name.value if isinstance(name, ast.Constant) else texts.get(ast.unparse(name))
                        found[str(text)] = f"{path.name}: {function.name}"
    return found


def texts_in(function: ast.FunctionDef) -> Iterator[tuple[str, Any]]:
    """Yield the names in a function that stand for a text: name = "length", or name, n = "length", 3."""
    for node in ast.walk(function):
        if isinstance(node, ast.Assign):
            to, value = node.targets[0], node.value
            several = isinstance(to, ast.Tuple) and isinstance(value, ast.Tuple)
            for one, text in zip(to.elts, value.elts, strict=False) if several else [(to, value)]:  # type: ignore[attr-defined]
                if isinstance(text, ast.Constant):
                    yield ast.unparse(one), text.value


def test_every_check_has_a_section_and_a_question() -> None:
    found = names_of_checks()
    assert found.pop("None") == "following.py: _failed"  # takes the name from a note, so it makes no check of its own
    assert {"length", "ratios", "dropped rewards", "propensities", "randomness"} <= set(found)
    assert set(CONCERNS) <= set(found)
    page = (DOCS / "checks.md").read_text()
    sections = set(re.findall(r"^## (.+)$", page, re.MULTILINE)) - {"Notes of baselines"}
    assert sections == set(found)
    assert set(re.findall(r"^\| \[([a-z ]+)\]", page, re.MULTILINE)) == set(found)
    assert set(QUESTIONS) == set(found)


# The gallery.


def test_every_picture_of_the_gallery_leads_to_a_page_that_has_it() -> None:
    found = re.findall(r"\{figure\} (\S+)\n:alt: .*\n:target: (\S+)\.html", (DOCS / "gallery.md").read_text())
    assert len(found) > 10
    for picture, target in found:
        assert Path(picture).name in (DOCS / f"{target}.md").read_text(), f"{picture} is not on {target}"


def test_the_extra_all_leaves_the_build_of_torch_to_the_user() -> None:
    """By default pip takes a build of 6 GB for CUDA, and an extra cannot choose another."""
    extras = tomllib.loads((DOCS.parent / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    (everything,) = extras["all"]
    named = everything.removeprefix("inferl[").removesuffix("]").split(",")
    assert set(named) == {"gym", "data", "fit", "remote", "plot", "report", "atari", "kafka", "redis", "serve"}
    assert not any("torch" in line for name in named for line in extras[name])
