"""Rules, configuration and metrics before promtool; dashboard and alerts in a Prometheus that scrapes a server."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from deploying import DEPLOY, feed, needs_files, queries, tables
from serving import Server, free_port, served

pytestmark = [
    needs_files,
    pytest.mark.integrations,
    pytest.mark.skipif(shutil.which("promtool") is None, reason="there is no promtool (package prometheus)"),
]

FILES = DEPLOY / "prometheus"
TOKEN = "a token of the tests to read"
BY = {"shop": "anytime", "hours": "pointwise"}  # a window has no anytime interval


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("shop")
    with pytest.MonkeyPatch.context() as patch, served(folder, experiments=tables()) as server:
        feed(server)
        server.stop()
        patch.setenv("INFERL_READ_TOKEN", TOKEN)
        server.start()
        until(lambda: 'kind="anytime"' in metrics(server))
        yield server


def metrics(server: Server) -> str:
    return str(server.ask("GET", "/metrics", headers={"Authorization": f"Bearer {TOKEN}"})[1])


def until(done: Any, seconds: float = 30.0) -> Any:
    end = time.monotonic() + seconds
    while not (found := done()):
        assert time.monotonic() < end
        time.sleep(0.1)
    return found


def promtool(*words: str | Path, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["promtool", *map(str, words)], capture_output=True, text=True, timeout=60, **options)


def configuration(folder: Path, port: int) -> Path:
    """The configuration with another server, token and pace; the rules beside it."""
    text = (FILES / "prometheus.yml").read_text()
    (folder / "token").write_text(TOKEN)
    for old, new in (("/run/secrets/read-token", "token"), ("inferl:8000", f"127.0.0.1:{port}"), ("10s", "1s")):
        assert old in text
        text = text.replace(old, new)
    shutil.copy(FILES / "rules.yml", folder)
    (folder / "prometheus.yml").write_text(text)
    return folder / "prometheus.yml"


def test_configuration_and_rules_are_sound(tmp_path: Path) -> None:
    done = promtool("check", "config", configuration(tmp_path, 1))
    assert done.returncode == 0, done.stderr
    assert "3 rules found" in done.stdout
    assert promtool("check", "config", FILES / "prometheus.yml").returncode == 1  # the token is not here


def test_alerts_fire_when_they_should_and_not_otherwise(tmp_path: Path) -> None:
    done = promtool("test", "rules", FILES / "rules_test.yml")
    assert done.returncode == 0, done.stdout + done.stderr
    shutil.copy(FILES / "rules_test.yml", tmp_path)
    rules = (FILES / "rules.yml").read_text()
    changes = {"for: 10m": "for: 1m", "          < on": "          > on", "== 1\n        for": "== 0\n        for"}
    for old, new in changes.items():
        assert old in rules
        (tmp_path / "rules.yml").write_text(rules.replace(old, new, 1))
        assert promtool("test", "rules", tmp_path / "rules_test.yml").returncode == 1, old


def test_the_metrics_follow_the_rules_of_prometheus(server: Server) -> None:
    done = promtool("check", "metrics", input=metrics(server))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.fixture(scope="module")
def prometheus(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("prometheus")
    address = f"127.0.0.1:{free_port()}"
    command = ["prometheus", f"--config.file={configuration(folder, server.port)}", f"--web.listen-address={address}"]
    with (folder / "log.txt").open("w") as log:
        process = subprocess.Popen([*command, f"--storage.tsdb.path={folder / 'data'}"], stdout=log, stderr=log)
    try:
        ask = f"http://{address}/api/v1"
        until(lambda: answered(ask, "query", query="count(inferl_rows_total)"))
        time.sleep(2.5)  # rates need several samples
        yield ask
    finally:
        process.terminate()
        process.wait(30)


def answered(ask: str, path: str, **words: str) -> list[Any]:
    try:
        with urllib.request.urlopen(f"{ask}/{path}?{urllib.parse.urlencode(words)}", timeout=10) as answer:
            data = json.load(answer)["data"]
    except OSError:
        return []
    return list(data["result"] if "result" in data else data["alerts"])


def test_every_query_of_the_dashboard_has_an_answer(prometheus: str) -> None:
    asked = 0
    for query in queries():
        text = query.text.replace("$experiment", "shop").replace("$target", "value").replace("$__rate_interval", "1m")
        if (variable := re.fullmatch(r"label_values\((.*), \w+\)", text)) is not None:
            text = variable[1]
        if "== 1" in text or " < on" in text:  # conditions, which hold or not
            text = re.sub(r"== [01]", ">= 0", text).replace("< on", "> on")
        assert answered(prometheus, "query", query=text), text
        asked += 1
    assert asked > 15


def test_alerts_are_raised_by_what_the_server_says(prometheus: str) -> None:
    bounds = {
        (one["metric"]["experiment"], one["metric"].get("kind")): float(one["value"][1])
        for one in answered(prometheus, "query", query='{__name__=~"inferl_lower|inferl_threshold"}')
    }
    assert [name for name, kind in BY.items() if bounds[name, kind] < bounds[name, None]] == ["shop"]
    alerts = answered(prometheus, "alerts")
    below = {one["labels"]["experiment"] for one in alerts if one["labels"]["alertname"] == "InferlBelowThreshold"}
    assert below == {"shop"}
    assert all(one["state"] == "pending" for one in alerts)  # for ten minutes


def test_an_alert_is_raised_when_the_service_is_gone(prometheus: str, server: Server) -> None:
    def raised() -> set[str]:
        return {one["labels"]["alertname"] for one in answered(prometheus, "alerts")}

    assert "InferlNotEvaluating" not in raised()
    server.kill()
    until(lambda: "InferlNotEvaluating" in raised())
