"""Intervals in TensorBoard: a curve with a margin around it."""

from __future__ import annotations

import os
from typing import Any

from inferl.errors import MissingExtraError, SettingError
from inferl.integrations.base import check_step, metrics, named
from inferl.interval import Interval

__all__ = ["TensorBoardLogger"]


class TensorBoardLogger:
    """Writes estimate, lower and upper bound as scalars, and a chart in which the bounds are the margin.

    The margins are on the tab *Custom Scalars*.

    Parameters
    ----------
    writer
        A `SummaryWriter`, of torch or of tensorboardX; or the folder of a new one.
    name
        Prefix of the tags: ``name/estimate``, ``name/lower``, ``name/upper``.

    Examples
    --------
    A writer is whatever has `add_scalar` and `add_custom_scalars`:

    >>> class Writer:
    ...     def add_scalar(self, tag, number, step):
    ...         print(step, tag, number)
    ...
    ...     def add_custom_scalars(self, layout):
    ...         print(layout)
    >>> TensorBoardLogger(Writer(), "return").log(Interval(437.0, 408.0, 466.0, 0.95, "anytime", 14.0, 52_440), 7)
    {'inferl': {'return': ['Margin', ['return/estimate', 'return/lower', 'return/upper']]}}
    7 return/estimate 437.0
    7 return/lower 408.0
    7 return/upper 466.0
    """

    def __init__(self, writer: Any, name: str = "value") -> None:
        if isinstance(writer, str | os.PathLike):
            try:
                from tensorboardX import SummaryWriter
            except ImportError:
                raise MissingExtraError("tensorboardX", "tensorboard") from None
            writer = SummaryWriter(os.fspath(writer))
        if not (hasattr(writer, "add_scalar") and hasattr(writer, "add_custom_scalars")):
            raise SettingError(f"a {type(writer).__name__} is no SummaryWriter; give one, or a folder")
        self.writer = writer
        self.name = name
        self._charts: list[str] = []

    def log(self, interval: Interval, step: int) -> None:
        """Write the scalars; before the first ones, the layout of the charts."""
        step = check_step(step)
        charts = [name for name, _ in named(self.name, interval)]
        if charts != self._charts:
            parts = ("estimate", "lower", "upper")
            margins = {chart: ["Margin", [f"{chart}/{part}" for part in parts]] for chart in charts}
            self.writer.add_custom_scalars({"inferl": margins})
            self._charts = charts
        for tag, number in metrics(self.name, interval).items():
            self.writer.add_scalar(tag, number, step)
        if hasattr(self.writer, "flush"):
            self.writer.flush()
