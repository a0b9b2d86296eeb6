"""Kernels: the arithmetic of Algorithm 1 behind one signature, `fold`; which one runs is decided here.

The native kernel is compiled when the package is installed; where that failed, the reference kernel does the same work,
slowly. Environment variables: ``INFERL_KERNEL=reference`` selects the reference, ``INFERL_ISA=avx512|avx2|generic``
forces an instruction set, ``INFERL_REQUIRE_NATIVE=1`` makes a missing native kernel an error.
"""

from __future__ import annotations

import os
import warnings
from types import ModuleType

from inferl.engine import reference
from inferl.engine.backend import (
    AddEntries,
    DecayingSum,
    Draws,
    Fold,
    Foldable,
    FollowEpisodes,
    PairUp,
    SumEpisodes,
    Walk,
)
from inferl.errors import SettingError

LARGEST = 1e100  # product of ratios; 0 times infinity would be no number

__all__ = [
    "LARGEST",
    "Draws",
    "Fold",
    "Foldable",
    "add_entries",
    "decaying_sum",
    "fold",
    "follow_episodes",
    "name",
    "pair_up",
    "sum_episodes",
    "walk",
]


def _chosen() -> tuple[str, ModuleType]:
    required = os.environ.get("INFERL_REQUIRE_NATIVE", "0") not in ("", "0")
    wanted = os.environ.get("INFERL_KERNEL", "native")
    if wanted not in ("native", "reference"):
        raise SettingError(f"INFERL_KERNEL is {wanted!r}; choose 'native' or 'reference'")
    if wanted == "reference":
        return "reference", reference
    try:
        from inferl.engine import native
    except ImportError as error:
        message = f"the compiled kernel is missing ({error}); install inferl again on a machine with a C++ compiler"
        if required:
            raise SettingError(message) from error
        warnings.warn(f"{message}. Until then a slow one does the same work", RuntimeWarning, stacklevel=2)
        return "reference", reference
    return f"native {native.instruction_set()}", native


name, _kernel = _chosen()
fold: Fold = _kernel.fold
walk: Walk = _kernel.walk
pair_up: PairUp = _kernel.pair_up
add_entries: AddEntries = _kernel.add_entries
decaying_sum: DecayingSum = _kernel.decaying_sum
sum_episodes: SumEpisodes = _kernel.sum_episodes
follow_episodes: FollowEpisodes = _kernel.follow_episodes
