"""The text format of Prometheus, and intervals as a file in it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from inferl.integrations.base import check_step, named
from inferl.interval import Interval

__all__ = ["HELP", "Metric", "PrometheusLogger", "exposition"]

HELP = {
    "estimate": "Estimate.",
    "lower": "Lower bound of the interval.",
    "upper": "Upper bound of the interval.",
    "standard_error": "Standard error of the estimate.",
    "transitions": "Transitions behind the interval.",
    "failed_checks": "Checks that failed; the interval should not be trusted if there are any.",
    "step": "Step at which the interval was logged.",
}


@dataclass(frozen=True)
class Metric:
    """A metric of one name, and its samples: text after the name, labels, number."""

    name: str
    help: str
    type: str = "gauge"
    samples: list[tuple[str, Mapping[str, str], float]] = field(default_factory=list)

    def add(self, number: float, suffix: str = "", /, **labels: str) -> None:
        """Add a sample."""
        self.samples.append((suffix, labels, number))


def exposition(metrics: Iterable[Metric]) -> str:
    r"""Return the text of metrics; those without samples are left out.

    >>> metric = Metric("inferl_estimate", "Estimate.")
    >>> metric.add(0.25, target='the "start"')
    >>> print(exposition([metric]), end="")
    # HELP inferl_estimate Estimate.
    # TYPE inferl_estimate gauge
    inferl_estimate{target="the \"start\""} 0.25
    """
    return "".join(
        f"# HELP {metric.name} {metric.help}\n# TYPE {metric.name} {metric.type}\n"
        + "".join(_line(metric.name + suffix, labels, number) for suffix, labels, number in metric.samples)
        for metric in metrics
        if metric.samples
    )


def _line(name: str, labels: Mapping[str, str], number: float) -> str:
    listed = ",".join(f'{label}="{_escaped(value)}"' for label, value in labels.items())
    return f"{name}{{{listed}}} {_number(float(number))}\n" if listed else f"{name} {_number(float(number))}\n"


class PrometheusLogger:
    """Writes the latest interval as gauges, for the textfile collector of node_exporter or any server of files.

    The file is replaced at once, so that no reader sees half of it. Its name should end with .prom.

    Parameters
    ----------
    path
        The file.
    name
        What the interval is about; the label `name`.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     logger = PrometheusLogger(f"{folder}/policy.prom")
    ...     logger.log(Interval(0.4, 0.3, 0.5, 0.95, "normal", 0.05, 100), step=100)
    ...     print(Path(f"{folder}/policy.prom").read_text().splitlines()[2])
    inferl_estimate{name="value",level="0.95",kind="normal"} 0.4
    """

    def __init__(self, path: str | os.PathLike[str], name: str = "value") -> None:
        self.path = Path(path)
        self.name = name

    def log(self, interval: Interval, step: int) -> None:
        """Replace the file."""
        step = check_step(step)
        metrics = {gauge: Metric(f"inferl_{gauge}", text) for gauge, text in HELP.items()}
        for name, one in named(self.name, interval):
            numbers = {gauge: getattr(one, gauge) for gauge in ("estimate", "lower", "upper", "standard_error")}
            numbers |= {"transitions": one.n, "failed_checks": len(one.notes), "step": step}
            for gauge, number in numbers.items():
                metrics[gauge].add(number, name=name, level=f"{one.level:g}", kind=one.kind)
        text = exposition(metrics.values())
        beside = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        beside.write_text(text, encoding="utf-8")
        os.replace(beside, self.path)


def _escaped(label: str) -> str:
    r"""Escape the value of a label.

    >>> print(_escaped('a "b"\n'))
    a \"b\"\n
    """
    return label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(number: float) -> str:
    """Format a number.

    >>> _number(float("inf")), _number(float("nan")), _number(0.25)
    ('+Inf', 'NaN', '0.25')
    """
    special = {"inf": "+Inf", "-inf": "-Inf", "nan": "NaN"}
    return special.get(repr(number), repr(number))
