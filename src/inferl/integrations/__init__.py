"""Integrations: intervals where people look, beside the numbers of their training.

A logger has one method, `log(interval, step)`. Whoever can write a curve of numbers can write one of intervals, and any
object with this method will do where inferl asks for a logger.

>>> from tempfile import TemporaryDirectory
>>> from inferl import Interval
>>> from pathlib import Path
>>> with TemporaryDirectory() as folder:
...     logger = CSVLogger(Path(folder) / "evaluation.csv", name="return")
...     logger.log(Interval(437.0, 408.0, 466.0, 0.95, "anytime", 14.0, 52_440), step=10_000)
...     print((Path(folder) / "evaluation.csv").read_text())
step,name,estimate,lower,upper,level,kind,standard_error,n,notes
10000,return,437.0,408.0,466.0,0.95,anytime,14.0,52440,
"""

from inferl.integrations import hub
from inferl.integrations.base import Logger
from inferl.integrations.csv import CSVLogger
from inferl.integrations.mlflow import MLflowLogger
from inferl.integrations.prometheus import PrometheusLogger
from inferl.integrations.tensorboard import TensorBoardLogger
from inferl.integrations.wandb import WandbLogger

__all__ = ["CSVLogger", "Logger", "MLflowLogger", "PrometheusLogger", "TensorBoardLogger", "WandbLogger", "hub"]
