"""The loggers with the libraries they are made for, offline."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from inferl import Interval
from inferl.errors import SettingError
from inferl.integrations import MLflowLogger, TensorBoardLogger, WandbLogger
from inferl.integrations.hub import model_index, save

pytestmark = pytest.mark.integrations

READINGS = [(step, Interval(400.0 + step, 300.0, 500.0, 0.95, "anytime", 14.0, 10 * step)) for step in (1, 2, 3)]
PARTS = ("estimate", "lower", "upper")


def test_tensorboard_reads_scalars_and_the_margin_chart(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.plugins.custom_scalar import layout_pb2

    logger = TensorBoardLogger(tmp_path, "return")
    for step, interval in READINGS:
        logger.log(interval, step)
    logger.writer.close()
    events = EventAccumulator(str(tmp_path)).Reload()
    assert [event.step for event in events.Scalars("return/estimate")] == [1, 2, 3]
    assert [event.value for event in events.Scalars("return/upper")] == [500.0] * 3
    (summary,) = events.Tensors("custom_scalars__config__")
    layout = layout_pb2.Layout.FromString(summary.tensor_proto.string_val[0])
    (chart,) = layout.category[0].chart
    assert chart.title == "return"
    (series,) = chart.margin.series
    assert [series.value, series.lower, series.upper] == [f"return/{part}" for part in PARTS]


def test_a_writer_of_torch_is_as_good(tmp_path: Path) -> None:
    tensorboard = pytest.importorskip("torch.utils.tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    with tensorboard.SummaryWriter(str(tmp_path)) as writer:
        TensorBoardLogger(writer).log(READINGS[0][1], 1)
    assert EventAccumulator(str(tmp_path)).Reload().Tags()["scalars"] == [f"value/{part}" for part in PARTS]


@pytest.fixture
def mlflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """MLflow with a store in a folder; it prefers a database, which needs more libraries."""
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    import mlflow

    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri((tmp_path / "store").as_uri())
    yield mlflow
    mlflow.set_tracking_uri(before)


def test_mlflow_keeps_the_metrics_in_a_local_store(mlflow: Any) -> None:
    with mlflow.start_run() as run:
        logger = MLflowLogger(name="return")
        for step, interval in READINGS:
            logger.log(interval, step)
    MLflowLogger(run.info.run_id, name="later").log(READINGS[0][1], 9)
    client = mlflow.MlflowClient()
    history = client.get_metric_history(run.info.run_id, "return/estimate")
    assert [(metric.step, metric.value) for metric in history] == [(1, 401.0), (2, 402.0), (3, 403.0)]
    assert set(client.get_run(run.info.run_id).data.metrics) == {
        f"{name}/{part}" for name in ("return", "later") for part in PARTS
    }


def test_wandb_keeps_the_metrics_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import wandb

    monkeypatch.setenv("WANDB_SILENT", "true")
    with pytest.raises(SettingError, match="no active run"):
        WandbLogger()
    with wandb.init(mode="offline", dir=tmp_path, project="inferl") as run:
        logger = WandbLogger(name="return")
        for step, interval in READINGS:
            logger.log(interval, step)
        summary = dict(run.summary)
    assert {name: summary[name] for name in ("return/estimate", "return/step")} == {
        "return/estimate": 403.0,
        "return/step": 3,
    }
    wandb.teardown()  # its other process has then written all
    (file,) = tmp_path.rglob("*.wandb")
    assert b"return/estimate" in file.read_bytes()


def test_the_hub_reads_the_card(tmp_path: Path) -> None:
    from huggingface_hub import ModelCard, ModelCardData

    interval = READINGS[0][1]
    metadata = model_index(interval, "PPO", "CartPole-v1", episodes=120)
    data = ModelCardData(**json.loads(json.dumps(metadata)))
    assert data.model_name == "PPO"
    (result,) = data.eval_results
    assert (result.metric_type, result.dataset_name) == ("mean_reward", "CartPole-v1")
    assert result.metric_value == "401 [300, 500], 95 %, 120 episodes"
    path = tmp_path / "README.md"
    path.write_text("---\nlicense: mit\ntags:\n- mine\n---\n# My model\n")
    save(path, metadata)
    save(path, model_index(interval, "PPO", "Acrobot-v1", episodes=80))
    save(path, model_index(READINGS[2][1], "PPO", "CartPole-v1", episodes=240))
    card = ModelCard.load(path)
    assert card.text.strip() == "# My model"
    assert card.data.license == "mit"
    assert card.data.tags == ["mine", "reinforcement-learning", "CartPole-v1", "Acrobot-v1"]
    assert [(one.dataset_name, one.metric_value) for one in card.data.eval_results] == [
        ("Acrobot-v1", "401 [300, 500], 95 %, 80 episodes"),
        ("CartPole-v1", "403 [300, 500], 95 %, 240 episodes"),
    ]


def test_a_card_is_written_where_there_is_none(tmp_path: Path) -> None:
    from huggingface_hub import metadata_load

    metadata: dict[str, Any] = model_index(READINGS[0][1], "PPO", "CartPole-v1", episodes=120)
    save(tmp_path / "README.md", metadata)
    assert metadata_load(tmp_path / "README.md") == metadata


@pytest.mark.usefixtures("mlflow")
def test_the_snippets_of_the_guide_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    guide = Path(__file__).parents[2] / "docs" / "guides" / "looking.md"
    if not guide.exists():
        pytest.skip("the documentation is not part of an installed package")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WANDB_SILENT", "true")

    class Fixed:
        def interval(self, kind: str) -> Interval:
            return READINGS[0][1]

    blocks = re.findall(r"```python\n(.*?)```", guide.read_text("utf-8"), re.DOTALL)
    plain = [block for block in blocks if ">>>" not in block]
    assert len(plain) == 3
    for block in plain:
        exec(block, {"evaluator": Fixed(), "training_steps": 1000})
    assert {path.name for path in tmp_path.iterdir()} >= {"runs", "wandb", "store"}
