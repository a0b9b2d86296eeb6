"""The unit before systemd itself: every line is understood, and what is left open to the service is little."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from deploying import DEPLOY, needs_files

pytestmark = [
    needs_files,
    pytest.mark.integrations,
    pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze (package systemd)"),
]


def verified(unit: str, root: Path) -> str:
    """What systemd says about a unit in a file system that has its program."""
    program = root / "opt/inferl/bin/inferl"
    program.parent.mkdir(parents=True)
    program.touch(0o755)
    shutil.copytree("/lib/systemd/system", root / "lib/systemd/system", symlinks=True)
    path = root / "etc/systemd/system/inferl.service"
    path.parent.mkdir(parents=True)
    path.write_text(unit)
    command = ["systemd-analyze", "verify", f"--root={root}", "etc/systemd/system/inferl.service"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    return f"{done.stdout}{done.stderr}" + ("" if done.returncode == 0 else f"exit code {done.returncode}")


def test_the_unit_is_sound(tmp_path: Path) -> None:
    unit = (DEPLOY / "inferl.service").read_text()
    assert verified(unit, tmp_path / "sound") == ""
    assert "Unknown key 'ProtectClok'" in verified(unit.replace("ProtectClock", "ProtectClok"), tmp_path / "misspelt")
    assert "not executable" in verified(unit.replace("/opt/inferl/bin", "/opt/inferl/sbin"), tmp_path / "misplaced")


def test_the_unit_leaves_little_open() -> None:
    command = ["systemd-analyze", "security", "--offline=yes", "--no-pager", str(DEPLOY / "inferl.service")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    (exposure,) = re.findall(r"Overall exposure level for inferl.service: ([\d.]+)", done.stdout)
    assert float(exposure) < 2  # of 10; a unit without such lines has 9.6
