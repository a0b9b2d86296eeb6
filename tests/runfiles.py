"""Looking into run files, for tests."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np

from inferl.checkpoint import read_checkpoint
from inferl.runs import Reading
from inferl.sources.logs.decoding import LogRows
from inferl.sources.logs.labelling import Labelling
from inferl.sources.logs.pairing import Pairing
from inferl.sources.logs.table import Progress
from inferl.sources.starts import Starts

__all__ = ["evaluator_bits"]


def evaluator_bits(path: Path) -> dict[str, tuple[str, tuple[int, ...], bytes]]:
    """All that the evaluator of a run file holds, array by array; the header, with all plain values, is one."""
    content: Any = read_checkpoint(path, (Reading, Progress, Pairing, Labelling, LogRows, Starts))
    with np.load(io.BytesIO(content["evaluator"].tobytes())) as archive:
        return {name: (str(a.dtype), a.shape, a.tobytes()) for name, a in archive.items()}
