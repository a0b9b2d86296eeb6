"""The guide's commands for a shell: what curl sends, with the settings of the page, is answered as the page says."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import fields
from pathlib import Path

import pytest
from serving import in_this_process

from inferl.cli.serve import question
from inferl.service.settings import Limits, Settings

GUIDE = Path(__file__).parents[2] / "docs/guides/service.md"

pytestmark = pytest.mark.skipif(not GUIDE.exists(), reason="an installed package has no documentation")


def blocks(*kinds: str) -> list[tuple[str, str]]:
    """The blocks of the page of these kinds, each with its kind."""
    found = re.findall(r"^```(\w+)\n(.*?)^```", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    return [(kind, text) for kind, text in found if kind in kinds]


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
def test_what_curl_sends_is_answered_as_the_page_says(tmp_path: Path) -> None:
    shown = blocks("sh", "json")
    asked = [i for i, (kind, text) in enumerate(shown) if kind == "sh" and text.startswith("curl")]
    (start,) = (text for kind, text in shown if kind == "sh" and "cat > service.toml" in text)
    experiments = start.partition("<<'END'\n")[2].partition("END\n")[0]
    with in_this_process(tmp_path, experiments) as (_, server):
        for i in asked:
            command = shown[i][1].replace("localhost:8000", f"127.0.0.1:{server.port}")
            done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60)
            assert json.loads(done.stdout) == json.loads(shown[i + 1][1])
    assert len(asked) == 2


def test_the_settings_of_the_page_are_settings(tmp_path: Path) -> None:
    whole, hook = (text for _, text in blocks("toml"))
    path = tmp_path / "service.toml"
    path.write_text(f"{whole}\n{hook}")
    settings = Settings.read(path, question)
    assert list(settings.experiments) == ["shop", "robots"]
    assert len(settings.webhooks) == 1


def test_the_limits_of_the_page_are_those_of_the_server() -> None:
    said = dict(re.findall(r"^\| `(\w+)` \| (\d+) \|", GUIDE.read_text(), re.MULTILINE))
    assert {name: int(value) for name, value in said.items()} == {f.name: f.default for f in fields(Limits)}


def test_the_metrics_of_the_page_are_those_of_the_server() -> None:
    from inferl.service import metrics

    table = GUIDE.read_text().partition("| metric | labels")[2].partition("\n\n")[0]
    said = set(re.findall(r"`(inferl_\w+)`", table))
    made = set(re.findall(r'"(inferl_\w+)"', Path(str(metrics.__file__)).read_text()))
    assert said <= made
    assert made - said == {"inferl_build_info", "inferl_event_streams", "inferl_snapshot_timestamp_seconds"} | {
        "inferl_start_time_seconds"
    }
