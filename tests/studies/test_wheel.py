"""The wheel holds the package and no study: read from the configuration of the build, without building one."""

from __future__ import annotations

import ast
import io
import tomllib
import zipfile
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parents[2]
BUILD = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["scikit-build"]
LARGEST = 1_000_000  # bytes


def package_files() -> list[Path]:
    (package,) = BUILD["wheel"]["packages"]
    return [path for path in (ROOT / package).rglob("*") if path.is_file() and "__pycache__" not in path.parts]


def test_the_wheel_is_the_package() -> None:
    assert BUILD["wheel"]["packages"] == ["src/inferl"]
    assert set(BUILD["wheel"]) == {"packages", "py-api"}  # nothing else is put in
    installs = [line for line in (ROOT / "CMakeLists.txt").read_text().splitlines() if line.startswith("install(")]
    assert installs == ["install(TARGETS _native LIBRARY DESTINATION inferl/engine)"]
    studies = {path.parent.name for path in (ROOT / "studies").rglob("__init__.py")}
    assert not [path for path in package_files() if studies & set(path.relative_to(ROOT / "src").parts)]


def test_the_package_does_without_the_studies() -> None:
    for path in package_files():
        if path.suffix == ".py":
            for node in ast.walk(ast.parse(path.read_text())):
                named = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                named += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
                assert not [name for name in named if name.split(".")[0] == "studies"], path


def test_the_wheel_is_small() -> None:
    compiled = find_spec("inferl.engine._native")
    files = [*package_files(), *([Path(compiled.origin)] if compiled and compiled.origin else [])]
    wheel = io.BytesIO()
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for number, path in enumerate(files):
            archive.write(path, f"{number}-{path.name}")
    assert len(wheel.getvalue()) < LARGEST
