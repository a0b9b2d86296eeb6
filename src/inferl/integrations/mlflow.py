"""Intervals in MLflow."""

from __future__ import annotations

from typing import Any

from inferl.errors import MissingExtraError
from inferl.integrations.base import check_step, metrics
from inferl.interval import Interval

__all__ = ["MLflowLogger"]


class MLflowLogger:
    """Writes estimate, lower and upper bound as metrics of a run.

    Parameters
    ----------
    run_id
        Identifier of a run, as in ``mlflow.start_run().info.run_id``; None: the run that is active, or a new one.
    name
        Prefix of the metrics: ``name/estimate``, ``name/lower``, ``name/upper``.

    Examples
    --------
    >>> import mlflow  # doctest: +SKIP
    >>> with mlflow.start_run():  # doctest: +SKIP
    ...     MLflowLogger(name="return").log(evaluator.interval(), step=evaluator.n)
    """

    def __init__(self, run_id: str | None = None, name: str = "value") -> None:
        try:
            import mlflow
        except ImportError:
            raise MissingExtraError("mlflow", "mlflow") from None
        self._mlflow: Any = mlflow
        self.run_id = run_id
        self.name = name

    def log(self, interval: Interval, step: int) -> None:
        """Write the metrics."""
        step = check_step(step)
        found = metrics(self.name, interval)
        if found:
            self._mlflow.log_metrics(found, step=step, run_id=self.run_id)
