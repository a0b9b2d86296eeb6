"""CSV and Prometheus: files that other programs read."""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from inferl import Interval
from inferl.errors import MissingExtraError, SettingError
from inferl.integrations import (
    CSVLogger,
    Logger,
    MLflowLogger,
    PrometheusLogger,
    TensorBoardLogger,
    WandbLogger,
    hub,
)
from inferl.integrations.base import metrics

ONE = Interval(437.0, 408.0, 466.0, 0.95, "anytime", 14.0, 52_440)
TWO = Interval(np.array([1.0, 2.0]), np.zeros(2), np.full(2, 3.0), 0.9, "normal", np.ones(2), 100, ('rare, "x"\ny',))
UNKNOWN = Interval(0.5, -np.inf, np.inf, 0.95, "normal", np.inf, 1)


def test_loggers_keep_the_protocol(tmp_path: Path) -> None:
    assert isinstance(CSVLogger(tmp_path / "a.csv"), Logger)
    assert isinstance(PrometheusLogger(tmp_path / "a.prom"), Logger)
    assert not isinstance(tmp_path, Logger)


def test_csv_is_appended_to_and_read_back(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    CSVLogger(path, "return").log(ONE, 100)
    CSVLogger(path, "return").log(TWO, 200)  # a program that was started again
    CSVLogger(path).log(UNKNOWN, 300)
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["step"], row["name"]) for row in rows] == [
        ("100", "return"),
        ("200", "return/0"),
        ("200", "return/1"),
        ("300", "value"),
    ]
    assert float(rows[0]["upper"]) == 466.0
    assert rows[1]["notes"] == TWO.notes[0]
    assert float(rows[3]["lower"]) == -np.inf


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(SettingError, match="other columns"):
        CSVLogger(path)
    assert path.read_text() == "a,b\n1,2\n"


@pytest.mark.parametrize("step", [-1, 1.5, "1", None])
def test_a_step_is_a_number_of_steps(tmp_path: Path, step: object) -> None:
    with pytest.raises(SettingError, match="step is"):
        CSVLogger(tmp_path / "a.csv").log(ONE, step)  # type: ignore[arg-type]


def test_a_row_that_was_cut_off_does_not_spoil_the_next(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    CSVLogger(path).log(ONE, 1)
    path.write_text(path.read_text()[:-9])
    CSVLogger(path).log(ONE, 2)
    assert path.read_text().splitlines()[-1].startswith("2,value,437.0")


def test_a_result_is_no_interval(tmp_path: Path) -> None:
    for logger in (CSVLogger(tmp_path / "a.csv"), PrometheusLogger(tmp_path / "a.prom")):
        with pytest.raises(SettingError, match=r"a dict is no interval; give its interval, as result.interval"):
            logger.log({}, 1)  # type: ignore[arg-type]


def test_prometheus_reads_the_file(tmp_path: Path) -> None:
    parser = pytest.importorskip("prometheus_client.parser")
    path = tmp_path / "policy.prom"
    logger = PrometheusLogger(path, 'new "policy"\\')
    logger.log(ONE, 1)
    logger.log(TWO, 2)
    samples = [
        sample for family in parser.text_string_to_metric_families(path.read_text()) for sample in family.samples
    ]
    assert len(samples) == 14  # the latest interval alone
    found = {(sample.name, sample.labels["name"]): sample.value for sample in samples}
    assert found["inferl_estimate", 'new "policy"\\/1'] == 2.0
    assert found["inferl_failed_checks", 'new "policy"\\/0'] == 1.0
    assert found["inferl_step", 'new "policy"\\/0'] == 2.0
    assert {sample.labels["level"] for sample in samples} == {"0.9"}
    assert [file.name for file in tmp_path.iterdir()] == ["policy.prom"]


def test_prometheus_has_numbers_that_are_not_finite(tmp_path: Path) -> None:
    PrometheusLogger(tmp_path / "a.prom").log(UNKNOWN, 1)
    text = (tmp_path / "a.prom").read_text()
    assert re.search(r"inferl_lower\{.*\} -Inf\n", text)
    assert re.search(r"inferl_upper\{.*\} \+Inf\n", text)


def test_charts_get_finite_numbers_only() -> None:
    assert metrics("value", UNKNOWN) == {}
    assert list(metrics("value", TWO)) == [
        f"value/{i}/{part}" for i in range(2) for part in ("estimate", "lower", "upper")
    ]


def test_a_margin_chart_is_laid_out_once() -> None:
    class Writer:
        layouts: list[object] = []  # noqa: RUF012
        scalars: list[tuple[str, float, int]] = []  # noqa: RUF012

        def add_scalar(self, tag: str, number: float, step: int) -> None:
            self.scalars.append((tag, number, step))

        def add_custom_scalars(self, layout: object) -> None:
            self.layouts.append(layout)

    writer = Writer()
    logger = TensorBoardLogger(writer, "return")
    logger.log(ONE, 1)
    logger.log(ONE, 2)
    margin = ["Margin", ["return/estimate", "return/lower", "return/upper"]]
    assert writer.layouts == [{"inferl": {"return": margin}}]
    assert writer.scalars[-1] == ("return/upper", 466.0, 2)


def test_what_cannot_write_is_refused() -> None:
    with pytest.raises(SettingError, match="no SummaryWriter"):
        TensorBoardLogger(3)


def test_wandb_draws_over_the_step_of_the_interval() -> None:
    class Run:
        logged: list[dict[str, float]] = []  # noqa: RUF012
        axes: dict[str, str] = {}  # noqa: RUF012

        def define_metric(self, name: str, step_metric: str) -> None:
            self.axes[name] = step_metric

        def log(self, metrics: dict[str, float]) -> None:
            self.logged.append(metrics)

    run = Run()
    logger = WandbLogger(run, "return")
    logger.log(ONE, 7)
    logger.log(UNKNOWN, 8)
    assert run.axes == {"return/*": "return/step"}
    assert run.logged == [metrics("return", ONE) | {"return/step": 7}]


@pytest.mark.parametrize(
    ("library", "extra", "use"),
    [
        ("tensorboardX", "tensorboard", lambda folder: TensorBoardLogger(folder)),
        ("wandb", "wandb", lambda folder: WandbLogger()),
        ("mlflow", "mlflow", lambda folder: MLflowLogger()),
        ("huggingface_hub", "hub", lambda folder: hub.save(folder / "README.md", {})),
    ],
)
def test_a_missing_library_is_named_with_its_extra(
    library: str, extra: str, use: Callable[[Path], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingExtraError, match=rf"inferl\[{extra}\]"):
        use(tmp_path)
