"""Intervals as a file in the text format of Prometheus."""

from __future__ import annotations

import os
from pathlib import Path

from inferl.integrations.base import check_step, named
from inferl.interval import Interval

__all__ = ["PrometheusLogger"]

HELP = {
    "estimate": "Estimate.",
    "lower": "Lower bound of the interval.",
    "upper": "Upper bound of the interval.",
    "standard_error": "Standard error of the estimate.",
    "transitions": "Transitions behind the interval.",
    "failed_checks": "Checks that failed; the interval should not be trusted if there are any.",
    "step": "Step at which the interval was logged.",
}


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
        samples: dict[str, list[str]] = {gauge: [] for gauge in HELP}
        for name, one in named(self.name, interval):
            labels = f'name="{_escaped(name)}",level="{one.level:g}",kind="{_escaped(one.kind)}"'
            numbers = {gauge: getattr(one, gauge) for gauge in ("estimate", "lower", "upper", "standard_error")}
            numbers |= {"transitions": one.n, "failed_checks": len(one.notes), "step": step}
            for gauge, number in numbers.items():
                samples[gauge].append(f"inferl_{gauge}{{{labels}}} {_number(float(number))}\n")
        text = "".join(
            f"# HELP inferl_{gauge} {HELP[gauge]}\n# TYPE inferl_{gauge} gauge\n{''.join(lines)}"
            for gauge, lines in samples.items()
        )
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
