"""The workflows are sound YAML, and what they name is there: make targets, files, extras, markers."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))

pytestmark = pytest.mark.skipif(not WORKFLOWS, reason="the workflows are not part of an installed package")


def steps(workflow: Path) -> Iterator[dict[str, Any]]:
    """The steps of all jobs."""
    for job in yaml.safe_load(workflow.read_text())["jobs"].values():
        yield from job.get("steps", [])  # none in a job that calls another workflow


def commands(workflow: Path) -> list[str]:
    """The commands of all steps."""
    return [line for step in steps(workflow) for line in step.get("run", "").splitlines()]


def prerequisites(target: str) -> list[str]:
    """What a target of the Makefile needs, phony ones included."""
    found = re.search(rf"^{target}:([^#\n]*)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert found, f"the Makefile has no target {target}"
    return found[1].split()


def test_there_are_the_usual_workflows() -> None:
    assert {path.stem for path in WORKFLOWS} == {"tests", "docs", "release"}


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_has_what_it_needs(workflow: Path) -> None:
    parsed = yaml.safe_load(workflow.read_text())
    assert parsed["permissions"] == {"contents": "read"}  # more is asked for by the job that needs it
    assert True in parsed  # YAML reads "on" as a truth value
    jobs = parsed["jobs"]
    for job in jobs.values():
        assert {"runs-on", "steps", "timeout-minutes"} <= set(job) or (ROOT / job["uses"]).exists()
        assert needs(job) <= set(jobs)
        assert all(("run" in step) != ("uses" in step) for step in job.get("steps", []))


def needs(job: dict[str, Any]) -> set[str]:
    """The jobs that one waits for."""
    named = job.get("needs", [])
    return {named} if isinstance(named, str) else set(named)


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_runners_exist_and_actions_cannot_be_moved(workflow: Path) -> None:
    """GitHub retired macOS 13 in December 2025; a tag or a branch of an action is whatever its owner says today."""
    text = workflow.read_text()
    assert not re.search(r"macos-1[0-4]|ubuntu-2[02]\.04|windows-2019", text)
    for named in re.findall(r"uses: (\S+/\S+@.*)", text):
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}  # v\d+\.\d+\.\d+(;.*)?", named), named


def test_nothing_is_published_before_the_tests_pass_and_the_tag_is_checked() -> None:
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text())["jobs"]
    assert needs(jobs["publish"]) == set(jobs) - {"publish"}
    assert jobs["tests"]["uses"] == "./.github/workflows/tests.yml"
    called = yaml.safe_load((ROOT / ".github" / "workflows" / "tests.yml").read_text())
    assert "workflow_call" in called[True]
    assert any("release.version" in step.get("run", "") for step in jobs["version"]["steps"])


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_every_make_target_exists_and_runs_locally_too(workflow: Path) -> None:
    targets = [target for line in commands(workflow) for target in re.findall(r"\bmake ([a-z-]+)", line)]
    assert targets
    for target in targets:
        prerequisites(target)
    assert set(targets) <= set(prerequisites("ci-local"))


def test_the_matrix_tests_every_python_that_is_promised() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    promised = [one.rpartition(" :: ")[2] for one in project["classifiers"] if re.search(r"Python :: 3\.\d+$", one)]
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "tests.yml").read_text())["jobs"]
    assert jobs["matrix"]["strategy"]["matrix"]["python"] == promised
    assert [system.partition("-")[0] for system in jobs["matrix"]["strategy"]["matrix"]["system"]] == [
        "ubuntu", "macos", "windows"
    ]  # fmt: skip


def test_the_matrix_leaves_out_what_make_test_leaves_out() -> None:
    (command,) = [line for line in commands(ROOT / ".github" / "workflows" / "tests.yml") if "pytest" in line]
    marked = re.search(r"^MARKED = (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert marked
    assert f'-m "not ({marked[1]})"' in command
    options = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    assert {one.partition(":")[0] for one in options["markers"]} == set(marked[1].split(" or "))


def test_the_matrix_installs_known_versions_and_asks_for_the_kernel() -> None:
    """Warnings are errors in the tests; and a wheel without the kernel would pass them."""
    workflow = ROOT / ".github" / "workflows" / "tests.yml"
    (install,) = [line for line in commands(workflow) if "pip install" in line]
    assert "-c constraints.txt" in install
    job = yaml.safe_load(workflow.read_text())["jobs"]["matrix"]
    assert job["env"]["INFERL_REQUIRE_NATIVE"] == "${{ matrix.system == 'windows-2022' && '0' || '1' }}"


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_files_and_extras_that_are_named_exist(workflow: Path) -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for step in steps(workflow):
        path = step.get("with", {}).get("cache-dependency-path")
        assert path is None or (ROOT / path).exists()
    for line in commands(workflow):
        for named in re.findall(r'"\.\[([a-z,-]+)\]"', line):
            assert set(named.split(",")) <= set(extras)
        words = line.split() if "pytest" in line else []
        assert all((ROOT / word).exists() for word in words[-2:])


@pytest.mark.parametrize("form", [form for form in FORMS if form.stem != "config"], ids=lambda path: path.stem)
def test_an_issue_form_asks_something(form: Path) -> None:
    parsed = yaml.safe_load(form.read_text())
    assert {"name", "description", "body"} <= set(parsed)
    asked = [part for part in parsed["body"] if part["type"] != "markdown"]
    assert len({part["id"] for part in asked}) == len(asked) > 0
    assert any(part.get("validations", {}).get("required") for part in asked)


@pytest.mark.parametrize("name", ["CONTRIBUTING.md", "CODE_OF_CONDUCT.md", "SECURITY.md"])
def test_links_and_commands_for_contributors_lead_somewhere(name: str) -> None:
    text = (ROOT / name).read_text()
    for link in re.findall(r"\]\(([^)#\s]+)", text):
        assert link.startswith("https://") or (ROOT / link).exists(), link
    for target in re.findall(r"^    make ([a-z-]+)|`make ([a-z-]+)", text, re.MULTILINE):
        prerequisites("".join(target))
    for path in re.findall(r"`((?:tests|studies|docs|src|release)/[^`*]*)`", text):
        assert (ROOT / path).exists(), path
