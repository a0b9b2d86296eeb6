"""The deployment files: names of metrics, labels, files, ports, services and settings exist where they are used."""

from __future__ import annotations

import json
import re
import shlex
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from deploying import DEPLOY, ROOT, Query, feed, needs_files, queries, tables
from prometheus_client.parser import text_string_to_metric_families
from serving import in_this_process
from typer.main import get_command
from typer.testing import CliRunner

from inferl.cli import app

pytestmark = needs_files

ADDED = {"job", "instance"}  # by Prometheus, to all series


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, dict[str, set[str]]]]:
    """What a server says at /metrics: metric -> label -> values."""
    with in_this_process(tmp_path_factory.mktemp("shop"), tables()) as (_, server):
        feed(server)
        found: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
        for family in text_string_to_metric_families(server.ask("GET", "/metrics")[1]):
            for sample in family.samples:
                labels = found[sample.name]
                for label, value in sample.labels.items():
                    labels[label].add(value)
        yield dict(found)


def compose() -> Any:
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text())


@pytest.mark.parametrize("query", queries() if DEPLOY.is_dir() else [], ids=lambda query: query.text[:40])
def test_metrics_and_labels_are_served(query: Query, served: dict[str, dict[str, set[str]]]) -> None:
    known: set[str] = set(ADDED)
    assert query.selectors
    for metric, labels in query.selectors:
        if metric == "up":  # made by Prometheus
            continue
        assert metric in served
        known |= set(served[metric])
        for label, _, value in labels:
            assert label in set(served[metric]) | ADDED
            assert value.startswith("$") or value in served[metric][label], (metric, label, value)
    if query.text.startswith("label_values"):
        known -= ADDED
        query.others |= set(re.findall(r", (\w+)\)$", query.text))
    assert query.others <= known


def test_texts_name_labels_that_the_alerts_have(served: dict[str, dict[str, set[str]]]) -> None:
    rules = yaml.safe_load((DEPLOY / "prometheus/rules.yml").read_text())
    alerts = {rule["alert"]: rule for group in rules["groups"] for rule in group["rules"]}
    assert set(alerts) == {"InferlBelowThreshold", "InferlCheckFailed", "InferlNotEvaluating"}
    for rule in alerts.values():
        metrics = [metric for metric, _ in Query(rule["expr"]).selectors if metric != "up"]
        labels = ADDED.union(*(served[metric] for metric in metrics))
        named = set(re.findall(r"\$labels\.(\w+)", json.dumps(rule["annotations"])))
        assert named
        assert named <= labels


def test_the_dashboard_has_its_panels_and_bands() -> None:
    board = json.loads((DEPLOY / "grafana/dashboards/inferl.json").read_text())
    panels = {panel["title"]: panel for panel in board["panels"]}
    assert {"Estimate and interval", "Checks", "Rows a second", "Not yet evaluated"} <= set(panels)
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    places = [panel["gridPos"] for panel in board["panels"]]
    cells = [(x, y) for p in places for x in range(p["x"], p["x"] + p["w"]) for y in range(p["y"], p["y"] + p["h"])]
    assert len(set(cells)) == len(cells)  # none lies on another
    assert max(x for x, _ in cells) < 24
    band = panels["Estimate and interval"]
    legends = {target["legendFormat"]: target["expr"] for target in band["targets"]}
    changed = {}
    for override in band["fieldConfig"]["overrides"]:
        name = override["matcher"]["options"]
        assert any(re.fullmatch(name, legend.replace("{{number}}", "2")) for legend in legends)
        changed[name] = {one["id"]: one["value"] for one in override["properties"]}
    filled = {name: ids["custom.fillBelowTo"] for name, ids in changed.items() if "custom.fillBelowTo" in ids}
    assert filled == {"anytime upper": "anytime lower", "one look upper": "one look lower"}
    for upper, lower in filled.items():
        assert legends[upper].startswith("inferl_upper")
        assert legends[lower].startswith("inferl_lower")
        kinds = [re.findall(r'kind="(\w+)"', legends[side]) for side in (upper, lower)]
        assert kinds[0] == kinds[1]
        assert changed[upper]["custom.fillOpacity"] > 0
    variables = {variable["name"] for variable in board["templating"]["list"]}
    assert set(re.findall(r"\$\{?([a-z]\w*)", json.dumps(board))) == variables


def test_the_example_of_settings_is_sound() -> None:
    done = CliRunner().invoke(app, ["serve", str(DEPLOY / "service.toml"), "--check"])
    assert done.exit_code == 0, done.output
    assert "folder: /var/lib/inferl\n" in done.output
    assert "shop: " in done.output


def test_files_and_names_that_the_compose_file_uses_exist() -> None:
    found = compose()
    services = found["services"]
    for name, service in services.items():
        for volume in service.get("volumes", []):
            source, inside, *_ = volume.split(":")
            assert inside.startswith("/")
            assert (DEPLOY / source).exists() if source.startswith(".") else source in found["volumes"], volume
        assert set(service.get("secrets", [])) <= set(found["secrets"])
        assert set(service.get("depends_on", [])) <= set(services)
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", [])), name
    build = services["inferl"]["build"]
    assert (DEPLOY / build["context"] / build["dockerfile"]).samefile(DEPLOY / "Dockerfile")
    assert services["stream"]["image"] == services["inferl"]["image"]  # which is built
    required = set(re.findall(r"\$\{(\w+):\?", (DEPLOY / "compose.yaml").read_text()))
    assert required == {"INFERL_READ_TOKEN", "INFERL_WRITE_TOKEN"}
    assert {secret["environment"] for secret in found["secrets"].values()} <= required
    for name in ("inferl", "stream"):  # nothing but the volume is written to
        assert services[name]["read_only"] is True
        assert services[name]["cap_drop"] == ["ALL"]
        assert "journal:/var/lib/inferl" in services[name]["volumes"]
    images = {service["image"] for service in services.values()} - {"inferl"}
    assert all(re.search(r":v?\d", image) for image in images)  # a version, not the latest


