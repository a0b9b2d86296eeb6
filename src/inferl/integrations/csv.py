"""Intervals as rows of a CSV file."""

from __future__ import annotations

import csv
import os
from pathlib import Path

from inferl.errors import SettingError
from inferl.integrations.base import check_step, named
from inferl.interval import Interval

__all__ = ["CSVLogger"]

COLUMNS = ("step", "name", "estimate", "lower", "upper", "level", "kind", "standard_error", "n", "notes")


class CSVLogger:
    """Appends a row for each interval to a CSV file; the file is complete after every call.

    Parameters
    ----------
    path
        The file; rows are appended to one that is there.
    name
        What the interval is about; the column `name`.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     logger = CSVLogger(f"{folder}/log.csv")
    ...     logger.log(Interval(0.4, 0.3, 0.5, 0.95, "normal", 0.05, 100), step=100)
    ...     print(Path(f"{folder}/log.csv").read_text().splitlines()[1])
    100,value,0.4,0.3,0.5,0.95,normal,0.05,100,
    """

    def __init__(self, path: str | os.PathLike[str], name: str = "value") -> None:
        self.path = Path(path)
        self.name = name
        header = ",".join(COLUMNS)
        if self.path.exists() and self.path.stat().st_size:
            with self.path.open(encoding="utf-8", errors="replace") as file:
                found = file.readline(1000).strip()
            if found != header:
                raise SettingError(f"{self.path} has other columns than a log of intervals; give another path")
            with self.path.open("rb+") as file:
                file.seek(-1, os.SEEK_END)
                if file.read() != b"\n":  # the process before was stopped within a row
                    file.write(b"\n")
        else:
            self.path.write_text(f"{header}\n", encoding="utf-8")

    def log(self, interval: Interval, step: int) -> None:
        """Append a row for each target."""
        step = check_step(step)
        rows = []
        for name, one in named(self.name, interval):
            numbers = (float(one.estimate), float(one.lower), float(one.upper))
            error = float(one.standard_error)
            rows.append((step, name, *numbers, one.level, one.kind, error, one.n, " | ".join(one.notes)))
        with self.path.open("a", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(rows)
