"""What a release is made of: wheels that work without a compiler, extras on their page, licences, known weaknesses."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from importlib.metadata import distribution, distributions
from pathlib import Path
from typing import Any

import pytest

from release import extras, try_wheels, version, wheels

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
FOUND: dict[str, Any] = extras.result()


# The page of extras.


def test_the_page_is_what_the_result_gives() -> None:
    assert extras.page(FOUND) == extras.PAGE.read_text(), "run make pages"


def test_every_extra_is_on_the_page_with_what_it_asks_for() -> None:
    page = extras.PAGE.read_text()
    assert set(PROJECT["optional-dependencies"]) == set(FOUND["extras"]) == set(extras.USE)
    for name, packages in FOUND["extras"].items():
        assert f"| `{name}` | {extras.USE[name]} | {len(packages)} |" in page
        brought = {canonical(one["name"]) for one in (*packages, *FOUND["core"])}
        asked = {canonical(re.split(r"[\[<>=]", line)[0]) for line in extras.requirements(name)}
        assert asked <= brought, f"{name}: run make extras"


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_all_licences_are_allowed_or_known() -> None:
    assert extras.refused(FOUND["core"], "") == []
    for name, packages in FOUND["extras"].items():
        assert extras.refused(packages, name) == []
    assert extras.refused([{"name": "ale-py", "licence": "GPL-2.0-only"}], "gym") == ["ale-py: GPL-2.0-only"]


def test_the_package_is_small_and_all_brings_no_cuda() -> None:
    assert sum(one["bytes"] for one in FOUND["core"]) < 80e6
    assert len(FOUND["core"]) < 20
    cuda = re.compile(r"nvidia|cuda|cupti|triton|^torch")
    assert [one["name"] for one in FOUND["extras"]["all"] if cuda.search(one["name"].lower())] == []
    assert any(cuda.search(one["name"]) for one in FOUND["extras"]["torch"])


# What is installed, and what the registry says of it.


@pytest.mark.wheels
def test_what_is_installed_has_a_licence_that_is_allowed() -> None:
    """As on the page, unless the versions of constraints.txt have changed since."""
    listed = {canonical(one["name"]): one for some in (FOUND["core"], *FOUND["extras"].values()) for one in some}
    installed = {canonical(one.metadata["Name"]): one for one in distributions()} | {"inferl": distribution("inferl")}
    wrong = []
    for name, found in installed.items():
        said: Any = found.metadata  # a message, as those of mail
        metadata = {
            "license_expression": said.get("License-Expression"),
            "license": said.get("License"),
            "classifier": said.get_all("Classifier") or [],
        }
        known = listed.get(name, {}).get("licence")
        licence = extras.licence(metadata)
        one = {"name": name, "licence": known if licence == "unknown" and known else licence}
        wrong += extras.refused([one], "test-all")
    assert wrong == []
    assert len(installed) > 50


@pytest.mark.wheels
def test_the_registry_knows_of_no_weakness(tmp_path: Path) -> None:
    """By pip-audit, of what the package itself brings, and of what reads requests and files.

    A version that is known to be weak shows whether the registry answers such questions. If it does not, pip-audit ends
    well, having looked at nothing.
    """
    audited_extras = [one for extra in ("serve", "data", "report") for one in FOUND["extras"][extra]]
    pins = {canonical(one["name"]): one["version"] for one in (*FOUND["core"], *audited_extras)}
    assert {"numpy", "starlette", "uvicorn", "pyarrow", "jinja2"} <= set(pins)
    assert "flask" not in pins
    (tmp_path / "pins.txt").write_text("".join(f"{name}=={v}\n" for name, v in {**pins, "flask": "0.12"}.items()))
    command = [
        sys.executable,
        "-m",
        "pip_audit",
        "--progress-spinner=off",
        "--no-deps",
        "--disable-pip",
        "--format=json",
    ]
    done = subprocess.run([*command, "-r", str(tmp_path / "pins.txt")], capture_output=True, text=True, timeout=120)
    if not done.stdout:
        pytest.skip(f"pip-audit reaches no service: {done.stderr.strip().splitlines()[-1]}")
    audited = {canonical(one["name"]): one for one in json.loads(done.stdout)["dependencies"]}
    if "vulns" not in audited["flask"]:
        pytest.skip(f"the registry does not answer pip-audit: {audited['flask']['skip_reason']}")
    assert audited.pop("flask")["vulns"]
    assert {name: one.get("vulns", one) for name, one in audited.items() if one.get("vulns") != []} == {}
    assert set(audited) == set(pins)


# The version.


def test_all_places_name_one_version() -> None:
    assert version.places()["pyproject.toml"] == PROJECT["version"]
    assert version.disagreement(version.places(), f"v{PROJECT['version']}") is None


# Wheels.


def test_the_example_needs_no_extra() -> None:
    assert "inferl.Linear(1)" in try_wheels.example()
    assert not re.search("gymnasium|CartPole|pandas", try_wheels.example())


def stand_in(path: Path, code: str) -> Path:
    """A command that is no Python, or none that suits, as managers of versions make them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{code}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine whose PATH has a stand-in for Python 3.12 that does not start, and a pyenv without versions."""
    stand_in(tmp_path / "shims" / "python3.12", "exit 127")
    stand_in(tmp_path / "shims" / "python3.11", "exit 0")
    monkeypatch.setenv("PATH", f"{tmp_path / 'shims'}:{tmp_path / 'bin'}")
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "shims" / "python3.12"))
    return tmp_path


@pytest.mark.parametrize("place", ["bin", "pyenv/versions/3.12.9/bin"])
def test_a_newer_python_behind_a_stand_in_is_found(machine: Path, place: str) -> None:
    assert wheels.newer_python() is None
    real = stand_in(machine / place / "python3.12", "exit 0")
    assert wheels.newer_python() == str(real)


def test_a_python_suits_if_it_is_new_enough_and_has_its_headers() -> None:
    done = subprocess.run([sys.executable, "-c", wheels.SUITS])
    assert (done.returncode == 0) == (sys.version_info >= (3, 12))


def test_the_wheel_for_later_versions_is_not_left_out_in_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 11, 7))
    with pytest.raises(SystemExit, match="--without-newer"):
        wheels.choose(None)
    assert wheels.choose(None, without_newer=True) == [sys.executable]
    assert wheels.choose("newer") == [sys.executable, "newer"]


def test_trying_wheels_fails_without_the_one_for_later_versions(tmp_path: Path) -> None:
    if not wheels.on_linux():
        pytest.skip("compiled wheels are built on Linux x86_64")
    (tmp_path / "inferl-1-cp311-cp311-manylinux_2_17_x86_64.whl").touch()
    command = [sys.executable, "-m", "release.try_wheels", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode != 0
    assert "(abi3) is missing" in done.stderr


@pytest.mark.wheels
def test_a_wheel_works_where_there_is_no_compiler(tmp_path: Path) -> None:
    """The wheel for this Python, built and tried; its kernel computes the same numbers as that of this environment."""
    if not wheels.on_linux():
        pytest.skip("compiled wheels are built on Linux x86_64")
    made = wheels.build(tmp_path / "dist", [sys.executable])
    compiled, pure = (next(path for path in made if part in path.name) for part in ("manylinux", "-none-any"))
    assert any(path.name.endswith(".tar.gz") for path in made)
    found = try_wheels.attempt(compiled, sys.executable)
    script = tmp_path / "bits.py"
    script.write_text(try_wheels.BITS)
    here = try_wheels.read(subprocess.run([sys.executable, script], capture_output=True, text=True, check=True).stdout)
    assert list(found["bits"]) == list(here)
    assert "native generic" in here
    for kernel, numbers in here.items():
        assert found["bits"][kernel].numbers == pytest.approx(numbers.numbers, rel=1e-12), kernel
    assert pure.stat().st_size < compiled.stat().st_size < 2_000_000