def ports_inside(service: Any) -> set[str]:
    return {port.rpartition(":")[2] for port in service["ports"]}


def test_services_find_each_other() -> None:
    services = compose()["services"]
    prometheus = yaml.safe_load((DEPLOY / "prometheus/prometheus.yml").read_text())
    (job,) = prometheus["scrape_configs"]
    assert job["job_name"] == "inferl"  # of which the alerts ask
    ((host, port),) = (target.split(":") for each in job["static_configs"] for target in each["targets"])
    assert port in ports_inside(services[host])
    assert job["authorization"]["credentials_file"] == f"/run/secrets/{services['prometheus']['secrets'][0]}"
    assert [(DEPLOY / "prometheus" / name).exists() for name in prometheus["rule_files"]] == [True]

    (source,) = yaml.safe_load((DEPLOY / "grafana/provisioning/datasources/prometheus.yaml").read_text())["datasources"]
    host, port = source["url"].removeprefix("http://").split(":")
    assert port in ports_inside(services[host])
    (provider,) = yaml.safe_load((DEPLOY / "grafana/provisioning/dashboards/inferl.yaml").read_text())["providers"]
    folder = provider["options"]["path"]
    assert f"./grafana/dashboards:{folder}:ro" in services["grafana"]["volumes"]
    assert services["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"] == f"{folder}/inferl.json"

    (broker,) = re.findall(r"kafka://(\S+)/steps", " ".join(services["stream"]["command"]))
    listeners = {re.sub(r"^--[\w-]+=", "", word) for word in services["redpanda"]["command"] if "kafka-addr" in word}
    assert any(f"inside://{broker}" in listener for listener in listeners)


def test_the_stream_of_the_compose_file_is_a_command_of_the_shell() -> None:
    (script, run) = compose()["services"]["stream"]["command"]
    lines = script.replace("\\\n", " ").replace('"$$0"', run)
    evaluate, resume = (
        shlex.split(found) for found in re.findall(r"exec inferl (evaluate [^;\n]*|resume [^;\n]*)", lines)[::-1]
    )
    assert resume == ["resume", run, "--json"]
    words = [str(DEPLOY / "stream.toml") if word == "/etc/inferl/stream.toml" else word for word in evaluate]
    commands: Any = get_command(app)
    options = commands.commands[words[0]].make_context(words[0], words[1:]).params  # with what the file says
    assert options["file"] == ["kafka://redpanda:9092/steps"]
    assert options["follow"]
    assert options["checkpoint"] == Path(run)
    assert (options["state"], options["n_states"], options["target"]) == ("state", 12, ["0"])


def test_the_image_and_the_unit_start_the_same_command_and_write_to_the_same_folder() -> None:
    unit = (DEPLOY / "inferl.service").read_text()
    dockerfile = (DEPLOY / "Dockerfile").read_text()
    (start,) = re.findall(r"^ExecStart=(.*)$", unit, re.MULTILINE)
    assert start == "/opt/inferl/bin/inferl serve /etc/inferl/service.toml"
    assert 'ENTRYPOINT ["inferl", "serve", "--host", "0.0.0.0"]' in dockerfile
    assert 'CMD ["/etc/inferl/service.toml"]' in dockerfile
    assert "\nStateDirectory=inferl\n" in unit  # below /var/lib
    assert "\nVOLUME /var/lib/inferl\n" in dockerfile
    for file in (unit, dockerfile):
        assert "/etc/inferl/service.toml" in file


def test_the_image_copies_what_is_there_and_not_ignored() -> None:
    ignored = (DEPLOY / "Dockerfile.dockerignore").read_text().split()
    assert ignored[0] == "*"
    for line in re.findall(r"^COPY (?!--from)(.*)$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE):
        for name in line.split()[:-1]:
            assert (ROOT / name).exists()
            assert f"!{name}" in ignored


@pytest.mark.integrations
def test_the_compose_file_is_one_of_the_compose_specification() -> None:
    main = pytest.importorskip("check_jsonschema", reason="check-jsonschema is not installed").main
    command = ["--builtin-schema", "vendor.compose-spec", str(DEPLOY / "compose.yaml")]
    with pytest.raises(SystemExit) as done:
        main(command)
    assert done.value.code == 0


@pytest.mark.integrations
def test_a_compose_file_with_a_misspelt_key_is_none(tmp_path: Path) -> None:
    main = pytest.importorskip("check_jsonschema", reason="check-jsonschema is not installed").main
    wrong = tmp_path / "compose.yaml"
    wrong.write_text((DEPLOY / "compose.yaml").read_text().replace("read_only", "readonly"))
    with pytest.raises(SystemExit) as done:
        main(["--builtin-schema", "vendor.compose-spec", str(wrong)])
    assert done.value.code == 1
