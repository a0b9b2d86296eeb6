"""Intervals in Weights & Biases."""

from __future__ import annotations

from typing import Any

from inferl.errors import MissingExtraError, SettingError
from inferl.integrations.base import check_step, metrics
from inferl.interval import Interval

__all__ = ["WandbLogger"]


class WandbLogger:
    """Writes estimate, lower and upper bound as metrics of a run.

    Each comes with the step of the interval, as the metric ``name/step``, and is drawn over it: the step of W&B itself
    never goes back, and belongs to the training.

    Parameters
    ----------
    run
        What `wandb.init` returned; None: the run that is active.
    name
        Prefix of the metrics: ``name/estimate``, ``name/lower``, ``name/upper``.

    Examples
    --------
    >>> class Run:
    ...     def log(self, metrics):
    ...         print(metrics)
    ...
    ...     def define_metric(self, name, step_metric=None):
    ...         pass
    >>> WandbLogger(Run(), "return").log(Interval(437.0, 408.0, 466.0, 0.95, "anytime", 14.0, 52_440), step=7)
    {'return/estimate': 437.0, 'return/lower': 408.0, 'return/upper': 466.0, 'return/step': 7}
    """

    def __init__(self, run: Any = None, name: str = "value") -> None:
        if run is None:
            try:
                import wandb
            except ImportError:
                raise MissingExtraError("wandb", "wandb") from None
            run = wandb.run
        if run is None:
            raise SettingError("there is no active run of W&B; call wandb.init() first, or give a run")
        self.run = run
        self.name = name
        run.define_metric(f"{name}/*", step_metric=f"{name}/step")

    def log(self, interval: Interval, step: int) -> None:
        """Write the metrics."""
        step = check_step(step)
        found = metrics(self.name, interval)
        if found:
            self.run.log({**found, f"{self.name}/step": step})
