"""Looking into run files, for tests."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from inferl.runs import Run

__all__ = ["evaluator_bits"]


def evaluator_bits(path: Path) -> dict[str, tuple[str, tuple[int, ...], bytes]]:
    """All that the evaluator of a run file holds, array by array; the header, with all plain values, is one."""
    with tempfile.TemporaryDirectory() as folder:
        Run.load(path).evaluator.save(Path(folder) / "evaluator")
        with np.load(Path(folder) / "evaluator") as archive:
            return {name: (str(a.dtype), a.shape, a.tobytes()) for name, a in archive.items()}
